"""The Adam family: Adam, AdamW, AMSGrad, and the steps of many parameters at once."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir.registry import operator
from ..values import Array, SelectedRows
from .optimizers import attr_number, dense_grad, each_parameter, merged_rows, narrow, rate_of, wide_param

__all__ = ["adam", "adamw", "fused_adam", "merged_adam", "raised", "scalar"]


def _number(value: Array | float, dtype: Any) -> Any:
    """An attribute, or the tensor that overrides it, as a number of ``dtype``."""
    return attr_number(dtype)(value) if isinstance(value, float) else scalar(value, dtype)


def scalar(value: Array, dtype: Any) -> Any:
    """The only element of a tensor as a number of ``dtype``."""
    return np.asarray(value).reshape(-1)[0].astype(dtype)


def _adam_step(
    wide: Array,
    slope: Array,
    moments: tuple[Array, Array, Array | None],
    rate: Any,
    powers: tuple[Any, Any],
    betas: tuple[Any, Any],
    epsilon: Any,
    touched: Array | None = None,
) -> tuple[Array, Array, Array, Array | None]:
    """The stepped parameter and both moments, with the largest second moment so far for AMSGrad.

    Rows that a sparse gradient does not touch take ``epsilon`` without bias correction.
    """
    one, (beta1, beta2) = wide.dtype.type(1), betas
    first = beta1 * moments[0] + (one - beta1) * slope
    second = beta2 * moments[1] + (one - beta2) * slope * slope
    correction = np.sqrt(one - powers[1])
    largest = None if moments[2] is None else np.maximum(moments[2], second)
    guard = epsilon * correction
    if touched is not None:
        guard = np.where(touched.reshape(-1, *(1,) * (wide.ndim - 1)), guard, epsilon)
    spread = np.sqrt(second if largest is None else largest) + guard
    return wide - rate * correction / (one - powers[0]) * (first / spread), first, second, largest


def _adam(
    param: Array,
    grad: Any,
    learning_rate: Array,
    moment1: Array,
    moment2: Array,
    moment2_max: Array | None,
    beta1_pow: Array,
    beta2_pow: Array,
    master: Array | None,
    skip: Array | None,
    *,
    beta1: Array | float,
    beta2: Array | float,
    epsilon: Array | float,
    lazy_mode: bool = False,
    keep_powers: bool = False,
    decay: float | None = None,
    rate_ratio: float = 1.0,
) -> tuple[Any, ...]:
    """One Adam step (AdamW with ``decay``), all outputs in the order of the slots of ``adam``.

    A lazy step of a sparse gradient moves only its rows, moments included. With a sparse gradient Paddle raises
    the beta powers in place before the step, so that the step corrects with the new ones.
    """
    if skip is not None and bool(skip.reshape(-1)[0]):
        powers = (None, None) if keep_powers else (beta1_pow, beta2_pow)
        return param, moment1, moment2, moment2_max, *powers, master
    wide = wide_param(param, master)
    dtype = wide.dtype
    rate = rate_of(learning_rate, dtype)
    old_powers = (beta1_pow, beta2_pow)
    new_powers = old_powers if keep_powers else (raised(beta1_pow, beta1), raised(beta2_pow, beta2))
    sparse = isinstance(grad, SelectedRows)
    first_power, second_power = (scalar(each, dtype) for each in (new_powers if sparse else old_powers))
    betas = (_number(beta1, dtype), _number(beta2, dtype))
    rest = (rate, (first_power, second_power), betas, _number(epsilon, dtype))
    if decay is not None:
        wide = wide * (dtype.type(1) - rate * attr_number(dtype)(rate_ratio) * attr_number(dtype)(decay))
    stepped, *made = _adam_moved(wide, grad, (moment1, moment2, moment2_max), lazy_mode, rest)
    out, copy = narrow(stepped, param, master)
    return out, *made, *((None, None) if keep_powers else new_powers), copy


def _adam_moved(
    wide: Array,
    grad: Any,
    moments: tuple[Array, Array, Array | None],
    lazy: bool,
    rest: tuple[Any, Any, Any, Any],
) -> tuple[Any, ...]:
    """The stepped parameter and moments, whole, for a dense or a sparse gradient."""
    if not isinstance(grad, SelectedRows):
        return _adam_step(wide, dense_grad(grad, wide.dtype), moments, *rest)
    merged = merged_rows(grad)
    rows = merged.rows
    if not lazy:
        touched = np.zeros(wide.shape[0], bool)
        touched[rows] = True
        return _adam_step(wide, dense_grad(merged, wide.dtype), moments, *rest, touched)
    first, second, largest = (None if each is None else each[rows] for each in moments)
    few = (np.asarray(first), np.asarray(second), largest)
    moved = _adam_step(wide[rows], merged.values.astype(wide.dtype, copy=False), few, *rest)
    return tuple(_with_rows(old, rows, new) for old, new in zip((wide, *moments), moved, strict=True))


def _with_rows(whole: Array | None, rows: Array, values: Array | None) -> Any:
    """A copy of ``whole`` with some rows replaced."""
    if whole is None:
        return None
    made = whole.copy()
    made[rows] = values
    return made


def raised(power: Array, beta: Array | float) -> Array:
    """The beta power after one more step."""
    return np.asarray(power * _number(beta, power.dtype))


_ADAM_IN = (
    "Param Grad LearningRate Moment1 Moment2 Moment2Max? Beta1Pow Beta2Pow MasterParam? SkipUpdate? "
    "Beta1Tensor? Beta2Tensor? EpsilonTensor?"
)
_ADAM_OUT = "ParamOut Moment1Out Moment2Out Moment2MaxOut Beta1PowOut Beta2PowOut MasterParamOut"


def _or_attr(tensor: Array | None, attr: float) -> Array | float:
    return attr if tensor is None else tensor


def _check_amsgrad(amsgrad: bool, moment2_max: Array | None) -> Array | None:
    if amsgrad and moment2_max is None:
        raise ValueError("amsgrad needs Moment2Max")
    return moment2_max if amsgrad else None


@operator("adam", inputs=_ADAM_IN, outputs=_ADAM_OUT, ignores="min_row_size_to_use_multithread", gradient=None)
def adam(
    param: Array,
    grad: Any,
    learning_rate: Array,
    moment1: Array,
    moment2: Array,
    moment2_max: Array | None,
    beta1_pow: Array,
    beta2_pow: Array,
    master: Array | None,
    skip: Array | None,
    beta1_tensor: Array | None,
    beta2_tensor: Array | None,
    epsilon_tensor: Array | None,
    *,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-8,
    lazy_mode: bool = False,
    multi_precision: bool = False,
    use_global_beta_pow: bool = False,
    amsgrad: bool = False,
) -> tuple[Any, ...]:
    """``param - rate * sqrt(1 - b2p) / (1 - b1p) * m / (sqrt(v) + epsilon * sqrt(1 - b2p))``."""
    return _adam(
        param,
        grad,
        learning_rate,
        moment1,
        moment2,
        _check_amsgrad(amsgrad, moment2_max),
        beta1_pow,
        beta2_pow,
        master if multi_precision else None,
        skip,
        beta1=_or_attr(beta1_tensor, beta1),
        beta2=_or_attr(beta2_tensor, beta2),
        epsilon=_or_attr(epsilon_tensor, epsilon),
        lazy_mode=lazy_mode,
        keep_powers=use_global_beta_pow,
    )


@operator("adamw", inputs=_ADAM_IN, outputs=_ADAM_OUT, ignores="min_row_size_to_use_multithread", gradient=None)
def adamw(
    param: Array,
    grad: Any,
    learning_rate: Array,
    moment1: Array,
    moment2: Array,
    moment2_max: Array | None,
    beta1_pow: Array,
    beta2_pow: Array,
    master: Array | None,
    skip: Array | None,
    beta1_tensor: Array | None,
    beta2_tensor: Array | None,
    epsilon_tensor: Array | None,
    *,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-8,
    lr_ratio: float = 1.0,
    coeff: float = 0.01,
    with_decay: bool = False,
    lazy_mode: bool = False,
    multi_precision: bool = False,
    use_global_beta_pow: bool = False,
    amsgrad: bool = False,
) -> tuple[Any, ...]:
    """Adam on ``param * (1 - rate * lr_ratio * coeff)``; without ``with_decay`` plain Adam.

    Paddle's CPU kernels take ``lr_ratio`` for the decay only, not for the step, in 2.6 and 3.3.
    """
    return _adam(
        param,
        grad,
        learning_rate,
        moment1,
        moment2,
        _check_amsgrad(amsgrad, moment2_max),
        beta1_pow,
        beta2_pow,
        master if multi_precision else None,
        skip,
        beta1=_or_attr(beta1_tensor, beta1),
        beta2=_or_attr(beta2_tensor, beta2),
        epsilon=_or_attr(epsilon_tensor, epsilon),
        lazy_mode=lazy_mode,
        keep_powers=use_global_beta_pow,
        decay=coeff if with_decay else None,
        rate_ratio=lr_ratio if with_decay else 1.0,
    )


@operator(
    "merged_adam",
    inputs="Param* Grad* LearningRate* Moment1* Moment2* Beta1Pow* Beta2Pow* MasterParam*?",
    outputs="ParamOut* Moment1Out* Moment2Out* Beta1PowOut* Beta2PowOut* MasterParamOut*",
    gradient=None,
)
def merged_adam(
    param: list[Array],
    grad: list[Any],
    learning_rate: list[Array],
    moment1: list[Array],
    moment2: list[Array],
    beta1_pow: list[Array],
    beta2_pow: list[Array],
    master: list[Array],
    *,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-8,
    multi_precision: bool = False,
    use_global_beta_pow: bool = False,
) -> tuple[list[Any], ...]:
    """The Adam step of several parameters."""

    def step(p: Any, g: Any, r: Any, m: Any, v: Any, p1: Any, p2: Any, copy: Any) -> tuple[Any, ...]:
        out = _adam(
            p, g, r, m, v, None, p1, p2, copy, None,
            beta1=beta1, beta2=beta2, epsilon=epsilon, keep_powers=use_global_beta_pow,
        )  # fmt: skip
        return (*out[:3], *out[4:])

    rates = learning_rate if len(learning_rate) == len(param) else learning_rate * len(param)
    copies = master if multi_precision else []
    return each_parameter(step, param, grad, rates, moment1, moment2, beta1_pow, beta2_pow, copies)


@operator(
    "fused_adam",
    inputs="Params* Grads* LearningRate Moments1* Moments2* Beta1Pows* Beta2Pows* MasterParams*? SkipUpdate?",
    outputs="ParamsOut* Moments1Out* Moments2Out* Beta1PowsOut* Beta2PowsOut* MasterParamsOut*",
    ignores="chunk_size",
    gradient=None,
)
def fused_adam(
    param: list[Array],
    grad: list[Any],
    learning_rate: Array,
    moment1: list[Array],
    moment2: list[Array],
    beta1_pow: list[Array],
    beta2_pow: list[Array],
    master: list[Array],
    skip: Array | None,
    *,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-8,
    weight_decay: float = 0.0,
    use_adamw: bool = False,
    multi_precision: bool = False,
    use_global_beta_pow: bool = False,
) -> tuple[list[Any], ...]:
    """The Adam (or AdamW) step of several parameters at one rate."""

    def step(p: Any, g: Any, m: Any, v: Any, p1: Any, p2: Any, copy: Any) -> tuple[Any, ...]:
        out = _adam(
            p, g, learning_rate, m, v, None, p1, p2, copy, skip,
            beta1=beta1, beta2=beta2, epsilon=epsilon, keep_powers=use_global_beta_pow,
            decay=weight_decay if use_adamw else None,
        )  # fmt: skip
        return (*out[:3], *out[4:])

    copies = master if multi_precision else []
    return each_parameter(step, param, grad, moment1, moment2, beta1_pow, beta2_pow, copies)
