"""Training targets and metrics of detectors: matching, mining, sampling, masks, average precision."""

from __future__ import annotations

from typing import Any

import numpy as np
import oarlock.executor.kernels  # noqa: F401 - tells the registry how to find a type
import pytest
from oarlock.executor.values import LoDTensor
from oarlock.ir.registry import lookup


def run(type: str, *inputs: Any, **attrs: Any) -> Any:
    return lookup(type)(*inputs, **attrs)


def ragged(array: Any, *lengths: int, dtype: Any = np.float32) -> LoDTensor:
    return LoDTensor.from_lengths(np.asarray(array, dtype), [list(lengths)])


DIST = np.array([[0.9, 0.8, 0.1], [0.85, 0.3, 0.6]], np.float32)


def test_bipartite_match_takes_the_greatest_distance_first() -> None:
    """Row 0 takes column 0, so that row 1 is left with column 2."""
    indices, distances = run("bipartite_match", DIST)
    assert indices.tolist() == [[0, -1, 1]] and indices.dtype == np.int32
    np.testing.assert_array_equal(distances, np.array([[0.9, 0, 0.6]], np.float32))
    indices, _ = run("bipartite_match", DIST, match_type="per_prediction", dist_threshold=0.7)
    assert indices.tolist() == [[0, 0, 1]]


def test_bipartite_match_of_ragged_images() -> None:
    indices, _ = run("bipartite_match", LoDTensor.from_lengths(DIST, [[1, 0, 1]]))
    assert indices.tolist() == [[0, -1, -1], [-1, -1, -1], [0, -1, -1]]
    with pytest.raises(ValueError, match="match_type"):
        run("bipartite_match", DIST, match_type="best")


def test_target_assign() -> None:
    x = ragged(np.arange(12).reshape(3, 2, 2), 1, 2)
    match = np.array([[0, -1, 0], [1, 0, -1]], np.int32)
    out, weight = run("target_assign", x, match, None, mismatch_value=7)
    assert out.tolist() == [[[0, 1], [7, 7], [0, 1]], [[8, 9], [6, 7], [7, 7]]]
    assert weight[..., 0].tolist() == [[1, 0, 1], [1, 1, 0]]
    negative = ragged([[1], [2]], 1, 1, dtype=np.int32)
    out, weight = run("target_assign", x, match, negative, mismatch_value=7)
    assert weight[..., 0].tolist() == [[1, 1, 1], [1, 1, 1]]


def test_mining_takes_the_hardest_negatives_per_positive() -> None:
    loss = np.array([[0.1, 0.9, 0.5, 0.7]], np.float32)
    match = np.array([[0, -1, -1, -1]], np.int32)
    near = np.array([[0.9, 0.1, 0.2, 0.6]], np.float32)
    negative, updated = run("mine_hard_examples", loss, None, match, near, neg_pos_ratio=1.0)
    assert negative.array.tolist() == [[1]] and negative.lod == [[0, 1]] and updated.tolist() == match.tolist()
    negative, _ = run("mine_hard_examples", loss, None, match, near, neg_pos_ratio=3.0)
    assert negative.array.reshape(-1).tolist() == [1, 2]
    negative, updated = run("mine_hard_examples", loss, None, match, near, mining_type="hard_example", sample_size=2)
    assert negative.array.reshape(-1).tolist() == [1, 3] and updated.tolist() == [[-1, -1, -1, -1]]
    with pytest.raises(ValueError, match="sample_size > 0"):
        run("mine_hard_examples", loss, None, match, near, mining_type="hard_example")


ANCHORS = np.array([[0, 0, 9, 9], [0, 0, 19, 9], [50, 50, 59, 59], [0, 0, 9, 7]], np.float32)
RPN: dict[str, Any] = {"rpn_straddle_thresh": -1.0, "use_random": False}


def test_rpn_targets_of_one_image() -> None:
    truth = ragged([[0, 0, 9, 9]], 1)
    crowd, info = ragged([0], 1, dtype=np.int32), np.array([[100, 100, 1]], np.float32)
    location, score, target, label, weight = run("rpn_target_assign", ANCHORS, truth, crowd, info, **RPN)
    assert location.array.tolist() == [0, 3] and location.array.dtype == np.int32
    assert score.array.tolist() == [0, 3, 2] and label.array.tolist() == [[1], [1], [0]]
    np.testing.assert_allclose(target.array, [[0, 0, 0, 0], [0, 0.125, 0, np.log(10 / 8)]], atol=1e-6)
    assert (weight.array == 1).all() and score.lod == [[0, 3]]


def test_rpn_samples_at_random_within_its_budget() -> None:
    random = np.random.default_rng(0)
    anchors = (random.random((500, 4)) * 50).astype(np.float32)
    anchors[:, 2:] += anchors[:, :2] + 5
    truth, crowd = ragged([[10, 10, 40, 40]], 1), ragged([0], 1, dtype=np.int32)
    info = np.array([[200, 200, 1]], np.float32)
    attrs = {"rpn_straddle_thresh": -1.0, "rpn_batch_size_per_im": 32, "rpn_positive_overlap": 0.3}
    seen = set()
    for _ in range(3):
        location, score, *_ = run("rpn_target_assign", anchors, truth, crowd, info, **attrs)
        assert location.array.size <= 8 and score.array.size == 32
        seen.add(tuple(score.array.tolist()))
    assert len(seen) == 3


def test_retinanet_targets_carry_the_class() -> None:
    truth = ragged([[0, 0, 9, 9], [50, 50, 59, 59]], 2)
    label, crowd = ragged([[5], [6]], 2, dtype=np.int32), ragged([0, 1], 2, dtype=np.int32)
    info = np.array([[100, 100, 1]], np.float32)
    _, score, _, labels, _, number = run("retinanet_target_assign", ANCHORS, truth, label, crowd, info)
    assert score.array.tolist() == [0, 1, 3, 2] and labels.array.reshape(-1).tolist() == [5, 5, 5, 0]
    assert number.array.tolist() == [[4]]


SAMPLE: dict[str, Any] = {
    "batch_size_per_im": 4,
    "fg_fraction": 0.5,
    "fg_thresh": 0.5,
    "bg_thresh_hi": 0.5,
    "bg_thresh_lo": 0.0,
    "bbox_reg_weights": [0.1, 0.1, 0.2, 0.2],
    "class_nums": 3,
    "use_random": False,
}


def test_proposal_labels_put_truth_and_foreground_first() -> None:
    rois = ragged([[0, 0, 9, 9], [60, 60, 69, 69], [0, 0, 9, 19]], 3)
    truth = ragged([[0, 0, 9, 9]], 1)
    classes, crowd = ragged([2], 1, dtype=np.int32), ragged([0], 1, dtype=np.int32)
    info = np.array([[100, 100, 1]], np.float32)
    out, labels, targets, inside, outside, overlap = run(
        "generate_proposal_labels", rois, classes, crowd, truth, info, None, **SAMPLE
    )
    assert out.array.tolist() == [[0, 0, 9, 9], [0, 0, 9, 9], [60, 60, 69, 69]]
    assert labels.array.reshape(-1).tolist() == [2, 2, 0]
    assert inside.array[0].tolist() == [0] * 8 + [1] * 4 and not inside.array[2].any()
    np.testing.assert_array_equal(inside.array, outside.array)
    np.testing.assert_array_equal(targets.array, np.zeros((3, 12)))
    np.testing.assert_allclose(overlap.array, [1, 1, 0])
    with pytest.raises(ValueError, match="needs MaxOverlap"):
        run(
            "generate_proposal_labels",
            rois,
            classes,
            crowd,
            truth,
            info,
            None,
            **SAMPLE,
            is_cascade_rcnn=True,
        )


def test_masks_are_drawn_in_the_roi_and_the_class() -> None:
    square = LoDTensor(np.array([[2, 2], [6, 2], [6, 6], [2, 6]], np.float32), [[0, 1], [0, 1], [0, 4]])
    rois, labels = ragged([[0, 0, 8, 8], [9, 9, 12, 12]], 2), ragged([[1], [0]], 2, dtype=np.int32)
    one, none = ragged([1], 1, dtype=np.int32), ragged([0], 1, dtype=np.int32)
    info = np.array([[20, 20, 1]], np.float32)
    boxes, has, masks = run("generate_mask_labels", info, one, none, square, rois, labels, num_classes=2, resolution=4)
    assert boxes.array.tolist() == [[0, 0, 8, 8]] and has.array.tolist() == [[0]]
    assert masks.array[0, :16].tolist() == [-1] * 16
    assert masks.array[0, 16:].reshape(4, 4).tolist() == [
        [0, 0, 0, 0],
        [0, 1, 1, 0],
        [0, 1, 1, 0],
        [0, 0, 0, 0],
    ]


def detections() -> tuple[LoDTensor, LoDTensor]:
    """Class 1: a hit at 0.9, a second claim of the same truth at 0.8, a hit at 0.6. Two positives."""
    truth = [[1, 0, 0.1, 0.1, 0.3, 0.3], [1, 0, 0.6, 0.6, 0.8, 0.8]]
    found = [[1, 0.9, 0.1, 0.1, 0.3, 0.3], [1, 0.8, 0.1, 0.1, 0.3, 0.29], [1, 0.6, 0.6, 0.6, 0.8, 0.8]]
    return ragged(found, 3), ragged(truth, 2)


def test_average_precision_by_both_rules() -> None:
    found, truth = detections()
    none = [None] * 4
    count, hits, alarms, mean = run("detection_map", found, truth, *none, class_num=2)
    assert count.tolist() == [[0], [2]] and hits.lod == [[0, 0, 3]]
    assert hits.array[:, 1].tolist() == [1, 0, 1] and alarms.array[:, 1].tolist() == [0, 1, 0]
    np.testing.assert_allclose(mean, [0.5 * 1 + 0.5 * 2 / 3], rtol=1e-6)
    *_, mean = run("detection_map", found, truth, *none, class_num=2, ap_type="11point")
    np.testing.assert_allclose(mean, [(6 * 1 + 5 * 2 / 3) / 11], rtol=1e-6)


def test_average_precision_accumulates() -> None:
    found, truth = detections()
    first = run("detection_map", found, truth, *[None] * 4, class_num=2)
    state = (np.array([1], np.int32), *first[:3])
    count, hits, _, mean = run("detection_map", found, truth, *state, class_num=2)
    assert count.tolist() == [[0], [4]] and hits.lod == [[0, 0, 6]]
    np.testing.assert_allclose(mean, [0.25 * (1 + 1 + 3 / 5 + 4 / 6)], rtol=1e-6)
    fresh = run("detection_map", found, truth, np.array([0], np.int32), *first[:3], class_num=2)
    assert fresh[0].tolist() == [[0], [2]]


def test_a_difficult_truth_counts_for_nothing() -> None:
    found, truth = detections()
    truth.array[1, 1] = 1
    count, hits, _, mean = run("detection_map", found, truth, *[None] * 4, class_num=2, evaluate_difficult=False)
    assert count.tolist() == [[0], [1]] and hits.array[:, 1].tolist() == [1, 0]
    np.testing.assert_allclose(mean, [1.0])
