"""Transposed convolutions. Literal numbers are PaddlePaddle 2.6.2's."""

from __future__ import annotations

from typing import Any

import numpy as np
import oarlock.executor.kernels  # noqa: F401 - tells the registry how to find a type
import pytest
from oarlock.ir.registry import lookup

RNG = np.random.default_rng(6)


def count(*shape: int) -> Any:
    """1, 2, 3, ... in this shape."""
    return np.arange(1, np.prod(shape) + 1, dtype=np.float32).reshape(shape)


def draw(*shape: int, dtype: Any = np.float32) -> Any:
    return RNG.standard_normal(shape).astype(dtype)


def spread(x: Any, w: Any, kind: str = "conv2d_transpose", **attrs: Any) -> Any:
    return lookup(kind)(x, w, **attrs)


X, W = count(1, 1, 2, 2), count(1, 1, 3, 3)
CUT = [[5, 14, 10], [14, 36, 24], [15, 34, 20], [24, 55, 32]]


class TestOutputSize:
    def test_every_input_is_spread_over_its_window(self) -> None:
        want = [
            [1, 2, 5, 4, 6],
            [4, 5, 14, 10, 12],
            [10, 14, 36, 24, 30],
            [12, 15, 34, 20, 24],
            [21, 24, 55, 32, 36],
        ]
        assert spread(X, W, strides=[2, 2])[0, 0].tolist() == want

    @pytest.mark.parametrize("extra", [{"output_padding": [1, 0]}, {"output_size": [4, 3]}])
    def test_padding_or_size_asks_for_more_at_the_end(self, extra) -> None:
        assert spread(X, W, strides=[2, 2], paddings=[1, 1], **extra)[0, 0].tolist() == CUT

    def test_same_counts_from_the_input_size(self) -> None:
        want = [[1, 2, 5, 4], [4, 5, 14, 10], [10, 14, 36, 24], [12, 15, 34, 20]]
        assert spread(X, W, strides=[2, 2], padding_algorithm="SAME")[0, 0].tolist() == want

    @pytest.mark.parametrize("size", [[2, 3], [5, 3], [3]])
    def test_a_size_that_the_stride_cannot_reach_is_refused(self, size) -> None:
        with pytest.raises(ValueError, match=r"output_size must lie between \[\[3, 4\], \[3, 4\]\]"):
            spread(X, W, strides=[2, 2], paddings=[1, 1], output_size=size)

    def test_an_output_padding_of_a_stride_is_refused(self) -> None:
        with pytest.raises(ValueError, match="output_padding must be below"):
            spread(X, W, strides=[2, 2], output_padding=[2, 0])

    def test_paddings_that_leave_nothing_are_refused(self) -> None:
        with pytest.raises(ValueError, match="leaves an output of size"):
            spread(X, W, paddings=[3, 3])


def test_groups_lie_side_by_side() -> None:
    got = spread(count(1, 2, 2, 2), count(2, 2, 2, 2), groups=2, strides=[1, 2])
    want = [
        [[1, 2, 2, 4], [6, 10, 10, 16], [9, 12, 12, 16]],
        [[5, 6, 10, 12], [22, 26, 34, 40], [21, 24, 28, 32]],
        [[45, 50, 54, 60], [118, 130, 138, 152], [77, 84, 88, 96]],
        [[65, 70, 78, 84], [166, 178, 194, 208], [105, 112, 120, 128]],
    ]
    assert got[0].tolist() == want


def test_depthwise_with_a_dilation() -> None:
    got = spread(
        count(1, 2, 2, 2),
        count(2, 1, 2, 2),
        "depthwise_conv2d_transpose",
        groups=2,
        strides=[2, 1],
        dilations=[1, 2],
    )
    want = [
        [[1, 2, 2, 4], [3, 6, 4, 8], [3, 4, 6, 8], [9, 12, 12, 16]],
        [[25, 30, 30, 36], [35, 42, 40, 48], [35, 40, 42, 48], [49, 56, 56, 64]],
    ]
    assert got[0].tolist() == want


KINDS = [
    ("conv2d_transpose", (2, 4, 3, 5), (4, 3, 3, 2), {"strides": [2, 3], "paddings": [1, 0]}),
    ("conv2d_transpose", (2, 4, 3, 5), (4, 3, 2, 2), {"strides": [2, 2]}),
    ("conv2d_transpose", (1, 4, 6, 5), (4, 3, 3, 3), {"paddings": [1, 2, 0, 1], "groups": 2}),
    ("conv2d_transpose", (1, 3, 5, 4), (4, 2, 3, 3), {"data_format": "NHWC", "strides": [2, 1]}),
    ("depthwise_conv2d_transpose", (2, 3, 4, 5), (3, 1, 3, 3), {"groups": 3, "strides": [2, 2]}),
    ("depthwise_conv2d_transpose", (1, 3, 4, 5), (3, 2, 3, 3), {"groups": 3, "strides": [2, 2]}),
    ("conv3d_transpose", (1, 2, 3, 2, 3), (2, 3, 2, 3, 2), {"strides": [2, 1, 2], "paddings": [0, 1, 0]}),
    ("conv2d_transpose", (1, 2, 3, 3), (2, 2, 3, 3), {"strides": [2, 2], "output_padding": [1, 1]}),
]


@pytest.mark.parametrize(("kind", "x", "w", "attrs"), KINDS)
class TestAgainstConvolution:
    def test_it_is_the_transpose_of_a_convolution(self, kind, x, w, attrs) -> None:
        if attrs.get("data_format") == "NHWC":
            x = (x[0], x[1], x[2], w[0])
        inputs, filter = draw(*x, dtype=float), draw(*w, dtype=float)
        out = spread(inputs, filter, kind, **attrs)
        plain = kind.removesuffix("_transpose")
        same = {name: value for name, value in attrs.items() if name != "output_padding"}
        other = draw(*out.shape, dtype=float)
        back = lookup(plain)(other, filter, **same)
        np.testing.assert_allclose((out * other).sum(), (inputs * back).sum(), rtol=1e-10)

    def test_gradient(self, kind, x, w, attrs, gradcheck) -> None:
        if attrs.get("data_format") == "NHWC":
            x = (x[0], x[1], x[2], w[0])
        gradcheck(kind, {"Input": draw(*x), "Filter": draw(*w)}, attrs)

    def test_prepared_with_bias_and_activation(self, kind, x, w, attrs, run_op) -> None:
        if kind == "conv3d_transpose":
            pytest.skip("conv3d_transpose has no bias")
        if attrs.get("data_format") == "NHWC":
            x = (x[0], x[1], x[2], w[0])
        inputs, filter = draw(*x), draw(*w)
        plain = spread(inputs, filter, kind, **attrs)
        channels = w[1] * attrs.get("groups", 1)
        bias = draw(channels)
        shape = (-1,) if attrs.get("data_format") == "NHWC" else (-1, 1, 1)
        got = run_op(
            kind,
            {"Input": inputs, "Filter": filter, "Bias": bias},
            {**attrs, "fuse_relu": True},
            constants=("Filter", "Bias"),
        )["Output"]
        np.testing.assert_allclose(got, np.maximum(plain + bias.reshape(shape), 0), rtol=1e-5, atol=1e-5)


def test_channels_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="Input has 3 channels"):
        spread(draw(1, 3, 2, 2), draw(4, 2, 2, 2))


def test_half_stays_half() -> None:
    got = spread(X.astype(np.float16), W.astype(np.float16), strides=[2, 2])
    assert got.dtype == np.float16 and got[0, 0, 2, 2] == 36


def test_a_prepared_run_takes_the_size_from_a_variable() -> None:
    run = lookup("conv2d_transpose").preparer({"Filter": W}, strides=[2, 2], paddings=[1, 1])
    assert run(X, W).shape == (1, 1, 3, 3)
    assert run(X, W, None, output_size=[4, 3])[0, 0].tolist() == CUT
