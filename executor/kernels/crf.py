"""Linear-chain conditional random fields: likelihood with gradient, and the best path (Viterbi).

Sequences are laid out padded, ``[batch, time, tags]``, and all of a batch advance together. The Transition of
the 1.x operators has the weights of starting tags in its first row and of ending tags in its second.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...ir.registry import operator
from ..values import Array, array_of
from .common import refuse_half
from .sequence_layout import Index, lengths_of, lod_of, offsets_of, pad_rows, ranges, same_lod, sequence_ids

__all__ = ["crf_decoding", "linear_chain_crf", "viterbi", "viterbi_decode"]


@dataclass(frozen=True, slots=True)
class _Batch:
    """How values of a batch become padded ones and back.

    Attributes:
        lengths: of the sequences.
        like: the value whose rows are laid out: its LoD, or that it is padded already, decides.
        width: the padded length.
    """

    lengths: Index
    like: Any
    width: int

    @classmethod
    def of(cls, rows: Any, length: Any, slot: str) -> _Batch:
        """From a ragged batch, or a padded one with its lengths."""
        if length is None:
            lengths = lengths_of(offsets_of(rows, slot))
            return cls(lengths, rows, int(lengths.max(initial=0)))
        lengths = np.asarray(array_of(length), np.int64).reshape(-1)
        shape = array_of(rows).shape
        if lengths.size != shape[0] or (lengths.size and not 0 <= lengths.min() <= lengths.max() <= shape[1]):
            raise ValueError(f"Length must give {shape[0]} lengths in [0, {shape[1]}], those of the padded {slot}")
        return cls(lengths, None, shape[1])

    @property
    def alive(self) -> Array:
        """``[batch, time]``: where a sequence has a row."""
        return np.arange(self.width) < self.lengths[:, None]

    def pad(self, value: Any) -> Array:
        """``[batch, time, ...]`` from a value laid out as the batch is; zero behind the sequences."""
        array = array_of(value)
        if self.like is not None:
            return pad_rows(array, offsets_of(self.like, "the input"), self.width)
        shown = self.alive.reshape(*array.shape[:2], *(1,) * (array.ndim - 2))
        return np.where(shown, array, np.zeros((), array.dtype))

    def labels(self, value: Any, tags: int) -> Index:
        """Padded int labels ``[batch, time]``, checked."""
        array = np.asarray(array_of(value), np.int64)
        flat = array.reshape(-1) if self.like is not None else array.reshape(len(self.lengths), self.width)
        labels = self.pad(flat) if self.like is None else pad_rows(flat, offsets_of(self.like, "Label"), self.width)
        if labels.size and not 0 <= labels.min() <= labels.max() < tags:
            raise ValueError(f"Label must lie in [0, {tags}), the number of tags")
        return labels

    def unpad(self, padded: Array) -> Any:
        """Back to the layout of the batch."""
        if self.like is None:
            return padded
        rows = padded[sequence_ids(self.lengths), ranges(np.zeros_like(self.lengths), self.lengths)]
        return same_lod(rows, self.like)


def _forward(weights: Array, start: Array, steps: Array, alive: Array) -> tuple[Array, Array]:
    """Forward variables, each step's scaled to sum 1, and the logarithm of what they were divided by.

    ``weights`` ``[batch, time, tags]`` and ``steps`` ``[tags, tags]`` are exponentials. A step that a sequence
    lacks holds the variables.
    """
    batch, width, _ = weights.shape
    zero, one = weights.dtype.type(0), weights.dtype.type(1)
    alpha = np.zeros_like(weights)
    logs = np.zeros(batch, weights.dtype)
    now = np.ones_like(weights[:, 0]) if width else weights.sum(axis=1)
    for step in range(width):
        raw = (now @ steps if step else start) * weights[:, step]
        total = raw.sum(axis=1, keepdims=True)
        here = alive[:, step, None]
        now = np.where(here, raw / np.where(here, total, one), now)
        logs += np.where(alive[:, step], np.log(np.where(alive[:, step], total[:, 0], one)), zero)
        alpha[:, step] = np.where(here, now, zero)
    return alpha, logs


def _path_score(emission: Array, transition: Array, labels: Index, batch: _Batch) -> Array:
    """The score of the labelled path of every sequence."""
    alive = batch.alive
    score: Array = np.where(alive, np.take_along_axis(emission, labels[..., None], axis=2)[..., 0], 0).sum(axis=1)
    filled = np.flatnonzero(batch.lengths)
    score[filled] += transition[0, labels[filled, 0]]
    score[filled] += transition[1, labels[filled, batch.lengths[filled] - 1]]
    moves = transition[2 + labels[:, :-1], labels[:, 1:]]
    score += np.where(alive[:, 1:], moves, 0).sum(axis=1)
    return score


def _check_transition(transition: Array, tags: int) -> None:
    if transition.shape != (tags + 2, tags):
        raise ValueError(f"Transition must have shape {[tags + 2, tags]}, it has {list(transition.shape)}")


@operator(
    "linear_chain_crf",
    inputs="Emission Transition Label Length?",
    outputs="Alpha EmissionExps TransitionExps LogLikelihood",
    lod="through",
)
def linear_chain_crf(emission: Any, transition: Any, label: Any, length: Any) -> tuple[Any, Any, Array, Array]:
    """The negative log-likelihood of the labels, ``[sequences, 1]`` (Paddle calls it LogLikelihood).

    Alpha holds the forward variables, each row scaled to sum 1; the exponentials are of emissions less their
    largest, and of transitions.
    """
    moves = array_of(transition)
    refuse_half(moves)
    batch = _Batch.of(emission, length, "Emission")
    scores = batch.pad(emission)
    tags = scores.shape[2]
    _check_transition(moves, tags)
    peaks = scores.max(axis=2, keepdims=True) if scores.size else scores[..., :1]
    weights, steps = np.exp(scores - peaks), np.exp(moves)
    alpha, logs = _forward(weights, steps[0], steps[2:], batch.alive)
    filled = np.flatnonzero(batch.lengths)
    last = alpha[filled, batch.lengths[filled] - 1]
    total = logs + np.where(batch.alive, peaks[..., 0], peaks.dtype.type(0)).sum(axis=1)
    total[filled] += np.log((last * steps[1]).sum(axis=1))
    loss = total - _path_score(scores, moves, batch.labels(label, tags), batch)
    loss[batch.lengths == 0] = 0
    return batch.unpad(alpha), batch.unpad(weights), steps, loss[:, None]


@linear_chain_crf.gradient(
    takes="Emission~ Transition~ Label Length? Alpha EmissionExps TransitionExps LogLikelihood@GRAD",
    gives="Emission@GRAD Transition@GRAD",
    lod="through",
)
def linear_chain_crf_grad(
    emission: Any, transition: Any, label: Any, length: Any, alpha: Any, weights: Any, steps: Any, d_loss: Any
) -> tuple[Any, Array]:
    """Expected minus observed uses of every emission and transition."""
    batch = _Batch.of(alpha, length, "Alpha")
    forward, weight, move = batch.pad(alpha), batch.pad(weights), array_of(steps)
    tags = forward.shape[2]
    labels = batch.labels(label, tags)
    grad = array_of(d_loss).reshape(-1)
    alive = batch.alive
    backward = _backward(weight, move, batch)
    marginal = forward * backward
    marginal /= np.where(alive, marginal.sum(axis=2), 1)[..., None]
    observed = np.zeros_like(marginal)
    np.put_along_axis(observed, labels[..., None], 1, axis=2)
    d_emission = (marginal - observed) * np.where(alive, grad[:, None], 0)[..., None]
    d_transition = np.zeros_like(move)
    filled = np.flatnonzero(batch.lengths)
    d_transition[0] = d_emission[filled, 0].sum(axis=0)
    d_transition[1] = d_emission[filled, batch.lengths[filled] - 1].sum(axis=0)
    ahead = weight[:, 1:] * backward[:, 1:]
    pairs = np.einsum("bti,ij,btj->bt", forward[:, :-1], move[2:], ahead)
    share = np.where(alive[:, 1:], grad[:, None] / np.where(alive[:, 1:], pairs, 1), 0)
    d_transition[2:] = np.einsum("bti,btj->ij", forward[:, :-1] * share[..., None], ahead) * move[2:]
    before, after = np.nonzero(alive[:, 1:])
    np.subtract.at(d_transition, (2 + labels[before, after], labels[before, after + 1]), grad[before])
    return batch.unpad(d_emission), d_transition


def _backward(weights: Array, steps: Array, batch: _Batch) -> Array:
    """Backward variables, each step's scaled to sum 1; zero behind the sequences."""
    alive = batch.alive
    beta = np.zeros_like(weights)
    now = np.zeros_like(steps[1]) + np.zeros_like(weights[:, 0]) if batch.width else weights.sum(axis=1)
    for step in range(batch.width - 1, -1, -1):
        ends = (batch.lengths == step + 1)[:, None]
        raw = steps[1] if step + 1 == batch.width else (weights[:, step + 1] * now) @ steps[2:].T
        now = np.where(ends, steps[1], raw)
        total = now.sum(axis=1, keepdims=True)
        now = np.where(alive[:, step, None], now / np.where(total > 0, total, 1), 0)
        beta[:, step] = now
    return beta


def viterbi(scores: Array, start: Array, stop: Array, moves: Array, lengths: Index) -> tuple[Array, Index]:
    """The score of the best path of every sequence, and the path ``[batch, time]`` (0 behind the end).

    Of equally good tags the first is taken.
    """
    batch, width, tags = scores.shape
    path = np.zeros((batch, width), np.int64)
    if not width:
        return np.zeros(batch, scores.dtype), path
    alive = np.arange(width) < lengths[:, None]
    now = scores[:, 0] + start
    origins = np.empty((width, batch, tags), np.int64)
    for step in range(1, width):
        options = now[:, :, None] + moves
        origin = options.argmax(axis=1)
        best = np.take_along_axis(options, origin[:, None], axis=1)[:, 0] + scores[:, step]
        here = alive[:, step, None]
        origins[step] = np.where(here, origin, np.arange(tags))
        now = np.where(here, best, now)
    now = now + np.where(lengths[:, None] > 0, stop, np.zeros((), stop.dtype))
    tag = now.argmax(axis=1)
    rows = np.arange(batch)
    for step in range(width - 1, -1, -1):
        path[:, step] = tag
        if step:
            tag = origins[step, rows, tag]
    path[~alive] = 0
    return now.max(axis=1), path


@operator(
    "crf_decoding",
    inputs="Emission Transition Label? Length?",
    outputs="ViterbiPath",
    lod="through",
    gradient=None,
)
def crf_decoding(emission: Any, transition: Any, label: Any, length: Any) -> Any:
    """The best tags (int64), or with Label a 1 where they agree with it."""
    moves = array_of(transition)
    batch = _Batch.of(emission, length, "Emission")
    scores = batch.pad(emission)
    _check_transition(moves, scores.shape[2])
    _, path = viterbi(scores, moves[0], moves[1], moves[2:], batch.lengths)
    if label is not None:
        path = np.where(batch.alive, path == batch.labels(label, scores.shape[2]), 0).astype(np.int64)
    return batch.unpad(path[..., None] if lod_of(emission) and length is None else path)


@operator("viterbi_decode", inputs="Input Transition Length", outputs="Scores Path", gradient=None)
def viterbi_decode(
    x: Array, transition: Array, length: Array, *, include_bos_eos_tag: bool = True
) -> tuple[Array, Array]:
    """Scores and best tags up to the longest length.

    With ``include_bos_eos_tag`` the last row of Transition holds the weights of starting tags, and the row
    above it those of ending tags.
    """
    lengths = np.asarray(length, np.int64).reshape(-1)
    width = int(lengths.max(initial=0))
    nothing = np.zeros(transition.shape[0], transition.dtype)
    start = transition[-1] if include_bos_eos_tag else nothing
    stop = transition[-2] if include_bos_eos_tag else nothing
    scores, path = viterbi(x[:, :width], start, stop, transition, lengths)
    return scores, path
