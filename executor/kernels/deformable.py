"""Deformable convolution (both versions) and deformable position-sensitive pooling."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...ir.registry import REQUIRED, operator
from ..values import Array, LoDTensor, array_of
from .common import accumulate_dtype, flattened
from .conv import ConvAttrs, checked_floats
from .roi import images_of
from .sampling import Corner, Line, corners_of, gather, line_of, round_half_away, scatter, slopes_of
from .window import Window

__all__ = ["deformable_conv", "deformable_conv_v1", "deformable_psroi_pooling"]

_BLOCK_BYTES = 8 << 20
"""Aim for the sampled columns of one block of output rows."""


@dataclass(frozen=True, slots=True)
class _Sampler:
    """Where one deformable convolution reads: its window, its offsets and, in version 2, its mask.

    ``offset`` is ``[N, G * taps * 2, h, w]`` (y before x), ``mask`` ``[N, G * taps, h, w]`` or None.
    """

    window: Window
    spatial: tuple[int, ...]
    out: tuple[int, ...]
    groups: int
    offset: Array
    mask: Array | None

    @property
    def taps(self) -> int:
        """Points of the kernel."""
        return self.window.kernel[0] * self.window.kernel[1]

    def row_blocks(self, channels: int, itemsize: int) -> Iterator[slice]:
        """Blocks of output rows whose columns meet the aim."""
        row_bytes = channels * self.taps * self.out[1] * itemsize
        step = max(_BLOCK_BYTES // max(row_bytes, 1), 1)
        for start in range(0, self.out[0], step):
            yield slice(start, min(start + step, self.out[0]))

    def lines(self, image: int, group: int, rows: slice) -> list[Line]:
        """The sampled positions down and across, flattened ``[taps * rows * width]``."""
        return [
            line_of(position.reshape(-1), size)
            for position, size in zip(self._positions(image, group, rows), self.spatial, strict=True)
        ]

    def _positions(self, image: int, group: int, rows: slice) -> tuple[Array, Array]:
        kh, kw = self.window.kernel
        moved = self.offset[image].reshape(self.groups, kh, kw, 2, *self.out)[group, :, :, :, rows]
        shapes = ((kh, 1, rows.stop - rows.start, 1), (1, kw, 1, self.out[1]))
        found = []
        for axis, shape in enumerate(shapes):
            first = rows.start if axis == 0 else 0
            count = shape[2 + axis]
            start = (np.arange(count) + first) * self.window.strides[axis] - self.window.pads[axis][0]
            tap = np.arange(self.window.kernel[axis]) * self.window.dilations[axis]
            grid = (tap[:, None] + start).reshape(shape).astype(moved.dtype)
            found.append(grid + moved[:, :, axis])
        return found[0], found[1]

    def weights(self, image: int, group: int, rows: slice) -> Array | None:
        """The mask of a block, flattened like the positions."""
        if self.mask is None:
            return None
        result: Array = self.mask[image].reshape(self.groups, self.taps, *self.out)[group, :, rows].reshape(-1)
        return result


def _sampler(x: Array, offset: Array, mask: Array | None, window: Window, groups: int) -> _Sampler:
    out = window.output(x.shape[2:])
    taps = window.kernel[0] * window.kernel[1]
    if groups < 1 or x.shape[1] % groups or offset.shape != (x.shape[0], 2 * groups * taps, *out):
        raise ValueError(
            f"Offset must be {[x.shape[0], 2 * groups * taps, *out]} (deformable_groups={groups}), "
            f"got {list(offset.shape)}"
        )
    if mask is not None and mask.shape != (x.shape[0], groups * taps, *out):
        raise ValueError(f"Mask must be {[x.shape[0], groups * taps, *out]}, got {list(mask.shape)}")
    return _Sampler(window, tuple(x.shape[2:]), out, groups, offset, mask)


def _columns(x: Array, sampler: _Sampler, image: int, rows: slice) -> Array:
    """``[C, taps, positions]``: the sampled (and masked) values of a block of output rows."""
    each = x.shape[1] // sampler.groups
    parts = []
    for group in range(sampler.groups):
        planes = x[image, group * each : (group + 1) * each].reshape(each, -1)
        part = gather(planes, corners_of(sampler.lines(image, group, rows)))
        weights = sampler.weights(image, group, rows)
        parts.append(part if weights is None else np.multiply(part, weights, out=part))
    whole = parts[0] if len(parts) == 1 else np.concatenate(parts)
    return whole.reshape(x.shape[1], sampler.taps, -1)


def _convolve(x: Array, filter: Array, sampler: _Sampler, groups: int) -> Array:
    weight = flattened(filter).reshape(groups, filter.shape[0] // groups, math.prod(filter.shape[1:]))
    out = np.empty((x.shape[0], filter.shape[0], *sampler.out), x.dtype)
    for image in range(x.shape[0]):
        for rows in sampler.row_blocks(x.shape[1], x.itemsize):
            columns = _columns(x, sampler, image, rows).reshape(groups, weight.shape[2], -1)
            block = np.matmul(weight, columns)
            out[image, :, rows] = block.reshape(filter.shape[0], rows.stop - rows.start, sampler.out[1])
    return out


def _reach(lines: Sequence[Line], positions: tuple[Array, Array]) -> Array:
    """1 where a position sees the image at all, else 0: outside, Paddle gives no slope either."""
    seen = np.ones(len(lines[0].low), bool)
    for line, position in zip(lines, positions, strict=True):
        flat = position.reshape(-1)
        seen &= (flat > -1) & (flat < line.size)
    return seen


@dataclass(slots=True)
class _Gradients:
    x: Array
    offset: Array
    mask: Array | None
    filter: Array


def _convolve_back(x: Array, filter: Array, sampler: _Sampler, groups: int, d_out: Array) -> _Gradients:
    weight = flattened(filter).reshape(groups, filter.shape[0] // groups, math.prod(filter.shape[1:]))
    total = _Gradients(
        np.zeros_like(x),
        np.zeros_like(sampler.offset),
        None if sampler.mask is None else np.zeros_like(sampler.mask),
        np.zeros_like(weight),
    )
    for image in range(x.shape[0]):
        for rows in sampler.row_blocks(x.shape[1], x.itemsize):
            above = d_out[image, :, rows].reshape(groups, weight.shape[1], -1)
            columns = _columns(x, sampler, image, rows).reshape(groups, weight.shape[2], -1)
            total.filter += np.matmul(above, columns.swapaxes(1, 2))
            d_columns = np.matmul(weight.swapaxes(1, 2), above)
            _samples_back(x, sampler, image, rows, d_columns.reshape(x.shape[1], -1), total)
    total.filter = total.filter.reshape(filter.shape)
    return total


def _samples_back(x: Array, sampler: _Sampler, image: int, rows: slice, d_columns: Array, total: _Gradients) -> None:
    """Add what ``d_columns`` ``[C, taps * positions]`` means for the input, the offsets and the mask."""
    each = x.shape[1] // sampler.groups
    shape = (sampler.taps, rows.stop - rows.start, sampler.out[1])
    for group in range(sampler.groups):
        channels = slice(group * each, (group + 1) * each)
        planes, above = x[image, channels].reshape(each, -1), d_columns[channels]
        lines = sampler.lines(image, group, rows)
        corners = corners_of(lines)
        weights = sampler.weights(image, group, rows)
        if weights is not None and total.mask is not None:
            d_mask = np.einsum("cp,cp->p", gather(planes, corners), above)
            total.mask[image].reshape(sampler.groups, sampler.taps, *sampler.out)[group, :, rows] = d_mask.reshape(
                shape
            )
            above = above * weights
        scatter(above, corners, total.x[image, channels].reshape(each, -1))
        seen = _reach(lines, sampler._positions(image, group, rows))
        moved = total.offset[image].reshape(sampler.groups, sampler.taps, 2, *sampler.out)
        for axis in (0, 1):
            slope = np.einsum("cp,cp->p", gather(planes, slopes_of(lines, axis)), above)
            moved[group, :, axis, rows] = np.where(seen, slope, 0).reshape(shape)


def _prepared(
    x: Array, filter: Array, offset: Array, mask: Array | None, attrs: ConvAttrs, deformable_groups: int
) -> tuple[Array, Array, _Sampler]:
    """Checked inputs in the dtype that sums are kept in."""
    checked_floats(x, filter, attrs.groups)
    wide = accumulate_dtype(x.dtype)
    window = attrs.window(x.shape[2:], filter.shape[2:])
    sampler = _sampler(
        x,
        offset.astype(wide, copy=False),
        None if mask is None else mask.astype(wide, copy=False),
        window,
        deformable_groups,
    )
    return x.astype(wide, copy=False), filter.astype(wide, copy=False), sampler


@operator("deformable_conv", inputs="Input Offset Filter Mask", outputs="Output", ignores="im2col_step")
def deformable_conv(
    x: Array,
    offset: Array,
    filter: Array,
    mask: Array,
    *,
    strides: Sequence[int] = (1, 1),
    paddings: Sequence[int] = (0, 0),
    dilations: Sequence[int] = (1, 1),
    deformable_groups: int = 1,
    groups: int = 1,
) -> Array:
    """Convolution whose taps are moved by ``offset`` and weighted by ``mask``; ``[N, O, h, w]``."""
    attrs = ConvAttrs(strides, paddings, dilations=dilations, groups=groups)
    wide, weight, sampler = _prepared(x, filter, offset, mask, attrs, deformable_groups)
    return _convolve(wide, weight, sampler, groups).astype(x.dtype, copy=False)


@deformable_conv.gradient(
    takes="Input Offset Filter Mask Output@GRAD", gives="Input@GRAD Offset@GRAD Filter@GRAD Mask@GRAD"
)
def deformable_conv_grad(
    x: Array,
    offset: Array,
    filter: Array,
    mask: Array,
    d_out: Array,
    *,
    strides: Sequence[int] = (1, 1),
    paddings: Sequence[int] = (0, 0),
    dilations: Sequence[int] = (1, 1),
    deformable_groups: int = 1,
    groups: int = 1,
) -> tuple[Array, ...]:
    """Gradients of all four inputs."""
    attrs = ConvAttrs(strides, paddings, dilations=dilations, groups=groups)
    wide, weight, sampler = _prepared(x, filter, offset, mask, attrs, deformable_groups)
    made = _convolve_back(wide, weight, sampler, groups, d_out.astype(wide.dtype, copy=False))
    assert made.mask is not None
    return tuple(part.astype(x.dtype, copy=False) for part in (made.x, made.offset, made.filter, made.mask))


@operator("deformable_conv_v1", inputs="Input Offset Filter", outputs="Output", ignores="im2col_step")
def deformable_conv_v1(
    x: Array,
    offset: Array,
    filter: Array,
    *,
    strides: Sequence[int] = (1, 1),
    paddings: Sequence[int] = (0, 0),
    dilations: Sequence[int] = (1, 1),
    deformable_groups: int = 1,
    groups: int = 1,
) -> Array:
    """Convolution whose taps are moved by ``offset``; ``[N, O, h, w]``."""
    attrs = ConvAttrs(strides, paddings, dilations=dilations, groups=groups)
    wide, weight, sampler = _prepared(x, filter, offset, None, attrs, deformable_groups)
    return _convolve(wide, weight, sampler, groups).astype(x.dtype, copy=False)


@deformable_conv_v1.gradient(takes="Input Offset Filter Output@GRAD", gives="Input@GRAD Offset@GRAD Filter@GRAD")
def deformable_conv_v1_grad(
    x: Array,
    offset: Array,
    filter: Array,
    d_out: Array,
    *,
    strides: Sequence[int] = (1, 1),
    paddings: Sequence[int] = (0, 0),
    dilations: Sequence[int] = (1, 1),
    deformable_groups: int = 1,
    groups: int = 1,
) -> tuple[Array, ...]:
    """Gradients of all three inputs."""
    attrs = ConvAttrs(strides, paddings, dilations=dilations, groups=groups)
    wide, weight, sampler = _prepared(x, filter, offset, None, attrs, deformable_groups)
    made = _convolve_back(wide, weight, sampler, groups, d_out.astype(wide.dtype, copy=False))
    return tuple(part.astype(x.dtype, copy=False) for part in (made.x, made.offset, made.filter))


@dataclass(frozen=True, slots=True)
class _Bins:
    """The attributes of a deformable position-sensitive pooling."""

    pooled: tuple[int, int]
    outputs: int
    group: Sequence[int]
    part: Sequence[int]
    samples: int
    scale: float
    trans_std: float


@dataclass(frozen=True, slots=True)
class _Parts:
    """The samples of all bins of a deformable position-sensitive pooling.

    Shapes are ``[R, O, ph, pw, s, s]`` or broadcast to it; ``seen`` says which samples count.
    """

    channel: Array
    x: Array
    y: Array
    seen: Array
    width: Array
    height: Array
    part: tuple[Array, Array]
    class_of: Array


def _along(count: int, axis: int, dtype: np.dtype[Any]) -> Array:
    return np.arange(count).astype(dtype).reshape([-1 if i == axis else 1 for i in range(6)])


def _psroi_parts(x: Array, rois: Array, trans: Array | None, attrs: _Bins) -> _Parts:
    kind, dtype = rois.dtype.type, rois.dtype
    (ph, pw), samples = attrs.pooled, attrs.samples
    (gh, gw), (part_h, part_w) = attrs.group, attrs.part
    outputs, scale = attrs.outputs, kind(attrs.scale)
    corners = round_half_away(rois).reshape(-1, 4, 1, 1, 1, 1, 1)
    left, top = (corners[:, i] * scale - kind(0.5) for i in (0, 1))
    right, bottom = ((corners[:, i] + kind(1)) * scale - kind(0.5) for i in (2, 3))
    width, height = np.maximum(right - left, kind(0.1)), np.maximum(bottom - top, kind(0.1))
    row, column = _along(ph, 2, dtype), _along(pw, 3, dtype)
    place = (
        np.floor(row / kind(ph) * kind(part_h)).astype(np.int64),
        np.floor(column / kind(pw) * kind(part_w)).astype(np.int64),
    )
    classes = 1 if trans is None else trans.shape[1] // 2
    class_of = np.arange(outputs).reshape(1, -1, 1, 1, 1, 1) // max(outputs // classes, 1)
    start_x, start_y = column * (width / kind(pw)) + left, row * (height / kind(ph)) + top
    if trans is not None:
        region = np.arange(len(rois)).reshape(-1, 1, 1, 1, 1, 1)
        moved = trans * kind(attrs.trans_std)
        start_x = start_x + moved[region, 2 * class_of, place[0], place[1]] * width
        start_y = start_y + moved[region, 2 * class_of + 1, place[0], place[1]] * height
    at_x = start_x + _along(samples, 5, dtype) * (width / kind(pw) / kind(samples))
    at_y = start_y + _along(samples, 4, dtype) * (height / kind(ph) / kind(samples))
    rows, columns = x.shape[2:]
    seen = (at_x >= -0.5) & (at_x <= columns - 0.5) & (at_y >= -0.5) & (at_y <= rows - 0.5)
    group_row = np.clip(np.floor(row * kind(gh) / kind(ph)).astype(np.int64), 0, gh - 1)
    group_column = np.clip(np.floor(column * kind(gw) / kind(pw)).astype(np.int64), 0, gw - 1)
    channel = (np.arange(outputs).reshape(1, -1, 1, 1, 1, 1) * gh + group_row) * gw + group_column
    return _Parts(
        channel,
        np.clip(at_x, 0, columns - 1),
        np.clip(at_y, 0, rows - 1),
        seen,
        width,
        height,
        place,
        class_of,
    )


def _psroi_corners(x: Array, parts: _Parts, images: Array, axis: int | None) -> tuple[tuple[int, ...], list[Corner]]:
    """The corners of all samples in the flattened input; with ``axis`` their slopes along it (0 is y)."""
    shape = np.broadcast_shapes(parts.seen.shape, parts.channel.shape, (len(images), 1, 1, 1, 1, 1))
    rows, columns = x.shape[2:]
    at = [np.broadcast_to(part, shape).reshape(-1) for part in (parts.y, parts.x)]
    lines = [line_of(part, size) for part, size in zip(at, (rows, columns), strict=True)]
    plane = images.reshape(-1, 1, 1, 1, 1, 1) * x.shape[1] + parts.channel
    first = np.broadcast_to(plane, shape).reshape(-1) * (rows * columns)
    seen = np.broadcast_to(parts.seen, shape).reshape(-1)
    if axis is not None:
        # On a point, and so where a position was clipped to the border, Paddle sees no slope.
        seen = seen & (lines[axis].high_weight != 0)
    made = corners_of(lines) if axis is None else slopes_of(lines, axis)
    return shape, [Corner(corner.index + first, np.where(seen, corner.weight, 0)) for corner in made]


def _count(parts: _Parts, shape: tuple[int, ...]) -> Array:
    total: Array = np.broadcast_to(parts.seen, shape).sum(axis=(4, 5))
    return total


@operator("deformable_psroi_pooling", inputs="Input ROIs Trans", outputs="TopCount Output", lod=True)
def deformable_psroi_pooling(
    x: Any,
    rois: LoDTensor,
    trans: Any,
    *,
    no_trans: bool = REQUIRED,
    spatial_scale: float = REQUIRED,
    output_dim: int = REQUIRED,
    group_size: Sequence[int] = REQUIRED,
    pooled_height: int = REQUIRED,
    pooled_width: int = REQUIRED,
    part_size: Sequence[int] = REQUIRED,
    sample_per_part: int = REQUIRED,
    trans_std: float = REQUIRED,
) -> tuple[Array, Array]:
    """Bins of regions, each moved by ``trans``, averaged over samples of the channel that stands for the bin.

    Returns ``(TopCount, Output)``, both ``[R, output_dim, ph, pw]``: how many samples counted, and their mean.
    """
    attrs = _Bins(
        (pooled_height, pooled_width),
        output_dim,
        group_size,
        part_size,
        sample_per_part,
        spatial_scale,
        trans_std,
    )
    planes, boxes = array_of(x), array_of(rois)
    images = images_of(rois, None, planes.shape[0])
    parts = _psroi_parts(planes, boxes, None if no_trans else array_of(trans), attrs)
    shape, corners = _psroi_corners(planes, parts, images, None)
    total = gather(planes.reshape(1, -1), corners).reshape(shape).sum(axis=(4, 5))
    count = _count(parts, shape).astype(planes.dtype)
    return count, np.divide(total, count, out=np.zeros_like(total), where=count > 0)


@deformable_psroi_pooling.gradient(takes="Input ROIs Trans TopCount Output@GRAD", gives="Input@GRAD Trans@GRAD")
def deformable_psroi_pooling_grad(
    x: Any,
    rois: LoDTensor,
    trans: Any,
    count: Any,
    d_out: Any,
    *,
    no_trans: bool = REQUIRED,
    spatial_scale: float = REQUIRED,
    output_dim: int = REQUIRED,
    group_size: Sequence[int] = REQUIRED,
    pooled_height: int = REQUIRED,
    pooled_width: int = REQUIRED,
    part_size: Sequence[int] = REQUIRED,
    sample_per_part: int = REQUIRED,
    trans_std: float = REQUIRED,
) -> tuple[Array, Array]:
    """Gradients of the map and of the movements (zeros where there are none)."""
    attrs = _Bins(
        (pooled_height, pooled_width),
        output_dim,
        group_size,
        part_size,
        sample_per_part,
        spatial_scale,
        trans_std,
    )
    planes, boxes, moves, above = array_of(x), array_of(rois), array_of(trans), array_of(d_out)
    images = images_of(rois, None, planes.shape[0])
    parts = _psroi_parts(planes, boxes, None if no_trans else moves, attrs)
    shape, corners = _psroi_corners(planes, parts, images, None)
    counted = array_of(count)
    share = np.divide(above, counted, out=np.zeros_like(above), where=counted > 0)
    spread = np.broadcast_to(share[..., None, None], shape).reshape(1, -1)
    d_x, d_trans = np.zeros_like(planes), np.zeros_like(moves)
    scatter(spread, corners, d_x.reshape(1, -1))
    if not no_trans:
        region = np.arange(len(boxes)).reshape(-1, 1, 1, 1, 1, 1)
        for axis, (slot, extent) in enumerate(((1, parts.height), (0, parts.width))):
            slopes = gather(planes.reshape(1, -1), _psroi_corners(planes, parts, images, axis)[1])
            part = (slopes * spread).reshape(shape) * extent * planes.dtype.type(trans_std)
            where = np.broadcast_arrays(region, 2 * parts.class_of + slot, *parts.part, part)
            np.add.at(d_trans, tuple(where[:4]), where[4])
    return d_x, d_trans
