"""The 1.x beam search: one step of it, and the sentences read back from all steps.

The beams of a batch are ragged tensors of two levels: which prefixes belong to a source, and which candidates
of this step continue a prefix.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...ir.registry import operator
from ..values import Array, LoDTensor, TensorArray, array_of
from .sequence_layout import Index, dress, level_of, lod_of

__all__ = ["beam_search", "beam_search_decode"]


@dataclass(frozen=True, slots=True)
class _Candidates:
    """What may continue the prefixes of one source: scores, prefix rows, ids."""

    scores: Array
    prefixes: Index
    ids: Index

    def best(self, count: int) -> list[int]:
        """The positions of the ``count`` best, best first.

        Equal scores go to the later prefix. Within a prefix the earlier candidate comes first, but a later one
        of equal score takes the last place of a full beam.
        """
        if self.scores.size > count:
            bar = np.partition(self.scores, self.scores.size - count)[self.scores.size - count]
            order = np.flatnonzero(self.scores >= bar)
        else:
            order = np.arange(self.scores.size)
        chosen: list[int] = []
        for at in order.tolist():
            self._insert(chosen, at, count)
        return chosen

    def _key(self, at: int) -> tuple[float, int]:
        return float(self.scores[at]), int(self.prefixes[at])

    def _insert(self, chosen: list[int], at: int, count: int) -> None:
        key = self._key(at)
        if len(chosen) == count:
            if key < self._key(chosen[-1]):
                return
            chosen.pop()
        place = len(chosen)
        while place and self._key(chosen[place - 1]) < key:
            place -= 1
        chosen.insert(place, at)


def _candidates(
    begin: int,
    end: int,
    pre_ids: Index,
    pre_scores: Array,
    ids: Index | None,
    scores: Array,
    end_id: int,
    is_accumulated: bool,
) -> _Candidates:
    """A finished prefix goes on with ``end_id`` alone, at its own score."""
    width = scores.shape[1]
    parts: list[tuple[Array, Index, Index]] = []
    for row in range(begin, end):
        if pre_ids[row] == end_id:
            parts.append((pre_scores[row : row + 1], np.array([row]), np.array([end_id])))
            continue
        own = scores[row]
        if not is_accumulated:
            with np.errstate(divide="ignore", invalid="ignore"):
                own = pre_scores[row] + np.log(own)
        parts.append((own, np.full(width, row), np.arange(width) if ids is None else ids[row]))
    if not parts:
        nothing = np.zeros(0, np.int64)
        return _Candidates(scores[:0, 0], nothing, nothing)
    return _Candidates(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _absolute(value: Any, level: int, slot: str) -> Index:
    """A LoD level in rows."""
    offsets = level_of(value, slot, level)
    for below in value.lod[level + 1 :]:
        offsets = np.asarray(below, np.int64)[offsets]
    return offsets


@operator(
    "beam_search",
    inputs="pre_ids pre_scores ids? scores",
    outputs="selected_ids selected_scores parent_idx",
    lod=True,
    gradient=None,
)
def beam_search(
    pre_ids: Any,
    pre_scores: Any,
    ids: Any,
    scores: Any,
    *,
    level: int,
    beam_size: int,
    end_id: int,
    is_accumulated: bool = True,
) -> tuple[LoDTensor, LoDTensor, Array]:
    """The best ``beam_size`` continuations of every source: ids, scores, and the row of their prefix.

    A source all of whose beams have ended one step before is dropped. Scores that are not accumulated are
    probabilities: their logarithm is added to the prefix's score.
    """
    sources = _absolute(scores, level, "scores")
    table = array_of(scores).reshape(array_of(scores).shape[0], -1)
    before = np.asarray(array_of(pre_ids), np.int64).reshape(-1)
    named = None if ids is None else np.asarray(array_of(ids), np.int64).reshape(table.shape)
    kept: dict[int, list[tuple[int, float]]] = {row: [] for row in range(int(sources[-1]))}
    for begin, end in zip(sources[:-1].tolist(), sources[1:].tolist(), strict=True):
        options = _candidates(
            begin, end, before, array_of(pre_scores).reshape(-1), named, table, end_id, is_accumulated
        )
        chosen = options.best(beam_size)
        if all(options.ids[at] == end_id and before[options.prefixes[at]] == end_id for at in chosen):
            continue
        for at in chosen:
            kept[int(options.prefixes[at])].append((int(options.ids[at]), float(options.scores[at])))
    counts = [len(items) for items in kept.values()]
    flat = [item for items in kept.values() for item in items]
    low = np.concatenate([[0], np.cumsum(counts)])
    chosen_ids = np.array([each for each, _ in flat], np.int64).reshape(-1, 1)
    chosen_scores = np.array([score for _, score in flat], table.dtype).reshape(-1, 1)
    parents = np.repeat(np.arange(len(counts)), counts).astype(np.int32)
    return dress(chosen_ids, sources, low), dress(chosen_scores, sources, low), parents


def _trace(
    steps: Sequence[Any], scores: Sequence[Any], source: int, end_id: int
) -> Iterator[tuple[list[int], list[float]]]:
    """The sentences of one source, last word first, with the score at every word."""
    words: list[list[int]] = []
    marks: list[list[float]] = []
    rows: list[int] = []
    for step, mark in zip(reversed(steps), reversed(scores), strict=True):
        prefixes = range(step.lod[0][source], step.lod[0][source + 1])
        ids, values = array_of(step).reshape(-1), array_of(mark).reshape(-1)
        low = step.lod[1]
        if not rows:
            for prefix in prefixes:
                for candidate in range(low[prefix], low[prefix + 1]):
                    rows.append(prefix)
                    words.append([int(ids[candidate])])
                    marks.append([values[candidate]])
            continue
        for at, candidate in enumerate(rows):
            if ids[candidate] != end_id or not words[at]:
                words[at].append(int(ids[candidate]))
                marks[at].append(values[candidate])
            rows[at] = int(np.searchsorted(low, candidate, side="right")) - 1
    return zip(words, marks, strict=True)


@operator(
    "beam_search_decode",
    inputs="Ids Scores",
    outputs="SentenceIds SentenceScores",
    lod=True,
    gradient=None,
)
def beam_search_decode(
    ids: TensorArray, scores: TensorArray, *, beam_size: int, end_id: int
) -> tuple[LoDTensor, LoDTensor]:
    """All sentences of all sources, best first, with their ids and the scores word by word.

    ``Ids`` and ``Scores`` hold what ``beam_search`` selected at every step. Every source gets ``beam_size``
    sentences, empty ones last.
    """
    if not ids or len(ids) != len(scores):
        raise ValueError(
            f"Ids and Scores must have as many steps, at least one; they have {len(ids)} and {len(scores)}"
        )
    if any(len(lod_of(step)) != 2 for step in ids):
        raise ValueError("every step in Ids must have two LoD levels: sources and prefixes")
    words: list[int] = []
    marks: list[float] = []
    lengths: list[int] = []
    sources = len(ids[0].lod[0]) - 1
    for source in range(sources):
        found = sorted(_trace(ids, scores, source, end_id), key=lambda each: -each[1][0])
        found += [([], [])] * (beam_size - len(found))
        for sentence, values in found:
            words += reversed(sentence)
            marks += reversed(values)
            lengths.append(len(sentence))
    outer, inner = np.arange(sources + 1) * beam_size, np.concatenate([[0], np.cumsum(lengths)])
    dtype = array_of(scores[0]).dtype
    return dress(np.array(words, np.int64), outer, inner), dress(np.array(marks, dtype), outer, inner)
