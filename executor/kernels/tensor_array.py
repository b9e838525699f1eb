"""Tensor arrays: lists of tensors that loops read and write by index.

Arrays are values: a write makes a new list that shares the tensors, so that an earlier version (recorded for
backward) stays what it was.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir.registry import operator
from ..environment import Env
from ..values import Array, TensorArray, array_of

__all__ = ["lod_array_length", "read_from_array", "tensor_array_to_tensor", "write_to_array"]


def _index(i: Any) -> int:
    array = array_of(i)
    if array.size != 1:
        raise ValueError(f"I holds one index, it has shape {list(array.shape)}")
    return int(array.reshape(()))


@operator("write_to_array", inputs="X I X_W?", outputs="Out")
def write_to_array(x: Any, i: Array, like: Any, *, env: Env) -> TensorArray:
    """The array with ``x`` at position ``i``, grown by empty entries where needed."""
    index = _index(i)
    if index < 0:
        raise ValueError(f"I is {index}, an array position is not negative")
    old = env.outputs("Out")[0]
    array = TensorArray(old or ())
    array.extend([None] * (index + 1 - len(array)))
    array[index] = x
    return array


@operator("read_from_array", inputs="X I X_W?", outputs="Out", lod="through")
def read_from_array(x: TensorArray, i: Array, like: Any) -> Any:
    """``x[i]``; the position must have been written."""
    index = _index(i)
    if not 0 <= index < len(x) or x[index] is None:
        raise ValueError(f"I is {index}, the array has {len(x)} entries and none there")
    return x[index]


@operator("lod_array_length", inputs="X", outputs="Out", gradient=None)
def lod_array_length(x: TensorArray) -> Array:
    """The number of entries, int64 of shape [1]."""
    return np.array([len(x)], np.int64)


@operator("tensor_array_to_tensor", inputs="X", outputs="Out OutIndex")
def tensor_array_to_tensor(x: TensorArray, *, axis: int = 0, use_stack: bool = False) -> tuple[Array, Array]:
    """Join the entries along ``axis`` (stack: along a new one); OutIndex holds each entry's length there."""
    parts = [array_of(each) for each in x if each is not None]
    if not parts:
        raise ValueError("the array is empty")
    lengths = [1 if use_stack else part.shape[axis] for part in parts]
    joined = np.stack(parts, axis) if use_stack else np.concatenate(parts, axis)
    return joined, np.asarray(lengths, np.int32)


@tensor_array_to_tensor.gradient(takes="X Out@GRAD", gives="X@GRAD")
def tensor_array_to_tensor_grad(x: TensorArray, d_out: Array, *, axis: int = 0, use_stack: bool = False) -> TensorArray:
    """Cut the gradient where the entries were joined."""
    if use_stack:
        return TensorArray(np.moveaxis(d_out, axis, 0))
    lengths = [array_of(each).shape[axis] for each in x if each is not None]
    return TensorArray(np.split(d_out, np.cumsum(lengths)[:-1], axis))


write_to_array.gradient_op("read_from_array", takes="X=Out@GRAD I X_W=X", gives="Out=X@GRAD")
read_from_array.gradient_op("write_to_array", takes="X=Out@GRAD I", gives="Out=X@GRAD")
