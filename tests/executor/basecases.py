"""One small base case (or a few) for every operator, read from ``tests/data/sweep.npz``, and ways to run them.

A case is a one-op program with inputs. The sweeps move its attributes, dtypes and memory layouts and compare with
what the case gave before; no expected number is stored.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import oarlock.executor.kernels  # noqa: F401 - tells the registry how to find a type
from oarlock.executor.plan import PlanRequest, compile_block
from oarlock.executor.random import set_seed
from oarlock.executor.values import LoDTensor, SelectedRows, TensorArray
from oarlock.ir.desc import EMPTY_VAR, GRAD_SUFFIX, BlockDesc, OpDesc, ProgramDesc, VarDesc, VarKind
from oarlock.ir.dtypes import bfloat16, from_numpy
from oarlock.ir.registry import lookup

__all__ = ["BaseCase", "backward", "cases", "differ", "gradients", "run"]

FILE = Path(__file__).resolve().parent.parent / "data" / "sweep.npz"


@dataclass(slots=True)
class BaseCase:
    """A one-op program: inputs by slot (always lists), argument counts and declared shapes of the outputs."""

    op: str
    attrs: dict[str, Any]
    inputs: dict[str, list[Any]]
    counts: dict[str, int]
    shapes: dict[str, list[list[int] | None]] = field(default_factory=dict)
    lod: bool = False
    moved: dict[str, Any] = field(default_factory=dict)

    def with_attrs(self, **attrs: Any) -> BaseCase:
        """The same case with other attributes."""
        return BaseCase(self.op, {**self.attrs, **attrs}, self.inputs, self.counts, self.shapes, self.lod)

    def with_inputs(self, inputs: Mapping[str, list[Any]]) -> BaseCase:
        """The same case on other inputs."""
        return BaseCase(self.op, self.attrs, dict(inputs), self.counts, self.shapes, self.lod)


@cache
def cases() -> dict[str, list[BaseCase]]:
    """The base cases by op type, the plainest first."""
    with np.load(FILE) as file:
        notes, data = json.loads(file["meta"].tobytes()), file["data"].tobytes()
    found: dict[str, list[BaseCase]] = {}
    for op, attrs, ins, counts, shapes, lod in notes:
        inputs = {slot: [_value(note, data) for note in each] for slot, each in ins.items()}
        found.setdefault(op, []).append(BaseCase(op, attrs, inputs, counts, shapes, bool(lod)))
    rows = [*_load("handcases").hand_cases(), *_load("handcases_fused").hand_cases()]
    for op, inputs, attrs, *moved in rows:
        found.setdefault(op, []).append(_by_hand(op, inputs, attrs, moved[0] if moved else {}))
    return found


def _by_hand(op: str, inputs: dict[str, list[Any]], attrs: dict[str, Any], moved: dict[str, Any]) -> BaseCase:
    """A case with one argument in every output slot, as many as there are inputs in a list slot."""
    declared = lookup(op)
    lists = [slot.name for slot in declared.inputs if slot.many and slot.name in inputs]
    many = attrs.get("num") or (len(inputs[lists[0]]) if lists else 1)
    counts = {slot.name: many if slot.many else 1 for slot in declared.outputs}
    ragged = any(isinstance(value, (LoDTensor, TensorArray)) for values in inputs.values() for value in values)
    return BaseCase(op, attrs, inputs, counts, {}, declared.lod or ragged, moved)


def _load(name: str) -> ModuleType:
    """A module that lies beside this file."""
    spec = importlib.util.spec_from_file_location(f"oarlock_{name}", Path(__file__).with_name(f"{name}.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _value(note: Any, data: bytes) -> Any:
    """A value from ``[dtype, stored dtype, shape, offset]`` and what marks it as more than a plain array."""
    if isinstance(note, list) and note and isinstance(note[0], list):
        return TensorArray(_value(each, data) for each in note)
    dtype, stored, shape, at, *more = note
    array = np.frombuffer(data, stored, int(np.prod(shape, dtype=np.int64)), at).reshape(shape)
    array = array.astype(bfloat16() if dtype == "bfloat16" else dtype)
    if not more:
        return array
    if "rows" in more[0]:
        return SelectedRows(np.asarray(more[0]["rows"], np.int64), array, more[0]["height"])
    return LoDTensor(array, more[0]["lod"])


def _program(case: BaseCase) -> tuple[ProgramDesc, OpDesc, dict[str, Any]]:
    declared = lookup(case.op)
    block = BlockDesc(0)
    feeds: dict[str, Any] = {}
    inputs = {slot: [f"{slot}_{i}" for i in range(len(values))] for slot, values in case.inputs.items()}
    for slot, values in case.inputs.items():
        feeds.update(zip(inputs[slot], values, strict=True))
    for name, value in feeds.items():
        if isinstance(value, TensorArray):
            block.vars[name] = VarDesc(name, VarKind.LOD_TENSOR_ARRAY)
        else:
            block.vars[name] = VarDesc(name, dtype=from_numpy(value.dtype), shape=tuple(value.shape))
    outputs = {slot: [f"{slot}_{i}.out" for i in range(count)] for slot, count in case.counts.items()}
    for slot, names in outputs.items():
        for name, shape in zip(names, case.shapes.get(slot) or [None] * len(names), strict=True):
            block.vars[name] = VarDesc(name, shape=None if shape is None else tuple(shape))
    op = OpDesc(case.op, inputs, outputs, dict(case.attrs))
    return ProgramDesc([block], op_versions={case.op: declared.since}), op, feeds


def _execute(
    program: ProgramDesc, ops: list[OpDesc], feeds: Mapping[str, Any], fetches: list[str], lod: bool
) -> dict[str, Any]:
    made = program.copy()
    made.global_block.ops = ops
    request = PlanRequest(tuple(feeds), tuple(fetches), keep=frozenset({"@training"}), lod=lod)
    set_seed(0)
    return dict(zip(fetches, compile_block(made, 0, request).run(feeds.values()), strict=True))


def run(case: BaseCase) -> dict[str, Any]:
    """The outputs by argument name ``<slot>_<i>.out``."""
    program, op, feeds = _program(case)
    return _execute(program, [op], feeds, list(op.output_names()), case.lod)


def backward(case: BaseCase) -> tuple[list[OpDesc], dict[str, Any]]:
    """The grad ops, and the values by name that they may read: inputs, outputs, cotangents."""
    program, op, feeds = _program(case)
    maker = lookup(case.op).grad_maker
    if maker is None:
        return [], feeds
    values = _execute(program, [op], feeds, list(op.output_names()), case.lod)
    given = {**feeds, **{name: value for name, value in values.items() if value is not None}}
    for name, value in values.items():
        if value is not None and not isinstance(value, (list, SelectedRows)):
            given[name + GRAD_SUFFIX] = _cotangent(value)
    return maker(op, frozenset()), given


def gradients(case: BaseCase) -> dict[str, Any]:
    """The gradients by name, for cotangents that run through a few values; {} where there is no gradient."""
    grads, given = backward(case)
    made = {name for grad in grads for name in grad.output_names()}
    for grad in grads:
        for slot, names in grad.inputs.items():
            grad.inputs[slot] = [name if name in given or name in made else EMPTY_VAR for name in names]
    if not grads:
        return {}
    return _execute(_program(case)[0], grads, given, sorted(made - {EMPTY_VAR, ""}), case.lod)


def _cotangent(value: Any) -> Any:
    array = value.array if isinstance(value, LoDTensor) else np.asarray(value)
    drawn = (np.arange(array.size) % 5 - 1.5).reshape(array.shape).astype(array.dtype)
    return LoDTensor(drawn, value.lod) if isinstance(value, LoDTensor) else drawn


def differ(a: Any, b: Any) -> bool:
    """Whether two results differ in kind, dtype, shape, LoD or any value."""
    if isinstance(a, dict):
        return a.keys() != b.keys() or any(differ(a[name], b[name]) for name in a)
    if type(a) is not type(b):
        return True
    if isinstance(a, list):
        return len(a) != len(b) or any(map(differ, a, b))
    if isinstance(a, LoDTensor):
        return a.lod != b.lod or differ(a.array, b.array)
    if isinstance(a, SelectedRows):
        return a.height != b.height or differ(a.rows, b.rows) or differ(a.values, b.values)
    if not isinstance(a, np.ndarray):
        return repr(a) != repr(b)  # a rank table
    if a.dtype != b.dtype or a.shape != b.shape:
        return True
    return a.tobytes() != b.tobytes() and not np.array_equal(a, b, equal_nan=a.dtype.kind in "fc")
