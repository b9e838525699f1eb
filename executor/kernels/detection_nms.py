"""Non-maximum suppression: per class with a cut per image, matrix (soft), locality-aware, plain, and RetinaNet's.

Rows leave in Paddle's order: image by image, classes ascending, then by rank (:func:`_best_of_image`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...ir.registry import REQUIRED, operator
from ..values import Array, LoDTensor, array_of
from .detection_geometry import (
    Index,
    box_areas,
    greedy_keep,
    jaccard_overlap,
    overlap_with,
    pixel_unit,
    ranked,
)
from .sequence_layout import lod_of

__all__ = [
    "locality_aware_nms",
    "matrix_nms",
    "multiclass_nms",
    "multiclass_nms2",
    "multiclass_nms3",
    "nms",
    "retinanet_detection_output",
]


@dataclass(frozen=True, slots=True)
class _Rules:
    """The attributes that the greedy family shares; -1 for a top switches the cut off."""

    background: int
    score_threshold: float
    nms_top: int
    keep_top: int
    threshold: float
    eta: float
    normalized: bool


@dataclass(frozen=True, slots=True)
class _Found:
    """Detections of one image: parallel labels, box numbers, scores and boxes."""

    labels: Index
    index: Index
    scores: Array
    boxes: Array

    def rows(self) -> Array:
        """``[n, 2 + box]``: label, score, coordinates."""
        dtype = self.boxes.dtype
        columns = (
            self.labels[:, None].astype(dtype),
            self.scores[:, None].astype(dtype, copy=False),
            self.boxes,
        )
        return np.concatenate(columns, axis=1)


def _cut(labels: Index, scores: Array, keep_top: int) -> Index:
    """Positions that survive ``keep_top`` (none is lost at -1): the best, then grouped by label again."""
    if keep_top < 0 or labels.size <= keep_top:
        return np.arange(labels.size)
    best = np.argsort(-scores.astype(np.float32, copy=False), kind="stable")[:keep_top]
    return best[np.argsort(labels[best], kind="stable")]


def _best_of_image(boxes: Array, scores: Array, rules: _Rules) -> _Found:
    """Greedy suppression per class on ``scores [C, M]`` and ``boxes [M, B]`` (or ``[C, M, B]``, own per class)."""
    shared = boxes.ndim == 2
    unit = pixel_unit(rules.normalized, boxes.dtype)
    labels, kept = [], []
    passed = (scores > scores.dtype.type(np.float32(rules.score_threshold))).any(axis=1)
    for label in np.flatnonzero(passed):
        if label == rules.background:
            continue
        own = boxes if shared else boxes[label]
        order = ranked(scores[label], rules.score_threshold, rules.nms_top)
        chosen = order[greedy_keep(own[order], rules.threshold, rules.eta, unit)]
        kept.append(chosen if shared else np.sort(chosen))
        labels.append(np.full(chosen.size, label))
    label_of = np.concatenate(labels) if labels else np.zeros(0, np.int64)
    index = np.concatenate(kept) if kept else np.zeros(0, np.int64)
    chosen = _cut(label_of, scores[label_of, index], rules.keep_top)
    label_of, index = label_of[chosen], index[chosen]
    if not shared:
        order = np.lexsort((index, label_of))
        label_of, index = label_of[order], index[order]
    return _Found(label_of, index, scores[label_of, index], boxes[index] if shared else boxes[label_of, index])


_BOX_SIZES = (4, 8, 16, 24, 32)


def _detect(boxes: Any, scores: Any, rois_num: Array | None, rules: _Rules) -> tuple[list[_Found], list[Index]]:
    """Detections per image, and the row that ``Index`` reports for each: counted over the whole batch."""
    box, score = array_of(boxes), array_of(scores)
    if score.ndim == 3:
        _check_dense(box, score)
        found = [_best_of_image(box[i], score[i], rules) for i in range(score.shape[0])]
        return found, [each.index + i * box.shape[1] for i, each in enumerate(found)]
    if score.ndim != 2 or box.ndim != 3 or box.shape[:2] != score.shape:
        raise ValueError(
            f"Scores is [N, C, M] with BBoxes [N, M, box], or [M, C] with [M, C, box]; got {list(score.shape)} and "
            f"{list(box.shape)}"
        )
    offsets = _image_offsets(boxes, rois_num)
    if offsets[-1] != score.shape[0]:
        raise ValueError(f"the images have {offsets[-1]} boxes in all, BBoxes has {box.shape[0]}")
    classes = score.shape[1]
    found, rows = [], []
    for start, end in zip(offsets[:-1], offsets[1:], strict=True):
        each = _best_of_image(box[start:end].swapaxes(0, 1), score[start:end].T, rules)
        found.append(each)
        rows.append((start + each.index) * classes + each.labels)
    return found, rows


def _check_dense(box: Array, score: Array) -> None:
    if box.ndim != 3 or box.shape[0] != score.shape[0] or box.shape[1] != score.shape[2]:
        raise ValueError(
            f"BBoxes [N, M, box] and Scores [N, C, M] must agree in N and M, got {list(box.shape)} and "
            f"{list(score.shape)}"
        )
    if box.shape[2] not in _BOX_SIZES:
        raise ValueError(f"a box of BBoxes has 4, 8, 16, 24 or 32 coordinates, got {box.shape[2]}")


def _image_offsets(boxes: Any, rois_num: Array | None) -> list[int]:
    if rois_num is not None:
        return [0, *(int(end) for end in np.cumsum(rois_num))]
    lod = lod_of(boxes)
    if not lod:
        raise ValueError("with Scores [M, C] the boxes per image must be told: by RoisNum, or by the LoD of BBoxes")
    return lod[-1]


def _stack(found: Sequence[_Found], width: int, dtype: Any) -> tuple[Array, list[int]]:
    """The rows of all images end to end (``[0, width]`` when there are none), and the offsets of the images."""
    parts = [each.rows() for each in found if each.labels.size]
    offsets = [0, *(int(end) for end in np.cumsum([each.labels.size for each in found]))]
    return (np.concatenate(parts) if parts else np.zeros((0, width), dtype)), offsets


def _or_minus_one(rows: Array, offsets: list[int]) -> LoDTensor:
    """The rows as a ragged batch; where nothing was found one row with the single number -1."""
    if rows.shape[0]:
        return LoDTensor(rows, [offsets])
    return LoDTensor(np.full((1, 1), -1, rows.dtype), [[0, 1]])


def _index_column(rows: Sequence[Index]) -> Array:
    return np.concatenate([*rows, np.zeros(0, np.int64)]).astype(np.int32)[:, None]


@operator("multiclass_nms", inputs="BBoxes Scores", outputs="Out", lod=True, gradient=None)
def multiclass_nms(
    boxes: Any,
    scores: Any,
    *,
    background_label: int = 0,
    score_threshold: float = REQUIRED,
    nms_top_k: int = REQUIRED,
    nms_threshold: float = 0.3,
    nms_eta: float = 1.0,
    keep_top_k: int = REQUIRED,
    normalized: bool = True,
) -> LoDTensor:
    """Rows of label, score and coordinates, image by image (LoD); a single -1 when there is none at all."""
    rules = _Rules(background_label, score_threshold, nms_top_k, keep_top_k, nms_threshold, nms_eta, normalized)
    found, _ = _detect(boxes, scores, None, rules)
    return _or_minus_one(*_stack(found, boxes.shape[-1] + 2, boxes.dtype))


@operator("multiclass_nms2", inputs="BBoxes Scores", outputs="Out Index", lod=True, gradient=None)
def multiclass_nms2(
    boxes: Any,
    scores: Any,
    *,
    background_label: int = 0,
    score_threshold: float = REQUIRED,
    nms_top_k: int = REQUIRED,
    nms_threshold: float = 0.3,
    nms_eta: float = 1.0,
    keep_top_k: int = REQUIRED,
    normalized: bool = True,
) -> tuple[LoDTensor, LoDTensor]:
    """As multiclass_nms, with the number of every kept box in the flattened batch; both empty when none is kept."""
    rules = _Rules(background_label, score_threshold, nms_top_k, keep_top_k, nms_threshold, nms_eta, normalized)
    found, index = _detect(boxes, scores, None, rules)
    rows, offsets = _stack(found, boxes.shape[-1] + 2, boxes.dtype)
    return LoDTensor(rows, [offsets]), LoDTensor(_index_column(index), [list(offsets)])


@operator("multiclass_nms3", inputs="BBoxes Scores RoisNum?", outputs="Out Index NmsRoisNum", gradient=None)
def multiclass_nms3(
    boxes: Array,
    scores: Array,
    rois_num: Array | None,
    *,
    score_threshold: float = REQUIRED,
    nms_top_k: int = REQUIRED,
    keep_top_k: int = REQUIRED,
    nms_threshold: float = 0.3,
    normalized: bool = True,
    nms_eta: float = 1.0,
    background_label: int = 0,
) -> tuple[Array, Array, Array]:
    """As multiclass_nms2, with the number of detections per image as a tensor instead of LoD."""
    rules = _Rules(background_label, score_threshold, nms_top_k, keep_top_k, nms_threshold, nms_eta, normalized)
    found, index = _detect(boxes, scores, rois_num, rules)
    rows, offsets = _stack(found, boxes.shape[-1] + 2, boxes.dtype)
    return rows, _index_column(index), np.diff(offsets).astype(np.int32)


def _linear_decay(overlap: Array, worst: Array) -> Array:
    decay: Array = (1.0 - overlap.astype(np.float64)) / (1.0 - worst.astype(np.float64))
    return decay.astype(overlap.dtype)


def _gaussian_decay(sigma: float) -> Callable[[Array, Array], Array]:
    def decay(overlap: Array, worst: Array) -> Array:
        decayed: Array = np.exp((worst * worst - overlap * overlap) * overlap.dtype.type(np.float32(sigma)))
        return decayed

    return decay


def _decayed(boxes: Array, scores: Array, decay: Callable[[Array, Array], Array], unit: Any) -> Array:
    """The scores (best first), each times its worst decay by a better box.

    The decay by box ``j`` weighs the overlap with ``j`` against the overlap of ``j`` with its own betters.
    A decay that is not a number counts for nothing.
    """
    areas = box_areas(boxes, unit)
    overlap = jaccard_overlap(boxes[:, None], boxes[None], areas[:, None], areas[None], unit)
    later = np.tri(boxes.shape[0], k=-1, dtype=bool)
    worst = np.fmax.reduce(np.where(later, overlap, overlap.dtype.type(0)), axis=1, initial=0).astype(boxes.dtype)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        shares = np.where(later, decay(overlap, worst[None, :]), overlap.dtype.type(1))
    weakest: Array = np.fmin.reduce(shares, axis=1, initial=1).astype(boxes.dtype)
    return weakest * scores


@operator("matrix_nms", inputs="BBoxes Scores", outputs="Out Index RoisNum", gradient=None)
def matrix_nms(
    boxes: Array,
    scores: Array,
    *,
    score_threshold: float = REQUIRED,
    nms_top_k: int = REQUIRED,
    keep_top_k: int = REQUIRED,
    post_threshold: float = 0.0,
    use_gaussian: bool = False,
    gaussian_sigma: float = 2.0,
    background_label: int = 0,
    normalized: bool = True,
) -> tuple[Array, Array, Array]:
    """Matrix NMS (SOLOv2): scores decay by overlap with better boxes of their class; per image, best first."""
    _check_dense(boxes, scores)
    unit = pixel_unit(normalized, boxes.dtype)
    decay = _gaussian_decay(gaussian_sigma) if use_gaussian else _linear_decay
    found = []
    for box, score in zip(boxes, scores, strict=True):
        parts = []
        for label, row in enumerate(score):
            order = np.flatnonzero(row > row.dtype.type(np.float32(score_threshold)))
            order = order[np.argsort(-row[order], kind="stable")][: None if nms_top_k < 0 else nms_top_k]
            if label == background_label or not order.size:
                continue
            soft = _decayed(box[order], row[order], decay, unit)
            stays = soft > row.dtype.type(np.float32(post_threshold))
            parts.append((np.full(order[stays].size, label), order[stays], soft[stays]))
        labels, index, soft = (
            np.concatenate(column)
            for column in zip(*parts, (np.zeros(0, int), np.zeros(0, int), score[0, :0]), strict=True)
        )
        best = np.argsort(-soft, kind="stable")[: None if keep_top_k < 0 else keep_top_k]
        found.append(_Found(labels[best], index[best], soft[best], box[index[best]]))
    rows, offsets = _stack(found, boxes.shape[-1] + 2, boxes.dtype)
    column = _index_column([each.index + i * boxes.shape[1] for i, each in enumerate(found)])
    return rows, column, np.diff(offsets).astype(np.int32)


def _merge_neighbours(boxes: Array, scores: Array, threshold: float, unit: Any) -> Index:
    """Fold every box into the box before it while they overlap, weighted by score; the boxes that start a run.

    Writes to ``boxes`` and ``scores``. Sequential: a box is compared with the run merged so far.
    """
    starts = []
    current = -1
    limit = boxes.dtype.type(np.float32(threshold))
    for row in range(boxes.shape[0]):
        if current >= 0 and overlap_with(boxes[row], boxes[current : current + 1], unit)[0] > limit:
            total = scores[row] + scores[current]
            boxes[current] = (boxes[row] * scores[row] + boxes[current] * scores[current]) / total
            scores[current] = total
        else:
            starts.append(row)
            current = row
    return np.asarray(starts, np.int64)


def _locality_aware_image(boxes: Array, scores: Array, rules: _Rules) -> _Found:
    unit = pixel_unit(rules.normalized, boxes.dtype)
    labels, kept = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for label in range(scores.shape[0]):
        if label == rules.background:
            continue
        # The classes share the boxes: a later class sees what the earlier ones merged.
        starts = _merge_neighbours(boxes, scores[label], rules.threshold, unit)
        order = starts[ranked(scores[label, starts], rules.score_threshold, rules.nms_top)]
        kept.append(order[greedy_keep(boxes[order], rules.threshold, rules.eta, unit)])
        labels.append(np.full(kept[-1].size, label))
    label_of, index = np.concatenate(labels), np.concatenate(kept)
    chosen = _cut(label_of, scores[label_of, index], rules.keep_top)
    label_of, index = label_of[chosen], index[chosen]
    return _Found(label_of, index, scores[label_of, index], boxes[index])


@operator("locality_aware_nms", inputs="BBoxes Scores", outputs="Out", lod=True, gradient=None)
def locality_aware_nms(
    boxes: Any,
    scores: Any,
    *,
    background_label: int = -1,
    score_threshold: float = REQUIRED,
    nms_top_k: int = REQUIRED,
    nms_threshold: float = 0.3,
    nms_eta: float = 1.0,
    keep_top_k: int = REQUIRED,
    normalized: bool = True,
) -> LoDTensor:
    """EAST's NMS: neighbours in row order are merged by weight first, then the greedy suppression follows."""
    rules = _Rules(background_label, score_threshold, nms_top_k, keep_top_k, nms_threshold, nms_eta, normalized)
    box, score = array_of(boxes).copy(), array_of(scores).copy()
    if score.ndim != 3:
        raise ValueError(f"Scores is [N, C, M], got {list(score.shape)}")
    _check_dense(box, score)
    found = [_locality_aware_image(*pair, rules) for pair in zip(box, score, strict=True)]
    return _or_minus_one(*_stack(found, box.shape[-1] + 2, box.dtype))


@operator("nms", inputs="Boxes", outputs="KeepBoxesIdxs", gradient=None)
def nms(boxes: Array, *, iou_threshold: float = 1.0) -> Array:
    """Numbers of the ``[N, 4]`` boxes (best first) that overlap no earlier kept box by more than the threshold."""
    if boxes.ndim != 2 or boxes.shape[1] != 4:
        raise ValueError(f"Boxes is [N, 4], got {list(boxes.shape)}")
    areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    limit = np.float32(iou_threshold)
    alive = np.arange(boxes.shape[0])
    kept = []
    while alive.size:
        best, alive = alive[0], alive[1:]
        kept.append(best)
        rest = boxes[alive]
        sides = np.minimum(rest[:, 2:], boxes[best, 2:]) - np.maximum(rest[:, :2], boxes[best, :2])
        inter = np.multiply.reduce(np.maximum(sides, 0), axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            over = inter / (areas[best] + areas[alive] - inter) > limit
        alive = alive[~over]
    return np.asarray(kept, np.int64)


def _retinanet_level(
    deltas: Array, scores: Array, anchors: Array, info: Array, threshold: float, top: int
) -> tuple[Index, Array, Array]:
    """Labels, scores and decoded boxes of the best candidates of one level of one image."""
    flat = scores.reshape(-1)
    order = ranked(flat, threshold, top)
    anchor, delta = anchors[order // scores.shape[1]], deltas[order // scores.shape[1]]
    size = anchor[:, 2:] - anchor[:, :2] + 1
    center = delta[:, :2] * size + (anchor[:, :2] + size / 2)
    half = np.exp(delta[:, 2:]) * size / 2
    boxes = np.concatenate((center - half, center + half - 1), axis=1) / info[2]
    limit = np.floor(info[[1, 0, 1, 0]] / info[2] + info.dtype.type(0.5)) - 1
    return order % scores.shape[1], flat[order], np.maximum(np.minimum(boxes, limit), 0)


@operator(
    "retinanet_detection_output",
    inputs="BBoxes* Scores* Anchors* ImInfo",
    outputs="Out",
    lod=True,
    gradient=None,
)
def retinanet_detection_output(
    boxes: list[Any],
    scores: list[Any],
    anchors: list[Any],
    im_info: Any,
    *,
    score_threshold: float = REQUIRED,
    nms_top_k: int = REQUIRED,
    nms_threshold: float = REQUIRED,
    nms_eta: float = REQUIRED,
    keep_top_k: int = REQUIRED,
) -> LoDTensor:
    """Decode the best candidates of every level, then suppress per class; rows by score, labels from 1.

    The last level takes every candidate with a positive score.
    """
    deltas, score, anchor = ([array_of(each) for each in many] for many in (boxes, scores, anchors))
    info = array_of(im_info)
    if not len(deltas) == len(score) == len(anchor) >= 1:
        raise ValueError(
            f"BBoxes, Scores and Anchors need one entry per level, got {len(boxes)}, {len(scores)}, {len(anchors)}"
        )
    unit = pixel_unit(False, score[0].dtype)
    found = []
    for image in range(score[0].shape[0]):
        levels = [
            _retinanet_level(
                d[image], s[image], a, info[image], score_threshold if n < len(score) - 1 else 0.0, nms_top_k
            )
            for n, (d, s, a) in enumerate(zip(deltas, score, anchor, strict=True))
        ]
        labels, points, corners = (np.concatenate(part) for part in zip(*levels, strict=True))
        kept = [np.zeros(0, np.int64)]
        for label in np.unique(labels):
            own = np.flatnonzero(labels == label)
            own = own[np.argsort(-points[own].astype(np.float32), kind="stable")]
            kept.append(own[greedy_keep(corners[own], nms_threshold, nms_eta, unit)])
        chosen = np.concatenate(kept)
        best = chosen[np.argsort(-points[chosen].astype(np.float32), kind="stable")]
        best = best if keep_top_k < 0 else best[:keep_top_k]
        found.append(_Found(labels[best] + 1, best, points[best], corners[best]))
    rows, offsets = _stack(found, 6, score[0].dtype)
    return LoDTensor(rows, [offsets])
