"""Runs one operator on tensors: the same kernel as the static interpreter, and a grad node where one is wanted.

Everything that depends on the operator and its attributes alone is worked out once and kept in a
:class:`BoundOp`: the kernel with its attributes, and per set of wanted gradients a :class:`~.tape.GradPlan`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from ..errors import InputError, KernelError, OarlockError, UnsupportedOpError
from ..executor import kernels as _kernels  # noqa: F401  sets the loader of operator families
from ..executor.values import LoDTensor, Meta
from ..ir import BlockDesc, OpDesc, ProgramDesc
from ..ir.binding import bind_attrs
from ..ir.registry import OpContext, Operator, find
from .mode import state
from .storage import Storage, same_memory
from .tape import GradPlan, OpNode, PlanKey
from .tensor import Tensor, view_of, wrap

__all__ = ["BoundOp", "bind", "trace_op"]

VIEW_OPS: Final = frozenset(
    [
        "reshape",
        "reshape2",
        "transpose",
        "transpose2",
        "squeeze",
        "squeeze2",
        "unsqueeze",
        "unsqueeze2",
        "flatten",
        "flatten2",
        "flatten_contiguous_range",
        "slice",
        "strided_slice",
        "split",
        "unbind",
        "unstack",
        "diagonal",
        "as_strided",
        "view_shape",
        "view_dtype",
        "real",
        "imag",
    ]
)
"""Operators whose result stays a view of their input, with its version; others always give fresh memory."""

_new = object.__new__

Argument = Any
"""A Tensor, None for an absent one, a list of Tensors for a list slot, or a Meta."""


class BoundOp:
    """An operator with its attributes, ready to be called with tensors in slot order.

    Attributes:
        operator: the declaration.
        kernel: its function with attributes bound.
        desc: an op description with these attributes and no arguments.
    """

    __slots__ = (
        "absent",
        "count",
        "counts",
        "desc",
        "flat",
        "kernel",
        "operator",
        "plans",
        "plural",
        "simple",
        "single",
        "view",
    )

    def __init__(
        self,
        operator: Operator,
        attrs: Mapping[str, Any],
        counts: Mapping[str, int],
        want: frozenset[str] | None = None,
    ) -> None:
        self.operator = operator
        self.desc = OpDesc(operator.type, attrs=dict(attrs))
        self.counts = counts
        self.view = operator.type in VIEW_OPS
        self.count = len(operator.inputs)
        self.absent: tuple[Argument, ...] = tuple([] if slot.many else None for slot in operator.inputs)
        self.plural = any(slot.many for slot in operator.inputs)
        self.flat = not (operator.lod or any(slot.many for slot in operator.outputs))
        self.single = len(operator.outputs) == 1
        self.kernel: Callable[..., Any] = _bound_kernel(operator, self.desc, counts, want)
        self.plans: dict[PlanKey, GradPlan | None] = {}
        self.simple: dict[int, GradPlan | None] = {}

    def narrowed(self, want: frozenset[str], counts: Mapping[str, int]) -> BoundOp:
        """The same op when only the output slots in ``want`` are read."""
        return BoundOp(self.operator, self.desc.attrs, counts, want)

    def __call__(self, *inputs: Argument) -> Any:
        """Run on tensors in slot order, optional ones at the end may be left out.

        Returns:
            The output tensor, or a tuple of them in slot order (None where not computed).
        """
        if len(inputs) < self.count:
            inputs += self.absent[len(inputs) :]
        if not self.flat:
            return self._call_general(inputs)
        given = inputs
        if self.plural:
            given = _without_empty_end(inputs)
        arrays: list[Any] = []
        mask = 0
        bit = 1
        for each in given:
            if isinstance(each, Tensor):
                arrays.append(each._array)
                if not each._stop:
                    mask |= bit
            elif each is None:
                arrays.append(None)
                mask |= bit << 16
            else:
                return self._call_general(inputs)
            bit += bit
        try:
            value = self.kernel(*arrays) if given is inputs else self.kernel(*arrays, *inputs[len(given) :])
        except Exception as error:
            raise self.explain(error, inputs) from error
        out: Any
        if self.single:
            out = self._wrap(value, arrays, given)
            outputs: tuple[Any, ...] = (out,)
        else:
            out = outputs = tuple([None if each is None else self._wrap(each, arrays, given) for each in value])
        if mask & 0xFFFF:
            if state.enabled:
                self._record_flat(mask, inputs, given, outputs)
            elif self.view:
                outputs[0]._family = object()
        return out

    def _record_flat(
        self, mask: int, inputs: Sequence[Argument], given: Sequence[Argument], outputs: tuple[Any, ...]
    ) -> None:
        """Give the outputs their history, where no slot holds a list. The high bits of ``mask`` mark absent inputs.

        ``given`` are the inputs without empty lists.
        """
        if not self.single:
            for index, each in enumerate(outputs):
                if each is None:
                    mask |= 1 << 32 + index
        try:
            plan = self.simple[mask]
        except KeyError:
            plan = self.simple[mask] = self.plan(mask & 0xFFFF, inputs, outputs)
        if plan is not None:
            node = OpNode.record(plan, given, mask, outputs)
            for index in plan.differentiable:
                out = outputs[index]
                out._edge = (node, index)
                out._stop = False

    def _call_general(self, inputs: Sequence[Argument]) -> Any:
        flat = flatten(inputs)
        values = self.compute(inputs)
        arrays = [each._array if isinstance(each, Tensor) else None for each in flat]
        outputs = tuple([self._wrap_slot(value, arrays, flat) for value in values])
        mask = needs_gradient(flat)
        if mask and state.enabled:
            self._record(mask, inputs, outputs)
        elif mask and self.view:
            for each in flatten(outputs):
                if each is not None:
                    each._family = object()
        return outputs[0] if len(outputs) == 1 else outputs

    def _record(self, mask: int, inputs: Sequence[Argument], outputs: Sequence[Any]) -> None:
        """Give the outputs their history. ``mask`` has a bit per flat input that needs a gradient."""
        plan = self.plan(mask, inputs, outputs)
        if plan is None:
            return
        flat_in, flat_out = flatten(inputs), flatten(outputs)
        node = OpNode.record(plan, flat_in, mask, flat_out)
        for index in plan.differentiable:
            if flat_out[index] is not None:
                flat_out[index]._edge = (node, index)
                flat_out[index]._stop = False

    def compute(self, inputs: Sequence[Argument]) -> tuple[Any, ...]:
        """The kernel's values, one entry per output slot, without any tensor around them.

        Raises:
            KernelError: the kernel refused its inputs.
        """
        arrays = [_value(each, self.operator.lod) for each in inputs]
        try:
            values = self.kernel(*arrays)
        except Exception as error:
            raise self.explain(error, inputs) from error
        return (values,) if len(self.operator.outputs) == 1 else tuple(values)

    def plan(self, mask: int, inputs: Sequence[Argument], outputs: Sequence[Any]) -> GradPlan | None:
        """How this op runs backward for these inputs; None when Paddle has no gradient for it.

        A grad op without a rule of its own has a plan that raises: passing it over would lose part of a second
        derivative.
        """
        operator = self.operator
        if not operator.differentiable and operator.grad_maker is None and operator.forward_of is None:
            return None
        key: PlanKey = (mask, _arity(inputs), _arity(outputs))
        if key not in self.plans:
            self.plans[key] = GradPlan.build(operator, self.desc, key, bind)
        return self.plans[key]

    def _wrap(self, value: Any, arrays: Sequence[Any], inputs: Sequence[Argument]) -> Tensor:
        """A tensor around a kernel's value; a view where this op makes views, else memory of its own."""
        if type(value) is not np.ndarray:
            if isinstance(value, LoDTensor):
                made = self._wrap(value.array, arrays, inputs)
                made._lod = value.lod
                return made
            value = np.asarray(value)
        whole = value.base is None
        for held in arrays:
            if value is held or not (whole or held is None or not same_memory(value, held)):
                source = inputs[next(index for index, each in enumerate(arrays) if each is held)]
                return view_of(source, value) if self.view and value.size else wrap(value.copy())
        made = _new(Tensor)
        made._array = value
        made._storage = Storage()
        return made

    def _wrap_slot(self, value: Any, arrays: Sequence[Any], inputs: Sequence[Argument]) -> Any:
        if value is None:
            return None
        if type(value) in (list, tuple):
            return [None if each is None else self._wrap(each, arrays, inputs) for each in value]
        return self._wrap(value, arrays, inputs)

    def explain(self, error: Exception, inputs: Sequence[Argument]) -> Exception:
        """What a caller sees when a kernel refuses: the op and its inputs beside the kernel's own words."""
        if isinstance(error, OarlockError):
            return error
        shapes = ", ".join(
            f"{slot.name}={_describe(each)}" for slot, each in zip(self.operator.inputs, inputs, strict=False)
        )
        message = f"(InvalidArgument) {self.operator.type}({shapes}): {error}"
        return TypeError(message) if isinstance(error, TypeError) else KernelError(message)


def _without_empty_end(inputs: tuple[Argument, ...]) -> tuple[Argument, ...]:
    """The inputs before the empty lists at their end."""
    count = len(inputs)
    while count and inputs[count - 1].__class__ is list and not inputs[count - 1]:
        count -= 1
    return inputs[:count]


def _describe(value: Argument) -> str:
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_describe(each) for each in value)}]"
    if isinstance(value, (Tensor, Meta)):
        array = value._array if isinstance(value, Tensor) else value
        return f"{array.dtype.name}{list(array.shape)}"
    return repr(value)


def _value(each: Argument, lod: bool) -> Any:
    if isinstance(each, Tensor):
        return LoDTensor(each._array, each._lod) if lod and each._lod else each._array
    if isinstance(each, (list, tuple)):
        return [_value(one, lod) for one in each]
    return each


def flatten(arguments: Sequence[Argument]) -> list[Any]:
    """Arguments with list slots opened."""
    flat: list[Any] = []
    for each in arguments:
        if type(each) in (list, tuple):
            flat.extend(each)
        else:
            flat.append(each)
    return flat


def needs_gradient(flat: Sequence[Argument]) -> int:
    """A number with a bit set per flat input that needs a gradient."""
    mask = 0
    for index, each in enumerate(flat):
        if isinstance(each, Tensor) and not each._stop:
            mask |= 1 << index
    return mask


def _arity(arguments: Sequence[Argument]) -> tuple[int, ...]:
    """Per argument: the length of a list, -1 for one value, -2 for none."""
    return tuple(-2 if each is None else len(each) if type(each) in (list, tuple) else -1 for each in arguments)


class _Newest(dict[str, int]):
    """Operator versions of a program written today: newer than any change of meaning."""

    def get(self, key: str, default: Any = None) -> Any:
        return 1_000_000


_EAGER_BLOCK: Final = BlockDesc(0)
_EAGER_PROGRAM: Final = ProgramDesc([_EAGER_BLOCK], op_versions=_Newest())


def _bound_kernel(
    operator: Operator, desc: OpDesc, counts: Mapping[str, int], want: frozenset[str] | None
) -> Callable[..., Any]:
    if operator.takes_env:
        raise UnsupportedOpError({operator.type: 1}, "eager mode (it needs the variables of a block)")
    bound = bind_attrs(operator, desc, f"operator {operator.type}")
    if operator.takes_want:
        bound["want"] = frozenset(slot.name for slot in operator.outputs) if want is None else want
    if operator.takes_ctx:
        outputs = {
            slot.name: [f"{slot.name}.{i}" for i in range(counts.get(slot.name, 1))] for slot in operator.outputs
        }
        bound["ctx"] = OpContext(OpDesc(operator.type, outputs=outputs, attrs=desc.attrs), _EAGER_BLOCK, _EAGER_PROGRAM)
    return functools.partial(operator.kernel, **bound) if bound else operator.kernel


_bound: dict[Any, BoundOp] = {}
_LIMIT: Final = 8192


def bind(type: str, attrs: Mapping[str, Any] | None = None, counts: Mapping[str, int] | None = None) -> BoundOp:
    """The operator with these attributes, from the cache when it was bound before.

    Args:
        counts: list output slot -> number of outputs, where the operator cannot tell by itself.

    Raises:
        UnsupportedOpError: oarlock has no such operator.
        ProgramError: a required attribute is missing or has a value that is not supported.
    """
    key: Any = type
    if attrs:
        key = (type, *attrs, *[tuple(each) if each.__class__ is list else each for each in attrs.values()])
    if counts:
        key = (key, *counts.items())
    try:
        found = _bound.get(key)
    except TypeError:
        key = (type, _frozen(attrs), _frozen(counts))
        found = _bound.get(key)
    if found is None:
        operator = find(type)
        if operator is None:
            raise UnsupportedOpError({type: 1}, "eager mode")
        found = BoundOp(operator, attrs or {}, counts or {})
        if len(_bound) >= _LIMIT:
            _bound.clear()
        _bound[key] = found
    return found


def _frozen(value: Any) -> Any:
    """A hashable stand-in for attribute values."""
    if isinstance(value, Mapping):
        return tuple((name, _frozen(each)) for name, each in value.items())
    if isinstance(value, (list, tuple)):
        return tuple(_frozen(each) for each in value)
    if isinstance(value, np.ndarray):
        return (value.shape, value.dtype.str, value.tobytes())
    return value


def trace_op(
    type: str,
    inputs: Mapping[str, Argument],
    attrs: Mapping[str, Any] | None = None,
    counts: Mapping[str, int] | None = None,
) -> dict[str, Any]:
    """Run one operator by slots.

    Args:
        type: the operator.
        inputs: slot -> Tensor, or a list of Tensors.
        attrs: attribute -> value; absent ones take their registered default.
        counts: list output slot -> number of outputs.

    Returns:
        Slot -> Tensor, list of Tensors, or None where the operator did not compute it.

    Raises:
        InputError: a slot is unknown or a required one is missing.
    """
    bound = bind(type, attrs, counts)
    slots = bound.operator.inputs
    known = {slot.name for slot in slots}
    for name in inputs:
        if name not in known:
            raise InputError(f"operator {type} has no input slot {name}, it takes {', '.join(sorted(known))}")
    arguments: list[Argument] = []
    for slot in slots:
        value = inputs.get(slot.name)
        if slot.many:
            value = [] if value is None else list(value) if isinstance(value, (list, tuple)) else [value]
        elif isinstance(value, (list, tuple)):
            value = value[0] if value else None
        if value is None and not slot.optional:
            raise InputError(f"operator {type} needs input slot {slot.name}")
        arguments.append(value)
    outputs = bound(*arguments)
    names = [slot.name for slot in bound.operator.outputs]
    return {names[0]: outputs} if len(names) == 1 else dict(zip(names, outputs, strict=True))
