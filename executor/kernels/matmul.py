"""Matrix products: matmul of both generations, mul, bmm, mv, addmm. Gradients to second order."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...ir.registry import OpContext, operator
from ..blas import own_threads
from ..parallel import num_threads, parallel_for
from ..values import Array
from .common import accumulate_dtype, follow_rank, unbroadcast

__all__ = ["matmul", "matmul_v2", "mul", "product", "rearranged", "swapped", "widened"]


def widened(x: Array) -> Array:
    """``x`` in the dtype that products are summed in: float32 for the half types, else itself."""
    return x.astype(accumulate_dtype(x.dtype), copy=False)


def product(x: Array, y: Array) -> Array:
    """``x @ y`` of matrices or stacks of them; one matrix on the right takes all rows of ``x`` at once.

    Half types are multiplied in float32 and rounded once.
    """
    if x.dtype.kind in "bu" or x.dtype.itemsize == 1:
        raise TypeError(f"there is no matrix product of {x.dtype.name}")
    a, b = widened(x), widened(y)
    try:
        if b.ndim == 2 and a.ndim > 2 and a.flags.c_contiguous:
            rows = math.prod(a.shape[:-1])
            out = _shared(a.reshape(rows, a.shape[-1]), b).reshape(*a.shape[:-1], b.shape[-1])
        else:
            out = _shared(a, b)
    except ValueError as error:
        raise ValueError(
            f"matrices of shapes {list(x.shape)} and {list(y.shape)} do not multiply: the last dimension of "
            "the first must equal the last but one of the second and the leading ones must broadcast"
        ) from error
    return out if a is x else out.astype(x.dtype, copy=False)


_WORTH_SHARING = 1 << 22
"""Multiply-adds from which a product is shared between threads: about a tenth of a millisecond of one core."""


def _shared(a: Array, b: Array) -> Array:
    """``a @ b``, a large one cut over our own threads; see :mod:`oarlock.executor.blas` for why not the library's."""
    shares = num_threads()
    if shares == 1 or a.ndim != b.ndim or a.ndim not in (2, 3) or a.dtype != b.dtype or a.dtype.kind != "f":
        return np.asarray(np.matmul(a, b))
    if a.size * b.shape[-1] < _WORTH_SHARING or a.shape[-1] != b.shape[-2] or a.shape[:-2] != b.shape[:-2]:
        return np.asarray(np.matmul(a, b))
    out: Array = np.empty((*a.shape[:-1], b.shape[-1]), a.dtype)
    axis = -2 if a.shape[-2] >= b.shape[-1] else -1
    if a.ndim == 3 and len(a) >= shares:
        axis = 0
    length = out.shape[axis]
    step = -(-length // shares)

    def work(start: int, stop: int) -> None:
        if axis == 0:
            np.matmul(a[start:stop], b[start:stop], out=out[start:stop])
        elif axis == -2:
            np.matmul(a[..., start:stop, :], b, out=out[..., start:stop, :])
        else:
            np.matmul(a, b[..., start:stop], out=out[..., start:stop])

    with own_threads() as alone:
        if not alone:
            return np.asarray(np.matmul(a, b))
        parallel_for(length, work, step)
    return out


def swapped(x: Array, swap: bool) -> Array:
    """The transpose of the last two dimensions as a view, when asked for."""
    return x.swapaxes(-1, -2) if swap else x


def _scaled(x: Array, factor: float) -> Array:
    """``x * factor`` in the dtype of ``x``; may write over ``x``, which the caller has just made."""
    return x if factor == 1.0 else np.multiply(x, np.asarray(factor, x.dtype), out=x)


def _grad_x(y: Array, d_out: Array, shape: tuple[int, ...], trans_x: bool, trans_y: bool) -> Array:
    """The gradient of ``op(x) @ op(y)`` with respect to ``x`` of ``shape``; matrices or stacks of them."""
    right = y.conj() if y.dtype.kind == "c" else y
    d_left = product(d_out, swapped(right, not trans_y))
    return unbroadcast(swapped(d_left, trans_x), shape)


def _grad_y(x: Array, d_out: Array, shape: tuple[int, ...], trans_x: bool, trans_y: bool) -> Array:
    """The gradient of ``op(x) @ op(y)`` with respect to ``y`` of ``shape``."""
    left = x.conj() if x.dtype.kind == "c" else x
    if len(shape) == 2 and x.ndim > 2 and not trans_x:
        # One matrix served the whole stack: its gradient is one product over all rows.
        rows = math.prod(x.shape[:-1])
        left = left.reshape(rows, x.shape[-1])
        d_out = d_out.reshape(rows, d_out.shape[-1])
    d_right = product(swapped(left, not trans_x), d_out)
    return unbroadcast(swapped(d_right, trans_y), shape)


def _row(x: Array) -> Array:
    return x[None, :] if x.ndim == 1 else x


def _column(y: Array) -> Array:
    return y[:, None] if y.ndim == 1 else y


def rearranged(x: Array, shape: Sequence[int], axes: Sequence[int]) -> Array:
    """Reshape (0 keeps a dimension), then transpose; an empty list leaves out that step."""
    if shape:
        x = x.reshape([x.shape[i] if size == 0 else size for i, size in enumerate(shape)])
    return x.transpose(axes) if axes else x


@operator("matmul_v2", inputs="X Y", outputs="Out")
def matmul_v2(
    x: Array, y: Array, *, trans_x: bool = False, trans_y: bool = False, ctx: OpContext | None = None
) -> Array:
    """``op(x) @ op(y)`` with leading dimensions broadcast.

    A vector is a row on the left and a column on the right, never transposed, and leaves no dimension.
    Two vectors give a 0-d result, or shape [1] where the program (saved before 2.5) declares that.
    """
    if x.ndim == 0 or y.ndim == 0:
        raise ValueError(f"X and Y need at least one dimension, got shapes {list(x.shape)} and {list(y.shape)}")
    left = _row(x) if x.ndim == 1 else swapped(x, trans_x)
    right = _column(y) if y.ndim == 1 else swapped(y, trans_y)
    out = product(left, right)
    if y.ndim == 1:
        out = out[..., 0]
    if x.ndim == 1:
        out = out[..., 0] if y.ndim == 1 else out[..., 0, :]
        if y.ndim == 1 and ctx is not None:
            out = follow_rank(np.asarray(out), ctx.declared("Out"))
    return out


def _matrix_gradient(
    x: Array, y: Array, d_out: Array, trans_x: bool, trans_y: bool
) -> tuple[Array, Array, Array, bool, bool]:
    """Operands and output gradient of ``matmul_v2`` with vectors made matrices; the flags left."""
    left, right = _row(x), _column(y)
    trans_x, trans_y = trans_x and x.ndim > 1, trans_y and y.ndim > 1
    rows = left.shape[-1 if trans_x else -2]
    columns = right.shape[-2 if trans_y else -1]
    batch = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    return left, right, d_out.reshape(*batch, rows, columns), trans_x, trans_y


@matmul_v2.gradient(takes="X Y Out@GRAD", gives="X@GRAD Y@GRAD")
def matmul_v2_grad(
    x: Array,
    y: Array,
    d_out: Array,
    *,
    trans_x: bool = False,
    trans_y: bool = False,
    want: frozenset[str] = frozenset({"X@GRAD", "Y@GRAD"}),
) -> tuple[Array | None, Array | None]:
    """``d_out @ y^H`` and ``x^H @ d_out``, summed over what was broadcast."""
    left, right, d, tx, ty = _matrix_gradient(x, y, d_out, trans_x, trans_y)
    d_x = _grad_x(right, d, left.shape, tx, ty).reshape(x.shape) if "X@GRAD" in want else None
    d_y = _grad_y(left, d, right.shape, tx, ty).reshape(y.shape) if "Y@GRAD" in want else None
    return d_x, d_y


@matmul_v2_grad.gradient(
    takes="X Y DOut=Out@GRAD DDX=X@GRAD@GRAD? DDY=Y@GRAD@GRAD?",
    gives="DX=X@GRAD DY=Y@GRAD DDOut=Out@GRAD@GRAD",
)
def matmul_v2_grad_grad(
    x: Array,
    y: Array,
    d_out: Array,
    dd_x: Array | None,
    dd_y: Array | None,
    *,
    trans_x: bool = False,
    trans_y: bool = False,
) -> tuple[Array, Array, Array]:
    """The product is bilinear: the first-order rules with one operand replaced by its direction."""
    ddx = np.zeros_like(x) if dd_x is None else dd_x
    ddy = np.zeros_like(y) if dd_y is None else dd_y
    flags = {"trans_x": trans_x, "trans_y": trans_y}
    d_x, _ = matmul_v2_grad(x, ddy, d_out, want=frozenset({"X@GRAD"}), **flags)
    _, d_y = matmul_v2_grad(ddx, y, d_out, want=frozenset({"Y@GRAD"}), **flags)
    dd_out = matmul_v2(ddx, y, **flags) + matmul_v2(x, ddy, **flags)
    return d_x, d_y, np.asarray(dd_out).reshape(d_out.shape)


@operator(
    "matmul",
    inputs="X Y",
    outputs="Out",
    refuse={"Scale_x": 1.0, "Scale_y": 1.0, "Scale_out": 1.0},
)
def matmul(
    x: Array,
    y: Array,
    *,
    transpose_X: bool = False,
    transpose_Y: bool = False,
    alpha: float = 1.0,
    head_number: int = 1,
    ctx: OpContext | None = None,
) -> Array:
    """``alpha * op(x) @ op(y)`` of the first generation.

    A vector becomes a row on the left, a column on the right, and is transposed as such. A dimension of 1
    that a vector brought is dropped from the result; two vectors give what the program declares, [] or
    [1]. With several heads the columns of ``x`` are split among them (:func:`_heads`) and the products laid
    side by side.
    """
    if head_number != 1:
        pairs = _heads(swapped(x, transpose_X), swapped(y, transpose_Y), head_number)
        return _scaled(np.concatenate([product(a, b) for a, b in pairs], axis=-1), alpha)
    out = _scaled(product(swapped(_row(x), transpose_X), swapped(_column(y), transpose_Y)), alpha)
    shape = list(out.shape)
    if x.ndim == 1 and shape[-2] == 1:
        del shape[-2]
    if y.ndim == 1 and shape[-1] == 1:
        shape.pop()
    out = out.reshape(shape)
    return out if shape or ctx is None else follow_rank(out, ctx.declared("Out"))


def _heads(x: Array, y: Array, count: int) -> list[tuple[Array, Array]]:
    """The operands of each head: columns of ``x``; rows of ``y``, or its columns where rows are too few."""
    if x.ndim < 2 or y.ndim < 2 or x.shape[-1] % count:
        raise ValueError(f"head_number {count} does not divide X of shape {list(x.shape)} with Y {list(y.shape)}")
    axis = -2 if y.shape[-2] == x.shape[-1] else -1
    return list(zip(np.split(x, count, axis=-1), np.split(y, count, axis=axis), strict=True))


def _first_generation(
    x: Array, y: Array, d_out: Array, transpose_X: bool, transpose_Y: bool
) -> tuple[Array, Array, Array]:
    """Operands and output gradient of ``matmul`` with vectors made matrices."""
    left, right = _row(x), _column(y)
    rows = left.shape[-1 if transpose_X else -2]
    columns = right.shape[-2 if transpose_Y else -1]
    batch = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    return left, right, d_out.reshape(*batch, rows, columns)


@matmul.gradient(takes="X Y Out@GRAD", gives="X@GRAD Y@GRAD")
def matmul_grad(
    x: Array,
    y: Array,
    d_out: Array,
    *,
    transpose_X: bool = False,
    transpose_Y: bool = False,
    alpha: float = 1.0,
    head_number: int = 1,
    want: frozenset[str] = frozenset({"X@GRAD", "Y@GRAD"}),
) -> tuple[Array | None, Array | None]:
    """As ``matmul_v2_grad``, times ``alpha``; one head only, as in Paddle."""
    if head_number != 1:
        raise ValueError(f"attribute head_number={head_number} has no gradient, only 1 has")
    left, right, d = _first_generation(x, y, d_out, transpose_X, transpose_Y)
    d_x = d_y = None
    if "X@GRAD" in want:
        d_x = _scaled(_grad_x(right, d, left.shape, transpose_X, transpose_Y), alpha).reshape(x.shape)
    if "Y@GRAD" in want:
        d_y = _scaled(_grad_y(left, d, right.shape, transpose_X, transpose_Y), alpha).reshape(y.shape)
    return d_x, d_y


@matmul_grad.gradient(
    takes="X Y DOut=Out@GRAD DDX=X@GRAD@GRAD? DDY=Y@GRAD@GRAD?",
    gives="DX=X@GRAD DY=Y@GRAD DDOut=Out@GRAD@GRAD",
)
def matmul_grad_grad(
    x: Array,
    y: Array,
    d_out: Array,
    dd_x: Array | None,
    dd_y: Array | None,
    *,
    transpose_X: bool = False,
    transpose_Y: bool = False,
    alpha: float = 1.0,
) -> tuple[Array, Array, Array]:
    """As ``matmul_v2_grad_grad``, times ``alpha``."""
    ddx = np.zeros_like(x) if dd_x is None else dd_x
    ddy = np.zeros_like(y) if dd_y is None else dd_y
    flags: dict[str, Any] = {"transpose_X": transpose_X, "transpose_Y": transpose_Y, "alpha": alpha}
    d_x, _ = matmul_grad(x, ddy, d_out, want=frozenset({"X@GRAD"}), **flags)
    _, d_y = matmul_grad(ddx, y, d_out, want=frozenset({"Y@GRAD"}), **flags)
    dd_out = matmul(ddx, y, **flags) + matmul(x, ddy, **flags)
    return d_x, d_y, dd_out.reshape(d_out.shape)


def _flattened(x: Array, columns: int) -> Array:
    """``x`` as a matrix: the first ``columns`` dimensions are its rows."""
    if not 0 < columns < max(x.ndim, 2):
        raise ValueError(
            f"a tensor of shape {list(x.shape)} has no matrix with its first {columns} dimension(s) as rows"
        )
    return x if x.ndim == 2 else x.reshape(math.prod(x.shape[:columns]), math.prod(x.shape[columns:]))


@operator("mul", inputs="X Y", outputs="Out", refuse={"scale_x": 1.0, "scale_y": [1.0], "scale_out": 1.0})
def mul(x: Array, y: Array, *, x_num_col_dims: int = 1, y_num_col_dims: int = 1) -> Array:
    """The product of ``x`` and ``y`` flattened to matrices; shape ``x.shape[:xn] + y.shape[yn:]``."""
    out = product(_flattened(x, x_num_col_dims), _flattened(y, y_num_col_dims))
    return out.reshape(x.shape[:x_num_col_dims] + y.shape[y_num_col_dims:])


@mul.gradient(takes="X Y Out@GRAD", gives="X@GRAD Y@GRAD")
def mul_grad(
    x: Array,
    y: Array,
    d_out: Array,
    *,
    x_num_col_dims: int = 1,
    y_num_col_dims: int = 1,
    want: frozenset[str] = frozenset({"X@GRAD", "Y@GRAD"}),
) -> tuple[Array | None, Array | None]:
    """``d_out @ y^T`` and ``x^T @ d_out`` of the flattened matrices."""
    left, right = _flattened(x, x_num_col_dims), _flattened(y, y_num_col_dims)
    d = d_out.reshape(left.shape[0], right.shape[1])
    d_x = product(d, right.T).reshape(x.shape) if "X@GRAD" in want else None
    d_y = product(left.T, d).reshape(y.shape) if "Y@GRAD" in want else None
    return d_x, d_y


@mul_grad.gradient(
    takes="X Y DOut=Out@GRAD DDX=X@GRAD@GRAD? DDY=Y@GRAD@GRAD?",
    gives="DX=X@GRAD DY=Y@GRAD DDOut=Out@GRAD@GRAD",
)
def mul_grad_grad(
    x: Array,
    y: Array,
    d_out: Array,
    dd_x: Array | None,
    dd_y: Array | None,
    *,
    x_num_col_dims: int = 1,
    y_num_col_dims: int = 1,
) -> tuple[Array, Array, Array]:
    """As ``matmul_v2_grad_grad`` of the flattened matrices."""
    ddx = np.zeros_like(x) if dd_x is None else dd_x
    ddy = np.zeros_like(y) if dd_y is None else dd_y
    split = {"x_num_col_dims": x_num_col_dims, "y_num_col_dims": y_num_col_dims}
    d_x, _ = mul_grad(x, ddy, d_out, want=frozenset({"X@GRAD"}), **split)
    _, d_y = mul_grad(ddx, y, d_out, want=frozenset({"Y@GRAD"}), **split)
    return d_x, d_y, mul(ddx, y, **split) + mul(x, ddy, **split)


@operator("bmm", inputs="X Y", outputs="Out")
def bmm(x: Array, y: Array) -> Array:
    """``x @ y`` of two stacks of as many matrices, ``[B, M, K] @ [B, K, N]``."""
    if x.ndim != 3 or y.ndim != 3 or x.shape[0] != y.shape[0]:
        raise ValueError(f"X and Y must be stacks [B, M, K] and [B, K, N], got {list(x.shape)} and {list(y.shape)}")
    return product(x, y)


@bmm.gradient(takes="X Y Out@GRAD", gives="X@GRAD Y@GRAD")
def bmm_grad(x: Array, y: Array, d_out: Array) -> tuple[Array, Array]:
    """``d_out @ y^T`` and ``x^T @ d_out``."""
    return product(d_out, y.swapaxes(1, 2)), product(x.swapaxes(1, 2), d_out)


@operator("mv", inputs="X Vec", outputs="Out")
def mv(x: Array, vec: Array) -> Array:
    """Matrix times vector, ``[M, N] @ [N]``."""
    if x.ndim != 2 or vec.ndim != 1 or x.shape[1] != vec.shape[0]:
        raise ValueError(f"X must be [M, N] and Vec [N], got {list(x.shape)} and {list(vec.shape)}")
    return product(x, vec[:, None])[:, 0]


@mv.gradient(takes="X Vec Out@GRAD", gives="X@GRAD Vec@GRAD")
def mv_grad(x: Array, vec: Array, d_out: Array) -> tuple[Array, Array]:
    """The outer product of ``d_out`` and ``vec``; ``x^T @ d_out``."""
    return product(d_out[:, None], vec[None, :]), product(x.T, d_out[:, None])[:, 0]


@operator("addmm", inputs="Input X Y", outputs="Out")
def addmm(bias: Array, x: Array, y: Array, *, Beta: float = 1.0, Alpha: float = 1.0) -> Array:
    """``Beta * Input + Alpha * x @ y``; Input broadcasts to the product."""
    if x.ndim != 2 or y.ndim != 2:
        raise ValueError(f"X and Y must be matrices, got {list(x.shape)} and {list(y.shape)}")
    out = _scaled(product(x, y), Alpha)
    if bias.ndim > 2 or np.broadcast_shapes(bias.shape, out.shape) != out.shape:
        raise ValueError(f"Input of shape {list(bias.shape)} does not broadcast to the product {list(out.shape)}")
    out += bias if Beta == 1.0 else bias * np.asarray(Beta, bias.dtype)
    return out


@addmm.gradient(takes="Input X Y Out@GRAD", gives="Input@GRAD X@GRAD Y@GRAD")
def addmm_grad(
    bias: Array, x: Array, y: Array, d_out: Array, *, Beta: float = 1.0, Alpha: float = 1.0
) -> tuple[Array, Array, Array]:
    """``Beta * d_out`` summed to Input's shape; the products' gradients times ``Alpha``."""
    d_bias = unbroadcast(d_out, bias.shape) * np.asarray(Beta, bias.dtype)
    return d_bias, _scaled(product(d_out, y.T), Alpha), _scaled(product(x.T, d_out), Alpha)


Run = Callable[[Array, Array], Array]


def _fixed_right(constants: Mapping[str, Any]) -> Array | None:
    """A constant ``Y``, aligned (a mapped file may not be) and wide, so that no call converts it again."""
    y = constants.get("Y")
    if not isinstance(y, np.ndarray) or y.ndim < 2 or "X" in constants:
        return None
    return np.require(y, accumulate_dtype(y.dtype), "A")


def _times(right: Array, alpha: float) -> Run:
    """``x, _ -> alpha * x @ right``, the result in the dtype of ``x``."""

    def run(x: Array, _: Array) -> Array:
        out = product(_row(x), right)
        out = _scaled(out, alpha)
        return out[..., 0, :] if x.ndim == 1 else out

    return run


@matmul_v2.prepare
def prepare_matmul_v2(constants: Mapping[str, Any], *, trans_x: bool = False, trans_y: bool = False) -> Run | None:
    """With a constant matrix on the right, convert and transpose it once."""
    right = None if trans_x else _fixed_right(constants)
    return None if right is None else _times(swapped(right, trans_y), 1.0)


@matmul.prepare
def prepare_matmul(
    constants: Mapping[str, Any],
    *,
    transpose_X: bool = False,
    transpose_Y: bool = False,
    alpha: float = 1.0,
    head_number: int = 1,
) -> Run | None:
    """With a constant matrix on the right, convert and transpose it once."""
    right = None if transpose_X or head_number != 1 else _fixed_right(constants)
    return None if right is None else _times(swapped(right, transpose_Y), alpha)


@mul.prepare
def prepare_mul(constants: Mapping[str, Any], *, x_num_col_dims: int = 1, y_num_col_dims: int = 1) -> Run | None:
    """With a constant ``Y``, flatten and convert it once."""
    y = _fixed_right(constants)
    if y is None:
        return None
    right, tail = _flattened(y, y_num_col_dims), y.shape[y_num_col_dims:]

    def run(x: Array, _: Array) -> Array:
        return product(_flattened(x, x_num_col_dims), right).reshape(x.shape[:x_num_col_dims] + tail)

    return run
