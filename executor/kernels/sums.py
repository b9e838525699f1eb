"""Sums over lists and whole tensors: ``sum``, ``mean``, ``identity_loss``; ``label_smooth`` and ``multiplex``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ir.desc import EMPTY_VAR, GRAD_SUFFIX, OpDesc
from ...ir.registry import OpContext, operator
from ..values import Array, Meta, SelectedRows, TensorArray
from .common import accumulate_dtype, follow_rank
from .elementwise import binary
from .pointwise import widened

__all__ = ["add_all", "mean"]


def _dense_sum(arrays: Sequence[Array]) -> Array:
    """The sum of arrays of one shape and dtype; empty ones are left out."""
    full = [array for array in arrays if array.size] or list(arrays[:1])
    first = full[0]
    for index, array in enumerate(full):
        if array.shape != first.shape:
            raise ValueError(f"slot X[{index}]: shape {list(array.shape)}, X[0] has {list(first.shape)}")
        if array.dtype != first.dtype:
            raise TypeError(f"slot X[{index}]: dtype {array.dtype}, X[0] has {first.dtype}")
    widened("sum", "X", first.dtype, "fci")
    if len(full) == 1:
        return first
    wide = accumulate_dtype(first.dtype)
    with np.errstate(all="ignore"):
        total = full[0].astype(wide, copy=False)
        owned = False
        for array in full[1:]:
            total = np.asarray(binary(np.add, total, array.astype(wide, copy=False), total if owned else None))
            owned = True
    return total.astype(first.dtype, copy=False)


def _array_sum(arrays: Sequence[Sequence[Any]]) -> TensorArray:
    """Tensor arrays add up element by element; an element that nobody wrote stays unwritten."""
    result = TensorArray()
    for index in range(max(map(len, arrays))):
        found = [a[index] for a in arrays if index < len(a) and a[index] is not None]
        result.append(add_all(found) if found else None)
    return result


@operator("sum", inputs="X*", outputs="Out", ignores="use_mkldnn mkldnn_data_type")
def add_all(x: list[Any]) -> Any:
    """The sum of all inputs: dense tensors, selected rows (whose rows are joined), or tensor arrays."""
    values = [value for value in x if value is not None]
    if not values:
        raise ValueError("slot X: at least one tensor expected")
    if any(isinstance(value, TensorArray) for value in values):
        return _array_sum(values)
    sparse = [value for value in values if isinstance(value, SelectedRows)]
    dense = [value for value in values if not isinstance(value, SelectedRows)]
    if not sparse:
        return _dense_sum(dense)
    joined = SelectedRows(
        np.concatenate([value.rows for value in sparse]),
        np.concatenate([value.values for value in sparse]),
        sparse[0].height,
    )
    return _dense_sum([*dense, joined.to_dense()]) if dense else joined


@add_all.gradient_maker
def _each_grad(op: OpDesc, no_grad: frozenset[str]) -> list[OpDesc]:
    """One ``scale`` by 1 for every input."""
    seed = op.outputs["Out"][0] + GRAD_SUFFIX
    return [
        OpDesc("scale", {"X": [seed]}, {"Out": [name + GRAD_SUFFIX]}, {**op.attrs, "scale": 1.0}, dict(op.attr_types))
        for name in op.inputs["X"]
        if name != EMPTY_VAR and name + GRAD_SUFFIX not in no_grad
    ]


def _whole_sum(x: Array) -> Any:
    return x.sum(dtype=accumulate_dtype(x.dtype))


@operator("mean", inputs="X", outputs="Out")
def mean(x: Array, *, ctx: OpContext | None = None) -> Array:
    """The mean of all elements; NaN of none."""
    widened("mean", "X", x.dtype, "fc")
    with np.errstate(all="ignore"):
        value = np.asarray(np.divide(_whole_sum(x), x.size)).astype(x.dtype)
    return follow_rank(value, None if ctx is None else ctx.declared("Out"))


@mean.gradient(takes="X~ Out@GRAD", gives="X@GRAD")
def mean_grad(x: Array | Meta, d_out: Array) -> Array:
    """``d_out / size`` everywhere."""
    wide = accumulate_dtype(d_out.dtype)
    share = np.divide(d_out.reshape(()).astype(wide), max(x.size, 1))
    return np.full(x.shape, share, x.dtype)


@operator("identity_loss", inputs="X", outputs="Out")
def identity_loss(x: Array, *, reduction: int = 1, ctx: OpContext | None = None) -> Array:
    """The sum (0), the mean (1) or ``x`` itself (2)."""
    if reduction not in (0, 1, 2):
        raise ValueError(f"attribute reduction={reduction}: 0 (sum), 1 (mean) or 2 (none) expected")
    if reduction == 2:
        return x
    with np.errstate(all="ignore"):
        value = _whole_sum(x) if reduction == 0 else np.divide(_whole_sum(x), x.size)
    return follow_rank(np.asarray(value).astype(x.dtype), None if ctx is None else ctx.declared("Out"))


@identity_loss.gradient(takes="X Out@GRAD", gives="X@GRAD")
def identity_loss_grad(x: Array, d_out: Array, *, reduction: int = 1) -> Array:
    """``d_out`` for every element, shared out for the mean."""
    if reduction == 2:
        return d_out
    return np.full(x.shape, d_out.reshape(())) if reduction == 0 else mean_grad(x, d_out)


@operator("label_smooth", inputs="X PriorDist?", outputs="Out")
def label_smooth(x: Array, prior: Array | None, *, epsilon: float = 0.0) -> Array:
    """``(1 - epsilon) * x + epsilon * prior``; without ``PriorDist`` the prior is uniform over the last axis."""
    widened("label_smooth", "X", x.dtype, "f")
    classes = x.shape[-1] if x.ndim else 1
    if prior is not None and prior.size != classes:
        raise ValueError(f"slot PriorDist: shape {list(prior.shape)}, expected {classes} elements")
    added: Any = epsilon / max(classes, 1) if prior is None else epsilon * prior.reshape(-1)
    return np.asarray((1.0 - epsilon) * x + added).astype(x.dtype, copy=False)


@label_smooth.gradient(takes="Out@GRAD", gives="X@GRAD")
def label_smooth_grad(d_out: Array, *, epsilon: float = 0.0) -> Array:
    """``(1 - epsilon) * d_out``."""
    return np.asarray((1.0 - epsilon) * d_out).astype(d_out.dtype, copy=False)


def _choices(x: Sequence[Array], ids: Array) -> Array:
    """Which tensor each row comes from."""
    if ids.ndim != 2 or ids.dtype.kind not in "iu":
        raise ValueError(f"slot Ids: an integer tensor of shape [N, 1] expected, got {ids.dtype}{list(ids.shape)}")
    picks = ids[:, 0]
    if picks.size and not 0 <= picks.min() <= picks.max() < len(x):
        raise ValueError(f"slot Ids: {picks.min()} to {picks.max()}, but slot X has {len(x)} tensors")
    if len(picks) > len(x[0]):
        raise ValueError(f"slot Ids: {len(picks)} rows, the tensors of slot X have {len(x[0])}")
    return picks


@operator("multiplex", inputs="X* Ids", outputs="Out")
def multiplex(x: list[Array], ids: Array) -> Array:
    """Row ``i`` of the result is row ``i`` of tensor ``ids[i]``."""
    picks = _choices(x, ids)
    out = np.empty((len(picks), *x[0].shape[1:]), x[0].dtype)
    for index, source in enumerate(x):
        rows = np.flatnonzero(picks == index)
        out[rows] = source[rows]
    return out


@multiplex.gradient(takes="X* Ids Out@GRAD", gives="X@GRAD*=X@GRAD*")
def multiplex_grad(x: list[Array], ids: Array, d_out: Array) -> list[Array]:
    """Each row goes back to the tensor that it came from."""
    picks = _choices(x, ids)
    grads = []
    for index, source in enumerate(x):
        grad = np.zeros(source.shape, d_out.dtype)
        rows = np.flatnonzero(picks == index)
        grad[rows] = d_out[rows]
        grads.append(grad)
    return grads
