"""Anchor boxes, box coding, clipping, overlap, proposals: small cases by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import oarlock.executor.kernels  # noqa: F401 - tells the registry how to find a type
import pytest
from oarlock.executor.values import LoDTensor
from oarlock.ir.registry import lookup

VARIANCES = [0.1, 0.1, 0.2, 0.2]


def run(type: str, *inputs: Any, **attrs: Any) -> Any:
    return lookup(type)(*inputs, **attrs)


def f32(*values: Any) -> np.ndarray:
    return np.array(values, np.float32)


def test_prior_boxes_of_one_cell() -> None:
    feature, image = np.zeros((1, 1, 1, 1), np.float32), np.zeros((1, 3, 100, 200), np.float32)
    attrs = {"min_sizes": [20.0], "max_sizes": [80.0], "aspect_ratios": [4.0], "variances": VARIANCES}
    boxes, variances = run("prior_box", feature, image, **attrs, flip=True, clip=False)
    widths = (boxes[0, 0, :, 2] - boxes[0, 0, :, 0]) * 200
    heights = (boxes[0, 0, :, 3] - boxes[0, 0, :, 1]) * 100
    np.testing.assert_allclose(widths, [20, 40, 10, 40], rtol=1e-5)
    np.testing.assert_allclose(heights, [20, 10, 40, 40], rtol=1e-5)
    np.testing.assert_allclose(boxes[0, 0, 0], [0.45, 0.4, 0.55, 0.6], rtol=1e-6)
    np.testing.assert_array_equal(variances[0, 0], np.tile(f32(*VARIANCES), (4, 1)))
    ordered, _ = run("prior_box", feature, image, **attrs, clip=False, min_max_aspect_ratios_order=True)
    np.testing.assert_allclose((ordered[0, 0, :, 2] - ordered[0, 0, :, 0]) * 200, [20, 40, 40, 10], rtol=1e-5)


def test_prior_boxes_refuse_unpaired_sizes() -> None:
    with pytest.raises(ValueError, match="max_sizes has 1 entries, min_sizes 2"):
        zeros = np.zeros((1, 1, 2, 2), np.float32)
        run("prior_box", zeros, zeros, min_sizes=[1.0, 2.0], max_sizes=[3.0], variances=VARIANCES)


def test_anchors_are_whole_pixel_boxes_scaled() -> None:
    anchors, _ = run(
        "anchor_generator",
        np.zeros((1, 1, 1, 2), np.float32),
        anchor_sizes=[32.0],
        aspect_ratios=[1.0],
        variances=VARIANCES,
        stride=[16.0, 16.0],
    )
    np.testing.assert_array_equal(anchors[0, :, 0], [[-8, -8, 23, 23], [8, -8, 39, 23]])


def test_box_coder_decodes_what_it_encodes() -> None:
    """Pixel boxes come back half a pixel lower: Paddle takes a target's center without the extra pixel."""
    random = np.random.default_rng(1)
    prior, target = (np.sort(random.random((4, 2, 2)), axis=1).reshape(4, 4) * 50 for _ in range(2))
    for normalized in (True, False):
        code = run("box_coder", prior, None, target, code_type="encode_center_size", box_normalized=normalized)
        back = run("box_coder", prior, None, code, code_type="decode_center_size", box_normalized=normalized)
        np.testing.assert_allclose(back, np.repeat(target[:, None], 4, axis=1) - (0 if normalized else 0.5), atol=1e-9)


def test_box_coder_axis_and_variances() -> None:
    prior, deltas = f32([0, 0, 10, 10], [10, 10, 30, 30]), np.ones((2, 3, 4), np.float32)
    made = run(
        "box_coder",
        prior,
        None,
        deltas,
        code_type="decode_center_size",
        axis=1,
        variance=[0.1, 0.2, 0.0, 0.0],
    )
    assert made.shape == (2, 3, 4)
    np.testing.assert_allclose(made[:, 0], [[1, 2, 11, 12], [12, 14, 32, 34]], rtol=1e-6)
    by_tensor = run(
        "box_coder",
        prior,
        np.tile(f32(0.1, 0.2, 0, 0), (2, 1)),
        deltas,
        code_type="decode_center_size",
        axis=1,
    )
    np.testing.assert_array_equal(by_tensor, made)
    with pytest.raises(ValueError, match="both given"):
        run("box_coder", prior, prior, deltas, code_type="decode_center_size", axis=1, variance=[1.0] * 4)
    with pytest.raises(ValueError, match=r"does not fit 2 priors along dimension 1"):
        run("box_coder", prior, None, deltas, code_type="decode_center_size")


def test_iou_of_touching_and_empty_boxes() -> None:
    x, y = f32([0, 0, 2, 2], [1, 1, 1, 1]), f32([1, 0, 3, 2], [1, 1, 1, 1])
    np.testing.assert_allclose(run("iou_similarity", x, y), [[1 / 3, 0], [0, 0]], rtol=1e-6)
    as_pixels = run("iou_similarity", x, y, box_normalized=False)
    np.testing.assert_allclose(as_pixels, [[6 / 12, 1 / 9], [1 / 9, 1]], rtol=1e-6)


def test_box_clip_uses_the_size_of_the_unscaled_image() -> None:
    boxes = LoDTensor.from_lengths(f32([-5, 3, 90, 90], [1, 2, 3, 4], [-1, -1, 99, 7]), [[2, 1]])
    made = run("box_clip", boxes, f32([40, 60, 2.0], [10, 20, 1.0]))
    np.testing.assert_array_equal(made.array, f32([0, 3, 29, 19], [1, 2, 3, 4], [0, 0, 19, 7]))
    assert made.lod == [[0, 2, 3]]
    with pytest.raises(ValueError, match="one level of LoD"):
        run("box_clip", boxes.array, f32([40, 60, 2.0]))


def test_box_decoder_assigns_the_best_class_but_the_background() -> None:
    prior, target = f32([0, 0, 9, 9]), np.zeros((1, 12), np.float32)
    target[0, 8] = 1
    decoded, assigned = run(
        "box_decoder_and_assign", prior[None][0], f32(0.1, 0.1, 0.2, 0.2), target, f32([0.9, 0.1, 0.5])
    )
    np.testing.assert_allclose(assigned, [[1, 0, 10, 9]], rtol=1e-6)
    np.testing.assert_allclose(decoded[:, :4], [[0, 0, 9, 9]], rtol=1e-6)


def test_polygon_box_transform() -> None:
    made = run("polygon_box_transform", np.ones((1, 2, 2, 3), np.float32))
    np.testing.assert_array_equal(made[0, 0], [[-1, 3, 7], [-1, 3, 7]])
    np.testing.assert_array_equal(made[0, 1], [[-1, -1, -1], [3, 3, 3]])


PROPOSAL_ATTRS: dict[str, Any] = {
    "pre_nms_topN": 10,
    "post_nms_topN": 5,
    "nms_thresh": 0.5,
    "min_size": 2.0,
    "eta": 1.0,
}


def one_anchor(box: list[float], score: float) -> tuple[np.ndarray, ...]:
    anchors = f32(box).reshape(1, 1, 1, 4)
    return f32(score).reshape(1, 1, 1, 1), np.zeros((1, 4, 1, 1), np.float32), anchors, np.ones_like(anchors)


def test_proposals_are_clipped_into_the_image() -> None:
    score, delta, anchors, variances = one_anchor([-10, -10, 30, 50], 0.9)
    for offset, last in ((True, [0, 0, 30, 39]), (False, [0, 0, 30, 40])):
        rois, probs, number = run(
            "generate_proposals_v2",
            score,
            delta,
            f32([40, 60]),
            anchors,
            variances,
            **PROPOSAL_ATTRS,
            pixel_offset=offset,
        )
        np.testing.assert_allclose(rois, [last], rtol=1e-6)
        assert probs.tolist() == [[np.float32(0.9)]] and number.tolist() == [1] and number.dtype == np.int32


def test_an_image_without_proposals_gets_one_zero_box() -> None:
    score, delta, anchors, variances = one_anchor([3, 3, 3.5, 3.5], 0.9)
    rois, probs, number = run(
        "generate_proposals_v2", score, delta, f32([40, 60]), anchors, variances, **PROPOSAL_ATTRS
    )
    assert rois.tolist() == [[0, 0, 0, 0]] and probs.tolist() == [[0]] and number.tolist() == [1]
    made = run("generate_proposals", score, delta, f32([40, 60, 1]), anchors, variances, **PROPOSAL_ATTRS)
    assert made[0].lod == [[0, 1]] and made[2].tolist() == [1]


def test_proposals_are_distributed_by_size_and_can_be_restored() -> None:
    rois = f32([0, 0, 223, 223], [0, 0, 55, 55], [0, 0, 447, 447], [0, 0, 1, 1])
    levels, restore, numbers = run(
        "distribute_fpn_proposals",
        rois,
        np.array([3, 1], np.int32),
        min_level=2,
        max_level=5,
        refer_level=4,
        refer_scale=224,
    )
    assert [each.array.shape[0] for each in levels] == [2, 0, 1, 1]
    assert [each.tolist() for each in numbers] == [[1, 1], [0, 0], [1, 0], [1, 0]]
    assert levels[0].lod == [[0, 1, 2]]
    together = np.concatenate([each.array for each in levels])
    np.testing.assert_array_equal(together[restore[:, 0]], rois)
    with pytest.raises(ValueError, match="boxes per image must be told"):
        run("distribute_fpn_proposals", rois, None, min_level=2, max_level=5, refer_level=4, refer_scale=224)


def test_collected_proposals_are_the_best_of_all_levels_image_by_image() -> None:
    levels = [f32([1, 1, 1, 1], [2, 2, 2, 2]), f32([3, 3, 3, 3], [4, 4, 4, 4])]
    scores = [f32([0.1], [0.9]), f32([0.8], [0.7])]
    numbers = [np.array(each, np.int32) for each in ([1, 1], [2, 0])]
    rois, number = run("collect_fpn_proposals", levels, scores, numbers, post_nms_topN=3)
    assert rois.array[:, 0].tolist() == [3, 4, 2] and rois.lod == [[0, 2, 3]] and number.tolist() == [2, 1]
