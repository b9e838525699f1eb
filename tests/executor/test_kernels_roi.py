"""Regions of interest. Literal numbers are PaddlePaddle 2.6.2's where it has a CPU kernel (all but prroi_pool)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from oarlock.executor.kernels import roi
from oarlock.executor.values import LoDTensor
from oarlock.ir.registry import lookup

RNG = np.random.default_rng(13)
X = np.arange(1, 21, dtype=np.float32).reshape(1, 1, 4, 5)
ROIS = np.array([[0, 0, 3, 3], [1, 0.5, 4, 2], [2, 1, 2, 1]], np.float32)
TWO: Any = {"pooled_height": 2, "pooled_width": 2}


def ints(*values: int) -> Any:
    return np.array(values, np.int32)


def draw(*shape: int) -> Any:
    return RNG.standard_normal(shape)


def boxes(count: int, width: float, height: float) -> Any:
    start = RNG.uniform(-2, min(width, height), (count, 2))
    return np.concatenate([start, start + RNG.uniform(1.2, 6, (count, 2))], axis=1)


class TestAlign:
    @pytest.mark.parametrize(
        ("aligned", "ratio", "want"),
        [
            (True, 2, [[2.875, 4.3125, 10.0625, 11.5], [4.125, 5.625, 7.875, 9.375], [5, 5, 5, 5]]),
            (False, 2, [[5.5, 7, 13, 14.5], [7.125, 8.625, 10.875, 12.375], [9.5, 10, 12, 12.5]]),
            (False, -1, [[5.5, 7, 13, 14.5], [7.125, 8.625, 10.875, 12.375], [9.5, 10, 12, 12.5]]),
        ],
    )
    def test_values(self, aligned, ratio, want) -> None:
        got = lookup("roi_align")(X, ROIS, ints(3), **TWO, sampling_ratio=ratio, aligned=aligned)
        np.testing.assert_allclose(got.reshape(3, 4), want, rtol=1e-6)

    def test_both_ways_of_pooling_agree(self, monkeypatch) -> None:
        x, rois = draw(1, 3, 12, 14), boxes(6, 14, 12)
        attrs: Any = {"pooled_height": 3, "pooled_width": 4, "sampling_ratio": 2}
        want = lookup("roi_align")(x, rois, ints(6), **attrs)
        back = lookup("roi_align_grad")(x, rois, ints(6), want, **attrs)
        monkeypatch.setattr(roi, "_FEW_POINTS", 0)
        np.testing.assert_allclose(lookup("roi_align")(x, rois, ints(6), **attrs), want, atol=1e-12)
        np.testing.assert_allclose(lookup("roi_align_grad")(x, rois, ints(6), want, **attrs), back, atol=1e-12)

    def test_a_region_outside_is_zero(self) -> None:
        rois = np.array([[50, 50, 60, 60], [-30, -30, -20, -20]], np.float32)
        assert not lookup("roi_align")(X, rois, ints(2), **TWO).any()

    @pytest.mark.parametrize("aligned", [True, False])
    @pytest.mark.parametrize("ratio", [-1, 2])
    def test_gradient(self, aligned, ratio, gradcheck) -> None:
        inputs = {"X": draw(2, 3, 8, 9), "ROIs": boxes(5, 9, 8), "RoisNum": ints(2, 3)}
        attrs = {**TWO, "spatial_scale": 0.9, "aligned": aligned, "sampling_ratio": ratio}
        gradcheck("roi_align", inputs, attrs, wrt=["X"])


class TestMaximum:
    def test_values_and_places(self) -> None:
        out, place = lookup("roi_pool")(X, ROIS, ints(3), **TWO)
        assert out.reshape(3, 4).tolist() == [[7, 9, 17, 19], [8, 10, 13, 15], [8, 8, 8, 8]]
        assert place.dtype == np.int64
        assert place.reshape(3, 4).tolist() == [[6, 8, 16, 18], [7, 9, 12, 14], [7, 7, 7, 7]]

    def test_an_empty_bin_is_zero_without_a_place(self) -> None:
        out, place = lookup("roi_pool")(X, np.array([[9, 9, 12, 12]], np.float32), ints(1), **TWO)
        assert not out.any() and np.all(place == -1)

    def test_gradient(self, gradcheck) -> None:
        inputs = {"X": draw(2, 3, 8, 9), "ROIs": boxes(5, 9, 8), "RoisNum": ints(4, 1)}
        gradcheck("roi_pool", inputs, {**TWO, "spatial_scale": 0.8}, wrt=["X"], outputs=["Out"])


class TestPositionSensitive:
    def test_each_bin_reads_its_own_channel(self) -> None:
        x = np.arange(4, dtype=np.float32).reshape(1, 4, 1, 1) * np.ones((1, 4, 3, 3), np.float32)
        got = lookup("psroi_pool")(x, np.array([[0, 0, 2, 2]], np.float32), ints(1), **TWO)
        assert got.reshape(-1).tolist() == [0, 1, 2, 3]

    def test_a_bin_is_the_mean_of_the_points_it_touches(self) -> None:
        x = np.broadcast_to(X, (1, 4, 4, 5)).copy()
        got = lookup("psroi_pool")(x, np.array([[0, 0, 2, 2]], np.float32), ints(1), **TWO)
        assert got.reshape(-1).tolist() == [4, 5, 9, 10]

    def test_channels_that_do_not_fit_are_refused(self) -> None:
        with pytest.raises(ValueError, match=r"X must have 2 \* 2 \* 2 channels, got 1"):
            lookup("psroi_pool")(X, ROIS, ints(3), **TWO, output_channels=2)

    def test_gradient(self, gradcheck) -> None:
        inputs = {"X": draw(2, 12, 8, 9), "ROIs": boxes(5, 9, 8), "RoisNum": ints(2, 3)}
        attrs = {"pooled_height": 2, "pooled_width": 3, "output_channels": 2}
        gradcheck("psroi_pool", inputs, attrs, wrt=["X"])


class TestPrecise:
    def test_a_plane_integrates_to_its_value_at_the_centre(self) -> None:
        rows, columns = np.mgrid[0:9, 0:10].astype(float)
        x = (3 * rows + 0.5 * columns + 1)[None, None]
        rois = np.array([[1.3, 2.2, 6.5, 7.4]])
        got = lookup("prroi_pool")(x, rois, ints(1), **TWO)
        centres = [(y, c) for y in (2.2 + 1.3, 2.2 + 3.9) for c in (1.3 + 1.3, 1.3 + 3.9)]
        np.testing.assert_allclose(got.reshape(-1), [3 * y + 0.5 * c + 1 for y, c in centres])

    def test_it_is_the_limit_of_many_samples(self) -> None:
        x, rois = draw(1, 2, 8, 9), np.array([[1.1, 0.7, 6.3, 5.9], [2, 2, 7, 3.5]])
        got = lookup("prroi_pool")(x, rois, ints(2), **TWO)
        many = lookup("roi_align")(x, rois, ints(2), **TWO, sampling_ratio=200)
        np.testing.assert_allclose(got, many, atol=1e-3)

    def test_a_region_without_area_is_zero(self) -> None:
        assert not lookup("prroi_pool")(X, np.array([[2, 2, 2, 4]], np.float32), ints(1), **TWO).any()

    def test_gradient_reaches_the_corners_of_the_regions(self, gradcheck) -> None:
        inputs = {"X": draw(2, 3, 8, 9), "ROIs": boxes(4, 7, 6), "BatchRoINums": ints(1, 3)}
        attrs = {"pooled_height": 2, "pooled_width": 3, "spatial_scale": 0.7}
        found = gradcheck("prroi_pool", inputs, attrs, rtol=1e-4)
        assert found["ROIs"].any(axis=1).all()


@pytest.mark.parametrize("kind", ["roi_align", "roi_pool", "prroi_pool"])
class TestImages:
    def pooled(self, kind: str, x: Any, rois: Any, counts: Any) -> Any:
        got = lookup(kind)(x, rois, counts, **TWO)
        return got[0] if kind == "roi_pool" else got

    def test_counts_and_lod_say_the_same(self, kind) -> None:
        x, rois = draw(3, 2, 8, 9), boxes(5, 9, 8)
        want = self.pooled(kind, x, rois, ints(1, 0, 4))
        np.testing.assert_array_equal(self.pooled(kind, x, LoDTensor(rois, [[0, 1, 1, 5]]), None), want)
        np.testing.assert_array_equal(self.pooled(kind, x[2:], rois[1:], ints(4)), want[1:])

    def test_no_region_at_all(self, kind) -> None:
        got = self.pooled(kind, draw(2, 3, 8, 9), np.zeros((0, 4)), ints(0, 0))
        assert got.shape == (0, 3, 2, 2)

    @pytest.mark.parametrize("counts", [ints(2), ints(1, 1), None])
    def test_counts_that_do_not_fit_are_refused(self, kind, counts) -> None:
        with pytest.raises(ValueError, match=r"do not fit a batch of|ROIs need their number"):
            self.pooled(kind, draw(2, 1, 8, 9), boxes(3, 9, 8), counts)

    def test_shapes_are_checked(self, kind) -> None:
        with pytest.raises(ValueError, match=r"ROIs \[R, 4\]"):
            self.pooled(kind, draw(1, 1, 4, 4), draw(2, 5), ints(2))
