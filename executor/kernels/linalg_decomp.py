"""Matrix decompositions and their gradients: eigenvalues, QR, SVD, LU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...ir.dtypes import DType
from ...ir.registry import OpContext, operator
from ..values import Array
from .common import refuse_half
from .linalg import adjoint, back_substituted, checked, square_matrices

__all__ = ["eig", "eigh", "lu", "lu_unpack", "qr", "svd"]

_COMPLEX: dict[np.dtype[Any], np.dtype[Any]] = {
    np.dtype(np.float32): np.dtype(np.complex64),
    np.dtype(np.float64): np.dtype(np.complex128),
}


def _complex(x: Array) -> np.dtype[Any]:
    """The complex dtype of eigenvalues of ``x``."""
    return _COMPLEX.get(x.dtype, x.dtype)


def _differences(values: Array) -> Array:
    """``values[j] - values[i]`` as a matrix, ones on the diagonal."""
    table = values[..., None, :] - values[..., :, None]
    result: Array = table + np.eye(values.shape[-1], dtype=values.dtype)
    return result


def _off_diagonal(x: Array) -> Array:
    result: Array = x * (1 - np.eye(x.shape[-1], dtype=x.real.dtype))
    return result


def _scale_columns(x: Array, factors: Array) -> Array:
    return x * factors[..., None, :]


def _diagonal(values: Array) -> Array:
    result: Array = values[..., None] * np.eye(values.shape[-1], dtype=values.dtype)
    return result


def _single_precision(name: str) -> Callable[..., Any] | None:
    """The float32 loop of numpy's ``eig`` or ``eigvals``, which its public function never takes.

    The order of eigenvalues is what LAPACK's iteration leaves, and in single precision it may leave another
    one; Paddle runs it in the precision of the matrix. None where this numpy has no such loop.
    """
    found = getattr(getattr(np.linalg, "_umath_linalg", None), name, None)
    return found if found is not None and any(loop.startswith("f->") for loop in found.types) else None


def _iterated(name: str, public: Callable[..., Any], x: Array) -> Any:
    """Eigenvalues (and vectors), in single precision where ``x`` is and numpy can."""
    single = _single_precision(name) if x.dtype == np.float32 and x.size else None
    if single is None:
        return checked(public, "the eigenvalues of X do not converge", x)
    found = single(x, signature="f->FF" if name == "eig" else "f->F")
    if not np.isfinite(found[0]).all():
        raise ValueError("the eigenvalues of X do not converge")
    return found


@operator("eig", inputs="X", outputs="Eigenvalues Eigenvectors")
def eig(x: Array) -> tuple[Array, Array]:
    """Eigenvalues and unit eigenvectors (columns) of general square matrices, both complex."""
    values, vectors = _iterated("eig", np.linalg.eig, square_matrices("X", x))
    return values.astype(_complex(x), copy=False), vectors.astype(_complex(x), copy=False)


@eig.gradient(takes="Eigenvalues Eigenvectors Eigenvalues@GRAD? Eigenvectors@GRAD?", gives="X@GRAD")
def eig_grad(
    values: Array,
    vectors: Array,
    d_values: Array | None,
    d_vectors: Array | None,
    *,
    ctx: OpContext | None = None,
) -> Array:
    """``V^-H (diag(dL) + (V^H dV - V^H V diag(Re(V^H dV))) / conj(L_j - L_i)) V^H``.

    Complex, unless the program declares the gradient real, as that of a real matrix is.
    """
    turned = adjoint(vectors)
    middle = np.zeros_like(vectors)
    if d_vectors is not None:
        along = turned @ d_vectors
        real = np.diagonal(along, axis1=-2, axis2=-1).real
        middle = _off_diagonal((along - _scale_columns(turned @ vectors, real)) / _differences(values).conj())
    if d_values is not None:
        middle = middle + _diagonal(d_values)
    grad = np.asarray(np.linalg.solve(turned, middle @ turned)).astype(vectors.dtype, copy=False)
    declared = ctx.declared("X@GRAD") if ctx is not None else None
    return grad.real if declared is not None and declared.dtype in (DType.FP32, DType.FP64) else grad


@operator("eigvals", inputs="X", outputs="Out", gradient=None)
def eigvals(x: Array) -> Array:
    """Eigenvalues of general square matrices, complex.

    Their order is what LAPACK's iteration leaves. Paddle hands it the rows as columns, so this does too.
    """
    turned = square_matrices("X", x).swapaxes(-1, -2)
    values = _iterated("eigvals", np.linalg.eigvals, turned)
    return np.asarray(values).astype(_complex(x), copy=False)


def _symmetric(x: Array, uplo: str) -> tuple[Array, Array]:
    if uplo not in ("L", "U"):
        raise ValueError(f"attribute UPLO is '{uplo}', expected 'L' or 'U'")
    values, vectors = checked(np.linalg.eigh, "the eigenvalues of X do not converge", square_matrices("X", x), uplo)
    return np.asarray(values), np.asarray(vectors)


@operator("eigh", inputs="X", outputs="Eigenvalues Eigenvectors")
def eigh(x: Array, *, UPLO: str = "L") -> tuple[Array, Array]:
    """Real eigenvalues, ascending, and eigenvectors of Hermitian matrices, of which one half is read."""
    return _symmetric(x, UPLO)


@eigh.gradient(takes="Eigenvalues Eigenvectors Eigenvalues@GRAD? Eigenvectors@GRAD?", gives="X@GRAD")
def eigh_grad(values: Array, vectors: Array, d_values: Array | None, d_vectors: Array | None) -> Array:
    """``V (diag(dL) + (V^H dV) / (L_j - L_i)) V^H``, the middle made Hermitian beside its diagonal."""
    turned = adjoint(vectors)
    middle = np.zeros_like(vectors)
    if d_vectors is not None:
        along = turned @ d_vectors
        middle = _off_diagonal((along - adjoint(along)) / 2 / _differences(values))
    if d_values is not None:
        middle = middle + _diagonal(d_values)
    return np.asarray(vectors @ middle @ turned)


@operator("eigvalsh", inputs="X", outputs="Eigenvalues Eigenvectors")
def eigvalsh(x: Array, *, UPLO: str = "L", is_test: bool = False) -> tuple[Array, Array | None]:
    """Real eigenvalues, ascending, of symmetric matrices; in training the eigenvectors for the gradient."""
    values, vectors = _symmetric(x, UPLO)
    return values, None if is_test else vectors


@eigvalsh.gradient(takes="Eigenvectors Eigenvalues@GRAD", gives="X@GRAD")
def eigvalsh_grad(vectors: Array, d_values: Array) -> Array:
    """``V diag(dL) V^H``."""
    return np.asarray(_scale_columns(vectors, d_values) @ adjoint(vectors))


@operator("qr", inputs="X", outputs="Q R")
def qr(x: Array, *, mode: str = "reduced") -> tuple[Array, Array]:
    """``x = Q R`` with orthonormal ``Q`` and upper triangular ``R``; mode "r" leaves ``Q`` empty."""
    if mode not in ("reduced", "complete", "r"):
        raise ValueError(f"attribute mode is '{mode}', expected 'reduced', 'complete' or 'r'")
    if x.ndim < 2:
        raise ValueError(f"X must be matrices, got shape {list(x.shape)}")
    refuse_half(x)
    if mode == "r":
        return np.empty(0, x.dtype), np.asarray(np.linalg.qr(x, "r"))
    q, r = np.linalg.qr(x, mode)  # type: ignore[call-overload]
    return np.asarray(q), np.asarray(r)


def _tall_qr_grad(q: Array, r: Array, d_q: Array, d_r: Array) -> Array:
    """For as many rows as columns or more: ``(dQ + Q sym(R dR^H - dQ^H Q)) R^-H``."""
    inner = r @ adjoint(d_r) - adjoint(d_q) @ q
    right = d_q + q @ (np.tril(inner) + adjoint(np.tril(inner, -1)))
    # right @ R^-H is the adjoint of R^-1 right^H.
    return adjoint(back_substituted(r, adjoint(right), True))


@qr.gradient(takes="X Q R Q@GRAD? R@GRAD?", gives="X@GRAD")
def qr_grad(x: Array, q: Array, r: Array, d_q: Array | None, d_r: Array | None, *, mode: str = "reduced") -> Array:
    """Square or tall matrices directly; wide ones through their square front part."""
    rows, columns = x.shape[-2:]
    if mode == "r":
        raise ValueError("attribute mode='r' has no gradient, since Q was not computed")
    if mode == "complete" and rows > columns:
        raise ValueError("attribute mode='complete' has a gradient only for at most as many rows as columns")
    dq = np.zeros_like(q) if d_q is None else d_q
    dr = np.zeros_like(r) if d_r is None else d_r
    if rows >= columns:
        return _tall_qr_grad(q, r, dq, dr)
    # x = [Q U, Q V]: what reaches V acts on Q as well.
    u, d_u, d_v = r[..., :rows], dr[..., :rows], dr[..., rows:]
    d_front = _tall_qr_grad(q, u, dq + x[..., rows:] @ adjoint(d_v), d_u)
    return np.concatenate([d_front, q @ d_v], axis=-1)


@operator("svd", inputs="X", outputs="U S VH")
def svd(x: Array, *, full_matrices: bool = False) -> tuple[Array, Array, Array]:
    """``x = U diag(S) VH`` with singular values in descending order."""
    if x.ndim < 2:
        raise ValueError(f"X must be matrices, got shape {list(x.shape)}")
    u, s, vh = checked(np.linalg.svd, "the singular values of X do not converge", x, full_matrices)
    return u, s, vh


@svd.gradient(takes="X U S VH U@GRAD? S@GRAD? VH@GRAD?", gives="X@GRAD")
def svd_grad(
    x: Array,
    u: Array,
    s: Array,
    vh: Array,
    d_u: Array | None,
    d_s: Array | None,
    d_vh: Array | None,
    *,
    full_matrices: bool = False,
) -> Array:
    """The usual rule, for the first ``min(m, n)`` singular vectors."""
    rank = s.shape[-1]
    left, right = u[..., :rank], adjoint(vh)[..., :rank]
    square = np.square(s)
    gap = _off_diagonal(1 / _differences(square))
    middle = np.zeros((*s.shape, rank), x.dtype)
    if d_u is not None:
        along = gap * (adjoint(left) @ d_u[..., :rank])
        middle = middle + _scale_columns(along + adjoint(along), s)
    if d_vh is not None:
        d_right = adjoint(d_vh)[..., :rank]
        along = gap * (adjoint(right) @ d_right)
        middle = middle + s[..., :, None] * (along + adjoint(along))
    if d_s is not None:
        middle = middle + _diagonal(d_s)
    grad = left @ middle @ adjoint(right)
    if d_u is not None and x.shape[-2] > rank:
        inner = _scale_columns(d_u[..., :rank], 1 / s)
        grad = grad + (inner - left @ (adjoint(left) @ inner)) @ adjoint(right)
    if d_vh is not None and x.shape[-1] > rank:
        inner = (1 / s)[..., :, None] * d_vh[..., :rank, :]
        grad = grad + left @ (inner - (inner @ right) @ adjoint(right))
    return np.asarray(grad)


_PANEL = 32
"""Columns that are eliminated one by one before the rest of the matrix follows in one product."""


def _factor(matrix: Array, pivot: bool) -> tuple[Array, Array, Array]:
    """LU with partial pivoting of ``[B, m, n]``, all matrices at once, in panels of columns.

    Returns the packed factors, the 1-based rows that were exchanged, and per matrix the first zero pivot.
    """
    packed = matrix.copy()
    count, rows, columns = packed.shape
    steps = min(rows, columns)
    pivots = np.empty((count, steps), np.int32)
    info = np.zeros(count, np.int32)
    for start in range(0, steps, _PANEL):
        stop = min(start + _PANEL, steps)
        for step in range(start, stop):
            _eliminate(packed, step, stop, pivots, info, pivot)
        if stop < columns:
            top = packed[:, start:stop]
            top[..., stop:] = back_substituted(top[..., start:stop], top[..., stop:], False, unit=True)
            packed[:, stop:, stop:] -= packed[:, stop:, start:stop] @ top[..., stop:]
    return packed, pivots, info


def _eliminate(packed: Array, step: int, stop: int, pivots: Array, info: Array, pivot: bool) -> None:
    """Exchange rows for column ``step`` and clear it below its diagonal, up to column ``stop``; in place."""
    every = np.arange(len(packed))
    row = step + (np.abs(packed[:, step:, step]).argmax(axis=1) if pivot else np.zeros(len(packed), np.int64))
    pivots[:, step] = row + 1
    chosen = packed[every, row].copy()
    packed[every, row] = packed[:, step]
    packed[:, step] = chosen
    head = packed[:, step, step]
    info[(head == 0) & (info == 0)] = step + 1
    below = packed[:, step + 1 :, step]
    below /= np.where(head == 0, packed.dtype.type(1), head)[:, None]
    packed[:, step + 1 :, step + 1 : stop] -= below[:, :, None] * packed[:, step, None, step + 1 : stop]


@operator("lu", inputs="X", outputs="Out Pivots Infos")
def lu(x: Array, *, pivots: bool = True) -> tuple[Array, Array, Array]:
    """``P^T x = L U``: both factors packed in one matrix (L without its unit diagonal).

    ``Pivots`` lists row exchanges, from 1; ``Infos`` is 0, or the first zero pivot, from 1 (``[1]`` for one
    matrix).
    """
    if x.ndim < 2:
        raise ValueError(f"X must be matrices, got shape {list(x.shape)}")
    batch, size = x.shape[:-2], x.shape[-2:]
    packed, exchanged, info = _factor(x.reshape(-1, *size), pivots)
    return packed.reshape(x.shape), exchanged.reshape(*batch, -1), info.reshape(batch or (1,))


def _permutation(exchanged: Array, rows: int) -> Array:
    """For row exchanges ``[B, k]`` the source of each row, ``[B, rows]``."""
    order = np.tile(np.arange(rows), (len(exchanged), 1))
    every = np.arange(len(exchanged))
    for step in range(exchanged.shape[1]):
        other = exchanged[:, step].astype(np.int64) - 1
        held = order[every, other].copy()
        order[every, other] = order[:, step]
        order[:, step] = held
    return order


def _split(packed: Array) -> tuple[Array, Array]:
    """``L`` with its unit diagonal and ``U`` out of packed factors."""
    rank = min(packed.shape[-2:])
    lower = np.tril(packed[..., :, :rank], -1) + np.eye(packed.shape[-2], rank, dtype=packed.dtype)
    return lower, np.triu(packed[..., :rank, :])


@lu.gradient(takes="X Out Pivots Out@GRAD", gives="X@GRAD")
def lu_grad(x: Array, out: Array, pivots: Array, d_out: Array) -> Array:
    """``P L^-H (tril(L^H dL, -1) + triu(dU U^H)) U^-H`` for square matrices, and its extensions for others."""
    rows, columns = x.shape[-2:]
    rank = min(rows, columns)
    lower, upper = _split(out)
    d_lower, d_upper = np.tril(d_out[..., :, :rank], -1), np.triu(d_out[..., :rank, :])
    top, front = lower[..., :rank, :], upper[..., :, :rank]
    d_top, d_front = d_lower[..., :rank, :], d_upper[..., :, :rank]
    inner = np.tril(adjoint(top) @ d_top, -1) + np.triu(d_front @ adjoint(front))
    if rows > columns:
        below, d_below = lower[..., rank:, :], d_lower[..., rank:, :]
        inner = inner - np.triu(adjoint(below) @ d_below)
        rest, axis = _right_divided(d_below, front), -2
    else:
        behind, d_behind = upper[..., rank:], d_upper[..., rank:]
        inner = inner - np.tril(d_behind @ adjoint(behind), -1)
        rest, axis = _left_divided(top, d_behind), -1
    head = _right_divided(_left_divided(top, inner), front)
    grad = np.concatenate([head, rest], axis=axis)
    return _unpermuted(grad, pivots)


def _left_divided(lower: Array, x: Array) -> Array:
    """``L^-H x``."""
    return back_substituted(adjoint(lower), x, True, unit=True)


def _right_divided(x: Array, upper: Array) -> Array:
    """``x U^-H``, the adjoint of ``U^-1 x^H``."""
    return adjoint(back_substituted(upper, adjoint(x), True))


def _unpermuted(x: Array, pivots: Array) -> Array:
    """Rows back where they were before the exchanges."""
    rows = x.shape[-2]
    flat = x.reshape(-1, *x.shape[-2:])
    order = _permutation(pivots.reshape(len(flat), -1), rows)
    out = np.empty_like(flat)
    out[np.arange(len(flat))[:, None], order] = flat
    return out.reshape(x.shape)


@operator("lu_unpack", inputs="X Pivots", outputs="Pmat L U")
def lu_unpack(
    x: Array, pivots: Array, *, unpack_ludata: bool = True, unpack_pivots: bool = True
) -> tuple[Array | None, Array | None, Array | None]:
    """The factors out of their packed form: the permutation matrix, ``L`` and ``U``."""
    rows, batch = x.shape[-2], x.shape[:-2]
    permutation = None
    if unpack_pivots:
        order = _permutation(pivots.reshape(-1, pivots.shape[-1]), rows)
        permutation = np.zeros((len(order), rows, rows), x.dtype)
        permutation[np.arange(len(order))[:, None], order, np.arange(rows)] = 1
        permutation = permutation.reshape(*batch, rows, rows)
    lower, upper = _split(x) if unpack_ludata else (None, None)
    return permutation, lower, upper


@lu_unpack.gradient(takes="X Pivots L? U? Pmat? L@GRAD? U@GRAD?", gives="X@GRAD")
def lu_unpack_grad(
    x: Array,
    pivots: Array,
    lower: Array | None,
    upper: Array | None,
    permutation: Array | None,
    d_lower: Array | None,
    d_upper: Array | None,
) -> Array:
    """Each factor's gradient back in its triangle."""
    rank = min(x.shape[-2:])
    grad = np.zeros_like(x)
    if d_lower is not None:
        grad[..., :, :rank] += np.tril(d_lower, -1)
    if d_upper is not None:
        grad[..., :rank, :] += np.triu(d_upper)
    return grad
