"""Mathematical functions of one tensor: roots, exponentials, logarithms, circular and hyperbolic functions, rounding.

One table row is one operator: its formula, its derivative and, for the common ones, its second derivative.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...ir.registry import operator
from ..values import Array
from .pointwise import bounded, forward_kernel, pointwise

__all__ = ["absolute", "power", "round_half_away"]

_TWO_BY_ROOT_PI = 2.0 / math.sqrt(math.pi)
_LN2 = math.log(2.0)
_LN10 = math.log(10.0)


def round_half_away(x: Array, out: Array) -> None:
    """To the nearest integer, halves away from zero, as C rounds (numpy takes them to even)."""
    if x.dtype.kind in "iu":
        np.copyto(out, x)
    elif x.dtype.kind == "c":
        round_half_away(x.real, out.real)
        round_half_away(x.imag, out.imag)
    else:
        # the largest number below one half (one half itself would carry what lies just below it), signed as x
        bits = np.uint32 if x.dtype == np.float32 else np.uint64
        half = np.nextafter(x.dtype.type(0.5), x.dtype.type(0)).view(bits)
        signed = (x.view(bits) & x.dtype.type(-0.0).view(bits)) | half
        moved = signed.view(x.dtype)
        moved += x
        np.trunc(moved, out=out)


def _whole(ufunc: np.ufunc) -> Any:
    """A rounding ufunc, which leaves integers as they are."""

    def formula(x: Array, out: Array) -> None:
        if x.dtype.kind in "iu":
            np.copyto(out, x)
        else:
            ufunc(x, out=out)

    formula.__doc__ = f"``{ufunc.__name__}`` of ``x``."
    return formula


def _rsqrt(x: Array, out: Array) -> None:
    """``1 / sqrt(x)``."""
    np.sqrt(x, out=out)
    np.divide(1.0, out, out=out)


def _reciprocal(x: Array, out: Array) -> None:
    """``1 / x``."""
    np.divide(1.0, x, out=out)


def _acosh_slope(x: Array) -> Array:
    """``1 / sqrt(x**2 - 1)``; of complex numbers on the branch of ``acosh``."""
    root: Array = np.sqrt(x - 1.0) * np.sqrt(x + 1.0) if x.dtype.kind == "c" else np.sqrt(x * x - 1.0)
    return np.reciprocal(root)


def _logit(x: Array, out: Array, *, eps: float = 9.999999974752427e-07) -> None:
    """``log(x / (1 - x))`` with ``x`` clipped to ``[eps, 1 - eps]``, for ``eps`` 0 not at all."""
    inside = x
    if eps:
        inside = bounded(x, eps, 1.0 - eps)
    np.divide(inside, 1.0 - inside, out=out)
    np.log(out, out=out)


def _logit_slope(x: Array, *, eps: float = 9.999999974752427e-07) -> Array:
    """Zero where the value was clipped."""
    inside = (x >= eps) & (x <= 1.0 - eps)
    return np.where(inside, 1.0 / (x * (1.0 - x)), 0.0).astype(x.dtype, copy=False)


_TABLE: Sequence[tuple[str, Any, Any, Any, Mapping[str, Any]]] = (
    ("acos", np.arccos, lambda x: -1.0 / np.sqrt(1.0 - x * x), None, {"kinds": "fc"}),
    ("acosh", np.arccosh, _acosh_slope, None, {"kinds": "fc"}),
    ("asin", np.arcsin, lambda x: 1.0 / np.sqrt(1.0 - x * x), None, {"kinds": "fc"}),
    ("asinh", np.arcsinh, lambda x: 1.0 / np.sqrt(x * x + 1.0), None, {"kinds": "fc"}),
    ("atan", np.arctan, lambda x: 1.0 / (1.0 + x * x), None, {"kinds": "fc"}),
    ("atanh", np.arctanh, lambda x: 1.0 / (1.0 - x * x), None, {"kinds": "fc"}),
    ("cos", np.cos, lambda x: -np.sin(x), lambda x: -np.cos(x), {"kinds": "fc", "double": "cos_double_grad"}),
    ("cosh", np.cosh, np.sinh, np.cosh, {"kinds": "fc", "double": "cosh_grad_grad"}),
    ("exp", np.exp, lambda y: y, np.ones_like, {"kinds": "fcp", "keeps": "Out", "double": "exp_grad_grad"}),
    (
        "expm1",
        np.expm1,
        lambda y: y + 1.0,
        np.ones_like,
        {"kinds": "fcp", "keeps": "Out", "double": "expm1_grad_grad"},
    ),
    ("log", np.log, lambda x: 1.0 / x, lambda x: -1.0 / (x * x), {"kinds": "fcp", "double": "log_grad_grad"}),
    ("log10", np.log10, lambda x: 1.0 / (x * _LN10), None, {"kinds": "fcp"}),
    ("log1p", np.log1p, lambda x: 1.0 / (1.0 + x), None, {"kinds": "fcp"}),
    ("log2", np.log2, lambda x: 1.0 / (x * _LN2), None, {"kinds": "fcp"}),
    ("logit", _logit, _logit_slope, None, {}),
    (
        "reciprocal",
        _reciprocal,
        lambda y: -y * y,
        lambda y: -2.0 * y,
        {"kinds": "fc", "light": True, "keeps": "Out", "double": "reciprocal_grad_grad"},
    ),
    (
        "rsqrt",
        _rsqrt,
        lambda y: -0.5 * y * y * y,
        lambda y: -1.5 * y * y,
        {"kinds": "fc", "keeps": "Out", "double": "rsqrt_grad_grad"},
    ),
    ("sin", np.sin, np.cos, lambda x: -np.sin(x), {"kinds": "fc", "double": "sin_double_grad"}),
    ("sinh", np.sinh, np.cosh, np.sinh, {"kinds": "fc", "double": "sinh_grad_grad"}),
    (
        "sqrt",
        np.sqrt,
        lambda y: 0.5 / y,
        lambda y: -0.5 / (y * y),
        {"kinds": "fc", "light": True, "keeps": "Out", "double": "sqrt_grad_grad"},
    ),
    (
        "square",
        np.square,
        lambda x: 2 * x,
        lambda x: np.full_like(x, 2),
        {"kinds": "fci", "light": True, "double": "square_grad_grad"},
    ),
    ("tan", np.tan, lambda x: 1.0 + np.square(np.tan(x)), None, {"kinds": "fc"}),
)

for _type, _formula, _derivative, _second, _options in _TABLE:
    pointwise(_type, _formula, _derivative, _second, **_options)


def _zeros(d_out: Array) -> Array:
    """A step function has a zero gradient everywhere."""
    return np.zeros_like(d_out)


for _type, _formula, _kinds in (
    ("ceil", _whole(np.ceil), "fi"),
    ("floor", _whole(np.floor), "fi"),
    ("trunc", _whole(np.trunc), "fi"),
    ("round", round_half_away, "fci"),
):
    _light = _type != "round"
    pointwise(_type, _formula, kinds=_kinds, stepwise=True, silent=True, light=_light).gradient(
        takes="Out@GRAD", gives="X@GRAD"
    )(_zeros)


def _sign(x: Array, out: Array) -> None:
    """-1, 0 or 1; a complex number's direction ``x / |x|``, 0 at 0."""
    if x.dtype.kind == "c":
        size = np.abs(x)
        np.divide(x, np.where(size == 0, 1, size), out=out)
    else:
        np.sign(x, out=out)


pointwise("sign", _sign, kinds="fci", stepwise=True).gradient_op(
    "scale",
    takes="X=Out@GRAD",
    gives="Out=X@GRAD",
    attrs={"scale": 0.0, "bias": 0.0, "bias_after_scale": True},
)

_absolute = forward_kernel("abs", "X", np.abs, "fi", silent=True, light=True)


@operator("abs", inputs="X", outputs="Out", inplace="X->Out")
def absolute(x: Array, *, out: Array | None = None) -> Array:
    """``|x|``; the modulus of a complex tensor is real."""
    if x.dtype.kind == "c":
        return np.asarray(np.abs(x))
    return _absolute(x, out=out)  # type: ignore[no-any-return]


def _direction(x: Array) -> Array:
    result = np.empty_like(x)
    _sign(x, result)
    return result


@absolute.gradient(takes="X Out@GRAD", gives="X@GRAD")
def absolute_grad(x: Array, d_out: Array) -> Array:
    """``d_out * sign(x)``."""
    return np.asarray(d_out * _direction(x)).astype(x.dtype, copy=False)


@operator("abs_double_grad", inputs="x grad_x@GRAD", outputs="grad_out@GRAD")
def absolute_double_grad(x: Array, dd_x: Array) -> Array:
    """``Re(conj(sign(x)) * dd_x)``."""
    flat = np.conj(_direction(x)) * dd_x
    return np.asarray(flat.real if x.dtype.kind == "c" else flat)


absolute_grad.gradient_op("abs_double_grad", takes="x=X grad_x@GRAD=X@GRAD@GRAD", gives="grad_out@GRAD=Out@GRAD@GRAD")


def _to_power(x: Array, out: Array, *, factor: float = 1.0) -> None:
    """Small whole exponents by multiplication, which is exact where ``power`` is and faster."""
    if x.dtype.kind in "iu":
        if factor <= -1:
            raise ValueError(f"attribute factor: integers take no negative exponent, got {factor}")
        np.power(x, int(factor), out=out)
    elif factor == 2.0:
        np.square(x, out=out)
    elif factor == 3.0:
        np.multiply(x * x, x, out=out)
    else:
        np.power(x, factor, out=out)


_power = forward_kernel("pow", "X", _to_power, "fci")


def _factor(tensor: Array | None, factor: float) -> float:
    """The exponent: the tensor's, where there is one."""
    if tensor is None:
        return factor
    if tensor.size != 1:
        raise ValueError(f"slot FactorTensor: one element expected, got shape {list(tensor.shape)}")
    return float(tensor.reshape(())[()])


@operator("pow", inputs="X FactorTensor?", outputs="Out", inplace="X->Out")
def power(x: Array, tensor: Array | None, *, factor: float = 1.0, out: Array | None = None) -> Array:
    """``x ** factor`` in the dtype of ``x``; integers take the whole part of ``factor``."""
    return _power(x, factor=_factor(tensor, factor), out=out)  # type: ignore[no-any-return]


@power.gradient(takes="X FactorTensor? Out@GRAD", gives="X@GRAD")
def power_grad(x: Array, tensor: Array | None, d_out: Array, *, factor: float = 1.0) -> Array:
    """``d_out * factor * conj(x ** (factor - 1))``; zeros for the exponent 0."""
    exponent = _factor(tensor, factor)
    if exponent == 0.0:
        return np.zeros_like(x)
    slope = np.asarray(_power(x, factor=exponent - 1.0))
    with np.errstate(all="ignore"):
        return np.asarray(d_out * np.conj(slope) * x.dtype.type(exponent)).astype(x.dtype, copy=False)


@operator("pow_double_grad", inputs="X grad_out grad_x@GRAD", outputs="X@GRAD grad_out@GRAD")
def power_double_grad(x: Array, d_out: Array, dd_x: Array, *, factor: float = 1.0) -> tuple[Array, Array]:
    """The gradient of ``pow_grad`` with respect to ``x`` and ``d_out``."""
    slope = factor * np.asarray(_power(x, factor=factor - 1.0)) if factor else np.zeros_like(x)
    bend = (
        factor * (factor - 1.0) * np.asarray(_power(x, factor=factor - 2.0)) if factor not in (0.0, 1.0) else slope * 0
    )
    return (
        np.asarray(dd_x * d_out * bend).astype(x.dtype, copy=False),
        np.asarray(dd_x * slope).astype(x.dtype, copy=False),
    )


power_grad.gradient_op(
    "pow_double_grad",
    takes="X grad_out=Out@GRAD grad_x@GRAD=X@GRAD@GRAD",
    gives="X@GRAD grad_out@GRAD=Out@GRAD@GRAD",
)
