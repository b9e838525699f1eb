"""Random operators: shapes, dtypes, the seed contract, and distributions by their moments."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from oarlock.errors import KernelError
from oarlock.executor.random import set_seed
from oarlock.ir.registry import lookup

MANY = [200, 500]


@pytest.fixture(autouse=True)
def _seeded() -> None:
    set_seed(7)


def moments(x: Any) -> tuple[float, float]:
    return float(x.mean(dtype=np.float64)), float(x.std(dtype=np.float64))


@pytest.mark.parametrize("type", ["uniform_random", "gaussian_random", "truncated_gaussian_random", "randint"])
def test_a_stated_seed_repeats_and_zero_draws_on(run_op, type) -> None:
    extra = {"low": 0, "high": 1000} if type == "randint" else {}
    fixed = [run_op(type, {}, {"shape": [20], "seed": 5, **extra})["Out"] for _ in range(2)]
    np.testing.assert_array_equal(*fixed)
    free = [run_op(type, {}, {"shape": [20], **extra})["Out"] for _ in range(2)]
    assert not np.array_equal(*free)
    set_seed(7)
    np.testing.assert_array_equal(free[0], run_op(type, {}, {"shape": [20], **extra})["Out"])


@pytest.mark.parametrize(
    ("type", "attrs", "mean", "std"),
    [
        ("uniform_random", {"min": 2.0, "max": 5.0}, 3.5, 3 / 12**0.5),
        ("gaussian_random", {"mean": 2.0, "std": 5.0}, 2, 5),
        ("truncated_gaussian_random", {"mean": 2.0, "std": 5.0}, 2, 5 * 0.8796),
        ("randint", {"low": -3, "high": 4}, 0, 2),
    ],
)
def test_moments(run_op, type, attrs, mean, std) -> None:
    got = run_op(type, {}, {"shape": MANY, "seed": 3, **attrs})["Out"]
    assert moments(got) == pytest.approx((mean, std), abs=0.05)


def test_limits(run_op) -> None:
    uniform = run_op("uniform_random", {}, {"shape": MANY, "min": 2.0, "max": 5.0})["Out"]
    assert uniform.min() >= 2 and uniform.max() <= 5
    truncated = run_op("truncated_gaussian_random", {}, {"shape": MANY})["Out"]
    assert abs(truncated).max() <= 2
    tail = run_op("truncated_gaussian_random", {}, {"shape": [50], "a": 9.0, "b": 9.5})["Out"]
    assert tail.min() >= 9 and tail.max() <= 9.5


@pytest.mark.parametrize("code, dtype", [(4, "float16"), (5, "float32"), (6, "float64"), (22, "bfloat16")])
@pytest.mark.parametrize("type", ["uniform_random", "gaussian_random", "truncated_gaussian_random"])
def test_dtypes(run_op, type, code, dtype) -> None:
    assert run_op(type, {}, {"shape": [2, 3], "dtype": code})["Out"].dtype.name == dtype


def test_other_dtypes(run_op) -> None:
    assert run_op("gaussian_random", {}, {"shape": [2], "dtype": 23})["Out"].dtype == np.complex64
    assert run_op("randint", {}, {"shape": [2], "low": 0, "high": 2, "dtype": 2})["Out"].dtype == np.int32
    for type, attrs in (("uniform_random", {"dtype": 3}), ("randint", {"low": 0, "high": 2, "dtype": 5})):
        with pytest.raises(KernelError, match="type is needed"):
            run_op(type, {}, {"shape": [2], **attrs})


@pytest.mark.parametrize("type", ["uniform_random", "gaussian_random"])
def test_shape_tensors(run_op, type) -> None:
    sizes = [np.array([2], np.int32), np.array([3], np.int32)]
    whole = {"ShapeTensor": np.array([4, 5])}
    assert run_op(type, whole)["Out"].shape == (4, 5)
    assert run_op(type, whole, {"shape": [1]})["Out"].shape == (1,)  # as in Paddle, unlike fill_constant
    assert run_op(type, {**whole, "ShapeTensorList": sizes}, {"shape": [1]})["Out"].shape == (2, 3)


@pytest.mark.parametrize("type", ["uniform_random_batch_size_like", "gaussian_random_batch_size_like"])
def test_one_size_is_taken_from_the_input(run_op, type) -> None:
    assert run_op(type, {"Input": np.zeros((4, 2))}, {"shape": [-1, 3]})["Out"].shape == (4, 3)


@pytest.mark.parametrize(
    ("type", "given", "made"), [("uniform_random_inplace", "X", "Out"), ("gaussian_inplace", "x", "out")]
)
def test_in_place_forms_keep_shape_and_dtype_and_have_no_slope(run_op, type, given, made) -> None:
    x = np.ones((3, 4), np.float64)
    got = run_op(type, {given: x}, {"seed": 3}, cotangents={made: x})
    assert got[made].dtype == np.float64 and got[made].shape == (3, 4)
    assert (got.gradients[given] == 0).all()


def test_the_diagonal_of_initialisers(run_op) -> None:
    attrs = {"shape": [3, 4], "diag_num": 3, "diag_step": 4, "diag_val": 9.0}
    got = run_op("uniform_random", {}, attrs)["Out"]
    assert np.diagonal(got).tolist() == [9, 9, 9] and (got == 9).sum() == 3


def test_randperm(run_op) -> None:
    got = run_op("randperm", {}, {"n": 50, "dtype": 2, "seed": 4})["Out"]
    assert got.dtype == np.int32 and sorted(got.tolist()) == list(range(50)) and got.tolist() != list(range(50))
    assert run_op("randperm", {}, {"n": 0})["Out"].shape == (0,)


def test_bernoulli_and_poisson(run_op) -> None:
    x = np.full(MANY, 0.25, np.float32)
    ones = run_op("bernoulli", {"X": x})["Out"]
    assert ones.dtype == np.float32 and set(np.unique(ones)) == {0, 1}
    assert moments(ones)[0] == pytest.approx(0.25, abs=0.01)
    counts = run_op("poisson", {"X": x * 8}, cotangents={"Out": x})
    assert moments(counts["Out"]) == pytest.approx((2, 2**0.5), abs=0.03)
    assert (counts.gradients["X"] == 0).all()
    for type, bad in (("bernoulli", 1.5), ("poisson", -1.0)):
        with pytest.raises(KernelError, match=type):
            run_op(type, {"X": np.array([bad])})


def test_exponential_has_the_rate_and_a_zero_gradient(run_op) -> None:
    x = np.zeros(MANY, np.float32)
    got = run_op("exponential", {"X": x}, {"lambda": 4.0}, cotangents={"Out": x + 1})
    assert moments(got["Out"]) == pytest.approx((0.25, 0.25), abs=0.01)
    assert (got.gradients["X"] == 0).all()


class TestMultinomial:
    def test_with_replacement_in_proportion(self, run_op) -> None:
        x = np.array([[1, 2, 0, 7], [1, 0, 0, 0]], np.float64)
        got = run_op("multinomial", {"X": x}, {"num_samples": 20000, "replacement": True})["Out"]
        assert got.dtype == np.int64 and got.shape == (2, 20000) and (got[1] == 0).all()
        np.testing.assert_allclose(np.bincount(got[0], minlength=4) / 20000, [0.1, 0.2, 0, 0.7], atol=0.02)

    def test_without_replacement_each_once(self, run_op) -> None:
        got = run_op("multinomial", {"X": np.array([1, 0, 3, 2.0])}, {"num_samples": 3})["Out"]
        assert sorted(got.tolist()) == [0, 2, 3]

    @pytest.mark.parametrize(("x", "count"), [([1, 0, 3], 3), ([-1, 2], 1), ([0, 0], 1), ([np.inf, 1], 1)])
    def test_refusals(self, run_op, x, count) -> None:
        with pytest.raises(KernelError, match="multinomial"):
            run_op("multinomial", {"X": np.array(x, np.float64)}, {"num_samples": count})


def test_dirichlet_and_sampling_id(run_op) -> None:
    shares = run_op("dirichlet", {"Alpha": np.tile(np.array([1, 2, 5], np.float32), (20000, 1))})["Out"]
    np.testing.assert_allclose(shares.sum(1), 1, rtol=1e-5)
    np.testing.assert_allclose(shares.mean(0), [1 / 8, 2 / 8, 5 / 8], atol=0.01)
    ids = run_op("sampling_id", {"X": np.tile(np.array([0.1, 0.2, 0.7], np.float32), (20000, 1))})["Out"]
    assert ids.dtype == np.int64
    np.testing.assert_allclose(np.bincount(ids) / 20000, [0.1, 0.2, 0.7], atol=0.02)


def test_seed(run_op) -> None:
    got = run_op("seed", {}, {"seed": 123})["Out"]
    assert got.dtype == np.int32 and got.tolist() == [123]
    drawn = {lookup("seed").kernel().item() for _ in range(4)}
    assert len(drawn) == 4 and 0 not in drawn


def test_shuffle_batch_and_its_gradient(run_op) -> None:
    x = np.arange(24.0).reshape(2, 4, 3)
    inputs = {"X": x, "Seed": np.array([3])}
    got = run_op("shuffle_batch", inputs, cotangents={"Out": x})
    order = got["ShuffleIdx"]
    assert sorted(order.tolist()) == list(range(8))
    np.testing.assert_array_equal(got["Out"].reshape(8, 3), x.reshape(8, 3)[order])
    np.testing.assert_array_equal(got.gradients["X"].reshape(8, 3)[order], x.reshape(8, 3))
    np.testing.assert_array_equal(order, run_op("shuffle_batch", inputs)["ShuffleIdx"])


def test_random_crop_takes_windows(run_op) -> None:
    x = np.arange(32).reshape(2, 4, 4)
    got = run_op("random_crop", {"X": x, "Seed": np.array([3])}, {"shape": [2, 2]})["Out"]
    assert got.shape == (2, 2, 2) and (np.diff(got, axis=2) == 1).all() and (np.diff(got, axis=1) == 4).all()
    assert (got[0] < 16).all() and (got[1] >= 16).all()
    with pytest.raises(KernelError, match="does not fit"):
        run_op("random_crop", {"X": x, "Seed": np.array([3])}, {"shape": [5, 2]})
