"""Order and search: arg_max, arg_min, argsort, top_k, kthvalue, mode, searchsorted.

Not-a-number sorts last (first when descending). In small tensors equal elements come in the order that Paddle's
own algorithms leave, in large ones lowest index first.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...ir.dtypes import UNSET, DType
from ...ir.registry import OpContext, define, operator
from ..values import Array, Meta
from . import tie_order
from .common import as_ints, follow_rank, normalize_axis

__all__ = ["argsort", "kthvalue", "mode", "searchsorted", "stable_order", "top_k", "top_k_v2"]


def _arg_extreme(find: Callable[..., Any], worst: float) -> Callable[..., Array]:
    """A kernel for the place of the largest or smallest element; the first of equals, NaN only among NaN."""

    def kernel(
        x: Array,
        *,
        axis: int,
        keepdims: bool = False,
        flatten: bool = False,
        dtype: int = DType.INT64,
        ctx: OpContext | None = None,
    ) -> Array:
        """The index along ``axis`` (of the flat tensor with ``flatten``) as int64 or int32."""
        if dtype not in (DType.INT64, DType.INT32, UNSET):
            raise ValueError(f"dtype is {dtype}, an index is int32 (2) or int64 (3)")
        along = x.reshape(-1) if flatten else x
        at = 0 if flatten else normalize_axis(axis, x.ndim)
        if not x.size or (along.ndim and not along.shape[at]):
            raise ValueError(f"X has shape {list(x.shape)}, there is nothing to choose from")
        index = np.asarray(_find(find, worst, along, at), np.int32 if dtype == DType.INT32 else np.int64)
        if keepdims:
            return index.reshape((1,) * max(x.ndim, 1)) if flatten or not x.ndim else np.expand_dims(index, at)
        return follow_rank(index, ctx.declared("Out") if ctx is not None else None)

    return kernel


def _find(find: Callable[..., Any], worst: float, x: Array, axis: int) -> Any:
    if x.ndim == 0:
        return 0
    index = find(x, axis)
    if x.dtype.kind in "iub":
        return index
    picked = np.take_along_axis(x, np.expand_dims(index, axis), axis)
    if np.isnan(picked).any():  # numpy stops at the first NaN
        return find(np.where(np.isnan(x), x.dtype.type(worst), x), axis)
    return index


for _type, _function, _worst in (("arg_max", np.argmax, -np.inf), ("arg_min", np.argmin, np.inf)):
    define(_type, _arg_extreme(_function, _worst), inputs="X", outputs="Out", gradient=None)


def stable_order(x: Array, axis: int, descending: bool = False) -> Array:
    """The indices that sort ``x`` along ``axis``, equal elements in their order."""
    return _over_rows(x, axis, lambda rows: _sorted_rows(rows, descending, _stable_rows))


def _over_rows(x: Array, axis: int, work: Callable[[Array], Array]) -> Array:
    """``work`` on the matrix of all rows along ``axis``; its result (other row length allowed) put back."""
    moved = np.moveaxis(x, axis, -1)
    made = work(moved.reshape(math.prod(moved.shape[:-1]), moved.shape[-1]))
    return np.moveaxis(made.reshape(*moved.shape[:-1], made.shape[-1]), -1, axis)


def _sorted_rows(rows: Array, descending: bool, settle: Callable[[Array, bool], Array]) -> Array:
    """The indices that sort each row; ``settle`` sorts the rows that hold equal elements.

    numpy's fastest sort, which does the others, keeps no order among equals.
    """
    order = np.argsort(rows, axis=1)
    if descending:
        order = np.ascontiguousarray(order[:, ::-1])
    unsure = _repeats(np.take_along_axis(rows, order, 1))
    if unsure.any():
        order[unsure] = settle(rows[unsure], descending)
    return order


def _equals(ordered: Array) -> Array:
    """Where an element of a sorted row equals the one before (NaN equals NaN)."""
    equal: Array = ordered[:, 1:] == ordered[:, :-1]
    if ordered.dtype.kind not in "iub":
        unordered = np.isnan(ordered)
        equal |= unordered[:, 1:] & unordered[:, :-1]
    return equal


def _repeats(ordered: Array) -> Array:
    """Which sorted rows hold equal elements."""
    return np.asarray(_equals(ordered).any(axis=1))


def _stable_rows(rows: Array, descending: bool) -> Array:
    if not descending:
        return np.argsort(rows, axis=1, kind="stable")
    last = rows.shape[1] - 1
    order: Array = last - np.argsort(rows[:, ::-1], axis=1, kind="stable")[:, ::-1]
    return order


def _arranged(rows: Array, descending: bool, arrange: Callable[[list[int]], list[int]]) -> Array:
    """Each row ordered by an algorithm of :mod:`.tie_order`, which sees the ranks of its elements."""
    order = _stable_rows(rows, descending)
    ordered = np.take_along_axis(rows, order, 1)
    steps = np.zeros(rows.shape, np.int64)
    steps[:, 1:] = ~_equals(ordered)
    ranks = np.empty_like(steps)
    np.put_along_axis(ranks, order, np.cumsum(steps, axis=1), 1)
    listed: Any = ranks.tolist()
    return np.array([arrange(row) for row in listed], np.int64)


def _paddle_rows(rows: Array, descending: bool) -> Array:
    """Sorted rows with equal elements as Paddle leaves them; up to 16 its sort keeps their order."""
    if rows.shape[1] <= 16 or rows.size > tie_order.LIMIT:
        return _stable_rows(rows, descending)
    return _arranged(rows, descending, tie_order.sort)


def _scatter_back(shape: tuple[int, ...], index: Array, d_out: Array, axis: int) -> Array:
    """Zeros of ``shape`` with the gradients at the indices that were picked along ``axis``."""
    if not shape:
        return d_out.reshape(shape)
    grad = np.zeros(shape, d_out.dtype)
    np.put_along_axis(grad, index.astype(np.int64, copy=False), d_out, axis)
    return grad


@operator("argsort", inputs="X", outputs="Out Indices", ignores="stable")
def argsort(x: Array, *, axis: int = -1, descending: bool = False) -> tuple[Array, Array]:
    """X sorted along ``axis``, and where each element came from (int64)."""
    at = normalize_axis(axis, x.ndim)
    if x.ndim == 0:
        return x, np.zeros((), np.int64)
    order = _over_rows(x, at, lambda rows: _sorted_rows(rows, descending, _paddle_rows))
    return np.take_along_axis(x, order, at), order.astype(np.int64, copy=False)


@argsort.gradient(takes="Indices X~ Out@GRAD", gives="X@GRAD")
def argsort_grad(index: Array, x: Array | Meta, d_out: Array, *, axis: int = -1) -> Array:
    """The gradients put back where the elements came from."""
    return _scatter_back(x.shape, index, d_out, normalize_axis(axis, x.ndim))


def _count(k_tensor: Any, k: int, size: int) -> int:
    count = k if k_tensor is None else as_ints(k_tensor)[0]
    if not 1 <= count <= size:
        raise ValueError(f"k is {count}, the dimension has {size} element(s)")
    return count


def _first_rows(rows: Array, count: int, largest: bool) -> tuple[Array, Array]:
    """The first ``count`` of a stable sort of each row, and which rows hold equals among them or next to them."""
    size = rows.shape[1]
    if size < 64 or count * 4 > size:
        index = _sorted_rows(rows, largest, _stable_rows)[:, :count]
    else:
        places = np.argpartition(rows, size - count if largest else count - 1, axis=1)
        chosen = np.sort(places[:, size - count :] if largest else places[:, :count], axis=1)
        order = _sorted_rows(np.take_along_axis(rows, chosen, 1), largest, _stable_rows)
        index = np.take_along_axis(chosen, order, 1)
    values = np.take_along_axis(rows, index, 1)
    edge = values[:, -1:]
    unsure = np.count_nonzero(rows == edge, axis=1) != np.count_nonzero(values == edge, axis=1)
    unsure |= _repeats(values) | (values != values).any(axis=1)
    return index, unsure


def _top(x: Array, count: int, axis: int, largest: bool, arrange: _Selection) -> tuple[Array, Array]:
    """The ``count`` best along ``axis`` and their indices; ``arrange`` says how Paddle selects among equals."""

    def work(rows: Array) -> Array:
        index, unsure = _first_rows(rows, count, largest)
        if arrange is _unordered and rows.size <= tie_order.LIMIT:
            unsure[:] = True
        if unsure.any():
            again = rows[unsure]
            if again.size > tie_order.LIMIT:
                index[unsure] = _stable_rows(again, largest)[:, :count]
            else:
                index[unsure] = _arranged(again, largest, lambda ranks: arrange(ranks, count)[:count])
        return index

    index = np.ascontiguousarray(_over_rows(x, axis, work)).astype(np.int64, copy=False)
    return np.take_along_axis(x, index, axis), index


_Selection = Callable[[list[int], int], list[int]]


def _selected(ranks: list[int], count: int) -> list[int]:
    """What Paddle does for a sorted selection: by heap where few of many are wanted, else by splitting."""
    if count * 64 < len(ranks):
        return tie_order.partial_sort(ranks, count)
    return tie_order.nth_element(ranks, count - 1, ordered=True)


def _unordered(ranks: list[int], count: int) -> list[int]:
    """What Paddle does where the order of the selection does not matter."""
    if count * 64 < len(ranks):
        return tie_order.partial_sort(ranks, count)
    return tie_order.nth_element(ranks, count - 1)


@operator("top_k", inputs="X K?", outputs="Out Indices")
def top_k(x: Array, k_tensor: Any, *, k: int = 1) -> tuple[Array, Array]:
    """The ``k`` largest of the last dimension, largest first, and their indices; K goes before the attribute."""
    if x.ndim == 0:
        raise ValueError("X is 0-d, there is no dimension to choose from")
    return _top(x, _count(k_tensor, k, x.shape[-1]), x.ndim - 1, True, tie_order.partial_sort)


@top_k.gradient(takes="X Indices Out@GRAD", gives="X@GRAD", forgets="k")
def top_k_grad(x: Array, index: Array, d_out: Array) -> Array:
    """The gradients where the elements came from, zero elsewhere."""
    return _scatter_back(x.shape, index, d_out, x.ndim - 1)


@operator("top_k_v2", inputs="X K?", outputs="Out Indices")
def top_k_v2(
    x: Array, k_tensor: Any, *, k: int = 1, axis: int = -1, largest: bool = True, sorted: bool = True
) -> tuple[Array, Array]:
    """The ``k`` largest or smallest along ``axis``, best first, and their indices.

    Without ``sorted`` small tensors come in the order that Paddle's selection leaves, large ones sorted.
    """
    at = normalize_axis(axis, x.ndim)
    count = _count(k_tensor, k, x.shape[at] if x.ndim else 1)
    if x.ndim == 0:
        return x, np.zeros((), np.int64)
    return _top(x, count, at, largest, _selected if sorted else _unordered)


@top_k_v2.gradient(takes="X Indices K? Out@GRAD", gives="X@GRAD")
def top_k_v2_grad(x: Array, index: Array, k_tensor: Any, d_out: Array, *, axis: int = -1) -> Array:
    """The gradients where the elements came from, zero elsewhere."""
    return _scatter_back(x.shape, index, d_out, normalize_axis(axis, x.ndim))


def _picked(x: Array, index: Array, axis: int, keep: bool, ctx: OpContext | None) -> tuple[Array, Array]:
    """Elements and their indices (that dimension of size 1), the dimension dropped unless kept."""
    values = np.take_along_axis(x, index, axis)
    places = index.astype(np.int64, copy=False)
    if keep:
        return values, places
    values, places = values.squeeze(axis), places.squeeze(axis)
    if ctx is not None and not values.ndim:
        return follow_rank(values, ctx.declared("Out")), follow_rank(places, ctx.declared("Indices"))
    return values, places


def _picked_grad(x: Array, index: Array, d_out: Array, axis: int, keep: bool) -> Array:
    at = normalize_axis(axis, x.ndim)
    if not x.ndim or keep:
        return _scatter_back(x.shape, index, d_out, at)
    shape = (*x.shape[:at], 1, *x.shape[at + 1 :])
    return _scatter_back(x.shape, index.reshape(shape), d_out.reshape(shape), at)


def _kth_places(rows: Array, count: int) -> Array:
    """Where each row's element number ``count`` in ascending order lies. Shape [rows, 1]."""
    value = np.partition(rows, count - 1, axis=1)[:, count - 1, None]
    equal = rows == value
    rank = count - np.count_nonzero(rows < value, axis=1)
    index: Array = np.argmax(np.cumsum(equal, axis=1) == rank[:, None], axis=1)
    unsure = np.count_nonzero(equal, axis=1) != 1  # also where the value is NaN
    if unsure.any():
        again = rows[unsure]
        if again.size <= tie_order.LIMIT:
            index[unsure] = _arranged(again, False, lambda ranks: _unordered(ranks, count))[:, count - 1]
        elif (value != value).any():
            index[unsure] = _stable_rows(again, False)[:, count - 1]
    return index[:, None]


@operator("kthvalue", inputs="X", outputs="Out Indices")
def kthvalue(
    x: Array, *, k: int = 1, axis: int = -1, keepdim: bool = False, ctx: OpContext | None = None
) -> tuple[Array, Array]:
    """The ``k``-th smallest along ``axis`` (1 is the smallest) and its index."""
    at = normalize_axis(axis, x.ndim)
    count = _count(None, k, x.shape[at] if x.ndim else 1)
    if x.ndim == 0:
        return x, np.zeros((), np.int64)
    index = _over_rows(x, at, lambda rows: _kth_places(rows, count))
    return _picked(x, index, at, keepdim, ctx)


@kthvalue.gradient(takes="X Indices Out@GRAD", gives="X@GRAD")
def kthvalue_grad(x: Array, index: Array, d_out: Array, *, axis: int = -1, keepdim: bool = False) -> Array:
    """The gradient where the element came from, zero elsewhere."""
    return _picked_grad(x, index, d_out, axis, keepdim)


@operator("mode", inputs="X", outputs="Out Indices")
def mode(x: Array, *, axis: int = -1, keepdim: bool = False, ctx: OpContext | None = None) -> tuple[Array, Array]:
    """The most frequent element along ``axis`` (the smallest of several) and the index of its last occurrence."""
    at = normalize_axis(axis, x.ndim)
    if x.ndim == 0:
        return x, np.zeros((), np.int64)
    sorted_along = _over_rows(x, at, lambda rows: _sorted_rows(rows, False, _paddle_rows))
    order = np.moveaxis(sorted_along, at, -1)
    ordered = np.take_along_axis(np.moveaxis(x, at, -1), order, -1)
    place = np.arange(ordered.shape[-1])
    first = np.ones(ordered.shape, np.bool_)
    first[..., 1:] = ordered[..., 1:] != ordered[..., :-1]
    run = place - np.maximum.accumulate(np.where(first, place, 0), axis=-1)
    longest = np.argmax(run, axis=-1)[..., None]
    index = np.moveaxis(np.take_along_axis(order, longest, -1), -1, at)
    return _picked(x, index, at, keepdim, ctx)


@mode.gradient(takes="X Indices Out@GRAD", gives="X@GRAD")
def mode_grad(x: Array, index: Array, d_out: Array, *, axis: int = -1, keepdim: bool = False) -> Array:
    """The gradient where the element came from, zero elsewhere."""
    return _picked_grad(x, index, d_out, axis, keepdim)


def _merged_places(sequence: Array, values: Array, right: bool) -> Array:
    """Row by row how many elements of the sequence lie before each value, by sorting both together."""
    count = values.shape[-1]
    parts = (sequence, values) if right else (values, sequence)
    order = np.argsort(np.concatenate(parts, axis=-1), axis=-1, kind="stable")
    start = sequence.shape[-1] if right else 0
    place = np.empty_like(order)
    np.put_along_axis(place, order, np.broadcast_to(np.arange(order.shape[-1]), order.shape), -1)
    among = np.empty_like(order[..., :count])
    own = np.argsort(values, axis=-1, kind="stable")
    np.put_along_axis(among, own, np.broadcast_to(np.arange(count), own.shape), -1)
    return place[..., start : start + count] - among


def _rows(x: Array) -> Array:
    return x.reshape(-1, x.shape[-1])


@operator("searchsorted", inputs="SortedSequence Values", outputs="Out", gradient=None)
def searchsorted(sequence: Array, values: Array, *, out_int32: bool = False, right: bool = False) -> Array:
    """Where values go into a sorted sequence: one for all, or one per row (equal leading dimensions).

    Equal elements stay behind the value, or before it with ``right``.
    """
    if sequence.ndim == 0 or (sequence.ndim > 1 and sequence.shape[:-1] != values.shape[:-1]):
        raise ValueError(
            f"SortedSequence {list(sequence.shape)} and Values {list(values.shape)} differ in a dimension "
            "before the last"
        )
    if sequence.ndim == 1:
        places = np.searchsorted(sequence, values, "right" if right else "left")
    elif sequence.size + values.size < 100 * len(sequence):  # short rows, each not worth a call
        places = _merged_places(sequence, values, right)
    else:
        side: Any = "right" if right else "left"
        rows = zip(_rows(sequence), _rows(values), strict=True)
        places = np.stack([np.searchsorted(row, value, side) for row, value in rows]).reshape(values.shape)
    return np.asarray(places).astype(np.int32 if out_int32 else np.int64, copy=False)
