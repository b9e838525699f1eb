"""Pooling. Literal numbers are PaddlePaddle 2.6.2's (3.3.1 gives the same)."""

from __future__ import annotations

import itertools
from typing import Any, ClassVar

import numpy as np
import oarlock.executor.kernels  # noqa: F401 - tells the registry how to find a type
import pytest
from oarlock.ir.registry import lookup

RNG = np.random.default_rng(7)
NAN = float("nan")


def count(*shape: int) -> Any:
    """1, 2, 3, ... in this shape."""
    return np.arange(1, np.prod(shape) + 1, dtype=np.float32).reshape(shape)


def draw(*shape: int, dtype: Any = float) -> Any:
    return RNG.standard_normal(shape).astype(dtype)


def pool(x: Any, kind: str = "pool2d", **attrs: Any) -> Any:
    return lookup(kind)(x, **attrs)


class TestCeilAndExclusive:
    """Window 3, stride 2, padding 1 over 1..16."""

    @pytest.mark.parametrize(
        ("exclusive", "ceil", "want"),
        [
            (True, False, [[3.5, 5], [9.5, 11]]),
            (True, True, [[3.5, 5, 6], [9.5, 11, 12], [13.5, 15, 16]]),
            (False, False, [[14 / 9, 30 / 9], [57 / 9, 11]]),
            (False, True, [[14 / 9, 30 / 9, 2], [57 / 9, 11, 6], [4.5, 7.5, 4]]),
        ],
    )
    def test_average(self, exclusive, ceil, want) -> None:
        got = pool(
            count(1, 1, 4, 4),
            ksize=[3, 3],
            strides=[2, 2],
            paddings=[1, 1],
            pooling_type="avg",
            exclusive=exclusive,
            ceil_mode=ceil,
        )
        np.testing.assert_allclose(got[0, 0], want, rtol=1e-6)

    def test_maximum(self) -> None:
        attrs = {"ksize": [3, 3], "strides": [2, 2], "paddings": [1, 1], "pooling_type": "max"}
        assert pool(count(1, 1, 4, 4), **attrs)[0, 0].tolist() == [[6, 8], [14, 16]]
        got = pool(count(1, 1, 4, 4), **attrs, ceil_mode=True)
        assert got[0, 0].tolist() == [[6, 8, 8], [14, 16, 16], [14, 16, 16]]

    def test_a_window_without_input(self) -> None:
        attrs = {"ksize": [2, 2], "strides": [3, 3], "ceil_mode": True}
        got = pool(count(1, 1, 3, 3), **attrs, pooling_type="avg")
        np.testing.assert_array_equal(got[0, 0], [[3, NAN], [NAN, NAN]])
        lowest = float(np.finfo(np.float32).min)
        got = pool(count(1, 1, 3, 3), **attrs, pooling_type="max")
        assert got[0, 0].tolist() == [[5, lowest], [lowest, lowest]]

    def test_a_window_behind_the_input_averages_to_minus_zero(self) -> None:
        got = pool(
            count(1, 1, 7, 6),
            ksize=[2, 3],
            strides=[3, 2],
            paddings=[1, 1],
            ceil_mode=True,
            pooling_type="avg",
        )
        want = [[1.5, 3, 5, 6], [16.5, 18, 20, 21], [34.5, 36, 38, 39], [0, 0, 0, 0]]
        np.testing.assert_allclose(got[0, 0], want)


class TestAdaptive:
    def test_average_bins_may_overlap(self) -> None:
        got = pool(count(1, 1, 3, 5), ksize=[2, 3], adaptive=True, pooling_type="avg")
        assert got[0, 0].tolist() == [[4, 5.5, 7], [9, 10.5, 12]]

    def test_maximum_slides_windows_of_the_output_size_as_paddles_cpu_kernel_does(self) -> None:
        got = pool(count(1, 1, 3, 5), ksize=[2, 3], adaptive=True, pooling_type="max")
        assert got[0, 0].tolist() == [[8, 9, 10], [13, 14, 15]]

    def test_one_bin_is_the_mean(self) -> None:
        x = draw(2, 3, 7, 9, dtype=np.float32)
        got = pool(x, ksize=[1, 1], adaptive=True, pooling_type="avg", paddings=[1, 1])
        assert got.shape == (2, 3, 1, 1)
        np.testing.assert_allclose(got[..., 0, 0], x.mean(axis=(2, 3)), rtol=1e-5, atol=1e-6)

    def test_more_bins_than_points_repeat_points(self) -> None:
        got = pool(count(1, 1, 2, 2), ksize=[3, 2], adaptive=True, pooling_type="avg")
        assert got[0, 0].tolist() == [[1, 2], [2, 3], [3, 4]]

    def test_global_and_adaptive_is_the_input(self) -> None:
        x = count(1, 2, 2, 3)
        np.testing.assert_array_equal(pool(x, ksize=[1, 1], adaptive=True, global_pooling=True, pooling_type="avg"), x)


def test_global_pooling_ignores_window_and_padding() -> None:
    x = draw(2, 3, 5, 4, dtype=np.float32)
    attrs = {"ksize": [2, 2], "strides": [2, 2], "paddings": [1, 1], "global_pooling": True}
    np.testing.assert_array_equal(pool(x, **attrs, pooling_type="max")[..., 0, 0], x.max(axis=(2, 3)))


def test_same_and_four_paddings() -> None:
    got = pool(count(1, 1, 5, 5), ksize=[2, 2], strides=[3, 3], padding_algorithm="SAME", pooling_type="avg")
    assert got[0, 0].tolist() == [[4, 7], [19, 22]]
    got = pool(count(1, 1, 2, 2), ksize=[2, 2], paddings=[1, 0, 0, 1], exclusive=False, pooling_type="avg")
    assert got[0, 0].tolist() == [[0.75, 1], [2.5, 3]]


def test_valid_ignores_paddings() -> None:
    got = pool(count(1, 1, 3, 3), ksize=[2, 2], paddings=[1, 1], padding_algorithm="VALID", pooling_type="max")
    assert got[0, 0].tolist() == [[5, 6], [8, 9]]


@pytest.mark.parametrize("kind", ["pool2d", "pool3d"])
@pytest.mark.parametrize("pooling_type", ["max", "avg"])
def test_channels_last_is_a_view_of_the_same(kind, pooling_type) -> None:
    axes = int(kind[4])
    x = draw(2, 3, 6, 5, 7, dtype=np.float32)[..., : 5 * (axes - 2) + 1]
    x = x if axes == 3 else x[..., 0]
    attrs = {"ksize": [3, 2, 2][:axes], "strides": [2, 1, 2][:axes], "paddings": [1, 0, 1][:axes]}
    want = pool(x, kind, **attrs, pooling_type=pooling_type)
    got = pool(np.moveaxis(x, 1, -1), kind, **attrs, pooling_type=pooling_type, data_format="NDHWC"[-axes - 2 :])
    np.testing.assert_allclose(np.moveaxis(got, -1, 1), want, rtol=1e-6)


class TestRefusals:
    def test_integers(self) -> None:
        with pytest.raises(TypeError, match="X must be floating, got int32"):
            pool(np.ones((1, 1, 3, 3), np.int32), ksize=[2, 2], pooling_type="max")

    @pytest.mark.parametrize(
        ("attrs", "message"),
        [
            ({"ksize": [2, 2], "pooling_type": "sum"}, "pooling_type must be 'max' or 'avg'"),
            ({"ksize": [2], "pooling_type": "max"}, "ksize must be 2 positive integers"),
            ({"ksize": [5, 5], "pooling_type": "max"}, "does not fit an input of size"),
            ({"ksize": [2, 2], "pooling_type": "max", "padding_algorithm": "x"}, "padding_algorithm must be"),
            ({"ksize": [0, 2], "pooling_type": "avg", "adaptive": True}, "ksize must be 2 positive integers"),
        ],
    )
    def test_attributes(self, attrs, message) -> None:
        with pytest.raises(ValueError, match=message):
            pool(count(1, 1, 3, 3), **attrs)

    def test_rank(self) -> None:
        with pytest.raises(ValueError, match="X must have 4 dimensions"):
            pool(count(1, 3, 3), ksize=[2, 2], pooling_type="max")


def test_dtypes_stay_and_an_empty_batch_passes() -> None:
    for dtype in (np.float16, np.float32, np.float64):
        assert pool(np.ones((0, 2, 4, 4), dtype), ksize=[2, 2], pooling_type="avg").dtype == dtype
    assert pool(np.ones((0, 2, 4, 4), np.float32), ksize=[2, 2], pooling_type="max").shape == (0, 2, 3, 3)


class TestGradients:
    @pytest.mark.parametrize(
        "attrs",
        [
            {"ksize": [3, 2], "strides": [2, 1], "paddings": [1, 0]},
            {"ksize": [3, 3], "strides": [2, 2], "paddings": [1, 1], "ceil_mode": True, "exclusive": False},
            {"ksize": [2, 3], "adaptive": True},
            {"ksize": [1, 1], "global_pooling": True},
            {"ksize": [3, 3], "strides": [2, 2], "padding_algorithm": "SAME"},
            {"ksize": [2, 2], "strides": [3, 3], "data_format": "NHWC"},
        ],
    )
    @pytest.mark.parametrize("pooling_type", ["max", "avg"])
    def test_pool2d(self, attrs, pooling_type, gradcheck) -> None:
        gradcheck("pool2d", {"X": draw(2, 5, 6, 4)}, {**attrs, "pooling_type": pooling_type})

    @pytest.mark.parametrize("pooling_type", ["max", "avg"])
    def test_pool3d(self, pooling_type, gradcheck) -> None:
        attrs = {
            "ksize": [2, 2, 3],
            "strides": [1, 2, 2],
            "paddings": [1, 0, 1],
            "pooling_type": pooling_type,
        }
        gradcheck("pool3d", {"X": draw(1, 2, 4, 5, 6)}, attrs)

    def test_the_first_of_equal_maxima_takes_all(self, run_op) -> None:
        attrs = {"ksize": [3, 3], "strides": [2, 2], "paddings": [1, 1], "pooling_type": "max"}
        got = run_op("pool2d", {"X": np.zeros((1, 1, 4, 4), np.float32)}, attrs, cotangents={"Out": count(1, 1, 2, 2)})
        want = [[1, 2, 0, 0], [3, 4, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]]
        assert got.gradients["X"][0, 0].tolist() == want


class TestWithIndex:
    X = np.array([[1, 3, 3, 0], [2, 3, 1, 5], [0, 4, 4, 2]], np.float32).reshape(1, 1, 3, 4)

    def test_the_index_is_flat_and_the_first_maximum_wins(self) -> None:
        out, mask = pool(self.X, "max_pool2d_with_index", ksize=[2, 2], strides=[1, 2], paddings=[1, 0])
        assert out[0, 0].tolist() == [[3, 3], [3, 5], [4, 5], [4, 4]]
        assert mask[0, 0].tolist() == [[1, 2], [1, 7], [9, 7], [9, 10]]
        assert mask.dtype == np.int32

    def test_adaptive_bins_are_real_bins(self) -> None:
        out, mask = pool(self.X, "max_pool2d_with_index", ksize=[2, 3], adaptive=True)
        assert out[0, 0].tolist() == [[3, 3, 5], [4, 4, 5]]
        assert mask[0, 0].tolist() == [[1, 1, 7], [9, 9, 7]]

    def test_a_window_without_input_has_no_index(self) -> None:
        _, mask = pool(count(1, 1, 3, 3), "max_pool2d_with_index", ksize=[2, 2], strides=[3, 3], ceil_mode=True)
        assert mask[0, 0].tolist() == [[4, -1], [-1, -1]]

    def test_three_axes(self) -> None:
        x = draw(2, 2, 4, 5, 6, dtype=np.float32)
        out, mask = pool(x, "max_pool3d_with_index", ksize=[2, 2, 3], strides=[2, 2, 3])
        flat = x.reshape(2, 2, -1)
        np.testing.assert_array_equal(
            np.take_along_axis(flat, mask.reshape(2, 2, -1).astype(int), 2), out.reshape(2, 2, -1)
        )

    def test_many_taps(self) -> None:
        x = draw(1, 1, 20, 20, dtype=np.float32)
        out, mask = pool(x, "max_pool2d_with_index", ksize=[17, 17])
        for i, j in itertools.product(range(4), range(4)):
            assert x.reshape(-1)[mask[0, 0, i, j]] == out[0, 0, i, j] == x[0, 0, i : i + 17, j : j + 17].max()

    @pytest.mark.parametrize("kind", ["max_pool2d_with_index", "max_pool3d_with_index"])
    @pytest.mark.parametrize("adaptive", [False, True])
    def test_gradient(self, kind, adaptive, gradcheck) -> None:
        axes = int(kind[8])
        attrs = {"ksize": [2, 3, 2][:axes], "strides": [2, 1, 2][:axes], "adaptive": adaptive}
        gradcheck(kind, {"X": draw(2, 2, *(5, 4, 6)[:axes])}, attrs)


class TestUnpool:
    ATTRS: ClassVar[dict[str, Any]] = {"ksize": [2, 2], "strides": [2, 2], "unpooling_type": "max"}

    def test_values_go_back_to_their_places(self) -> None:
        x, index = count(1, 1, 2, 2), np.array([[5, 2], [8, 11]], np.int32).reshape(1, 1, 2, 2)
        got = lookup("unpool")(x, index, **self.ATTRS, output_size=[3, 4])
        assert got[0, 0].tolist() == [[0, 0, 2, 0], [0, 1, 0, 0], [3, 0, 0, 4]]

    def test_without_a_size_it_follows_from_the_window(self) -> None:
        index = np.zeros((1, 1, 2, 3), np.int32)
        assert lookup("unpool")(count(1, 1, 2, 3), index, **self.ATTRS).shape == (1, 1, 4, 6)

    def test_the_last_value_for_a_place_stays(self) -> None:
        index = np.zeros((1, 1, 2, 2), np.int32)
        assert lookup("unpool")(count(1, 1, 2, 2), index, **self.ATTRS)[0, 0, 0].tolist() == [4, 0, 0, 0]

    def test_an_index_outside_is_refused(self) -> None:
        index = np.array([[0, 1], [2, 16]], np.int32).reshape(1, 1, 2, 2)
        with pytest.raises(ValueError, match=r"Indices must lie in \[0, 16\)"):
            lookup("unpool")(count(1, 1, 2, 2), index, **self.ATTRS)

    def test_gradient(self, run_op) -> None:
        x, index = count(1, 1, 2, 2), np.array([[5, 2], [8, 11]], np.int32).reshape(1, 1, 2, 2)
        attrs = {**self.ATTRS, "output_size": [3, 4]}
        got = run_op("unpool", {"X": x, "Indices": index}, attrs, cotangents={"Out": count(1, 1, 3, 4)})
        assert got.gradients["X"][0, 0].tolist() == [[6, 3], [9, 12]]

    def test_three_axes(self) -> None:
        index = np.array([3, 12], np.int32).reshape(1, 1, 1, 1, 2)
        got = lookup("unpool3d")(count(1, 1, 1, 1, 2), index, ksize=[2, 2, 2], strides=[2, 2, 2])
        assert got.shape == (1, 1, 2, 2, 4)
        assert np.flatnonzero(got).tolist() == [3, 12]


class TestPyramid:
    def test_levels_lie_side_by_side(self) -> None:
        x = count(1, 1, 3, 5)
        assert pool(x, "spp", pyramid_height=2, pooling_type="max").tolist() == [[15, 2, 5, 12, 15]]
        assert pool(x, "spp", pyramid_height=2, pooling_type="avg").tolist() == [[8, 1.5, 4, 9, 11.5]]

    @pytest.mark.parametrize("pooling_type", ["max", "avg"])
    def test_gradient(self, pooling_type, gradcheck) -> None:
        gradcheck("spp", {"X": draw(2, 3, 8, 7)}, {"pyramid_height": 3, "pooling_type": pooling_type})


def test_blocks_and_threads_give_what_one_pass_gives(monkeypatch) -> None:
    from oarlock.executor.kernels import pooling

    x = draw(3, 5, 16, 11, dtype=np.float32)
    attrs = {"ksize": [3, 3], "strides": [2, 1], "paddings": [1, 1]}
    want = [pool(x, **attrs, pooling_type=kind) for kind in ("max", "avg")]
    monkeypatch.setattr(pooling, "_BLOCK", 256)
    monkeypatch.setattr(pooling, "_SHARE", 1)
    for kind, expected in zip(("max", "avg"), want, strict=True):
        np.testing.assert_array_equal(pool(x, **attrs, pooling_type=kind), expected)
