"""The update rules: SGD, Momentum, Adam, AdamW, Adamax, Adagrad, Adadelta, RMSProp, Lamb.

All compute in the dtype of the parameter (float32 for half precision), as Paddle's CPU kernels do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np

from ...errors import InputError
from ...executor.values import Array
from ..regularizer import WeightDecayRegularizer
from .optimizer import Optimizer, State

__all__ = ["SGD", "Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "Lamb", "Momentum", "RMSProp"]

Rate = np.floating[Any]
Options = Mapping[str, Any]


def _moving(average: Array, value: Array, decay: float) -> None:
    """``average = decay * average + (1 - decay) * value``, in place."""
    kind = average.dtype.type
    average *= kind(decay)
    average += kind(1) * value * (kind(1) - kind(decay))


def _checked_share(name: str, value: float) -> float:
    if not 0 <= value < 1:
        raise InputError(f"Invaild value of {name}, expect {name} in [0,1). got {value}")
    return float(value)


class SGD(Optimizer):
    """``p -= rate * g``."""

    def __init__(
        self,
        learning_rate: Any = 0.001,
        parameters: Any = None,
        weight_decay: Any = None,
        grad_clip: Any = None,
        multi_precision: bool = False,
        name: str | None = None,
    ) -> None:
        super().__init__(learning_rate, parameters, weight_decay, grad_clip, name, multi_precision)

    def update(self, value: Array, grad: Array, rate: Rate, state: State, options: Options) -> None:
        value -= rate * grad


class Momentum(Optimizer):
    """``v = momentum * v + g; p -= rate * v``; Nesterov: ``p -= rate * (g + momentum * v)``.

    ``rescale_grad`` changes nothing, as on Paddle's CPU.
    """

    accumulators: ClassVar[tuple[str, ...]] = ("velocity",)

    def __init__(
        self,
        learning_rate: Any = 0.001,
        momentum: float = 0.9,
        parameters: Any = None,
        use_nesterov: bool = False,
        weight_decay: Any = None,
        grad_clip: Any = None,
        multi_precision: bool = False,
        rescale_grad: float = 1.0,
        use_multi_tensor: bool = False,
        name: str | None = None,
    ) -> None:
        super().__init__(learning_rate, parameters, weight_decay, grad_clip, name, multi_precision)
        self._momentum, self._use_nesterov = momentum, use_nesterov

    def update(self, value: Array, grad: Array, rate: Rate, state: State, options: Options) -> None:
        momentum, velocity = value.dtype.type(self._momentum), state["velocity"]
        velocity *= momentum
        velocity += grad
        value -= rate * (grad + momentum * velocity) if self._use_nesterov else rate * velocity


class Adam(Optimizer):
    """Adam (Kingma and Ba, 2015). ``epsilon`` is added to the square root of the uncorrected second moment, scaled."""

    accumulators: ClassVar[tuple[str, ...]] = ("moment1", "moment2", "beta1_pow_acc", "beta2_pow_acc")

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta1: Any = 0.9,
        beta2: Any = 0.999,
        epsilon: Any = 1e-8,
        parameters: Any = None,
        weight_decay: Any = None,
        grad_clip: Any = None,
        lazy_mode: bool = False,
        multi_precision: bool = False,
        use_multi_tensor: bool = False,
        name: str | None = None,
    ) -> None:
        self._beta1, self._beta2 = _checked_share("beta1", beta1), _checked_share("beta2", beta2)
        self._epsilon = float(epsilon)
        super().__init__(learning_rate, parameters, weight_decay, grad_clip, name, multi_precision)

    def start_of(self, name: str) -> float:
        return {"beta1_pow_acc": self._beta1, "beta2_pow_acc": self._beta2}.get(name, 0.0)

    def update(self, value: Array, grad: Array, rate: Rate, state: State, options: Options) -> None:
        kind = value.dtype.type
        first, second = state["moment1"], state["moment2"]
        _moving(first, grad, self._beta1)
        _moving(second, grad * grad, self._beta2)
        spread = kind(math.sqrt(1 - float(state["beta2_pow_acc"][0])))
        scale = rate * spread / (kind(1) - state["beta1_pow_acc"][0])
        value -= scale * (first / (np.sqrt(second) + kind(self._epsilon) * spread))
        state["beta1_pow_acc"] *= kind(self._beta1)
        state["beta2_pow_acc"] *= kind(self._beta2)


class AdamW(Adam):
    """Adam with weight decay apart from the gradient: first ``p *= 1 - rate * coeff`` (Loshchilov and Hutter, 2019).

    Args:
        lr_ratio: factor on the learning rate by parameter.
        apply_decay_param_fun: whether a parameter, by name, decays.
    """

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta1: Any = 0.9,
        beta2: Any = 0.999,
        epsilon: Any = 1e-8,
        parameters: Any = None,
        weight_decay: Any = 0.01,
        lr_ratio: Callable[[Any], float] | None = None,
        apply_decay_param_fun: Callable[[str], bool] | None = None,
        grad_clip: Any = None,
        lazy_mode: bool = False,
        multi_precision: bool = False,
        name: str | None = None,
    ) -> None:
        if not isinstance(weight_decay, (int, float)):
            raise TypeError("weight_decay should be float or Tensor.")
        self._lr_ratio, self._decays = lr_ratio, apply_decay_param_fun
        super().__init__(
            learning_rate,
            beta1,
            beta2,
            epsilon,
            parameters,
            weight_decay,
            grad_clip,
            lazy_mode,
            multi_precision,
            name=name,
        )

    def _regularizer_of(self, parameter: Any, group: Mapping[str, Any]) -> WeightDecayRegularizer | None:
        return None

    def update(self, value: Array, grad: Array, rate: Rate, state: State, options: Options) -> None:
        kind, parameter = value.dtype.type, options["parameter"]
        if self._lr_ratio is not None:
            rate = rate * kind(self._lr_ratio(parameter))
        if self._decays is None or self._decays(parameter.name):
            value *= kind(1) - rate * kind(options["weight_decay"])
        super().update(value, grad, rate, state, options)


class Adamax(Optimizer):
    """Adam with the infinity norm (Kingma and Ba, 2015)."""

    accumulators: ClassVar[tuple[str, ...]] = ("moment", "inf_norm", "beta1_pow_acc")

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
        parameters: Any = None,
        weight_decay: Any = None,
        grad_clip: Any = None,
        name: str | None = None,
    ) -> None:
        self._beta1, self._beta2 = _checked_share("beta1", beta1), _checked_share("beta2", beta2)
        self._epsilon = epsilon
        super().__init__(learning_rate, parameters, weight_decay, grad_clip, name)

    def start_of(self, name: str) -> float:
        return self._beta1 if name == "beta1_pow_acc" else 0.0

    def update(self, value: Array, grad: Array, rate: Rate, state: State, options: Options) -> None:
        kind = value.dtype.type
        moment, largest = state["moment"], state["inf_norm"]
        _moving(moment, grad, self._beta1)
        np.maximum(np.abs(grad), largest * kind(self._beta2) + kind(self._epsilon), out=largest)
        value -= rate / (kind(1) - state["beta1_pow_acc"][0]) * (moment / largest)
        state["beta1_pow_acc"] *= kind(self._beta1)


class Adagrad(Optimizer):
    """``m += g^2; p -= rate * g / (sqrt(m) + epsilon)`` (Duchi et al., 2011)."""

    accumulators: ClassVar[tuple[str, ...]] = ("moment",)

    def __init__(
        self,
        learning_rate: Any,
        epsilon: float = 1e-6,
        parameters: Any = None,
        weight_decay: Any = None,
        grad_clip: Any = None,
        name: str | None = None,
        initial_accumulator_value: float = 0.0,
    ) -> None:
        self._epsilon, self._start = epsilon, initial_accumulator_value
        super().__init__(learning_rate, parameters, weight_decay, grad_clip, name)

    def start_of(self, name: str) -> float:
        return self._start

    def update(self, value: Array, grad: Array, rate: Rate, state: State, options: Options) -> None:
        moment = state["moment"]
        moment += grad * grad
        value -= rate * grad / (np.sqrt(moment) + value.dtype.type(self._epsilon))


class Adadelta(Optimizer):
    """Steps in proportion to the size of earlier ones (Zeiler, 2012), times the learning rate."""

    accumulators: ClassVar[tuple[str, ...]] = ("_avg_squared_grad", "_avg_squared_update")

    def __init__(
        self,
        learning_rate: Any = 0.001,
        epsilon: float = 1e-6,
        rho: float = 0.95,
        parameters: Any = None,
        weight_decay: Any = None,
        grad_clip: Any = None,
        name: str | None = None,
    ) -> None:
        self._epsilon, self._rho = epsilon, rho
        super().__init__(learning_rate, parameters, weight_decay, grad_clip, name)

    def update(self, value: Array, grad: Array, rate: Rate, state: State, options: Options) -> None:
        epsilon = value.dtype.type(self._epsilon)
        squares, updates = state["_avg_squared_grad"], state["_avg_squared_update"]
        _moving(squares, grad * grad, self._rho)
        change = np.sqrt((updates + epsilon) / (squares + epsilon)) * grad
        _moving(updates, change * change, self._rho)
        value -= rate * change


class RMSProp(Optimizer):
    """``s = rho * s + (1 - rho) g^2; m = momentum * m + rate * g / sqrt(s + epsilon); p -= m``.

    ``centered`` subtracts the square of the mean gradient from ``s``.
    """

    accumulators: ClassVar[tuple[str, ...]] = ("momentum", "mean_square", "mean_grad")

    def __init__(
        self,
        learning_rate: Any,
        rho: float = 0.95,
        epsilon: float = 1e-6,
        momentum: float = 0.0,
        centered: bool = False,
        parameters: Any = None,
        weight_decay: Any = None,
        grad_clip: Any = None,
        name: str | None = None,
    ) -> None:
        for key, given in (("rho", rho), ("epsilon", epsilon), ("momentum", momentum)):
            if given is None or given < 0:
                raise InputError(f"Invalid value of {key}, expect {key} >= 0, got {given}")
        self._rho, self._epsilon, self._momentum, self._centered = rho, epsilon, momentum, centered
        super().__init__(learning_rate, parameters, weight_decay, grad_clip, name)

    def update(self, value: Array, grad: Array, rate: Rate, state: State, options: Options) -> None:
        kind = value.dtype.type
        squares, momentum = state["mean_square"], state["momentum"]
        _moving(squares, grad * grad, self._rho)
        spread = squares
        if self._centered:
            mean = state["mean_grad"]
            _moving(mean, grad, self._rho)
            spread = squares - mean * mean
        momentum *= kind(self._momentum)
        momentum += rate * grad / np.sqrt(spread + kind(self._epsilon))
        value -= momentum


class Lamb(Optimizer):
    """Adam whose step is as long, layer by layer, as the parameter times the rate (You et al., 2020).

    Args:
        exclude_from_weight_decay_fn: parameters that do not decay; they take plain Adam steps unless
            ``always_adapt`` is set.
    """

    accumulators: ClassVar[tuple[str, ...]] = ("moment1", "moment2", "beta1_pow_acc", "beta2_pow_acc")

    def __init__(
        self,
        learning_rate: Any = 0.001,
        lamb_weight_decay: float = 0.01,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-6,
        parameters: Any = None,
        grad_clip: Any = None,
        exclude_from_weight_decay_fn: Callable[[Any], bool] | None = None,
        multi_precision: bool = False,
        always_adapt: bool = False,
        name: str | None = None,
    ) -> None:
        self._beta1, self._beta2, self._epsilon = beta1, beta2, epsilon
        self._decay, self._always_adapt = lamb_weight_decay, always_adapt
        self._excluded = exclude_from_weight_decay_fn
        super().__init__(learning_rate, parameters, None, grad_clip, name, multi_precision)

    def start_of(self, name: str) -> float:
        return {"beta1_pow_acc": self._beta1, "beta2_pow_acc": self._beta2}.get(name, 0.0)

    def update(self, value: Array, grad: Array, rate: Rate, state: State, options: Options) -> None:
        kind = value.dtype.type
        first, second = state["moment1"], state["moment2"]
        _moving(first, grad, self._beta1)
        _moving(second, grad * grad, self._beta2)
        mean = first / (kind(1) - state["beta1_pow_acc"][0])
        spread = second / (kind(1) - state["beta2_pow_acc"][0])
        excluded = self._excluded is not None and self._excluded(options["parameter"])
        decay = 0.0 if excluded else options.get("lamb_weight_decay", self._decay)
        change = mean / (np.sqrt(spread) + kind(self._epsilon)) + kind(decay) * value
        if decay or self._always_adapt:
            size, step = _length(value), _length(change)
            rate = rate * kind(size / step) if size > 0 and step > 0 else rate
        value -= rate * change
        state["beta1_pow_acc"] *= kind(self._beta1)
        state["beta2_pow_acc"] *= kind(self._beta2)


def _length(array: Array) -> float:
    flat = array.ravel()
    return math.sqrt(float(np.dot(flat, flat)))
