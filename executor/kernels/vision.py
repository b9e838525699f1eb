"""Rearranging channels and pixels, per-channel scaling, shifting along time, local response normalisation."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir.registry import REQUIRED, operator
from ..values import Array
from .common import accumulate_dtype, flattened
from .window import channels_first, channels_last

__all__ = [
    "affine_channel",
    "channel_shuffle",
    "fsp",
    "lrn",
    "pixel_shuffle",
    "pixel_unshuffle",
    "shuffle_channel",
    "space_to_depth",
    "temporal_shift",
]


def _image(x: Array, data_format: str) -> Array:
    if x.ndim != 4:
        raise ValueError(f"X must have 4 dimensions, got shape {list(x.shape)}")
    if data_format not in ("NCHW", "NHWC"):
        raise ValueError(f"data_format must be NCHW or NHWC, got '{data_format}'")
    return channels_first(x, data_format)


def _blocks_to_pixels(x: Array, factor: int) -> Array:
    """``[N, C * f * f, H, W]`` to ``[N, C, H * f, W * f]``: the channels of a group become a block of pixels."""
    n, c, h, w = x.shape
    if factor < 1 or c % (factor * factor):
        raise ValueError(f"{c} channels cannot be spread over blocks of {factor} x {factor} pixels")
    blocks = x.reshape(n, c // (factor * factor), factor, factor, h, w)
    result: Array = blocks.transpose(0, 1, 4, 2, 5, 3).reshape(n, c // (factor * factor), h * factor, w * factor)
    return result


def _pixels_to_blocks(x: Array, factor: int) -> Array:
    """The way back from :func:`_blocks_to_pixels`."""
    n, c, h, w = x.shape
    if factor < 1 or h % factor or w % factor:
        raise ValueError(f"an image of {h} x {w} pixels cannot be cut into blocks of {factor} x {factor}")
    pixels = x.reshape(n, c, h // factor, factor, w // factor, factor)
    result: Array = pixels.transpose(0, 1, 3, 5, 2, 4).reshape(n, c * factor * factor, h // factor, w // factor)
    return result


@operator("pixel_shuffle", inputs="X", outputs="Out")
def pixel_shuffle(x: Array, *, upscale_factor: int = 1, data_format: str = "NCHW") -> Array:
    """``[N, C * f * f, H, W]`` to ``[N, C, H * f, W * f]``."""
    return channels_last(_blocks_to_pixels(_image(x, data_format), upscale_factor), data_format)


@pixel_shuffle.gradient(takes="Out@GRAD", gives="X@GRAD")
def pixel_shuffle_grad(d_out: Array, *, upscale_factor: int = 1, data_format: str = "NCHW") -> Array:
    """The inverse rearrangement."""
    return channels_last(_pixels_to_blocks(_image(d_out, data_format), upscale_factor), data_format)


@operator("pixel_unshuffle", inputs="X", outputs="Out")
def pixel_unshuffle(x: Array, *, downscale_factor: int = 1, data_format: str = "NCHW") -> Array:
    """``[N, C, H * f, W * f]`` to ``[N, C * f * f, H, W]``."""
    return channels_last(_pixels_to_blocks(_image(x, data_format), downscale_factor), data_format)


@pixel_unshuffle.gradient(takes="Out@GRAD", gives="X@GRAD")
def pixel_unshuffle_grad(d_out: Array, *, downscale_factor: int = 1, data_format: str = "NCHW") -> Array:
    """The inverse rearrangement."""
    return channels_last(_blocks_to_pixels(_image(d_out, data_format), downscale_factor), data_format)


def _exchange(x: Array, rows: int) -> Array:
    """Read the channels of ``[N, C, ...]`` as ``rows`` rows and write them column by column."""
    n, c = x.shape[:2]
    if rows < 1 or c % rows:
        raise ValueError(f"{c} channels cannot be cut into {rows} groups")
    result: Array = x.reshape(n, rows, c // rows, *x.shape[2:]).swapaxes(1, 2).reshape(x.shape)
    return result


@operator("channel_shuffle", inputs="X", outputs="Out")
def channel_shuffle(x: Array, *, groups: int = REQUIRED, data_format: str = "NCHW") -> Array:
    """Interleave the channels of ``groups`` groups."""
    return channels_last(_exchange(_image(x, data_format), groups), data_format)


@channel_shuffle.gradient(takes="Out@GRAD", gives="X@GRAD")
def channel_shuffle_grad(d_out: Array, *, groups: int = REQUIRED, data_format: str = "NCHW") -> Array:
    """The inverse rearrangement."""
    above = _image(d_out, data_format)
    return channels_last(_exchange(above, above.shape[1] // groups), data_format)


@operator("shuffle_channel", inputs="X", outputs="Out")
def shuffle_channel(x: Array, *, group: int = 1) -> Array:
    """Interleave the channels of ``group`` groups of ``[N, C, H, W]``."""
    return _exchange(_image(x, "NCHW"), group)


@shuffle_channel.gradient(takes="Out@GRAD", gives="X@GRAD")
def shuffle_channel_grad(d_out: Array, *, group: int = 1) -> Array:
    """The inverse rearrangement (Paddle's own kernel rearranges forward once more, which is no gradient)."""
    return _exchange(d_out, d_out.shape[1] // group)


def _reorganised(x: Array, size: int) -> tuple[Array, tuple[int, ...]]:
    """``x`` as ``[N, size, size, C / size^2, H, W]`` and the shape of the operator's output."""
    n, c, h, w = x.shape
    if size < 2 or c % (size * size) or h % size or w % size:
        raise ValueError(f"X {list(x.shape)} cannot be cut into blocks of {size} (channels by {size * size})")
    return x.reshape(n, size, size, c // (size * size), h, w), (n, c * size * size, h // size, w // size)


@operator("space_to_depth", inputs="X", outputs="Out")
def space_to_depth(x: Array, *, blocksize: int = REQUIRED) -> Array:
    """The reorganisation of YOLO v2: ``[N, C, H, W]`` to ``[N, C * b * b, H / b, W / b]``.

    Channels are first spread over ``b`` x ``b`` pixels, then the memory is read with the output's shape.
    """
    blocks, shape = _reorganised(x, blocksize)
    return np.ascontiguousarray(blocks.transpose(0, 3, 4, 1, 5, 2)).reshape(shape)


@space_to_depth.gradient(takes="X~ Out@GRAD", gives="X@GRAD")
def space_to_depth_grad(x: Any, d_out: Array, *, blocksize: int = REQUIRED) -> Array:
    """The inverse reorganisation."""
    n, c, h, w = x.shape
    pixels = d_out.reshape(n, c // (blocksize * blocksize), h, blocksize, w, blocksize)
    result: Array = np.ascontiguousarray(pixels.transpose(0, 3, 5, 1, 2, 4)).reshape(x.shape)
    return result


def _shifted(x: Array, seg_num: int, shift_ratio: float, back: bool) -> Array:
    """Move the first channels one step along time and the next ones one step against it; ``back`` swaps the two."""
    if seg_num < 1 or x.shape[0] % seg_num:
        raise ValueError(f"{x.shape[0]} frames are not a multiple of seg_num={seg_num}")
    if not 0 < shift_ratio < 0.5:
        raise ValueError(f"shift_ratio must lie between 0 and 0.5, got {shift_ratio}")
    frames = x.reshape(-1, seg_num, *x.shape[1:])
    first = int(x.shape[1] * shift_ratio)
    second = int(x.shape[1] * 2 * shift_ratio)
    out = frames.copy()
    later, earlier = (slice(0, first), slice(first, second))[:: -1 if back else 1]
    out[:, 1:, later], out[:, :1, later] = frames[:, :-1, later], 0
    out[:, :-1, earlier], out[:, -1:, earlier] = frames[:, 1:, earlier], 0
    result: Array = out.reshape(x.shape)
    return result


@operator("temporal_shift", inputs="X", outputs="Out")
def temporal_shift(x: Array, *, seg_num: int = REQUIRED, shift_ratio: float = 0.25, data_format: str = "NCHW") -> Array:
    """Frames ``[N * T, C, H, W]``: a share of the channels comes from the frame before, as many from the one after."""
    return channels_last(_shifted(_image(x, data_format), seg_num, shift_ratio, False), data_format)


@temporal_shift.gradient(takes="Out@GRAD", gives="X@GRAD")
def temporal_shift_grad(
    d_out: Array, *, seg_num: int = REQUIRED, shift_ratio: float = 0.25, data_format: str = "NCHW"
) -> Array:
    """The shift the other way."""
    return channels_last(_shifted(_image(d_out, data_format), seg_num, shift_ratio, True), data_format)


def _channel_vector(x: Array, values: Array, data_layout: str) -> Array:
    """``values`` ``[C]`` shaped to stand along the channel axis: second for NCHW, else last."""
    axis = 1 if data_layout == "NCHW" else x.ndim - 1
    if values.size != x.shape[axis]:
        raise ValueError(f"Scale and Bias must have {x.shape[axis]} values, got {values.size}")
    return values.reshape([-1 if i == axis else 1 for i in range(x.ndim)])


@operator("affine_channel", inputs="X Scale Bias", outputs="Out", inplace="X->Out")
def affine_channel(
    x: Array, scale: Array, bias: Array, *, data_layout: str = "AnyLayout", out: Array | None = None
) -> Array:
    """``x * scale + bias`` with one scale and bias per channel."""
    product = np.multiply(x, _channel_vector(x, scale, data_layout), out=out)
    return np.add(product, _channel_vector(x, bias, data_layout), out=product)


@affine_channel.gradient(takes="X Scale Out@GRAD", gives="X@GRAD Scale@GRAD Bias@GRAD")
def affine_channel_grad(
    x: Array, scale: Array, d_out: Array, *, data_layout: str = "AnyLayout"
) -> tuple[Array, Array, Array]:
    """Gradients of the input, the scales and the biases."""
    channel = 1 if data_layout == "NCHW" else x.ndim - 1
    axes = tuple(axis for axis in range(x.ndim) if axis != channel)
    wide = accumulate_dtype(x.dtype)
    d_scale = np.multiply(x, d_out, dtype=wide).sum(axis=axes).astype(scale.dtype, copy=False)
    d_bias = d_out.sum(axis=axes, dtype=wide).astype(scale.dtype, copy=False)
    return d_out * _channel_vector(x, scale, data_layout), d_scale, d_bias


def _neighbours(x: Array, n: int) -> Array:
    """Sums over ``n`` neighbouring channels of ``[N, C, ...]``."""
    total = np.zeros_like(x)
    for offset in range(-((n - 1) // 2), n - (n - 1) // 2):
        lo, hi = max(0, -offset), min(x.shape[1], x.shape[1] - offset)
        if lo < hi:
            total[:, lo:hi] += x[:, lo + offset : hi + offset]
    return total


def _lrn_layout(x: Array, data_format: str) -> Array:
    return channels_first(x, data_format if data_format == "NHWC" else "NCHW")


def _lrn_back(x: Array, data_format: str) -> Array:
    return channels_last(x, data_format if data_format == "NHWC" else "NCHW")


@operator("lrn", inputs="X", outputs="Out MidOut", ignores="is_test")
def lrn(
    x: Array,
    *,
    n: int = 5,
    k: float = 2.0,
    alpha: float = 9.999999747378752e-05,
    beta: float = 0.75,
    data_format: str = "AnyLayout",
) -> tuple[Array, Array]:
    """``mid = k + alpha * (sum of squares over n neighbouring channels)``, ``out = x * mid ** -beta``."""
    if n % 2 == 0 or n < 1:
        raise ValueError(f"n must be odd, got {n}")
    images = _lrn_layout(x, data_format)
    kind = x.dtype.type
    mid = _neighbours(images * images, n) * kind(alpha) + kind(k)
    out = images * mid ** kind(-beta)
    return _lrn_back(out, data_format), _lrn_back(mid, data_format)


@lrn.gradient(takes="X Out MidOut Out@GRAD", gives="X@GRAD")
def lrn_grad(
    x: Array,
    out: Array,
    mid: Array,
    d_out: Array,
    *,
    n: int = 5,
    alpha: float = 9.999999747378752e-05,
    beta: float = 0.75,
    data_format: str = "AnyLayout",
) -> Array:
    """``mid ** -beta * d_out - 2 * alpha * beta * x * (sum over neighbours of out * d_out / mid)``."""
    kind = x.dtype.type
    ratio = _neighbours(_lrn_layout(out * d_out / mid, data_format), n)
    result: Array = mid ** kind(-beta) * d_out - kind(2 * alpha * beta) * x * _lrn_back(ratio, data_format)
    return result


def _pixels(x: Array) -> Array:
    return flattened(x, 2)


@operator("fsp", inputs="X Y", outputs="Out")
def fsp(x: Array, y: Array) -> Array:
    """The flow between two feature maps: ``[N, Cx, Cy]``, the mean over the pixels of all channel products."""
    if x.ndim != 4 or y.ndim != 4 or x.shape[2:] != y.shape[2:] or x.shape[0] != y.shape[0]:
        raise ValueError(f"X {list(x.shape)} and Y {list(y.shape)} must be images of one size")
    pixels = x.shape[2] * x.shape[3]
    result: Array = np.matmul(_pixels(x), _pixels(y).swapaxes(1, 2)) * x.dtype.type(1.0 / pixels)
    return result


@fsp.gradient(takes="X Y Out@GRAD", gives="X@GRAD Y@GRAD")
def fsp_grad(x: Array, y: Array, d_out: Array) -> tuple[Array, Array]:
    """Each map's gradient is the other one seen through ``d_out``."""
    factor = x.dtype.type(1.0 / (x.shape[2] * x.shape[3]))
    d_x = np.matmul(d_out, _pixels(y)) * factor
    d_y = np.matmul(d_out.swapaxes(1, 2), _pixels(x)) * factor
    return d_x.reshape(x.shape), d_y.reshape(y.shape)
