"""Convolution as matrix products: which formulation fits which shape.

All formulations work on blocks whose buffers stay near the cache, in the layout ``[N, C, *spatial]``:

* *pointwise*: a 1x1 filter is one product on the ``[C, pixels]`` view.
* *by rows*: the kernel's columns are stacked into the inner dimension (``kw`` shifted copies of the input
  instead of ``kh * kw``), its rows into the outer one; ``kh`` shifted sums finish. For a vertical stride of 1.
* *by outputs*: no copies; one product gives what every tap adds at every input position, ``kh * kw`` shifted
  sums finish. For few output channels.
* *by columns*: the classic column buffer. For strides, three spatial axes, few input channels.
* *band*: for depthwise filters, see :mod:`conv_band`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import product

import numpy as np

from ..values import Array
from .conv_band import band_convolve
from .conv_blocks import BLOCK_BYTES, even_blocks, pixels_of, position_blocks, row_blocks, run_blocks, shares
from .conv_filter import PackedFilter
from .window import Axis, Window, copy_tap, copy_window
from .workspace import workspace

__all__ = ["Finish", "column_buffer", "convolve", "finish_whole", "stack_rows"]

Finish = Callable[[Array, int, slice, slice], None]
"""Bias, residual and activation: ``(out [N, C, pixels], image, channels, pixels)``, in place on that block."""

_FINISH_BYTES = 1 << 20
"""Aim for the part of the output that is finished while it is in cache."""
_FEW_TAPS = 40
"""Up to this inner dimension stacking whole columns beats stacking rows."""
_ALL = slice(None)


def convolve(x: Array, filter: PackedFilter, window: Window, finish: Finish | None = None) -> Array:
    """The convolution of ``x`` ``[N, C, *spatial]``, float32 or float64, in a new array."""
    out_extents = window.output(x.shape[2:])
    out = np.empty((x.shape[0], filter.outputs, *out_extents), x.dtype)
    if out.size == 0:
        return out
    axes = window.axes(x.shape[2:], out_extents)
    with np.errstate(over="ignore", invalid="ignore"):
        _choose(filter, window)(x, filter, axes, out, finish)
    return out


def _choose(filter: PackedFilter, window: Window) -> Callable[..., None]:
    if math.prod(window.kernel) == 1 and all(pad == (0, 0) for pad in window.pads):
        return _pointwise
    if len(window.kernel) != 2:
        return _by_columns
    if filter.depthwise:
        return band_convolve
    kh, kw = window.kernel
    if window.strides[0] != 1 or filter.inputs * kh * kw <= _FEW_TAPS:
        return _by_columns
    if window.strides[1] == 1 and 0 < filter.group_outputs * (kw - 1) < filter.inputs:
        return _by_outputs
    return _by_rows


def _pointwise(x: Array, filter: PackedFilter, axes: Sequence[Axis], out: Array, finish: Finish | None) -> None:
    if any(axis.stride > 1 for axis in axes):
        met = (_ALL, _ALL, *(slice(None, None, axis.stride) for axis in axes))
        x = x[met]
    images, pixels, groups = x.shape[0], math.prod(out.shape[2:]), filter.groups
    weight = filter.by_columns
    flat = out.reshape(images, filter.outputs, pixels)
    if pixels == 1 and images > 1:
        rows = x.reshape(images, groups, filter.inputs).swapaxes(0, 1)
        flat.reshape(images, groups, -1)[...] = np.matmul(rows, weight.swapaxes(1, 2)).swapaxes(0, 1)
        finish_whole(out, finish)
        return
    source = x.reshape(images, groups, filter.inputs, pixels)
    target = flat.reshape(images, groups, filter.group_outputs, pixels)
    macs = out.size * filter.inputs
    most = pixels if finish is None else max(_FINISH_BYTES // (filter.outputs * out.itemsize), 2048)
    most = min(most, -(-pixels // -(-shares(macs) // images)))

    def work(block: tuple[int, tuple[int, int]]) -> None:
        n, (start, stop) = block
        np.matmul(weight, source[n, :, :, start:stop], out=target[n, :, :, start:stop])
        if finish is not None:
            finish(flat, n, _ALL, slice(start, stop))

    run_blocks(list(product(range(images), even_blocks(pixels, most))), work, macs)


def finish_whole(out: Array, finish: Finish | None) -> None:
    """Apply ``finish`` to all of ``out``, in blocks that stay in cache."""
    if finish is None:
        return
    flat = out.reshape(*out.shape[:2], -1)
    most = max(_FINISH_BYTES // (out.shape[1] * out.itemsize), 2048)
    for n in range(out.shape[0]):
        for start, stop in even_blocks(flat.shape[2], most):
            finish(flat, n, _ALL, slice(start, stop))


def _by_rows(x: Array, filter: PackedFilter, axes: Sequence[Axis], out: Array, finish: Finish | None) -> None:
    down, across = axes
    groups, width = filter.groups, across.out
    halo = (down.kernel - 1) * down.dilation
    inner, outer = across.kernel * filter.inputs, down.kernel * filter.group_outputs
    flat = out.reshape(x.shape[0], filter.outputs, down.out * width)
    weight = filter.by_rows

    def work(block: tuple[int, tuple[int, int]]) -> None:
        n, (start, stop) = block
        source = x[n].reshape(groups, filter.inputs, down.size, across.size)
        rows = stop - start + halo
        columns = stack_rows(source, axes, start, rows).reshape(groups, inner, rows * width)
        sums = workspace("sums", (groups, down.kernel, filter.group_outputs, rows, width), out.dtype)
        np.matmul(weight, columns, out=sums.reshape(groups, outer, rows * width))
        target = out[n].reshape(groups, filter.group_outputs, down.out, width)
        _add_shifted(sums, target[:, :, start:stop], down.dilation)
        if finish is not None:
            finish(flat, n, _ALL, slice(start * width, stop * width))

    macs = out.size * filter.inputs * down.kernel * across.kernel
    row_bytes = groups * (inner + outer) * width * out.itemsize
    rows = row_blocks(down.out, halo, row_bytes, -(-shares(macs) // x.shape[0]))
    run_blocks(list(product(range(x.shape[0]), rows)), work, macs)


def stack_rows(source: Array, axes: Sequence[Axis], start: int, rows: int) -> Array:
    """``[G, kw, C, rows, width]``: per kernel column a shifted copy of ``[G, C, H, W]``, from output row ``start``."""
    down, across = axes
    columns = workspace("columns", (source.shape[0], across.kernel, source.shape[1], rows, across.out), source.dtype)
    single = Axis(down.size, 1, 1, 1, down.before, rows)
    for tap in range(across.kernel):
        ranges = ((start, start + rows), (0, across.out))
        copy_tap(columns[:, tap], source, (single, across), (0, tap), ranges)
    return columns


def _add_shifted(sums: Array, target: Array, dilation: int) -> None:
    """``target[:, :, r] = sum over i of sums[:, i, :, r + i * dilation]``."""
    rows, taps = target.shape[2], sums.shape[1]
    if taps == 1:
        target[...] = sums[:, 0]
        return
    np.add(sums[:, 0, :, :rows], sums[:, 1, :, dilation : dilation + rows], out=target)
    for i in range(2, taps):
        np.add(target, sums[:, i, :, i * dilation : i * dilation + rows], out=target)


def _by_outputs(x: Array, filter: PackedFilter, axes: Sequence[Axis], out: Array, finish: Finish | None) -> None:
    down, across = axes
    groups, width = filter.groups, across.out
    wide = width + (across.kernel - 1) * across.dilation
    halo = (down.kernel - 1) * down.dilation
    taps = down.kernel * across.kernel
    outer = taps * filter.group_outputs
    flat = out.reshape(x.shape[0], filter.outputs, down.out * width)
    padded = (Axis(down.size, 1, 1, 1, down.before, 0), Axis(across.size, 1, 1, 1, across.before, 0))
    shifts = [i * down.dilation * wide + j * across.dilation for i, j in _taps(down, across)]
    weight = filter.by_outputs

    def work(block: tuple[int, tuple[int, int]]) -> None:
        n, (start, stop) = block
        source = x[n].reshape(groups, filter.inputs, down.size, across.size)
        rows = stop - start + halo
        columns = workspace("columns", (groups, filter.inputs, rows, wide), out.dtype)
        copy_tap(columns, source, padded, (0, 0), ((start, start + rows), (0, wide)))
        sums = workspace("sums", (groups, outer, rows * wide), out.dtype)
        np.matmul(weight, columns.reshape(groups, filter.inputs, rows * wide), out=sums)
        total = workspace("total", (groups, filter.group_outputs, stop - start, wide), out.dtype)
        _sum_flat(sums.reshape(groups, taps, filter.group_outputs, rows * wide), total, shifts)
        target = out[n].reshape(groups, filter.group_outputs, down.out, width)
        target[:, :, start:stop] = total[..., :width]
        if finish is not None:
            finish(flat, n, _ALL, slice(start * width, stop * width))

    macs = out.size * filter.inputs * taps
    row_bytes = groups * (filter.inputs + outer) * wide * out.itemsize
    rows = row_blocks(down.out, halo, row_bytes, -(-shares(macs) // x.shape[0]))
    run_blocks(list(product(range(x.shape[0]), rows)), work, macs)


def _taps(*axes: Axis) -> Iterator[tuple[int, ...]]:
    return product(*(range(axis.kernel) for axis in axes))


def _sum_flat(sums: Array, total: Array, shifts: Sequence[int]) -> None:
    """``total[p] = sum over taps of sums[tap, p + shift]`` on flattened rows; what wraps lies beyond the width."""
    flat = total.reshape(*total.shape[:2], -1)
    length = sums.shape[3] - shifts[-1]
    part = flat[:, :, :length]
    np.add(sums[:, 0, :, :length], sums[:, 1, :, shifts[1] : shifts[1] + length], out=part)
    for tap in range(2, len(shifts)):
        np.add(part, sums[:, tap, :, shifts[tap] : shifts[tap] + length], out=part)


def _by_columns(x: Array, filter: PackedFilter, axes: Sequence[Axis], out: Array, finish: Finish | None) -> None:
    groups, extents = filter.groups, out.shape[2:]
    inner = filter.inputs * math.prod(axis.kernel for axis in axes)
    flat = out.reshape(x.shape[0], filter.outputs, math.prod(extents))
    target = flat.reshape(x.shape[0], groups, filter.group_outputs, -1)
    weight = filter.by_columns

    def work(block: tuple[int, tuple[tuple[int, int], ...]]) -> None:
        n, ranges = block
        pixels = pixels_of(ranges, extents)
        source = x[n].reshape(groups, filter.inputs, *x.shape[2:])
        np.matmul(weight, column_buffer(source, axes, ranges), out=target[n, :, :, pixels])
        if finish is not None:
            finish(flat, n, _ALL, pixels)

    macs = out.size * inner
    most = BLOCK_BYTES // (groups * inner * out.itemsize)
    most = min(most, -(-flat.shape[2] // -(-shares(macs) // x.shape[0])))
    run_blocks(list(product(range(x.shape[0]), position_blocks(extents, most))), work, macs)


def column_buffer(source: Array, axes: Sequence[Axis], ranges: Sequence[tuple[int, int]]) -> Array:
    """``[G, C * taps, positions]``: what the taps meet in ``[G, C, *spatial]`` at a block of outputs."""
    kernel = tuple(axis.kernel for axis in axes)
    block = tuple(stop - start for start, stop in ranges)
    columns = workspace("columns", (*source.shape[:2], *kernel, *block), source.dtype)
    copy_window(columns, source, axes, ranges)
    return columns.reshape(source.shape[0], source.shape[1] * math.prod(kernel), math.prod(block))
