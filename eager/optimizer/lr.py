"""Learning-rate schedules: the rate as a function of ``last_epoch``, which counts the calls of ``step()``."""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...errors import InputError

__all__ = [
    "CosineAnnealingDecay",
    "CosineAnnealingWarmRestarts",
    "CyclicLR",
    "ExponentialDecay",
    "InverseTimeDecay",
    "LRScheduler",
    "LambdaDecay",
    "LinearLR",
    "LinearWarmup",
    "MultiStepDecay",
    "MultiplicativeDecay",
    "NaturalExpDecay",
    "NoamDecay",
    "OneCycleLR",
    "PiecewiseDecay",
    "PolynomialDecay",
    "ReduceOnPlateau",
    "StepDecay",
]


class LRScheduler:
    """Base of the schedules; a subclass gives :meth:`get_lr`.

    Args:
        learning_rate: the rate to start from.
        last_epoch: the epoch that was last; the constructor takes one step.
        verbose: whether every step prints the rate.

    Attributes:
        base_lr: the rate to start from.
        last_lr: the current rate; also what calling the schedule returns.
        last_epoch: the number of steps so far.
    """

    def __init__(self, learning_rate: float = 0.1, last_epoch: int = -1, verbose: bool = False) -> None:
        if not isinstance(learning_rate, (float, int)):
            raise TypeError(f"the learning rate must be a number, got {type(learning_rate).__name__}")
        if learning_rate < 0:
            raise InputError(f"the learning rate must be at least 0, got {learning_rate}")
        self.base_lr = float(learning_rate)
        self.last_lr = float(learning_rate)
        self.last_epoch = last_epoch
        self.verbose = verbose
        self.step()

    def __call__(self) -> float:
        """The current rate."""
        return self.last_lr

    def get_lr(self) -> float:
        """The rate at ``last_epoch``."""
        raise NotImplementedError

    def step(self, epoch: int | None = None) -> None:
        """Go on to the next epoch, or to a given one."""
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        self.last_lr = self.get_lr()
        if self.verbose:
            print(f"Epoch {self.last_epoch}: {type(self).__name__} set learning rate to {self.last_lr}.")

    def state_keys(self) -> tuple[str, ...]:
        """The attributes that make up the state."""
        return ("last_epoch", "last_lr")

    def state_dict(self) -> dict[str, Any]:
        """The state, for saving."""
        return {key: getattr(self, key) for key in self.state_keys()}

    def set_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on from a saved state.

        Raises:
            InputError: a part of it is missing.
        """
        for key in self.state_keys():
            if key not in state_dict:
                raise InputError(f"Please check whether state_dict is correct for optimizer. Can't find [ {key} ]")
            setattr(self, key, state_dict[key])

    set_dict = set_state_dict


class NoamDecay(LRScheduler):
    """``learning_rate * d_model^-0.5 * min(epoch^-0.5, epoch * warmup_steps^-1.5)`` (Vaswani et al., 2017)."""

    def __init__(
        self,
        d_model: int,
        warmup_steps: int,
        learning_rate: float = 1.0,
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        self.d_model, self.warmup_steps = d_model, warmup_steps
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        rising = self.warmup_steps**-1.5 * self.last_epoch
        falling = 1.0 if self.last_epoch == 0 else self.last_epoch**-0.5
        return float(self.base_lr * self.d_model**-0.5 * min(falling, rising))


class PiecewiseDecay(LRScheduler):
    """``values[i]`` until epoch ``boundaries[i]``."""

    def __init__(
        self, boundaries: Sequence[int], values: Sequence[float], last_epoch: int = -1, verbose: bool = False
    ) -> None:
        if len(values) != len(boundaries) + 1:
            raise InputError(f"{len(boundaries)} boundaries need {len(boundaries) + 1} values, got {len(values)}")
        self.boundaries, self.values = list(boundaries), list(values)
        super().__init__(self.values[0], last_epoch, verbose)

    def get_lr(self) -> float:
        return self.values[bisect.bisect_right(self.boundaries, self.last_epoch)]


class NaturalExpDecay(LRScheduler):
    """``learning_rate * exp(-gamma * epoch)``."""

    def __init__(self, learning_rate: float, gamma: float, last_epoch: int = -1, verbose: bool = False) -> None:
        self.gamma = gamma
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        return self.base_lr * math.exp(-self.gamma * self.last_epoch)


class InverseTimeDecay(NaturalExpDecay):
    """``learning_rate / (1 + gamma * epoch)``."""

    def get_lr(self) -> float:
        return self.base_lr / (1 + self.gamma * self.last_epoch)


class ExponentialDecay(NaturalExpDecay):
    """``learning_rate * gamma^epoch``."""

    def get_lr(self) -> float:
        return float(self.base_lr * self.gamma**self.last_epoch)


class PolynomialDecay(LRScheduler):
    """From ``learning_rate`` to ``end_lr`` within ``decay_steps``, by a power; with ``cycle`` over and over."""

    def __init__(
        self,
        learning_rate: float,
        decay_steps: int,
        end_lr: float = 0.0001,
        power: float = 1.0,
        cycle: bool = False,
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        if decay_steps <= 0:
            raise InputError(f"decay_steps must be a positive number, got {decay_steps}")
        self.decay_steps, self.end_lr, self.power, self.cycle = decay_steps, end_lr, power, cycle
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        epoch, steps = self.last_epoch, self.decay_steps
        if self.cycle:
            steps *= max(1, math.ceil(epoch / steps))
        else:
            epoch = min(epoch, steps)
        return float((self.base_lr - self.end_lr) * (1 - epoch / steps) ** self.power + self.end_lr)


class LinearWarmup(LRScheduler):
    """From ``start_lr`` to ``end_lr`` within ``warmup_steps``, then a rate or another schedule."""

    def __init__(
        self,
        learning_rate: float | LRScheduler,
        warmup_steps: int,
        start_lr: float,
        end_lr: float,
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        if end_lr <= start_lr:
            raise InputError(f"end_lr {end_lr} must be greater than start_lr {start_lr}")
        if not isinstance(learning_rate, (float, int, LRScheduler)):
            raise TypeError(f"the learning rate must be a number or a schedule, got {type(learning_rate).__name__}")
        self.learning_rate = learning_rate
        self.warmup_steps, self.start_lr, self.end_lr = warmup_steps, start_lr, end_lr
        super().__init__(start_lr, last_epoch, verbose)

    def get_lr(self) -> float:
        if self.last_epoch < self.warmup_steps:
            return (self.end_lr - self.start_lr) * self.last_epoch / self.warmup_steps + self.start_lr
        if isinstance(self.learning_rate, LRScheduler):
            self.learning_rate.step(self.last_epoch - self.warmup_steps)
            return self.learning_rate()
        return float(self.learning_rate)

    def state_dict(self) -> dict[str, Any]:
        state = super().state_dict()
        if isinstance(self.learning_rate, LRScheduler):
            state["LinearWarmup_LR"] = self.learning_rate.state_dict()
        return state

    def set_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        super().set_state_dict(state_dict)
        if isinstance(self.learning_rate, LRScheduler) and "LinearWarmup_LR" in state_dict:
            self.learning_rate.set_state_dict(state_dict["LinearWarmup_LR"])


class MultiStepDecay(LRScheduler):
    """``learning_rate * gamma^n`` after n of the milestones."""

    def __init__(
        self,
        learning_rate: float,
        milestones: Sequence[int],
        gamma: float = 0.1,
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        if list(milestones) != sorted(set(milestones)):
            raise InputError(f"milestones must rise, got {list(milestones)}")
        if gamma >= 1.0:
            raise InputError(f"gamma must be below 1, got {gamma}")
        self.milestones, self.gamma = list(milestones), gamma
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        return float(self.base_lr * self.gamma ** bisect.bisect_right(self.milestones, self.last_epoch))


class StepDecay(LRScheduler):
    """``learning_rate * gamma^(epoch // step_size)``."""

    def __init__(
        self,
        learning_rate: float,
        step_size: int,
        gamma: float = 0.1,
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        if not isinstance(step_size, int) or step_size <= 0:
            raise TypeError(f"step_size must be a positive integer, got {step_size!r}")
        if gamma >= 1.0:
            raise InputError(f"gamma must be below 1, got {gamma}")
        self.step_size, self.gamma = step_size, gamma
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        return float(self.base_lr * self.gamma ** (self.last_epoch // self.step_size))


class LambdaDecay(LRScheduler):
    """``learning_rate * lr_lambda(epoch)``."""

    def __init__(
        self, learning_rate: float, lr_lambda: Callable[[int], float], last_epoch: int = -1, verbose: bool = False
    ) -> None:
        if not callable(lr_lambda):
            raise TypeError(f"lr_lambda must be a function, got {type(lr_lambda).__name__}")
        self.lr_lambda = lr_lambda
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        return self.base_lr * self.lr_lambda(self.last_epoch)


class MultiplicativeDecay(LambdaDecay):
    """``learning_rate`` times ``lr_lambda(1) ... lr_lambda(epoch)``."""

    def get_lr(self) -> float:
        rate = self.base_lr
        for epoch in range(1, self.last_epoch + 1):
            rate *= self.lr_lambda(epoch)
        return rate


class LinearLR(LRScheduler):
    """``learning_rate`` times a factor from ``start_factor`` to ``end_factor`` within ``total_steps``."""

    def __init__(
        self,
        learning_rate: float,
        total_steps: int,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        for name, factor in (("start_factor", start_factor), ("end_factor", end_factor)):
            if not 0 <= factor <= 1 or (name == "start_factor" and factor == 0):
                raise InputError(f"{name} must be greater than 0 and at most 1, got {factor}")
        if total_steps <= 0:
            raise InputError(f"total_steps must be greater than 0, got {total_steps}")
        self.total_steps, self.start_factor, self.end_factor = total_steps, start_factor, end_factor
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        share = min(self.last_epoch, self.total_steps) / self.total_steps
        return self.base_lr * (self.start_factor + (self.end_factor - self.start_factor) * share)


class CosineAnnealingDecay(LRScheduler):
    """Half a cosine from ``learning_rate`` to ``eta_min`` in ``T_max`` epochs, and back (SGDR without restarts)."""

    def __init__(
        self, learning_rate: float, T_max: int, eta_min: float = 0, last_epoch: int = -1, verbose: bool = False
    ) -> None:
        if T_max <= 0:
            raise InputError(f"T_max must be greater than 0, got {T_max}")
        self.T_max, self.eta_min = T_max, float(eta_min)
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        return _cosine(self.base_lr, self.eta_min, self.last_epoch / self.T_max)


def _cosine(start: float, end: float, share: float) -> float:
    """Half a cosine from ``start`` at share 0 to ``end`` at share 1."""
    return end + (start - end) * (1 + math.cos(math.pi * share)) / 2


class CosineAnnealingWarmRestarts(LRScheduler):
    """Half a cosine in ``T_0`` epochs, then again from the top, each ``T_mult`` times as long (SGDR)."""

    def __init__(
        self,
        learning_rate: float,
        T_0: int,
        T_mult: int = 1,
        eta_min: float = 0,
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        if T_0 <= 0 or T_mult < 1:
            raise InputError(f"T_0 must be greater than 0 and T_mult at least 1, got {T_0} and {T_mult}")
        self.T_0, self.T_mult, self.eta_min = T_0, T_mult, eta_min
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        since, length = self.last_epoch, self.T_0
        if self.T_mult == 1:
            since %= length
        while since >= length:
            since, length = since - length, length * self.T_mult
        return _cosine(self.base_lr, self.eta_min, since / length)


class CyclicLR(LRScheduler):
    """Up and down between two rates (Smith, 2017); the height of the triangles may shrink.

    ``scale_fn`` of the cycle or of the iterations (``scale_mode``) replaces what ``mode`` says of the height.
    """

    def __init__(
        self,
        base_learning_rate: float,
        max_learning_rate: float,
        step_size_up: int,
        step_size_down: int | None = None,
        mode: str = "triangular",
        exp_gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        heights: dict[str, tuple[Callable[[float], float], str]] = {
            "triangular": (lambda cycle: 1.0, "cycle"),
            "triangular2": (lambda cycle: 1 / 2.0 ** (cycle - 1), "cycle"),
            "exp_range": (lambda iteration: exp_gamma**iteration, "iterations"),
        }
        if scale_fn is None and mode not in heights:
            raise InputError(f"mode is one of {', '.join(heights)}; not {mode!r}")
        if scale_mode not in ("cycle", "iterations"):
            raise InputError(f"scale_mode is cycle or iterations, not {scale_mode!r}")
        self.scale_fn, self.scale_mode = heights[mode] if scale_fn is None else (scale_fn, scale_mode)
        self.cycle_size = float(step_size_up + (step_size_up if step_size_down is None else step_size_down))
        self.step_up_pct = step_size_up / self.cycle_size
        self.max_lr = float(max_learning_rate)
        super().__init__(base_learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        cycle = 1 + self.last_epoch // self.cycle_size
        place = 1.0 + self.last_epoch / self.cycle_size - cycle
        share = place / self.step_up_pct if place <= self.step_up_pct else (1 - place) / (1 - self.step_up_pct)
        height = self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        return self.base_lr + (self.max_lr - self.base_lr) * share * height


class OneCycleLR(LRScheduler):
    """One rise and fall in ``total_steps`` (Smith and Topin, 2018); with ``three_phase`` down to the start first."""

    def __init__(
        self,
        max_learning_rate: float,
        total_steps: int,
        divide_factor: float = 25.0,
        end_learning_rate: float = 0.0001,
        phase_pct: float = 0.3,
        anneal_strategy: str = "cos",
        three_phase: bool = False,
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        if anneal_strategy not in ("cos", "linear"):
            raise InputError(f"anneal_strategy is cos or linear, not {anneal_strategy!r}")
        if not 0 <= phase_pct <= 1:
            raise InputError(f"phase_pct must lie in [0, 1], got {phase_pct}")
        start, rise = max_learning_rate / divide_factor, phase_pct * total_steps - 1
        self.total_steps, self.anneal_strategy = total_steps, anneal_strategy
        if three_phase:
            if phase_pct >= 0.5:
                raise InputError(f"phase_pct must be below 0.5 with three phases, got {phase_pct}")
            self._ends = [0.0, rise, 2 * phase_pct * total_steps - 2, total_steps - 1]
            self._rates = [start, max_learning_rate, start, end_learning_rate]
        else:
            self._ends = [0.0, rise, total_steps - 1]
            self._rates = [start, max_learning_rate, end_learning_rate]
        super().__init__(start, last_epoch, verbose)

    def get_lr(self) -> float:
        step = self.last_epoch
        if step > self.total_steps:
            raise InputError(f"Tried to step {step} times. However the number of total steps is {self.total_steps}")
        phase = next((i for i, end in enumerate(self._ends[1:]) if step <= end), len(self._ends) - 2)
        share = (step - self._ends[phase]) / (self._ends[phase + 1] - self._ends[phase])
        start, end = self._rates[phase : phase + 2]
        return _cosine(start, end, share) if self.anneal_strategy == "cos" else start + (end - start) * share


class ReduceOnPlateau(LRScheduler):
    """The rate times ``factor`` when a metric has not improved for more than ``patience`` steps.

    ``step(metrics)`` takes the metric; ``threshold`` says what counts as better, ``cooldown`` how many steps are
    not counted after a reduction.
    """

    def __init__(
        self,
        learning_rate: float,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: float = 0,
        epsilon: float = 1e-8,
        verbose: bool = False,
    ) -> None:
        if mode not in ("min", "max") or threshold_mode not in ("rel", "abs"):
            raise InputError(f"mode is min or max, threshold_mode rel or abs; got {mode!r} and {threshold_mode!r}")
        if factor >= 1.0:
            raise InputError(f"factor must be below 1, got {factor}")
        self.mode, self.factor, self.patience = mode, factor, patience
        self.threshold, self.threshold_mode = threshold, threshold_mode
        self.cooldown, self.min_lr, self.epsilon, self.verbose = cooldown, min_lr, epsilon, verbose
        self.cooldown_counter, self.num_bad_epochs = 0, 0
        self.best: float | None = None
        self.base_lr = self.last_lr = float(learning_rate)
        self.last_epoch = 0

    def get_lr(self) -> float:
        return self.last_lr

    def state_keys(self) -> tuple[str, ...]:
        return ("cooldown_counter", "best", "num_bad_epochs", "last_epoch", "last_lr")

    def step(self, metrics: Any = None, epoch: int | None = None) -> None:  # type: ignore[override]
        """Take the metric of one epoch into account."""
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
            return
        current = float(metrics)
        if self.best is None or self._is_better(current, self.best):
            self.best, self.num_bad_epochs = current, 0
        else:
            self.num_bad_epochs += 1
        if self.num_bad_epochs > self.patience:
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
            lower = max(self.last_lr * self.factor, self.min_lr)
            if self.last_lr - lower > self.epsilon:
                self.last_lr = lower

    def _is_better(self, current: float, best: float) -> bool:
        step = abs(best) * self.threshold if self.threshold_mode == "rel" else self.threshold
        return current < best - step if self.mode == "min" else current > best + step
