"""Functions that make tensors: ``to_tensor``, ``zeros``, ``arange``, ``create_lod_tensor`` and their kin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import InputError
from ..executor.values import Array, LoDTensor
from . import dtypes, unique_name
from .place import parse_place
from .tensor import Tensor, wrap

__all__ = ["create_lod_tensor", "to_tensor"]


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
        return data._array.copy()
    if isinstance(data, LoDTensor):
        return data.array.copy()
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
