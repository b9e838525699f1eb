"""Joining and cutting: concat, stack, split, unstack, unbind, partial_*, coalesce_tensor."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from oarlock.errors import KernelError
from oarlock.executor.values import LoDTensor
from oarlock.ir.registry import lookup


def counted(*shape: int, dtype: Any = np.float32) -> Any:
    return np.arange(int(np.prod(shape)), dtype=dtype).reshape(shape)


class TestConcat:
    @pytest.mark.parametrize("axis", [1, -1])
    def test_end_to_end(self, run_op, gradcheck, axis) -> None:
        parts = [counted(2, 3), counted(2, 1), counted(2, 0)]
        got = run_op("concat", {"X": parts}, {"axis": axis})["Out"]
        assert got.tolist() == [[0, 1, 2, 0], [3, 4, 5, 1]]
        gradcheck("concat", {"X": parts}, {"axis": axis})

    def test_the_axis_tensor_goes_first(self, run_op) -> None:
        inputs = {"X": [counted(2, 3), counted(2, 3)], "AxisTensor": np.array([1], np.int32)}
        assert run_op("concat", inputs, {"axis": 0})["Out"].shape == (2, 6)

    def test_0d_tensors_become_a_vector(self, run_op) -> None:
        one = np.array(1.5, np.float32)
        got = run_op("concat", {"X": [one, one]}, cotangents={"Out": np.array([2, 3], np.float32)})
        assert got["Out"].tolist() == [1.5, 1.5] and got.gradients["X_1"].shape == ()

    @pytest.mark.parametrize(
        ("other", "word"),
        [
            (counted(2, 2), "differ in dimension 0"),
            (counted(3), "differ in dimension 0"),
            (counted(2, 3, dtype=np.float64), "one dtype"),
        ],
    )
    def test_refusals(self, run_op, other, word) -> None:
        with pytest.raises(KernelError, match=word):
            run_op("concat", {"X": [counted(2, 3), other]}, {"axis": 0})

    def test_sequences_follow_each_other(self) -> None:
        first = LoDTensor.from_lengths(counted(3, 2), [[2, 1]])
        second = LoDTensor.from_lengths(counted(4, 2), [[1, 3]])
        joined = lookup("concat").kernel([first, second], None, axis=0)
        assert joined.lengths() == [[2, 1, 1, 3]] and joined.shape == (7, 2)
        beside = lookup("concat").kernel([first, first], None, axis=1)
        assert beside.lengths() == [[2, 1]] and beside.shape == (3, 4)


class TestSplit:
    @pytest.mark.parametrize(
        ("attrs", "sizes"),
        [
            ({"num": 3}, [2, 2, 2]),
            ({"sections": [1, 2, 3]}, [1, 2, 3]),
            ({"sections": [1, -1, 3]}, [1, 2, 3]),
            ({"sections": [6, 0]}, [6, 0]),
            ({"num": 2, "sections": [2, 4]}, [2, 4]),
        ],
    )
    def test_sizes(self, run_op, attrs, sizes) -> None:
        x = counted(6, 2)
        parts = run_op("split", {"X": x}, {**attrs, "axis": 0}, counts={"Out": len(sizes)})["Out"]
        assert [len(part) for part in parts] == sizes
        np.testing.assert_array_equal(np.concatenate(parts), x)

    @pytest.mark.parametrize("attrs", [{"num": 4}, {"sections": [1, 2]}, {"sections": [1, -1, -1]}, {"sections": []}])
    def test_sizes_that_do_not_add_up_are_refused(self, run_op, attrs) -> None:
        with pytest.raises(KernelError, match="dimension of 6"):
            run_op("split", {"X": counted(6, 2)}, attrs, counts={"Out": 3})

    def test_axis_and_sizes_as_tensors(self, run_op) -> None:
        inputs = {
            "X": counted(2, 6),
            "AxisTensor": np.array([1]),
            "SectionsTensorList": [np.array([2]), np.array([-1])],
        }
        parts = run_op("split", inputs, {"sections": [1, 1]}, counts={"Out": 2})["Out"]
        assert [part.shape for part in parts] == [(2, 2), (2, 4)]

    def test_parts_are_views_and_the_gradient_is_a_concat(self, gradcheck) -> None:
        x = counted(4, 6)
        assert all(np.shares_memory(part, x) for part in lookup("split").kernel(x, None, [], num=3, axis=1))
        gradcheck("split", {"X": x}, {"num": 3, "axis": 1}, counts={"Out": 3})


@pytest.mark.parametrize(("axis", "place"), [(0, 0), (1, 1), (-1, 2), (-3, 0)])
def test_stack_along_a_new_axis(run_op, gradcheck, axis, place) -> None:
    parts = [counted(2, 3), counted(2, 3) + 10]
    np.testing.assert_array_equal(run_op("stack", {"X": parts}, {"axis": axis})["Y"], np.stack(parts, place))
    gradcheck("stack", {"X": parts}, {"axis": axis})


def test_stack_refuses_other_shapes_and_dtypes(run_op) -> None:
    with pytest.raises(KernelError, match="one shape"):
        run_op("stack", {"X": [counted(2), counted(3)]})
    with pytest.raises(KernelError, match="one dtype"):
        run_op("stack", {"X": [counted(2), counted(2, dtype=np.int32)]})


@pytest.mark.parametrize(("type", "slot"), [("unstack", "Y"), ("unbind", "Out")])
def test_slices_along_an_axis(run_op, gradcheck, type, slot) -> None:
    x = counted(3, 2)
    rows = run_op(type, {"X": x}, {"axis": 0}, counts={slot: 3})[slot]
    assert [row.tolist() for row in rows] == [[0, 1], [2, 3], [4, 5]]
    assert run_op(type, {"X": counted(2)}, {"axis": 0}, counts={slot: 2})[slot][1].shape == ()
    gradcheck(type, {"X": x}, {"axis": -1}, counts={slot: 2})


def test_unstack_checks_its_number(run_op) -> None:
    with pytest.raises(KernelError, match="num is 2"):
        run_op("unstack", {"X": counted(3, 2)}, {"axis": 0, "num": 2}, counts={"Y": 2})


@pytest.mark.parametrize(
    ("attrs", "columns"),
    [
        ({"start_index": 1, "length": 2}, [1, 2]),
        ({"start_index": 1}, [1, 2, 3]),
        ({"start_index": -2, "length": 1}, [2]),
    ],
)
def test_partial_columns(run_op, gradcheck, attrs, columns) -> None:
    x, y = counted(3, 4), counted(3, 4) * 10
    joined = run_op("partial_concat", {"X": [x, y]}, attrs)["Out"]
    np.testing.assert_array_equal(joined, np.concatenate([x[:, columns], y[:, columns]], 1))
    np.testing.assert_array_equal(run_op("partial_sum", {"X": [x, y]}, attrs)["Out"], (x + y)[:, columns])
    gradcheck("partial_concat", {"X": [x, y]}, attrs)
    gradcheck("partial_sum", {"X": [x, y]}, attrs)


@pytest.mark.parametrize("attrs", [{"start_index": 4}, {"start_index": 2, "length": 3}, {"start_index": -5}])
def test_partial_columns_outside_are_refused(run_op, attrs) -> None:
    with pytest.raises(KernelError, match="columns"):
        run_op("partial_sum", {"X": [counted(3, 4), counted(3, 4)]}, attrs)


class TestCoalesceTensor:
    def test_parts_start_at_pages_and_share_memory(self) -> None:
        x, y = counted(20, 3), counted(1)
        (a, b), fused = lookup("coalesce_tensor").kernel([x, y], dtype=5, copy_data=True)
        assert fused.shape == (2048,)  # 4096 bytes each
        np.testing.assert_array_equal(a, x)
        assert b[0] == y[0] and np.shares_memory(a, fused) and np.shares_memory(b, fused)

    def test_alignment_and_constant(self) -> None:
        kernel = lookup("coalesce_tensor").kernel
        _, packed = kernel([counted(3), counted(2)], dtype=5, use_align=False, set_constant=True, constant=0.5)
        assert packed.tolist() == [0.5] * 5
        _, aligned = kernel([counted(3), counted(2)], dtype=5, align_size=16)
        assert aligned.shape == (8,)
        parts, _ = kernel([counted(6)], dtype=5, concated_shapes=[2, 3], concated_ranks=[2])
        assert parts[0].shape == (2, 3)
