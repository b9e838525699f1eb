"""Operands: numbers and arrays as tensors, and the element types of mixed arithmetic, as Paddle 2.6 has them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ..errors import InputError
from ..ir.dtypes import from_numpy
from .dispatch import bind
from .dtypes import default_float, is_floating
from .tensor import Tensor, wrap

__all__ = [
    "as_tensor",
    "axis_list",
    "binary",
    "cast_to",
    "constant",
    "documented",
    "int_list",
    "kept_left",
    "matched",
    "matched_left",
    "promoted",
    "run",
    "run_at",
    "run_many",
    "unary",
]

Function = Callable[..., Tensor]

_FLOATS: Final = frozenset({"float16", "bfloat16", "float32", "float64"})


def cast_to(x: Tensor, dtype: np.dtype[Any]) -> Tensor:
    """``x`` with another element type, itself when it has it already. Gradients pass."""
    held = x._array.dtype
    if held == dtype:
        return x
    return run("cast", x, in_dtype=int(from_numpy(held)), out_dtype=int(from_numpy(dtype)))


def as_tensor(value: Any, like: Tensor | None = None) -> Tensor:
    """A tensor from a tensor, number or array; a number takes the element type of ``like``.

    Raises:
        TypeError: it is neither.
    """
    if isinstance(value, Tensor):
        return value
    if isinstance(value, (bool, int, float, complex, np.generic)):
        if like is None:
            return wrap(np.asarray(value, default_float() if isinstance(value, float) else None))
        return wrap(np.asarray(value).astype(like._array.dtype))
    if isinstance(value, (np.ndarray, list, tuple)):
        return wrap(np.array(value))
    raise TypeError(f"expected a Tensor, a number or an array, got {type(value).__name__}")


@functools.lru_cache(maxsize=512)
def promoted(x: np.dtype[Any], y: np.dtype[Any]) -> np.dtype[Any] | None:
    """The common element type that Paddle's arithmetic finds by itself: of two floating types the wider
    (float32 for the two half types together), of a complex and a floating one the complex. None otherwise."""
    if x == y:
        return x
    kinds = {x.kind, y.kind}
    if x.name in _FLOATS and y.name in _FLOATS:
        if {x.name, y.name} == {"float16", "bfloat16"}:
            return np.dtype(np.float32)
        return x if x.itemsize > y.itemsize else y
    if "c" in kinds and all(each.kind == "c" or each.name in _FLOATS for each in (x, y)):
        wide = any(each in (np.float64, np.complex128) for each in (x, y))
        return np.dtype(np.complex128 if wide else np.complex64)
    return None


def matched(x: Tensor, y: Tensor, name: str, mix: bool) -> tuple[Tensor, Tensor]:
    """Two operands of a function with one element type.

    Args:
        mix: whether the function finds a common type (``add``, ``subtract``, ``multiply``, ``where``).

    Raises:
        InputError: the types differ and there is no common one.
    """
    a, b = x._array.dtype, y._array.dtype
    if a == b:
        return x, y
    common = promoted(a, b) if mix or "c" in (a.kind, b.kind) else None
    if common is None:
        raise InputError(
            f"(InvalidArgument) {name}: the element types differ, X is {a.name} and Y is {b.name}; cast one of them"
        )
    return cast_to(x, common), cast_to(y, common)


def matched_left(x: Tensor, y: Tensor, mix: bool) -> tuple[Tensor, Tensor]:
    """Two operands of an operator (``x + y``): the common type where there is one, else that of ``x``."""
    a, b = x._array.dtype, y._array.dtype
    if a == b:
        return x, y
    common = promoted(a, b) if mix or "c" in (a.kind, b.kind) else None
    if common is not None:
        return cast_to(x, common), cast_to(y, common)
    return x, cast_to(y, a)


def kept_left(x: Tensor, y: Tensor, name: str) -> Tensor:
    """The other operand of an in-place function, in the element type of ``x``, which stays.

    Raises:
        InputError: the result would need a type that ``x`` cannot hold.
    """
    a, b = x._array.dtype, y._array.dtype
    if a == b:
        return y
    if not _holds(a, b):
        raise InputError(
            f"(InvalidArgument) {name}: the result of {a.name} and {b.name} does not fit into the {a.name} tensor that "
            "is changed in place; cast the other operand, or use the out-of-place function"
        )
    return cast_to(y, a)


@functools.lru_cache(maxsize=512)
def _holds(x: np.dtype[Any], y: np.dtype[Any]) -> bool:
    """Whether mixing ``y`` into ``x`` leaves the type of ``x``."""
    common = promoted(x, y)
    if common is not None:
        return common == x
    rank = {"b": 0, "u": 1, "i": 1, "f": 2, "c": 3}
    mine, other = (3 if d.kind == "c" else 2 if is_floating(d) else rank[d.kind] for d in (x, y))
    if mine != other:
        return mine > other
    return bool(np.result_type(x, y) == x)


def documented(function: Function, name: str, doc: str) -> Function:
    """Give a generated function its name and text."""
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


def unary(name: str, doc: str, op: str = "", **attrs: Any) -> Function:
    """A function of one tensor that is one operator, by default of the same type."""
    run: Any = None

    def function(x: Tensor, name: str | None = None) -> Tensor:
        nonlocal run
        if run is None:
            run = bind(op or function.__name__, attrs)
        made: Tensor = run(x if isinstance(x, Tensor) else as_tensor(x))
        return made

    return documented(function, name, doc)


def binary(name: str, doc: str, op: str = "", mix: bool = False, same: bool = True, **attrs: Any) -> Function:
    """A function of two tensors that is one operator.

    Args:
        mix: whether two floating types find a common one.
        same: whether element types must agree at all.
    """
    run: Any = None

    def function(x: Tensor, y: Tensor, name: str | None = None) -> Tensor:
        nonlocal run
        if run is None:
            run = bind(op or function.__name__, attrs)
        if not isinstance(x, Tensor):
            x = as_tensor(x, y if isinstance(y, Tensor) else None)
        if not isinstance(y, Tensor):
            y = as_tensor(y, x)
        if same and x._array.dtype != y._array.dtype:
            x, y = matched(x, y, function.__name__, mix)
        made: Tensor = run(x, y)
        return made

    return documented(function, name, doc)


def int_list(value: Any) -> list[int]:
    """Python ints from an int, a tensor of ints, or a list of ints and tensors (shapes, axes, sections)."""
    if isinstance(value, Tensor):
        return [int(each) for each in value._array.reshape(-1)]
    if isinstance(value, (list, tuple, np.ndarray)):
        return [int(each) for each in value]
    return [int(value)]


def axis_list(axis: Any, ndim: int) -> list[int]:
    """Non-negative axes.

    Raises:
        InputError: an axis is outside.
    """
    axes = int_list(axis)
    for each in axes:
        if not -max(ndim, 1) <= each < max(ndim, 1):
            raise InputError(f"(InvalidArgument) axis {each} is outside a tensor of {ndim} dimension(s)")
    return [each + ndim if each < 0 else each for each in axes]


def run(type: str, /, *inputs: Any, **attrs: Any) -> Tensor:
    """Run an operator with one output on tensors in slot order."""
    made: Tensor = bind(type, attrs)(*inputs)
    return made


def run_many(type: str, /, *inputs: Any, **attrs: Any) -> tuple[Any, ...]:
    """Run an operator with several outputs on tensors in slot order; the outputs in slot order."""
    made: tuple[Any, ...] = bind(type, attrs)(*inputs)
    return made


def run_at(type: str, at: int, /, *inputs: Any, **attrs: Any) -> Tensor:
    """Run an operator with several outputs on tensors in slot order; its output number ``at``."""
    made: Tensor = bind(type, attrs)(*inputs)[at]
    return made


constant = wrap
"""A tensor without gradient over a fresh array."""
