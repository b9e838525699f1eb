"""What a control-flow or tensor-array operator sees of the running block: variables by name, its sub-blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..ir.desc import OpDesc
from .steps import Frame

if TYPE_CHECKING:
    from .plan import Plan

__all__ = ["Body", "Env"]


@dataclass(frozen=True, slots=True)
class Body:
    """A compiled sub-block: outer frame slots of the variables it captures and of those it writes."""

    plan: Plan
    captured: tuple[int, ...]
    written: tuple[int, ...]


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

    def run(self, index: int) -> dict[str, Any]:
        """Run a sub-block once: it reads the outer variables and writes them back.

        Returns:
            The sub-block's own variables that the plan was asked to keep.
        """
        body = self._bodies[index]
        plan = body.plan
        inner = plan.frame(self._frame[outer] for outer in body.captured)
        for outer, value in zip(body.written, plan.execute(inner), strict=True):
            self._frame[outer] = value
        return {name: inner[plan.slots[name]] for name in plan.request.keep if name in plan.slots}
