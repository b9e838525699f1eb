"""Initializers: what a new parameter holds. Each is called with a shape and a dtype and returns an array.

The fan of a weight is read as Paddle reads it: ``[in, out]`` for two dimensions, ``[out, in, *kernel]`` beyond.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...errors import InputError
from ...executor.random import generator
from ...executor.values import Array
from ..tensor import Tensor

__all__ = [
    "Assign",
    "Constant",
    "Initializer",
    "KaimingNormal",
    "KaimingUniform",
    "Normal",
    "Orthogonal",
    "TruncatedNormal",
    "Uniform",
    "XavierNormal",
    "XavierUniform",
    "calculate_gain",
]

_LINEAR_GAINS = ("sigmoid", "linear", "conv1d", "conv2d", "conv3d", "conv1d_transpose", "conv2d_transpose")
_GAINS = {"tanh": 5.0 / 3, "relu": math.sqrt(2.0), "selu": 3.0 / 4}


class Initializer:
    """Base class; ``__call__(shape, dtype)`` returns the initial array, and fills a given tensor instead."""

    def __call__(self, param: Any, block: Any = None) -> Tensor:
        """Fill a parameter in place (Paddle's calling convention)."""
        param._assign(self.array(tuple(param.shape), param._array.dtype), type(self).__name__)
        filled: Tensor = param
        return filled

    def array(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        """A new array of the given shape and dtype."""
        raise NotImplementedError


class Constant(Initializer):
    """The same ``value`` everywhere."""

    def __init__(self, value: float = 0.0) -> None:
        self.value = value

    def array(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        return np.full(shape, self.value, dtype)


class Assign(Initializer):
    """The given numbers (array, tensor or nested list), which must have the parameter's size."""

    def __init__(self, value: Any, name: str | None = None) -> None:
        self.value = value

    def array(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        given = np.asarray(self.value, dtype)
        if given.size != math.prod(shape):
            raise InputError(f"Assign: the value has shape {list(given.shape)}, the parameter {list(shape)}")
        return np.array(given.reshape(shape))


class Uniform(Initializer):
    """Uniform between ``low`` and ``high``."""

    def __init__(self, low: float = -1.0, high: float = 1.0, name: str | None = None) -> None:
        self.low, self.high = low, high

    def array(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        return generator().uniform(self.low, self.high, shape).astype(dtype)


class Normal(Initializer):
    """Normal with ``mean`` and ``std``."""

    def __init__(self, mean: float = 0.0, std: float = 1.0, name: str | None = None) -> None:
        self.mean, self.std = mean, std

    def array(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        return generator().normal(self.mean, self.std, shape).astype(dtype)


class TruncatedNormal(Initializer):
    """Normal, drawn again outside ``[a, b]`` standard deviations from the mean."""

    def __init__(
        self, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0, name: str | None = None
    ) -> None:
        self.mean, self.std, self.low, self.high = mean, std, a, b

    def array(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        draw = generator()
        values = draw.standard_normal(math.prod(shape))
        outside = np.flatnonzero((values < self.low) | (values > self.high))
        while outside.size:
            values[outside] = draw.standard_normal(outside.size)
            outside = outside[(values[outside] < self.low) | (values[outside] > self.high)]
        return (values * self.std + self.mean).reshape(shape).astype(dtype)


def _fans(shape: Sequence[int]) -> tuple[int, int]:
    """Fan-in and fan-out of a weight."""
    if len(shape) < 2:
        only = shape[0] if shape else 1
        return only, only
    if len(shape) == 2:
        return shape[0], shape[1]
    receptive = math.prod(shape[2:])
    return shape[1] * receptive, shape[0] * receptive


class _Scaled(Initializer):
    """Zero-mean numbers whose spread follows from the fans: ``uniform`` or normal."""

    uniform = True

    def spread(self, fan_in: int, fan_out: int) -> float:
        """The standard deviation."""
        raise NotImplementedError

    def array(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        std = self.spread(*_fans(shape))
        if self.uniform:
            return Uniform(-math.sqrt(3.0) * std, math.sqrt(3.0) * std).array(shape, dtype)
        return Normal(0.0, std).array(shape, dtype)


class XavierUniform(_Scaled):
    """Variance ``2 / (fan_in + fan_out)``, uniform. Glorot and Bengio, 2010."""

    def __init__(self, fan_in: float | None = None, fan_out: float | None = None, name: str | None = None) -> None:
        self.fan_in, self.fan_out = fan_in, fan_out

    def spread(self, fan_in: int, fan_out: int) -> float:
        into = fan_in if self.fan_in is None else self.fan_in
        out = fan_out if self.fan_out is None else self.fan_out
        return math.sqrt(2.0 / max(into + out, 1))


class XavierNormal(XavierUniform):
    """As :class:`XavierUniform`, normal."""

    uniform = False


class KaimingUniform(_Scaled):
    """Variance ``gain^2 / fan_in``, uniform. He et al., 2015."""

    def __init__(self, fan_in: float | None = None, negative_slope: float = 0.0, nonlinearity: str = "relu") -> None:
        self.fan_in, self.negative_slope, self.nonlinearity = fan_in, negative_slope, nonlinearity

    def spread(self, fan_in: int, fan_out: int) -> float:
        into = fan_in if self.fan_in is None else self.fan_in
        return calculate_gain(self.nonlinearity, self.negative_slope) / math.sqrt(max(into, 1))


class KaimingNormal(KaimingUniform):
    """As :class:`KaimingUniform`, normal."""

    uniform = False


class Orthogonal(Initializer):
    """A matrix with orthonormal rows or columns, times ``gain``; trailing dimensions count as columns."""

    def __init__(self, gain: float = 1.0, name: str | None = None) -> None:
        self.gain = gain

    def array(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
        if len(shape) < 2:
            raise InputError(f"Orthogonal needs at least two dimensions, got {list(shape)}")
        rows, columns = shape[0], math.prod(shape[1:])
        draw = generator().standard_normal((max(rows, columns), min(rows, columns)))
        q, r = np.linalg.qr(draw)
        q *= np.sign(np.diag(r))
        return (self.gain * (q.T if rows < columns else q)).reshape(shape).astype(dtype)


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The factor by which a nonlinearity shrinks a signal, to be undone by the weights."""
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else param
        return math.sqrt(2.0 / (1 + slope**2))
    if nonlinearity in _LINEAR_GAINS:
        return 1.0
    if nonlinearity in _GAINS:
        return _GAINS[nonlinearity]
    raise InputError(f"no gain is known for nonlinearity {nonlinearity!r}")
