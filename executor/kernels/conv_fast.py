"""Convolution as matrix products: how a filter is packed, which formulation fits which shape, and the blocks.

All formulations work on blocks whose column buffer stays near the cache, in the layout ``[N, C, *spatial]``:

* *pointwise*: a 1x1 filter is one product on the ``[C, pixels]`` view.
* *by rows*: the kernel's columns are stacked into the inner dimension (``kw`` shifted copies of the input instead
  of ``kh * kw``), its rows into the outer one; ``kh`` shifted sums finish. For a vertical stride of 1.
* *by outputs*: no copies; one product gives what every tap adds at every input position, ``kh * kw`` shifted sums
  finish. For few output channels.
* *by columns*: the classic column buffer. For strides, three spatial axes, few input channels.
* *band*: for depthwise filters, see :mod:`conv_band`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np

from ..values import Array
from .conv_band import band_convolve, band_filter_gradient
from .conv_filter import PackedFilter
from .window import Axis, Window, add_window, copy_tap, copy_window
from .workspace import workspace

__all__ = ["Finish", "convolve", "convolve_back", "filter_gradient"]

Finish = Callable[[Array, int, slice, slice], None]
"""Bias, residual and activation: ``(out [N, C, pixels], image, channels, pixels)``, in place on that block."""

_BLOCK_BYTES = 6 << 20
"""Aim for the buffers of one block."""
_FINISH_BYTES = 1 << 20
"""Aim for the part of the output that is finished while it is in cache."""
_FEW_TAPS = 40
"""Up to this inner dimension stacking whole columns beats stacking rows."""


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
    if window.plain or (math.prod(window.kernel) == 1 and all(pad == (0, 0) for pad in window.pads)):
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


def _channels(spatial: Iterable[Any]) -> tuple[Any, ...]:
    """The index of all of the first two axes and a region of the others."""
    return (slice(None), slice(None), *spatial)


def _even_blocks(count: int, most: int) -> Iterator[tuple[int, int]]:
    """``range(count)`` in blocks of about equal size, none above ``most`` (at least 1)."""
    blocks = -(-count // max(most, 1))
    size = -(-count // blocks)
    for start in range(0, count, size):
        yield start, min(start + size, count)


def _row_blocks(rows: int, halo: int, row_bytes: int) -> Iterator[tuple[int, int]]:
    """Blocks of output rows whose buffers, ``halo`` extra rows included, meet the aim."""
    return _even_blocks(rows, max(_BLOCK_BYTES // max(row_bytes, 1) - halo, halo, 4))


def _pointwise(
    x: Array, filter: PackedFilter, axes: Sequence[Axis], out: Array, finish: Finish | None
) -> None:
    if any(axis.stride > 1 for axis in axes):
        x = x[_channels(slice(None, None, axis.stride) for axis in axes)]
    images, pixels, groups = x.shape[0], math.prod(out.shape[2:]), filter.groups
    weight = filter.by_columns
    flat = out.reshape(images, filter.outputs, pixels)
    if pixels == 1 and images > 1:
        rows = x.reshape(images, groups, filter.inputs).swapaxes(0, 1)
        flat.reshape(images, groups, -1)[...] = np.matmul(rows, weight.swapaxes(1, 2)).swapaxes(0, 1)
        if finish is not None:
            for n in range(images):
                finish(flat, n, slice(None), slice(None))
        return
    source = x.reshape(images, groups, filter.inputs, pixels)
    target = flat.reshape(images, groups, filter.group_outputs, pixels)
    most = pixels if finish is None else max(_FINISH_BYTES // (filter.outputs * out.itemsize), 2048)
    for n in range(images):
        for start, stop in _even_blocks(pixels, most):
            np.matmul(weight, source[n, :, :, start:stop], out=target[n, :, :, start:stop])
            if finish is not None:
                finish(flat, n, slice(None), slice(start, stop))


def _by_rows(x: Array, filter: PackedFilter, axes: Sequence[Axis], out: Array, finish: Finish | None) -> None:
    down, across = axes
    groups, width = filter.groups, across.out
    halo = (down.kernel - 1) * down.dilation
    inner, outer = across.kernel * filter.inputs, down.kernel * filter.group_outputs
    flat = out.reshape(x.shape[0], filter.outputs, down.out * width)
    for n in range(x.shape[0]):
        source = x[n].reshape(groups, filter.inputs, down.size, across.size)
        target = out[n].reshape(groups, filter.group_outputs, down.out, width)
        for start, stop in _row_blocks(down.out, halo, groups * (inner + outer) * width * out.itemsize):
            rows = stop - start + halo
            columns = workspace("columns", (groups, across.kernel, filter.inputs, rows, width), out.dtype)
            _stack_rows(columns, source, axes, start)
            sums = workspace("sums", (groups, down.kernel, filter.group_outputs, rows, width), out.dtype)
            np.matmul(
                filter.by_rows,
                columns.reshape(groups, inner, rows * width),
                out=sums.reshape(groups, outer, rows * width),
            )
            _add_shifted(sums, target[:, :, start:stop], down.dilation)
            if finish is not None:
                finish(flat, n, slice(None), slice(start * width, stop * width))


def _stack_rows(columns: Array, source: Array, axes: Sequence[Axis], start: int) -> None:
    """Fill ``[G, kw, C, rows, width]``: per kernel column a shifted copy of the input, from output row ``start``."""
    down, across = axes
    rows = columns.shape[3]
    single = Axis(down.size, 1, 1, 1, down.before, rows)
    for tap in range(across.kernel):
        copy_tap(
            columns[:, tap], source, (single, across), (0, tap), ((start, start + rows), (0, across.out))
        )


def _add_shifted(sums: Array, target: Array, dilation: int) -> None:
    """``target[:, :, r] = sum over i of sums[:, i, :, r + i * dilation]``."""
    rows, taps = target.shape[2], sums.shape[1]
    if taps == 1:
        target[...] = sums[:, 0]
        return
    np.add(sums[:, 0, :, :rows], sums[:, 1, :, dilation : dilation + rows], out=target)
    for i in range(2, taps):
        np.add(target, sums[:, i, :, i * dilation : i * dilation + rows], out=target)


def _by_outputs(
    x: Array, filter: PackedFilter, axes: Sequence[Axis], out: Array, finish: Finish | None
) -> None:
    down, across = axes
    groups, width = filter.groups, across.out
    wide = width + (across.kernel - 1) * across.dilation
    halo = (down.kernel - 1) * down.dilation
    taps = down.kernel * across.kernel
    outer = taps * filter.group_outputs
    flat = out.reshape(x.shape[0], filter.outputs, down.out * width)
    padded = (Axis(down.size, 1, 1, 1, down.before, 0), Axis(across.size, 1, 1, 1, across.before, 0))
    for n in range(x.shape[0]):
        source = x[n].reshape(groups, filter.inputs, down.size, across.size)
        target = out[n].reshape(groups, filter.group_outputs, down.out, width)
        for start, stop in _row_blocks(
            down.out, halo, groups * (filter.inputs + outer) * wide * out.itemsize
        ):
            rows = stop - start + halo
            columns = workspace("columns", (groups, filter.inputs, rows, wide), out.dtype)
            copy_tap(columns, source, padded, (0, 0), ((start, start + rows), (0, wide)))
            sums = workspace("sums", (groups, outer, rows * wide), out.dtype)
            np.matmul(filter.by_outputs, columns.reshape(groups, filter.inputs, rows * wide), out=sums)
            total = workspace("total", (groups, filter.group_outputs, stop - start, wide), out.dtype)
            shifts = [i * down.dilation * wide + j * across.dilation for i, j in _taps(down, across)]
            _sum_flat(sums.reshape(groups, taps, filter.group_outputs, rows * wide), total, shifts)
            target[:, :, start:stop] = total[..., :width]
            if finish is not None:
                finish(flat, n, slice(None), slice(start * width, stop * width))


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


def _position_blocks(extents: Sequence[int], most: int) -> Iterator[tuple[tuple[int, int], ...]]:
    """Cover the output positions by blocks that are contiguous when flattened, about ``most`` positions each."""
    rest = math.prod(extents[1:])
    if rest <= most or len(extents) == 1:
        whole = tuple((0, extent) for extent in extents[1:])
        for start, stop in _even_blocks(extents[0], most // max(rest, 1)):
            yield ((start, stop), *whole)
        return
    for index in range(extents[0]):
        for tail in _position_blocks(extents[1:], most):
            yield ((index, index + 1), *tail)


def _pixels(ranges: Sequence[tuple[int, int]], extents: Sequence[int]) -> slice:
    """The flattened positions of a block of :func:`_position_blocks`."""
    start = 0
    for (first, _), extent in zip(ranges, extents, strict=True):
        start = start * extent + first
    return slice(start, start + math.prod(stop - first for first, stop in ranges))


def _by_columns(
    x: Array, filter: PackedFilter, axes: Sequence[Axis], out: Array, finish: Finish | None
) -> None:
    groups, extents = filter.groups, out.shape[2:]
    inner = filter.inputs * math.prod(axis.kernel for axis in axes)
    flat = out.reshape(x.shape[0], filter.outputs, math.prod(extents))
    target = flat.reshape(x.shape[0], groups, filter.group_outputs, -1)
    for n in range(x.shape[0]):
        source = x[n].reshape(groups, filter.inputs, *x.shape[2:])
        for ranges in _position_blocks(extents, _BLOCK_BYTES // (groups * inner * out.itemsize)):
            pixels = _pixels(ranges, extents)
            np.matmul(filter.by_columns, _columns(source, axes, ranges), out=target[n, :, :, pixels])
            if finish is not None:
                finish(flat, n, slice(None), pixels)


def _columns(source: Array, axes: Sequence[Axis], ranges: Sequence[tuple[int, int]]) -> Array:
    """The column buffer ``[G, C * taps, positions]`` of a block of outputs."""
    kernel = tuple(axis.kernel for axis in axes)
    block = tuple(stop - start for start, stop in ranges)
    columns = workspace("columns", (*source.shape[:2], *kernel, *block), source.dtype)
    copy_window(columns, source, axes, ranges)
    return columns.reshape(source.shape[0], source.shape[1] * math.prod(kernel), math.prod(block))


def convolve_back(
    y: Array, filter: PackedFilter, window: Window, spatial: Sequence[int], finish: Finish | None = None
) -> Array:
    """Carry ``y`` ``[N, O, *out]`` back to inputs of extents ``spatial``: data gradient, transposed convolution."""
    if all(s == 1 for s in window.strides) or (filter.depthwise and filter.group_outputs == 1):
        spread = _spread(y, window.strides)
        return convolve(spread, filter.turned(), window.mirrored(spatial, spread.shape[2:]), finish)
    out = np.zeros((y.shape[0], filter.groups * filter.inputs, *spatial), y.dtype)
    if out.size == 0:
        return out
    with np.errstate(over="ignore", invalid="ignore"):
        _scatter(y, filter, window.axes(spatial, y.shape[2:]), out)
        if finish is not None:
            flat = out.reshape(*out.shape[:2], -1)
            most = max(_FINISH_BYTES // (out.shape[1] * out.itemsize), 2048)
            for n in range(out.shape[0]):
                for start, stop in _even_blocks(flat.shape[2], most):
                    finish(flat, n, slice(None), slice(start, stop))
    return out


def _spread(y: Array, strides: Sequence[int]) -> Array:
    """``y`` with ``stride - 1`` zeros between neighbours along each spatial axis."""
    if all(s == 1 for s in strides):
        return y
    extents = tuple(max((n - 1) * s + 1, 0) for n, s in zip(y.shape[2:], strides, strict=True))
    spread = np.zeros((*y.shape[:2], *extents), y.dtype)
    spread[_channels(slice(None, None, s) for s in strides)] = y
    return spread


def _scatter(y: Array, filter: PackedFilter, axes: Sequence[Axis], out: Array) -> None:
    """Add to ``out`` (zeros) the contribution of every tap of every position of ``y``."""
    groups, extents = filter.groups, y.shape[2:]
    kernel = tuple(axis.kernel for axis in axes)
    inner = filter.inputs * math.prod(kernel)
    weight = filter.by_columns.swapaxes(1, 2)
    apart = all(axis.kernel <= axis.stride and axis.dilation == 1 for axis in axes)
    for n in range(y.shape[0]):
        source = y[n].reshape(groups, filter.group_outputs, -1)
        target = out[n].reshape(groups, filter.inputs, *out.shape[2:])
        for ranges in _position_blocks(extents, _BLOCK_BYTES // (groups * inner * out.itemsize)):
            block = tuple(stop - start for start, stop in ranges)
            columns = workspace("columns", (groups, inner, math.prod(block)), out.dtype)
            np.matmul(weight, source[:, :, _pixels(ranges, extents)], out=columns)
            add_window(columns.reshape(groups, filter.inputs, *kernel, *block), target, axes, ranges, apart)


def filter_gradient(x: Array, d_out: Array, groups: int, window: Window) -> Array:
    """The gradient of the filter ``[O, C / groups, *kernel]`` from the input and the output's gradient."""
    outputs, inputs = d_out.shape[1] // groups, x.shape[1] // groups
    axes = window.axes(x.shape[2:], d_out.shape[2:])
    with np.errstate(over="ignore", invalid="ignore"):
        if x.size == 0 or d_out.size == 0:
            total = np.zeros((groups, outputs, inputs, *window.kernel), x.dtype)
        elif math.prod(window.kernel) > 1 and inputs == 1 and groups > 1 and len(axes) == 2:
            total = band_filter_gradient(x, d_out, axes)
        elif math.prod(window.kernel) > 1 and len(axes) == 2 and window.strides[0] == 1:
            total = _gradient_by_rows(x, d_out, groups, axes)
        else:
            total = _gradient_by_columns(x, d_out, groups, axes)
    gradient: Array = total.reshape(groups * outputs, inputs, *window.kernel)
    return gradient


def _gradient_by_rows(x: Array, d_out: Array, groups: int, axes: Sequence[Axis]) -> Array:
    """``[G, O, C, kh, kw]``; per block one product for each kernel row, on the columns of :func:`_by_rows`."""
    down, across = axes
    outputs, inputs, width = d_out.shape[1] // groups, x.shape[1] // groups, across.out
    inner, halo = across.kernel * inputs, (down.kernel - 1) * down.dilation
    total = np.zeros((groups, down.kernel, outputs, inner), x.dtype)
    for n in range(x.shape[0]):
        source = x[n].reshape(groups, inputs, down.size, across.size)
        above = d_out[n].reshape(groups, outputs, down.out * width)
        for start, stop in _row_blocks(down.out, halo, groups * inner * width * x.itemsize):
            rows = stop - start + halo
            columns = workspace("columns", (groups, across.kernel, inputs, rows, width), x.dtype)
            _stack_rows(columns, source, axes, start)
            stacked = columns.reshape(groups, inner, rows * width).swapaxes(1, 2)
            part = above[:, :, start * width : stop * width]
            for i in range(down.kernel):
                first = i * down.dilation * width
                total[:, i] += part @ stacked[:, first : first + part.shape[2]]
    ordered: Array = total.reshape(groups, down.kernel, outputs, across.kernel, inputs)
    result: Array = ordered.transpose(0, 2, 4, 1, 3)
    return result


def _gradient_by_columns(x: Array, d_out: Array, groups: int, axes: Sequence[Axis]) -> Array:
    """``[G, O, C * taps]`` from the column buffer; a 1x1 filter needs none."""
    outputs, inputs, extents = d_out.shape[1] // groups, x.shape[1] // groups, d_out.shape[2:]
    inner = inputs * math.prod(axis.kernel for axis in axes)
    total = np.zeros((groups, outputs, inner), x.dtype)
    direct = inner == inputs and x.shape[2:] == extents and all(axis.before == 0 for axis in axes)
    for n in range(x.shape[0]):
        source = x[n].reshape(groups, inputs, *x.shape[2:])
        above = d_out[n].reshape(groups, outputs, -1)
        if direct:
            total += above @ source.reshape(groups, inputs, -1).swapaxes(1, 2)
            continue
        for ranges in _position_blocks(extents, _BLOCK_BYTES // (groups * inner * x.itemsize)):
            total += above[:, :, _pixels(ranges, extents)] @ _columns(source, axes, ranges).swapaxes(1, 2)
    return total
