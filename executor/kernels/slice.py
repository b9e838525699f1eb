"""Slicing: ``slice`` (step 1, tensors and tensor arrays) and ``strided_slice`` (any step), with gradients.

Both take their numbers from attributes or from tensors; a tensor goes before a list of tensors, before the
attribute. Results are views.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ir.registry import OpContext, operator
from ..values import Array, Meta, TensorArray
from .common import as_ints, follow_rank, normalize_axis

__all__ = ["bounds", "slice_", "sliced", "strided_slice"]

Ints = Sequence[int]
Index = tuple[Any, ...]


def bounds(start: int, end: int, step: int, size: int) -> slice:
    """The range that Paddle's ``start:end:step`` means on a dimension of ``size`` elements.

    As in Python (2.6 refuses some empty ranges, 1.x and 3.x do not), with two exceptions for negative steps:
    an end of -1 stands for "past the first element", which is what exported programs hold for ``x[::-1]``, and
    a start before the first element is the first element.
    """
    if step > 0:
        return slice(start, end, step)
    if step == 0:
        raise ValueError("a step is 0")
    if start < 0:
        start = max(start + size, 0)
    if end < -1:
        end = max(end + size, -1)
    return slice(start, None if end == -1 else end, step)


def chosen(tensor: Any, tensors: Sequence[Any], attr: Ints) -> Ints:
    """The numbers of one kind: from a tensor, else from a list of tensors, else from the attribute."""
    if tensor is not None:
        return as_ints(tensor)
    return as_ints(list(tensors)) if tensors else attr


def sliced(shape: Ints, axes: Ints, starts: Ints, ends: Ints, steps: Ints | None, decrease: Ints) -> list[Any]:
    """What to index each dimension with: slices on ``axes`` (step 1 without ``steps``), numbers on ``decrease``."""
    if not len(axes) == len(starts) == len(ends) == (len(axes) if steps is None else len(steps)):
        raise ValueError(
            f"axes {list(axes)}, starts {list(starts)}, ends {list(ends)} and steps {steps} "
            "must hold as many numbers each"
        )
    index: list[Any] = [slice(None)] * len(shape)
    for place, axis in enumerate(axes):
        at = axis if 0 <= axis < len(shape) else normalize_axis(axis, len(shape))
        if steps is None:
            index[at] = slice(starts[place], ends[place])
        else:
            index[at] = bounds(starts[place], ends[place], steps[place], shape[at])
    for axis in decrease:
        at = normalize_axis(axis, len(shape))
        taken = range(shape[at])[index[at]]
        if len(taken) != 1:
            raise ValueError(
                f"dimension {at} is dropped, but holds {len(taken)} element(s) after slicing shape {list(shape)}"
            )
        index[at] = taken[0]
    return index


def _plain_index(shape: Ints, axes: Ints, starts: Ints, ends: Ints, flags: Ints, decrease: Ints) -> Index:
    """The index of ``slice``; ``x[-1]`` of old programs is written start -1, end 0."""
    if decrease and 0 in ends and len(flags) == len(starts) == len(axes) == len(ends):
        ends = [
            shape[axis] if (start, end, flag) == (-1, 0, -1) and axis in decrease else end
            for axis, start, end, flag in zip(axes, starts, ends, flags, strict=True)
        ]
    return (*sliced(shape, axes, starts, ends, None, decrease), ...)


def _slice_array(x: TensorArray, starts: Ints, ends: Ints, decrease: Ints) -> Any:
    taken = x[bounds(starts[0], ends[0], 1, len(x))]
    if not decrease:
        return TensorArray(taken)
    if not taken:
        raise ValueError(f"start {starts[0]} is outside an array of {len(x)} entries")
    return taken[0]


_SLOTS = "StartsTensor? EndsTensor? StartsTensorList* EndsTensorList*"


@operator("slice", inputs=f"Input {_SLOTS}", outputs="Out")
def slice_(
    x: Any,
    starts_tensor: Any,
    ends_tensor: Any,
    starts_list: Sequence[Any],
    ends_list: Sequence[Any],
    *,
    axes: Ints,
    starts: Ints = (),
    ends: Ints = (),
    infer_flags: Ints = (),
    decrease_axis: Ints = (),
    ctx: OpContext | None = None,
) -> Any:
    """``x[start:end]`` along each of ``axes``; ``decrease_axis`` drops dimensions of one element.

    When every dimension is dropped the result is 0-d, or [1] where the program says so. A tensor array gives
    an array, or with ``decrease_axis`` one entry.
    """
    begin, stop = chosen(starts_tensor, starts_list, starts), chosen(ends_tensor, ends_list, ends)
    if isinstance(x, TensorArray):
        return _slice_array(x, begin, stop, decrease_axis)
    out: Array = x[_plain_index(x.shape, axes, begin, stop, infer_flags, decrease_axis)]
    return follow_rank(out, ctx.declared("Out")) if ctx and not out.ndim else out


@slice_.gradient(takes=f"Input~ Out@GRAD {_SLOTS}", gives="Input@GRAD")
def slice_grad(
    x: Any,
    d_out: Any,
    starts_tensor: Any,
    ends_tensor: Any,
    starts_list: Sequence[Any],
    ends_list: Sequence[Any],
    *,
    axes: Ints,
    starts: Ints = (),
    ends: Ints = (),
    infer_flags: Ints = (),
    decrease_axis: Ints = (),
) -> Any:
    """Zero, with the gradient where the slice was taken."""
    begin, stop = chosen(starts_tensor, starts_list, starts), chosen(ends_tensor, ends_list, ends)
    if isinstance(x, TensorArray):
        return _slice_array_grad(x, d_out, begin, stop)
    return placed(x, d_out, _plain_index(x.shape, axes, begin, stop, infer_flags, decrease_axis))


slice_grad.gradient_op("slice", takes=f"Input=Input@GRAD@GRAD {_SLOTS}", gives="Out=Out@GRAD@GRAD")


def placed(x: Array | Meta, d_out: Array, index: Index) -> Array:
    """Zeros of x's shape with ``d_out`` at ``index``."""
    grad = np.zeros(x.shape, d_out.dtype)
    target = grad[index]
    target[...] = d_out.reshape(target.shape)
    return grad


def _slice_array_grad(x: TensorArray, d_out: Any, starts: Ints, ends: Ints) -> TensorArray:
    grad = TensorArray(None if each is None else np.zeros_like(each) for each in x)
    taken = range(len(x))[bounds(starts[0], ends[0], 1, len(x))]
    given = d_out if isinstance(d_out, TensorArray) else [d_out]
    for place, each in zip(taken, given, strict=False):
        grad[place] = each
    return grad


_STRIDED = "StartsTensor? EndsTensor? StridesTensor? StartsTensorList* EndsTensorList* StridesTensorList*"


def _strided_index(shape: Ints, given: Sequence[Any], axes: Ints, attrs: Sequence[Ints], drop: Ints) -> Index:
    starts, ends, steps = (
        chosen(tensor, tensors, attr) for tensor, tensors, attr in zip(given[:3], given[3:], attrs, strict=True)
    )
    return (*sliced(shape, axes, starts, ends, steps, drop), ...)


@operator("strided_slice", inputs=f"Input {_STRIDED}", outputs="Out", ignores="infer_flags")
def strided_slice(
    x: Any,
    *given: Any,
    axes: Ints,
    starts: Ints = (),
    ends: Ints = (),
    strides: Ints = (),
    decrease_axis: Ints = (),
) -> Any:
    """``x[start:end:step]`` along each of ``axes``; negative steps run backwards.

    Unlike ``slice`` it gives [1] where every dimension is dropped, whatever the program declares.
    """
    if isinstance(x, TensorArray):
        index = _strided_index([len(x)], given, [0], (starts, ends, strides), ())[0]
        return TensorArray(x[index])
    if any(axis < 0 for axis in axes):
        raise ValueError(f"axes is {list(axes)}, strided_slice takes no negative axis")
    out: Array = x[_strided_index(x.shape, given, axes, (starts, ends, strides), decrease_axis)]
    return out if out.ndim else out.reshape(1)


@strided_slice.gradient(takes=f"Input~ Out@GRAD {_STRIDED}", gives="Input@GRAD")
def strided_slice_grad(
    x: Any,
    d_out: Any,
    *given: Any,
    axes: Ints,
    starts: Ints = (),
    ends: Ints = (),
    strides: Ints = (),
    decrease_axis: Ints = (),
) -> Any:
    """Zero, with the gradient where the slice was taken."""
    if isinstance(x, TensorArray):
        index = _strided_index([len(x)], given, [0], (starts, ends, strides), ())[0]
        grad = TensorArray(None if each is None else np.zeros_like(each) for each in x)
        places: Any = range(len(x))[index]
        for place, each in zip(places, d_out, strict=True):
            grad[place] = each
        return grad
    return placed(x, d_out, _strided_index(x.shape, given, axes, (starts, ends, strides), decrease_axis))


strided_slice_grad.gradient_op("strided_slice", takes=f"Input=Input@GRAD@GRAD {_STRIDED}", gives="Out=Out@GRAD@GRAD")
