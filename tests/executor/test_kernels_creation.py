"""Constants, ranges and fills. Numbers beside "Paddle" are PaddlePaddle 2.6.2's."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from oarlock.errors import KernelError
from oarlock.executor.values import LoDTensor
from oarlock.ir.registry import lookup

DTYPES: dict[int, Any] = {
    0: np.bool_,
    2: np.int32,
    3: np.int64,
    4: np.float16,
    5: np.float32,
    6: np.float64,
    20: np.uint8,
    21: np.int8,
    22: ml_dtypes.bfloat16,
    23: np.complex64,
}


class TestFillConstant:
    @pytest.mark.parametrize("code", DTYPES)
    def test_dtypes(self, run_op, code) -> None:
        got = run_op("fill_constant", {}, {"dtype": code, "shape": [2], "value": 1.5})["Out"]
        assert got.dtype == DTYPES[code] and got.tolist() == np.array([1.5, 1.5]).astype(DTYPES[code]).tolist()

    @pytest.mark.parametrize(
        ("text", "want"),
        [("2.5", 2.5), ("inf", np.inf), ("-inf", -np.inf), ("1e3", 1000), ("-3", -3), ("0.1", np.float32(0.1))],
    )
    def test_the_text_goes_before_the_number(self, run_op, text, want) -> None:
        attrs = {"dtype": 5, "shape": [2], "value": 7.0, "str_value": text}
        assert run_op("fill_constant", {}, attrs)["Out"].tolist() == [want, want]

    def test_nan_negative_zero_and_integers_through_float64(self, run_op) -> None:
        assert np.isnan(run_op("fill_constant", {}, {"shape": [], "str_value": "nan"})["Out"])
        assert np.signbit(run_op("fill_constant", {}, {"shape": [1], "value": -0.0})["Out"]).all()
        attrs = {"dtype": 3, "shape": [1], "str_value": "9007199254740993"}
        assert run_op("fill_constant", {}, attrs)["Out"].item() == 9007199254740992  # Paddle

    def test_value_and_shape_as_tensors(self, run_op) -> None:
        sizes = [np.array([2], np.int32), np.array([3], np.int32)]
        attrs = {"dtype": 3, "shape": [1], "value": 1.0, "str_value": "4"}
        got = run_op("fill_constant", {"ValueTensor": np.array([7.9], np.float32), "ShapeTensorList": sizes}, attrs)
        assert got["Out"].shape == (2, 3) and got["Out"].dtype == np.int64 and (got["Out"] == 7).all()
        both = {"ShapeTensor": np.array([4, 5]), "ShapeTensorList": sizes}
        assert run_op("fill_constant", both, attrs)["Out"].shape == (4, 5)
        assert run_op("empty", both, {"dtype": 5})["Out"].shape == (4, 5)

    def test_refusals(self, run_op) -> None:
        with pytest.raises(KernelError, match="negative"):
            run_op("fill_constant", {}, {"shape": [-1, 2]})
        with pytest.raises(KernelError, match="one element"):
            run_op("fill_constant", {"ValueTensor": np.zeros(2)}, {"shape": [1]})


@pytest.mark.parametrize(("source", "target", "shape"), [(0, 0, (3, 7)), (1, 0, (4, 7)), (1, 1, (5, 4))])
def test_one_size_is_taken_from_the_input(run_op, source, target, shape) -> None:
    attrs = {"shape": [5, 7], "input_dim_idx": source, "output_dim_idx": target, "value": 2.0}
    assert run_op("fill_constant_batch_size_like", {"Input": np.zeros((3, 4))}, attrs)["Out"].shape == shape


def test_of_a_ragged_batch_the_number_of_sequences_is_taken() -> None:
    batch = LoDTensor.from_lengths(np.zeros((3, 4)), [[2, 1]])
    got = lookup("fill_constant_batch_size_like").kernel(batch, shape=[-1, 7], value=1.0)
    assert got.shape == (2, 7)


def test_fills_of_a_shape(run_op) -> None:
    x = np.arange(6).reshape(2, 3)
    assert run_op("fill_any_like", {"X": x}, {"value": 2.5})["Out"].tolist() == [[2] * 3] * 2
    assert run_op("fill_any_like", {"X": x}, {"value": 2.5, "dtype": 5})["Out"].dtype == np.float32
    assert run_op("fill_zeros_like", {"X": x})["Out"].dtype == np.int64
    assert run_op("fill_zeros_like2", {"X": x}, {"dtype": 6})["Out"].dtype == np.float64
    filled = run_op("fill_any", {"X": x * 1.0}, {"value": 4.0}, cotangents={"Out": x * 1.0})
    assert (filled["Out"] == 4).all() and (filled.gradients["X"] == 0).all()
    assert run_op("fill", {}, {"value": [1.5, 2.0], "shape": [2, 1], "dtype": 2})["Out"].tolist() == [[1], [2]]
    assert run_op("full_int_array", {}, {"value": [3, 4], "dtype": 3})["out"].tolist() == [3, 4]


@pytest.mark.parametrize(("value", "code"), [(2.5, 0), (-2.0, 20), (1e12, 2), (1e6, 4), (float("inf"), 3)])
def test_fill_any_like_refuses_what_does_not_fit(run_op, value, code) -> None:
    with pytest.raises(KernelError, match="does not fit"):
        run_op("fill_any_like", {"X": np.zeros(2)}, {"value": value, "dtype": code})


class TestRanges:
    @pytest.mark.parametrize(
        ("start", "end", "step", "want"),
        [(0, 10, 3, [0, 3, 6, 9]), (10, 0, -3, [10, 7, 4, 1]), (0, 9, 3, [0, 3, 6]), (5, 5, 1, [])],
    )
    @pytest.mark.parametrize("dtype", [np.int32, np.int64, np.float32])
    def test_range(self, run_op, start, end, step, want, dtype) -> None:
        numbers = {"Start": np.array([start], dtype), "End": np.array([end], dtype), "Step": np.array(step, dtype)}
        got = run_op("range", numbers)["Out"]
        assert got.dtype == dtype and got.tolist() == want

    def test_range_adds_up_step_by_step_in_its_dtype(self, run_op) -> None:
        numbers = {
            "Start": np.array([0], np.float32),
            "End": np.array([1], np.float32),
            "Step": np.array([0.1], np.float32),
        }
        got = run_op("range", numbers)["Out"]
        assert len(got) == 10 and got[9] == np.float32(0.9000001) and got[9] != np.float32(0.1) * 9  # Paddle

    @pytest.mark.parametrize(("start", "end", "step"), [(0, 1, 0), (0, 10, -1), (10, 0, 1)])
    def test_a_range_that_does_not_end_is_refused(self, run_op, start, end, step) -> None:
        with pytest.raises(KernelError, match="does not exist"):
            run_op("range", {"Start": np.array([start]), "End": np.array([end]), "Step": np.array([step])})

    @pytest.mark.parametrize(
        ("start", "stop", "num", "code", "want"),
        [
            (0, 10, 5, 5, [0, 2.5, 5, 7.5, 10]),
            (0, 10, 4, 2, [0, 3, 6, 10]),  # Paddle
            (10, 0, 4, 2, [10, 6, 3, 0]),  # Paddle
            (-3, 3, 6, 3, [-3, -1, 0, 0, 1, 3]),  # Paddle
            (2, 9, 1, 5, [2]),
            (5, 5, 3, 5, [5, 5, 5]),
        ],
    )
    def test_linspace(self, run_op, start, stop, num, code, want) -> None:
        inputs = {"Start": np.array([start], np.float32), "Stop": np.array([stop], np.float32), "Num": np.array([num])}
        got = run_op("linspace", inputs, {"dtype": code})["Out"]
        assert got.dtype == DTYPES[code] and got.tolist() == want

    def test_logspace(self, run_op) -> None:
        inputs = {"Start": np.array([0]), "Stop": np.array([3]), "Num": np.array([4]), "Base": np.array([2])}
        got = run_op("logspace", inputs, {"dtype": 2})["Out"]
        assert got.dtype == np.int32 and got.tolist() == [1, 2, 4, 8]
        with pytest.raises(KernelError, match="Num is 0"):
            run_op("logspace", {**inputs, "Num": np.array([0])}, {"dtype": 5})


def test_eye(run_op) -> None:
    assert run_op("eye", {}, {"num_rows": 2, "num_columns": 3, "dtype": 3})["Out"].tolist() == [[1, 0, 0], [0, 1, 0]]
    assert run_op("eye", {}, {"num_rows": 2})["Out"].shape == (2, 2)


@pytest.mark.parametrize(
    ("attrs", "want"),
    [
        ({"shape": [2, 2], "dtype": 5, "fp32_values": [1.0, 2.0, 3.0, 4.0]}, [[1, 2], [3, 4]]),
        ({"shape": [2], "dtype": 3, "int64_values": [1, 2**60 + 1]}, [1, 2**60 + 1]),
        ({"shape": [2], "dtype": 3, "values": [1, 2**60 + 1]}, [1, 2**60 + 1]),
        ({"shape": [2], "dtype": 0, "bool_values": [1, 0]}, [True, False]),
        ({"shape": [], "dtype": 6, "values": [0.1]}, 0.1),
        ({"shape": [0], "dtype": 5}, []),
    ],
)
def test_assign_value_reads_old_and_new_attributes(run_op, attrs, want) -> None:
    got = run_op("assign_value", {}, attrs)["Out"]
    assert got.dtype == DTYPES[attrs["dtype"]] and got.tolist() == want


def test_assign_value_counts(run_op) -> None:
    with pytest.raises(KernelError, match=r"1 value\(s\)"):
        run_op("assign_value", {}, {"shape": [3], "dtype": 5, "fp32_values": [1.5]})
