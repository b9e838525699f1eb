"""Activation functions that are linear or quadratic by pieces; each table row is one operator.

Formulas are written for few passes over memory and without ``where``, which costs more than ten of them: a mask is
multiplied in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..values import Array
from .pointwise import bounded, chosen, pointwise

__all__: list[str] = []


def _relu(x: Array, out: Array) -> None:
    """``max(x, 0)``; NaN becomes 0, as Paddle has it."""
    np.fmax(x, 0, out=out)


def _relu6(x: Array, out: Array, *, threshold: float = 6.0) -> None:
    """``min(max(x, 0), threshold)``."""
    bounded(x, 0, threshold, out)


def _relu6_slope(out: Array, *, threshold: float = 6.0) -> Array:
    """1 strictly between the bounds."""
    return (out > 0) & (out < threshold)


def _brelu(x: Array, out: Array, *, t_min: float = 0.0, t_max: float = 24.0) -> None:
    """``x`` clipped to ``[t_min, t_max]``."""
    bounded(x, t_min, t_max, out)


def _brelu_slope(x: Array, *, t_min: float = 0.0, t_max: float = 24.0) -> Array:
    """1 strictly between the bounds."""
    return (x > t_min) & (x < t_max)


def _leaky_relu(x: Array, out: Array, *, alpha: float = 0.019999999552965164) -> None:
    """``x`` where positive, else ``alpha * x``."""
    scaled = x * alpha
    (np.fmax if alpha <= 1.0 else np.fmin)(x, scaled, out=out)


def _leaky_relu_old(x: Array, out: Array, *, alpha: float = 0.019999999552965164) -> None:
    """``max(x, alpha * x)``: what programs from before version 1 of the operator mean."""
    np.fmax(x, x * alpha, out=out)


def _leaky_relu_slope(x: Array, *, alpha: float = 0.019999999552965164) -> Array:
    """1 where not negative, else ``alpha``."""
    return chosen(x >= 0, alpha, x)


def _thresholded_relu(x: Array, out: Array, *, threshold: float = 1.0) -> None:
    """``x`` where above the threshold, else 0."""
    np.multiply(x, x > threshold, out=out)


def _thresholded_relu_slope(x: Array, *, threshold: float = 1.0) -> Array:
    """1 above the threshold."""
    return x > threshold


def _hard_shrink(x: Array, out: Array, *, threshold: float = 0.5) -> None:
    """``x`` where outside ``[-threshold, threshold]``, else 0."""
    np.multiply(x, _hard_shrink_slope(x, threshold=threshold), out=out)


def _hard_shrink_slope(x: Array, *, threshold: float = 0.5) -> Array:
    """1 outside ``[-threshold, threshold]``."""
    return (x > threshold) | (x < -threshold)


def _hard_shrink_old(x: Array, out: Array, *, threshold: float = 0.5) -> None:
    """Before version 1 the two sides add up, so that a negative threshold doubles what lies within."""
    np.multiply(x, np.add(x > threshold, x < -threshold, dtype=x.dtype), out=out)


def _softshrink(x: Array, out: Array, *, lambda_: float = 0.5) -> None:
    """``x`` moved towards 0 by ``lambda``, 0 within."""
    above, below = np.maximum(x - lambda_, 0), np.minimum(x + lambda_, 0)
    if lambda_ < 0:  # the sides overlap and add up
        above, below = (x - lambda_) * (x > lambda_), (x + lambda_) * (x < -lambda_)
    np.add(above, below, out=out)


def _softshrink_slope(x: Array, *, lambda_: float = 0.5) -> Array:
    """How many of the two sides hold."""
    return np.add(x > lambda_, x < -lambda_, dtype=x.dtype)


def _hard_sigmoid(x: Array, out: Array, *, slope: float = 0.20000000298023224, offset: float = 0.5) -> None:
    """``slope * x + offset`` clipped to ``[0, 1]``."""
    np.multiply(x, slope, out=out)
    np.add(out, offset, out=out)
    bounded(out, 0, 1, out)


def _hard_sigmoid_slope(out: Array, *, slope: float = 0.20000000298023224, offset: float = 0.5) -> Array:
    """``slope`` strictly between the bounds."""
    return np.multiply((out > 0) & (out < 1), slope, dtype=out.dtype)


def _hard_swish(x: Array, out: Array, *, threshold: float = 6.0, scale: float = 6.0, offset: float = 3.0) -> None:
    """``x * min(max(x + offset, 0), threshold) / scale``; complex numbers are compared by their real part."""
    gate = x + offset
    if x.dtype.kind == "c":
        gate = np.where(gate.real < 0, 0, np.where(gate.real > threshold, threshold, gate))
    else:
        bounded(gate, 0, threshold, gate)
    np.multiply(x, gate, out=gate)
    np.divide(gate, scale, out=out)


def _hard_swish_slope(x: Array, *, threshold: float = 6.0, scale: float = 6.0, offset: float = 3.0) -> Array:
    """``(2 x + offset) / scale`` inside, ``threshold / scale`` above, 0 below."""
    real = x.real
    inside = (real > -offset) & (real < threshold - offset)
    slope = (2 * x + offset) / scale
    slope *= inside
    slope += np.multiply(real >= threshold - offset, threshold / scale, dtype=real.dtype)
    return slope


def _positive(out: Array) -> Array:
    """1 where the result is positive."""
    return out > 0


_TABLE: Sequence[tuple[str, Any, Any, Mapping[str, Any]]] = (
    ("relu", _relu, _positive, {"keeps": "Out", "double": "relu_grad_grad", "silent": True, "light": True}),
    ("relu6", _relu6, _relu6_slope, {"keeps": "Out", "silent": True, "light": True}),
    ("brelu", _brelu, _brelu_slope, {"silent": True, "light": True}),
    ("leaky_relu", _leaky_relu_old, _leaky_relu_slope, {"double": "leaky_relu_grad_grad"}),
    ("leaky_relu", _leaky_relu, _leaky_relu_slope, {"double": "leaky_relu_grad_grad", "since": 1}),
    ("thresholded_relu", _thresholded_relu, _thresholded_relu_slope, {}),
    ("hard_shrink", _hard_shrink_old, _hard_shrink_slope, {}),
    ("hard_shrink", _hard_shrink, _hard_shrink_slope, {"since": 1}),
    ("softshrink", _softshrink, _softshrink_slope, {}),
    ("hard_sigmoid", _hard_sigmoid, _hard_sigmoid_slope, {"keeps": "Out"}),
    ("hard_swish", _hard_swish, _hard_swish_slope, {"kinds": "fc"}),
)

for _type, _formula, _derivative, _options in _TABLE:
    pointwise(_type, _formula, _derivative, **_options)
