"""Comparison, logical and bitwise operators, closeness, tests for special values."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import oarlock.executor.kernels  # noqa: F401 - tells the registry how to find a type
import pytest
from oarlock.ir.dtypes import bfloat16
from oarlock.ir.registry import lookup

COMPARISONS = {
    "equal": np.equal,
    "not_equal": np.not_equal,
    "less_than": np.less,
    "less_equal": np.less_equal,
    "greater_than": np.greater,
    "greater_equal": np.greater_equal,
}
DTYPES = [np.bool_, np.uint8, np.int8, np.int16, np.int32, np.int64, np.float16, np.float32, np.float64, None]


def run(type: str, *arrays: Any, **attrs: Any) -> Any:
    return lookup(type).kernel(*(each if each is None else np.asarray(each) for each in arrays), **attrs)


@pytest.mark.parametrize("type", COMPARISONS)
class TestComparison:
    @pytest.mark.parametrize("dtype", DTYPES)
    def test_every_dtype(self, type: str, dtype: Any) -> None:
        x = np.array([[0, 1, 1], [1, 0, 1]]).astype(dtype or bfloat16())
        made = run(type, x, x[0])
        assert made.dtype == np.bool_
        np.testing.assert_array_equal(made, COMPARISONS[type](x.astype(float), x[0].astype(float)))

    def test_axis(self, type: str) -> None:
        x, y = np.arange(24).reshape(2, 3, 4), np.array([3, 9, 14])
        np.testing.assert_array_equal(run(type, x, y, axis=1), COMPARISONS[type](x, y[:, None]))

    def test_no_dimension_and_no_element(self, type: str) -> None:
        assert np.shape(run(type, np.float32(1), np.float32(2))) == ()
        assert run(type, np.ones((0, 2)), np.ones((0, 2))).shape == (0, 2)

    def test_nan_and_infinity_warn_of_nothing(self, type: str) -> None:
        x, y = np.array([np.nan, np.inf, np.inf, 1.0]), np.array([np.nan, np.inf, -np.inf, np.nan])
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            np.testing.assert_array_equal(run(type, x, y), COMPARISONS[type](x, y))

    def test_two_dtypes_are_refused(self, type: str) -> None:
        with pytest.raises(TypeError, match=f"slot Y: {type} takes two tensors of one dtype"):
            run(type, np.ones(2, np.int32), np.ones(2, np.int64))


def test_floats_that_lie_closer_than_1e_8_are_equal_as_paddle_has_it() -> None:
    x = np.array([1.0, 1.0, 0.0])
    y = np.array([1.0 + 1e-9, 1.0 + 1e-7, 9e-9])
    assert run("equal", x, y).tolist() == [True, False, True]
    assert run("not_equal", x, y).tolist() == [False, True, False]
    assert run("less_than", x, y).tolist() == [True, True, True]


def test_complex_numbers_are_equal_or_not_but_have_no_order() -> None:
    z = np.array([1 + 1j, 2.0])
    assert run("equal", z, z).tolist() == [True, True]
    with pytest.raises(TypeError, match="slot X: less_than takes"):
        run("less_than", z, z)


class TestLogical:
    x, y = np.array([0.0, 1.0, 2.5, np.nan]), np.array([1.0, 0.0, 3.0, 2.0])

    def test_all_but_zero_is_true(self) -> None:
        assert run("logical_and", self.x, self.y).tolist() == [False, False, True, True]
        assert run("logical_or", self.x, self.y).tolist() == [True, True, True, True]
        assert run("logical_xor", self.x, self.y).tolist() == [True, True, False, False]
        assert run("logical_not", self.x).tolist() == [True, False, False, False]

    def test_broadcasting_and_half_types(self) -> None:
        x = np.array([[0, 1], [1, 1]]).astype(bfloat16())
        assert run("logical_and", x, x[0]).tolist() == [[False, True], [False, True]]
        assert run("logical_not", x).dtype == np.bool_

    def test_two_dtypes_are_refused(self) -> None:
        with pytest.raises(TypeError, match="slot Y: logical_and takes two tensors of one dtype"):
            run("logical_and", self.x, np.ones(4, np.int32))


class TestBitwise:
    @pytest.mark.parametrize("dtype", [np.bool_, np.uint8, np.int8, np.int16, np.int32, np.int64])
    def test_integers_and_booleans(self, dtype: Any) -> None:
        x, y = np.array([[0, 1, 3], [1, 0, 5]]).astype(dtype), np.array([1, 1, 6]).astype(dtype)
        for type, function in (("and", np.bitwise_and), ("or", np.bitwise_or), ("xor", np.bitwise_xor)):
            made = run(f"bitwise_{type}", x, y)
            assert made.dtype == dtype
            np.testing.assert_array_equal(made, function(x, y))
        np.testing.assert_array_equal(run("bitwise_not", x), ~x)

    def test_floats_and_two_dtypes_are_refused(self) -> None:
        with pytest.raises(TypeError, match="slot X: bitwise_and takes integer or boolean tensors, got float64"):
            run("bitwise_and", np.ones(2), np.ones(2))
        with pytest.raises(TypeError, match="slot X: bitwise_not"):
            run("bitwise_not", np.ones(2))
        with pytest.raises(TypeError, match="one dtype"):
            run("bitwise_or", np.ones(2, np.int32), np.ones(2, np.int64))


class TestWholeTensor:
    def test_equal_all(self) -> None:
        x = np.arange(6.0).reshape(2, 3)
        made = run("equal_all", x, x + 1e-10)
        assert made.shape == () and made.dtype == np.bool_ and bool(made)
        assert not run("equal_all", x, x + 1)
        assert not run("equal_all", x, x[0])
        assert run("equal_all", x[:0], x[:0])

    @pytest.mark.parametrize("type", ["equal_all", "allclose", "is_empty"])
    def test_the_rank_is_what_the_program_declares(self, type: str, run_op: Any) -> None:
        slots = {"equal_all": ("X", "Y"), "allclose": ("Input", "Other"), "is_empty": ("X",)}[type]
        inputs = dict.fromkeys(slots, np.ones(3))
        assert run_op(type, inputs)["Out"].shape == ()
        assert run_op(type, inputs, declared={"Out": (1,)})["Out"].shape == (1,)

    def test_is_empty(self) -> None:
        assert run("is_empty", np.ones((0, 3))) and not run("is_empty", np.ones(()))


class TestCloseness:
    x = np.array([1.0, np.inf, np.nan, 0.0, 1e-9, 1.00001, -np.inf])
    y = np.array([1.0, np.inf, np.nan, 0.0, 0.0, 1.0, 1.0])

    def test_isclose(self) -> None:
        assert run("isclose", self.x, self.y, None, None).tolist() == [True, True, False, True, True, True, False]
        assert run("isclose", self.x, self.y, None, None, equal_nan=True)[2]

    def test_tolerances_are_text_or_numbers_or_tensors_which_have_priority(self) -> None:
        near = np.array([1.05]), np.array([1.0])
        assert not run("isclose", *near, None, None)[0]
        assert run("isclose", *near, None, None, rtol="0.1")[0]
        assert run("isclose", *near, None, None, rtol=0.1)[0]
        assert run("isclose", *near, None, np.array([0.1]), atol="0")[0]
        assert not run("isclose", *near, np.array([0.0]), np.array([0.0]), rtol="1", atol="1")[0]

    def test_allclose(self) -> None:
        assert not run("allclose", self.x, self.y, None, None)
        assert run("allclose", self.x[:2], self.y[:2], None, None)
        assert run("allclose", np.ones(3, np.int32), np.ones(3, np.int32), None, None)

    def test_complex_numbers_by_their_distance(self) -> None:
        assert run("isclose", np.array([1 + 1j, 2.0]), np.array([1 + 1.000001j, 2.1]), None, None).tolist() == [
            True,
            False,
        ]

    def test_ranks_and_dtypes_must_agree(self) -> None:
        with pytest.raises(ValueError, match="slot Other"):
            run("isclose", np.ones((2, 3)), np.ones(3), None, None)
        with pytest.raises(TypeError, match="one dtype"):
            run("allclose", np.ones(3), np.ones(3, np.float32), None, None)


class TestSpecialValues:
    x = np.array([1.0, np.nan, np.inf, -np.inf])

    def test_by_element(self) -> None:
        assert run("isfinite_v2", self.x).tolist() == [True, False, False, False]
        assert run("isnan_v2", self.x).tolist() == [False, True, False, False]
        assert run("isinf_v2", self.x).tolist() == [False, False, True, True]

    def test_the_old_forms_answer_for_the_whole_tensor_in_shape_1(self) -> None:
        for type, answer in (("isfinite", False), ("isnan", True), ("isinf", True)):
            assert run(type, self.x).tolist() == [answer]
            assert run(type, np.ones((2, 2))).tolist() == [not answer if type != "isfinite" else True]

    @pytest.mark.parametrize("dtype", [np.int32, np.int64])
    def test_integers_are_finite(self, dtype: Any) -> None:
        x = np.arange(2, dtype=dtype)
        assert run("isfinite_v2", x).all() and not run("isnan_v2", x).any() and not run("isinf_v2", x).any()

    def test_half_types(self) -> None:
        for dtype in (np.dtype(np.float16), bfloat16()):
            assert run("isnan_v2", self.x.astype(dtype)).tolist() == [False, True, False, False]


@pytest.mark.parametrize("type", [*COMPARISONS, "logical_and", "bitwise_or", "isclose", "isnan_v2", "is_empty"])
def test_no_gradient_passes(type: str) -> None:
    assert not lookup(type).differentiable
