"""The frame of operators that work element by element on one tensor: formula, derivative and names go in.

A *formula* ``f(x, out, **attrs)`` writes its result into ``out``, which may be ``x`` itself. It sees float32, float64
or complex arrays (or integers, where they stay integers) of at least one dimension. A *derivative*
``d(*kept, **attrs)`` gives the derivative from the arrays that backward keeps. The frame adds what all of them
share: which dtypes are taken, half types computed in float32, 0-d tensors, reuse of the input's memory, and work
in cache-sized blocks over the threads.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...ir.dtypes import is_bfloat16
from ...ir.registry import Operator, define
from ..parallel import parallel_for
from ..values import Array

__all__ = [
    "Formula",
    "bounded",
    "chosen",
    "forward_kernel",
    "gradient_kernel",
    "over_blocks",
    "pointwise",
    "refuse_dtype",
    "widened",
]

Formula = Callable[..., None]
Derivative = Callable[..., Any]

_BLOCK = 1 << 14
"""Elements of a block: its temporaries stay in a core's own cache."""
_WHOLE = 1 << 16
"""Up to so many elements an array is not cut into blocks, or up to two blocks where that is more."""
_LIGHT = 1 << 20
"""Elements of a block for one cheap pass: memory bounds it, and a thread must be worth waiting for."""
_SMALL = 1 << 12
"""Up to so many elements a call costs more than a pass over them."""

_FLOAT32 = np.dtype(np.float32)
_DIRECT = frozenset({_FLOAT32, np.dtype(np.float64)})
_FLOAT16 = np.dtype(np.float16)
_COMPLEX = frozenset({np.dtype(np.complex64), np.dtype(np.complex128)})

_TAKEN = {
    "f": "floating",
    "c": "complex",
    "i": "integer",
    "p": "integer",
    "b": "boolean",
}


def _is_half(dtype: np.dtype[Any]) -> bool:
    """Whether values are computed in float32 and kept in 16 bits."""
    return dtype == _FLOAT16 or is_bfloat16(dtype)


def refuse_dtype(type: str, slot: str, dtype: np.dtype[Any], kinds: str) -> TypeError:
    """The error for a tensor of a dtype that an operator does not take."""
    taken = " or ".join(dict.fromkeys(_TAKEN[kind] for kind in kinds))
    return TypeError(f"slot {slot}: {type} takes {taken} tensors, got {dtype}")


def widened(type: str, slot: str, dtype: np.dtype[Any], kinds: str) -> tuple[np.dtype[Any], np.dtype[Any]]:
    """The dtypes to compute in and to give, for a tensor of ``dtype``.

    ``kinds``: ``f`` floating, ``c`` complex, ``i`` integers that stay integers, ``p`` integers that become
    float32, ``b`` booleans.

    Raises:
        TypeError: the operator does not take the dtype.
    """
    if dtype in _DIRECT and "f" in kinds:
        return dtype, dtype
    if _is_half(dtype) and "f" in kinds:
        return _FLOAT32, dtype
    if dtype in _COMPLEX and "c" in kinds:
        return dtype, dtype
    if dtype.kind in "iu":
        if "i" in kinds:
            return dtype, dtype
        if "p" in kinds:
            return _FLOAT32, _FLOAT32
    if dtype.kind == "b" and "b" in kinds:
        return dtype, dtype
    raise refuse_dtype(type, slot, dtype, kinds)


def over_blocks(formula: Callable[..., Any], arrays: Sequence[Array], block: int = _BLOCK) -> None:
    """``formula(*arrays)`` for arrays of one shape, block by block over the threads where they are large.

    Zero-dimensional arrays are shown as vectors of one element.
    """
    first = arrays[-1]
    if first.ndim == 0:
        formula(*[array.reshape(1) for array in arrays])
    elif first.size <= max(_WHOLE, 2 * block) or not all(array.flags.c_contiguous for array in arrays):
        formula(*arrays)
    else:
        flat = [array.reshape(-1) for array in arrays]
        size = flat[0].size

        def work(start: int, stop: int) -> None:
            formula(*[array[start * block : min(stop * block, size)] for array in flat])

        parallel_for(-(-size // block), work)


def _block_of(formula: Callable[..., Any], light: bool) -> int:
    """A single ufunc has no temporaries to keep in cache: larger blocks cost fewer calls."""
    if light:
        return _LIGHT
    return 8 * _BLOCK if isinstance(formula, np.ufunc) else _BLOCK


def _keywords(formula: Callable[..., Any]) -> list[inspect.Parameter]:
    if isinstance(formula, np.ufunc):
        return []
    return [p for p in inspect.signature(formula).parameters.values() if p.kind is p.KEYWORD_ONLY]


def _signed(kernel: Any, positional: Sequence[str], keywords: Sequence[inspect.Parameter], doc: str) -> Any:
    """Give a kernel the signature that the registry reads attributes from."""
    slots = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in positional]
    out = inspect.Parameter("out", inspect.Parameter.KEYWORD_ONLY, default=None)
    kernel.__signature__ = inspect.Signature([*slots, *keywords, out])
    kernel.__doc__ = doc
    return kernel


def chosen(mask: Array, low: Any, like: Array) -> Array:
    """1 where the mask holds, else ``low``, in the dtype of ``like``; a fraction of the cost of ``where``."""
    result: Array = np.multiply(~mask, low, dtype=like.dtype)
    result += mask
    return result


def bounded(x: Array, low: Any, high: Any, out: Array | None = None) -> Array:
    """``min(max(x, low), high)``, NaN where ``x`` is; in one pass where that saves more than the call costs."""
    if x.size > _SMALL:
        clipped: Array = np.clip(x, low, high, out=out)
        return clipped
    result: Array = np.maximum(x, low, out=out)
    np.minimum(result, high, out=result)
    return result


def forward_kernel(
    type: str, slot: str, formula: Formula, kinds: str, silent: bool = False, light: bool = False
) -> Any:
    """The kernel ``(x, *, out=None, **attrs)`` of a formula; see :func:`pointwise` for the other arguments."""
    block = _block_of(formula, light)
    whole = max(_WHOLE, 2 * block)
    direct = frozenset(dtype for dtype in _DIRECT | _COMPLEX if ("c" if dtype in _COMPLEX else "f") in kinds)

    def kernel(x: Array, *, out: Array | None = None, **attrs: Any) -> Array:
        dtype = x.dtype
        if dtype not in direct:
            wide, given = widened(type, slot, dtype, kinds)
            if wide != dtype:
                return np.asarray(kernel(x.astype(wide), **attrs)).astype(given, copy=False)
        target = np.empty_like(x, subok=False) if out is None else out
        if x.ndim == 0 or x.size > whole:
            with np.errstate(all="ignore"):
                over_blocks(lambda *parts: formula(*parts, **attrs), (x, target), block)
        elif silent:
            formula(x, target, **attrs)
        else:
            with np.errstate(all="ignore"):
                formula(x, target, **attrs)
        return target

    doc = f"``{formula.__name__}`` of ``x``." if isinstance(formula, np.ufunc) else inspect.getdoc(formula)
    return _signed(kernel, ["x"], _keywords(formula), doc or "")


def gradient_kernel(derivative: Derivative, count: int) -> Any:
    """The kernel ``(*kept, d_out) -> d_out * conj(derivative(*kept))``; ``count`` arrays are kept."""

    def kernel(*arrays: Array, out: Array | None = None, **attrs: Any) -> Array:
        given = arrays[0].dtype
        if _is_half(given):
            return kernel(*[a.astype(_FLOAT32) for a in arrays], **attrs).astype(given)
        target = np.empty(arrays[-1].shape, arrays[-1].dtype) if out is None else out

        def formula(*parts: Array) -> None:
            *kept, d_out, d_x = parts
            slope = derivative(*kept, **attrs)
            if isinstance(slope, np.ndarray) and slope.dtype.kind == "c":
                slope = np.conj(slope)
            np.multiply(d_out, slope, out=d_x, casting="same_kind")

        with np.errstate(all="ignore"):
            over_blocks(formula, (*arrays, target))
        return target

    names = [*(f"kept_{i}" for i in range(count)), "d_out"]
    return _signed(kernel, names, _keywords(derivative), inspect.getdoc(derivative) or "")


def second_kernel(derivative: Derivative, second: Derivative | None, count: int) -> Any:
    """The kernel of the gradient's gradient, ``(*kept, d_out, dd_x) -> (d_kept, dd_out)``.

    The gradient goes to the last of the kept arrays. Without ``second`` (the derivative is constant almost
    everywhere) the kernel is ``(kept, dd_x) -> dd_out``.
    """
    if second is None:
        return gradient_kernel(derivative, 1)

    def kernel(*arrays: Array, **attrs: Any) -> tuple[Array, ...]:
        given, shape = arrays[0].dtype, arrays[0].shape
        wide = _FLOAT32 if _is_half(given) else given
        *kept, d_out, dd_x = (np.atleast_1d(a.astype(wide, copy=False)) for a in arrays)
        with np.errstate(all="ignore"):
            d_kept = np.conj(dd_x) * d_out * np.conj(second(*kept, **attrs))
            dd_out = dd_x * derivative(*kept, **attrs)
        return tuple(a.astype(given, copy=False).reshape(shape) for a in (d_kept, dd_out))

    names = [*(f"kept_{i}" for i in range(count)), "d_out", "dd_x"]
    return _signed(kernel, names, _keywords(derivative), "")


def pointwise(
    type: str,
    formula: Formula,
    derivative: Derivative | None = None,
    second: Derivative | None = None,
    *,
    kinds: str = "f",
    keeps: str = "X",
    slots: tuple[str, str] = ("X", "Out"),
    double: str = "",
    ignores: str = "",
    since: int = 0,
    stepwise: bool = False,
    silent: bool = False,
    light: bool = False,
) -> Operator:
    """Register an operator that works element by element, with its gradient and that one's gradient.

    Without ``derivative`` it is one that has no gradient, or (``stepwise``) one whose gradient the caller declares.

    Args:
        kinds: the dtypes that it takes, see :func:`widened`.
        keeps: what ``derivative`` reads: the input or output slot, or several, or ``""``.
        silent: the formula never raises a floating-point flag.
        light: it is one cheap pass over memory.
        double: the type of the gradient's gradient (one array is kept); "" where none is declared.
        second: the derivative of ``derivative``; None with a ``double`` where that is zero almost everywhere.
    """
    x, out = slots
    kernel = forward_kernel(type, x, formula, kinds, silent, light)
    made = define(
        type,
        kernel,
        inputs=x,
        outputs=out,
        inplace=f"{x}->{out}",
        ignores=ignores,
        since=since,
        gradient=None if derivative is None and not stepwise else "declared",
    )
    if derivative is None:
        return made
    kept = keeps.split()
    grad_out, grad_x = f"{out}@GRAD", f"{x}@GRAD"
    grad = made.gradient(takes=" ".join((*kept, grad_out)), gives=grad_x, inplace=f"{grad_out}->{grad_x}")(
        gradient_kernel(derivative, len(kept))
    )
    if double:
        _declare_double(grad, double, derivative, second, keeps, grad_out, grad_x)
    return made


def _declare_double(
    grad: Operator,
    type: str,
    derivative: Derivative,
    second: Derivative | None,
    kept: str,
    grad_out: str,
    grad_x: str,
) -> None:
    """The gradient of a gradient operator, under the slot names that Paddle gives it."""
    words = kept.split()
    takes, gives = f"{kept} grad_x@GRAD={grad_x}@GRAD", f"grad_out@GRAD={grad_out}@GRAD"
    if second is not None:
        takes = f"{kept} grad_out={grad_out} grad_x@GRAD={grad_x}@GRAD"
        gives = f"{words[-1]}@GRAD {gives}"
    define(
        type,
        second_kernel(derivative, second, len(words)),
        inputs=" ".join(word.partition("=")[0] for word in takes.split()),
        outputs=" ".join(word.partition("=")[0] for word in gives.split()),
        ignores=" ".join((*grad.ignores, *grad.attrs)),
    )
    grad.gradient_op(type, takes=takes, gives=gives)
