"""YOLO heads: decoding by hand, the loss of one box by hand, its gradient."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import oarlock.executor.kernels  # noqa: F401 - tells the registry how to find a type
import pytest
from oarlock.ir.registry import lookup


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def head(**at: float) -> np.ndarray:
    """One anchor, one class, 2 x 2 cells; the numbers of cell (row 1, column 0)."""
    x = np.full((1, 6, 2, 2), -9.0)
    for place, name in enumerate(("x", "y", "w", "h", "obj", "cls")):
        x[0, place, 1, 0] = at.get(name, 0.0)
    return x


ATTRS: dict[str, Any] = {"anchors": [16, 32], "class_num": 1, "conf_thresh": 0.1, "downsample_ratio": 16}
SIZE = np.array([[64, 128]], np.int32)


def test_a_cell_becomes_a_box_in_image_pixels() -> None:
    boxes, scores = lookup("yolo_box")(head(obj=2.0, cls=1.0), SIZE, **ATTRS, clip_bbox=False)
    # Center (0.5, 1.5) cells of 64 x 32 pixels; size 16 / 32 of the width, 32 / 32 of the height.
    np.testing.assert_allclose(boxes[0, 2], [0, 16, 64, 80])
    np.testing.assert_allclose(scores[0, 2, 0], sigmoid(2) * sigmoid(1))
    np.testing.assert_array_equal(boxes[0, [0, 1, 3]], 0)
    np.testing.assert_array_equal(scores[0, [0, 1, 3]], 0)


def test_clipping_ends_one_pixel_inside() -> None:
    boxes, _ = lookup("yolo_box")(head(obj=2.0, h=1.0), SIZE, **ATTRS)
    np.testing.assert_allclose(boxes[0, 2], [0, 0, 64, 63])


def test_scale_x_y_spreads_the_center() -> None:
    boxes, _ = lookup("yolo_box")(head(obj=2.0, x=1.0), SIZE, **ATTRS, clip_bbox=False, scale_x_y=1.2)
    assert boxes[0, 2, [0, 2]].mean() == pytest.approx((sigmoid(1) * 1.2 - 0.1) * 64)


def test_overlap_aware_confidence() -> None:
    x = np.concatenate((np.full((1, 1, 2, 2), 0.5), head(obj=2.0, cls=1.0)), axis=1)
    _, scores = lookup("yolo_box")(x, SIZE, **ATTRS, iou_aware=True, iou_aware_factor=0.4)
    assert scores[0, 2, 0] == pytest.approx(sigmoid(2) ** 0.6 * sigmoid(0.5) ** 0.4 * sigmoid(1))
    with pytest.raises(ValueError, match="1 anchors and 1 classes need 6"):
        lookup("yolo_box")(x, SIZE, **ATTRS)


LOSS: dict[str, Any] = {
    "anchors": [16, 32, 60, 60],
    "anchor_mask": [0],
    "class_num": 1,
    "ignore_thresh": 0.7,
    "downsample_ratio": 16,
    "use_label_smooth": False,
}


def cross_entropy(x: float, label: float) -> float:
    return max(x, 0) - x * label + math.log1p(math.exp(-abs(x)))


def test_the_loss_of_one_box() -> None:
    x = head(x=0.3, y=-0.2, w=0.1, h=0.4, obj=0.7, cls=1.0)
    box = np.array([[[0.2, 0.7, 0.5, 0.5], [0.5, 0.5, 0.0, 0.0]]])
    loss, mask, match = lookup("yolov3_loss")(x, box, np.zeros((1, 2), np.int32), None, **LOSS)
    assert match.tolist() == [[0, -1]] and match.dtype == np.int32
    assert mask.reshape(-1).tolist() == [0, 0, 1, 0]
    scale = 2 - 0.25
    located = cross_entropy(0.3, 0.4) + cross_entropy(-0.2, 0.4)
    located += abs(0.1 - math.log(0.5 * 32 / 16)) + abs(0.4 - math.log(0.5 * 32 / 32))
    rest = cross_entropy(0.7, 1) + cross_entropy(1.0, 1) + 3 * cross_entropy(-9.0, 0)
    assert loss[0] == pytest.approx(located * scale + rest)


def test_a_box_that_another_head_answers_for_gives_no_location_loss() -> None:
    box = np.array([[[0.2, 0.7, 0.95, 0.95]]])
    attrs = {**LOSS, "anchors": [16, 32, 30, 30]}
    loss, mask, match = lookup("yolov3_loss")(head(), box, np.zeros((1, 1), np.int32), None, **attrs)
    assert match.tolist() == [[-1]] and not mask.any()
    assert loss[0] == pytest.approx(cross_entropy(0, 0) + 3 * cross_entropy(-9, 0))


def test_a_free_cell_that_overlaps_well_is_not_punished() -> None:
    box = np.array([[[0.25, 0.75, 0.5, 1.0]]])
    attrs = {**LOSS, "anchors": [60, 60, 16, 32], "anchor_mask": [0]}
    _, mask, _ = lookup("yolov3_loss")(head(w=-1.3, h=-0.6), box, np.zeros((1, 1), np.int32), None, **attrs)
    assert mask.reshape(-1).tolist() == [0, 0, -1, 0]


def test_maps_must_be_square() -> None:
    with pytest.raises(ValueError, match="2 x 3: the loss takes square maps only"):
        empty = np.zeros((1, 1, 4))
        lookup("yolov3_loss")(np.zeros((1, 6, 2, 3)), empty, np.zeros((1, 1), np.int32), None, **LOSS)


def test_the_gradient_of_the_loss(gradcheck: Any) -> None:
    random = np.random.default_rng(3)
    inputs = {
        "X": random.normal(size=(2, 14, 4, 4)),
        "GTBox": np.array([[[0.1, 0.2, 0.2, 0.4], [0.6, 0.7, 0.5, 0.3]], [[0.4, 0.9, 0.6, 0.7], [0.9, 0.1, 0.3, 0.4]]]),
        "GTLabel": random.integers(0, 2, (2, 2)).astype(np.int32),
        "GTScore": random.random((2, 2)),
    }
    attrs = {**LOSS, "anchors": [16, 32, 30, 20, 40, 40], "anchor_mask": [0, 1], "class_num": 2}
    gradcheck("yolov3_loss", inputs, attrs, wrt=["X"], outputs=["Loss"])
