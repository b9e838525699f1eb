"""Products and distances of two tensors: ``kron``, ``cross``, ``dot``, ``dist``; the ``trace`` of one."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...ir.registry import OpContext, operator
from ..values import Array, Meta
from .common import accumulate_dtype, follow_rank, normalize_axis, unbroadcast
from .pointwise import widened

__all__ = ["cross", "dist", "dot", "kron", "trace"]


def _pairs(x: Array | Meta, y: Array | Meta) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Both shapes with as many dimensions, ones in front."""
    rank = max(x.ndim, y.ndim)
    return (1,) * (rank - x.ndim) + x.shape, (1,) * (rank - y.ndim) + y.shape


def _interleaved(left: tuple[int, ...], right: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(dim for pair in zip(left, right, strict=True) for dim in pair)


@operator("kron", inputs="X Y", outputs="Out", ignores="axis")
def kron(x: Array, y: Array) -> Array:
    """The Kronecker product: every element of ``x`` times the whole of ``y``; dimensions multiply."""
    if x.dtype != y.dtype:
        raise TypeError(f"slot Y: dtype {y.dtype}, X has {x.dtype}")
    widened("kron", "X", x.dtype, "fci")
    x_shape, y_shape = _pairs(x, y)
    ones = (1,) * len(x_shape)
    product = x.reshape(_interleaved(x_shape, ones)) * y.reshape(_interleaved(ones, y_shape))
    return np.asarray(product).reshape([a * b for a, b in zip(x_shape, y_shape, strict=True)])


@kron.gradient(takes="X Y Out@GRAD", gives="X@GRAD Y@GRAD")
def kron_grad(x: Array, y: Array, d_out: Array) -> tuple[Array, Array]:
    """``d_out`` as blocks, summed against the other operand."""
    x_shape, y_shape = _pairs(x, y)
    wide = accumulate_dtype(d_out.dtype)
    blocks = d_out.reshape(_interleaved(x_shape, y_shape)).astype(wide, copy=False)
    of_x, of_y = list(range(0, blocks.ndim, 2)), list(range(1, blocks.ndim, 2))
    left, right = np.conj(x).astype(wide, copy=False), np.conj(y).astype(wide, copy=False)
    d_x = np.tensordot(blocks, right.reshape(y_shape), (of_y, list(range(len(y_shape)))))
    d_y = np.tensordot(blocks, left.reshape(x_shape), (of_x, list(range(len(x_shape)))))
    return (
        d_x.reshape(x.shape).astype(x.dtype, copy=False),
        d_y.reshape(y.shape).astype(y.dtype, copy=False),
    )


_UNSET_DIM = 9


def _cross_axis(x: Array, dim: int) -> int:
    if dim == _UNSET_DIM:
        axis = next((i for i, size in enumerate(x.shape) if size == 3), None)
        if axis is None:
            raise ValueError(f"slot X: no dimension of size 3 in shape {list(x.shape)}")
        return axis
    axis = normalize_axis(dim, x.ndim)
    if x.shape[axis] != 3:
        raise ValueError(f"attribute dim={dim}: size 3 expected there, shape is {list(x.shape)}")
    return axis


def _cross(x: Array, y: Array, axis: int) -> Array:
    x0, x1, x2 = np.moveaxis(x, axis, 0)
    y0, y1, y2 = np.moveaxis(y, axis, 0)
    out = np.empty_like(x)
    parts = np.moveaxis(out, axis, 0)
    parts[0], parts[1], parts[2] = x1 * y2 - x2 * y1, x2 * y0 - x0 * y2, x0 * y1 - x1 * y0
    return out


@operator("cross", inputs="X Y", outputs="Out")
def cross(x: Array, y: Array, *, dim: int = _UNSET_DIM) -> Array:
    """The vector product along ``dim`` (9: the first dimension of size 3)."""
    if x.shape != y.shape:
        raise ValueError(f"slot Y: shape {list(y.shape)} differs from that of X, {list(x.shape)}")
    widened("cross", "X", x.dtype, "fci")
    return _cross(x, y, _cross_axis(x, dim))


@cross.gradient(takes="X Y Out@GRAD", gives="X@GRAD Y@GRAD")
def cross_grad(x: Array, y: Array, d_out: Array, *, dim: int = _UNSET_DIM) -> tuple[Array, Array]:
    """``y x d_out`` and ``d_out x x``."""
    axis = _cross_axis(x, dim)
    return _cross(np.conj(y), d_out, axis), _cross(d_out, np.conj(x), axis)


@operator("dot", inputs="X Y", outputs="Out")
def dot(x: Array, y: Array, *, ctx: OpContext | None = None) -> Array:
    """The sum of ``x * y`` over the last axis, of vectors or rows; programs from before 2.5 keep that axis."""
    if x.shape != y.shape or x.ndim not in (1, 2):
        raise ValueError(
            f"slots X and Y: two vectors or matrices of one shape expected, got {list(x.shape)} and {list(y.shape)}"
        )
    widened("dot", "X", x.dtype, "fci")
    wide = accumulate_dtype(x.dtype)
    total = np.asarray((x * y).sum(axis=-1, dtype=wide)).astype(x.dtype, copy=False)
    declared = None if ctx is None else ctx.declared("Out")
    if x.ndim == 2 and declared is not None and declared.shape is not None and len(declared.shape) == 2:
        return total.reshape(-1, 1)
    return follow_rank(total, declared)


@dot.gradient(takes="X Y Out@GRAD", gives="X@GRAD Y@GRAD")
def dot_grad(x: Array, y: Array, d_out: Array) -> tuple[Array, Array]:
    """``d_out`` times the conjugate of the other operand."""
    spread = d_out.reshape(*x.shape[:-1], 1)
    return np.asarray(spread * np.conj(y)), np.asarray(spread * np.conj(x))


def _trace_axes(ndim: int, axis1: int, axis2: int, dim1: int | None, dim2: int | None) -> tuple[int, int]:
    """The two axes; programs from before version 1 of the operator call them ``dim1`` and ``dim2``."""
    first = normalize_axis(axis1 if dim1 is None else dim1, ndim)
    second = normalize_axis(axis2 if dim2 is None else dim2, ndim)
    if first == second or ndim < 2:
        raise ValueError(f"attributes axis1 and axis2: two different axes expected, got {first} and {second}")
    return first, second


@operator("trace", inputs="Input", outputs="Out")
def trace(
    x: Array,
    *,
    offset: int = 0,
    axis1: int = 0,
    axis2: int = 1,
    dim1: int | None = None,
    dim2: int | None = None,
    ctx: OpContext | None = None,
) -> Array:
    """The sum of a diagonal over two axes."""
    first, second = _trace_axes(x.ndim, axis1, axis2, dim1, dim2)
    diagonal = np.diagonal(x, offset, first, second)
    total = np.asarray(diagonal.sum(axis=-1, dtype=accumulate_dtype(x.dtype))).astype(x.dtype, copy=False)
    return follow_rank(total, None if ctx is None else ctx.declared("Out"))


@trace.gradient(takes="Input~ Out@GRAD", gives="Input@GRAD")
def trace_grad(
    x: Array | Meta,
    d_out: Array,
    *,
    offset: int = 0,
    axis1: int = 0,
    axis2: int = 1,
    dim1: int | None = None,
    dim2: int | None = None,
) -> Array:
    """``d_out`` on the diagonal, zero elsewhere."""
    first, second = _trace_axes(x.ndim, axis1, axis2, dim1, dim2)
    grad = np.zeros(x.shape, d_out.dtype)
    last = np.moveaxis(grad, (first, second), (-2, -1))
    count = max(0, min(last.shape[-2] + min(offset, 0), last.shape[-1] - max(offset, 0)))
    steps = np.arange(count)
    last[..., steps - min(offset, 0), steps + max(offset, 0)] = d_out.reshape(*last.shape[:-2], 1)
    return grad


@operator("dist", inputs="X Y", outputs="Out")
def dist(x: Array, y: Array, *, p: float = 2.0, ctx: OpContext | None = None) -> Array:
    """The ``p``-norm of ``x - y`` (broadcast): how many differ for 0, the largest and smallest for infinities."""
    widened("dist", "X", x.dtype, "f")
    size = np.abs(np.asarray(x - y).astype(accumulate_dtype(x.dtype), copy=False))
    with np.errstate(all="ignore"):
        value: Any
        if p == 0:
            value = np.count_nonzero(size)
        elif math.isinf(p):
            value = size.max() if p > 0 else size.min()
        elif p == 2:
            value = np.sqrt(np.square(size).sum())
        else:
            value = np.power(np.power(size, p).sum(), float(np.float32(1) / np.float32(p)))  # as Paddle rounds it
    return follow_rank(np.asarray(value).astype(x.dtype), None if ctx is None else ctx.declared("Out"))


@dist.gradient(takes="X Y Out Out@GRAD", gives="X@GRAD Y@GRAD")
def dist_grad(x: Array, y: Array, out: Array, d_out: Array, *, p: float = 2.0) -> tuple[Array, Array]:
    """``sign(d) * (|d| / out)**(p - 1) * d_out`` with ``d = x - y``; zero where the distance is zero or ``p`` is."""
    wide = accumulate_dtype(x.dtype)
    d = np.asarray(x - y).astype(wide, copy=False)
    norm, seed = out.reshape(()).astype(wide), d_out.reshape(()).astype(wide)
    with np.errstate(all="ignore"):
        if p == 0 or (norm == 0 and not math.isinf(p)):
            grad = np.zeros_like(d)
        elif math.isinf(p):
            grad = np.sign(d) * (np.abs(d) == norm)
        else:
            grad = np.sign(d) * np.power(np.abs(d) / norm, p - 1)
        grad = np.asarray(grad * seed)
    return (
        unbroadcast(grad, x.shape).astype(x.dtype, copy=False),
        unbroadcast(-grad, y.shape).astype(y.dtype, copy=False),
    )
