"""The grad nodes of registered operators: what a forward op keeps, and how its grad ops run later.

A :class:`GradPlan` comes from the operator's ``takes`` and ``gives`` (through its grad maker, called once on
symbolic names) and is shared by all nodes of that op with those attributes. A node holds the kept values and the
edges, nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np

from ..executor.steps import ABSENT, Frame, Step, make_step
from ..executor.values import Array, Meta
from ..ir import OpDesc
from ..ir.desc import EMPTY_VAR, GRAD_SUFFIX
from ..ir.registry import Operator, find
from .graph import AutogradError, GradNode, edge_of, name_of_node
from .storage import Storage
from .tensor import Tensor, wrap

if TYPE_CHECKING:
    from .dispatch import BoundOp

__all__ = ["GradPlan", "OpNode", "PlanKey", "Saved"]

_new = object.__new__

PlanKey: TypeAlias = tuple[int, tuple[int, ...], tuple[int, ...]]
"""Which flat inputs need a gradient (bits), and the arities of input and output slots."""
Binder: TypeAlias = "Callable[[str, dict[str, Any]], BoundOp]"


Saved: TypeAlias = tuple[Array, Storage, int, "str | None"]
"""A value kept for backward: its array, the storage and version it had, its name (Paddle's ``TensorWrapper``).

A plain tuple, since every recorded operator makes some.
"""


def overwritten(saved: Saved, needed_by: str, slot: str) -> AutogradError:
    """The error for a kept value whose memory was written to since: names the tensor, versions and operators."""
    _, storage, version, name = saved
    return AutogradError(
        f"(PermissionDenied) Tensor '{name or ''}' used in gradient computation has been modified by an inplace "
        f"operation. Its version is {storage.counter} but the expected version is {version}. Please fix your code "
        "to void calling an inplace operator after using the Tensor which will used in gradient computation. "
        f"{needed_by} needs it (slot {slot}), {storage.writer} wrote to it last; use the out-of-place operator or "
        "write to a clone()."
    )


class _Source(NamedTuple):
    """One forward value that backward reads. ``at`` counts flat inputs, or flat outputs when ``output``."""

    output: bool
    at: int
    meta: bool
    slot: str
    frame: int


class _GradOp(NamedTuple):
    """One grad op over frame indices, for the run that records itself."""

    bound: BoundOp
    inputs: list[int | list[int]]
    outputs: list[int | list[int]]


class GradPlan:
    """How one op with its attributes runs backward, for one set of inputs that need a gradient.

    Attributes:
        type: the forward op type.
        sources: the forward values to keep.
        differentiable: flat indices of outputs that have a gradient.
    """

    __slots__ = (
        "attributes",
        "differentiable",
        "fill",
        "grads_at",
        "missing",
        "ops",
        "results_at",
        "size",
        "sources",
        "steps",
        "type",
    )

    def __init__(self, type: str, outputs: int) -> None:
        self.type = type
        self.sources: list[_Source] = []
        self.grads_at: list[int] = [ABSENT] * outputs
        self.fill: frozenset[int] = frozenset()
        self.results_at: list[int] = []
        self.ops: list[_GradOp] = []
        self.steps: list[Step] = []
        self.size = 1
        self.missing = ""
        self.differentiable: frozenset[int] = frozenset()

    @classmethod
    def build(cls, operator: Operator, desc: OpDesc, key: PlanKey, bind: Binder) -> GradPlan | None:
        """The plan; None when no gradient reaches any input."""
        return _Builder(operator, desc, key, bind).build()

    def keep(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> list[Any]:
        """What a node must hold: a :data:`Saved` per value, only shape and dtype where that is enough."""
        kept: list[Any] = []
        for output, index, meta, _, _ in self.sources:
            tensor = outputs[index] if output else inputs[index]
            if type(tensor) is Meta or tensor is None:
                kept.append(tensor)
            elif meta:
                kept.append((tensor._array.shape, tensor._array.dtype))
            else:
                storage = tensor._storage
                kept.append((tensor._array, storage, storage.counter, tensor._name))
        return kept

    def keep_outputs(self, kept: list[Any], outputs: Sequence[Any]) -> None:
        """Keep these outputs in place of those kept before: what an in-place function gave its result to."""
        for at, source in enumerate(self.sources):
            if source.output:
                tensor = outputs[source.at]
                if tensor is None:
                    continue
                storage = tensor._storage
                kept[at] = (
                    (tensor._array.shape, tensor._array.dtype)
                    if source.meta
                    else (tensor._array, storage, storage.counter, tensor._name)
                )


class OpNode(GradNode):
    """The node of a registered operator."""

    __slots__ = ("plan", "saved", "shapes")

    plan: GradPlan
    saved: list[Any] | None
    shapes: list[Any] | None

    @classmethod
    def record(cls, plan: GradPlan, inputs: Sequence[Any], mask: int, outputs: Sequence[Any]) -> OpNode:
        """The node of an op that just ran. ``mask`` has a bit per flat input that needs a gradient."""
        node = _new(cls)
        node.hooks = None
        node.retained = None
        node.plan = plan
        node.saved = plan.keep(inputs, outputs)
        edges = []
        for each in inputs:
            edges.append((each._edge or edge_of(each)) if mask & 1 else None)
            mask >>= 1
        node.edges = edges
        node.shapes = None
        if plan.fill and len(outputs) > 1:
            node.shapes = [None if each is None else (each._array.shape, each._array.dtype) for each in outputs]
        return node

    @property
    def width(self) -> int:
        """The number of flat outputs."""
        return len(self.plan.grads_at)

    def name(self) -> str:
        """Paddle's name for the node."""
        return name_of_node(self.plan.type)

    def release(self) -> None:
        """Drop the kept values."""
        self.saved = None

    @property
    def released(self) -> bool:
        """Whether the kept values are gone."""
        return self.saved is None

    def apply(self, grads: list[Array | None]) -> Sequence[Array | None]:
        """Run the grad ops on arrays."""
        plan = self.plan
        if plan.missing:
            raise AutogradError(plan.missing)
        frame: Frame = [None] * plan.size
        saved: Any = self.saved
        for source, value in zip(plan.sources, saved, strict=True):
            if value is None or type(value) is Meta:
                frame[source.frame] = value
            elif source.meta:
                frame[source.frame] = Meta(*value)
            else:
                array, storage, version, _ = value
                if storage.counter != version:
                    raise overwritten(value, self.name(), source.slot)
                frame[source.frame] = array
        for index, at in enumerate(plan.grads_at):
            if at:
                grad = grads[index]
                frame[at] = self._zeros(index) if grad is None and index in plan.fill else grad
        for step in plan.steps:
            step(frame)
        return [frame[at] for at in plan.results_at]

    def _zeros(self, index: int) -> Array | None:
        known = None if self.shapes is None else self.shapes[index]
        return None if known is None else np.zeros(*known)

    def apply_graph(self, grads: list[Tensor | None]) -> Sequence[Tensor | None]:
        """Run the grad ops through the dispatcher, so that they record their own history."""
        plan = self.plan
        if plan.missing:
            raise AutogradError(plan.missing)
        frame: Frame = [None] * plan.size
        saved: Any = self.saved
        for source, value in zip(plan.sources, saved, strict=True):
            if value is None or type(value) is Meta:
                frame[source.frame] = value
            elif source.meta:
                frame[source.frame] = Meta(*value)
            else:
                frame[source.frame] = self._recover(source, value)
        for index, at in enumerate(plan.grads_at):
            if at:
                grad = grads[index]
                if grad is None and index in plan.fill:
                    zeros = self._zeros(index)
                    grad = None if zeros is None else wrap(zeros)
                frame[at] = grad
        for op in plan.ops:
            _run_recorded(op, frame)
        return [frame[at] for at in plan.results_at]

    def _recover(self, source: _Source, value: Saved) -> Tensor:
        """A tensor over a kept value, in its old place in the graph."""
        array, storage, version, _ = value
        if storage.counter != version:
            raise overwritten(value, self.name(), source.slot)
        made = wrap(array)
        made._storage = storage
        edge = (self, source.at) if source.output else self.edges[source.at]
        if edge is not None:
            made._edge = edge
            made._stop = False
        return made


def _run_recorded(op: _GradOp, frame: Frame) -> None:
    arguments = [frame[at] if isinstance(at, int) else [frame[each] for each in at] for at in op.inputs]
    results = op.bound(*arguments)
    for at, value in zip(op.outputs, results if isinstance(results, tuple) else (results,), strict=True):
        if isinstance(at, int):
            if at != ABSENT:
                frame[at] = value
        else:
            for each, part in zip(at, value or (), strict=False):
                if each != ABSENT:
                    frame[each] = part


class _Builder:
    """The state of one plan's construction: symbolic names and their frame indices."""

    def __init__(self, operator: Operator, desc: OpDesc, key: PlanKey, bind: Binder) -> None:
        self.operator = operator
        self.desc = desc
        self.bind = bind
        self.mask, arity_in, arity_out = key
        self.inputs, in_names = _name_slots("i", [slot.name for slot in operator.inputs], arity_in)
        self.outputs, out_names = _name_slots("o", [slot.name for slot in operator.outputs], arity_out)
        self.forward = {name: (False, at) for at, name in enumerate(in_names) if name}
        self.forward.update({name: (True, at) for at, name in enumerate(out_names) if name})
        self.in_names, self.out_names = in_names, out_names
        self.plan = GradPlan(operator.type, len(out_names))
        self.frame: dict[str, int] = {}
        self.metas: dict[str, int] = {}
        self.full: dict[str, str] = {}
        self.fill: set[int] = set()

    def build(self) -> GradPlan | None:
        plan = self.plan
        plan.differentiable = frozenset(range(len(self.out_names)))
        if self.operator.grad_maker is None:
            plan.missing = (
                f"operator {self.operator.type} has no gradient rule in oarlock; detach() its inputs or avoid it"
            )
            return plan
        descs = self._grad_descs()
        if not descs:
            return None
        for desc in descs:
            self._add(desc)
        plan.results_at = [self.frame.get(name + GRAD_SUFFIX, ABSENT) if name else ABSENT for name in self.in_names]
        plan.grads_at = [self.frame.get(name + GRAD_SUFFIX, ABSENT) if name else ABSENT for name in self.out_names]
        plan.differentiable = frozenset(index for index, at in enumerate(plan.grads_at) if at != ABSENT)
        plan.fill = frozenset(self.fill)
        plan.size = len(self.frame) + len(self.metas) + 1
        for name, at in (*self.frame.items(), *self.metas.items()):
            if name in self.forward:
                output, index = self.forward[name]
                plan.sources.append(_Source(output, index, self.metas.get(name) == at, self.full[name], at))
        return plan

    def _grad_descs(self) -> list[OpDesc]:
        desc = OpDesc(self.operator.type, self.inputs, self.outputs, dict(self.desc.attrs))
        stopped = frozenset(
            name + GRAD_SUFFIX for at, name in enumerate(self.in_names) if name and not self.mask >> at & 1
        )
        maker = self.operator.grad_maker
        return maker(desc, stopped) if maker is not None else []

    def _add(self, desc: OpDesc) -> None:
        declared = find(desc.type)
        if declared is None:
            self.plan.missing = f"operator {self.operator.type} needs {desc.type}, which oarlock does not have"
            return
        counts = {slot: len(names) for slot, names in desc.outputs.items()}
        bound = self.bind_wanted(desc, declared, counts)
        inputs: list[int | list[int]] = []
        for slot in declared.inputs:
            names = desc.inputs.get(slot.name) or []
            places = [self._place(name, slot.meta, f"{slot.name} of {desc.type}") for name in names]
            self._note_fill(names, slot.optional and not slot.many)
            inputs.append(places if slot.many else places[0] if places else ABSENT)
        outputs: list[int | list[int]] = []
        for slot in declared.outputs:
            names = desc.outputs.get(slot.name) or []
            places = [self._place(name, False, slot.name) for name in names]
            outputs.append(places if slot.many else places[0] if places else ABSENT)
        self.plan.ops.append(_GradOp(bound, inputs, outputs))
        self.plan.steps.append(make_step(bound.kernel, inputs, outputs, ()))

    def bind_wanted(self, desc: OpDesc, declared: Operator, counts: dict[str, int]) -> BoundOp:
        """The grad op bound to the outputs that this plan reads."""
        bound = self.bind(desc.type, desc.attrs)
        if not (declared.takes_want or declared.takes_ctx):
            return bound
        read = (slot for slot, names in desc.outputs.items() if any(name not in ("", EMPTY_VAR) for name in names))
        return bound.narrowed(frozenset(read), counts)

    def _place(self, name: str, meta: bool, slot: str) -> int:
        """The frame index of a symbolic name; a name read only for its shape has another than the full value."""
        if name in ("", EMPTY_VAR):
            return ABSENT
        if name in self.forward:
            self.full.setdefault(name, slot)
            if meta and name not in self.frame:
                return self.metas.setdefault(name, len(self.frame) + len(self.metas) + 1)
        return self.frame.setdefault(name, len(self.frame) + len(self.metas) + 1)

    def _note_fill(self, names: Sequence[str], optional: bool) -> None:
        if optional:
            return
        for name in names:
            if name.endswith(GRAD_SUFFIX):
                output, index = self.forward.get(name[: -len(GRAD_SUFFIX)], (False, 0))
                if output:
                    self.fill.add(index)


def _name_slots(prefix: str, slots: Sequence[str], arity: Sequence[int]) -> tuple[dict[str, list[str]], list[str]]:
    """Symbolic argument names by slot, and the same as a flat list aligned with flat arguments ('' if absent)."""
    by_slot: dict[str, list[str]] = {}
    flat: list[str] = []
    for slot, count in zip(slots, arity, strict=True):
        if count == -2:
            flat.append("")
            continue
        names = [f"{prefix}{len(flat) + i}" for i in range(1 if count == -1 else count)]
        flat.extend(names)
        by_slot[slot] = names
    return by_slot, flat
