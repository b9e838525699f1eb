"""Scoring of chunked labels (``chunk_eval``): named entities and the like, in the IOB family of schemes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ir.registry import operator
from ..values import Array, array_of
from .sequence_layout import Index, offsets_of, ranges, to_offsets

__all__ = ["chunk_eval"]

_SCHEMES: dict[str, tuple[int, int, int, int, int]] = {
    "plain": (1, -1, -1, -1, -1),
    "IOB": (2, 0, 1, -1, -1),
    "IOE": (2, -1, 0, 1, -1),
    "IOBES": (4, 0, 1, 2, 3),
}
"""Scheme -> number of tags, and which of them begin a chunk, go on, end it, and stand alone (-1: none)."""


def _chunk_types(labels: Index, first: Array, scheme: str, chunk_types: int) -> tuple[Array, Index, Index]:
    """For every row whether a chunk begins there, the last row of the chunk, and its type.

    A label is ``type * tags + tag``; the type behind the last one means that the row is in no chunk. ``first``
    marks the first row of every sequence.
    """
    tags, begin, inside, end, single = _SCHEMES[scheme]
    tag, kind = labels % tags, labels // tags
    before_tag = np.where(first, -1, np.roll(tag, 1))
    before_kind = np.where(first, chunk_types, np.roll(kind, 1))
    broken = (before_tag == end) | (before_tag == single)
    starts = (tag == begin) & (begin >= 0) | (tag == single) & (single >= 0)
    goes_on = (tag == inside) & (inside >= 0) | (tag == end) & (end >= 0)
    same = ~starts & ~(goes_on & broken & (before_tag >= 0))
    inside_chunk = kind != chunk_types
    begins = inside_chunk & ((before_kind != kind) | ~same)
    stops = np.flatnonzero(begins | ~inside_chunk | first)
    ahead = np.searchsorted(stops, np.arange(labels.size), side="right")
    last = np.append(stops, labels.size)[ahead] - 1
    return begins, last, kind


def _flat_labels(values: Any, length: Any, slot: str) -> tuple[Index, Index]:
    """Labels of all sequences end to end, and their offsets."""
    labels = np.asarray(array_of(values), np.int64)
    if length is None:
        return labels.reshape(-1), offsets_of(values, slot)
    lengths = np.asarray(array_of(length), np.int64).reshape(-1)
    padded = labels.reshape(labels.shape[0], -1)
    if lengths.size != padded.shape[0] or (lengths > padded.shape[1]).any() or (lengths < 0).any():
        raise ValueError(f"SeqLength must give {padded.shape[0]} lengths of at most {padded.shape[1]}")
    starts = np.arange(lengths.size) * padded.shape[1]
    return padded.reshape(-1)[ranges(starts, lengths)], to_offsets(lengths)


@operator(
    "chunk_eval",
    inputs="Inference Label SeqLength?",
    outputs="Precision Recall F1-Score NumInferChunks NumLabelChunks NumCorrectChunks",
    lod="through",
    gradient=None,
)
def chunk_eval(
    inference: Any,
    label: Any,
    length: Any,
    *,
    num_chunk_types: int,
    chunk_scheme: str = "IOB",
    excluded_chunk_types: Sequence[int] = (),
) -> tuple[Array, ...]:
    """Precision, recall and F1 (float32 ``[1]``), and how many chunks were found, are there, and agree (int64)."""
    if chunk_scheme not in _SCHEMES:
        raise ValueError(f"chunk_scheme is {chunk_scheme!r}, it must be one of {', '.join(_SCHEMES)}")
    found, offsets = _flat_labels(inference, length, "Inference")
    truth, truth_offsets = _flat_labels(label, length, "Label")
    if not np.array_equal(offsets, truth_offsets):
        raise ValueError("Inference and Label must have sequences of the same lengths")
    first = np.zeros(found.size + 1, bool)
    first[offsets[:-1]] = True
    sides = [_chunk_types(side, first[:-1], chunk_scheme, num_chunk_types) for side in (found, truth)]
    counted = [begins & ~np.isin(kind, list(excluded_chunk_types)) for begins, _, kind in sides]
    (_, found_last, found_kind), (_, truth_last, truth_kind) = sides
    agree = counted[0] & counted[1] & (found_last == truth_last) & (found_kind == truth_kind)
    inferred, labelled, correct = (int(np.count_nonzero(each)) for each in (*counted, agree))
    precision = correct / inferred if inferred else 0.0
    recall = correct / labelled if labelled else 0.0
    f1 = 2 * precision * recall / (precision + recall) if correct else 0.0
    scores = (np.array([each], np.float32) for each in (precision, recall, f1))
    return *scores, *(np.array([each], np.int64) for each in (inferred, labelled, correct))
