"""Joining and cutting: concat, stack, split, unstack, unbind, and the partial forms of recommenders.

Cuts are views.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ir.dtypes import to_numpy
from ...ir.registry import operator
from ..values import Array, LoDTensor, Meta, array_of
from .common import as_ints, normalize_axis

__all__ = ["concat", "partial_concat", "partial_sum", "split", "stack", "unbind", "unstack"]

Ints = Sequence[int]


def _axis(axis_tensor: Any, axis: int) -> int:
    return axis if axis_tensor is None else as_ints(array_of(axis_tensor))[0]


def _refuse_mixed(parts: Sequence[Array]) -> None:
    """Refuse parts of several dtypes, which numpy would promote."""
    if not parts:
        raise ValueError("X holds no tensor to join")
    dtype = parts[0].dtype
    for number, part in enumerate(parts):
        if part.dtype != dtype:
            raise TypeError(f"X[{number}] is {part.dtype}, X[0] is {dtype}: one dtype is needed")


def _misfit(parts: Sequence[Array], axis: int | None) -> str:
    """Why the parts cannot be joined along ``axis``, or side by side (None)."""
    shapes = ", ".join(str(list(part.shape)) for part in parts)
    if axis is None:
        return f"X holds shapes {shapes}, stack needs one shape"
    at = normalize_axis(axis, parts[0].ndim)
    return f"X holds shapes {shapes}, they may differ in dimension {at} only"


def _joined_lod(parts: Sequence[Any], at: int) -> list[list[int]]:
    """The LoD of the joined rows: the first part's; along axis 0 the sequences of all parts follow each other."""
    first = parts[0].lod if isinstance(parts[0], LoDTensor) else []
    if at or not first:
        return first
    lods = [part.lod if isinstance(part, LoDTensor) else [] for part in parts]
    if len({len(lod) for lod in lods}) != 1:
        raise ValueError("X mixes tensors of different LoD depth, rows cannot be joined")
    joined: list[list[int]] = [[0] for _ in first]
    for lod in lods:
        for level, offsets in zip(joined, lod, strict=True):
            last = level[-1]
            level.extend(last + each for each in offsets[1:])
    return joined


@operator("concat", inputs="X* AxisTensor?", outputs="Out", lod=True, ignores="sections num use_quantizer")
def concat(x: Sequence[Any], axis_tensor: Any, *, axis: int = 0) -> Any:
    """The tensors end to end along ``axis``; AxisTensor goes before the attribute. Sequences stay sequences."""
    arrays = [array_of(part) for part in x]
    at = _axis(axis_tensor, axis)
    if arrays and arrays[0].ndim == 0:
        arrays = [part.reshape(1) for part in arrays]
    _refuse_mixed(arrays)
    try:
        out = np.concatenate(arrays, at)
    except ValueError:
        raise ValueError(_misfit(arrays, at)) from None
    if type(x[0]) is LoDTensor:
        return LoDTensor(out, _joined_lod(x, normalize_axis(at, out.ndim)))
    return out


def _cut(x: Array, axis: int, sizes: Ints) -> list[Array]:
    before: tuple[Any, ...] = (slice(None),) * axis
    parts = []
    start = 0
    for size in sizes:
        index = (*before, slice(start, start + size))
        parts.append(x[index])
        start += size
    return parts


@concat.gradient(takes="X~* AxisTensor? Out@GRAD", gives="X@GRAD*", lod=False)
def concat_grad(x: Sequence[Array | Meta], axis_tensor: Any, d_out: Array, *, axis: int = 0) -> list[Array]:
    """The gradient cut where the inputs were joined (views)."""
    at = normalize_axis(_axis(axis_tensor, axis), d_out.ndim)
    sizes = [part.shape[at] if part.ndim else 1 for part in x]
    return [part.reshape(like.shape) for part, like in zip(_cut(d_out, at, sizes), x, strict=True)]


concat_grad.gradient_op("concat", takes="X=X@GRAD@GRAD* AxisTensor?", gives="Out=Out@GRAD@GRAD")


def _sections(size: int, num: int, sections: Ints) -> list[int]:
    """The sizes of the pieces of a dimension: as stated with one -1 worked out, else ``num`` equal ones."""
    if not len(sections):
        if num <= 0 or size % num:
            raise ValueError(f"a dimension of {size} does not split into num = {num} equal parts")
        return [size // num] * num
    sizes = list(sections)
    if sizes.count(-1) == 1:
        sizes[sizes.index(-1)] = size - sum(sizes) - 1
    if min(sizes) < 0 or sum(sizes) != size:
        raise ValueError(f"sections {list(sections)} do not add up to the dimension of {size}")
    return sizes


@operator("split", inputs="X AxisTensor? SectionsTensorList*", outputs="Out*")
def split(
    x: Array,
    axis_tensor: Any,
    sections_list: Sequence[Any],
    *,
    sections: Ints = (),
    num: int = 0,
    axis: int = 0,
) -> list[Array]:
    """Cut X along ``axis`` into parts of ``sections`` (tensors go first), else into ``num`` equal parts."""
    at = normalize_axis(_axis(axis_tensor, axis), x.ndim)
    if x.ndim == 0:
        raise ValueError("X is 0-d, there is no dimension to split")
    stated = as_ints(list(sections_list)) if sections_list else sections
    return _cut(x, at, _sections(x.shape[at], num, stated))


split.gradient_op("concat", takes="X=Out@GRAD* AxisTensor?", gives="Out=X@GRAD")


@operator("stack", inputs="X*", outputs="Y")
def stack(x: Sequence[Array], *, axis: int = 0) -> Array:
    """The tensors, all of one shape, side by side along a new dimension."""
    _refuse_mixed(x)
    at = normalize_axis(axis, x[0].ndim + 1)
    try:
        return np.stack(x, at)
    except ValueError:
        raise ValueError(_misfit(x, None)) from None


def _slices(x: Array, axis: int) -> list[Array]:
    at = normalize_axis(axis, x.ndim)
    moved = np.moveaxis(x, at, 0)
    return [moved[place, ...] for place in range(x.shape[at])]


@stack.gradient(takes="X~* Y@GRAD", gives="X@GRAD*")
def stack_grad(x: Sequence[Array | Meta], d_y: Array, *, axis: int = 0) -> list[Array]:
    """The gradient's slices (views)."""
    return _slices(d_y, axis)


stack_grad.gradient_op("stack", takes="X=X@GRAD@GRAD*", gives="Y=Y@GRAD@GRAD")


@operator("unstack", inputs="X", outputs="Y*")
def unstack(x: Array, *, axis: int = 0, num: int = 0) -> list[Array]:
    """The slices of X along ``axis``, that dimension dropped (views); ``num`` states their number."""
    at = normalize_axis(axis, x.ndim)
    if num > 0 and x.ndim and x.shape[at] != num:
        raise ValueError(f"num is {num}, the dimension of X has {x.shape[at]}")
    return _slices(x, at)


@unstack.gradient(takes="Y@GRAD*", gives="X@GRAD")
def unstack_grad(d_y: Sequence[Array], *, axis: int = 0) -> Array:
    """The slices' gradients side by side."""
    return np.stack(d_y, normalize_axis(axis, d_y[0].ndim + 1))


@operator("unbind", inputs="X", outputs="Out*")
def unbind(x: Array, *, axis: int = 0) -> list[Array]:
    """The slices of X along ``axis``, that dimension dropped (views)."""
    return _slices(x, axis)


unbind.gradient_op("stack", takes="X=Out@GRAD*", gives="Y=X@GRAD")


def _columns(width: int, start_index: int, length: int) -> slice:
    start = start_index + width if start_index < 0 else start_index
    end = width if length < 0 else start + length
    if not 0 <= start < width or end > width:
        raise ValueError(f"start_index {start_index} and length {length} leave the {width} columns of X")
    return slice(start, end)


def _column_parts(x: Sequence[Array], start_index: int, length: int) -> list[Array]:
    if any(part.ndim != 2 or part.shape != x[0].shape for part in x):
        shapes = ", ".join(str(list(part.shape)) for part in x)
        raise ValueError(f"X holds shapes {shapes}, matrices of one shape are needed")
    taken = _columns(x[0].shape[1], start_index, length)
    return [part[:, taken] for part in x]


def _padded(x: Sequence[Array], parts: Sequence[Array], start_index: int, length: int) -> list[Array]:
    taken = _columns(x[0].shape[1], start_index, length)
    grads = [np.zeros(each.shape, part.dtype) for each, part in zip(x, parts, strict=True)]
    for grad, part in zip(grads, parts, strict=True):
        grad[:, taken] = part
    return grads


@operator("partial_concat", inputs="X*", outputs="Out")
def partial_concat(x: Sequence[Array], *, start_index: int = 0, length: int = -1) -> Array:
    """The same columns of every matrix, side by side; ``length`` -1 takes all up to the end."""
    return np.concatenate(_column_parts(x, start_index, length), 1)


@partial_concat.gradient(takes="X* Out@GRAD", gives="X@GRAD*")
def partial_concat_grad(x: Sequence[Array], d_out: Array, *, start_index: int = 0, length: int = -1) -> list[Array]:
    """Zero but for the columns taken."""
    return _padded(x, np.split(d_out, len(x), 1), start_index, length)


@operator("partial_sum", inputs="X*", outputs="Out")
def partial_sum(x: Sequence[Array], *, start_index: int = 0, length: int = -1) -> Array:
    """The sum over the matrices of the same columns of each."""
    parts = _column_parts(x, start_index, length)
    total: Array = parts[0].copy()
    for part in parts[1:]:
        total += part
    return total


@partial_sum.gradient(takes="X* Out@GRAD", gives="X@GRAD*")
def partial_sum_grad(x: Sequence[Array], d_out: Array, *, start_index: int = 0, length: int = -1) -> list[Array]:
    """Zero but for the columns taken."""
    return _padded(x, [d_out] * len(x), start_index, length)


@operator("coalesce_tensor", inputs="Input*", outputs="Output* FusedOutput", ignores="persist_output", gradient=None)
def coalesce_tensor(
    tensors: Sequence[Array],
    *,
    dtype: int,
    copy_data: bool = False,
    set_constant: bool = False,
    constant: float = 0.0,
    use_align: bool = True,
    align_size: int = -1,
    user_defined_size_of_dtype: int = -1,
    concated_shapes: Ints = (),
    concated_ranks: Ints = (),
) -> tuple[list[Array], Array]:
    """One flat tensor with room for all, and views of it in the shapes of the inputs.

    Every part starts at a multiple of ``align_size`` bytes (4096 when it is not stated), counted with the
    stated element size. The parts hold copies of the inputs, a constant, or zeros.
    """
    kind = to_numpy(dtype)
    size = user_defined_size_of_dtype if user_defined_size_of_dtype > 0 else kind.itemsize
    step = align_size if align_size > 0 else 4096
    shapes = _ranked(concated_shapes, concated_ranks) or [part.shape for part in tensors]
    counts = [math.prod(shape) for shape in shapes]
    rooms = [-(-count * size // step) * step // size if use_align else count for count in counts]
    fused = np.full(sum(rooms), constant if set_constant else 0, kind)
    starts = [sum(rooms[:at]) for at in range(len(rooms))]
    parts = [
        fused[start : start + count].reshape(shape) for start, count, shape in zip(starts, counts, shapes, strict=True)
    ]
    if copy_data:
        for part, tensor in zip(parts, tensors, strict=True):
            part[...] = tensor
    return parts, fused


def _ranked(sizes: Ints, ranks: Ints) -> list[Ints]:
    """Shapes that are written end to end, with the rank of each."""
    shapes: list[Ints] = []
    start = 0
    for rank in ranks:
        shapes.append(sizes[start : start + rank])
        start += rank
    return shapes
