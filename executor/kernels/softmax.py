"""Softmax along an axis: plain, in logarithms, with Gumbel noise, fused with an attention mask."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ...ir.registry import operator
from ..random import generator
from ..values import Array
from .common import accumulate_dtype, normalize_axis, row_blocks

__all__ = ["fused_softmax_mask", "gumbel_softmax", "log_softmax", "softmax"]

Kernel = Callable[[Array, Array], None]
"""``(source, target)``: blocks ``[rows, n, inner]``, to be normalised along axis 1."""


def _along(x: Array, axis: int, work: Kernel, out: Array | None = None) -> Array:
    """Run ``work`` on blocks of ``x`` with the axis in the middle; half types in float32.

    ``out`` may be ``x`` itself; it is used where it needs no conversion.
    """
    axis = normalize_axis(axis, x.ndim)
    shape = math.prod(x.shape[:axis]), x.shape[axis], math.prod(x.shape[axis + 1 :])
    data = x.astype(accumulate_dtype(x.dtype), copy=False).reshape(shape)
    mine = out is not None and data.dtype == x.dtype and out.flags.c_contiguous
    target = out.reshape(shape) if out is not None and mine else np.empty(shape, data.dtype)
    if data.size:
        with np.errstate(invalid="ignore", divide="ignore"):  # rows of -inf have no softmax, they give nan
            row_blocks(shape[0], shape[1] * shape[2], lambda a, b: work(data[a:b], target[a:b]))
    return target.reshape(x.shape).astype(x.dtype, copy=False)


def _normalize(source: Array, target: Array) -> None:
    np.subtract(source, np.maximum.reduce(source, axis=1, keepdims=True), out=target)
    np.exp(target, out=target)
    target /= np.add.reduce(target, axis=1, keepdims=True)


_LOWEST = -64
"""Paddle's CPU kernel takes no logit to be further below the largest one than this."""


def _normalize_log(source: Array, target: Array) -> None:
    np.subtract(source, np.maximum.reduce(source, axis=1, keepdims=True), out=target)
    np.maximum(target, target.dtype.type(_LOWEST), out=target)
    target -= np.log(np.add.reduce(np.exp(target), axis=1, keepdims=True))


@operator("softmax", inputs="X", outputs="Out", ignores="is_test data_format mkldnn_data_type", inplace="X->Out")
def softmax(x: Array, *, axis: int = -1, out: Array | None = None) -> Array:
    """``exp(x - max) / sum(exp(x - max))`` along ``axis``; a 0-d input gives 1."""
    return _along(x, axis, _normalize, out) if x.ndim else np.ones_like(x)


def _through(out: Array, d_out: Array, axis: int) -> Array:
    """``out * (d_out - sum(d_out * out))`` along ``axis``."""
    if out.ndim == 0:
        return np.zeros_like(out)
    wide = accumulate_dtype(out.dtype)
    weighted = np.multiply(d_out, out, dtype=wide)
    weighted -= out * weighted.sum(axis=axis, keepdims=True)
    return weighted.astype(out.dtype, copy=False)


@softmax.gradient(takes="Out Out@GRAD", gives="X@GRAD")
def softmax_grad(out: Array, d_out: Array, *, axis: int = -1) -> Array:
    """``out * (d_out - sum(d_out * out))`` along ``axis``."""
    return _through(out, d_out, axis)


@operator("log_softmax", inputs="X", outputs="Out", ignores="data_format")
def log_softmax(x: Array, *, axis: int = -1) -> Array:
    """``x - max - log(sum(exp(x - max)))`` along ``axis``, with ``x - max`` cut at -64; a 0-d input gives 0."""
    return _along(x, axis, _normalize_log) if x.ndim else np.zeros_like(x)


@log_softmax.gradient(takes="Out Out@GRAD", gives="X@GRAD")
def log_softmax_grad(out: Array, d_out: Array, *, axis: int = -1) -> Array:
    """``d_out - exp(out) * sum(d_out)`` along ``axis``."""
    if out.ndim == 0:
        return np.zeros_like(out)
    wide = accumulate_dtype(out.dtype)
    total = d_out.sum(axis=axis, keepdims=True, dtype=wide)
    result: Array = (d_out - np.exp(out, dtype=wide) * total).astype(out.dtype, copy=False)
    return result


@operator("gumbel_softmax", inputs="X", outputs="Out")
def gumbel_softmax(x: Array, *, temperature: float = 1.0, hard: bool = False, axis: int = -1) -> Array:
    """Softmax of ``(x + g) / temperature`` with Gumbel noise ``g``; ``hard`` gives the one-hot of its maximum."""
    if temperature <= 0:
        raise ValueError(f"attribute temperature is {temperature}, expected a positive number")
    if x.ndim == 0:
        return np.ones_like(x)
    noise = generator().gumbel(size=x.shape).astype(x.dtype)
    out: Array = softmax((x + noise) / x.dtype.type(temperature), axis=axis)
    if not hard:
        return out
    picked = np.zeros_like(out)
    np.put_along_axis(picked, np.expand_dims(out.argmax(axis=axis), axis), 1, axis=axis)
    return picked


@gumbel_softmax.gradient(takes="Out Out@GRAD", gives="X@GRAD")
def gumbel_softmax_grad(out: Array, d_out: Array, *, axis: int = -1) -> Array:
    """As softmax: Paddle leaves the temperature out."""
    return _through(out, d_out, axis)


@operator("fused_softmax_mask", inputs="X Mask", outputs="Out")
def fused_softmax_mask(x: Array, mask: Array) -> Array:
    """Softmax of ``x + mask`` along the last axis: ``X [B, H, S, T]``, ``Mask [B, 1, S, T]``."""
    masked = np.add(x, mask, dtype=accumulate_dtype(x.dtype))
    return softmax(masked, axis=-1, out=masked).astype(x.dtype, copy=False)  # type: ignore[no-any-return]


@fused_softmax_mask.gradient(takes="Softmax=Out Out@GRAD", gives="X@GRAD")
def fused_softmax_mask_grad(out: Array, d_out: Array) -> Array:
    """As softmax; the mask gets no gradient."""
    return _through(out, d_out, -1)


@operator("fused_softmax_mask_upper_triangle", inputs="X", outputs="Out")
def fused_softmax_mask_upper_triangle(x: Array) -> Array:
    """Softmax along the last axis where position ``i`` sees positions ``0 .. i`` only; 0 elsewhere."""
    hidden = np.triu(np.ones(x.shape[-2:], np.bool_), 1)
    seen = np.where(hidden, x.dtype.type(-np.inf), x)
    return softmax(seen, axis=-1, out=seen)  # type: ignore[no-any-return]


@fused_softmax_mask_upper_triangle.gradient(takes="Out Out@GRAD", gives="X@GRAD")
def fused_softmax_mask_upper_triangle_grad(out: Array, d_out: Array) -> Array:
    """As softmax, which gives 0 where the output is 0."""
    return _through(out, d_out, -1)
