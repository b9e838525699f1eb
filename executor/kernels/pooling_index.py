"""Pooling that keeps where its maxima are, putting values back there, and the spatial pyramid."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ...ir.registry import REQUIRED, Kernel, operator
from ..values import Array
from .common import accumulate_dtype, flattened
from .pooling import average, average_back, maximum, scatter_planes
from .pooling_window import PoolAxis, first_maximum, pool_axes

__all__ = ["max_pool2d_with_index", "max_pool3d_with_index", "spp", "unpool", "unpool3d"]


def _checked(x: Array, count: int) -> None:
    if x.dtype.name not in ("float32", "float64", "float16", "bfloat16"):
        raise TypeError(f"X must be floating, got {x.dtype}")
    if x.ndim != count + 2:
        raise ValueError(f"X must have {count + 2} dimensions, got shape {list(x.shape)}")


def _with_index_kernel(count: int) -> Kernel:
    ones, zeros = (1,) * count, (0,) * count

    def pool(
        x: Array,
        *,
        ksize: Sequence[int] = REQUIRED,
        strides: Sequence[int] = ones,
        paddings: Sequence[int] = zeros,
        global_pooling: bool = False,
        adaptive: bool = False,
        ceil_mode: bool = False,
    ) -> tuple[Array, Array]:
        _checked(x, count)
        axes = pool_axes(
            x.shape[2:],
            ksize,
            strides,
            paddings,
            global_pooling=global_pooling,
            adaptive=adaptive,
            ceil_mode=ceil_mode,
        )
        wide = x.astype(accumulate_dtype(x.dtype), copy=False)
        out = maximum(wide, axes)
        return out.astype(x.dtype, copy=False), first_maximum(wide, out, axes).astype(np.int32)

    pool.__doc__ = "The maxima of the windows and their flat places in each plane (int32); the first place wins."
    return pool


def _take_back(x: Array, mask: Array, d_out: Array) -> Array:
    """Each output's gradient goes to the place that its index names."""
    wide = d_out.astype(accumulate_dtype(d_out.dtype), copy=False)
    return scatter_planes(wide, mask, x.shape[2:]).astype(d_out.dtype, copy=False)


max_pool2d_with_index = operator("max_pool2d_with_index", inputs="X", outputs="Out Mask")(_with_index_kernel(2))
max_pool3d_with_index = operator("max_pool3d_with_index", inputs="X", outputs="Out Mask")(_with_index_kernel(3))
for _each in (max_pool2d_with_index, max_pool3d_with_index):
    _each.gradient(takes="X Mask Out@GRAD", gives="X@GRAD")(_take_back)


def _unpooled(
    x: Array,
    indices: Array,
    ksize: Sequence[int],
    strides: Sequence[int],
    paddings: Sequence[int],
    output_size: Sequence[int],
) -> Array:
    count = x.ndim - 2
    if indices.shape != x.shape:
        raise ValueError(f"Indices {list(indices.shape)} must have the shape of X {list(x.shape)}")
    extents = [int(size) for size in output_size]
    if not any(extents):
        extents = [
            (size - 1) * s - 2 * p + k for size, s, p, k in zip(x.shape[2:], strides, paddings, ksize, strict=True)
        ]
    if len(extents) != count:
        raise ValueError(f"output_size must have {count} values, got {list(output_size)}")
    size = math.prod(extents)
    if indices.size and not 0 <= int(indices.min()) <= int(indices.max()) < size:
        raise ValueError(f"Indices must lie in [0, {size}) for an output of size {extents}")
    out = np.zeros((*x.shape[:2], *extents), x.dtype)
    planes, each = x.shape[0] * x.shape[1], math.prod(x.shape[2:])
    # Paddle writes in order, so the last of several values for one place stays; put_along_axis does the same.
    places = indices.reshape(planes, each).astype(np.int64)
    np.put_along_axis(out.reshape(planes, size), places, x.reshape(planes, each), 1)
    return out


# Paddle reads NCHW whatever data_format says.
@operator("unpool", inputs="X Indices", outputs="Out", ignores="data_format")
def unpool(
    x: Array,
    indices: Array,
    *,
    ksize: Sequence[int] = REQUIRED,
    unpooling_type: str = REQUIRED,
    strides: Sequence[int] = (1, 1),
    paddings: Sequence[int] = (0, 0),
    output_size: Sequence[int] = (0, 0),
) -> Array:
    """Zeros of ``output_size`` with the values of ``x`` ``[N, C, H, W]`` at the flat places ``indices``."""
    if unpooling_type not in ("max", ""):
        raise ValueError(f"unpooling_type must be 'max', got '{unpooling_type}'")
    return _unpooled(x, indices, ksize, strides, paddings, output_size)


@operator("unpool3d", inputs="X Indices", outputs="Out", ignores="data_format")
def unpool3d(
    x: Array,
    indices: Array,
    *,
    ksize: Sequence[int] = REQUIRED,
    strides: Sequence[int] = (1, 1, 1),
    paddings: Sequence[int] = (0, 0, 0),
    output_size: Sequence[int] = (0, 0, 0),
) -> Array:
    """As :func:`unpool` for ``[N, C, D, H, W]``."""
    return _unpooled(x, indices, ksize, strides, paddings, output_size)


def _unpool_back(x: Array, indices: Array, out: Array, d_out: Array) -> Array:
    """The gradient at the places that the values went to."""
    planes = x.shape[0] * x.shape[1]
    index = indices.reshape(planes, -1).astype(np.int64)
    return np.take_along_axis(d_out.reshape(planes, -1), index, 1).reshape(x.shape)


for _each in (unpool, unpool3d):
    _each.gradient(takes="X Indices Out Out@GRAD", gives="X@GRAD")(_unpool_back)


def _pyramid(spatial: Sequence[int], height: int) -> list[list[PoolAxis]]:
    """The axes of each level: ``2 ** level`` windows an axis, padded so that they cover the input evenly."""
    levels = []
    for level in range(height):
        bins = 2**level
        kernel = [-(-size // bins) for size in spatial]
        pads = [(k * bins - size + 1) // 2 for k, size in zip(kernel, spatial, strict=True)]
        axes = pool_axes(spatial, kernel, kernel, pads)
        levels.append(axes)
    return levels


@operator("spp", inputs="X", outputs="Out")
def spp(x: Array, *, pyramid_height: int = REQUIRED, pooling_type: str = REQUIRED) -> Array:
    """Pool ``[N, C, H, W]`` into 1, 4, 16, ... windows and lay the levels side by side: ``[N, C * windows]``."""
    _checked(x, 2)
    wide = x.astype(accumulate_dtype(x.dtype), copy=False)
    parts = [
        maximum(wide, axes) if pooling_type == "max" else average(wide, axes, True)
        for axes in _pyramid(x.shape[2:], pyramid_height)
    ]
    flat = [flattened(part) for part in parts]
    return np.concatenate(flat, axis=1).astype(x.dtype, copy=False)


@spp.gradient(takes="X Out Out@GRAD", gives="X@GRAD")
def spp_grad(
    x: Array, out: Array, d_out: Array, *, pyramid_height: int = REQUIRED, pooling_type: str = REQUIRED
) -> Array:
    """The sum of the levels' gradients."""
    total = np.zeros(x.shape, accumulate_dtype(x.dtype))
    start = 0
    for axes in _pyramid(x.shape[2:], pyramid_height):
        shape = (*x.shape[:2], *(axis.out for axis in axes))
        stop = start + math.prod(shape[1:])
        above = d_out[:, start:stop].reshape(shape).astype(total.dtype, copy=False)
        if pooling_type == "max":
            place = first_maximum(x, out[:, start:stop].reshape(shape), axes)
            total += scatter_planes(above, place, x.shape[2:])
        else:
            total += average_back(above, axes, True)
        start = stop
    return total.astype(x.dtype, copy=False)
