"""``run_program``: run the forward block of a program and, when asked later, its backward block.

The one door between eager mode and static programs. In test mode there is no backward block at all (None, not
an empty one): nothing is kept for it, and the scope is free again as soon as the outputs are out. Otherwise what
the backward block reads survives in the scope of this very call, so that calls never disturb one another.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..ir.desc import EMPTY_VAR, FAKE_VAR, GRAD_SUFFIX, OpDesc, ProgramDesc
from ..ir.registry import find
from .analysis import ProgramUse
from .plan import Plan, PlanRequest, compile_block
from .runner import makes_lod
from .scope import Scope
from .values import LoDTensor, Meta

__all__ = ["ProgramPair", "needed_by_backward", "run_backward", "run_forward"]

_log = logging.getLogger("oarlock.executor")
_ABSENT = frozenset({"", EMPTY_VAR, FAKE_VAR})


@dataclass(slots=True, eq=False)
class ProgramPair:
    """A forward program, its backward program, and the plans compiled for them.

    Attributes:
        forward: the forward ops; sub-blocks and grad blocks are carried along.
        backward: the backward ops, or None in test mode.
        x_names, param_names, out_names: what a call is given and returns, in order.
        out_grad_names: per output the name of its incoming gradient, ``@EMPTY@`` where it has none.
    """

    forward: ProgramDesc
    backward: ProgramDesc | None
    x_names: tuple[str, ...]
    param_names: tuple[str, ...]
    out_names: tuple[str, ...]
    out_grad_names: tuple[str, ...] = ()
    _forward_plans: dict[bool, Plan] = field(default_factory=dict)
    _backward_plans: dict[tuple[tuple[str, ...], bool], Plan] = field(default_factory=dict)
    _needed: tuple[frozenset[str], frozenset[str]] | None = None

    def needed(self) -> tuple[frozenset[str], frozenset[str]]:
        """The skip set of eager deletion, and the part of it of which only shape and dtype are read."""
        if self._needed is None:
            self._needed = (frozenset(), frozenset())
            if self.backward is not None:
                self._needed = needed_by_backward(self.backward, self.forward)
        return self._needed

    def forward_plan(self, lod: bool) -> Plan:
        """The plan of the forward block."""
        plan = self._forward_plans.get(lod)
        if plan is None:
            feeds = tuple(dict.fromkeys((*self.x_names, *self.param_names)))
            request = PlanRequest(feeds, self.out_names, frozenset().union(*self.needed()), lod)
            plan = self._forward_plans[lod] = compile_block(self.forward, 0, request)
        return plan

    def backward_plan(self, available: Iterable[str], fetches: tuple[str, ...], lod: bool) -> Plan:
        """The plan of the backward block for the gradients asked for."""
        plan = self._backward_plans.get((fetches, lod))
        if plan is None:
            assert self.backward is not None
            request = PlanRequest(tuple(sorted(available)), fetches, frozenset({"@backward"}), lod)
            plan = compile_block(_only_for(self.backward, fetches), 0, request)
            self._backward_plans[fetches, lod] = plan
        return plan


def needed_by_backward(backward: ProgramDesc, forward: ProgramDesc) -> tuple[frozenset[str], frozenset[str]]:
    """What the backward block reads and does not make itself: names needed whole, names needed by shape only."""
    use = ProgramUse(backward)
    whole: set[str] = set()
    meta: set[str] = set()
    made: set[str] = set()
    for op in backward.global_block.ops:
        shapes = _shape_only(op)
        for name in use.reads(op):
            if name not in made and name not in _ABSENT:
                (meta if name in shapes else whole).add(name)
        made.update(use.writes(op))
    return frozenset(whole), frozenset(meta - whole)


def _shape_only(op: OpDesc) -> set[str]:
    """The arguments of which an op reads shape and dtype alone."""
    declared = find(op.type)
    if declared is None:
        return set()
    light = {name for slot in declared.inputs if slot.meta for name in op.inputs.get(slot.name) or ()}
    if op.type == "fill_any_like":
        light.update(op.inputs.get("X") or ())
    heavy = {name for slot in declared.inputs if not slot.meta for name in op.inputs.get(slot.name) or ()}
    return light - heavy if op.type != "fill_any_like" else light


def _only_for(program: ProgramDesc, fetches: Sequence[str]) -> ProgramDesc:
    """The program with the ops of block 0 that the fetches do not need left out."""
    use = ProgramUse(program)
    live = set(fetches)
    kept = []
    for op in reversed(program.global_block.ops):
        if live.intersection(use.writes(op)):
            kept.append(op)
            live.update(use.reads(op))
    copy = program.copy()
    copy.global_block.ops = kept[::-1]
    return copy


def run_forward(pair: ProgramPair, inputs: Sequence[Any], params: Sequence[Any], scope: Scope) -> RunResult:
    """Run the forward block.

    Args:
        inputs, params: values for ``pair.x_names`` and ``pair.param_names``.
        scope: receives what the backward block needs and is in use until the caller releases it; without a
            backward block it is released here.
    """
    values = dict(zip(pair.param_names, params, strict=True)) | dict(zip(pair.x_names, inputs, strict=True))
    lod = makes_lod(pair.forward) or any(isinstance(value, LoDTensor) for value in values.values())
    plan = pair.forward_plan(lod)
    _log.debug("run_program forward: %d inputs, %d parameters", len(inputs), len(params))
    frame = plan.frame(values[name] for name in plan.request.feeds)
    outputs = plan.execute(frame)
    updates = [(name, frame[slot]) for name, slot in plan.updates if frame[slot] is not values.get(name)]
    if pair.backward is None:
        scope.release()
    else:
        scope.can_reuse = False
        whole, meta = pair.needed()
        for name in whole:
            if name in plan.slots:
                scope.set_var(name, frame[plan.slots[name]])
        for name in meta:
            if name in plan.slots:
                scope.set_var(name, _meta(frame[plan.slots[name]]))
    if _log.isEnabledFor(logging.DEBUG):
        _log.debug("run_program forward leaves\n%s", scope.describe())
    return RunResult(outputs, updates)


@dataclass(frozen=True, slots=True)
class RunResult:
    """Outputs in order, and the persistable variables that ops wrote."""

    outputs: list[Any]
    updates: list[tuple[str, Any]]


def _meta(value: Any) -> Any:
    """Shape and dtype in place of a large array; anything else is kept."""
    return Meta(value.shape, value.dtype) if isinstance(value, np.ndarray) else value


def run_backward(pair: ProgramPair, out_grads: Sequence[Any], wanted: Sequence[str], scope: Scope) -> list[Any]:
    """Run the backward block in the scope that the forward left.

    Args:
        out_grads: per output its incoming gradient.
        wanted: names of the gradients to return.

    Returns:
        Per wanted name its value, None where the backward block does not make it.
    """
    assert pair.backward is not None
    block = pair.backward.global_block
    made = {name for op in block.ops for name in op.output_names()}
    values = dict(scope.vars)
    for name, grad in zip(pair.out_grad_names, out_grads, strict=True):
        if name not in _ABSENT:
            values[name] = grad
    fetches = tuple(name for name in dict.fromkeys(wanted) if name in made)
    if not fetches:
        return [values.get(name) if name.endswith(GRAD_SUFFIX) else None for name in wanted]
    lod = any(isinstance(value, LoDTensor) for value in values.values()) or makes_lod(pair.backward)
    plan = pair.backward_plan(values, fetches, lod)
    _log.debug("run_program backward: %d gradients wanted", len(fetches))
    found = dict(zip(fetches, plan.run(values.get(name) for name in plan.request.feeds), strict=True))
    return [found.get(name) for name in wanted]
