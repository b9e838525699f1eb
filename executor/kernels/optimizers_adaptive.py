"""Optimizer steps with rates per element besides Adam: Adamax, RMSProp, Adagrad, Adadelta, LAMB."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir.registry import REQUIRED, operator
from ..values import Array, SelectedRows
from .common import refuse_half
from .optimizers import attr_number, dense_grad, merged_rows, narrow, rate_of, wide_param
from .optimizers_adam import raised, scalar

__all__ = ["adadelta", "adagrad", "adamax", "decayed_adagrad", "lamb", "rmsprop"]


@operator(
    "adamax",
    inputs="Param Grad LearningRate Moment InfNorm Beta1Pow MasterParam?",
    outputs="ParamOut MomentOut InfNormOut MasterParamOut",
    gradient=None,
)
def adamax(
    param: Array,
    grad: Any,
    learning_rate: Array,
    moment: Array,
    inf_norm: Array,
    beta1_pow: Array,
    master: Array | None,
    *,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-8,
    multi_precision: bool = False,
) -> tuple[Any, ...]:
    """``param - rate / (1 - b1p) * m / u`` with ``u = max(|grad|, beta2 * u + epsilon)``."""
    master = master if multi_precision else None
    wide = wide_param(param, master)
    number = attr_number(wide.dtype)
    slope = dense_grad(grad, wide.dtype)
    first = number(beta1) * moment + (1 - number(beta1)) * slope
    norm = np.maximum(np.abs(slope), number(beta2) * inf_norm + number(epsilon))
    rate = rate_of(learning_rate, wide.dtype) / (1 - scalar(beta1_pow, wide.dtype))
    out, copy = narrow(wide - rate * (first / norm), param, master)
    return out, first, norm, copy


@operator(
    "adagrad",
    inputs="Param Grad Moment LearningRate MasterParam?",
    outputs="ParamOut MomentOut MasterParamOut",
    gradient=None,
)
def adagrad(
    param: Array,
    grad: Any,
    moment: Array,
    learning_rate: Array,
    master: Array | None,
    *,
    epsilon: float = 1e-6,
    multi_precision: bool = False,
) -> tuple[Any, ...]:
    """``m = m + grad ** 2``, ``param - rate * grad / (sqrt(m) + epsilon)``."""
    master = master if multi_precision else None
    wide = wide_param(param, master)
    slope = dense_grad(merged_rows(grad) if isinstance(grad, SelectedRows) else grad, wide.dtype)
    total = moment + slope * slope
    rate = rate_of(learning_rate, wide.dtype)
    out, copy = narrow(wide - rate * slope / (np.sqrt(total) + attr_number(wide.dtype)(epsilon)), param, master)
    return out, total, copy


@operator("decayed_adagrad", inputs="Param Grad Moment LearningRate", outputs="ParamOut MomentOut", gradient=None)
def decayed_adagrad(
    param: Array,
    grad: Any,
    moment: Array,
    learning_rate: Array,
    *,
    decay: float = 0.95,
    epsilon: float = 1e-6,
) -> tuple[Array, Array]:
    """Adagrad with a moment that forgets: ``m = decay * m + (1 - decay) * grad ** 2``."""
    refuse_half(param)
    number = attr_number(param.dtype)
    slope = dense_grad(grad, param.dtype)
    mean = number(decay) * moment + (1 - number(decay)) * slope * slope
    rate = rate_of(learning_rate, param.dtype)
    return param - rate * slope / (np.sqrt(mean) + number(epsilon)), mean


@operator(
    "adadelta",
    inputs="Param Grad AvgSquaredGrad AvgSquaredUpdate LearningRate MasterParam?",
    outputs="ParamOut AvgSquaredGradOut AvgSquaredUpdateOut MasterParamOut",
    gradient=None,
)
def adadelta(
    param: Array,
    grad: Any,
    mean_grad: Array,
    mean_update: Array,
    learning_rate: Array,
    master: Array | None,
    *,
    rho: float = 0.95,
    epsilon: float = 1e-6,
    multi_precision: bool = False,
) -> tuple[Any, ...]:
    """Steps of ``sqrt((mean update + epsilon) / (mean grad + epsilon)) * grad``, means of squares."""
    master = master if multi_precision else None
    wide = wide_param(param, master)
    number = attr_number(wide.dtype)
    slope = dense_grad(grad, wide.dtype)
    grads = number(rho) * mean_grad + (1 - number(rho)) * slope * slope
    update = -np.sqrt((mean_update + number(epsilon)) / (grads + number(epsilon))) * slope
    updates = number(rho) * mean_update + (1 - number(rho)) * update * update
    out, copy = narrow(wide + rate_of(learning_rate, wide.dtype) * update, param, master)
    return out, grads, updates, copy


@operator(
    "rmsprop",
    inputs="Param MeanSquare Grad Moment LearningRate MeanGrad? MasterParam?",
    outputs="ParamOut MomentOut MeanSquareOut MeanGradOut MasterParamOut",
    gradient=None,
)
def rmsprop(
    param: Array,
    mean_square: Array,
    grad: Any,
    moment: Array,
    learning_rate: Array,
    mean_grad: Array | None,
    master: Array | None,
    *,
    epsilon: float = 1e-10,
    decay: float = 0.9,
    momentum: float = 0.0,
    centered: bool = False,
    multi_precision: bool = False,
) -> tuple[Any, ...]:
    """``m = momentum * m + rate * grad / sqrt(mean square [- mean ** 2] + epsilon)``, ``param - m``."""
    if centered and mean_grad is None:
        raise ValueError("centered needs MeanGrad")
    master = master if multi_precision else None
    wide = wide_param(param, master)
    number = attr_number(wide.dtype)
    slope = dense_grad(grad, wide.dtype)
    square = number(decay) * mean_square + (1 - number(decay)) * slope * slope
    spread, mean = square, mean_grad
    if centered and mean_grad is not None:
        mean = number(decay) * mean_grad + (1 - number(decay)) * slope
        spread = square - mean * mean
    rate = rate_of(learning_rate, wide.dtype)
    with np.errstate(invalid="ignore", divide="ignore"):
        speed = number(momentum) * moment + rate * slope / np.sqrt(spread + number(epsilon))
    out, copy = narrow(wide - speed, param, master)
    return out, speed, square, mean, copy


@operator(
    "lamb",
    inputs="Param Grad LearningRate Moment1 Moment2 Beta1Pow Beta2Pow MasterParam? SkipUpdate?",
    outputs="ParamOut Moment1Out Moment2Out Beta1PowOut Beta2PowOut MasterParamOut",
    gradient=None,
)
def lamb(
    param: Array,
    grad: Any,
    learning_rate: Array,
    moment1: Array,
    moment2: Array,
    beta1_pow: Array,
    beta2_pow: Array,
    master: Array | None,
    skip: Array | None,
    *,
    weight_decay: float = REQUIRED,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-6,
    always_adapt: bool = False,
    multi_precision: bool = False,
) -> tuple[Any, ...]:
    """Adam's direction plus weight decay, scaled by ``|param| / |direction|`` where both are positive.

    Without weight decay the scale is 1, unless ``always_adapt``.
    """
    master = master if multi_precision else None
    if skip is not None and bool(skip.reshape(-1)[0]):
        return param, moment1, moment2, beta1_pow, beta2_pow, master
    wide = wide_param(param, master)
    number = attr_number(wide.dtype)
    slope = dense_grad(grad, wide.dtype)
    first = number(beta1) * moment1 + (1 - number(beta1)) * slope
    second = number(beta2) * moment2 + (1 - number(beta2)) * slope * slope
    hat = first / (1 - scalar(beta1_pow, wide.dtype))
    spread = np.sqrt(second / (1 - scalar(beta2_pow, wide.dtype))) + number(epsilon)
    direction = hat / spread + number(weight_decay) * wide
    ratio = number(1)
    if weight_decay > 0 or always_adapt:
        size, length = (np.sqrt(np.square(each).sum(dtype=wide.dtype)) for each in (wide, direction))
        ratio = size / length if size > 0 and length > 0 else number(1)
    out, copy = narrow(wide - ratio * rate_of(learning_rate, wide.dtype) * direction, param, master)
    return out, first, second, raised(beta1_pow, beta1), raised(beta2_pow, beta2), copy
