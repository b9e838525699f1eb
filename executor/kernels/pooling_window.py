"""Windows of the pooling operators, axis by axis: reducing over them, spreading back, finding where a maximum is.

A pooled axis is either regular (a window slides by a stride) or a list of bins of uneven size (adaptive pooling
whose output does not divide the input). Windows are separable: reducing a box is reducing along one axis after
the other, ``kh + kw`` passes instead of ``kh * kw``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from ..values import Array
from .window import Axis, pads_of, per_axis

__all__ = ["PoolAxis", "box_counts", "first_maximum", "pool_axes", "reduce_box", "spread_box"]

_Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class PoolAxis:
    """One pooled axis.

    Attributes:
        starts, stops: the part of the input that each window sees.
        spans: the extent that an average divides by when padding counts.
        regular: the sliding window, None for uneven bins.
    """

    size: int
    starts: _Ints
    stops: _Ints
    spans: _Ints
    regular: Axis | None

    @property
    def out(self) -> int:
        """The number of windows."""
        return len(self.starts)


def _sliding(size: int, kernel: int, stride: int, before: int, out: int) -> PoolAxis:
    first = np.arange(out, dtype=np.int64) * stride - before
    # Padding behind the input counts as far as the padding in front would reach, as in Paddle.
    spans = np.minimum(first + kernel, size + before) - first
    # A window behind the input keeps its negative extent: that is what an average divides nothing by, in Paddle.
    return PoolAxis(
        size,
        np.maximum(first, 0),
        np.minimum(first + kernel, size),
        spans,
        Axis(size, kernel, stride, 1, before, out),
    )


def _adaptive(size: int, out: int) -> PoolAxis:
    if out <= 0:
        raise ValueError(f"an adaptive pooling needs a positive ksize, got {out}")
    if size % out == 0:
        return _sliding(size, size // out, size // out, 0, out)
    index = np.arange(out, dtype=np.int64)
    starts, stops = index * size // out, -(-(index + 1) * size // out)
    return PoolAxis(size, starts, stops, stops - starts, None)


def pool_axes(
    spatial: Sequence[int],
    ksize: Sequence[int],
    strides: Sequence[int],
    paddings: Sequence[int],
    *,
    padding_algorithm: str = "EXPLICIT",
    global_pooling: bool = False,
    adaptive: bool = False,
    ceil_mode: bool = False,
    uneven: bool = True,
) -> list[PoolAxis]:
    """The pooled axes that the attributes describe for an input of this size.

    With ``uneven`` false an adaptive pooling slides windows of ``ksize`` by ``strides``, ``ksize`` of them: what
    Paddle's CPU kernel of pool2d and pool3d does for a maximum.

    Raises:
        ValueError: an attribute does not fit the number of axes, or the window does not fit the input.
    """
    count = len(spatial)
    if global_pooling and not adaptive:
        return [_sliding(size, size, 1, 0, 1) for size in spatial]
    kernel = tuple(spatial) if global_pooling else per_axis(ksize, count, "ksize")
    if adaptive and uneven:
        return [_adaptive(size, out) for size, out in zip(spatial, kernel, strict=True)]
    steps = per_axis(strides, count, "strides")
    if adaptive:
        return [_sliding(size, k, s, 0, k) for size, k, s in zip(spatial, kernel, steps, strict=True)]
    pads = pads_of(padding_algorithm, paddings, spatial, kernel, steps)
    axes = []
    for size, k, s, (before, after) in zip(spatial, kernel, steps, pads, strict=True):
        room = size - k + before + after + (s - 1 if ceil_mode else 0)
        if room < 0:
            raise ValueError(
                f"the window {list(kernel)} with paddings {[list(p) for p in pads]} does not fit an input of "
                f"size {list(spatial)}"
            )
        axes.append(_sliding(size, k, s, before, room // s + 1))
    return axes


def _along(array: Array, axis: int, where: Any) -> Array:
    return array[(slice(None),) * axis + (where,)]


def _overlaps(axis: Axis) -> Iterator[tuple[slice, slice]]:
    """Per tap: the outputs that it reaches, and the inputs that they meet there."""
    for tap in range(axis.kernel):
        lo, hi, first = axis.meeting(tap, 0, axis.out)
        if hi > lo:
            yield slice(lo, hi), slice(first, first + (hi - lo - 1) * axis.stride + 1, axis.stride)


def reduce_box(x: Array, axes: Sequence[PoolAxis], combine: np.ufunc, empty: Any) -> Array:
    """``combine`` over the windows of the trailing axes of ``x``; a window without input gives ``empty``."""
    for position, axis in enumerate(axes, x.ndim - len(axes)):
        x = _reduce(x, axis, position, combine, empty)
    return x


def _reduce(x: Array, axis: PoolAxis, position: int, combine: np.ufunc, empty: Any) -> Array:
    shape = (*x.shape[:position], axis.out, *x.shape[position + 1 :])
    if axis.regular is not None and axis.out == 1 and axis.stops[0] > axis.starts[0]:
        whole = _along(x, position, slice(int(axis.starts[0]), int(axis.stops[0])))
        return np.asarray(combine.reduce(whole, axis=position, keepdims=True))
    out = np.empty(shape, x.dtype)
    if axis.regular is None:
        for index, (start, stop) in enumerate(zip(axis.starts, axis.stops, strict=True)):
            combine.reduce(
                _along(x, position, slice(int(start), int(stop))),
                axis=position,
                out=_along(out, position, index),
            )
        return out
    pairs = list(_overlaps(axis.regular))
    full = [take for into, take in pairs if into == slice(0, axis.out)]
    if len(full) < 2:
        out.fill(empty)
        rest = pairs
    else:
        combine(_along(x, position, full[0]), _along(x, position, full[1]), out=out)
        rest = [(into, take) for into, take in pairs if take not in full[:2]]
    for into, take in rest:
        place = _along(out, position, into)
        combine(place, _along(x, position, take), out=place)
    return out


def spread_box(values: Array, axes: Sequence[PoolAxis]) -> Array:
    """The transpose of summing over windows: every input gets the sum of the values of the windows it is in."""
    for position, axis in enumerate(axes, values.ndim - len(axes)):
        shape = (*values.shape[:position], axis.size, *values.shape[position + 1 :])
        out = np.zeros(shape, values.dtype)
        if axis.regular is not None:
            for into, take in _overlaps(axis.regular):
                place = _along(out, position, take)
                np.add(place, _along(values, position, into), out=place)
        else:
            for index, (start, stop) in enumerate(zip(axis.starts, axis.stops, strict=True)):
                place = _along(out, position, slice(int(start), int(stop)))
                np.add(place, _along(values, position, slice(index, index + 1)), out=place)
        values = out
    return values


def box_counts(axes: Sequence[PoolAxis], exclusive: bool) -> npt.NDArray[np.int64]:
    """What an average divides by, per window; only the input counts when ``exclusive`` or the bins are adaptive."""
    total = np.ones((1,) * len(axes), np.int64)
    for position, axis in enumerate(axes):
        inside = axis.stops - axis.starts
        count = inside if exclusive or axis.regular is None else axis.spans
        total = total * count.reshape([-1 if i == position else 1 for i in range(len(axes))])
    return total


def first_maximum(x: Array, best: Array, axes: Sequence[PoolAxis]) -> _Ints:
    """Where each window of ``x`` ``[..., *spatial]`` first holds its maximum ``best``: flat, -1 for nowhere."""
    spatial = x.shape[x.ndim - len(axes) :]
    steps = [int(np.prod(spatial[i + 1 :], dtype=np.int64)) for i in range(len(axes))]
    found = np.full(best.shape, -1, np.int64)
    regular = [axis.regular for axis in axes if axis.regular is not None]
    if len(regular) == len(axes):
        _search_taps(x, best, regular, steps, found)
    else:
        _search_bins(x, axes, steps, found)
    return found


def _search_taps(x: Array, best: Array, axes: Sequence[Axis], steps: Sequence[int], found: _Ints) -> None:
    """Number the taps downwards and keep the largest number among the hits; then turn numbers into places.

    A maximum is several times as fast as an assignment under a mask.
    """
    lead = (slice(None),) * (x.ndim - len(axes))
    taps = list(product(*(range(axis.kernel) for axis in axes)))
    number = np.zeros(best.shape, np.uint8 if len(taps) < 256 else np.int32)
    for tap, rank in zip(taps, range(len(taps), 0, -1), strict=True):
        met = [axis.meeting(k, 0, axis.out) for axis, k in zip(axes, tap, strict=True)]
        into = lead + tuple(slice(lo, hi) for lo, hi, _ in met)
        take = lead + tuple(
            slice(first, first + (hi - lo) * axis.stride, axis.stride) if hi > lo else slice(0, 0)
            for axis, (lo, hi, first) in zip(axes, met, strict=True)
        )
        ranked = np.multiply(x[take] == best[into], rank, dtype=number.dtype)
        np.maximum(number[into], ranked, out=number[into])
    base = np.zeros((1,) * len(axes), np.int64)
    for position, (axis, step) in enumerate(zip(axes, steps, strict=True)):
        line = (np.arange(axis.out, dtype=np.int64) * axis.stride - axis.before) * step
        base = base + line.reshape([-1 if i == position else 1 for i in range(len(axes))])
    offsets = [sum(k * step for k, step in zip(tap, steps, strict=True)) for tap in taps]
    np.add(np.array([0, *reversed(offsets)], np.int64)[number], base, out=found)
    found[number == 0] = -1


def _search_bins(x: Array, axes: Sequence[PoolAxis], steps: Sequence[int], found: _Ints) -> None:
    lead = (slice(None),) * (x.ndim - len(axes))
    for index in product(*(range(axis.out) for axis in axes)):
        starts = [int(axis.starts[i]) for axis, i in zip(axes, index, strict=True)]
        extents = [int(axis.stops[i]) - start for axis, i, start in zip(axes, index, starts, strict=True)]
        box = x[lead + tuple(slice(start, start + extent) for start, extent in zip(starts, extents, strict=True))]
        best = box.reshape(*box.shape[: len(lead)], -1).argmax(axis=-1)
        inside = np.unravel_index(best, extents)
        found[lead + index] = sum((i + s) * step for i, s, step in zip(inside, starts, steps, strict=True))
