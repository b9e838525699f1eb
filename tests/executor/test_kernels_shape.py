"""Operators that only change a shape or the order of elements. Numbers beside "Paddle" are PaddlePaddle 2.6.2's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from oarlock.errors import KernelError
from oarlock.executor.values import TensorArray
from oarlock.ir.desc import OpDesc
from oarlock.ir.registry import lookup


def counted(*shape: int, dtype: Any = np.float32) -> Any:
    return np.arange(int(np.prod(shape)), dtype=dtype).reshape(shape)


class TestReshape:
    @pytest.mark.parametrize(
        ("shape", "wanted", "out"),
        [
            ((2, 3, 4), [2, -1], (2, 12)),
            ((2, 3, 4), [0, -1], (2, 12)),
            ((2, 3, 4), [-1, 0], (8, 3)),
            ((2, 3, 4), [0, 0, 0], (2, 3, 4)),
            ((2, 3, 4), [0, 0, -1, 1], (2, 3, 4, 1)),
            ((), [1], (1,)),
            ((), [-1], (1,)),
            ((1,), [], ()),
            ((0, 4), [-1, 4], (0, 4)),
            ((0, 4), [2, -1], (2, 0)),
            ((0, 4), [0, 2, 2], (0, 2, 2)),
            ((2, 0), [0, 0], (2, 0)),
        ],
    )
    @pytest.mark.parametrize("type", ["reshape", "reshape2"])
    def test_zero_copies_and_minus_one_is_worked_out(self, run_op, type, shape, wanted, out) -> None:
        x = counted(*shape)
        got = run_op(type, {"X": x}, {"shape": wanted})["Out"]
        assert got.shape == out
        np.testing.assert_array_equal(got.reshape(-1), x.reshape(-1))

    def test_the_result_is_a_view(self) -> None:
        x = counted(4, 6)
        out, _ = lookup("reshape2").kernel(x, None, [], shape=[6, 4])
        assert np.shares_memory(out, x)

    def test_a_list_of_tensors_goes_before_a_tensor_before_the_attribute(self, run_op) -> None:
        x, sizes = counted(2, 3, 4), [np.array([3], np.int32), np.array([-1], np.int32)]
        tensor = np.array([4, -1], np.int32)
        assert run_op("reshape2", {"X": x, "Shape": tensor}, {"shape": [2, -1]})["Out"].shape == (4, 6)
        both = run_op("reshape2", {"X": x, "Shape": tensor, "ShapeTensor": sizes}, {"shape": [2, -1]})
        assert both["Out"].shape == (3, 8)

    @pytest.mark.parametrize("wanted", [[-1, -1], [-2, 12], [5, 5], [3, 4, 1, 0], [4, 3, 0]])
    def test_what_does_not_fit_is_refused(self, run_op, wanted) -> None:
        with pytest.raises(KernelError, match="reshape2"):
            run_op("reshape2", {"X": counted(2, 3, 4)}, {"shape": wanted})

    @pytest.mark.parametrize("batch", [1, 4, 0])
    @pytest.mark.parametrize("wanted", [[0, -1], [-1, 128]])
    def test_a_free_batch_takes_any_batch(self, run_op, batch, wanted) -> None:
        got = run_op("reshape2", {"X": counted(batch, 128, 1, 1)}, {"shape": wanted})["Out"]
        assert got.shape == (batch, 128)

    def test_a_baked_batch_is_refused_with_the_remedy(self, run_op) -> None:
        with pytest.raises(KernelError) as error:
            run_op("reshape2", {"X": counted(4, 128, 1, 1)}, {"shape": [1, 128]})
        message = str(error.value)
        assert "reshape2" in message and "[4, 128, 1, 1]" in message and "[1, 128]" in message
        assert "the file fixes the batch (first dimension) to 1" in message and "\n" not in message

    def test_xshape_carries_the_shape(self, run_op) -> None:
        got = run_op("reshape2", {"X": counted(2, 3, dtype=np.float64)}, {"shape": [6]})
        assert got["XShape"].shape == (0, 2, 3) and got["XShape"].dtype == np.float64


@pytest.mark.parametrize(
    ("type", "attrs", "shape", "out"),
    [
        ("squeeze", {"axes": []}, (1, 3, 1), (3,)),
        ("squeeze2", {"axes": []}, (1, 3, 1), (3,)),
        ("squeeze2", {"axes": [0]}, (1, 3, 1), (3, 1)),
        ("squeeze2", {"axes": [-1, 1]}, (1, 3, 1), (1, 3)),
        ("squeeze2", {"axes": [0]}, (1,), ()),
        ("squeeze2", {"axes": [0]}, (), ()),
        ("unsqueeze", {"axes": [1]}, (3, 4), (3, 1, 4)),
        ("unsqueeze2", {"axes": [2, 0]}, (3, 4), (1, 3, 4, 1)),
        ("unsqueeze2", {"axes": [-2, 0]}, (3, 4), (1, 3, 1, 4)),
        ("unsqueeze2", {"axes": [-1, -1]}, (3, 4), (3, 4, 1, 1)),
        ("unsqueeze2", {"axes": [0, 0, 1]}, (3, 4), (1, 1, 1, 3, 4)),
        ("unsqueeze2", {"axes": [0, 1]}, (), (1, 1)),
        ("flatten", {"axis": 2}, (2, 3, 4), (6, 4)),
        ("flatten2", {"axis": 0}, (2, 3, 4), (1, 24)),
        ("flatten2", {"axis": 3}, (2, 3, 4), (24, 1)),
        ("flatten2", {"axis": 0}, (), (1,)),
        ("flatten_contiguous_range", {"start_axis": 1, "stop_axis": 2}, (2, 3, 4, 5), (2, 12, 5)),
        ("flatten_contiguous_range", {"start_axis": -3, "stop_axis": -1}, (2, 3, 4, 5), (2, 60)),
        ("flatten_contiguous_range", {"start_axis": 0, "stop_axis": -1}, (), (1,)),
        ("flatten_contiguous_range", {"start_axis": 0, "stop_axis": 1}, (2, 0, 4), (0, 4)),
        ("view_shape", {"dims": [4, -1]}, (2, 4), (4, 2)),
    ],
)
def test_shapes_and_gradients(run_op, type, attrs, shape, out) -> None:
    x = counted(*shape)
    operator = lookup(type)
    given, made = operator.inputs[0].name, operator.outputs[0].name
    cotangent = counted(*out) + 1
    got = run_op(type, {given: x}, attrs, cotangents={made: cotangent})
    assert got[made].shape == out
    np.testing.assert_array_equal(got[made].reshape(-1), x.reshape(-1))
    assert got.gradients[given].shape == shape
    np.testing.assert_array_equal(got.gradients[given].reshape(-1), cotangent.reshape(-1))


@pytest.mark.parametrize(
    ("type", "attrs"),
    [
        ("squeeze2", {"axes": [3]}),
        ("unsqueeze2", {"axes": [4]}),
        ("unsqueeze2", {"axes": [-5]}),
        ("flatten2", {"axis": -1}),
        ("flatten2", {"axis": 4}),
        ("flatten_contiguous_range", {"start_axis": 2, "stop_axis": 1}),
        ("flatten_contiguous_range", {"start_axis": 1, "stop_axis": 3}),
    ],
)
def test_axes_outside_are_refused(run_op, type, attrs) -> None:
    with pytest.raises(KernelError, match="ax"):
        run_op(type, {"X": counted(2, 3, 1)}, attrs)


def test_axes_of_unsqueeze_come_from_tensors_too(run_op) -> None:
    x = counted(3, 4)
    whole = run_op("unsqueeze2", {"X": x, "AxesTensor": np.array([0, 2], np.int32)})["Out"]
    pieces = run_op("unsqueeze2", {"X": x, "AxesTensorList": [np.array([0]), np.array([2])]}, {"axes": [1]})["Out"]
    assert whole.shape == pieces.shape == (1, 3, 1, 4)


@pytest.mark.parametrize("type", ["squeeze2", "size"])
def test_a_0d_result_is_of_shape_1_where_an_old_program_says_so(run_op, type) -> None:
    given = {lookup(type).inputs[0].name: counted(1)}
    assert run_op(type, given, declared={"Out": ()})["Out"].shape == ()
    assert run_op(type, given, declared={"Out": (1,)})["Out"].shape == (1,)


def test_shape_and_size(run_op) -> None:
    x = counted(2, 0, 3)
    shape, size = run_op("shape", {"Input": x})["Out"], run_op("size", {"Input": x})["Out"]
    assert shape.dtype == np.int32 and shape.tolist() == [2, 0, 3]
    assert size.dtype == np.int64 and size.shape == () and size == 0
    assert run_op("shape", {"Input": counted()})["Out"].shape == (0,)
    assert lookup("shape64")(x).dtype == np.int64


def test_view_dtype_reads_the_same_bytes(run_op) -> None:
    x = counted(2, 4)
    narrow = run_op("view_dtype", {"input": x}, {"dtype": 1})["out"]
    assert narrow.dtype == np.int16 and narrow.shape == (2, 8)
    wide = run_op("view_dtype", {"input": x}, {"dtype": 6}, cotangents={"out": np.zeros((2, 2))})
    assert wide["out"].shape == (2, 2) and wide.gradients["input"].shape == (2, 4)
    np.testing.assert_array_equal(run_op("view_dtype", {"input": narrow}, {"dtype": 5})["out"], x)
    with pytest.raises(KernelError, match="last dimension"):
        run_op("view_dtype", {"input": counted(2, 3)}, {"dtype": 6})


class TestTranspose:
    @pytest.mark.parametrize(("axis", "shape"), [([2, 0, 1], (2, 3, 4)), ([0, -1, 1], (2, 3, 4)), ([], ())])
    @pytest.mark.parametrize("type", ["transpose", "transpose2"])
    def test_the_gradient_undoes_it(self, run_op, type, axis, shape) -> None:
        x = counted(*shape)
        out = x.transpose(axis)
        got = run_op(type, {"X": x}, {"axis": axis}, cotangents={"Out": out})
        np.testing.assert_array_equal(got["Out"], out)
        np.testing.assert_array_equal(got.gradients["X"], x)

    @pytest.mark.parametrize("axis", [[0, 0, 1], [0, 1], [0, 1, 3]])
    def test_what_is_no_order_is_refused(self, run_op, axis) -> None:
        with pytest.raises(KernelError, match="axis"):
            run_op("transpose2", {"X": counted(2, 3, 4)}, {"axis": axis})

    def test_the_result_is_a_view(self) -> None:
        x = counted(4, 6)
        assert np.shares_memory(lookup("transpose2").kernel(x, axis=[1, 0])[0], x)

    def test_the_fused_form_squeezes_before_and_reshapes_after(self, run_op) -> None:
        x = counted(2, 1, 3)
        attrs = {"axis": [1, 0], "fused_squeeze2_axes": [1], "fused_reshape2_shape": [2, 3]}
        np.testing.assert_array_equal(run_op("fused_transpose", {"X": x}, attrs)["Out"], [[0, 3, 1], [4, 2, 5]])
        attrs = {"axis": [0, 2, 1], "fused_unsqueeze2_axes": [0]}
        assert run_op("fused_transpose", {"X": x}, attrs)["Out"].shape == (1, 2, 3, 1)

    def test_the_fused_form_quantises(self, run_op) -> None:
        x = np.array([[-0.3, 0.6], [100.0, 1.26]], np.float32)
        attrs = {"axis": [1, 0], "scale": 2.0, "shift": 1.0, "output_data_type": "int8"}
        got = run_op("fused_transpose", {"X": x}, attrs)["Out"]
        assert got.dtype == np.int8 and got.tolist() == [[0, 127], [2, 4]]


@pytest.mark.parametrize("type", ["flip", "reverse"])
@pytest.mark.parametrize(("axis", "want"), [([0], [[3, 4, 5], [0, 1, 2]]), ([-1, 0], [[5, 4, 3], [2, 1, 0]])])
def test_flip_runs_backwards(run_op, type, axis, want) -> None:
    got = run_op(type, {"X": counted(2, 3)}, {"axis": axis}, cotangents={"Out": np.array(want, np.float32)})
    assert got["Out"].tolist() == want
    np.testing.assert_array_equal(got.gradients["X"], counted(2, 3))


def test_flip_of_before_version_1_names_its_axes_dims(run_op) -> None:
    assert run_op("flip", {"X": counted(3)}, {"dims": [0]})["Out"].tolist() == [2, 1, 0]


@pytest.mark.parametrize(("type", "axis"), [("flip", [0, 0]), ("flip", [2]), ("reverse", [])])
def test_flip_refuses_bad_axes(run_op, type, axis) -> None:
    with pytest.raises(KernelError, match="axis"):
        run_op(type, {"X": counted(2, 3)}, {"axis": axis})


def test_reverse_turns_a_tensor_array_around() -> None:
    first, second = counted(1), counted(2)
    got = lookup("reverse")(TensorArray([first, second]), axis=[0])
    assert isinstance(got, TensorArray) and got[0] is second and got[1] is first


@pytest.mark.parametrize(
    ("attrs", "want"),
    [
        ({"shifts": [1]}, [[5, 0, 1], [2, 3, 4]]),
        ({"shifts": [1], "axis": [0]}, [[3, 4, 5], [0, 1, 2]]),
        ({"shifts": [-7], "axis": [1]}, [[1, 2, 0], [4, 5, 3]]),
        ({"shifts": [1, 1], "axis": [0, 0]}, [[0, 1, 2], [3, 4, 5]]),
        ({"shifts": [1], "dims": [1]}, [[2, 0, 1], [5, 3, 4]]),
    ],
)
def test_roll_and_its_gradient(run_op, attrs, want) -> None:
    got = run_op("roll", {"X": counted(2, 3)}, attrs, cotangents={"Out": np.array(want, np.float32)})
    assert got["Out"].tolist() == want
    np.testing.assert_array_equal(got.gradients["X"], counted(2, 3))


def test_roll_takes_shifts_as_a_tensor(run_op) -> None:
    got = run_op("roll", {"X": counted(3), "ShiftsTensor": np.array([1])}, {"shifts": [2], "axis": [0]})["Out"]
    assert got.tolist() == [2, 0, 1]
    with pytest.raises(KernelError, match="pairs"):
        run_op("roll", {"X": counted(3, 1)}, {"shifts": [1], "axis": [0, 1]})


class TestStridedViews:
    def test_as_strided_sees_memory_and_its_gradient_adds_up(self, run_op, gradcheck) -> None:
        x, attrs = counted(2, 3), {"dims": [3, 2], "stride": [1, 2], "offset": 4}
        assert run_op("as_strided", {"input": x}, attrs)["out"].tolist() == [[1, 3], [2, 4], [3, 5]]
        gradcheck("as_strided", {"input": counted(2, 3)}, {**attrs, "offset": 8})
        with pytest.raises(KernelError, match="reach"):
            run_op("as_strided", {"input": x}, {"dims": [4, 2], "stride": [1, 2], "offset": 4})

    def test_tensor_unfold_gives_windows(self, run_op, gradcheck) -> None:
        attrs = {"axis": 0, "size": 3, "step": 2}
        assert run_op("tensor_unfold", {"input": counted(7)}, attrs)["out"].tolist() == [
            [0, 1, 2],
            [2, 3, 4],
            [4, 5, 6],
        ]
        assert run_op("tensor_unfold", {"input": counted(7, 2)}, attrs)["out"].shape == (3, 2, 3)
        gradcheck("tensor_unfold", {"input": counted(7, 2)}, attrs)
        gradcheck("tensor_unfold", {"input": counted(2, 5)}, {"axis": -1, "size": 2, "step": 1})

    def test_index_select_strided_drops_the_dimension(self, run_op, gradcheck) -> None:
        got = run_op("index_select_strided", {"x": counted(2, 3)}, {"index": 1, "axis": 1})["out"]
        assert got.tolist() == [1, 4]
        gradcheck("index_select_strided", {"x": counted(2, 3)}, {"index": 1, "axis": 0})
        with pytest.raises(KernelError, match="outside"):
            run_op("index_select_strided", {"x": counted(2, 3)}, {"index": 3, "axis": 1})


@pytest.mark.parametrize(
    ("type", "second"),
    [
        ("transpose2", "transpose2"),
        ("squeeze2", "squeeze2"),
        ("unsqueeze2", "unsqueeze2"),
        ("reshape2", "reshape2_grad_grad"),
    ],
)
def test_the_second_gradient_is_the_operator_again(type, second) -> None:
    maker = lookup(f"{type}_grad").grad_maker
    assert maker is not None
    op = OpDesc(f"{type}_grad", {"XShape": ["xs"], "Out@GRAD": ["dy"]}, {"X@GRAD": ["dx"]}, {"axis": [1, 0]})
    (made,) = maker(op, frozenset())
    assert made.type == second
    assert made.inputs["X" if second == type else "X@GRAD@GRAD"] == ["dx@GRAD"]
    assert next(iter(made.outputs.values())) == ["dy@GRAD"]
