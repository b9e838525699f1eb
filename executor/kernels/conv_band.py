"""Depthwise convolution as products with a banded matrix.

A depthwise filter has too little arithmetic per pixel for elementwise passes to be fast: ``kh * kw`` multiply-adds
cost twice as many passes over memory. Here ``kw`` horizontally shifted copies of a few input rows form a matrix,
and a small banded matrix made from the filter turns it into a few output rows. Most of the band is zero, and yet
the product takes a fraction of the time of the passes, strides and dilations included.

Zeros times an infinity or NaN would spread it to rows that do not see it, so a block with a result that is not
finite is computed again tap by tap.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ..parallel import num_threads, parallel_for
from ..values import Array
from .conv_filter import PackedFilter
from .window import Axis
from .workspace import workspace

__all__ = ["band_convolve", "band_filter_gradient"]

_BLOCK_BYTES = 1 << 20
_CHUNKS = 2
"""Chunks of work per thread: a thread that wakes late finds fewer left."""
_SHARE_BYTES = 2 << 20
"""Columns that a chunk should have at least: waking a thread costs as much as filling some of them."""
_COPY_COST, _TILE_COST = 10, 60
"""In multiply-adds: moving one element into the columns, and starting a product for one column of a tile."""

Finish = Callable[[Array, int, slice, slice], None]
_Tile = tuple[int, int, int]


def _tile_rows(axis: Axis) -> int:
    """How many output rows one band makes: few make many copies, many make a wide band."""

    def cost(rows: int) -> int:
        high = (rows - 1) * axis.stride + (axis.kernel - 1) * axis.dilation + 1
        done = -(-rows // 4) * 4  # products work on four rows at a time
        return -(-axis.out // rows) * (high * (_COPY_COST + done) + _TILE_COST)

    return min(range(1, min(axis.out, 16) + 1), key=cost)


def _tiles(axis: Axis) -> Iterator[_Tile]:
    """(first output row, number of tiles, rows of a tile): the whole tiles, then what remains."""
    rows = _tile_rows(axis)
    whole = axis.out // rows
    yield 0, whole, rows
    if axis.out > whole * rows:
        yield whole * rows, 1, axis.out - whole * rows


class _Padded:
    """A buffer ``[c, H, W]`` for channels with their padding written out, as far as the window reaches."""

    def __init__(self, channels: int, axes: Sequence[Axis], dtype: np.dtype[Any]) -> None:
        reach = [(a.out - 1) * a.stride + (a.kernel - 1) * a.dilation + 1 for a in axes]
        met = [Axis(a.size, 1, 1, 1, a.before, r).meeting(0, 0, r) for a, r in zip(axes, reach, strict=True)]
        self._buffer = workspace("padded", (channels, *reach), dtype)
        self._buffer.fill(0)
        inner = [slice(first, first + hi - lo) if hi > lo else slice(0, 0) for lo, hi, first in met]
        self._into = (slice(None), *(slice(lo, hi) for lo, hi, _ in met))
        self._take = (slice(None), *inner)

    def fill(self, source: Array) -> Array:
        """The padded form of ``source`` ``[c, H, W]``; the border stays zero from call to call."""
        padded = self._buffer[: source.shape[0]]
        padded[self._into] = source[self._take]
        return padded


def _tile_columns(padded: Array, axes: Sequence[Axis], first: int, count: int, rows: int) -> Array:
    """``[c, count, kw * high, width]``: per tile the ``kw`` shifted copies of the rows that its outputs see."""
    down, across = axes
    high = (rows - 1) * down.stride + (down.kernel - 1) * down.dilation + 1
    plane, line, item = padded.strides
    view = as_strided(
        padded[:, first * down.stride :],
        (padded.shape[0], count, across.kernel, high, across.out),
        (plane, rows * down.stride * line, across.dilation * item, line, across.stride * item),
    )
    columns = workspace("columns", view.shape, padded.dtype)
    np.copyto(columns, view)
    return columns.reshape(padded.shape[0], count, across.kernel * high, across.out)


def _column_bytes(axes: Sequence[Axis], itemsize: int) -> int:
    """The columns of one channel."""
    down, across = axes
    tile = _tile_rows(down)
    high = (tile - 1) * down.stride + (down.kernel - 1) * down.dilation + 1
    return -(-down.out // tile) * high * across.kernel * across.out * itemsize


def _split(channels: int, images: int, column_bytes: int) -> tuple[int, int]:
    """(channels of a block, chunks of an image): chunks go to threads, blocks of a chunk stay in cache."""
    total = channels * images
    shares = min(num_threads() * _CHUNKS if num_threads() > 1 else 1, total * column_bytes // _SHARE_BYTES)
    chunk = min(-(-total // max(shares, 1)), channels)
    return min(max(_BLOCK_BYTES // column_bytes, 1), chunk), -(-channels // chunk)


def band_convolve(x: Array, filter: PackedFilter, axes: Sequence[Axis], out: Array, finish: Finish | None) -> None:
    """Depthwise convolution of ``[N, C, H, W]``, each channel with its own ``O / groups`` filters."""
    images, channels, each = x.shape[0], filter.groups, filter.group_outputs
    flat = out.reshape(images, filter.outputs, -1)
    bands = [(tile, filter.band(tile[2], axes[0].stride, axes[0].dilation)) for tile in _tiles(axes[0])]
    block, chunks = _split(channels, images, _column_bytes(axes, x.itemsize))

    def work(start: int, stop: int) -> None:
        buffer = _Padded(block, axes, x.dtype)
        for index in range(start, stop):
            n, chunk = divmod(index, chunks)
            first, last = chunk * channels // chunks, (chunk + 1) * channels // chunks
            for low in range(first, last, block):
                part = slice(low, min(low + block, last))
                padded = buffer.fill(x[n, part])
                target = out[n].reshape(channels, each, *out.shape[2:])[part]
                if not _block(padded, axes, bands, part, target):
                    _tap_by_tap(padded, filter.weight[part, :, 0], axes, target)
                if finish is not None:
                    finish(flat, n, slice(part.start * each, part.stop * each), slice(None))

    parallel_for(images * chunks, work)


def _block(
    padded: Array, axes: Sequence[Axis], bands: Sequence[tuple[_Tile, Array]], part: slice, target: Array
) -> bool:
    """Fill ``target`` ``[c, o, h, w]``; False when it saw values that are not finite, which spoil whole tiles."""
    total = 0.0
    for (first, count, rows), band in bands:
        columns = _tile_columns(padded, axes, first, count, rows)
        place = target[:, :, first : first + count * rows]
        tiles = place.reshape(*place.shape[:2], count, rows, place.shape[3])
        np.matmul(band[part, :, None], columns[:, None], out=tiles)
        # Every row of a tile is a sum over all that the tile sees, so one row tells for the tile.
        total += float(tiles[:, 0, :, 0].sum())
    return math.isfinite(total)


def _tap_by_tap(padded: Array, weight: Array, axes: Sequence[Axis], target: Array) -> None:
    """The plain sum over the taps of ``weight`` ``[c, o, kh, kw]``, into ``target`` ``[c, o, h, w]``."""
    down, across = axes
    target.fill(0)
    for i in range(down.kernel):
        for j in range(across.kernel):
            rows = slice(i * down.dilation, i * down.dilation + (down.out - 1) * down.stride + 1, down.stride)
            first = j * across.dilation
            cols = slice(first, first + (across.out - 1) * across.stride + 1, across.stride)
            target += weight[:, :, i, j, None, None] * padded[:, None, rows, cols]


def band_filter_gradient(x: Array, d_out: Array, axes: Sequence[Axis]) -> Array:
    """The gradient of a depthwise filter, ``[C, O / C, 1, kh, kw]``: that of the band, summed along diagonals."""
    down, across = axes
    channels = x.shape[1]
    each = d_out.shape[1] // channels
    total = np.zeros((channels, each, down.kernel, across.kernel), x.dtype)

    def work(start: int, stop: int) -> None:
        buffer = _Padded(stop - start, axes, x.dtype)
        for n in range(x.shape[0]):
            padded = buffer.fill(x[n, start:stop])
            above = d_out[n].reshape(channels, each, *d_out.shape[2:])[start:stop]
            for first, count, rows in _tiles(down):
                columns = _tile_columns(padded, axes, first, count, rows)
                part = above[:, :, first : first + count * rows]
                tiles = part.reshape(*part.shape[:2], count, rows, part.shape[3])
                band = np.matmul(tiles, columns[:, None].swapaxes(3, 4)).sum(axis=2)
                total[start:stop] += _diagonals(band.reshape(stop - start, each, rows, across.kernel, -1), down)

    block = max(_BLOCK_BYTES // _column_bytes(axes, x.itemsize), 1)
    parallel_for(channels, work, min(block, channels))
    return total[:, :, None]


def _diagonals(band: Array, down: Axis) -> Array:
    """``[c, o, kh, kw]`` from ``[c, o, rows, kw, high]``: what each tap meets in all rows, added up."""
    c, o, row, column, high = band.strides
    view = as_strided(
        band,
        (*band.shape[:2], band.shape[2], down.kernel, band.shape[3]),
        (c, o, row + down.stride * high, down.dilation * high, column),
    )
    total: Array = view.sum(axis=2)
    return total
