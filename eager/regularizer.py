"""Weight decay as a term of the gradient: ``L1Decay`` and ``L2Decay``."""

from __future__ import annotations

import numpy as np

from ..executor.values import Array

__all__ = ["L1Decay", "L2Decay", "WeightDecayRegularizer"]


class WeightDecayRegularizer:
    """Base of the regularizers; ``coeff`` is their strength."""

    def __init__(self, coeff: float = 0.0) -> None:
        self._coeff = float(coeff)

    @property
    def coeff(self) -> float:
        """The strength."""
        return self._coeff

    def term(self, parameter: Array) -> Array:
        """What is added to the gradient."""
        raise NotImplementedError


class L2Decay(WeightDecayRegularizer):
    """Adds ``coeff * parameter``."""

    def term(self, parameter: Array) -> Array:
        term: Array = parameter * parameter.dtype.type(self._coeff)
        return term

    def __str__(self) -> str:
        return f"L2Decay, coeff={self._coeff:f}"


class L1Decay(WeightDecayRegularizer):
    """Adds ``coeff * sign(parameter)``."""

    def term(self, parameter: Array) -> Array:
        term: Array = np.sign(parameter) * parameter.dtype.type(self._coeff)
        return term

    def __str__(self) -> str:
        return f"L1Decay, coeff={self._coeff:f}"
