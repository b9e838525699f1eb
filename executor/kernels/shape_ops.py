"""Operators that only change a shape: reshape, squeeze, unsqueeze, flatten, views; and shape, size."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...ir.dtypes import to_numpy
from ...ir.registry import OpContext, Operator, operator
from ..values import Array, Meta
from .common import as_ints, follow_rank, normalize_axis, x_shape

__all__ = [
    "flatten2",
    "flatten_contiguous_range",
    "reshape",
    "reshape2",
    "shape",
    "size",
    "squeeze2",
    "unsqueeze2",
]

Ints = Sequence[int]
_BOTH = frozenset({"Out", "XShape"})


def _target_shape(x: Array, wanted: Ints) -> list[int]:
    """The shape that ``wanted`` means for ``x``: 0 copies the dimension at its place, one -1 is worked out.

    A 0 past the last dimension of ``x`` is a dimension of no elements.
    """
    if sum(size == -1 for size in wanted) > 1 or any(size < -1 for size in wanted):
        raise ValueError(f"shape is {list(wanted)}, it may hold one -1 and no other negative size")
    sizes = [x.shape[i] if size == 0 and i < x.ndim else size for i, size in enumerate(wanted)]
    if -1 in sizes:
        copied = [i for i, size in enumerate(wanted) if size == 0 and i < x.ndim]
        left = math.prod(size for i, size in enumerate(x.shape) if i not in copied)
        known = math.prod(size for i, size in enumerate(sizes) if size != -1 and i not in copied)
        sizes[sizes.index(-1)] = left // known if known else 0
    if math.prod(sizes) != x.size:
        raise ValueError(_misfit(x.shape, wanted))
    return sizes


def _misfit(shape: Ints, wanted: Ints) -> str:
    message = f"X has shape {list(shape)} ({math.prod(shape)} elements) and does not fit shape {list(wanted)}"
    if len(shape) and len(wanted) and 0 < wanted[0] != shape[0]:
        return (
            f"{message}: the file fixes the batch (first dimension) to {wanted[0]}; feed that batch, "
            "or export the model with 0 or -1 there"
        )
    return f"{message}: the file fixes these sizes, feed an input of the size it was exported for"


def _reshaped(x: Array, shape_tensor: Any, shape_tensors: list[Any], shape: Ints) -> Array:
    wanted = as_ints(shape_tensors) if shape_tensors else shape if shape_tensor is None else as_ints(shape_tensor)
    if x.size and 0 not in wanted and min(wanted, default=1) >= -1:
        with contextlib.suppress(ValueError):  # told in our own words below
            return x.reshape(wanted)
    return x.reshape(_target_shape(x, wanted))


@operator("reshape", inputs="X Shape? ShapeTensor*", outputs="Out", ignores="use_quantizer")
def reshape(x: Array, shape_tensor: Any, shape_tensors: list[Any], *, shape: Ints = ()) -> Array:
    """A view with another shape; ShapeTensor (one tensor a size) goes before Shape, before the attribute."""
    return _reshaped(x, shape_tensor, shape_tensors, shape)


@reshape.gradient(takes="X Out Out@GRAD", gives="X@GRAD")
def reshape_grad(x: Array, out: Array, d_out: Array) -> Array:
    """The gradient in X's shape."""
    return d_out.reshape(x.shape)


@operator("reshape2", inputs="X Shape? ShapeTensor*", outputs="Out XShape", ignores="use_quantizer")
def reshape2(
    x: Array,
    shape_tensor: Any,
    shape_tensors: list[Any],
    *,
    shape: Ints = (),
    want: frozenset[str] = _BOTH,
) -> tuple[Array, Array | None]:
    """As :func:`reshape`; XShape keeps X's shape for the gradient."""
    out = _reshaped(x, shape_tensor, shape_tensors, shape)
    return out, x_shape(x) if "XShape" in want else None


def _squeezed(x: Array, axes: Ints) -> Array:
    if not axes:
        return x.reshape([size for size in x.shape if size != 1])
    drop = {normalize_axis(axis, x.ndim) for axis in axes}
    return x.reshape([size for i, size in enumerate(x.shape) if not (i in drop and size == 1)])


def _unsqueezed(x: Array, axes: Ints) -> Array:
    shape = list(x.shape)
    for axis in axes:
        place = axis + len(shape) + 1 if axis < 0 else axis
        if not 0 <= place <= len(shape):
            raise ValueError(f"axes holds {axis}, outside a tensor of {len(shape)} dimension(s) and a new one")
        shape.insert(place, 1)
    return x.reshape(shape)


def _flattened(x: Array, axis: int) -> Array:
    if not 0 <= axis <= x.ndim:
        raise ValueError(f"axis is {axis}, it lies between 0 and the {x.ndim} dimension(s) of X")
    if x.ndim == 0:
        return x.reshape(1)
    return x.reshape(math.prod(x.shape[:axis]), math.prod(x.shape[axis:]))


@operator("squeeze", inputs="X", outputs="Out")
def squeeze(x: Array, *, axes: Ints = (), ctx: OpContext | None = None) -> Array:
    """Drop the dimensions of size 1 among ``axes`` (all of size 1 when there are none)."""
    return follow_rank(_squeezed(x, axes), ctx.declared("Out") if ctx is not None else None)


@operator("squeeze2", inputs="X", outputs="Out XShape")
def squeeze2(
    x: Array, *, axes: Ints = (), want: frozenset[str] = _BOTH, ctx: OpContext | None = None
) -> tuple[Array, Array | None]:
    """As :func:`squeeze`; an axis whose size is not 1 stays."""
    listed = [axes] if isinstance(axes, int) else axes
    out = follow_rank(_squeezed(x, listed), ctx.declared("Out") if ctx is not None else None)
    return out, x_shape(x) if "XShape" in want else None


@operator("unsqueeze", inputs="X AxesTensor? AxesTensorList*", outputs="Out")
def unsqueeze(x: Array, axes_tensor: Any, axes_tensors: list[Any], *, axes: Ints = ()) -> Array:
    """Insert dimensions of size 1, one axis after the other."""
    return _unsqueezed(x, _axes_of(axes_tensor, axes_tensors, axes))


@operator("unsqueeze2", inputs="X AxesTensor? AxesTensorList*", outputs="Out XShape")
def unsqueeze2(
    x: Array,
    axes_tensor: Any,
    axes_tensors: list[Any],
    *,
    axes: Ints = (),
    want: frozenset[str] = _BOTH,
) -> tuple[Array, Array | None]:
    """As :func:`unsqueeze`; axes given as tensors go before the attribute."""
    out = _unsqueezed(x, _axes_of(axes_tensor, axes_tensors, axes))
    return out, x_shape(x) if "XShape" in want else None


def _axes_of(tensor: Any, tensors: list[Any], axes: Ints) -> Ints:
    return as_ints(tensors) if tensors else axes if tensor is None else as_ints(tensor)


@operator("flatten", inputs="X", outputs="Out")
def flatten(x: Array, *, axis: int = 1) -> Array:
    """A matrix: the dimensions before ``axis`` by those from it on."""
    return _flattened(x, axis)


@operator("flatten2", inputs="X", outputs="Out XShape")
def flatten2(x: Array, *, axis: int = 1, want: frozenset[str] = _BOTH) -> tuple[Array, Array | None]:
    """As :func:`flatten`."""
    return _flattened(x, axis), x_shape(x) if "XShape" in want else None


@operator("flatten_contiguous_range", inputs="X", outputs="Out XShape")
def flatten_contiguous_range(
    x: Array, *, start_axis: int = 1, stop_axis: int = 1, want: frozenset[str] = _BOTH
) -> tuple[Array, Array | None]:
    """Join the dimensions from ``start_axis`` to ``stop_axis`` (included); a 0-d input becomes [1]."""
    first, last = normalize_axis(start_axis, x.ndim), normalize_axis(stop_axis, x.ndim)
    if x.ndim and last < first:
        raise ValueError(f"stop_axis {stop_axis} lies before start_axis {start_axis}")
    out = x.reshape(*x.shape[:first], math.prod(x.shape[first : last + 1]), *x.shape[last + 1 :])
    return out, x_shape(x) if "XShape" in want else None


for _forward in (squeeze, unsqueeze, flatten):

    @_forward.gradient(takes="X~ Out@GRAD", gives="X@GRAD")
    def _restored(x: Array | Meta, d_out: Array, *rest: Any) -> Array:
        """The gradient in X's shape."""
        return d_out.reshape(x.shape)


def _restore(forward: Operator, takes: str = "XShape Out@GRAD") -> Operator:
    """Declare the gradient of an operator whose XShape holds X's shape behind a leading 0."""

    @forward.gradient(takes=takes, gives="X@GRAD")
    def grad(xshape: Array | Meta, d_out: Array, *axes: Any) -> Array:
        """The gradient in X's shape."""
        return d_out.reshape(xshape.shape[1:])

    return grad


reshape2_grad = _restore(reshape2)
squeeze2_grad = _restore(squeeze2)
unsqueeze2_grad = _restore(unsqueeze2, "XShape Out@GRAD AxesTensor? AxesTensorList*")
flatten2_grad = _restore(flatten2)
flatten_contiguous_range_grad = _restore(flatten_contiguous_range)


def _repeat_forward(grad: Operator, forward: str, rest: str = "") -> None:
    """The gradient of a linear operator's gradient is the operator itself."""
    grad.gradient_op(forward, takes=f"X=X@GRAD@GRAD {rest}", gives="Out=Out@GRAD@GRAD")


_repeat_forward(squeeze2_grad, "squeeze2")
_repeat_forward(unsqueeze2_grad, "unsqueeze2", "AxesTensor? AxesTensorList*")
_repeat_forward(flatten2_grad, "flatten2")
_repeat_forward(flatten_contiguous_range_grad, "flatten_contiguous_range")


@reshape2_grad.gradient(takes="Out@GRAD~ X@GRAD@GRAD", gives="Out@GRAD@GRAD")
def reshape2_grad_grad(d_out: Array | Meta, dd_x: Array) -> Array:
    """The gradient of a gradient in the shape of the forward output."""
    return dd_x.reshape(d_out.shape)


def _shape_of(dtype: type[np.integer[Any]]) -> Callable[[Any], Array]:
    def kernel(x: Any) -> Array:
        """The sizes of the dimensions, shape [ndim]."""
        return np.array(x.shape, dtype)

    return kernel


shape = operator("shape", inputs="Input~", outputs="Out", gradient=None)(_shape_of(np.int32))
shape64 = operator("shape64", inputs="Input~", outputs="Out", gradient=None)(_shape_of(np.int64))
"""As ``shape`` with int64, which programs of 3.x use."""


@operator("size", inputs="Input~", outputs="Out", gradient=None)
def size(x: Any, *, ctx: OpContext | None = None) -> Array:
    """The number of elements, int64."""
    return follow_rank(np.asarray(math.prod(x.shape), np.int64), ctx.declared("Out") if ctx is not None else None)


@operator("view_shape", inputs="input", outputs="out")
def view_shape(x: Array, *, dims: Ints = ()) -> Array:
    """A view with another shape."""
    return x.reshape(_target_shape(x, dims))


@view_shape.gradient(takes="input out@GRAD", gives="input@GRAD")
def view_shape_grad(x: Array, d_out: Array) -> Array:
    """The gradient in the input's shape."""
    return d_out.reshape(x.shape)


def _as_dtype(x: Array, dtype: np.dtype[Any]) -> Array:
    """The bytes of ``x`` as another element type; the last dimension shrinks or grows with the item size."""
    if dtype.itemsize == x.dtype.itemsize:
        return np.ascontiguousarray(x).view(dtype).reshape(x.shape)
    if x.ndim == 0:
        raise ValueError(f"a 0-d {x.dtype} tensor cannot be viewed as {dtype}, whose item size differs")
    if x.shape[-1] * x.dtype.itemsize % dtype.itemsize:
        raise ValueError(f"the last dimension of shape {list(x.shape)} {x.dtype} does not divide into {dtype}")
    return np.ascontiguousarray(x).view(dtype)


@operator("view_dtype", inputs="input", outputs="out")
def view_dtype(x: Array, *, dtype: int) -> Array:
    """The same bytes read as another element type."""
    return _as_dtype(x, to_numpy(dtype))


@view_dtype.gradient(takes="input out@GRAD", gives="input@GRAD")
def view_dtype_grad(x: Array, d_out: Array) -> Array:
    """The gradient's bytes read as the input's element type."""
    return _as_dtype(d_out, x.dtype)
