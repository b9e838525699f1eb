"""Tensors from nothing or from a shape: constants, ranges, identity matrices, and copies filled with a value."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ir.dtypes import DType, resolve, to_numpy
from ...ir.registry import operator
from ..values import Array, LoDTensor, Meta
from .common import accumulate_dtype, as_ints

__all__ = [
    "arange",
    "assign_value",
    "empty",
    "eye",
    "fill_any_like",
    "fill_constant",
    "linspace",
    "stated_shape",
]

Ints = Sequence[int]


def stated_shape(tensor: Any, tensors: Sequence[Any], attr: Ints) -> Ints:
    """A shape from ShapeTensor, else from ShapeTensorList, else from the attribute; no size is negative."""
    shape = as_ints(tensor) if tensor is not None else as_ints(list(tensors)) if tensors else attr
    if any(size < 0 for size in shape):
        raise ValueError(f"shape is {list(shape)}, a size is negative")
    return shape


def filled(shape: Ints, value: Any, dtype: np.dtype[Any]) -> Array:
    """An array of one value; zeros come from untouched pages. A value out of range wraps as a C cast does."""
    if value == 0 and not (isinstance(value, float) and math.copysign(1.0, value) < 0):
        return np.zeros(shape, dtype)
    if dtype.kind == "f" and abs(value) < 60000:  # in range of every float type
        return np.full(shape, value, dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        return np.full(shape, np.asarray(value).astype(dtype), dtype)


@operator("fill_constant", inputs="ValueTensor? ShapeTensor? ShapeTensorList*", outputs="Out", gradient=None)
def fill_constant(
    value_tensor: Array | None,
    shape_tensor: Any,
    shape_tensors: Sequence[Any],
    *,
    dtype: int = DType.FP32,
    shape: Ints = (),
    value: float = 0.0,
    str_value: str = "",
    place_type: int = -1,
) -> Array:
    """A constant. ValueTensor goes before ``str_value`` (a float64 in text: "inf", "1e10"), before ``value``."""
    if value_tensor is not None:
        if value_tensor.size != 1:
            raise ValueError(f"ValueTensor has shape {list(value_tensor.shape)}, one element is needed")
        number = value_tensor.reshape(()).item()
    else:
        number = float(str_value) if str_value else value
    return filled(stated_shape(shape_tensor, shape_tensors, shape), number, to_numpy(dtype))


@operator("fill_constant_batch_size_like", inputs="Input", outputs="Out", lod=True, gradient=None)
def fill_constant_batch_size_like(
    like: Array | LoDTensor,
    *,
    shape: Ints,
    input_dim_idx: int = 0,
    output_dim_idx: int = 0,
    dtype: int = DType.FP32,
    value: float = 0.0,
    str_value: str = "",
) -> Array:
    """A constant of ``shape`` with one size taken from Input; of a ragged batch, the number of sequences."""
    number = float(str_value) if str_value else value
    sizes = like_batch(like.shape, shape, input_dim_idx, output_dim_idx)
    if isinstance(like, LoDTensor) and like.lod and input_dim_idx == 0:
        sizes[output_dim_idx] = len(like.lod[-1]) - 1
    return filled(sizes, number, to_numpy(dtype))


def like_batch(like: Ints, shape: Ints, input_dim_idx: int, output_dim_idx: int) -> list[int]:
    """``shape`` with the size at ``output_dim_idx`` taken from the shape ``like`` at ``input_dim_idx``."""
    sizes = list(shape)
    sizes[output_dim_idx] = like[input_dim_idx]
    return sizes


@operator("fill", inputs="", outputs="Out", gradient=None)
def fill(*, value: Sequence[float], shape: Ints, dtype: int = DType.FP32) -> Array:
    """The stated numbers in a shape (1.x)."""
    return np.asarray(value, np.float32).astype(to_numpy(dtype)).reshape(shape)


@operator("fill_any", inputs="X", outputs="Out")
def fill_any(x: Array, *, value: float = 0.0) -> Array:
    """X with every element replaced by ``value``."""
    return filled(x.shape, value, x.dtype)


@fill_any.gradient(takes="Out@GRAD", gives="X@GRAD")
def fill_any_grad(d_out: Array) -> Array:
    """Zeros: the old elements do not matter."""
    return np.zeros(d_out.shape, d_out.dtype)


def _limits(kind: np.dtype[Any]) -> tuple[float, float]:
    if kind.kind in "iu":
        return np.iinfo(kind).min, np.iinfo(kind).max
    if kind == np.bool_:
        return 0, 1
    return (-65504.0, 65504.0) if kind == np.float16 else (-math.inf, math.inf)


@operator("fill_any_like", inputs="X~", outputs="Out", gradient=None)
def fill_any_like(x: Array | Meta, *, value: float = 0.0, dtype: int = -1) -> Array:
    """``value`` in the shape of X, and in its dtype unless ``dtype`` states one."""
    kind = resolve(dtype, x.dtype)
    low, high = _limits(kind)
    if not low <= value <= high and (math.isfinite(value) or kind.kind in "biu"):
        raise ValueError(f"value {value} does not fit {kind}, which holds {low} to {high}")
    return filled(x.shape, value, kind)


@operator("fill_zeros_like", inputs="X~", outputs="Out", gradient=None)
def fill_zeros_like(x: Array | Meta) -> Array:
    """Zeros in the shape and dtype of X."""
    return np.zeros(x.shape, x.dtype)


@operator("fill_zeros_like2", inputs="X~", outputs="Out", gradient=None)
def fill_zeros_like2(x: Array | Meta, *, dtype: int = DType.FP32) -> Array:
    """Zeros in the shape of X."""
    return np.zeros(x.shape, resolve(dtype, x.dtype))


@operator("full_int_array", inputs="", outputs="out", gradient=None, ignores="place")
def full_int_array(*, value: Ints, dtype: int = DType.FP32) -> Array:
    """The stated integers as a vector."""
    return np.asarray(value, np.int64).astype(to_numpy(dtype))


@operator("empty", inputs="ShapeTensor? ShapeTensorList*", outputs="Out", gradient=None)
def empty(shape_tensor: Any, shape_tensors: Sequence[Any], *, shape: Ints = (), dtype: int = DType.FP32) -> Array:
    """A tensor whose contents nobody may rely on; zeros here, so that runs repeat."""
    return np.zeros(stated_shape(shape_tensor, shape_tensors, shape), to_numpy(dtype))


@operator("eye", inputs="", outputs="Out", gradient=None)
def eye(*, num_rows: int, num_columns: int = -1, dtype: int = DType.FP32) -> Array:
    """Ones on the diagonal; ``num_columns`` -1 makes it square."""
    return np.eye(num_rows, None if num_columns == -1 else num_columns, dtype=to_numpy(dtype))


def _scalar(value: Any) -> Any:
    """The single number of a tensor, as a numpy scalar of its dtype."""
    array = np.asarray(value)
    if array.size != 1:
        raise ValueError(f"a tensor of shape {list(array.shape)} stands where one number is needed")
    return array.reshape(())[()]


@operator("range", inputs="Start End Step", outputs="Out", gradient=None)
def arange(start: Array, end: Array, step: Array) -> Array:
    """From Start in steps to before End. Each element is the one before plus the step, rounding included."""
    dtype = start.dtype
    first, last, by = _scalar(start), _scalar(end).astype(dtype), _scalar(step).astype(dtype)
    if by == 0 or (last != first and (by > 0) != (last > first)):
        raise ValueError(f"a range from {first} to {last} in steps of {by} does not exist")
    if dtype.kind in "iu":
        return np.arange(int(first), int(last), int(by)).astype(dtype)
    count = math.ceil(abs((float(last) - float(first)) / float(by)))
    steps = np.full(count, by, accumulate_dtype(dtype))
    if count:
        steps[0] = first
    return np.cumsum(steps, dtype=steps.dtype).astype(dtype)


def _spaced(start: Array, stop: Array, num: Array, kind: np.dtype[Any]) -> Array:
    """``num`` numbers from start to stop as float64, the second half counted back from the end.

    The limits are taken in ``kind``, and so is their difference.
    """
    count = int(_scalar(num))
    if count <= 0:
        raise ValueError(f"Num is {count}, it must be positive")
    first, last = _scalar(start).astype(kind), _scalar(stop).astype(kind)
    if count == 1:
        return np.asarray([first], np.float64)
    step = np.float64(last - first) / (count - 1)
    places = np.arange(count)
    low, high = np.float64(first), np.float64(last)
    spaced: Array = np.where(places < count // 2, low + step * places, high - step * (count - 1 - places))
    return spaced


@operator("linspace", inputs="Start Stop Num", outputs="Out", gradient=None)
def linspace(start: Array, stop: Array, num: Array, *, dtype: int) -> Array:
    """``Num`` evenly spaced numbers from Start to Stop, both included."""
    kind = to_numpy(dtype)
    return _spaced(start, stop, num, kind).astype(kind)


@operator("logspace", inputs="Start Stop Num Base", outputs="Out", gradient=None)
def logspace(start: Array, stop: Array, num: Array, base: Array, *, dtype: int) -> Array:
    """Base to the power of evenly spaced numbers from Start to Stop."""
    kind = to_numpy(dtype)
    powers = _spaced(start, stop, num, kind)
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        raised: Array = np.power(np.float64(_scalar(base)), powers).astype(kind)
    return raised


@operator("assign_value", inputs="", outputs="Out", gradient=None)
def assign_value(
    *,
    shape: Ints,
    dtype: int,
    values: Sequence[Any] = (),
    bool_values: Sequence[Any] = (),
    fp32_values: Sequence[Any] = (),
    fp64_values: Sequence[Any] = (),
    int32_values: Sequence[Any] = (),
    int64_values: Sequence[Any] = (),
    int8_values: Sequence[Any] = (),
) -> Array:
    """A constant tensor; newer files hold it in ``values``, older ones in an attribute per type."""
    typed = (bool_values, fp32_values, fp64_values, int32_values, int64_values, int8_values)
    numbers = values or next((each for each in typed if len(each)), ())
    kind = to_numpy(dtype)
    if len(numbers) != math.prod(shape):
        raise ValueError(f"{len(numbers)} value(s) are stated for shape {list(shape)}")
    return np.asarray(numbers, None if len(numbers) else kind).astype(kind).reshape(shape)
