"""Diagonals and triangles: read them, build from them, keep or fill them, list their places."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir.dtypes import to_numpy
from ...ir.registry import operator
from ..values import Array, Meta
from .common import normalize_axis

__all__ = ["diag_embed", "diag_v2", "diagonal", "fill_diagonal", "fill_diagonal_tensor", "tril_triu"]


def _two_axes(axis1: int, axis2: int, ndim: int) -> tuple[int, int]:
    if ndim < 2:
        raise ValueError(f"a tensor of {ndim} dimension(s) has no diagonal, 2 are needed")
    first, second = normalize_axis(axis1, ndim), normalize_axis(axis2, ndim)
    if first == second:
        raise ValueError(f"axes {axis1} and {axis2} are the same dimension, a diagonal needs two")
    return first, second


def _diagonal_of(x: Array, offset: int, axis1: int, axis2: int) -> Array:
    """A writable view of the diagonal of ``x`` (read-only where ``x`` is), the diagonal last."""
    first, second = _two_axes(axis1, axis2, x.ndim)
    moved = np.moveaxis(x, (first, second), (-2, -1))
    start = (max(-offset, 0), max(offset, 0))
    length = max(min(moved.shape[-2] - start[0], moved.shape[-1] - start[1]), 0)
    if not length:
        return moved[..., 0, :0] if moved.shape[-2] else moved.reshape(*moved.shape[:-2], -1)[..., :0]
    corner = moved[..., start[0] : start[0] + length, start[1] : start[1] + length]
    strides = (*corner.strides[:-2], corner.strides[-2] + corner.strides[-1])
    return np.lib.stride_tricks.as_strided(corner, (*corner.shape[:-2], length), strides, writeable=x.flags.writeable)


@operator("diagonal", inputs="Input", outputs="Out")
def diagonal(x: Array, *, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    """The diagonal of the planes of ``axis1`` and ``axis2`` as the last dimension (a view)."""
    return _diagonal_of(x, offset, axis1, axis2)


@diagonal.gradient(takes="Input~ Out@GRAD", gives="Input@GRAD")
def diagonal_grad(x: Array | Meta, d_out: Array, *, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    """Zero but for the diagonal."""
    grad = np.zeros(x.shape, d_out.dtype)
    _diagonal_of(grad, offset, axis1, axis2)[...] = d_out
    return grad


def _embedded(x: Array, offset: int, dim1: int, dim2: int) -> Array:
    size = x.shape[-1] + abs(offset)
    first, second = _two_axes(dim1, dim2, x.ndim + 1)
    shape = list(x.shape[:-1])
    for axis in sorted((first, second)):
        shape.insert(axis, size)
    out = np.zeros(shape, x.dtype)
    _diagonal_of(out, offset, first, second)[...] = x
    return out


@operator("diag_embed", inputs="Input", outputs="Out", gradient=None)
def diag_embed(x: Array, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Array:
    """Planes of ``dim1`` and ``dim2`` with the last dimension of Input on a diagonal, zero elsewhere."""
    if x.ndim == 0:
        raise ValueError("Input is 0-d, a dimension is needed to put on the diagonal")
    return _embedded(x, offset, dim1, dim2)


@operator("diag", inputs="Diagonal", outputs="Out", gradient=None)
def diag(x: Array) -> Array:
    """The square matrix with this vector on its diagonal (1.x)."""
    if x.ndim != 1:
        raise ValueError(f"Diagonal has shape {list(x.shape)}, one dimension is needed")
    return _embedded(x, 0, 0, 1)


@operator("diag_v2", inputs="X", outputs="Out")
def diag_v2(x: Array, *, offset: int = 0, padding_value: float = 0.0) -> Array:
    """From a vector (or number) the matrix with it on a diagonal, else padding; from a matrix its diagonal."""
    if x.ndim > 2:
        raise ValueError(f"X has shape {list(x.shape)}, at most 2 dimensions are taken")
    if x.ndim == 2:
        return _diagonal_of(x, offset, 0, 1)
    out = _embedded(x.reshape(-1), offset, 0, 1)
    if padding_value:
        padded = np.full(out.shape, padding_value, x.dtype)
        _diagonal_of(padded, offset, 0, 1)[...] = x.reshape(-1)
        return padded
    return out


@diag_v2.gradient(takes="X~ Out@GRAD", gives="X@GRAD")
def diag_v2_grad(x: Array | Meta, d_out: Array, *, offset: int = 0) -> Array:
    """The other way round: the diagonal of the gradient, or the gradient on a diagonal."""
    if x.ndim < 2:
        return _diagonal_of(d_out, offset, 0, 1).reshape(x.shape)
    grad = np.zeros(x.shape, d_out.dtype)
    _diagonal_of(grad, offset, 0, 1)[...] = d_out
    return grad


def _triangle(x: Array, diagonal: int, lower: bool) -> Array:
    if x.ndim < 2:
        raise ValueError(f"X has shape {list(x.shape)}, at least 2 dimensions are needed")
    rows, columns = x.shape[-2:]
    kept = np.tri(rows, columns, diagonal if lower else diagonal - 1, np.bool_)
    return np.where(kept if lower else ~kept, x, np.zeros((), x.dtype))


@operator("tril_triu", inputs="X", outputs="Out")
def tril_triu(x: Array, *, diagonal: int = 0, lower: bool = False) -> Array:
    """X with zeros above (``lower``) or below the diagonal of that number."""
    return _triangle(x, diagonal, lower)


@tril_triu.gradient(takes="Out@GRAD", gives="X@GRAD")
def tril_triu_grad(d_out: Array, *, diagonal: int = 0, lower: bool = False) -> Array:
    """The same triangle of the gradient."""
    return _triangle(d_out, diagonal, lower)


tril_triu_grad.gradient_op("tril_triu", takes="X=X@GRAD@GRAD", gives="Out=Out@GRAD@GRAD")


def _places(rows: int, columns: int, offset: int, dtype: int, lower: bool) -> Array:
    if rows < 0 or columns < 0:
        raise ValueError(f"a matrix of {rows} rows and {columns} columns does not exist")
    kept = np.tri(rows, columns, offset if lower else offset - 1, np.bool_)
    return np.stack(np.nonzero(kept if lower else ~kept)).astype(to_numpy(dtype))


@operator("tril_indices", inputs="", outputs="out", gradient=None)
def tril_indices(*, rows: int = 0, cols: int = 0, offset: int = 0, dtype: int = 3) -> Array:
    """Row and column of every element on or below a diagonal, in row order. Shape [2, count]."""
    return _places(rows, cols, offset, dtype, True)


@operator("triu_indices", inputs="", outputs="out", gradient=None)
def triu_indices(*, row: int = 0, col: int = 0, offset: int = 0, dtype: int = 3) -> Array:
    """Row and column of every element on or above a diagonal, in row order. Shape [2, count]."""
    return _places(row, col, offset, dtype, False)


def _filled_diagonal(x: Array, value: float, offset: int, wrap: bool) -> Array:
    """Walk the flat array in steps of one place along every dimension; without wrap the walk ends after as many
    elements as a square of the second dimension has."""
    if x.ndim < 2:
        raise ValueError(f"X has shape {list(x.shape)}, at least 2 dimensions are needed")
    out = np.array(x, order="C")
    columns = x.shape[1]
    step = sum(int(np.prod(x.shape[axis + 1 :])) for axis in range(x.ndim))
    size = out.size if wrap else min(out.size, columns * columns)
    places = np.arange(0, size, step)
    kept = places[(places % columns + offset >= 0) & (places % columns + offset < columns)] + offset
    out.reshape(-1)[kept] = value
    return out


@operator("fill_diagonal", inputs="X", outputs="Out")
def fill_diagonal(x: Array, *, value: float = 0.0, offset: int = 0, wrap: bool = False) -> Array:
    """X with ``value`` on a diagonal; ``wrap`` starts it again below the square of a tall matrix."""
    return _filled_diagonal(x, value, offset, wrap)


@fill_diagonal.gradient(takes="Out@GRAD", gives="X@GRAD")
def fill_diagonal_grad(d_out: Array, *, offset: int = 0, wrap: bool = False) -> Array:
    """The gradient with zeros on the diagonal."""
    return _filled_diagonal(d_out, 0.0, offset, wrap)


def _with_diagonal(x: Array, y: Any, offset: int, dim1: int, dim2: int) -> Array:
    out = np.array(x, order="C")
    target = _diagonal_of(out, offset, dim1, dim2)
    if np.ndim(y) and y.shape != target.shape:
        raise ValueError(f"Y has shape {list(y.shape)}, the diagonal has shape {list(target.shape)}")
    target[...] = y
    return out


@operator("fill_diagonal_tensor", inputs="X Y", outputs="Out")
def fill_diagonal_tensor(x: Array, y: Array, *, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Array:
    """X with Y on the diagonal of the planes of ``dim1`` and ``dim2`` (the diagonal is Y's last dimension)."""
    return _with_diagonal(x, y, offset, dim1, dim2)


@fill_diagonal_tensor.gradient(takes="Out@GRAD", gives="X@GRAD")
def fill_diagonal_tensor_grad(d_out: Array, *, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Array:
    """The gradient with zeros on the diagonal; Y gets none."""
    return _with_diagonal(d_out, 0, offset, dim1, dim2)
