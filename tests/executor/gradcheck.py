"""The gradient check: an operator's gradient, made as a program makes it, against central differences.

``check_gradient`` builds the one-op program, takes the grad ops from the operator's gradient maker, runs both
through compiled plans, and compares along random directions: for ``L = Re sum(conj(c) * out)`` with a random
cotangent ``c`` and a random direction ``v``, ``Re sum(conj(grad) * v)`` must equal ``dL/dv``, in float64.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import oarlock.executor.kernels  # noqa: F401 - tells the registry how to find a type
from oarlock.executor.plan import Plan, PlanRequest, compile_block
from oarlock.executor.values import LoDTensor, array_of
from oarlock.ir.desc import EMPTY_VAR, GRAD_SUFFIX, BlockDesc, OpDesc, ProgramDesc, VarDesc
from oarlock.ir.dtypes import from_numpy
from oarlock.ir.registry import Operator, lookup

__all__ = ["NotDifferentiable", "check_gradient"]


class NotDifferentiable(ValueError):
    """The differences to the left and to the right disagree: the point is a kink or a jump."""


@dataclass(slots=True)
class _Case:
    """One op with its feeds by variable name."""

    op: OpDesc
    declared: Operator
    feeds: dict[str, Any]
    program: ProgramDesc
    lod: bool


def check_gradient(
    type: str,
    inputs: Mapping[str, Any],
    attrs: Mapping[str, Any] | None = None,
    *,
    wrt: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    counts: Mapping[str, int] | None = None,
    declared: Mapping[str, tuple[int, ...]] | None = None,
    without: Sequence[str] = (),
    version: int | None = None,
    rtol: float = 1e-6,
    atol: float = 1e-7,
    eps: float = 1e-6,
    directions: int = 3,
    seed: int = 0,
    before_run: Callable[[], None] | None = None,
) -> dict[str, Any]:
    """Compare the gradient of an operator with central differences; returns the gradients by input argument.

    Arguments are named ``slot`` (one), or ``slot_0``, ``slot_1``, ... (a list slot).

    Args:
        inputs: slot -> array, LoDTensor, or a list of them. Floating arrays are taken to float64 (complex
            ones to complex128).
        wrt: input slots to check; default every floating argument that the maker gives a gradient.
        outputs: output slots with a cotangent; default every floating output whose gradient is read.
        counts: arguments of output list slots, 1 where not given.
        declared: shapes that the program declares for output slots.
        without: output slots that the op does not have.
        version: the op version to look up, default the newest.
        before_run: called before every forward run, to start the global random generator again.

    Raises:
        AssertionError: the gradient is wrong, missing, of another shape or dtype, or an input was written to.
        NotDifferentiable: the inputs lie on a kink, where no difference can judge.
    """
    case = _build(type, inputs, dict(attrs or {}), counts or {}, declared or {}, without, version)
    grads = _grad_ops(case)
    forward = _compile(case, [case.op], list(case.feeds), list(case.op.output_names()))
    names = list(case.op.output_names())
    if before_run is not None:
        before_run()
    values = dict(zip(names, forward.run(_copies(case.feeds)), strict=True))
    cotangents = _cotangents(case, grads, values, outputs, np.random.default_rng(seed))
    found = _run_backward(case, grads, cotangents, values, wrt)
    loss = _Loss(forward, case.feeds, names, cotangents, before_run)
    for name, gradient in found.items():
        rng = np.random.default_rng(seed + 1)
        for _ in range(directions):
            _compare(type, name, gradient, loss, rng, eps, rtol, atol)
    return found


def _double(value: Any) -> Any:
    if isinstance(value, LoDTensor):
        return LoDTensor(_double(value.array), value.lod)
    array = np.asarray(value)
    if array.dtype.kind == "c":
        return array.astype(np.complex128)
    return array.astype(np.float64) if array.dtype.kind == "f" or array.dtype.name == "bfloat16" else array


def _build(
    type: str,
    inputs: Mapping[str, Any],
    attrs: dict[str, Any],
    counts: Mapping[str, int],
    shapes: Mapping[str, tuple[int, ...]],
    without: Sequence[str],
    version: int | None,
) -> _Case:
    operator = lookup(type, version)
    feeds: dict[str, Any] = {}
    arguments: dict[str, list[str]] = {}
    for slot, given in inputs.items():
        many = isinstance(given, (list, tuple))
        arguments[slot] = [f"{slot}_{i}" for i in range(len(given))] if many else [slot]
        feeds.update(zip(arguments[slot], map(_double, given if many else [given]), strict=True))
    made = {
        slot.name: [f"{slot.name}_{i}.out" for i in range(counts.get(slot.name, 1))]
        for slot in operator.outputs
        if slot.name not in without
    }
    op = OpDesc(type, arguments, made, attrs)
    block = BlockDesc(0)
    for name, value in feeds.items():
        array = array_of(value)
        block.vars[name] = VarDesc(name, dtype=from_numpy(array.dtype), shape=array.shape)
    for slot_name, names in made.items():
        for name in names:
            block.vars[name] = VarDesc(name, shape=shapes.get(slot_name))
    versions = {type: operator.since if version is None else version}
    lod = operator.lod or any(isinstance(value, LoDTensor) for value in feeds.values())
    return _Case(op, operator, feeds, ProgramDesc([block], op_versions=versions), lod)


def _grad_ops(case: _Case) -> list[OpDesc]:
    maker = case.declared.grad_maker
    assert maker is not None, f"{case.op.type} declares no gradient"
    grads = maker(case.op, frozenset())
    assert grads, f"the gradient maker of {case.op.type} made no op"
    return grads


def _compile(case: _Case, ops: list[OpDesc], feeds: list[str], fetches: list[str]) -> Plan:
    program = case.program.copy()
    program.global_block.ops = ops
    request = PlanRequest(tuple(feeds), tuple(fetches), keep=frozenset({"@training"}), lod=case.lod)
    return compile_block(program, 0, request)


def _copy(value: Any) -> Any:
    return LoDTensor(value.array.copy(), value.lod) if isinstance(value, LoDTensor) else value.copy()


def _copies(feeds: Mapping[str, Any]) -> list[Any]:
    return [LoDTensor(v.array.copy(), v.lod) if isinstance(v, LoDTensor) else v.copy() for v in feeds.values()]


def _is_floating(value: Any) -> bool:
    return value is not None and not isinstance(value, list) and array_of(value).dtype.kind in "fc"


def _random_like(rng: np.random.Generator, value: Any) -> Any:
    array = array_of(value)
    drawn = rng.standard_normal(array.shape)
    if array.dtype.kind == "c":
        drawn = drawn + 1j * rng.standard_normal(array.shape)
    drawn = np.asarray(drawn, array.dtype)
    return LoDTensor(drawn, value.lod) if isinstance(value, LoDTensor) else drawn


def _cotangents(
    case: _Case,
    grads: list[OpDesc],
    values: Mapping[str, Any],
    outputs: Sequence[str] | None,
    rng: np.random.Generator,
) -> dict[str, Any]:
    """A random cotangent for every output to check, zeros for the other floating ones; by output name."""
    made = {name for grad in grads for name in grad.output_names()}
    read = {name for grad in grads for name in grad.input_names()} - made
    cotangents = {}
    for slot, names in case.op.outputs.items():
        for name in names:
            if name + GRAD_SUFFIX not in read or not _is_floating(values[name]):
                continue
            drawn = _random_like(rng, values[name])
            if outputs is not None and slot not in outputs:
                array_of(drawn)[...] = 0
            cotangents[name] = drawn
    assert cotangents, f"{case.op.type}: no floating output whose gradient the grad op reads"
    return cotangents


def _run_backward(
    case: _Case,
    grads: list[OpDesc],
    cotangents: Mapping[str, Any],
    values: Mapping[str, Any],
    wrt: Sequence[str] | None,
) -> dict[str, Any]:
    """The gradients of the floating inputs that are asked for, checked for shape and dtype; by input name."""
    given = {**case.feeds, **values, **{name + GRAD_SUFFIX: value for name, value in cotangents.items()}}
    made = {name for grad in grads for name in grad.output_names()}
    wanted = [
        name
        for slot, names in case.op.inputs.items()
        for name in names
        if _is_floating(case.feeds[name]) and (slot in wrt if wrt is not None else name + GRAD_SUFFIX in made)
    ]
    missing = [name for name in wanted if name + GRAD_SUFFIX not in made]
    assert wanted and not missing, f"{case.op.type}: no gradient is made for {missing or 'any input'}"
    for grad in grads:
        for slot, names in grad.inputs.items():
            grad.inputs[slot] = [name if name in given or name in made else EMPTY_VAR for name in names]
    before = {name: np.array(array_of(value)) for name, value in given.items() if not isinstance(value, list)}
    plan = _compile(case, grads, list(given), [name + GRAD_SUFFIX for name in wanted])
    found = dict(zip(wanted, map(array_of, plan.run(given.values())), strict=True))
    for name, kept in before.items():
        np.testing.assert_array_equal(array_of(given[name]), kept, f"{case.op.type}: the gradient wrote to {name}")
    for name, gradient in found.items():
        like = array_of(case.feeds[name])
        shown = f"{gradient.dtype}{list(gradient.shape)}"
        assert (gradient.shape, gradient.dtype) == (like.shape, like.dtype), f"gradient of {name} is {shown}"
    return found


@dataclass(slots=True)
class _Loss:
    """``L`` as a function of one input."""

    forward: Plan
    feeds: dict[str, Any]
    names: list[str]
    cotangents: dict[str, Any]
    before_run: Callable[[], None] | None = None

    def at(self, name: str, array: Any) -> Any:
        """``L`` with ``array`` in the place of input ``name``."""
        feeds = dict(self.feeds)
        value = feeds[name]
        feeds[name] = LoDTensor(array, value.lod) if isinstance(value, LoDTensor) else array
        kept = array.copy()
        if self.before_run is not None:
            self.before_run()
        results = dict(zip(self.names, self.forward.run(feeds.values()), strict=True))
        np.testing.assert_array_equal(array, kept, f"the forward kernel wrote to {name}")
        return sum(_project(array_of(c), array_of(results[out])) for out, c in self.cotangents.items())


def _project(a: Any, b: Any) -> Any:
    """``Re sum(conj(a) * b)``, summed in the longest float."""
    return np.sum((np.conj(a) * b).real, dtype=np.longdouble)


def _compare(
    type: str,
    name: str,
    gradient: Any,
    loss: _Loss,
    rng: np.random.Generator,
    eps: float,
    rtol: float,
    atol: float,
) -> None:
    start = array_of(loss.feeds[name])
    direction = _random_like(rng, start)
    middle, right, left = (loss.at(name, start + step * direction) for step in (0.0, eps, -eps))
    rising, falling = (right - middle) / eps, (middle - left) / eps
    central = (right - left) / (2 * eps)
    expected = _project(gradient, direction)
    scale = float(np.sum(np.abs(gradient * direction))) if gradient.size else 0.0
    allowed = atol + rtol * max(scale, abs(float(central)))
    if abs(rising - falling) > max(1e4 * eps, 1e-3) * max(1.0, abs(float(central)), scale):
        raise NotDifferentiable(
            f"{type}: with respect to {name} the differences {float(falling):.6g} to the left and "
            f"{float(rising):.6g} to the right disagree; move the inputs off the kink"
        )
    difference = abs(float(expected - central))
    assert difference <= allowed, (
        f"{type}: gradient of {name} along a random direction is {float(expected):.10g}, the central "
        f"difference {float(central):.10g} (off by {difference:.3g}, allowed {allowed:.3g})"
    )
