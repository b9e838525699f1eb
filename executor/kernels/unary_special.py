"""Operators of the special functions: error function and its inverse, gamma family, modified Bessel functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..values import Array
from . import special
from .pointwise import pointwise

__all__: list[str] = []

_TWO_BY_ROOT_PI = 2.0 / math.sqrt(math.pi)


def _in_double(function: Callable[[Array], Array], name: str) -> Callable[..., None]:
    """A formula from a function of float64 arrays."""

    def formula(x: Array, out: Array) -> None:
        np.copyto(out, function(x.astype(np.float64, copy=False)), casting="same_kind")

    formula.__doc__ = f"{name} of ``x``, computed in float64."
    return formula


def _double(function: Callable[[Array], Array], x: Array) -> Array:
    return function(x.astype(np.float64, copy=False)).astype(x.dtype, copy=False)


def _erf_slope(x: Array) -> Array:
    """``2 / sqrt(pi) * exp(-x**2)``."""
    value: Array = _TWO_BY_ROOT_PI * np.exp(-x * x)
    return value


def _erfinv_slope(y: Array) -> Array:
    """``sqrt(pi) / 2 * exp(y**2)`` with ``y`` the result."""
    value: Array = np.exp(y * y) / _TWO_BY_ROOT_PI
    return value


pointwise("erf", special.erf, _erf_slope)
pointwise("erfinv", _in_double(special.erfinv, "Inverse error function"), _erfinv_slope, keeps="Out")
pointwise("lgamma", _in_double(special.lgamma, "``log |gamma|``"), lambda x: _double(special.digamma, x))
pointwise(
    "digamma",
    _in_double(special.digamma, "Digamma function"),
    lambda x: _double(lambda v: special.polygamma(1, v), x),
)


def _polygamma(x: Array, out: Array, *, n: int) -> None:
    """The ``n``-th derivative of digamma."""
    if n < 0:
        raise ValueError(f"attribute n: polygamma takes an order of at least 0, got {n}")
    np.copyto(out, special.polygamma(n, x.astype(np.float64, copy=False)), casting="same_kind")


def _polygamma_slope(x: Array, *, n: int) -> Array:
    """The next order."""
    return _double(lambda v: special.polygamma(n + 1, v), x)


_LOWER: dict[str, Any] = {"slots": ("x", "out")}

pointwise("polygamma", _polygamma, _polygamma_slope, keeps="x", **_LOWER)


def _i0e_slope(out: Array, x: Array) -> Array:
    """``i1e(x) - sign(x) * i0e(x)``."""
    value: Array = _double(special.i1e, x) - np.sign(x) * out
    return value


def _i1_slope(out: Array, x: Array) -> Array:
    """``i0(x) - i1(x) / x``, one half at 0."""
    return np.where(x == 0, 0.5, _double(special.i0, x) - out / x).astype(x.dtype, copy=False)


def _i1e_slope(out: Array, x: Array) -> Array:
    """``i0e(x) - i1e(x) * (sign(x) + 1 / x)``, one half at 0."""
    slope = _double(special.i0e, x) - out * (np.sign(x) + 1.0 / x)
    return np.where(x == 0, 0.5, slope).astype(x.dtype, copy=False)


pointwise(
    "i0",
    _in_double(special.i0, "Modified Bessel function"),
    lambda x: _double(special.i1, x),
    keeps="x",
    **_LOWER,
)
pointwise("i0e", _in_double(special.i0e, "Scaled modified Bessel function"), _i0e_slope, keeps="out x", **_LOWER)
pointwise("i1", _in_double(special.i1, "Modified Bessel function"), _i1_slope, keeps="out x", **_LOWER)
pointwise("i1e", _in_double(special.i1e, "Scaled modified Bessel function"), _i1e_slope, keeps="out x", **_LOWER)
