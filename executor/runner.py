"""Run an inference program again and again: passes and plan once, parameters watched, outputs made safe.

A runner is shared by threads. It holds the plan that fits the current parameter values; when a parameter that
the plan folded or packed was written to, the next call builds the plan anew.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from ..ir.desc import ProgramDesc
from ..ir.passes import optimize
from ..ir.registry import find
from .blas import own_threads
from .plan import Plan, PlanRequest, compile_block
from .values import Array, LoDTensor, array_of, memory_owner

__all__ = ["FixedParams", "InferenceRunner", "ParamStore", "makes_lod", "state_names"]

_log = logging.getLogger("oarlock.executor")


class ParamStore(Protocol):
    """Where the values of persistable variables come from, and how to see that they moved."""

    def value(self, name: str) -> Array:
        """The current value."""

    def version(self, name: str) -> int:
        """A number that changes with every write to the value."""

    def epoch(self) -> int:
        """A number that changes whenever any value may have changed: the cheap first look."""

    def assign(self, name: str, value: Array) -> None:
        """Write what an op made of a persistable variable back."""


@dataclass(slots=True)
class FixedParams:
    """A store for values that nobody but the program itself writes."""

    values: dict[str, Array]
    writes: int = 0

    def value(self, name: str) -> Array:
        """The current value."""
        return self.values[name]

    def version(self, name: str) -> int:
        """Fixed values have one version."""
        return 0

    def epoch(self) -> int:
        """Fixed values have one epoch: what the program writes is fed to every run anew."""
        return 0

    def assign(self, name: str, value: Array) -> None:
        """Keep what the program wrote."""
        self.values[name] = value


def makes_lod(program: ProgramDesc) -> bool:
    """Whether an op of the program works on ragged batches, so that plain feeds may become ragged."""
    return any(
        (found := find(op.type)) is not None and found.lod and not found.lod_through
        for block in program.blocks
        for op in block.ops
    )


def state_names(program: ProgramDesc) -> list[str]:
    """Persistable variables that ops really write in an inference run (counters, running scales).

    An op in test mode names its statistics as outputs and leaves them as they are.
    """
    found: dict[str, None] = {}
    stored = {var.name for var in program.persistables()}
    for block in program.blocks:
        for op in block.ops:
            if not op.attrs.get("is_test"):
                found.update(dict.fromkeys(name for name in op.output_names() if name in stored))
    return list(found)


@dataclass(slots=True)
class _Compiled:
    plan: Plan
    epoch: int
    versions: dict[str, int]


@dataclass(slots=True, eq=False)
class InferenceRunner:
    """Runs block 0 of an inference program without feed and fetch ops.

    Attributes:
        program: as loaded; it is not altered.
        feeds, fetches: names in the order of the values given and returned.
        store: the persistable values.
        skip_passes: names of passes to leave out.
    """

    program: ProgramDesc
    feeds: tuple[str, ...]
    fetches: tuple[str, ...]
    store: ParamStore
    skip_passes: Collection[str] = ()
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _compiled: dict[bool, _Compiled] = field(default_factory=dict)
    _state: list[str] | None = None
    _makes_lod: bool = False

    def run(self, values: Sequence[Any]) -> list[Any]:
        """The fetched values for these feeds: arrays, or LoDTensors for ragged batches.

        Outputs never share memory with feeds, parameters or each other.
        """
        compiled = self.compiled(values)
        plan = compiled.plan
        state = [self.store.value(name) for name in self._state or ()]
        frame = plan.frame([*values, *state])
        with own_threads():  # operators share large products themselves; the library's threads spin while they wait
            outputs = plan.execute(frame)
        for name, value in zip(self._state or (), state, strict=True):
            made = frame[plan.slots[name]]
            if made is not value:
                self.store.assign(name, made)
        return _detach(outputs, values, plan)

    def plan(self, values: Sequence[Any] = ()) -> Plan:
        """The plan for these feeds, compiled if need be."""
        return self.compiled(values).plan

    def compiled(self, values: Sequence[Any]) -> _Compiled:
        """The plan that fits the feeds and the current parameters, with what it was built from."""
        if self._state is None:
            with self._lock:
                self._makes_lod = makes_lod(self.program)
                self._state = state_names(self.program)
        lod = self._makes_lod or any(isinstance(value, LoDTensor) for value in values)
        compiled = self._compiled.get(lod)
        if compiled is not None and compiled.epoch == self.store.epoch():
            return compiled
        with self._lock:
            return self._refresh(lod)

    def _refresh(self, lod: bool) -> _Compiled:
        epoch = self.store.epoch()
        compiled = self._compiled.get(lod)
        if compiled is not None:
            if all(self.store.version(name) == version for name, version in compiled.versions.items()):
                compiled.epoch = epoch
                return compiled
            _log.info("a parameter was written to: the plan is built anew")
        self._compiled[lod] = compiled = self._compile(lod, epoch)
        return compiled

    def _compile(self, lod: bool, epoch: int) -> _Compiled:
        state = set(self._state or ())
        names = [var.name for var in self.program.persistables() if var.name not in state]
        versions = {name: self.store.version(name) for name in names}
        constants = {name: self.store.value(name) for name in names}
        program = optimize(self.program, constants, self.fetches, skip=self.skip_passes)
        request = PlanRequest((*self.feeds, *(self._state or ())), self.fetches, lod=lod)
        return _Compiled(compile_block(program, 0, request, constants), epoch, versions)


def _detach(outputs: list[Any], feeds: Iterable[Any], plan: Plan) -> list[Any]:
    """Copy the outputs whose memory belongs to a feed, a constant or an earlier output."""
    taken = {id(memory_owner(array_of(each))) for each in feeds} | plan.owners
    return [_owned(value, taken) for value in outputs]


def _owned(value: Any, taken: set[int]) -> Any:
    if isinstance(value, LoDTensor):
        return LoDTensor(_owned(value.array, taken), value.lod)
    if not isinstance(value, np.ndarray):
        return value
    if id(memory_owner(value)) in taken:
        value = value.copy()
    taken.add(id(memory_owner(value)))
    return value
