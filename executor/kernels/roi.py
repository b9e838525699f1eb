"""Pooling regions of interest: averages of samples or exact integrals, maxima, position-sensitive averages.

A region belongs to an image of the batch by ``RoisNum`` (how many each image has) or, in older programs, by the
LoD of the regions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from ...ir.registry import operator
from ..values import Array, LoDTensor, Meta, array_of
from .common import accumulate_dtype, as_ints
from .sampling import round_half_away

__all__ = ["images_of", "prroi_pool", "psroi_pool", "roi_align", "roi_pool"]

_FEW_POINTS = 1024
"""Regions up to this size are pooled by one product with a combined matrix, larger ones axis by axis."""


def images_of(rois: Any, rois_num: Any, batch: int) -> npt.NDArray[np.int64]:
    """The image that each region belongs to.

    Raises:
        ValueError: neither counts nor LoD are there, or they do not fit the batch and the regions.
    """
    total = rois.shape[0]
    if rois_num is not None:
        counts = as_ints(array_of(rois_num))
    elif isinstance(rois, LoDTensor) and rois.lod:
        counts = rois.lengths()[-1]
    else:
        raise ValueError("ROIs need their number per image: RoisNum is absent and ROIs have no LoD")
    if len(counts) != batch or sum(counts) != total:
        raise ValueError(f"{total} ROIs split into {counts} do not fit a batch of {batch} image(s)")
    return np.repeat(np.arange(batch, dtype=np.int64), counts)


def _checked(x: Any, rois: Any) -> None:
    if len(x.shape) != 4 or len(rois.shape) != 2 or rois.shape[1] != 4:
        raise ValueError(f"X must be [N, C, H, W] and ROIs [R, 4], got {list(x.shape)} and {list(rois.shape)}")


class _Lines:
    """A region as two small matrices: ``down`` ``[ph, h]`` and ``across`` ``[pw, w]`` on a window of the plane."""

    def __init__(self, down: Array, across: Array) -> None:
        self._rows, self._down = _trimmed(down)
        self._columns, self._across = _trimmed(across)

    @property
    def window(self) -> tuple[slice, slice, slice]:
        """The part of ``[C, H, W]`` that the region sees."""
        return (slice(None), self._rows, self._columns)

    def pool(self, x: Array) -> Array:
        """``[C, ph, pw]`` from one image ``[C, H, W]``."""
        part = x[self.window]
        pooled: Array
        if part.shape[1] * part.shape[2] > _FEW_POINTS:
            pooled = np.matmul(self._down, np.matmul(part, self._across.T))
        else:
            flat = np.matmul(part.reshape(part.shape[0], -1), self._combined().T)
            pooled = flat.reshape(part.shape[0], len(self._down), len(self._across))
        return pooled

    def spread(self, d_out: Array) -> Array:
        """The transpose of :meth:`pool`, for the window alone."""
        spread: Array
        if self._down.shape[1] * self._across.shape[1] > _FEW_POINTS:
            spread = np.matmul(self._down.T, np.matmul(d_out, self._across))
        else:
            flat = np.matmul(d_out.reshape(d_out.shape[0], -1), self._combined())
            spread = flat.reshape(d_out.shape[0], self._down.shape[1], self._across.shape[1])
        return spread

    def _combined(self) -> Array:
        both = self._down[:, None, :, None] * self._across[None, :, None, :]
        return both.reshape(len(self._down) * len(self._across), -1)


def _trimmed(matrix: Array) -> tuple[slice, Array]:
    """The columns that are not zero everywhere, as one range, and the matrix cut to them."""
    used = np.flatnonzero(matrix.any(axis=0))
    part = slice(int(used[0]), int(used[-1]) + 1) if used.size else slice(0, 0)
    return part, np.ascontiguousarray(matrix[:, part])


def _sample_matrix(start: Any, extent: Any, pooled: int, samples: int, size: int) -> Array:
    """``[pooled, size]``: bins as the sum of ``samples`` linear interpolations each."""
    kind = start.dtype.type
    matrix = np.zeros((pooled, size), start.dtype)
    inner = (np.arange(samples) + 0.5).astype(start.dtype) / kind(samples)
    position = start + extent / kind(pooled) * (np.arange(pooled).astype(start.dtype)[:, None] + inner)
    inside = (position >= -1) & (position <= size)
    position = np.maximum(position, 0)
    low = np.minimum(position.astype(np.int64), size - 1)
    far = np.where(low >= size - 1, 0, position - low).astype(start.dtype)
    rows = np.broadcast_to(np.arange(pooled)[:, None], low.shape)
    np.add.at(matrix, (rows, low), np.where(inside, 1 - far, 0))
    np.add.at(matrix, (rows, np.minimum(low + 1, size - 1)), np.where(inside, far, 0))
    return matrix


def _aligned_lines(
    roi: Array, shape: tuple[int, ...], pooled: tuple[int, int], scale: float, ratio: int, aligned: bool
) -> _Lines:
    """The sampling matrices of one region, divided by the number of samples."""
    kind = roi.dtype.type
    corners = roi * kind(scale) - kind(0.5 if aligned else 0.0)
    matrices = []
    for axis in (1, 0):
        start, extent = corners[axis], corners[axis + 2] - corners[axis]
        if not aligned:
            extent = max(extent, kind(1))
        bins = pooled[1 - axis]
        samples = ratio if ratio > 0 else max(int(np.ceil(extent / kind(bins))), 0)
        size = shape[3 - axis]
        if samples:
            matrices.append(_sample_matrix(start, extent, bins, samples, size) / kind(samples))
        else:
            matrices.append(np.full((bins, size), np.nan, roi.dtype))  # a mean over no sample
    return _Lines(*matrices)


def _pool_lines(x: Array, images: npt.NDArray[np.int64], lines: Iterator[_Lines], pooled: tuple[int, int]) -> Array:
    out = np.empty((len(images), x.shape[1], *pooled), x.dtype)
    for index, (image, region) in enumerate(zip(images, lines, strict=True)):
        out[index] = region.pool(x[image])
    return out


def _spread_lines(
    shape: tuple[int, ...], images: npt.NDArray[np.int64], lines: Iterator[_Lines], d_out: Array
) -> Array:
    d_x = np.zeros(shape, d_out.dtype)
    for index, (image, region) in enumerate(zip(images, lines, strict=True)):
        place = d_x[image][region.window]
        place += region.spread(d_out[index])
    return d_x


@operator("roi_align", inputs="X ROIs RoisNum?", outputs="Out", lod=True)
def roi_align(
    x: Any,
    rois: Any,
    rois_num: Any,
    *,
    pooled_height: int = 1,
    pooled_width: int = 1,
    spatial_scale: float = 1.0,
    sampling_ratio: int = -1,
    aligned: bool = False,
) -> Array:
    """``[R, C, ph, pw]``: every bin of a region is the mean of regularly spaced bilinear samples."""
    _checked(x, rois)
    images, planes, boxes = images_of(rois, rois_num, x.shape[0]), array_of(x), array_of(rois)
    wide = planes.astype(accumulate_dtype(planes.dtype), copy=False)
    pooled = (pooled_height, pooled_width)
    lines = (
        _aligned_lines(roi, planes.shape, pooled, spatial_scale, sampling_ratio, aligned)
        for roi in boxes.astype(wide.dtype, copy=False)
    )
    return _pool_lines(wide, images, lines, pooled).astype(planes.dtype, copy=False)


@roi_align.gradient(takes="X~ ROIs RoisNum? Out@GRAD", gives="X@GRAD")
def roi_align_grad(
    x: Any,
    rois: Any,
    rois_num: Any,
    d_out: Any,
    *,
    pooled_height: int = 1,
    pooled_width: int = 1,
    spatial_scale: float = 1.0,
    sampling_ratio: int = -1,
    aligned: bool = False,
) -> Array:
    """Every sample's gradient goes to the points around it."""
    images, boxes, above = images_of(rois, rois_num, x.shape[0]), array_of(rois), array_of(d_out)
    wide = above.astype(accumulate_dtype(above.dtype), copy=False)
    pooled = (pooled_height, pooled_width)
    lines = (
        _aligned_lines(roi, x.shape, pooled, spatial_scale, sampling_ratio, aligned)
        for roi in boxes.astype(wide.dtype, copy=False)
    )
    return _spread_lines(x.shape, images, lines, wide).astype(above.dtype, copy=False)


def _hat_integral(t: Array) -> Array:
    """The integral of the hat ``max(1 - |t|, 0)`` up to ``t``."""
    inside = np.clip(t, -1, 1)
    return np.where(inside < 0, 0.5 * (inside + 1) ** 2, 1 - 0.5 * (1 - inside) ** 2)


def _bin_edges(roi: Array, pooled: tuple[int, int], scale: float) -> tuple[Array, Array]:
    """The edges of the bins down and across, ``[ph + 1]`` and ``[pw + 1]``."""
    kind = roi.dtype.type
    corners = roi * kind(scale)
    edges = []
    for axis in (1, 0):
        bins = pooled[1 - axis]
        extent = max(corners[axis + 2] - corners[axis], kind(0))
        edges.append(corners[axis] + np.arange(bins + 1).astype(roi.dtype) * (extent / kind(bins)))
    return edges[0], edges[1]


def _integral_lines(roi: Array, shape: tuple[int, ...], pooled: tuple[int, int], scale: float) -> _Lines:
    """The matrices that integrate the bilinear surface over each bin and divide by the bin's area."""
    matrices = []
    for edges, size in zip(_bin_edges(roi, pooled, scale), shape[2:], strict=True):
        total = _hat_integral(edges[:, None] - np.arange(size).astype(roi.dtype))
        width = edges[1] - edges[0]
        matrices.append((total[1:] - total[:-1]) / width if width > 0 else np.zeros_like(total[1:]))
    return _Lines(*matrices)


@operator("prroi_pool", inputs="X ROIs BatchRoINums?", outputs="Out", lod=True)
def prroi_pool(
    x: Any,
    rois: Any,
    rois_num: Any,
    *,
    pooled_height: int = 1,
    pooled_width: int = 1,
    spatial_scale: float = 1.0,
) -> Array:
    """``[R, C, ph, pw]``: every bin of a region is the exact mean of the bilinear surface."""
    _checked(x, rois)
    images, planes, boxes = images_of(rois, rois_num, x.shape[0]), array_of(x), array_of(rois)
    pooled = (pooled_height, pooled_width)
    lines = (_integral_lines(roi, planes.shape, pooled, spatial_scale) for roi in boxes)
    return _pool_lines(planes, images, lines, pooled)


def _edge_slopes(
    roi: Array, shape: tuple[int, ...], pooled: tuple[int, int], scale: float, axis: int
) -> tuple[_Lines, _Lines]:
    """Lines whose pooled values are the slopes of a bin's mean by its first and by its last edge along ``axis``."""
    down, across = _bin_edges(roi, pooled, scale)
    plain = []
    sloped: list[tuple[Array, Array]] = []
    for edges, size in zip((down, across), shape[2:], strict=True):
        away = edges[:, None] - np.arange(size).astype(roi.dtype)
        total, hat = _hat_integral(away), np.maximum(1 - np.abs(away), 0)
        width = max(edges[1] - edges[0], np.finfo(roi.dtype).tiny)
        mean = (total[1:] - total[:-1]) / width
        plain.append(mean)
        sloped.append(((mean - hat[:-1]) / width, (hat[1:] - mean) / width))
    first, last = ([*plain], [*plain])
    first[axis], last[axis] = sloped[axis]
    return _Lines(*first), _Lines(*last)


def _roi_slopes(x: Array, roi: Array, d_out: Array, pooled: tuple[int, int], scale: float) -> Array:
    """The gradient of one region's corners ``[x1, y1, x2, y2]`` from ``d_out`` ``[C, ph, pw]``."""
    slopes = np.zeros(4, roi.dtype)
    for axis, corner in ((0, 1), (1, 0)):
        bins = pooled[axis]
        share = np.arange(bins + 1).astype(roi.dtype) / roi.dtype.type(bins)
        share = share.reshape(-1, 1) if axis == 0 else share
        first, last = _edge_slopes(roi, x.shape, pooled, scale, axis)
        low, high = (slice(None, -1), slice(1, None))
        by_first, by_last = (d_out * first.pool(x[0])).sum(axis=0), (d_out * last.pool(x[0])).sum(axis=0)
        slopes[corner + 2] = scale * (by_first * share[low] + by_last * share[high]).sum()
        slopes[corner] = scale * (by_first * (1 - share[low]) + by_last * (1 - share[high])).sum()
    return slopes


@prroi_pool.gradient(takes="X Out ROIs BatchRoINums? Out@GRAD", gives="X@GRAD ROIs@GRAD")
def prroi_pool_grad(
    x: Any,
    out: Any,
    rois: Any,
    rois_num: Any,
    d_out: Any,
    *,
    pooled_height: int = 1,
    pooled_width: int = 1,
    spatial_scale: float = 1.0,
    want: frozenset[str] = frozenset({"X@GRAD", "ROIs@GRAD"}),
) -> tuple[Array, Array | None]:
    """Gradients of the map and of the corners of the regions."""
    images, planes, boxes = images_of(rois, rois_num, x.shape[0]), array_of(x), array_of(rois)
    above, pooled = array_of(d_out), (pooled_height, pooled_width)
    lines = (_integral_lines(roi, planes.shape, pooled, spatial_scale) for roi in boxes)
    d_x = _spread_lines(planes.shape, images, lines, above)
    if "ROIs@GRAD" not in want:
        return d_x, None
    d_rois = np.zeros_like(boxes)
    for index, image in enumerate(images):
        part = planes[image : image + 1]
        d_rois[index] = _roi_slopes(part, boxes[index], above[index], pooled, spatial_scale)
    return d_x, d_rois


_Ranges = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]


def _clipped(first: Array, last: Array, size: int) -> _Ranges:
    return np.clip(first, 0, size).astype(np.int64), np.clip(last, 0, size).astype(np.int64)


def _max_bins(roi: Array, shape: tuple[int, ...], pooled: tuple[int, int], scale: float) -> list[_Ranges]:
    """The rows and the columns of each bin of ``roi_pool``: rounded corners, last one included."""
    corners = round_half_away(roi * roi.dtype.type(scale)).astype(np.int64)
    ranges = []
    for axis in (1, 0):
        bins, start = pooled[1 - axis], corners[axis]
        extent = max(int(corners[axis + 2] - start) + 1, 1)
        step = np.float32(extent) / np.float32(bins)
        edges = np.arange(bins + 1).astype(np.float32) * step
        ranges.append(_clipped(np.floor(edges[:-1]) + start, np.ceil(edges[1:]) + start, shape[3 - axis]))
    return ranges


def _cells(ranges: list[_Ranges]) -> Iterator[tuple[int, int, slice, slice]]:
    """(row, column, rows, columns) of every bin that is not empty."""
    (tops, bottoms), (lefts, rights) = ranges
    for ph in range(len(tops)):
        for pw in range(len(lefts)):
            if bottoms[ph] > tops[ph] and rights[pw] > lefts[pw]:
                yield ph, pw, slice(int(tops[ph]), int(bottoms[ph])), slice(int(lefts[pw]), int(rights[pw]))


@operator("roi_pool", inputs="X ROIs RoisNum?", outputs="Out Argmax", lod=True)
def roi_pool(
    x: Any,
    rois: Any,
    rois_num: Any,
    *,
    pooled_height: int = 1,
    pooled_width: int = 1,
    spatial_scale: float = 1.0,
) -> tuple[Array, Array]:
    """``[R, C, ph, pw]``: the maximum of every bin and its flat place in the plane (int64; 0 and -1 when empty)."""
    _checked(x, rois)
    images, planes, boxes = images_of(rois, rois_num, x.shape[0]), array_of(x), array_of(rois)
    shape = (len(images), x.shape[1], pooled_height, pooled_width)
    out, place = np.zeros(shape, planes.dtype), np.full(shape, -1, np.int64)
    for index, image in enumerate(images):
        bins = _max_bins(boxes[index], planes.shape, shape[2:], spatial_scale)
        for ph, pw, rows, columns in _cells(bins):
            part = planes[image, :, rows, columns]
            best = part.reshape(shape[1], -1).argmax(axis=1)
            row, column = np.divmod(best, part.shape[2])
            place[index, :, ph, pw] = (row + rows.start) * planes.shape[3] + column + columns.start
            out[index, :, ph, pw] = part[np.arange(shape[1]), row, column]
    return out, place


@roi_pool.gradient(takes="X ROIs RoisNum? Argmax Out@GRAD", gives="X@GRAD")
def roi_pool_grad(x: Any, rois: Any, rois_num: Any, place: Any, d_out: Any) -> Array:
    """Each maximum's gradient goes to its place."""
    images, above, where = images_of(rois, rois_num, x.shape[0]), array_of(d_out), array_of(place)
    d_x = np.zeros(x.shape, above.dtype)
    size = x.shape[2] * x.shape[3]
    planes = (images[:, None] * x.shape[1] + np.arange(x.shape[1])).reshape(*where.shape[:2], 1, 1)
    inside = where >= 0
    np.add.at(d_x.reshape(-1), (planes * size + where)[inside], above[inside])
    return d_x


def _average_bins(roi: Array, shape: tuple[int, ...], pooled: tuple[int, int], scale: float) -> list[_Ranges]:
    """The rows and the columns of each bin of ``psroi_pool``."""
    kind = roi.dtype.type
    ranges = []
    for axis in (1, 0):
        bins = pooled[1 - axis]
        start = round_half_away(roi[axis : axis + 1])[0] * kind(scale)
        stop = (round_half_away(roi[axis + 2 : axis + 3])[0] + kind(1)) * kind(scale)
        step = max(stop - start, kind(0.1)) / kind(bins)
        edges = np.arange(bins + 1).astype(roi.dtype) * step + start
        ranges.append(_clipped(np.floor(edges[:-1]), np.ceil(edges[1:]), shape[3 - axis]))
    return ranges


_Visit = Callable[[int, int, int, int, slice, slice], None]


def _each_average(x: Any, rois: Any, rois_num: Any, pooled: tuple[int, int], scale: float, visit: _Visit) -> None:
    """Call ``visit(region, image, row, column, rows, columns)`` for every bin that is not empty."""
    boxes = array_of(rois)
    for index, image in enumerate(images_of(rois, rois_num, x.shape[0])):
        for ph, pw, rows, columns in _cells(_average_bins(boxes[index], x.shape, pooled, scale)):
            visit(index, int(image), ph, pw, rows, columns)


@operator("psroi_pool", inputs="X ROIs RoisNum?", outputs="Out", lod=True)
def psroi_pool(
    x: Any,
    rois: Any,
    rois_num: Any,
    *,
    pooled_height: int = 1,
    pooled_width: int = 1,
    output_channels: int = 1,
    spatial_scale: float = 1.0,
) -> Array:
    """``[R, output_channels, ph, pw]``: the mean of every bin, read from the channel that stands for that bin."""
    _checked(x, rois)
    if x.shape[1] != output_channels * pooled_height * pooled_width:
        raise ValueError(f"X must have {output_channels} * {pooled_height} * {pooled_width} channels, got {x.shape[1]}")
    planes = array_of(x).reshape(x.shape[0], output_channels, pooled_height, pooled_width, *x.shape[2:])
    out = np.zeros((rois.shape[0], output_channels, pooled_height, pooled_width), planes.dtype)

    def visit(index: int, image: int, ph: int, pw: int, rows: slice, columns: slice) -> None:
        out[index, :, ph, pw] = planes[image, :, ph, pw, rows, columns].mean(axis=(1, 2))

    _each_average(x, rois, rois_num, (pooled_height, pooled_width), spatial_scale, visit)
    return out


@psroi_pool.gradient(takes="X ROIs RoisNum? Out@GRAD", gives="X@GRAD")
def psroi_pool_grad(
    x: Any | Meta,
    rois: Any,
    rois_num: Any,
    d_out: Any,
    *,
    pooled_height: int = 1,
    pooled_width: int = 1,
    output_channels: int = 1,
    spatial_scale: float = 1.0,
) -> Array:
    """Each mean's gradient is shared equally by its bin."""
    above = array_of(d_out)
    d_x = np.zeros((x.shape[0], output_channels, pooled_height, pooled_width, *x.shape[2:]), above.dtype)

    def visit(index: int, image: int, ph: int, pw: int, rows: slice, columns: slice) -> None:
        area = (rows.stop - rows.start) * (columns.stop - columns.start)
        d_x[image, :, ph, pw, rows, columns] += (above[index, :, ph, pw] / above.dtype.type(area))[:, None, None]

    _each_average(x, rois, rois_num, (pooled_height, pooled_width), spatial_scale, visit)
    return d_x.reshape(x.shape)
