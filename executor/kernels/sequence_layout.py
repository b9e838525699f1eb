"""How a batch of sequences (LoD) is laid out: offsets, padded and time-major views, sums per sequence.

Shared by the sequence, CRF, CTC and recurrent families; declares no operator. Gradient kernels that read the
LoD of a forward input take that input whole, not only its shape and dtype: the LoD must still be there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from ..values import Array, LoDTensor, array_of
from .common import accumulate_dtype, add_rows

__all__ = [
    "BatchLayout",
    "Index",
    "batch_layout",
    "dress",
    "lengths_of",
    "level_of",
    "lod_of",
    "offsets_of",
    "pad_rows",
    "ranges",
    "same_lod",
    "sequence_ids",
    "sum_rows",
    "summed_at",
    "to_offsets",
]

Index = npt.NDArray[np.int64]


def lod_of(value: Any) -> list[list[int]]:
    """The LoD of a value, empty where it has none."""
    return value.lod if isinstance(value, LoDTensor) else []


def level_of(value: Any, slot: str, level: int = -1) -> Index:
    """One level of offsets of a value.

    Raises:
        ValueError: the value has no LoD, or not that level.
    """
    lod = lod_of(value)
    if not lod:
        raise ValueError(f"{slot} must carry a LoD (sequence lengths), it is a tensor of shape {_shape(value)}")
    if not -len(lod) <= level < len(lod):
        raise ValueError(f"{slot} has {len(lod)} LoD level(s), level {level} is needed")
    return np.asarray(lod[level], np.int64)


def offsets_of(value: Any, slot: str) -> Index:
    """The innermost offsets of a value, checked against its rows."""
    offsets = level_of(value, slot)
    rows = value.array.shape[0] if value.array.ndim else 0
    if not offsets.size or offsets[0] != 0 or offsets[-1] != rows or (np.diff(offsets) < 0).any():
        raise ValueError(f"{slot} has {rows} rows, its LoD {offsets.tolist()} does not cover them in order")
    return offsets


def _shape(value: Any) -> list[int]:
    return list(array_of(value).shape)


def lengths_of(offsets: Index) -> Index:
    """Sequence lengths from offsets."""
    return np.diff(offsets)


def to_offsets(lengths: Any) -> Index:
    """Offsets from sequence lengths."""
    sizes = np.asarray(lengths, np.int64).reshape(-1)
    offsets = np.zeros(sizes.size + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return offsets


def dress(array: Array, *levels: Sequence[int] | Index) -> LoDTensor:
    """A LoDTensor from an array and its levels of offsets, outermost first."""
    return LoDTensor(array, [np.asarray(level).tolist() for level in levels])


def same_lod(array: Array, like: Any) -> Any:
    """``array`` with the LoD of ``like``; as it is where ``like`` has none."""
    lod = lod_of(like)
    return LoDTensor(array, [list(level) for level in lod]) if lod else array


def sequence_ids(lengths: Index) -> Index:
    """For every row the number of its sequence."""
    return np.repeat(np.arange(lengths.size), lengths)


def ranges(starts: Index, lengths: Index) -> Index:
    """``start, start + 1, ...`` for ``length`` items, for every pair, end to end."""
    offsets = to_offsets(lengths)
    return np.arange(offsets[-1]) + np.repeat(np.asarray(starts, np.int64) - offsets[:-1], lengths)


def sum_rows(rows: Array, offsets: Index) -> Array:
    """The sum of the rows of every sequence; zero for an empty one. Half types sum in float32."""
    wide = rows.astype(accumulate_dtype(rows.dtype), copy=False)
    out = np.zeros((offsets.size - 1, *rows.shape[1:]), wide.dtype)
    filled = np.flatnonzero(np.diff(offsets))
    if filled.size:
        out[filled] = np.add.reduceat(wide, offsets[filled], axis=0)
    return out.astype(rows.dtype, copy=False)


def summed_at(index: Index, rows: Array, count: int) -> Array:
    """``count`` rows, each the sum of the ``rows`` whose ``index`` names it."""
    out = np.zeros((count, *rows.shape[1:]), rows.dtype)
    add_rows(out, index, rows)
    return out


def pad_rows(rows: Array, offsets: Index, width: int = -1, fill: Any = 0) -> Array:
    """``[sequences, width, ...]`` with ``fill`` behind every sequence; width -1 is the longest."""
    lengths = np.diff(offsets)
    longest = int(lengths.max(initial=0))
    width = longest if width < 0 else width
    out = np.empty((lengths.size, width, *rows.shape[1:]), rows.dtype)
    out[...] = fill
    out[sequence_ids(lengths), ranges(np.zeros_like(lengths), lengths)] = rows
    return out


@dataclass(frozen=True, slots=True)
class BatchLayout:
    """The time-major order of a ragged batch: step ``t`` of all sequences longer than ``t``, longest first.

    Attributes:
        order: sequence numbers, longest first (equal lengths keep their order).
        rows: for every row in time-major order its row in the sequence-major array.
        steps: offsets of the steps in ``rows``.
    """

    order: Index
    rows: Index
    steps: Index

    def spans(self) -> list[tuple[int, int]]:
        """``(begin, end)`` of every step."""
        return list(pairwise(self.steps.tolist()))

    def to_sequences(self, batched: Array) -> Array:
        """Time-major rows back in sequence-major order."""
        out = np.empty_like(batched)
        out[self.rows] = batched
        return out


def batch_layout(offsets: Index, reverse: bool = False) -> BatchLayout:
    """The layout for offsets; ``reverse`` runs every sequence from its end."""
    lengths = np.diff(offsets)
    order = np.argsort(-lengths, kind="stable")
    ranked = lengths[order]
    longest = int(ranked[0]) if ranked.size else 0
    counts = np.searchsorted(-ranked, -np.arange(longest), side="left")
    step = np.repeat(np.arange(longest), counts)
    rank = ranges(np.zeros_like(counts), counts)
    sequence = order[rank]
    if reverse:
        rows = offsets[sequence + 1] - 1 - step
    else:
        rows = offsets[sequence] + step
    return BatchLayout(order, rows, to_offsets(counts))
