"""Operators of exports that store real integers: oneDNN's quantise, dequantise, requantise, and the int8 linear."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ir import dtypes
from ...ir.registry import operator
from ..values import Array

__all__ = ["dequantize", "quant_linear", "quantize", "requantize"]


def _saturated(values: Array, dtype: Any) -> Array:
    """Rounded half to even and clipped into an integer dtype."""
    limits = np.iinfo(dtype)
    rounded: Array = np.rint(values).clip(limits.min, limits.max).astype(dtype)
    return rounded


@operator("quantize", inputs="Input", outputs="Output", ignores="output_format", gradient=None)
def quantize(
    x: Array,
    *,
    is_negative_input: bool = False,
    Scale: float = 1.0,
    Shift: float = 0.0,
    bfloat16: bool = False,
) -> Array:
    """``x * Scale + Shift`` as bfloat16, as int8 where the input may be negative and is not shifted, else uint8."""
    scaled = x * np.float32(Scale)
    if bfloat16:
        if Shift:
            raise ValueError(f"Shift is {Shift}, a bfloat16 output takes no shift")
        return np.asarray(scaled, dtypes.bfloat16())
    return _saturated(scaled + np.float32(Shift), np.int8 if is_negative_input and not Shift else np.uint8)


@operator("dequantize", inputs="Input", outputs="Output", gradient=None)
def dequantize(x: Array, *, Scale: float = 1.0, Shift: float = 0.0) -> Array:
    """``(x - Shift) / Scale`` as float32."""
    if Shift and x.dtype.kind not in "iu":
        raise ValueError(f"Shift is {Shift}, an input of {x.dtype} takes no shift")
    return np.asarray((x.astype(np.float32) - np.float32(Shift)) * (np.float32(1) / np.float32(Scale)))


@operator("requantize", inputs="Input", outputs="Output", gradient=None)
def requantize(
    x: Array, *, Scale_in: float = 1.0, Scale_out: float = 1.0, Shift_in: float = 1.0, Shift_out: float = 1.0
) -> Array:
    """From one scale and shift to another. With a shift the output is uint8, else it keeps the dtype.

    The new shift ``Shift_out - Scale_out / Scale_in * Shift_in`` is itself held in uint8.
    """
    if Shift_in and x.dtype != np.uint8:
        raise ValueError(f"Shift_in is {Shift_in}, which takes an input of uint8, got {x.dtype}")
    factor = np.float32(Scale_out) / np.float32(Scale_in)
    shift = np.rint(np.float32(Shift_out) - factor * np.float32(Shift_in)).clip(0, 255)
    scaled = x.astype(np.float32) * factor
    dtype = np.dtype(np.uint8) if Shift_in or Shift_out else x.dtype
    return _saturated(scaled + shift, dtype) if dtype.kind in "iu" else scaled.astype(dtype)


def _rounded(values: Array, round_type: int) -> Array:
    """Half to even (0) or half away from zero (1)."""
    if round_type == 0:
        return np.asarray(np.rint(values))
    return np.asarray(np.copysign(np.floor(np.abs(values) + values.dtype.type(0.5)), values))


@operator("quant_linear", inputs="x w bias?", outputs="out", refuse={"padding_weights": False}, gradient=None)
def quant_linear(
    x: Array,
    w: Array,
    bias: Array | None,
    *,
    in_num_col_dims: int = 1,
    activation_type: str = "",
    scale_in: float = 1.0,
    scale_weights: Sequence[float] = (1.0,),
    quant_round_type: int = 1,
    quant_max_bound: float = 127.0,
    quant_min_bound: float = -127.0,
) -> Array:
    """``x @ w`` in whole numbers: x quantised by ``scale_in``, w ``[K, N]`` stored so by ``scale_weights`` per column.

    The sum over ``max_bound ** 2 * scale_in * scale_weights`` gives floats again; then bias and relu.
    """
    if activation_type not in ("", "relu"):
        raise ValueError(f"activation_type is empty or relu, got {activation_type!r}")
    rows = x.reshape(math.prod(x.shape[:in_num_col_dims]), math.prod(x.shape[in_num_col_dims:]))
    steps = rows.astype(np.float32, copy=False) * np.float32(quant_max_bound * scale_in)
    whole = _rounded(steps, quant_round_type).clip(quant_min_bound, quant_max_bound)
    # Products of int8 summed in float64 are exact up to 2 ** 53.
    total = whole.astype(np.float64) @ w.astype(np.float64)
    scale = np.asarray(scale_weights, np.float64) * (quant_max_bound * quant_max_bound * scale_in)
    out = (total / scale).astype(x.dtype)
    if bias is not None:
        out = out + bias.reshape(-1)
    if activation_type == "relu":
        out = np.maximum(out, 0)
    return out.reshape(*x.shape[:in_num_col_dims], w.shape[1])
