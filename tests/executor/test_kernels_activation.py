"""Activation operators: values, attributes off their defaults, dtypes, memory, gradients of both orders."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from oarlock.executor.kernels.activation import activate
from oarlock.ir.dtypes import bfloat16
from oarlock.ir.registry import lookup

X = np.array([-7.0, -3.2, -1.3, -0.6, -0.2, 0.3, 0.7, 1.4, 2.6, 5.5])
"""Points off every kink of the defaults."""


def run(type: str, x: Any, version: int | None = None, **attrs: Any) -> Any:
    return lookup(type, version).kernel(np.asarray(x), **attrs)


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


FORMULAS: list[tuple[str, dict[str, Any], Any]] = [
    ("relu", {}, lambda x: x * (x > 0)),
    ("relu6", {}, lambda x: np.clip(x, 0, 6)),
    ("relu6", {"threshold": 2.0}, lambda x: np.clip(x, 0, 2)),
    ("brelu", {"t_min": -1.0, "t_max": 2.0}, lambda x: np.clip(x, -1, 2)),
    ("leaky_relu", {"alpha": 0.1}, lambda x: np.where(x > 0, x, 0.1 * x)),
    ("leaky_relu", {"alpha": -2.0}, lambda x: np.where(x > 0, x, -2.0 * x)),
    ("leaky_relu", {"alpha": 3.0}, lambda x: np.where(x > 0, x, 3.0 * x)),
    ("thresholded_relu", {"threshold": 0.5}, lambda x: np.where(x > 0.5, x, 0)),
    ("hard_shrink", {"threshold": 1.0}, lambda x: np.where(np.abs(x) > 1, x, 0)),
    ("softshrink", {"lambda_": 1.0}, lambda x: np.sign(x) * np.maximum(np.abs(x) - 1, 0)),
    ("hard_sigmoid", {"slope": 0.25, "offset": 0.4}, lambda x: np.clip(0.25 * x + 0.4, 0, 1)),
    ("hard_swish", {}, lambda x: x * np.clip(x + 3, 0, 6) / 6),
    ("hard_swish", {"threshold": 4.0, "scale": 5.0, "offset": 2.0}, lambda x: x * np.clip(x + 2, 0, 4) / 5),
    ("sigmoid", {}, sigmoid),
    ("logsigmoid", {}, lambda x: np.log(sigmoid(x))),
    ("silu", {}, lambda x: x * sigmoid(x)),
    ("swish", {"beta": 2.0}, lambda x: x * sigmoid(2 * x)),
    ("tanh", {}, np.tanh),
    ("stanh", {"scale_a": 0.5, "scale_b": 2.0}, lambda x: 2 * np.tanh(0.5 * x)),
    ("tanh_shrink", {}, lambda x: x - np.tanh(x)),
    ("softsign", {}, lambda x: x / (1 + np.abs(x))),
    ("softplus", {}, lambda x: np.log(1 + np.exp(x))),
    ("softplus", {"beta": 2.0, "threshold": 1.0}, lambda x: np.where(2 * x > 1, x, np.log(1 + np.exp(2 * x)) / 2)),
    ("soft_relu", {"threshold": 2.0}, lambda x: np.log(1 + np.exp(np.clip(x, -2, 2)))),
    ("elu", {"alpha": 0.7}, lambda x: np.where(x > 0, x, 0.7 * (np.exp(x) - 1))),
    ("celu", {"alpha": 1.5}, lambda x: np.where(x > 0, x, 1.5 * (np.exp(x / 1.5) - 1))),
    ("selu", {"scale": 1.1, "alpha": 1.6}, lambda x: 1.1 * np.where(x > 0, x, 1.6 * (np.exp(x) - 1))),
    ("mish", {}, lambda x: x * np.tanh(np.log(1 + np.exp(x)))),
    ("mish", {"threshold": 1.0}, lambda x: x * np.tanh(np.where(x > 1, x, np.log(1 + np.exp(x))))),
    ("gelu", {"approximate": True}, lambda x: x / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))),
]
IDS = [f"{type}-{'-'.join(map(str, attrs.values()))}" for type, attrs, _ in FORMULAS]
EXACT = {"mish": 1.0, "soft_relu": 1.9}
"""Up to where Paddle's gradients are derivatives: mish above a low threshold and soft_relu, which reads its bounds off
the output, have conventions of their own."""


@pytest.mark.parametrize(("type", "attrs", "formula"), FORMULAS, ids=IDS)
class TestEveryActivation:
    def test_value(self, type: str, attrs: dict[str, Any], formula: Any) -> None:
        np.testing.assert_allclose(run(type, X, **attrs), formula(X), rtol=1e-12, atol=1e-13)
        single = run(type, X.astype(np.float32), **attrs)
        assert single.dtype == np.float32
        np.testing.assert_allclose(single, formula(X), rtol=2e-6, atol=1e-6)

    def test_half_types_are_computed_in_float32_and_rounded_once(
        self, type: str, attrs: dict[str, Any], formula: Any
    ) -> None:
        for dtype in (np.dtype(np.float16), bfloat16()):
            x = X.astype(dtype)
            assert run(type, x, **attrs).dtype == dtype
            np.testing.assert_array_equal(run(type, x, **attrs), run(type, x.astype(np.float32), **attrs).astype(dtype))

    def test_no_element_one_element_and_strided_tensors(self, type: str, attrs: dict[str, Any], formula: Any) -> None:
        assert run(type, np.zeros((0, 3), np.float32), **attrs).shape == (0, 3)
        scalar = np.asarray(run(type, np.float32(0.7), **attrs))
        assert (scalar.shape, scalar.dtype) == ((), np.float32)
        grid = np.tile(X.astype(np.float32), (4, 1))
        np.testing.assert_array_equal(run(type, grid.T[::2], **attrs), run(type, grid, **attrs).T[::2])

    def test_the_input_is_left_alone_unless_given_as_out(self, type: str, attrs: dict[str, Any], formula: Any) -> None:
        x = X.astype(np.float32)
        x.flags.writeable = False
        result = run(type, x, **attrs)
        np.testing.assert_array_equal(x, X.astype(np.float32))
        mine = x.copy()
        assert run(type, mine, out=mine, **attrs) is mine
        np.testing.assert_array_equal(mine, result)

    def test_large_tensors_are_cut_into_blocks_without_a_trace(
        self, type: str, attrs: dict[str, Any], formula: Any
    ) -> None:
        x = np.resize(X, 300_001).astype(np.float32)
        result = run(type, x, **attrs)
        np.testing.assert_array_equal(result, np.resize(run(type, X.astype(np.float32), **attrs), x.size))

    def test_extreme_values_warn_of_nothing(self, type: str, attrs: dict[str, Any], formula: Any) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            x = np.array([1e30, -1e30, np.inf, -np.inf, np.nan, 0.0, 200.0, -200.0], np.float32)
            made = run(type, x, **attrs)
            assert made[5] == pytest.approx(float(formula(np.float64(0.0))))
            gradient = lookup(f"{type}_grad").kernel
            kept = [x if slot.name == "X" else made for slot in lookup(f"{type}_grad").inputs[:-1]]
            assert gradient(*kept, np.ones_like(x)).shape == x.shape

    def test_gradient(self, type: str, attrs: dict[str, Any], formula: Any, gradcheck: Any) -> None:
        named = {name.rstrip("_"): value for name, value in attrs.items()}
        x = X[np.abs(X) < EXACT.get(type, np.inf)] if "threshold" in attrs else X
        gradcheck(type, {"X": x}, {**named, "threshold": 40.0} if type == "soft_relu" else named)
        gradcheck(type, {"X": np.array(0.7)}, {**named, "threshold": 40.0} if type == "soft_relu" else named)

    def test_integers_and_booleans_are_refused(self, type: str, attrs: dict[str, Any], formula: Any) -> None:
        for dtype in (np.int32, np.bool_):
            with pytest.raises(TypeError, match=f"slot X: {type} takes floating"):
                run(type, np.ones(3, dtype), **attrs)


def test_gelu_by_the_normal_distribution() -> None:
    x = np.array([-3.0, -1.0, 0.0, 0.5, 2.0])
    expected = [-0.00404969409489031, -0.15865525393145707, 0.0, 0.34573123063700656, 1.9544997361036416]
    np.testing.assert_allclose(run("gelu", x), expected, rtol=1e-14, atol=1e-16)
    np.testing.assert_allclose(run("gelu", x.astype(np.float32)), expected, rtol=3e-6, atol=1e-7)


def test_gelu_of_large_negative_numbers_is_zero_in_float32() -> None:
    assert not run("gelu", np.array([-100.0, -20.0], np.float32)).any()


def test_relu_makes_nan_zero_and_the_others_keep_it() -> None:
    nan = np.array([np.nan], np.float32)
    assert run("relu", nan)[0] == 0
    for type in ("relu6", "tanh", "sigmoid", "gelu", "hard_swish", "hard_sigmoid", "elu", "softplus", "silu", "mish"):
        assert np.isnan(run(type, nan)[0]), type


def test_leaky_relu_before_version_1_is_the_maximum() -> None:
    x = np.array([-2.0, 3.0])
    np.testing.assert_array_equal(run("leaky_relu", x, 0, alpha=2.0), [-2.0, 6.0])
    np.testing.assert_array_equal(run("leaky_relu", x, 1, alpha=2.0), [-4.0, 3.0])


def test_hard_shrink_before_version_1_counts_both_sides_of_a_negative_threshold() -> None:
    x = np.array([-2.0, 0.25, 2.0])
    np.testing.assert_array_equal(run("hard_shrink", x, 0, threshold=-1.0), [-2.0, 0.5, 2.0])
    np.testing.assert_array_equal(run("hard_shrink", x, 1, threshold=-1.0), [-2.0, 0.25, 2.0])


@pytest.mark.parametrize(
    "type", ["hard_swish", "sigmoid", "silu", "logsigmoid", "softplus", "stanh", "tanh", "softsign"]
)
def test_complex_tensors(type: str, gradcheck: Any) -> None:
    x = np.array([[0.4 + 0.3j, -0.8 + 1.1j], [1.7 - 0.6j, -0.3 - 0.9j]])
    assert run(type, x.astype(np.complex64)).dtype == np.complex64
    gradcheck(type, {"X": x})


def test_what_is_not_defined_for_complex_numbers_is_refused() -> None:
    with pytest.raises(TypeError, match="slot X: relu takes floating tensors, got complex64"):
        run("relu", np.ones(2, np.complex64))


SECOND = [
    ("relu", {}, "Out"),
    ("leaky_relu", {"alpha": 0.1}, "X"),
    ("sigmoid", {}, "Out"),
    ("tanh", {}, "Out"),
    ("swish", {"beta": 1.5}, "X"),
    ("celu", {"alpha": 1.5}, "X"),
    ("softplus", {"beta": 1.5}, "X"),
    ("gelu", {}, "X"),
    ("gelu", {"approximate": True}, "X"),
]


@pytest.mark.parametrize(("type", "attrs", "keeps"), SECOND)
def test_the_gradient_has_a_gradient(type: str, attrs: dict[str, Any], keeps: str, gradcheck: Any) -> None:
    kept = run(type, X, **attrs) if keeps == "Out" else X
    gradcheck(f"{type}_grad", {keeps: kept, "Out@GRAD": np.cos(X)}, attrs)


@pytest.mark.parametrize(("type", "attrs"), [("silu", {}), ("elu", {"alpha": 0.7})])
def test_second_gradient_of_what_keeps_input_and_output(type: str, attrs: dict[str, Any], gradcheck: Any) -> None:
    """The output is a function of the input: only the cotangent is free, the input is checked by hand."""
    out, d_out, dd_x, step = run(type, X, **attrs), np.cos(X), np.sin(X) + 2, 1e-6
    gradcheck(f"{type}_grad", {"Out": out, "X": X, "Out@GRAD": d_out}, attrs, wrt=["Out@GRAD"])
    found, _ = lookup(f"{type}_grad_grad").kernel(out, X, d_out, dd_x, **attrs)

    def first(x: Any) -> Any:
        return lookup(f"{type}_grad").kernel(run(type, x, **attrs), x, d_out, **attrs)

    np.testing.assert_allclose(found, dd_x * (first(X + step) - first(X - step)) / (2 * step), rtol=1e-6, atol=1e-7)


class TestActivate:
    def test_by_name_in_place(self) -> None:
        x = X.astype(np.float32)
        wanted = run("hard_swish", x)
        assert activate("hard_swish", x, x) is x
        np.testing.assert_array_equal(x, wanted)

    def test_attributes_are_those_of_the_operator(self) -> None:
        np.testing.assert_allclose(activate("leaky_relu", X, alpha=0.5), np.where(X > 0, X, X / 2))
        np.testing.assert_allclose(activate("clip", X, min=-1.0, max=1.0), np.clip(X, -1, 1))

    def test_no_activation_gives_the_tensor_itself(self) -> None:
        x, out = X.copy(), np.empty_like(X)
        assert activate("", x) is x and activate("identity", x, x) is x
        assert activate("", x, out) is out and np.array_equal(out, x)

    def test_unknown_names_are_refused(self) -> None:
        with pytest.raises(ValueError, match="activation 'relux' is unknown, expected one of abs, "):
            activate("relux", X)


class TestPrelu:
    x = np.arange(-12.0, 12.0).reshape(2, 3, 2, 2) + 0.5

    @pytest.mark.parametrize(
        ("alpha", "mode", "data_format", "spread"),
        [
            ([0.5], "all", "NCHW", (1, 1, 1, 1)),
            ([0.1, 0.2, 0.3], "channel", "NCHW", (1, 3, 1, 1)),
            ([0.1, 0.2], "channel", "NHWC", (1, 1, 1, 2)),
            (np.arange(12).reshape(1, 3, 2, 2) / 10, "element", "NCHW", (1, 3, 2, 2)),
        ],
    )
    def test_modes(self, alpha: Any, mode: str, data_format: str, spread: Any, gradcheck: Any) -> None:
        weights = np.array(alpha)
        attrs = {"mode": mode, "data_format": data_format}
        expected = np.where(self.x > 0, self.x, self.x * weights.reshape(spread))
        np.testing.assert_allclose(lookup("prelu").kernel(self.x, weights, **attrs), expected)
        gradcheck("prelu", {"X": self.x, "Alpha": weights}, attrs)

    @pytest.mark.parametrize(
        ("shape", "mode", "message"),
        [
            ((2,), "all", "slot Alpha: 1 element"),
            ((2,), "channel", "slot Alpha: 3 element"),
            ((12,), "element", "slot Alpha: 4 dimension"),
            ((1,), "some", "attribute mode='some'"),
        ],
    )
    def test_an_alpha_that_does_not_fit_is_refused(self, shape: Any, mode: str, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            lookup("prelu").kernel(self.x, np.ones(shape), mode=mode)


class TestMaxout:
    def test_the_largest_of_neighbouring_channels(self, gradcheck: Any) -> None:
        x = np.random.default_rng(0).permutation(48).astype(np.float64).reshape(2, 6, 2, 2)
        expected = x.reshape(2, 3, 2, 2, 2).max(axis=2)
        np.testing.assert_array_equal(run("maxout", x, groups=2), expected)
        for axis in (1, -1, 3):
            gradcheck("maxout", {"X": x}, {"groups": 2, "axis": axis})

    def test_ties_go_to_the_first(self) -> None:
        x = np.ones((1, 4, 1, 1))
        grad = lookup("maxout_grad").kernel(x, np.ones((1, 2, 1, 1)), np.ones((1, 2, 1, 1)), groups=2)
        np.testing.assert_array_equal(grad.reshape(-1), [1, 0, 1, 0])

    @pytest.mark.parametrize("attrs", [{"groups": 1}, {"groups": 4}, {"groups": 2, "axis": 2}])
    def test_groups_that_do_not_fit_are_refused(self, attrs: dict[str, int]) -> None:
        with pytest.raises(ValueError, match=r"attribute (groups|axis)="):
            run("maxout", np.ones((1, 6, 2, 2)), **attrs)


class TestRrelu:
    def test_at_test_the_slope_is_the_mean(self) -> None:
        out, noise = run("rrelu", [-2.0, 0.0, 3.0], lower=0.1, upper=0.3, is_test=True)
        np.testing.assert_allclose(out, [-0.4, 0.0, 3.0])
        np.testing.assert_allclose(noise, [0.2, 1.0, 1.0])

    def test_in_training_the_slope_is_drawn_uniformly(self) -> None:
        x = -np.ones(20_000, np.float32)
        out, noise = run("rrelu", x, lower=0.1, upper=0.3)
        assert out.dtype == noise.dtype == np.float32
        assert noise.min() >= 0.1 and noise.max() <= 0.3
        assert abs(noise.mean() - 0.2) < 0.002 and abs(noise.std() - 0.2 / np.sqrt(12)) < 0.002
        np.testing.assert_array_equal(out, -noise)

    def test_gradient_is_the_slope_that_was_used(self) -> None:
        x, noise, d_out = np.array([-1.0, 2.0]), np.array([0.25, 1.0]), np.array([4.0, 4.0])
        np.testing.assert_array_equal(lookup("rrelu_grad").kernel(x, noise, d_out), [1.0, 4.0])

    @pytest.mark.parametrize("bounds", [(0.4, 0.3), (-0.1, 0.3), (0.1, 1.5)])
    def test_bounds_are_checked(self, bounds: tuple[float, float]) -> None:
        with pytest.raises(ValueError, match="attributes lower="):
            run("rrelu", [1.0], lower=bounds[0], upper=bounds[1])


def test_fused_softplus_applies_the_activation_that_was_fused() -> None:
    plain = run("softplus", X, beta=2.0, threshold=10.0)
    fused = run("fused_softplus", X, beta=2.0, threshold=10.0, fuse_activation="tanh")
    np.testing.assert_allclose(fused, np.tanh(plain))
    np.testing.assert_array_equal(run("fused_softplus", X, beta=2.0, threshold=10.0), plain)


class TestPositionEncoding:
    def test_sines_then_cosines(self, gradcheck: Any) -> None:
        x = np.ones((1, 3, 4))
        out = run("add_position_encoding", x, alpha=0.5, beta=2.0)
        angles = np.arange(3)[:, None] / np.array([1.0, 10000.0])
        expected = 0.5 + 2 * np.concatenate([np.sin(angles), np.cos(angles)], axis=1)
        np.testing.assert_allclose(out[0], expected)
        gradcheck("add_position_encoding", {"X": x}, {"alpha": 0.5, "beta": 2.0})

    def test_positions_start_anew_in_each_sequence(self) -> None:
        from oarlock.executor.values import LoDTensor

        out = lookup("add_position_encoding").kernel(LoDTensor.from_lengths(np.zeros((4, 2)), [[1, 3]]))
        np.testing.assert_allclose(out.array[:, 1], [1.0, 1.0, np.cos(1e-4), np.cos(2e-4)])
        assert out.lengths() == [[1, 3]]

    def test_an_odd_size_is_refused(self) -> None:
        with pytest.raises(ValueError, match="even size"):
            run("add_position_encoding", np.ones((1, 3, 5)))
