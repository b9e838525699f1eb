"""Views by strides, which eager programs of 2.6 and later record: as_strided, tensor_unfold, index_select_strided."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.lib.stride_tricks import as_strided as _strides
from numpy.lib.stride_tricks import sliding_window_view

from ...ir.registry import operator
from ..values import Array, Meta
from .common import add_rows, normalize_axis

__all__ = ["as_strided", "index_select_strided", "tensor_unfold"]

Ints = Sequence[int]


def _window(base: Array, dims: Ints, stride: Ints, offset: int) -> Array:
    """The view of a flat array; refuses to leave it."""
    item = base.dtype.itemsize
    if len(dims) != len(stride) or offset % item or offset < 0 or any(step < 0 for step in stride):
        raise ValueError(f"dims {list(dims)}, stride {list(stride)}, offset {offset} do not describe a view")
    start = offset // item
    last = start + sum((size - 1) * step for size, step in zip(dims, stride, strict=True))
    if math.prod(dims) and last >= base.size:
        raise ValueError(
            f"dims {list(dims)}, stride {list(stride)}, offset {offset} reach element {last} of {base.size}"
        )
    return _strides(base[start:], tuple(dims), [step * item for step in stride])


@operator("as_strided", inputs="input", outputs="out")
def as_strided(x: Array, *, dims: Ints = (), stride: Ints = (), offset: int = 0) -> Array:
    """A view of the elements in memory order: ``stride`` counts elements, ``offset`` bytes."""
    return _window(np.ascontiguousarray(x).reshape(-1), dims, stride, offset)


@as_strided.gradient(takes="input out@GRAD", gives="input@GRAD")
def as_strided_grad(x: Array, d_out: Array, *, dims: Ints = (), stride: Ints = (), offset: int = 0) -> Array:
    """Add each element's gradient where the view took it from."""
    places = _window(np.arange(x.size), dims, stride, offset // x.dtype.itemsize * np.dtype(np.int_).itemsize)
    grad = np.zeros(x.size, d_out.dtype)
    add_rows(grad, places.reshape(-1), d_out.reshape(-1))
    return grad.reshape(x.shape)


def _windows(x: Array, axis: int, size: int, step: int) -> Array:
    at = normalize_axis(axis, x.ndim)
    if not 0 <= size <= x.shape[at] or step <= 0:
        raise ValueError(f"size {size} and step {step} do not fit the dimension of {x.shape[at]}")
    taken = [slice(None)] * x.ndim
    taken[at] = slice(None, None, step)
    return sliding_window_view(x, size, at)[tuple(taken)]


@operator("tensor_unfold", inputs="input", outputs="out")
def tensor_unfold(x: Array, *, axis: int, size: int, step: int) -> Array:
    """Windows of ``size`` elements every ``step`` along ``axis``, the window as a new last dimension (a view)."""
    return _windows(x, axis, size, step)


@tensor_unfold.gradient(takes="input out@GRAD", gives="input@GRAD")
def tensor_unfold_grad(x: Array, d_out: Array, *, axis: int, size: int, step: int) -> Array:
    """Add the windows' gradients where they overlap."""
    at = normalize_axis(axis, x.ndim)
    grad = np.zeros(x.shape, d_out.dtype)
    windows = d_out.shape[at]
    along = np.moveaxis(grad, at, -1)
    parts = np.moveaxis(d_out, at, -1)  # [..., size, windows]
    for place in range(size):
        along[..., place : place + (windows - 1) * step + 1 : step] += parts[..., place, :]
    return grad


@operator("index_select_strided", inputs="x", outputs="out")
def index_select_strided(x: Array, *, index: int, axis: int = 0) -> Array:
    """The slice ``index`` along ``axis``, that dimension dropped (a view)."""
    at = normalize_axis(axis, x.ndim)
    if not 0 <= index < x.shape[at]:
        raise ValueError(f"index {index} is outside the dimension of {x.shape[at]}")
    return x[(slice(None),) * at + (index, ...)]


@index_select_strided.gradient(takes="x~ out@GRAD", gives="x@GRAD")
def index_select_strided_grad(x: Array | Meta, d_out: Array, *, index: int, axis: int = 0) -> Array:
    """Zero but for the slice."""
    grad = np.zeros(x.shape, d_out.dtype)
    grad[(slice(None),) * normalize_axis(axis, grad.ndim) + (index, ...)] = d_out
    return grad
