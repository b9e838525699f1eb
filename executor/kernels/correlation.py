"""Correlation of two feature maps, circular convolution of vectors, slicing of a bilateral grid."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ...ir.registry import REQUIRED, operator
from ..values import Array
from .common import flattened, refuse_half
from .sampling import Corner, gather, scatter

__all__ = ["bilateral_slice", "conv_shift", "correlation"]


_Region = tuple[slice, slice, slice, slice]


@dataclass(frozen=True, slots=True)
class _Search:
    """The geometry of a correlation: which places of the padded maps are compared."""

    pad: int
    radius: int
    displacement: int
    stride1: int
    stride2: int
    height: int
    width: int

    @classmethod
    def of(cls, x: Array, y: Array, pad: int, kernel: int, displacement: int, stride1: int, stride2: int) -> _Search:
        """From the attributes; refuses maps or a search that do not fit."""
        if x.ndim != 4 or x.shape != y.shape:
            raise ValueError(f"Input1 {list(x.shape)} and Input2 {list(y.shape)} must be images of one shape")
        if min(kernel, stride1, stride2) < 1 or kernel % 2 == 0 or displacement < 0 or pad < 0:
            raise ValueError("kernel_size must be odd, strides positive, pad_size and max_displacement not negative")
        border = (kernel - 1) // 2 + displacement
        height, width = (-(-(size + 2 * pad - 2 * border) // stride1) for size in x.shape[2:])
        if height <= 0 or width <= 0:
            raise ValueError(f"a search over {border} points around does not fit an input of {list(x.shape[2:])}")
        return cls(pad, (kernel - 1) // 2, displacement, stride1, stride2, height, width)

    @property
    def reach(self) -> int:
        """Displacements to each side."""
        return self.displacement // self.stride2

    def pairs(self) -> Iterator[tuple[int, _Region, _Region]]:
        """(output channel, region of the first padded map, region of the second), kernel points included."""
        side = range(-self.reach, self.reach + 1)
        points = range(-self.radius, self.radius + 1)
        for channel, (down, across) in enumerate((j, i) for j in side for i in side):
            for row in points:
                for column in points:
                    first = self._region(row, column)
                    second = self._region(row + down * self.stride2, column + across * self.stride2)
                    yield channel, first, second

    def _region(self, row: int, column: int) -> _Region:
        top, left = self.displacement + self.radius + row, self.displacement + self.radius + column
        return (
            slice(None),
            slice(None),
            slice(top, top + (self.height - 1) * self.stride1 + 1, self.stride1),
            slice(left, left + (self.width - 1) * self.stride1 + 1, self.stride1),
        )

    def padded(self, x: Array) -> Array:
        """``x`` with room for every region: half a kernel more in front, behind what the regions reach."""
        before = self.pad + self.radius
        beyond = self.displacement + 2 * self.radius + self.reach * self.stride2 + 1
        least = [beyond + (n - 1) * self.stride1 for n in (self.height, self.width)]
        after = [max(self.pad, low - size - before) for low, size in zip(least, x.shape[2:], strict=True)]
        return np.pad(x, ((0, 0), (0, 0), (before, after[0]), (before, after[1])))

    def cut(self, padded: Array, like: Array) -> Array:
        """The part of a padded map that the input covers."""
        before = self.pad + self.radius
        return padded[:, :, before : before + like.shape[2], before : before + like.shape[3]]


@operator("correlation", inputs="Input1 Input2", outputs="Output", ignores="corr_type_multiply")
def correlation(
    x: Array,
    y: Array,
    *,
    pad_size: int = REQUIRED,
    kernel_size: int = REQUIRED,
    max_displacement: int = REQUIRED,
    stride1: int = REQUIRED,
    stride2: int = REQUIRED,
) -> Array:
    """The mean product of patches of ``x`` with patches of ``y`` displaced: one channel per displacement."""
    refuse_half(x)
    search = _Search.of(x, y, pad_size, kernel_size, max_displacement, stride1, stride2)
    first, second = search.padded(x), search.padded(y)
    side = 2 * search.reach + 1
    out = np.zeros((x.shape[0], side * side, search.height, search.width), x.dtype)
    for channel, here, there in search.pairs():
        out[:, channel] += np.einsum("nchw,nchw->nhw", first[here], second[there])
    result: Array = out * x.dtype.type(1.0 / (kernel_size * kernel_size * x.shape[1]))
    return result


@correlation.gradient(takes="Input1 Input2 Output@GRAD", gives="Input1@GRAD Input2@GRAD")
def correlation_grad(
    x: Array,
    y: Array,
    d_out: Array,
    *,
    pad_size: int = REQUIRED,
    kernel_size: int = REQUIRED,
    max_displacement: int = REQUIRED,
    stride1: int = REQUIRED,
    stride2: int = REQUIRED,
) -> tuple[Array, Array]:
    """Each patch gets the other one, weighted by the gradient of their product."""
    search = _Search.of(x, y, pad_size, kernel_size, max_displacement, stride1, stride2)
    first, second = search.padded(x), search.padded(y)
    d_first, d_second = np.zeros_like(first), np.zeros_like(second)
    scaled = d_out * x.dtype.type(1.0 / (kernel_size * kernel_size * x.shape[1]))
    for channel, here, there in search.pairs():
        above = scaled[:, channel, None]
        d_first[here] += above * second[there]
        d_second[there] += above * first[here]
    return search.cut(d_first, x), search.cut(d_second, y)


def _turns(x: Array, y: Array) -> Iterator[tuple[int, int]]:
    """(column of ``y``, how far ``x`` is rolled for it)."""
    if x.ndim != 2 or y.ndim != 2 or x.shape[0] != y.shape[0] or y.shape[1] % 2 == 0 or y.shape[1] > x.shape[1]:
        raise ValueError(f"X [B, M] needs a Y [B, N] with an odd N of at most M, got {list(x.shape)}, {list(y.shape)}")
    half = (y.shape[1] - 1) // 2
    for column in range(y.shape[1]):
        yield column, half - column


@operator("conv_shift", inputs="X Y", outputs="Out")
def conv_shift(x: Array, y: Array) -> Array:
    """Circular convolution: ``out[i] = sum over j of x[(i + j - half) mod M] * y[j]``."""
    out = np.zeros_like(x)
    for column, turn in _turns(x, y):
        out += np.roll(x, turn, axis=1) * y[:, column, None]
    return out


@conv_shift.gradient(takes="X Y Out@GRAD", gives="X@GRAD Y@GRAD")
def conv_shift_grad(x: Array, y: Array, d_out: Array) -> tuple[Array, Array]:
    """The same sums turned back."""
    d_x, d_y = np.zeros_like(x), np.zeros_like(y)
    for column, turn in _turns(x, y):
        d_x += np.roll(d_out * y[:, column, None], -turn, axis=1)
        d_y[:, column] = (np.roll(x, turn, axis=1) * d_out).sum(axis=1)
    return d_x, d_y


_SOFT = 1e-8
"""Added under the root of the soft absolute value along the guide, so that it has a slope at zero."""


def _slice_corners(guide: Array, grid: Array, slope: bool) -> list[Corner]:
    """The eight grid cells around every pixel of one image; with ``slope`` weights are derived by the guide."""
    depth, rows, columns = grid.shape[2:]
    height, width = guide.shape
    kind = guide.dtype.type
    x = ((np.arange(width) + 0.5) * columns / width).astype(guide.dtype)
    y = ((np.arange(height) + 0.5) * rows / height).astype(guide.dtype)
    z = guide * kind(depth)
    corners = []
    for dx in (0, 1):
        xx = np.floor(x - kind(0.5)) + dx
        wx = np.maximum(1 - np.abs(xx + kind(0.5) - x), 0)
        for dy in (0, 1):
            yy = np.floor(y - kind(0.5)) + dy
            wy = np.maximum(1 - np.abs(yy + kind(0.5) - y), 0)
            for dz in (0, 1):
                zz = np.floor(z - kind(0.5)) + dz
                away = zz + kind(0.5) - z
                size = np.sqrt(away * away + kind(_SOFT))
                wz = np.where(size > 1, 0, depth * away / size) if slope else np.maximum(1 - size, 0)
                cell = _inside(zz, depth) * rows + _inside(yy, rows)[:, None]
                index = cell * columns + _inside(xx, columns)
                weight = (wz * wy[:, None] * wx).astype(guide.dtype, copy=False)
                corners.append(Corner(index.reshape(-1), weight.reshape(-1)))
    return corners


def _inside(place: Array, size: int) -> Array:
    return np.clip(place, 0, size - 1).astype(np.int64)


def _coefficients(grid: Array, corners: list[Corner], inputs: int) -> Array:
    """``[outputs, inputs, pixels]``: the affine map of every pixel of one image."""
    return gather(grid.reshape(grid.shape[0], -1), corners).reshape(-1, inputs, len(corners[0].index))


def _slice_inputs(x: Array, grid: Array, guide: Array, has_offset: bool) -> Array:
    """``x`` as ``[N, inputs, pixels]``, with a channel of ones where the grid holds offsets."""
    if x.ndim != 4 or grid.ndim != 5 or guide.shape != (x.shape[0], *x.shape[2:]):
        raise ValueError(
            f"X [N, C, H, W], Grid [N, K, D, h, w] and Guide [N, H, W] do not fit: {list(x.shape)}, "
            f"{list(grid.shape)}, {list(guide.shape)}"
        )
    refuse_half(x)
    pixels = flattened(x, 2)
    if has_offset:
        pixels = np.concatenate([pixels, np.ones_like(pixels[:, :1])], axis=1)
    if grid.shape[1] % pixels.shape[1]:
        raise ValueError(f"Grid has {grid.shape[1]} channels, not a multiple of {pixels.shape[1]}")
    return pixels


@operator("bilateral_slice", inputs="X Grid Guide", outputs="Out")
def bilateral_slice(x: Array, grid: Array, guide: Array, *, has_offset: bool = False) -> Array:
    """Apply to every pixel the affine colour map that ``grid`` holds at its place and brightness ``guide``."""
    pixels = _slice_inputs(x, grid, guide, has_offset)
    out = np.empty((x.shape[0], grid.shape[1] // pixels.shape[1], *x.shape[2:]), x.dtype)
    for n in range(x.shape[0]):
        maps = _coefficients(grid[n], _slice_corners(guide[n], grid, False), pixels.shape[1])
        out[n] = np.einsum("oip,ip->op", maps, pixels[n]).reshape(out.shape[1:])
    return out


@bilateral_slice.gradient(takes="X Grid Guide Out@GRAD", gives="X@GRAD Grid@GRAD Guide@GRAD")
def bilateral_slice_grad(
    x: Array, grid: Array, guide: Array, d_out: Array, *, has_offset: bool = False
) -> tuple[Array, Array, Array]:
    """Gradients of the image, the grid of maps and the guide."""
    pixels = _slice_inputs(x, grid, guide, has_offset)
    d_x, d_grid, d_guide = np.zeros_like(x), np.zeros_like(grid), np.zeros_like(guide)
    for n in range(x.shape[0]):
        corners = _slice_corners(guide[n], grid, False)
        above = d_out[n].reshape(d_out.shape[1], -1)
        maps = _coefficients(grid[n], corners, pixels.shape[1])
        d_x[n] = np.einsum("oip,op->ip", maps, above)[: x.shape[1]].reshape(x.shape[1:])
        products = above[:, None] * pixels[n]
        scatter(products.reshape(grid.shape[1], -1), corners, d_grid[n].reshape(grid.shape[1], -1))
        slopes = _coefficients(grid[n], _slice_corners(guide[n], grid, True), pixels.shape[1])
        d_guide[n] = (slopes * products).sum(axis=(0, 1)).reshape(guide.shape[1:])
    return d_x, d_grid, d_guide
