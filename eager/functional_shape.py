"""Functions that rearrange: shapes, joins and splits, repetition, gathering and scattering."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import InputError
from ..ir.dtypes import from_numpy
from .dispatch import bind
from .dtypes import numpy_dtype
from .operands import as_tensor, axis_list, cast_to, constant, int_list, run, run_at
from .tensor import Tensor

__all__ = [
    "as_complex",
    "as_real",
    "as_strided",
    "assign",
    "astype",
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "broadcast_shape",
    "broadcast_tensors",
    "broadcast_to",
    "cast",
    "chunk",
    "clone",
    "concat",
    "crop",
    "expand",
    "expand_as",
    "flatten",
    "flip",
    "gather",
    "gather_nd",
    "index_add",
    "index_fill",
    "index_put",
    "is_empty",
    "meshgrid",
    "moveaxis",
    "numel",
    "put_along_axis",
    "rank",
    "repeat_interleave",
    "reshape",
    "reverse",
    "roll",
    "rot90",
    "scatter",
    "scatter_nd",
    "scatter_nd_add",
    "shape",
    "slice",
    "split",
    "squeeze",
    "stack",
    "strided_slice",
    "swapaxes",
    "t",
    "take",
    "take_along_axis",
    "tile",
    "transpose",
    "unbind",
    "unflatten",
    "unsqueeze",
    "unstack",
    "view",
    "view_as",
    "vsplit",
]


def cast(x: Tensor, dtype: Any) -> Tensor:
    """``x`` with another element type; a copy even when it has it already."""
    wanted = numpy_dtype(dtype)
    return clone(x) if x._array.dtype == wanted else cast_to(x, wanted)


astype = cast


def clone(x: Tensor, name: str | None = None) -> Tensor:
    """A copy; gradients pass."""
    return run("assign", x)


def assign(x: Any, output: Tensor | None = None) -> Tensor:
    """A copy of a tensor, array or numbers; into ``output`` when that is given."""
    made = clone(x) if isinstance(x, Tensor) else as_tensor(x)
    if output is None:
        return made
    output._assign(made._array, "assign", counted=True)
    if not made._stop:
        output._edge, output._stop = made._edge, False
    return output


def reshape(x: Tensor, shape: Any, name: str | None = None) -> Tensor:
    """``x`` with another shape over the same memory; -1 is worked out, 0 keeps the dimension at its place.

    With its own shape it is returned itself, as in Paddle.
    """
    wanted = int_list(shape)
    return x if wanted == x.shape else run_at("reshape2", 0, x, shape=wanted)


def view(x: Tensor, shape_or_dtype: Any, name: str | None = None) -> Tensor:
    """The same memory with another shape, or read as another element type."""
    if isinstance(shape_or_dtype, (list, tuple, Tensor)):
        return reshape(x, shape_or_dtype)
    return run("view_dtype", x, dtype=int(from_numpy(numpy_dtype(shape_or_dtype))))


def view_as(x: Tensor, other: Tensor, name: str | None = None) -> Tensor:
    """``x`` with the shape of ``other``."""
    return reshape(x, other.shape)


def transpose(x: Tensor, perm: Sequence[int], name: str | None = None) -> Tensor:
    """Axis ``perm[i]`` of ``x`` becomes axis i."""
    return run_at("transpose2", 0, x, axis=int_list(perm))


def t(input: Tensor, name: str | None = None) -> Tensor:
    """The transposed matrix; tensors of fewer dimensions as they are."""
    if input.ndim > 2:
        raise InputError(f"t() takes at most two dimensions, got shape {input.shape}; use transpose()")
    return transpose(input, list(range(input.ndim))[::-1])


def moveaxis(x: Tensor, source: Any, destination: Any, name: str | None = None) -> Tensor:
    """Axes moved to other places, the rest in their order."""
    sources, targets = axis_list(source, x.ndim), axis_list(destination, x.ndim)
    if len(sources) != len(targets):
        raise InputError(f"moveaxis(): {len(sources)} axes to {len(targets)} places")
    order = [axis for axis in range(x.ndim) if axis not in sources]
    for target, each in sorted(zip(targets, sources, strict=True)):
        order.insert(target, each)
    return transpose(x, order)


def swapaxes(x: Tensor, axis0: int, axis1: int, name: str | None = None) -> Tensor:
    """Two axes exchanged."""
    order = list(range(x.ndim))
    first, second = axis_list([axis0, axis1], x.ndim)
    order[first], order[second] = order[second], order[first]
    return transpose(x, order)


def squeeze(x: Tensor, axis: Any = None, name: str | None = None) -> Tensor:
    """Without the axes of size one, or without those named in ``axis`` that have it."""
    return run_at("squeeze2", 0, x, axes=[] if axis is None else int_list(axis))


def unsqueeze(x: Tensor, axis: Any, name: str | None = None) -> Tensor:
    """With new axes of size one."""
    return run_at("unsqueeze2", 0, x, axes=int_list(axis))


def flatten(x: Tensor, start_axis: int = 0, stop_axis: int = -1, name: str | None = None) -> Tensor:
    """Axes ``start_axis`` to ``stop_axis`` as one."""
    return run_at("flatten_contiguous_range", 0, x, start_axis=int(start_axis), stop_axis=int(stop_axis))


def unflatten(x: Tensor, axis: int, shape: Any, name: str | None = None) -> Tensor:
    """One axis split into ``shape``."""
    at = axis_list(axis, x.ndim)[0]
    return reshape(x, x.shape[:at] + int_list(shape) + x.shape[at + 1 :])


def concat(x: Sequence[Tensor], axis: Any = 0, name: str | None = None) -> Tensor:
    """Tensors joined along an axis.

    Raises:
        InputError: their element types differ.
    """
    parts = list(x)
    kinds = {each._array.dtype.name for each in parts}
    if len(kinds) > 1:
        raise InputError(f"(InvalidArgument) concat(): the element types differ: {', '.join(sorted(kinds))}")
    return run("concat", parts, axis=int(axis))


def stack(x: Sequence[Tensor], axis: int = 0, name: str | None = None) -> Tensor:
    """Tensors of one shape joined along a new axis."""
    return run("stack", list(x), axis=int(axis))


def split(x: Tensor, num_or_sections: Any, axis: Any = 0, name: str | None = None) -> list[Tensor]:
    """Parts along an axis: a number of equal ones, or the given sizes, one of which may be -1."""
    at = axis_list(axis, x.ndim)[0]
    if isinstance(num_or_sections, int):
        attrs: dict[str, Any] = {"num": num_or_sections, "sections": [], "axis": at}
        count = num_or_sections
    else:
        sections = int_list(num_or_sections)
        attrs = {"num": 0, "sections": sections, "axis": at}
        count = len(sections)
    parts: list[Tensor] = bind("split", attrs, {"Out": count})(x, None, [])
    return parts


def chunk(x: Tensor, chunks: int, axis: Any = 0, name: str | None = None) -> list[Tensor]:
    """``chunks`` equal parts along an axis."""
    return split(x, chunks, axis)


def vsplit(x: Tensor, num_or_sections: Any, name: str | None = None) -> list[Tensor]:
    """Parts along the first axis."""
    return split(x, num_or_sections, 0)


def unbind(input: Tensor, axis: int = 0) -> list[Tensor]:
    """The slices along an axis, which disappears."""
    at = axis_list(axis, input.ndim)[0]
    parts: list[Tensor] = bind("unbind", {"axis": at}, {"Out": input.shape[at]})(input)
    return parts


def unstack(x: Tensor, axis: int = 0, num: int | None = None) -> list[Tensor]:
    """As :func:`unbind`, in memory of their own."""
    at = axis_list(axis, x.ndim)[0]
    count = x.shape[at] if num is None else num
    parts: list[Tensor] = bind("unstack", {"axis": at, "num": count}, {"Y": count})(x)
    return parts


def tile(x: Tensor, repeat_times: Any, name: str | None = None) -> Tensor:
    """``x`` repeated along each axis."""
    return run("tile", x, repeat_times=int_list(repeat_times))


def expand(x: Tensor, shape: Any, name: str | None = None) -> Tensor:
    """``x`` repeated along axes of size one to ``shape``; -1 keeps a dimension."""
    return run("expand_v2", x, shape=int_list(shape))


broadcast_to = expand


def expand_as(x: Tensor, y: Tensor, name: str | None = None) -> Tensor:
    """``x`` repeated to the shape of ``y``."""
    return run("expand_as_v2", x, y, target_shape=y.shape)


def broadcast_shape(x_shape: Sequence[int], y_shape: Sequence[int]) -> list[int]:
    """The shape that two shapes broadcast to."""
    return list(np.broadcast_shapes(tuple(x_shape), tuple(y_shape)))


def broadcast_tensors(input: Sequence[Tensor], name: str | None = None) -> list[Tensor]:
    """Tensors repeated to their common shape."""
    shape = list(np.broadcast_shapes(*(each._array.shape for each in input)))
    return [expand(each, shape) for each in input]


def repeat_interleave(x: Tensor, repeats: Any, axis: int | None = None, name: str | None = None) -> Tensor:
    """Every slice along ``axis`` repeated, in place of itself; of the flattened tensor for ``axis=None``."""
    source, at = (reshape(x, [-1]), 0) if axis is None else (x, axis_list(axis, x.ndim)[0])
    count = source.shape[at]
    times = repeats._array if isinstance(repeats, Tensor) else np.asarray(repeats)
    picks = np.repeat(np.arange(count), np.broadcast_to(times, (count,)))
    return run("index_select", source, constant(picks), dim=at)


def flip(x: Tensor, axis: Any, name: str | None = None) -> Tensor:
    """Axes turned round."""
    return run("flip", x, axis=int_list(axis))


reverse = flip


def roll(x: Tensor, shifts: Any, axis: Any = None, name: str | None = None) -> Tensor:
    """Elements moved along axes, those that leave at the end come in at the start."""
    return run("roll", x, shifts=int_list(shifts), axis=[] if axis is None else int_list(axis))


def rot90(x: Tensor, k: int = 1, axes: Sequence[int] = (0, 1), name: str | None = None) -> Tensor:
    """Turned by ``k`` right angles in a plane of two axes."""
    first, second = axis_list(list(axes), x.ndim)
    turns = k % 4
    if turns == 0:
        return clone(x)
    if turns == 2:
        return flip(flip(x, first), second)
    order = list(range(x.ndim))
    order[first], order[second] = order[second], order[first]
    return flip(transpose(x, order), first) if turns == 1 else transpose(flip(x, first), order)


def gather(x: Tensor, index: Tensor, axis: Any = None, name: str | None = None) -> Tensor:
    """Slices of ``x`` along ``axis`` (the first by default) at the positions in ``index``."""
    return run("gather", x, index, axis=0 if axis is None else int(axis))


def gather_nd(x: Tensor, index: Tensor, name: str | None = None) -> Tensor:
    """The elements or slices of ``x`` at the positions in the last axis of ``index``."""
    return run("gather_nd", x, index)


def scatter(x: Tensor, index: Tensor, updates: Tensor, overwrite: bool = True, name: str | None = None) -> Tensor:
    """``x`` with rows overwritten, or zeroed and summed up, by ``updates`` at the positions in ``index``."""
    return run("scatter", x, index, updates, overwrite=bool(overwrite))


def scatter_nd_add(x: Tensor, index: Tensor, updates: Tensor, name: str | None = None) -> Tensor:
    """``x`` with ``updates`` added at the positions in the last axis of ``index``."""
    return run("scatter_nd_add", x, index, updates)


def scatter_nd(index: Tensor, updates: Tensor, shape: Any, name: str | None = None) -> Tensor:
    """``updates`` added to zeros of ``shape`` at the positions in the last axis of ``index``."""
    return scatter_nd_add(constant(np.zeros(int_list(shape), updates._array.dtype)), index, updates)


def take_along_axis(arr: Tensor, indices: Tensor, axis: int, broadcast: bool = True) -> Tensor:
    """Elements of ``arr`` along ``axis`` at positions that are given for every place."""
    index = indices
    if broadcast:
        shape = list(np.broadcast_shapes(_but(arr, axis), _but(indices, axis)))
        shape[axis] = indices.shape[axis]
        index = _spread(indices, shape)
        shape[axis] = arr.shape[axis]
        arr = _spread(arr, shape)
    return run("take_along_axis", arr, index, Axis=int(axis))


def put_along_axis(
    arr: Tensor,
    indices: Tensor,
    values: Any,
    axis: int,
    reduce: str = "assign",
    include_self: bool = True,
    broadcast: bool = True,
) -> Tensor:
    """``arr`` with elements along ``axis`` overwritten (or ``"add"``, ``"mul"``) at positions given for every place."""
    value = as_tensor(values, arr)
    index = indices
    if broadcast:
        shape = list(np.broadcast_shapes(_but(arr, axis), _but(indices, axis)))
        shape[axis] = indices.shape[axis]
        index = _spread(indices, shape)
    value = _spread(value, index.shape)
    op = {"multiply": "mul"}.get(reduce, reduce)
    return run("put_along_axis", arr, index, value, Axis=int(axis), Reduce=op, Include_self=bool(include_self))


def _but(x: Tensor, axis: int) -> tuple[int, ...]:
    """The shape with size one along ``axis``."""
    shape = x.shape
    shape[axis] = 1
    return tuple(shape)


def _spread(x: Tensor, shape: Sequence[int]) -> Tensor:
    return x if x.shape == list(shape) else expand(x, list(shape))


def index_add(x: Tensor, index: Tensor, axis: int, value: Tensor, name: str | None = None) -> Tensor:
    """``x`` with slices of ``value`` added along ``axis`` at the positions in ``index``."""
    return run("index_add", x, index, value, axis=int(axis))


def index_put(
    x: Tensor, indices: Sequence[Tensor], value: Tensor, accumulate: bool = False, name: str | None = None
) -> Tensor:
    """``x`` with ``value`` written (or added) at positions given per axis."""
    return run("index_put", x, list(indices), as_tensor(value, x), accumulate=bool(accumulate))


def index_fill(x: Tensor, index: Tensor, axis: int, value: Any, name: str | None = None) -> Tensor:
    """``x`` with slices along ``axis`` at the positions in ``index`` filled with a number or 0-d tensor."""
    at = axis_list(axis, x.ndim)[0]
    order = [at, *(each for each in range(x.ndim) if each != at)]
    moved = transpose(x, order)
    fill = _spread(as_tensor(value, x), [index.shape[0], *moved.shape[1:]])
    filled = run("index_put", moved, [index], fill, accumulate=False)
    return transpose(filled, list(np.argsort(order)))


def slice(input: Tensor, axes: Sequence[int], starts: Any, ends: Any) -> Tensor:
    """``input`` from start to end along some axes; negative positions count from the end."""
    return run("slice", input, axes=int_list(axes), starts=int_list(starts), ends=int_list(ends))


def strided_slice(
    x: Tensor, axes: Sequence[int], starts: Any, ends: Any, strides: Any, name: str | None = None
) -> Tensor:
    """``x`` from start to end in steps along some axes."""
    attrs = {"axes": axes, "starts": starts, "ends": ends, "strides": strides}
    lists = {key: int_list(value) for key, value in attrs.items()}
    return run("strided_slice", x, **lists)


def crop(x: Tensor, shape: Any = None, offsets: Any = None, name: str | None = None) -> Tensor:
    """A box of ``shape`` at ``offsets``; -1 reaches to the end."""
    begin = [0] * x.ndim if offsets is None else int_list(offsets)
    size = x.shape if shape is None else int_list(shape)
    ends = [x.shape[i] if n == -1 else begin[i] + n for i, n in enumerate(size)]
    return clone(slice(x, list(range(x.ndim)), begin, ends))


def as_strided(x: Tensor, shape: Sequence[int], stride: Sequence[int], offset: int = 0) -> Tensor:
    """The memory of ``x`` with any shape and steps, in elements."""
    return run("as_strided", x, dims=int_list(shape), stride=int_list(stride), offset=int(offset))


def as_complex(x: Tensor, name: str | None = None) -> Tensor:
    """Pairs in the last axis as complex numbers."""
    return run("as_complex", x)


def as_real(x: Tensor, name: str | None = None) -> Tensor:
    """Complex numbers as pairs in a new last axis."""
    return run("as_real", x)


def _at_least(count: int) -> Any:
    def function(*inputs: Tensor, name: str | None = None) -> Any:
        made = [_raised(as_tensor(each), count) for each in inputs]
        return made[0] if len(made) == 1 else made

    function.__name__ = function.__qualname__ = f"atleast_{count}d"
    function.__doc__ = f"Tensors with at least {count} dimension(s)."
    return function


def _raised(x: Tensor, count: int) -> Tensor:
    shape = x.shape
    if len(shape) >= count:
        return x
    padded = {0: [1] * count, 1: [1, *shape, 1][-count:] if count == 3 else [1, *shape][-count:], 2: [*shape, 1]}
    return reshape(x, padded[len(shape)])


atleast_1d, atleast_2d, atleast_3d = _at_least(1), _at_least(2), _at_least(3)


def meshgrid(*args: Any, name: str | None = None) -> list[Tensor]:
    """Tensors of coordinates from 1-d tensors."""
    parts = list(args[0]) if len(args) == 1 and isinstance(args[0], (list, tuple)) else list(args)
    made: list[Tensor] = bind("meshgrid", {}, {"Out": len(parts)})(parts)
    return made


def numel(x: Tensor, name: str | None = None) -> Tensor:
    """The number of elements, 0-d int64."""
    return constant(np.asarray(x.size, np.int64))


def rank(input: Tensor) -> Tensor:
    """The number of dimensions, 0-d int32."""
    return constant(np.asarray(input.ndim, np.int32))


def shape(input: Tensor) -> Tensor:
    """The dimensions, 1-d int32."""
    return constant(np.asarray(input._array.shape, np.int32))


def take(x: Tensor, index: Tensor, mode: str = "raise", name: str | None = None) -> Tensor:
    """Elements of the flattened tensor; ``mode`` says what positions outside do: raise, wrap, clip."""
    count = x.size
    picks = index._array.astype(np.int64)
    if mode == "raise":
        if picks.size and (picks.min() < -count or picks.max() >= count):
            raise InputError(f"take(): a position is outside a tensor of {count} element(s)")
        picks = np.where(picks < 0, picks + count, picks)
    elif mode == "wrap":
        picks = picks % count
    elif mode == "clip":
        picks = picks.clip(0, count - 1)
    else:
        raise InputError(f"take(): mode is raise, wrap or clip, not {mode!r}")
    return reshape(run("index_select", reshape(x, [-1]), constant(picks.reshape(-1)), dim=0), index.shape)


def is_empty(x: Tensor, name: str | None = None) -> Tensor:
    """Whether there are no elements, as a 0-d bool."""
    return constant(np.asarray(x.size == 0))
