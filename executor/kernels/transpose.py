"""Operators that reorder elements along axes: transpose, flip, reverse, roll."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ir.dtypes import DType, to_numpy
from ...ir.registry import operator
from ..values import Array, Meta, TensorArray
from .common import as_ints, normalize_axes, normalize_axis, x_shape
from .shape_ops import reshape, squeeze, unsqueeze

__all__ = ["flip", "fused_transpose", "reverse", "roll", "transpose", "transpose2"]

Ints = Sequence[int]
_BOTH = frozenset({"Out", "XShape"})
_BACK_END = "data_format mkldnn_data_type"


def _permutation(axis: Ints, ndim: int) -> list[int]:
    order = [normalize_axis(each, ndim) for each in axis]
    if sorted(order) != list(range(ndim)):
        raise ValueError(f"axis is {list(axis)}, not an order of the {ndim} dimension(s) of X")
    return order


def _transposed(x: Array, axis: Ints) -> Array:
    try:
        view: Array = x.transpose(axis)
    except ValueError:
        view = x.transpose(_permutation(axis, x.ndim))
    return view


def _transposed_back(d_out: Array, axis: Ints) -> Array:
    order = _permutation(axis, d_out.ndim)
    view: Array = d_out.transpose(sorted(range(d_out.ndim), key=order.__getitem__))
    return view


@operator("transpose", inputs="X", outputs="Out", ignores=_BACK_END)
def transpose(x: Array, *, axis: Ints) -> Array:
    """A view of X with its dimensions in the order ``axis``."""
    return _transposed(x, axis)


@transpose.gradient(takes="X Out Out@GRAD", gives="X@GRAD")
def transpose_grad(x: Array, out: Array, d_out: Array, *, axis: Ints) -> Array:
    """A view of the gradient with its dimensions put back."""
    return _transposed_back(d_out, axis)


@operator("transpose2", inputs="X", outputs="Out XShape", ignores=_BACK_END)
def transpose2(x: Array, *, axis: Ints, want: frozenset[str] = _BOTH) -> tuple[Array, Array | None]:
    """As :func:`transpose`; XShape keeps X's shape."""
    return _transposed(x, axis), x_shape(x) if "XShape" in want else None


@transpose2.gradient(takes="XShape Out@GRAD", gives="X@GRAD")
def transpose2_grad(xshape: Array | Meta, d_out: Array, *, axis: Ints) -> Array:
    """A view of the gradient with its dimensions put back."""
    return _transposed_back(d_out, axis)


transpose2_grad.gradient_op("transpose2", takes="X=X@GRAD@GRAD", gives="Out=Out@GRAD@GRAD")

_ONEDNN_DTYPES = {
    "fp32": DType.FP32,
    "bf16": DType.BF16,
    "int8": DType.INT8,
    "uint8": DType.UINT8,
}


@operator("fused_transpose", inputs="X", outputs="Out XShape", ignores=_BACK_END, gradient=None)
def fused_transpose(
    x: Array,
    *,
    axis: Ints,
    fused_squeeze2_axes: Ints = (),
    fused_unsqueeze2_axes: Ints = (),
    fused_reshape2_shape: Ints = (),
    scale: float = 1.0,
    shift: float = 0.0,
    output_data_type: str = "",
    want: frozenset[str] = _BOTH,
) -> tuple[Array, Array | None]:
    """Transpose with what an optimiser folded in: a squeeze before it, an unsqueeze or reshape after it, and
    ``out * scale + shift`` as another element type (integers rounded to even and clamped)."""
    out = _transposed(squeeze(x, axes=fused_squeeze2_axes) if fused_squeeze2_axes else x, axis)
    out = _converted(out, scale, shift, output_data_type)
    if fused_unsqueeze2_axes:
        out = unsqueeze(out, None, [], axes=fused_unsqueeze2_axes)
    if fused_reshape2_shape:
        out = reshape(out, None, [], shape=fused_reshape2_shape)
    return out, x_shape(x) if "XShape" in want else None


def _converted(x: Array, scale: float, shift: float, data_type: str) -> Array:
    if data_type and data_type not in _ONEDNN_DTYPES:
        raise ValueError(f"output_data_type is '{data_type}', not one of {', '.join(_ONEDNN_DTYPES)}")
    dtype = to_numpy(_ONEDNN_DTYPES[data_type]) if data_type else x.dtype
    if scale == 1.0 and shift == 0.0 and dtype == x.dtype:
        return x
    real: Array = x.astype(np.float32) * np.float32(scale) + np.float32(shift)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        real = np.clip(np.rint(real), limits.min, limits.max)
    return real.astype(dtype)


def _flipped(x: Array, axes: Ints | int) -> Array:
    listed = [axes] if isinstance(axes, int) else list(axes)
    if len(set(listed)) != len(listed):
        raise ValueError(f"axis is {listed}, it names a dimension twice")
    if listed and x.ndim == 0:
        raise ValueError(f"axis is {listed}, X has no dimension")
    backward = normalize_axes(listed, x.ndim)
    index: tuple[Any, ...] = tuple(slice(None, None, -1 if i in backward else 1) for i in range(x.ndim))
    return x[index] if index else x


@operator("flip", inputs="X", outputs="Out")
def flip(x: Array, *, axis: Ints | int | None = None, dims: Ints | int = ()) -> Array:
    """A view of X that runs backwards along ``axis`` (named ``dims`` in files from before version 1)."""
    return _flipped(x, dims if axis is None else axis)


@operator("reverse", inputs="X", outputs="Out")
def reverse(x: Any, *, axis: Ints | int) -> Any:
    """As :func:`flip`; a tensor array comes back with its entries in reverse order."""
    if isinstance(x, TensorArray):
        return TensorArray(x[::-1])
    if axis == [] or axis == ():
        raise ValueError("axis is empty, it names the dimensions to reverse")
    return _flipped(x, axis)


flip.gradient_op("flip", takes="X=Out@GRAD", gives="Out=X@GRAD")
reverse.gradient_op("reverse", takes="X=Out@GRAD", gives="Out=X@GRAD")


def _rolled(x: Array, shifts: Ints, axes: Ints) -> Array:
    if not axes:
        if len(shifts) != 1:
            raise ValueError(f"shifts holds {len(shifts)} numbers, without axis it holds one")
        return np.roll(x, shifts[0])
    if len(shifts) != len(axes):
        raise ValueError(f"shifts holds {len(shifts)} numbers and axis {len(axes)}, they go in pairs")
    return np.roll(x, tuple(shifts), tuple(normalize_axis(axis, x.ndim) for axis in axes))


@operator("roll", inputs="X ShiftsTensor?", outputs="Out")
def roll(x: Array, shifts_tensor: Any, *, shifts: Ints = (), axis: Ints = (), dims: Ints = ()) -> Array:
    """Move elements ``shifts`` places along ``axis`` (``dims`` before version 1), around the end.

    Without axes the tensor is rolled as if it were flat. ShiftsTensor goes before the attribute.
    """
    return _rolled(x, shifts if shifts_tensor is None else as_ints(shifts_tensor), axis or dims)


@roll.gradient(takes="X~ ShiftsTensor? Out@GRAD", gives="X@GRAD")
def roll_grad(
    x: Array | Meta,
    shifts_tensor: Any,
    d_out: Array,
    *,
    shifts: Ints = (),
    axis: Ints = (),
    dims: Ints = (),
) -> Array:
    """Roll the gradient back."""
    forward = shifts if shifts_tensor is None else as_ints(shifts_tensor)
    return _rolled(d_out, [-shift for shift in forward], axis or dims)


roll_grad.gradient_op("roll", takes="X=X@GRAD@GRAD ShiftsTensor?", gives="Out=Out@GRAD@GRAD")
