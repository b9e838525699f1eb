"""Losses of a prediction and a target, element by element: logistic, hinge, Huber, divergence and their kin."""

from __future__ import annotations

import math

import numpy as np

from ...ir.registry import OpContext, operator
from ..values import Array, Meta
from .common import accumulate_dtype, flattened, follow_rank

__all__ = ["bce_loss", "huber_loss", "kldiv_loss", "log_loss", "sigmoid_cross_entropy_with_logits"]


def softplus(x: Array) -> Array:
    """``log(1 + exp(x))`` without overflow."""
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def sigmoid(x: Array) -> Array:
    """``1 / (1 + exp(-x))``."""
    with np.errstate(over="ignore"):  # exp(-x) may become infinite, the quotient then 0
        result: Array = 1 / (1 + np.exp(-x))
    return result


def _wide(x: Array) -> Array:
    return x.astype(accumulate_dtype(x.dtype), copy=False)


# Logistic


_LEAST_COUNT = 9.999999747378752e-06


def _counted(label: Array, ignore_index: int, normalize: bool, dtype: type) -> tuple[Array, Array]:
    """Which elements count, and what to divide by: their number when normalising."""
    counts = label != ignore_index
    number = max(float(counts.sum()), _LEAST_COUNT) if normalize else 1.0
    return counts, np.asarray(number, dtype)


@operator("sigmoid_cross_entropy_with_logits", inputs="X Label pos_weight?", outputs="Out")
def sigmoid_cross_entropy_with_logits(
    x: Array,
    label: Array,
    pos_weight: Array | None = None,
    *,
    normalize: bool = False,
    ignore_index: int = -100,
) -> Array:
    """``max(x, 0) - x * label + pos_weight * log(1 + exp(-|x|))``, 0 where the label is ``ignore_index``.

    That is where Paddle puts ``pos_weight``. ``normalize`` divides by the number of elements that count.
    """
    data, target = _wide(x), _wide(label)
    tail = np.log1p(np.exp(-np.abs(data)))
    loss = np.maximum(data, 0) - data * target + (tail if pos_weight is None else tail * pos_weight)
    counts, number = _counted(label, ignore_index, normalize, data.dtype.type)
    return (np.where(counts, loss, 0) / number).astype(x.dtype, copy=False)


@sigmoid_cross_entropy_with_logits.gradient(takes="X Label pos_weight? Out@GRAD", gives="X@GRAD")
def sigmoid_cross_entropy_with_logits_grad(
    x: Array,
    label: Array,
    pos_weight: Array | None,
    d_out: Array,
    *,
    normalize: bool = False,
    ignore_index: int = -100,
) -> Array:
    """``(sigmoid(x) * pos_weight - label) * d_out`` where the label counts: Paddle's rule.

    With ``pos_weight`` that is not the derivative of what the forward pass computes.
    """
    data, target = _wide(x), _wide(label)
    slope = (sigmoid(data) if pos_weight is None else sigmoid(data) * pos_weight) - target
    counts, number = _counted(label, ignore_index, normalize, data.dtype.type)
    return (np.where(counts, slope * d_out, 0) / number).astype(x.dtype, copy=False)


@operator("bce_loss", inputs="X Label", outputs="Out")
def bce_loss(x: Array, label: Array) -> Array:
    """``-(label * log(x) + (1 - label) * log(1 - x))``, logarithms cut at -100."""
    if x.size and not ((x >= 0) & (x <= 1)).all():
        raise ValueError("X must hold probabilities between 0 and 1")
    low = x.dtype.type(-100)
    with np.errstate(divide="ignore"):  # log(0) is cut
        positive, negative = np.maximum(np.log(x), low), np.maximum(np.log1p(-x), low)
    result: Array = -(label * positive + (1 - label) * negative)
    return result


@bce_loss.gradient(takes="X Label Out@GRAD", gives="X@GRAD")
def bce_loss_grad(x: Array, label: Array, d_out: Array) -> Array:
    """``d_out * (x - label) / max(x * (1 - x), 1e-12)``."""
    result: Array = d_out * (x - label) / np.maximum(x * (1 - x), x.dtype.type(1e-12))
    return result


@operator("log_loss", inputs="Predicted Labels", outputs="Loss")
def log_loss(predicted: Array, labels: Array, *, epsilon: float) -> Array:
    """``-label * log(p + epsilon) - (1 - label) * log(1 - p + epsilon)``."""
    e = predicted.dtype.type(epsilon)
    result: Array = -labels * np.log(predicted + e) - (1 - labels) * np.log(1 - predicted + e)
    return result


@log_loss.gradient(takes="Predicted Labels Loss@GRAD", gives="Predicted@GRAD")
def log_loss_grad(predicted: Array, labels: Array, d_loss: Array, *, epsilon: float) -> Array:
    """``d_loss * (-label / (p + epsilon) + (1 - label) / (1 - p + epsilon))``."""
    e = predicted.dtype.type(epsilon)
    result: Array = d_loss * ((1 - labels) / (1 - predicted + e) - labels / (predicted + e))
    return result


_TEACHER = -1.0
"""Labels below are clicks alone (-2 no, -1 yes); others carry a teacher's score, plus 1 for a click."""


def _student_targets(label: Array) -> tuple[Array, Array, Array]:
    """The click (0 or 1), the teacher's score, and whether there is one."""
    has_teacher = label >= 0
    click = np.where(has_teacher, label >= 1, label >= _TEACHER).astype(label.dtype)
    score = np.where(has_teacher, label - click, label.dtype.type(0)).astype(label.dtype)
    return click, score, has_teacher


@operator(
    "teacher_student_sigmoid_loss",
    inputs="X Label",
    outputs="Y",
    ignores="soft_max_up_bound soft_max_lower_bound",
)
def teacher_student_sigmoid_loss(x: Array, label: Array) -> Array:
    """The logistic loss of the click, plus that of the teacher's score where the label carries one."""
    click, score, has_teacher = _student_targets(label)
    plus = softplus(x)
    taught = np.where(has_teacher, plus - x * score, x.dtype.type(0))
    result: Array = (plus - x * click + taught).astype(x.dtype, copy=False)
    return result


@teacher_student_sigmoid_loss.gradient(takes="X Label Y@GRAD", gives="X@GRAD")
def teacher_student_sigmoid_loss_grad(
    x: Array,
    label: Array,
    d_y: Array,
    *,
    soft_max_up_bound: float = 15.0,
    soft_max_lower_bound: float = -15.0,
) -> Array:
    """``sigmoid - click`` and ``sigmoid - score``; nothing outside the bounds."""
    click, score, has_teacher = _student_targets(label)
    prediction = sigmoid(x)
    slope = prediction - click + np.where(has_teacher, prediction - score, 0)
    inside = (x > soft_max_lower_bound) & (x < soft_max_up_bound)
    return (np.where(inside, slope, 0) * d_y).astype(x.dtype, copy=False)


@operator("sigmoid_focal_loss", inputs="X Label FgNum", outputs="Out")
def sigmoid_focal_loss(x: Array, label: Array, foreground: Array, *, gamma: float = 2.0, alpha: float = 0.25) -> Array:
    """The focal loss of ``[N, C]`` logits; label ``c`` is class ``c - 1``, 0 background, -1 ignored.

    Divided by the number of foreground samples.
    """
    positive, negative = _focal_weights(x, label, foreground, alpha)
    p = sigmoid(x)
    own = np.power(1 - p, x.dtype.type(gamma)) * -softplus(-x)
    other = np.power(p, x.dtype.type(gamma)) * -softplus(x)
    result: Array = (-positive * own - negative * other).astype(x.dtype, copy=False)
    return result


def _focal_weights(x: Array, label: Array, foreground: Array, alpha: float) -> tuple[Array, Array]:
    """The weights of the positive and of the negative term of each element."""
    number = max(int(np.asarray(foreground).reshape(-1)[0]), 1)
    target = label.reshape(-1, 1)
    own = target == np.arange(1, x.shape[1] + 1)
    positive = own * x.dtype.type(alpha / number)
    negative = (~own & (target != -1)) * x.dtype.type((1 - alpha) / number)
    return positive, negative


@sigmoid_focal_loss.gradient(takes="X Label FgNum Out@GRAD", gives="X@GRAD")
def sigmoid_focal_loss_grad(
    x: Array, label: Array, foreground: Array, d_out: Array, *, gamma: float = 2.0, alpha: float = 0.25
) -> Array:
    """Through both the focusing factor and the logarithm."""
    positive, negative = _focal_weights(x, label, foreground, alpha)
    p, g = sigmoid(x), x.dtype.type(gamma)
    own = np.power(1 - p, g) * (1 - p + p * g * softplus(-x))
    other = np.power(p, g) * (-softplus(x) * (1 - p) * g - p)
    result: Array = ((-positive * own - negative * other) * d_out).astype(x.dtype, copy=False)
    return result


# Hinge and Huber


@operator("hinge_loss", inputs="Logits Labels", outputs="Loss")
def hinge_loss(logits: Array, labels: Array) -> Array:
    """``max(0, 1 - (2 * label - 1) * logit)`` for labels 0 and 1."""
    result: Array = np.maximum(1 - logits * (2 * labels - 1), 0).astype(logits.dtype, copy=False)
    return result


@hinge_loss.gradient(takes="Logits Labels Loss@GRAD", gives="Logits@GRAD")
def hinge_loss_grad(logits: Array, labels: Array, d_loss: Array) -> Array:
    """``-(2 * label - 1) * d_loss`` where the loss is positive."""
    sign = 2 * labels - 1
    result: Array = (d_loss * -sign * (logits * sign < 1)).astype(logits.dtype, copy=False)
    return result


@operator("modified_huber_loss", inputs="X Y", outputs="IntermediateVal Out")
def modified_huber_loss(x: Array, y: Array) -> tuple[Array, Array]:
    """Of ``v = x * (2 * y - 1)``: ``(1 - v)^2`` between -1 and 1, ``-4 v`` below, 0 above."""
    v = x * (2 * y - 1)
    out = np.where(v < -1, -4 * v, np.where(v < 1, np.square(1 - v), v.dtype.type(0)))
    return v.astype(x.dtype, copy=False), out.astype(x.dtype, copy=False)


@modified_huber_loss.gradient(takes="Y IntermediateVal Out@GRAD", gives="X@GRAD")
def modified_huber_loss_grad(y: Array, v: Array, d_out: Array) -> Array:
    """The slope in ``v`` times ``2 * y - 1``."""
    slope = np.where(v < -1, -4, np.where(v < 1, -2 * (1 - v), 0))
    result: Array = (slope * (2 * y - 1) * d_out).astype(v.dtype, copy=False)
    return result


@operator("huber_loss", inputs="X Y", outputs="Out Residual")
def huber_loss(x: Array, y: Array, *, delta: float) -> tuple[Array, Array]:
    """Of ``r = y - x``: ``r^2 / 2`` up to ``delta``, then ``delta * (|r| - delta / 2)``."""
    residual = y - x
    size, limit = np.abs(residual), x.dtype.type(delta)
    out = np.where(size <= limit, np.square(residual) / 2, limit * (size - limit / 2))
    return out.astype(x.dtype, copy=False), residual


@huber_loss.gradient(takes="Residual Out@GRAD", gives="X@GRAD Y@GRAD")
def huber_loss_grad(residual: Array, d_out: Array, *, delta: float) -> tuple[Array, Array]:
    """``-r`` and ``r``, cut at ``delta``, times ``d_out``."""
    limit = residual.dtype.type(delta)
    d_y = np.maximum(np.minimum(residual, limit), -limit) * d_out
    return -d_y, d_y


@operator("smooth_l1_loss", inputs="X Y InsideWeight? OutsideWeight?", outputs="Diff Out")
def smooth_l1_loss(
    x: Array, y: Array, inside: Array | None = None, outside: Array | None = None, *, sigma: float = 1.0
) -> tuple[Array, Array]:
    """Of ``d = (x - y) * InsideWeight``: ``(sigma d)^2 / 2`` near 0, then ``|d| - 1 / (2 sigma^2)``.

    Weighted by OutsideWeight and summed over each sample: shape ``[N, 1]``.
    """
    diff = x - y if inside is None else (x - y) * inside
    square = x.dtype.type(sigma * sigma)
    size = np.abs(diff)
    loss = np.where(size < 1 / square, np.square(diff) * square / 2, size - 1 / (2 * square))
    if outside is not None:
        loss = loss * outside
    out = flattened(loss).sum(axis=1, keepdims=True)
    return diff, out.astype(x.dtype, copy=False)


@smooth_l1_loss.gradient(takes="InsideWeight? OutsideWeight? Diff Out@GRAD", gives="X@GRAD Y@GRAD")
def smooth_l1_loss_grad(
    inside: Array | None, outside: Array | None, diff: Array, d_out: Array, *, sigma: float = 1.0
) -> tuple[Array, Array]:
    """``sigma^2 d`` cut at the sign of ``d``, with the weights."""
    square = diff.dtype.type(sigma * sigma)
    slope = np.where(np.abs(diff) < 1 / square, diff * square, np.sign(diff))
    d_x = slope * d_out.reshape(-1, *(1,) * (diff.ndim - 1))
    for weight in (inside, outside):
        d_x = d_x if weight is None else d_x * weight
    return d_x, -d_x


# Divergence


def _kl_scale(shape: tuple[int, ...], reduction: str) -> int:
    """What a reduction divides the sum by; 0 for no reduction."""
    scales = {"none": 0, "sum": 1, "mean": math.prod(shape), "batchmean": shape[0] if shape else 1}
    if reduction not in scales:
        raise ValueError(f"attribute reduction is '{reduction}', expected one of {', '.join(scales)}")
    return scales[reduction]


@operator("kldiv_loss", inputs="X Target", outputs="Loss")
def kldiv_loss(x: Array, target: Array, *, reduction: str = "mean", ctx: OpContext | None = None) -> Array:
    """``target * (log(target) - x)`` for log probabilities ``x``, 0 where the target is not positive."""
    scale = _kl_scale(x.shape, reduction)
    positive = target > 0
    safe = np.where(positive, target, target.dtype.type(1))
    loss: Array = np.where(positive, target * (np.log(safe) - x), x.dtype.type(0)).astype(x.dtype, copy=False)
    if not scale:
        return loss
    total = np.asarray(loss.sum(dtype=loss.dtype) / loss.dtype.type(scale))
    return total if ctx is None else follow_rank(total, ctx.declared("Loss"))


@kldiv_loss.gradient(takes="X~ Target Loss@GRAD", gives="X@GRAD")
def kldiv_loss_grad(x: Meta, target: Array, d_loss: Array, *, reduction: str = "mean") -> Array:
    """``-target * d_loss`` where the target is positive."""
    scale = _kl_scale(x.shape, reduction)
    d = d_loss.reshape(()) / target.dtype.type(scale) if scale else d_loss
    return (-np.maximum(target, 0) * d).astype(x.dtype, copy=False)
