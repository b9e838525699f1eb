"""Losses over classes: cross entropies of logits and of probabilities, negative log likelihood, margins."""

from __future__ import annotations

import math

import numpy as np

from ...ir.registry import OpContext, define, operator
from ..values import Array
from .common import accumulate_dtype, follow_rank, normalize_axis, x_shape
from .softmax import log_softmax, softmax

__all__ = ["cross_entropy", "margin_cross_entropy", "nll_loss", "softmax_with_cross_entropy"]

_HUGE = 1e20
"""What an infinite logarithm counts as."""


def _class_last(x: Array, axis: int) -> tuple[Array, tuple[int, ...]]:
    """``x`` as ``[rows, classes]`` with the classes of ``axis`` last, and its shape before flattening."""
    moved = np.moveaxis(x, axis, -1)
    return moved.reshape(-1, moved.shape[-1]) if moved.size else moved.reshape(
        math.prod(moved.shape[:-1]), moved.shape[-1]
    ), moved.shape


def _back(rows: Array, shape: tuple[int, ...], axis: int) -> Array:
    """The inverse of :func:`_class_last`."""
    return np.moveaxis(rows.reshape(shape), -1, axis)


def _checked_labels(label: Array, classes: int, ignore_index: int) -> tuple[Array, Array]:
    """Flat int64 labels, those to ignore made 0, and which ones count.

    Raises:
        ValueError: a label names no class.
    """
    flat = label.reshape(-1).astype(np.int64)
    counts = flat != ignore_index
    used = flat[counts]
    if used.size and (used.min() < 0 or used.max() >= classes):
        bad = used[(used < 0) | (used >= classes)][0]
        raise ValueError(f"label {bad} is outside the {classes} classes (ignore_index is {ignore_index})")
    return np.where(counts, flat, 0), counts


def _picked(rows: Array, labels: Array) -> Array:
    return rows[np.arange(len(labels)), labels]


def _log(x: Array) -> Array:
    """``log(x)``, in the dtype of sums; that of 0 is the huge number, or the largest that ``x`` can hold."""
    limit = float(np.finfo(np.float16).max) if x.dtype == np.float16 else _HUGE
    with np.errstate(divide="ignore"):
        logs = np.log(x.astype(accumulate_dtype(x.dtype), copy=False))
    cut: Array = np.clip(logs, -limit, limit)
    return cut


def _one_hot_sub(rows: Array, labels: Array, amount: Array) -> None:
    """``rows[i, labels[i]] -= amount[i]``, in place."""
    rows[np.arange(len(labels)), labels] -= amount


@operator("softmax_with_cross_entropy", inputs="Logits Label", outputs="Softmax Loss", ignores="numeric_stable_mode")
def softmax_with_cross_entropy(
    logits: Array,
    label: Array,
    *,
    soft_label: bool = False,
    use_softmax: bool = True,
    numeric_stable_mode: bool = True,
    ignore_index: int = -100,
    axis: int = -1,
) -> tuple[Array, Array]:
    """``-log(softmax(logits)[label])`` along ``axis``, which stays as 1 in the loss.

    ``soft_label`` weights all classes by Label, which then has the shape of Logits. Without ``use_softmax``
    the logits are probabilities already. The stable computation serves both modes.
    """
    axis = normalize_axis(axis, logits.ndim)
    if not numeric_stable_mode and axis != logits.ndim - 1:
        raise ValueError("attribute numeric_stable_mode=False is possible along the last axis only")
    wide = accumulate_dtype(logits.dtype)
    probabilities = softmax(logits, axis=axis) if use_softmax else logits
    logs = log_softmax(logits.astype(wide, copy=False), axis=axis) if use_softmax else _log(logits)
    if soft_label:
        loss = -(label * logs).sum(axis=axis, keepdims=True)
    else:
        if label.ndim != logits.ndim or label.shape[axis] != 1:
            raise ValueError(f"Label {list(label.shape)} must be Logits {list(logits.shape)} with 1 at axis {axis}")
        rows, shape = _class_last(logs, axis)
        labels, counts = _checked_labels(label, shape[-1], ignore_index)
        kept = np.where(counts, -_picked(rows, labels), 0)
        loss = kept.reshape([1 if i == axis else size for i, size in enumerate(logits.shape)])
    return probabilities, loss.astype(logits.dtype, copy=False)


@softmax_with_cross_entropy.gradient(takes="Label Softmax Loss@GRAD", gives="Logits@GRAD")
def softmax_with_cross_entropy_grad(
    label: Array,
    probabilities: Array,
    d_loss: Array,
    *,
    soft_label: bool = False,
    use_softmax: bool = True,
    ignore_index: int = -100,
    axis: int = -1,
) -> Array:
    """``(softmax - label) * d_loss``, or through the logarithm alone where the softmax was not computed."""
    axis = normalize_axis(axis, probabilities.ndim)
    wide = accumulate_dtype(probabilities.dtype)
    p, d = probabilities.astype(wide, copy=False), d_loss.astype(wide, copy=False)
    if soft_label:
        grad = (p - label if use_softmax else -(label / p)) * d
        result: Array = grad.astype(probabilities.dtype, copy=False)
        return result
    rows, shape = _class_last(p, axis)
    labels, counts = _checked_labels(label, shape[-1], ignore_index)
    amount = np.where(counts, np.moveaxis(d, axis, -1).reshape(-1), 0)
    if use_softmax:
        grad = rows * amount[:, None]
        _one_hot_sub(grad, labels, amount)
    else:
        grad = np.zeros_like(rows)
        _one_hot_sub(grad, labels, amount / _picked(rows, labels))
    return _back(grad, shape, axis).astype(probabilities.dtype, copy=False)


def _loss_shape(x: Array, label: Array) -> tuple[int, ...]:
    """The last dimension becomes 1 when the labels have one, else it goes."""
    return (*x.shape[:-1], 1) if label.ndim == x.ndim else x.shape[:-1]


@operator("cross_entropy", inputs="X Label", outputs="Y")
def cross_entropy(x: Array, label: Array, *, soft_label: bool = False, ignore_index: int = -100) -> Array:
    """``-log(x[label])`` of probabilities along the last dimension."""
    if soft_label:
        result: Array = -(label * _log(x)).sum(axis=-1, keepdims=True).astype(x.dtype, copy=False)
        return result
    rows, shape = _class_last(x, -1)
    labels, counts = _checked_labels(label, shape[-1], ignore_index)
    return np.where(counts, -_log(_picked(rows, labels)), 0).astype(x.dtype, copy=False).reshape(_loss_shape(x, label))


@cross_entropy.gradient(takes="X Label Y@GRAD", gives="X@GRAD")
def cross_entropy_grad(
    x: Array, label: Array, d_y: Array, *, soft_label: bool = False, ignore_index: int = -100
) -> Array:
    """``-label / x * d_y``."""
    d = d_y.reshape(*x.shape[:-1], 1)
    if soft_label:
        return (-(label / x) * d).astype(x.dtype, copy=False)
    rows, shape = _class_last(x, -1)
    labels, counts = _checked_labels(label, shape[-1], ignore_index)
    grad = np.zeros_like(rows)
    _one_hot_sub(grad, labels, np.where(counts, d.reshape(-1) / _picked(rows, labels), 0))
    return grad.reshape(x.shape)


@operator("cross_entropy2", inputs="X Label", outputs="Y XShape MatchX")
def cross_entropy2(x: Array, label: Array, *, ignore_index: int = -100) -> tuple[Array, Array, Array]:
    """As cross_entropy with hard labels; ``MatchX`` keeps the probabilities that were picked."""
    rows, shape = _class_last(x, -1)
    labels, counts = _checked_labels(label, shape[-1], ignore_index)
    picked = np.where(counts, _picked(rows, labels), x.dtype.type(0)).astype(x.dtype, copy=False)
    loss = np.where(counts, -_log(picked), 0).astype(x.dtype, copy=False)
    return loss.reshape(_loss_shape(x, label)), x_shape(x), picked.reshape(*x.shape[:-1], 1)


def _cross_entropy_grad2(label: Array, picked: Array, shape: Array, d_y: Array, *, ignore_index: int = -100) -> Array:
    """``-d_y / MatchX`` at the label, 0 elsewhere."""
    full = shape.shape[1:]
    labels, counts = _checked_labels(label, full[-1], ignore_index)
    grad = np.zeros((labels.size, full[-1]), picked.dtype)
    safe = np.where(counts, picked.reshape(-1), picked.dtype.type(1))
    _one_hot_sub(grad, labels, np.where(counts, d_y.reshape(-1) / safe, d_y.dtype.type(0)))
    return grad.reshape(full)


_GRAD2 = "Label MatchX XShape Y@GRAD"
define("cross_entropy_grad2", _cross_entropy_grad2, inputs=_GRAD2, outputs="X@GRAD", gradient=None)
cross_entropy2.gradient_op("cross_entropy_grad2", takes=_GRAD2, gives="X@GRAD")


def _with_margin(x: Array, margin1: float, margin2: float, margin3: float) -> tuple[Array, Array]:
    """``cos(margin1 * acos(x) + margin2) - margin3`` and its derivative."""
    angle = np.arccos(np.clip(x, -1, 1))
    turned = angle * x.dtype.type(margin1) + x.dtype.type(margin2)
    with np.errstate(divide="ignore", invalid="ignore"):  # at the poles the slope is infinite
        slope = np.sin(turned) * x.dtype.type(margin1) / np.sin(angle)
    return np.cos(turned) - x.dtype.type(margin3), slope


_ONE_RANK = {"nranks": 1, "rank": 0}


@operator(
    "margin_cross_entropy",
    inputs="Logits Label",
    outputs="Softmax Loss",
    refuse=_ONE_RANK,
    ignores="return_softmax ring_id",
)
def margin_cross_entropy(
    logits: Array,
    label: Array,
    *,
    margin1: float = 1.0,
    margin2: float = 0.5,
    margin3: float = 0.0,
    scale: float = 64.0,
) -> tuple[Array, Array]:
    """Cross entropy of ``scale *`` cosines, the label's own moved by the margins: ``[N, C]``, ``[N]``."""
    wide = logits.astype(accumulate_dtype(logits.dtype))
    labels, _ = _checked_labels(label, logits.shape[-1], -1)
    every = np.arange(len(labels))
    wide[every, labels] = _with_margin(wide[every, labels], margin1, margin2, margin3)[0]
    logs = log_softmax(wide * wide.dtype.type(scale))
    loss = -_picked(logs, labels)[:, None]
    return np.exp(logs).astype(logits.dtype, copy=False), loss.astype(logits.dtype, copy=False)


@margin_cross_entropy.gradient(takes="Logits Label Softmax Loss@GRAD", gives="Logits@GRAD")
def margin_cross_entropy_grad(
    logits: Array,
    label: Array,
    probabilities: Array,
    d_loss: Array,
    *,
    margin1: float = 1.0,
    margin2: float = 0.5,
    margin3: float = 0.0,
    scale: float = 64.0,
) -> Array:
    """``scale * (softmax - label) * d_loss``, at the label times the margin's slope."""
    wide = accumulate_dtype(logits.dtype)
    labels, _ = _checked_labels(label, logits.shape[-1], -1)
    every = np.arange(len(labels))
    amount = d_loss.reshape(-1).astype(wide, copy=False) * wide.type(scale)
    grad = probabilities * amount[:, None]
    _one_hot_sub(grad, labels, amount)
    slope = _with_margin(logits[every, labels].astype(wide, copy=False), margin1, margin2, margin3)[1]
    grad[every, labels] *= slope
    result: Array = grad.astype(logits.dtype, copy=False)
    return result


def _nll_weights(
    x: Array, label: Array, weight: Array | None, ignore_index: int
) -> tuple[Array, Array, Array, tuple[int, ...]]:
    """Rows of log probabilities, labels, the weight of each row (0 where ignored), the shape with classes last."""
    if x.ndim < 2 or label.shape != (x.shape[0], *x.shape[2:]):
        raise ValueError(f"X [N, C, ...] and Label [N, ...] do not fit: {list(x.shape)} and {list(label.shape)}")
    rows, shape = _class_last(x, 1)
    labels, counts = _checked_labels(label, x.shape[1], ignore_index)
    each = np.ones(len(labels), x.dtype) if weight is None else weight[labels]
    return rows, labels, each * counts.astype(x.dtype), shape


def _check_reduction(reduction: str) -> None:
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"attribute reduction is '{reduction}', expected 'none', 'mean' or 'sum'")


@operator("nll_loss", inputs="X Label Weight?", outputs="Out Total_weight")
def nll_loss(
    x: Array,
    label: Array,
    weight: Array | None = None,
    *,
    ignore_index: int = -100,
    reduction: str = "mean",
    ctx: OpContext | None = None,
) -> tuple[Array, Array]:
    """``-weight[label] * x[label]`` of log probabilities ``[N, C, ...]``; the mean divides by the weights used."""
    _check_reduction(reduction)
    rows, labels, each, _ = _nll_weights(x, label, weight, ignore_index)
    losses = -_picked(rows, labels) * each
    total = np.asarray(each.sum(dtype=x.dtype))
    if reduction == "none":
        return losses.reshape(label.shape), np.zeros((), x.dtype)
    out = np.asarray(losses.sum(dtype=x.dtype))
    if reduction == "mean":
        with np.errstate(invalid="ignore", divide="ignore"):  # all ignored: 0 / 0, as in Paddle
            out = np.asarray(out / total) if total else np.zeros_like(out)
    return (
        (out, total)
        if ctx is None
        else (
            follow_rank(out, ctx.declared("Out")),
            follow_rank(total, ctx.declared("Total_weight")),
        )
    )


@nll_loss.gradient(takes="X Label Weight? Total_weight Out@GRAD", gives="X@GRAD")
def nll_loss_grad(
    x: Array,
    label: Array,
    weight: Array | None,
    total: Array,
    d_out: Array,
    *,
    ignore_index: int = -100,
    reduction: str = "mean",
) -> Array:
    """``-weight[label] * d_out`` at the label."""
    rows, labels, each, shape = _nll_weights(x, label, weight, ignore_index)
    amount = each * d_out.reshape(-1)
    if reduction == "mean":
        used = total.reshape(())
        amount = amount / used if used else np.zeros_like(amount)
    grad = np.zeros_like(rows)
    _one_hot_sub(grad, labels, amount)
    return np.ascontiguousarray(_back(grad, shape, 1))
