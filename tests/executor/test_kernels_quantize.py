"""Simulated and stored quantisation: rounding, scales in training and test, straight-through gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import oarlock.executor.kernels  # noqa: F401 - tells the registry how to find a type
import pytest
from oarlock.errors import KernelError
from oarlock.executor.plan import PlanRequest, compile_block
from oarlock.ir.desc import BlockDesc, OpDesc, ProgramDesc, VarDesc
from oarlock.ir.registry import lookup


def f32(*values: Any) -> np.ndarray:
    return np.array(values, np.float32)


# One step is 1 at scale 127: the ties show how halves are rounded.
TIES = f32(0.5, 1.5, 2.5, -0.5, -1.5, 126.5, 200.0, -200.0)


def quantized(**attrs: Any) -> list[float]:
    made = lookup("quantize_linear")(TIES, f32(127.0), f32(0.0), None, None, quant_axis=-1, **attrs)[0]
    assert made.dtype == np.float32
    return made.tolist()  # type: ignore[no-any-return]


def test_halves_go_to_even_and_the_range_has_one_more_negative_step() -> None:
    assert quantized() == [0, 2, 2, 0, -2, 126, 127, -128]


def test_halves_go_away_from_zero_within_the_scale() -> None:
    assert quantized(round_type=1) == [1, 2, 3, -1, -2, 127, 127, -127]


def test_half_away_is_exact_just_below_a_half() -> None:
    below = np.nextafter(np.float32(0.5), np.float32(0))
    made = lookup("quantize_linear")(f32(below), f32(127.0), None, None, None, quant_axis=-1, round_type=1)[0]
    assert made.tolist() == [0]


def test_bit_length_sets_the_steps() -> None:
    assert quantized(bit_length=4)[-2:] == [7, -8]
    assert quantized(qmax=15)[-2:] == [15, -16]
    with pytest.raises(ValueError, match=r"bit_length lies in 1\.\.16, got 17"):
        quantized(bit_length=17)
    with pytest.raises(ValueError, match="round_type is 0"):
        quantized(round_type=2)


def test_the_zero_point_is_not_read() -> None:
    made = lookup("quantize_linear")(TIES, f32(127.0), f32(5.0), None, None, quant_axis=-1)[0]
    assert made.tolist() == quantized()


def test_scales_lie_along_an_axis() -> None:
    x = np.arange(12, dtype=np.float32).reshape(2, 3, 2)
    rows = lookup("quantize_linear")(x, f32(5, 11), None, None, None, quant_axis=0)[0]
    assert rows[:, -1, -1].tolist() == [127, 127]
    columns = lookup("quantize_linear")(x, f32(7, 9, 11), None, None, None, quant_axis=1)[0]
    assert columns[1, :, 1].tolist() == [127, 127, 127]
    with pytest.raises(ValueError, match="Scale has 2 values, X has 3 channels along dimension 1"):
        lookup("quantize_linear")(x, f32(7, 9), None, None, None, quant_axis=1)
    with pytest.raises(ValueError, match="quant_axis is"):
        lookup("quantize_linear")(x, f32(7), None, None, None, quant_axis=2)


@pytest.mark.parametrize("stored", [np.int8, np.float32])
def test_dequantize_linear_takes_weights_stored_as_integers_or_floats(stored: Any) -> None:
    whole = np.array([[-127, 64], [127, 0]], stored)
    made = lookup("dequantize_linear")(whole, f32(1.5, 3.0), f32(0, 0), None, None, quant_axis=0)[0]
    np.testing.assert_allclose(made, f32([-1.5, 64 * 1.5 / 127], [3, 0]), rtol=1e-6)
    assert made.dtype == np.float32


def test_stored_weights_are_dequantised_once(run_op: Any) -> None:
    inputs = {"X": np.array([[-127, 64]], np.int8), "Scale": f32(1.5), "ZeroPoint": f32(0)}
    made = run_op("dequantize_linear", inputs, {"quant_axis": -1}, constants=list(inputs))
    again = run_op("dequantize_linear", inputs, {"quant_axis": -1})
    np.testing.assert_array_equal(made["Y"], again["Y"])
    with pytest.raises(KernelError, match=r"op 0 \(dequantize_linear\): quant_axis is -1"):
        run_op("dequantize_linear", inputs, {"quant_axis": 5}, constants=list(inputs))


def test_an_observer_lets_the_tensor_through() -> None:
    y, _, _, scale = lookup("quantize_linear")(TIES, f32(127.0), None, None, None, quant_axis=-1, only_observer=True)
    np.testing.assert_array_equal(y, TIES)
    assert scale.tolist() == [127]


def test_training_takes_the_scale_from_the_batch() -> None:
    x = f32([1, -4], [2, 3])
    y, _, _, scale = lookup("quantize_linear")(x, f32(9, 9), None, None, None, quant_axis=0, is_test=False)
    assert scale.tolist() == [4, 3] and y[:, 1].tolist() == [-127, 127]
    y, state, accum, scale = lookup("quantize_linear")(
        x, f32(9), None, f32(3), f32(2), quant_axis=-1, is_test=False, moving_rate=0.5
    )
    assert (state.tolist(), accum.tolist()) == ([2], [5.5])
    assert scale.tolist() == [2.75] and y[0, 1] == -128


# The running scale: state = 0.5 * 2 + 1, accum = 0.5 * 3 + 4, scale = accum / state.
MOVING: dict[str, Any] = {"moving_rate": 0.5}


@pytest.mark.parametrize(
    "type", ["fake_quantize_moving_average_abs_max", "fake_quantize_dequantize_moving_average_abs_max"]
)
def test_the_moving_average_scale(type: str) -> None:
    out, scale, state, accum = lookup(type)(f32(1, -4), f32(9), f32(3), f32(2), **MOVING)
    assert (scale.tolist(), state.tolist(), accum.tolist()) == ([2.75], [2], [5.5])
    step = 2.75 / 127 if "dequantize" in type else 1
    np.testing.assert_allclose(out, f32(46 * step, -127 * step), rtol=1e-6)
    out, scale, state, accum = lookup(type)(f32(1, -4), f32(8), f32(3), f32(2), is_test=True)
    assert (scale.tolist(), state.tolist(), accum.tolist()) == ([8], [2], [3])
    with pytest.raises(ValueError, match="training needs InAccum and InState"):
        lookup(type)(f32(1, -4), f32(9), None, None)


def test_a_scale_of_zero_does_not_divide_by_zero() -> None:
    out, scale = lookup("fake_quantize_dequantize_abs_max")(np.zeros((2, 3), np.float32))
    assert scale.tolist() == [0] and not out.any()


def test_an_empty_tensor_has_no_scale() -> None:
    with pytest.raises(ValueError, match="no element to take a scale from"):
        lookup("fake_quantize_abs_max")(np.zeros((0, 3), np.float32))


def run_with_held(type: str, held: dict[str, np.ndarray], inputs: dict[str, np.ndarray], attrs: dict[str, Any]) -> Any:
    """Run an op whose output slots ``held`` name variables that hold a value before."""
    outputs = {slot.name: [slot.name] for slot in lookup(type).outputs}
    op = OpDesc(type, {slot: [f"{slot}.in"] for slot in inputs}, outputs, attrs)
    names = [f"{slot}.in" for slot in inputs]
    block = BlockDesc(0, vars={name: VarDesc(name) for name in (*names, *outputs)}, ops=[op])
    request = PlanRequest((*names, *held), tuple(outputs))
    made = compile_block(ProgramDesc([block]), 0, request).run([*inputs.values(), *held.values()])
    return dict(zip(outputs, made, strict=True))


def test_range_scale_is_the_largest_of_the_window() -> None:
    """A window of three that held 5, 2, 4: the 5 falls out and the batch brings 3."""
    held = {"OutScales": f32(5, 2, 4)}
    inputs = {"X": f32(1, -3), "InScale": f32(5), "Iter": np.array([3], np.int64)}
    made = run_with_held("fake_quantize_range_abs_max", held, inputs, {"window_size": 3})
    assert made["OutScales"].tolist() == [3, 2, 4] and made["OutScale"].tolist() == [4]
    inputs["X"] = f32(1, -7)
    made = run_with_held("fake_quantize_range_abs_max", held, inputs, {"window_size": 3})
    assert made["OutScale"].tolist() == [7] and made["Out"].tolist() == [18, -127]
    tested = run_with_held("fake_quantize_range_abs_max", held, inputs, {"window_size": 3, "is_test": True})
    assert tested["OutScales"].tolist() == [5, 2, 4] and tested["OutScale"].tolist() == [5]


def test_channel_scales_of_a_test_program_come_from_their_variable() -> None:
    inputs, attrs = {"X": f32([1, -3], [2, 2])}, {"is_test": True, "round_type": 0}
    made = run_with_held("fake_channel_wise_quantize_abs_max", {"OutScale": f32(6, 4)}, inputs, attrs)
    assert made["OutScale"].tolist() == [6, 4] and made["Out"].tolist() == [[21, -64], [64, 64]]
    with pytest.raises(KernelError, match="is_test reads OutScale from its variable"):
        run_with_held("fake_channel_wise_quantize_abs_max", {}, inputs, attrs)


def test_a_scale_observer_in_test_mode_leaves_its_variables_alone() -> None:
    held = {"OutScale": f32(7), "OutState": f32(2), "OutAccum": f32(14)}
    made = run_with_held("moving_average_abs_max_scale", held, {"X": f32(1, 2)}, {"is_test": True})
    assert [made[slot].tolist() for slot in ("Out", "OutScale", "OutState", "OutAccum")] == [
        [1, 2],
        [7],
        [2],
        [14],
    ]


@pytest.mark.parametrize(
    ("type", "inputs"),
    [
        ("fake_quantize_dequantize_abs_max", {}),
        ("fake_channel_wise_quantize_dequantize_abs_max", {}),
        (
            "fake_quantize_dequantize_moving_average_abs_max",
            {"InScale": f32(2), "InAccum": f32(2), "InState": f32(1)},
        ),
        ("moving_average_abs_max_scale", {"InAccum": f32(2), "InState": f32(1)}),
    ],
)
def test_the_gradient_goes_straight_through(type: str, inputs: dict[str, Any], run_op: Any) -> None:
    x, cotangent = f32([0.3, -4], [2, 9]), f32([1, -2], [3, 0.5])
    made = run_op(type, {"X": x, **inputs}, {}, cotangents={"Out": cotangent})
    np.testing.assert_array_equal(made.gradients["X"], cotangent)


def test_whole_steps_have_no_gradient() -> None:
    for type in ("fake_quantize_abs_max", "quantize_linear", "dequantize_linear"):
        assert not lookup(type).differentiable


def test_dequantize_after_a_matmul_takes_both_scales() -> None:
    x = np.full((2, 2), 127.0 * 127, np.float32)
    made = lookup("fake_channel_wise_dequantize_max_abs")(x, [f32(2, 3), f32(4)], quant_bits=[8, 8])
    np.testing.assert_allclose(made, f32([8, 12], [8, 12]), rtol=1e-6)
    with pytest.raises(ValueError, match="one or two entries"):
        lookup("fake_channel_wise_dequantize_max_abs")(x, [f32(2, 3)] * 3, quant_bits=[8, 8])


def test_logarithmic_codes_mirror_the_table() -> None:
    table = np.arange(128, dtype=np.float32)
    made = lookup("dequantize_log")(np.array([[0, 5, -128, -1]], np.int8), table)
    assert made.tolist() == [[0, 5, 0, -127]]


def test_stored_integers_saturate_and_round_half_to_even() -> None:
    x = f32(0.5, 1.5, 300, -300)
    signed = lookup("quantize")(x, is_negative_input=True)
    assert signed.tolist() == [0, 2, 127, -128] and signed.dtype == np.int8
    assert lookup("quantize")(x).tolist() == [0, 2, 255, 0]
    shifted = lookup("quantize")(x, is_negative_input=True, Scale=2.0, Shift=128.0)
    assert shifted.tolist() == [129, 131, 255, 0] and shifted.dtype == np.uint8
    assert lookup("quantize")(x, bfloat16=True).dtype.name == "bfloat16"
    with pytest.raises(ValueError, match="a bfloat16 output takes no shift"):
        lookup("quantize")(x, bfloat16=True, Shift=1.0)
    np.testing.assert_array_equal(lookup("dequantize")(shifted, Scale=2.0, Shift=128.0), f32(0.5, 1.5, 63.5, -64))
    again = lookup("requantize")(signed, Scale_in=2.0, Scale_out=5.0, Shift_in=0.0, Shift_out=0.0)
    assert again.tolist() == [0, 5, 127, -128]
    with pytest.raises(ValueError, match="takes an input of uint8"):
        lookup("requantize")(signed)


def test_quantised_linear_undoes_both_scales() -> None:
    """Weights 1 and -0.5 stored in steps of 1 / 127; x is 1 and 0.5 of its scale."""
    weights = np.array([[127, 64], [-64, 127]], np.int8)
    x = f32([[2.0, 1.0]])
    made = lookup("quant_linear")(x.reshape(1, 2), weights, f32(0.5, -5), scale_in=0.5, scale_weights=[1.0, 2.0])
    exact = (np.array([127, 64]) @ weights.astype(int)) / (127 * 127 * 0.5 * np.array([1, 2]))
    np.testing.assert_allclose(made, [exact + np.array([0.5, -5])], rtol=1e-6)
    relu = lookup("quant_linear")(
        x.reshape(1, 2), weights, f32(0.5, -5), scale_in=0.5, scale_weights=[1.0, 2.0], activation_type="relu"
    )
    assert relu[0, 1] == 0 and relu[0, 0] == made[0, 0]
