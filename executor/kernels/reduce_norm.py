"""Reductions to a length: p-norms, logsumexp, l2-normalisation; the median of what is not nan."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ...ir.registry import OpContext, operator
from ..values import Array
from .common import accumulate_dtype, normalize_axis
from .reduce import expanded, reduced_axes, shaped

__all__ = ["frobenius_norm", "logsumexp", "nanmedian", "norm", "p_norm"]


def _wide(x: Array) -> Array:
    return x.astype(accumulate_dtype(x.dtype), copy=False)


@operator("logsumexp", inputs="X", outputs="Out")
def logsumexp(
    x: Array,
    *,
    axis: Sequence[int] = (0,),
    keepdim: bool = False,
    reduce_all: bool = False,
    ctx: OpContext | None = None,
) -> Array:
    """``log(sum(exp(x)))`` over axes, computed from the largest element on."""
    axes = reduced_axes(x.ndim, axis, reduce_all)
    data = _wide(x)
    peak = np.maximum.reduce(data, axis=axes, keepdims=True, initial=-np.inf)
    peak = np.where(np.isfinite(peak), peak, data.dtype.type(0))
    with np.errstate(divide="ignore"):  # nothing but -inf gives -inf
        out = np.log(np.exp(data - peak).sum(axis=axes, keepdims=True)) + peak
    return shaped(out.astype(x.dtype, copy=False).squeeze(axes), x.shape, axes, keepdim, ctx)


@logsumexp.gradient(takes="X Out Out@GRAD", gives="X@GRAD")
def logsumexp_grad(
    x: Array, out: Array, d_out: Array, *, axis: Sequence[int] = (0,), reduce_all: bool = False
) -> Array:
    """``d_out * exp(x - out)``."""
    axes = reduced_axes(x.ndim, axis, reduce_all)
    share = np.exp(_wide(x) - _wide(expanded(out, x.shape, axes)))
    result: Array = (share * expanded(d_out, x.shape, axes)).astype(x.dtype, copy=False)
    return result


@operator("frobenius_norm", inputs="X", outputs="Out", ignores="in_dtype out_dtype")
def frobenius_norm(
    x: Array,
    *,
    dim: Sequence[int] = (0,),
    keep_dim: bool = False,
    reduce_all: bool = False,
    ctx: OpContext | None = None,
) -> Array:
    """``sqrt(sum(x^2))`` over axes."""
    axes = reduced_axes(x.ndim, dim, reduce_all)
    out = np.sqrt(np.square(_wide(x)).sum(axis=axes))
    return shaped(np.asarray(out).astype(x.dtype, copy=False), x.shape, axes, keep_dim, ctx)


@frobenius_norm.gradient(takes="X Out Out@GRAD", gives="X@GRAD")
def frobenius_norm_grad(
    x: Array, out: Array, d_out: Array, *, dim: Sequence[int] = (0,), reduce_all: bool = False
) -> Array:
    """``d_out * x / (out + 1e-12)``."""
    axes = reduced_axes(x.ndim, dim, reduce_all)
    ratio = expanded(d_out, x.shape, axes) / (expanded(out, x.shape, axes) + x.dtype.type(1e-12))
    result: Array = (x * ratio).astype(x.dtype, copy=False)
    return result


def _norm_axes(x: Array, axis: int, asvector: bool) -> tuple[int, ...]:
    return tuple(range(x.ndim)) if asvector or not x.ndim else (normalize_axis(axis, x.ndim),)


@operator("p_norm", inputs="X", outputs="Out")
def p_norm(
    x: Array,
    *,
    porder: float = 2.0,
    axis: int = -1,
    epsilon: float = 9.999999960041972e-13,
    keepdim: bool = False,
    asvector: bool = False,
    ctx: OpContext | None = None,
) -> Array:
    """The ``porder`` norm along an axis, or of all elements with ``asvector``.

    Order 0 counts what is not zero; infinite orders give the largest and smallest magnitude. ``epsilon``
    takes part in the gradient only.
    """
    axes = _norm_axes(x, axis, asvector)
    size = np.abs(_wide(x))
    if porder == 0:
        out = np.count_nonzero(size, axis=axes)
    elif math.isinf(porder):
        out = np.maximum.reduce(size, axis=axes) if porder > 0 else np.minimum.reduce(size, axis=axes)
    elif porder == 1:
        out = size.sum(axis=axes)
    elif porder == 2:
        out = np.sqrt(np.square(size).sum(axis=axes))
    else:
        with np.errstate(divide="ignore"):  # a negative order takes zeros to inf and back to zero
            kind = size.dtype.type
            out = np.power(np.power(size, kind(porder)).sum(axis=axes), kind(1) / kind(porder))
    return shaped(np.asarray(out).astype(x.dtype, copy=False), x.shape, axes, keepdim, ctx)


@p_norm.gradient(takes="X Out Out@GRAD", gives="X@GRAD")
def p_norm_grad(
    x: Array,
    out: Array,
    d_out: Array,
    *,
    porder: float = 2.0,
    axis: int = -1,
    epsilon: float = 9.999999960041972e-13,
    asvector: bool = False,
) -> Array:
    """``sign(x) * |x|^(p-1) * d_out / (out^(p-1) + epsilon)``; order 0 has none, infinite ones choose extremes."""
    if porder == 0:
        return np.zeros_like(x)
    axes = _norm_axes(x, axis, asvector)
    length, d = expanded(_wide(out), x.shape, axes), expanded(_wide(d_out), x.shape, axes)
    data = _wide(x)
    size, kind = np.abs(data), data.dtype.type
    if math.isinf(porder):
        grad = np.sign(data) * (size == length) * d
    elif porder == 1:
        grad = np.sign(data) * d
    elif porder == 2:
        grad = data * (d / (length + kind(epsilon)))
    else:
        with np.errstate(divide="ignore", invalid="ignore"):  # zeros under a negative power
            steep = np.power(size, kind(porder - 1)) * np.sign(data)
            grad = steep * (d / (np.power(length, kind(porder - 1)) + kind(epsilon)))
    result: Array = grad.astype(x.dtype, copy=False)
    return result


@operator("norm", inputs="X", outputs="Out Norm", ignores="is_test")
def norm(x: Array, *, axis: int, epsilon: float = 1.000000013351432e-10) -> tuple[Array, Array]:
    """``x / Norm`` with ``Norm = sqrt(sum(x^2) + epsilon)`` along an axis, which stays as 1."""
    data = _wide(x)
    along = normalize_axis(axis, x.ndim)
    length = np.sqrt(np.square(data).sum(axis=along, keepdims=True) + data.dtype.type(epsilon))
    return (data / length).astype(x.dtype, copy=False), length.astype(x.dtype, copy=False)


@norm.gradient(takes="X Norm Out@GRAD", gives="X@GRAD")
def norm_grad(x: Array, length: Array, d_out: Array, *, axis: int) -> Array:
    """``(d_out - x * sum(d_out * x) / Norm^2) / Norm``."""
    data, size, d = _wide(x), _wide(length), _wide(d_out)
    along = (data * d).sum(axis=normalize_axis(axis, x.ndim), keepdims=True) / np.square(size)
    result: Array = ((d - data * along) / size).astype(x.dtype, copy=False)
    return result


@operator("l1_norm", inputs="X", outputs="Out")
def l1_norm(x: Array, *, ctx: OpContext | None = None) -> Array:
    """The sum of magnitudes of all elements."""
    total = np.asarray(np.abs(_wide(x)).sum()).astype(x.dtype, copy=False)
    return shaped(total, x.shape, (), False, ctx)


@l1_norm.gradient(takes="X Out@GRAD", gives="X@GRAD")
def l1_norm_grad(x: Array, d_out: Array) -> Array:
    """``d_out * sign(x)``."""
    return np.sign(x) * d_out.reshape(())


@operator("squared_l2_norm", inputs="X", outputs="Out")
def squared_l2_norm(x: Array) -> Array:
    """The sum of squares of all elements, shape [1]."""
    flat = _wide(x).reshape(-1)
    return np.asarray(np.square(flat).sum(keepdims=True)).astype(x.dtype, copy=False)


@squared_l2_norm.gradient(takes="X Out@GRAD", gives="X@GRAD")
def squared_l2_norm_grad(x: Array, d_out: Array) -> Array:
    """``2 * d_out * x``."""
    result: Array = x * (d_out.reshape(()) * x.dtype.type(2))
    return result


def _rows_along(x: Array, axes: tuple[int, ...]) -> Array:
    """``x`` with the axes at the end as one, the others in front as rows."""
    rest = [axis for axis in range(x.ndim) if axis not in axes]
    columns = math.prod(x.shape[axis] for axis in axes)
    result: Array = x.transpose(*rest, *axes).reshape(-1, columns)
    return result


@operator("nanmedian", inputs="X", outputs="Out MedianIndex")
def nanmedian(
    x: Array, *, axis: Sequence[int] | int = (), keepdim: bool = True, ctx: OpContext | None = None
) -> tuple[Array, Array]:
    """The median of the elements that are not nan; the mean of the middle two when their number is even.

    ``MedianIndex`` holds the positions of the middle two (twice the middle one) among the reduced elements,
    -1 where all are nan.
    """
    axes = reduced_axes(x.ndim, axis, False)
    rows = _rows_along(x, axes)
    order = np.argsort(rows, axis=1, kind="stable")  # nan sorts last
    count = (~np.isnan(rows)).sum(axis=1) if x.dtype.kind == "f" else np.full(len(rows), rows.shape[1])
    middle = np.stack([np.maximum(count - 1, 0) // 2, np.maximum(count, 1) // 2], axis=1)
    index = np.take_along_axis(order, middle, axis=1)
    low, high = np.take_along_axis(rows, index, axis=1).T
    out = np.where(count > 0, (low + high) / x.dtype.type(2), x.dtype.type(np.nan)).astype(x.dtype)
    kept = [1 if each in axes else size for each, size in enumerate(x.shape)]
    dropped = [size for each, size in enumerate(x.shape) if each not in axes]
    index = np.where(count[:, None] > 0, index, -1).astype(np.int64)
    shape = kept if keepdim else dropped
    return shaped(out.reshape(dropped), x.shape, axes, keepdim, ctx), index.reshape(*shape, 2)


@nanmedian.gradient(takes="X MedianIndex Out@GRAD", gives="X@GRAD")
def nanmedian_grad(x: Array, index: Array, d_out: Array, *, axis: Sequence[int] | int = ()) -> Array:
    """The gradient goes to the middle element, or half of it to each of the middle two."""
    axes = reduced_axes(x.ndim, axis, False)
    rest = [each for each in range(x.ndim) if each not in axes]
    columns = math.prod(x.shape[each] for each in axes)
    grad = np.zeros((d_out.size, columns), x.dtype)
    pairs, d = index.reshape(-1, 2), d_out.reshape(-1)
    some = np.flatnonzero(pairs[:, 0] >= 0)
    for side in (0, 1):
        grad[some, pairs[some, side]] += d[some] / x.dtype.type(2)
    order = (*rest, *axes)
    shaped_grad = grad.reshape([x.shape[each] for each in order])
    return shaped_grad.transpose(np.argsort(order)) if order else shaped_grad.reshape(x.shape)
