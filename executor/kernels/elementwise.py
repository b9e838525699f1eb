"""Arithmetic on two tensors with Paddle's broadcasting rule: the shorter shape starts at ``axis`` of the longer one.

One table row is one operator: a ufunc, the dtypes that it takes and, in ``_GRADIENTS``, its gradient rule before
broadcasting is undone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...ir.registry import OpContext, define, operator
from ..parallel import num_threads, parallel_for
from ..values import Array, Meta, SelectedRows
from .common import unbroadcast
from .pointwise import widened

__all__ = ["aligned_shapes", "arithmetic", "binary", "promoted"]

_FLOATS = frozenset({np.dtype(np.float32), np.dtype(np.float64)})
_LARGE, _LARGE_COSTLY = 1 << 21, 1 << 17
"""From so many elements on an operation is split over the threads; the second is for costly ones."""
_SMALL = 1 << 10
_FROM_FLOOR = 2005000
"""Programs of older Paddle versions mean by ``elementwise_floordiv`` the quotient without its fraction."""

IGNORED = "x_data_format y_data_format"
"""Hints for the layout of a back end."""
REFUSED = {"Scale_x": 1.0, "Scale_y": 1.0, "Scale_out": 1.0}
"""Scales of the int8 form, which is a back end's own."""


def aligned_shapes(x: tuple[int, ...], y: tuple[int, ...], axis: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Both shapes such that numpy's broadcasting means Paddle's ``axis``: where the shorter one starts, -1 its end.

    Trailing ones that would reach beyond the longer shape are dropped from the shorter one.

    Raises:
        ValueError: ``axis`` is no dimension of the longer shape.
    """
    if axis == -1:
        return x, y
    if axis < 0 or axis >= max(len(x), len(y), 1) or (len(x) == len(y) and axis):
        raise ValueError(f"attribute axis={axis} does not fit shapes {list(x)} and {list(y)}")
    if len(x) < len(y):
        y, x = aligned_shapes(y, x, axis)
    elif len(y) < len(x):
        short = list(y)
        while len(short) > 1 and short[-1] == 1 and axis + len(short) > len(x):
            short.pop()
        if axis + len(short) > len(x):
            raise ValueError(f"attribute axis={axis} leaves no room for shape {list(y)} in {list(x)}")
        y = (*short, *(1,) * (len(x) - axis - len(short)))
    return x, y


def promoted(type: str, x: Array, y: Array) -> tuple[Array, Array]:
    """Both arrays in one dtype: they must have it already, or one of them is complex.

    Raises:
        TypeError: the dtypes differ.
    """
    if x.dtype == y.dtype:
        return x, y
    if "c" in (x.dtype.kind, y.dtype.kind):
        common = np.result_type(x, y)
        return x.astype(common, copy=False), y.astype(common, copy=False)
    raise TypeError(f"slot Y: {type} takes two tensors of one dtype, got X {x.dtype} and Y {y.dtype}")


Function = Callable[..., Any]
"""A ufunc, or a function called like one; it may leave ``out`` alone and give another array."""


_CHEAP = frozenset({np.add, np.subtract, np.multiply, np.maximum, np.minimum, np.fmax, np.fmin})
"""Memory bounds these: a second thread gains little on less than some megabytes."""


def binary(function: Function, x: Array, y: Array, out: Array | None) -> Array:
    """``function(x, y)``, over the threads where it is large; into ``out`` where the result fits there.

    The result has the dtype of ``x``.
    """
    limit = _LARGE if function in _CHEAP else _LARGE_COSTLY
    if x.size < limit and y.size < limit:
        # for a small array the check costs more than the allocation that it may save
        if out is not None and x.size >= _SMALL and out.dtype == x.dtype and _fits(x, y, out):
            return function(x, y, out=out)  # type: ignore[no-any-return]
        return function(x, y)  # type: ignore[no-any-return]
    shape = np.broadcast(x, y).shape
    reuse = out is not None and out.shape == shape and out.dtype == x.dtype
    target = out if out is not None and reuse else np.empty(shape, x.dtype)
    _spread(function, x, y, target)
    return target


def _fits(x: Array, y: Array, out: Array) -> bool:
    return y.ndim == 0 or out.shape == np.broadcast(x, y).shape


def _spread(function: Function, x: Array, y: Array, target: Array) -> None:
    """Split the first dimension that is longer than one over the threads."""
    axis = next((i for i, dim in enumerate(target.shape) if dim > 1), 0)
    wide_x, wide_y = (a if a.shape == target.shape else np.broadcast_to(a, target.shape) for a in (x, y))
    lead = (slice(None),) * axis
    count = target.shape[axis]

    def work(start: int, stop: int) -> None:
        at = (*lead, slice(start, stop))
        part = target[at]
        made = function(wide_x[at], wide_y[at], out=part)
        if made is not part:
            np.copyto(part, made)

    pieces = max(2 * num_threads(), target.size >> 17)
    parallel_for(count, work, max(1, math.ceil(count / pieces)))


def _divide(x: Array, y: Array, out: Array | None = None) -> Array:
    """The quotient; of integers without its fraction."""
    if x.dtype.kind in "fcV":
        return np.divide(x, y, out=out)
    return _truncated(x, y)


def _refuse_zero(y: Array) -> None:
    if not y.all():
        raise ValueError("slot Y: integer division by zero")


def _truncated(x: Array, y: Array) -> Array:
    """The quotient without its fraction, integers in and out."""
    _refuse_zero(y)
    if x.dtype.kind == "b":
        return np.logical_and(x, y)
    quotient = np.floor_divide(x, y)
    if x.dtype.kind == "i":
        quotient = quotient + ((quotient < 0) & (quotient * y != x)).astype(x.dtype)
    return quotient


def _floor_divide(x: Array, y: Array, out: Array | None = None) -> Array:
    if x.dtype.kind in "iu":
        _refuse_zero(y)
    return np.floor_divide(x, y, out=out)


def _remainder(x: Array, y: Array, out: Array | None = None) -> Array:
    """The remainder with the sign of ``y``."""
    if x.dtype.kind in "iu":
        _refuse_zero(y)
    return np.remainder(x, y, out=out)


def _to_power(x: Array, y: Array, out: Array | None = None) -> Array:
    """``x ** y``; integers by way of float64, as Paddle computes them."""
    if x.dtype.kind in "iu":
        return np.power(x.astype(np.float64), y.astype(np.float64)).astype(x.dtype)
    return np.power(x, y, out=out)


def _step(x: Array, y: Array, out: Array | None = None) -> Array:
    """0 below zero and for NaN, 1 above zero, ``y`` at zero."""
    return np.where(x == 0, y, (x > 0).astype(x.dtype))


_TABLE: dict[str, tuple[Function, str, str]] = {
    "add": (np.add, "fcib", "``x + y``."),
    "sub": (np.subtract, "fci", "``x - y``."),
    "mul": (np.multiply, "fcib", "``x * y``."),
    "div": (_divide, "fcib", "``x / y``; integers lose the fraction."),
    "pow": (_to_power, "fci", "``x ** y``."),
    "max": (np.maximum, "fi", "The larger one, NaN if either is."),
    "min": (np.minimum, "fi", "The smaller one, NaN if either is."),
    "fmax": (np.fmax, "fi", "The larger one; the other where one is NaN."),
    "fmin": (np.fmin, "fi", "The smaller one; the other where one is NaN."),
    "mod": (_remainder, "fi", "The remainder with the sign of ``y``."),
    "heaviside": (_step, "fi", "0 below zero, 1 above, ``y`` at zero."),
}
"""Name after ``elementwise_`` -> function, dtypes, meaning."""


def arithmetic(name: str, x: Array, y: Array, axis: int = -1, out: Array | None = None) -> Array:
    """An operator of the table by its name after ``elementwise_``."""
    function, kinds, _ = _TABLE[name]
    return _compute(f"elementwise_{name}", function, kinds, x, y, axis, out)


def _compute(type: str, function: Function, kinds: str, x: Array, y: Array, axis: int, out: Array | None) -> Array:
    if isinstance(x, SelectedRows):
        return _of_rows(type, function, kinds, x, y)  # type: ignore[return-value]
    if x.dtype != y.dtype:
        x, y = promoted(type, x, y)
    if x.dtype not in _FLOATS:
        widened(type, "X", x.dtype, kinds)
    if axis != -1 and x.ndim != y.ndim:
        x_shape, y_shape = aligned_shapes(x.shape, y.shape, axis)
        x, y = x.reshape(x_shape), y.reshape(y_shape)
    elif axis not in (-1, 0):
        aligned_shapes(x.shape, y.shape, axis)
    with np.errstate(all="ignore"):
        return binary(function, x, y, out)


def _of_rows(type: str, function: Function, kinds: str, x: SelectedRows, y: Array) -> SelectedRows:
    """A sparse gradient times (or divided by) one number, as gradient clipping has it."""
    if function not in (np.multiply, _divide) or y.size != 1:
        raise TypeError(f"slot X: {type} takes selected rows only to scale them by one number, Y is {list(y.shape)}")
    return SelectedRows(x.rows, _compute(type, function, kinds, x.values, y.reshape(()), -1, None), x.height)


def _kernel(type: str, function: Function, kinds: str, doc: str) -> Any:
    def kernel(x: Array, y: Array, *, axis: int = -1, out: Array | None = None) -> Array:
        return _compute(type, function, kinds, x, y, axis, out)

    kernel.__doc__ = doc
    return kernel


Rule = Callable[..., tuple[Any, Any]]
_BOTH = frozenset({"X@GRAD", "Y@GRAD"})


def _undone(grad: Any, like: Array | Meta, aligned: tuple[int, ...]) -> Array:
    """A gradient summed back to the shape of an operand."""
    return unbroadcast(np.asarray(grad), aligned).reshape(like.shape).astype(like.dtype, copy=False)


def _gradient_kernel(rule: Rule) -> Any:
    """``(X, Y, [Out], Out@GRAD) -> (X@GRAD, Y@GRAD)``; the rule gives one function for each, called when wanted."""

    def kernel(
        x: Array | Meta, y: Array | Meta, *rest: Array, axis: int = -1, want: frozenset[str] = _BOTH
    ) -> tuple[Array | None, Array | None]:
        x_shape, y_shape = x.shape, y.shape
        if axis != -1 and len(x_shape) != len(y_shape):
            x_shape, y_shape = aligned_shapes(x_shape, y_shape, axis)
        wide_x = x.reshape(x_shape) if isinstance(x, np.ndarray) else x
        wide_y = y.reshape(y_shape) if isinstance(y, np.ndarray) else y
        to_x, to_y = rule(wide_x, wide_y, *rest)
        with np.errstate(all="ignore"):
            return (
                _undone(_real(to_x(), x), x, x_shape) if "X@GRAD" in want else None,
                _undone(_real(to_y(), y), y, y_shape) if "Y@GRAD" in want else None,
            )

    return kernel


def _real(grad: Any, like: Array | Meta) -> Any:
    """Of a complex gradient the part that a real operand receives."""
    return grad.real if grad.dtype.kind == "c" and like.dtype.kind != "c" else grad


def _conj(x: Array) -> Array:
    return np.conj(x) if x.dtype.kind == "c" else x


def _power_rule(x: Array, y: Array, d_out: Array) -> tuple[Any, Any]:
    return (lambda: d_out * y * np.power(x, y - 1), lambda: d_out * np.log(x) * np.power(x, y))


def _choice(to_x: Callable[[Array, Array], Array], to_y: Callable[[Array, Array], Array]) -> Rule:
    """The whole gradient goes to the operand that was chosen."""

    def rule(x: Array, y: Array, d_out: Array) -> tuple[Any, Any]:
        return lambda: d_out * to_x(x, y), lambda: d_out * to_y(x, y)

    return rule


def _is_larger(x: Array, y: Array) -> Array:
    return (x >= y) | np.isnan(y)


def _is_smaller(x: Array, y: Array) -> Array:
    return (x <= y) | np.isnan(y)


_GRADIENTS: dict[str, tuple[str, Rule]] = {
    "add": ("X~ Y~ Out@GRAD", lambda x, y, d: (lambda: d, lambda: d)),
    "sub": ("X~ Y~ Out@GRAD", lambda x, y, d: (lambda: d, lambda: np.negative(d))),
    "mul": ("X Y Out@GRAD", lambda x, y, d: (lambda: d * _conj(y), lambda: d * _conj(x))),
    "div": (
        "X Y Out Out@GRAD",
        lambda x, y, out, d: (lambda: d / _conj(y), lambda: -d * _conj(out / y)),
    ),
    "pow": ("X Y Out@GRAD", _power_rule),
    "max": ("X Y Out@GRAD", _choice(np.greater, np.less_equal)),
    "min": ("X Y Out@GRAD", _choice(np.less, np.greater_equal)),
    "fmax": ("X Y Out@GRAD", _choice(_is_larger, lambda x, y: ~_is_larger(x, y))),
    "fmin": ("X Y Out@GRAD", _choice(_is_smaller, lambda x, y: ~_is_smaller(x, y))),
    "heaviside": ("X Y Out@GRAD", lambda x, y, d: (lambda: np.zeros_like(d), lambda: d * (x == 0))),
}
"""Name -> what the grad op takes, and the rule: ties go to ``Y`` in max and min, to ``X`` in fmax and fmin."""


def _double_sum(sign: float) -> Any:
    """The gradient of the gradient of a sum or difference."""

    def kernel(x: Meta, y: Meta, d_out: Array, dd_x: Array | None, dd_y: Array | None, *, axis: int = -1) -> Array:
        x_shape, y_shape = aligned_shapes(x.shape, y.shape, axis)
        dd_out = np.zeros_like(d_out)
        if dd_x is not None:
            dd_out += dd_x.reshape(x_shape)
        if dd_y is not None:
            dd_out += np.multiply(dd_y.reshape(y_shape), sign, dtype=dd_y.dtype)
        return dd_out

    return kernel


def _double_product(
    x: Array, y: Array, d_out: Array, dd_x: Array | None, dd_y: Array | None, *, axis: int = -1
) -> tuple[Array, Array, Array]:
    """With respect to ``x``, ``y`` and the gradient of the product."""
    x_shape, y_shape = aligned_shapes(x.shape, y.shape, axis)
    wide_x, wide_y = x.reshape(x_shape), y.reshape(y_shape)
    to_x = np.zeros_like(wide_x) if dd_x is None else dd_x.reshape(x_shape)
    to_y = np.zeros_like(wide_y) if dd_y is None else dd_y.reshape(y_shape)
    return (
        _undone(d_out * _conj(to_y), x, x_shape),
        _undone(d_out * _conj(to_x), y, y_shape),
        np.asarray(to_x * wide_y + to_y * wide_x),
    )


def _double_quotient(
    x: Meta, y: Array, out: Array, d_out: Array, dd_x: Array | None, dd_y: Array | None, *, axis: int = -1
) -> tuple[Array, Array, Array]:
    """With respect to ``y``, the quotient and the gradient of the quotient."""
    x_shape, y_shape = aligned_shapes(x.shape, y.shape, axis)
    wide_y = y.reshape(y_shape)
    to_x = np.zeros(x_shape, x.dtype) if dd_x is None else dd_x.reshape(x_shape)
    to_y = np.zeros_like(wide_y) if dd_y is None else dd_y.reshape(y_shape)
    slope = d_out / _conj(wide_y)
    with np.errstate(all="ignore"):
        return (
            _undone(slope * _conj((out * to_y - to_x) / wide_y), y, y_shape),
            np.asarray(-slope * _conj(to_y)),
            np.asarray((to_x - out * to_y) / wide_y),
        )


_DOUBLE: dict[str, tuple[str, str, Any]] = {
    "add": ("X~ Y~ DOut DDX? DDY?", "DDOut", _double_sum(1.0)),
    "sub": ("X~ Y~ DOut DDX? DDY?", "DDOut", _double_sum(-1.0)),
    "mul": ("X Y DOut DDX? DDY?", "X@GRAD Y@GRAD DDOut", _double_product),
    "div": ("X~ Y Out DOut DDX? DDY?", "Y@GRAD Out@GRAD DDOut", _double_quotient),
}
"""Name -> what the gradient of the gradient takes and gives."""
_SOURCES = {"DOut": "Out@GRAD", "DDX?": "X@GRAD@GRAD?", "DDY?": "Y@GRAD@GRAD?", "DDOut": "Out@GRAD@GRAD"}


def _sourced(words: str) -> str:
    return " ".join(f"{word.rstrip('?')}={_SOURCES[word]}" if word in _SOURCES else word for word in words.split())


def _register(name: str) -> None:
    function, kinds, doc = _TABLE[name]
    type = f"elementwise_{name}"
    options: dict[str, Any] = {"inputs": "X Y", "outputs": "Out", "inplace": "X->Out"}
    options.update(ignores=IGNORED, refuse=REFUSED)
    kernel = _kernel(type, function, kinds, doc)
    if name not in _GRADIENTS:
        define(type, kernel, gradient=None, **options)
        return
    takes, rule = _GRADIENTS[name]
    grad = define(type, kernel, **options).gradient(takes=takes, gives="X@GRAD Y@GRAD")(_gradient_kernel(rule))
    if name in _DOUBLE:
        takes, gives, double = _DOUBLE[name]
        define(f"{type}_grad_grad", double, inputs=takes, outputs=gives, ignores=IGNORED, gradient=None)
        grad.gradient_op(f"{type}_grad_grad", takes=_sourced(takes), gives=_sourced(gives))


for _name in _TABLE:
    _register(_name)


@operator(
    "elementwise_floordiv",
    inputs="X Y",
    outputs="Out",
    inplace="X->Out",
    ignores=IGNORED,
    refuse=REFUSED,
    gradient=None,
)
def floor_divide(
    x: Array, y: Array, *, axis: int = -1, out: Array | None = None, ctx: OpContext | None = None
) -> Array:
    """The quotient rounded down; without its fraction in programs that Paddle below 2.5 wrote."""
    old = ctx is not None and 0 < (ctx.program.version or 0) < _FROM_FLOOR
    function: Function = _old_floor_divide if old else _floor_divide
    return _compute("elementwise_floordiv", function, "fi", x, y, axis, out)


def _old_floor_divide(x: Array, y: Array, out: Array | None = None) -> Array:
    return np.trunc(np.divide(x, y), out=out) if x.dtype.kind == "f" else _truncated(x, y)


define(
    "grad_add",
    _kernel("grad_add", np.add, "fcib", "The sum of two pieces of one gradient."),
    inputs="X Y",
    outputs="Out",
    inplace="X->Out",
    ignores=IGNORED,
    refuse=REFUSED,
    gradient=None,
)
