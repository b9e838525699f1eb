"""The ``rnn`` and ``cudnn_lstm`` operators: numbers of PaddlePaddle 2.6.2, lengths, dropout, gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import oarlock.executor.kernels  # noqa: F401  (declares the operators)
import pytest
from oarlock.executor.random import set_seed
from oarlock.ir.registry import lookup

GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}


def wave(*shape: int, k: float = 0) -> Any:
    return np.sin(np.arange(int(np.prod(shape))) * 0.7 + k).reshape(shape)


def weights(mode: str, width: int, hidden: int, layers: int, directions: int, scale: float = 1.0) -> list[Any]:
    """A WeightList; the numbers of the first layer are those the goldens were made with."""
    rows, k = GATES[mode] * hidden, 1
    matrices: list[Any] = []
    biases: list[Any] = []
    for layer in range(layers):
        for _ in range(directions):
            below = width if layer == 0 else hidden * directions
            matrices += [scale * wave(rows, below, k=k), scale * wave(rows, hidden, k=k + 1)]
            biases += [scale * wave(rows, k=k + 2), scale * wave(rows, k=k + 3)]
            k += 4
    return matrices + biases


def states(mode: str, layers: int, directions: int, batch: int, hidden: int, k: float = 10) -> list[Any]:
    shape = (layers * directions, batch, hidden)
    first = [wave(*shape, k=k - 1)]
    return [*first, wave(*shape, k=k)] if mode == "LSTM" else first


def numbers(text: str) -> list[float]:
    return [float(each) for each in text.split()]


GOLDEN = {
    "LSTM": (
        numbers("""
        0.168429492 -0.021505778 -0.238299456 -0.452575133 0.386899673 0.113217809 0.044131576
        -0.508965032 0.021263856 0.136640426 -0.132179324 -0.375761517 0.099289201 0.108221186
        0.02876856 -0.061415693 0.001872495 0.105231682 -0.06160162 -0.125868658 0 0 0 0
        """),
        numbers("""
        0.284261887 0.428171254 0.320177246 0.338755508 0.000713015 0.181484581 -0.424115196
        -0.465315919 -0.076841899 -0.000669851 0 0
        """),
    ),
    "GRU": (
        numbers("""
        0.293501109 0.532888629 -0.500487441 -0.797057959 0.707544681 0.879203965 0.206505413
        -0.736822117 -0.051375062 0.446245915 -0.390171296 -0.677138244 -0.552169279 0.218065303
        0.283013045 -0.41978414 -0.337559308 0.009938954 -0.259073572 -0.521562824 0 0 0 0
        """),
        numbers("""
        1.9018557 2.31578661 0.533849894 0.586548552 1.6861212 1.885848964 -1.403611723 -1.230445972
        0.395645844 0.516652708 0 0
        """),
    ),
    "RNN_TANH": (
        numbers("""
        0.02316138 -0.905683943 0.893061339 0.999210001 0.789295099 -0.679525302 0.220463834
        0.999260934 -0.780898685 -0.524763696 0.924277628 0.99671895 -0.955899169 -0.947319833
        0.9952779 0.682285912 -0.96831494 -0.868392242 0.97769431 0.920121829 0 0 0 0
        """),
        numbers("""
        0.897205779 1.083868694 -0.231883685 -0.108122107 0.599153502 0.338803531 0.22160704
        0.62624165 0.196623159 0.167365316 0 0
        """),
    ),
    "RNN_RELU": (
        numbers("""
        0.023165523 0 2.883471407 8.341994724 1.06955922 0 0 5.920451634 0 0 1.535358972 4.991704129
        0 0 3.023142461 0.833378463 0 0 2.242422576 1.589820652 0 0 0 0
        """),
        numbers("""
        -0.000904085 1.169948308 0.95802019 1.720633851 -1.276004952 0.83939072 -1.591128192
        0.390397587 -2.110192129 1.409050509 0 0
        """),
    ),
}
"""Out and Input@GRAD for ones, of PaddlePaddle 2.6.2, see :func:`golden_case`."""


def golden_case(mode: str) -> tuple[list[Any], dict[str, Any]]:
    """Three steps, two sequences of lengths 3 and 2, two directions, hidden size 2."""
    first = states(mode, 1, 2, 2, 2)
    first[0] = np.zeros_like(first[0])
    inputs = [wave(3, 2, 2), first, weights(mode, 2, 2, 1, 2), np.array([3, 2], np.int32)]
    return inputs, {"mode": mode, "is_bidirec": True, "hidden_size": 2}


@pytest.mark.parametrize("mode", GOLDEN)
def test_two_directions_with_lengths_as_paddle(mode: str) -> None:
    inputs, attrs = golden_case(mode)
    out, mask, last, reserve = lookup("rnn")(*inputs, **attrs)
    want_out, want_grad = GOLDEN[mode]
    np.testing.assert_allclose(out.reshape(-1), want_out, atol=2e-9)
    assert mask.dtype == np.uint8 and mask.shape == out.shape and mask.all()
    d_x, _, _ = lookup("rnn_grad")(*inputs, out, mask, reserve, np.ones_like(out), [None] * len(last), **attrs)
    np.testing.assert_allclose(d_x.reshape(-1), want_grad, atol=2e-8)


@pytest.mark.parametrize("mode", GOLDEN)
def test_states_are_taken_at_the_length_and_tails_are_zero(mode: str) -> None:
    x, weight = wave(4, 2, 3), weights(mode, 3, 3, 1, 2)
    first = states(mode, 1, 2, 2, 3)
    attrs = {"mode": mode, "is_bidirec": True, "hidden_size": 3, "is_test": True}
    out, mask, last, reserve = lookup("rnn")(x, first, weight, np.array([2, 4], np.int32), **attrs)
    assert out.shape == (4, 2, 6) and mask is None and reserve is None
    alone, _, last_alone, _ = lookup("rnn")(x[:2, :1], [s[:, :1] for s in first], weight, None, **attrs)
    np.testing.assert_allclose(out[:2, :1], alone, atol=1e-12)
    assert not out[2:, 0].any()
    for state, state_alone in zip(last, last_alone, strict=True):
        np.testing.assert_allclose(state[:, :1], state_alone, atol=1e-12)
    np.testing.assert_array_equal(last[0][0, 0], out[1, 0, :3])
    np.testing.assert_array_equal(last[0][1, 0], out[0, 0, 3:])


def test_second_direction_is_the_reversed_run() -> None:
    x, weight = wave(4, 2, 3), weights("LSTM", 3, 3, 1, 2)
    first = states("LSTM", 1, 2, 2, 3)
    out, _, last, _ = lookup("rnn")(x, first, weight, None, mode="LSTM", is_bidirec=True, hidden_size=3, is_test=True)
    mirrored, _, ends, _ = lookup("rnn")(
        x[::-1],
        [s[1:] for s in first],
        [weight[2], weight[3], weight[6], weight[7]],
        None,
        mode="LSTM",
        hidden_size=3,
        is_test=True,
    )
    np.testing.assert_allclose(out[..., 3:], mirrored[::-1], atol=1e-12)
    np.testing.assert_allclose(last[1][1:], ends[1], atol=1e-12)


@pytest.mark.parametrize("mode", GOLDEN)
@pytest.mark.parametrize(("layers", "directions"), [(1, 1), (1, 2), (2, 2)])
@pytest.mark.parametrize("length", [None, [3, 1, 2]])
def test_gradient(
    gradcheck: Callable[..., Any], mode: str, layers: int, directions: int, length: list[int] | None
) -> None:
    first = states(mode, layers, directions, 3, 2)
    if length is not None and directions == 2:  # see test_reversed_first_state_follows_paddle
        first = [0 * state for state in first]
    inputs: dict[str, Any] = {
        "Input": wave(3, 3, 2, k=0.3),
        "PreState": first,
        "WeightList": weights(mode, 2, 2, layers, directions, scale=0.6),
    }
    if length is not None:
        inputs["SequenceLength"] = np.array(length, np.int32)
    gradcheck(
        "rnn",
        inputs,
        {"mode": mode, "num_layers": layers, "is_bidirec": directions == 2, "hidden_size": 2},
        counts={"State": len(first)},
        rtol=1e-5,
    )


def test_reversed_first_state_follows_paddle() -> None:
    """Where padding precedes a reversed run, Paddle's recurrent weight gradient sees a zero first state."""
    x, weight = wave(2, 1, 2), weights("RNN_TANH", 2, 2, 1, 2)
    first = [wave(2, 1, 2, k=9)]
    attrs = {"mode": "RNN_TANH", "is_bidirec": True, "hidden_size": 2}
    length = np.array([1], np.int32)
    out, mask, _, reserve = lookup("rnn")(x, first, weight, length, **attrs)
    _, _, grads = lookup("rnn_grad")(x, first, weight, length, out, mask, reserve, np.ones_like(out), [None], **attrs)
    assert grads[1].any(), "the forward direction sees its first state"
    assert not grads[3].any()


def test_dropout_between_layers_uses_one_mask_and_scales() -> None:
    set_seed(5)
    x, weight = wave(4, 3, 2), weights("GRU", 2, 4, 2, 1)
    first = states("GRU", 2, 1, 3, 4)
    attrs = {"mode": "GRU", "num_layers": 2, "hidden_size": 4, "dropout_prob": 0.4, "seed": 3}
    out, mask, _, _ = lookup("rnn")(x, first, weight, None, **attrs)
    again, mask_again, _, _ = lookup("rnn")(x, first, weight, None, **attrs)
    np.testing.assert_array_equal(mask, mask_again)
    np.testing.assert_array_equal(out, again)
    assert 0 < mask.mean() < 1 and mask.shape == out.shape
    below, _, _, _ = lookup("rnn")(
        x, [first[0][:1]], weight[:2] + weight[4:6], None, mode="GRU", hidden_size=4, is_test=True
    )
    above, _, _, _ = lookup("rnn")(
        below * mask / 0.6,
        [first[0][1:]],
        weight[2:4] + weight[6:8],
        None,
        mode="GRU",
        hidden_size=4,
        is_test=True,
    )
    np.testing.assert_allclose(out, above, atol=1e-6)
    off, _, _, _ = lookup("rnn")(x, first, weight, None, **{**attrs, "is_test": True})
    assert np.abs(off - out).max() > 1e-3


def test_dropout_gradient(gradcheck: Callable[..., Any]) -> None:
    gradcheck(
        "rnn",
        {
            "Input": wave(3, 2, 2),
            "PreState": states("LSTM", 2, 2, 2, 2),
            "WeightList": weights("LSTM", 2, 2, 2, 2),
        },
        {
            "mode": "LSTM",
            "num_layers": 2,
            "is_bidirec": True,
            "hidden_size": 2,
            "dropout_prob": 0.3,
            "seed": 7,
        },
        counts={"State": 2},
        rtol=1e-5,
    )


@pytest.mark.parametrize("mode", GOLDEN)
def test_prepared_weights_give_the_same(mode: str) -> None:
    weight = [w.astype(np.float32) for w in weights(mode, 3, 4, 2, 2)]
    first = [s.astype(np.float32) for s in states(mode, 2, 2, 2, 4)]
    attrs = {"mode": mode, "num_layers": 2, "is_bidirec": True, "hidden_size": 4, "is_test": True}
    prepare = lookup("rnn").preparer
    assert prepare is not None and prepare({}, **attrs) is None
    assert prepare({"WeightList": weight}, **{**attrs, "is_test": False}) is None
    run = prepare({"WeightList": weight}, **attrs)
    assert run is not None
    x = wave(5, 2, 3).astype(np.float32)
    for length in (None, np.array([5, 3], np.int32)):
        out, _, last, _ = run(x, first, weight, length)
        want, _, want_last, _ = lookup("rnn")(x, first, weight, length, **attrs)
        np.testing.assert_array_equal(out, want)
        assert out.dtype == np.float32 and all(a.dtype == np.float32 for a in last)
        np.testing.assert_array_equal(last[0], want_last[0])


def test_half_precision_keeps_its_dtype() -> None:
    weight = [w.astype(np.float16) for w in weights("LSTM", 3, 4, 1, 1)]
    first = [s.astype(np.float16) for s in states("LSTM", 1, 1, 2, 4)]
    out, _, last, _ = lookup("rnn")(
        wave(5, 2, 3).astype(np.float16), first, weight, None, mode="LSTM", hidden_size=4, is_test=True
    )
    assert out.dtype == np.float16 and last[1].dtype == np.float16


def test_nothing_that_nobody_reads_is_kept() -> None:
    inputs, attrs = golden_case("GRU")
    *_, reserve = lookup("rnn")(*inputs, **attrs, want=frozenset({"Out"}))
    assert reserve is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"mode": "LSTMX"}, "mode is 'LSTMX'"),
        ({"num_layers": 2}, "WeightList has 8 tensors"),
        ({"hidden_size": 3}, "WeightList\\[1\\] has shape"),
    ],
)
def test_what_does_not_fit_is_refused(change: dict[str, Any], message: str) -> None:
    inputs, attrs = golden_case("LSTM")
    with pytest.raises(ValueError, match=message):
        lookup("rnn")(*inputs, **{**attrs, **change})


def test_wrong_inputs_are_refused() -> None:
    (x, first, weight, length), attrs = golden_case("LSTM")
    with pytest.raises(ValueError, match="Input must have shape \\[time, batch, 2\\]"):
        lookup("rnn")(wave(3, 2, 5), first, weight, length, **attrs)
    with pytest.raises(ValueError, match="PreState must be 2 tensor"):
        lookup("rnn")(x, first[:1], weight, length, **attrs)
    with pytest.raises(ValueError, match="SequenceLength has 3 entries"):
        lookup("rnn")(x, first, weight, np.array([1, 2, 3], np.int32), **attrs)


def test_cudnn_lstm_is_the_same_lstm(gradcheck: Callable[..., Any]) -> None:
    x, weight = wave(3, 2, 2), weights("LSTM", 2, 3, 2, 2)
    h, c = states("LSTM", 2, 2, 2, 3)
    attrs = {"num_layers": 2, "is_bidirec": True, "hidden_size": 3}
    out, _, (last_h, last_c), _ = lookup("rnn")(x, [h, c], weight, None, mode="LSTM", **attrs)
    flat = np.concatenate([w.reshape(-1) for w in weight])
    for w, weight_list in ((flat, []), (None, weight)):
        _, _, got, got_h, got_c = lookup("cudnn_lstm")(x, h, c, w, weight_list, None, **attrs)
        np.testing.assert_array_equal(got, out)
        np.testing.assert_array_equal(got_h, last_h)
        np.testing.assert_array_equal(got_c, last_c)
    with pytest.raises(ValueError, match="one of W and WeightList"):
        lookup("cudnn_lstm")(x, h, c, None, [], None, **attrs)
    gradcheck("cudnn_lstm", {"Input": x, "InitH": h, "InitC": c, "WeightList": weight}, attrs, rtol=1e-5)
