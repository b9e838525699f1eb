"""Functions that draw random numbers, from the one generator that ``oarlock.seed`` starts."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..executor.random import generator, set_seed
from .dtypes import default_float, numpy_dtype
from .operands import constant, int_list, run
from .tensor import Tensor

__all__ = [
    "Generator",
    "bernoulli",
    "multinomial",
    "normal",
    "poisson",
    "rand",
    "randint",
    "randint_like",
    "randn",
    "randperm",
    "seed",
    "standard_normal",
    "uniform",
]


class Generator:
    """What :func:`seed` returns: the generator that all random operators draw from."""

    def manual_seed(self, seed: int) -> Generator:
        """Start again from ``seed``."""
        set_seed(seed)
        return self


def seed(seed: int) -> Generator:
    """Start the random numbers again from ``seed``. They are not Paddle's numbers."""
    return Generator().manual_seed(int(seed))


def _dtype(dtype: Any) -> np.dtype[Any]:
    return default_float() if dtype is None else numpy_dtype(dtype)


def uniform(
    shape: Any, dtype: Any = None, min: float = -1.0, max: float = 1.0, seed: int = 0, name: str | None = None
) -> Tensor:
    """Uniform between ``min`` and ``max``."""
    drawn = generator(seed).uniform(float(min), float(max), int_list(shape))
    return constant(np.asarray(drawn).astype(_dtype(dtype)))


def rand(shape: Any, dtype: Any = None, name: str | None = None) -> Tensor:
    """Uniform between 0 and 1."""
    return uniform(shape, dtype, 0.0, 1.0)


def standard_normal(shape: Any, dtype: Any = None, name: str | None = None) -> Tensor:
    """Normal with mean 0 and deviation 1."""
    return constant(np.asarray(generator().standard_normal(int_list(shape))).astype(_dtype(dtype)))


randn = standard_normal


def normal(mean: Any = 0.0, std: Any = 1.0, shape: Any = None, name: str | None = None) -> Tensor:
    """Normal; ``mean`` and ``std`` are numbers, or tensors that also give shape and element type."""
    like = mean if isinstance(mean, Tensor) else std if isinstance(std, Tensor) else None
    size = tuple(int_list(shape)) if shape is not None else () if like is None else like._array.shape
    kind = default_float() if like is None else like._array.dtype
    middle, spread = (each._array if isinstance(each, Tensor) else each for each in (mean, std))
    return constant(np.asarray(generator().standard_normal(size) * spread + middle).astype(kind))


def randint(
    low: int = 0, high: int | None = None, shape: Any = (1,), dtype: Any = None, name: str | None = None
) -> Tensor:
    """Integers from ``low`` up to, not including, ``high``; from 0 to ``low`` when only that is given."""
    start, stop = (0, low) if high is None else (low, high)
    kind = np.dtype(np.int64) if dtype is None else numpy_dtype(dtype)
    return constant(np.asarray(generator().integers(start, stop, int_list(shape))).astype(kind))


def randint_like(
    x: Tensor, low: int = 0, high: int | None = None, dtype: Any = None, name: str | None = None
) -> Tensor:
    """As :func:`randint`, with the shape and by default the element type of ``x``."""
    return randint(low, high, x.shape, x.dtype if dtype is None else dtype)


def randperm(n: int, dtype: Any = "int64", name: str | None = None) -> Tensor:
    """The numbers below ``n`` in random order."""
    return constant(generator().permutation(n).astype(numpy_dtype(dtype)))


def bernoulli(x: Tensor, name: str | None = None) -> Tensor:
    """1 with the probability ``x``, else 0."""
    return run("bernoulli", x)


def poisson(x: Tensor, name: str | None = None) -> Tensor:
    """Counts of a Poisson process of rate ``x``."""
    return run("poisson", x)


def multinomial(x: Tensor, num_samples: int = 1, replacement: bool = False, name: str | None = None) -> Tensor:
    """Positions drawn with the weights in the last axis, int64."""
    return run("multinomial", x, num_samples=int(num_samples), replacement=bool(replacement))
