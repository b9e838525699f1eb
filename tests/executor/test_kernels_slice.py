"""slice and strided_slice: ranges clamped as Python does, negative steps, dropped dimensions, gradients."""

from __future__ import annotations

import numpy as np
import pytest
from oarlock.errors import KernelError
from oarlock.executor.values import TensorArray
from oarlock.ir.registry import lookup

X = np.arange(20, dtype=np.float32).reshape(5, 4)
ROW = np.arange(10, dtype=np.float32)


class TestSlice:
    @pytest.mark.parametrize("start", [0, 2, -2, -100, 7, -5, 5])
    @pytest.mark.parametrize("end", [0, 3, -1, 100, -100, 5])
    def test_ranges_are_clamped_as_in_python(self, run_op, start, end) -> None:
        got = run_op("slice", {"Input": X}, {"axes": [0], "starts": [start], "ends": [end]})["Out"]
        np.testing.assert_array_equal(got, X[start:end])

    def test_the_result_is_a_view(self) -> None:
        assert np.shares_memory(lookup("slice")(X, None, None, [], [], axes=[1], starts=[1], ends=[3]), X)

    def test_decrease_axis_drops_dimensions_of_one_element(self, run_op) -> None:
        attrs = {"axes": [0], "starts": [-1], "ends": [100], "decrease_axis": [0]}
        np.testing.assert_array_equal(run_op("slice", {"Input": X}, attrs)["Out"], X[-1])
        with pytest.raises(KernelError, match="2 element"):
            run_op("slice", {"Input": X}, {**attrs, "starts": [-2]})
        with pytest.raises(KernelError, match="0 element"):
            run_op("slice", {"Input": X}, {**attrs, "starts": [9]})

    def test_the_last_element_of_old_programs_is_minus_1_to_0(self, run_op) -> None:
        attrs = {"axes": [1], "starts": [-1], "ends": [0], "decrease_axis": [1], "infer_flags": [-1]}
        np.testing.assert_array_equal(run_op("slice", {"Input": X}, attrs)["Out"], X[:, -1])

    @pytest.mark.parametrize("shape", [(), (1,)])
    def test_with_all_axes_dropped_the_program_says_0d_or_1(self, run_op, shape) -> None:
        attrs = {"axes": [0, 1], "starts": [1, 2], "ends": [2, 3], "decrease_axis": [0, 1]}
        cotangent = {"Out": np.full(shape, 5, np.float32)}
        got = run_op("slice", {"Input": X}, attrs, declared={"Out": shape}, cotangents=cotangent)
        assert got["Out"].shape == shape and got["Out"].item() == 6
        assert got.gradients["Input"].sum() == 5 and got.gradients["Input"][1, 2] == 5

    def test_numbers_come_from_tensors_first(self, run_op) -> None:
        attrs = {"axes": [0, 1], "starts": [0, 0], "ends": [1, 1], "infer_flags": [-1, -1]}
        inputs = {"Input": X, "StartsTensor": np.array([1, 2]), "EndsTensorList": [np.array([3]), np.array([4])]}
        np.testing.assert_array_equal(run_op("slice", inputs, attrs)["Out"], X[1:3, 2:4])

    def test_counts_must_agree(self, run_op) -> None:
        with pytest.raises(KernelError, match="as many"):
            run_op("slice", {"Input": X}, {"axes": [0, 1], "starts": [0], "ends": [1]})

    def test_a_tensor_array_gives_an_array_or_one_entry(self) -> None:
        array = TensorArray([ROW[:1], ROW[:2], ROW[:3]])
        kernel = lookup("slice").kernel
        part = kernel(array, None, None, [], [], axes=[0], starts=[1], ends=[3])
        assert isinstance(part, TensorArray) and [len(each) for each in part] == [2, 3]
        one = kernel(array, None, None, [], [], axes=[0], starts=[-1], ends=[9], decrease_axis=[0])
        assert one is array[2]
        grad = lookup("slice_grad").kernel(
            array, ROW[:3], None, None, [], [], axes=[0], starts=[-1], ends=[9], decrease_axis=[0]
        )
        assert [each.sum() for each in grad] == [0, 0, 3]

    @pytest.mark.parametrize("decrease", [[], [0]])
    def test_gradient(self, gradcheck, decrease) -> None:
        gradcheck(
            "slice", {"Input": X}, {"axes": [0, 1], "starts": [1, -3], "ends": [2, 99], "decrease_axis": decrease}
        )


class TestStridedSlice:
    @pytest.mark.parametrize(
        ("start", "end", "step", "want"),
        [
            (2147483647, -1, -1, [9, 8, 7, 6, 5, 4, 3, 2, 1, 0]),  # x[::-1] as 2.x writes it
            (2147483647, -2147483648, -1, [9, 8, 7, 6, 5, 4, 3, 2, 1, 0]),  # and as 3.x does
            (7, 2, -2, [7, 5, 3]),
            (-1, -11, -3, [9, 6, 3, 0]),
            (12, 2, -1, [9, 8, 7, 6, 5, 4, 3]),
            (20, 30, 1, []),
            (-20, -15, 1, []),
            (-100, 4, 2, [0, 2]),
            (-100, 4, 1, [0, 1, 2, 3]),
            (3, 0, -1, [3, 2, 1]),
            (3, -1, -1, [3, 2, 1, 0]),
            (0, -1, 3, [0, 3, 6]),
            (2, 2, 1, []),
            (4, 2, 1, []),
        ],
    )
    def test_ranges(self, run_op, gradcheck, start, end, step, want) -> None:
        attrs = {"axes": [0], "starts": [start], "ends": [end], "strides": [step], "infer_flags": [1]}
        assert run_op("strided_slice", {"Input": ROW}, attrs)["Out"].tolist() == want
        gradcheck("strided_slice", {"Input": ROW}, attrs)

    def test_several_axes_and_a_dropped_one(self, run_op, gradcheck) -> None:
        attrs = {"axes": [0, 1], "starts": [1, 3], "ends": [2, -1], "strides": [1, -2], "decrease_axis": [0]}
        np.testing.assert_array_equal(run_op("strided_slice", {"Input": X}, attrs)["Out"], X[1, ::-2])
        gradcheck("strided_slice", {"Input": X}, attrs)

    def test_all_axes_dropped_give_shape_1(self, run_op) -> None:
        attrs = {"axes": [0, 1], "starts": [1, 1], "ends": [2, 2], "strides": [1, 1], "decrease_axis": [0, 1]}
        assert run_op("strided_slice", {"Input": X}, attrs)["Out"].tolist() == [5]

    def test_numbers_come_from_tensors_first(self, run_op) -> None:
        inputs = {
            "Input": X,
            "StartsTensor": np.array([3]),
            "EndsTensorList": [np.array([0])],
            "StridesTensor": np.array([-1]),
        }
        attrs = {"axes": [0], "starts": [0], "ends": [2], "strides": [1]}
        np.testing.assert_array_equal(run_op("strided_slice", inputs, attrs)["Out"], X[3:0:-1])

    @pytest.mark.parametrize(("axes", "strides", "word"), [([0], [0], "step"), ([-1], [1], "negative axis")])
    def test_refusals(self, run_op, axes, strides, word) -> None:
        attrs = {"axes": axes, "starts": [0], "ends": [2], "strides": strides}
        with pytest.raises(KernelError, match=word):
            run_op("strided_slice", {"Input": X}, attrs)

    def test_a_tensor_array_is_sliced_too(self) -> None:
        array = TensorArray([ROW[:1], ROW[:2], ROW[:3]])
        got = lookup("strided_slice").kernel(
            array, None, None, None, [], [], [], axes=[0], starts=[2], ends=[-1], strides=[-2]
        )
        assert [len(each) for each in got] == [3, 1]
