"""Conversions and hand-overs: ``cast``, layout and memory transfers, ``assign``, shared data, ``print``."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ir.dtypes import is_bfloat16, to_numpy
from ...ir.registry import OpContext, operator
from ..values import Array, LoDTensor, SelectedRows, TensorArray, array_of

__all__ = ["assign", "cast", "converted"]

_log = logging.getLogger("oarlock.print")


def converted(x: Array, dtype: np.dtype[Any]) -> Array:
    """``x`` in another dtype as C converts: without fraction or imaginary part, small integers wrap around.

    The array itself where it has the dtype already.
    """
    if x.dtype == dtype:
        return x
    if dtype.kind == "b":
        value: Array = x != 0
        return value
    if x.dtype.kind == "c" and dtype.kind != "c":
        x = x.real
    with np.errstate(all="ignore"):
        if is_bfloat16(x.dtype) and dtype.kind != "f":
            x = x.astype(np.float32)
        if x.dtype.kind == "f" and dtype.kind in "iu" and dtype.itemsize < 4:
            x = x.astype(np.int32)
        return x.astype(dtype)


@operator("cast", "transfer_dtype", inputs="X", outputs="Out", ignores="in_dtype")
def cast(x: Array, *, out_dtype: int) -> Array:
    """``x`` in the dtype of code ``out_dtype``."""
    dtype = to_numpy(out_dtype)
    if isinstance(x, SelectedRows):
        return SelectedRows(x.rows, converted(x.values, dtype), x.height)  # type: ignore[return-value]
    if is_bfloat16(dtype) and x.dtype.kind in "fiu":
        return _cut(x, dtype)
    return converted(x, dtype)


def _cut(x: Array, dtype: np.dtype[Any]) -> Array:
    """To bfloat16 by dropping the low half of the float32, as Paddle 2.x does (3.x rounds); NaN stays NaN."""
    with np.errstate(all="ignore"):
        wide = np.ascontiguousarray(x, np.float32)
    bits = (wide.view(np.uint32) >> 16).astype(np.uint16)
    bits[np.isnan(wide)] |= 0x40
    return bits.view(dtype).reshape(x.shape)


cast.gradient_op(
    "cast",
    takes="X=Out@GRAD",
    gives="Out=X@GRAD",
    attrs=lambda attrs: {"in_dtype": attrs["out_dtype"], "out_dtype": attrs["in_dtype"]},
)

_TO_NHWC, _TO_NCHW = 1, 2


@operator("transfer_layout", inputs="X", outputs="Out", gradient=None)
def transfer_layout(x: Array, *, dst_layout: int, src_layout: int = -1) -> Array:
    """From NCHW (2, or unknown: 0 and -1) to NHWC (1), or back."""
    if src_layout == dst_layout:
        raise ValueError(f"attribute dst_layout={dst_layout} equals src_layout")
    if dst_layout not in (_TO_NHWC, _TO_NCHW):
        raise ValueError(f"attribute dst_layout={dst_layout} is not supported, only 1 (NHWC) and 2 (NCHW)")
    if dst_layout == _TO_NHWC:
        return np.moveaxis(x, 1, -1)
    return np.moveaxis(x, -1, 1) if src_layout == _TO_NHWC else x


@operator("assign", inputs="X?", outputs="Out", lod="through")
def assign(x: Any) -> Any:
    """``x``: a tensor, ragged batch, selected rows, or a tensor array, whose list is copied."""
    return TensorArray(x) if isinstance(x, TensorArray) else x


assign.gradient_op("assign", takes="X=Out@GRAD", gives="Out=X@GRAD")


@operator("share_data", inputs="X", outputs="Out", lod="through", gradient=None)
def share_data(x: Any) -> Any:
    """``x`` itself."""
    return x


@operator(
    "memcpy",
    "memcpy_h2d",
    "memcpy_d2h",
    inputs="X",
    outputs="Out",
    lod="through",
    ignores="dst_place_type",
    gradient=None,
)
def memcpy(x: Any) -> Any:
    """``x``: there is one memory."""
    return TensorArray(x) if isinstance(x, TensorArray) else x


@operator("npu_identity", inputs="x", outputs="out", lod="through", ignores="format", gradient=None)
def npu_identity(x: Any) -> Any:
    """``x``; the storage format is a matter of the device."""
    return x


@operator(
    "share_buffer",
    inputs="X*",
    outputs="Out* XOut*",
    lod="through",
    ignores="share_dims_and_dtype",
    gradient=None,
)
def share_buffer(x: list[Any]) -> tuple[list[Any], list[Any]]:
    """The tensors themselves, under both names."""
    return list(x), list(x)


@operator("nop", inputs="X*", outputs="Out*", lod="through", gradient=None)
def nop(x: list[Any]) -> list[Any]:
    """The inputs, for whoever reads the outputs."""
    return list(x)


_printed: dict[int, int] = {}
"""How often an op has printed, by the identity of its attributes."""


@operator("print", inputs="In", outputs="Out", lod="through")
def print_tensor(
    x: Any,
    *,
    first_n: int = -1,
    message: str = "",
    summarize: int = 20,
    print_tensor_name: bool = True,
    print_tensor_type: bool = True,
    print_tensor_shape: bool = True,
    print_tensor_layout: bool = True,
    print_tensor_lod: bool = True,
    print_phase: str = "BOTH",
    is_forward: bool = True,
    ctx: OpContext | None = None,
) -> Any:
    """``x``; what it holds goes to the logger ``oarlock.print`` at level INFO."""
    if print_phase not in ("BOTH", "FORWARD", "BACKWARD"):
        raise ValueError(f"attribute print_phase='{print_phase}': BOTH, FORWARD or BACKWARD expected")
    due = print_phase in ("BOTH", "FORWARD" if is_forward else "BACKWARD")
    if not due or x is None or not _log.isEnabledFor(logging.INFO):
        return x
    if first_n > 0 and ctx is not None:
        count = _printed[id(ctx.op.attrs)] = _printed.get(id(ctx.op.attrs), 0) + 1
        if count > first_n:
            return x
    array = array_of(x)
    parts = [message] if message else []
    if print_tensor_name and ctx is not None:
        parts.append(f"variable: {ctx.op.input('In')}")
    if print_tensor_lod and isinstance(x, LoDTensor):
        parts.append(f"lod: {x.lod}")
    if print_tensor_shape:
        parts.append(f"shape: {list(array.shape)}")
    if print_tensor_layout:
        parts.append("layout: NCHW")
    if print_tensor_type:
        parts.append(f"dtype: {array.dtype}")
    parts.append(f"data: {_shown(array, summarize)}")
    _log.info("  ".join(parts))
    return x


def _shown(array: Array, count: int) -> str:
    flat = array.reshape(-1)
    some: Sequence[Any] = flat.tolist() if count < 0 else flat[:count].tolist()
    return f"{some}{'' if len(some) == flat.size else ' ...'}"


print_tensor.gradient_op("print", takes="In=Out@GRAD", gives="Out=In@GRAD", attrs={"is_forward": False})
