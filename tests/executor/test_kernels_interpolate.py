"""Interpolation. Literal numbers are PaddlePaddle 2.6.2's."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import oarlock.executor.kernels  # noqa: F401 - tells the registry how to find a type
import pytest
from oarlock.ir.registry import lookup

RNG = np.random.default_rng(8)
X = np.array([[1, 2, 4], [8, 16, 32]], np.float32).reshape(1, 1, 2, 3)
GRID = np.arange(1, 13, dtype=np.float32).reshape(1, 1, 3, 4)


def ints(*values: int) -> Any:
    return np.array(values, np.int32)


def floats(*values: float) -> Any:
    return np.array(values, np.float32)


def draw(*shape: int, dtype: Any = float) -> Any:
    return RNG.standard_normal(shape).astype(dtype)


def resize(x: Any, kind: str, **attrs: Any) -> Any:
    """Without tensors that decide the size."""
    return lookup(kind)(x, None, [], None, **attrs)


class TestValues:
    @pytest.mark.parametrize(
        ("method", "corners", "mode", "want"),
        [
            ("nearest", True, 1, [[1, 2, 2, 4, 4], [8, 16, 16, 32, 32], [8, 16, 16, 32, 32]]),
            ("nearest", False, 1, [[1, 1, 2, 2, 4], [1, 1, 2, 2, 4], [8, 8, 16, 16, 32]]),
            ("bilinear", True, 1, [[1, 1.5, 2, 3, 4], [4.5, 6.75, 9, 13.5, 18], [8, 12, 16, 24, 32]]),
            ("bilinear", False, 0, [[1, 1.4, 2, 3.2, 4], [4.5, 6.3, 9, 14.4, 18], [8, 11.2, 16, 25.6, 32]]),
            (
                "bilinear",
                False,
                1,
                [[1, 1.6, 2.4, 3.6, 4], [5.66667, 9.06667, 13.6, 20.4, 22.66667], [8, 12.8, 19.2, 28.8, 32]],
            ),
            (
                "bicubic",
                True,
                1,
                [[1, 1.3125, 2, 3.09375, 4], [4.5, 5.90625, 9, 13.92188, 18], [8, 10.5, 16, 24.75, 32]],
            ),
            (
                "bicubic",
                False,
                0,
                [
                    [0.35469, 0.4881, 0.78472, 1.29322, 1.64478],
                    [4.068, 5.598, 9, 14.832, 18.86401],
                    [7.78131, 10.7079, 17.21528, 28.37078, 36.08323],
                ],
            ),
        ],
    )
    @pytest.mark.parametrize("generation", ["", "_v2"])
    def test_two_axes(self, method, corners, mode, want, generation) -> None:
        got = resize(
            X,
            f"{method}_interp{generation}",
            interp_method=method,
            align_corners=corners,
            align_mode=mode,
            out_h=3,
            out_w=5,
        )
        np.testing.assert_allclose(got[0, 0], want, rtol=2e-6, atol=1e-5)

    def test_one_axis(self) -> None:
        x = floats(1, 2, 4).reshape(1, 1, 3)
        got = resize(x, "linear_interp_v2", interp_method="linear", align_corners=False, align_mode=0, out_w=6)
        assert got[0, 0].tolist() == [1, 1.25, 1.75, 2.5, 3.5, 4]

    def test_three_axes(self) -> None:
        x = floats(1, 2, 3, 4).reshape(1, 1, 2, 1, 2)
        attrs = {"interp_method": "trilinear", "align_corners": False, "align_mode": 0}
        got = resize(x, "trilinear_interp_v2", **attrs, out_d=3, out_h=1, out_w=3)
        assert got[0, 0, :, 0].tolist() == [[1, 1.5, 2], [2, 2.5, 3], [3, 3.5, 4]]

    def test_bytes_are_truncated(self) -> None:
        attrs = {"interp_method": "bilinear", "align_corners": False, "align_mode": 0, "out_h": 3, "out_w": 5}
        got = resize((X * 7).astype(np.uint8), "bilinear_interp_v2", **attrs)
        want = [[7, 9, 14, 22, 28], [31, 44, 63, 100, 126], [56, 78, 112, 179, 224]]
        assert got.dtype == np.uint8 and got[0, 0].tolist() == want

    def test_nearest_takes_integers(self) -> None:
        attrs = {"interp_method": "nearest", "align_corners": False, "out_h": 1, "out_w": 2}
        got = resize(X.astype(np.int64), "nearest_interp_v2", **attrs)
        assert got.dtype == np.int64 and got[0, 0].tolist() == [[1, 2]]

    def test_the_method_attribute_decides_not_the_type(self) -> None:
        got = resize(GRID, "nearest_interp_v2", out_h=3, out_w=7)
        np.testing.assert_allclose(got[0, 0, 0], np.linspace(1, 4, 7), rtol=1e-6)

    def test_the_same_size_is_a_copy(self) -> None:
        got = resize(X, "bicubic_interp_v2", interp_method="bicubic", align_corners=False, out_h=2, out_w=3)
        assert got is not X and got.tolist() == X.tolist()


class TestWhoDecidesTheSize:
    """SizeTensor, else OutSize, else Scale or scale, else out_h and out_w (report B76)."""

    SECOND: ClassVar[list[Any]] = [
        ({"out_h": 5, "out_w": 5}, {}, (5, 5)),
        ({"out_h": 5, "out_w": 5, "scale": []}, {}, (5, 5)),
        ({"out_h": 5, "out_w": 5, "scale": [2.0]}, {}, (5, 5)),
        ({"out_h": 4, "out_w": 4, "scale": [2.0, 1.5]}, {}, (6, 6)),
        ({"out_h": -1, "out_w": -1, "scale": [2.0, 1.5]}, {}, (6, 6)),
        ({"out_h": 5, "out_w": 5, "scale": [2.0, 1.5]}, {"size": ints(4, 4)}, (4, 4)),
        ({"out_h": 6, "out_w": 6, "scale": [2.0, 1.5]}, {"sizes": [ints(4), ints(5)]}, (4, 5)),
        ({"out_h": 6, "out_w": 6}, {"sizes": [ints(4), ints(5)], "size": ints(7, 7)}, (4, 5)),
        ({"out_h": 6, "out_w": 6, "scale": [2.0, 1.5]}, {"scale": floats(3)}, (9, 12)),
        ({"out_h": 6, "out_w": 6, "scale": [2.0, 1.5]}, {"scale": floats(3, 2)}, (9, 8)),
        ({"out_h": 6, "out_w": 6}, {"scale": floats(3, 2), "size": ints(4, 4)}, (4, 4)),
    ]
    FIRST: ClassVar[list[Any]] = [
        ({"out_h": 5, "out_w": 5, "scale": 0.0}, {}, (5, 5)),
        ({"out_h": 5, "out_w": 5, "scale": 2.0}, {}, (6, 8)),
        ({"scale": 2.0}, {"size": ints(4, 4)}, (4, 4)),
        ({"scale": 2.0}, {"scale": floats(3)}, (9, 12)),
        ({"scale": 2.0}, {"scale": floats(3), "size": ints(4, 4)}, (4, 4)),
        ({"scale": 2.0}, {"sizes": [ints(4), ints(5)]}, (4, 5)),
    ]

    @pytest.mark.parametrize(("attrs", "tensors", "want"), SECOND)
    def test_second_generation(self, attrs, tensors, want) -> None:
        kernel = lookup("nearest_interp_v2")
        got = kernel(
            GRID,
            tensors.get("size"),
            tensors.get("sizes", []),
            tensors.get("scale"),
            interp_method="nearest",
            align_corners=False,
            **attrs,
        )
        assert got.shape[2:] == want

    @pytest.mark.parametrize(("attrs", "tensors", "want"), FIRST)
    def test_first_generation(self, attrs, tensors, want) -> None:
        kernel = lookup("nearest_interp")
        got = kernel(
            GRID,
            tensors.get("size"),
            tensors.get("sizes", []),
            tensors.get("scale"),
            interp_method="nearest",
            align_corners=False,
            **attrs,
        )
        assert got.shape[2:] == want

    def test_a_scale_keeps_deciding_the_ratio_in_the_second_generation_only(self) -> None:
        x = floats(1, 2, 3, 4).reshape(1, 1, 1, 4)
        attrs = {"interp_method": "bilinear", "align_corners": False, "align_mode": 1}
        got = lookup("bilinear_interp_v2")(x, ints(1, 6), [], None, **attrs, scale=[1.0, 2.0])
        assert got.reshape(-1).tolist() == [1, 1.5, 2, 2.5, 3, 3.5]
        got = lookup("bilinear_interp")(x, ints(1, 6), [], None, **attrs, scale=2.0)
        np.testing.assert_allclose(got.reshape(-1), [1, 1.66667, 2.33333, 3, 3.66667, 4], atol=1e-5)

    @pytest.mark.parametrize(
        "attrs", [{}, {"scale": []}, {"scale": [2.0]}, {"out_h": 0, "out_w": 8}, {"out_h": -1, "out_w": -1}]
    )
    def test_no_size_at_all_is_refused(self, attrs) -> None:
        with pytest.raises(ValueError, match="the output size must be 2 positive integers"):
            lookup("nearest_interp_v2")(GRID, None, [], None, interp_method="nearest", **attrs)

    @pytest.mark.parametrize("scale", [[0.0, 0.0], [-1.0, 2.0]])
    def test_a_scale_that_is_not_positive_is_refused(self, scale) -> None:
        with pytest.raises(ValueError, match="the scale must be positive"):
            lookup("nearest_interp_v2")(GRID, None, [], None, interp_method="nearest", scale=scale, out_h=2, out_w=2)


class TestRefusals:
    @pytest.mark.parametrize(
        ("kind", "method", "rank"),
        [
            ("bilinear_interp_v2", "foo", 4),
            ("linear_interp_v2", "bilinear", 3),
            ("trilinear_interp_v2", "bilinear", 5),
            ("nearest_interp", "nearest", 5),
        ],
    )
    def test_methods(self, kind, method, rank) -> None:
        with pytest.raises(ValueError, match=f"interp_method .* got '{method}'"):
            resize(np.ones((1,) * rank, np.float32), kind, interp_method=method, out_w=2, out_h=2, out_d=2)

    @pytest.mark.parametrize(("method", "dtype"), [("bilinear", np.int64), ("bicubic", np.uint8), ("nearest", bool)])
    def test_dtypes(self, method, dtype) -> None:
        with pytest.raises(TypeError, match=f"cannot be resized by '{method}'"):
            resize(X.astype(dtype), f"{method}_interp_v2", interp_method=method, out_h=3, out_w=3)


@pytest.mark.parametrize("kind", ["nearest", "bilinear"])
def test_channels_last(kind) -> None:
    x = draw(2, 3, 4, 5, dtype=np.float32)
    attrs = {"interp_method": kind, "align_corners": False, "out_h": 7, "out_w": 3}
    want = resize(x, f"{kind}_interp_v2", **attrs)
    got = resize(x.transpose(0, 2, 3, 1), f"{kind}_interp_v2", **attrs, data_layout="NHWC")
    np.testing.assert_array_equal(got.transpose(0, 3, 1, 2), want)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_dtypes_stay(dtype) -> None:
    for method in ("nearest", "bilinear", "bicubic"):
        got = resize(X.astype(dtype), f"{method}_interp_v2", interp_method=method, out_h=3, out_w=5)
        assert got.dtype == dtype


def test_an_empty_batch() -> None:
    got = resize(np.ones((0, 2, 3, 4), np.float32), "bilinear_interp_v2", out_h=6, out_w=2)
    assert got.shape == (0, 2, 6, 2)


class TestGradients:
    @pytest.mark.parametrize("method", ["nearest", "bilinear", "bicubic"])
    @pytest.mark.parametrize("corners", [True, False])
    @pytest.mark.parametrize("size", [(7, 3), (2, 9), (4, 5), (1, 1), (8, 10)])
    def test_two_axes(self, method, corners, size, gradcheck) -> None:
        attrs = {"interp_method": method, "align_corners": corners, "align_mode": 0}
        gradcheck(f"{method}_interp_v2", {"X": draw(2, 2, 4, 5)}, {**attrs, "out_h": size[0], "out_w": size[1]})

    @pytest.mark.parametrize("generation", ["", "_v2"])
    def test_other_axes_and_layouts(self, generation, gradcheck) -> None:
        three = {"interp_method": "trilinear", "align_corners": False, "out_d": 5, "out_h": 2, "out_w": 3}
        gradcheck(f"trilinear_interp{generation}", {"X": draw(1, 2, 3, 3, 4)}, three)
        one = {"interp_method": "linear", "align_corners": True, "out_w": 7}
        gradcheck(f"linear_interp{generation}", {"X": draw(2, 3, 4)}, one)
        last = {"interp_method": "bilinear", "out_h": 5, "out_w": 6, "data_layout": "NHWC"}
        gradcheck(f"bilinear_interp{generation}", {"X": draw(2, 3, 4, 2)}, last)

    def test_tensors_decide_in_the_gradient_too(self, gradcheck) -> None:
        attrs = {"interp_method": "bilinear", "align_corners": False, "scale": [1.5, 2.0]}
        x = draw(1, 2, 4, 5)
        gradcheck("bilinear_interp_v2", {"X": x, "OutSize": ints(7, 8)}, attrs)
        gradcheck("bilinear_interp_v2", {"X": x, "SizeTensor": [ints(3), ints(8)]}, attrs)
        gradcheck("bilinear_interp_v2", {"X": x, "Scale": floats(2.5)}, attrs)


def test_blocks_and_threads_give_what_one_pass_gives(monkeypatch) -> None:
    from oarlock.executor.kernels import interpolate

    x = draw(3, 5, 9, 8, dtype=np.float32)
    attrs = {"align_corners": False, "out_h": 20, "out_w": 5}
    want = resize(x, "bilinear_interp_v2", **attrs)
    back = lookup("bilinear_interp_v2_grad")(x, None, [], None, want, **attrs)
    monkeypatch.setattr(interpolate, "_BLOCK", 64)
    monkeypatch.setattr(interpolate, "_SHARE", 1)
    np.testing.assert_array_equal(resize(x, "bilinear_interp_v2", **attrs), want)
    np.testing.assert_array_equal(lookup("bilinear_interp_v2_grad")(x, None, [], None, want, **attrs), back)
