"""Mathematical functions of one tensor: values, dtypes, gradients; special functions against scipy."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest
import scipy.special
from oarlock.executor.kernels import special
from oarlock.ir.dtypes import bfloat16
from oarlock.ir.registry import lookup

ANY = np.array([-2.6, -1.3, -0.6, -0.2, 0.3, 0.7, 1.4, 2.6])
UNIT = np.array([-0.9, -0.6, -0.25, 0.1, 0.45, 0.8])
POSITIVE = np.array([0.1, 0.4, 0.9, 1.5, 3.2, 11.0])
ABOVE_ONE = POSITIVE + 1


def run(type: str, x: Any, **attrs: Any) -> Any:
    return lookup(type).kernel(np.asarray(x), **attrs)


SMOOTH: list[tuple[str, Any, Any]] = [
    ("acos", UNIT, np.arccos),
    ("acosh", ABOVE_ONE, np.arccosh),
    ("asin", UNIT, np.arcsin),
    ("asinh", ANY, np.arcsinh),
    ("atan", ANY, np.arctan),
    ("atanh", UNIT, np.arctanh),
    ("cos", ANY, np.cos),
    ("cosh", ANY, np.cosh),
    ("exp", ANY, np.exp),
    ("expm1", ANY, np.expm1),
    ("log", POSITIVE, np.log),
    ("log10", POSITIVE, np.log10),
    ("log1p", POSITIVE, np.log1p),
    ("log2", POSITIVE, np.log2),
    ("logit", np.abs(UNIT), scipy.special.logit),
    ("reciprocal", ANY, lambda x: 1 / x),
    ("rsqrt", POSITIVE, lambda x: x**-0.5),
    ("sin", ANY, np.sin),
    ("sinh", ANY, np.sinh),
    ("sqrt", POSITIVE, np.sqrt),
    ("square", ANY, np.square),
    ("tan", UNIT, np.tan),
    ("abs", ANY, np.abs),
    ("erf", ANY, scipy.special.erf),
    ("erfinv", UNIT, scipy.special.erfinv),
    ("lgamma", POSITIVE, scipy.special.gammaln),
    ("digamma", POSITIVE, scipy.special.digamma),
]
NOT_COMPLEX = {"log10", "log1p", "log2", "logit", "erf", "erfinv", "lgamma", "digamma"}


@pytest.mark.parametrize(("type", "x", "formula"), SMOOTH, ids=[row[0] for row in SMOOTH])
class TestEveryFunction:
    def test_value_and_dtype(self, type: str, x: Any, formula: Any) -> None:
        np.testing.assert_allclose(run(type, x), formula(x), rtol=1e-14, atol=1e-15)
        for dtype, rtol in ((np.dtype(np.float32), 1e-5), (np.dtype(np.float16), 5e-3), (bfloat16(), 4e-2)):
            made = run(type, x.astype(dtype))
            assert made.dtype == dtype
            exact = formula(x.astype(dtype).astype(np.float64))
            np.testing.assert_allclose(made.astype(np.float64), exact, rtol=rtol, atol=1e-6)

    def test_gradient(self, type: str, x: Any, formula: Any, gradcheck: Any) -> None:
        gradcheck(type, {"X": x})
        gradcheck(type, {"X": x[2]})

    def test_shapes_and_memory(self, type: str, x: Any, formula: Any) -> None:
        assert run(type, np.zeros((2, 0), np.float32)).shape == (2, 0)
        assert np.asarray(run(type, np.float32(x[-1]))).shape == ()
        grid = np.tile(x.astype(np.float32), (3, 1))
        np.testing.assert_allclose(run(type, grid.T), run(type, grid).T, rtol=1e-6)
        mine = grid.copy()
        assert run(type, mine, out=mine) is mine
        np.testing.assert_array_equal(mine, run(type, grid))

    def test_points_outside_the_domain_warn_of_nothing(self, type: str, x: Any, formula: Any) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            odd = np.array([0.0, -0.0, -1.0, 1.0, -5.5, np.inf, -np.inf, np.nan, 1e30, -1e30, 100.0], np.float32)
            out = run(type, odd)
            assert np.isnan(out[7])
            kept = [odd if slot.name == "X" else out for slot in lookup(f"{type}_grad").inputs[:-1]]
            assert lookup(f"{type}_grad").kernel(*kept, np.ones_like(odd)).dtype == np.float32

    def test_booleans_are_refused(self, type: str, x: Any, formula: Any) -> None:
        with pytest.raises(TypeError, match=f"slot X: {type} takes floating"):
            run(type, np.ones(2, np.bool_))


@pytest.mark.parametrize("type", [row[0] for row in SMOOTH if row[0] not in NOT_COMPLEX])
def test_complex_tensors(type: str, gradcheck: Any) -> None:
    x = np.array([0.4 + 0.3j, -0.8 + 1.1j, 1.7 - 0.6j, -0.3 - 0.9j])
    assert run(type, x.astype(np.complex64)).dtype == (np.float32 if type == "abs" else np.complex64)
    gradcheck(type, {"X": x})


@pytest.mark.parametrize("type", ["exp", "expm1", "log", "log2", "log10", "log1p"])
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_integers_become_float32_where_the_result_is_no_integer(type: str, dtype: Any) -> None:
    made = run(type, np.array([1, 3], dtype))
    assert made.dtype == np.float32
    np.testing.assert_allclose(made, run(type, np.array([1.0, 3.0], np.float32)))


@pytest.mark.parametrize(
    ("type", "expected"),
    [("abs", [7, 0, 3]), ("square", [49, 0, 9]), ("sign", [-1, 0, 1]), ("trunc", [-7, 0, 3]), ("round", [-7, 0, 3])],
)
def test_integers_stay_integers_elsewhere(type: str, expected: list[int]) -> None:
    made = run(type, np.array([-7, 0, 3], np.int64))
    assert made.dtype == np.int64 and made.tolist() == expected


class TestRounding:
    x = np.array([-2.5, -1.5, -0.5, -0.2, 0.49999999999999994, 0.5, 1.5, 2.5, 4503599627370497.0])

    def test_halves_go_away_from_zero(self) -> None:
        assert run("round", self.x).tolist() == [-3, -2, -1, 0, 0, 1, 2, 3, 4503599627370497.0]

    def test_float32_below_one_half_and_above_the_last_fraction(self) -> None:
        x = np.array([0.49999997, -0.49999997, 8388609.0, -8388609.0, 2.5], np.float32)
        assert run("round", x).tolist() == [0, 0, 8388609, -8388609, 3]

    @pytest.mark.parametrize(("type", "function"), [("floor", np.floor), ("ceil", np.ceil), ("trunc", np.trunc)])
    def test_the_other_directions(self, type: str, function: Any) -> None:
        np.testing.assert_array_equal(run(type, self.x), function(self.x))

    @pytest.mark.parametrize("type", ["round", "floor", "ceil", "trunc"])
    def test_the_gradient_is_zero(self, type: str, run_op: Any) -> None:
        made = run_op(type, {"X": self.x}, cotangents={"Out": np.full(9, np.inf)})
        np.testing.assert_array_equal(made.gradients["X"], np.zeros(9))

    def test_the_gradient_of_sign_is_zero(self, run_op: Any) -> None:
        made = run_op("sign", {"X": np.array([-3.0, 0.0, 2.0])}, cotangents={"Out": np.ones(3)})
        assert made["Out"].tolist() == [-1, 0, 1] and made.gradients["X"].tolist() == [0, 0, 0]


SECOND = [
    ("cos", "X", ANY),
    ("sin", "X", ANY),
    ("cosh", "X", ANY),
    ("sinh", "X", ANY),
    ("exp", "Out", ANY),
    ("expm1", "Out", ANY),
    ("log", "X", POSITIVE),
    ("reciprocal", "Out", POSITIVE),
    ("rsqrt", "Out", POSITIVE),
    ("sqrt", "Out", POSITIVE),
    ("square", "X", ANY),
]


@pytest.mark.parametrize(("type", "keeps", "x"), SECOND, ids=[row[0] for row in SECOND])
def test_the_gradient_has_a_gradient(type: str, keeps: str, x: Any, gradcheck: Any) -> None:
    kept = run(type, x) if keeps == "Out" else x
    gradcheck(f"{type}_grad", {keeps: kept, "Out@GRAD": np.cos(x)})


def test_the_gradient_of_the_gradient_of_abs_is_the_sign(gradcheck: Any) -> None:
    gradcheck("abs_grad", {"X": ANY, "Out@GRAD": np.cos(ANY)}, wrt=["Out@GRAD"])


class TestLogit:
    def test_what_lies_outside_eps_is_clipped_and_gets_no_gradient(self, run_op: Any) -> None:
        x = np.array([0.0, 0.1, 0.5, 0.95])
        made = run_op("logit", {"X": x}, {"eps": 0.2}, cotangents={"Out": np.ones(4)})
        np.testing.assert_allclose(made["Out"], [math.log(0.25), math.log(0.25), 0, math.log(4)])
        np.testing.assert_allclose(made.gradients["X"], [0, 0, 4, 0])

    def test_without_eps_nothing_is_clipped(self) -> None:
        np.testing.assert_array_equal(
            run("logit", np.array([0.0, 1.0, 0.5, 1.5]), eps=0.0), [-np.inf, np.inf, 0, np.nan]
        )


class TestPow:
    @pytest.mark.parametrize("factor", [2.7, 2.0, 3.0, -1.0, 0.5, 0.0, 1.0])
    def test_values_and_gradients(self, factor: float, gradcheck: Any) -> None:
        np.testing.assert_allclose(lookup("pow").kernel(POSITIVE, None, factor=factor), POSITIVE**factor)
        gradcheck("pow", {"X": POSITIVE}, {"factor": factor})
        gradcheck("pow_grad", {"X": POSITIVE, "Out@GRAD": np.cos(POSITIVE)}, {"factor": factor})

    def test_the_tensor_has_priority(self, gradcheck: Any) -> None:
        two = np.array([2.0])
        np.testing.assert_array_equal(lookup("pow").kernel(ANY, two, factor=3.0), ANY**2)
        gradcheck("pow", {"X": ANY, "FactorTensor": two}, {"factor": 3.0}, wrt=["X"])
        with pytest.raises(ValueError, match="slot FactorTensor: one element"):
            lookup("pow").kernel(ANY, np.ones(2), factor=3.0)

    def test_integers_take_the_whole_part_of_the_exponent(self) -> None:
        x = np.array([-7, 0, 3], np.int32)
        assert lookup("pow").kernel(x, None, factor=2.7).tolist() == [49, 0, 9]
        assert lookup("pow").kernel(x, None, factor=0.5).tolist() == [1, 1, 1]
        with pytest.raises(ValueError, match="attribute factor"):
            lookup("pow").kernel(x, None, factor=-1.0)


class TestSpecialFunctions:
    """Near machine precision against scipy, which is itself good to a few units in the last place."""

    rng = np.random.default_rng(7)
    wide = np.concatenate([rng.standard_normal(2000) * 3, [0.0, 1.0, -1.0, 5.99, -6.01, 1e-300, 1e-5, 40.0]])
    positive = np.concatenate([rng.uniform(0, 20, 2000), 10.0 ** rng.uniform(-8, 8, 200), [1, 2, 3, 8, 1 - 1e-9]])
    negative = -rng.uniform(0.01, 30, 500)

    def test_erf(self) -> None:
        out = np.empty_like(self.wide)
        special.erf(self.wide, out)
        np.testing.assert_allclose(out, scipy.special.erf(self.wide), rtol=1e-15)

    def test_erf_in_float32_is_good_to_four_units_in_the_last_place(self) -> None:
        x = np.concatenate([self.wide, np.linspace(-4.5, 4.5, 4001)]).astype(np.float32)
        exact = scipy.special.erf(x.astype(np.float64))
        error = np.abs(run("erf", x) - exact)
        assert np.all(error <= 4 * np.spacing(np.abs(exact).astype(np.float32)))

    def test_erf_in_float32_reaches_one_and_stays(self) -> None:
        x = np.array([4.25, 5.0, 50.0, np.inf], np.float32)
        assert run("erf", x).tolist() == [1, 1, 1, 1] and run("erf", -x).tolist() == [-1, -1, -1, -1]

    def test_erfinv(self) -> None:
        x = np.concatenate([self.rng.uniform(-1, 1, 2000), 1 - 10.0 ** -np.arange(1.0, 16)])
        np.testing.assert_allclose(run("erfinv", x), scipy.special.erfinv(x), rtol=4e-15)
        np.testing.assert_array_equal(run("erfinv", [1.0, -1.0, 3.0]), [np.inf, -np.inf, np.inf])

    def test_lgamma(self) -> None:
        np.testing.assert_allclose(run("lgamma", self.positive), scipy.special.gammaln(self.positive), 4e-15, 4e-16)
        np.testing.assert_allclose(run("lgamma", self.negative), scipy.special.gammaln(self.negative), 4e-15, 4e-15)
        np.testing.assert_array_equal(run("lgamma", [0.0, -1.0, -4.0, np.inf]), [np.inf] * 4)

    def test_digamma(self) -> None:
        exact = scipy.special.digamma(self.positive)
        np.testing.assert_allclose(run("digamma", self.positive), exact, rtol=1e-14, atol=1e-15)
        np.testing.assert_allclose(run("digamma", self.negative), scipy.special.digamma(self.negative), rtol=2e-13)
        assert np.isnan(run("digamma", [0.0, -3.0])).all()

    @pytest.mark.parametrize("n", [0, 1, 2, 5, 9])
    def test_polygamma(self, n: int, gradcheck: Any) -> None:
        exact = scipy.special.polygamma(n, self.positive)
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(run("polygamma", self.positive, n=n), exact, rtol=1e-13, atol=1e-15)
        gradcheck("polygamma", {"x": POSITIVE[1:]}, {"n": n})

    def test_polygamma_of_negative_numbers_by_the_recurrence(self) -> None:
        x = -self.rng.uniform(0.1, 30, 50)
        step = run("polygamma", x + 1, n=2) - run("polygamma", x, n=2)
        np.testing.assert_allclose(step, 2 / x**3, rtol=1e-9, atol=1e-9)

    def test_a_negative_order_is_refused(self) -> None:
        with pytest.raises(ValueError, match="attribute n"):
            run("polygamma", POSITIVE, n=-1)

    @pytest.mark.parametrize("type", ["i0", "i0e", "i1", "i1e"])
    def test_bessel_functions(self, type: str, gradcheck: Any) -> None:
        x = np.concatenate([self.rng.uniform(-40, 40, 2000), [0.0, 8.0, -8.0, 7.999, 8.001, 1e-9, 600.0]])
        np.testing.assert_allclose(run(type, x), getattr(scipy.special, type)(x), rtol=3e-15)
        gradcheck(type, {"x": np.array([-9.0, -3.0, -0.5, 0.25, 2.0, 11.0])})
        assert run(type, x.astype(np.float32)).dtype == np.float32

    @pytest.mark.parametrize(("type", "slope"), [("i0", 0.0), ("i1", 0.5), ("i1e", 0.5)])
    def test_slopes_of_bessel_functions_at_zero(self, type: str, slope: float, run_op: Any) -> None:
        made = run_op(type, {"x": np.zeros(1)}, cotangents={"out": np.ones(1)})
        assert made.gradients["x"] == [slope]

    @pytest.mark.parametrize("type", ["erf", "erfinv", "lgamma", "digamma"])
    def test_large_tensors_are_cut_into_blocks_without_a_trace(self, type: str) -> None:
        small = np.abs(UNIT).astype(np.float32)
        np.testing.assert_array_equal(run(type, np.resize(small, 100_003)), np.resize(run(type, small), 100_003))
