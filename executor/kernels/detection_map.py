"""Mean average precision of detections, batch by batch with an accumulated state."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...ir.registry import REQUIRED, operator
from ..values import Array, LoDTensor, array_of
from .detection_geometry import jaccard_overlap
from .sequence_layout import level_of

__all__ = ["detection_map"]


@dataclass(slots=True)
class _Tally:
    """Per label: the number of positives, and rows of (score, is a hit) and (score, is a false alarm)."""

    positives: dict[int, int] = field(default_factory=dict)
    hits: dict[int, list[Array]] = field(default_factory=dict)
    alarms: dict[int, list[Array]] = field(default_factory=dict)

    def add(self, label: int, scores: Array, hit: Array) -> None:
        """Count detections of a label."""
        flags = hit.astype(scores.dtype)
        self.hits.setdefault(label, []).append(np.stack((scores, flags), axis=1))
        self.alarms.setdefault(label, []).append(np.stack((scores, 1 - flags), axis=1))


def _state(count: Array, hits: LoDTensor, alarms: LoDTensor, classes: int) -> _Tally:
    tally = _Tally({label: int(number) for label, number in enumerate(count.reshape(-1)[:classes])})
    for table, value, slot in ((tally.hits, hits, "TruePos"), (tally.alarms, alarms, "FalsePos")):
        offsets = level_of(value, slot)
        for label, (start, end) in enumerate(zip(offsets[:-1], offsets[1:], strict=True)):
            if end > start:
                table[label] = [value.array[start:end]]
    return tally


def _judge(scores: Array, boxes: Array, truths: Array, difficult: Array, threshold: float) -> tuple[Array, Array]:
    """Which detections (best first) count at all, and which of those are hits: each truth is hit once.

    A detection whose best truth is difficult does not count.
    """
    clipped = boxes.clip(0, 1)
    areas = [np.multiply.reduce(each[:, 2:] - each[:, :2], axis=1) for each in (clipped, truths)]
    zero = boxes.dtype.type(0)
    overlap = jaccard_overlap(clipped[:, None], truths[None], areas[0][:, None], areas[1][None], zero)
    overlap = np.where(overlap > -1, overlap, -1)
    best = overlap.argmax(axis=1)
    found = overlap[np.arange(best.size), best] > np.float32(threshold)
    counts = ~(found & difficult[best])
    claimants = np.flatnonzero(found & counts)
    _, first = np.unique(best[claimants], return_index=True)
    hit = np.zeros(best.size, bool)
    hit[claimants[first]] = True
    return counts, hit[counts]


def _add_image(tally: _Tally, detected: Array, truth: Array, evaluate_difficult: bool, threshold: float) -> None:
    labels = truth[:, 0].astype(np.int64)
    corners = truth[:, -4:]
    difficult = np.zeros(labels.size, bool)
    if truth.shape[1] == 6 and not evaluate_difficult:
        difficult = np.abs(truth[:, 1]) >= 1e-6
    for label in np.unique(labels):
        count = int((~difficult[labels == label]).sum())
        if count:
            tally.positives[int(label)] = tally.positives.get(int(label), 0) + count
    found_labels = detected[:, 0].astype(np.int64)
    for label in np.unique(found_labels):
        rows = detected[found_labels == label]
        own = labels == label
        if not own.any():
            tally.add(int(label), rows[:, 1], np.zeros(rows.shape[0], bool))
            continue
        rows = rows[np.argsort(-rows[:, 1].astype(np.float32), kind="stable")]
        counts, hit = _judge(rows[:, 1], rows[:, 2:6], corners[own], difficult[own], threshold)
        tally.add(int(label), rows[counts, 1], hit)


def _eleven_points(precision: Array, recall: Array) -> Any:
    """The mean of the best precisions at recall 0, 0.1, ... 1, with Paddle's bookkeeping.

    The best precision is carried down only past a point that some detection misses; else a point looks again
    at the detections from the last miss on down.
    """
    best = np.zeros(11, precision.dtype)
    last = recall.size - 1
    for point in range(10, -1, -1):
        missed = np.flatnonzero(recall[: last + 1].astype(np.float64) < point / 10.0)
        start = missed[-1] + 1 if missed.size else 0
        best[point] = np.fmax.reduce(precision[start : last + 1], initial=best[point])
        if missed.size:
            last = int(missed[-1])
            best[point - 1] = best[point]
    return (best / 11).sum()


def _integral(precision: Array, recall: Array) -> Any:
    steps = np.diff(recall.astype(np.float32), prepend=np.float32(0))
    return (precision * np.abs(steps))[np.abs(steps) > 1e-6].sum()


def _mean_precision(tally: _Tally, ap_type: str, background: int, dtype: Any) -> Array:
    total, count = np.dtype(dtype).type(0), 0
    for label in sorted(tally.positives):
        positives = tally.positives[label]
        # Paddle compares the number of positives, not the label, with background_label.
        if positives == background:
            continue
        count += 1
        rows = np.concatenate(tally.hits[label]) if label in tally.hits else np.zeros((0, 2), dtype)
        if not rows.shape[0]:
            continue
        wrong = np.concatenate(tally.alarms[label])
        hits, alarms = (
            each[np.argsort(-each[:, 0].astype(np.float32), kind="stable"), 1].astype(np.int64).cumsum()
            for each in (rows, wrong)
        )
        with np.errstate(divide="ignore", invalid="ignore"):
            precision = hits.astype(dtype) / (hits + alarms).astype(dtype)
            recall = hits.astype(dtype) / np.dtype(dtype).type(positives)
        total += (_integral if ap_type == "integral" else _eleven_points)(precision, recall)
    mean: Array = np.asarray([total / count if count else total], dtype)
    return mean


def _table(rows: dict[int, list[Array]], classes: int, dtype: Any) -> LoDTensor:
    """``[n, 2]`` rows of labels ``0 .. classes - 1``, with a LoD sequence per label."""
    parts = [np.concatenate(rows[label]) if label in rows else np.zeros((0, 2), dtype) for label in range(classes)]
    offsets = [0, *(int(end) for end in np.cumsum([part.shape[0] for part in parts]))]
    return LoDTensor(np.concatenate(parts).astype(dtype, copy=False), [offsets])


@operator(
    "detection_map",
    inputs="DetectRes Label HasState? PosCount? TruePos? FalsePos?",
    outputs="AccumPosCount AccumTruePos AccumFalsePos MAP",
    lod=True,
    gradient=None,
)
def detection_map(
    detected: Any,
    label: Any,
    has_state: Any,
    pos_count: Any,
    true_pos: Any,
    false_pos: Any,
    *,
    class_num: int = REQUIRED,
    background_label: int = 0,
    overlap_threshold: float = 0.5,
    evaluate_difficult: bool = True,
    ap_type: str = "integral",
) -> tuple[Array, LoDTensor, LoDTensor, Array]:
    """Accumulated positives per class, hits and false alarms with scores, and the mean average precision ``[1]``.

    ``DetectRes`` rows: label, score, box. ``Label`` rows: label, (is difficult,) box. One LoD level each.
    """
    if ap_type not in ("integral", "11point"):
        raise ValueError(f"ap_type is integral or 11point, got {ap_type!r}")
    starts, truth_starts = level_of(detected, "DetectRes"), level_of(label, "Label")
    if starts.size != truth_starts.size:
        raise ValueError(f"DetectRes has {starts.size - 1} images, Label {truth_starts.size - 1}")
    if label.array.ndim != 2 or label.array.shape[1] not in (5, 6):
        raise ValueError(f"Label rows have 5 or 6 numbers, got shape {list(label.array.shape)}")
    tally = _Tally()
    if pos_count is not None and has_state is not None and int(array_of(has_state).reshape(-1)[0]):
        tally = _state(array_of(pos_count), true_pos, false_pos, class_num)
    for image in range(starts.size - 1):
        rows = detected.array[starts[image] : starts[image + 1]]
        truth = label.array[truth_starts[image] : truth_starts[image + 1]]
        _add_image(tally, rows, truth, evaluate_difficult, overlap_threshold)
    dtype = detected.array.dtype
    counts = np.asarray([[tally.positives.get(each, 0)] for each in range(class_num)], np.int32)
    mean = _mean_precision(tally, ap_type, background_label, dtype)
    return counts, _table(tally.hits, class_num, dtype), _table(tally.alarms, class_num, dtype), mean
