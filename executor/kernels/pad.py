"""Padding and cropping: by a constant, by reflecting, repeating or wrapping around, and cutting out a region."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ...ir.registry import REQUIRED, operator
from ..values import Array, Meta
from .common import accumulate_dtype, as_ints

__all__ = ["crop", "crop_tensor", "pad", "pad2d", "pad3d", "pad_constant_like", "place"]

_Pairs = Sequence[tuple[int, int]]
_Index = npt.NDArray[np.int64]


def place(target: Array, source: Array, starts: Sequence[int]) -> None:
    """Copy ``source`` into ``target`` with its origin at ``starts``; what falls outside is left out."""
    into, take = [], []
    for size, extent, start in zip(target.shape, source.shape, starts, strict=True):
        lo, hi = max(start, 0), min(start + extent, size)
        into.append(slice(lo, max(hi, lo)))
        take.append(slice(lo - start, max(hi, lo) - start))
    target[tuple(into)] = source[tuple(take)]


def _constant(x: Array, pads: _Pairs, value: Any) -> Array:
    extents = [size + before + after for size, (before, after) in zip(x.shape, pads, strict=True)]
    if any(extent < 0 for extent in extents):
        raise ValueError(f"paddings {[list(pair) for pair in pads]} cut more than X {list(x.shape)} has")
    out = np.full(extents, np.asarray(value).astype(x.dtype), x.dtype)
    place(out, x, [before for before, _ in pads])
    return out


def _constant_back(d_out: Array, shape: Sequence[int], pads: _Pairs) -> Array:
    d_x = np.zeros(shape, d_out.dtype)
    place(d_x, d_out, [-before for before, _ in pads])
    return d_x


def _reflected(k: _Index, size: int) -> _Index:
    inside = np.abs(k)
    folded: _Index = np.minimum(inside, 2 * size - inside - 2)
    return folded


_MODES: dict[str, Callable[[_Index, int], _Index]] = {
    "reflect": _reflected,
    "edge": lambda k, size: np.clip(k, 0, size - 1),
    "replicate": lambda k, size: np.clip(k, 0, size - 1),
    "circular": lambda k, size: k % size,
}


def _source_index(mode: str, size: int, before: int, after: int) -> _Index:
    """Which input each output of an axis repeats."""
    if mode == "reflect" and max(before, after) >= size:
        raise ValueError(f"a reflecting pad must be below the size {size} of its axis, got {[before, after]}")
    if size == 0:
        raise ValueError(f"an axis of size 0 cannot be padded by mode '{mode}'")
    return _MODES[mode](np.arange(-before, size + after, dtype=np.int64), size)


def _padded(x: Array, pads: _Pairs, mode: str, value: float) -> Array:
    if mode == "constant":
        return _constant(x, pads, value)
    for axis, (before, after) in enumerate(pads):
        if before or after:
            x = np.take(x, _source_index(mode, x.shape[axis], before, after), axis=axis)
    return x


def _padded_back(d_out: Array, shape: Sequence[int], pads: _Pairs, mode: str) -> Array:
    if mode == "constant":
        return _constant_back(d_out, shape, pads)
    total = d_out.astype(accumulate_dtype(d_out.dtype), copy=False)
    for axis, (before, after) in enumerate(pads):
        if not (before or after):
            continue
        size = shape[axis]
        index = _source_index(mode, size, before, after)
        lead: tuple[Any, ...] = (slice(None),) * axis
        inner = np.zeros((*total.shape[:axis], size, *total.shape[axis + 1 :]), total.dtype)
        first, last = max(before, 0), min(before + size, len(index))
        into, take = (*lead, slice(first - before, last - before)), (*lead, slice(first, last))
        inner[into] = total[take]
        # Only the few padded positions meet an input a second time.
        for position in (*range(first), *range(last, len(index))):
            met, padded = (*lead, int(index[position])), (*lead, position)
            inner[met] += total[padded]
        total = inner
    return total.astype(d_out.dtype, copy=False)


def _pairs(paddings: Sequence[int], count: int) -> list[tuple[int, int]]:
    listed = [int(p) for p in paddings]
    if len(listed) != 2 * count:
        raise ValueError(f"paddings must be {2 * count} integers (before and after per axis), got {listed}")
    return [(listed[2 * i], listed[2 * i + 1]) for i in range(count)]


@operator("pad", inputs="X", outputs="Out")
def pad(x: Array, *, paddings: Sequence[int] = REQUIRED, pad_value: float = 0.0) -> Array:
    """``x`` with ``paddings`` (before and after, axis by axis) of ``pad_value``."""
    pads = _pairs(paddings, x.ndim)
    if any(min(pair) < 0 for pair in pads):
        raise ValueError(f"paddings must not be negative, got {list(paddings)}")
    return _constant(x, pads, pad_value)


@pad.gradient(takes="Out@GRAD", gives="X@GRAD")
def pad_grad(d_out: Array, *, paddings: Sequence[int] = REQUIRED) -> Array:
    """The part of the gradient that belongs to the input."""
    pads = _pairs(paddings, d_out.ndim)
    shape = [size - before - after for size, (before, after) in zip(d_out.shape, pads, strict=True)]
    return _constant_back(d_out, shape, pads)


def _checked_mode(mode: str, allowed: Sequence[str]) -> None:
    if mode not in allowed:
        raise ValueError(f"mode must be one of {', '.join(allowed)}, got '{mode}'")


def _image_pads(spatial: _Pairs, data_format: str) -> list[tuple[int, int]]:
    """Pads of all axes from those of the spatial ones."""
    none = (0, 0)
    return [none, *spatial, none] if data_format.endswith("C") else [none, none, *spatial]


def _pads_2d(paddings: Sequence[int], tensor: Array | None, data_format: str) -> list[tuple[int, int]]:
    return _image_pads(_pairs(as_ints(tensor) if tensor is not None else paddings, 2), data_format)


_MODES_2D = ("constant", "reflect", "edge")
_MODES_3D = ("constant", "reflect", "replicate", "circular")


@operator("pad2d", inputs="X Paddings?", outputs="Out")
def pad2d(
    x: Array,
    tensor: Array | None,
    *,
    paddings: Sequence[int] = REQUIRED,
    pad_value: float = 0.0,
    mode: str = "constant",
    data_format: str = "NCHW",
) -> Array:
    """Pad height and width of an image batch: ``paddings`` is [top, bottom, left, right]."""
    _checked_mode(mode, _MODES_2D)
    if x.ndim != 4:
        raise ValueError(f"X must have 4 dimensions, got shape {list(x.shape)}")
    return _padded(x, _pads_2d(paddings, tensor, data_format), mode, pad_value)


@pad2d.gradient(takes="X~ Paddings? Out@GRAD", gives="X@GRAD")
def pad2d_grad(
    x: Array | Meta,
    tensor: Array | None,
    d_out: Array,
    *,
    paddings: Sequence[int] = REQUIRED,
    mode: str = "constant",
    data_format: str = "NCHW",
) -> Array:
    """Every output's gradient goes to the input that it repeats."""
    return _padded_back(d_out, x.shape, _pads_2d(paddings, tensor, data_format), mode)


def _pads_3d(paddings: Sequence[int], tensor: Array | None, data_format: str) -> list[tuple[int, int]]:
    pairs = _pairs(as_ints(tensor) if tensor is not None else paddings, 3)
    return _image_pads(pairs[::-1], data_format)


@operator("pad3d", inputs="X Paddings?", outputs="Out")
def pad3d(
    x: Array,
    tensor: Array | None,
    *,
    paddings: Sequence[int] = REQUIRED,
    mode: str = "constant",
    value: float = 0.0,
    data_format: str = "NCDHW",
) -> Array:
    """Pad a volume batch: ``paddings`` is [left, right, top, bottom, front, back]."""
    _checked_mode(mode, _MODES_3D)
    if x.ndim != 5:
        raise ValueError(f"X must have 5 dimensions, got shape {list(x.shape)}")
    return _padded(x, _pads_3d(paddings, tensor, data_format), mode, value)


@pad3d.gradient(takes="X~ Paddings? Out@GRAD", gives="X@GRAD")
def pad3d_grad(
    x: Array | Meta,
    tensor: Array | None,
    d_out: Array,
    *,
    paddings: Sequence[int] = REQUIRED,
    mode: str = "constant",
    data_format: str = "NCDHW",
) -> Array:
    """Every output's gradient goes to the input that it repeats."""
    return _padded_back(d_out, x.shape, _pads_3d(paddings, tensor, data_format), mode)


@operator("pad_constant_like", inputs="X Y", outputs="Out")
def pad_constant_like(x: Array, y: Array, *, pad_value: float = 0.0) -> Array:
    """``y`` padded behind with ``pad_value`` to the shape of ``x``."""
    if x.ndim != y.ndim or any(b > a for a, b in zip(x.shape, y.shape, strict=True)):
        raise ValueError(f"Y {list(y.shape)} must fit into X {list(x.shape)}")
    return _constant(y, [(0, a - b) for a, b in zip(x.shape, y.shape, strict=True)], pad_value)


@pad_constant_like.gradient(takes="Y~ Out@GRAD", gives="Y@GRAD")
def pad_constant_like_grad(y: Array | Meta, d_out: Array) -> Array:
    """The part of the gradient that belongs to ``y``."""
    return d_out[tuple(slice(0, size) for size in y.shape)]


def _region(x: Array | Meta, shape: Sequence[int], offsets: Sequence[int]) -> tuple[slice, ...]:
    """The region of ``x`` that a crop takes; a negative extent reaches to the end."""
    if len(offsets) != x.ndim or len(shape) != x.ndim:
        raise ValueError(
            f"a crop of X {list(x.shape)} needs {x.ndim} offsets and extents, got {list(offsets)} and {list(shape)}"
        )
    region = []
    for size, extent, offset in zip(x.shape, shape, offsets, strict=True):
        length = size - offset if extent < 0 else extent
        if offset < 0 or offset + length > size:
            raise ValueError(f"offsets {list(offsets)} and shape {list(shape)} reach outside X {list(x.shape)}")
        region.append(slice(offset, offset + length))
    return tuple(region)


def _given(tensor: Array | None, listed: Sequence[Array], attr: Sequence[int]) -> list[int]:
    """One tensor comes before a list of them, and that before the attribute."""
    if tensor is not None:
        return as_ints(tensor)
    return as_ints(list(listed)) if listed else [int(v) for v in attr]


@operator("crop", inputs="X Y? Offsets?", outputs="Out")
def crop(
    x: Array,
    y: Array | None,
    tensor: Array | None,
    *,
    offsets: Sequence[int] = (),
    shape: Sequence[int] = (),
) -> Array:
    """The region of ``x`` at ``offsets`` with the shape of ``y``, else ``shape``."""
    if y is not None:
        extents = list(y.shape)
    else:
        extents = [size if v < 0 else int(v) for v, size in zip(shape, x.shape, strict=False)]
    return x[_region(x, extents, _given(tensor, (), offsets))]


@crop.gradient(takes="X Offsets? Out@GRAD", gives="X@GRAD")
def crop_grad(x: Array, tensor: Array | None, d_out: Array, *, offsets: Sequence[int] = ()) -> Array:
    """The gradient in place, zeros around."""
    d_x = np.zeros(x.shape, d_out.dtype)
    d_x[_region(x, d_out.shape, _given(tensor, (), offsets))] = d_out
    return d_x


@operator("crop_tensor", inputs="X Shape? ShapeTensor* Offsets? OffsetsTensor*", outputs="Out")
def crop_tensor(
    x: Array,
    shape_tensor: Array | None,
    shape_list: list[Array],
    offsets_tensor: Array | None,
    offsets_list: list[Array],
    *,
    shape: Sequence[int] = (),
    offsets: Sequence[int] = (),
) -> Array:
    """The region of ``x`` at the offsets with the shape; -1 in the shape reaches to the end of its axis."""
    extents = _given(shape_tensor, shape_list, shape)
    if 0 in extents:
        raise ValueError(f"the shape of a crop must not be zero, got {extents}")
    return x[_region(x, extents, _given(offsets_tensor, offsets_list, offsets))]


@crop_tensor.gradient(takes="X Offsets? OffsetsTensor* Out@GRAD", gives="X@GRAD")
def crop_tensor_grad(
    x: Array,
    offsets_tensor: Array | None,
    offsets_list: list[Array],
    d_out: Array,
    *,
    offsets: Sequence[int] = (),
) -> Array:
    """The gradient in place, zeros around."""
    d_x = np.zeros(x.shape, d_out.dtype)
    d_x[_region(x, d_out.shape, _given(offsets_tensor, offsets_list, offsets))] = d_out
    return d_x
