"""Optimizer steps: the formulas on one number, sparse gradients, master weights, loss scaling."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import oarlock.executor.kernels  # noqa: F401 - tells the registry how to find a type
import pytest
from oarlock.executor.values import SelectedRows
from oarlock.ir.registry import lookup


def f64(*values: Any) -> np.ndarray:
    return np.array(values, np.float64)


def near(*values: float) -> Any:
    """Attributes are float32 in a program, so that a step in float64 agrees to about 1e-7."""
    return pytest.approx(list(values), rel=3e-7)


def run(type: str, *inputs: Any, **attrs: Any) -> list[Any]:
    made = lookup(type)(*inputs, **attrs)
    return [made] if isinstance(made, np.ndarray) else list(made)


P, G, RATE = f64(2.0), f64(0.5), f64(0.1)


def test_plain_descent() -> None:
    assert run("sgd", P, RATE, G, None)[0].tolist() == [1.95]


def test_momentum_and_nesterov() -> None:
    speed = f64(0.4)
    param, new, _ = run("momentum", P, G, speed, RATE, None, mu=0.5)
    assert new.tolist() == [0.7] and param.tolist() == near(1.93)
    param, new, _ = run("momentum", P, G, speed, RATE, None, mu=0.5, use_nesterov=True)
    assert param.tolist() == near(2 - 0.1 * (0.5 + 0.5 * 0.7))
    param, new, _ = run(
        "momentum",
        P,
        G,
        speed,
        RATE,
        None,
        mu=0.5,
        regularization_method="l2_decay",
        regularization_coeff=0.25,
    )
    assert new.tolist() == near(0.2 + 0.5 + 0.5)


def test_momentum_rescales_a_sparse_gradient_only_as_paddle_on_cpu() -> None:
    speed = f64([0.0])
    dense = run("momentum", f64([2.0]), f64([0.5]), speed, RATE, None, mu=0.5, rescale_grad=0.1)[1]
    sparse = SelectedRows(np.array([0]), f64([0.5]), 1)
    assert dense.tolist() == [[0.5]]
    assert run("momentum", f64([2.0]), sparse, speed, RATE, None, mu=0.5, rescale_grad=0.1)[1].tolist() == [near(0.05)]


ADAM: tuple[Any, ...] = (f64(0.2), f64(0.3), None, f64(0.81), f64(0.9), None, None, None, None, None)


def adam_by_hand(param: float, grad: float, power1: float = 0.81, power2: float = 0.9, guard: float = 1.0) -> float:
    first, second = 0.9 * 0.2 + 0.1 * grad, 0.999 * 0.3 + 0.001 * grad * grad
    correction = math.sqrt(1 - power2)
    epsilon = 1e-3 * (correction if guard else 1)
    return param - 0.1 * correction / (1 - power1) * first / (math.sqrt(second) + epsilon)


def test_adam() -> None:
    param, first, second, largest, power1, power2, _ = run("adam", P, G, RATE, *ADAM, epsilon=1e-3)
    assert param.tolist() == near(adam_by_hand(2, 0.5))
    assert first.tolist() == near(0.23) and second.tolist() == near(0.29995) and largest is None
    assert power1.tolist() == near(0.729) and power2.tolist() == near(0.8991)
    assert run("adam", P, G, RATE, *ADAM, use_global_beta_pow=True)[4:6] == [None, None]


def test_adam_takes_its_betas_from_tensors() -> None:
    inputs = (*ADAM[:7], f64(0.5), f64(0.6), f64(0.0))
    _, first, second, _, power1, *_ = run("adam", P, G, RATE, *inputs)
    assert first.tolist() == near(0.35) and second.tolist() == near(0.28) and power1.tolist() == near(0.405)


def test_a_skipped_step_hands_everything_on() -> None:
    inputs = (*ADAM[:6], np.array([True]), *ADAM[7:])
    made = run("adam", P, G, RATE, *inputs)
    assert [each.tolist() for each in made[:3]] == [[2.0], [0.2], [0.3]]
    assert [each.tolist() for each in made[4:6]] == [[0.81], [0.9]]


def test_amsgrad_divides_by_the_largest_second_moment() -> None:
    inputs = (*ADAM[:2], f64(0.5), *ADAM[3:])
    (
        param,
        *_,
    ) = run("adam", P, G, RATE, *inputs, epsilon=0.0, amsgrad=True)
    correction = math.sqrt(0.1)
    assert param.tolist() == near(2 - 0.1 * correction / 0.19 * 0.23 / math.sqrt(0.5))
    with pytest.raises(ValueError, match="amsgrad needs Moment2Max"):
        run("adam", P, G, RATE, *ADAM, amsgrad=True)


def test_adamw_decays_first_and_takes_the_ratio_for_the_decay_only() -> None:
    made = run("adamw", P, G, RATE, *ADAM, epsilon=1e-3, with_decay=True, coeff=0.5, lr_ratio=0.25)[0]
    assert made.tolist() == near(adam_by_hand(2 * (1 - 0.1 * 0.25 * 0.5), 0.5))
    plain = run("adamw", P, G, RATE, *ADAM, epsilon=1e-3, coeff=0.5)[0]
    assert plain.tolist() == near(adam_by_hand(2, 0.5))


def sparse_adam(lazy: bool) -> list[Any]:
    column = [np.full((3, 1), value) for value in (2.0, 0.2, 0.3)]
    grad = SelectedRows(np.array([2, 0, 2]), f64([0.2], [0.5], [0.3]), 3)
    inputs = (grad, RATE, column[1], column[2], *ADAM[2:])
    return run("adam", column[0], *inputs, epsilon=1e-3, lazy_mode=lazy)


def test_a_sparse_step_corrects_with_the_new_powers() -> None:
    param, first, *_ = sparse_adam(lazy=False)
    stepped, free = adam_by_hand(2, 0.5, 0.729, 0.8991), adam_by_hand(2, 0.0, 0.729, 0.8991, guard=0)
    assert param.reshape(-1).tolist() == near(stepped, free, stepped)
    assert first.reshape(-1).tolist() == near(0.23, 0.18, 0.23)


def test_a_lazy_step_leaves_other_rows_alone() -> None:
    param, first, second, *_ = sparse_adam(lazy=True)
    stepped = adam_by_hand(2, 0.5, 0.729, 0.8991)
    assert param.reshape(-1).tolist() == near(stepped, 2.0, stepped)
    assert first.reshape(-1).tolist() == near(0.23, 0.2, 0.23) and second[1] == 0.3


def test_master_weights_keep_what_the_half_parameter_loses() -> None:
    param, grad, rate = np.float16([1.0]), np.float16([1.0]), np.float32([1e-4])
    half, copy = run("sgd", param, rate, grad, np.float32([1.0]), multi_precision=True)
    assert half.dtype == np.float16 and copy.dtype == np.float32
    assert half.tolist() == [1.0] and copy.tolist() == [np.float32(0.9999)]
    half, copy = run("sgd", param, rate, grad, None)
    assert half.dtype == np.float16 and copy is None


def test_inputs_are_left_alone() -> None:
    param, moment = f64([1.0, 2.0]), f64([0.5, 0.5])
    grad = SelectedRows(np.array([0, 0]), f64([1.0, 1.0], [2.0, 2.0]), 1)
    run("adagrad", param, grad, moment, RATE, None)
    run("ftrl", param, moment, moment, grad, RATE)
    run("sgd", param, RATE, grad, None)
    assert param.tolist() == [[1.0, 2.0]] and moment.tolist() == [[0.5, 0.5]]


def test_rates_per_element() -> None:
    param, total, _ = run("adagrad", P, G, f64(0.75), RATE, None, epsilon=0.0)
    assert total.tolist() == [1.0] and param.tolist() == near(1.95)
    param, mean = run("decayed_adagrad", P, G, f64(0.75), RATE, decay=0.5, epsilon=0.0)
    assert mean.tolist() == [0.5] and param.tolist() == near(2 - 0.05 / math.sqrt(0.5))
    param, grads, updates, _ = run("adadelta", P, G, f64(0.75), f64(0.5), RATE, None, rho=0.5, epsilon=0.0)
    assert grads.tolist() == [0.5] and param.tolist() == near(1.95) and updates.tolist() == near(0.375)
    param, first, norm, _ = run(
        "adamax", P, G, RATE, f64(0.2), f64(0.25), f64(0.5), None, beta1=0.5, beta2=0.5, epsilon=0.0
    )
    assert (first.tolist(), norm.tolist()) == ([0.35], [0.5]) and param.tolist() == near(2 - 0.2 * 0.7)


def test_rmsprop_plain_and_centered() -> None:
    param, speed, square, mean, _ = run(
        "rmsprop", P, f64(0.75), G, f64(0.3), RATE, None, None, decay=0.5, momentum=0.5, epsilon=0.0
    )
    step = 0.15 + 0.05 / math.sqrt(0.5)
    assert (
        (square.tolist(), mean) == ([0.5], None) and speed.tolist() == near(step) and param.tolist() == near(2 - step)
    )
    param, *_ = run("rmsprop", P, f64(0.75), G, f64(0.0), RATE, f64(0.5), None, decay=0.5, centered=True, epsilon=0.0)
    assert param.tolist() == near(2 - 0.05 / math.sqrt(0.25))
    with pytest.raises(ValueError, match="centered needs MeanGrad"):
        run("rmsprop", P, f64(0.75), G, f64(0.3), RATE, None, None, centered=True)


def test_lamb_scales_by_the_norms() -> None:
    inputs = (
        f64(3.0, 4.0),
        f64(0.0, 0.0),
        RATE,
        f64(0.2, 0.0),
        f64(0.0, 0.0),
        f64(0.5),
        f64(0.5),
        None,
        None,
    )
    attrs: dict[str, Any] = {"beta1": 0.5, "beta2": 0.5, "epsilon": 1.0}
    plain = run("lamb", *inputs, weight_decay=0.0, **attrs)[0]
    assert plain.tolist() == near(3 - 0.1 * 0.2, 4.0)
    adapted = run("lamb", *inputs, weight_decay=0.0, always_adapt=True, **attrs)[0]
    assert adapted.tolist() == near(3 - 0.1 * 5, 4.0)


def test_proximal_steps_shrink_towards_zero() -> None:
    assert run("proximal_gd", f64(2.0, 0.06), f64(0.5, 0.5), RATE, l1=1.0, l2=10.0)[0].tolist() == near(1.85 / 2, 0.0)
    param, moment = run("proximal_adagrad", P, f64(0.75), G, RATE, l1=1.0)
    assert moment.tolist() == [1.0] and param.tolist() == near(1.85)


def test_private_descent_clips_and_adds_noise() -> None:
    grad = np.array([3.0, 4.0], np.float32)
    calm = run("dpsgd", np.zeros(2, np.float32), grad, np.float32([1.0]), clip=1.0, sigma=0.0)[0]
    assert calm.tolist() == pytest.approx([-0.6, -0.8], rel=1e-6)
    noisy = run("dpsgd", np.zeros(2, np.float32), grad, np.float32([1.0]), clip=1.0, sigma=1.0, seed=4)[0]
    noise = noisy - calm
    assert noise[0] != 0 and noise[0] == pytest.approx(noise[1], rel=1e-5)


def test_layerwise_rates() -> None:
    attrs: dict[str, Any] = {"mu": 0.5, "lars_coeff": 0.25, "lars_weight_decay": [0.5], "epsilon": 0.0}
    param, speed, _ = run("lars_momentum", [f64(3, 4)], [f64(0.6, 0.8)], [f64(0, 0)], [RATE], [], **attrs)
    rate = 0.1 * 0.25 * 5 / (1 + 0.5 * 5)
    assert speed[0].tolist() == near(rate * 2.1, rate * 2.8)
    assert param[0].tolist() == near(3 - rate * 2.1, 4 - rate * 2.8)


def test_lists_of_parameters_step_as_each_alone() -> None:
    params, grads = [P, f64([1.0], [2.0])], [G, f64([0.1], [0.2])]
    moments = [np.full_like(each, 0.2) for each in params], [np.full_like(each, 0.3) for each in params]
    powers = [f64(0.81)] * 2, [f64(0.9)] * 2
    made = run("merged_adam", params, grads, [RATE], *moments, *powers, [], epsilon=1e-3)
    assert made[0][0].tolist() == near(adam_by_hand(2, 0.5))
    assert made[0][1].reshape(-1).tolist() == near(adam_by_hand(1, 0.1), adam_by_hand(2, 0.2))
    fused = run(
        "fused_adam",
        params,
        grads,
        RATE,
        *moments,
        *powers,
        [],
        None,
        epsilon=1e-3,
        use_adamw=True,
        weight_decay=0.5,
    )
    assert fused[0][0].tolist() == near(adam_by_hand(2 * (1 - 0.05), 0.5))
    with pytest.raises(ValueError, match="list slots must agree in length"):
        run("merged_adam", params, grads[:1], [RATE], *moments, *powers, [])


def test_sparse_momentum_adds_the_rows_of_one_index() -> None:
    param, speed, _ = run(
        "sparse_momentum",
        np.zeros((3, 2)),
        f64([1, 2], [3, 4]),
        np.zeros((3, 2)),
        np.array([2, 2]),
        None,
        RATE,
        None,
        mu=0.5,
    )
    assert speed.tolist() == [[0, 0], [0, 0], [4, 6]] and param[2].tolist() == near(-0.4, -0.6)


def test_model_average_starts_again_when_the_window_is_full() -> None:
    sums = (f64(10.0), f64(20.0), f64(30.0))
    counts = (np.array([4]), np.array([7]), np.array([9]))
    attrs = {"average_window": 0.5, "min_average_window": 5}
    first, second, third, count, old, updates = run("average_accumulates", f64(1.0), *sums, *counts, **attrs)
    assert [each.tolist() for each in (first, second, third)] == [[0], [0], [31]]
    assert [each.tolist() for each in (count, old, updates)] == [[0], [5], [10]]
    attrs["min_average_window"] = 6
    first, *_, third_count = run("average_accumulates", f64(1.0), *sums, *counts, **attrs)
    assert first.tolist() == [11] and third_count.tolist() == [10]


def test_gradients_are_unscaled_until_one_is_not_finite() -> None:
    grads, found = run("check_finite_and_unscale", [np.float32([4.0]), np.float32([8.0])], np.float32([4.0]))
    assert [each.tolist() for each in grads] == [[1], [2]] and found.tolist() == [False] and found.dtype == np.bool_
    bad = [np.float32([4.0]), np.float32([np.inf, 1.0]), np.float32([8.0])]
    grads, found = run("check_finite_and_unscale", bad, np.float32([4.0]))
    assert grads[0].tolist() == [1] and grads[2].tolist() == [0] and found.tolist() == [True]


SCALING: dict[str, Any] = {
    "incr_every_n_steps": 2,
    "decr_every_n_nan_or_inf": 2,
    "incr_ratio": 2.0,
    "decr_ratio": 0.5,
}


@pytest.mark.parametrize(
    ("found", "good", "bad", "scale", "after"),
    [
        (False, 0, 1, 8.0, (8.0, 1, 0)),
        (False, 1, 0, 8.0, (16.0, 0, 0)),
        (False, 1, 0, 3e38, (3e38, 0, 0)),
        (True, 1, 0, 8.0, (8.0, 0, 1)),
        (True, 1, 1, 8.0, (4.0, 0, 0)),
        (True, 0, 1, 1.5, (1.0, 0, 0)),
    ],
)
def test_the_loss_scale_follows_the_steps(
    found: bool, good: int, bad: int, scale: float, after: tuple[float, int, int]
) -> None:
    steps = np.array([good], np.int32), np.array([bad], np.int32)
    inputs = ([np.float32([3.0])], np.array([found]), np.float32([scale]), *steps)
    grads, *made = run("update_loss_scaling", *inputs, None, **SCALING)
    assert grads[0].tolist() == [0 if found else 3]
    assert [each.item() for each in made] == pytest.approx(list(after), rel=1e-6)
    kept = run("update_loss_scaling", *inputs, np.array([True]), **SCALING)
    assert [each.item() for each in kept[1:]] == pytest.approx([scale, good, bad])


@pytest.mark.parametrize(("step", "rate"), [(0, 0.125), (3, 0.5), (4, 0.5 * 0.9**2 + 0.0), (13, 0.0), (50, 0.0)])
def test_warmup_then_squared_decay(step: int, rate: float) -> None:
    attrs = {"warmup_steps": 4, "total_steps": 14, "base_lr": 0.5, "end_lr": 0.0}
    made, after = run("pow2_decay_with_linear_warmup", f64(0.3), np.array([step]), **attrs)
    assert made.tolist() == pytest.approx([rate]) and after.tolist() == [step + 1]
