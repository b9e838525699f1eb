"""Resizing over one, two or three spatial axes: nearest, linear and cubic, both generations of the operators.

Every method is separable: an output is a weighted sum of a few inputs along each axis. Positions and weights are
computed in float32, in the order of operations of Paddle's kernels, so that the same input is taken at ties.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from ...ir.registry import Kernel, define
from ..parallel import num_threads, parallel_for
from ..values import Array, Meta
from .common import accumulate_dtype, as_ints
from .window import channels_first, channels_last

__all__ = ["AxisMap", "axis_map", "resize", "resize_back"]

_BLOCK = 1 << 17
_SHARE = 1 << 20
_CUBIC = -0.75
"""The free parameter of the cubic kernel."""


@dataclass(frozen=True, slots=True)
class AxisMap:
    """One axis: output ``k`` is the sum over taps of ``weights[k] * input[index[k]]``; None is a weight of 1."""

    size: int
    taps: tuple[tuple[npt.NDArray[np.int64], npt.NDArray[np.float32] | None], ...]

    @property
    def out(self) -> int:
        """The number of outputs."""
        return len(self.taps[0][0])


def _nearest(size: int, k: npt.NDArray[np.int64], ratio: np.float32, align_corners: bool, align_mode: int) -> AxisMap:
    position = ratio * k.astype(np.float32)
    index = (position.astype(np.float64) + 0.5 if align_corners else position).astype(np.int64)
    return AxisMap(size, ((np.clip(index, 0, size - 1), None),))


def _linear(size: int, k: npt.NDArray[np.int64], ratio: np.float32, align_corners: bool, align_mode: int) -> AxisMap:
    if align_mode == 0 and not align_corners:
        centre = np.float64(ratio) * (k + 0.5) - 0.5
        low = np.maximum(centre.astype(np.int64), 0)
        far = np.maximum(centre.astype(np.float32), np.float32(0)) - low.astype(np.float32)
    else:
        position = ratio * k.astype(np.float32)
        low = np.maximum(position.astype(np.int64), 0)
        far = position - low.astype(np.float32)
    low = np.minimum(low, size - 1)
    return AxisMap(size, ((low, np.float32(1) - far), (np.minimum(low + 1, size - 1), far)))


def _cubic(size: int, k: npt.NDArray[np.int64], ratio: np.float32, align_corners: bool, align_mode: int) -> AxisMap:
    if align_corners:
        position = ratio * k.astype(np.float32)
    else:
        position = (np.float64(ratio) * (k + 0.5) - 0.5).astype(np.float32)
    base = np.floor(position)
    t = position - base

    def near(x: Any) -> Any:
        return ((_CUBIC + 2) * x - (_CUBIC + 3)) * x * x + 1

    def away(x: Any) -> Any:
        return ((_CUBIC * x - 5 * _CUBIC) * x + 8 * _CUBIC) * x - 4 * _CUBIC

    weights = (away(t + 1), near(t), near(1 - t), away(2 - t))
    start = base.astype(np.int64) - 1
    return AxisMap(
        size,
        tuple(
            (np.clip(start + offset, 0, size - 1), weight.astype(np.float32, copy=False))
            for offset, weight in enumerate(weights)
        ),
    )


_METHODS: dict[str, Callable[..., AxisMap]] = {
    "nearest": _nearest,
    "linear": _linear,
    "bilinear": _linear,
    "trilinear": _linear,
    "bicubic": _cubic,
}
_METHODS_OF_RANK = {1: ("linear",), 2: ("bilinear", "nearest", "bicubic"), 3: ("trilinear", "nearest")}
_FLOATS = ("float32", "float64", "float16", "bfloat16")
_DTYPES = {"nearest": (*_FLOATS, "int32", "int64", "uint8"), "bicubic": _FLOATS}


def axis_map(method: str, size: int, out: int, scale: float, align_corners: bool, align_mode: int) -> AxisMap:
    """The map of one axis. A positive ``scale`` takes the place of ``out / size`` unless the corners are aligned."""
    ratio = np.float32(0)
    if out > 1:
        if align_corners:
            ratio = np.float32(size - 1) / np.float32(out - 1)
        else:
            ratio = np.float32(1.0 / scale) if scale > 0 else np.float32(size) / np.float32(out)
    return _METHODS[method](size, np.arange(out, dtype=np.int64), ratio, align_corners, align_mode)


def _apply(x: Array, axis: int, map: AxisMap) -> Array:
    total: Array | None = None
    shape = [-1 if i == axis else 1 for i in range(x.ndim)]
    for index, weight in map.taps:
        part = np.take(x, index, axis=axis, mode="clip")
        if weight is not None:
            np.multiply(part, weight.reshape(shape), out=part)
        total = part if total is None else np.add(total, part, out=total)
    assert total is not None
    return total


def resize(x: Array, maps: Sequence[AxisMap]) -> Array:
    """Apply one map to each trailing axis of ``x`` ``[N, C, *spatial]``, in the dtype of ``x``."""
    # Shrinking axes first keeps the later passes small; of the growing ones the last axis is the slow one.
    order = sorted(range(len(maps)), key=lambda i: (maps[i].out >= maps[i].size, -i))
    return _by_planes(x, [map.out for map in maps], _apply, order, maps)


def _resize_truncated(x: Array, maps: Sequence[AxisMap]) -> Array:
    """As :func:`resize` for integers: float32 products in the order of Paddle's sum, so that truncation agrees."""
    lead = (slice(None), slice(None))
    total: Array | None = None
    axes = range(len(maps))
    for taps in product(*(map.taps for map in (maps[::-1] if len(maps) == 2 else maps))):
        ordered = taps[::-1] if len(maps) == 2 else taps
        part = x[lead + np.ix_(*(index for index, _ in ordered))].astype(np.float32)
        for axis, (_, weight) in zip(axes, ordered, strict=True):
            assert weight is not None
            part *= weight.reshape([-1 if i == axis else 1 for i in axes])
        total = part if total is None else total + part
    assert total is not None
    return total.astype(x.dtype)


_Places = npt.NDArray[np.int64]


def _occurrences(index: _Places) -> Iterator[tuple[_Places, _Places]]:
    """(outputs, inputs) such that each input occurs at most once in a pair; ``index`` never decreases."""
    inputs, starts, counts = np.unique(index, return_index=True, return_counts=True)
    for turn in range(int(counts.max())):
        there = counts > turn
        yield starts[there] + turn, inputs[there]


def _run(places: _Places) -> slice | _Places:
    """The places as a slice where they are evenly spaced, so that no copy is needed."""
    if len(places) == 1:
        return slice(int(places[0]), int(places[0]) + 1)
    step = int(places[1] - places[0])
    if np.all(np.diff(places) == step):
        return slice(int(places[0]), int(places[-1]) + 1, step)
    return places


def _apply_back(d_out: Array, axis: int, map: AxisMap) -> Array:
    """The transpose of :func:`_apply`."""
    lead = (slice(None),) * axis
    total = np.zeros((*d_out.shape[:axis], map.size, *d_out.shape[axis + 1 :]), d_out.dtype)
    along = [-1 if i == axis else 1 for i in range(d_out.ndim)]
    for index, weight in map.taps:
        weighted = d_out if weight is None else d_out * weight.reshape(along)
        for outputs, inputs in _occurrences(index):
            run, into = _run(outputs), (*lead, _run(inputs))
            if isinstance(run, slice):
                take = (*lead, run)
                total[into] += weighted[take]
            else:
                total[into] += np.take(weighted, run, axis=axis)
    return total


def resize_back(d_out: Array, maps: Sequence[AxisMap]) -> Array:
    """The gradient of :func:`resize`, ``[N, C, *spatial]``."""
    order = sorted(range(len(maps)), key=lambda i: (maps[i].out < maps[i].size, i))
    return _by_planes(d_out, [map.size for map in maps], _apply_back, order, maps)


def _by_planes(
    x: Array,
    extents: Sequence[int],
    apply: Callable[[Array, int, AxisMap], Array],
    order: Sequence[int],
    maps: Sequence[AxisMap],
) -> Array:
    """``apply`` each map, in ``order``, to blocks of the planes of ``x`` that stay in cache; on several threads."""
    planes = x.reshape(-1, *x.shape[2:])
    out = np.empty((planes.shape[0], *extents), x.dtype)
    size = max(math.prod(planes.shape[1:]), math.prod(extents), 1)
    block = max(_BLOCK // size, 1)

    def work(start: int, stop: int) -> None:
        for first in range(start, stop, block):
            last = min(first + block, stop)
            part = planes[first:last]
            for position in order:
                part = apply(part, position + 1, maps[position])
            out[first:last] = part

    shares = 2 * num_threads() if planes.shape[0] * size >= _SHARE else 1
    parallel_for(planes.shape[0], work, max(-(-planes.shape[0] // shares), 1))
    return out.reshape(*x.shape[:2], *extents)


@dataclass(frozen=True, slots=True)
class _Sizes:
    """The output extents, and the scales that ratios follow (0 where they follow the extents)."""

    out: tuple[int, ...]
    scales: tuple[float, ...]


def _sizes(
    spatial: Sequence[int],
    out_size: Array | None,
    size_tensors: Sequence[Array],
    scale_tensor: Array | None,
    attr_sizes: Sequence[int],
    attr_scales: Sequence[float],
    second: bool,
) -> _Sizes:
    """Who decides the output size: SizeTensor, else OutSize, else Scale or scale, else out_d, out_h, out_w.

    In the second generation a scale that is given keeps deciding the ratio even where OutSize overrules the size.
    """
    count = len(spatial)
    none = (0.0,) * count
    if size_tensors:
        sizes = as_ints(list(size_tensors))
        return _Sizes(_positive(sizes, count), none)
    scales = tuple(float(s) for s in attr_scales[:count]) if len(attr_scales) >= count else ()
    if scale_tensor is not None:
        given = [float(s) for s in np.asarray(scale_tensor).reshape(-1)]
        scales = tuple(given[:count]) if second and len(given) >= count else (given[0],) * count
    if (second or scale_tensor is not None) and any(s <= 0 for s in scales):
        raise ValueError(f"the scale must be positive, got {list(scales)}")
    use = bool(scales) and all(s > 0 for s in scales)
    sizes = [int(size * s) for size, s in zip(spatial, scales, strict=True)] if use else list(attr_sizes)
    if out_size is not None:
        sizes = as_ints(out_size)
    return _Sizes(_positive(sizes, count), scales if use and second else none)


def _positive(sizes: Sequence[int], count: int) -> tuple[int, ...]:
    if len(sizes) != count or min(sizes) <= 0:
        raise ValueError(f"the output size must be {count} positive integers, got {list(sizes)}")
    return tuple(sizes)


def _maps(spatial: Sequence[int], sizes: _Sizes, method: str, align_corners: bool, align_mode: int) -> list[AxisMap]:
    return [
        axis_map(method, size, out, scale, align_corners, align_mode)
        for size, out, scale in zip(spatial, sizes.out, sizes.scales, strict=True)
    ]


def _checked_method(method: str, count: int, dtype: np.dtype[Any], second: bool) -> None:
    allowed = _METHODS_OF_RANK.get(count, ())
    if count == 3 and not second:
        allowed = ("trilinear",)
    if method not in allowed:
        raise ValueError(
            f"interp_method of an input with {count} spatial axes must be one of {allowed}, got '{method}'"
        )
    if dtype.name not in _DTYPES.get(method, (*_FLOATS, "uint8")):
        raise TypeError(f"X of dtype {dtype} cannot be resized by '{method}'")


def _scales_of(scale: float | Sequence[float], count: int) -> Sequence[float]:
    """One scale serves all axes in the first generation; the second lists them."""
    if isinstance(scale, (int, float)):
        return (float(scale),) * count if scale > 0 else ()
    return scale


def _forward(second: bool) -> Kernel:
    none: Any = () if second else 0.0

    def interpolate(
        x: Array,
        out_size: Array | None,
        size_tensors: list[Array],
        scale_tensor: Array | None,
        *,
        data_layout: str = "NCHW",
        out_d: int = 0,
        out_h: int = 0,
        out_w: int = 0,
        scale: float | Sequence[float] = none,
        interp_method: str = "bilinear",
        align_corners: bool = True,
        align_mode: int = 1,
    ) -> Array:
        images = channels_first(x, data_layout)
        spatial = images.shape[2:]
        _checked_method(interp_method, len(spatial), x.dtype, second)
        attr_sizes = (out_d, out_h, out_w)[3 - len(spatial) :]
        scales = _scales_of(scale, len(spatial))
        sizes = _sizes(spatial, out_size, size_tensors, scale_tensor, attr_sizes, scales, second)
        if sizes.out == spatial:
            result: Array = x.copy()
            return result
        maps = _maps(spatial, sizes, interp_method, align_corners, align_mode)
        if interp_method == "nearest" or x.dtype.name in ("float32", "float64"):
            return channels_last(resize(images, maps), data_layout)
        if x.dtype.kind in "iu":
            return channels_last(_resize_truncated(images, maps), data_layout)
        wide = resize(images.astype(np.float32), maps)
        return channels_last(wide.astype(x.dtype), data_layout)

    interpolate.__doc__ = """Resize the spatial axes of ``x``; the result has the dtype of ``x``.

    Nearest takes any dtype Paddle takes; the others compute in float32 and round (integers: truncate).
    """
    return interpolate


def _backward(second: bool) -> Kernel:
    none: Any = () if second else 0.0

    def interpolate_grad(
        x: Array | Meta,
        out_size: Array | None,
        size_tensors: list[Array],
        scale_tensor: Array | None,
        d_out: Array,
        *,
        data_layout: str = "NCHW",
        out_d: int = 0,
        out_h: int = 0,
        out_w: int = 0,
        scale: float | Sequence[float] = none,
        interp_method: str = "bilinear",
        align_corners: bool = True,
        align_mode: int = 1,
    ) -> Array:
        above = channels_first(d_out, data_layout)
        shape = x.shape if not data_layout.endswith("C") else (x.shape[0], x.shape[-1], *x.shape[1:-1])
        spatial = tuple(shape[2:])
        attr_sizes = (out_d, out_h, out_w)[3 - len(spatial) :]
        scales = _scales_of(scale, len(spatial))
        sizes = _sizes(spatial, out_size, size_tensors, scale_tensor, attr_sizes, scales, second)
        if sizes.out == spatial:
            result: Array = d_out.copy()
            return result
        maps = _maps(spatial, sizes, interp_method, align_corners, align_mode)
        back = resize_back(above.astype(accumulate_dtype(d_out.dtype), copy=False), maps)
        return channels_last(back.astype(d_out.dtype, copy=False), data_layout)

    interpolate_grad.__doc__ = "Every output's gradient goes to the inputs it was made of, by their weights."
    return interpolate_grad


_SLOTS = "X OutSize? SizeTensor* Scale?"
_TAKES = "X~ OutSize? SizeTensor* Scale? Out@GRAD"
for _suffix, _second in (("", False), ("_v2", True)):
    _kernel, _grad = _forward(_second), _backward(_second)
    for _name in ("linear", "bilinear", "trilinear", "bicubic", "nearest"):
        define(f"{_name}_interp{_suffix}", _kernel, inputs=_SLOTS, outputs="Out").gradient(
            takes=_TAKES, gives="X@GRAD"
        )(_grad)
