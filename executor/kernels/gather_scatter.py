"""Reading by index: gather, index_select, take_along_axis and their kin, masks, and where."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ir.registry import operator
from ..values import Array, Meta
from .common import add_rows, as_ints, normalize_axis, unbroadcast

__all__ = [
    "checked_index",
    "flat_places",
    "gather",
    "gather_nd",
    "gather_tree",
    "index_sample",
    "index_select",
    "masked_select",
    "take_along_axis",
    "where",
    "where_index",
]


def checked_index(index: Array, size: int, slot: str) -> Array:
    """``index`` as int64, every entry in ``[0, size)``; negative ones count from the end, as since 3.x."""
    places = index.astype(np.int64, copy=False)
    if not places.size:
        return places
    low, high = int(places.min()), int(places.max())
    if high >= size or low < -size:
        bad = high if high >= size else low
        raise ValueError(f"{slot} holds {bad}, outside the dimension of {size} element(s) it chooses from")
    return np.where(places < 0, places + size, places) if low < 0 else places


def add_along(shape: Sequence[int], axis: int, places: Array, rows: Array) -> Array:
    """Zeros of ``shape`` with the slices ``rows`` added at ``places`` (1-d) along ``axis``."""
    grad = np.zeros(shape, rows.dtype)
    add_rows(np.moveaxis(grad, axis, 0), places, np.moveaxis(rows, axis, 0))
    return grad


def _gather_axis(axis_tensor: Any, axis: int, ndim: int) -> int:
    return normalize_axis(axis if axis_tensor is None else as_ints(axis_tensor)[0], ndim)


def _gather_index(index: Array) -> Array:
    if index.ndim > 1 and not (index.ndim == 2 and index.shape[1] == 1):
        raise ValueError(f"Index has shape {list(index.shape)}, [n], [n, 1] or [] is needed")
    return index.reshape(-1) if index.ndim == 2 else index


def _taken(x: Array, index: Array, axis: int) -> Array:
    try:
        return np.take(x, index, axis)
    except IndexError:
        checked_index(index, x.shape[axis], "Index")  # says which entry it is
        raise


@operator("gather", inputs="X Index Axis?", outputs="Out")
def gather(x: Array, index: Array, axis_tensor: Any, *, axis: int = 0) -> Array:
    """The slices of X along ``axis`` that Index names; a 0-d Index drops the dimension."""
    return _taken(x, _gather_index(index), _gather_axis(axis_tensor, axis, x.ndim))


@gather.gradient(takes="X~ Index Axis? Out@GRAD", gives="X@GRAD")
def gather_grad(x: Array | Meta, index: Array, axis_tensor: Any, d_out: Array, *, axis: int = 0) -> Array:
    """Add the slices' gradients where they came from."""
    at = _gather_axis(axis_tensor, axis, x.ndim)
    places = checked_index(_gather_index(index), x.shape[at], "Index")
    rows = d_out if places.ndim else np.expand_dims(d_out, at)
    return add_along(x.shape, at, places.reshape(-1), rows)


gather_grad.gradient_op("gather", takes="X=X@GRAD@GRAD Index Axis?", gives="Out=Out@GRAD@GRAD")


def nd_places(index: Array, shape: Sequence[int], slot: str) -> Array:
    """Rows of coordinates (last dimension of ``index``) as places in the leading dimensions laid flat."""
    depth = index.shape[-1]
    if depth > len(shape):
        raise ValueError(f"{slot} holds {depth} coordinates, the tensor has {len(shape)} dimension(s)")
    places = np.zeros(index.shape[:-1], np.int64)
    for axis in range(depth):
        places *= shape[axis]
        places += checked_index(index[..., axis], shape[axis], slot)
    return places


@operator("gather_nd", inputs="X Index", outputs="Out")
def gather_nd(x: Array, index: Array) -> Array:
    """``X[index[..., 0], index[..., 1], ...]``; coordinates shorter than X's rank give slices."""
    if index.ndim == 0:
        raise ValueError("Index is 0-d, its last dimension holds coordinates")
    places = nd_places(index, x.shape, "Index")
    depth = index.shape[-1]
    rows = x.reshape(math.prod(x.shape[:depth]), *x.shape[depth:])
    return np.take(rows, places, 0)


@gather_nd.gradient(takes="X~ Index Out@GRAD", gives="X@GRAD")
def gather_nd_grad(x: Array | Meta, index: Array, d_out: Array) -> Array:
    """Add the gradients where the elements came from."""
    places = nd_places(index, x.shape, "Index").reshape(-1)
    rest = x.shape[index.shape[-1] :]
    grad = np.zeros((math.prod(x.shape[: index.shape[-1]]), *rest), d_out.dtype)
    add_rows(grad, places, d_out.reshape(-1, *rest) if d_out.size else d_out.reshape(0, *rest))
    return grad.reshape(x.shape)


gather_nd_grad.gradient_op("gather_nd", takes="X=X@GRAD@GRAD Index", gives="Out=Out@GRAD@GRAD")


@operator("index_select", inputs="X Index", outputs="Out")
def index_select(x: Array, index: Array, *, dim: int = 0) -> Array:
    """The slices of X along ``dim`` that the vector Index names."""
    return _taken(x, _gather_index(index).reshape(-1), normalize_axis(dim, x.ndim))


@index_select.gradient(takes="X~ Index Out@GRAD", gives="X@GRAD")
def index_select_grad(x: Array | Meta, index: Array, d_out: Array, *, dim: int = 0) -> Array:
    """Add the slices' gradients where they came from."""
    at = normalize_axis(dim, x.ndim)
    return add_along(x.shape, at, checked_index(index.reshape(-1), x.shape[at], "Index"), d_out)


index_select_grad.gradient_op("index_select", takes="X=X@GRAD@GRAD Index", gives="Out=Out@GRAD@GRAD")


@operator("index_sample", inputs="X Index", outputs="Out")
def index_sample(x: Array, index: Array) -> Array:
    """Row by row the elements that the same row of Index names. X [n, m], Index [n, k] -> [n, k]."""
    if x.ndim != 2 or index.ndim != 2 or len(x) != len(index):
        raise ValueError(f"X {list(x.shape)} and Index {list(index.shape)} must be matrices of one height")
    return np.take_along_axis(x, checked_index(index, x.shape[1], "Index"), 1)


@index_sample.gradient(takes="X~ Index Out@GRAD", gives="X@GRAD")
def index_sample_grad(x: Array | Meta, index: Array, d_out: Array) -> Array:
    """Add the gradients where the elements came from."""
    return _add_at_axis(x.shape, checked_index(index, x.shape[1], "Index"), d_out, 1)


def flat_places(shape: Sequence[int], index: Array, axis: int) -> Array:
    """Where in a flat tensor of ``shape`` the elements lie whose coordinate along ``axis`` is ``index``.

    The other coordinates are those of the entry of ``index`` itself.
    """
    strides = [math.prod(shape[at + 1 :]) for at in range(len(shape))]
    places = index.astype(np.int64) * strides[axis]
    for at, size in enumerate(index.shape):
        if at != axis:
            own = np.arange(size, dtype=np.int64) * strides[at]
            places += own.reshape((-1,) + (1,) * (index.ndim - at - 1))
    return places


def _add_at_axis(shape: Sequence[int], index: Array, values: Array, axis: int) -> Array:
    grad = np.zeros(math.prod(shape), values.dtype)
    add_rows(grad, flat_places(shape, index, axis).reshape(-1), values.reshape(-1))
    return grad.reshape(shape)


def along(x: Array | Meta, index: Array, axis: int, slot: str = "Index") -> tuple[int, Array]:
    """The axis and the checked index of an operator that picks along an axis."""
    at = normalize_axis(axis, x.ndim)
    fits = index.ndim == x.ndim and all(
        size <= own for i, (size, own) in enumerate(zip(index.shape, x.shape, strict=True)) if i != at
    )
    if not fits:
        raise ValueError(
            f"{slot} has shape {list(index.shape)}, the tensor {list(x.shape)}: one rank is needed, and no "
            f"larger size outside axis {at}"
        )
    return at, checked_index(index, x.shape[at] if x.ndim else 1, slot)


@operator("take_along_axis", inputs="Input Index", outputs="Result")
def take_along_axis(x: Array, index: Array, *, Axis: int) -> Array:
    """Along ``Axis`` the elements that Index names, at each place of the other dimensions."""
    at, places = along(x, index, Axis)
    cut = tuple(slice(None) if i == at else slice(size) for i, size in enumerate(index.shape))
    return np.take_along_axis(x[cut], places, at) if x.ndim else x.reshape(index.shape)


@take_along_axis.gradient(takes="Input Index Result@GRAD", gives="Input@GRAD")
def take_along_axis_grad(x: Array, index: Array, d_out: Array, *, Axis: int) -> Array:
    """Add the gradients where the elements came from."""
    at, places = along(x, index, Axis)
    return _add_at_axis(x.shape, places, d_out, at) if x.ndim else d_out


take_along_axis_grad.gradient_op(
    "take_along_axis", takes="Input=Input@GRAD@GRAD Index", gives="Result=Result@GRAD@GRAD"
)


@operator("gather_tree", inputs="Ids Parents", outputs="Out", gradient=None)
def gather_tree(ids: Array, parents: Array) -> Array:
    """Whole beams from the ids and parents of each step, followed back from the last. [time, batch, beam]."""
    if ids.ndim != 3 or ids.shape != parents.shape:
        raise ValueError(f"Ids {list(ids.shape)} and Parents {list(parents.shape)} must be one 3-d shape")
    out = np.empty_like(ids)
    beams = np.broadcast_to(np.arange(ids.shape[2]), ids.shape[1:])
    for step in range(ids.shape[0] - 1, -1, -1):
        out[step] = np.take_along_axis(ids[step], beams, 1)
        beams = checked_index(np.take_along_axis(parents[step], beams, 1), ids.shape[2], "Parents")
    return out


@operator("masked_select", inputs="X Mask", outputs="Y")
def masked_select(x: Array, mask: Array) -> Array:
    """The elements of X where Mask is true, in row order, as a vector; both are broadcast to one shape."""
    if mask.dtype != np.bool_:
        raise TypeError(f"Mask is {mask.dtype}, bool is needed")
    if x.shape != mask.shape:
        x, mask = np.broadcast_arrays(x, mask)
    return np.asarray(x[mask]).reshape(-1)


@masked_select.gradient(takes="X~ Mask Y@GRAD", gives="X@GRAD")
def masked_select_grad(x: Array | Meta, mask: Array, d_y: Array) -> Array:
    """The gradients at the selected places, zero elsewhere."""
    shape = np.broadcast_shapes(x.shape, mask.shape)
    grad = np.zeros(shape, d_y.dtype)
    grad[np.broadcast_to(mask, shape)] = d_y
    return unbroadcast(grad, x.shape)


@operator("where", inputs="Condition X Y", outputs="Out")
def where(condition: Array, x: Array, y: Array) -> Array:
    """X where the condition holds, else Y; all three of one shape."""
    if condition.dtype != np.bool_ or x.dtype != y.dtype:
        raise TypeError(f"Condition is {condition.dtype}, X {x.dtype}, Y {y.dtype}: bool and one dtype are needed")
    if not condition.shape == x.shape == y.shape:
        raise ValueError(
            f"Condition has shape {list(condition.shape)}, X {list(x.shape)}, Y {list(y.shape)}: one is needed"
        )
    return np.where(condition, x, y)


@where.gradient(takes="Condition Out@GRAD X~ Y~", gives="X@GRAD Y@GRAD")
def where_grad(
    condition: Array,
    d_out: Array,
    x: Array | Meta,
    y: Array | Meta,
    *,
    want: frozenset[str] = frozenset({"X@GRAD", "Y@GRAD"}),
) -> tuple[Array | None, Array | None]:
    """Each gets the gradient where it was chosen."""
    zero = np.zeros((), d_out.dtype)
    return (
        np.where(condition, d_out, zero) if "X@GRAD" in want else None,
        np.where(condition, zero, d_out) if "Y@GRAD" in want else None,
    )


@operator("where_index", inputs="Condition", outputs="Out", gradient=None)
def where_index(condition: Array) -> Array:
    """The coordinates of all non-zero elements in row order, int64 of shape [count, ndim]."""
    if condition.ndim == 0:
        raise ValueError("Condition is 0-d, at least one dimension is needed")
    return np.stack(np.nonzero(condition), axis=-1).astype(np.int64, copy=False)
