"""Elementwise functions: arithmetic, comparison, logic, and the functions of one number."""

from __future__ import annotations

import math as _math
from typing import Any

import numpy as np

from ..errors import InputError
from .dtypes import default_float, is_floating
from .operands import as_tensor, binary, cast_to, constant, matched, run, unary
from .tensor import Tensor

__all__ = [
    "abs",
    "acos",
    "acosh",
    "add",
    "add_n",
    "allclose",
    "angle",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "bitwise_and",
    "bitwise_not",
    "bitwise_or",
    "bitwise_xor",
    "ceil",
    "clip",
    "complex",
    "conj",
    "cos",
    "cosh",
    "deg2rad",
    "digamma",
    "divide",
    "equal",
    "equal_all",
    "erf",
    "erfinv",
    "exp",
    "expm1",
    "floor",
    "floor_divide",
    "floor_mod",
    "fmax",
    "fmin",
    "frac",
    "gcd",
    "greater_equal",
    "greater_than",
    "heaviside",
    "hypot",
    "i0",
    "i0e",
    "i1",
    "i1e",
    "imag",
    "increment",
    "isclose",
    "isfinite",
    "isinf",
    "isnan",
    "kron",
    "lcm",
    "ldexp",
    "lerp",
    "less_equal",
    "less_than",
    "lgamma",
    "log",
    "log1p",
    "log2",
    "log10",
    "logaddexp",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "logit",
    "maximum",
    "minimum",
    "mod",
    "multigammaln",
    "multiplex",
    "multiply",
    "nan_to_num",
    "neg",
    "nextafter",
    "not_equal",
    "polar",
    "polygamma",
    "pow",
    "rad2deg",
    "real",
    "reciprocal",
    "remainder",
    "renorm",
    "round",
    "rsqrt",
    "scale",
    "sgn",
    "sigmoid",
    "sign",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "stanh",
    "subtract",
    "tan",
    "tanh",
    "trunc",
]

abs = unary("abs", "The absolute value; of a complex number its modulus.")
acos = unary("acos", "The arc cosine.")
acosh = unary("acosh", "The inverse hyperbolic cosine.")
angle = unary("angle", "The phase of complex numbers; 0 or pi for real ones.")
asin = unary("asin", "The arc sine.")
asinh = unary("asinh", "The inverse hyperbolic sine.")
atan = unary("atan", "The arc tangent.")
atanh = unary("atanh", "The inverse hyperbolic tangent.")
bitwise_not = unary("bitwise_not", "All bits flipped; of bools the negation.")
ceil = unary("ceil", "The smallest integer not below.")
conj = unary("conj", "The complex conjugate.")
cos = unary("cos", "The cosine.")
cosh = unary("cosh", "The hyperbolic cosine.")
digamma = unary("digamma", "The logarithmic derivative of the gamma function.")
erf = unary("erf", "The error function.")
erfinv = unary("erfinv", "The inverse of the error function.")
exp = unary("exp", "e to the power of x.")
expm1 = unary("expm1", "exp(x) - 1, exact near 0.")
floor = unary("floor", "The largest integer not above.")
i0 = unary("i0", "The modified Bessel function of the first kind, order 0.")
i0e = unary("i0e", "exp(-|x|) * i0(x).")
i1 = unary("i1", "The modified Bessel function of the first kind, order 1.")
i1e = unary("i1e", "exp(-|x|) * i1(x).")
imag = unary("imag", "The imaginary part of complex numbers.")
isfinite = unary("isfinite", "Whether neither infinite nor nan.", "isfinite_v2")
isinf = unary("isinf", "Whether infinite.", "isinf_v2")
isnan = unary("isnan", "Whether nan.", "isnan_v2")
lgamma = unary("lgamma", "The logarithm of the absolute value of the gamma function.")
log = unary("log", "The natural logarithm.")
log10 = unary("log10", "The logarithm to base 10.")
log1p = unary("log1p", "log(1 + x), exact near 0.")
log2 = unary("log2", "The logarithm to base 2.")
logical_not = unary("logical_not", "Whether zero.")
neg = unary("neg", "The negative.", "scale", scale=-1.0, bias=0.0, bias_after_scale=True)
real = unary("real", "The real part of complex numbers.")
reciprocal = unary("reciprocal", "1 / x.")
round = unary("round", "The nearest integer, halves away from zero.")
rsqrt = unary("rsqrt", "1 / sqrt(x).")
sigmoid = unary("sigmoid", "1 / (1 + exp(-x)).")
sign = unary("sign", "-1, 0 or 1.")
sin = unary("sin", "The sine.")
sinh = unary("sinh", "The hyperbolic sine.")
sqrt = unary("sqrt", "The square root.")
square = unary("square", "x * x.")
tan = unary("tan", "The tangent.")
tanh = unary("tanh", "The hyperbolic tangent.")
trunc = unary("trunc", "The integer part.")

add = binary("add", "x + y.", "elementwise_add", mix=True)
subtract = binary("subtract", "x - y.", "elementwise_sub", mix=True)
multiply = binary("multiply", "x * y.", "elementwise_mul", mix=True)
divide = binary("divide", "x / y; of integers the quotient cut towards zero.", "elementwise_div")
floor_divide = binary("floor_divide", "x / y rounded to an integer.", "elementwise_floordiv")
remainder = binary("remainder", "x - floor(x / y) * y; it has the sign of y.", "elementwise_mod")
mod = floor_mod = remainder
maximum = binary("maximum", "The larger of both; nan wins.", "elementwise_max")
minimum = binary("minimum", "The smaller of both; nan wins.", "elementwise_min")
fmax = binary("fmax", "The larger of both; a number wins over nan.", "elementwise_fmax")
fmin = binary("fmin", "The smaller of both; a number wins over nan.", "elementwise_fmin")
heaviside = binary("heaviside", "0 below zero, y at zero, 1 above.", "elementwise_heaviside")
atan2 = binary("atan2", "The angle of the point (y, x).")
nextafter = binary("nextafter", "The next number after x in the direction of y.")
kron = binary("kron", "The Kronecker product.")
equal = binary("equal", "Whether equal, elementwise.")
not_equal = binary("not_equal", "Whether not equal, elementwise.")
less_than = binary("less_than", "Whether x < y, elementwise.")
less_equal = binary("less_equal", "Whether x <= y, elementwise.")
greater_than = binary("greater_than", "Whether x > y, elementwise.")
greater_equal = binary("greater_equal", "Whether x >= y, elementwise.")
bitwise_and = binary("bitwise_and", "The bits set in both.")
bitwise_or = binary("bitwise_or", "The bits set in any.")
bitwise_xor = binary("bitwise_xor", "The bits set in one only.")
equal_all = binary("equal_all", "Whether all elements are equal, as a 0-d bool.")


def _logical(name: str, doc: str) -> Any:
    function = binary(name, doc)

    def logical(x: Tensor, y: Tensor, out: Tensor | None = None, name: str | None = None) -> Tensor:
        return function(x, y)

    logical.__name__ = logical.__qualname__ = name
    logical.__doc__ = doc
    return logical


logical_and = _logical("logical_and", "Whether both are not zero.")
logical_or = _logical("logical_or", "Whether any is not zero.")
logical_xor = _logical("logical_xor", "Whether one only is not zero.")


def pow(x: Tensor, y: Any, name: str | None = None) -> Tensor:
    """``x`` to the power of a number or of a tensor, elementwise."""
    if isinstance(y, Tensor):
        x = as_tensor(x, y)
        a, b = matched(x, y, "pow", mix=False)
        return run("elementwise_pow", a, b)
    if isinstance(y, (int, float, np.integer, np.floating)):
        return run("pow", as_tensor(x), factor=float(y))
    raise TypeError(f"pow() takes a number or a Tensor as exponent, got {type(y).__name__}")


def scale(
    x: Tensor,
    scale: Any = 1.0,
    bias: float = 0.0,
    bias_after_scale: bool = True,
    act: str | None = None,
    name: str | None = None,
) -> Tensor:
    """``scale * x + bias``, or ``scale * (x + bias)``; then the activation ``act``."""
    attrs = {"bias": float(bias), "bias_after_scale": bool(bias_after_scale)}
    if isinstance(scale, Tensor):
        made = run("scale", x, scale, **attrs)
    else:
        made = run("scale", x, scale=float(scale), **attrs)
    return made if act is None else run(act, made)


def increment(x: Tensor, value: float = 1.0, name: str | None = None) -> Tensor:
    """``x + value`` for a tensor of one element."""
    if x.size != 1:
        raise InputError(f"increment() takes a tensor of one element, got shape {x.shape}")
    return run("increment", x, step=float(value))


def clip(x: Tensor, min: Any = None, max: Any = None, name: str | None = None) -> Tensor:
    """Every element moved into ``[min, max]``; None leaves a side open."""
    kind = x._array.dtype
    if kind.kind in "iu":
        info = np.iinfo(kind)
        lowest, highest = float(info.min), float(info.max)
    else:
        lowest, highest = float(np.finfo(np.float32).min), float(np.finfo(np.float32).max)
        if kind == np.float64:
            lowest, highest = float(np.finfo(np.float64).min), float(np.finfo(np.float64).max)
    low, high = (lowest if min is None else min), (highest if max is None else max)
    bounds = {
        "min": lowest if isinstance(low, Tensor) else float(low),
        "max": highest if isinstance(high, Tensor) else float(high),
    }
    tensors = (each if isinstance(each, Tensor) else None for each in (low, high))
    return run("clip", x, *tensors, **bounds)


def lerp(x: Tensor, y: Tensor, weight: Any, name: str | None = None) -> Tensor:
    """``x + weight * (y - x)``."""
    return run("lerp", x, y, as_tensor(weight, x))


def logit(x: Tensor, eps: float | None = None, name: str | None = None) -> Tensor:
    """``log(x / (1 - x))``; with ``eps`` x is first moved into ``[eps, 1 - eps]``, else outside [0, 1] gives nan."""
    return run("logit", x, eps=0.0 if eps is None else float(eps))


def stanh(x: Tensor, scale_a: float = 0.67, scale_b: float = 1.7159, name: str | None = None) -> Tensor:
    """``scale_b * tanh(scale_a * x)``."""
    return run("stanh", x, scale_a=scale_a, scale_b=scale_b)


def polygamma(x: Tensor, n: int, name: str | None = None) -> Tensor:
    """The n-th derivative of the digamma function."""
    if not isinstance(n, int) or n < 0:
        raise InputError(f"polygamma() takes an integer n of at least 0, got {n!r}")
    if n == 0:
        return digamma(x)
    return run("polygamma", x, n=n)


def multigammaln(x: Tensor, p: int, name: str | None = None) -> Tensor:
    """The logarithm of the multivariate gamma function of dimension ``p``."""
    total = _math.log(_math.pi) * p * (p - 1) / 4
    result = lgamma(x)
    for step in range(1, p):
        result = add(result, lgamma(scale(x, bias=-step / 2)))
    return scale(result, bias=total)


def frac(x: Tensor, name: str | None = None) -> Tensor:
    """The part after the point, with the sign of x."""
    return subtract(x, trunc(x))


def sgn(x: Tensor, name: str | None = None) -> Tensor:
    """The sign; of a complex number ``x / |x|``."""
    if x._array.dtype.kind != "c":
        return sign(x)
    size = abs(x)
    zero = cast_to(constant(size._array == 0), size._array.dtype)
    return divide(x, cast_to(add(size, zero), x._array.dtype))


def deg2rad(x: Tensor, name: str | None = None) -> Tensor:
    """Degrees to radians."""
    return scale(_floating(x), _math.pi / 180)


def rad2deg(x: Tensor, name: str | None = None) -> Tensor:
    """Radians to degrees."""
    return scale(_floating(x), 180 / _math.pi)


def _floating(x: Tensor) -> Tensor:
    return x if is_floating(x._array.dtype) else cast_to(x, default_float())


def hypot(x: Tensor, y: Tensor, name: str | None = None) -> Tensor:
    """``sqrt(x^2 + y^2)``."""
    return sqrt(add(square(x), square(y)))


def ldexp(x: Tensor, y: Tensor, name: str | None = None) -> Tensor:
    """``x * 2^y``, as floats."""
    wide = np.dtype(np.float64) if np.float64 in (x._array.dtype, y._array.dtype) else default_float()
    a, b = cast_to(x, wide), cast_to(y, wide)
    return multiply(a, pow(constant(np.full((), 2, wide)), b))


def logaddexp(x: Tensor, y: Tensor, name: str | None = None) -> Tensor:
    """``log(exp(x) + exp(y))`` without overflow."""
    return add(log1p(exp(neg(abs(subtract(x, y))))), maximum(x, y))


def gcd(x: Tensor, y: Tensor, name: str | None = None) -> Tensor:
    """The greatest common divisor of integers."""
    a, b = matched(x, y, "gcd", mix=False)
    return constant(np.asarray(np.gcd(a._array, b._array)))


def lcm(x: Tensor, y: Tensor, name: str | None = None) -> Tensor:
    """The least common multiple of integers."""
    a, b = matched(x, y, "lcm", mix=False)
    return constant(np.asarray(np.lcm(a._array, b._array)))


def nan_to_num(
    x: Tensor, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None, name: str | None = None
) -> Tensor:
    """Nan and infinities replaced; by default by 0 and the largest and smallest numbers of the type."""
    limits = np.finfo(np.float64 if x._array.dtype == np.float64 else np.float32)
    high = float(limits.max) if posinf is None else posinf
    low = float(limits.min) if neginf is None else neginf
    result = x
    for bad, value in ((np.isnan, nan), (np.isposinf, high), (np.isneginf, low)):
        where = constant(np.asarray(bad(np.asarray(x._array, np.float64))))
        result = run("where", where, constant(np.full(x._array.shape, value, x._array.dtype)), result)
    return result


def isclose(
    x: Tensor, y: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False, name: str | None = None
) -> Tensor:
    """Whether ``|x - y| <= atol + rtol * |y|``, elementwise."""
    return run("isclose", x, y, rtol=str(rtol), atol=str(atol), equal_nan=equal_nan)


def allclose(
    x: Tensor, y: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False, name: str | None = None
) -> Tensor:
    """Whether all elements are close (see :func:`isclose`), as a 0-d bool."""
    return run("allclose", x, y, rtol=str(rtol), atol=str(atol), equal_nan=equal_nan)


def complex(real: Tensor, imag: Tensor, name: str | None = None) -> Tensor:
    """Complex numbers from real and imaginary parts."""
    return run("complex", real, imag)


def polar(abs: Tensor, angle: Tensor, name: str | None = None) -> Tensor:
    """Complex numbers from moduli and angles."""
    return complex(multiply(abs, cos(angle)), multiply(abs, sin(angle)))


def multiplex(inputs: list[Tensor], index: Tensor, name: str | None = None) -> Tensor:
    """Row i of the result is row i of ``inputs[index[i]]``. ``index`` is int32 of shape [N, 1]."""
    return run("multiplex", list(inputs), index)


def add_n(inputs: Any, name: str | None = None) -> Tensor:
    """The sum of tensors of one shape."""
    return run("sum", [inputs] if isinstance(inputs, Tensor) else list(inputs))


def renorm(x: Tensor, p: float, axis: int, max_norm: float) -> Tensor:
    """Every slice along ``axis`` whose p-norm exceeds ``max_norm`` scaled down to it."""
    return run("renorm", x, p=float(p), axis=axis % x.ndim, max_norm=float(max_norm))
