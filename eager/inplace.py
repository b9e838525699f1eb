"""In-place functions: one table of what an operator overwrites, and from it ``exp_(x)`` and ``x.exp_()``.

``INPLACE`` maps an operator type to the outputs that take the place of inputs. ``FUNCTIONS`` lists the functions
whose name ends in an underscore, each made of the out-of-place function of the same name: check, run, then
``adopt``. An operator whose gradient needs the overwritten value raises when backward gets there, as the contract
says.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from ..errors import InputError
from ..executor.random import generator
from ..ir.registry import find
from . import functional_linalg as linalg
from . import functional_math as elementwise
from . import functional_reduce as reduce
from . import functional_search as search
from . import functional_shape as shapes
from .dispatch import trace_op
from .inplace_core import adopt, check_leaf, reshape_in_place, shadow
from .mode import state
from .nn.functional import activation
from .operands import as_tensor, documented, kept_left, run
from .tensor import Tensor, wrap

__all__ = ["ACTIVATIONS", "FUNCTIONS", "INPLACE", "InplaceFunction", "listed", "trace_op_"]

INPLACE: Final[dict[str, dict[str, str]]] = {
    **{
        type: {"X": "Out"}
        for type in [
            "abs",
            "acos",
            "acosh",
            "asin",
            "asinh",
            "assign",
            "atan",
            "atanh",
            "bce_loss",
            "bitwise_and",
            "bitwise_not",
            "bitwise_or",
            "bitwise_xor",
            "brelu",
            "cast",
            "ceil",
            "clip",
            "cos",
            "cosh",
            "cumprod",
            "cumsum",
            "digamma",
            "elementwise_add",
            "elementwise_div",
            "elementwise_floordiv",
            "elementwise_mod",
            "elementwise_mul",
            "elementwise_sub",
            "elu",
            "equal",
            "erf",
            "erfinv",
            "exp",
            "expm1",
            "exponential",
            "fill_any",
            "fill_diagonal",
            "fill_diagonal_tensor",
            "flatten_contiguous_range",
            "floor",
            "greater_equal",
            "greater_than",
            "increment",
            "index_add",
            "leaky_relu",
            "lerp",
            "less_equal",
            "less_than",
            "lgamma",
            "log",
            "log10",
            "log1p",
            "log2",
            "logical_and",
            "logical_not",
            "logical_or",
            "logical_xor",
            "logit",
            "not_equal",
            "pow",
            "reciprocal",
            "relu",
            "renorm",
            "reshape2",
            "round",
            "rsqrt",
            "scale",
            "scatter",
            "sigmoid",
            "sigmoid_cross_entropy_with_logits",
            "sin",
            "sinh",
            "softmax",
            "sqrt",
            "square",
            "squeeze2",
            "tan",
            "tanh",
            "thresholded_relu",
            "transpose2",
            "trunc",
            "uniform_random_inplace",
            "unsqueeze2",
            "where",
            "tril_triu",
        ]
    },
    **{type: {"x": "out"} for type in ["gaussian_inplace", "i0", "index_put", "polygamma"]},
    "addmm": {"Input": "Out"},
    "put_along_axis": {"Input": "Result"},
    "softmax_with_cross_entropy": {"Logits": "Softmax"},
    "batch_norm": {"Mean": "MeanOut", "Variance": "VarianceOut"},
    "sync_batch_norm": {"Mean": "MeanOut", "Variance": "VarianceOut"},
    "sgd": {"Param": "ParamOut"},
    "momentum": {"Param": "ParamOut", "Velocity": "VelocityOut"},
    "adam": {
        "Param": "ParamOut",
        "Moment1": "Moment1Out",
        "Moment2": "Moment2Out",
        "Beta1Pow": "Beta1PowOut",
        "Beta2Pow": "Beta2PowOut",
    },
}
"""Operator type -> {input slot: output slot that takes its place}."""


@dataclass(frozen=True, slots=True)
class InplaceFunction:
    """One in-place function.

    Attributes:
        name: with its underscore.
        op: the operator type that does the work; empty where several do.
        function: the function itself.
        method: whether Paddle's tensors have it as a method.
    """

    name: str
    op: str
    function: Callable[..., Tensor]
    method: bool = True


def trace_op_(type: str, inputs: Mapping[str, Any], attrs: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """As ``trace_op``, with the outputs named in ``INPLACE`` written into the inputs, which are returned for them.

    Raises:
        InputError: the operator overwrites nothing, or the input is a leaf that needs a gradient.
    """
    places = INPLACE.get(type)
    if not places:
        raise InputError(f"operator {type} has no in-place form")
    if _has_gradient(type):
        for slot in places:
            if inputs.get(slot) is not None:
                check_leaf(inputs[slot])
    stand_ins = {slot: shadow(inputs[slot]) for slot in places if inputs.get(slot) is not None}
    outputs = trace_op(type, {**inputs, **stand_ins}, attrs)
    for slot, out in places.items():
        target, result = inputs.get(slot), outputs.get(out)
        if target is not None and result is not None:
            outputs[out] = adopt(target, result, f"{type}_")
    return outputs


def _has_gradient(op: str) -> bool:
    """Whether changing a leaf by this operator would lose a gradient. Functions of several operators say yes."""
    declared = find(op) if op else None
    return declared is None or declared.differentiable


def _of(function: Callable[..., Any], name: str, op: str = "") -> Callable[..., Tensor]:
    """``function`` writing its result into its first argument."""

    @functools.wraps(function)
    def inplace(x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if not state.enabled:
            return adopt(x, function(x, *args, **kwargs), name)
        if not x._stop and x.is_leaf and _has_gradient(op):
            check_leaf(x)
        return adopt(x, function(shadow(x), *args, **kwargs), name, zero=True)

    return documented(inplace, name, f"In place: {_first_line(function)}")


def _reshaping_of(function: Callable[..., Any], name: str) -> Callable[..., Tensor]:
    """``function``, which only changes the shape, changing that of its first argument."""

    @functools.wraps(function)
    def inplace(x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        check_leaf(x)
        stand_in = shadow(x, keep_memory=True)
        result = function(stand_in, *args, **kwargs)
        return x if result is stand_in else reshape_in_place(x, result, inplace.__name__)

    return documented(inplace, name, f"In place: {_first_line(function)}")


def _binary_of(function: Callable[..., Any], name: str, op: str, keep: bool) -> Callable[..., Tensor]:
    """``function`` of two operands writing into the first, whose shape and, with ``keep``, dtype stay."""

    @functools.wraps(function)
    def inplace(x: Tensor, y: Tensor, name: str | None = None) -> Tensor:
        if not isinstance(y, Tensor):
            y = as_tensor(y, x)
        if x._array.shape != y._array.shape:
            _check_shape(x, y)
        if not x._stop and x.is_leaf and _has_gradient(op):
            check_leaf(x)
        other = kept_left(x, y, writer) if keep and x._array.dtype != y._array.dtype else y
        kept = state.enabled and not (x._stop and other._stop)
        return adopt(x, function(shadow(x) if kept else x, other), writer, zero=True)

    writer = name
    return documented(inplace, name, f"In place: {_first_line(function)}")


def _check_shape(x: Tensor, *others: Tensor) -> None:
    """Refuse operands that would make the result larger than ``x``."""
    try:
        shape = np.broadcast_shapes(x._array.shape, *(each._array.shape for each in others))
    except ValueError as error:
        raise InputError(f"(InvalidArgument) {error}") from None
    if shape != x._array.shape:
        raise InputError(
            f"The shape of broadcast output {list(shape)} is different from that of inplace tensor {x.shape} in the "
            "Inplace operation."
        )


def _first_line(function: Callable[..., Any]) -> str:
    return (function.__doc__ or "").strip().split("\n")[0]


def where_(condition: Tensor, x: Any = None, y: Any = None, name: str | None = None) -> Tensor:
    """In place in ``x``: elements of ``x`` where the condition holds, else of ``y``."""
    if not isinstance(x, Tensor):
        raise TypeError(f"where_() changes x, which must be a Tensor, got {type(x).__name__}")
    check_leaf(x)
    given = kept_left(x, as_tensor(y, x), "where_")
    _check_shape(x, condition, given)
    chosen = search.where(condition, shadow(x), given)
    assert isinstance(chosen, Tensor)
    return adopt(x, chosen, "where_")


def fill_(x: Tensor, value: Any) -> Tensor:
    """In place: one number everywhere. The old value gets a zero gradient."""
    check_leaf(x)
    number = value.item() if isinstance(value, Tensor) else value
    return adopt(x, run("fill_any", x, value=float(number)), "fill_")


def zero_(x: Tensor) -> Tensor:
    """In place: zero everywhere."""
    check_leaf(x)
    return adopt(x, run("fill_any", x, value=0.0), "zero_")


def fill_diagonal_(x: Tensor, value: float, offset: int = 0, wrap: bool = False, name: str | None = None) -> Tensor:
    """In place: a number on a diagonal; with ``wrap`` again after each block of a tall matrix."""
    check_leaf(x)
    filled = run("fill_diagonal", shadow(x), value=float(value), offset=int(offset), wrap=bool(wrap))
    return adopt(x, filled, "fill_diagonal_")


def uniform_(x: Tensor, min: float = -1.0, max: float = 1.0, seed: int = 0, name: str | None = None) -> Tensor:
    """In place: uniform between ``min`` and ``max``."""
    check_leaf(x)
    drawn = run("uniform_random_inplace", x, min=float(min), max=float(max), seed=int(seed))
    return adopt(x, drawn, "uniform_")


def normal_(x: Tensor, mean: float = 0.0, std: float = 1.0, name: str | None = None) -> Tensor:
    """In place: normal."""
    check_leaf(x)
    return adopt(x, run("gaussian_inplace", x, mean=float(mean), std=float(std), seed=0), "normal_")


def exponential_(x: Tensor, lam: float = 1.0, name: str | None = None) -> Tensor:
    """In place: exponential of rate ``lam``. As in Paddle this is allowed on any leaf."""
    return adopt(x, run("exponential", x, **{"lambda": float(lam)}), "exponential_", counted=False)


def cauchy_(x: Tensor, loc: float = 0.0, scale: float = 1.0, name: str | None = None) -> Tensor:
    """In place: Cauchy around ``loc``."""
    check_leaf(x)
    drawn = np.asarray(generator().standard_cauchy(x._array.shape) * scale + loc)
    return _filled(x, drawn, "cauchy_")


def geometric_(x: Tensor, probs: float, name: str | None = None) -> Tensor:
    """In place: the continuous form of the geometric distribution that Paddle draws, ``log(u) / log(1 - probs)``."""
    check_leaf(x)
    uniform = generator().uniform(np.finfo(np.float32).tiny, 1.0, x._array.shape)
    return _filled(x, np.asarray(np.log(uniform) / np.log1p(-probs)), "geometric_")


def _filled(x: Tensor, drawn: Any, name: str) -> Tensor:
    """``x`` filled with numbers that do not depend on it; its old value gets a zero gradient."""
    zero = run("fill_any", x, value=0.0)
    return adopt(x, elementwise.add(zero, wrap(drawn.astype(x._array.dtype))), name)


_UNARY = [
    "abs",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "bitwise_not",
    "ceil",
    "cos",
    "cosh",
    "digamma",
    "erf",
    "erfinv",
    "exp",
    "expm1",
    "floor",
    "i0",
    "lgamma",
    "log",
    "log10",
    "log1p",
    "log2",
    "logical_not",
    "reciprocal",
    "round",
    "rsqrt",
    "sigmoid",
    "sin",
    "sinh",
    "sqrt",
    "square",
    "tan",
    "tanh",
    "trunc",
    "frac",
]
_KEEPING = {
    "add": "elementwise_add",
    "subtract": "elementwise_sub",
    "multiply": "elementwise_mul",
    "divide": "elementwise_div",
    "floor_divide": "elementwise_floordiv",
    "remainder": "elementwise_mod",
    "mod": "elementwise_mod",
    "floor_mod": "elementwise_mod",
    "gcd": "",
    "lcm": "",
    "hypot": "",
    "bitwise_and": "bitwise_and",
    "bitwise_or": "bitwise_or",
    "bitwise_xor": "bitwise_xor",
}
_COMPARING = [
    "equal",
    "not_equal",
    "less_than",
    "less_equal",
    "greater_than",
    "greater_equal",
    "logical_and",
    "logical_or",
    "logical_xor",
]
_ANY: Final[dict[str, tuple[Any, str]]] = {
    "addmm": (linalg, "addmm"),
    "cast": (shapes, "cast"),
    "clip": (elementwise, "clip"),
    "cumprod": (reduce, "cumprod"),
    "cumsum": (reduce, "cumsum"),
    "fill_diagonal_tensor": (linalg, "fill_diagonal_tensor"),
    "flatten": (shapes, "flatten_contiguous_range"),
    "index_add": (shapes, "index_add"),
    "index_fill": (shapes, ""),
    "index_put": (shapes, "index_put"),
    "ldexp": (elementwise, ""),
    "lerp": (elementwise, "lerp"),
    "logit": (elementwise, "logit"),
    "masked_fill": (search, "where"),
    "multigammaln": (elementwise, ""),
    "nan_to_num": (elementwise, ""),
    "neg": (elementwise, "scale"),
    "polygamma": (elementwise, "polygamma"),
    "pow": (elementwise, "pow"),
    "put_along_axis": (shapes, "put_along_axis"),
    "renorm": (elementwise, "renorm"),
    "reshape": (shapes, "reshape2"),
    "scale": (elementwise, "scale"),
    "scatter": (shapes, "scatter"),
    "squeeze": (shapes, "squeeze2"),
    "t": (shapes, "transpose2"),
    "transpose": (shapes, "transpose2"),
    "tril": (linalg, "tril_triu"),
    "triu": (linalg, "tril_triu"),
    "unsqueeze": (shapes, "unsqueeze2"),
}
_RESHAPING = frozenset(["flatten", "reshape", "squeeze", "t", "transpose", "unsqueeze"])
_ACTIVATIONS = {
    "elu": "elu",
    "hardtanh": "brelu",
    "leaky_relu": "leaky_relu",
    "relu": "relu",
    "softmax": "softmax",
    "thresholded_relu": "thresholded_relu",
}
_NOT_METHODS = frozenset({"square_", "expm1_", "erf_", *(f"{name}_" for name in _ACTIVATIONS)})
ACTIVATIONS: Final = frozenset({"tanh_", *(f"{name}_" for name in _ACTIVATIONS)})
"""The functions of ``nn.functional``."""
_OWN: Final[dict[str, tuple[Callable[..., Tensor], str]]] = {
    "cauchy_": (cauchy_, ""),
    "exponential_": (exponential_, "exponential"),
    "fill_": (fill_, "fill_any"),
    "fill_diagonal_": (fill_diagonal_, "fill_diagonal"),
    "geometric_": (geometric_, ""),
    "normal_": (normal_, "gaussian_inplace"),
    "uniform_": (uniform_, "uniform_random_inplace"),
    "where_": (where_, "where"),
    "zero_": (zero_, "fill_any"),
}


def _made() -> Iterator[tuple[str, str, Callable[..., Tensor]]]:
    """Name, operator type, function."""
    for base in _UNARY:
        yield (
            f"{base}_",
            "" if base == "frac" else base,
            _of(getattr(elementwise, base), f"{base}_", "" if base == "frac" else base),
        )
    for base, op in _KEEPING.items():
        yield f"{base}_", op, _binary_of(getattr(elementwise, base), f"{base}_", op, keep=True)
    for base in _COMPARING:
        yield f"{base}_", base, _binary_of(getattr(elementwise, base), f"{base}_", base, keep=False)
    for base, (module, op) in _ANY.items():
        make = _reshaping_of if base in _RESHAPING else _of
        yield f"{base}_", op, make(getattr(module, base), f"{base}_")
    for base, op in _ACTIVATIONS.items():
        yield f"{base}_", op, _of(getattr(activation, base), f"{base}_")
    for name, (function, op) in _OWN.items():
        yield name, op, function


FUNCTIONS: Final[dict[str, InplaceFunction]] = {
    name: InplaceFunction(name, op, function, name not in _NOT_METHODS) for name, op, function in sorted(_made())
}
"""Name -> in-place function."""


def listed() -> list[tuple[str, str, str, str]]:
    """Name, operator type, input slot, output slot of every in-place function; for ``oarlock ops --inplace``."""
    rows = []
    for name, each in FUNCTIONS.items():
        slots = next(iter(INPLACE.get(each.op, {}).items()), ("", ""))
        rows.append((name, each.op, *slots))
    return rows
