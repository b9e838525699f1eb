"""Linear algebra: products, norms, and what numpy's factorizations give."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..errors import InputError
from . import functional_math as elementwise
from . import functional_reduce as reduce
from . import functional_shape as shapes
from .operands import axis_list, binary, cast_to, constant, int_list, matched, run, run_at, unary
from .tensor import Tensor

__all__ = [
    "addmm",
    "bmm",
    "cholesky",
    "cross",
    "det",
    "diag",
    "diag_embed",
    "diagflat",
    "diagonal",
    "dist",
    "dot",
    "einsum",
    "fill_diagonal_tensor",
    "inner",
    "inv",
    "inverse",
    "matmul",
    "matrix_power",
    "matrix_transpose",
    "mm",
    "multi_dot",
    "mv",
    "norm",
    "outer",
    "slogdet",
    "solve",
    "tensordot",
    "trace",
    "tril",
    "triu",
]

dot = binary("dot", "The sum of products along the last axis of vectors, or of each row of matrices.", same=False)
bmm = binary("bmm", "The products of two batches of matrices, each of three dimensions.")
inverse = unary("inverse", "The inverse of square matrices.")
inv = inverse
det = unary("det", "The determinants of square matrices.", "determinant")


def matmul(
    x: Tensor, y: Tensor, transpose_x: bool = False, transpose_y: bool = False, name: str | None = None
) -> Tensor:
    """The matrix product; leading axes broadcast, a 1-d operand is a row on the left and a column on the right."""
    a, b = matched(x, y, "matmul", mix=False)
    return run("matmul_v2", a, b, trans_x=bool(transpose_x), trans_y=bool(transpose_y))


def mm(input: Tensor, mat2: Tensor, name: str | None = None) -> Tensor:
    """The matrix product."""
    return matmul(input, mat2)


def mv(x: Tensor, vec: Tensor, name: str | None = None) -> Tensor:
    """A matrix times a vector."""
    return run("mv", x, vec)


def addmm(
    input: Tensor, x: Tensor, y: Tensor, beta: float = 1.0, alpha: float = 1.0, name: str | None = None
) -> Tensor:
    """``beta * input + alpha * x @ y`` for matrices."""
    return run("addmm", input, x, y, Beta=float(beta), Alpha=float(alpha))


def tensordot(x: Tensor, y: Tensor, axes: Any = 2, name: str | None = None) -> Tensor:
    """The sum of products over pairs of axes: the last n of x with the first n of y, or those listed."""
    if isinstance(axes, int):
        left, right = list(range(x.ndim - axes, x.ndim)), list(range(axes))
    else:
        pair = [int_list(each) for each in axes] if isinstance(axes[0], (list, tuple)) else [int_list(axes)] * 2
        left, right = axis_list(pair[0], x.ndim), axis_list(pair[-1], y.ndim)
    keep_x = [each for each in range(x.ndim) if each not in left]
    keep_y = [each for each in range(y.ndim) if each not in right]
    inner = int(np.prod([x.shape[each] for each in left]))
    a = shapes.reshape(shapes.transpose(x, keep_x + left), [-1, inner])
    b = shapes.reshape(shapes.transpose(y, right + keep_y), [inner, -1])
    product = run("matmul_v2", a, b, trans_x=False, trans_y=False)
    return shapes.reshape(product, [x.shape[each] for each in keep_x] + [y.shape[each] for each in keep_y])


def inner(x: Tensor, y: Tensor, name: str | None = None) -> Tensor:
    """The sums of products over the last axes."""
    if x.ndim == 0 or y.ndim == 0:
        return elementwise.multiply(x, y)
    return tensordot(x, y, [[x.ndim - 1], [y.ndim - 1]])


def outer(x: Tensor, y: Tensor, name: str | None = None) -> Tensor:
    """All products of elements of the flattened tensors, a matrix."""
    return elementwise.multiply(shapes.reshape(x, [-1, 1]), shapes.reshape(y, [1, -1]))


def cross(x: Tensor, y: Tensor, axis: int = 9, name: str | None = None) -> Tensor:
    """The cross product along an axis of size three, the first such by default."""
    return run("cross", x, y, dim=int(axis))


def dist(x: Tensor, y: Tensor, p: float = 2, name: str | None = None) -> Tensor:
    """The p-norm of ``x - y``."""
    return run("dist", x, y, p=float(p))


def einsum(equation: str, *operands: Tensor) -> Tensor:
    """Einstein's sum over named axes, e.g. ``"ij,jk->ik"``."""
    parts = list(operands[0]) if len(operands) == 1 and isinstance(operands[0], (list, tuple)) else list(operands)
    return run_at("einsum", 0, parts, equation=equation)


def trace(x: Tensor, offset: int = 0, axis1: int = 0, axis2: int = 1, name: str | None = None) -> Tensor:
    """The sums of diagonals of the planes of two axes."""
    return run("trace", x, offset=int(offset), axis1=int(axis1), axis2=int(axis2))


def diagonal(x: Tensor, offset: int = 0, axis1: int = 0, axis2: int = 1, name: str | None = None) -> Tensor:
    """The diagonals of the planes of two axes, as a new last axis."""
    return run("diagonal", x, offset=int(offset), axis1=int(axis1), axis2=int(axis2))


def diag(x: Tensor, offset: int = 0, padding_value: float = 0, name: str | None = None) -> Tensor:
    """A matrix with a vector on a diagonal, or a diagonal of a matrix."""
    return run("diag_v2", x, offset=int(offset), padding_value=float(padding_value))


def diagflat(x: Tensor, offset: int = 0, name: str | None = None) -> Tensor:
    """A matrix with the flattened tensor on a diagonal."""
    return diag(shapes.reshape(x, [-1]), offset)


def diag_embed(input: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """The last axis as diagonals of planes in two new axes."""
    return run("diag_embed", input, offset=int(offset), dim1=int(dim1), dim2=int(dim2))


def tril(x: Tensor, diagonal: int = 0, name: str | None = None) -> Tensor:
    """The lower triangle of matrices, zero above the diagonal."""
    return run("tril_triu", x, diagonal=int(diagonal), lower=True)


def triu(x: Tensor, diagonal: int = 0, name: str | None = None) -> Tensor:
    """The upper triangle of matrices, zero below the diagonal."""
    return run("tril_triu", x, diagonal=int(diagonal), lower=False)


def fill_diagonal_tensor(x: Tensor, y: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """``x`` with a diagonal of the plane of two axes replaced by ``y``."""
    return run("fill_diagonal_tensor", x, y, offset=int(offset), dim1=int(dim1), dim2=int(dim2))


def norm(x: Tensor, p: Any = None, axis: Any = None, keepdim: bool = False, name: str | None = None) -> Tensor:
    """A norm over one axis, two axes or all: ``p`` is a number, ``"fro"``, or infinite. None means 2."""
    axes = None if axis is None else axis_list(axis, x.ndim)
    if p in (None, "fro") and (axes is None or len(axes) == 2):
        whole = axes is None or len(axes) == x.ndim
        return run("frobenius_norm", x, dim=axes or [0], keep_dim=bool(keepdim), reduce_all=whole)
    order = 2.0 if p in (None, "fro") else float(p)
    if axes is None:
        return run("p_norm", x, porder=order, axis=-1, keepdim=bool(keepdim), asvector=True, epsilon=1e-12)
    if len(axes) == 1:
        return run("p_norm", x, porder=order, axis=axes[0], keepdim=bool(keepdim), asvector=False, epsilon=1e-12)
    return _vector_norm(x, order, axes, keepdim)


def _vector_norm(x: Tensor, order: float, axes: list[int], keepdim: bool) -> Tensor:
    """The p-norm of all elements over several axes."""
    sizes = elementwise.abs(x)
    if math.isinf(order):
        extreme = reduce.max if order > 0 else reduce.min
        found: Tensor = extreme(sizes, axes, keepdim)
        return found
    if order == 0:
        return reduce.sum(cast_to(constant(x._array != 0), x._array.dtype), axes, keepdim=keepdim)
    total = reduce.sum(elementwise.pow(sizes, order), axes, keepdim=keepdim)
    return elementwise.pow(total, 1.0 / order)


def cholesky(x: Tensor, upper: bool = False, name: str | None = None) -> Tensor:
    """The triangular factor of positive definite matrices."""
    return run("cholesky", x, upper=bool(upper))


def matrix_power(x: Tensor, n: int, name: str | None = None) -> Tensor:
    """Square matrices to an integer power."""
    return run("matrix_power", x, n=int(n))


def matrix_transpose(x: Tensor, name: str | None = None) -> Tensor:
    """The last two axes exchanged."""
    return shapes.swapaxes(x, -1, -2)


def multi_dot(x: list[Tensor], name: str | None = None) -> Tensor:
    """The product of several matrices, from left to right."""
    if len(x) < 2:
        raise InputError(f"multi_dot() takes at least two tensors, got {len(x)}")
    product = x[0]
    for each in x[1:]:
        product = matmul(product, each)
    return product


def solve(x: Tensor, y: Tensor, name: str | None = None) -> Tensor:
    """``z`` with ``x @ z = y``, through the inverse so that gradients pass."""
    return matmul(inverse(x), y)


def slogdet(x: Tensor, name: str | None = None) -> Tensor:
    """Sign and logarithm of the absolute value of determinants, stacked. No gradient."""
    sign, size = np.linalg.slogdet(x._array)
    return constant(np.stack([sign, size]).astype(x._array.dtype))
