"""Functions that reduce or run along an axis: sums, extremes, statistics, cumulative results."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..errors import InputError
from ..ir.dtypes import from_numpy
from . import functional_math as elementwise
from .dtypes import default_float, is_floating, numpy_dtype
from .operands import axis_list, cast_to, constant, documented, run, run_at, run_many
from .tensor import Tensor

__all__ = [
    "all",
    "amax",
    "amin",
    "any",
    "bincount",
    "count_nonzero",
    "cummax",
    "cummin",
    "cumprod",
    "cumsum",
    "diff",
    "histogram",
    "logcumsumexp",
    "logsumexp",
    "max",
    "mean",
    "median",
    "min",
    "nanmean",
    "nansum",
    "prod",
    "quantile",
    "std",
    "sum",
    "var",
]

Axis = Any
"""None for all axes, an int, a list of ints, or a tensor of them."""


def _reduced(op: str, x: Tensor, axis: Axis, keepdim: bool, **attrs: Any) -> Tensor:
    axes = [] if axis is None else axis_list(axis, x.ndim)
    whole = not axes or len(axes) == x.ndim
    return run(op, x, dim=axes or [0], keep_dim=bool(keepdim), reduce_all=whole, **attrs)


def _reduction(name: str, op: str, doc: str, inputs: int = 1) -> Any:
    extra = (None,) * (inputs - 1)

    def function(x: Tensor, axis: Axis = None, keepdim: bool = False, name: str | None = None) -> Tensor:
        axes = [] if axis is None else axis_list(axis, x.ndim)
        whole = not axes or len(axes) == x.ndim
        return run(op, x, *extra, dim=axes or [0], keep_dim=bool(keepdim), reduce_all=whole)

    return documented(function, name, doc)


max = _reduction("max", "reduce_max", "The largest element; its gradient goes to every element equal to it.")
min = _reduction("min", "reduce_min", "The smallest element; its gradient goes to every element equal to it.")
amax = _reduction("amax", "reduce_amax", "The largest element; equal ones share its gradient.")
amin = _reduction("amin", "reduce_amin", "The smallest element; equal ones share its gradient.")
all = _reduction("all", "reduce_all", "Whether all are true.")
any = _reduction("any", "reduce_any", "Whether any is true.")


def sum(x: Tensor, axis: Axis = None, dtype: Any = None, keepdim: bool = False, name: str | None = None) -> Tensor:
    """The sum; of bools and int32 as int64, or as ``dtype``."""
    attrs: dict[str, Any] = {}
    held = x._array.dtype
    wanted = None if dtype is None else numpy_dtype(dtype)
    if wanted is None and held.name in ("bool", "int32"):
        wanted = np.dtype(np.int64)
    if wanted is not None and wanted != held:
        attrs = {"in_dtype": int(from_numpy(held)), "out_dtype": int(from_numpy(wanted))}
    return _reduced("reduce_sum", x, axis, keepdim, **attrs)


def mean(x: Tensor, axis: Axis = None, keepdim: bool = False, name: str | None = None) -> Tensor:
    """The arithmetic mean."""
    return _reduced("reduce_mean", x, axis, keepdim)


def prod(x: Tensor, axis: Axis = None, keepdim: bool = False, dtype: Any = None, name: str | None = None) -> Tensor:
    """The product, of ``x`` as ``dtype`` where that is given."""
    wide = x if dtype is None else cast_to(x, numpy_dtype(dtype))
    return _reduced("reduce_prod", wide, axis, keepdim)


def logsumexp(x: Tensor, axis: Axis = None, keepdim: bool = False, name: str | None = None) -> Tensor:
    """``log(sum(exp(x)))`` without overflow."""
    axes = [] if axis is None else axis_list(axis, x.ndim)
    return run("logsumexp", x, axis=axes or [0], keepdim=bool(keepdim), reduce_all=not axes or len(axes) == x.ndim)


def var(x: Tensor, axis: Axis = None, unbiased: bool = True, keepdim: bool = False, name: str | None = None) -> Tensor:
    """The variance; ``unbiased`` divides by n - 1."""
    axes = list(range(x.ndim)) if axis is None else axis_list(axis, x.ndim)
    centred = elementwise.subtract(x, mean(x, axes, keepdim=True)) if x.ndim else elementwise.subtract(x, x)
    squares = elementwise.square(centred)
    count = math.prod(x.shape[each] for each in axes)
    if not unbiased:
        return mean(squares, axes, keepdim)
    total = sum(squares, axes, keepdim=keepdim)
    return elementwise.divide(total, constant(np.full((), count - 1, total._array.dtype)))


def std(x: Tensor, axis: Axis = None, unbiased: bool = True, keepdim: bool = False, name: str | None = None) -> Tensor:
    """The standard deviation."""
    return elementwise.sqrt(var(x, axis, unbiased, keepdim))


def _without_nan(x: Tensor) -> tuple[Tensor, Tensor]:
    """``x`` with zeros for nan, and 1 where it was a number."""
    number = constant(~np.isnan(np.asarray(x._array, np.float64)))
    zero = constant(np.zeros_like(x._array))
    return run("where", number, x, zero), cast_to(number, x._array.dtype)


def nansum(x: Tensor, axis: Axis = None, dtype: Any = None, keepdim: bool = False, name: str | None = None) -> Tensor:
    """The sum of what is not nan."""
    return sum(_without_nan(x)[0], axis, dtype, keepdim)


def nanmean(x: Tensor, axis: Axis = None, keepdim: bool = False, name: str | None = None) -> Tensor:
    """The mean of what is not nan."""
    clean, number = _without_nan(x)
    return elementwise.divide(sum(clean, axis, keepdim=keepdim), sum(number, axis, keepdim=keepdim))


def count_nonzero(x: Tensor, axis: Axis = None, keepdim: bool = False, name: str | None = None) -> Tensor:
    """The number of elements that are not zero, int64."""
    nonzero = cast_to(constant(x._array != 0), np.dtype(np.int64))
    return sum(nonzero, axis, keepdim=keepdim)


def median(x: Tensor, axis: int | None = None, keepdim: bool = False, name: str | None = None) -> Tensor:
    """The middle value; of an even count the mean of the two middle ones. Integers give floats."""
    flat = x if axis is not None else run_at("reshape2", 0, x, shape=[-1])
    at = 0 if axis is None else axis_list(axis, x.ndim)[0]
    wide = flat if is_floating(flat._array.dtype) else cast_to(flat, default_float())
    ordered, _ = run_many("argsort", wide, axis=at, descending=False)
    count = flat.shape[at]
    picks = constant(np.array(sorted({(count - 1) // 2, count // 2})))
    middle = mean(run("index_select", ordered, picks, dim=at), at, keepdim=keepdim or axis is None)
    nan = elementwise.scale(sum(elementwise.subtract(wide, wide), at, keepdim=keepdim or axis is None), 1.0)
    found = elementwise.add(middle, nan)
    if axis is not None:
        return found
    shape = [1] * x.ndim if keepdim else []
    return run_at("reshape2", 0, found, shape=shape)


def quantile(x: Tensor, q: Any, axis: Axis = None, keepdim: bool = False) -> Tensor:
    """The value below which the share ``q`` of the elements lies, interpolated, as float64.

    Several q come first in the shape.
    """
    axes = list(range(x.ndim)) if axis is None else axis_list(axis, x.ndim)
    shares = np.asarray(q._array if isinstance(q, Tensor) else q, np.float64)
    if ((shares < 0) | (shares > 1)).any():
        raise InputError(f"quantile(): q must lie in [0, 1], got {q}")
    rest = [each for each in range(x.ndim) if each not in axes]
    kept = [1 if each in axes else x.shape[each] for each in range(x.ndim)]
    flat = run_at("transpose2", 0, x, axis=rest + axes)
    flat = run_at("reshape2", 0, flat, shape=[*(x.shape[each] for each in rest), -1])
    ordered, _ = run_many("argsort", cast_to(flat, np.dtype(np.float64)), axis=-1, descending=False)
    shape = kept if keepdim else [x.shape[each] for each in rest]
    found = [_at_share(ordered, float(share), shape) for share in shares.reshape(-1)]
    return run("stack", found, axis=0) if shares.ndim else found[0]


def _at_share(ordered: Tensor, share: float, shape: list[int]) -> Tensor:
    """The interpolated element at a share of the last axis, in ``shape``."""
    place = share * (ordered.shape[-1] - 1)
    low, high = math.floor(place), math.ceil(place)
    ends = (run("index_select", ordered, constant(np.array([each])), dim=ordered.ndim - 1) for each in (low, high))
    mixed = run("lerp", *ends, constant(np.full((1,), place - low)))
    return run_at("reshape2", 0, mixed, shape=shape)


def _cumulative_axis(x: Tensor, axis: int | None) -> dict[str, Any]:
    return {"axis": -1, "flatten": True} if axis is None else {"axis": int(axis), "flatten": False}


def cumsum(x: Tensor, axis: int | None = None, dtype: Any = None, name: str | None = None) -> Tensor:
    """The running sum along ``axis``, of the flattened tensor for None."""
    wide = x if dtype is None else cast_to(x, numpy_dtype(dtype))
    return run("cumsum", wide, **_cumulative_axis(x, axis))


def cumprod(x: Tensor, dim: int | None = None, dtype: Any = None, name: str | None = None) -> Tensor:
    """The running product along ``dim``, of the flattened tensor for None."""
    wide = x if dtype is None else cast_to(x, numpy_dtype(dtype))
    if dim is None:
        wide = run_at("reshape2", 0, wide, shape=[-1])
    return run("cumprod", wide, dim=-1 if dim is None else int(dim))


def _cumulative_extreme(op: str, x: Tensor, axis: int | None, dtype: Any) -> tuple[Tensor, Tensor]:
    flat = run_at("reshape2", 0, x, shape=[-1]) if axis is None else x
    at = -1 if axis is None else int(axis)
    values, indices = run_many(op, flat, axis=at, dtype=int(from_numpy(numpy_dtype(dtype))))
    return values, indices


def cummax(x: Tensor, axis: int | None = None, dtype: Any = "int64", name: str | None = None) -> tuple[Tensor, Tensor]:
    """The largest element so far along ``axis`` (of the flattened tensor for None), and its position."""
    return _cumulative_extreme("cummax", x, axis, dtype)


def cummin(x: Tensor, axis: int | None = None, dtype: Any = "int64", name: str | None = None) -> tuple[Tensor, Tensor]:
    """The smallest element so far along ``axis`` (of the flattened tensor for None), and its position."""
    return _cumulative_extreme("cummin", x, axis, dtype)


def logcumsumexp(x: Tensor, axis: int | None = None, dtype: Any = None, name: str | None = None) -> Tensor:
    """The running ``logsumexp`` along ``axis``, of the flattened tensor for None."""
    wide = x if dtype is None else cast_to(x, numpy_dtype(dtype))
    return run("logcumsumexp", wide, **_cumulative_axis(x, axis))


def diff(
    x: Tensor,
    n: int = 1,
    axis: int = -1,
    prepend: Tensor | None = None,
    append: Tensor | None = None,
    name: str | None = None,
) -> Tensor:
    """The n-th difference of neighbours along ``axis``, with tensors put before and after first."""
    at = axis_list(axis, x.ndim)[0]
    parts = [each for each in (prepend, x, append) if each is not None]
    whole = x if len(parts) == 1 else run("concat", parts, axis=at)
    for _ in range(n):
        size = whole.shape[at]
        high = _range(whole, at, 1, size)
        low = _range(whole, at, 0, size - 1)
        whole = run("logical_xor", high, low) if whole._array.dtype == np.bool_ else elementwise.subtract(high, low)
    return whole


def _range(x: Tensor, axis: int, start: int, stop: int) -> Tensor:
    return run("slice", x, axes=[axis], starts=[start], ends=[stop])


def histogram(input: Tensor, bins: int = 100, min: float = 0, max: float = 0, name: str | None = None) -> Tensor:
    """The number of elements in each of ``bins`` equal parts of ``[min, max]``; equal bounds mean those of the data."""
    return run("histogram", input, bins=int(bins), min=int(min), max=int(max))


def bincount(x: Tensor, weights: Tensor | None = None, minlength: int = 0, name: str | None = None) -> Tensor:
    """How often each number of at least 0 occurs in a 1-d tensor, or the sum of the weights of its places."""
    if minlength < 0:
        raise InputError(f"bincount(): minlength must be at least 0, got {minlength}")
    return run("bincount", x, weights, minlength=int(minlength))
