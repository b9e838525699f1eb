"""Reductions over axes: sum, mean, max, min, prod, all, any; amax and amin share ties' gradients evenly."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...ir.dtypes import UNSET, to_numpy
from ...ir.registry import OpContext, define
from ..values import Array, Meta
from .common import accumulate_dtype, as_ints, follow_rank, normalize_axes

__all__ = ["expanded", "reduced_axes", "reducer", "shaped"]

Axes = tuple[int, ...]
Reduce = Callable[[Array, Axes], Array]
"""``(x, axes) -> result`` without the axes; ``axes`` is sorted and lists at least one unless ``x`` is 0-d."""


def reduced_axes(ndim: int, dim: Sequence[int] | int, reduce_all: bool) -> Axes:
    """The axes to reduce: all of them when asked to or when ``dim`` is empty."""
    listed = [dim] if isinstance(dim, int) else list(dim)
    return tuple(range(ndim)) if reduce_all or not listed else tuple(a for a in normalize_axes(listed, ndim) if ndim)


def shaped(result: Array, shape: tuple[int, ...], axes: Axes, keep_dim: bool, ctx: OpContext | None) -> Array:
    """A reduction's result with its final dimensions: kept as ones, or dropped.

    A full reduction gives 0-d, or [1] where the program (saved before 2.5) declares that.
    """
    if keep_dim:
        return result.reshape([1 if axis in axes else size for axis, size in enumerate(shape)])
    result = np.asarray(result)
    return result if result.ndim or ctx is None else follow_rank(result, ctx.declared("Out"))


def expanded(reduced: Array, shape: tuple[int, ...], axes: Axes) -> Array:
    """A reduced tensor (axes kept or not) with ones in place of the axes, to broadcast against ``shape``."""
    return reduced.reshape([1 if axis in axes else size for axis, size in enumerate(shape)])


def _no_empty(name: str, x: Array, axes: Axes) -> None:
    if not all(x.shape[axis] for axis in axes):
        raise ValueError(f"the {name} over dimensions {list(axes)} of X {list(x.shape)} is that of no elements")


def _sum(x: Array, axes: Axes) -> Array:
    wide = accumulate_dtype(x.dtype)
    result: Array = np.add.reduce(x, axis=axes, dtype=wide).astype(x.dtype, copy=False)
    return result


def _mean(x: Array, axes: Axes) -> Array:
    count = math.prod(x.shape[axis] for axis in axes)
    total = np.asarray(np.add.reduce(x, axis=axes, dtype=accumulate_dtype(x.dtype)))
    if x.dtype.kind == "b":
        return _any(x, axes)
    if x.dtype.kind in "iu":  # integers divide as in C, towards zero
        result: Array = (np.sign(total) * (np.abs(total) // max(count, 1))).astype(x.dtype)
        return result
    if not count:
        return np.full(total.shape, np.nan, x.dtype)
    return np.asarray(np.divide(total, total.dtype.type(count))).astype(x.dtype, copy=False)


def _max(x: Array, axes: Axes) -> Array:
    _no_empty("maximum", x, axes)
    result: Array = np.maximum.reduce(x, axis=axes)
    return result


def _min(x: Array, axes: Axes) -> Array:
    _no_empty("minimum", x, axes)
    result: Array = np.minimum.reduce(x, axis=axes)
    return result


def _prod(x: Array, axes: Axes) -> Array:
    wide = accumulate_dtype(x.dtype)
    result: Array = np.multiply.reduce(x, axis=axes, dtype=wide).astype(x.dtype, copy=False)
    return result


def _all(x: Array, axes: Axes) -> Array:
    result: Array = np.logical_and.reduce(x, axis=axes)
    return result


def _any(x: Array, axes: Axes) -> Array:
    result: Array = np.logical_or.reduce(x, axis=axes)
    return result


def _widened(x: Array, out_dtype: int, promote: bool) -> Array:
    """``x`` in the dtype of the result: as the attribute says, else a sum of bool or int32 is one of int64."""
    if out_dtype != UNSET:
        return x.astype(to_numpy(out_dtype), copy=False)
    if promote and (x.dtype.kind == "b" or x.dtype == np.int32):
        return x.astype(np.int64)
    return x


def reducer(reduce: Reduce, promote: bool) -> Callable[..., Array]:
    """The kernel of a ``reduce_*`` operator."""

    def kernel(
        x: Array,
        *,
        dim: Sequence[int] = (0,),
        keep_dim: bool = False,
        reduce_all: bool = False,
        out_dtype: int = UNSET,
        ctx: OpContext | None = None,
    ) -> Array:
        axes = reduced_axes(x.ndim, dim, reduce_all)
        return shaped(reduce(_widened(x, out_dtype, promote), axes), x.shape, axes, keep_dim, ctx)

    return kernel


def _reducer_of_tensors(kernel: Callable[..., Array]) -> Callable[..., Array]:
    """As ``kernel``, for operators whose axes may come as tensors, which then go before the attribute."""

    def with_axes(
        x: Array,
        axis_tensor: Array | None,
        axis_list: list[Array],
        *,
        dim: Sequence[int] = (0,),
        keep_dim: bool = False,
        reduce_all: bool = False,
        out_dtype: int = UNSET,
        ctx: OpContext | None = None,
    ) -> Array:
        given = _given_axes(axis_tensor, axis_list, dim)
        return kernel(x, dim=given, keep_dim=keep_dim, reduce_all=reduce_all, out_dtype=out_dtype, ctx=ctx)

    return with_axes


def _given_axes(tensor: Array | None, listed: list[Array], dim: Sequence[int]) -> Sequence[int]:
    if tensor is not None:
        return as_ints(tensor)
    return as_ints(listed) if listed else dim


def _filled(value: Array, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """``value`` broadcast to a new array."""
    out = np.empty(shape, dtype)
    out[...] = value
    return out


def _sum_grad(x: Meta, d_out: Array, axes: Axes) -> Array:
    return _filled(expanded(d_out, x.shape, axes), x.shape, x.dtype)


def _mean_grad(x: Meta, d_out: Array, axes: Axes) -> Array:
    count = math.prod(x.shape[axis] for axis in axes)
    share = d_out / d_out.dtype.type(max(count, 1))
    return _filled(expanded(share, x.shape, axes), x.shape, x.dtype)


def _extreme_grad(x: Array, out: Array, d_out: Array, axes: Axes) -> Array:
    """Every element that equals the extreme gets the whole gradient."""
    chosen = x == expanded(out, x.shape, axes)
    result: Array = np.multiply(chosen, expanded(d_out, x.shape, axes), dtype=x.dtype)
    return result


def _shared_grad(x: Array, out: Array, d_out: Array, axes: Axes) -> Array:
    """The elements that equal the extreme share the gradient evenly."""
    chosen = x == expanded(out, x.shape, axes)
    count = chosen.sum(axis=axes, keepdims=True)
    share = expanded(d_out, x.shape, axes) / count.astype(x.dtype)
    result: Array = np.multiply(chosen, share, dtype=x.dtype)
    return result


def _prod_grad(x: Array, out: Array, d_out: Array, axes: Axes) -> Array:
    """``d_out * out / x``; where zeros occur, the product of the others, which that quotient cannot tell."""
    d, product = expanded(d_out, x.shape, axes), expanded(out, x.shape, axes)
    zero = x == 0
    if not zero.any():
        return (d * product / x).astype(x.dtype, copy=False)
    count = zero.sum(axis=axes, keepdims=True)
    others = np.where(zero, x.dtype.type(1), x)
    rest = np.multiply.reduce(others, axis=axes, keepdims=True)
    share = np.where(count == 0, rest / others, np.where((count == 1) & zero, rest, 0))
    return (d * share).astype(x.dtype, copy=False)


def _shape_grad(rule: Callable[[Meta, Array, Axes], Array]) -> Callable[..., Array]:
    def kernel(x: Meta, d_out: Array, *, dim: Sequence[int] = (0,), reduce_all: bool = False) -> Array:
        return rule(x, d_out, reduced_axes(x.ndim, dim, reduce_all))

    return kernel


def _value_grad(rule: Callable[[Array, Array, Array, Axes], Array]) -> Callable[..., Array]:
    def kernel(x: Array, out: Array, d_out: Array, *, dim: Sequence[int] = (0,), reduce_all: bool = False) -> Array:
        return rule(x, out, d_out, reduced_axes(x.ndim, dim, reduce_all))

    return kernel


def _value_grad_of_tensors(rule: Callable[[Array, Array, Array, Axes], Array]) -> Callable[..., Array]:
    def kernel(
        x: Array,
        out: Array,
        d_out: Array,
        axis_tensor: Array | None,
        axis_list: list[Array],
        *,
        dim: Sequence[int] = (0,),
        reduce_all: bool = False,
    ) -> Array:
        given = _given_axes(axis_tensor, axis_list, dim)
        return rule(x, out, d_out, reduced_axes(x.ndim, given, reduce_all))

    return kernel


_BY_SHAPE = {"reduce_sum": (_sum, _sum_grad), "reduce_mean": (_mean, _mean_grad)}
_BY_VALUE = {
    "reduce_max": (_max, _extreme_grad),
    "reduce_min": (_min, _extreme_grad),
    "reduce_prod": (_prod, _prod_grad),
}
_BY_TENSORS = {"reduce_amax": (_max, _shared_grad), "reduce_amin": (_min, _shared_grad)}
_LOGICAL = {"reduce_all": _all, "reduce_any": _any}

_TENSOR_AXES = "AxisTensor? AxisTensorList*"
_IGNORES = "in_dtype"

for _type, (_reduce, _rule) in _BY_SHAPE.items():
    _kernel = reducer(_reduce, promote=_type == "reduce_sum")
    _made = define(_type, _kernel, inputs="X", outputs="Out", ignores=_IGNORES)
    _grad = _made.gradient(takes="X~ Out@GRAD", gives="X@GRAD")(_shape_grad(_rule))
    _grad.gradient_op(_type, takes="X=X@GRAD@GRAD", gives="Out=Out@GRAD@GRAD")
for _type, (_reduce, _value_rule) in _BY_VALUE.items():
    _kernel = reducer(_reduce, promote=False)
    _made = define(_type, _kernel, inputs="X", outputs="Out", ignores=_IGNORES)
    _made.gradient(takes="X Out Out@GRAD", gives="X@GRAD")(_value_grad(_value_rule))
for _type, (_reduce, _value_rule) in _BY_TENSORS.items():
    _kernel = _reducer_of_tensors(reducer(_reduce, promote=False))
    _made = define(_type, _kernel, inputs=f"X {_TENSOR_AXES}", outputs="Out", ignores=_IGNORES)
    _made.gradient(takes=f"X Out Out@GRAD {_TENSOR_AXES}", gives="X@GRAD")(_value_grad_of_tensors(_value_rule))
for _type, _reduce in _LOGICAL.items():
    _kernel = _reducer_of_tensors(reducer(_reduce, promote=False))
    define(_type, _kernel, inputs=f"X {_TENSOR_AXES}", outputs="Out", ignores=_IGNORES, gradient=None)
