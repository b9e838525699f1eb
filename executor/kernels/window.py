"""The geometry of a sliding window: paddings by their several spellings, output sizes, which positions a tap meets.

A window of ``kernel`` points ``dilation`` apart moves over each spatial axis by ``stride``. Output position ``o``
and tap ``k`` meet at input position ``o * stride + k * dilation - before``; positions outside the input are padding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from ..values import Array

__all__ = [
    "Axis",
    "Window",
    "add_window",
    "channels_first",
    "channels_last",
    "copy_tap",
    "copy_window",
    "explicit_pads",
    "pads_of",
    "per_axis",
    "same_pads",
]

Pads = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Axis:
    """One spatial axis of a window; ``size`` is the input's extent, ``out`` the output's."""

    size: int
    kernel: int
    stride: int
    dilation: int
    before: int
    out: int

    def meeting(self, tap: int, start: int, stop: int) -> tuple[int, int, int]:
        """The outputs of ``[start, stop)`` where ``tap`` lies inside the input, and the first input it meets.

        Returns ``(lo, hi, first)`` with ``start <= lo <= hi <= stop``; outputs ``lo..hi`` meet inputs
        ``first, first + stride, ...``.
        """
        shift = tap * self.dilation - self.before
        lo = max(start, -(shift // self.stride)) if shift < 0 else start
        hi = min(stop, (self.size - 1 - shift) // self.stride + 1)
        lo = min(max(lo, start), stop)
        return (lo, max(hi, lo), lo * self.stride + shift)


@dataclass(frozen=True, slots=True)
class Window:
    """A sliding window over one or more spatial axes; ``pads`` are (before, after) and may be negative."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: Pads

    @property
    def plain(self) -> bool:
        """Whether every output is one input at the same place."""
        ones = (1,) * len(self.kernel)
        return self.kernel == self.strides == ones and all(pad == (0, 0) for pad in self.pads)

    def output(self, spatial: Sequence[int]) -> tuple[int, ...]:
        """The output extents.

        Raises:
            ValueError: the window does not fit into the padded input.
        """
        out = []
        for size, k, s, d, (before, after) in zip(
            spatial, self.kernel, self.strides, self.dilations, self.pads, strict=True
        ):
            room = size + before + after - (d * (k - 1) + 1)
            if room < 0:
                raise ValueError(
                    f"the window {list(self.kernel)} (dilations {list(self.dilations)}, paddings "
                    f"{[list(pad) for pad in self.pads]}) does not fit an input of size {list(spatial)}"
                )
            out.append(room // s + 1)
        return tuple(out)

    def axes(self, spatial: Sequence[int], out: Sequence[int]) -> tuple[Axis, ...]:
        """The axes, for an input and an output of these extents."""
        return tuple(
            Axis(size, k, s, d, before, o)
            for size, k, s, d, (before, _), o in zip(
                spatial, self.kernel, self.strides, self.dilations, self.pads, out, strict=True
            )
        )

    def mirrored(self, spatial: Sequence[int], out: Sequence[int]) -> Window:
        """The stride-1 window that carries output gradients (spread ``stride`` apart) back to the input.

        ``out`` are the extents of the gradient after spreading. To be used with the kernel turned around.
        """
        pads = []
        for size, grown, k, d, (before, _) in zip(spatial, out, self.kernel, self.dilations, self.pads, strict=True):
            reach = d * (k - 1)
            pads.append((reach - before, size - grown + before))
        return Window(self.kernel, (1,) * len(self.kernel), self.dilations, tuple(pads))


def per_axis(values: Sequence[int], count: int, attr: str) -> tuple[int, ...]:
    """One positive integer per axis; none at all means 1 everywhere."""
    listed = tuple(int(v) for v in values) or (1,) * count
    if len(listed) != count or min(listed) <= 0:
        raise ValueError(f"{attr} must be {count} positive integers, got {list(values)}")
    return listed


def explicit_pads(paddings: Sequence[int], count: int) -> Pads:
    """(before, after) per axis from one value per axis or two; none at all means no padding."""
    listed = [int(p) for p in paddings] or [0] * count
    if len(listed) == count:
        return tuple((p, p) for p in listed)
    if len(listed) == 2 * count:
        return tuple((listed[2 * i], listed[2 * i + 1]) for i in range(count))
    raise ValueError(f"paddings must be {count} or {2 * count} integers, got {list(paddings)}")


def same_pads(spatial: Sequence[int], kernel: Sequence[int], strides: Sequence[int]) -> Pads:
    """Paddings that make the output ``ceil(size / stride)``; never negative, the odd one goes behind."""
    pads = []
    for size, k, s in zip(spatial, kernel, strides, strict=True):
        total = max((-(-size // s) - 1) * s + k - size, 0)
        pads.append((total // 2, total - total // 2))
    return tuple(pads)


def pads_of(
    algorithm: str,
    paddings: Sequence[int],
    spatial: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
) -> Pads:
    """(before, after) per axis as ``padding_algorithm`` says: EXPLICIT from ``paddings``, SAME or VALID."""
    if algorithm == "SAME":
        return same_pads(spatial, kernel, strides)
    if algorithm == "VALID":
        return ((0, 0),) * len(kernel)
    if algorithm != "EXPLICIT":
        raise ValueError(f"padding_algorithm must be EXPLICIT, SAME or VALID, got '{algorithm}'")
    return explicit_pads(paddings, len(kernel))


def channels_first(x: Array, data_format: str) -> Array:
    """``x`` with the channel axis second: itself, or a view where ``data_format`` ends with C (NHWC, NDHWC)."""
    return np.moveaxis(x, -1, 1) if data_format.endswith("C") else x


def channels_last(x: Array, data_format: str) -> Array:
    """The way back from :func:`channels_first`."""
    return np.moveaxis(x, 1, -1) if data_format.endswith("C") else x


def copy_tap(
    target: Array, source: Array, axes: Sequence[Axis], tap: Sequence[int], ranges: Sequence[tuple[int, int]]
) -> None:
    """Fill ``target`` with what one tap meets, zero where it meets padding.

    Args:
        target: ``[..., *extents of ranges]``.
        source: ``[..., *spatial]`` with the same leading axes.
        ranges: per axis the outputs ``[start, stop)`` that target holds.
    """
    lead: tuple[Any, ...] = (slice(None),) * (target.ndim - len(axes))
    into: tuple[slice, ...] = ()
    take: tuple[slice, ...] = ()
    for axis, k, (start, stop) in zip(axes, tap, ranges, strict=True):
        lo, hi, first = axis.meeting(k, start, stop)
        if lo > start:
            target[lead + into + (slice(0, lo - start),)] = 0
        if hi < stop:
            target[lead + into + (slice(hi - start, stop - start),)] = 0
        into += (slice(lo - start, hi - start),)
        take += (slice(first, first + (hi - lo - 1) * axis.stride + 1, axis.stride) if hi > lo else slice(0, 0),)
    target[lead + into] = source[lead + take]


def copy_window(target: Array, source: Array, axes: Sequence[Axis], ranges: Sequence[tuple[int, int]]) -> None:
    """As :func:`copy_tap` for all taps; ``target`` is ``[..., *kernel, *extents of ranges]``."""
    count = len(axes)
    lead: tuple[Any, ...] = (slice(None),) * (target.ndim - 2 * count)
    for tap in product(*(range(axis.kernel) for axis in axes)):
        copy_tap(target[lead + tap], source, axes, tap, ranges)


def add_window(
    columns: Array,
    target: Array,
    axes: Sequence[Axis],
    ranges: Sequence[tuple[int, int]],
    apart: bool = False,
) -> None:
    """The transpose of :func:`copy_window`: add columns back to where the taps meet ``target``.

    ``apart`` promises that no two taps meet the same input, so that values may be stored instead of added.
    """
    count = len(axes)
    lead: tuple[Any, ...] = (slice(None),) * (target.ndim - count)
    for tap in product(*(range(axis.kernel) for axis in axes)):
        met = [axis.meeting(k, *bounds) for axis, k, bounds in zip(axes, tap, ranges, strict=True)]
        if any(hi <= lo for lo, hi, _ in met):
            continue
        take = tuple(slice(lo - start, hi - start) for (lo, hi, _), (start, _) in zip(met, ranges, strict=True))
        into = tuple(
            slice(first, first + (hi - lo - 1) * axis.stride + 1, axis.stride)
            for axis, (lo, hi, first) in zip(axes, met, strict=True)
        )
        place = target[lead + into]
        if apart:
            place[...] = columns[lead + tap + take]
        else:
            np.add(place, columns[lead + tap + take], out=place)
