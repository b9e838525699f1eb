"""Gradient clipping: by value, by norm, by the norm of all gradients together."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...executor.values import Array
from ..tensor import borrow

__all__ = ["ClipGradBase", "ClipGradByGlobalNorm", "ClipGradByNorm", "ClipGradByValue"]

Pairs = Sequence[tuple[Any, Array]]
"""Parameters with their gradients as arrays."""


class ClipGradBase:
    """Base of the clips: ``clip(pairs)`` gives the gradients to use, and changes none."""

    def clip(self, pairs: Pairs) -> list[tuple[Any, Array]]:
        """The pairs with clipped gradients. Parameters whose ``need_clip`` is False keep theirs."""
        raise NotImplementedError

    def __call__(self, params_grads: Sequence[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
        """Paddle's form: pairs of tensors in, pairs of tensors out."""
        pairs = [(parameter, grad._array) for parameter, grad in params_grads if grad is not None]
        return [(parameter, borrow(np.asarray(grad))) for parameter, grad in self.clip(pairs)]


class ClipGradByValue(ClipGradBase):
    """Every element moved into ``[min, max]``; ``min`` is ``-max`` by default."""

    def __init__(self, max: float, min: float | None = None) -> None:
        self.max = float(max)
        self.min = -self.max if min is None else float(min)

    def clip(self, pairs: Pairs) -> list[tuple[Any, Array]]:
        return [(p, g.clip(g.dtype.type(self.min), g.dtype.type(self.max)) if _clips(p) else g) for p, g in pairs]

    def __str__(self) -> str:
        return f"Clip Gradient By Value, min = {self.min:f}, max={self.max:f}"


class ClipGradByNorm(ClipGradBase):
    """Each gradient scaled down to the norm ``clip_norm`` when its own is larger."""

    def __init__(self, clip_norm: float) -> None:
        self.clip_norm = float(clip_norm)

    def clip(self, pairs: Pairs) -> list[tuple[Any, Array]]:
        return [(p, self._clipped(g) if _clips(p) else g) for p, g in pairs]

    def _clipped(self, grad: Array) -> Array:
        norm = math.sqrt(_square_sum(grad))
        return grad if norm <= self.clip_norm else grad * grad.dtype.type(self.clip_norm / norm)

    def __str__(self) -> str:
        return f"Gradient Clip By Norm, clip_norm={self.clip_norm:f}"


class ClipGradByGlobalNorm(ClipGradBase):
    """All gradients scaled by one factor so that their norm together is at most ``clip_norm``."""

    def __init__(self, clip_norm: float, group_name: str = "default_group", auto_skip_clip: bool = False) -> None:
        self.clip_norm = float(clip_norm)
        self.group_name = group_name
        self.auto_skip_clip = auto_skip_clip

    def clip(self, pairs: Pairs) -> list[tuple[Any, Array]]:
        clipped = [g for p, g in pairs if _clips(p)]
        if not clipped:
            return list(pairs)
        norm = math.sqrt(math.fsum(_square_sum(g) for g in clipped))
        if norm <= self.clip_norm and (self.auto_skip_clip or norm < self.clip_norm):
            return list(pairs)
        factor = self.clip_norm / max(norm, self.clip_norm)
        return [(p, g * g.dtype.type(factor) if _clips(p) else g) for p, g in pairs]

    def __str__(self) -> str:
        return f"Gradient Clip By GlobalNorm, global_norm={self.clip_norm:f}"


def _clips(parameter: Any) -> bool:
    return bool(getattr(parameter, "need_clip", True))


def _square_sum(grad: Array) -> float:
    flat = grad.astype(np.float64, copy=False).ravel() if grad.dtype.itemsize < 4 else grad.ravel()
    return float(np.dot(flat, flat))
