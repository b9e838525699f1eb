"""Special functions that numpy lacks: error function and its inverse, the gamma family, modified Bessel functions.

Each function takes and gives a float array of at least one dimension. ``erf`` works in the dtype of its argument,
the others in float64. Formulas: reflection and recurrence of gamma, digamma and the Hurwitz zeta function, and
Stirling's and Euler-Maclaurin's series (Abramowitz and Stegun, chapters 6, 7, 9 and 23); what lies between is
interpolated by the tables of ``special_tables``. Accuracy is a few units in the last place, relative to the result
or, near the zeros of ``lgamma`` and ``digamma`` on the negative axis, to one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..values import Array
from . import special_tables as tables

__all__ = ["digamma", "erf", "erfinv", "i0", "i0e", "i1", "i1e", "lgamma", "polygamma"]

_FLOAT32 = np.dtype(np.float32)
_HALF_LOG_2PI = 0.9189385332046728
_BERNOULLI = (
    1 / 6,
    -1 / 30,
    1 / 42,
    -1 / 30,
    5 / 66,
    -691 / 2730,
    7 / 6,
    -3617 / 510,
    43867 / 798,
    -174611 / 330,
)
"""The Bernoulli numbers B2, B4, ..., B20."""


def horner(coefficients: Sequence[float], x: Array) -> Array:
    """The polynomial with these coefficients, highest power first."""
    total = x * coefficients[0]
    for coefficient in coefficients[1:-1]:
        total += coefficient
        total *= x
    total += coefficients[-1]
    return total


def _ratio(rows: Sequence[Sequence[float]], x: Array) -> Array:
    top = horner(rows[0], x)
    top /= horner(rows[1], x)
    return top


def _by_piece(x: Array, pieces: Sequence[tuple[Array, Callable[[Array], Array]]]) -> Array:
    """``f(x)`` where its mask holds, for masks that do not overlap; NaN where none does."""
    result = np.full(x.shape, np.nan)
    for where, function in pieces:
        if where.all():
            return function(x)
        if where.any():
            result[where] = function(x[where])
    return result


def erf(x: Array, out: Array) -> None:
    """The error function into ``out``, which may be ``x``."""
    if x.dtype == _FLOAT32:
        _erf_single(x, out)
    else:
        _erf_double(x, out)


def _erf_single(x: Array, out: Array) -> None:
    """As ``tanh`` of an odd polynomial: beyond 4.25 the error function is 1 in float32."""
    bounded = np.minimum(x, 4.25)
    np.maximum(bounded, -4.25, out=bounded)
    inner = horner(tables.ERF_SINGLE, bounded * bounded)
    inner *= bounded
    np.tanh(inner, out=out)


def _erf_double(x: Array, out: Array) -> None:
    size = np.abs(x)
    far = np.flatnonzero(size > 1.0)
    beyond = size.reshape(-1)[far]
    bounded = np.minimum(x, 1.0)
    np.maximum(bounded, -1.0, out=bounded)
    signs = bounded.reshape(-1)[far]
    bounded *= _ratio(tables.ERF_NEAR, bounded * bounded)
    if far.size:
        np.minimum(beyond, 6.0, out=beyond)  # from there on it is 1
        tail = _ratio(tables.ERFC_FAR, beyond)
        tail *= np.exp(-beyond * beyond)
        bounded.reshape(-1)[far] = signs * (1.0 - tail)
    np.copyto(out, bounded)


def erfinv(x: Array) -> Array:
    """The inverse of the error function; infinite from 1 on, as Paddle has it."""
    size = np.abs(x)

    def near(v: Array) -> Array:
        return v * _ratio(tables.ERFINV_NEAR, v * v)

    def tail(v: Array) -> Array:
        r = np.sqrt(-np.log1p(-np.abs(v)))
        mid, far = _ratio(tables.ERFINV_MID, r), _ratio(tables.ERFINV_FAR, r)
        value: Array = np.copysign(r * np.where(r < 2.5, mid, far), v)
        return value

    def beyond(v: Array) -> Array:
        return np.copysign(np.inf, v)

    return _by_piece(x, [(size <= 0.5, near), ((size > 0.5) & (size < 1.0), tail), (size >= 1.0, beyond)])


def _sin_pi(x: Array) -> Array:
    """``sin(pi * x)`` with the argument reduced first; exactly zero at integers."""
    part = x - 2.0 * np.round(x / 2.0)
    part = np.where(np.abs(part) > 0.5, np.copysign(1.0, part) - part, part)
    return np.sin(np.pi * part)


def lgamma(x: Array) -> Array:
    """``log |gamma(x)|``; infinite at zero and the negative integers."""
    return _by_piece(x, [(x > 0.0, _lgamma_positive), (x <= 0.0, _lgamma_reflected)])


def _lgamma_reflected(x: Array) -> Array:
    pole = x == np.floor(x)
    safe = np.where(pole, -0.5, x)
    value = math.log(math.pi) - np.log(np.abs(safe * _sin_pi(safe))) - _lgamma_positive(-safe)
    return np.where(pole, np.inf, value)


def _lgamma_positive(x: Array) -> Array:
    def near(v: Array) -> Array:
        return (v - 1.0) * (v - 2.0) * _ratio(tables.LGAMMA_NEAR, v - 2.0)

    def small(v: Array) -> Array:
        return v * (v - 1.0) * _ratio(tables.LGAMMA_NEAR, v - 1.0) - np.log(v)

    def far(v: Array) -> Array:
        inverse = 1.0 / v
        correction = horner(tables.LGAMMA_FAR, inverse * inverse) * inverse
        main = (v - 0.5) * (np.log(v) - 1.0) + (_HALF_LOG_2PI - 0.5)
        return np.where(np.isinf(v), np.inf, main + correction)

    return _by_piece(
        x,
        [
            (x < 1.0, small),
            ((x >= 1.0) & (x <= 3.0), near),
            ((x > 3.0) & (x < 8.0), lambda v: _ratio(tables.LGAMMA_MID, v)),
            (x >= 8.0, far),
        ],
    )


def digamma(x: Array) -> Array:
    """The logarithmic derivative of gamma; NaN at zero and the negative integers, as Paddle has it."""
    return _by_piece(x, [(x > 0.0, _digamma_positive), (x < 0.0, _digamma_reflected)])


def _digamma_reflected(x: Array) -> Array:
    part = x - np.round(x)
    cotangent = np.where(np.abs(part) == 0.5, 0.0, math.pi / np.tan(math.pi * part))
    return np.where(part == 0.0, np.nan, _digamma_positive(1.0 - x) - cotangent)


def _digamma_positive(x: Array) -> Array:
    def near(v: Array) -> Array:
        rest, root = tables.DIGAMMA_ROOT
        return ((v - root) - rest) * _ratio(tables.DIGAMMA_NEAR, v - 1.5)

    def mid(v: Array) -> Array:
        total = np.zeros_like(v)
        for _ in range(6):  # down to [1, 2]
            down = v > 2.0
            v = np.where(down, v - 1.0, v)
            total += np.where(down, 1.0 / v, 0.0)
        return total + near(v)

    def far(v: Array) -> Array:
        inverse = 1.0 / v
        square = inverse * inverse
        return np.log(v) - 0.5 * inverse - square * horner(tables.DIGAMMA_FAR, square)

    return _by_piece(
        x,
        [
            (x < 1.0, lambda v: near(v + 1.0) - 1.0 / v),
            ((x >= 1.0) & (x < 8.0), mid),
            (x >= 8.0, far),
        ],
    )


def polygamma(n: int, x: Array) -> Array:
    """The ``n``-th derivative of digamma, ``(-1)^(n+1) n! zeta(n + 1, x)``; infinite at the poles."""
    if n == 0:
        return digamma(x)
    return (-1.0) ** (n + 1) * float(math.factorial(n)) * _zeta(n + 1, x)


def _zeta(s: int, q: Array) -> Array:
    """The Hurwitz zeta function of integer ``s > 1``."""
    return _by_piece(q, [(q > 0.0, lambda v: _zeta_positive(s, v)), (q <= 0.0, lambda v: _zeta_reflected(s, v))])


def _zeta_reflected(s: int, q: Array) -> Array:
    """The terms below zero are those of ``zeta(s, 1 - fraction)`` up to ``1 - q``, with the sign of ``(-1)^s``."""
    fraction = q - np.floor(q)
    pole = fraction == 0.0
    safe = np.where(pole, 0.5, fraction)
    below = _zeta_positive(s, 1.0 - safe) - _zeta_positive(s, np.where(pole, 1.0, 1.0 - q))
    return np.where(pole, np.inf, _zeta_positive(s, safe) + (-1.0) ** s * below)


def _zeta_positive(s: int, q: Array) -> Array:
    """Ten terms, then Euler and Maclaurin's series."""
    a = q + 10.0
    total: Array = sum((q + float(k)) ** -s for k in range(10)) + a ** (1 - s) / (s - 1.0) + 0.5 * a**-s
    term = s * a ** (-s - 1)
    factorial = 2.0
    for index, number in enumerate(_BERNOULLI, 1):
        total = total + term * (number / factorial)
        step = s + 2 * index - 1
        term = term * (step * (step + 1)) / (a * a)
        factorial *= (2 * index + 1) * (2 * index + 2)
    return total


def _bessel(near: Sequence[float], far: Sequence[float], scaled: bool, odd: bool) -> Callable[[Array], Array]:
    """A modified Bessel function of the first kind from its two tables; ``scaled`` by ``exp(-|x|)``."""

    def function(x: Array) -> Array:
        size = np.abs(x)

        def small(v: Array) -> Array:
            value = horner(near, np.square(0.5 * v))
            if odd:
                value = value * v
            return value * np.exp(-np.abs(v)) if scaled else value

        def large(v: Array) -> Array:
            a = np.abs(v)
            value = horner(far, 1.0 / a) / np.sqrt(a)
            if not scaled:
                half = np.exp(0.5 * a)  # exp(a) overflows before the product does
                value = value * half * half
            return np.copysign(value, v) if odd else value

        return _by_piece(x, [(size <= 8.0, small), (size > 8.0, large)])

    return function


i0: Any = _bessel(tables.I0_NEAR, tables.I0_FAR, scaled=False, odd=False)
i0e: Any = _bessel(tables.I0_NEAR, tables.I0_FAR, scaled=True, odd=False)
i1: Any = _bessel(tables.I1_NEAR, tables.I1_FAR, scaled=False, odd=True)
i1e: Any = _bessel(tables.I1_NEAR, tables.I1_FAR, scaled=True, odd=True)
