"""``x[index]`` and ``x[index] = value`` with gradients. Indices mean what they mean to numpy.

Basic indices (numbers, slices, None, Ellipsis) give views that share memory and version; tensors, lists and masks
give copies.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import InputError
from ..executor.kernels.common import unbroadcast
from ..executor.values import Array, Meta
from .graph import GradNode
from .inplace_core import check_leaf, write_region
from .mode import state
from .operands import as_tensor
from .tensor import Tensor, view_of, wrap

__all__ = ["get_item", "set_item"]


class IndexRangeError(InputError, IndexError):
    """An index lies outside the tensor, or there are more indices than dimensions."""


def _plain(index: Any) -> Any:
    """One index as numpy takes it: tensors as arrays, one-element integers as ints, arrays copied."""
    if isinstance(index, slice):
        return slice(*(None if each is None else int(each) for each in (index.start, index.stop, index.step)))
    if isinstance(index, Tensor):
        index = index._array
    if isinstance(index, (list, range)):
        index = np.array([each._array if isinstance(each, Tensor) else each for each in index])
        index = index.astype(np.int64) if index.size == 0 else index
    if isinstance(index, (np.ndarray, np.generic)):
        if index.dtype.kind not in "iub":
            raise InputError(f"an index is made of integers or bools, not {index.dtype}")
        if index.ndim == 0 and index.dtype.kind in "iu":
            return int(index)
        return np.array(index)
    if index is None or index is Ellipsis or isinstance(index, (int, bool, np.integer)):
        return index
    raise InputError(f"{type(index).__name__} is no index: use numbers, slices, None, Ellipsis, tensors or lists")


def _normalized(index: Any) -> tuple[tuple[Any, ...], bool]:
    """The index as a tuple that numpy takes, and whether it is basic (the result is a view)."""
    parts = tuple(_plain(each) for each in index) if isinstance(index, tuple) else (_plain(index),)
    basic = not any(isinstance(each, (np.ndarray, bool)) for each in parts)
    # With an Ellipsis, numpy gives a 0-d array, which is a view, and not a number.
    return (parts if not basic or Ellipsis in parts else (*parts, Ellipsis)), basic


def _picked(array: Array, index: tuple[Any, ...]) -> Array:
    try:
        return np.asarray(array[index])
    except IndexError as error:
        raise IndexRangeError(f"(InvalidArgument) index of a tensor of shape {list(array.shape)}: {error}") from None


class _PickNode(GradNode):
    """Gradient of ``x[index]``: added into zeros at the index."""

    __slots__ = ("index", "source")

    def __init__(self, x: Tensor, index: tuple[Any, ...], out: Tensor) -> None:
        super().__init__((x,), (out._meta(),))
        self.index = index
        self.source = x._meta()

    def name(self) -> str:
        return "SliceGradNode"

    def apply(self, grads: list[Array | None]) -> Sequence[Array | None]:
        grad = grads[0]
        return (None if grad is None else _spread(grad, self.index, self.source),)

    def apply_graph(self, grads: list[Tensor | None]) -> Sequence[Tensor | None]:
        grad = grads[0]
        if grad is None:
            return (None,)
        out = wrap(_spread(grad._array, self.index, self.source))
        if not grad._stop:
            out._edge, out._stop = (_SpreadNode(grad, self.index, out), 0), False
        return (out,)


class _SpreadNode(GradNode):
    """Gradient of the gradient of ``x[index]``: picked at the index."""

    __slots__ = ("index",)

    def __init__(self, grad: Tensor, index: tuple[Any, ...], out: Tensor) -> None:
        super().__init__((grad,), (out._meta(),))
        self.index = index

    def apply(self, grads: list[Array | None]) -> Sequence[Array | None]:
        return tuple(None if each is None else np.array(each[self.index]) for each in grads)

    def apply_graph(self, grads: list[Tensor | None]) -> Sequence[Tensor | None]:
        return tuple(None if each is None else _get(each, self.index, basic=False) for each in grads)


def _spread(grad: Array, index: tuple[Any, ...], source: Meta) -> Array:
    spread = np.zeros(source.shape, source.dtype)
    if any(isinstance(each, np.ndarray) and each.dtype != np.bool_ for each in index):
        np.add.at(spread, index, grad)
    else:
        spread[index] = grad
    return spread


def get_item(x: Tensor, index: Any) -> Tensor:
    """``x[index]``.

    Raises:
        IndexRangeError: a position is outside.
        InputError: something is no index.
    """
    return _get(x, *_normalized(index))


def _get(x: Tensor, index: tuple[Any, ...], basic: bool) -> Tensor:
    picked = _picked(x._array, index)
    out = view_of(x, picked) if basic else wrap(picked)
    if not x._stop and state.enabled:
        out._edge, out._stop = (_PickNode(x, index, out), 0), False
    elif basic and not x._stop:
        out._family = object()
    return out


class _PutNode(GradNode):
    """Gradient of ``x`` after ``x[index] = value``: zero at the index for the old ``x``, the rest for the value."""

    __slots__ = ("index", "value")

    def __init__(self, x: Tensor, index: tuple[Any, ...], value: Tensor) -> None:
        super().__init__((None if x._stop else x, None if value._stop else value), (x._meta(),))
        self.index = index
        self.value = value._meta()

    def name(self) -> str:
        return "SetValueWithTensorGradNode"

    def apply(self, grads: list[Array | None]) -> Sequence[Array | None]:
        grad = grads[0]
        if grad is None:
            return (None, None)
        given = None
        if self.edges[1] is not None:
            given = _narrowed(np.asarray(grad[self.index]), self.value)
        old = None
        if self.edges[0] is not None:
            old = np.array(grad)
            old[self.index] = 0
        return (old, given)


def _narrowed(grad: Array, value: Meta) -> Array:
    """The gradient of a value that was broadcast; leading axes of size one may have been dropped."""
    extra = max(0, value.ndim - grad.ndim)
    return unbroadcast(grad, value.shape[extra:]).reshape(value.shape).astype(value.dtype, copy=False)


def set_item(x: Tensor, index: Any, value: Any) -> None:
    """``x[index] = value``, in place and recorded when ``x`` or the value needs a gradient.

    Raises:
        InputError: ``x`` is a leaf that needs a gradient, the value does not broadcast, or something is no index.
    """
    needed = state.enabled and (not x._stop or (isinstance(value, Tensor) and not value._stop))
    if needed:
        check_leaf(x, "Tensor")
    where, _ = _normalized(index)
    given = as_tensor(value, x)
    kind = x._array.dtype
    if given._array.dtype.kind == "c" and kind.kind != "c":
        raise InputError(f"(InvalidArgument) a {given._array.dtype} value does not fit into a {kind} tensor")
    region = _picked(x._array, where)
    fitted = given._array
    if fitted.ndim > region.ndim and all(n == 1 for n in fitted.shape[: fitted.ndim - region.ndim]):
        fitted = fitted.reshape(fitted.shape[fitted.ndim - region.ndim :])
    try:
        spread = np.broadcast_to(fitted, region.shape)
    except ValueError:
        raise InputError(
            f"(InvalidArgument) a value of shape {given.shape} does not fit into the selected {list(region.shape)}"
        ) from None
    converted = spread.astype(kind)
    edge = (_PutNode(x, where, given), 0) if needed else None
    write_region(x, where, converted, "set_value", edge)
