"""The edit distance between sequences of ids."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir.registry import operator
from ..values import Array, array_of
from .sequence_layout import Index, level_of, pad_rows

__all__ = ["edit_distance", "levenshtein"]


def levenshtein(hyps: Index, hyp_lengths: Index, refs: Index, ref_lengths: Index) -> Index:
    """Insertions, deletions and substitutions that make each hypothesis its reference.

    Both padded ``[batch, longest]``; the table's rows are made one after the other for the whole batch.
    """
    batch, width = refs.shape
    places = np.arange(width + 1)
    row = np.broadcast_to(places, (batch, width + 1))
    distance = np.where(hyp_lengths == 0, ref_lengths, 0)
    for step in range(hyps.shape[1]):
        changed = row[:, :-1] + (refs != hyps[:, step, None])
        best = row + 1
        np.minimum(best[:, 1:], changed, out=best[:, 1:])
        row = np.minimum.accumulate(best - places, axis=1) + places
        ends = hyp_lengths == step + 1
        distance[ends] = row[ends, ref_lengths[ends]]
    return distance


def _padded(ids: Any, length: Any, slot: str) -> tuple[Index, Index]:
    array = np.asarray(array_of(ids), np.int64)
    if length is None:
        offsets = level_of(ids, slot)
        return pad_rows(array.reshape(-1)[: offsets[-1]], offsets), np.diff(offsets)
    lengths = np.asarray(array_of(length), np.int64).reshape(-1)
    padded = array.reshape(array.shape[0], -1)
    if lengths.size != padded.shape[0] or (lengths > padded.shape[1]).any() or (lengths < 0).any():
        raise ValueError(f"{slot}Length must give {padded.shape[0]} lengths of at most {padded.shape[1]}")
    return padded, lengths


@operator(
    "edit_distance",
    inputs="Hyps Refs HypsLength? RefsLength?",
    outputs="SequenceNum Out",
    lod="through",
    gradient=None,
)
def edit_distance(
    hyps: Any, refs: Any, hyps_length: Any, refs_length: Any, *, normalized: bool = False
) -> tuple[Array, Array]:
    """The number of pairs (int64 ``[1]``), and their distances (float32 ``[batch, 1]``).

    ``normalized`` divides by the length of the reference, which then must not be empty.
    """
    first, first_lengths = _padded(hyps, hyps_length, "Hyps")
    second, second_lengths = _padded(refs, refs_length, "Refs")
    if first_lengths.size != second_lengths.size:
        raise ValueError(f"Hyps has {first_lengths.size} sequences, Refs has {second_lengths.size}; they must agree")
    distance = levenshtein(first, first_lengths, second, second_lengths).astype(np.float32)
    if normalized:
        if not second_lengths.all():
            raise ValueError("a sequence of Refs is empty, so that its distance cannot be normalized")
        distance /= second_lengths.astype(np.float32)
    return np.array([first_lengths.size], np.int64), distance[:, None]
