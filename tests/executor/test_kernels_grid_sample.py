"""Sampling at a grid, affine grids. Literal numbers are PaddlePaddle 2.6.2's."""

from __future__ import annotations

from typing import Any

import numpy as np
import oarlock.executor.kernels  # noqa: F401 - tells the registry how to find a type
import pytest
from oarlock.ir.registry import lookup

RNG = np.random.default_rng(9)
X = np.arange(1, 13, dtype=np.float32).reshape(1, 1, 3, 4)
GRID = np.array([[-1, -1], [0, 0], [0.5, -0.5], [1.5, 0], [-2, 1.25], [0.25, 0.8]], np.float32).reshape(1, 1, 6, 2)


def draw(*shape: int, dtype: Any = float) -> Any:
    return RNG.standard_normal(shape).astype(dtype)


def sample(x: Any, grid: Any, **attrs: Any) -> Any:
    return lookup("grid_sampler")(x, grid, **attrs)


@pytest.mark.parametrize(
    ("mode", "padding", "corners", "want"),
    [
        ("bilinear", "zeros", True, [1, 6.5, 5.25, 2, 0, 10.075]),
        ("bilinear", "zeros", False, [0.25, 6.5, 4.5, 0, 0, 8.8]),
        ("bilinear", "border", True, [1, 6.5, 5.25, 8, 9, 10.075]),
        ("bilinear", "border", False, [1, 6.5, 4.5, 8, 9, 11]),
        ("bilinear", "reflection", True, [1, 6.5, 5.25, 7.25, 9.5, 10.075]),
        ("bilinear", "reflection", False, [1, 6.5, 4.5, 7.5, 10.5, 11]),
        ("nearest", "zeros", True, [1, 7, 7, 0, 0, 11]),
        ("nearest", "zeros", False, [0, 7, 4, 0, 0, 11]),
        ("nearest", "border", True, [1, 7, 7, 8, 9, 11]),
        ("nearest", "border", False, [1, 7, 4, 8, 9, 11]),
        ("nearest", "reflection", True, [1, 7, 7, 7, 11, 11]),
        ("nearest", "reflection", False, [1, 7, 4, 8, 11, 11]),
    ],
)
def test_modes(mode, padding, corners, want) -> None:
    got = sample(X, GRID, mode=mode, padding_mode=padding, align_corners=corners)
    np.testing.assert_allclose(got.reshape(-1), want, rtol=1e-6)


def test_nearest_over_three_axes_sees_nothing_outside() -> None:
    volume = np.arange(1, 28, dtype=np.float32).reshape(1, 1, 3, 3, 3)
    grid = np.zeros((1, 1, 1, 4, 3), np.float32)
    grid[..., 0] = [-1.1, -1, 0.5, 1.4]
    got = sample(volume, grid, mode="nearest", padding_mode="zeros", align_corners=True)
    assert got.reshape(-1).tolist() == [0, 13, 15, 0]


def test_three_axes_are_x_y_z() -> None:
    volume = draw(2, 3, 4, 5, 6, dtype=np.float32)
    axes = np.meshgrid(*(np.linspace(-1, 1, n) for n in (4, 5, 6)), indexing="ij")
    grid = np.stack(axes[::-1], axis=-1).astype(np.float32)
    got = sample(volume, np.stack([grid, grid]))
    np.testing.assert_allclose(got, volume, rtol=1e-4, atol=1e-5)


def test_coordinates_that_are_not_finite_see_nothing() -> None:
    grid = np.array([[np.nan, 0], [np.inf, 0], [0, -np.inf], [1e30, 0]], np.float32).reshape(1, 1, 4, 2)
    with np.errstate(all="raise"):
        got = sample(X, grid, padding_mode="zeros")
    assert np.all((got == 0) | np.isnan(got))


@pytest.mark.parametrize(
    ("x", "grid", "attrs", "message"),
    [
        ((1, 1, 3, 4), (1, 2, 2, 3), {}, "needs a Grid"),
        ((2, 1, 3, 4), (1, 2, 2, 2), {}, "needs a Grid"),
        ((1, 3, 4), (1, 2, 2), {}, "needs a Grid"),
        ((1, 1, 3, 4), (1, 2, 2, 2), {"mode": "bicubic"}, "mode must be"),
        ((1, 1, 3, 4), (1, 2, 2, 2), {"padding_mode": "wrap"}, "padding_mode"),
    ],
)
def test_refusals(x, grid, attrs, message) -> None:
    with pytest.raises(ValueError, match=message):
        sample(np.ones(x, np.float32), np.ones(grid, np.float32), **attrs)


def test_integers_are_refused() -> None:
    with pytest.raises(TypeError, match="X must be floating"):
        sample(X.astype(np.int32), GRID)


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("corners", [True, False])
class TestGradients:
    def test_two_axes(self, padding, corners, gradcheck) -> None:
        attrs = {"padding_mode": padding, "align_corners": corners}
        gradcheck("grid_sampler", {"X": draw(2, 3, 4, 5), "Grid": draw(2, 3, 4, 2)}, attrs, rtol=1e-5)

    def test_three_axes(self, padding, corners, gradcheck) -> None:
        attrs = {"padding_mode": padding, "align_corners": corners}
        gradcheck("grid_sampler", {"X": draw(1, 2, 3, 4, 5), "Grid": draw(1, 2, 3, 2, 3)}, attrs, rtol=1e-5)

    def test_nearest_has_none_for_the_grid(self, padding, corners, gradcheck) -> None:
        attrs = {"mode": "nearest", "padding_mode": padding, "align_corners": corners}
        found = gradcheck("grid_sampler", {"X": draw(2, 3, 4, 5), "Grid": draw(2, 3, 4, 2)}, attrs)
        assert not found["Grid"].any()


class TestAffineGrid:
    THETA = np.array([[[1, 0.5, 0.1], [0, 2, -0.2]]], np.float32)

    @pytest.mark.parametrize(
        ("corners", "want"),
        [
            (True, [-1.4, -2.2, -0.4, -2.2, 0.6, -2.2, -0.4, 1.8, 0.6, 1.8, 1.6, 1.8]),
            (
                False,
                [-0.81667, -1.2, -0.15, -1.2, 0.51667, -1.2, -0.31667, 0.8, 0.35, 0.8, 1.01667, 0.8],
            ),
        ],
    )
    def test_values(self, corners, want) -> None:
        got = lookup("affine_grid")(self.THETA, None, output_shape=[1, 1, 2, 3], align_corners=corners)
        assert got.shape == (1, 2, 3, 2)
        np.testing.assert_allclose(got.reshape(-1), want, atol=1e-5)

    def test_a_tensor_comes_before_the_attribute(self) -> None:
        shape = np.array([1, 1, 4, 5], np.int32)
        assert lookup("affine_grid")(self.THETA, shape, output_shape=[1, 1, 2, 3]).shape == (1, 4, 5, 2)

    def test_one_point_between_aligned_corners_is_nowhere(self) -> None:
        got = lookup("affine_grid")(self.THETA, None, output_shape=[1, 1, 1, 2])
        assert np.isnan(got).all()
        got = lookup("affine_grid")(self.THETA, None, output_shape=[1, 1, 1, 1], align_corners=False)
        np.testing.assert_allclose(got.reshape(-1), [0.1, -0.2])

    def test_a_shape_of_another_rank_is_refused(self) -> None:
        with pytest.raises(ValueError, match="Theta must be"):
            lookup("affine_grid")(self.THETA, None, output_shape=[1, 1, 2, 3, 4])

    @pytest.mark.parametrize("corners", [True, False])
    def test_gradient(self, corners, gradcheck) -> None:
        attrs = {"output_shape": [2, 1, 3, 4], "align_corners": corners}
        gradcheck("affine_grid", {"Theta": draw(2, 2, 3)}, attrs)
        attrs = {"output_shape": [2, 1, 3, 2, 4], "align_corners": corners}
        gradcheck("affine_grid", {"Theta": draw(2, 3, 4)}, attrs)
