"""Assignment to a slice, ``x[index] = value``: ``set_value`` and its gradient."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ir.dtypes import DType, to_numpy
from ...ir.registry import operator
from ..values import Array
from .common import unbroadcast
from .slice import chosen, sliced

__all__ = ["set_value"]

Ints = Sequence[int]
Index = tuple[Any, ...]

_LISTS = "StartsTensorList* EndsTensorList* StepsTensorList*"


def _index(shape: Ints, axes: Ints, starts: Ints, ends: Ints, steps: Ints, drop: Ints, none: Ints) -> Index:
    """What to index the whole tensor with: slices on ``axes``, dropped dimensions, new ones of size 1."""
    if any(axis < 0 for axis in axes):
        raise ValueError(f"axes is {list(axes)}, set_value takes no negative axis")
    index = sliced(shape, axes, starts, ends, steps or [1] * len(axes), drop)
    return (*_with_new(index, none), ...)


def _with_new(index: list[Any], none: Ints) -> list[Any]:
    """Insert new dimensions: each of ``none`` goes before the dimension of that number, or at the end."""
    if not none:
        return index
    full: list[Any] = []
    left = list(none)
    for at, each in enumerate(index):
        while left and left[0] <= at:
            full.append(None)
            del left[0]
        full.append(each)
    return full + [None] * len(left)


def _fit(value: Array, target: Array) -> Array:
    """``value`` without leading ones that the target lacks; refuses what cannot be broadcast."""
    extra = value.ndim - target.ndim
    if extra > 0 and value.shape[:extra] == (1,) * extra:
        value = value.reshape(value.shape[extra:])
    try:
        return np.broadcast_to(value, target.shape)
    except ValueError:
        raise ValueError(
            f"a value of shape {list(value.shape)} cannot be assigned to a slice of shape {list(target.shape)}"
        ) from None


_TYPED = ("bool_values", "fp32_values", "int32_values", "int64_values", "fp64_values", "fp16_values")


def _stated(values: Sequence[Any], typed: Sequence[Sequence[Any]], shape: Ints, dtype: int) -> Array:
    """The value that the attributes state; files from before version 4 hold it in an attribute per type."""
    numbers = values or next((each for each in typed if len(each)), ())
    if not len(numbers):
        raise ValueError("neither ValueTensor nor the attribute values states what to assign")
    return np.asarray(numbers).astype(to_numpy(dtype)).reshape(shape)


@operator("set_value", inputs=f"Input ValueTensor? {_LISTS}", outputs="Out", inplace="Input->Out")
def set_value(
    x: Array,
    value_tensor: Array | None,
    starts_list: Sequence[Any],
    ends_list: Sequence[Any],
    steps_list: Sequence[Any],
    *,
    dtype: int = DType.FP32,
    axes: Ints,
    starts: Ints = (),
    ends: Ints = (),
    steps: Ints = (),
    decrease_axes: Ints = (),
    none_axes: Ints = (),
    values: Sequence[Any] = (),
    shape: Ints = (),
    bool_values: Sequence[Any] = (),
    fp32_values: Sequence[Any] = (),
    int32_values: Sequence[Any] = (),
    int64_values: Sequence[Any] = (),
    fp64_values: Sequence[Any] = (),
    fp16_values: Sequence[Any] = (),
    out: Array | None = None,
) -> Array:
    """A copy of Input (or Input itself) with the slice set to ValueTensor, or to ``values`` in ``shape``.

    The slice is ``starts:ends:steps`` along ``axes``; ``decrease_axes`` drops dimensions of one element and
    ``none_axes`` adds some, as an index and ``None`` do in Python. The value is broadcast.
    """
    begin, stop, step = (
        chosen(None, tensors, attr) for tensors, attr in ((starts_list, starts), (ends_list, ends), (steps_list, steps))
    )
    index = _index(x.shape, axes, begin, stop, step, decrease_axes, none_axes)
    if value_tensor is None:
        typed = (bool_values, fp32_values, int32_values, int64_values, fp64_values, fp16_values)
        value_tensor = _stated(values, typed, shape, dtype)
    elif value_tensor.dtype != x.dtype:
        raise TypeError(f"ValueTensor is {value_tensor.dtype}, Input is {x.dtype}: both need one dtype")
    result = x.copy() if out is None else out
    target = result[index]
    target[...] = _fit(value_tensor, target)
    return result


@set_value.gradient(takes=f"Out@GRAD {_LISTS} ValueTensor?", gives="Input@GRAD ValueTensor@GRAD")
def set_value_grad(
    d_out: Array,
    starts_list: Sequence[Any],
    ends_list: Sequence[Any],
    steps_list: Sequence[Any],
    value_tensor: Array | None,
    *,
    axes: Ints,
    starts: Ints = (),
    ends: Ints = (),
    steps: Ints = (),
    decrease_axes: Ints = (),
    none_axes: Ints = (),
    want: frozenset[str] = frozenset({"Input@GRAD", "ValueTensor@GRAD"}),
) -> tuple[Array | None, Array | None]:
    """Input: the gradient with zeros where the slice was written. ValueTensor: the gradient of the slice."""
    begin, stop, step = (
        chosen(None, tensors, attr) for tensors, attr in ((starts_list, starts), (ends_list, ends), (steps_list, steps))
    )
    index = _index(d_out.shape, axes, begin, stop, step, decrease_axes, none_axes)
    d_value = None
    if value_tensor is not None and "ValueTensor@GRAD" in want:
        taken = d_out[index]
        shape = value_tensor.shape
        kept = shape[max(len(shape) - taken.ndim, 0) :]
        d_value = unbroadcast(taken, kept).reshape(shape)
        d_value = d_value.copy() if np.shares_memory(d_value, d_out) else d_value
    if "Input@GRAD" not in want:
        return None, d_value
    d_input = d_out.copy()
    d_input[index] = 0
    return d_input, d_value
