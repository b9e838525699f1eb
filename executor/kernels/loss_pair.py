"""Losses that compare: ranks of pairs, a label's score against the others, distances of feature vectors."""

from __future__ import annotations

import numpy as np

from ...ir.registry import operator
from ..values import Array, Meta
from .common import add_rows, flattened
from .loss import sigmoid, softplus

__all__ = ["bpr_loss", "center_loss", "cos_sim", "rank_loss", "squared_l2_distance"]


@operator("rank_loss", inputs="Label Left Right", outputs="Out")
def rank_loss(label: Array, left: Array, right: Array) -> Array:
    """``log(1 + exp(left - right)) - label * (left - right)``, as many numbers in each input."""
    gap = left - right.reshape(left.shape)
    result: Array = softplus(gap) - label.reshape(left.shape) * gap
    return result


@rank_loss.gradient(takes="Label Left Right Out@GRAD", gives="Left@GRAD Right@GRAD")
def rank_loss_grad(label: Array, left: Array, right: Array, d_out: Array) -> tuple[Array, Array]:
    """``sigmoid(left - right) - label``, and its opposite."""
    slope = sigmoid(left - right.reshape(left.shape)) - label.reshape(left.shape)
    d_left = d_out.reshape(left.shape) * slope
    return d_left, -d_left.reshape(right.shape)


@operator("margin_rank_loss", inputs="X1 X2 Label", outputs="Activated Out")
def margin_rank_loss(x1: Array, x2: Array, label: Array, *, margin: float = 0.0) -> tuple[Array, Array]:
    """``max(0, -label * (x1 - x2) + margin)``; ``Activated`` is 1 where that is positive."""
    out = np.maximum(-label * (x1 - x2) + x1.dtype.type(margin), 0).astype(x1.dtype, copy=False)
    return (out > 0).astype(x1.dtype), out


@margin_rank_loss.gradient(takes="Label Activated Out@GRAD", gives="X1@GRAD X2@GRAD")
def margin_rank_loss_grad(label: Array, activated: Array, d_out: Array) -> tuple[Array, Array]:
    """``-label`` and ``label`` where the loss is positive."""
    d_x2 = d_out * activated * label
    return -d_x2, d_x2


def _gaps(x: Array, label: Array) -> tuple[Array, Array, Array]:
    """``x[i, j] - x[i, label[i]]``, the labels, and which elements are not the label's own."""
    rows = x.reshape(-1, x.shape[-1])
    labels = label.reshape(-1).astype(np.int64)
    if labels.size and (labels.min() < 0 or labels.max() >= rows.shape[1]):
        raise ValueError(f"Label must name one of the {rows.shape[1]} classes of X {list(x.shape)}")
    own = rows[np.arange(len(rows)), labels]
    return rows - own[:, None], labels, np.arange(rows.shape[1]) != labels[:, None]


@operator("bpr_loss", inputs="X Label", outputs="Y")
def bpr_loss(x: Array, label: Array) -> Array:
    """The mean over the other classes ``j`` of ``log(1 + exp(x[j] - x[label]))``; the last dimension becomes 1."""
    gaps, _, others = _gaps(x, label)
    total = np.where(others, softplus(gaps), x.dtype.type(0)).sum(axis=1) / x.dtype.type(x.shape[-1] - 1)
    result: Array = total.astype(x.dtype, copy=False).reshape(*x.shape[:-1], 1)
    return result


@bpr_loss.gradient(takes="X Label Y@GRAD", gives="X@GRAD")
def bpr_loss_grad(x: Array, label: Array, d_y: Array) -> Array:
    """``sigmoid(x[j] - x[label])`` for the others, minus their sum for the label."""
    gaps, labels, others = _gaps(x, label)
    share = np.where(others, sigmoid(gaps), 0) * (d_y.reshape(-1, 1) / x.dtype.type(x.shape[-1] - 1))
    share[np.arange(len(labels)), labels] = -share.sum(axis=1)
    result: Array = share.astype(x.dtype, copy=False).reshape(x.shape)
    return result


def _flat(x: Array) -> Array:
    return flattened(x)


@operator("cos_sim", inputs="X Y", outputs="Out XNorm YNorm")
def cos_sim(x: Array, y: Array) -> tuple[Array, Array, Array]:
    """The cosine between the samples of ``x`` and ``y`` (or the one sample of ``y``), ``[N, 1]``; both lengths."""
    a, b = _flat(x), _flat(y)
    if a.shape[1] != b.shape[1] or len(b) not in (1, len(a)):
        raise ValueError(f"X {list(x.shape)} and Y {list(y.shape)} must agree; the first dimension of Y may be 1")
    x_norm = np.sqrt(np.square(a).sum(axis=1, keepdims=True))
    y_norm = np.sqrt(np.square(b).sum(axis=1, keepdims=True))
    return (a * b).sum(axis=1, keepdims=True) / (x_norm * y_norm), x_norm, y_norm


@cos_sim.gradient(takes="X Y XNorm YNorm Out Out@GRAD", gives="X@GRAD Y@GRAD")
def cos_sim_grad(x: Array, y: Array, x_norm: Array, y_norm: Array, out: Array, d_out: Array) -> tuple[Array, Array]:
    """``d_out * (y / (|x| |y|) - cos * x / |x|^2)``, and with the parts exchanged."""
    a, b = _flat(x), _flat(y)
    product = x_norm * y_norm
    d_x = d_out * (b / product - out * a / np.square(x_norm))
    d_y = d_out * (a / product - out * b / np.square(y_norm))
    if len(b) != len(a):
        d_y = d_y.sum(axis=0, keepdims=True)
    return d_x.reshape(x.shape), d_y.reshape(y.shape)


@operator("squared_l2_distance", inputs="X Y", outputs="sub_result Out")
def squared_l2_distance(x: Array, y: Array) -> tuple[Array, Array]:
    """The squared distance of each sample of ``x`` to that of ``y`` (or its only one), ``[N, 1]``."""
    a, b = _flat(x), _flat(y)
    if a.shape[1] != b.shape[1] or len(b) not in (1, len(a)):
        raise ValueError(f"X {list(x.shape)} and Y {list(y.shape)} must agree; the first dimension of Y may be 1")
    gap = a - b
    return gap, np.square(gap).sum(axis=1, keepdims=True)


@squared_l2_distance.gradient(takes="sub_result X~ Y~ Out@GRAD", gives="X@GRAD Y@GRAD")
def squared_l2_distance_grad(gap: Array, x: Meta, y: Meta, d_out: Array) -> tuple[Array, Array]:
    """Twice the difference, and its opposite."""
    d_x = 2 * d_out * gap
    d_y = -d_x if y.shape[0] == x.shape[0] else -d_x.sum(axis=0, keepdims=True)
    return d_x.reshape(x.shape), d_y.reshape(y.shape)


@operator(
    "center_loss",
    inputs="X Label Centers CenterUpdateRate",
    outputs="CentersOut SampleCenterDiff Loss",
)
def center_loss(
    x: Array, label: Array, centers: Array, rate: Array, *, cluster_num: int, need_update: bool
) -> tuple[Array, Array, Array]:
    """Half the squared distance of each sample to its class's centre, ``[N, 1]``.

    With ``need_update`` the centres move towards their samples by ``rate * sum(difference) / (1 + number)``.
    """
    labels = label.reshape(-1).astype(np.int64)
    if labels.size and (labels.min() < 0 or labels.max() >= len(centers)):
        raise ValueError(f"Label must name one of the {len(centers)} rows of Centers")
    diff = _flat(x) - centers[labels]
    loss = np.square(diff).sum(axis=1, keepdims=True) / x.dtype.type(2)
    if not need_update:
        return centers, diff, loss
    total = np.zeros_like(centers)
    add_rows(total, labels, diff)
    number = 1 + np.bincount(labels, minlength=len(centers)).astype(x.dtype)
    moved = centers + total * (rate.reshape(-1)[0] / number)[:, None]
    return moved.astype(centers.dtype, copy=False), diff, loss


@center_loss.gradient(takes="SampleCenterDiff Loss@GRAD", gives="X@GRAD")
def center_loss_grad(diff: Array, d_loss: Array) -> Array:
    """The difference to the centre; the centres themselves get no gradient."""
    return d_loss.reshape(-1, 1) * diff
