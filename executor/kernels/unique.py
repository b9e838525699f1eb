"""Distinct elements and counts: unique, unique_consecutive, unique_with_counts, histogram, bincount."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ir.dtypes import DType, to_numpy
from ...ir.registry import operator
from ..values import Array
from .common import normalize_axis

__all__ = ["bincount", "histogram", "unique", "unique_consecutive", "unique_with_counts"]

Ints = Sequence[int]
Found = tuple[Array, Array, Array, Array]
"""Distinct elements, where each occurs first, which of them each input element is, how often each occurs."""


def _distinct(x: Array, axis: int | None) -> Found:
    """The distinct elements (or slices along ``axis``) in ascending order, and all about them."""
    values, first, inverse, counts = np.unique(x, True, True, True, axis)
    return values, first, inverse.reshape(-1), counts


def _in_order_of_appearance(found: Found) -> Found:
    values, first, inverse, counts = found
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return values[order], first[order], rank[inverse], counts[order]


def _axis(axis: Ints, ndim: int) -> int | None:
    if len(axis) > 1:
        raise ValueError(f"axis is {list(axis)}, at most one is taken")
    return normalize_axis(axis[0], ndim) if len(axis) else None


def _index_dtype(dtype: int) -> np.dtype[Any]:
    if dtype not in (DType.INT32, DType.INT64):
        raise ValueError(f"dtype is {dtype}, indices are int32 (2) or int64 (3)")
    return to_numpy(dtype)


def _vector(x: Array) -> Array:
    if x.ndim > 1:
        raise ValueError(f"X has shape {list(x.shape)}, a vector is needed")
    return x.reshape(-1)


@operator("unique", inputs="X", outputs="Out Indices Index Counts", gradient=None)
def unique(
    x: Array,
    *,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: Ints = (),
    dtype: int = DType.INT64,
    is_sorted: bool = False,
) -> tuple[Array, Array | None, Array | None, Array | None]:
    """The distinct elements of X.

    With ``is_sorted`` ascending, of the flat X or of its slices along ``axis``, and on request where each
    occurs first (Indices), which one each element of X is (Index) and how often each occurs (Counts). Else
    (1.x) those of a vector in order of appearance, and Index.
    """
    kind = _index_dtype(dtype)
    if not is_sorted:
        values, _, inverse, _ = _in_order_of_appearance(_distinct(_vector(x), None))
        return values, None, inverse.astype(kind), None
    at = _axis(axis, x.ndim)
    if not (return_index or return_inverse or return_counts):
        return np.unique(x, axis=at), None, None, None
    values, first, inverse, counts = _distinct(x, at)
    return (
        values,
        first.astype(kind) if return_index else None,
        inverse.astype(kind) if return_inverse else None,
        counts.astype(kind) if return_counts else None,
    )


@operator("unique_with_counts", inputs="X", outputs="Out Index Count", gradient=None)
def unique_with_counts(x: Array, *, dtype: int) -> tuple[Array, Array, Array]:
    """The distinct elements of a vector in order of appearance, which one each element is, how often it occurs."""
    kind = _index_dtype(dtype)
    values, _, inverse, counts = _in_order_of_appearance(_distinct(_vector(x), None))
    return values, inverse.astype(kind), counts.astype(kind)


@operator("unique_consecutive", inputs="X", outputs="Out Index Counts", gradient=None)
def unique_consecutive(
    x: Array,
    *,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: Ints = (),
    dtype: int = DType.FP32,
) -> tuple[Array, Array | None, Array | None]:
    """X (flat, or along ``axis``) without elements equal to the one before.

    On request the run that each element belongs to (Index) and the length of each run (Counts).
    """
    at = _axis(axis, x.ndim)
    rows = x.reshape(-1) if at is None else np.moveaxis(x, at, 0)
    flat = rows.reshape(len(rows), -1) if rows.size else rows.reshape(len(rows), 0)
    starts = np.ones(len(rows), np.bool_)
    starts[1:] = (flat[1:] != flat[:-1]).any(axis=1)
    (places,) = np.nonzero(starts)
    kind = _index_dtype(dtype) if return_inverse or return_counts else None
    counts = np.diff(np.append(places, len(rows)))
    out = rows[places]
    return (
        out if at is None else np.moveaxis(out, 0, at),
        (np.cumsum(starts) - 1).astype(kind) if return_inverse else None,
        counts.astype(kind) if return_counts else None,
    )


@operator("histogram", inputs="X", outputs="Out", gradient=None)
def histogram(x: Array, *, bins: int = 100, min: int = 0, max: int = 0) -> Array:
    """How many elements fall into each of ``bins`` equal bins from ``min`` to ``max`` (included), int64.

    Equal limits mean the smallest and largest element; where these are equal too, one less and one more.
    """
    if bins < 1 or max < min:
        raise ValueError(f"bins {bins}, min {min} and max {max} do not describe bins")
    flat = x.reshape(-1)
    if not flat.size:
        return np.zeros(bins, np.int64)
    low, high = flat.dtype.type(min), flat.dtype.type(max)
    if low == high:
        low, high = flat.min(), flat.max()
    if low == high:
        low, high = low - flat.dtype.type(1), high + flat.dtype.type(1)
    if not (np.isfinite(low) and np.isfinite(high)):
        raise ValueError(f"X reaches from {low} to {high}, finite limits are needed")
    inside = flat[(flat >= low) & (flat <= high)]
    if flat.dtype.kind in "iu":
        places = (inside.astype(np.int64) - int(low)) * bins // (int(high) - int(low))
    else:
        places = ((inside - low) * flat.dtype.type(bins) / (high - low)).astype(np.int64)
    return np.bincount(np.minimum(places, bins - 1), minlength=bins).astype(np.int64, copy=False)


@operator("bincount", inputs="X Weights?", outputs="Out", gradient=None)
def bincount(x: Array, weights: Array | None, *, minlength: int = 0) -> Array:
    """How often each number occurs in a vector (int64), or the sum of its weights.

    The sums are float32 for float32 weights, else float64.
    """
    if x.ndim != 1 or x.dtype.kind not in "iu":
        raise ValueError(f"X is {x.dtype} {list(x.shape)}, a vector of integers is needed")
    if weights is not None and weights.shape != x.shape:
        raise ValueError(f"Weights has shape {list(weights.shape)}, X has {list(x.shape)}")
    if minlength < 0 or (x.size and int(x.min()) < 0):
        raise ValueError(f"minlength is {minlength} and X may hold no negative number")
    if not x.size:
        return np.zeros(0, np.int64)
    if weights is None:
        return np.bincount(x, minlength=minlength).astype(np.int64, copy=False)
    sums = np.bincount(x, weights.astype(np.float64), minlength)
    return sums.astype(np.float32 if weights.dtype == np.float32 else np.float64, copy=False)
