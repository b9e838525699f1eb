"""Training samples of two-stage detectors: which rois a head trains on, with box and mask targets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ir.registry import REQUIRED, operator
from ..values import Array, LoDTensor, array_of
from .detection_geometry import Index, deltas_to, pixel_overlaps
from .detection_targets import reservoir
from .sequence_layout import level_of

__all__ = ["generate_mask_labels", "generate_proposal_labels"]


def _sample(
    overlap: Array,
    crowd: Array,
    *,
    batch: int,
    fraction: float,
    front: float,
    back: tuple[float, float],
    use_random: bool,
    every: bool,
) -> tuple[Index, Index, Index]:
    """Foreground rows, their ground-truth box, and background rows of ``overlap [boxes, truths]``.

    The first rows are the truths themselves; crowds among them take no part. ``every`` switches sampling off.
    """
    best = overlap.max(axis=1, initial=-np.inf)
    best[: crowd.size][crowd != 0] = -1
    is_front = best >= np.float32(front)
    fronts = np.flatnonzero(is_front)
    near = np.abs(best[fronts, None] - overlap[fronts]) < 1e-5
    truths = near.argmax(axis=1) if overlap.shape[1] else np.zeros(0, np.int64)
    # A foreground crowd (a threshold below 0) is near no truth and falls out.
    fronts, truths = fronts[near.any(axis=1)], truths[near.any(axis=1)]
    low, high = (np.float32(limit) for limit in back)
    backs = np.flatnonzero(~is_front & (best >= low) & (best < high))
    if not every:
        count = min(int(np.float32(batch) * np.float32(fraction)), fronts.size)
        chosen = reservoir(fronts, count, use_random)
        fronts, truths = fronts[chosen], truths[chosen]
        backs = backs[reservoir(backs, min(batch - count, backs.size), use_random, slots=count)]
    return fronts, truths, backs


def _expand(deltas: Array, labels: Array, classes: int, agnostic: bool) -> tuple[Array, Array]:
    """``[rows, 4 * classes]``: the deltas of each row in the columns of its class, and where they stand."""
    targets = np.zeros((labels.size, classes, 4), deltas.dtype)
    weights = np.zeros_like(targets)
    rows = np.flatnonzero(labels > 0)
    column = np.ones(rows.size, np.int64) if agnostic else labels[rows]
    targets[rows, column] = deltas[rows]
    weights[rows, column] = 1
    return targets.reshape(labels.size, -1), weights.reshape(labels.size, -1)


def _rois_of_image(
    rois: Array,
    truths: Array,
    classes: Array,
    crowd: Array,
    scale: Any,
    max_overlap: Array | None,
    reg_weights: Sequence[float],
    class_nums: int,
    agnostic: bool,
    options: dict[str, Any],
) -> dict[str, Array]:
    own = rois / scale
    if max_overlap is not None:
        size = own[:, 2:] - own[:, :2] + 1
        keep = (size > 0).all(axis=1) & (max_overlap < 1)
        own = own[keep] if keep.any() else np.zeros((1, 4), own.dtype)
    boxes = np.concatenate((truths, own))
    overlap = pixel_overlaps(boxes, truths)
    fronts, matched, backs = _sample(overlap, crowd, every=max_overlap is not None, **options)
    rows = np.concatenate((fronts, backs))
    deltas = np.zeros((rows.size, 4), boxes.dtype)
    deltas[: fronts.size] = deltas_to(boxes[fronts], truths[matched]) / np.asarray(reg_weights, np.float32)
    labels = np.concatenate((classes[matched], np.zeros(backs.size, classes.dtype))).astype(np.int32)
    targets, weights = _expand(deltas, labels, class_nums, agnostic)
    return {
        "rois": boxes[rows] * scale,
        "labels": labels[:, None],
        "targets": targets,
        "inside": weights,
        "outside": weights.copy(),
        "overlap": overlap.max(axis=1, initial=-np.inf)[rows],
    }


def _nothing(dtype: Any, class_nums: int) -> dict[str, Array]:
    wide = np.zeros((0, 4 * class_nums), dtype)
    return {
        "rois": np.zeros((0, 4), dtype),
        "labels": np.zeros((0, 1), np.int32),
        "targets": wide,
        "inside": wide,
        "outside": wide,
        "overlap": np.zeros(0, dtype),
    }


def _end_to_end(images: list[dict[str, Array]]) -> tuple[LoDTensor, ...]:
    outputs = []
    for key in images[0]:
        parts = [image[key] for image in images]
        offsets = [0, *(int(end) for end in np.cumsum([part.shape[0] for part in parts]))]
        outputs.append(LoDTensor(np.concatenate(parts), [offsets]))
    return tuple(outputs)


@operator(
    "generate_proposal_labels",
    inputs="RpnRois GtClasses IsCrowd GtBoxes ImInfo MaxOverlap?",
    outputs="Rois LabelsInt32 BboxTargets BboxInsideWeights BboxOutsideWeights MaxOverlapWithGT",
    lod=True,
    gradient=None,
)
def generate_proposal_labels(
    rpn_rois: Any,
    gt_classes: Any,
    is_crowd: Any,
    gt_boxes: Any,
    im_info: Any,
    max_overlap: Any,
    *,
    batch_size_per_im: int = REQUIRED,
    fg_fraction: float = REQUIRED,
    fg_thresh: float = REQUIRED,
    bg_thresh_hi: float = REQUIRED,
    bg_thresh_lo: float = REQUIRED,
    bbox_reg_weights: Sequence[float] = REQUIRED,
    class_nums: int = REQUIRED,
    use_random: bool = True,
    is_cascade_rcnn: bool = False,
    is_cls_agnostic: bool = False,
) -> tuple[LoDTensor, ...]:
    """Rois (ground truth among them) to train a head on, with labels, box deltas per class and their weights.

    A later cascade stage takes every roi whose ``MaxOverlap`` is below 1 and samples none away.
    """
    if is_cascade_rcnn and max_overlap is None:
        raise ValueError("is_cascade_rcnn needs MaxOverlap")
    starts, truth_starts = level_of(rpn_rois, "RpnRois"), level_of(gt_boxes, "GtBoxes")
    rois, truths, info = rpn_rois.array, gt_boxes.array, array_of(im_info)
    classes, crowd = (array_of(each).reshape(-1) for each in (gt_classes, is_crowd))
    overlap = array_of(max_overlap).reshape(-1) if is_cascade_rcnn else None
    options = {
        "batch": batch_size_per_im,
        "fraction": fg_fraction,
        "front": fg_thresh,
        "back": (bg_thresh_lo, bg_thresh_hi),
        "use_random": use_random,
    }
    images = []
    for image in range(starts.size - 1):
        own = slice(starts[image], starts[image + 1])
        truth = slice(truth_starts[image], truth_starts[image + 1])
        if own.start == own.stop:
            images.append(_nothing(rois.dtype, class_nums))
            continue
        images.append(
            _rois_of_image(
                rois[own],
                truths[truth],
                classes[truth],
                crowd[truth],
                info[image, 2],
                None if overlap is None else overlap[own],
                bbox_reg_weights,
                class_nums,
                is_cls_agnostic,
                options,
            )
        )
    return _end_to_end(images)


_FINE = 5
"""Outlines are drawn on a grid this much finer than the mask."""


def _outline(points: Array) -> Array:
    """Every fine-grid point ``[n, 2]`` on the closed polygon ``[k, 2]``, edge by edge."""
    fine = _FINE * points.astype(np.float64)
    corners = np.trunc(fine + np.copysign(0.5, fine)).astype(np.int64)
    drawn = []
    for start, end in zip(corners, np.roll(corners, -1, axis=0), strict=True):
        run = np.abs(end - start)
        major = 0 if run[0] >= run[1] else 1
        flip = start[major] > end[major]
        low, high = (end, start) if flip else (start, end)
        step = np.arange(run[major] + 1)
        step = step[::-1] if flip else step
        slope = (high[1 - major] - low[1 - major]) / run[major] if run[major] else 0.0
        line = np.empty((step.size, 2), np.int64)
        line[:, major] = step + low[major]
        line[:, 1 - major] = (low[1 - major] + slope * step + 0.5).astype(np.int64)
        drawn.append(line)
    return np.concatenate(drawn)


def _filled(points: Array, side: int) -> Array:
    """``[side, side]`` mask of a polygon, COCO's way: run ends where the outline passes a column's middle."""
    line = _outline(points)
    before, after = line[:-1], line[1:]
    moved = before[:, 0] != after[:, 0]
    x = np.where(after[:, 0] < before[:, 0], after[:, 0], after[:, 0] - 1)
    column = (x + 0.5) / _FINE - 0.5
    row = np.ceil(((np.minimum(after[:, 1], before[:, 1]) + 0.5) / _FINE - 0.5).clip(0, side))
    crossed = moved & (column == np.floor(column)) & (column >= 0) & (column <= side - 1)
    ends = (column[crossed] * side + row[crossed]).astype(np.int64)
    parity = np.bincount(ends, minlength=side * side + 1)[: side * side].cumsum() & 1
    filled: Array = parity.reshape(side, side).T.astype(np.int32)
    return filled


def _polygon_mask(polygons: Sequence[Array], box: Array, side: int) -> Array:
    """The union of the polygons inside ``box``, stretched to ``[side, side]``."""
    size = np.maximum(box[2:] - box[:2], np.float32(1))
    masks = [_filled((polygon - box[:2]) * side / size, side) for polygon in polygons]
    union: Array = np.maximum.reduce(masks)
    return union


def _polygons_of_image(segments: LoDTensor, image: int) -> list[list[Array]]:
    """Per ground-truth object its polygons ``[k, 2]``."""
    objects, polygons, points = segments.lod
    return [
        [segments.array[points[p] : points[p + 1]] for p in range(polygons[o], polygons[o + 1])]
        for o in range(objects[image], objects[image + 1])
    ]


def _masks_of_image(
    scale: Any, truths: list[list[Array]], rois: Array, labels: Array, side: int, classes: int
) -> dict[str, Array]:
    """Masks of the foreground rois; where there is none, the first background roi with everything ignored."""
    rows = np.flatnonzero(labels > 0)
    area = side * side
    if not rows.size:
        rows = np.flatnonzero(labels == 0)[:1]
        targets = np.full((rows.size, classes * area), -1, np.int32)
        # Paddle takes the box of roi 0 here, whichever roi it names.
        return {
            "rois": rois[np.zeros_like(rows)] / scale * scale,
            "has": rows.astype(np.int32)[:, None],
            "masks": targets,
        }
    own = rois[rows] / scale
    extents = np.asarray(
        [[*np.min(np.concatenate(polys), axis=0), *np.max(np.concatenate(polys), axis=0)] for polys in truths],
        own.dtype,
    ).reshape(-1, 4)
    nearest = pixel_overlaps(own, extents).argmax(axis=1)
    targets = np.full((rows.size, classes, area), -1, np.int32)
    for row, (box, truth, label) in enumerate(zip(own, nearest, labels[rows], strict=True)):
        targets[row, label] = _polygon_mask(truths[truth], box, side).reshape(-1)
    return {
        "rois": own * scale,
        "has": rows.astype(np.int32)[:, None],
        "masks": targets.reshape(rows.size, -1),
    }


@operator(
    "generate_mask_labels",
    inputs="ImInfo GtClasses IsCrowd GtSegms Rois LabelsInt32",
    outputs="MaskRois RoiHasMaskInt32 MaskInt32",
    lod=True,
    gradient=None,
)
def generate_mask_labels(
    im_info: Any,
    gt_classes: Any,
    is_crowd: Any,
    gt_segms: Any,
    rois: Any,
    labels: Any,
    *,
    num_classes: int = REQUIRED,
    resolution: int = REQUIRED,
) -> tuple[LoDTensor, ...]:
    """Mask R-CNN targets: foreground rois, their numbers, and ``[n, classes * resolution ** 2]`` masks.

    ``GtSegms [points, 2]`` has three LoD levels: objects of an image, polygons of an object, points of a polygon.
    Outside the class of a roi the mask is -1.
    """
    starts, truth_starts = level_of(rois, "Rois"), level_of(gt_classes, "GtClasses")
    if not isinstance(gt_segms, LoDTensor) or len(gt_segms.lod) != 3:
        raise ValueError("GtSegms must carry three levels of LoD (objects, polygons, points)")
    info, label = array_of(im_info), array_of(labels).reshape(-1)
    classes, crowd = (array_of(each).reshape(-1) for each in (gt_classes, is_crowd))
    images = []
    for image in range(starts.size - 1):
        own = slice(starts[image], starts[image + 1])
        if own.start == own.stop:
            images.append(
                {
                    "rois": np.zeros((0, 4), rois.dtype),
                    "has": np.zeros((0, 1), np.int32),
                    "masks": np.zeros((0, num_classes * resolution**2), np.int32),
                }
            )
            continue
        truth = np.arange(truth_starts[image], truth_starts[image + 1])
        usable = (classes[truth] > 0) & (crowd[truth] == 0)
        polygons = [p for p, use in zip(_polygons_of_image(gt_segms, image), usable, strict=True) if use]
        images.append(_masks_of_image(info[image, 2], polygons, rois.array[own], label[own], resolution, num_classes))
    return _end_to_end(images)
