"""The RNN-transducer loss with its gradient.

The lattice of a sequence has a node for every (time, labels emitted so far); a blank leads on in time, a label
to the next one. Nodes with the same sum of both depend only on those with the sum before, so that the lattice
is walked by these diagonals, for the whole batch at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...ir.registry import operator
from ..values import Array
from .ctc import log_sum

__all__ = ["warprnnt"]

_ALL = frozenset({"loss", "warprnntgrad"})


def _by_diagonal(values: Array) -> Array:
    """``[diagonals, batch, labels]`` of ``[batch, time, labels]``; -inf where a diagonal leaves the lattice."""
    batch, steps, width = values.shape
    out = np.full((steps + width - 1, batch, width), -np.inf)
    for place in range(width):
        out[place : place + steps, :, place] = values[:, :, place].T
    return out


def _by_time(diagonals: Array, steps: int) -> Array:
    """The inverse of :func:`_by_diagonal`."""
    width = diagonals.shape[2]
    return np.stack([diagonals[p : p + steps, :, p].T for p in range(width)], axis=2)


def _next_label(values: Array) -> Array:
    """Values of the next label's node; no path beyond the last."""
    out = np.full_like(values, -np.inf)
    out[..., :-1] = values[..., 1:]
    return out


@dataclass(frozen=True, slots=True)
class _Lattice:
    """Log-probabilities along the diagonals: of a blank, of the next label; and where each sequence ends."""

    blank: Array
    label: Array
    last: Array

    def forward(self) -> Array:
        """Log-probability of all paths up to each node."""
        alpha = np.full_like(self.blank, -np.inf)
        alpha[0, :, 0] = 0
        for at in range(1, len(alpha)):
            emitted = alpha[at - 1] + self.label[at - 1]
            came = np.full_like(emitted, -np.inf)
            came[:, 1:] = emitted[:, :-1]
            alpha[at] = log_sum(alpha[at - 1] + self.blank[at - 1], came)
        return alpha

    def backward(self) -> Array:
        """Log-probability of all paths from each node to the end, its blank there included."""
        beta = np.full_like(self.blank, -np.inf)
        for at in range(len(beta) - 1, -1, -1):
            if at + 1 < len(beta):
                ahead = beta[at + 1]
                beta[at] = log_sum(self.blank[at] + ahead, self.label[at] + _next_label(ahead))
            beta[at] = np.where(self.last[at], self.blank[at], beta[at])
        return beta


def _lattice(x: Array, labels: Array, times: Array, sizes: Array, blank: int) -> _Lattice:
    batch, steps, width, _ = x.shape
    alive = np.arange(steps)[:, None] < times[:, None, None]
    shown = alive & (np.arange(width) <= sizes[:, None, None])
    blanks = np.where(shown, x[..., blank], -np.inf)
    named = np.full((batch, steps, width), -np.inf)
    named[..., :-1] = np.take_along_axis(x[:, :, :-1], labels[:, None, :, None], axis=3)[..., 0]
    named = np.where(alive & (np.arange(width) < sizes[:, None, None]), named, -np.inf)
    last = np.zeros((steps + width - 1, batch, width), bool)
    last[times - 1 + sizes, np.arange(batch), sizes] = True
    return _Lattice(_by_diagonal(blanks), _by_diagonal(named), last)


def _check(x: Array, labels: Array, times: Array, sizes: Array, blank: int) -> None:
    batch, steps, width, classes = x.shape
    if labels.shape != (batch, width - 1):
        raise ValueError(f"label must have shape {[batch, width - 1]}, it has {list(labels.shape)}")
    if times.size != batch or (times < 1).any() or (times > steps).any():
        raise ValueError(f"input_lengths must be {batch} numbers in [1, {steps}], found {times.tolist()}")
    if sizes.size != batch or (sizes < 0).any() or (sizes >= width).any():
        raise ValueError(f"label_lengths must be {batch} numbers in [0, {width - 1}], found {sizes.tolist()}")
    if not 0 <= blank < classes or (labels.size and not 0 <= labels.min() <= labels.max() < classes):
        raise ValueError(f"blank and label must lie in [0, {classes}), the classes of input")


@operator("warprnnt", inputs="input label input_lengths label_lengths", outputs="loss warprnntgrad")
def warprnnt(
    x: Array,
    label: Array,
    input_lengths: Array,
    label_lengths: Array,
    *,
    blank: int = 0,
    fastemit_lambda: float = 0.0,
    want: frozenset[str] = _ALL,
) -> tuple[Array, Array | None]:
    """The loss ``[batch]`` of log-probabilities ``[batch, time, labels + 1, classes]``, and its gradient.

    ``fastemit_lambda`` scales the gradient of labels up by ``1 + lambda`` and leaves the loss alone.
    """
    labels = np.asarray(label, np.int64)
    times, sizes = (np.asarray(each, np.int64).reshape(-1) for each in (input_lengths, label_lengths))
    _check(x, labels, times, sizes, blank)
    lattice = _lattice(x.astype(np.float64, copy=False), labels, times, sizes, blank)
    beta = lattice.backward()
    total = beta[0, :, 0]
    loss = (-total).astype(x.dtype)
    if "warprnntgrad" not in want:
        return loss, None
    grad = _grad(lattice, beta, x.shape, labels, blank, 1.0 + fastemit_lambda)
    return loss, grad.astype(x.dtype)


def _grad(
    lattice: _Lattice, beta: Array, shape: tuple[int, ...], labels: Array, blank: int, label_factor: float
) -> Array:
    """The probability that a path takes each edge, negative, where the edge's log-probability stands."""
    _, steps, width, _ = shape
    ahead = np.full_like(beta, -np.inf)
    ahead[:-1] = beta[1:]
    base = lattice.forward() - beta[0, :, 0, None]
    after_blank = np.where(lattice.last, 0, ahead)
    by_blank = _by_time(np.exp(base + lattice.blank + after_blank), steps)
    by_label = _by_time(np.exp(base + lattice.label + _next_label(ahead)), steps)
    grad = np.zeros(shape)
    grad[..., blank] = -by_blank
    where = np.broadcast_to(labels[:, None, :, None], (*by_label.shape[:2], width - 1, 1))
    held = np.take_along_axis(grad[:, :, :-1], where, axis=3)
    np.put_along_axis(grad[:, :, :-1], where, held - label_factor * by_label[:, :, :-1, None], axis=3)
    return grad


@warprnnt.gradient(takes="input~ input_lengths warprnntgrad loss@GRAD", gives="input@GRAD")
def warprnnt_grad(x: Any, input_lengths: Array, made: Array, d_loss: Array) -> Array:
    """The gradient made forward, times that of the loss."""
    return made * d_loss.reshape(-1, 1, 1, 1)
