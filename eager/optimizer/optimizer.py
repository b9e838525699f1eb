"""The base of the optimizers: parameter groups, clipping, regularisation, state, and the walk of one step."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from ...errors import InputError
from ...executor.values import Array
from .. import unique_name
from ..regularizer import L2Decay, WeightDecayRegularizer
from ..tensor import Tensor, borrow, wrap
from .clip import ClipGradBase
from .lr import LRScheduler

__all__ = ["Optimizer"]

State = dict[str, Array]


class Optimizer:
    """Base class; a subclass names its accumulators and gives :meth:`update`.

    Args:
        learning_rate: a number or a schedule.
        parameters: parameters, or groups: dicts with ``"params"`` and, where they differ, ``"learning_rate"`` (a
            factor), ``"weight_decay"``, ``"grad_clip"`` and the optimizer's own arguments.
        weight_decay: a number (L2) or a regularizer; a parameter's own regularizer goes first.
        grad_clip: a clip, applied before weight decay.
        multi_precision: keep float32 copies of half-precision parameters and update those.

    Attributes:
        accumulators: name -> value that each starts from; ``*_pow_acc`` have one element, others the parameter's
            shape.
    """

    accumulators: ClassVar[tuple[str, ...]] = ()

    def __init__(
        self,
        learning_rate: Any,
        parameters: Any = None,
        weight_decay: Any = None,
        grad_clip: Any = None,
        name: str | None = None,
        multi_precision: bool = False,
    ) -> None:
        if parameters is None:
            raise AttributeError("parameters argument given to the Optimizer should not be None in dygraph mode.")
        if isinstance(parameters, (Tensor, Mapping)) or not hasattr(parameters, "__iter__"):
            raise TypeError(
                "`parameters` argument given to the optimizer should be an iterable of paddle Tensors, but got "
                f"{type(parameters).__name__}"
            )
        if not isinstance(learning_rate, (float, int, LRScheduler)):
            raise TypeError(f"learning rate should be float or LRScheduler, got {type(learning_rate).__name__} here")
        if grad_clip is not None and not isinstance(grad_clip, ClipGradBase):
            raise TypeError("'grad_clip' should be an instance of ClipGradBase's derived class")
        self._learning_rate = learning_rate
        self._multi_precision = multi_precision
        self._name = name
        self.regularization = _regularizer(weight_decay)
        self._grad_clip = grad_clip
        self._param_groups = self._grouped(list(parameters), weight_decay, grad_clip)
        self._parameter_list: list[Any] = [each for group in self._param_groups for each in group["params"]]
        self._accumulators: dict[str, dict[str, Tensor]] = {name: {} for name in self.accumulators}
        self._master_weights: dict[str, Tensor] = {}
        self._waiting: dict[str, Any] = {}

    def _grouped(self, parameters: list[Any], weight_decay: Any, grad_clip: Any) -> list[dict[str, Any]]:
        """Parameter groups with all their settings."""
        common = {"weight_decay": weight_decay, "grad_clip": grad_clip, "learning_rate": 1.0}
        groups = parameters if parameters and isinstance(parameters[0], Mapping) else [{"params": parameters}]
        seen: set[int] = set()
        made = []
        for group in groups:
            held = group["params"]
            listed = [held] if isinstance(held, Tensor) else list(held)
            for each in listed:
                if id(each) in seen:
                    raise InputError(f"parameter {each.name} occurs twice in the optimizer's parameters")
                seen.add(id(each))
            made.append({**common, **group, "params": listed})
        return made

    # One step

    def update(
        self, value: Array, grad: Array, rate: np.floating[Any], state: State, options: Mapping[str, Any]
    ) -> None:
        """Change ``value`` and ``state`` in place for one gradient.

        Args:
            value: the parameter, or its float32 copy.
            grad: its clipped and regularised gradient, of the same dtype.
            rate: the learning rate, of the same dtype.
            state: the parameter's accumulators by name.
            options: the group's settings, and ``"parameter"``.
        """
        raise NotImplementedError

    def step(self) -> None:
        """Update every parameter that is trained and has a gradient."""
        for group in self._param_groups:
            pairs = [(each, each._grad._array) for each in group["params"] if each._grad is not None and not each._stop]
            clip = group["grad_clip"]
            for parameter, grad in pairs if clip is None else clip.clip(pairs):
                self._step_one(parameter, grad, group)

    def _step_one(self, parameter: Any, grad: Array, group: Mapping[str, Any]) -> None:
        half = parameter._array.dtype.itemsize == 2
        if half:
            value, grad = self._wide_copy(parameter), grad.astype(np.float32)
        else:
            value = parameter._writable()
        regularizer = self._regularizer_of(parameter, group)
        if regularizer is not None:
            grad = grad + regularizer.term(value)
        factor = getattr(parameter, "optimize_attr", {}).get("learning_rate", 1.0)
        rate = value.dtype.type(self.get_lr() * factor * group["learning_rate"])
        state = self._state_of(parameter, value)
        self.update(value, grad, rate, state, {**group, "parameter": parameter})
        if half:
            parameter._writable()[...] = value.astype(parameter._array.dtype)
        parameter._written(f"{type(self).__name__}.step")

    def _regularizer_of(self, parameter: Any, group: Mapping[str, Any]) -> WeightDecayRegularizer | None:
        own = getattr(parameter, "regularizer", None)
        return own if own is not None else _regularizer(group["weight_decay"])

    def _wide_copy(self, parameter: Any) -> Array:
        """The float32 copy that is updated instead of a half-precision parameter."""
        if not self._multi_precision:
            return parameter._array.astype(np.float32)  # type: ignore[no-any-return]
        held = self._master_weights.get(parameter.name)
        if held is None:
            saved = self._waiting.get("master_weights", {}).get(parameter.name)
            array = parameter._array if saved is None else _array(saved)
            held = self._master_weights[parameter.name] = wrap(array.astype(np.float32))
        return held._array

    def _state_of(self, parameter: Any, value: Array) -> State:
        state = {}
        for name in self.accumulators:
            held = self._accumulators[name].get(parameter.name)
            if held is None:
                held = self._accumulators[name][parameter.name] = self._new_accumulator(name, parameter, value)
            state[name] = held._array
        return state

    def start_of(self, name: str) -> float:
        """What an accumulator holds before the first step."""
        return 0.0

    def _new_accumulator(self, name: str, parameter: Any, value: Array) -> Tensor:
        shape = (1,) if name.endswith("_pow_acc") else value.shape
        array = np.full(shape, self.start_of(name), value.dtype)
        made = wrap(array)
        made._name = unique_name.generate(f"{parameter.name}_{name}")
        saved = self._find_saved(parameter.name, name, made._name)
        if saved is not None:
            loaded = _array(saved)
            if loaded.size != array.size:
                raise InputError(
                    f"optimizer state {made._name} has shape {list(loaded.shape)}, but {list(shape)} is expected"
                )
            array[...] = loaded.reshape(shape)
        return made

    def _find_saved(self, parameter: str, accumulator: str, name: str) -> Any:
        """The loaded value of an accumulator; its number may be that of another optimizer of the same process."""
        if name in self._waiting:
            return self._waiting[name]
        pattern = re.compile(re.escape(f"{parameter}_{accumulator}") + r"_\d+")
        return next((value for key, value in self._waiting.items() if pattern.fullmatch(key)), None)

    def minimize(
        self, loss: Tensor, startup_program: Any = None, parameters: Any = None, no_grad_set: Any = None
    ) -> tuple[None, list[tuple[Any, Tensor]]]:
        """A step with the gradients that ``backward`` left; returns None and the pairs that were used."""
        pairs = [(each, each._grad) for each in self._parameter_list if each._grad is not None and not each._stop]
        self.step()
        return None, [(each, borrow(grad._array)) for each, grad in pairs]

    def clear_grad(self, set_to_zero: bool = True) -> None:
        """Make all gradients zero, or with ``set_to_zero=False`` forget them."""
        for each in self._parameter_list:
            if not each._stop:
                each.clear_gradient(set_to_zero)

    clear_gradients = clear_grad

    # Learning rate

    def get_lr(self) -> float:
        """The current learning rate."""
        rate = self._learning_rate
        return rate() if isinstance(rate, LRScheduler) else float(rate)

    def set_lr(self, value: float) -> None:
        """Set the learning rate.

        Raises:
            RuntimeError: it is a schedule.
        """
        if isinstance(self._learning_rate, LRScheduler):
            raise RuntimeError(
                "optimizer's learning rate can't be LRScheduler when invoke this API, because this will lead to "
                "conflict."
            )
        if not isinstance(value, (int, float)):
            raise TypeError(f"The type of 'value' in optimizer.set_lr must be float, but received {type(value)}.")
        self._learning_rate = float(value)

    def set_lr_scheduler(self, scheduler: LRScheduler) -> None:
        """Take the learning rate from a schedule from now on."""
        if not isinstance(scheduler, LRScheduler):
            raise TypeError(f"set_lr_scheduler() takes an LRScheduler, got {type(scheduler).__name__}")
        self._learning_rate = scheduler

    # State

    def state_dict(self) -> dict[str, Any]:
        """Accumulators by name, ``master_weights`` and ``LR_Scheduler`` where there are such."""
        state: dict[str, Any] = {}
        for held in self._accumulators.values():
            for each in held.values():
                state[each.name] = each
        if self._master_weights:
            state["master_weights"] = dict(self._master_weights)
        if isinstance(self._learning_rate, LRScheduler):
            state["LR_Scheduler"] = self._learning_rate.state_dict()
        return state

    def set_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on from a saved state; accumulators that do not exist yet take their values when they are made."""
        given = dict(state_dict)
        if isinstance(self._learning_rate, LRScheduler) and "LR_Scheduler" in given:
            self._learning_rate.set_state_dict(given["LR_Scheduler"])
        self._waiting = given
        for name, held in self._accumulators.items():
            for parameter, tensor in held.items():
                saved = self._find_saved(parameter, name, tensor.name)
                if saved is not None:
                    tensor._array[...] = _array(saved).reshape(tensor._array.shape)
        for name, tensor in self._master_weights.items():
            saved = given.get("master_weights", {}).get(name)
            if saved is not None:
                tensor._array[...] = _array(saved)

    set_dict = set_state_dict

    def get_opti_var_name_list(self) -> list[str]:
        """The names of the accumulators."""
        return [each.name for held in self._accumulators.values() for each in held.values()]


def _array(value: Any) -> Array:
    return value._array if isinstance(value, Tensor) else np.asarray(value)


def _regularizer(weight_decay: Any) -> WeightDecayRegularizer | None:
    if weight_decay is None or isinstance(weight_decay, WeightDecayRegularizer):
        return weight_decay
    if isinstance(weight_decay, (int, float)):
        return L2Decay(weight_decay)
    raise TypeError(f"weight_decay is a number, a regularizer or None, got {type(weight_decay).__name__}")
