"""Fit the coefficient tables of the special functions and print them as ``executor/kernels/special_tables.py``.

    python tools/fit_special.py > executor/kernels/special_tables.py

Needs ``mpmath`` (a development tool only; the package reads the printed numbers). Every table is a polynomial
or rational interpolant at Chebyshev points of a function known to fifty digits, so its error is within a small
factor of the best possible one; the float32 error function is a weighted least-squares fit instead.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import mpmath as mp
import numpy as np

mp.mp.dps = 50

Function = Callable[[mp.mpf], mp.mpf]


def chebyshev_points(low: float, high: float, count: int) -> list[mp.mpf]:
    """Interpolation points on ``[low, high]``."""
    low, high = mp.mpf(low), mp.mpf(high)
    nodes = [mp.cos(mp.pi * (2 * k + 1) / (2 * count)) for k in range(count)]
    return [(low + high) / 2 + (high - low) / 2 * node for node in nodes]


def rational(f: Function, low: float, high: float, top: int, bottom: int) -> tuple[list[mp.mpf], list[mp.mpf]]:
    """Numerator and denominator (constant term 1), lowest power first, of the interpolating rational function."""
    points = chebyshev_points(low, high, top + bottom + 1)
    rows, right = [], []
    for x in points:
        value = f(x)
        rows.append([x**k for k in range(top + 1)] + [-value * x**k for k in range(1, bottom + 1)])
        right.append(value)
    solved = mp.lu_solve(mp.matrix(rows), mp.matrix(right))
    found = [solved[k] for k in range(top + bottom + 1)]
    return found[: top + 1], [mp.mpf(1), *found[top + 1 :]]


def worst(f: Function, fit: tuple[list[mp.mpf], list[mp.mpf]], low: float, high: float) -> float:
    """The largest relative error of a fit on a grid."""
    top, bottom = fit
    errors = []
    for x in chebyshev_points(low, high, 301):
        value = mp.polyval(top[::-1], x) / mp.polyval(bottom[::-1], x)
        errors.append(abs(value / f(x) - 1))
    return float(max(errors))


def erf_single() -> list[float]:
    """``P`` with ``erf(x) = tanh(x * P(x**2))`` for float32 on ``|x| <= 4.25``, lowest power first.

    The weight turns an error of ``P`` into a relative one of ``erf``; its floor keeps the argument of ``tanh`` large
    at the end, where ``erf`` must round to 1.
    """
    end, degree, floor = 4.25, 9, 2e-7
    x = end * (np.cos(np.pi * (np.arange(800) + 0.5) / 800) + 1) / 2
    exact = [mp.erf(mp.mpf(float(v))) for v in x]
    target = np.array([float(mp.atanh(e) / mp.mpf(float(v))) for e, v in zip(exact, x, strict=True)])
    weight = np.array([float((1 - e * e) * mp.mpf(float(v)) / e) for e, v in zip(exact, x, strict=True)])
    weight = np.maximum(weight, floor)
    basis = np.polynomial.chebyshev.chebvander(2 * (x / end) ** 2 - 1, degree)
    emphasis = np.ones_like(x)
    best: tuple[float, np.ndarray] = (np.inf, np.zeros(degree + 1))
    for _ in range(100):
        scale = weight * np.sqrt(emphasis)
        coefficients = np.linalg.lstsq(basis * scale[:, None], target * scale, rcond=None)[0]
        error = np.abs((basis @ coefficients - target) * weight)
        best = min(best, (float(error.max()), coefficients), key=lambda pair: pair[0])
        emphasis *= error / error.max() + 1e-3
    inner = np.polynomial.chebyshev.cheb2poly(best[1])
    inner = np.polynomial.Polynomial(inner)(np.polynomial.Polynomial([-1.0, 2 / end**2]))
    print(f"# ERF_SINGLE: {best[0]:.1e}", file=sys.stderr)
    return [float(c) for c in inner.coef]


def _limit(f: Function, at: mp.mpf, x: mp.mpf) -> mp.mpf:
    """``f(x)``, moved off a removable singularity at ``at``."""
    return f(x if abs(x - at) > mp.mpf(10) ** -20 else at + mp.mpf(10) ** -20)


ROOT = mp.findroot(mp.digamma, 1.4616321449683622)
HALF_LOG_2PI = mp.log(2 * mp.pi) / 2


def _stirling(u: mp.mpf) -> mp.mpf:
    x = 1 / mp.sqrt(u)
    return (mp.loggamma(x) - ((x - mp.mpf(1) / 2) * mp.log(x) - x + HALF_LOG_2PI)) * x


def _digamma_tail(u: mp.mpf) -> mp.mpf:
    x = 1 / mp.sqrt(u)
    return (mp.log(x) - 1 / (2 * x) - mp.digamma(x)) * x * x


def _erfinv_tail(r: mp.mpf) -> mp.mpf:
    """``erfinv(1 - exp(-r**2)) / r``."""
    p = mp.exp(-r * r)
    guess = mp.sqrt(max(r * r - mp.log(mp.mpf("1.8") * r), mp.mpf("0.2")))
    return mp.findroot(lambda z: mp.log(mp.erfc(z)) - mp.log(p), guess) / r


FITS: dict[str, tuple[str, Function, float, float, int, int]] = {
    "ERF_NEAR": ("erf(x) / x, in x**2, |x| <= 1", lambda s: mp.erf(mp.sqrt(s)) / mp.sqrt(s), 0, 1, 5, 5),
    "ERFC_FAR": ("exp(x**2) * erfc(x), in x, 1 to 6", lambda x: mp.exp(x * x) * mp.erfc(x), 1, 6, 8, 8),
    "ERFINV_NEAR": (
        "erfinv(x) / x, in x**2, |x| <= 0.5",
        lambda s: mp.erfinv(mp.sqrt(s)) / mp.sqrt(s),
        0,
        0.25,
        5,
        5,
    ),
    "ERFINV_MID": ("erfinv(x) / r, in r = sqrt(-log(1 - x)), 0.83 to 2.5", _erfinv_tail, 0.83, 2.5, 8, 8),
    "ERFINV_FAR": ("erfinv(x) / r, in r = sqrt(-log(1 - x)), 2.5 to 6.2", _erfinv_tail, 2.5, 6.2, 8, 8),
    "LGAMMA_NEAR": (
        "lgamma(2 + t) / (t * (t + 1)), in t, -1 to 1",
        lambda t: _limit(lambda y: mp.loggamma(2 + y) / (y * (y + 1)), mp.mpf(0), t),
        -1,
        1,
        8,
        8,
    ),
    "LGAMMA_MID": ("lgamma(x), in x, 3 to 8", mp.loggamma, 3, 8, 8, 8),
    "LGAMMA_FAR": ("x * (lgamma(x) - Stirling), in x**-2, x >= 8", _stirling, 0, 1 / 64, 6, 0),
    "DIGAMMA_NEAR": (
        "digamma(1.5 + t) / (1.5 + t - root), in t, -0.5 to 0.5",
        lambda t: _limit(lambda y: mp.digamma(1.5 + y) / (1.5 + y - ROOT), ROOT - 1.5, t),
        -0.5,
        0.5,
        6,
        6,
    ),
    "DIGAMMA_FAR": (
        "x**2 * (log(x) - 1 / (2 * x) - digamma(x)), in x**-2, x >= 8",
        _digamma_tail,
        0,
        1 / 64,
        7,
        0,
    ),
    "I0_NEAR": ("i0(x), in (x / 2)**2, |x| <= 8", lambda s: mp.besseli(0, 2 * mp.sqrt(s)), 0, 16, 16, 0),
    "I0_FAR": (
        "i0e(x) * sqrt(x), in 1 / x, x >= 8",
        lambda t: mp.exp(-1 / t) * mp.besseli(0, 1 / t) / mp.sqrt(t),
        1e-6,
        1 / 8,
        23,
        0,
    ),
    "I1_NEAR": (
        "i1(x) / x, in (x / 2)**2, |x| <= 8",
        lambda s: mp.besseli(1, 2 * mp.sqrt(s)) / (2 * mp.sqrt(s)),
        0,
        16,
        16,
        0,
    ),
    "I1_FAR": (
        "i1e(x) * sqrt(x), in 1 / x, x >= 8",
        lambda t: mp.exp(-1 / t) * mp.besseli(1, 1 / t) / mp.sqrt(t),
        1e-6,
        1 / 8,
        23,
        0,
    ),
}


def show(name: str, comment: str, *rows: list[float]) -> None:
    """Print one table, highest power first."""
    tuples = ["(" + "".join(f"\n        {value!r}," for value in row[::-1]) + "\n    )" for row in rows]
    body = tuples[0].replace("\n    ", "\n") if len(tuples) == 1 else "(\n    " + ",\n    ".join(tuples) + ",\n)"
    print(f'\n{name} = {body}\n"""{comment}."""')


def main() -> None:
    """Print the module."""
    print('"""Coefficients of the special functions, highest power first, printed by ``tools/fit_special.py``.\n')
    print("A pair of rows is a numerator and a denominator. The comment under a table says what it approximates")
    print('and in which variable.\n"""\n\nfrom __future__ import annotations')
    show("ERF_SINGLE", "atanh(erf(x)) / x, in x**2, |x| <= 4.25, for float32", erf_single())
    for name, (comment, f, low, high, top, bottom) in FITS.items():
        fit = rational(f, low, high, top, bottom)
        print(f"# {name}: {worst(f, fit, low, high):.1e}", file=sys.stderr)
        rows = [[float(c) for c in row] for row in fit]
        show(name, comment, *(rows if bottom else rows[:1]))
    high = float(ROOT)
    show(
        "DIGAMMA_ROOT",
        "The positive root of digamma and what its double leaves over",
        [float(ROOT - mp.mpf(high)), high],
    )


if __name__ == "__main__":
    main()
