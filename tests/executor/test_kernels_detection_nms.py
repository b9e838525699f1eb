"""Non-maximum suppression: order of rows, ties, batches with an empty image, thresholds, polygons."""

from __future__ import annotations

from typing import Any

import numpy as np
import oarlock.executor.kernels  # noqa: F401 - tells the registry how to find a type
import pytest
from oarlock.errors import KernelError
from oarlock.executor.values import LoDTensor
from oarlock.ir.registry import lookup

ALL: dict[str, Any] = {"score_threshold": 0.1, "nms_top_k": -1, "keep_top_k": -1, "background_label": -1}
UNIT = [0, 0, 10, 10]


def nms3(boxes: Any, scores: Any, rois_num: Any = None, **attrs: Any) -> tuple[np.ndarray, ...]:
    box, score = (np.asarray(each, np.float32) for each in (boxes, scores))
    return lookup("multiclass_nms3")(box, score, rois_num, **{**ALL, **attrs})  # type: ignore[no-any-return]


def test_an_image_without_detections_stays_in_its_place() -> None:
    """Public report B82: a batch of three whose middle image is under the threshold."""
    boxes = [[UNIT, [20, 20, 30, 30]]] * 3
    scores = [[[0.9, 0.8]], [[0.05, 0.02]], [[0.3, 0.7]]]
    rows, index, number = nms3(boxes, scores)
    np.testing.assert_array_equal(number, np.array([2, 0, 2], np.int32))
    np.testing.assert_array_equal(index, np.array([[0], [1], [5], [4]], np.int32))
    np.testing.assert_allclose(rows[:, 1], [0.9, 0.8, 0.7, 0.3])
    np.testing.assert_array_equal(rows[2], np.array([0, 0.7, 20, 20, 30, 30], np.float32))
    old = lookup("multiclass_nms")(np.asarray(boxes, np.float32), np.asarray(scores, np.float32), **ALL)
    assert old.lod == [[0, 2, 2, 4]]
    np.testing.assert_array_equal(old.array, rows)


def test_nothing_at_all() -> None:
    boxes, scores = np.zeros((2, 3, 4), np.float32), np.zeros((2, 1, 3), np.float32)
    rows, index, number = nms3(boxes, scores)
    assert (rows.shape, rows.dtype) == ((0, 6), np.float32)
    assert (index.shape, index.dtype) == ((0, 1), np.int32)
    assert number.tolist() == [0, 0]
    first = lookup("multiclass_nms")(boxes, scores, **ALL)
    assert first.array.tolist() == [[-1.0]] and first.lod == [[0, 1]]
    second, numbers = lookup("multiclass_nms2")(boxes, scores, **ALL)
    assert second.array.shape == (0, 6) and second.lod == numbers.lod == [[0, 0, 0]]


def test_no_boxes_to_choose_from() -> None:
    rows, _, number = nms3(np.zeros((1, 0, 4)), np.zeros((1, 2, 0)))
    assert rows.shape == (0, 6) and number.tolist() == [0]


def test_rows_come_by_class_then_by_rank() -> None:
    boxes = [[UNIT, [100, 0, 110, 10], [200, 0, 210, 10]]]
    rows, *_ = nms3(boxes, [[[0.2, 0.9, 0.5], [0.8, 0.3, 0.6]]])
    assert rows[:, 0].tolist() == [0, 0, 0, 1, 1, 1]
    np.testing.assert_allclose(rows[:, 1], [0.9, 0.5, 0.2, 0.8, 0.6, 0.3])


def test_equal_scores_keep_the_order_of_the_boxes() -> None:
    boxes = [[[100, 0, 110, 10], UNIT, [200, 0, 210, 10]]]
    _, index, _ = nms3(boxes, [[[0.5, 0.5, 0.5]]])
    assert index.reshape(-1).tolist() == [0, 1, 2]
    _, index, _ = nms3([[UNIT] * 3], [[[0.5, 0.5, 0.5]]], nms_threshold=0.5)
    assert index.reshape(-1).tolist() == [0]
    _, index, _ = nms3(boxes, [[[0.5, 0.5, 0.5]]], keep_top_k=2)
    assert index.reshape(-1).tolist() == [0, 1]


def test_keep_top_k_counts_over_all_classes_of_an_image() -> None:
    boxes = [[UNIT, [100, 0, 110, 10]]] * 2
    scores = [[[0.9, 0.2], [0.3, 0.8]], [[0.4, 0.5], [0.6, 0.7]]]
    rows, _, number = nms3(boxes, scores, keep_top_k=3)
    assert number.tolist() == [3, 3]
    np.testing.assert_allclose(rows[:, 1], [0.9, 0.8, 0.3, 0.5, 0.7, 0.6])
    assert nms3(boxes, scores, keep_top_k=0)[2].tolist() == [0, 0]
    assert nms3(boxes, scores, nms_top_k=1)[2].tolist() == [2, 2]


def test_background_is_left_out_and_the_score_must_exceed_the_threshold() -> None:
    scores = [[[0.9, 0.9], [0.1, 0.25]]]
    rows, *_ = nms3([[UNIT, [100, 0, 110, 10]]], scores, background_label=0, score_threshold=0.1)
    np.testing.assert_array_equal(rows, np.array([[1, 0.25, 100, 0, 110, 10]], np.float32))


def test_normalized_boxes_have_no_extra_pixel() -> None:
    """[0, 0, 1, 1] and [1, 0, 2, 1] touch: 0 of 2 as shares, 2 of 6 as pixels."""
    boxes, scores = [[[0, 0, 1, 1], [1, 0, 2, 1]]], [[[0.9, 0.8]]]
    assert nms3(boxes, scores, nms_threshold=0.3, normalized=True)[2].tolist() == [2]
    assert nms3(boxes, scores, nms_threshold=0.3, normalized=False)[2].tolist() == [1]
    assert nms3(boxes, scores, nms_threshold=0.34, normalized=False)[2].tolist() == [2]


def test_a_box_whose_overlap_is_not_a_number_is_suppressed() -> None:
    point = [5, 5, 5, 5]
    _, index, _ = nms3([[point, point, UNIT]], [[[0.9, 0.8, 0.7]]])
    assert index.reshape(-1).tolist() == [0, 2]


def test_the_threshold_shrinks_after_each_kept_box() -> None:
    """Overlaps with the first box: 0.6 and 0.5. At 0.7 both stay; shrunk to 0.56, then 0.448, one or both go."""
    boxes, scores = [[[0, 0, 10, 10], [0, 0, 6, 10], [0, 5, 10, 10]]], [[[0.9, 0.8, 0.7]]]
    assert nms3(boxes, scores, nms_threshold=0.7)[2].tolist() == [3]
    _, index, _ = nms3(boxes, scores, nms_threshold=0.7, nms_eta=0.8)
    assert index.reshape(-1).tolist() == [0, 2]
    assert nms3(boxes, scores, nms_threshold=0.7, nms_eta=0.7)[2].tolist() == [1]


def test_many_boxes_agree_with_the_plain_algorithm() -> None:
    random = np.random.default_rng(0)
    boxes = random.random((1, 300, 4)).astype(np.float32) * 20
    boxes[..., 2:] += boxes[..., :2]
    scores = random.random((1, 1, 300)).astype(np.float32)
    _, index, _ = nms3(boxes, scores, nms_threshold=0.4)
    kept: list[int] = []
    for each in np.argsort(-scores[0, 0], kind="stable"):
        if scores[0, 0, each] > 0.1 and all(overlap(boxes[0, each], boxes[0, other]) <= 0.4 for other in kept):
            kept.append(int(each))
    assert 64 < len(kept) < 250
    assert index.reshape(-1).tolist() == kept


def overlap(a: np.ndarray, b: np.ndarray) -> float:
    sides = np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2])
    if (sides < 0).any():
        return 0.0
    inter = sides[0] * sides[1]
    return float(inter / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - inter))


def test_boxes_of_their_own_per_class() -> None:
    """Scores [M, C]: Index counts boxes times classes, rows of a class come in box order."""
    boxes = np.array([[UNIT, [50, 0, 60, 10]], [[200, 0, 210, 10], [300, 0, 310, 10]]], np.float32)
    scores = np.array([[0.5, 0.6], [0.9, 0.7]], np.float32)
    rows, index, number = nms3(boxes, scores, np.array([1, 1], np.int32))
    assert number.tolist() == [2, 2]
    assert index.reshape(-1).tolist() == [0, 1, 2, 3]
    rows, index, number = nms3(boxes, scores, np.array([2], np.int32))
    assert index.reshape(-1).tolist() == [0, 2, 1, 3]
    np.testing.assert_allclose(rows[:, 1], [0.5, 0.9, 0.6, 0.7])
    ragged = LoDTensor.from_lengths(boxes, [[2]])
    old = lookup("multiclass_nms")(ragged, LoDTensor.from_lengths(scores, [[2]]), **ALL)
    np.testing.assert_array_equal(old.array, rows)


@pytest.mark.parametrize(
    ("boxes", "scores", "says"),
    [
        ((1, 3, 5), (1, 2, 3), "4, 8, 16, 24 or 32 coordinates, got 5"),
        ((1, 3, 4), (1, 2, 4), "must agree in N and M"),
        ((3, 2, 4), (3, 2), "boxes per image must be told"),
        ((3, 4), (3,), "Scores is"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(boxes: Any, scores: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        nms3(np.zeros(boxes), np.zeros(scores))


def test_a_refusal_names_the_operator(run_op: Any) -> None:
    with pytest.raises(KernelError, match=r"block 0 op 0 \(multiclass_nms3\): BBoxes .* must agree"):
        inputs = {"BBoxes": np.zeros((1, 3, 4), np.float32), "Scores": np.zeros((1, 2, 4), np.float32)}
        run_op("multiclass_nms3", inputs, ALL)


def test_quadrilaterals_overlap_as_polygons() -> None:
    """A square and the same square turned by 45 degrees share about 0.71 of their union."""
    square = [0, 0, 2, 0, 2, 2, 0, 2]
    root = float(np.sqrt(2))
    turned = [1, 1 - root, 1 + root, 1, 1, 1 + root, 1 - root, 1]
    for threshold, count in ((0.70, 1), (0.71, 2)):
        _, _, number = nms3([[square, turned]], [[[0.9, 0.8]]], nms_threshold=threshold)
        assert number.tolist() == [count], threshold
    far = [30, 0, 32, 0, 32, 2, 30, 2]
    assert nms3([[square, far]], [[[0.9, 0.8]]], nms_threshold=0.0)[2].tolist() == [2]


def test_matrix_nms_lowers_scores_by_overlap() -> None:
    """The half that the second box shares with the first costs it half its score."""
    boxes = np.array([[UNIT, [0, 0, 10, 5], [50, 50, 60, 60]]], np.float32)
    scores = np.array([[[0.8, 0.6, 0.4]]], np.float32)
    rows, index, number = lookup("matrix_nms")(boxes, scores, **ALL)
    np.testing.assert_allclose(rows[:, 1], [0.8, 0.4, 0.3], rtol=1e-6)
    assert index.reshape(-1).tolist() == [0, 2, 1] and number.tolist() == [3]
    rows, *_ = lookup("matrix_nms")(boxes, scores, **ALL, use_gaussian=True, gaussian_sigma=2.0)
    np.testing.assert_allclose(rows[:, 1], [0.8, 0.4, 0.6 * np.exp(-0.5)], rtol=1e-6)
    assert lookup("matrix_nms")(boxes, scores, **ALL, post_threshold=0.35)[2].tolist() == [2]


def test_locality_aware_nms_merges_neighbours_by_weight() -> None:
    boxes = np.array([[[0, 0, 10, 10], [2, 0, 12, 10], [50, 0, 60, 10]]], np.float32)
    scores = np.array([[[0.6, 0.2, 0.5]]], np.float32)
    merged = lookup("locality_aware_nms")(boxes, scores, **ALL)
    np.testing.assert_allclose(merged.array, [[0, 0.8, 0.5, 0, 10.5, 10], [0, 0.5, 50, 0, 60, 10]], rtol=1e-6)
    assert merged.lod == [[0, 2]]


def test_plain_nms_gives_box_numbers() -> None:
    boxes = np.array([UNIT, [1, 1, 11, 11], [0, 0, 10, 10], [30, 30, 40, 40]], np.float64)
    kept = lookup("nms")(boxes, iou_threshold=0.5)
    assert kept.tolist() == [0, 3] and kept.dtype == np.int64


def test_retinanet_decodes_and_labels_from_one() -> None:
    anchors = [np.array([[0, 0, 9, 9], [20, 20, 39, 39]], np.float32)]
    deltas = [np.zeros((1, 2, 4), np.float32)]
    scores = [np.array([[[0.2, 0.9], [0.7, 0.0]]], np.float32)]
    info = np.array([[60, 60, 2]], np.float32)
    attrs = {"score_threshold": 0.05, "nms_top_k": -1, "nms_threshold": 0.3, "nms_eta": 1.0, "keep_top_k": 10}
    made = lookup("retinanet_detection_output")(deltas, scores, anchors, info, **attrs)
    expected = [[2, 0.9, 0, 0, 4.5, 4.5], [1, 0.7, 10, 10, 19.5, 19.5], [1, 0.2, 0, 0, 4.5, 4.5]]
    np.testing.assert_allclose(made.array, expected, rtol=1e-6)
    assert made.lod == [[0, 3]]
