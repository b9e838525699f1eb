"""Multiply-accumulates of a program for given inputs, counted from the shapes that really occur."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..executor.plan import PlanRequest, compile_block
from ..executor.runner import makes_lod
from ..executor.values import array_of
from ..ir.desc import OpDesc, ProgramDesc

__all__ = ["count_macs"]

Shapes = dict[str, tuple[int, ...]]


def count_macs(
    program: ProgramDesc, feeds: Sequence[str], fetches: Sequence[str], inputs: Sequence[Any], params: dict[str, Any]
) -> dict[str, int]:
    """Op type -> multiply-accumulates in block 0; the program runs once, as saved."""
    names = {name for op in program.global_block.ops for name in (*op.input_names(), *op.output_names())}
    request = PlanRequest(tuple(feeds), tuple(fetches), frozenset(names), makes_lod(program))
    plan = compile_block(program, 0, request, params)
    frame = plan.frame(inputs)
    plan.execute(frame)
    shapes: Shapes = {}
    for name, slot in plan.slots.items():
        value = frame[slot]
        if value is not None and not isinstance(value, list):
            shapes[name] = tuple(np.shape(array_of(value)))
    totals: dict[str, int] = {}
    for op in program.global_block.ops:
        rule = _RULES.get(op.type)
        if rule is not None:
            totals[op.type] = totals.get(op.type, 0) + rule(op, shapes)
    return totals


def _shape(op: OpDesc, slot: str, shapes: Shapes) -> tuple[int, ...]:
    names = op.inputs.get(slot) or op.outputs.get(slot) or []
    return shapes.get(names[0], ()) if names else ()


def _size(shape: Sequence[int]) -> int:
    return int(np.prod(shape, dtype=np.int64)) if shape else 0


def _conv(op: OpDesc, shapes: Shapes) -> int:
    """Every output element sums over one filter."""
    return _size(_shape(op, "Output", shapes)) * _size(_shape(op, "Filter", shapes)[1:])


def _conv_transpose(op: OpDesc, shapes: Shapes) -> int:
    """Every input element spreads over one filter."""
    return _size(_shape(op, "Input", shapes)) * _size(_shape(op, "Filter", shapes)[1:])


def _matmul(op: OpDesc, shapes: Shapes) -> int:
    x = _shape(op, "X", shapes)
    transposed = op.attrs.get("trans_x") or op.attrs.get("transpose_X")
    inner = x[-2] if transposed and len(x) > 1 else (x[-1] if x else 0)
    return max(_size(_shape(op, "Out", shapes)), 1) * inner


def _mul(op: OpDesc, shapes: Shapes) -> int:
    columns = op.attrs.get("x_num_col_dims", 1)
    return _size(_shape(op, "Out", shapes)) * _size(_shape(op, "X", shapes)[columns:])


def _fc(op: OpDesc, shapes: Shapes) -> int:
    weights = _shape(op, "W", shapes)
    return _size(_shape(op, "Out", shapes)) * (weights[0] if weights else 0)


def _recurrent(op: OpDesc, shapes: Shapes) -> int:
    """Every step multiplies with every weight matrix once per row."""
    steps = _size(_shape(op, "Input", shapes)[:2])
    return steps * sum(_size(shapes.get(name, ())) for name in op.inputs.get("WeightList") or [])


_RULES: dict[str, Callable[[OpDesc, Shapes], int]] = {
    **dict.fromkeys(
        ("conv2d", "depthwise_conv2d", "conv3d", "fused_conv2d", "deformable_conv", "deformable_conv_v1"), _conv
    ),
    **dict.fromkeys(("conv2d_transpose", "depthwise_conv2d_transpose", "conv3d_transpose"), _conv_transpose),
    **dict.fromkeys(("matmul", "matmul_v2", "bmm", "mv"), _matmul),
    "mul": _mul,
    "fc": _fc,
    "rnn": _recurrent,
}
