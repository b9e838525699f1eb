"""Connectionist temporal classification: the loss with its gradient, and decoding of its best path."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...ir.registry import operator
from ..values import Array, LoDTensor, array_of
from .common import accumulate_dtype
from .sequence_layout import (
    Index,
    dress,
    lengths_of,
    offsets_of,
    pad_rows,
    ranges,
    same_lod,
    sequence_ids,
    to_offsets,
)

__all__ = ["ctc_align", "ctc_loss", "log_sum", "warpctc"]

_ALL = frozenset({"Loss", "WarpCTCGrad"})


@dataclass(frozen=True, slots=True)
class _Lattice:
    """The extended labels of a batch: a blank before, between and behind the labels.

    Attributes:
        symbols: ``[batch, states]`` class numbers.
        skips: ``[batch, states]``: whether a path may come from two states before.
        ends: ``[batch, states]``: the states in which a path may end.
        times: lengths of the inputs; ``labels`` those of the label sequences.
    """

    symbols: Index
    skips: Array
    ends: Array
    times: Index
    labels: Index

    @classmethod
    def of(cls, labels: Index, label_lengths: Index, times: Index, blank: int) -> _Lattice:
        """From padded labels ``[batch, longest]``."""
        batch, longest = labels.shape
        symbols = np.full((batch, 2 * longest + 1), blank, np.int64)
        symbols[:, 1::2] = labels
        skips = np.zeros(symbols.shape, bool)
        skips[:, 3::2] = labels[:, 1:] != labels[:, :-1]
        states = np.arange(symbols.shape[1])
        last = 2 * label_lengths[:, None]
        return cls(symbols, skips, (states == last) | (states == last - 1), times, label_lengths)


def log_sum(*parts: Array) -> Array:
    """``log(sum(exp(part)))``, where -inf stands for no path."""
    peak = np.maximum.reduce(parts)
    low = np.where(np.isneginf(peak), 0, peak)
    total = np.exp(parts[0] - low)
    for part in parts[1:]:
        total += np.exp(part - low)
    with np.errstate(divide="ignore"):
        out: Array = np.log(total)
    out += low
    return out


def _shifted(states: Array, by: int) -> Array:
    """The values of the state ``by`` before (behind, where negative); no path beyond the border."""
    out = np.full_like(states, -np.inf)
    if by > 0:
        out[:, by:] = states[:, :-by]
    else:
        out[:, :by] = states[:, -by:]
    return out


def _forward(emitted: Array, lattice: _Lattice) -> Array:
    """``[time, batch, states]``: log-probability of all paths up to each state, its emission included."""
    alpha = np.full_like(emitted, -np.inf)
    if not emitted.shape[0]:
        return alpha
    alpha[0, :, :2] = emitted[0, :, :2]
    skip = np.where(lattice.skips, 0, -np.inf)
    for step in range(1, emitted.shape[0]):
        before = alpha[step - 1]
        alpha[step] = log_sum(before, _shifted(before, 1), _shifted(before, 2) + skip) + emitted[step]
    return alpha


def _backward(emitted: Array, lattice: _Lattice) -> Array:
    """``[time, batch, states]``: log-probability of all paths from each state on, its emission excluded."""
    beta = np.full_like(emitted, -np.inf)
    end = np.where(lattice.ends, 0, -np.inf)
    skip = np.where(lattice.skips, 0, -np.inf)
    for step in range(emitted.shape[0] - 1, -1, -1):
        last = (lattice.times == step + 1)[:, None]
        if step + 1 == emitted.shape[0]:
            beta[step] = np.where(last, end, -np.inf)
            continue
        ahead = beta[step + 1] + emitted[step + 1]
        beta[step] = np.where(last, end, log_sum(ahead, _shifted(ahead, -1), _shifted(ahead + skip, -2)))
    return beta


def _softmax(logits: Array) -> tuple[Array, Array, Array]:
    """Exponentials less the largest, that largest, and their sums, ``[..., 1]`` each but the first."""
    peak = logits.max(axis=-1, keepdims=True)
    exps = logits - peak
    np.exp(exps, out=exps)
    return exps, peak, exps.sum(axis=-1, keepdims=True)


def _fitting(labels: Index, label_lengths: Index, times: Index) -> Array:
    """Which label sequences fit: equal neighbours need a blank between them."""
    inside = np.arange(1, max(labels.shape[1], 1)) < label_lengths[:, None]
    repeats = ((labels[:, 1:] == labels[:, :-1]) & inside).sum(axis=1)
    fits: Array = (label_lengths + repeats <= times) & (times > 0)
    return fits


def ctc_loss(
    logits: Array, labels: Index, times: Index, label_lengths: Index, blank: int, grad_wanted: bool
) -> tuple[Array, Array | None]:
    """The losses ``[batch]`` and their gradient in ``logits`` ``[time, batch, classes]``.

    Paths are summed in float64. A label sequence that does not fit its input has loss 0 and no gradient, as in
    Paddle.
    """
    lattice = _Lattice.of(labels, label_lengths, times, blank)
    exps, peak, sums = _softmax(logits)
    emitted = np.take_along_axis(logits, lattice.symbols[None], axis=2).astype(np.float64)
    emitted -= peak + np.log(sums)
    alpha = _forward(emitted, lattice)
    batch = np.arange(times.size)
    final = np.where(lattice.ends, alpha[times - 1, batch], -np.inf)
    total = log_sum(*final.T)
    fits = _fitting(labels, label_lengths, times)
    loss = np.where(fits, -total, 0)
    if not grad_wanted:
        return loss, None
    beta = _backward(emitted, lattice)
    with np.errstate(invalid="ignore"):
        posterior = np.exp(alpha + beta - total[:, None])
    exps /= sums
    exps[..., blank] -= posterior[..., ::2].sum(axis=2)
    for state in range(1, lattice.symbols.shape[1], 2):
        exps[:, batch, lattice.symbols[:, state]] -= posterior[..., state]
    exps[~((np.arange(logits.shape[0])[:, None] < times) & fits)] = 0
    return loss, exps


def _padded_inputs(logits: Any, label: Any, logits_length: Any, label_length: Any) -> tuple[Array, Index, Index, Index]:
    """Logits ``[time, batch, classes]``, labels ``[batch, longest]`` and both lengths."""
    if logits_length is None:
        offsets, label_offsets = offsets_of(logits, "Logits"), offsets_of(label, "Label")
        padded = pad_rows(array_of(logits), offsets).swapaxes(0, 1)
        labels = pad_rows(np.asarray(array_of(label), np.int64).reshape(-1), label_offsets)
        return padded, labels, lengths_of(offsets), lengths_of(label_offsets)
    if label_length is None:
        raise ValueError("LabelLength must be given together with LogitsLength")
    times, sizes = (np.asarray(array_of(each), np.int64).reshape(-1) for each in (logits_length, label_length))
    padded, labels = array_of(logits), np.asarray(array_of(label), np.int64)
    return padded, labels.reshape(sizes.size, -1), times, sizes


def _check(logits: Array, labels: Index, times: Index, sizes: Index, blank: int) -> None:
    steps, batch, classes = logits.shape
    if not 0 <= blank < classes:
        raise ValueError(f"blank is {blank}, it must lie in [0, {classes}), the classes of Logits")
    if times.size != batch or sizes.size != batch or (times > steps).any() or (times < 0).any():
        raise ValueError(f"LogitsLength must give {batch} lengths of at most {steps}, found {times.tolist()}")
    if (sizes > labels.shape[1]).any() or (sizes < 0).any():
        raise ValueError(f"LabelLength must be at most {labels.shape[1]}, found {sizes.tolist()}")
    used = labels[np.arange(labels.shape[1]) < sizes[:, None]]
    if used.size and not 0 <= used.min() <= used.max() < classes:
        raise ValueError(f"Label must lie in [0, {classes}), the classes of Logits")


@operator("warpctc", inputs="Logits Label LogitsLength? LabelLength?", outputs="Loss WarpCTCGrad", lod="through")
def warpctc(
    logits: Any,
    label: Any,
    logits_length: Any,
    label_length: Any,
    *,
    blank: int = 0,
    norm_by_times: bool = False,
    want: frozenset[str] = _ALL,
) -> tuple[Array, Array | None]:
    """The CTC loss ``[batch, 1]`` of unscaled logits, and its gradient ``[time, batch, classes]``.

    Ragged (``[rows, classes]`` with LoD), or padded ``[time, batch, classes]`` with lengths.
    """
    given, labels, times, sizes = _padded_inputs(logits, label, logits_length, label_length)
    padded = given.astype(accumulate_dtype(given.dtype), copy=False)
    _check(padded, labels, times, sizes, blank)
    labels = np.where(np.arange(labels.shape[1]) < sizes[:, None], labels, blank)
    loss, grad = ctc_loss(padded, labels, times, sizes, blank, "WarpCTCGrad" in want)
    made = None if grad is None else grad.astype(given.dtype, copy=False)
    return loss[:, None].astype(given.dtype), made


@warpctc.gradient(takes="Logits LogitsLength? WarpCTCGrad Loss@GRAD", gives="Logits@GRAD", lod="through")
def warpctc_grad(logits: Any, logits_length: Any, made: Any, d_loss: Any, *, norm_by_times: bool = False) -> Any:
    """The gradient made forward, times that of the loss; ``norm_by_times`` divides by the input's length."""
    grad, scale = array_of(made), array_of(d_loss).reshape(-1)
    offsets = None if logits_length is not None else offsets_of(logits, "Logits")
    times = array_of(logits_length).reshape(-1) if offsets is None else lengths_of(offsets)
    if norm_by_times:
        scale = scale / np.maximum(times, 1).astype(scale.dtype)
    scaled = grad * scale[:, None]
    if offsets is None:
        return scaled
    lengths = lengths_of(offsets)
    return same_lod(scaled[ranges(np.zeros_like(lengths), lengths), sequence_ids(lengths)], logits)


def _kept(ids: Index, first: Array, blank: int, merge_repeated: bool) -> Array:
    """Which ids of a flat batch stay: not blank, and not equal to the one before in their sequence."""
    kept: Array = ids != blank
    if merge_repeated:
        repeated = np.zeros_like(kept)
        repeated[1:] = ids[1:] == ids[:-1]
        kept &= first | ~repeated
    return kept


def _align_ragged(x: Any, blank: int, merge_repeated: bool) -> LoDTensor:
    offsets = offsets_of(x, "Input")
    ids = array_of(x).reshape(-1)
    first = np.zeros(ids.size, bool)
    first[offsets[:-1][lengths_of(offsets) > 0]] = True
    kept = _kept(ids, first, blank, merge_repeated)
    sequences = sequence_ids(lengths_of(offsets))[kept]
    lengths = np.bincount(sequences, minlength=offsets.size - 1)
    out = ids[kept] if kept.any() else np.full(1, -1, ids.dtype)
    return dress(out[:, None], to_offsets(lengths))


@operator("ctc_align", inputs="Input InputLength?", outputs="Output OutputLength", lod="through", gradient=None)
def ctc_align(
    x: Any, length: Any, *, blank: int = 0, merge_repeated: bool = True, padding_value: int = 0
) -> tuple[Any, Array | None]:
    """Best-path ids without repeats and blanks; padded ones ``[batch, time]`` with their new lengths.

    A ragged batch of which nothing is left gives one row with -1.
    """
    if length is None:
        return _align_ragged(x, blank, merge_repeated), None
    ids = array_of(x)
    batch, width = ids.shape
    alive = np.arange(width) < np.asarray(array_of(length)).reshape(-1, 1)
    first = np.zeros(ids.shape, bool)
    first[:, :1] = True
    kept = _kept(ids.reshape(-1), first.reshape(-1), blank, merge_repeated).reshape(ids.shape) & alive
    lengths = kept.sum(axis=1)
    out = np.full(ids.shape, padding_value, ids.dtype)
    out[np.arange(width) < lengths[:, None]] = ids[kept]
    return out, lengths.reshape(batch, 1).astype(array_of(length).dtype)
