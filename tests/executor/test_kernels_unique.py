"""Distinct elements and counts. Numbers beside "Paddle" are PaddlePaddle 2.6.2's."""

from __future__ import annotations

import numpy as np
import pytest
from oarlock.errors import KernelError

X = np.array([3, 1, 2, 1, 5, 3, 3])
M = np.array([[1, 2, 1], [0, 1, 0], [1, 2, 1], [0, 0, 0]], np.float32)
ALL = {"return_index": True, "return_inverse": True, "return_counts": True, "is_sorted": True}


class TestUnique:
    @pytest.mark.parametrize(("code", "dtype"), [(2, np.int32), (3, np.int64)])
    def test_without_sorting_in_order_of_appearance(self, run_op, code, dtype) -> None:
        got = run_op("unique", {"X": X}, {"dtype": code}, without=["Indices", "Counts"])
        assert got["Out"].tolist() == [3, 1, 2, 5] and got["Index"].tolist() == [0, 1, 2, 1, 3, 0, 0]  # Paddle
        assert got["Index"].dtype == dtype

    @pytest.mark.parametrize(
        ("x", "axis", "out", "first", "inverse", "counts"),
        [
            (X, [], [1, 2, 3, 5], [1, 2, 0, 4], [2, 0, 1, 0, 3, 2, 2], [2, 1, 3, 1]),
            (M, [], [0, 1, 2], [3, 0, 1], [1, 2, 1, 0, 1, 0, 1, 2, 1, 0, 0, 0], [5, 5, 2]),
            (M, [0], [[0, 0, 0], [0, 1, 0], [1, 2, 1]], [3, 1, 0], [2, 1, 2, 0], [1, 1, 2]),
            (M, [-1], [[1, 2], [0, 1], [1, 2], [0, 0]], [0, 1], [0, 1, 0], [2, 1]),
            (M[0, 0], [], [1], [0], [0], [1]),
            (M[:0], [], [], [], [], []),
        ],
    )
    def test_sorted_with_all_outputs(self, run_op, x, axis, out, first, inverse, counts) -> None:  # Paddle
        got = run_op("unique", {"X": x}, {"dtype": 3, "axis": axis, **ALL})
        assert got["Out"].dtype == x.dtype
        assert [got[slot].tolist() for slot in ("Out", "Indices", "Index", "Counts")] == [out, first, inverse, counts]

    def test_only_what_is_asked_for(self, run_op) -> None:
        got = run_op("unique", {"X": X}, {"is_sorted": True})
        assert got["Out"].tolist() == [1, 2, 3, 5] and got["Index"] is None and got["Counts"] is None

    @pytest.mark.parametrize(
        ("x", "attrs"), [(M, {}), (X, {"dtype": 5}), (M, {"axis": [2], **ALL}), (M, {"axis": [0, 1], **ALL})]
    )
    def test_refusals(self, run_op, x, attrs) -> None:
        with pytest.raises(KernelError, match="unique"):
            run_op("unique", {"X": x}, attrs)


def test_unique_with_counts(run_op) -> None:
    got = run_op("unique_with_counts", {"X": X}, {"dtype": 2})
    assert got["Out"].tolist() == [3, 1, 2, 5] and got["Count"].tolist() == [3, 2, 1, 1]
    assert got["Index"].tolist() == [0, 1, 2, 1, 3, 0, 0] and got["Count"].dtype == np.int32


@pytest.mark.parametrize(
    ("x", "axis", "out", "index", "counts"),
    [
        ([1, 1, 2, 2, 2, 1, 3], [], [1, 2, 1, 3], [0, 0, 1, 1, 1, 2, 3], [2, 3, 1, 1]),
        ([[1, 2], [1, 2], [0, 1], [1, 2]], [0], [[1, 2], [0, 1], [1, 2]], [0, 0, 1, 2], [2, 1, 1]),
        ([[1, 2], [1, 2]], [1], [[1, 2], [1, 2]], [0, 1], [1, 1]),
        ([[1, 2], [2, 2]], [], [1, 2], [0, 1, 1, 1], [1, 3]),
        ([], [], [], [], []),
    ],
)
def test_unique_consecutive(run_op, x, axis, out, index, counts) -> None:
    attrs = {"axis": axis, "return_inverse": True, "return_counts": True, "dtype": 3}
    got = run_op("unique_consecutive", {"X": np.array(x, np.int64)}, attrs)
    assert [got[slot].tolist() for slot in ("Out", "Index", "Counts")] == [out, index, counts]


H = np.array([1, 2, 1, 4, 5.5, -1, 2.5], np.float32)


@pytest.mark.parametrize(
    ("x", "attrs", "want"),
    [
        (H, {"bins": 4, "min": 0, "max": 3}, [0, 2, 1, 1]),
        (H, {"bins": 4}, [1, 3, 1, 2]),
        (H.astype(np.int64), {"bins": 3, "min": 0, "max": 5}, [2, 2, 2]),
        (H[:1], {"bins": 3}, [0, 1, 0]),
        (H[:0], {"bins": 2}, [0, 0]),
    ],
)
def test_histogram(run_op, x, attrs, want) -> None:  # Paddle
    got = run_op("histogram", {"X": x}, attrs)["Out"]
    assert got.dtype == np.int64 and got.tolist() == want


@pytest.mark.parametrize(
    ("x", "attrs"), [(H, {"bins": 0}), (H, {"min": 3, "max": 1}), (np.array([np.nan, 1]), {"bins": 4})]
)
def test_histogram_refusals(run_op, x, attrs) -> None:
    with pytest.raises(KernelError, match="histogram"):
        run_op("histogram", {"X": x}, attrs)


@pytest.mark.parametrize(
    ("weights", "dtype", "want"),
    [
        (None, np.int64, [0, 2, 1, 0, 1]),
        (np.float32, np.float32, [0, 2, 2, 0, 4]),
        (np.float64, np.float64, [0, 2, 2, 0, 4]),
        (np.int32, np.float64, [0, 2, 2, 0, 4]),
    ],
)
def test_bincount(run_op, weights, dtype, want) -> None:  # Paddle
    x = np.array([1, 2, 1, 4])
    inputs = {"X": x} if weights is None else {"X": x, "Weights": np.array([1, 2, 1, 4], weights)}
    got = run_op("bincount", inputs)["Out"]
    assert got.dtype == dtype and got.tolist() == want
    assert run_op("bincount", inputs, {"minlength": 7})["Out"].shape == (7,)


@pytest.mark.parametrize("x", [np.array([-1, 2]), np.zeros((2, 2), np.int64), np.zeros(2)])
def test_bincount_refusals(run_op, x) -> None:
    with pytest.raises(KernelError, match="bincount"):
        run_op("bincount", {"X": x})
