"""Smooth activation functions; each table row is one operator. ``activate`` applies any activation by name.

Formulas are written for few passes over memory and without ``where``, which costs more than ten of them: the
negative part of a tensor is ``minimum(x, 0)``, a mask is multiplied in.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...ir.registry import lookup, operator
from ..values import Array
from .pointwise import bounded, chosen, forward_kernel, gradient_kernel, pointwise
from .special import erf

__all__ = ["activate"]

_ROOT_HALF = math.sqrt(0.5)
_ROOT_TWO_BY_PI = math.sqrt(2.0 / math.pi)
_CUBIC = 0.044715
_SELU_SCALE, _SELU_ALPHA = 1.0507010221481323, 1.6732631921768188
_STANH_A, _STANH_B = 0.6700000166893005, 1.71589994430542
"""Defaults as the registry has them, rounded to float32."""
_SMOOTH = 15.0
"""From here on ``log(1 + exp(x))`` is ``x`` to within 3e-7."""


def _sigmoid(x: Array, out: Array) -> None:
    """``1 / (1 + exp(-x))``."""
    np.negative(x, out=out)
    np.exp(out, out=out)
    np.add(out, 1, out=out)
    np.divide(1, out, out=out)


def _sigmoid_of(x: Array) -> Array:
    result = np.empty_like(x)
    _sigmoid(x, result)
    return result


def _silu(x: Array, out: Array) -> None:
    """``x * sigmoid(x)``."""
    _swish(x, out)


def _silu_slope(out: Array, x: Array) -> Array:
    """``s * (1 + x - out)`` with the sigmoid ``s``."""
    value: Array = _sigmoid_of(x) * (1 + x - out)
    return value


def _silu_bend(out: Array, x: Array) -> Array:
    return _swish_bend(x)


def _swish(x: Array, out: Array, *, beta: float = 1.0) -> None:
    """``x * sigmoid(beta * x)``."""
    denominator = x * -beta
    np.exp(denominator, out=denominator)
    denominator += 1
    np.divide(x, denominator, out=out)


def _swish_slope(x: Array, *, beta: float = 1.0) -> Array:
    """``s + beta * x * s * (1 - s)`` with ``s = sigmoid(beta * x)``."""
    s = _sigmoid_of(beta * x)
    value: Array = s + beta * x * s * (1 - s)
    return value


def _swish_bend(x: Array, *, beta: float = 1.0) -> Array:
    s = _sigmoid_of(beta * x)
    value: Array = beta * s * (1 - s) * (2 + beta * x * (1 - 2 * s))
    return value


def _elu(x: Array, out: Array, *, alpha: float = 1.0) -> None:
    """``x`` where positive, else ``alpha * (exp(x) - 1)``."""
    negative = np.minimum(x, 0)
    np.expm1(negative, out=negative)
    negative *= alpha
    np.maximum(x, 0, out=out)
    np.add(out, negative, out=out)


def _elu_slope(out: Array, x: Array, *, alpha: float = 1.0) -> Array:
    """1 where positive, else ``alpha * exp(x)``."""
    return chosen(x > 0, alpha * np.exp(np.minimum(x, 0)), x)


def _elu_bend(out: Array, x: Array, *, alpha: float = 1.0) -> Array:
    return np.multiply(x <= 0, alpha * np.exp(np.minimum(x, 0)), dtype=x.dtype)


def _celu(x: Array, out: Array, *, alpha: float = 1.0) -> None:
    """``max(x, 0) + min(alpha * (exp(x / alpha) - 1), 0)``."""
    negative = np.minimum(x, 0)
    negative /= alpha
    np.expm1(negative, out=negative)
    negative *= alpha
    np.fmin(negative, 0, out=negative)  # of alpha 0 the quotient is NaN at 0
    np.maximum(x, 0, out=out)
    np.add(out, negative, out=out)


def _celu_slope(x: Array, *, alpha: float = 1.0) -> Array:
    """1 where positive, else ``exp(x / alpha)``."""
    return chosen(x > 0, np.exp(np.minimum(x, 0) / alpha), x)


def _celu_bend(x: Array, *, alpha: float = 1.0) -> Array:
    return np.multiply(x <= 0, np.exp(np.minimum(x, 0) / alpha) / alpha, dtype=x.dtype)


def _selu(x: Array, out: Array, *, scale: float = _SELU_SCALE, alpha: float = _SELU_ALPHA) -> None:
    """``scale * (x where positive, else alpha * (exp(x) - 1))``."""
    _elu(x, out, alpha=alpha)
    np.multiply(out, scale, out=out)


def _selu_slope(out: Array, *, scale: float = _SELU_SCALE, alpha: float = _SELU_ALPHA) -> Array:
    """``scale`` where positive, else ``out + scale * alpha``."""
    above = out > 0
    slope = np.multiply(~above, np.minimum(out, 0) + scale * alpha, dtype=out.dtype)
    slope += np.multiply(above, scale, dtype=out.dtype)
    return slope


def _softplus_of(x: Array) -> Array:
    """``log(1 + exp(x))`` without overflow."""
    result = np.abs(x)
    np.negative(result, out=result)
    np.exp(result, out=result)
    np.log1p(result, out=result)
    result += np.maximum(x, 0)
    return result


def _softplus(x: Array, out: Array, *, beta: float = 1.0, threshold: float = 20.0) -> None:
    """``log(1 + exp(beta * x)) / beta``, ``x`` itself where ``beta * x`` is above the threshold."""
    scaled = x if beta == 1 else x * beta
    if x.dtype.kind == "c":
        curved = np.log(1 + np.exp(scaled)) / beta
        np.copyto(out, np.where(scaled.real > threshold, x, curved))
        return
    curve = np.minimum(scaled, threshold)
    np.exp(curve, out=curve)
    np.log1p(curve, out=curve)
    if threshold < _SMOOTH:
        curve = np.where(scaled > threshold, scaled, curve)
    else:  # the curve has come down to the line there and lies above it before
        np.maximum(curve, scaled, out=out if beta == 1 else curve)
    if beta != 1 or threshold < _SMOOTH:
        np.divide(curve, beta, out=out)


def _softplus_slope(x: Array, *, beta: float = 1.0, threshold: float = 20.0) -> Array:
    """``sigmoid(beta * x)``, 1 above the threshold."""
    scaled = x * beta
    return chosen(scaled.real > threshold, _sigmoid_of(scaled), x)


def _softplus_bend(x: Array, *, beta: float = 1.0, threshold: float = 20.0) -> Array:
    scaled = x * beta
    s = _sigmoid_of(scaled)
    value: Array = beta * s * (1 - s) * (scaled.real <= threshold)
    return value


def _soft_relu(x: Array, out: Array, *, threshold: float = 40.0) -> None:
    """``log(1 + exp(x))`` with ``x`` clipped to ``[-threshold, threshold]``."""
    np.copyto(out, _softplus_of(bounded(x, -threshold, threshold)))


def _soft_relu_slope(out: Array, *, threshold: float = 40.0) -> Array:
    """``1 - exp(-out)`` where ``out`` (not ``x``: so Paddle has it) is inside the bounds."""
    return -np.expm1(-out) * ((out > -threshold) & (out < threshold))


def _logsigmoid(x: Array, out: Array) -> None:
    """``log(sigmoid(x))``."""
    if x.dtype.kind == "c":
        top = np.where(x.real < 0, -x, 0)
        np.copyto(out, -top - np.log(np.exp(-top) + np.exp(-x - top)))
        return
    curve = np.abs(x)
    np.negative(curve, out=curve)
    np.exp(curve, out=curve)
    np.log1p(curve, out=curve)
    np.minimum(x, 0, out=out)
    np.subtract(out, curve, out=out)


def _logsigmoid_slope(x: Array) -> Array:
    """``sigmoid(-x)``."""
    return _sigmoid_of(-x)


def _softsign(x: Array, out: Array) -> None:
    """``x / (1 + |x|)``."""
    size = np.abs(x)
    size += 1
    np.divide(x, size, out=out)


def _softsign_slope(x: Array) -> Array:
    """``1 / (1 + |x|)**2``."""
    value: Array = 1 / np.square(1 + np.abs(x))
    return value


def _stanh(x: Array, out: Array, *, scale_a: float = _STANH_A, scale_b: float = _STANH_B) -> None:
    """``scale_b * tanh(scale_a * x)``."""
    np.multiply(x, scale_a, out=out)
    np.tanh(out, out=out)
    np.multiply(out, scale_b, out=out)


def _stanh_slope(x: Array, *, scale_a: float = _STANH_A, scale_b: float = _STANH_B) -> Array:
    """``scale_a * scale_b * (1 - tanh(scale_a * x)**2)``."""
    return scale_a * scale_b * (1 - np.square(np.tanh(scale_a * x)))


def _tanh_shrink(x: Array, out: Array) -> None:
    """``x - tanh(x)``."""
    np.subtract(x, np.tanh(x), out=out)


def _mish(x: Array, out: Array, *, threshold: float = 20.0) -> None:
    """``x * tanh(softplus(x))``, with ``x`` for the softplus above the threshold.

    ``tanh(log(1 + e)) = n / (n + 2)`` with ``n = e * (e + 2)`` spares two transcendental functions.
    """
    if threshold < 20.0:
        np.multiply(x, np.tanh(np.where(x > threshold, x, _softplus_of(x))), out=out)
        return
    e = np.minimum(x, 20)
    np.exp(e, out=e)
    n = e + 2
    n *= e
    np.add(n, 2, out=e)
    n /= e
    np.multiply(x, n, out=out)


def _mish_slope(x: Array, *, threshold: float = 20.0) -> Array:
    """``tanh(s) + x * (1 - tanh(s)**2) * (1 - exp(-s))`` with the softplus ``s``."""
    s = _softplus_of(x)
    if threshold < 20.0:
        s = np.where(x > threshold, x, s)
    t = np.tanh(s)
    value: Array = t - x * (1 - t * t) * np.expm1(-s)
    return value


def _gelu(x: Array, out: Array, *, approximate: bool = False) -> None:
    """``x * (1 + erf(x / sqrt(2))) / 2``; approximate: by ``tanh(sqrt(2 / pi) * (x + 0.044715 * x**3))``."""
    if approximate:
        inner = x * x
        inner *= _CUBIC * _ROOT_TWO_BY_PI
        inner += _ROOT_TWO_BY_PI
        inner *= x
        np.tanh(inner, out=inner)
    else:
        inner = x * _ROOT_HALF
        erf(inner, inner)
    inner += 1
    inner *= x
    np.multiply(inner, 0.5, out=out)


def _gelu_inner(x: Array) -> tuple[Array, Array]:
    """The ``tanh`` of the approximation and the derivative of its argument."""
    square = x * x
    argument = _ROOT_TWO_BY_PI * x * (1 + _CUBIC * square)
    return np.tanh(argument), _ROOT_TWO_BY_PI * (1 + 3 * _CUBIC * square)


def _gelu_slope(x: Array, *, approximate: bool = False) -> Array:
    """The normal distribution function plus ``x`` times its density, or the derivative of the approximation."""
    if approximate:
        t, d_argument = _gelu_inner(x)
        value: Array = 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * d_argument
        return value
    below = x * _ROOT_HALF
    erf(below, below)
    density = np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)
    return 0.5 * (1 + below) + x * density


def _gelu_bend(x: Array, *, approximate: bool = False) -> Array:
    if approximate:
        t, d_argument = _gelu_inner(x)
        dd_argument = 6 * _CUBIC * _ROOT_TWO_BY_PI * x
        curved: Array = (1 - t * t) * (d_argument + 0.5 * x * dd_argument - x * t * d_argument * d_argument)
        return curved
    value: Array = np.exp(-0.5 * x * x) / math.sqrt(2 * math.pi) * (2 - x * x)
    return value


_TABLE: Sequence[tuple[str, Any, Any, Any, Mapping[str, Any]]] = (
    (
        "sigmoid",
        _sigmoid,
        lambda y: y * (1 - y),
        lambda y: 1 - 2 * y,
        {"kinds": "fc", "keeps": "Out", "double": "sigmoid_grad_grad"},
    ),
    ("silu", _silu, _silu_slope, _silu_bend, {"kinds": "fc", "keeps": "Out X", "double": "silu_grad_grad"}),
    ("swish", _swish, _swish_slope, _swish_bend, {"double": "swish_grad_grad"}),
    ("elu", _elu, _elu_slope, _elu_bend, {"keeps": "Out X", "double": "elu_grad_grad"}),
    ("celu", _celu, _celu_slope, _celu_bend, {"double": "celu_grad_grad"}),
    ("selu", _selu, _selu_slope, None, {"keeps": "Out"}),
    (
        "softplus",
        _softplus,
        _softplus_slope,
        _softplus_bend,
        {"kinds": "fc", "double": "softplus_double_grad"},
    ),
    ("soft_relu", _soft_relu, _soft_relu_slope, None, {"keeps": "Out"}),
    ("logsigmoid", _logsigmoid, _logsigmoid_slope, None, {"kinds": "fc"}),
    ("stanh", _stanh, _stanh_slope, None, {"kinds": "fc"}),
    (
        "tanh",
        np.tanh,
        lambda y: 1 - y * y,
        lambda y: -2 * y,
        {"kinds": "fc", "keeps": "Out", "double": "tanh_grad_grad"},
    ),
    ("tanh_shrink", _tanh_shrink, lambda x: np.square(np.tanh(x)), None, {"kinds": "fc"}),
    ("mish", _mish, _mish_slope, None, {}),
    ("gelu", _gelu, _gelu_slope, _gelu_bend, {"double": "gelu_grad_grad"}),
)

for _type, _formula, _derivative, _second, _options in _TABLE:
    pointwise(_type, _formula, _derivative, _second, **_options)


_softsign_kernel = forward_kernel("softsign", "X", _softsign, "fc")


@operator("softsign", inputs="X", outputs="Out", inplace="X->Out")
def softsign(x: Array, *, out: Array | None = None) -> Array:
    """``x / (1 + |x|)``."""
    return _softsign_kernel(x, out=out)  # type: ignore[no-any-return]


_softsign_real_grad = gradient_kernel(_softsign_slope, 1)


@softsign.gradient(takes="X Out@GRAD", gives="X@GRAD")
def softsign_grad(x: Array, d_out: Array) -> Array:
    """``d_out / (1 + |x|)**2``; of complex numbers the gradient of the real and the imaginary part."""
    if x.dtype.kind != "c":
        return _softsign_real_grad(x, d_out)  # type: ignore[no-any-return]
    size = np.abs(x)
    along = x * (np.conj(d_out) * x).real / np.where(size == 0, 1, size * np.square(1 + size))
    return np.asarray(d_out / (1 + size) - along).astype(x.dtype, copy=False)


_NAMES = frozenset(row[0] for row in _TABLE) | {
    *(
        "relu",
        "relu6",
        "brelu",
        "leaky_relu",
        "thresholded_relu",
        "hard_shrink",
        "hard_sigmoid",
        "hard_swish",
    ),
    *("softshrink", "softsign", "abs", "clip", "exp", "sqrt", "square"),
}


def activate(name: str, x: Array, out: Array | None = None, **attrs: Any) -> Array:
    """The activation of that operator type applied to ``x``, into ``out`` (which may be ``x``) where given.

    ``""`` and ``"identity"`` give ``x`` itself. Attributes are those of the operator; what is left out has its
    registered default.

    Raises:
        ValueError: no activation has that name.
    """
    if name in ("", "identity"):
        if out is None or out is x:
            return x
        np.copyto(out, x)
        return out
    if name not in _NAMES:
        raise ValueError(f"activation '{name}' is unknown, expected one of {', '.join(sorted(_NAMES))}")
    kernel = lookup(name).kernel
    if name == "clip":
        return kernel(x, None, None, out=out, **attrs)  # type: ignore[no-any-return]
    return kernel(x, out=out, **attrs)  # type: ignore[no-any-return]
