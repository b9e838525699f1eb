"""Random tensors. An op with a nonzero ``seed`` gives the same numbers at every run, others draw on.

The distributions are Paddle's, the numbers are not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ir.dtypes import DType, to_numpy
from ...ir.registry import operator
from ..random import generator
from ..values import Array, Meta
from .creation import like_batch, stated_shape

__all__ = ["gaussian", "randint", "randperm", "truncated_gaussian_random", "uniform"]

Ints = Sequence[int]


def _real(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype to draw in: float64 for double types, else float32."""
    return np.dtype(np.float64 if dtype in (np.float64, np.complex128) else np.float32)


def _need_float(dtype: np.dtype[Any]) -> None:
    if dtype.kind in "iub":
        raise TypeError(f"dtype is {dtype}, a floating type is needed")


def _shape(tensor: Any, tensors: Sequence[Any], attr: Ints) -> Ints:
    """Unlike in ``fill_constant`` a stated attribute goes before ShapeTensor."""
    return stated_shape(tensor if not tensors and not len(attr) else None, tensors, attr)


def uniform(shape: Ints, dtype: np.dtype[Any], low: float, high: float, seed: int) -> Array:
    """Numbers from ``low`` to before ``high``."""
    if dtype.kind in "iubc":
        raise TypeError(f"dtype is {dtype}, a real floating type is needed")
    kind = _real(dtype)
    drawn = np.asarray(generator(seed).random(shape, kind.type))
    drawn *= kind.type(high - low)
    drawn += kind.type(low)
    return drawn.astype(dtype, copy=False)


def gaussian(shape: Ints, dtype: np.dtype[Any], mean: float, std: float, seed: int) -> Array:
    """Normal numbers; a complex one has half of the variance in each part."""
    _need_float(dtype)
    kind = _real(dtype)
    draw = generator(seed)
    if dtype.kind == "c":
        parts = draw.standard_normal((2, *shape), kind.type) * kind.type(std / math.sqrt(2))
        joined: Array = (parts[0] + 1j * parts[1] + mean).astype(dtype)
        return joined
    drawn = np.asarray(draw.standard_normal(shape, kind.type))
    drawn *= kind.type(std)
    drawn += kind.type(mean)
    return drawn.astype(dtype, copy=False)


def _with_diagonal(x: Array, count: int, step: int, value: float) -> Array:
    """The diagonal of a matrix of ``step`` further columns set, as initialisers of 1.x ask for."""
    if count > 0:
        x.reshape(-1)[np.arange(count) * (step + 1)] = value
    return x


@operator("uniform_random", inputs="ShapeTensor? ShapeTensorList*", outputs="Out", gradient=None)
def uniform_random(
    shape_tensor: Any,
    shape_tensors: Sequence[Any],
    *,
    shape: Ints = (),
    dtype: int = DType.FP32,
    min: float = -1.0,
    max: float = 1.0,
    seed: int = 0,
    diag_num: int = 0,
    diag_step: int = 0,
    diag_val: float = 1.0,
) -> Array:
    """Numbers from ``min`` to before ``max``; ``diag_num`` diagonal elements are set to ``diag_val``."""
    drawn = uniform(_shape(shape_tensor, shape_tensors, shape), to_numpy(dtype), min, max, seed)
    return _with_diagonal(drawn, diag_num, diag_step, diag_val)


@operator("uniform_random_batch_size_like", inputs="Input~", outputs="Out", gradient=None)
def uniform_random_batch_size_like(
    like: Array | Meta,
    *,
    shape: Ints,
    input_dim_idx: int = 0,
    output_dim_idx: int = 0,
    min: float = -1.0,
    max: float = 1.0,
    seed: int = 0,
    diag_num: int = 0,
    diag_step: int = 0,
    diag_val: float = 1.0,
    dtype: int = DType.FP32,
) -> Array:
    """As ``uniform_random`` with one size taken from Input."""
    sizes = like_batch(like.shape, shape, input_dim_idx, output_dim_idx)
    return _with_diagonal(uniform(sizes, to_numpy(dtype), min, max, seed), diag_num, diag_step, diag_val)


@operator("uniform_random_inplace", inputs="X~", outputs="Out")
def uniform_random_inplace(
    x: Array | Meta,
    *,
    min: float = -1.0,
    max: float = 1.0,
    seed: int = 0,
    diag_num: int = 0,
    diag_step: int = 0,
    diag_val: float = 1.0,
) -> Array:
    """As ``uniform_random`` in the shape and dtype of X."""
    return _with_diagonal(uniform(x.shape, x.dtype, min, max, seed), diag_num, diag_step, diag_val)


@operator("gaussian_random", inputs="ShapeTensor? ShapeTensorList*", outputs="Out", gradient=None)
def gaussian_random(
    shape_tensor: Any,
    shape_tensors: Sequence[Any],
    *,
    shape: Ints = (),
    mean: float = 0.0,
    std: float = 1.0,
    seed: int = 0,
    dtype: int = DType.FP32,
) -> Array:
    """Normal numbers of ``mean`` and ``std``."""
    return gaussian(_shape(shape_tensor, shape_tensors, shape), to_numpy(dtype), mean, std, seed)


@operator("gaussian_random_batch_size_like", inputs="Input~", outputs="Out", gradient=None)
def gaussian_random_batch_size_like(
    like: Array | Meta,
    *,
    shape: Ints,
    input_dim_idx: int = 0,
    output_dim_idx: int = 0,
    mean: float = 0.0,
    std: float = 1.0,
    seed: int = 0,
    dtype: int = DType.FP32,
) -> Array:
    """As ``gaussian_random`` with one size taken from Input (1.x)."""
    sizes = like_batch(like.shape, shape, input_dim_idx, output_dim_idx)
    return gaussian(sizes, to_numpy(dtype), mean, std, seed)


@operator("gaussian_inplace", inputs="x~", outputs="out")
def gaussian_inplace(x: Array | Meta, *, mean: float = 0.0, std: float = 1.0, seed: int = 0) -> Array:
    """Normal numbers in the shape and dtype of x."""
    return gaussian(x.shape, x.dtype, mean, std, seed)


def _zeros(d_out: Array) -> Array:
    """Zeros: what is drawn does not depend on the input."""
    return np.zeros(d_out.shape, d_out.dtype)


uniform_random_inplace.gradient(takes="Out@GRAD", gives="X@GRAD")(_zeros)
gaussian_inplace.gradient(takes="out@GRAD", gives="x@GRAD")(_zeros)


@operator("truncated_gaussian_random", inputs="", outputs="Out", gradient=None)
def truncated_gaussian_random(
    *,
    shape: Ints,
    mean: float = 0.0,
    std: float = 1.0,
    seed: int = 0,
    dtype: int = DType.FP32,
    a: float = -2.0,
    b: float = 2.0,
) -> Array:
    """Normal numbers, drawn again where they lie outside ``a`` to ``b`` standard deviations from the mean."""
    kind = to_numpy(dtype)
    _need_float(kind)
    if a >= b:
        raise ValueError(f"a is {a} and b {b}, there is nothing between them")
    draw = generator(seed)
    flat = draw.standard_normal(math.prod(shape), _real(kind).type)
    outside = np.flatnonzero((flat < a) | (flat > b))
    for _ in range(200):
        if not outside.size:
            break
        flat[outside] = draw.standard_normal(outside.size, flat.dtype.type)
        outside = outside[(flat[outside] < a) | (flat[outside] > b)]
    flat[outside] = draw.uniform(a, b, outside.size)  # limits far out in a tail, where the density is flat
    scaled: Array = (flat * flat.dtype.type(std) + flat.dtype.type(mean)).astype(kind, copy=False)
    return scaled.reshape(shape)


@operator("randint", inputs="ShapeTensor? ShapeTensorList*", outputs="Out", gradient=None)
def randint(
    shape_tensor: Any,
    shape_tensors: Sequence[Any],
    *,
    low: int,
    high: int,
    shape: Ints = (),
    dtype: int = DType.INT64,
    seed: int = 0,
) -> Array:
    """Integers from ``low`` to before ``high``, all as likely."""
    if low >= high:
        raise ValueError(f"low is {low} and high {high}, there is nothing between them")
    kind = to_numpy(dtype)
    if kind.kind not in "iu":
        raise TypeError(f"dtype is {kind}, an integer type is needed")
    sizes = _shape(shape_tensor, shape_tensors, shape)
    return np.asarray(generator(seed).integers(low, high, sizes)).astype(kind, copy=False)


@operator("randperm", inputs="", outputs="Out", gradient=None)
def randperm(*, n: int, dtype: int = DType.INT64, seed: int = 0) -> Array:
    """The numbers 0 to before ``n`` in random order."""
    if n < 0:
        raise ValueError(f"n is {n}, a negative count")
    return generator(seed).permutation(n).astype(to_numpy(dtype), copy=False)


@operator("bernoulli", inputs="X", outputs="Out", gradient=None)
def bernoulli(x: Array) -> Array:
    """Ones with the probability that X holds, else zeros."""
    if x.size and (float(x.min()) < 0 or float(x.max()) > 1 or np.isnan(x).any()):
        raise ValueError("X holds a probability outside [0, 1]")
    return np.asarray(generator().random(x.shape) < x).astype(x.dtype)


@operator("multinomial", inputs="X", outputs="Out", gradient=None)
def multinomial(x: Array, *, num_samples: int = 1, replacement: bool = False) -> Array:
    """Categories drawn in proportion to the weights in the last dimension of X (one or two dimensions), int64.

    Without ``replacement`` each category is drawn once at most, so that enough must have a weight.
    """
    if x.ndim not in (1, 2) or num_samples < 1:
        raise ValueError(f"X has shape {list(x.shape)} and num_samples is {num_samples}: 1 or 2 dimensions, a count")
    weights = x.reshape(-1, x.shape[-1]).astype(np.float64)
    if not (np.isfinite(weights).all() and (weights >= 0).all() and (weights.sum(axis=1) > 0).all()):
        raise ValueError("X holds a negative or infinite weight, or a row without any")
    draw = generator()
    if replacement:
        edges = np.cumsum(weights, axis=1)
        points = draw.random((len(weights), num_samples)) * edges[:, -1:]
        drawn = np.stack([np.searchsorted(row, at, "right") for row, at in zip(edges, points, strict=True)])
    else:
        if (np.count_nonzero(weights, axis=1) < num_samples).any():
            raise ValueError(f"num_samples is {num_samples}, fewer categories have a weight")
        # The smallest of exponential times falls on each category in proportion to its rate.
        with np.errstate(divide="ignore"):
            times = draw.standard_exponential(weights.shape) / weights
        drawn = np.argsort(times, axis=1)[:, :num_samples]
    return drawn.astype(np.int64, copy=False).reshape(*x.shape[:-1], num_samples)


@operator("poisson", inputs="X", outputs="Out")
def poisson(x: Array) -> Array:
    """Counts of events whose rate X holds, in the dtype of X."""
    if x.size and float(x.min()) < 0:
        raise ValueError("X holds a negative rate")
    return np.asarray(generator().poisson(x.astype(np.float64))).astype(x.dtype)


poisson.gradient(takes="Out@GRAD", gives="X@GRAD")(_zeros)


@operator("exponential", inputs="X~", outputs="Out")
def exponential(x: Array | Meta, *, lambda_: float = 1.0) -> Array:
    """Exponential waiting times of rate ``lambda`` in the shape and dtype of X."""
    _need_float(x.dtype)
    drawn = np.asarray(generator().standard_exponential(x.shape, _real(x.dtype).type))
    times: Array = (drawn / drawn.dtype.type(lambda_)).astype(x.dtype, copy=False)
    return times


exponential.gradient_op("fill_any_like", takes="X=Out@GRAD", gives="Out=X@GRAD", attrs={"value": 0.0}, forgets="lambda")


@operator("dirichlet", inputs="Alpha", outputs="Out", gradient=None)
def dirichlet(alpha: Array) -> Array:
    """Shares that sum to one along the last dimension, with concentrations Alpha."""
    if alpha.ndim == 0:
        raise ValueError("Alpha is 0-d, its last dimension holds concentrations")
    parts = generator().standard_gamma(alpha.astype(np.float64))
    shares: Array = (parts / parts.sum(axis=-1, keepdims=True)).astype(alpha.dtype)
    return shares


@operator("sampling_id", inputs="X", outputs="Out", gradient=None)
def sampling_id(x: Array, *, min: float = 0.0, max: float = 1.0, seed: int = 0) -> Array:
    """Per row of probabilities one drawn column, int64: the first whose running sum passes a uniform number."""
    if x.ndim != 2:
        raise ValueError(f"X has shape {list(x.shape)}, a matrix is needed")
    points = generator(seed).uniform(min, max, (len(x), 1))
    passed = np.cumsum(x.astype(np.float64), axis=1) > points
    drawn: Array = np.where(passed.any(axis=1), passed.argmax(axis=1), x.shape[1] - 1).astype(np.int64)
    return drawn


@operator("seed", inputs="", outputs="Out", gradient=None, ignores="rng_name deterministic")
def seed_(*, seed: int = 0) -> Array:
    """The seed that the attribute states, or a random one for 0. Int32 of shape [1]."""
    drawn = seed or int(generator().integers(1, np.iinfo(np.int32).max))
    return np.array([drawn]).astype(np.int32)


@operator("shuffle_batch", inputs="X Seed", outputs="Out ShuffleIdx SeedOut")
def shuffle_batch(x: Array, seed: Array, *, startup_seed: int = 0) -> tuple[Array, Array, Array]:
    """The rows (last dimension) of X in random order, the order (int64), and the seed for the next shuffle."""
    rows = x.reshape(-1, x.shape[-1])
    start = int(seed.reshape(-1)[0]) if seed.size else startup_seed
    draw = generator(start)
    order = draw.permutation(len(rows)).astype(np.int64, copy=False)
    following = np.array([draw.integers(1, np.iinfo(np.int32).max)], np.int64)
    return rows[order].reshape(x.shape), order, following


@shuffle_batch.gradient(takes="ShuffleIdx Out@GRAD", gives="X@GRAD")
def shuffle_batch_grad(order: Array, d_out: Array) -> Array:
    """The rows of the gradient put back."""
    rows = d_out.reshape(-1, d_out.shape[-1])
    grad = np.empty_like(rows)
    grad[order] = rows
    return grad.reshape(d_out.shape)


@operator("random_crop", inputs="X Seed", outputs="Out SeedOut", gradient=None)
def random_crop(x: Array, seed: Array, *, shape: Ints, startup_seed: int = 0) -> tuple[Array, Array]:
    """Per instance a window of ``shape`` at a random place of the trailing dimensions (1.x), and the next seed."""
    lead = x.ndim - len(shape)
    room = [size - want for size, want in zip(x.shape[lead:], shape, strict=True)] if lead >= 0 else [-1]
    if min(room, default=0) < 0:
        raise ValueError(f"shape {list(shape)} does not fit into X of shape {list(x.shape)}")
    draw = generator(int(seed.reshape(-1)[0]) if seed.size else startup_seed)
    flat = x.reshape(-1, *x.shape[lead:])
    out = np.empty((len(flat), *shape), x.dtype)
    for number, instance in enumerate(flat):
        starts = [int(draw.integers(0, free + 1)) for free in room]
        out[number] = instance[tuple(slice(a, a + want) for a, want in zip(starts, shape, strict=True))]
    following = np.array([draw.integers(1, np.iinfo(np.int32).max)], np.int64)
    return out.reshape(*x.shape[:lead], *shape), following
