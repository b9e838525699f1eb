"""Branches and loops: regions to blocks.

``pd_op.if`` becomes a ``conditional_block`` on the condition and one on its negation, each assigning what the
region yields to outer variables, and a ``select_input`` for each result. ``pd_op.while`` becomes a ``while`` over
variables of the enclosing block: they get the initial values, stand for the block's arguments inside, take what
the block yields at the end of a turn, and are the results afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from ...errors import ProgramError
from ...proto.pir_desc import PirBlock, PirOp, PirTensorType
from ..desc import AttrType, BlockDesc, OpDesc, VarDesc, VarKind
from ..dtypes import DType
from .translate import Translator

__all__ = ["CONTROL"]

_YIELD: Final = "cf.yield"


def _yielded(block: PirBlock) -> list[int]:
    if not block.ops or block.ops[-1].name != _YIELD:
        raise ProgramError(f"{block.name} does not end with a yield")
    return block.ops[-1].operands


def _body(op: PirOp, index: int) -> PirBlock:
    if index >= len(op.regions) or len(op.regions[index].blocks) != 1:
        raise ProgramError(f"region {index} does not have one block")
    return op.regions[index].blocks[0]


def _enter(to: Translator) -> BlockDesc:
    """A new block inside the current one, which becomes the current one; the one before."""
    outer = to.block
    to.block = BlockDesc(len(to.program.blocks), outer.idx)
    to.program.blocks.append(to.block)
    return outer


def _holder(to: Translator, stem: str) -> str:
    """The variable that keeps the scopes of a block's runs."""
    name = to.reserve(stem)
    to.block.vars[name] = VarDesc(name, VarKind.STEP_SCOPES)
    return name


def _outer_names(block: BlockDesc) -> tuple[list[str], list[str]]:
    """The variables of enclosing blocks that a block reads, and those that it writes."""
    read: dict[str, None] = {}
    written: dict[str, None] = {}
    for op in block.ops:
        read.update(dict.fromkeys(name for name in op.input_names() if name not in block.vars))
        for attr, kind in op.attr_types.items():
            if kind in (AttrType.VAR, AttrType.VARS):
                named = [op.attrs[attr]] if kind == AttrType.VAR else op.attrs[attr]
                read.update(dict.fromkeys(name for name in named if name not in block.vars))
        written.update(dict.fromkeys(name for name in op.output_names() if name not in block.vars))
    return list(read), list(written)


def _if(to: Translator, op: PirOp) -> None:
    condition = to.name_of(op.operands[0])
    stem = f"if_{op.results[0].id if op.results else len(to.program.blocks)}"
    results = [[to.fresh(f"{stem}.{side}", value.type) for value in op.results] for side in ("true", "false")]
    negated = to.fresh(f"{stem}.not", to.types[op.operands[0]])
    _branch(to, condition, _body(op, 0), results[0], stem)
    to.append("logical_not", {"X": [condition]}, {"Out": [negated]})
    _branch(to, negated, _body(op, 1), results[1], stem)
    if not op.results:
        return
    mask = to.fresh(f"{stem}.mask", to.types[op.operands[0]])
    to.block.vars[mask].dtype = DType.INT32
    to.append("cast", {"X": [condition]}, {"Out": [mask]}, in_dtype=int(DType.BOOL), out_dtype=int(DType.INT32))
    for index in range(len(op.results)):
        choices = [results[1][index], results[0][index]]
        to.append("select_input", {"X": choices, "Mask": [mask]}, {"Out": [to.name_result(op, index, "select")]})


def _branch(to: Translator, condition: str, body: PirBlock, results: Sequence[str], stem: str) -> None:
    yielded = _yielded(body)
    if len(yielded) != len(results):
        raise ProgramError(f"{body.name} yields {len(yielded)} values, expected {len(results)}")
    outer = _enter(to)
    to.translate_block(body)
    for name, value in zip(results, yielded, strict=True):
        to.append("assign", {"X": [to.name_of(value)]}, {"Out": [name]})
    inner, to.block = to.block, outer
    read, written = _outer_names(inner)
    made = OpDesc("conditional_block", {"Cond": [condition], "Input": read}, {"Out": written})
    made.outputs["Scope"] = [_holder(to, f"{stem}.scope")]
    made.set_attr("sub_block", inner.idx, AttrType.BLOCK)
    made.set_attr("is_scalar_condition", True, AttrType.BOOLEAN)
    to.block.ops.append(made)


def _while(to: Translator, op: PirOp) -> None:
    body = _body(op, 0)
    yielded, initial = _yielded(body), op.operands[1:]
    if not len(yielded) - 1 == len(initial) == len(body.args) == len(op.results):
        raise ProgramError(
            f"a loop over {len(initial)} values has {len(body.args)} arguments, {len(op.results)} results and "
            f"yields {len(yielded)} values"
        )
    stem = f"while_{body.args[0].id if body.args else len(to.program.blocks)}".replace("-", "")
    condition = to.fresh(f"{stem}.condition", to.types[op.operands[0]])
    to.append("assign", {"X": [to.name_of(op.operands[0])]}, {"Out": [condition]})
    carried = []
    for index, (argument, value) in enumerate(zip(body.args, initial, strict=True)):
        name = to.fresh(f"{stem}.value_{index}", op.results[index].type)
        to.append("assign", {"X": [to.name_of(value)]}, {"Out": [name]})
        to.names[argument.id] = name
        to.types[argument.id] = argument.type
        to.alias(op, index, name)
        carried.append(name)
    outer = _enter(to)
    to.translate_block(body)
    _carry_on(to, yielded, [condition, *carried])
    inner, to.block = to.block, outer
    read, written = _outer_names(inner)
    made = OpDesc("while", {"X": [name for name in dict.fromkeys([*carried, *read]) if name != condition]})
    made.inputs["Condition"] = [condition]
    made.outputs = {"Out": list(dict.fromkeys([*written, condition])), "StepScopes": [_holder(to, f"{stem}.scopes")]}
    made.set_attr("sub_block", inner.idx, AttrType.BLOCK)
    made.set_attr("is_test", True, AttrType.BOOLEAN)
    to.block.ops.append(made)


def _carry_on(to: Translator, yielded: Sequence[int], targets: Sequence[str]) -> None:
    """Give the carried variables the values of the next turn, all of them as if at once."""
    sources = [to.name_of(value) for value in yielded]
    pending = [(source, target) for source, target in zip(sources, targets, strict=True) if source != target]
    overwritten = {target for _, target in pending}
    saved = {}
    for source, _ in pending:
        if source in overwritten and source not in saved:
            var = to.program.find_var(source, to.block)
            saved[source] = to.fresh(f"{source}.before", PirTensorType("0.t_dtensor", "0.t_f32", ()))
            if var is not None:
                copy = to.block.vars[saved[source]]
                copy.kind, copy.dtype, copy.shape = var.kind, var.dtype, var.shape
            to.append("assign", {"X": [source]}, {"Out": [saved[source]]})
    for source, target in pending:
        to.append("assign", {"X": [saved.get(source, source)]}, {"Out": [target]})


def _nothing(to: Translator, op: PirOp) -> None:
    """A yield is read by the operation whose region it ends."""


CONTROL: Final[dict[str, Callable[[Translator, PirOp], None]]] = {
    "pd_op.if": _if,
    "pd_op.while": _while,
    _YIELD: _nothing,
}
"""Operation -> how it is translated."""
