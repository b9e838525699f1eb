"""Run one operator and its gradient as a program does: compiled plans, the grad ops of the registered maker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import oarlock.executor.kernels  # noqa: F401 - tells the registry how to find a type
from oarlock.executor.plan import PlanRequest, compile_block
from oarlock.ir.desc import EMPTY_VAR, GRAD_SUFFIX, BlockDesc, OpDesc, ProgramDesc, VarDesc
from oarlock.ir.dtypes import from_numpy
from oarlock.ir.registry import lookup

__all__ = ["Result", "run_op"]


@dataclass(slots=True)
class Result:
    """Outputs by slot (a list for a list slot), gradients by input argument (``slot``, or ``slot_0`` of a list)."""

    outputs: dict[str, Any]
    gradients: dict[str, Any]

    def __getitem__(self, slot: str) -> Any:
        return self.outputs[slot]


def run_op(
    type: str,
    inputs: Mapping[str, Any],
    attrs: Mapping[str, Any] | None = None,
    *,
    cotangents: Mapping[str, Any] | None = None,
    counts: Mapping[str, int] | None = None,
    declared: Mapping[str, tuple[int, ...]] | None = None,
    without: Sequence[str] = (),
    constants: Sequence[str] = (),
) -> Result:
    """Outputs, and with ``cotangents`` (by output slot; others are zero) gradients.

    Args:
        counts: arguments of output list slots, 1 where not given.
        declared: shapes that the program declares for output slots.
        without: output slots that the op does not have.
        constants: input slots whose values the plan may prepare work from.
    """
    operator = lookup(type)
    block = BlockDesc(0)
    feeds: dict[str, Any] = {}
    arguments: dict[str, list[str]] = {}
    for slot, given in inputs.items():
        many = isinstance(given, list)
        arguments[slot] = [f"{slot}_{i}" for i in range(len(given))] if many else [slot]
        feeds.update(zip(arguments[slot], given if many else [given], strict=True))
    made: dict[str, list[str]] = {}
    for slot_ in operator.outputs:
        if slot_.name not in without:
            many_out = (counts or {}).get(slot_.name, 1)
            made[slot_.name] = [f"{slot_.name}_{i}.out" for i in range(many_out)]
    for name, value in feeds.items():
        block.vars[name] = VarDesc(name, dtype=from_numpy(value.dtype), shape=value.shape)
    for slot, names in made.items():
        for name in names:
            block.vars[name] = VarDesc(name, shape=(declared or {}).get(slot))
    op = OpDesc(type, arguments, made, dict(attrs or {}))
    program = ProgramDesc([block], op_versions={type: operator.since})
    fixed = {name: feeds[name] for slot in constants for name in arguments[slot]}
    values = _run(program, [op], {k: v for k, v in feeds.items() if k not in fixed}, op.output_names(), fixed)
    many_slots = {slot_.name for slot_ in operator.outputs if slot_.many}
    outputs = {
        slot: [values[name] for name in names] if slot in many_slots else values[names[0]]
        for slot, names in made.items()
    }
    if cotangents is None:
        return Result(outputs, {})
    return Result(outputs, _gradients(program, op, {**feeds, **values}, cotangents))


def _run(
    program: ProgramDesc,
    ops: list[OpDesc],
    feeds: Mapping[str, Any],
    fetches: Any,
    constants: Mapping[str, Any],
) -> dict[str, Any]:
    made = program.copy()
    made.global_block.ops = ops
    names = list(fetches)
    request = PlanRequest(tuple(feeds), tuple(names), keep=frozenset({"@training"}))
    before = {name: np.array(value) for name, value in feeds.items()}
    found = compile_block(made, 0, request, dict(constants)).run(feeds.values())
    for name, kept in before.items():
        np.testing.assert_array_equal(feeds[name], kept, f"{ops[0].type} wrote to {name}")
    return dict(zip(names, found, strict=True))


def _gradients(
    program: ProgramDesc, op: OpDesc, values: Mapping[str, Any], cotangents: Mapping[str, Any]
) -> dict[str, Any]:
    maker = lookup(op.type).grad_maker
    assert maker is not None, f"{op.type} declares no gradient"
    grads = maker(op, frozenset())
    given = {name: value for name, value in values.items() if value is not None}
    for slot, names in op.outputs.items():
        for name in names:
            if name in given:
                like = cotangents.get(slot)
                given[name + GRAD_SUFFIX] = np.zeros_like(given[name]) if like is None else like
    for grad in grads:
        for slot, names in grad.inputs.items():
            grad.inputs[slot] = [name if name in given else EMPTY_VAR for name in names]
    made = [name for grad in grads for name in grad.output_names()]
    found = _run(program, grads, given, made, {})
    return {name[: -len(GRAD_SUFFIX)]: value for name, value in found.items()}
