"""Reductions, norms and running reductions. Literal numbers beside "Paddle" are PaddlePaddle 2.6.2's."""

from __future__ import annotations

import warnings
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from oarlock.ir.registry import lookup

RNG = np.random.default_rng(1)
INT32, INT64, FP32, FP64 = 2, 3, 5, 6


def draw(*shape: int) -> Any:
    return np.asarray(RNG.standard_normal(shape))


FUNCTIONS: dict[str, Any] = {
    "reduce_sum": np.sum,
    "reduce_mean": np.mean,
    "reduce_max": np.max,
    "reduce_min": np.min,
    "reduce_prod": np.prod,
    "reduce_amax": np.max,
    "reduce_amin": np.min,
    "reduce_all": np.all,
    "reduce_any": np.any,
}


@pytest.mark.parametrize("type", FUNCTIONS)
@pytest.mark.parametrize(
    ("attrs", "axis", "keep"),
    [
        ({}, (0,), False),
        ({"dim": [-1]}, (2,), False),
        ({"dim": [0, 2], "keep_dim": True}, (0, 2), True),
        ({"dim": []}, (0, 1, 2), False),
        ({"reduce_all": True}, (0, 1, 2), False),
        ({"reduce_all": True, "keep_dim": True}, (0, 1, 2), True),
    ],
)
def test_axes(run_op, type, attrs, axis, keep) -> None:
    x = draw(2, 3, 4).astype(np.float32)
    if type in ("reduce_all", "reduce_any"):
        x = x > 0
    got = run_op(type, {"X": x}, attrs)["Out"]
    want = FUNCTIONS[type](x, axis=axis, keepdims=keep)
    assert got.dtype == x.dtype and got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=1e-5)


@pytest.mark.parametrize("type", ["reduce_amax", "reduce_any"])
def test_axes_as_tensors_go_before_the_attribute(run_op, type) -> None:
    x = draw(2, 3, 4) > 0
    whole = run_op(type, {"X": x, "AxisTensor": np.array([1, 2])}, {"dim": [0]})["Out"]
    pieces = run_op(type, {"X": x, "AxisTensorList": [np.array([1]), np.array([2])]}, {"dim": [0]})["Out"]
    assert whole.shape == pieces.shape == (2,)


@pytest.mark.parametrize("type", ["reduce_sum", "reduce_mean", "reduce_max", "mean", "l1_norm", "frobenius_norm"])
def test_a_full_reduction_has_the_rank_that_the_program_declares(run_op, type) -> None:
    x = np.array([[1.0, 2.0], [3.0, 4.0]])
    attrs = {} if type in ("mean", "l1_norm") else {"reduce_all": True}
    assert run_op(type, {"X": x}, attrs, declared={"Out": ()})["Out"].shape == ()
    assert run_op(type, {"X": x}, attrs, declared={"Out": (1,)})["Out"].shape == (1,)


def test_the_gradient_takes_both_ranks(run_op) -> None:
    x = np.ones((2, 2), np.float32)
    for shape in ((), (1,)):
        cotangent = {"Out": np.full(shape, 8, np.float32)}
        got = run_op("mean", {"X": x}, declared={"Out": shape}, cotangents=cotangent)
        np.testing.assert_array_equal(got.gradients["X"], np.full((2, 2), 2))


class TestDtypes:
    @pytest.mark.parametrize(("dtype", "out"), [(bool, np.int64), (np.int32, np.int64), (np.int64, np.int64)])
    def test_a_sum_of_small_integers_is_int64(self, run_op, dtype, out) -> None:
        got = run_op("reduce_sum", {"X": np.array([1, 1, 0], dtype)})["Out"]
        assert got.dtype == out and got.item() == 2

    def test_out_dtype_wins(self, run_op) -> None:
        x = np.array([3, 4], np.int32)
        assert run_op("reduce_sum", {"X": x}, {"out_dtype": INT32})["Out"].dtype == np.int32
        assert run_op("reduce_sum", {"X": x}, {"out_dtype": FP64})["Out"].dtype == np.float64

    def test_the_gradient_keeps_the_input_dtype(self, run_op) -> None:
        cotangents = {"Out": np.array(2.0)}
        got = run_op("reduce_sum", {"X": np.ones(2, np.float32)}, {"out_dtype": FP64}, cotangents=cotangents)
        assert got.gradients["X"].dtype == np.float32

    def test_integer_means_are_cut_towards_zero(self, run_op) -> None:
        got = run_op("reduce_mean", {"X": np.array([[-7, 2], [5, 4]])}, {"dim": [1]})["Out"]
        np.testing.assert_array_equal(got, [-2, 4])  # Paddle
        assert got.dtype == np.int64

    def test_products_keep_int32(self, run_op) -> None:
        assert run_op("reduce_prod", {"X": np.array([2, 3], np.int32)})["Out"].dtype == np.int32

    @pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
    def test_half_types_sum_in_float32(self, run_op, dtype) -> None:
        got = run_op("reduce_sum", {"X": np.ones(4096, dtype)})["Out"]
        assert got.dtype == dtype and float(got) == 4096.0


class TestEmpty:
    def test_an_axis_beside_the_empty_one(self, run_op) -> None:
        x = np.zeros((2, 0, 4), np.float32)
        cotangents = {"Out": np.zeros((2, 0), np.float32)}
        got = run_op("reduce_mean", {"X": x}, {"dim": [-1]}, cotangents=cotangents)
        assert got["Out"].shape == (2, 0) and got.gradients["X"].shape == (2, 0, 4)

    def test_sum_zero_product_one_mean_nan_without_a_warning(self, run_op) -> None:
        x = np.zeros(0, np.float32)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert run_op("reduce_sum", {"X": x})["Out"] == 0
            assert run_op("reduce_prod", {"X": x})["Out"] == 1
            assert np.isnan(run_op("reduce_mean", {"X": x})["Out"])
            assert np.isnan(run_op("mean", {"X": x})["Out"])

    @pytest.mark.parametrize("type", ["reduce_max", "reduce_min"])
    def test_an_extreme_of_nothing_is_refused(self, type) -> None:
        with pytest.raises(ValueError, match="of no elements"):
            lookup(type).kernel(np.zeros((2, 0)), dim=[1])


def test_an_axis_outside_is_refused() -> None:
    with pytest.raises(ValueError, match="axis 3"):
        lookup("reduce_sum").kernel(np.zeros((2, 2)), dim=[3])


class TestTies:
    x = np.array([[1, 3, 3], [2, 2, 2]], np.float32)
    d = np.array([1, 6], np.float32)

    def test_every_maximum_gets_the_whole_gradient(self, run_op) -> None:
        got = run_op("reduce_max", {"X": self.x}, {"dim": [1]}, cotangents={"Out": self.d})
        np.testing.assert_array_equal(got.gradients["X"], [[0, 1, 1], [6, 6, 6]])  # Paddle

    def test_amax_shares_it(self, run_op) -> None:
        got = run_op("reduce_amax", {"X": self.x}, {"dim": [1]}, cotangents={"Out": self.d})
        np.testing.assert_array_equal(got.gradients["X"], [[0, 0.5, 0.5], [2, 2, 2]])  # Paddle


def test_a_zero_does_not_spoil_the_gradient_of_a_product(run_op, gradcheck) -> None:
    x = np.array([[2.0, 0.0, 3.0], [0.0, 5.0, 0.0], [1.0, 2.0, 3.0]])
    got = run_op("reduce_prod", {"X": x}, {"dim": [1]}, cotangents={"Out": np.ones(3)})
    np.testing.assert_array_equal(got.gradients["X"], [[0, 6, 0], [0, 0, 0], [6, 3, 2]])
    gradcheck("reduce_prod", {"X": x}, {"dim": [1]})


class TestNorms:
    def test_p_norm_of_every_kind_of_order(self, run_op) -> None:
        x = np.array([[3, -4, 0]], np.float32)
        for order, want in [(0.0, 2), (1.0, 7), (2.0, 5), (np.inf, 4), (-np.inf, 0), (-1.0, 0)]:
            got = run_op("p_norm", {"X": x}, {"porder": order, "axis": 1})["Out"]
            np.testing.assert_allclose(got, [want], err_msg=str(order))
        got = run_op("p_norm", {"X": x}, {"porder": 3.0}, cotangents={"Out": np.array([2], np.float32)})
        np.testing.assert_allclose(got["Out"], [4.497941493988037], rtol=1e-6)  # Paddle
        np.testing.assert_allclose(got.gradients["X"], [[0.88970268, -1.5816936, 0]], rtol=1e-5)  # Paddle

    def test_asvector_takes_all_elements(self, run_op) -> None:
        x = np.array([[3.0], [4.0]])
        assert run_op("p_norm", {"X": x}, {"asvector": True})["Out"].item() == 5
        assert run_op("p_norm", {"X": x}, {"asvector": True, "keepdim": True})["Out"].shape == (1, 1)

    def test_norm_divides_and_tells_the_length(self, run_op) -> None:
        got = run_op("norm", {"X": np.array([[3.0, 4.0]])}, {"axis": 1, "epsilon": 0.0})
        np.testing.assert_allclose(got["Out"], [[0.6, 0.8]])
        np.testing.assert_allclose(got["Norm"], [[5]])

    def test_squared_l2_norm_has_shape_one(self, run_op) -> None:
        np.testing.assert_array_equal(run_op("squared_l2_norm", {"X": np.array([[1.0, 2.0]])})["Out"], [5])

    def test_logsumexp_neither_overflows_nor_warns(self, run_op) -> None:
        x = np.array([[1000.0, 1000.0], [-np.inf, 3.0], [-np.inf, -np.inf]])
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            got = run_op("logsumexp", {"X": x}, {"axis": [1]})["Out"]
        np.testing.assert_allclose(got, [1000 + np.log(2), 3, -np.inf])

    def test_nanmedian_skips_nan_and_averages_the_middle_two(self, run_op) -> None:
        nan = np.nan
        x = np.array([[1, nan, 3, 9], [2, nan, nan, nan], [nan] * 4, [1, 2, 3, 4]], np.float32)
        cotangents = {"Out": np.array([1, 6, 5, 2], np.float32)}
        got = run_op("nanmedian", {"X": x}, {"axis": [1], "keepdim": False}, cotangents=cotangents)
        np.testing.assert_array_equal(got["Out"], [3, 2, nan, 2.5])
        want = [[0, 0, 1, 0], [6, 0, 0, 0], [0] * 4, [0, 1, 1, 0]]
        np.testing.assert_array_equal(got.gradients["X"], want)


class TestRunning:
    def test_cumsum_from_either_end_with_and_without_itself(self, run_op) -> None:
        x = np.array([[1, 2, 3], [4, 5, 6]], np.int32)
        for attrs, want in [
            ({"axis": 1}, [[1, 3, 6], [4, 9, 15]]),
            ({"axis": 0, "reverse": True}, [[5, 7, 9], [4, 5, 6]]),
            ({"axis": 1, "exclusive": True}, [[0, 1, 3], [0, 4, 9]]),
            ({"axis": 1, "exclusive": True, "reverse": True}, [[5, 3, 0], [11, 6, 0]]),
            ({"flatten": True}, [1, 3, 6, 10, 15, 21]),
        ]:
            got = run_op("cumsum", {"X": x}, attrs)["Out"]
            np.testing.assert_array_equal(got, want, err_msg=str(attrs))
            assert got.dtype == np.int32

    def test_cumprod_gradient_passes_the_first_zero_only(self, run_op, gradcheck) -> None:
        x = np.array([2, 0, 3, 4], np.float32)
        got = run_op("cumprod", {"X": x}, {"dim": 0}, cotangents={"Out": np.ones(4, np.float32)})
        np.testing.assert_array_equal(got.gradients["X"], [1, 32, 0, 0])  # Paddle
        gradcheck("cumprod", {"X": np.array([[2.0, 0.0, 3.0, 0.0, 5.0]])}, {"dim": 1})

    def test_cummax_keeps_the_latest_position(self, run_op) -> None:
        x = np.array([1, 3, 3, 2, 4], np.float32)
        cotangents = {"out": np.array([1, 2, 3, 4, 5], np.float32)}
        got = run_op("cummax", {"x": x}, {"axis": 0, "dtype": INT32}, cotangents=cotangents)
        np.testing.assert_array_equal(got["out"], [1, 3, 3, 3, 4])
        np.testing.assert_array_equal(got["indices"], [0, 1, 2, 2, 4])  # Paddle
        assert got["indices"].dtype == np.int32
        np.testing.assert_array_equal(got.gradients["x"], [1, 2, 7, 0, 5])  # Paddle

    def test_cummin_stops_at_nan(self, run_op) -> None:
        got = run_op("cummin", {"x": np.array([2, 1, np.nan, 0])}, {"axis": 0, "dtype": INT64})
        np.testing.assert_array_equal(got["out"], [2, 1, np.nan, np.nan])
        np.testing.assert_array_equal(got["indices"][:3], [0, 1, 2])

    def test_logcumsumexp(self, run_op) -> None:
        cotangents = {"Out": np.array([1, -2, 3], np.float32)}
        got = run_op("logcumsumexp", {"X": np.array([0, 1, 2], np.float32)}, {"axis": 0}, cotangents=cotangents)
        np.testing.assert_allclose(got["Out"], [0, 1.31326175, 2.40760612], rtol=1e-6)  # Paddle
        np.testing.assert_allclose(got.gradients["X"], [0.73220885, -0.72793174, 1.9957223], rtol=1e-5)  # Paddle

    def test_a_0d_tensor_runs_over_itself(self, run_op) -> None:
        x = np.array(3.0)
        for type, attrs in [("cumsum", {}), ("cumprod", {"dim": 0}), ("logcumsumexp", {})]:
            got = run_op(type, {"X": x}, attrs, cotangents={"Out": np.array(2.0)})
            assert got["Out"].shape == () and got["Out"] == 3 and got.gradients["X"].shape == ()


GRADIENTS: list[tuple[str, dict[str, Any]]] = [
    ("reduce_sum", {"dim": [0, 2]}),
    ("reduce_mean", {"dim": [1], "keep_dim": True}),
    ("reduce_max", {"dim": [1]}),
    ("reduce_min", {"reduce_all": True}),
    ("reduce_amax", {"dim": [0, 1]}),
    ("reduce_amin", {"dim": [-1]}),
    ("reduce_prod", {"dim": [2]}),
    ("mean", {}),
    ("logsumexp", {"axis": [0, 2], "keepdim": True}),
    ("frobenius_norm", {"dim": [1, 2]}),
    ("p_norm", {"porder": 2.5, "axis": 1}),
    ("p_norm", {"porder": -2.0, "axis": 0}),
    ("p_norm", {"porder": float("inf"), "axis": 2}),
    ("p_norm", {"porder": 1.0, "asvector": True}),
    ("norm", {"axis": 1}),
    ("l1_norm", {}),
    ("squared_l2_norm", {}),
    ("nanmedian", {"axis": [1]}),
    ("cumsum", {"axis": 1, "exclusive": True}),
    ("cumsum", {"flatten": True, "reverse": True}),
    ("cumprod", {"dim": 1}),
    ("logcumsumexp", {"axis": 2, "reverse": True}),
]


@pytest.mark.parametrize(("type", "attrs"), GRADIENTS, ids=[f"{i}-{t}" for i, (t, _) in enumerate(GRADIENTS)])
def test_gradients_agree_with_differences(gradcheck, type, attrs) -> None:
    gradcheck(type, {"X": draw(2, 3, 4)}, attrs)


@pytest.mark.parametrize("type", ["cummax", "cummin"])
def test_gradients_of_running_extremes(gradcheck, type) -> None:
    gradcheck(type, {"x": draw(2, 5)}, {"axis": 1}, outputs=["out"])


@pytest.mark.parametrize("type", ["reduce_sum", "reduce_mean"])
def test_the_gradient_of_the_gradient_is_the_reduction(gradcheck, type) -> None:
    gradcheck(f"{type}_grad", {"X": draw(2, 3), "Out@GRAD": draw(2)}, {"dim": [1]}, wrt=["Out@GRAD"])
