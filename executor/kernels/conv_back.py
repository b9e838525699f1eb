"""The way back through a convolution: to its input (also the transposed convolution) and to its filter.

Both use the formulations of :mod:`conv_fast`: a stride of 1 goes back by convolving with the filter turned
around, other strides by adding columns back, and a filter's gradient is a product with the columns.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product

import numpy as np

from ..values import Array
from .conv_band import band_filter_gradient
from .conv_blocks import BLOCK_BYTES, pixels_of, position_blocks, row_blocks, run_blocks, shares, sum_blocks
from .conv_fast import Finish, column_buffer, convolve, finish_whole, stack_rows
from .conv_filter import PackedFilter
from .window import Axis, Window, add_window
from .workspace import workspace

__all__ = ["convolve_back", "filter_gradient"]


def convolve_back(
    y: Array, filter: PackedFilter, window: Window, spatial: Sequence[int], finish: Finish | None = None
) -> Array:
    """Carry ``y`` ``[N, O, *out]`` back to inputs of extents ``spatial``: data gradient, transposed convolution."""
    if all(s == 1 for s in window.strides) or (filter.depthwise and filter.group_outputs == 1):
        spread = _spread(y, window.strides)
        return convolve(spread, filter.turned(), window.mirrored(spatial, spread.shape[2:]), finish)
    out = np.zeros((y.shape[0], filter.groups * filter.inputs, *spatial), y.dtype)
    if out.size and y.size:
        with np.errstate(over="ignore", invalid="ignore"):
            _scatter(y, filter, window.axes(spatial, y.shape[2:]), out)
            finish_whole(out, finish)
    return out


def _spread(y: Array, strides: Sequence[int]) -> Array:
    """``y`` with ``stride - 1`` zeros between neighbours along each spatial axis."""
    if all(s == 1 for s in strides):
        return y
    extents = tuple(max((n - 1) * s + 1, 0) for n, s in zip(y.shape[2:], strides, strict=True))
    spread = np.zeros((*y.shape[:2], *extents), y.dtype)
    places = (slice(None), slice(None), *(slice(None, None, s) for s in strides))
    spread[places] = y
    return spread


def _scatter(y: Array, filter: PackedFilter, axes: Sequence[Axis], out: Array) -> None:
    """Add to ``out`` (zeros) the contribution of every tap of every position of ``y``."""
    groups, extents = filter.groups, y.shape[2:]
    kernel = tuple(axis.kernel for axis in axes)
    inner = filter.inputs * math.prod(kernel)
    weight = filter.by_columns.swapaxes(1, 2)
    # Blocks of one image meet in the output unless the windows lie apart, so else only images go side by side.
    apart = all(axis.kernel <= axis.stride and axis.dilation == 1 for axis in axes)
    macs = y.size * inner
    most = BLOCK_BYTES // (groups * inner * out.itemsize)
    if apart:
        most = min(most, -(-math.prod(extents) // -(-shares(macs) // y.shape[0])))
    blocks = list(position_blocks(extents, most))

    def work(item: tuple[int, Sequence[tuple[tuple[int, int], ...]]]) -> None:
        n, ranged = item
        source = y[n].reshape(groups, filter.group_outputs, -1)
        target = out[n].reshape(groups, filter.inputs, *out.shape[2:])
        for ranges in ranged:
            block = tuple(stop - start for start, stop in ranges)
            columns = workspace("columns", (groups, inner, math.prod(block)), out.dtype)
            np.matmul(weight, source[:, :, pixels_of(ranges, extents)], out=columns)
            add_window(columns.reshape(groups, filter.inputs, *kernel, *block), target, axes, ranges, apart)

    run_blocks(list(product(range(y.shape[0]), [[b] for b in blocks] if apart else [blocks])), work, macs)


def filter_gradient(x: Array, d_out: Array, groups: int, window: Window) -> Array:
    """The gradient of the filter ``[O, C / groups, *kernel]`` from the input and the output's gradient."""
    outputs, inputs = d_out.shape[1] // groups, x.shape[1] // groups
    axes = window.axes(x.shape[2:], d_out.shape[2:])
    taps = math.prod(window.kernel)
    with np.errstate(over="ignore", invalid="ignore"):
        if x.size == 0 or d_out.size == 0:
            total = np.zeros((groups, outputs, inputs, *window.kernel), x.dtype)
        elif taps > 1 and inputs == 1 and groups > 1 and len(axes) == 2:
            total = band_filter_gradient(x, d_out, axes)
        elif taps > 1 and len(axes) == 2 and window.strides[0] == 1:
            total = _gradient_by_rows(x, d_out, groups, axes)
        else:
            total = _gradient_by_columns(x, d_out, groups, axes)
    gradient: Array = total.reshape(groups * outputs, inputs, *window.kernel)
    return gradient


def _gradient_by_rows(x: Array, d_out: Array, groups: int, axes: Sequence[Axis]) -> Array:
    """``[G, O, C, kh, kw]``; per block one product for each kernel row, on stacked rows."""
    down, across = axes
    outputs, inputs, width = d_out.shape[1] // groups, x.shape[1] // groups, across.out
    inner, halo = across.kernel * inputs, (down.kernel - 1) * down.dilation

    def work(block: tuple[int, tuple[int, int]], total: Array) -> None:
        n, (start, stop) = block
        source = x[n].reshape(groups, inputs, down.size, across.size)
        rows = stop - start + halo
        columns = stack_rows(source, axes, start, rows).reshape(groups, inner, rows * width).swapaxes(1, 2)
        above = d_out[n].reshape(groups, outputs, down.out * width)[:, :, start * width : stop * width]
        for i in range(down.kernel):
            first = i * down.dilation * width
            total[:, i] += above @ columns[:, first : first + above.shape[2]]

    macs = d_out.size * inner * down.kernel
    parts = -(-shares(macs) // x.shape[0])
    blocks = list(product(range(x.shape[0]), row_blocks(down.out, halo, groups * inner * width * x.itemsize, parts)))
    total = sum_blocks(blocks, work, (groups, down.kernel, outputs, inner), x.dtype, macs)
    ordered: Array = total.reshape(groups, down.kernel, outputs, across.kernel, inputs)
    return np.ascontiguousarray(ordered.transpose(0, 2, 4, 1, 3))


def _gradient_by_columns(x: Array, d_out: Array, groups: int, axes: Sequence[Axis]) -> Array:
    """``[G, O, C * taps]`` from the column buffer; a 1x1 filter needs none."""
    outputs, inputs, extents = d_out.shape[1] // groups, x.shape[1] // groups, d_out.shape[2:]
    inner = inputs * math.prod(axis.kernel for axis in axes)
    direct = inner == inputs and x.shape[2:] == extents and all(axis.before == 0 for axis in axes)

    def work(block: tuple[int, tuple[tuple[int, int], ...]], total: Array) -> None:
        n, ranges = block
        pixels = pixels_of(ranges, extents)
        source = x[n].reshape(groups, inputs, *x.shape[2:])
        above = d_out[n].reshape(groups, outputs, -1)[:, :, pixels]
        if direct:
            columns = source.reshape(groups, inputs, -1)[:, :, pixels]
        else:
            columns = column_buffer(source, axes, ranges)
        total += above @ columns.swapaxes(1, 2)

    macs = d_out.size * inner
    positions = math.prod(extents)
    most = positions if direct else BLOCK_BYTES // (groups * inner * x.itemsize)
    most = min(most, -(-positions // -(-shares(macs) // x.shape[0])))
    blocks = list(product(range(x.shape[0]), position_blocks(extents, most)))
    return sum_blocks(blocks, work, (groups, outputs, inner), x.dtype, macs)
