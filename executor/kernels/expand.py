"""Repetition: expand, tile, broadcasting, meshgrid, repeat_interleave. Broadcasts are views."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ir.registry import operator
from ..values import Array, Meta
from .common import accumulate_dtype, as_ints, normalize_axis, unbroadcast

__all__ = [
    "broadcast_tensors",
    "expand",
    "expand_as_v2",
    "expand_v2",
    "meshgrid",
    "repeat_interleave",
    "tile",
]

Ints = Sequence[int]


def _stated(tensor: Any, tensors: Sequence[Any], attr: Ints | int) -> Ints:
    if tensor is not None:
        return as_ints(tensor)
    if tensors:
        return as_ints(list(tensors))
    return [attr] if isinstance(attr, int) else attr


def _tiled(x: Array, times: Ints) -> Array:
    """``x`` repeated ``times`` per dimension; a view where only dimensions of size 1 are repeated."""
    if any(count < 1 for count in times):
        raise ValueError(f"the repeat counts are {list(times)}, they must be positive")
    shape = (1,) * (len(times) - x.ndim) + x.shape
    counts = (1,) * (len(shape) - len(times)) + tuple(times)
    if all(count == 1 or size == 1 for count, size in zip(counts, shape, strict=True)):
        full = [size * count for size, count in zip(shape, counts, strict=True)]
        return np.broadcast_to(x.reshape(shape), full)
    return np.tile(x, times)


def _tiled_back(shape: tuple[int, ...], d_out: Array, times: Ints) -> Array:
    """Sum the gradient over the repeats."""
    padded = (1,) * (len(times) - len(shape)) + tuple(shape)
    counts = (1,) * (len(padded) - len(times)) + tuple(times)
    split = [each for pair in zip(counts, padded, strict=True) for each in pair]
    repeats = tuple(2 * i for i, count in enumerate(counts) if count != 1)
    apart = d_out.reshape(split)
    total = apart.sum(axis=repeats, dtype=accumulate_dtype(d_out.dtype)) if repeats else apart
    return total.astype(d_out.dtype, copy=False).reshape(shape)


@operator("expand", inputs="X ExpandTimes? expand_times_tensor*", outputs="Out")
def expand(x: Array, times_tensor: Any, times_list: Sequence[Any], *, expand_times: Ints = ()) -> Array:
    """X repeated ``expand_times`` per dimension, one count for each (1.x)."""
    times = _stated(times_tensor, times_list, expand_times)
    if len(times) != x.ndim:
        raise ValueError(f"expand_times is {list(times)}, X has {x.ndim} dimension(s): one count each")
    return _tiled(x, times)


@expand.gradient(takes="X~ Out@GRAD ExpandTimes? expand_times_tensor*", gives="X@GRAD")
def expand_grad(
    x: Array | Meta, d_out: Array, times_tensor: Any, times_list: Sequence[Any], *, expand_times: Ints = ()
) -> Array:
    """Sum the gradient over the repeats."""
    return _tiled_back(x.shape, d_out, _stated(times_tensor, times_list, expand_times))


@operator("tile", inputs="X RepeatTimes? repeat_times_tensor*", outputs="Out")
def tile(x: Array, times_tensor: Any, times_list: Sequence[Any], *, repeat_times: Ints | int = ()) -> Array:
    """X repeated per dimension; counts and shape are padded with ones in front to one length."""
    return _tiled(x, _stated(times_tensor, times_list, repeat_times))


@tile.gradient(takes="X~ Out@GRAD RepeatTimes? repeat_times_tensor*", gives="X@GRAD")
def tile_grad(
    x: Array | Meta,
    d_out: Array,
    times_tensor: Any,
    times_list: Sequence[Any],
    *,
    repeat_times: Ints | int = (),
) -> Array:
    """Sum the gradient over the repeats."""
    return _tiled_back(x.shape, d_out, _stated(times_tensor, times_list, repeat_times))


def _broadcast(x: Array, shape: Ints) -> Array:
    """``x`` as a view of ``shape``; -1 keeps the dimension of ``x`` there."""
    missing = len(shape) - x.ndim
    if missing < 0:
        raise ValueError(f"shape {list(shape)} has fewer dimensions than X of shape {list(x.shape)}")
    full: list[int] = []
    for place, size in enumerate(shape):
        own = x.shape[place - missing] if place >= missing else -1
        if size == -1 and own == -1:
            raise ValueError(f"shape {list(shape)} holds -1 for dimension {place}, which X does not have")
        if size < -1 or (size == 0 and own not in (0, 1)):
            raise ValueError(f"shape {list(shape)} holds {size} for dimension {place}")
        full.append(own if size == -1 else size)
    try:
        return np.broadcast_to(x, full)
    except ValueError:
        raise ValueError(f"X of shape {list(x.shape)} cannot be expanded to {list(shape)}") from None


@operator("expand_v2", inputs="X Shape? expand_shapes_tensor*", outputs="Out")
def expand_v2(x: Array, shape_tensor: Any, shape_list: Sequence[Any], *, shape: Ints = ()) -> Array:
    """X broadcast to ``shape`` (a view); -1 keeps a dimension."""
    return _broadcast(x, _stated(shape_tensor, shape_list, shape))


@expand_v2.gradient(takes="X~ Out@GRAD Shape? expand_shapes_tensor*", gives="X@GRAD")
def expand_v2_grad(x: Array | Meta, d_out: Array, shape_tensor: Any, shape_list: Sequence[Any]) -> Array:
    """Sum the gradient over what was broadcast."""
    return unbroadcast(d_out, x.shape)


@operator("expand_as", inputs="X target_tensor", outputs="Out")
def expand_as(x: Array, target: Array) -> Array:
    """X repeated to the shape of the target, whose sizes are multiples of X's (1.x)."""
    if x.ndim != target.ndim or any(not a or b % a for a, b in zip(x.shape, target.shape, strict=True)):
        raise ValueError(f"X of shape {list(x.shape)} does not repeat into target {list(target.shape)}")
    return _tiled(x, [b // a for a, b in zip(x.shape, target.shape, strict=True)])


@expand_as.gradient(takes="X target_tensor Out@GRAD", gives="X@GRAD")
def expand_as_grad(x: Array, target: Array, d_out: Array) -> Array:
    """Sum the gradient over the repeats."""
    times = [b // a for a, b in zip(x.shape, target.shape, strict=True)]
    return _tiled_back(x.shape, d_out, times)


@operator("expand_as_v2", inputs="X Y?", outputs="Out")
def expand_as_v2(x: Array, y: Array | None, *, target_shape: Ints = ()) -> Array:
    """X broadcast to the shape of Y, or to ``target_shape`` without Y (a view)."""
    return _broadcast(x, target_shape if y is None else y.shape)


@expand_as_v2.gradient(takes="X~ Out@GRAD", gives="X@GRAD")
def expand_as_v2_grad(x: Array | Meta, d_out: Array) -> Array:
    """Sum the gradient over what was broadcast."""
    return unbroadcast(d_out, x.shape)


expand_as_v2_grad.gradient_op("expand_as_v2", takes="X=X@GRAD@GRAD", gives="Out=Out@GRAD@GRAD")


@operator("broadcast_tensors", inputs="X*", outputs="Out*")
def broadcast_tensors(x: Sequence[Array]) -> list[Array]:
    """Every tensor as a view of their common shape."""
    shape = np.broadcast_shapes(*(part.shape for part in x))
    return [np.broadcast_to(part, shape) for part in x]


@broadcast_tensors.gradient(takes="X~* Out@GRAD*", gives="X@GRAD*")
def broadcast_tensors_grad(x: Sequence[Array | Meta], d_out: Sequence[Array]) -> list[Array]:
    """Sum each gradient over what was broadcast."""
    return [unbroadcast(grad, part.shape) for part, grad in zip(x, d_out, strict=True)]


@operator("meshgrid", inputs="X*", outputs="Out*")
def meshgrid(x: Sequence[Array]) -> list[Array]:
    """Each vector along its own dimension, broadcast over those of the others (views)."""
    if any(part.ndim > 1 for part in x):
        raise ValueError(f"X holds shapes {[list(part.shape) for part in x]}, vectors are needed")
    sizes = [part.size for part in x]
    return [
        np.broadcast_to(part.reshape((1,) * at + (-1,) + (1,) * (len(x) - at - 1)), sizes) for at, part in enumerate(x)
    ]


@meshgrid.gradient(takes="X* outputs@GRAD=Out@GRAD*", gives="X@GRAD*")
def meshgrid_grad(x: Sequence[Array], d_out: Sequence[Array]) -> list[Array]:
    """Sum each gradient over the dimensions of the other vectors."""
    grads = []
    for at, (part, grad) in enumerate(zip(x, d_out, strict=True)):
        others = tuple(axis for axis in range(grad.ndim) if axis != at)
        total = grad.sum(axis=others, dtype=accumulate_dtype(grad.dtype))
        grads.append(total.astype(grad.dtype, copy=False).reshape(part.shape))
    return grads


def _counts(repeats_tensor: Any, repeats: int, size: int) -> Array:
    if repeats_tensor is None:
        counts = np.full(size, repeats, np.int64)
    else:
        counts = np.asarray(repeats_tensor).reshape(-1).astype(np.int64)
        counts = np.full(size, counts[0]) if len(counts) == 1 else counts
    if len(counts) != size or (size and counts.min() < 0):
        raise ValueError(f"RepeatsTensor holds {len(counts)} counts for a dimension of {size}, none negative")
    return counts


@operator("repeat_interleave", inputs="X RepeatsTensor?", outputs="Out")
def repeat_interleave(x: Array, repeats_tensor: Any, *, Repeats: int = 0, dim: int = 0) -> Array:
    """Every slice along ``dim`` repeated in place, ``Repeats`` times or as RepeatsTensor states for each."""
    at = normalize_axis(dim, x.ndim)
    if repeats_tensor is None and Repeats <= 0:
        raise ValueError(f"Repeats is {Repeats}, it must be positive")
    return np.repeat(x, _counts(repeats_tensor, Repeats, x.shape[at]), at)


@repeat_interleave.gradient(takes="X~ RepeatsTensor? Out@GRAD", gives="X@GRAD")
def repeat_interleave_grad(
    x: Array | Meta, repeats_tensor: Any, d_out: Array, *, Repeats: int = 0, dim: int = 0
) -> Array:
    """Sum the gradient over the repeats of each slice."""
    at = normalize_axis(dim, x.ndim)
    counts = _counts(repeats_tensor, Repeats, x.shape[at])
    grad = np.zeros(x.shape, d_out.dtype)
    used = np.flatnonzero(counts)
    if len(used):
        starts = (np.cumsum(counts) - counts)[used]
        sums = np.add.reduceat(d_out.astype(accumulate_dtype(d_out.dtype), copy=False), starts, at)
        grad[(slice(None),) * at + (used,)] = sums
    return grad


def _repeat_forward(grad: Any, forward: str, rest: str) -> None:
    """The gradient of a linear operator's gradient is the operator itself."""
    grad.gradient_op(forward, takes=f"X=X@GRAD@GRAD {rest}", gives="Out=Out@GRAD@GRAD")


_repeat_forward(tile_grad, "tile", "RepeatTimes? repeat_times_tensor*")
_repeat_forward(expand_v2_grad, "expand_v2", "Shape? expand_shapes_tensor*")
_repeat_forward(repeat_interleave_grad, "repeat_interleave", "RepeatsTensor?")
