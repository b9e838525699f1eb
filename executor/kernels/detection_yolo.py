"""YOLO heads: boxes and scores from the feature map, and the YOLOv3 training loss."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...ir.registry import operator
from ..values import Array
from .detection_geometry import Index

__all__ = ["yolo_box", "yolov3_loss"]


def _sigmoid(x: Array) -> Array:
    with np.errstate(over="ignore"):
        made: Array = 1 / (1 + np.exp(-x))
    return made


def _anchor_sizes(anchors: Sequence[int], dtype: np.dtype[np.generic]) -> Array:
    if not anchors or len(anchors) % 2:
        raise ValueError(f"anchors takes pairs of width and height, got {len(anchors)} numbers")
    return np.asarray(anchors, dtype).reshape(-1, 2)


@operator("yolo_box", inputs="X ImgSize", outputs="Boxes Scores", gradient=None)
def yolo_box(
    x: Array,
    img_size: Array,
    *,
    anchors: Sequence[int] = (),
    class_num: int = 1,
    conf_thresh: float = 0.01,
    downsample_ratio: int = 32,
    clip_bbox: bool = True,
    scale_x_y: float = 1.0,
    iou_aware: bool = False,
    iou_aware_factor: float = 0.5,
) -> tuple[Array, Array]:
    """Corner boxes ``[N, A*H*W, 4]`` in image pixels and class scores ``[N, A*H*W, classes]``.

    ``X [N, A * (5 + classes), H, W]`` holds x, y, width, height, objectness and classes of every anchor; with
    ``iou_aware`` there are A channels of predicted overlap before them. Rows whose confidence is below
    ``conf_thresh`` are zero.
    """
    sizes = _anchor_sizes(anchors, x.dtype)
    count = sizes.shape[0]
    batch, channels, height, width = x.shape
    expected = count * (5 + class_num + int(iou_aware))
    if channels != expected:
        raise ValueError(f"X has {channels} channels, {count} anchors and {class_num} classes need {expected}")
    head = x[:, count:] if iou_aware else x
    maps = np.moveaxis(head.reshape(batch, count, 5 + class_num, height, width), 2, -1)
    confidence = _sigmoid(maps[..., 4])
    if iou_aware:
        factor = x.dtype.type(iou_aware_factor)
        overlap = _sigmoid(x[:, :count])
        confidence = confidence ** x.dtype.type(1 - factor) * overlap**factor
    rows = np.nonzero(confidence >= x.dtype.type(conf_thresh))
    kept, image, sure = maps[rows], img_size[rows[0]].astype(x.dtype), confidence[rows]
    boxes = np.zeros((*confidence.shape, 4), x.dtype)
    scores = np.zeros((*confidence.shape, class_num), x.dtype)
    cell = np.stack((rows[3], rows[2]), axis=1).astype(x.dtype)
    grid = np.asarray((width, height), x.dtype)
    boxes[rows] = _corners(kept, cell, sizes[rows[1]], image[:, ::-1], grid, downsample_ratio, scale_x_y, clip_bbox)
    scores[rows] = sure[:, None] * _sigmoid(kept[:, 5:])
    cells = math.prod(confidence.shape[1:])
    return boxes.reshape(batch, cells, 4), scores.reshape(batch, cells, class_num)


def _corners(
    raw: Array,
    cell: Array,
    sizes: Array,
    image: Array,
    grid: Array,
    ratio: int,
    scale_x_y: float,
    clip: bool,
) -> Array:
    """``[n, 4]`` corners in pixels; ``image`` and ``grid`` are (width, height)."""
    scale = raw.dtype.type(scale_x_y)
    bias = raw.dtype.type(-0.5 * (scale_x_y - 1.0))
    center = (cell + _sigmoid(raw[:, :2]) * scale + bias) * image / grid
    with np.errstate(over="ignore"):
        half = np.exp(raw[:, 2:4]) * sizes * image / (grid * ratio) / 2
    low, high = center - half, center + half
    if clip:
        low, high = np.maximum(low, 0), np.minimum(high, image - 1)
    return np.concatenate((low, high), axis=1)


@dataclass(frozen=True, slots=True)
class _Truth:
    """The ground-truth boxes that an anchor of this head answers for, in the order of ``GTBox``.

    Attributes:
        at: ``(image, anchor of the mask, row, column)`` of the answering cell.
        which: ``(image, box)`` in ``GTBox``.
        target: ``[n, 4]``: offsets of the center in the cell, log of the size over the anchor.
        weight: the score of the box.
        scale: the weight of its location loss, larger for small boxes.
    """

    at: tuple[Index, Index, Index, Index]
    which: tuple[Index, Index]
    target: Array
    weight: Array
    scale: Array


def _center_overlap(low: Array, high: Array, other_low: Array, other_high: Array) -> Array:
    """Overlap of boxes, negative sides counted as they are unless one is, in which case it is 0."""
    sides = np.minimum(high, other_high) - np.maximum(low, other_low)
    inter = np.where((sides < 0).any(axis=-1), sides.dtype.type(0), sides[..., 0] * sides[..., 1])
    areas = np.multiply.reduce(high - low, axis=-1) + np.multiply.reduce(other_high - other_low, axis=-1)
    overlap: Array = inter / (areas - inter)
    return overlap


def _valid_boxes(gt_box: Array) -> Array:
    return (gt_box[..., 2] > 1e-6) & (gt_box[..., 3] > 1e-6)


def _match(
    gt_box: Array, gt_score: Array, sizes: Array, mask: Sequence[int], grid: tuple[int, int], side: int
) -> tuple[_Truth, Array]:
    """Which anchors answer for which boxes, and ``GTMatchMask``: the anchor of every box, -1 for none."""
    height, width = grid
    valid = _valid_boxes(gt_box)
    wide = gt_box[:, :, None, 2:4] / 2
    anchor = sizes.astype(gt_box.dtype) / gt_box.dtype.type(side) / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        best = np.nan_to_num(_center_overlap(-wide, wide, -anchor, anchor), nan=0.0).argmax(axis=2)
    position = np.full(sizes.shape[0], -1, np.int32)
    position[list(mask)[::-1]] = np.arange(len(mask), dtype=np.int32)[::-1]
    matched = np.where(valid, position[best], np.int32(-1))
    image, box = np.nonzero(matched >= 0)
    own = gt_box[image, box]
    column, row = (own[:, 0] * width).astype(np.int64), (own[:, 1] * height).astype(np.int64)
    size = sizes[best[image, box]].astype(gt_box.dtype)
    target = np.concatenate(
        (
            own[:, :1] * height - column[:, None],
            own[:, 1:2] * height - row[:, None],
            np.log(own[:, 2:] * side / size),
        ),
        axis=1,
    )
    weight = gt_score[image, box]
    scale = (2 - own[:, 2] * own[:, 3]) * weight
    return _Truth((image, matched[image, box], row, column), (image, box), target, weight, scale), matched


def _objectness(
    maps: Array, gt_box: Array, truth: _Truth, sizes: Array, ignore: float, side: int, scale_x_y: float
) -> Array:
    """Per cell the weight of an answering box, -1 where a free cell overlaps a box too well, else 0."""
    height = maps.shape[3]
    dtype = maps.dtype.type
    scale, bias = dtype(scale_x_y), dtype(-0.5 * (scale_x_y - 1.0))
    row, column = np.indices(maps.shape[3:], maps.dtype)
    x = (column + _sigmoid(maps[:, :, 0]) * scale + bias) / height
    y = (row + _sigmoid(maps[:, :, 1]) * scale + bias) / height
    half = np.exp(maps[:, :, 2:4]) * sizes[:, :, None, None] / side / 2
    low = np.stack((x - half[:, :, 0], y - half[:, :, 1]), axis=-1)
    high = np.stack((x + half[:, :, 0], y + half[:, :, 1]), axis=-1)
    mask = np.zeros(maps.shape[:2] + maps.shape[3:], maps.dtype)
    valid = _valid_boxes(gt_box)
    for image in range(maps.shape[0]):
        boxes = gt_box[image, valid[image]]
        for box in boxes:
            overlap = _center_overlap(low[image], high[image], box[:2] - box[2:] / 2, box[:2] + box[2:] / 2)
            mask[image][overlap > dtype(ignore)] = -1
    mask[truth.at] = truth.weight
    return mask


def _cross_entropy(x: Array, label: Array | float) -> Array:
    return np.maximum(x, 0) - x * label + np.log1p(np.exp(-np.abs(x)))


def _labels(gt_label: Array, truth: _Truth, classes: int, smooth: bool, dtype: np.dtype[np.generic]) -> Array:
    """``[n, classes]`` class targets; smoothing moves them off 0 and 1 by min(1 / classes, 1 / 40)."""
    spread = min(1.0 / classes, 1.0 / 40) if smooth else 0.0
    target = np.full((truth.weight.size, classes), spread, dtype)
    target[np.arange(truth.weight.size), gt_label[truth.which]] = 1.0 - spread
    return target


def _head(x: Array, anchor_mask: Sequence[int], class_num: int) -> Array:
    """``[N, anchors, 5 + classes, H, W]``."""
    batch, channels, height, width = x.shape
    if height != width:
        raise ValueError(f"X is {height} x {width}: the loss takes square maps only")
    expected = len(anchor_mask) * (5 + class_num)
    if channels != expected:
        raise ValueError(
            f"X has {channels} channels, {len(anchor_mask)} anchors and {class_num} classes need {expected}"
        )
    return x.reshape(batch, len(anchor_mask), 5 + class_num, height, width)


def _at_truth(maps: Array, truth: _Truth) -> Array:
    """``[n, 5 + classes]``: what the answering cells say."""
    image, anchor, row, column = truth.at
    return maps[image, anchor, :, row, column]


@operator("yolov3_loss", inputs="X GTBox GTLabel GTScore?", outputs="Loss ObjectnessMask GTMatchMask")
def yolov3_loss(
    x: Array,
    gt_box: Array,
    gt_label: Array,
    gt_score: Array | None,
    *,
    anchors: Sequence[int] = (),
    anchor_mask: Sequence[int] = (),
    class_num: int = 1,
    ignore_thresh: float = 0.7,
    downsample_ratio: int = 32,
    use_label_smooth: bool = True,
    scale_x_y: float = 1.0,
) -> tuple[Array, Array, Array]:
    """Location, objectness and class loss of one head, summed per image: ``Loss [N]``.

    ``GTBox [N, B, 4]`` is center and size relative to the image; a box without size is padding.
    """
    maps = _head(x, anchor_mask, class_num)
    sizes = _anchor_sizes(anchors, x.dtype)
    side = downsample_ratio * x.shape[2]
    scores = np.ones(gt_box.shape[:2], x.dtype) if gt_score is None else gt_score
    truth, matched = _match(gt_box, scores, sizes, anchor_mask, x.shape[2:], side)
    mask = _objectness(maps, gt_box, truth, sizes[list(anchor_mask)], ignore_thresh, side, scale_x_y)
    said = _at_truth(maps, truth)
    located = _cross_entropy(said[:, :2], truth.target[:, :2]).sum(axis=1)
    located += np.abs(truth.target[:, 2:] - said[:, 2:4]).sum(axis=1)
    target = _labels(gt_label, truth, class_num, use_label_smooth, x.dtype)
    classed = _cross_entropy(said[:, 5:], target).sum(axis=1)
    loss = np.zeros(x.shape[0], x.dtype)
    np.add.at(loss, truth.which[0], located * truth.scale + classed * truth.weight)
    objects = maps[:, :, 4]
    positive = mask > 1e-5
    each = np.where(positive, _cross_entropy(objects, 1.0) * mask, _cross_entropy(objects, 0.0))
    loss += np.where(mask > -0.5, each, 0).sum(axis=(1, 2, 3))
    return loss, mask, matched


@yolov3_loss.gradient(
    takes="X GTBox GTLabel GTScore? Loss@GRAD ObjectnessMask GTMatchMask",
    gives="X@GRAD GTBox@GRAD GTLabel@GRAD GTScore@GRAD",
)
def yolov3_loss_grad(
    x: Array,
    gt_box: Array,
    gt_label: Array,
    gt_score: Array | None,
    d_loss: Array,
    mask: Array,
    matched: Array,
    *,
    anchors: Sequence[int] = (),
    anchor_mask: Sequence[int] = (),
    class_num: int = 1,
    downsample_ratio: int = 32,
    use_label_smooth: bool = True,
) -> tuple[Array, Array, Array, Array | None]:
    """The gradient of X; of several boxes in one cell the last one counts. Boxes and scores get zeros."""
    maps = _head(x, anchor_mask, class_num)
    sizes = _anchor_sizes(anchors, x.dtype)
    scores = np.ones(gt_box.shape[:2], x.dtype) if gt_score is None else gt_score
    truth, _ = _match(gt_box, scores, sizes, anchor_mask, x.shape[2:], downsample_ratio * x.shape[2])
    said = _at_truth(maps, truth)
    slope = np.empty_like(said)
    slope[:, :2] = (_sigmoid(said[:, :2]) - truth.target[:, :2]) * truth.scale[:, None]
    slope[:, 2:4] = np.where(said[:, 2:4] > truth.target[:, 2:], 1, -1) * truth.scale[:, None]
    target = _labels(gt_label, truth, class_num, use_label_smooth, x.dtype)
    slope[:, 5:] = (_sigmoid(said[:, 5:]) - target) * truth.weight[:, None]
    image, anchor, row, column = truth.at
    grad = np.zeros_like(maps)
    grad[image, anchor, :, row, column] = slope * d_loss[image][:, None]
    sure = _sigmoid(maps[:, :, 4])
    objects = np.where(mask > 1e-5, (sure - 1) * mask, np.where(mask > -0.5, sure, 0))
    grad[:, :, 4] = objects * d_loss[:, None, None, None]
    zeros = [None if each is None else np.zeros_like(each) for each in (gt_box, gt_label, gt_score)]
    return grad.reshape(x.shape), *zeros  # type: ignore[return-value]
