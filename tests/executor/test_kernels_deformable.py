"""Deformable convolution and pooling. Literal numbers are PaddlePaddle 2.6.2's."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest
from oarlock.executor.kernels import deformable
from oarlock.executor.values import LoDTensor
from oarlock.ir.registry import lookup

RNG = np.random.default_rng(11)


def count(*shape: int) -> Any:
    """1, 2, 3, ... in this shape."""
    return np.arange(1, np.prod(shape) + 1, dtype=np.float32).reshape(shape)


def draw(*shape: int, dtype: Any = float) -> Any:
    return RNG.standard_normal(shape).astype(dtype)


def column(*values: float) -> Any:
    return np.array(values, np.float32).reshape(1, -1, 1, 1)


OFFSET = column(0.5, 0, 0, 0.25, -1.5, 0, 0, 0)
MASK = column(1, 0.5, 2, 1)


class TestConvolution:
    def test_taps_move_by_offset_y_before_x_and_count_by_the_mask(self) -> None:
        got = lookup("deformable_conv")(count(1, 1, 2, 2), OFFSET, count(1, 1, 2, 2), MASK)
        np.testing.assert_allclose(got.reshape(-1), [22.5])

    def test_gradients(self, run_op) -> None:
        inputs = {"Input": count(1, 1, 2, 2), "Offset": OFFSET, "Filter": count(1, 1, 2, 2), "Mask": MASK}
        got = run_op("deformable_conv", inputs, {}, cotangents={"Output": np.ones((1, 1, 1, 1), np.float32)})
        want = {
            "Input": [3.5, 0.75, 0.5, 4],
            "Offset": [2, 1, 1.5, -2, 6, 3, -16, -16],
            "Filter": [2, 0.75, 1, 4],
            "Mask": [2, 3, 1.5, 16],
        }
        for slot, values in want.items():
            np.testing.assert_allclose(got.gradients[slot].reshape(-1), values, err_msg=slot)

    def test_without_offsets_it_is_a_convolution(self) -> None:
        x, w = draw(2, 4, 6, 7, dtype=np.float32), draw(6, 2, 3, 3, dtype=np.float32)
        attrs: Any = {"strides": [2, 1], "paddings": [1, 2], "dilations": [1, 2], "groups": 2}
        want = lookup("conv2d")(x, w, **attrs)
        offset = np.zeros((2, 2 * 2 * 9, *want.shape[2:]), np.float32)
        got = lookup("deformable_conv_v1")(x, offset, w, **attrs, deformable_groups=2)
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)

    def test_blocks_of_rows_give_the_same(self, monkeypatch) -> None:
        inputs = (draw(1, 2, 5, 6), draw(1, 18, 5, 6), draw(3, 2, 3, 3), draw(1, 9, 5, 6))
        want = lookup("deformable_conv")(*inputs, paddings=[1, 1])
        back = lookup("deformable_conv_grad")(*inputs, np.ones_like(want), paddings=[1, 1])
        monkeypatch.setattr(deformable, "_BLOCK_BYTES", 1)
        np.testing.assert_allclose(lookup("deformable_conv")(*inputs, paddings=[1, 1]), want, rtol=1e-12)
        for got, expected in zip(
            lookup("deformable_conv_grad")(*inputs, np.ones_like(want), paddings=[1, 1]), back, strict=True
        ):
            np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-12)

    @pytest.mark.parametrize(
        ("groups", "deformable_groups", "attrs"),
        [
            (1, 1, {"paddings": [1, 1]}),
            (2, 2, {"strides": [2, 1], "paddings": [0, 1]}),
            (1, 2, {"dilations": [2, 1]}),
        ],
    )
    def test_gradient(self, groups, deformable_groups, attrs, gradcheck) -> None:
        x, w = draw(2, 4, 5, 6), draw(2, 4 // groups, 3, 2)
        out = lookup("conv2d")(x, w, groups=groups, **attrs).shape[2:]
        offset = draw(2, 2 * deformable_groups * 6, *out)
        mask = draw(2, deformable_groups * 6, *out)
        attrs = {**attrs, "groups": groups, "deformable_groups": deformable_groups}
        inputs = {"Input": x, "Offset": offset, "Filter": w}
        gradcheck("deformable_conv_v1", inputs, attrs, rtol=1e-5)
        gradcheck("deformable_conv", {**inputs, "Mask": mask}, attrs, rtol=1e-5)

    @pytest.mark.parametrize(
        ("offset", "mask", "message"),
        [((1, 8, 2, 1), (1, 4, 1, 1), "Offset must be"), ((1, 8, 1, 1), (1, 3, 1, 1), "Mask must be")],
    )
    def test_shapes_that_do_not_fit_are_refused(self, offset, mask, message) -> None:
        inputs = (
            count(1, 1, 2, 2),
            np.zeros(offset, np.float32),
            count(1, 1, 2, 2),
            np.zeros(mask, np.float32),
        )
        with pytest.raises(ValueError, match=message):
            lookup("deformable_conv")(*inputs)


class TestPooling:
    ROIS = LoDTensor(np.array([[0, 0, 2, 1]], np.float32), [[0, 1]])
    ATTRS: ClassVar[dict[str, Any]] = {
        "spatial_scale": 1.0,
        "output_dim": 1,
        "group_size": [2, 2],
        "pooled_height": 2,
        "pooled_width": 2,
        "part_size": [1, 1],
        "sample_per_part": 2,
        "trans_std": 0.2,
    }
    MOVES = column(1, -0.5)

    def test_without_movements(self) -> None:
        count_, out = lookup("deformable_psroi_pooling")(
            count(1, 4, 3, 3), self.ROIS, self.MOVES, no_trans=True, **self.ATTRS
        )
        assert count_.reshape(-1).tolist() == [4, 4, 4, 4]
        assert out.reshape(-1).tolist() == [1.125, 11.375, 21.375, 31.625]

    def test_samples_that_move_outside_do_not_count(self) -> None:
        count_, out = lookup("deformable_psroi_pooling")(
            count(1, 4, 3, 3), self.ROIS, self.MOVES, no_trans=False, **self.ATTRS
        )
        assert count_.reshape(-1).tolist() == [2, 2, 4, 4]
        np.testing.assert_allclose(out.reshape(-1), [1.475, 11.8, 21.125, 31.45], rtol=1e-5)

    def test_gradients(self, gradcheck) -> None:
        rois = LoDTensor(np.array([[0.2, 1, 5.4, 4.1], [2.2, 0.7, 6.9, 5], [1, 2, 3, 6]]), [[0, 1, 3]])
        attrs = {**self.ATTRS, "no_trans": False, "output_dim": 2, "part_size": [2, 2], "sample_per_part": 3}
        inputs = {"Input": draw(2, 8, 7, 8), "ROIs": rois, "Trans": draw(3, 4, 2, 2)}
        gradcheck("deformable_psroi_pooling", inputs, attrs, wrt=["Input", "Trans"], outputs=["Output"], rtol=1e-5)

    def test_regions_need_to_know_their_images(self) -> None:
        with pytest.raises(ValueError, match="ROIs need their number per image"):
            lookup("deformable_psroi_pooling")(
                count(1, 4, 3, 3), self.ROIS.array, self.MOVES, no_trans=True, **self.ATTRS
            )
