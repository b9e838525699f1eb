"""Affine and bounding operators of one tensor: ``scale``, ``clip``, ``clip_by_norm``, ``increment``."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir.desc import OpDesc
from ...ir.registry import operator
from ..values import Array, SelectedRows
from .common import accumulate_dtype
from .pointwise import bounded, over_blocks, widened

__all__ = ["clip", "scale"]

_DIRECT = frozenset(np.dtype(code) for code in ("f4", "f8", "c8", "c16"))


def _number(value: float, dtype: np.dtype[Any]) -> Any:
    """A number as a scalar of a dtype; to an integer without its fraction."""
    return dtype.type(int(value) if dtype.kind in "iu" else value)


def _scaled(x: Array, factor: float, bias: float, bias_first: bool, out: Array | None) -> Array:
    """``x * factor + bias`` (or ``(x + bias) * factor``) in the arithmetic of the dtype of ``x``."""
    if x.dtype not in _DIRECT:
        if x.dtype.kind == "b":
            value: Array = (x & bool(factor)) | bool(bias) if not bias_first else (x | bool(bias)) & bool(factor)
            return value
        if x.dtype.kind not in "iu":
            wide = _scaled(x.astype(np.float32), factor, bias, bias_first, None)
            return wide.astype(x.dtype)
        factor, bias = int(factor), int(bias)
    if factor == 1 and bias == 0:
        return x
    by, plus = factor, bias
    target = np.empty_like(x, subok=False) if out is None else out

    def formula(part: Array, place: Array) -> None:
        if bias_first:
            np.multiply(np.add(part, plus, out=place), by, out=place)
        elif by == 1:
            np.add(part, plus, out=place)
        else:
            np.multiply(part, by, out=place)
            if plus != 0:
                np.add(place, plus, out=place)

    with np.errstate(all="ignore"):
        over_blocks(formula, (x, target))
    return target


@operator("scale", inputs="X ScaleTensor?", outputs="Out", inplace="X->Out")
def scale(
    x: Any,
    tensor: Array | None,
    *,
    scale: float = 1.0,
    bias: float = 0.0,
    bias_after_scale: bool = True,
    out: Array | None = None,
) -> Any:
    """``scale * x + bias``, or ``scale * (x + bias)``; ``ScaleTensor`` has priority; integers drop fractions."""
    factor = scale if tensor is None else float(tensor.reshape(-1)[0])
    if isinstance(x, SelectedRows):
        return SelectedRows(x.rows, _scaled(x.values, factor, bias, not bias_after_scale, None), x.height)
    return _scaled(x, factor, bias, not bias_after_scale and bias != 0.0, out)


scale.gradient_op(
    "scale",
    takes="X=Out@GRAD ScaleTensor?",
    gives="Out=X@GRAD",
    attrs={"bias": 0.0, "bias_after_scale": True},
)


def _bounds(x: Array, low: Array | None, high: Array | None, min: float, max: float) -> tuple[Any, Any]:
    lowest = _number(min if low is None else low.reshape(-1)[0], x.dtype)
    highest = _number(max if high is None else high.reshape(-1)[0], x.dtype)
    if lowest > highest:
        raise ValueError(f"attribute min={lowest} is above max={highest}")
    return lowest, highest


@operator("clip", inputs="X Min? Max?", outputs="Out", inplace="X->Out")
def clip(x: Any, low: Array | None, high: Array | None, *, min: float, max: float, out: Array | None = None) -> Any:
    """``x`` bounded to ``[min, max]``; the tensors have priority; NaN stays."""
    if isinstance(x, SelectedRows):
        return SelectedRows(x.rows, clip(x.values, low, high, min=min, max=max), x.height)
    widened("clip", "X", x.dtype, "fi")
    lowest, highest = _bounds(x, low, high, min, max)
    target = np.empty_like(x, subok=False) if out is None else out

    def formula(part: Array, place: Array) -> None:
        bounded(part, lowest, highest, place)

    over_blocks(formula, (x, target))
    return target


@clip.gradient(takes="X Min? Max? Out@GRAD", gives="X@GRAD")
def clip_grad(x: Array, low: Array | None, high: Array | None, d_out: Array, *, min: float, max: float) -> Array:
    """``d_out`` where ``x`` is strictly inside the bounds."""
    lowest, highest = _bounds(x, low, high, min, max)
    return np.asarray(d_out * ((x > lowest) & (x < highest)))


@operator("clip_by_norm", inputs="X", outputs="Out", gradient=None)
def clip_by_norm(x: Any, *, max_norm: float) -> Any:
    """``x`` scaled down to the Euclidean norm ``max_norm`` where it is longer."""
    if max_norm <= 0:
        raise ValueError(f"attribute max_norm={max_norm}: a number above 0 expected")
    if isinstance(x, SelectedRows):
        rows, place = np.unique(x.rows, return_inverse=True)
        merged = np.zeros((len(rows), *x.values.shape[1:]), x.values.dtype)
        np.add.at(merged, place.reshape(-1), x.values)
        return SelectedRows(rows, clip_by_norm(merged, max_norm=max_norm), x.height)
    wide = x.astype(accumulate_dtype(x.dtype), copy=False).reshape(-1)
    norm = float(np.sqrt(np.dot(wide, wide)))
    return x if norm <= max_norm else np.asarray(x * _number(max_norm / norm, x.dtype))


@operator("increment", inputs="X", outputs="Out")
def increment(x: Array, *, step: float = 1.0) -> Array:
    """``x + step`` of a tensor of one element; integers take the whole part of ``step``."""
    if x.size != 1:
        raise ValueError(f"slot X: one element expected, got shape {list(x.shape)}")
    return np.asarray(x + _number(step, x.dtype)).astype(x.dtype, copy=False)


@increment.gradient_maker
def _decrement(op: OpDesc, no_grad: frozenset[str]) -> list[OpDesc]:
    """No gradient: the counter goes back, so that what backward reads by it is found."""
    back = {**op.attrs, "step": -op.attrs.get("step", 1.0)}
    return [
        OpDesc("increment", {"X": list(op.outputs["Out"])}, {"Out": list(op.inputs["X"])}, back, dict(op.attr_types))
    ]
