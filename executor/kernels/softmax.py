"""Softmax and log-softmax along an axis."""

from __future__ import annotations

import numpy as np

from ...ir.registry import operator
from ..values import Array
from .common import accumulate_dtype

__all__ = ["log_softmax", "softmax"]


@operator("softmax", inputs="X", outputs="Out", ignores="is_test data_format", inplace="X->Out")
def softmax(x: Array, *, axis: int = -1, out: Array | None = None) -> Array:
    """``exp(x - max) / sum(exp(x - max))`` along ``axis``; a 0-d input gives 1."""
    if x.ndim == 0:
        return np.ones_like(x)
    wide = x.astype(accumulate_dtype(x.dtype), copy=False)
    shifted = np.subtract(wide, wide.max(axis=axis, keepdims=True), out=out if wide is x else None)
    np.exp(shifted, out=shifted)
    np.divide(shifted, shifted.sum(axis=axis, keepdims=True), out=shifted)
    return shifted.astype(x.dtype, copy=False)


@softmax.gradient(takes="Out Out@GRAD", gives="X@GRAD")
def softmax_grad(out: Array, d_out: Array, *, axis: int = -1) -> Array:
    """``out * (d_out - sum(d_out * out))`` along ``axis``."""
    if out.ndim == 0:
        return np.zeros_like(out)
    wide = accumulate_dtype(out.dtype)
    weighted = (d_out * out).astype(wide, copy=False)
    return (weighted - out * weighted.sum(axis=axis, keepdims=True)).astype(out.dtype, copy=False)


@operator("log_softmax", inputs="X", outputs="Out", ignores="data_format")
def log_softmax(x: Array, *, axis: int = -1) -> Array:
    """``x - max - log(sum(exp(x - max)))`` along ``axis``; a 0-d input gives 0."""
    if x.ndim == 0:
        return np.zeros_like(x)
    wide = x.astype(accumulate_dtype(x.dtype), copy=False)
    shifted = wide - wide.max(axis=axis, keepdims=True)
    shifted -= np.log(np.exp(shifted).sum(axis=axis, keepdims=True))
    return shifted.astype(x.dtype, copy=False)


@log_softmax.gradient(takes="Out Out@GRAD", gives="X@GRAD")
def log_softmax_grad(out: Array, d_out: Array, *, axis: int = -1) -> Array:
    """``d_out - exp(out) * sum(d_out)`` along ``axis``."""
    if out.ndim == 0:
        return np.zeros_like(out)
    wide = d_out.astype(accumulate_dtype(out.dtype), copy=False)
    return (wide - np.exp(out) * wide.sum(axis=axis, keepdims=True)).astype(out.dtype, copy=False)
