"""The loop over a plan's steps: plain, or timed per operator; a failing step becomes an error with its place."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from ..errors import KernelError, OarlockError
from ..ir.desc import OpDesc
from .steps import Frame, Step
from .values import LoDTensor, TensorArray

if TYPE_CHECKING:
    from .plan import Plan

__all__ = ["profile", "run_steps"]

_log = logging.getLogger("oarlock.executor")

Recorder = Callable[[OpDesc, float], None]

_recorder: ContextVar[Recorder | None] = ContextVar("oarlock_recorder", default=None)


@contextmanager
def profile(record: Recorder) -> Iterator[None]:
    """Inside, every operator that runs in this thread is timed: ``record(op, seconds)``."""
    token = _recorder.set(record)
    try:
        yield
    finally:
        _recorder.reset(token)


def run_steps(plan: Plan, frame: Frame) -> None:
    """Run all steps on a frame.

    Raises:
        KernelError: an operator failed; the message names its place, its inputs and what it said.
    """
    recorder = _recorder.get()
    steps = iter(plan.steps)
    try:
        if recorder is not None:
            _run_timed(steps, plan, frame, recorder)
        elif _log.isEnabledFor(logging.DEBUG):
            _run_logged(steps, plan, frame)
        else:
            for step in steps:
                step(frame)
    except MemoryError:
        raise
    except Exception as error:
        # The iterator knows how many steps are left; that costs the loop nothing.
        position = len(plan.steps) - steps.__length_hint__() - 1  # type: ignore[attr-defined]
        raise _explain(error, plan, position, frame) from error


def _run_timed(steps: Iterator[Step], plan: Plan, frame: Frame, recorder: Recorder) -> None:
    for op, step in zip(plan.ops, steps, strict=True):
        start = time.perf_counter()
        step(frame)
        recorder(op, time.perf_counter() - start)


def _run_logged(steps: Iterator[Step], plan: Plan, frame: Frame) -> None:
    """One line per step: what it made, and which of its variables died with it."""
    for position, (op, step) in enumerate(zip(plan.ops, steps, strict=True)):
        step(frame)
        made = [f"{name} {_shown(frame[plan.slots[name]])}" for name in op.output_names() if name in plan.slots]
        names = dict.fromkeys((*op.input_names(), *op.output_names()))
        freed = [name for name in names if name in plan.slots and frame[plan.slots[name]] is None]
        tail = f"; freed {', '.join(freed)}" if freed else ""
        _log.debug("block %d op %d (%s): %s%s", plan.block.idx, position, op.type, ", ".join(made) or "nothing", tail)


def _explain(error: Exception, plan: Plan, position: int, frame: Frame) -> Exception:
    op = plan.ops[position]
    where = f"block {plan.block.idx} op {position} ({op.type})"
    if isinstance(error, OarlockError) and not isinstance(error, KernelError):
        return type(error)(f"{where}: {error}") if type(error).__init__ is Exception.__init__ else error
    arguments = ", ".join(
        f"{slot}={_argument(plan, name, frame)}" for slot, names in op.inputs.items() for name in names[:4]
    )
    text = " ".join(str(error).split()) or type(error).__name__
    return KernelError(f"{where}: {text[:600]} [inputs: {arguments[:600]}]")


def _argument(plan: Plan, name: str, frame: Frame) -> str:
    var = plan.program.find_var(name, plan.block)
    kind = " (parameter)" if var is not None and var.is_persistable_tensor else ""
    index = plan.slots.get(name)
    return f"'{name}'{kind} {_shown(frame[index] if index is not None else None)}"


def _shown(value: Any) -> str:
    if value is None:
        return "without a value"
    if isinstance(value, TensorArray):
        return f"array of {len(value)}"
    shown = value.array if isinstance(value, LoDTensor) else value
    return f"{getattr(shown, 'dtype', type(shown).__name__)}{list(getattr(shown, 'shape', ()))}"
