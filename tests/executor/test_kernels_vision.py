"""Channels, pixels, columns, correlation. Literal numbers are PaddlePaddle 2.6.2's where it has a CPU kernel."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import oarlock.executor.kernels  # noqa: F401 - tells the registry how to find a type
import pytest
from oarlock.ir.registry import lookup

RNG = np.random.default_rng(12)


def count(*shape: int) -> Any:
    """1, 2, 3, ... in this shape."""
    return np.arange(1, np.prod(shape) + 1, dtype=np.float32).reshape(shape)


def draw(*shape: int, dtype: Any = float) -> Any:
    return RNG.standard_normal(shape).astype(dtype)


class TestPixels:
    def test_shuffle(self) -> None:
        got = lookup("pixel_shuffle")(count(1, 4, 1, 2), upscale_factor=2)
        assert got[0, 0].tolist() == [[1, 3, 2, 4], [5, 7, 6, 8]]

    def test_unshuffle(self) -> None:
        got = lookup("pixel_unshuffle")(count(1, 1, 2, 4), downscale_factor=2)
        assert got[0, :, 0].tolist() == [[1, 3], [2, 4], [5, 7], [6, 8]]

    @pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
    def test_one_undoes_the_other(self, layout) -> None:
        x = draw(2, 8, 6, 8)
        there = lookup("pixel_shuffle")(x, upscale_factor=2, data_format=layout)
        back = lookup("pixel_unshuffle")(there, downscale_factor=2, data_format=layout)
        np.testing.assert_array_equal(back, x)

    def test_what_does_not_divide_is_refused(self) -> None:
        with pytest.raises(ValueError, match="6 channels cannot be spread"):
            lookup("pixel_shuffle")(count(1, 6, 2, 2), upscale_factor=2)
        with pytest.raises(ValueError, match="3 x 4 pixels cannot be cut"):
            lookup("pixel_unshuffle")(count(1, 1, 3, 4), downscale_factor=2)

    def test_space_to_depth_is_the_reorganisation_of_yolo_v2(self) -> None:
        got = lookup("space_to_depth")(np.arange(16, dtype=np.float32).reshape(1, 4, 2, 2), blocksize=2)
        assert got.shape == (1, 16, 1, 1)
        assert got.reshape(-1).tolist() == [0, 4, 1, 5, 8, 12, 9, 13, 2, 6, 3, 7, 10, 14, 11, 15]

    @pytest.mark.parametrize(
        ("kind", "attrs"),
        [
            ("pixel_shuffle", {"upscale_factor": 2}),
            ("pixel_shuffle", {"upscale_factor": 2, "data_format": "NHWC"}),
            ("pixel_unshuffle", {"downscale_factor": 2}),
            ("channel_shuffle", {"groups": 4}),
            ("channel_shuffle", {"groups": 2, "data_format": "NHWC"}),
            ("shuffle_channel", {"group": 2}),
            ("space_to_depth", {"blocksize": 2}),
            ("temporal_shift", {"seg_num": 3, "shift_ratio": 0.3}),
            ("temporal_shift", {"seg_num": 2, "data_format": "NHWC"}),
        ],
    )
    def test_gradient(self, kind, attrs, gradcheck) -> None:
        gradcheck(kind, {"X": draw(6, 8, 4, 8)}, attrs)


class TestChannels:
    @pytest.mark.parametrize(("kind", "attr"), [("channel_shuffle", "groups"), ("shuffle_channel", "group")])
    def test_shuffle_interleaves_groups(self, kind, attr) -> None:
        got = lookup(kind)(count(1, 6, 1, 1), **{attr: 2})
        assert got.reshape(-1).tolist() == [1, 4, 2, 5, 3, 6]

    def test_groups_that_do_not_divide_are_refused(self) -> None:
        with pytest.raises(ValueError, match="6 channels cannot be cut into 4 groups"):
            lookup("channel_shuffle")(count(1, 6, 1, 1), groups=4)

    def test_temporal_shift_moves_a_quarter_each_way(self) -> None:
        got = lookup("temporal_shift")(count(3, 4, 1, 1), seg_num=3)
        assert got.reshape(3, 4).tolist() == [[0, 6, 3, 4], [1, 10, 7, 8], [5, 0, 11, 12]]

    @pytest.mark.parametrize(("seg_num", "ratio"), [(2, 0.25), (3, 0.5), (3, 0.0)])
    def test_temporal_shift_refuses(self, seg_num, ratio) -> None:
        with pytest.raises(ValueError, match=r"seg_num|shift_ratio"):
            lookup("temporal_shift")(count(3, 4, 1, 1), seg_num=seg_num, shift_ratio=ratio)

    @pytest.mark.parametrize(("layout", "axis"), [("NCHW", 1), ("NHWC", 3), ("AnyLayout", 3)])
    def test_affine_channel(self, layout, axis, gradcheck) -> None:
        x, scale, bias = draw(2, 3, 4, 3), draw(3), draw(3)
        got = lookup("affine_channel")(x, scale, bias, data_layout=layout)
        shape = [3 if i == axis else 1 for i in range(4)]
        np.testing.assert_array_equal(got, x * scale.reshape(shape) + bias.reshape(shape))
        gradcheck("affine_channel", {"X": x, "Scale": scale, "Bias": bias}, {"data_layout": layout})

    def test_lrn(self) -> None:
        out, mid = lookup("lrn")(count(1, 4, 1, 2), n=3, k=1.0, alpha=0.1, beta=0.5, data_format="NCHW")
        np.testing.assert_allclose(mid.reshape(-1), [2, 3, 4.5, 6.6, 9.3, 12.6, 8.4, 11], rtol=1e-6)
        want = [0.70711, 1.1547, 1.41421, 1.557, 1.63956, 1.69031, 2.41523, 2.41209]
        np.testing.assert_allclose(out.reshape(-1), want, rtol=1e-5)

    def test_lrn_needs_an_odd_window(self) -> None:
        with pytest.raises(ValueError, match="n must be odd"):
            lookup("lrn")(count(1, 4, 1, 2), n=4)

    @pytest.mark.parametrize("layout", ["NCHW", "NHWC", "AnyLayout"])
    def test_lrn_gradient(self, layout, gradcheck) -> None:
        attrs = {"n": 3, "k": 1.5, "alpha": 0.2, "beta": 0.6, "data_format": layout}
        gradcheck("lrn", {"X": draw(2, 6, 3, 5)}, attrs, outputs=["Out"])

    def test_fsp(self, gradcheck) -> None:
        x, y = draw(2, 3, 4, 5), draw(2, 6, 4, 5)
        got = lookup("fsp")(x, y)
        np.testing.assert_allclose(got, np.einsum("nchw,ndhw->ncd", x, y) / 20)
        gradcheck("fsp", {"X": x, "Y": y}, {})


class TestColumns:
    UNFOLD: Any = ("kernel_sizes", "strides", "paddings", "dilations")

    def test_unfold(self) -> None:
        attrs = dict(zip(self.UNFOLD, ([2, 2], [1, 1], [0, 1, 0, 0], [1, 1]), strict=True))
        got = lookup("unfold")(count(1, 1, 3, 3), **attrs)
        want = [[0, 1, 2, 0, 4, 5], [1, 2, 3, 4, 5, 6], [0, 4, 5, 0, 7, 8], [4, 5, 6, 7, 8, 9]]
        assert got[0].tolist() == want

    def test_fold(self) -> None:
        attrs = dict(zip(self.UNFOLD, ([2, 2], [1, 1], [0] * 4, [1, 1]), strict=True))
        got = lookup("fold")(count(1, 4, 4), output_sizes=[3, 3], **attrs)
        assert got[0, 0].tolist() == [[1, 7, 6], [12, 34, 22], [11, 27, 16]]

    def test_columns_that_do_not_fit_are_refused(self) -> None:
        attrs = dict(zip(self.UNFOLD, ([2, 2], [1, 1], [0] * 4, [1, 1]), strict=True))
        with pytest.raises(ValueError, match="must be \\[N, C \\* 4, 4\\]"):
            lookup("fold")(count(1, 4, 5), output_sizes=[3, 3], **attrs)

    def test_complex_numbers_fold(self) -> None:
        attrs = dict(zip(self.UNFOLD, ([2, 2], [1, 1], [0] * 4, [1, 1]), strict=True))
        got = lookup("fold")(count(1, 4, 4) * (1 + 2j), output_sizes=[3, 3], **attrs)
        assert got[0, 0, 1, 1] == 34 + 68j

    def test_gradients(self, gradcheck) -> None:
        attrs = dict(zip(self.UNFOLD, ([2, 3], [2, 1], [1, 0, 2, 1], [1, 2]), strict=True))
        gradcheck("unfold", {"X": draw(2, 3, 6, 7)}, attrs)
        columns = lookup("unfold")(draw(2, 3, 6, 7), **attrs)
        gradcheck("fold", {"X": columns}, {**attrs, "output_sizes": [6, 7]})


def correlation_by_definition(x: Any, y: Any, pad: int, kernel: int, reach: int, s1: int, s2: int) -> Any:
    """Mean products of patches, one displacement and one pixel at a time."""
    radius, steps = (kernel - 1) // 2, reach // s2
    wide = ((0, 0), (0, 0), (pad + 8, pad + 8), (pad + 8, pad + 8))
    first, second = np.pad(x, wide), np.pad(y, wide)
    height, width = (math.ceil((n + 2 * pad - 2 * (radius + reach)) / s1) for n in x.shape[2:])
    out = np.zeros((x.shape[0], (2 * steps + 1) ** 2, height, width))
    for c, (dy, dx) in enumerate((j, i) for j in range(-steps, steps + 1) for i in range(-steps, steps + 1)):
        for h in range(height):
            for w in range(width):
                t, left = h * s1 + reach - radius + 8, w * s1 + reach - radius + 8
                a = first[:, :, t : t + kernel, left : left + kernel]
                b = second[:, :, t + dy * s2 :, left + dx * s2 :][:, :, :kernel, :kernel]
                out[:, c, h, w] = (a * b).sum(axis=(1, 2, 3)) / (kernel * kernel * x.shape[1])
    return out


class TestCorrelation:
    NAMES = ("pad_size", "kernel_size", "max_displacement", "stride1", "stride2")

    @pytest.mark.parametrize("values", [(4, 1, 4, 1, 1), (3, 3, 2, 1, 2), (2, 3, 2, 2, 1), (4, 1, 4, 2, 2)])
    def test_definition_and_gradient(self, values, gradcheck) -> None:
        x, y = draw(2, 3, 7, 8), draw(2, 3, 7, 8)
        attrs = dict(zip(self.NAMES, values, strict=True))
        got = lookup("correlation")(x, y, **attrs)
        np.testing.assert_allclose(got, correlation_by_definition(x, y, *values), atol=1e-12)
        gradcheck("correlation", {"Input1": x, "Input2": y}, attrs)

    @pytest.mark.parametrize("values", [(0, 2, 1, 1, 1), (0, 1, 9, 1, 1), (0, 1, 1, 0, 1)])
    def test_refusals(self, values) -> None:
        with pytest.raises(ValueError, match=r"kernel_size must be odd|does not fit"):
            lookup("correlation")(draw(1, 1, 5, 5), draw(1, 1, 5, 5), **dict(zip(self.NAMES, values, strict=True)))


class TestConvShift:
    def test_circular_convolution(self, gradcheck) -> None:
        x, y = np.array([[1.0, 2, 3, 4]]), np.array([[10.0, 1, 100]])
        assert lookup("conv_shift")(x, y).tolist() == [[10 * 4 + 1 + 200, 12 + 300, 23 + 400, 34 + 100]]
        gradcheck("conv_shift", {"X": draw(3, 7), "Y": draw(3, 5)}, {})

    def test_an_even_filter_is_refused(self) -> None:
        with pytest.raises(ValueError, match="an odd N"):
            lookup("conv_shift")(np.ones((1, 4)), np.ones((1, 2)))


class TestBilateralSlice:
    @pytest.mark.parametrize("has_offset", [True, False])
    def test_a_constant_grid_is_one_affine_map(self, has_offset) -> None:
        x, guide = draw(2, 3, 6, 8), RNG.uniform(0.2, 0.8, (2, 6, 8))
        inputs = 4 if has_offset else 3
        maps = draw(2, inputs)
        grid = np.broadcast_to(maps.reshape(1, -1, 1, 1, 1), (2, 2 * inputs, 5, 3, 4)).copy()
        got = lookup("bilateral_slice")(x, grid, guide, has_offset=has_offset)
        ones = np.concatenate([x, np.ones_like(x[:, :1])], axis=1)[:, :inputs]
        np.testing.assert_allclose(got, np.einsum("oi,nihw->nohw", maps, ones), rtol=2e-3, atol=2e-3)

    @pytest.mark.parametrize("has_offset", [True, False])
    def test_gradient(self, has_offset, gradcheck) -> None:
        grid = draw(1, 8 if has_offset else 6, 3, 2, 3)
        inputs = {"X": draw(1, 3, 4, 5), "Grid": grid, "Guide": RNG.uniform(0.2, 0.8, (1, 4, 5))}
        gradcheck("bilateral_slice", inputs, {"has_offset": has_offset}, rtol=1e-4, atol=1e-6)

    def test_shapes_that_do_not_fit_are_refused(self) -> None:
        with pytest.raises(ValueError, match="do not fit"):
            lookup("bilateral_slice")(draw(1, 3, 4, 5), draw(1, 6, 3, 2, 3), draw(1, 4, 4))
        with pytest.raises(ValueError, match="Grid has 7 channels"):
            lookup("bilateral_slice")(draw(1, 3, 4, 5), draw(1, 7, 3, 2, 3), draw(1, 4, 5))
