"""The recurrent operators of 1.x: numbers of PaddlePaddle 2.6.2, empty sequences, clipping, gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import oarlock.executor.kernels  # noqa: F401  (declares the operators)
import pytest
from oarlock.executor.values import LoDTensor, array_of
from oarlock.ir.registry import lookup


def wave(*shape: int, k: float = 0) -> Any:
    return np.sin(np.arange(int(np.prod(shape))) * 0.7 + k).reshape(shape)


def ragged(array: Any, *lengths: int) -> LoDTensor:
    return LoDTensor.from_lengths(array, [list(lengths)])


def lstm_inputs(lengths: tuple[int, ...] = (2, 1), n: int = 2) -> dict[str, Any]:
    rows, batch = sum(lengths), len(lengths)
    return {
        "Input": ragged(wave(rows, 4 * n), *lengths),
        "H0": wave(batch, n, k=3),
        "C0": wave(batch, n, k=4),
        "Weight": wave(n, 4 * n, k=1),
        "Bias": wave(1, 7 * n, k=2),
    }


def test_lstm_as_paddle() -> None:
    """Peepholes, first states, reversed."""
    inputs = lstm_inputs()
    hidden, cell, gates, acts = lookup("lstm")(*inputs.values(), is_reverse=True)
    assert hidden.lengths() == cell.lengths() == [[2, 1]]
    np.testing.assert_allclose(
        hidden.array.reshape(-1),
        [0.081784605, 0.023844985, -0.106261778, -0.290428951, -0.417251838, -0.338154955],
        atol=1e-9,
    )
    np.testing.assert_allclose(
        cell.array.reshape(-1),
        [0.270086087, 0.051920571, -0.20382962, -0.485868621, -0.492259745, -0.418032263],
        atol=1e-9,
    )
    np.testing.assert_allclose(
        acts.reshape(-1),
        [-0.201052952, -0.450931263, -0.456008122, -0.395271426, 0.263704938, 0.051873966],
        atol=1e-9,
    )
    np.testing.assert_allclose(gates[0, :4], [0.227653498, 0.132757192, 0.318656055, 0.25395882], atol=1e-9)
    ones = ragged(np.ones((3, 2)), 2, 1)
    grads = lookup("lstm_grad")(*inputs.values(), hidden, cell, gates, acts, ones, is_reverse=True)
    np.testing.assert_allclose(
        array_of(grads[4]).reshape(2, 7),
        [
            [0.330430837, 0.348770225, 0.032945327, -0.060867809, -0.289263759, -0.300236148, -0.038819108],
            [-0.154993535, -0.003592557, -0.027247432, 0.215139407, 0.260041344, 0.044879315, 0.078920738],
        ],
        atol=1e-9,
    )
    np.testing.assert_allclose(grads[1].reshape(-1), [0.859883765, 0.628386318, 0.15331043, -0.033625764], atol=1e-9)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("peepholes", [False, True])
@pytest.mark.parametrize("acts", [("sigmoid", "tanh", "tanh"), ("tanh", "identity", "sigmoid")])
def test_lstm_gradient(
    gradcheck: Callable[..., Any], reverse: bool, peepholes: bool, acts: tuple[str, str, str]
) -> None:
    inputs = lstm_inputs((2, 0, 4, 3))
    if not peepholes:
        inputs["Bias"] = inputs["Bias"][:, :8]
    attrs = {"use_peepholes": peepholes, "is_reverse": reverse}
    names = ("gate_activation", "cell_activation", "candidate_activation")
    gradcheck("lstm", inputs, {**attrs, **dict(zip(names, acts, strict=True))}, rtol=1e-5)


def test_lstm_without_first_states_starts_from_zero() -> None:
    inputs = lstm_inputs()
    zero = np.zeros((2, 2))
    bare = lookup("lstm")(inputs["Input"], None, None, inputs["Weight"], inputs["Bias"])
    full = lookup("lstm")(inputs["Input"], zero, zero, inputs["Weight"], inputs["Bias"])
    np.testing.assert_array_equal(bare[0].array, full[0].array)


def test_lstm_sigmoid_is_held_at_13() -> None:
    """1.x kernels clip the argument of a sigmoid, so that a wide open gate lets a little less through."""
    x = ragged(np.array([[0.5, 50.0, 0.0, 50.0]]), 1)
    _, cell, _, _ = lookup("lstm")(x, None, None, np.zeros((1, 4)), np.zeros((1, 4)), use_peepholes=False)
    np.testing.assert_allclose(cell.array, np.tanh(0.5) / (1 + np.exp(-13.0)), rtol=1e-12)


def test_lstm_refuses_widths_that_disagree() -> None:
    inputs = {**lstm_inputs(), "Bias": wave(1, 8)}
    with pytest.raises(ValueError, match="Bias 14 numbers"):
        lookup("lstm")(*inputs.values(), use_peepholes=True)
    with pytest.raises(ValueError, match="gate_activation is 'gelu'"):
        lookup("lstm")(*lstm_inputs().values(), gate_activation="gelu")
    with pytest.raises(ValueError, match="Input must carry a LoD"):
        lookup("lstm")(wave(3, 8), None, None, wave(2, 8), wave(1, 14))


def projected_inputs() -> dict[str, Any]:
    return {
        "Input": ragged(wave(9, 12), 2, 0, 4, 3),
        "H0": 0.3 * wave(4, 2, k=3),
        "C0": wave(4, 3, k=4),
        "Weight": wave(2, 12, k=1),
        "ProjWeight": 0.5 * wave(3, 2, k=5),
        "Bias": wave(1, 21, k=2),
    }


def test_lstmp_projects_what_the_next_step_sees() -> None:
    inputs = projected_inputs()
    inputs["ProjWeight"] = np.eye(3)
    inputs["Weight"] = wave(3, 12, k=1)
    inputs["H0"] = wave(4, 3, k=3)
    projection, cell, *_ = lookup("lstmp")(*inputs.values(), proj_activation="identity")
    del inputs["ProjWeight"]
    hidden, plain_cell, *_ = lookup("lstm")(*inputs.values())
    np.testing.assert_allclose(projection.array, hidden.array, atol=1e-12)
    np.testing.assert_allclose(cell.array, plain_cell.array, atol=1e-12)


@pytest.mark.parametrize(
    "attrs",
    [
        {},
        {"is_reverse": True, "proj_activation": "identity", "use_peepholes": False},
        {"proj_clip": 0.15, "cell_clip": 0.6},
    ],
)
def test_lstmp_gradient(gradcheck: Callable[..., Any], attrs: dict[str, Any]) -> None:
    inputs = projected_inputs()
    if attrs.get("use_peepholes") is False:
        inputs["Bias"] = inputs["Bias"][:, :12]
    projection, cell, *_ = lookup("lstmp")(*inputs.values(), **attrs)
    if "proj_clip" in attrs:
        assert np.abs(projection.array).max() == 0.15 and np.abs(cell.array).max() == 0.6
    gradcheck("lstmp", inputs, attrs, rtol=1e-5)


def gru_inputs(lengths: tuple[int, ...] = (2, 1), n: int = 2) -> dict[str, Any]:
    rows, batch = sum(lengths), len(lengths)
    return {
        "Input": ragged(wave(rows, 3 * n), *lengths),
        "H0": wave(batch, n, k=3),
        "Weight": wave(n, 3 * n, k=1),
        "Bias": wave(1, 3 * n, k=2),
    }


def test_gru_as_paddle() -> None:
    gates, resets, batched, hidden = lookup("gru")(*gru_inputs().values(), origin_mode=True)
    np.testing.assert_allclose(
        hidden.array.reshape(-1),
        [-0.037176342, -0.573684154, -0.226772383, -0.214632346, -0.95648416, -0.931383397],
        atol=1e-9,
    )
    np.testing.assert_allclose(batched[1], [-0.95648416, -0.931383397], atol=1e-9)
    np.testing.assert_allclose(
        resets.reshape(-1),
        [0.110737994, -0.297717117, -0.371223317, -0.184407705, -0.014873839, -0.204790366],
        atol=1e-9,
    )
    np.testing.assert_allclose(gates[0, :3], [0.794494006, 0.849344883, 0.784707962], atol=1e-9)


def test_gru_modes_swap_the_shares_of_the_update_gate() -> None:
    x = ragged(np.array([[40.0, 0.0, 0.5]]), 1)
    h0, weight = np.array([[0.25]]), np.zeros((1, 3))
    for origin, want in ((True, 0.25), (False, np.tanh(0.5))):
        hidden = lookup("gru")(x, h0, weight, None, origin_mode=origin)[3]
        np.testing.assert_allclose(hidden.array, [[want]], atol=1e-5)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("origin", [False, True])
@pytest.mark.parametrize("bare", [False, True])
def test_gru_gradient(gradcheck: Callable[..., Any], reverse: bool, origin: bool, bare: bool) -> None:
    inputs = gru_inputs((2, 0, 4, 3))
    if bare:
        del inputs["H0"], inputs["Bias"]
    gradcheck("gru", inputs, {"is_reverse": reverse, "origin_mode": origin, "activation": "tanh"}, rtol=1e-5)


def test_gru_unit_as_paddle() -> None:
    gate, reset, hidden = lookup("gru_unit")(
        wave(1, 6), wave(1, 2, k=3), wave(2, 6, k=1), None, activation=3, gate_activation=1
    )
    np.testing.assert_allclose(hidden, [[0.055183901, -0.113285913]], atol=1e-9)
    np.testing.assert_allclose(gate, [[0.60895764, 0.786186889, 0.82474863, 0.74405847, 0, 0]], atol=1e-8)
    np.testing.assert_allclose(reset, [[0.116388533, -0.394229068]], atol=1e-9)


def test_gru_unit_sigmoid_is_not_held() -> None:
    x = np.array([[50.0, 0.0, 0.5]])
    *_, hidden = lookup("gru_unit")(x, np.zeros((1, 1)), np.zeros((1, 3)), None)
    np.testing.assert_allclose(hidden, np.tanh(0.5), rtol=1e-15)


@pytest.mark.parametrize("origin", [False, True])
@pytest.mark.parametrize("codes", [(2, 1), (0, 2)])
def test_gru_unit_gradient(gradcheck: Callable[..., Any], origin: bool, codes: tuple[int, int]) -> None:
    gradcheck(
        "gru_unit",
        {
            "Input": wave(3, 6),
            "HiddenPrev": wave(3, 2, k=3),
            "Weight": wave(2, 6, k=1),
            "Bias": wave(1, 6, k=2),
        },
        {"activation": codes[0], "gate_activation": codes[1], "origin_mode": origin},
        rtol=1e-5,
    )


def test_gru_unit_refuses_an_unknown_activation() -> None:
    with pytest.raises(ValueError, match="activation is 4"):
        lookup("gru_unit")(wave(1, 6), wave(1, 2), wave(2, 6), None, activation=4)


def test_lstm_unit_step() -> None:
    """Gates in the order input, forget, output, candidate; the forget bias is added before the sigmoid."""
    x, c = np.array([[0.1, 0.2, 0.3, 0.4]]), np.array([[0.5]])
    cell, hidden = lookup("lstm_unit")(x, c, forget_bias=1.0)
    i, f, o = (1 / (1 + np.exp(-v)) for v in (0.1, 1.2, 0.3))
    np.testing.assert_allclose(cell, [[f * 0.5 + i * np.tanh(0.4)]], rtol=1e-12)
    np.testing.assert_allclose(hidden, o * np.tanh(cell), rtol=1e-12)


def test_lstm_unit_gradient(gradcheck: Callable[..., Any]) -> None:
    gradcheck("lstm_unit", {"X": wave(3, 8), "C_prev": wave(3, 2, k=1)}, {"forget_bias": 0.5}, rtol=1e-5)
    with pytest.raises(ValueError, match="four times as wide"):
        lookup("lstm_unit")(wave(3, 6), wave(3, 2))
