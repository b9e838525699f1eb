"""Simulated and real quantisation: fake_quantize_*, quantize_linear and the dequantising operators.

A scale is the largest magnitude of a tensor or of a channel; ``bit_length`` bits give ``2 ** (bits - 1) - 1``
steps up to it. The gradient of a simulated quantiser is straight through.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...ir.registry import REQUIRED, Operator, define, operator
from ..environment import Env
from ..values import Array, array_of

__all__ = [
    "dequantize_abs_max",
    "dequantize_linear",
    "dequantize_log",
    "fake_channel_wise_dequantize_max_abs",
    "fake_dequantize_max_abs",
    "moving_average_abs_max_scale",
    "quantize_linear",
]

_TINY_SCALE = 1e-30
"""A scale at most this large is taken as zero and kept from division by :data:`_EPSILON`."""
_EPSILON = 1e-6


def _steps(bit_length: int, qmax: int | None = None) -> int:
    """The steps up to the scale. Where an op of Paddle 3.x states ``qmax``, that is their number."""
    if qmax is not None:
        return qmax
    if not 1 <= bit_length <= 16:
        raise ValueError(f"bit_length lies in 1..16, got {bit_length}")
    return int(2 ** (bit_length - 1) - 1)


def _abs_max(x: Array) -> Array:
    if not x.size:
        raise ValueError(f"X of shape {list(x.shape)} has no element to take a scale from")
    return np.asarray(np.abs(x).max()).reshape(1)


def _channel_abs_max(x: Array, axis: int) -> Array:
    if axis not in (0, 1) or axis >= x.ndim:
        raise ValueError(f"quant_axis is 0 or 1 and a dimension of X {list(x.shape)}, got {axis}")
    others = tuple(dim for dim in range(x.ndim) if dim != axis)
    return np.asarray(np.abs(x).max(axis=others))


def _along(scale: Array, x: Array, axis: int) -> Array:
    """``scale`` shaped to broadcast against ``x``: per channel of ``axis``, or one for all (``axis`` < 0)."""
    if axis < 0:
        return scale.reshape(-1)[:1].reshape((1,) * x.ndim).astype(x.dtype, copy=False)
    if axis not in (0, 1) or axis >= x.ndim:
        raise ValueError(f"quant_axis is -1, 0 or 1 and a dimension of X {list(x.shape)}, got {axis}")
    if scale.size != x.shape[axis]:
        raise ValueError(f"Scale has {scale.size} values, X has {x.shape[axis]} channels along dimension {axis}")
    return scale.reshape((-1, *(1,) * (x.ndim - axis - 1))).astype(x.dtype, copy=False)


def _quantized(x: Array, scale: Array, steps: int, round_type: int) -> Array:
    """Whole steps, in the dtype of ``x``.

    ``round_type`` 0 rounds half to even and then clips to ``[-steps - 1, steps]``; 1 clips to the scale and then
    rounds half away from zero.
    """
    safe = np.where(scale <= _TINY_SCALE, scale + x.dtype.type(_EPSILON), scale)
    inverse = x.dtype.type(1) / safe
    if round_type == 0:
        made: Array = np.asarray(np.rint(x.dtype.type(steps) * inverse * x))
        np.clip(made, -steps - 1, steps, out=made)
        return made
    if round_type != 1:
        raise ValueError(f"round_type is 0 (half to even) or 1 (half away from zero), got {round_type}")
    made = np.minimum(np.maximum(x, -scale), scale)
    made *= x.dtype.type(steps) * inverse
    whole: Array = np.trunc(made)
    whole += np.copysign(np.abs(made - whole) >= 0.5, made)
    return whole


def _dequantized(whole: Array, scale: Array, steps: int) -> Array:
    return np.asarray(whole * scale / whole.dtype.type(steps))


def _moving(x: Array, accum: Array | None, state: Array | None, rate: float) -> tuple[Array, Array, Array]:
    """Scale, state and accumulator ``[1]`` after this batch: a mean of the batch scales, the latest weighing most."""
    if accum is None or state is None:
        raise ValueError("training needs InAccum and InState")
    factor = np.float32(rate)
    state_out = (factor * state + 1).astype(x.dtype, copy=False)
    accum_out = (factor * accum + _abs_max(x)).astype(x.dtype, copy=False)
    return accum_out / state_out, state_out, accum_out


# straight through


@operator("stright_throuth_estimator_grad", inputs="Out@GRAD", outputs="X@GRAD", gradient=None)
def straight_through_grad(d_out: Array) -> Array:
    """``X@GRAD = Out@GRAD``; the spelling of the type is Paddle's."""
    return d_out


def _straight_through(made: Operator) -> Operator:
    made.gradient_op("stright_throuth_estimator_grad", takes="Out@GRAD", gives="X@GRAD")
    return made


# per tensor, from this batch


def _whole_steps(x: Array, scale: Array, axis: int, bit_length: int, round_type: int, back: bool) -> Array:
    """Quantised, and dequantised again when ``back``."""
    steps, wide = _steps(bit_length), _along(scale, x, axis)
    whole = _quantized(x, wide, steps, round_type)
    return _dequantized(whole, wide, steps) if back else whole


def _abs_max_kernel(back: bool) -> Any:
    def kernel(x: Array, *, bit_length: int = 8, round_type: int = 1) -> tuple[Array, Array]:
        scale = _abs_max(x)
        return _whole_steps(x, scale, -1, bit_length, round_type, back), scale

    return kernel


define("fake_quantize_abs_max", _abs_max_kernel(False), inputs="X", outputs="Out OutScale", gradient=None)
_straight_through(define("fake_quantize_dequantize_abs_max", _abs_max_kernel(True), inputs="X", outputs="Out OutScale"))


# per channel, from this batch


@operator("fake_channel_wise_quantize_abs_max", inputs="X", outputs="Out OutScale", gradient=None)
def fake_channel_wise_quantize_abs_max(
    x: Any, *, quant_axis: int = 0, bit_length: int = 8, is_test: bool = False, round_type: int = 1, env: Env
) -> tuple[Array, Array]:
    """Whole steps per channel. In test mode the scales are those that the variable of OutScale holds already."""
    array = array_of(x)
    scale = array_of(_held(env, "OutScale")) if is_test else _channel_abs_max(array, quant_axis)
    return _whole_steps(array, scale, quant_axis, bit_length, round_type, False), scale


def _held(env: Env, slot: str) -> Any:
    """The value that the variable of an output slot has before the op runs."""
    values = env.outputs(slot)
    if not values or values[0] is None:
        raise ValueError(f"is_test reads {slot} from its variable, which holds no value")
    return values[0]


@operator("fake_channel_wise_quantize_dequantize_abs_max", inputs="X", outputs="Out OutScale")
def fake_channel_wise_quantize_dequantize_abs_max(
    x: Array, *, quant_axis: int = 0, bit_length: int = 8, round_type: int = 1
) -> tuple[Array, Array]:
    """Quantised and dequantised per channel; the scales ``[channels]``."""
    scale = _channel_abs_max(x, quant_axis)
    return _whole_steps(x, scale, quant_axis, bit_length, round_type, True), scale


_straight_through(fake_channel_wise_quantize_dequantize_abs_max)


# per tensor, with a running scale


def _moving_average_kernel(back: bool) -> Any:
    def kernel(
        x: Array,
        in_scale: Array,
        in_accum: Array | None,
        in_state: Array | None,
        *,
        moving_rate: float = 0.9,
        bit_length: int = 8,
        is_test: bool = False,
        round_type: int = 1,
    ) -> tuple[Array, Array, Array | None, Array | None]:
        if is_test:
            scale, state, accum = in_scale, in_state, in_accum
        else:
            scale, state, accum = _moving(x, in_accum, in_state, moving_rate)
        return _whole_steps(x, scale, -1, bit_length, round_type, back), scale, state, accum

    return kernel


_RUNNING_IN, _RUNNING_OUT = "X InScale InAccum? InState?", "Out OutScale OutState OutAccum"
define(
    "fake_quantize_moving_average_abs_max",
    _moving_average_kernel(False),
    inputs=_RUNNING_IN,
    outputs=_RUNNING_OUT,
    gradient=None,
)
_straight_through(
    define(
        "fake_quantize_dequantize_moving_average_abs_max",
        _moving_average_kernel(True),
        inputs=_RUNNING_IN,
        outputs=_RUNNING_OUT,
    )
)


@operator("moving_average_abs_max_scale", inputs="X InAccum? InState?", outputs="Out OutScale OutState OutAccum")
def moving_average_abs_max_scale(
    x: Any, in_accum: Any, in_state: Any, *, moving_rate: float = 0.9, is_test: bool = False, env: Env
) -> tuple[Any, ...]:
    """``Out = X``; the running scale moves on, except in test mode, where its variables keep what they hold."""
    if is_test:
        return (x, *((env.outputs(slot) or [None])[0] for slot in ("OutScale", "OutState", "OutAccum")))
    accum, state = (None if each is None else array_of(each) for each in (in_accum, in_state))
    return (x, *_moving(array_of(x), accum, state, moving_rate))


_straight_through(moving_average_abs_max_scale)


@operator("fake_quantize_range_abs_max", inputs="X InScale Iter?", outputs="Out OutScale OutScales", gradient=None)
def fake_quantize_range_abs_max(
    x: Any,
    in_scale: Any,
    iteration: Any,
    *,
    window_size: int = 10000,
    bit_length: int = 8,
    is_test: bool = False,
    round_type: int = 1,
    env: Env,
) -> tuple[Array, Array, Any]:
    """Whole steps under the largest scale of the last ``window_size`` batches.

    The variable of OutScales ``[window_size]`` holds the scales of the window between runs.
    """
    array, scale = array_of(x), array_of(in_scale)
    held = (env.outputs("OutScales") or [None])[0]
    if is_test:
        return _whole_steps(array, scale, -1, bit_length, round_type, False), scale, held
    if iteration is None:
        raise ValueError("training needs Iter")
    window = np.zeros(window_size, array.dtype) if held is None else array_of(held).copy()
    scale = _window_scale(window, int(array_of(iteration).reshape(-1)[0]), _abs_max(array), scale.reshape(1))
    return _whole_steps(array, scale, -1, bit_length, round_type, False), scale, window


def _window_scale(window: Array, iteration: int, current: Array, last: Array) -> Array:
    """Put the current scale in its place of the window; the largest scale that still counts."""
    place = iteration % window.size
    removed = window[place]
    window[place] = current[0]
    if last[0] < current[0]:
        return current
    if abs(removed - last[0]) < 1e-6:
        counted = window[: min(iteration, window.size)]
        return _abs_max(counted) if counted.size else current
    return last


# quantize_linear and its inverse


def _check_linear(scale: Array | None, axis: int) -> Array:
    if axis not in (-1, 0, 1):
        raise ValueError(f"quant_axis is -1 (one scale), 0 or 1, got {axis}")
    if scale is None:
        raise ValueError("Scale has no value")
    return scale


@operator(
    "quantize_linear",
    inputs="X Scale ZeroPoint? InAccum? InState?",
    outputs="Y OutState OutAccum OutScale",
    ignores="qmin",
    gradient=None,
)
def quantize_linear(
    x: Array,
    scale: Array,
    zero_point: Array | None,
    in_accum: Array | None,
    in_state: Array | None,
    *,
    quant_axis: int = 0,
    bit_length: int = 8,
    round_type: int = 0,
    is_test: bool = True,
    only_observer: bool = False,
    moving_rate: float = 0.9,
    qmax: int | None = None,
) -> tuple[Array, Array | None, Array | None, Array]:
    """Whole steps in the dtype of X, symmetric: Paddle's kernels do not read ``ZeroPoint``.

    In training the scale comes from X: of each channel, or the moving average for one scale. With
    ``only_observer`` X passes through and only the scale is taken.
    """
    used, state, accum = _check_linear(scale, quant_axis), in_state, in_accum
    if not is_test and quant_axis < 0:
        used, state, accum = _moving(x, in_accum, in_state, moving_rate)
    elif not is_test:
        used = _channel_abs_max(x, quant_axis)
    if only_observer:
        return x, state, accum, used
    return (
        _quantized(x, _along(used, x, quant_axis), _steps(bit_length, qmax), round_type),
        state,
        accum,
        used,
    )


@operator(
    "dequantize_linear",
    inputs="X Scale ZeroPoint? InAccum? InState?",
    outputs="Y OutState OutAccum OutScale",
    ignores="round_type is_test moving_rate qmin",
    gradient=None,
)
def dequantize_linear(
    x: Array,
    scale: Array,
    zero_point: Array | None,
    in_accum: Array | None,
    in_state: Array | None,
    *,
    quant_axis: int = 0,
    bit_length: int = 8,
    only_observer: bool = False,
    qmax: int | None = None,
) -> tuple[Array, Array | None, Array | None, Array]:
    """``X * scale / steps`` in the dtype of the scale; X may be stored as int8 or as floats of whole numbers."""
    used = _check_linear(scale, quant_axis)
    wide = x.astype(used.dtype if x.dtype.kind in "iu" else x.dtype, copy=False)
    if only_observer:
        return wide, in_state, in_accum, used
    whole = _dequantized(wide, _along(used, wide, quant_axis), _steps(bit_length, qmax))
    return whole, in_state, in_accum, used


@dequantize_linear.prepare
def _stored_weights(constants: Mapping[str, Any], **attrs: Any) -> Callable[..., Any] | None:
    """Weights stored as integers become floats once, not at every run."""
    if "X" not in constants or "Scale" not in constants:
        return None
    try:
        made = dequantize_linear(constants["X"], constants["Scale"], None, None, None, **attrs)
    except ValueError:
        return None  # the run refuses it, and tells where
    return lambda *arrays: made


# other inverses


@operator("fake_dequantize_max_abs", inputs="X Scale", outputs="Out", gradient=None)
def fake_dequantize_max_abs(x: Array, scale: Array, *, max_range: float = REQUIRED) -> Array:
    """``X * scale / max_range``."""
    return np.asarray(x * scale.reshape(-1)[0] / x.dtype.type(max_range))


@operator("fake_channel_wise_dequantize_max_abs", inputs="X Scales*", outputs="Out", gradient=None)
def fake_channel_wise_dequantize_max_abs(
    x: Array,
    scales: list[Array],
    *,
    quant_bits: Sequence[int] = (8,),
    quant_axis: int = 0,
    x_num_col_dims: int = 1,
) -> Array:
    """``X * scale / steps`` per channel.

    One scale list: weights, channels along ``quant_axis``. Two: the output of a quantised matmul, whose channels
    lie along ``x_num_col_dims``, times the single scale of its input.
    """
    steps = np.prod([_steps(bits) for bits in quant_bits], dtype=np.int64)
    if len(scales) == 1:
        return _dequantized(x, _along(scales[0], x, quant_axis), int(steps))
    if len(scales) != 2 or len(quant_bits) != 2:
        raise ValueError(f"Scales and quant_bits hold one or two entries, got {len(scales)} and {len(quant_bits)}")
    channels = scales[0].reshape((-1, *(1,) * (x.ndim - x_num_col_dims - 1)))
    return np.asarray(x * channels * scales[1].reshape(-1)[0] / x.dtype.type(steps))


@operator("dequantize_abs_max", inputs="X Scale", outputs="Out", gradient=None)
def dequantize_abs_max(x: Array, scale: Array, *, max_range: float = REQUIRED) -> Array:
    """Integers to float32: ``scale * X / max_range``."""
    return np.asarray(scale.reshape(-1)[0] * x.astype(np.float32) / np.float32(max_range))


@operator("dequantize_log", inputs="X Dict", outputs="Out", gradient=None)
def dequantize_log(x: Array, table: Array) -> Array:
    """int8 codes to values of the table ``[128]``; a negative code ``c`` stands for minus entry ``c + 128``."""
    codes = x.astype(np.int64)
    return np.where(codes < 0, -table[codes + np.where(codes < 0, 128, 0)], table[codes * (codes >= 0)])
