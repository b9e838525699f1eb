"""Writing by index: scatter, scatter_nd_add, index_add, index_put, put_along_axis, with gradients.

Where an index occurs several times the last write stays (assignment) or all writes add up (accumulation).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...ir.registry import operator
from ..values import Array, Meta
from .common import accumulate_dtype, add_rows, normalize_axis, unbroadcast
from .gather_scatter import along, checked_index, flat_places, nd_places

__all__ = ["index_add", "index_put", "put_along_axis", "scatter", "scatter_nd_add"]


def _ids(ids: Array, x: Array, slot: str = "Ids") -> Array:
    if ids.ndim > 1 and not (ids.ndim == 2 and ids.shape[1] == 1):
        raise ValueError(f"{slot} has shape {list(ids.shape)}, [n], [n, 1] or [] is needed")
    return checked_index(ids.reshape(-1), x.shape[0], slot)


def _rows(updates: Array, ids: Array, x: Array) -> Array:
    """Updates as one row per id; a 0-d Ids goes with a single row without its first dimension."""
    needed = (*([ids.size] if ids.ndim else []), *x.shape[1:])
    if updates.shape != needed:
        raise ValueError(f"Updates has shape {list(updates.shape)}, Ids and X call for {list(needed)}")
    return updates.reshape(ids.size, *x.shape[1:])


@operator("scatter", inputs="X Ids Updates", outputs="Out", inplace="X->Out")
def scatter(x: Array, ids: Array, updates: Array, *, overwrite: bool = True, out: Array | None = None) -> Array:
    """X with the rows Ids replaced by Updates, or without ``overwrite`` by the sum of their updates."""
    if updates.dtype != x.dtype:
        raise TypeError(f"Updates is {updates.dtype}, X is {x.dtype}: both need one dtype")
    places = _ids(ids, x)
    rows = _rows(updates, ids, x)
    result = x.copy() if out is None else out
    if overwrite:
        result[places] = rows
    else:
        result[places] = 0
        add_rows(result, places, rows)
    return result


@scatter.gradient(takes="Ids Updates~ Out@GRAD", gives="X@GRAD Updates@GRAD")
def scatter_grad(ids: Array, updates: Array | Meta, d_out: Array) -> tuple[Array, Array]:
    """X: the gradient with zeros in the written rows. Updates: the gradient of those rows."""
    places = _ids(ids, d_out)
    d_x = d_out.copy()
    d_x[places] = 0
    return d_x, np.take(d_out, places, 0).reshape(updates.shape)


@operator("scatter_nd_add", inputs="X Index Updates", outputs="Out", inplace="X->Out")
def scatter_nd_add(x: Array, index: Array, updates: Array, *, out: Array | None = None) -> Array:
    """X with Updates added at the coordinates in Index's last dimension."""
    if updates.dtype != x.dtype:
        raise TypeError(f"Updates is {updates.dtype}, X is {x.dtype}: both need one dtype")
    depth = index.shape[-1] if index.ndim else 0
    needed = (*index.shape[:-1], *x.shape[depth:])
    if updates.shape != needed:
        raise ValueError(f"Updates has shape {list(updates.shape)}, Index and X call for {list(needed)}")
    places = nd_places(index, x.shape, "Index").reshape(-1)
    result = np.array(x, order="C") if out is None else out
    rest = x.shape[depth:]
    add_rows(result.reshape(math.prod(x.shape[:depth]), *rest), places, updates.reshape(len(places), *rest))
    return result


@scatter_nd_add.gradient(takes="Index Updates~ Out@GRAD", gives="X@GRAD Updates@GRAD")
def scatter_nd_add_grad(index: Array, updates: Array | Meta, d_out: Array) -> tuple[Array, Array]:
    """X: the gradient itself. Updates: the gradient at the coordinates."""
    depth = index.shape[-1] if index.ndim else 0
    rows = d_out.reshape(math.prod(d_out.shape[:depth]), *d_out.shape[depth:])
    return d_out, np.take(rows, nd_places(index, d_out.shape, "Index"), 0).reshape(updates.shape)


@operator("index_add", inputs="X Index AddValue", outputs="Out", inplace="X->Out")
def index_add(x: Array, index: Array, value: Array, *, axis: int = 0, out: Array | None = None) -> Array:
    """X with the slices of AddValue added at Index along ``axis``."""
    at = normalize_axis(axis, x.ndim)
    places = checked_index(index.reshape(-1), x.shape[at], "Index")
    needed = (*x.shape[:at], len(places), *x.shape[at + 1 :])
    if value.shape != needed or value.dtype != x.dtype:
        raise ValueError(
            f"AddValue is {value.dtype} {list(value.shape)}, X and Index call for {x.dtype} {list(needed)}"
        )
    result = x.copy() if out is None else out
    add_rows(np.moveaxis(result, at, 0), places, np.moveaxis(value, at, 0))
    return result


@index_add.gradient(takes="Index AddValue Out@GRAD", gives="X@GRAD AddValue@GRAD")
def index_add_grad(index: Array, value: Array, d_out: Array, *, axis: int = 0) -> tuple[Array, Array]:
    """X: the gradient itself. AddValue: its slices at Index."""
    at = normalize_axis(axis, d_out.ndim)
    return d_out, np.take(d_out, checked_index(index.reshape(-1), d_out.shape[at], "Index"), at)


def _coordinates(indices: Sequence[Array], shape: Sequence[int]) -> tuple[tuple[int, ...], Array]:
    """The shape of the indexed part and its places in the leading dimensions laid flat (1-d)."""
    vectors: list[Array] = []
    for index in indices:
        if index.dtype == np.bool_:
            start = len(vectors)
            if index.shape != tuple(shape[start : start + index.ndim]):
                raise ValueError(f"indices holds a mask of shape {list(index.shape)}, it does not fit {list(shape)}")
            vectors.extend(np.nonzero(index))
        else:
            vectors.append(index)
    if len(vectors) > len(shape):
        raise ValueError(f"indices holds {len(vectors)} vectors, x has {len(shape)} dimension(s)")
    spread = np.broadcast_arrays(*vectors)
    places = np.zeros(spread[0].shape, np.int64)
    for axis, vector in enumerate(spread):
        places = places * shape[axis] + checked_index(vector, shape[axis], "indices")
    return (*places.shape, *shape[len(vectors) :]), places.reshape(-1)


def _fitted(value: Array, shape: tuple[int, ...]) -> Array:
    try:
        return np.broadcast_to(value, shape)
    except ValueError:
        raise ValueError(f"value has shape {list(value.shape)}, the indexed part {list(shape)}") from None


@operator("index_put", inputs="x indices* value", outputs="out", inplace="x->out")
def index_put(
    x: Array,
    indices: Sequence[Array],
    value: Array,
    *,
    accumulate: bool = False,
    out: Array | None = None,
) -> Array:
    """x with ``x[indices] = value``, or ``+=`` with ``accumulate``; indices are integers or masks."""
    if value.dtype != x.dtype:
        raise TypeError(f"value is {value.dtype}, x is {x.dtype}: both need one dtype")
    part, places = _coordinates(indices, x.shape)
    rest = part[len(part) - (x.ndim - _depth(indices)) :] if x.ndim > _depth(indices) else ()
    result = np.array(x, order="C") if out is None else out
    flat = result.reshape(-1, *rest)
    rows = _fitted(value, part).reshape(len(places), *rest)
    if accumulate:
        add_rows(flat, places, rows)
    else:
        flat[places] = rows
    return result


def _depth(indices: Sequence[Array]) -> int:
    return sum(index.ndim if index.dtype == np.bool_ else 1 for index in indices)


@index_put.gradient(takes="x indices* value out@GRAD", gives="x@GRAD value@GRAD")
def index_put_grad(
    x: Array,
    indices: Sequence[Array],
    value: Array,
    d_out: Array,
    *,
    accumulate: bool = False,
) -> tuple[Array, Array]:
    """x: the gradient, zero where it was overwritten. value: the gradient of the part, summed to its shape."""
    part, places = _coordinates(indices, x.shape)
    rest = x.shape[_depth(indices) :]
    rows = d_out.reshape(-1, *rest)
    d_value = unbroadcast(np.take(rows, places, 0).reshape(part), value.shape)
    if accumulate:
        return d_out, d_value
    d_x = np.array(d_out, order="C")
    d_x.reshape(-1, *rest)[places] = 0
    return d_x, d_value


_Reducer = Callable[[Array, Array, Array], None]


def _assign(flat: Array, places: Array, values: Array) -> None:
    flat[places] = values


_REDUCERS: dict[str, tuple[_Reducer, Any]] = {
    "assign": (_assign, None),
    "add": (add_rows, 0),
    "mul": (np.multiply.at, 1),
    "multiply": (np.multiply.at, 1),
    "mean": (add_rows, 0),
    "amin": (np.minimum.at, "max"),
    "amax": (np.maximum.at, "min"),
}
"""Reduce mode -> how values meet what is there, and what is there when the old value is left out."""


def _neutral(dtype: np.dtype[Any], start: Any) -> Any:
    if not isinstance(start, str):
        return start
    if dtype.kind in "iu":
        return getattr(np.iinfo(dtype), start)
    return np.inf if start == "max" else -np.inf


def _counts(size: int, places: Array, include_self: bool) -> Array:
    counts = np.bincount(places, minlength=size)
    return counts + 1 if include_self else np.maximum(counts, 1)


def _put(x: Array, places: Array, values: Array, reduce: str, include_self: bool) -> Array:
    """The flat result of a reduction into a copy of x."""
    if reduce not in _REDUCERS:
        raise ValueError(f"Reduce is '{reduce}', not one of {', '.join(_REDUCERS)}")
    reducer, start = _REDUCERS[reduce]
    flat = x.reshape(-1).astype(accumulate_dtype(x.dtype))
    if start is not None and not include_self:
        flat[places] = _neutral(flat.dtype, start)
    reducer(flat, places, values.astype(flat.dtype, copy=False))
    if reduce == "mean":
        counts = _counts(flat.size, places, include_self)
        touched = np.unique(places)
        flat[touched] = (flat[touched] / counts[touched]).astype(flat.dtype)
    return flat.astype(x.dtype, copy=False)


@operator("put_along_axis", inputs="Input Index Value", outputs="Result")
def put_along_axis(
    x: Array, index: Array, value: Array, *, Axis: int, Reduce: str = "assign", Include_self: bool = True
) -> Array:
    """Input with Value put along ``Axis`` where Index says; ``Reduce`` says how it meets the old values.

    Without ``Include_self`` the old value takes no part in the reduction.
    """
    if value.dtype != x.dtype:
        raise TypeError(f"Value is {value.dtype}, Input is {x.dtype}: both need one dtype")
    at, chosen = along(x, index, Axis)
    places = flat_places(x.shape, chosen, at).reshape(-1)
    values = np.broadcast_to(value, index.shape).reshape(-1)
    return _put(x, places, values, Reduce, Include_self).reshape(x.shape)


@dataclass(frozen=True, slots=True)
class _Put:
    """A finished put_along_axis, everything flat: old and new values, what was put where."""

    old: Array
    new: Array
    places: Array
    values: Array
    include_self: bool


_Shares = tuple[Any, Any]
"""The derivatives of the result by the old value (per place) and by each value put."""


def _share_assign(put: _Put) -> _Shares:
    last = np.empty(put.old.size, np.int64)
    order = np.arange(len(put.places))
    last[put.places] = order
    return 0, last[put.places] == order


def _share_add(put: _Put) -> _Shares:
    return 1, 1


def _share_mul(put: _Put) -> _Shares:
    with np.errstate(divide="ignore", invalid="ignore"):
        return put.new / put.old, put.new[put.places] / put.values


def _share_mean(put: _Put) -> _Shares:
    counts = _counts(put.old.size, put.places, put.include_self)
    return 1 / counts, 1 / counts[put.places]


def _share_extreme(put: _Put) -> _Shares:
    """All that equal the result share alike; the old value counts even where it took no part, as in Paddle."""
    old = put.old == put.new
    chosen = put.values == put.new[put.places]
    ties = np.maximum(old + np.bincount(put.places, chosen, put.old.size), 1)
    return old / ties, chosen / ties[put.places]


_SHARES: dict[str, Callable[[_Put], _Shares]] = {
    "assign": _share_assign,
    "add": _share_add,
    "mul": _share_mul,
    "multiply": _share_mul,
    "mean": _share_mean,
    "amin": _share_extreme,
    "amax": _share_extreme,
}


@put_along_axis.gradient(takes="Index Input Result Result@GRAD Value", gives="Input@GRAD Value@GRAD")
def put_along_axis_grad(
    index: Array,
    x: Array,
    result: Array,
    d_result: Array,
    value: Array,
    *,
    Axis: int,
    Reduce: str = "assign",
    Include_self: bool = True,
) -> tuple[Array, Array]:
    """The gradient shared between the old value (where it took part) and the values put there."""
    at, chosen = along(x, index, Axis)
    places = flat_places(x.shape, chosen, at).reshape(-1)
    values = np.broadcast_to(value, index.shape).reshape(-1)
    put = _Put(x.reshape(-1), result.reshape(-1), places, values, Include_self)
    of_old, of_values = _SHARES[Reduce](put)
    flat = d_result.reshape(-1)
    touched = np.zeros(x.size, np.bool_)
    touched[places] = True
    with np.errstate(invalid="ignore", over="ignore"):
        d_x = np.where(touched, flat * of_old if Include_self else 0, flat).astype(x.dtype)
        d_values = (flat[places] * of_values).astype(x.dtype)
    return d_x.reshape(x.shape), unbroadcast(d_values.reshape(index.shape), value.shape)
