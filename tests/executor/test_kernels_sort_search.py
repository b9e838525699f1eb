"""Order and search. Numbers beside "Paddle" are PaddlePaddle 2.6.2's, the order of equal elements among them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from oarlock.errors import KernelError
from oarlock.executor.kernels import tie_order
from oarlock.executor.kernels.sort_search import stable_order

RNG = np.random.default_rng(0)
NAN = float("nan")
TIES = np.array([[3, 1, 3, 1], [2, 2, 2, 2], [NAN, 1, NAN, 5]], np.float32)


def shuffled(*shape: int, dtype: Any = np.float32) -> Any:
    return RNG.permutation(int(np.prod(shape))).astype(dtype).reshape(shape)


class TestArgExtremes:
    @pytest.mark.parametrize(
        ("type", "attrs", "want"),
        [
            ("arg_max", {"axis": 1}, [0, 0, 3]),  # Paddle, NaN left out
            ("arg_min", {"axis": 1}, [1, 0, 1]),
            ("arg_max", {"axis": 0}, [0, 1, 0, 2]),
            ("arg_max", {"axis": -1, "keepdims": True}, [[0], [0], [3]]),
            ("arg_max", {"axis": 0, "flatten": True}, 11),
            ("arg_max", {"axis": 0, "flatten": True, "keepdims": True}, [[11]]),
        ],
    )
    def test_places(self, run_op, type, attrs, want) -> None:
        got = run_op(type, {"X": TIES}, attrs)["Out"]
        assert got.dtype == np.int64 and got.tolist() == want

    @pytest.mark.parametrize(("code", "dtype"), [(2, np.int32), (3, np.int64), (-1, np.int64)])
    def test_dtype(self, run_op, code, dtype) -> None:
        assert run_op("arg_max", {"X": TIES}, {"axis": 0, "dtype": code})["Out"].dtype == dtype

    def test_a_0d_result_is_of_the_declared_rank(self, run_op) -> None:
        for shape in ((), (1,)):
            assert run_op("arg_max", {"X": TIES[0]}, {"axis": 0}, declared={"Out": shape})["Out"].shape == shape

    @pytest.mark.parametrize(
        ("x", "attrs"), [(TIES, {"axis": 2}), (TIES, {"axis": 0, "dtype": 5}), (TIES[:0], {"axis": 0})]
    )
    def test_refusals(self, run_op, x, attrs) -> None:
        with pytest.raises(KernelError, match="arg_max"):
            run_op("arg_max", {"X": x}, attrs)


class TestArgsort:
    def test_nan_sorts_last_and_first_when_descending(self, run_op) -> None:
        up = run_op("argsort", {"X": TIES}, {"axis": 1})
        assert up["Indices"].tolist() == [[1, 3, 0, 2], [0, 1, 2, 3], [1, 3, 0, 2]]  # Paddle
        down = run_op("argsort", {"X": TIES}, {"axis": 1, "descending": True})
        assert down["Indices"].tolist() == [[0, 2, 1, 3], [0, 1, 2, 3], [0, 2, 3, 1]]  # Paddle
        np.testing.assert_array_equal(down["Out"], np.take_along_axis(TIES, down["Indices"], 1))
        assert up["Indices"].dtype == np.int64

    @pytest.mark.parametrize(("shape", "axis"), [((3, 4), 0), ((2, 3, 4), 1), ((5,), -1), ((2, 0), 1), ((), -1)])
    def test_axes_and_gradient(self, run_op, gradcheck, shape, axis) -> None:
        x = shuffled(*shape)
        got = run_op("argsort", {"X": x}, {"axis": axis})
        np.testing.assert_array_equal(got["Out"], np.sort(x, axis) if x.ndim else x)
        if x.size:
            gradcheck("argsort", {"X": x}, {"axis": axis, "descending": True}, outputs=["Out"])

    def test_a_large_tensor_with_equals_keeps_their_order(self) -> None:
        x = RNG.integers(0, 50, (3, 5000)).astype(np.float32)
        np.testing.assert_array_equal(stable_order(x, 1), np.argsort(x, 1, kind="stable"))
        np.testing.assert_array_equal(stable_order(x, 1, descending=True), np.argsort(-x, 1, kind="stable"))


class TestTopK:
    @pytest.mark.parametrize(
        ("attrs", "want"),
        [
            ({"k": 1}, [[0], [2], [0]]),
            ({"k": 2}, [[0, 2], [2, 3], [0, 2]]),
            ({"k": 2, "largest": False}, [[1, 3], [2, 3], [1, 3]]),
            ({"k": 4}, [[0, 2, 3, 1], [2, 3, 0, 1], [0, 2, 3, 1]]),
            ({"k": 4, "sorted": False}, [[3, 0, 2, 1], [2, 3, 0, 1], [3, 0, 2, 1]]),
            ({"k": 4, "largest": False, "sorted": False}, [[1, 3, 2, 0], [2, 3, 0, 1], [3, 1, 2, 0]]),
        ],
    )
    def test_equal_elements_and_nan_come_in_paddles_order(self, run_op, attrs, want) -> None:
        got = run_op("top_k_v2", {"X": TIES}, attrs)
        assert got["Indices"].dtype == np.int64 and got["Indices"].tolist() == want
        np.testing.assert_array_equal(got["Out"], np.take_along_axis(TIES, got["Indices"], 1))

    def test_version_1_selects_by_heap(self, run_op) -> None:
        assert run_op("top_k", {"X": TIES[:2]}, {"k": 2})["Indices"].tolist() == [[2, 0], [0, 1]]  # Paddle

    @pytest.mark.parametrize("k", [1, 10, 400, 1000])
    @pytest.mark.parametrize("largest", [True, False])
    def test_few_and_many_of_a_large_dimension(self, run_op, k, largest) -> None:
        x = shuffled(3, 1000)
        got = run_op("top_k_v2", {"X": x}, {"k": k, "largest": largest})
        want = np.sort(x, 1)[:, ::-1][:, :k] if largest else np.sort(x, 1)[:, :k]
        np.testing.assert_array_equal(got["Out"], want)

    def test_large_rows_with_equals_take_the_lowest_indices(self, run_op) -> None:
        x = RNG.integers(0, 9, (4, 5000)).astype(np.int32)
        got = run_op("top_k_v2", {"X": x}, {"k": 30})["Indices"]
        np.testing.assert_array_equal(got, np.argsort(-x, 1, kind="stable")[:, :30])
        x = np.where(x > 7, np.float32(NAN), x).astype(np.float32)
        got = run_op("top_k_v2", {"X": x}, {"k": 30})["Out"]
        assert np.isnan(got).all()

    def test_k_as_a_tensor_axis_and_gradient(self, run_op, gradcheck) -> None:
        x = shuffled(4, 3)
        got = run_op("top_k_v2", {"X": x, "K": np.array([2], np.int32)}, {"k": 1, "axis": 0})["Out"]
        np.testing.assert_array_equal(got, np.sort(x, 0)[:1:-1])
        gradcheck("top_k_v2", {"X": x}, {"k": 2, "axis": 0}, outputs=["Out"])
        gradcheck("top_k", {"X": x}, {"k": 2}, outputs=["Out"])

    @pytest.mark.parametrize("k", [0, 5])
    def test_a_k_that_does_not_fit_is_refused(self, run_op, k) -> None:
        with pytest.raises(KernelError, match=f"k is {k}"):
            run_op("top_k_v2", {"X": TIES}, {"k": k})


class TestKthvalueAndMode:
    @pytest.mark.parametrize(
        ("k", "values", "places"), [(1, [1, 2, 1], [1, 2, 1]), (2, [1, 2, 5], [3, 3, 3]), (3, [3, 2, NAN], [2, 0, 2])]
    )
    def test_kthvalue(self, run_op, k, values, places) -> None:  # Paddle
        got = run_op("kthvalue", {"X": TIES}, {"k": k, "axis": 1})
        np.testing.assert_array_equal(got["Out"], np.array(values, np.float32))
        assert got["Indices"].tolist() == places

    def test_kthvalue_of_a_large_dimension(self, run_op) -> None:
        x = RNG.integers(0, 40, (2, 5000)).astype(np.float64)
        got = run_op("kthvalue", {"X": x}, {"k": 1234})
        order = np.argsort(x, 1, kind="stable")[:, 1233]
        np.testing.assert_array_equal(got["Indices"], order)

    def test_mode_is_the_smallest_of_the_most_frequent_at_its_last_place(self, run_op) -> None:
        x = np.array([[3, 1, 3, 1], [2, 2, 2, 2], [4, 1, 3, 5]], np.float32)
        got = run_op("mode", {"X": x}, {"axis": 1, "keepdim": True})
        assert got["Out"].tolist() == [[1], [2], [1]] and got["Indices"].tolist() == [[3], [3], [1]]  # Paddle

    @pytest.mark.parametrize("type", ["kthvalue", "mode"])
    @pytest.mark.parametrize("keepdim", [True, False])
    def test_gradients_and_ranks(self, run_op, gradcheck, type, keepdim) -> None:
        x = shuffled(3, 4)
        gradcheck(type, {"X": x}, {"axis": 0, "keepdim": keepdim}, outputs=["Out"])
        for shape in ((), (1,)):
            declared = {"Out": shape, "Indices": shape}
            got = run_op(type, {"X": x[0]}, {"axis": 0}, declared=declared)
            assert got["Out"].shape == got["Indices"].shape == shape


class TestSearchsorted:
    @pytest.mark.parametrize("right", [False, True])
    @pytest.mark.parametrize("rows", [4, 200])
    def test_row_by_row(self, run_op, rows, right) -> None:
        sequence = np.sort(RNG.integers(0, 9, (rows, 7)), 1).astype(np.float32)
        values = RNG.integers(-1, 10, (rows, 5)).astype(np.float32)
        got = run_op("searchsorted", {"SortedSequence": sequence, "Values": values}, {"right": right})["Out"]
        side: Any = "right" if right else "left"
        np.testing.assert_array_equal(got, [np.searchsorted(a, b, side) for a, b in zip(sequence, values, strict=True)])

    def test_one_sequence_for_all_and_int32(self, run_op) -> None:
        inputs = {"SortedSequence": np.array([1, 3, 3, 5]), "Values": np.array([[0, 3], [9, 4]])}
        got = run_op("searchsorted", inputs, {"out_int32": True})["Out"]
        assert got.dtype == np.int32 and got.tolist() == [[0, 1], [4, 3]]
        assert run_op("searchsorted", {**inputs, "Values": np.array(3)})["Out"].shape == ()

    def test_rows_must_agree(self, run_op) -> None:
        with pytest.raises(KernelError, match="before the last"):
            run_op("searchsorted", {"SortedSequence": np.zeros((2, 3)), "Values": np.zeros((3, 1))})


@pytest.mark.parametrize("size", [1, 2, 5, 16, 17, 60, 300])
def test_the_algorithms_of_tie_order_sort_and_select(size) -> None:
    rank = RNG.integers(0, max(2, size // 3), size).tolist()
    ascending = sorted(rank)
    assert [rank[i] for i in tie_order.sort(rank)] == ascending
    for count in {1, (size + 1) // 2, size}:
        heap = tie_order.partial_sort(rank, count)
        assert [rank[i] for i in heap[:count]] == ascending[:count] and sorted(heap) == list(range(size))
        split = tie_order.nth_element(rank, count - 1, ordered=True)
        assert [rank[i] for i in split[:count]] == ascending[:count] and sorted(split) == list(range(size))


def test_sorting_that_goes_badly_falls_back_to_heaps() -> None:
    arrangement = tie_order._Arrangement(list(range(40, 0, -1)))
    arrangement.intro_sort(0, 40, 0)
    assert arrangement.items == list(range(39, -1, -1))
