"""Linear algebra of whole matrices: chains, powers, inverses, determinants, Cholesky factors, linear systems."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...ir.registry import OpContext, operator
from ..values import Array
from .common import accumulate_dtype, follow_rank, refuse_half, unbroadcast

__all__ = ["adjoint", "back_substituted", "cholesky", "determinant", "inverse", "solve", "square_matrices"]


def adjoint(x: Array) -> Array:
    """The conjugate transpose of each matrix, a view for real ones."""
    turned = x.swapaxes(-1, -2)
    result: Array = turned.conj() if x.dtype.kind == "c" else turned
    return result


def square_matrices(name: str, x: Array) -> Array:
    """``x``, which must be square matrices."""
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise ValueError(f"{name} must be square matrices [..., n, n], got shape {list(x.shape)}")
    refuse_half(x)
    return x


def checked(compute: Callable[..., Any], what: str, *args: Any, **options: Any) -> Any:
    """``compute(*args)``; what LAPACK refuses becomes a ValueError that says ``what``."""
    for each in args:
        refuse_half(each)
    try:
        return compute(*args, **options)
    except np.linalg.LinAlgError as error:
        raise ValueError(f"{what}: {error}") from error


# Chains and powers


def _as_matrices(operands: Sequence[Array]) -> list[Array]:
    """The operands of a chain as matrices in the dtype of sums: a vector is a row in front, a column behind."""
    if len(operands) < 2:
        raise ValueError(f"X must have at least 2 matrices, got {len(operands)}")
    chain = [each.astype(accumulate_dtype(each.dtype), copy=False) for each in operands]
    if chain[0].ndim == 1:
        chain[0] = chain[0][None, :]
    if chain[-1].ndim == 1:
        chain[-1] = chain[-1][:, None]
    for at, each in enumerate(chain):
        if each.ndim != 2:
            raise ValueError(f"X[{at}] must be a matrix (a vector only at the ends), got shape {list(each.shape)}")
    return chain


@operator("multi_dot", inputs="X*", outputs="Out")
def multi_dot(operands: list[Array]) -> Array:
    """The product of a chain of matrices in the cheapest order; the ends may be vectors."""
    chain = _as_matrices(operands)
    out = np.asarray(np.linalg.multi_dot(chain)) if len(chain) > 2 else chain[0] @ chain[1]
    shape = out.shape[operands[0].ndim == 1 : 2 - (operands[-1].ndim == 1)]
    return out.reshape(shape).astype(operands[0].dtype, copy=False)


@multi_dot.gradient(takes="X* Out@GRAD", gives="X@GRAD*")
def multi_dot_grad(operands: list[Array], d_out: Array) -> list[Array]:
    """For each factor ``left^H @ d_out @ right^H`` with the products of what stands beside it."""
    chain = _as_matrices(operands)
    d = d_out.reshape(chain[0].shape[0], chain[-1].shape[1])
    lefts, rights = [d], [None, *_products(chain)]
    for each in chain[:-1]:
        lefts.append(adjoint(each) @ lefts[-1])
    grads = []
    for at, each in enumerate(operands):
        right = rights[len(chain) - 1 - at]
        grad = lefts[at] if right is None else lefts[at] @ adjoint(right)
        grads.append(grad.astype(each.dtype, copy=False).reshape(each.shape))
    return grads


def _products(chain: Sequence[Array]) -> list[Array]:
    """Products of the last factor, the last two, and so on, without the first factor."""
    tails = [chain[-1]]
    for each in reversed(chain[1:-1]):
        tails.append(each @ tails[-1])
    return tails


@operator("matrix_power", inputs="X", outputs="Out")
def matrix_power(x: Array, *, n: int) -> Array:
    """The ``n``-th power of square matrices; a negative one is a power of the inverse."""
    power = checked(np.linalg.matrix_power, "X has no inverse", square_matrices("X", x), n)
    return np.asarray(power).astype(x.dtype, copy=False)


@matrix_power.gradient(takes="X Out Out@GRAD", gives="X@GRAD")
def matrix_power_grad(x: Array, out: Array, d_out: Array, *, n: int) -> Array:
    """``sum_i (x^i)^H d_out (x^(n-1-i))^H``, through the inverse for a negative ``n``."""
    if n == 0:
        return np.zeros_like(x)
    base = x if n > 0 else np.linalg.inv(x)
    powers = [np.broadcast_to(np.eye(x.shape[-1], dtype=x.dtype), x.shape)]
    for _ in range(abs(n) - 1):
        powers.append(powers[-1] @ base)
    terms = [adjoint(a) @ d_out @ adjoint(b) for a, b in zip(powers, reversed(powers), strict=True)]
    grad = functools.reduce(np.add, terms)
    return grad if n > 0 else -adjoint(base) @ grad @ adjoint(base)


# Inverses and determinants


@operator("inverse", inputs="Input", outputs="Output")
def inverse(x: Array) -> Array:
    """The inverse of square matrices."""
    return np.asarray(checked(np.linalg.inv, "Input has no inverse", square_matrices("Input", x)))


@inverse.gradient(takes="Output Output@GRAD", gives="Input@GRAD")
def inverse_grad(out: Array, d_out: Array) -> Array:
    """``-out^H @ d_out @ out^H``."""
    turned = adjoint(out)
    return -(turned @ d_out @ turned)


@operator("determinant", inputs="Input", outputs="Out")
def determinant(x: Array, *, ctx: OpContext | None = None) -> Array:
    """The determinant of square matrices; of one matrix 0-d, or [1] where the program declares that."""
    out = np.asarray(np.linalg.det(square_matrices("Input", x)))
    return out if ctx is None else follow_rank(out, ctx.declared("Out"))


def _inverse_where(x: Array, usable: Array) -> Array:
    """Inverses where there are any; zero matrices elsewhere."""
    eye = np.eye(x.shape[-1], dtype=x.dtype)
    inverted = np.linalg.inv(np.where(usable[..., None, None], x, eye))
    return np.where(usable[..., None, None], inverted, x.dtype.type(0))


@determinant.gradient(takes="Input Out Out@GRAD", gives="Input@GRAD")
def determinant_grad(x: Array, out: Array, d_out: Array) -> Array:
    """``d_out * out * x^-H``; zero for singular matrices, as in Paddle."""
    value, d = out.reshape(x.shape[:-2]), d_out.reshape(x.shape[:-2])
    factor = (d * np.conj(value))[..., None, None]
    return np.asarray(factor * adjoint(_inverse_where(x, value != 0)))


@operator("slogdeterminant", inputs="Input", outputs="Out")
def slogdeterminant(x: Array) -> Array:
    """The sign and the logarithm of the magnitude of determinants, stacked: shape ``[2, ...]``."""
    sign, logarithm = np.linalg.slogdet(square_matrices("Input", x))
    return np.stack([sign, logarithm]).astype(x.dtype, copy=False)


@slogdeterminant.gradient(takes="Input Out Out@GRAD", gives="Input@GRAD")
def slogdeterminant_grad(x: Array, out: Array, d_out: Array) -> Array:
    """``d_out[1] * x^-H``; zero for singular matrices, as in Paddle."""
    batch = x.shape[:-2]
    usable = out[0].reshape(batch) != 0
    return np.asarray(d_out[1].reshape(batch)[..., None, None] * adjoint(_inverse_where(x, usable)))


# Cholesky


def _lower(x: Array, below: int = 0) -> Array:
    return np.tril(x, below)


@operator("cholesky", inputs="X", outputs="Out")
def cholesky(x: Array, *, upper: bool = False) -> Array:
    """The triangular factor of positive definite matrices: ``L L^H``, or ``U^H U`` when ``upper``."""
    square_matrices("X", x)
    source = adjoint(x) if upper else x
    factor = np.asarray(checked(np.linalg.cholesky, "X is not positive definite", source))
    return adjoint(factor) if upper else factor


@cholesky.gradient(takes="Out Out@GRAD", gives="X@GRAD")
def cholesky_grad(out: Array, d_out: Array, *, upper: bool = False) -> Array:
    """``L^-H phi(L^H dL) L^-1`` made symmetric, with ``phi`` the lower triangle, its diagonal halved."""
    factor, d = (adjoint(out), adjoint(d_out)) if upper else (out, d_out)
    inner = _lower(adjoint(factor) @ d)
    inner = inner - np.eye(out.shape[-1], dtype=out.dtype) * inner / 2
    inverse = back_substituted(factor, np.broadcast_to(np.eye(out.shape[-1], dtype=out.dtype), out.shape), False)
    grad = adjoint(inverse) @ inner @ inverse
    return np.asarray((grad + adjoint(grad)) / 2)


@operator("cholesky_solve", inputs="X Y", outputs="Out")
def cholesky_solve(x: Array, y: Array, *, upper: bool = False) -> Array:
    """The solution of ``A out = x`` for ``A`` given by its Cholesky factor ``y``."""
    square_matrices("Y", y)
    lower = adjoint(y) if upper else y
    return back_substituted(adjoint(lower), back_substituted(lower, x, False), True)


@cholesky_solve.gradient(takes="X Y Out Out@GRAD", gives="X@GRAD Y@GRAD")
def cholesky_solve_grad(x: Array, y: Array, out: Array, d_out: Array, *, upper: bool = False) -> tuple[Array, Array]:
    """``A^-1 d_out``, and through ``A = y y^H`` the factor's."""
    d_x: Array = cholesky_solve(d_out, y, upper=upper)
    outer = d_x @ adjoint(out)
    outer = outer + adjoint(outer)
    d_y = np.triu(-(y @ outer)) if upper else np.tril(-(outer @ y))
    return unbroadcast(d_x, x.shape), unbroadcast(d_y, y.shape)


# Linear systems


def _is_vector(x: Array, y: Array) -> bool:
    """Whether right-hand sides are vectors: one, or one for each matrix."""
    return y.ndim == 1 or (y.ndim == x.ndim - 1 and y.shape == x.shape[:-1])


def _solved(a: Array, columns: Array) -> Array:
    """``a^-1 @ columns``; with as many dimensions as ``a``, lest numpy 1 takes the columns for vectors."""
    missing = max(a.ndim - columns.ndim, 0)
    return np.asarray(checked(np.linalg.solve, "X is singular", a, columns.reshape((1,) * missing + columns.shape)))


@operator("solve", inputs="X Y", outputs="Out")
def solve(x: Array, y: Array) -> Array:
    """The solution of ``x @ out = y`` for square ``x``; ``y`` holds columns, or one vector for each matrix."""
    square_matrices("X", x)
    vector = _is_vector(x, y)
    out = _solved(x, y[..., None] if vector else y)
    return out[..., 0] if vector else out


@solve.gradient(takes="X Y Out Out@GRAD", gives="X@GRAD Y@GRAD")
def solve_grad(x: Array, y: Array, out: Array, d_out: Array) -> tuple[Array, Array]:
    """``d_y = x^-H d_out`` and ``d_x = -d_y @ out^H``."""
    vector = _is_vector(x, y)
    right, d = (out[..., None], d_out[..., None]) if vector else (out, d_out)
    d_y = _solved(adjoint(x), d)
    d_x = unbroadcast(-(d_y @ adjoint(right)), x.shape)
    return d_x, unbroadcast(d_y[..., 0] if vector else d_y, y.shape)


def back_substituted(a: Array, b: Array, upper: bool, unit: bool = False) -> Array:
    """The solution of ``a @ out = b`` for triangular ``a``, row by row over all matrices at once.

    The other triangle of ``a`` is not looked at; ``unit`` takes its diagonal to be ones. A zero on the
    diagonal gives infinities, as in BLAS.
    """
    size = a.shape[-1]
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    out = np.array(np.broadcast_to(b, (*batch, *b.shape[-2:])), dtype=np.result_type(a, b))
    with np.errstate(divide="ignore", invalid="ignore"):
        for row in range(size - 1, -1, -1) if upper else range(size):
            done = slice(row + 1, size) if upper else slice(0, row)
            if done.start != done.stop:
                out[..., row, :] -= (a[..., row, None, done] @ out[..., done, :])[..., 0, :]
            if not unit:
                out[..., row, :] /= a[..., row, row, None]
    return out


@operator("triangular_solve", inputs="X Y", outputs="Out")
def triangular_solve(
    x: Array, y: Array, *, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> Array:
    """The solution of ``op(x) @ out = y`` for triangular ``x``."""
    square_matrices("X", x)
    matrix = x.swapaxes(-1, -2) if transpose else x
    return back_substituted(matrix, y, upper != transpose, unitriangular)


@triangular_solve.gradient(takes="X Y Out Out@GRAD", gives="X@GRAD Y@GRAD")
def triangular_solve_grad(
    x: Array,
    y: Array,
    out: Array,
    d_out: Array,
    *,
    upper: bool = True,
    transpose: bool = False,
    unitriangular: bool = False,
) -> tuple[Array, Array]:
    """``d_y = op(x)^-H d_out`` and the triangle of ``-d_y @ out^H``."""
    matrix = x.conj() if x.dtype.kind == "c" else x
    flags = {"upper": upper, "transpose": not transpose, "unitriangular": unitriangular}
    d_y: Array = triangular_solve(matrix, d_out, **flags)
    outer = -(out.conj() @ d_y.swapaxes(-1, -2)) if transpose else -(d_y @ adjoint(out))
    edge = 1 if unitriangular else 0
    d_x = np.triu(outer, edge) if upper else np.tril(outer, -edge)
    return unbroadcast(d_x, x.shape), unbroadcast(d_y, y.shape)
