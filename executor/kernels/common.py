"""Helpers shared by the families: dtypes, axes, broadcasting and its undoing."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...ir.desc import VarDesc
from ..parallel import parallel_for
from ..values import Array

__all__ = [
    "HALF",
    "accumulate_dtype",
    "add_rows",
    "as_ints",
    "broadcast_y",
    "flattened",
    "follow_rank",
    "normalize_axes",
    "normalize_axis",
    "refuse_half",
    "row_blocks",
    "unbroadcast",
    "x_shape",
]

HALF = frozenset({"float16", "bfloat16"})
"""Dtypes whose sums are kept in float32."""
_FLOAT16 = np.dtype(np.float16)
_FLOAT32 = np.dtype(np.float32)


def accumulate_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype to sum in: float32 for the half types (kind "V" is those of ml_dtypes), else the dtype itself."""
    return _FLOAT32 if dtype == _FLOAT16 or dtype.kind == "V" else dtype


def normalize_axis(axis: int, ndim: int) -> int:
    """A non-negative axis; raises ValueError when it is outside ``[-ndim, ndim)``."""
    if not -max(ndim, 1) <= axis < max(ndim, 1):
        raise ValueError(f"axis {axis} is outside a tensor of {ndim} dimension(s)")
    return axis + ndim if axis < 0 else axis


def normalize_axes(axes: Sequence[int] | int, ndim: int) -> tuple[int, ...]:
    """Sorted distinct non-negative axes."""
    listed = [axes] if isinstance(axes, int) else list(axes)
    return tuple(sorted({normalize_axis(axis, ndim) for axis in listed}))


def as_ints(value: Any) -> list[int]:
    """Python ints from a tensor or list of tensors of integers (shape tensors, axis tensors)."""
    if isinstance(value, (list, tuple)):
        return [int(np.asarray(each).reshape(())) for each in value]
    return [int(each) for each in np.asarray(value).reshape(-1)]


def broadcast_y(x: Array, y: Array, axis: int) -> Array:
    """``y`` reshaped so that numpy broadcasting against ``x`` means Paddle's ``axis`` rule.

    ``axis`` is the dimension of ``x`` where ``y`` starts; -1 aligns the trailing dimensions. Trailing ones of
    ``y`` are dropped when ``axis`` is given, as 1.x programs rely on.
    """
    if axis == -1 or x.ndim == y.ndim or y.ndim == 0:
        return y
    shape = list(y.shape)
    while len(shape) > 1 and shape[-1] == 1 and axis + len(shape) > x.ndim:
        shape.pop()
    aligned: Array = y.reshape(*shape, *(1,) * (x.ndim - axis - len(shape)))
    return aligned


def unbroadcast(grad: Array, shape: tuple[int, ...]) -> Array:
    """Sum a gradient over the axes that broadcasting added or stretched, back to ``shape``."""
    if grad.shape == shape:
        return grad
    extra = grad.ndim - len(shape)
    stretched = tuple(
        axis for axis in range(grad.ndim) if axis < extra or (shape[axis - extra] == 1 and grad.shape[axis] != 1)
    )
    total: Array = grad.sum(axis=stretched, dtype=accumulate_dtype(grad.dtype), keepdims=True)
    return total.astype(grad.dtype, copy=False).reshape(shape)


def follow_rank(result: Array, declared: VarDesc | None) -> Array:
    """A 0-d result as shape [1] where the program declares [1], as programs from before 0-d tensors do."""
    if result.ndim == 0 and declared is not None and declared.shape == (1,):
        return result.reshape(1)
    return result


def x_shape(x: Array) -> Array:
    """The value of an ``XShape`` output: an empty array that only carries a shape, ``[0, *x.shape]``."""
    return np.empty((0, *x.shape), x.dtype)


def add_rows(target: Array, index: Array, rows: Array) -> None:
    """``target[index[i]] += rows[i]`` for every i, in place; rows of equal index add up in order.

    ``index`` is 1-d, already checked and not negative. Half types add up in float32.
    """
    if not index.size or not rows.size:
        return
    wide = accumulate_dtype(target.dtype)
    if rows.ndim == 1 and wide.kind == "f":
        target += np.bincount(index, rows.astype(np.float64), len(target)).astype(target.dtype)
        return
    order = np.argsort(index, kind="stable")
    ordered = index[order]
    starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    picked = rows[order].astype(wide, copy=False)
    sums = picked if len(starts) == len(ordered) else np.add.reduceat(picked, starts, axis=0)
    target[ordered[starts]] += sums.astype(target.dtype, copy=False)


_BLOCK = 1 << 16
"""Elements that one thread takes at a time: a block and its temporaries stay in a core's cache."""


def refuse_half(x: Any) -> None:
    """For kernels that take no float of 16 bits, as Paddle's take none."""
    if isinstance(x, np.ndarray) and x.dtype.itemsize == 2 and x.dtype.kind in "fV":
        raise TypeError(f"float32, float64 or a complex dtype expected, got {x.dtype}; cast the input")


def flattened(x: Array, lead: int = 1) -> Array:
    """``x`` with all dimensions after the first ``lead`` made one; also when there are no rows."""
    return x.reshape(*x.shape[:lead], math.prod(x.shape[lead:]))


def row_blocks(rows: int, columns: int, work: Callable[[int, int], None]) -> None:
    """Run ``work(start, stop)`` over all rows of a matrix, in blocks side by side where it is large."""
    step = max(1, _BLOCK // max(columns, 1))
    if rows <= 2 * step:
        work(0, rows)
        return
    count = -(-rows // step)

    def run(first: int, last: int) -> None:
        for index in range(first, last):
            work(index * step, min((index + 1) * step, rows))

    parallel_for(count, run)
