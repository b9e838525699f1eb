"""Region proposals of two-stage detectors: from anchors and deltas, and across the levels of a pyramid."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...ir.registry import REQUIRED, operator
from ..values import Array, LoDTensor, array_of
from .common import flattened
from .detection_geometry import Index, box_areas, greedy_keep, pixel_unit
from .sequence_layout import lod_of, sequence_ids

__all__ = ["collect_fpn_proposals", "distribute_fpn_proposals", "generate_proposals", "generate_proposals_v2"]

_LOG_LIMIT = math.log(1000.0 / 16.0)
"""The largest log size that a delta may ask for."""


def _decode(anchors: Array, deltas: Array, variances: Array | None, unit: Any) -> Array:
    """Boxes from ``[n, 4]`` anchors, deltas and variances."""
    size = anchors[:, 2:] - anchors[:, :2] + unit
    center = anchors[:, :2] + size * anchors.dtype.type(0.5)
    scaled = deltas if variances is None else variances * deltas
    middle = scaled[:, :2] * size + center
    half = np.exp(np.minimum(scaled[:, 2:], deltas.dtype.type(_LOG_LIMIT))) * size / 2
    return np.concatenate((middle - half, middle + half - unit), axis=1)


def _large_enough(boxes: Array, image: Array, min_size: float, unit: Any, scale: Any) -> Index:
    """Boxes with both sides at least ``min_size`` (and 1) in the unscaled image; pixel boxes also centered in it."""
    least = boxes.dtype.type(max(min_size, 1.0))
    size = boxes[:, 2:] - boxes[:, :2] + unit
    if scale is None:
        original = size
    else:
        original = (boxes[:, 2:] - boxes[:, :2]) / scale + 1
    good = (original >= least).all(axis=1)
    if unit:
        center = boxes[:, :2] + size / 2
        good &= (center <= image[::-1]).all(axis=1)
    return np.flatnonzero(good)


def _proposals_of_image(
    scores: Array,
    deltas: Array,
    anchors: Array,
    variances: Array | None,
    image: Array,
    scale: Any,
    *,
    pre_top: int,
    post_top: int,
    threshold: float,
    min_size: float,
    eta: float,
    unit: Any,
) -> tuple[Array, Array]:
    """Boxes ``[n, 4]`` and scores ``[n, 1]`` of one image, best first; one zero box where none is left."""
    order = np.argsort(-scores, kind="stable")
    if 0 < pre_top < order.size:
        order = order[:pre_top]
    boxes = _decode(anchors[order], deltas[order], None if variances is None else variances[order], unit)
    limit = image[[1, 0, 1, 0]] - unit
    boxes = np.maximum(np.minimum(boxes, limit), 0)
    good = _large_enough(boxes, image, min_size, unit, scale)
    boxes, kept_scores = boxes[good], scores[order[good]]
    if not good.size:
        return np.zeros((1, 4), scores.dtype), np.zeros((1, 1), scores.dtype)
    if threshold > 0:
        kept = greedy_keep(boxes, threshold, eta, unit)
        kept = kept[:post_top] if post_top > 0 else kept
        boxes, kept_scores = boxes[kept], kept_scores[kept]
    return boxes, kept_scores[:, None]


def _proposals(
    score: Array,
    delta: Array,
    sizes: Array,
    scales: Array | None,
    anchor: Array,
    variances: Array | None,
    **options: Any,
) -> tuple[Array, Array, Array]:
    """Per image :func:`_proposals_of_image`, end to end, and the number per image."""
    count, per_cell, height, width = score.shape
    if delta.shape != (count, 4 * per_cell, height, width) or anchor.size != 4 * per_cell * height * width:
        raise ValueError(
            f"Scores {list(score.shape)} takes BboxDeltas {[count, 4 * per_cell, height, width]} and as many anchors, "
            f"got {list(delta.shape)} and {list(anchor.shape)}"
        )
    score = flattened(score.transpose(0, 2, 3, 1))
    delta = delta.transpose(0, 2, 3, 1).reshape(count, score.shape[1], 4)
    anchor = anchor.reshape(-1, 4)
    variance = None if variances is None else variances.reshape(-1, 4)
    parts = [
        _proposals_of_image(
            score[i], delta[i], anchor, variance, sizes[i], None if scales is None else scales[i], **options
        )
        for i in range(count)
    ]
    lengths = [part[0].shape[0] for part in parts]
    rois, probs = (np.concatenate([part[which] for part in parts]) for which in (0, 1))
    return rois, probs, np.asarray(lengths, np.int32)


@operator(
    "generate_proposals",
    inputs="Scores BboxDeltas ImInfo Anchors Variances",
    outputs="RpnRois RpnRoiProbs RpnRoisNum",
    lod=True,
    gradient=None,
)
def generate_proposals(
    scores: Any,
    deltas: Any,
    im_info: Any,
    anchors: Any,
    variances: Any,
    *,
    pre_nms_topN: int = REQUIRED,
    post_nms_topN: int = REQUIRED,
    nms_thresh: float = REQUIRED,
    min_size: float = REQUIRED,
    eta: float = REQUIRED,
) -> tuple[LoDTensor, LoDTensor, Array]:
    """Pixel proposals; ``ImInfo`` rows are height, width and the scale against which sizes are judged."""
    info = array_of(im_info)
    rois, probs, counts = _proposals(
        array_of(scores),
        array_of(deltas),
        info[:, :2],
        info[:, 2],
        array_of(anchors),
        None if variances is None else array_of(variances),
        pre_top=pre_nms_topN,
        post_top=post_nms_topN,
        threshold=nms_thresh,
        min_size=min_size,
        eta=eta,
        unit=pixel_unit(False, info.dtype),
    )
    return _with_images(rois, counts), _with_images(probs, counts), counts


@operator(
    "generate_proposals_v2",
    inputs="Scores BboxDeltas ImShape Anchors Variances",
    outputs="RpnRois RpnRoiProbs RpnRoisNum",
    gradient=None,
)
def generate_proposals_v2(
    scores: Array,
    deltas: Array,
    im_shape: Array,
    anchors: Array,
    variances: Array | None,
    *,
    pre_nms_topN: int = REQUIRED,
    post_nms_topN: int = REQUIRED,
    nms_thresh: float = REQUIRED,
    min_size: float = REQUIRED,
    eta: float = REQUIRED,
    pixel_offset: bool = True,
) -> tuple[Array, Array, Array]:
    """Proposals of images of size ``ImShape [N, 2]`` (height, width); corners are pixels when ``pixel_offset``."""
    return _proposals(
        scores,
        deltas,
        im_shape,
        None,
        anchors,
        variances,
        pre_top=pre_nms_topN,
        post_top=post_nms_topN,
        threshold=nms_thresh,
        min_size=min_size,
        eta=eta,
        unit=pixel_unit(not pixel_offset, im_shape.dtype),
    )


def _images_of(rois: Any, rois_num: Array | None, slot: str) -> Array:
    """Boxes per image, from the numbers or from the LoD."""
    if rois_num is not None:
        return array_of(rois_num).reshape(-1).astype(np.int64)
    lod = lod_of(rois)
    if not lod:
        raise ValueError(f"the boxes per image must be told: by the number slot, or by the LoD of {slot}")
    return np.diff(lod[-1])


def _with_images(rows: Array, counts: Array) -> LoDTensor:
    return LoDTensor(rows, [[0, *(int(end) for end in np.cumsum(counts))]])


@operator(
    "collect_fpn_proposals",
    inputs="MultiLevelRois* MultiLevelScores* MultiLevelRoIsNum*?",
    outputs="FpnRois RoisNum",
    lod=True,
    gradient=None,
)
def collect_fpn_proposals(
    rois: list[Any], scores: list[Any], rois_num: list[Any], *, post_nms_topN: int = REQUIRED
) -> tuple[LoDTensor, Array]:
    """The best ``post_nms_topN`` boxes of all levels and images, image by image."""
    if len(rois) != len(scores):
        raise ValueError(f"MultiLevelRois has {len(rois)} levels, MultiLevelScores {len(scores)}")
    numbers = rois_num if rois_num else [None] * len(rois)
    per_level = [_images_of(roi, number, "MultiLevelRois") for roi, number in zip(rois, numbers, strict=True)]
    boxes = np.concatenate([array_of(each) for each in rois])
    points = np.concatenate([array_of(each).reshape(-1) for each in scores])
    image = np.concatenate([sequence_ids(counts) for counts in per_level])
    best = np.argsort(-points, kind="stable")[: min(post_nms_topN, points.size)]
    best = best[np.argsort(image[best], kind="stable")]
    counts = np.bincount(image[best], minlength=per_level[0].size)
    return _with_images(boxes[best], counts), counts.astype(np.int32)


@operator(
    "distribute_fpn_proposals",
    inputs="FpnRois RoisNum?",
    outputs="MultiFpnRois* RestoreIndex MultiLevelRoIsNum*?",
    lod=True,
    gradient=None,
)
def distribute_fpn_proposals(
    rois: Any,
    rois_num: Any,
    *,
    min_level: int = REQUIRED,
    max_level: int = REQUIRED,
    refer_level: int = REQUIRED,
    refer_scale: int = REQUIRED,
    pixel_offset: bool = True,
) -> tuple[list[LoDTensor], Array, list[Array]]:
    """Boxes by the pyramid level of their size, image by image, and the rows that restore the first order.

    ``level = floor(log2(sqrt(area) / refer_scale + 1e-6) + refer_level)`` within ``[min_level, max_level]``.
    """
    boxes = array_of(rois)
    counts = _images_of(rois, rois_num, "FpnRois")
    image = sequence_ids(counts)
    area = box_areas(boxes, pixel_unit(not pixel_offset, boxes.dtype))
    scale = np.sqrt(area) / boxes.dtype.type(refer_scale) + boxes.dtype.type(1e-6)
    level = np.floor(np.log2(scale) + refer_level).clip(min_level, max_level).astype(np.int64)
    order, levels, numbers = [], [], []
    for each in range(min_level, max_level + 1):
        rows = np.flatnonzero(level == each)
        inside = np.bincount(image[rows], minlength=counts.size)
        order.append(rows)
        levels.append(_with_images(boxes[rows], inside))
        numbers.append(inside.astype(np.int32))
    restore = np.empty(boxes.shape[0], np.int32)
    restore[np.concatenate(order)] = np.arange(boxes.shape[0], dtype=np.int32)
    return levels, restore[:, None], numbers
