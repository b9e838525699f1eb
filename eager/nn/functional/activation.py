"""Activation functions."""

from __future__ import annotations

from typing import Any

from ...dtypes import numpy_dtype
from ...operands import cast_to, run, run_at, unary
from ...tensor import Tensor

__all__ = [
    "celu",
    "elu",
    "gelu",
    "glu",
    "gumbel_softmax",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "leaky_relu",
    "log_sigmoid",
    "log_softmax",
    "maxout",
    "mish",
    "prelu",
    "relu",
    "relu6",
    "rrelu",
    "selu",
    "sigmoid",
    "silu",
    "softmax",
    "softplus",
    "softshrink",
    "softsign",
    "swish",
    "tanh",
    "tanhshrink",
    "thresholded_relu",
]

relu = unary("relu", "max(x, 0).")
relu6 = unary("relu6", "x moved into [0, 6].", threshold=6.0)
sigmoid = unary("sigmoid", "1 / (1 + exp(-x)).")
tanh = unary("tanh", "The hyperbolic tangent.")
silu = unary("silu", "x * sigmoid(x).")
swish = unary("swish", "x * sigmoid(x).", beta=1.0)
hardswish = unary("hardswish", "x * min(max(x + 3, 0), 6) / 6.", "hard_swish", threshold=6.0, scale=6.0, offset=3.0)
mish = unary("mish", "x * tanh(softplus(x)).", threshold=20.0)
softsign = unary("softsign", "x / (1 + |x|).")
tanhshrink = unary("tanhshrink", "x - tanh(x).", "tanh_shrink")
log_sigmoid = unary("log_sigmoid", "log(1 / (1 + exp(-x))).", "logsigmoid")


def softmax(x: Tensor, axis: int = -1, dtype: Any = None, name: str | None = None) -> Tensor:
    """``exp(x) / sum(exp(x))`` along ``axis``, of ``x`` as ``dtype`` where that is given."""
    return run("softmax", x if dtype is None else cast_to(x, numpy_dtype(dtype)), axis=int(axis))


def log_softmax(x: Tensor, axis: int = -1, dtype: Any = None, name: str | None = None) -> Tensor:
    """The logarithm of :func:`softmax`."""
    return run("log_softmax", x if dtype is None else cast_to(x, numpy_dtype(dtype)), axis=int(axis))


def leaky_relu(x: Tensor, negative_slope: float = 0.01, name: str | None = None) -> Tensor:
    """``x`` above 0, ``negative_slope * x`` below."""
    return run("leaky_relu", x, alpha=float(negative_slope))


def elu(x: Tensor, alpha: float = 1.0, name: str | None = None) -> Tensor:
    """``x`` above 0, ``alpha * (exp(x) - 1)`` below."""
    return run("elu", x, alpha=float(alpha))


def celu(x: Tensor, alpha: float = 1.0, name: str | None = None) -> Tensor:
    """``max(0, x) + min(0, alpha * (exp(x / alpha) - 1))``."""
    return run("celu", x, alpha=float(alpha))


def selu(
    x: Tensor,
    scale: float = 1.0507009873554804934193349852946,
    alpha: float = 1.6732632423543772848170429916717,
    name: str | None = None,
) -> Tensor:
    """``scale * x`` above 0, ``scale * alpha * (exp(x) - 1)`` below."""
    return run("selu", x, scale=float(scale), alpha=float(alpha))


def gelu(x: Tensor, approximate: bool = False, name: str | None = None) -> Tensor:
    """``x`` times the normal distribution function at ``x``; approximately by a tanh."""
    return run("gelu", x, approximate=bool(approximate))


def hardsigmoid(x: Tensor, slope: float = 0.1666667, offset: float = 0.5, name: str | None = None) -> Tensor:
    """``slope * x + offset`` moved into [0, 1]."""
    return run("hard_sigmoid", x, slope=float(slope), offset=float(offset))


def hardtanh(x: Tensor, min: float = -1.0, max: float = 1.0, name: str | None = None) -> Tensor:
    """``x`` moved into ``[min, max]``."""
    return run("brelu", x, t_min=float(min), t_max=float(max))


def hardshrink(x: Tensor, threshold: float = 0.5, name: str | None = None) -> Tensor:
    """``x`` where ``|x| > threshold``, else 0."""
    return run("hard_shrink", x, threshold=float(threshold))


def softshrink(x: Tensor, threshold: float = 0.5, name: str | None = None) -> Tensor:
    """``x`` moved towards 0 by ``threshold``, to 0 where it is smaller."""
    return run("softshrink", x, **{"lambda": float(threshold)})


def softplus(x: Tensor, beta: float = 1.0, threshold: float = 20.0, name: str | None = None) -> Tensor:
    """``log(1 + exp(beta * x)) / beta``; ``x`` itself where ``beta * x > threshold``."""
    return run("softplus", x, beta=float(beta), threshold=float(threshold))


def thresholded_relu(x: Tensor, threshold: float = 1.0, name: str | None = None) -> Tensor:
    """``x`` where it exceeds ``threshold``, else 0."""
    return run("thresholded_relu", x, threshold=float(threshold))


def prelu(x: Tensor, weight: Tensor, data_format: str = "NCHW", name: str | None = None) -> Tensor:
    """``x`` above 0, ``weight * x`` below; one weight, or one per channel."""
    mode = "all" if weight.size == 1 else "channel"
    layout = "NHWC" if data_format[-1] == "C" else "NCHW"
    return run("prelu", x, weight, data_format=layout, mode=mode)


def maxout(x: Tensor, groups: int, axis: int = 1, name: str | None = None) -> Tensor:
    """The largest of each group of channels."""
    return run("maxout", x, groups=int(groups), axis=int(axis))


def glu(x: Tensor, axis: int = -1, name: str | None = None) -> Tensor:
    """The first half along ``axis`` times the sigmoid of the second."""
    at = axis % x.ndim
    half = x.shape[at] // 2
    first, second = (run("slice", x, axes=[at], starts=[start], ends=[start + half]) for start in (0, half))
    return run("elementwise_mul", first, sigmoid(second))


def rrelu(
    x: Tensor, lower: float = 1.0 / 8.0, upper: float = 1.0 / 3.0, training: bool = True, name: str | None = None
) -> Tensor:
    """``x`` above 0; below, ``x`` times a random slope in training and the middle slope otherwise."""
    return run_at("rrelu", 0, x, lower=float(lower), upper=float(upper), is_test=not training)


def gumbel_softmax(
    x: Tensor, temperature: float = 1.0, hard: bool = False, axis: int = -1, name: str | None = None
) -> Tensor:
    """A random choice along ``axis`` with logits ``x``, softened by ``temperature``; ``hard`` gives one-hot values."""
    return run("gumbel_softmax", x, temperature=float(temperature), hard=bool(hard), axis=int(axis))
