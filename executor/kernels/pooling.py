"""Maximum and average pooling over two and three spatial axes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ir.registry import REQUIRED, Kernel, operator
from ..parallel import num_threads, parallel_for
from ..values import Array
from .common import accumulate_dtype
from .pooling_window import PoolAxis, box_counts, first_maximum, pool_axes, reduce_box, spread_box
from .window import channels_first, channels_last

__all__ = ["average", "average_back", "lowest", "maximum", "pool2d", "pool3d", "scatter_planes"]

_BLOCK = 1 << 17
"""Elements of the input that one block of planes covers, so that its passes stay in cache."""
_SHARE = 1 << 20
"""Elements of the input below which a second thread does not pay."""


def lowest(dtype: np.dtype[Any]) -> float:
    """What a maximum over no element is: the most negative finite value."""
    return float(np.finfo(dtype).min)


def _planes(x: Array, axes: Sequence[PoolAxis]) -> Array:
    """``[N * C, *spatial]``, a view where the layout allows."""
    return x.reshape(-1, *(axis.size for axis in axes))


def _by_blocks(x: Array, axes: Sequence[PoolAxis], reduce_block: Kernel) -> Array:
    """``reduce_block(planes, out)`` over blocks of planes, on several threads."""
    planes = _planes(x, axes)
    out = np.empty((planes.shape[0], *(axis.out for axis in axes)), x.dtype)

    size = max(math.prod(planes.shape[1:]), 1)
    block = max(_BLOCK // size, 1)

    def work(start: int, stop: int) -> None:
        for first in range(start, stop, block):
            part = slice(first, min(first + block, stop))
            reduce_block(planes[part], out[part])

    shares = 2 * num_threads() if planes.size >= _SHARE else 1
    parallel_for(planes.shape[0], work, max(-(-planes.shape[0] // shares), 1))
    return out.reshape(*x.shape[:2], *out.shape[1:])


def maximum(x: Array, axes: Sequence[PoolAxis]) -> Array:
    """The largest value of every window; at least the lowest finite value, as Paddle starts from it."""
    bottom = lowest(x.dtype)

    def block(planes: Array, out: Array) -> None:
        np.maximum(reduce_box(planes, axes, np.maximum, bottom), bottom, out=out)

    return _by_blocks(x, axes, block)


def average(x: Array, axes: Sequence[PoolAxis], exclusive: bool) -> Array:
    """The mean of every window, in the dtype of ``x``; a window without input gives nan."""
    counts = box_counts(axes, exclusive).astype(x.dtype)
    if all(axis.out == 1 and axis.stops[0] - axis.starts[0] == axis.size for axis in axes):
        with np.errstate(invalid="ignore"):
            total = x.reshape(*x.shape[:2], -1).sum(axis=2) / counts.reshape(())
        result: Array = total.reshape(*x.shape[:2], *(1 for _ in axes))
        return result

    def block(planes: Array, out: Array) -> None:
        total = reduce_box(planes, axes, np.add, 0)
        with np.errstate(invalid="ignore"):
            np.divide(total, counts, out=out)

    return _by_blocks(x, axes, block)


def average_back(d_out: Array, axes: Sequence[PoolAxis], exclusive: bool) -> Array:
    """The gradient of :func:`average`."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return spread_box(d_out / box_counts(axes, exclusive).astype(d_out.dtype), axes)


def scatter_planes(values: Array, index: Array, spatial: Sequence[int]) -> Array:
    """Add ``values`` ``[N, C, ...]`` at flat places of planes of size ``spatial``; negative places drop out."""
    size = math.prod(spatial)
    out = np.zeros((*values.shape[:2], *spatial), values.dtype)
    planes = values.shape[0] * values.shape[1]
    flat = index.reshape(planes, -1) + np.arange(planes, dtype=np.int64)[:, None] * size
    inside = index.reshape(planes, -1) >= 0
    if inside.all():
        np.add.at(out.reshape(-1), flat.reshape(-1), values.reshape(-1))
    else:
        np.add.at(out.reshape(-1), flat[inside], values.reshape(planes, -1)[inside])
    return out


def _checked(x: Array, count: int, pooling_type: str) -> None:
    if x.dtype.name not in ("float32", "float64", "float16", "bfloat16"):
        raise TypeError(f"X must be floating, got {x.dtype}")
    if x.ndim != count + 2:
        raise ValueError(f"X must have {count + 2} dimensions, got shape {list(x.shape)}")
    if pooling_type not in ("max", "avg"):
        raise ValueError(f"pooling_type must be 'max' or 'avg', got '{pooling_type}'")


def _kernel(count: int, layout: str) -> Kernel:
    ones, zeros = (1,) * count, (0,) * count

    def pool(
        x: Array,
        *,
        ksize: Sequence[int] = REQUIRED,
        strides: Sequence[int] = ones,
        paddings: Sequence[int] = zeros,
        ceil_mode: bool = False,
        exclusive: bool = True,
        data_format: str = layout,
        pooling_type: str = "",
        global_pooling: bool = False,
        adaptive: bool = False,
        padding_algorithm: str = "EXPLICIT",
    ) -> Array:
        _checked(x, count, pooling_type)
        images = channels_first(x, data_format)
        axes = pool_axes(
            images.shape[2:],
            ksize,
            strides,
            paddings,
            padding_algorithm=padding_algorithm,
            global_pooling=global_pooling,
            adaptive=adaptive,
            ceil_mode=ceil_mode,
            uneven=pooling_type == "avg",
        )
        wide = images.astype(accumulate_dtype(x.dtype), copy=False)
        out = maximum(wide, axes) if pooling_type == "max" else average(wide, axes, exclusive or adaptive)
        return channels_last(out.astype(x.dtype, copy=False), data_format)

    pool.__doc__ = f"Pool ``x`` over {count} spatial axes; ``ksize`` is the output size when ``adaptive``."
    return pool


def _gradient_kernel(count: int, layout: str) -> Kernel:
    ones, zeros = (1,) * count, (0,) * count

    def pool_grad(
        x: Array,
        out: Array,
        d_out: Array,
        *,
        ksize: Sequence[int] = REQUIRED,
        strides: Sequence[int] = ones,
        paddings: Sequence[int] = zeros,
        ceil_mode: bool = False,
        exclusive: bool = True,
        data_format: str = layout,
        pooling_type: str = "",
        global_pooling: bool = False,
        adaptive: bool = False,
        padding_algorithm: str = "EXPLICIT",
    ) -> Array:
        images, above = channels_first(x, data_format), channels_first(d_out, data_format)
        axes = pool_axes(
            images.shape[2:],
            ksize,
            strides,
            paddings,
            padding_algorithm=padding_algorithm,
            global_pooling=global_pooling,
            adaptive=adaptive,
            ceil_mode=ceil_mode,
            uneven=pooling_type == "avg",
        )
        wide = above.astype(accumulate_dtype(x.dtype), copy=False)
        if pooling_type == "max":
            place = first_maximum(images, channels_first(out, data_format), axes)
            d_x = scatter_planes(wide, place, images.shape[2:])
        else:
            d_x = average_back(wide, axes, exclusive or adaptive)
        return channels_last(d_x.astype(x.dtype, copy=False), data_format)

    pool_grad.__doc__ = "The first maximum of a window takes its whole gradient; an average shares it equally."
    return pool_grad


_TAKES = "X Out Out@GRAD"
pool2d = operator("pool2d", inputs="X", outputs="Out", ignores="is_test")(_kernel(2, "NCHW"))
pool3d = operator("pool3d", inputs="X", outputs="Out", ignores="is_test")(_kernel(3, "NCDHW"))
pool2d_grad = pool2d.gradient(takes=_TAKES, gives="X@GRAD")(_gradient_kernel(2, "NCHW"))
pool3d_grad = pool3d.gradient(takes=_TAKES, gives="X@GRAD")(_gradient_kernel(3, "NCDHW"))
