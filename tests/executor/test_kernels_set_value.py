"""set_value: ranges, steps, dropped and new axes, broadcast values, values in attributes, gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from oarlock.errors import KernelError
from oarlock.ir.registry import lookup

X = np.arange(60, dtype=np.float32).reshape(4, 5, 3)


def value(*shape: int) -> Any:
    return np.arange(100, 100 + int(np.prod(shape)), dtype=np.float32).reshape(shape)


CASES: list[tuple[dict[str, Any], Any, tuple[int, ...]]] = [
    ({"axes": [0], "starts": [1], "ends": [3], "steps": [1]}, np.s_[1:3], (1,)),
    ({"axes": [0], "starts": [1], "ends": [3], "steps": [1]}, np.s_[1:3], ()),
    ({"axes": [0], "starts": [1], "ends": [3], "steps": [1]}, np.s_[1:3], (2, 1, 3)),
    ({"axes": [0], "starts": [1], "ends": [3], "steps": [1]}, np.s_[1:3], (1, 2, 5, 3)),
    ({"axes": [1], "starts": [0], "ends": [5], "steps": [2]}, np.s_[:, 0:5:2], (4, 3, 3)),
    ({"axes": [1], "starts": [3], "ends": [0], "steps": [-2]}, np.s_[:, 3:0:-2], (4, 2, 3)),
    ({"axes": [1], "starts": [2147483647], "ends": [-1], "steps": [-1]}, np.s_[:, ::-1], (4, 5, 3)),
    ({"axes": [1], "starts": [-2], "ends": [100], "steps": [1]}, np.s_[:, -2:], (4, 2, 3)),
    ({"axes": [0], "starts": [-100], "ends": [-1], "steps": [1]}, np.s_[-100:-1], (3,)),
    ({"axes": [0], "starts": [3], "ends": [3], "steps": [1]}, np.s_[3:3], (1,)),
    ({"axes": [0, 1], "starts": [1, 2], "ends": [2, 3], "decrease_axes": [0, 1]}, np.s_[1, 2], (3,)),
    ({"axes": [0], "starts": [1], "ends": [2], "decrease_axes": [0]}, np.s_[1], (1, 5, 3)),
    ({"axes": [1], "starts": [-2], "ends": [9], "none_axes": [1]}, np.s_[:, None, -2:], (4, 1, 2, 3)),
    ({"axes": [1], "starts": [-2], "ends": [9], "none_axes": [0]}, np.s_[None, :, -2:], (1, 4, 2, 3)),
    (
        {"axes": [0, 1], "starts": [1, 3], "ends": [2, 9], "decrease_axes": [0], "none_axes": [2]},
        np.s_[1, 3:, None],
        (2, 1, 3),
    ),
    (
        {"axes": [0, 1], "starts": [1, 3], "ends": [2, 9], "decrease_axes": [0], "none_axes": [3]},
        np.s_[1, 3:, :, None],
        (2, 3, 1),
    ),
]


@pytest.mark.parametrize(("attrs", "index", "shape"), CASES)
def test_the_value_is_written_where_the_index_says(run_op, gradcheck, attrs, index, shape) -> None:
    new = value(*shape)
    want = X.copy()
    want[index] = new.reshape(new.shape[1:]) if new.ndim > X[index].ndim else new
    got = run_op("set_value", {"Input": X, "ValueTensor": new}, {"dtype": 5, **attrs})["Out"]
    assert got.dtype == np.float32
    np.testing.assert_array_equal(got, want)
    gradcheck("set_value", {"Input": X, "ValueTensor": new}, {"dtype": 6, **attrs})


ALL = {"axes": [0], "starts": [0], "ends": [2], "steps": [1]}


@pytest.mark.parametrize("kind", ["values", "fp32_values", "fp64_values", "int32_values", "int64_values"])
def test_values_stand_in_one_attribute_or_in_one_per_type(run_op, kind) -> None:
    got = run_op("set_value", {"Input": X}, {**ALL, "dtype": 5, "shape": [3], kind: [7, 8, 9]})["Out"]
    assert got[0, 0].tolist() == [7, 8, 9] and got[1, 4].tolist() == [7, 8, 9]
    np.testing.assert_array_equal(got[2:], X[2:])


@pytest.mark.parametrize(
    ("dtype", "code"), [(np.bool_, 0), (np.int32, 2), (np.int64, 3), (np.float16, 4), (np.float64, 6)]
)
def test_values_take_the_stated_dtype(run_op, dtype, code) -> None:
    x = np.zeros((3, 2), dtype)
    got = run_op("set_value", {"Input": x}, {**ALL, "dtype": code, "shape": [1], "values": [1]})["Out"]
    assert got.dtype == dtype and got.tolist() == [[1, 1], [1, 1], [0, 0]]


def test_the_range_comes_from_tensors_first(run_op) -> None:
    one = [np.array([1])]
    inputs = {
        "Input": X,
        "ValueTensor": value(1),
        "StartsTensorList": one,
        "EndsTensorList": [np.array([4])],
        "StepsTensorList": [np.array([2])],
    }
    got = run_op("set_value", inputs, {"axes": [0], "dtype": 5})["Out"]
    assert (got[[1, 3]] == 100).all()
    np.testing.assert_array_equal(got[[0, 2]], X[[0, 2]])


def test_without_a_value_tensor_only_the_input_has_a_gradient(run_op) -> None:
    attrs = {**ALL, "dtype": 5, "shape": [1], "values": [1.0]}
    got = run_op("set_value", {"Input": X}, attrs, cotangents={"Out": np.ones_like(X)})
    assert set(got.gradients) == {"Input"}
    assert got.gradients["Input"][:2].sum() == 0 and (got.gradients["Input"][2:] == 1).all()


def test_in_place_it_writes_into_the_input() -> None:
    x = X.copy()
    got = lookup("set_value").kernel(x, value(1), [], [], [], **ALL, out=x)
    assert got is x and (x[:2] == 100).all()


@pytest.mark.parametrize(
    ("new", "attrs", "word"),
    [
        (value(7, 3), ALL, "cannot be assigned"),
        (value(1).astype(np.float64), ALL, "one dtype"),
        (value(1), {**ALL, "axes": [-1]}, "negative axis"),
        (value(1), {**ALL, "steps": [0]}, "step"),
        (value(1), {**ALL, "ends": []}, "as many"),
        (None, ALL, "what to assign"),
    ],
)
def test_refusals(run_op, new, attrs, word) -> None:
    inputs = {"Input": X} if new is None else {"Input": X, "ValueTensor": new}
    with pytest.raises(KernelError, match=word):
        run_op("set_value", inputs, {"dtype": 5, **attrs})
