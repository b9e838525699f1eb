"""Python operators on tensors: ``x + 1``, ``2 / x``, ``x @ y``, ``x < y``, with Paddle's element types."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .dispatch import bind
from .dtypes import default_float, is_floating
from .operands import as_tensor, cast_to, matched_left, run
from .tensor import Tensor

__all__ = ["OPERATORS"]


def _float_for(x: Tensor) -> Tensor:
    """Integers meet a Python float: they become the default float type."""
    return x if is_floating(x._array.dtype) or x._array.dtype.kind == "c" else cast_to(x, default_float())


def _scaled(x: Tensor, scale: float, bias: float, bias_after_scale: bool = True) -> Tensor:
    return run("scale", x, scale=scale, bias=bias, bias_after_scale=bias_after_scale)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _operands(x: Tensor, other: Any, mix: bool) -> tuple[Tensor, Tensor]:
    """Both operands as tensors of one element type."""
    if isinstance(other, (float, np.floating)) and not isinstance(other, Tensor):
        x = _float_for(x) if isinstance(other, float) else x
        return x, as_tensor(float(other), x)
    if isinstance(other, complex):
        wide = np.complex128 if x._array.dtype in (np.float64, np.complex128) else np.complex64
        return cast_to(x, np.dtype(wide)), as_tensor(np.asarray(other, wide))
    return matched_left(x, as_tensor(other, x), mix)


def _arithmetic(op: str, by_number: Callable[[Tensor, float], Tensor] | None, mix: bool, swap: bool = False) -> Any:
    """An operator: scaling for plain numbers where there is a short way, else the binary operator."""
    apply: Any = None

    def method(self: Tensor, other: Any) -> Any:
        nonlocal apply
        if apply is None:
            apply = bind(op)
        x, y = self, other
        if isinstance(other, Tensor):
            if self._array.dtype != other._array.dtype:
                x, y = _operands(self, other, mix)
        elif by_number is not None and _is_number(other):
            return by_number(_float_for(self) if isinstance(other, float) else self, other)
        elif _is_operand(other):
            x, y = _operands(self, other, mix)
        else:
            return NotImplemented
        return apply(y, x) if swap else apply(x, y)

    return method


def _is_operand(value: Any) -> bool:
    return isinstance(value, (bool, int, float, complex, np.ndarray, np.generic, list, tuple))


def _true_division(swap: bool) -> Any:
    divide = _arithmetic("elementwise_div", None, mix=False, swap=swap)

    def method(self: Tensor, other: Any) -> Tensor:
        x = self if self._array.dtype.kind not in "biu" else cast_to(self, default_float())
        if not swap and _is_number(other) and other != 0:
            return _scaled(x, 1.0 / other, 0.0)
        made: Tensor = divide(x, other)
        return made

    return method


def _comparison(op: str) -> Any:
    compare = _arithmetic(op, None, mix=False)

    def method(self: Tensor, other: Any) -> Any:
        if isinstance(other, float) and self._array.dtype.kind in "biu":
            return compare(cast_to(self, default_float()), other)
        return compare(self, other)

    return method


def _power(self: Tensor, other: Any) -> Tensor:
    if _is_number(other):
        x = _float_for(self) if isinstance(other, float) else self
        return run("pow", x, factor=float(other))
    made: Tensor = _power_of_tensors(self, other)
    return made


_power_of_tensors = _arithmetic("elementwise_pow", None, mix=False)


def _negative(self: Tensor) -> Tensor:
    return _scaled(self, -1.0, 0.0)


def _positive(self: Tensor) -> Tensor:
    return self


def _absolute(self: Tensor) -> Tensor:
    return run("abs", self)


def _invert(self: Tensor) -> Tensor:
    return run("bitwise_not", self)


OPERATORS: dict[str, Any] = {
    "__add__": _arithmetic("elementwise_add", lambda x, n: _scaled(x, 1.0, float(n)), mix=True),
    "__radd__": _arithmetic("elementwise_add", lambda x, n: _scaled(x, 1.0, float(n)), mix=True, swap=True),
    "__sub__": _arithmetic("elementwise_sub", lambda x, n: _scaled(x, 1.0, -float(n)), mix=True),
    "__rsub__": _arithmetic("elementwise_sub", lambda x, n: _scaled(x, -1.0, float(n)), mix=True, swap=True),
    "__mul__": _arithmetic("elementwise_mul", lambda x, n: _scaled(x, float(n), 0.0), mix=True),
    "__rmul__": _arithmetic("elementwise_mul", lambda x, n: _scaled(x, float(n), 0.0), mix=True, swap=True),
    "__truediv__": _true_division(swap=False),
    "__rtruediv__": _true_division(swap=True),
    "__floordiv__": _arithmetic("elementwise_floordiv", None, mix=False),
    "__rfloordiv__": _arithmetic("elementwise_floordiv", None, mix=False, swap=True),
    "__mod__": _arithmetic("elementwise_mod", None, mix=False),
    "__rmod__": _arithmetic("elementwise_mod", None, mix=False, swap=True),
    "__pow__": _power,
    "__rpow__": _arithmetic("elementwise_pow", None, mix=False, swap=True),
    "__matmul__": _arithmetic("matmul_v2", None, mix=False),
    "__rmatmul__": _arithmetic("matmul_v2", None, mix=False, swap=True),
    "__eq__": _comparison("equal"),
    "__ne__": _comparison("not_equal"),
    "__lt__": _comparison("less_than"),
    "__le__": _comparison("less_equal"),
    "__gt__": _comparison("greater_than"),
    "__ge__": _comparison("greater_equal"),
    "__and__": _arithmetic("bitwise_and", None, mix=False),
    "__or__": _arithmetic("bitwise_or", None, mix=False),
    "__xor__": _arithmetic("bitwise_xor", None, mix=False),
    "__rand__": _arithmetic("bitwise_and", None, mix=False, swap=True),
    "__ror__": _arithmetic("bitwise_or", None, mix=False, swap=True),
    "__rxor__": _arithmetic("bitwise_xor", None, mix=False, swap=True),
    "__neg__": _negative,
    "__pos__": _positive,
    "__abs__": _absolute,
    "__invert__": _invert,
}
"""Special method -> its implementation."""
