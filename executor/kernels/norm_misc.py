"""Normalisations beside the common ones: rms_norm, fused residual forms, data_norm, spectral_norm."""

from __future__ import annotations

import math

import numpy as np

from ...ir.registry import operator
from ..values import Array
from .common import accumulate_dtype, row_blocks
from .dropout import apply_mask, check_probability, draw_mask, in_test, is_upscaling
from .norm import EPSILON
from .norm_layer import layer_norm_grad, normalize_rows

__all__ = ["data_norm", "rms_norm", "skip_layernorm", "spectral_norm"]


def _quantized(out: Array, scale: float, round_type: int, max_bound: float, min_bound: float) -> Array:
    """``out`` as int8 steps of ``1 / (max_bound * scale)``; round type 0: half to even, 1: half away from 0."""
    steps = out.astype(np.float32) * np.float32(max_bound * scale)
    rounded = np.rint(steps) if round_type == 0 else np.trunc(steps + np.copysign(np.float32(0.5), steps))
    result: Array = np.clip(rounded, min_bound, max_bound).astype(np.int8)
    return result


def _sum_of(x: Array, bias: Array | None, residual: Array | None, alpha: float = 1.0) -> Array:
    total = x if bias is None else x + bias
    if residual is None:
        return total
    return total + (residual if alpha == 1.0 else residual * residual.dtype.type(alpha))


def _normalized_by_root(x: Array, weight: Array, shift: Array | None, epsilon: float, begin: int) -> Array:
    """``x / sqrt(mean(x^2) + epsilon) * weight + shift`` over dimensions ``begin`` and later."""
    rows, columns = math.prod(x.shape[:begin]), math.prod(x.shape[begin:])
    if weight.size != columns:
        raise ValueError(f"norm_weight has {weight.size} elements, {columns} from begin_norm_axis {begin} are needed")
    data = x.astype(accumulate_dtype(x.dtype), copy=False).reshape(rows, columns)
    out = np.empty((rows, columns), data.dtype)

    def work(start: int, stop: int) -> None:
        part = data[start:stop]
        power = np.einsum("rc,rc->r", part, part) / data.dtype.type(columns)
        np.multiply(part, (1 / np.sqrt(power + data.dtype.type(epsilon)))[:, None], out=out[start:stop])
        out[start:stop] *= weight.reshape(-1)
        if shift is not None:
            out[start:stop] += shift.reshape(-1)

    if columns:
        row_blocks(rows, columns, work)
    return out.reshape(x.shape).astype(x.dtype, copy=False)


@operator(
    "rms_norm",
    inputs="x bias? residual? norm_weight norm_bias?",
    outputs="out residual_out",
    gradient=None,
)
def rms_norm(
    x: Array,
    bias: Array | None,
    residual: Array | None,
    norm_weight: Array,
    norm_bias: Array | None = None,
    *,
    epsilon: float,
    begin_norm_axis: int,
    quant_scale: float = -1.0,
    quant_round_type: int = 0,
    quant_max_bound: float = 0.0,
    quant_min_bound: float = 0.0,
) -> tuple[Array, Array | None]:
    """``x + bias + residual`` divided by its root mean square, times a weight; int8 when ``quant_scale > 0``."""
    total = _sum_of(x, bias, residual)
    out = _normalized_by_root(total, norm_weight, norm_bias, epsilon, begin_norm_axis)
    if quant_scale > 0:
        out = _quantized(out, quant_scale, quant_round_type, quant_max_bound, quant_min_bound)
    return out, None if residual is None else total


@operator(
    "fused_bias_residual_layernorm",
    "fused_layernorm",
    inputs="x bias? residual? norm_weight? norm_bias?",
    outputs="out residual_out mean variance",
    gradient=None,
)
def fused_bias_residual_layernorm(
    x: Array,
    bias: Array | None = None,
    residual: Array | None = None,
    norm_weight: Array | None = None,
    norm_bias: Array | None = None,
    *,
    epsilon: float,
    residual_alpha: float,
    begin_norm_axis: int,
    quant_scale: float = -1.0,
    quant_round_type: int = 0,
    quant_max_bound: float = 0.0,
    quant_min_bound: float = 0.0,
) -> tuple[Array, Array, Array | None, Array | None]:
    """layer_norm of ``x + bias + residual_alpha * residual``; the sum itself is ``residual_out``.

    Without weight and bias of the norm, the sum alone is the result.
    """
    total = _sum_of(x, bias, residual, residual_alpha)
    if norm_weight is None and norm_bias is None:
        return total, total, None, None
    out, mean, variance = normalize_rows(total, norm_weight, norm_bias, epsilon, begin_norm_axis)
    if quant_scale > 0:
        out = _quantized(out, quant_scale, quant_round_type, quant_max_bound, quant_min_bound)
    return out, total, mean.reshape(-1), variance.reshape(-1)


@operator("skip_layernorm", inputs="X Y Scale Bias", outputs="Out", gradient=None)
def skip_layernorm(x: Array, y: Array, scale: Array, bias: Array, *, epsilon: float, begin_norm_axis: int) -> Array:
    """layer_norm of ``x + y``, a residual connection."""
    return normalize_rows(x + y, scale, bias, epsilon, begin_norm_axis)[0]


@operator(
    "fused_bias_dropout_residual_layer_norm",
    inputs="X Residual Bias? LnScale? LnBias?",
    outputs="Y BiasDropoutResidualOut DropoutMaskOut LnMean LnVariance",
)
def fused_bias_dropout_residual_layer_norm(
    x: Array,
    residual: Array,
    bias: Array | None = None,
    ln_scale: Array | None = None,
    ln_bias: Array | None = None,
    *,
    dropout_rate: float = 0.5,
    is_test: bool = False,
    dropout_fix_seed: bool = True,
    dropout_seed: int = 1,
    dropout_implementation: str = "downgrade_in_infer",
    ln_epsilon: float = EPSILON,
) -> tuple[Array, Array, Array, Array, Array]:
    """layer_norm over the last dimension of ``residual + dropout(x + bias)``."""
    upscale = is_upscaling(dropout_implementation)
    check_probability(dropout_rate)
    total = x if bias is None else x + bias
    if is_test:
        mask = np.ones(x.shape, np.uint8)
        dropped = in_test(total, dropout_rate, upscale)
    else:
        mask = draw_mask(x.shape, dropout_rate, dropout_seed if dropout_fix_seed else 0)
        dropped = apply_mask(total, mask, dropout_rate, upscale)
    summed = residual + dropped
    y, mean, variance = normalize_rows(summed, ln_scale, ln_bias, ln_epsilon, x.ndim - 1)
    return y, summed, mask, mean.reshape(-1), variance.reshape(-1)


@fused_bias_dropout_residual_layer_norm.gradient(
    takes="X Residual Bias? LnScale? LnBias? LnMean LnVariance BiasDropoutResidualOut DropoutMaskOut Y@GRAD",
    gives="X@GRAD Residual@GRAD Bias@GRAD LnScale@GRAD LnBias@GRAD",
)
def fused_bias_dropout_residual_layer_norm_grad(
    x: Array,
    residual: Array,
    bias: Array | None,
    ln_scale: Array | None,
    ln_bias: Array | None,
    mean: Array,
    variance: Array,
    summed: Array,
    mask: Array,
    d_y: Array,
    *,
    dropout_rate: float = 0.5,
    is_test: bool = False,
    dropout_implementation: str = "downgrade_in_infer",
    ln_epsilon: float = EPSILON,
) -> tuple[Array, Array, Array | None, Array | None, Array | None]:
    """layer_norm's gradient, which is the residual's, then dropout's."""
    d_sum, d_scale, d_bias = layer_norm_grad(
        summed, ln_scale, ln_bias, mean, variance, d_y, epsilon=ln_epsilon, begin_norm_axis=x.ndim - 1
    )
    upscale = is_upscaling(dropout_implementation)
    d_x = in_test(d_sum, dropout_rate, upscale) if is_test else apply_mask(d_sum, mask, dropout_rate, upscale)
    d_shift = None
    if bias is not None:
        wide = d_x.reshape(-1, x.shape[-1]).sum(axis=0, dtype=accumulate_dtype(x.dtype))
        d_shift = wide.astype(bias.dtype, copy=False).reshape(bias.shape)
    return d_x, d_sum, d_shift, d_scale, d_bias


_LITTLE = 1e-7
"""A slot whose first value (how often it was shown) is this close to 0 has no data."""


def _slots(x: Array, slot_dim: int) -> Array:
    """Which values of ``x`` belong to slots with data; all of them where there are no slots."""
    if slot_dim <= 0:
        return np.ones((1, 1), x.dtype)
    if x.shape[1] % slot_dim:
        raise ValueError(f"slot_dim {slot_dim} does not divide the {x.shape[1]} columns of X")
    shown = np.abs(x[:, ::slot_dim]) >= _LITTLE
    return np.repeat(shown, slot_dim, axis=1).astype(x.dtype)


@operator(
    "data_norm",
    inputs="scale_w? bias? X BatchSize BatchSum BatchSquareSum",
    outputs="Y Means Scales",
    ignores="data_layout sync_stats summary_decay_rate epsilon",
)
def data_norm(
    scale_w: Array | None,
    bias: Array | None,
    x: Array,
    batch_size: Array,
    batch_sum: Array,
    batch_square_sum: Array,
    *,
    slot_dim: int = -1,
    enable_scale_and_shift: bool = False,
) -> tuple[Array, Array, Array]:
    """``(x - mean) * scale`` of ``[N, C]`` with ``mean = sum / size`` and ``scale = sqrt(size / square sum)``.

    Columns come in slots of ``slot_dim`` when that is positive; a slot without data gives zeros.
    """
    if x.ndim != 2:
        raise ValueError(f"X must be [N, C], got shape {list(x.shape)}")
    means, scales = batch_sum / batch_size, np.sqrt(batch_size / batch_square_sum)
    y = (x - means) * scales
    if enable_scale_and_shift and scale_w is not None and bias is not None:
        y = y * scale_w + bias
    return (y * _slots(x, slot_dim) if slot_dim > 0 else y), means, scales


@data_norm.gradient(
    takes="scale_w? bias? X Means Scales Y@GRAD",
    gives="X@GRAD BatchSize@GRAD BatchSum@GRAD BatchSquareSum@GRAD scale_w@GRAD bias@GRAD",
)
def data_norm_grad(
    scale_w: Array | None,
    bias: Array | None,
    x: Array,
    means: Array,
    scales: Array,
    d_y: Array,
    *,
    epsilon: float = 9.999999747378752e-05,
    slot_dim: int = -1,
    enable_scale_and_shift: bool = False,
) -> tuple[Array, Array, Array, Array, Array | None, Array | None]:
    """The gradient of ``x``; the "gradients" of the three summaries are this batch's own summaries."""
    centred = x - means
    affine = enable_scale_and_shift and scale_w is not None
    shown = _slots(x, slot_dim) if slot_dim > 0 else np.ones(x.shape, x.dtype)
    let_through = d_y * shown if affine else d_y  # without the affine part Paddle lets all slots through
    d_x = let_through * scales * scale_w if affine else let_through * scales
    d_scale = (let_through * centred * scales).sum(axis=0) if affine else None
    d_bias = let_through.sum(axis=0) if affine else None
    count = shown.sum(axis=0)
    total, square = (x * shown).sum(axis=0), (np.square(centred) * shown).sum(axis=0)
    if slot_dim > 0:
        per = np.maximum(count, 1)
        total, square = total / per, square / per
    square += count * x.dtype.type(epsilon)
    size = np.minimum(count, 1) if slot_dim > 0 else count
    return d_x, size, total, square, d_scale, d_bias


def _largest_direction(weight: Array, u: Array, v: Array, iterations: int, eps: float) -> tuple[Array, Array]:
    """Left and right singular directions after some steps of power iteration."""
    for _ in range(iterations):
        v = weight.T @ u
        v = v / (np.sqrt(v @ v) + v.dtype.type(eps))
        u = weight @ v
        u = u / (np.sqrt(u @ u) + u.dtype.type(eps))
    return u, v


def _as_matrix(weight: Array, dim: int) -> Array:
    """``weight`` with dimension ``dim`` as rows, in the dtype of sums."""
    if dim not in (0, 1):
        raise ValueError(f"attribute dim is {dim}, expected 0 or 1")
    first = np.moveaxis(weight, dim, 0)
    return first.reshape(first.shape[0], -1).astype(accumulate_dtype(weight.dtype), copy=False)


def _from_matrix(matrix: Array, shape: tuple[int, ...], dim: int) -> Array:
    first = (shape[dim], *(size for i, size in enumerate(shape) if i != dim))
    return np.moveaxis(matrix.reshape(first), 0, dim)


@operator("spectral_norm", inputs="Weight U V", outputs="Out")
def spectral_norm(
    weight: Array,
    u: Array,
    v: Array,
    *,
    dim: int = 0,
    power_iters: int = 1,
    eps: float = 9.999999960041972e-13,
) -> Array:
    """``Weight`` divided by its largest singular value, estimated by power iteration from ``U`` and ``V``.

    ``Weight`` is a matrix with dimension ``dim`` as rows.
    """
    matrix = _as_matrix(weight, dim)
    left, right = _largest_direction(matrix, u.reshape(-1), v.reshape(-1), power_iters, eps)
    scaled = _from_matrix(matrix / (left @ matrix @ right), weight.shape, dim)
    return scaled.astype(weight.dtype, copy=False)


@spectral_norm.gradient(takes="Weight U V Out@GRAD", gives="Weight@GRAD")
def spectral_norm_grad(
    weight: Array,
    u: Array,
    v: Array,
    d_out: Array,
    *,
    dim: int = 0,
    power_iters: int = 1,
    eps: float = 9.999999960041972e-13,
) -> Array:
    """``d * (1 - u v^T * sum(W / sigma)) / sigma``: Paddle's rule.

    It is not the derivative, which is ``(d - <d, W> / sigma * u v^T) / sigma`` with the directions held fixed;
    models that were trained with Paddle were trained with this one.
    """
    matrix, d = _as_matrix(weight, dim), _as_matrix(d_out, dim)
    left, right = _largest_direction(matrix, u.reshape(-1), v.reshape(-1), power_iters, eps)
    sigma = left @ matrix @ right
    grad = d * (1 - np.outer(left, right) * (matrix / sigma).sum()) / sigma
    return _from_matrix(grad, weight.shape, dim).astype(weight.dtype, copy=False)
