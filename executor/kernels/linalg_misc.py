"""Least squares, rank and renormalisation: matrix functions without a decomposition for a result."""

from __future__ import annotations

import numpy as np

from ...ir.registry import operator
from ..values import Array
from .common import normalize_axis
from .linalg import checked

__all__ = ["lstsq", "matrix_rank", "renorm"]

_DRIVERS = ("gels", "gelsy", "gelss", "gelsd")


def _least_squares(x: Array, y: Array, cutoff: Array | float) -> tuple[Array, Array, Array]:
    """The solution of least norm over singular values above ``cutoff`` times the largest; all of them; the rank."""
    u, s, vh = checked(np.linalg.svd, "the singular values of X do not converge", x, full_matrices=False)
    largest = s[..., :1] if s.shape[-1] else np.zeros((*s.shape[:-1], 1), s.dtype)
    used = s > cutoff * largest
    inverse = np.divide(1, s, out=np.zeros_like(s), where=used & (s > 0))
    solution = vh.swapaxes(-1, -2) @ (inverse[..., :, None] * (u.swapaxes(-1, -2) @ y))
    return solution, s, used.sum(axis=-1).astype(np.int32)


@operator("lstsq", inputs="X Y", outputs="Solution Residuals Rank SingularValues", gradient=None)
def lstsq(x: Array, y: Array, *, rcond: float = 0.0, driver: str = "gels") -> tuple[Array, Array, Array, Array]:
    """The least squares solution of ``x @ out = y``, ``[..., m, n]`` and ``[..., m, k]``.

    ``Residuals`` are the sums of squares where ``m > n``, else empty. Driver gels takes ``x`` to have full
    rank and tells no rank; gelss and gelsd tell the singular values. All are computed through the SVD, so
    gelsy may choose another rank than LAPACK's pivoted QR where ``rcond`` is large.
    """
    if driver not in _DRIVERS:
        raise ValueError(f"attribute driver is '{driver}', expected one of {', '.join(_DRIVERS)}")
    if x.ndim < 2 or y.ndim < 2 or x.shape[:-1] != y.shape[:-1]:
        raise ValueError(f"X [..., m, n] and Y [..., m, k] do not fit: {list(x.shape)} and {list(y.shape)}")
    full = driver == "gels"
    solution, values, rank = _least_squares(x, y, 0.0 if full else rcond)
    empty = np.empty(0, x.dtype)
    tall = x.shape[-2] > x.shape[-1]
    residuals = np.square(x @ solution - y).sum(axis=-2) if tall else empty
    shown = values if driver in ("gelss", "gelsd") else empty
    return solution, residuals, np.empty(0, np.int32) if full else rank, shown


@operator("matrix_rank", inputs="X TolTensor?", outputs="Out", gradient=None)
def matrix_rank(
    x: Array,
    tolerance: Array | None = None,
    *,
    tol: float = 0.0,
    hermitian: bool = False,
    use_default_tol: bool = True,
) -> Array:
    """The number of singular values above a tolerance, int32, shape ``[...]``.

    The tolerance is ``TolTensor`` (broadcast against ``[...]``), else ``tol``, else by default
    ``epsilon * max(m, n)`` times the largest singular value.
    """
    if x.ndim < 2:
        raise ValueError(f"X must be matrices, got shape {list(x.shape)}")
    if hermitian:
        values = np.abs(checked(np.linalg.eigvalsh, "the eigenvalues of X do not converge", x))
    else:
        values = checked(np.linalg.svd, "the singular values of X do not converge", x, compute_uv=False)
    if tolerance is not None:
        limit = np.asarray(tolerance)
    elif use_default_tol:
        largest = values.max(axis=-1) if values.shape[-1] else np.zeros(values.shape[:-1])
        limit = largest * (np.finfo(values.dtype).eps * max(x.shape[-2:]))
    else:
        limit = np.asarray(tol)
    return np.asarray((values > limit[..., None]).sum(axis=-1), np.int32)


def _slice_norms(x: Array, p: float, axis: int) -> Array:
    """The p-norm of each slice of ``x`` at an index along ``axis``, ready to broadcast."""
    others = tuple(each for each in range(x.ndim) if each != axis)
    powers = np.power(np.abs(x), x.dtype.type(p)).sum(axis=others, keepdims=True)
    result: Array = np.power(powers, x.dtype.type(1 / p if p else np.inf))
    return result


@operator("renorm", inputs="X", outputs="Out", ignores="use_cudnn use_mkldnn")
def renorm(x: Array, *, p: float, axis: int, max_norm: float) -> Array:
    """Slices along ``axis`` whose p-norm is above ``max_norm`` scaled down to it."""
    norms = _slice_norms(x, p, normalize_axis(axis, x.ndim))
    scale = np.divide(x.dtype.type(max_norm), norms, out=np.ones_like(norms), where=norms > max_norm)
    result: Array = x * scale
    return result


@renorm.gradient(takes="X Out@GRAD", gives="X@GRAD")
def renorm_grad(x: Array, d_out: Array, *, p: float, axis: int, max_norm: float) -> Array:
    """Through the scale as well, for the slices that were scaled."""
    along = normalize_axis(axis, x.ndim)
    norms = _slice_norms(x, p, along)
    scaled = norms > max_norm
    safe = np.where(scaled, norms, x.dtype.type(1))
    scale = x.dtype.type(max_norm) / safe
    others = tuple(each for each in range(x.ndim) if each != along)
    total = (x * d_out).sum(axis=others, keepdims=True)
    steep = np.sign(x) * np.power(np.abs(x), x.dtype.type(p - 1)) * np.power(safe, x.dtype.type(-p))
    return np.where(scaled, scale * (d_out - total * steep), d_out)
