"""Functions that make tensors: ``to_tensor``, ``zeros``, ``arange``, ``create_lod_tensor`` and their kin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import InputError
from ..executor.values import Array, LoDTensor
from . import dtypes, unique_name
from .operands import constant, int_list
from .place import parse_place
from .tensor import Tensor, wrap

__all__ = [
    "arange",
    "create_lod_tensor",
    "empty",
    "empty_like",
    "eye",
    "full",
    "full_like",
    "linspace",
    "logspace",
    "ones",
    "ones_like",
    "to_tensor",
    "tril_indices",
    "triu_indices",
    "zeros",
    "zeros_like",
]


def to_tensor(data: Any, dtype: Any = None, place: Any = None, stop_gradient: bool = True) -> Tensor:
    """A new tensor with a copy of ``data``.

    Args:
        data: a number, nested lists of numbers or tensors, an array, or a tensor. Python floats get the default
            dtype, ints int64, bools bool, complex numbers complex64; arrays keep their dtype.
        dtype: the element type, where another is wanted.
        place: ``"cpu"`` or None.
        stop_gradient: whether backward ends here.

    Raises:
        TypeError: ``data`` is nothing of the kind.
        ValueError: nested lists of unequal lengths.
    """
    parse_place(place)
    array = _as_array(data)
    if dtype is not None:
        array = array.astype(dtypes.numpy_dtype(dtype), copy=False)
    made = wrap(array)
    made._stop = stop_gradient
    made._name = unique_name.generate("generated_tensor")
    return made


def _as_array(data: Any) -> Array:
    """A fresh array, with Paddle's dtypes for Python numbers."""
    if isinstance(data, Tensor):
        return np.array(data._array)
    if isinstance(data, LoDTensor):
        return np.array(data.array)
    if isinstance(data, (np.ndarray, np.generic)):
        if data.dtype.kind in "OUS":
            raise TypeError(_refusal(data))
        return np.array(data)
    if isinstance(data, (list, tuple)):
        array = np.array(_opened(data))
        if array.dtype.kind in "OUS":
            raise TypeError(_refusal(data))
        return _shrunk(array)
    if isinstance(data, (bool, int, float, complex)):
        return _shrunk(np.array(data))
    if hasattr(data, "__array__"):
        return np.array(data)
    raise TypeError(_refusal(data))


def _opened(data: Any) -> Any:
    """Nested lists with their tensors as nested numbers."""
    if isinstance(data, (list, tuple)):
        return [_opened(each) for each in data]
    return data._array if isinstance(data, Tensor) else data


def _shrunk(array: Array) -> Array:
    """Numbers written in Python: float64 is the default float, complex128 is complex64."""
    if array.dtype == np.float64:
        return array.astype(dtypes.default_float())
    return array.astype(np.complex64) if array.dtype == np.complex128 else array


def _refusal(data: Any) -> str:
    return (
        f"Can't constructs a 'paddle.Tensor' with data type {type(data)}, data type must be "
        "scalar|list|tuple|np.ndarray|paddle.Tensor"
    )


def create_lod_tensor(data: Any, recursive_seq_lens: Sequence[Sequence[int]], place: Any = None) -> Tensor:
    """A ragged batch (Paddle 1.x): the rows of all sequences, and how many rows each sequence has.

    Args:
        data: array or nested lists, shape ``[total rows, ...]``.
        recursive_seq_lens: per level, outermost first, the lengths; ``[[2, 3]]`` is two sequences of 2 and 3 rows.

    Raises:
        InputError: the lengths do not add up to the rows.
    """
    parse_place(place)
    array = _as_array(data)
    made = wrap(array)
    made._lod = LoDTensor.from_lengths(array, recursive_seq_lens).lod
    counts = [len(level) for level in recursive_seq_lens[1:]] + [array.shape[0] if array.ndim else 0]
    for depth, (level, count) in enumerate(zip(made._lod, counts, strict=True)):
        if level[-1] != count:
            raise InputError(f"level {depth} of the lengths adds up to {level[-1]}, but there are {count} below it")
    return made


def _kind(dtype: Any) -> np.dtype[Any]:
    return dtypes.default_float() if dtype is None else dtypes.numpy_dtype(dtype)


def _number(value: Any) -> Any:
    return value._array.item() if isinstance(value, Tensor) else value


def full(shape: Any, fill_value: Any, dtype: Any = None, name: str | None = None) -> Tensor:
    """One number everywhere, of the default float type unless ``dtype`` says otherwise."""
    return constant(np.full(int_list(shape), _number(fill_value), _kind(dtype)))


def zeros(shape: Any, dtype: Any = None, name: str | None = None) -> Tensor:
    """Zeros."""
    return constant(np.zeros(int_list(shape), _kind(dtype)))


def ones(shape: Any, dtype: Any = None, name: str | None = None) -> Tensor:
    """Ones."""
    return constant(np.ones(int_list(shape), _kind(dtype)))


def empty(shape: Any, dtype: Any = None, name: str | None = None) -> Tensor:
    """Zeros; other values would do as well."""
    return zeros(shape, dtype)


def full_like(x: Tensor, fill_value: Any, dtype: Any = None, name: str | None = None) -> Tensor:
    """One number everywhere, in the shape and by default the element type of ``x``."""
    kind = x._array.dtype if dtype is None else dtypes.numpy_dtype(dtype)
    return constant(np.full(x._array.shape, _number(fill_value), kind))


def zeros_like(x: Tensor, dtype: Any = None, name: str | None = None) -> Tensor:
    """Zeros in the shape of ``x``."""
    return full_like(x, 0, dtype)


def ones_like(x: Tensor, dtype: Any = None, name: str | None = None) -> Tensor:
    """Ones in the shape of ``x``."""
    return full_like(x, 1, dtype)


def empty_like(x: Tensor, dtype: Any = None, name: str | None = None) -> Tensor:
    """Zeros in the shape of ``x``; other values would do as well."""
    return full_like(x, 0, dtype)


def arange(start: Any = 0, end: Any = None, step: Any = 1, dtype: Any = None, name: str | None = None) -> Tensor:
    """Numbers from ``start`` up to, not including, ``end``; from 0 to ``start`` when only that is given.

    Without ``dtype`` int64 when all are integers, else the default float type.
    """
    begin, stop = (0, start) if end is None else (start, end)
    bounds = [_number(each) for each in (begin, stop, step)]
    if dtype is None:
        whole = all(isinstance(each, (int, np.integer)) for each in bounds)
        dtype = "int64" if whole else dtypes.get_default_dtype()
    if bounds[2] == 0:
        raise InputError("arange(): step must not be 0")
    return constant(np.arange(*bounds).astype(dtypes.numpy_dtype(dtype)))


def linspace(start: Any, stop: Any, num: Any, dtype: Any = None, name: str | None = None) -> Tensor:
    """``num`` numbers at equal distances, both ends included."""
    return constant(np.linspace(_number(start), _number(stop), int(_number(num))).astype(_kind(dtype)))


def logspace(start: Any, stop: Any, num: Any, base: Any = 10.0, dtype: Any = None, name: str | None = None) -> Tensor:
    """``base`` to the power of ``num`` numbers at equal distances."""
    powers = np.logspace(_number(start), _number(stop), int(_number(num)), base=_number(base))
    return constant(powers.astype(_kind(dtype)))


def eye(num_rows: int, num_columns: int | None = None, dtype: Any = None, name: str | None = None) -> Tensor:
    """Ones on the diagonal, zeros elsewhere."""
    return constant(np.eye(num_rows, num_columns).astype(_kind(dtype)))


def tril_indices(row: int, col: int, offset: int = 0, dtype: Any = "int64") -> Tensor:
    """The positions of the lower triangle, shape [2, n]."""
    return constant(np.stack(np.tril_indices(row, offset, col)).astype(dtypes.numpy_dtype(dtype)))


def triu_indices(row: int, col: int | None = None, offset: int = 0, dtype: Any = "int64") -> Tensor:
    """The positions of the upper triangle, shape [2, n]."""
    return constant(np.stack(np.triu_indices(row, offset, col)).astype(dtypes.numpy_dtype(dtype)))
