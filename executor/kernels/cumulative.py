"""Running reductions along an axis: cumsum, cumprod, cummax, cummin, logcumsumexp."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir.dtypes import to_numpy
from ...ir.registry import define, operator
from ..values import Array
from .common import accumulate_dtype, normalize_axis

__all__ = ["cumprod", "cumsum", "logcumsumexp"]


def _flat(x: Array, axis: int, flatten: bool) -> tuple[Array, int]:
    """The tensor and the axis to run along: all elements in a row with ``flatten``; a 0-d tensor as one."""
    if flatten or x.ndim == 0:
        return x.reshape(-1), 0
    return x, normalize_axis(axis, x.ndim)


def _accumulate(ufunc: np.ufunc, x: Array, axis: int, exclusive: bool, reverse: bool, start: Any) -> Array:
    """``ufunc.accumulate`` along an axis, from either end; ``exclusive`` leaves out the element itself."""
    data = np.flip(x, axis) if reverse else x
    out = ufunc.accumulate(data, axis=axis, dtype=x.dtype)
    if exclusive and out.shape[axis]:
        first = np.full_like(np.take(out, [0], axis), start)
        head = [slice(None)] * x.ndim
        head[axis] = slice(0, -1)
        out = np.concatenate([first, out[tuple(head)]], axis=axis)
    return np.flip(out, axis) if reverse else out


@operator("cumsum", inputs="X", outputs="Out")
def cumsum(x: Array, *, axis: int = -1, flatten: bool = False, exclusive: bool = False, reverse: bool = False) -> Array:
    """Running sums along ``axis``, or over all elements with ``flatten``; ``reverse`` sums from the end."""
    data, along = _flat(x, axis, flatten)
    wide = data.astype(accumulate_dtype(x.dtype), copy=False)
    out = _accumulate(np.add, wide, along, exclusive, reverse, 0).astype(x.dtype, copy=False)
    return out if flatten else out.reshape(x.shape)


@cumsum.gradient(takes="X Out@GRAD", gives="X@GRAD")
def cumsum_grad(
    x: Array,
    d_out: Array,
    *,
    axis: int = -1,
    flatten: bool = False,
    exclusive: bool = False,
    reverse: bool = False,
) -> Array:
    """Running sums of the gradient from the other end."""
    back: Array = cumsum(d_out, axis=axis, flatten=flatten, exclusive=exclusive, reverse=not reverse)
    return back.reshape(x.shape)


@operator("logcumsumexp", inputs="X", outputs="Out")
def logcumsumexp(
    x: Array, *, axis: int = -1, flatten: bool = False, exclusive: bool = False, reverse: bool = False
) -> Array:
    """``log`` of running sums of ``exp(x)``, computed without overflow; an empty sum gives the lowest number."""
    data, along = _flat(x, axis, flatten)
    wide = data.astype(accumulate_dtype(x.dtype), copy=False)
    lowest = np.finfo(wide.dtype).min
    out = _accumulate(np.logaddexp, wide, along, exclusive, reverse, lowest).astype(x.dtype, copy=False)
    return out if flatten else out.reshape(x.shape)


@logcumsumexp.gradient(takes="X Out Out@GRAD", gives="X@GRAD")
def logcumsumexp_grad(
    x: Array,
    out: Array,
    d_out: Array,
    *,
    axis: int = -1,
    flatten: bool = False,
    exclusive: bool = False,
    reverse: bool = False,
) -> Array:
    """``exp(x) * (sum of d_out * exp(-out) from the other end)``, in logarithms, the two signs apart."""
    options = {"axis": axis, "flatten": flatten, "exclusive": exclusive, "reverse": not reverse}
    shape = out.shape
    d = d_out.reshape(shape)
    data = x.reshape(shape).astype(accumulate_dtype(x.dtype), copy=False)
    total = np.zeros_like(data)
    with np.errstate(divide="ignore"):  # log(0) stands for no gradient
        for sign in (1, -1):
            part = np.where(d * sign > 0, np.log(np.abs(d).astype(data.dtype)) - out, -np.inf)
            gathered = logcumsumexp(part.astype(data.dtype), **options).reshape(shape)
            total += sign * np.exp(gathered + data)
    return total.astype(x.dtype, copy=False).reshape(x.shape)


@operator("cumprod", inputs="X", outputs="Out")
def cumprod(x: Array, *, dim: int) -> Array:
    """Running products along ``dim``."""
    data, along = _flat(x, dim, False)
    wide = data.astype(accumulate_dtype(x.dtype), copy=False)
    return _accumulate(np.multiply, wide, along, False, False, 1).astype(x.dtype, copy=False).reshape(x.shape)


@cumprod.gradient(takes="X Out Out@GRAD", gives="X@GRAD")
def cumprod_grad(x: Array, out: Array, d_out: Array, *, dim: int) -> Array:
    """``sum_k>=i d_out[k] * out[k] / x[i]``, with the conjugates for complex numbers.

    At the first zero of a line the quotient fails: there the products continue with the zero left out.
    Behind it every product is zero and so is every gradient.
    """
    data, along = _flat(x, dim, False)
    wide = accumulate_dtype(x.dtype)
    lines, products, d = (
        np.moveaxis(each.reshape(data.shape), along, -1).astype(wide, copy=False) for each in (x, out, d_out)
    )
    if wide.kind == "c":
        lines, products = lines.conj(), products.conj()
    zero = lines == 0
    if zero.any():
        grad = _grad_around_zeros(lines, products, d, zero)
    else:
        grad = _tail_sums(d * products)
        grad /= lines
    return np.moveaxis(grad, -1, along).astype(x.dtype, copy=False).reshape(x.shape)


def _grad_around_zeros(lines: Array, products: Array, d: Array, zero: Array) -> Array:
    """Lines with zeros: the quotient ahead of the first one, at it the products that leave it out."""
    ahead = ~np.logical_or.accumulate(zero, axis=-1)
    first = zero & np.concatenate([np.ones_like(ahead[..., :1]), ahead[..., :-1]], axis=-1)
    one = lines.dtype.type(1)
    grad = np.where(ahead, _tail_sums(d * products) / np.where(zero, one, lines), 0)
    without = np.multiply.accumulate(np.where(first, one, lines), axis=-1)
    return np.where(first, _tail_sums(d * without), grad)


def _tail_sums(x: Array) -> Array:
    """Sums from each element to the end of its line."""
    return np.flip(np.cumsum(np.flip(x, -1), axis=-1, dtype=x.dtype), -1)


def _running_extreme(ufunc: np.ufunc) -> Any:
    """The kernel of cummax or cummin: the running extreme and the latest position where it was met."""

    def kernel(x: Array, *, axis: int = -1, dtype: int = 3) -> tuple[Array, Array]:
        data, along = _flat(x, axis, False)
        out = ufunc.accumulate(data, axis=along)
        met = data == out
        if data.dtype.kind == "f":
            met |= np.isnan(data)
        shape = [1] * data.ndim
        shape[along] = -1
        position = np.arange(data.shape[along]).reshape(shape)
        index = np.maximum.accumulate(np.where(met, position, 0), axis=along)
        return out.reshape(x.shape), index.astype(to_numpy(dtype)).reshape(x.shape)

    return kernel


def _running_extreme_grad(x: Array, indices: Array, d_out: Array, *, axis: int = -1) -> Array:
    """Each gradient goes to the position that was the extreme then."""
    data, along = _flat(x, axis, False)
    at, d = (np.moveaxis(each.reshape(data.shape), along, -1) for each in (indices, d_out))
    size = data.shape[along]
    lines = np.arange(at.size // max(size, 1)).repeat(size)
    wide = accumulate_dtype(x.dtype)
    grad = np.zeros(data.size, wide)
    np.add.at(grad, lines * size + at.reshape(-1).astype(np.int64), d.reshape(-1).astype(wide, copy=False))
    return np.moveaxis(grad.reshape(at.shape), -1, along).astype(x.dtype, copy=False).reshape(x.shape)


for _type, _ufunc in (("cummax", np.maximum), ("cummin", np.minimum)):
    _made = define(_type, _running_extreme(_ufunc), inputs="x", outputs="out indices")
    _made.gradient(takes="x indices out@GRAD", gives="x@GRAD")(_running_extreme_grad)
