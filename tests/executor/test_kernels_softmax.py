"""Softmax and its kin. Literal numbers beside "Paddle" are PaddlePaddle 2.6.2's."""

from __future__ import annotations

import warnings

import ml_dtypes
import numpy as np
import pytest
from oarlock.executor.random import set_seed
from oarlock.ir.registry import lookup

RNG = np.random.default_rng(2)


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -3])
def test_rows_sum_to_one_along_the_axis(run_op, axis) -> None:
    x = RNG.standard_normal((2, 3, 4)).astype(np.float32)
    got = run_op("softmax", {"X": x}, {"axis": axis})["Out"]
    np.testing.assert_allclose(got.sum(axis=axis), 1, rtol=1e-6)
    np.testing.assert_allclose(got, np.exp(x) / np.exp(x).sum(axis=axis, keepdims=True), rtol=1e-5)
    logs = run_op("log_softmax", {"X": x}, {"axis": axis})["Out"]
    np.testing.assert_allclose(logs, np.log(got), rtol=1e-5, atol=1e-6)


def test_zero_dimensions(run_op) -> None:
    x = np.array(3.0)
    for type, want in [("softmax", 1.0), ("log_softmax", 0.0)]:
        got = run_op(type, {"X": x}, cotangents={"Out": np.array(5.0)})
        assert got["Out"].shape == () and got["Out"] == want and got.gradients["X"] == 0


def test_empty_tensors(run_op) -> None:
    assert run_op("softmax", {"X": np.zeros((0, 3), np.float32)})["Out"].shape == (0, 3)
    assert run_op("softmax", {"X": np.zeros((3, 0), np.float32)})["Out"].shape == (3, 0)


def test_large_logits_and_hidden_rows(run_op) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        got = run_op("softmax", {"X": np.array([[1e4, 0, 1e4], [-np.inf, 0, 0], [-np.inf] * 3])})["Out"]
    np.testing.assert_array_equal(got, [[0.5, 0, 0.5], [0, 0.5, 0.5], [np.nan] * 3])


def test_log_softmax_is_cut_at_64_below_the_largest(run_op) -> None:
    got = run_op("log_softmax", {"X": np.array([[0, 100, -5]], np.float32)}, {"axis": 1})["Out"]
    np.testing.assert_array_equal(got, [[-64, 0, -64]])  # Paddle


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_half_types_are_computed_in_float32(run_op, dtype) -> None:
    x = np.zeros((1, 4096), dtype)
    got = run_op("softmax", {"X": x})["Out"]
    assert got.dtype == dtype and float(got[0, 0]) == 1 / 4096


def test_blocks_of_a_large_tensor_equal_the_whole() -> None:
    x = RNG.standard_normal((600, 700)).astype(np.float32)
    want = np.exp(x - x.max(1, keepdims=True))
    want /= want.sum(1, keepdims=True)
    np.testing.assert_allclose(lookup("softmax").kernel(x), want, rtol=1e-5)
    view = x.T[::2]
    turned = lookup("softmax").kernel(view, axis=0)
    np.testing.assert_allclose(turned.sum(axis=0), 1, rtol=1e-5)


def test_the_input_may_be_the_output() -> None:
    x = RNG.standard_normal((3, 4)).astype(np.float32)
    kept = x.copy()
    got = lookup("softmax").kernel(x, out=x)
    assert got.base is x or got is x
    np.testing.assert_allclose(got, lookup("softmax").kernel(kept))


class TestGumbel:
    def test_hard_draws_are_one_hot(self, run_op) -> None:
        got = run_op("gumbel_softmax", {"X": np.zeros((50, 4), np.float32)}, {"hard": True})["Out"]
        np.testing.assert_array_equal(np.sort(got, axis=1), np.tile([0, 0, 0, 1], (50, 1)))

    def test_the_larger_logit_wins_more_often(self, run_op) -> None:
        set_seed(3)
        x = np.tile(np.log([1, 3]), (4000, 1))
        share = run_op("gumbel_softmax", {"X": x}, {"hard": True, "axis": 1})["Out"].mean(axis=0)
        assert abs(share[1] - 0.75) < 0.03

    def test_the_seed_decides(self, run_op) -> None:
        draws = []
        for _ in range(2):
            set_seed(11)
            draws.append(run_op("gumbel_softmax", {"X": np.zeros((2, 3))}, {"temperature": 0.5})["Out"])
        np.testing.assert_array_equal(*draws)

    def test_temperature_must_be_positive(self) -> None:
        with pytest.raises(ValueError, match="temperature"):
            lookup("gumbel_softmax").kernel(np.zeros(3), temperature=0.0)


def test_fused_mask_is_added_first(run_op) -> None:
    x, mask = RNG.standard_normal((2, 3, 4, 4)), np.zeros((2, 1, 4, 4))
    mask[..., 1:] = -1e9
    got = run_op("fused_softmax_mask", {"X": x, "Mask": mask})["Out"]
    np.testing.assert_array_equal(got[..., 0], np.ones((2, 3, 4)))


def test_fused_upper_triangle_sees_only_the_past(run_op) -> None:
    got = run_op("fused_softmax_mask_upper_triangle", {"X": np.zeros((1, 1, 3, 3))})["Out"][0, 0]
    np.testing.assert_allclose(got, [[1, 0, 0], [1 / 2, 1 / 2, 0], [1 / 3, 1 / 3, 1 / 3]])


@pytest.mark.parametrize(
    ("type", "inputs", "attrs"),
    [
        ("softmax", {"X": (2, 3, 4)}, {"axis": 1}),
        ("log_softmax", {"X": (2, 3, 4)}, {"axis": -1}),
        ("fused_softmax_mask", {"X": (2, 2, 3, 3), "Mask": (2, 1, 3, 3)}, {}),
        ("fused_softmax_mask_upper_triangle", {"X": (1, 2, 3, 3)}, {}),
    ],
)
def test_gradients_agree_with_differences(gradcheck, type, inputs, attrs) -> None:
    gradcheck(type, {slot: RNG.standard_normal(shape) for slot, shape in inputs.items()}, attrs, wrt=["X"])
