"""Optimizer steps: plain, momentum, proximal and private gradient descent, FTRL, and the tools around a step.

Outputs are new arrays; the inputs keep their values. A gradient may be ``SelectedRows`` (rows of an embedding).
Parameters in a half type step in float32; with a master copy, the copy steps and the parameter is its image.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...ir.registry import REQUIRED, operator
from ..random import generator
from ..values import Array, SelectedRows, array_of
from .common import accumulate_dtype, add_rows, refuse_half

__all__ = [
    "attr_number",
    "dense_grad",
    "each_parameter",
    "merged_rows",
    "narrow",
    "rate_of",
    "wide_param",
]


def merged_rows(grad: SelectedRows) -> SelectedRows:
    """The same gradient with sorted distinct rows: the values of a row that occurs several times are added."""
    rows, where = np.unique(grad.rows, return_inverse=True)
    values = np.zeros((rows.size, *grad.values.shape[1:]), grad.values.dtype)
    add_rows(values, where.reshape(-1), grad.values)
    return SelectedRows(rows.astype(np.int64, copy=False), values, grad.height)


def dense_grad(grad: Any, dtype: Any) -> Array:
    """A gradient as an array of ``dtype``: selected rows made dense, zero elsewhere."""
    return array_of(grad).astype(dtype, copy=False)


def wide_param(param: Array, master: Array | None) -> Array:
    """What a step works on: the master copy, or the parameter, in float32 where it is a half type."""
    return param.astype(accumulate_dtype(param.dtype), copy=False) if master is None else master


def attr_number(dtype: Any) -> Callable[[float], Any]:
    """Attributes as numbers of ``dtype``: float32 first, as programs hold them, whatever the tensors are."""
    kind = np.dtype(dtype).type
    return lambda value: kind(np.float32(value))


def narrow(stepped: Array, param: Array, master: Array | None) -> tuple[Array, Array | None]:
    """ParamOut in the dtype of the parameter, and MasterParamOut where there is a master copy."""
    return stepped.astype(param.dtype, copy=False), None if master is None else stepped


def rate_of(learning_rate: Array, dtype: Any) -> Any:
    """The learning rate as a number of ``dtype``."""
    return learning_rate.reshape(-1)[0].astype(dtype)


def each_parameter(step: Callable[..., tuple[Any, ...]], *columns: Sequence[Any]) -> tuple[list[Any], ...]:
    """Run ``step`` on every parameter of list slots; the results as list slots. An absent list counts as None."""
    count = len(columns[0])
    full = [list(column) if len(column) else [None] * count for column in columns]
    for column in full:
        if len(column) != count:
            raise ValueError(f"the list slots must agree in length, got {[len(each) for each in full]}")
    return tuple(list(part) for part in zip(*(step(*row) for row in zip(*full, strict=True)), strict=True))


@operator("sgd", inputs="Param LearningRate Grad MasterParam?", outputs="ParamOut MasterParamOut", gradient=None)
def sgd(
    param: Array, learning_rate: Array, grad: Any, master: Array | None, *, multi_precision: bool = False
) -> tuple[Array, Array | None]:
    """``param - rate * grad``; of a sparse gradient only the selected rows."""
    master = master if multi_precision else None
    wide = wide_param(param, master)
    rate = rate_of(learning_rate, wide.dtype)
    if isinstance(grad, SelectedRows):
        stepped = wide.copy()
        np.subtract.at(stepped, grad.rows, rate * grad.values.astype(wide.dtype, copy=False))
    else:
        stepped = wide - rate * dense_grad(grad, wide.dtype)
    return narrow(stepped, param, master)


def _momentum_step(
    param: Array,
    grad: Any,
    velocity: Array,
    learning_rate: Array,
    master: Array | None,
    *,
    mu: float,
    use_nesterov: bool,
    method: str,
    coeff: float,
    rescale: float,
) -> tuple[Array, Array, Array | None]:
    """ParamOut, VelocityOut and MasterParamOut; weight decay (``l2_decay``) is part of the gradient."""
    wide = wide_param(param, master)
    number = attr_number(wide.dtype)
    slope = dense_grad(grad, wide.dtype) * number(rescale)
    if method == "l2_decay":
        slope = slope + number(coeff) * wide
    speed = velocity * number(mu) + slope
    rate = rate_of(learning_rate, wide.dtype)
    step = slope + speed * number(mu) if use_nesterov else speed
    made, copy = narrow(wide - rate * step, param, master)
    return made, speed.astype(velocity.dtype, copy=False), copy


@operator(
    "momentum",
    inputs="Param Grad Velocity LearningRate MasterParam?",
    outputs="ParamOut VelocityOut MasterParamOut",
    gradient=None,
)
def momentum(
    param: Array,
    grad: Any,
    velocity: Array,
    learning_rate: Array,
    master: Array | None,
    *,
    mu: float = REQUIRED,
    use_nesterov: bool = False,
    regularization_method: str = "",
    regularization_coeff: float = 0.0,
    multi_precision: bool = False,
    rescale_grad: float = 1.0,
) -> tuple[Array, Array, Array | None]:
    """``v = mu * v + grad``, ``param - rate * v`` (with Nesterov ``param - rate * (grad + mu * v)``).

    Paddle's CPU kernels rescale a sparse gradient only; a dense one steps as it is, in 2.6 and 3.3.
    """
    return _momentum_step(
        param,
        grad,
        velocity,
        learning_rate,
        master if multi_precision else None,
        mu=mu,
        use_nesterov=use_nesterov,
        method=regularization_method,
        coeff=regularization_coeff,
        rescale=rescale_grad if isinstance(grad, SelectedRows) else 1.0,
    )


@operator(
    "merged_momentum",
    inputs="Param* Grad* Velocity* LearningRate* MasterParam*?",
    outputs="ParamOut* VelocityOut* MasterParamOut*",
    gradient=None,
)
def merged_momentum(
    param: list[Array],
    grad: list[Any],
    velocity: list[Array],
    learning_rate: list[Array],
    master: list[Array],
    *,
    mu: float = REQUIRED,
    use_nesterov: bool = False,
    regularization_method: Sequence[str] = (),
    regularization_coeff: Sequence[float] = (),
    multi_precision: bool = False,
    rescale_grad: float = 1.0,
) -> tuple[list[Any], ...]:
    """The momentum step of several parameters, each with its own weight decay; rescaling as in momentum."""
    count = len(param)

    def step(*row: Any) -> tuple[Any, ...]:
        *values, method, coeff = row
        rescale = rescale_grad if isinstance(values[1], SelectedRows) else 1.0
        return _momentum_step(
            *values,
            mu=mu,
            use_nesterov=use_nesterov,
            method=method or "",
            coeff=coeff or 0.0,
            rescale=rescale,
        )

    return each_parameter(
        step,
        param,
        grad,
        velocity,
        learning_rate if len(learning_rate) == count else learning_rate * count,
        master if multi_precision else [],
        regularization_method,
        regularization_coeff,
    )


@operator(
    "sparse_momentum",
    inputs="Param Grad Velocity Index Axis? LearningRate MasterParam?",
    outputs="ParamOut VelocityOut MasterParamOut",
    gradient=None,
)
def sparse_momentum(
    param: Array,
    grad: Array,
    velocity: Array,
    index: Array,
    axis_value: Array | None,
    learning_rate: Array,
    master: Array | None,
    *,
    mu: float = REQUIRED,
    use_nesterov: bool = False,
    regularization_method: str = "",
    regularization_coeff: float = 0.0,
    multi_precision: bool = False,
    rescale_grad: float = 1.0,
    axis: int = 0,
) -> tuple[Array, Array, Array | None]:
    """The momentum step of a whole matrix whose gradient is given for the rows (columns) of ``Index`` only."""
    along = axis if axis_value is None else int(axis_value.reshape(-1)[0])
    if along not in (0, 1) or param.ndim != 2:
        raise ValueError(f"Param is a matrix and axis 0 or 1, got shape {list(param.shape)} and axis {along}")
    whole = np.zeros(param.shape, accumulate_dtype(grad.dtype))
    np.add.at(whole if along == 0 else whole.T, index.reshape(-1), grad if along == 0 else grad.T)
    return _momentum_step(
        param,
        whole,
        velocity,
        learning_rate,
        master if multi_precision else None,
        mu=mu,
        use_nesterov=use_nesterov,
        method=regularization_method,
        coeff=regularization_coeff,
        rescale=rescale_grad,
    )


@operator(
    "lars_momentum",
    inputs="Param* Grad* Velocity* LearningRate* MasterParam*?",
    outputs="ParamOut* VelocityOut* MasterParamOut*",
    gradient=None,
)
def lars_momentum(
    param: list[Array],
    grad: list[Any],
    velocity: list[Array],
    learning_rate: list[Array],
    master: list[Array],
    *,
    mu: float = REQUIRED,
    lars_coeff: float = 0.001,
    lars_weight_decay: Sequence[float] = (0.0005,),
    epsilon: float = 0.0,
    multi_precision: bool = False,
    rescale_grad: float = 1.0,
) -> tuple[list[Any], ...]:
    """Layer-wise rates: ``rate * coeff * |p| / (|g| + decay * |p| + epsilon)`` where decay and norms are positive."""

    def step(
        param: Array, grad: Any, velocity: Array, rate_in: Array, copy: Array | None, decay_in: float
    ) -> tuple[Any, ...]:
        wide = wide_param(param, copy)
        number = attr_number(wide.dtype)
        slope = number(rescale_grad) * dense_grad(grad, wide.dtype)
        decay, rate = number(decay_in), rate_of(rate_in, wide.dtype)
        size, steepness = (np.sqrt(np.square(each).sum()) for each in (wide, slope))
        if decay > 0 and size > 0 and steepness > 0:
            rate = rate * number(lars_coeff) * size / (steepness + decay * size + number(epsilon))
        speed = velocity * number(mu) + rate * (slope + decay * wide)
        made, out = narrow(wide - speed, param, copy)
        return made, speed, out

    return each_parameter(
        step, param, grad, velocity, learning_rate, master if multi_precision else [], lars_weight_decay
    )


def _shrunk(prox: Array, rate: Any, l1: float, l2: float) -> Array:
    """The proximal step of ``l1 * |p| + l2 / 2 * p ** 2``."""
    number = attr_number(prox.dtype)
    if l1 > 0:
        prox = np.sign(prox) * np.maximum(np.abs(prox) - rate * number(l1), 0)
    return np.asarray(prox / (1 + rate * number(l2)))


@operator("proximal_gd", inputs="Param Grad LearningRate", outputs="ParamOut", gradient=None)
def proximal_gd(param: Array, grad: Any, learning_rate: Array, *, l1: float = 0.0, l2: float = 0.0) -> Array:
    """Gradient descent followed by the proximal step."""
    refuse_half(param)
    rate = rate_of(learning_rate, param.dtype)
    return _shrunk(param - rate * dense_grad(grad, param.dtype), rate, l1, l2)


@operator("proximal_adagrad", inputs="Param Moment Grad LearningRate", outputs="ParamOut MomentOut", gradient=None)
def proximal_adagrad(
    param: Array, moment: Array, grad: Any, learning_rate: Array, *, l1: float = 0.0, l2: float = 0.0
) -> tuple[Array, Array]:
    """An Adagrad step followed by the proximal step of the plain rate (Paddle 1.x)."""
    refuse_half(param)
    slope = dense_grad(grad, param.dtype)
    rate = rate_of(learning_rate, param.dtype)
    moment = moment + slope * slope
    return _shrunk(param - rate * slope / np.sqrt(moment), rate, l1, l2), moment


@operator("dpsgd", inputs="Param Grad LearningRate", outputs="ParamOut", gradient=None)
def dpsgd(
    param: Array,
    grad: Array,
    learning_rate: Array,
    *,
    clip: float = 10.0,
    batch_size: float = 16.0,
    sigma: float = 1.0,
    seed: int = 0,
) -> Array:
    """Private descent: the gradient clipped to norm ``clip``, plus one Gaussian number over ``batch_size``."""
    number = attr_number(param.dtype)
    norm = np.sqrt(np.square(grad.astype(np.float32, copy=False)).sum())
    scale = number(norm / np.float32(clip)) if norm > clip else number(1)
    noise = number(generator(seed).normal(0.0, sigma) if sigma else 0.0) / number(batch_size)
    return np.asarray(param - rate_of(learning_rate, param.dtype) * (grad / scale + noise))


@operator(
    "ftrl",
    inputs="Param SquaredAccumulator LinearAccumulator Grad LearningRate",
    outputs="ParamOut SquaredAccumOut LinearAccumOut",
    gradient=None,
)
def ftrl(
    param: Array,
    squared: Array,
    linear: Array,
    grad: Any,
    learning_rate: Array,
    *,
    l1: float = 0.0,
    l2: float = 0.0,
    lr_power: float = -0.5,
) -> tuple[Array, Array, Array]:
    """Follow the regularised leader; a sparse gradient moves only its rows."""
    number = attr_number(param.dtype)
    rate = rate_of(learning_rate, param.dtype)
    # Paddle keeps both factors off zero.
    first, second = number(l1) + number(1e-10), number(l2) + number(1e-10)

    def step(param: Array, squared: Array, linear: Array, slope: Array) -> tuple[Array, Array, Array]:
        total = squared + slope * slope
        power = number(-lr_power)
        root, old_root = (np.sqrt(each) if lr_power == -0.5 else np.power(each, power) for each in (total, squared))
        linear = linear + slope - (root - old_root) / rate * param
        shift = np.where(linear >= 0, first, -first) - linear
        with np.errstate(divide="ignore", invalid="ignore"):
            stepped = np.where(np.abs(linear) > first, shift / (root / rate + 2 * second), number(0))
        return stepped, total, linear

    if not isinstance(grad, SelectedRows):
        return step(param, squared, linear, dense_grad(grad, param.dtype))
    merged = merged_rows(grad)
    made = tuple(each.copy() for each in (param, squared, linear))
    moved = step(param[merged.rows], squared[merged.rows], linear[merged.rows], merged.values)
    for whole, rows in zip(made, moved, strict=True):
        whole[merged.rows] = rows
    return made


_MANY_UPDATES = 16384
"""After so many updates the running sum moves to the second buffer, so that it does not lose precision."""


@operator(
    "average_accumulates",
    inputs="param in_sum_1 in_sum_2 in_sum_3 in_num_accumulates in_old_num_accumulates in_num_updates",
    outputs="out_sum_1 out_sum_2 out_sum_3 out_num_accumulates out_old_num_accumulates out_num_updates",
    gradient=None,
)
def average_accumulates(
    param: Array,
    sum_1: Array,
    sum_2: Array,
    sum_3: Array,
    accumulates: Array,
    old_accumulates: Array,
    updates: Array,
    *,
    average_window: float = 0.0,
    max_average_window: int = 9223372036854775807,
    min_average_window: int = 10000,
) -> tuple[Array, ...]:
    """Sums of the parameter over a window of updates, for model averaging.

    When the window is full its sums move to the third buffer and the count starts again.
    """
    if min_average_window > max_average_window:
        raise ValueError(f"min_average_window {min_average_window} is above max_average_window {max_average_window}")
    count, old_count, total = (int(each.reshape(-1)[0]) for each in (accumulates, old_accumulates, updates))
    total, count = total + 1, count + 1
    first, second, third = sum_1 + param, sum_2, sum_3
    if total % _MANY_UPDATES == 0:
        first, second = np.zeros_like(first), second + first
    full = min(max_average_window, int(np.float32(total) * np.float32(average_window)))
    if count >= min_average_window and count >= full:
        first, second, third = np.zeros_like(first), np.zeros_like(second), first + second
        old_count, count = count, 0
    counts = (np.full_like(accumulates, value) for value in (count, old_count, total))
    return first, second, third, *counts


@operator("check_finite_and_unscale", inputs="X* Scale", outputs="Out* FoundInfinite", gradient=None)
def check_finite_and_unscale(x: list[Array], scale: Array) -> tuple[list[Array], Array]:
    """Gradients over the loss scale, and whether any of them holds inf or nan (``[1]`` bool).

    From the first gradient with inf or nan on, finite values become 0.
    """
    made, found = [], False
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        factor = 1 / scale.reshape(-1)[0]
        for each in x:
            found = found or not bool(np.isfinite(each).all())
            made.append(np.asarray(each * (each.dtype.type(0) if found else factor)).astype(each.dtype, copy=False))
    return made, np.asarray([found])


@operator(
    "update_loss_scaling",
    inputs="X* FoundInfinite PrevLossScaling InGoodSteps InBadSteps StopUpdate?",
    outputs="Out* LossScaling OutGoodSteps OutBadSteps",
    gradient=None,
)
def update_loss_scaling(
    x: list[Array],
    found_infinite: Array,
    scaling: Array,
    good_steps: Array,
    bad_steps: Array,
    stop: Array | None,
    *,
    incr_every_n_steps: int = REQUIRED,
    decr_every_n_nan_or_inf: int = REQUIRED,
    incr_ratio: float = REQUIRED,
    decr_ratio: float = REQUIRED,
    stop_update: bool = False,
) -> tuple[list[Array], Array, Array, Array]:
    """Zero the gradients of a step with inf or nan; grow the loss scale after good steps, shrink it after bad."""
    found = bool(found_infinite.reshape(-1)[0])
    grads = [np.zeros_like(each) for each in x] if found else list(x)
    if stop_update or (stop is not None and bool(stop.reshape(-1)[0])):
        return grads, scaling, good_steps, bad_steps
    good, bad = int(good_steps.reshape(-1)[0]), int(bad_steps.reshape(-1)[0])
    good, bad = (0, bad + 1) if found else (good + 1, 0)
    if found and bad == decr_every_n_nan_or_inf:
        shrunk = scaling * scaling.dtype.type(decr_ratio)
        scaling, bad = np.maximum(shrunk, scaling.dtype.type(1)), 0
    elif not found and good == incr_every_n_steps:
        with np.errstate(over="ignore"):
            grown = scaling * scaling.dtype.type(incr_ratio)
        scaling, good = np.where(np.isfinite(grown), grown, scaling), 0
    return grads, scaling, np.full_like(good_steps, good), np.full_like(bad_steps, bad)


@operator(
    "pow2_decay_with_linear_warmup",
    inputs="LearningRate Step",
    outputs="LearningRateOut StepOut",
    gradient=None,
)
def pow2_decay_with_linear_warmup(
    learning_rate: Array,
    step: Array,
    *,
    warmup_steps: int = REQUIRED,
    total_steps: int = REQUIRED,
    base_lr: float = REQUIRED,
    end_lr: float = REQUIRED,
) -> tuple[Array, Array]:
    """The rate of the next step: linear up to ``base_lr``, then squared decay to ``end_lr``, then constant."""
    now = int(step.reshape(-1)[0]) + 1
    if now <= warmup_steps:
        rate = now / warmup_steps * base_lr
    elif now < total_steps:
        left = 1.0 - (now - warmup_steps) / (total_steps - warmup_steps)
        rate = (base_lr - end_lr) * left * left + end_lr
    else:
        rate = end_lr
    return np.full_like(learning_rate, rate), np.full_like(step, now)
