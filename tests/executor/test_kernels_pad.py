"""Padding and cropping. Literal numbers are PaddlePaddle 2.6.2's where it has a CPU kernel (all but pad2d)."""

from __future__ import annotations

from typing import Any

import numpy as np
import oarlock.executor.kernels  # noqa: F401 - tells the registry how to find a type
import pytest
from oarlock.ir.registry import lookup

RNG = np.random.default_rng(10)
X = np.arange(1, 7, dtype=np.float32).reshape(2, 3)


def ints(*values: int) -> Any:
    return np.array(values, np.int32)


def draw(*shape: int) -> Any:
    return RNG.standard_normal(shape)


class TestPad:
    def test_pairs_go_axis_by_axis(self) -> None:
        got = lookup("pad")(X, paddings=[1, 0, 0, 2], pad_value=0.5)
        assert got.tolist() == [[0.5] * 5, [1, 2, 3, 0.5, 0.5], [4, 5, 6, 0.5, 0.5]]

    @pytest.mark.parametrize("dtype", [np.int32, np.int64, np.float64, np.complex64])
    def test_the_value_takes_the_dtype(self, dtype) -> None:
        got = lookup("pad")(X.astype(dtype), paddings=[1, 0, 0, 0], pad_value=2.7)
        assert got.dtype == dtype and got[0, 0] == np.asarray(2.7).astype(dtype)

    @pytest.mark.parametrize(("paddings", "message"), [([1, 0], "4 integers"), ([-1, 0, 0, 0], "not be negative")])
    def test_refusals(self, paddings, message) -> None:
        with pytest.raises(ValueError, match=message):
            lookup("pad")(X, paddings=paddings)

    def test_a_0d_tensor_stays(self) -> None:
        assert lookup("pad")(np.array(3.0, np.float32), paddings=[]).tolist() == 3

    def test_gradient(self, gradcheck) -> None:
        gradcheck("pad", {"X": draw(2, 3, 2)}, {"paddings": [1, 0, 0, 2, 1, 1]})


class TestPad3d:
    PADS: Any = (2, 1, 1, 0, 0, 0)

    @pytest.mark.parametrize(
        ("mode", "want"),
        [
            ("constant", [[9] * 6, [9, 9, 1, 2, 3, 9], [9, 9, 4, 5, 6, 9]]),
            ("reflect", [[6, 5, 4, 5, 6, 5], [3, 2, 1, 2, 3, 2], [6, 5, 4, 5, 6, 5]]),
            ("replicate", [[1, 1, 1, 2, 3, 3], [1, 1, 1, 2, 3, 3], [4, 4, 4, 5, 6, 6]]),
            ("circular", [[5, 6, 4, 5, 6, 4], [2, 3, 1, 2, 3, 1], [5, 6, 4, 5, 6, 4]]),
        ],
    )
    @pytest.mark.parametrize("layout", ["NCDHW", "NDHWC"])
    def test_modes(self, mode, want, layout) -> None:
        x = X.reshape(1, 1, 1, 2, 3)
        if layout == "NDHWC":
            x = np.moveaxis(x, 1, -1)
        got = lookup("pad3d")(x, None, paddings=list(self.PADS), mode=mode, value=9.0, data_format=layout)
        got = np.moveaxis(got, -1, 1) if layout == "NDHWC" else got
        assert got[0, 0, 0].tolist() == want

    def test_left_comes_first_and_front_last(self) -> None:
        got = lookup("pad3d")(np.ones((1, 1, 1, 1, 1), np.float32), None, paddings=[1, 2, 3, 4, 5, 6])
        assert got.shape == (1, 1, 12, 8, 4)
        assert np.argwhere(got[0, 0]).tolist() == [[5, 3, 1]]

    def test_a_tensor_comes_before_the_attribute(self) -> None:
        x = np.ones((1, 1, 1, 1, 1), np.float32)
        assert lookup("pad3d")(x, ints(1, 0, 0, 0, 0, 0), paddings=[0] * 6).shape == (1, 1, 1, 1, 2)

    def test_negative_pads_cut(self) -> None:
        got = lookup("pad3d")(X.reshape(1, 1, 1, 2, 3), None, paddings=[-1, 1, 0, 0, 0, 0], value=9.0)
        assert got[0, 0, 0].tolist() == [[2, 3, 9], [5, 6, 9]]

    @pytest.mark.parametrize(
        ("attrs", "message"),
        [
            ({"paddings": [3, 0, 0, 0, 0, 0], "mode": "reflect"}, "must be below the size 3"),
            ({"paddings": [0] * 6, "mode": "edge"}, "mode must be one of"),
            ({"paddings": [0] * 4}, "6 integers"),
            ({"paddings": [-4, 0, 0, 0, 0, 0]}, "cut more than X"),
        ],
    )
    def test_refusals(self, attrs, message) -> None:
        with pytest.raises(ValueError, match=message):
            lookup("pad3d")(X.reshape(1, 1, 1, 2, 3), None, **attrs)

    @pytest.mark.parametrize("mode", ["constant", "reflect", "replicate", "circular"])
    @pytest.mark.parametrize("paddings", [[1, 2, 0, 1, 1, 1], [-1, 2, 1, -1, 0, 0]])
    def test_gradient(self, mode, paddings, gradcheck) -> None:
        gradcheck("pad3d", {"X": draw(1, 2, 3, 4, 4)}, {"paddings": paddings, "mode": mode})

    def test_wrapping_twice_around(self, gradcheck) -> None:
        x = draw(1, 1, 1, 2, 3)
        got = lookup("pad3d")(x, None, paddings=[7, 0, 0, 0, 0, 0], mode="circular")
        assert got.shape[-1] == 10 and got[0, 0, 0, 0, 0] == x[0, 0, 0, 0, 2]
        gradcheck("pad3d", {"X": x}, {"paddings": [7, 4, 0, 3, 0, 0], "mode": "circular"})


class TestPad2d:
    def test_top_bottom_left_right(self) -> None:
        got = lookup("pad2d")(X.reshape(1, 1, 2, 3), None, paddings=[1, 0, 0, 2], pad_value=9.0)
        assert got[0, 0].tolist() == [[9] * 5, [1, 2, 3, 9, 9], [4, 5, 6, 9, 9]]

    def test_edge_and_reflect(self) -> None:
        x = X.reshape(1, 2, 3, 1)
        got = lookup("pad2d")(x, None, paddings=[0, 1, 1, 0], mode="edge", data_format="NHWC")
        assert got[0, :, :, 0].tolist() == [[1, 1, 2, 3], [4, 4, 5, 6], [4, 4, 5, 6]]
        got = lookup("pad2d")(x, ints(1, 0, 2, 0), paddings=[0] * 4, mode="reflect", data_format="NHWC")
        assert got[0, :, :, 0].tolist() == [[6, 5, 4, 5, 6], [3, 2, 1, 2, 3], [6, 5, 4, 5, 6]]

    @pytest.mark.parametrize("mode", ["constant", "reflect", "edge"])
    @pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
    def test_gradient(self, mode, layout, gradcheck) -> None:
        gradcheck("pad2d", {"X": draw(2, 4, 3, 4)}, {"paddings": [1, 0, 2, 1], "mode": mode, "data_format": layout})


class TestPadConstantLike:
    def test_y_is_padded_behind_to_the_shape_of_x(self) -> None:
        got = lookup("pad_constant_like")(np.zeros((3, 4), np.float32), X, pad_value=7.0)
        assert got.tolist() == [[1, 2, 3, 7], [4, 5, 6, 7], [7, 7, 7, 7]]

    def test_a_larger_y_is_refused(self) -> None:
        with pytest.raises(ValueError, match="must fit into X"):
            lookup("pad_constant_like")(np.zeros((1, 4), np.float32), X)

    def test_gradient(self, gradcheck) -> None:
        gradcheck("pad_constant_like", {"X": draw(3, 4), "Y": draw(2, 3)}, {}, wrt=["Y"])


class TestCrop:
    WHOLE = np.arange(20, dtype=np.float32).reshape(4, 5)

    def test_shape_from_y_offsets_from_a_tensor(self) -> None:
        got = lookup("crop")(self.WHOLE, np.zeros((2, 2)), ints(0, 1), offsets=[], shape=[3, 3])
        assert got.tolist() == [[1, 2], [6, 7]]

    def test_minus_one_is_the_whole_axis(self) -> None:
        assert lookup("crop")(self.WHOLE, None, None, offsets=[0, 2], shape=[-1, 2]).shape == (4, 2)

    @pytest.mark.parametrize(
        ("offsets", "shape"), [([1, 2], [2, 4]), ([], [2, 2]), ([0, 0, 0], [1, 1, 1]), ([-1, 0], [1, 1])]
    )
    def test_what_reaches_outside_is_refused(self, offsets, shape) -> None:
        with pytest.raises(ValueError, match="X \\[4, 5\\]"):
            lookup("crop")(self.WHOLE, None, None, offsets=offsets, shape=shape)

    def test_gradient(self, gradcheck) -> None:
        gradcheck("crop", {"X": draw(4, 5)}, {"offsets": [1, 2], "shape": [2, 3]})
        gradcheck("crop", {"X": draw(4, 5), "Offsets": ints(2, 0)}, {"shape": [2, 3]})


class TestCropTensor:
    WHOLE = TestCrop.WHOLE

    def run(self, x: Any, shape_tensor=None, shapes=(), offsets_tensor=None, offsets_list=(), **attrs: Any) -> Any:
        return lookup("crop_tensor")(x, shape_tensor, list(shapes), offsets_tensor, list(offsets_list), **attrs)

    def test_minus_one_reaches_to_the_end(self) -> None:
        got = self.run(self.WHOLE, shape=[-1, 2], offsets=[1, 3])
        assert got.tolist() == [[8, 9], [13, 14], [18, 19]]

    def test_one_tensor_comes_before_a_list_before_the_attribute(self) -> None:
        both = {"shape": [3, 3], "offsets": [1, 2]}
        listed = {"shapes": [ints(2), ints(2)], "offsets_list": [ints(1), ints(0)]}
        assert self.run(self.WHOLE, **both).shape == (3, 3)
        assert self.run(self.WHOLE, **listed, **both).tolist() == [[5, 6], [10, 11]]
        got = self.run(self.WHOLE, ints(1, 2), **listed, offsets_tensor=ints(0, 1), **both)
        assert got.tolist() == [[1, 2]]

    def test_a_zero_extent_is_refused(self) -> None:
        with pytest.raises(ValueError, match="must not be zero"):
            self.run(self.WHOLE, shape=[2, 0], offsets=[0, 0])

    def test_gradient(self, gradcheck) -> None:
        gradcheck("crop_tensor", {"X": draw(4, 5)}, {"offsets": [1, 2], "shape": [-1, 3]})
        lists = {"OffsetsTensor": [ints(1), ints(0)], "ShapeTensor": [ints(2), ints(2)]}
        gradcheck("crop_tensor", {"X": draw(4, 5), **lists}, {})
