"""What a control-flow or tensor-array operator sees of the running block: variables by name, its sub-blocks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..ir.desc import OpDesc
from .steps import Frame

if TYPE_CHECKING:
    from .plan import Plan

__all__ = ["Body", "Env", "Record"]

Record = dict[str, Any]
"""The values that the grad block reads of one run of a sub-block."""


@dataclass(frozen=True, slots=True)
class Body:
    """A compiled sub-block.

    Attributes:
        captured: outer frame slots of ``plan.request.feeds``; None where only a record has the value.
        written: outer frame slots of ``plan.request.fetches``.
        entry: captured variables that a record holds as they were before the run.
        local: variables of the sub-block that a record holds.
    """

    plan: Plan
    captured: tuple[int | None, ...]
    written: tuple[int, ...]
    entry: tuple[str, ...] = ()
    local: tuple[str, ...] = ()


class Env:
    """The variables of the running block, as the kernel of a control-flow operator sees them."""

    __slots__ = ("_bodies", "_frame", "_slots", "op")

    def __init__(self, op: OpDesc, frame: Frame, slots: dict[str, int], bodies: dict[int, Body]) -> None:
        self.op = op
        self._frame = frame
        self._slots = slots
        self._bodies = bodies

    def get(self, name: str) -> Any:
        """The value of a variable, None while it has none."""
        return self._frame[self._slots[name]]

    def outputs(self, slot: str) -> list[Any]:
        """The current values of an output slot's arguments."""
        return [self.get(name) for name in self.op.outputs.get(slot) or ()]

    def run(self, index: int) -> Record:
        """Run a sub-block once: it reads the outer variables and writes them back.

        Returns:
            What its grad block will read; empty when there is none.
        """
        body = self._bodies[index]
        plan = body.plan
        inner = plan.frame(None if outer is None else self._frame[outer] for outer in body.captured)
        record = {name: inner[plan.slots[name]] for name in body.entry}
        for outer, value in zip(body.written, plan.execute(inner), strict=True):
            self._frame[outer] = value
        for name in body.local:
            record[name] = inner[plan.slots[name]]
        return record

    def run_recorded(self, index: int, record: Mapping[str, Any], given: Mapping[str, Any]) -> Record:
        """Run a grad block on a record of its forward block and on incoming gradients.

        Returns:
            The gradients that it makes, by name.
        """
        body = self._bodies[index]
        plan = body.plan
        values = []
        for name, outer in zip(plan.request.feeds, body.captured, strict=True):
            if name in given:
                values.append(given[name])
            elif name in record:
                values.append(record[name])
            else:
                values.append(None if outer is None else self._frame[outer])
        made = plan.execute(plan.frame(values))
        return dict(zip(plan.request.fetches, made, strict=True))
