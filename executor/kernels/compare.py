"""Comparison, logical and bitwise operators, closeness, and tests for special values. None has a gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...ir.registry import OpContext, define, operator
from ..values import Array
from .common import follow_rank
from .elementwise import aligned_shapes, promoted
from .pointwise import widened

__all__ = ["allclose", "equal_all", "is_empty", "isclose"]

_NEAR = 1e-8
"""Float32 and float64 numbers that are closer than this count as equal, as Paddle has it."""
_TOLERANT = frozenset({np.dtype(np.float32), np.dtype(np.float64)})


def _equal(x: Array, y: Array) -> Array:
    same: Array = np.equal(x, y)
    if x.dtype in _TOLERANT:
        same = same | (np.abs(x - y) < _NEAR)
    return same


def _not_equal(x: Array, y: Array) -> Array:
    return np.logical_not(_equal(x, y))


def _plain(x: Array) -> Array:
    """Half types compare as float32, which they convert to exactly."""
    return x.astype(np.float32) if x.dtype.kind == "V" else x


_COMPARISONS: dict[str, tuple[Callable[[Array, Array], Any], str]] = {
    "equal": (_equal, "fibc"),
    "not_equal": (_not_equal, "fibc"),
    "less_than": (np.less, "fib"),
    "less_equal": (np.less_equal, "fib"),
    "greater_than": (np.greater, "fib"),
    "greater_equal": (np.greater_equal, "fib"),
}


def _comparison(type: str, function: Callable[[Array, Array], Any], kinds: str) -> Any:
    def kernel(x: Array, y: Array, *, axis: int = -1) -> Array:
        if x.dtype != y.dtype:
            x, y = promoted(type, x, y)
        widened(type, "X", x.dtype, kinds)
        if axis != -1:
            x_shape, y_shape = aligned_shapes(x.shape, y.shape, axis)
            x, y = x.reshape(x_shape), y.reshape(y_shape)
        with np.errstate(all="ignore"):
            return function(_plain(x), _plain(y))  # type: ignore[no-any-return]

    kernel.__doc__ = f"``{type}`` element by element, a boolean tensor; floats closer than 1e-8 are equal."
    return kernel


for _type, (_function, _kinds) in _COMPARISONS.items():
    define(
        _type,
        _comparison(_type, _function, _kinds),
        inputs="X Y",
        outputs="Out",
        ignores="force_cpu",
        gradient=None,
    )


def _logical(type: str, ufunc: Any) -> Any:
    def kernel(x: Array, y: Array) -> Array:
        if x.dtype != y.dtype:
            promoted(type, x, y)
        return ufunc(_plain(x), _plain(y))  # type: ignore[no-any-return]

    kernel.__doc__ = f"``{type}`` of tensors taken as booleans (all but 0 is true)."
    return kernel


for _type in ("logical_and", "logical_or", "logical_xor"):
    define(_type, _logical(_type, getattr(np, _type)), inputs="X Y", outputs="Out", gradient=None)


@operator("logical_not", inputs="X", outputs="Out", gradient=None)
def logical_not(x: Array) -> Array:
    """True where ``x`` is 0."""
    return np.logical_not(_plain(x))


def _bitwise(type: str, ufunc: Any) -> Any:
    def kernel(x: Array, y: Array) -> Array:
        if x.dtype != y.dtype:
            promoted(type, x, y)
        widened(type, "X", x.dtype, "ib")
        return ufunc(x, y)  # type: ignore[no-any-return]

    kernel.__doc__ = f"``{type}`` of integers; the logical operation of booleans."
    return kernel


for _type in ("bitwise_and", "bitwise_or", "bitwise_xor"):
    define(_type, _bitwise(_type, getattr(np, _type)), inputs="X Y", outputs="Out", gradient=None)


@operator("bitwise_not", inputs="X", outputs="Out", gradient=None)
def bitwise_not(x: Array) -> Array:
    """All bits turned; the logical negation of booleans."""
    widened("bitwise_not", "X", x.dtype, "ib")
    return np.invert(x)


@operator("equal_all", inputs="X Y", outputs="Out", gradient=None)
def equal_all(x: Array, y: Array, *, ctx: OpContext | None = None) -> Array:
    """Whether both have one shape and are equal everywhere."""
    if x.dtype != y.dtype:
        promoted("equal_all", x, y)
    with np.errstate(all="ignore"):
        same = x.shape == y.shape and bool(np.all(_equal(_plain(x), _plain(y))))
    return follow_rank(np.asarray(same), None if ctx is None else ctx.declared("Out"))


def _tolerance(tensor: Array | None, attr: str | float) -> float:
    """A tolerance from its tensor, else from its attribute, which newer programs state as text."""
    return float(attr) if tensor is None else float(tensor.reshape(-1)[0])


def _close(type: str, x: Array, y: Array, rtol: float, atol: float, equal_nan: bool) -> Array:
    if x.ndim != y.ndim:
        raise ValueError(f"slot Other: {y.ndim} dimension(s), Input has {x.ndim}")
    if x.dtype != y.dtype:
        x, y = promoted(type, x, y)
    widened(type, "Input", x.dtype, "fcib")
    x, y = _plain(x), _plain(y)
    if x.dtype.kind in "biu":
        x, y = x.astype(np.float64), y.astype(np.float64)
    with np.errstate(all="ignore"):
        close: Array = (x == y) | (np.abs(x - y) <= atol + abs(rtol) * np.abs(y))
        if equal_nan:
            close = close | (np.isnan(x) & np.isnan(y))
    return close


@operator("isclose", inputs="Input Other Rtol? Atol?", outputs="Out", gradient=None)
def isclose(
    x: Array,
    y: Array,
    rtol_tensor: Array | None,
    atol_tensor: Array | None,
    *,
    rtol: str | float = "1e-5",
    atol: str | float = "1e-8",
    equal_nan: bool = False,
) -> Array:
    """``|x - y| <= atol + rtol * |y|`` or equal; infinity in ``y`` is close to all, as Paddle has it."""
    return np.asarray(_close("isclose", x, y, _tolerance(rtol_tensor, rtol), _tolerance(atol_tensor, atol), equal_nan))


@operator("allclose", inputs="Input Other Rtol? Atol?", outputs="Out", gradient=None)
def allclose(
    x: Array,
    y: Array,
    rtol_tensor: Array | None,
    atol_tensor: Array | None,
    *,
    rtol: str | float = "1e-5",
    atol: str | float = "1e-8",
    equal_nan: bool = False,
    ctx: OpContext | None = None,
) -> Array:
    """Whether ``isclose`` holds everywhere."""
    close = _close("allclose", x, y, _tolerance(rtol_tensor, rtol), _tolerance(atol_tensor, atol), equal_nan)
    return follow_rank(np.asarray(np.all(close)), None if ctx is None else ctx.declared("Out"))


@operator("is_empty", inputs="X", outputs="Out", gradient=None)
def is_empty(x: Array, *, ctx: OpContext | None = None) -> Array:
    """Whether the tensor has no element."""
    return follow_rank(np.asarray(x.size == 0), None if ctx is None else ctx.declared("Out"))


def _by_element(type: str, ufunc: Any, whole: bool) -> Any:
    """``ufunc`` where the dtype has such values; ``whole``: what it is of integers."""

    def kernel(x: Array) -> Array:
        if x.dtype.kind in "iub":
            return np.full(x.shape, whole)
        return ufunc(_plain(x))  # type: ignore[no-any-return]

    kernel.__doc__ = f"``{type.removesuffix('_v2')}`` of each element."
    return kernel


def _any_element(type: str, ufunc: Any, whole: bool) -> Any:
    """The 1.x form: one boolean of shape ``[1]`` for the whole tensor."""
    reduce = np.all if whole else np.any
    by_element = _by_element(type, ufunc, whole)

    def kernel(x: Array) -> Array:
        return np.asarray(reduce(by_element(x))).reshape(1)

    kernel.__doc__ = f"Whether {'every element is finite' if whole else f'any element is {type[2:]}'}; shape [1]."
    return kernel


for _type in ("isfinite", "isinf", "isnan"):
    _ufunc, _whole = getattr(np, _type), _type == "isfinite"
    define(_type, _any_element(_type, _ufunc, _whole), inputs="X", outputs="Out", gradient=None)
    define(f"{_type}_v2", _by_element(f"{_type}_v2", _ufunc, _whole), inputs="X", outputs="Out", gradient=None)
