"""Losses. ``reduction`` is ``"mean"``, ``"sum"`` or ``"none"``."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ....errors import InputError
from ... import functional_math as elementwise
from ... import functional_reduce as reduce
from ... import functional_shape as shapes
from ...functional_search import where
from ...operands import cast_to, constant, run, run_at, run_many
from ...tensor import Tensor
from .activation import log_sigmoid, log_softmax, sigmoid

__all__ = [
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "cosine_embedding_loss",
    "cross_entropy",
    "ctc_loss",
    "dice_loss",
    "gaussian_nll_loss",
    "hinge_embedding_loss",
    "kl_div",
    "l1_loss",
    "log_loss",
    "margin_ranking_loss",
    "mse_loss",
    "multi_label_soft_margin_loss",
    "multi_margin_loss",
    "nll_loss",
    "npair_loss",
    "poisson_nll_loss",
    "sigmoid_focal_loss",
    "smooth_l1_loss",
    "soft_margin_loss",
    "softmax_with_cross_entropy",
    "square_error_cost",
    "triplet_margin_loss",
]


def _reduced(loss: Tensor, reduction: str) -> Tensor:
    if reduction == "mean":
        return reduce.mean(loss)
    if reduction == "sum":
        return reduce.sum(loss)
    if reduction != "none":
        raise InputError(f"reduction is 'mean', 'sum' or 'none', not {reduction!r}")
    return loss


def _constant_like(x: Tensor, value: float) -> Tensor:
    return constant(np.asarray(value, x._array.dtype))


def softmax_with_cross_entropy(
    logits: Tensor,
    label: Tensor,
    soft_label: bool = False,
    ignore_index: int = -100,
    numeric_stable_mode: bool = True,
    return_softmax: bool = False,
    axis: int = -1,
) -> Any:
    """``-log(softmax(logits))`` at the label, keeping a last axis of size one; with the softmax if asked for.

    Args:
        label: class numbers with size one (or missing) along ``axis``, or with ``soft_label`` probabilities.
        ignore_index: a class number whose loss is 0.
    """
    at = axis % logits.ndim
    labels = shapes.unsqueeze(label, at) if not soft_label and label.ndim == logits.ndim - 1 else label
    softmax, loss = run_many(
        "softmax_with_cross_entropy",
        logits,
        labels,
        soft_label=bool(soft_label),
        ignore_index=int(ignore_index),
        numeric_stable_mode=bool(numeric_stable_mode),
        use_softmax=True,
        axis=at,
    )
    return (loss, softmax) if return_softmax else loss


def cross_entropy(
    input: Tensor,
    label: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    soft_label: bool = False,
    axis: int = -1,
    use_softmax: bool = True,
    label_smoothing: float = 0.0,
    name: str | None = None,
) -> Tensor:
    """Cross entropy between logits (or probabilities, without ``use_softmax``) and labels.

    Args:
        input: ``[..., classes, ...]`` with the classes along ``axis``.
        label: class numbers, shape of ``input`` without ``axis`` or with size one there; or probabilities.
        weight: per class; the mean then divides by the sum of the weights that occur.
        ignore_index: class number that is left out of the loss and of the count.
        label_smoothing: share of the label spread over all classes.
    """
    at = axis % input.ndim
    dense = bool(soft_label)
    if not dense and label.ndim == input.ndim - 1:
        label = shapes.unsqueeze(label, at)
    if label_smoothing > 0:
        label, dense = _smoothed(input, label, at, dense, label_smoothing), True
    _, loss = run_many(
        "softmax_with_cross_entropy",
        input,
        label,
        soft_label=dense,
        ignore_index=int(ignore_index),
        numeric_stable_mode=True,
        use_softmax=bool(use_softmax),
        axis=at,
    )
    if dense:
        return _dense_reduced(loss, label, weight, reduction, at)
    return _counted_reduced(loss, label, weight, reduction, ignore_index)


def _smoothed(input: Tensor, label: Tensor, at: int, dense: bool, share: float) -> Tensor:
    """Labels as probabilities with ``share`` spread over the classes."""
    classes = input.shape[at]
    if not dense:
        single = run("one_hot_v2", shapes.squeeze(label, at), depth=classes, dtype=5, allow_out_of_range=False)
        label = cast_to(single, input._array.dtype)
        if at != label.ndim - 1:
            label = shapes.moveaxis(label, -1, at)
    return elementwise.scale(label, 1.0 - share, share / classes)


def _dense_reduced(loss: Tensor, label: Tensor, weight: Tensor | None, reduction: str, at: int) -> Tensor:
    """The loss of probability labels; a sample's weight is the expected weight of its classes."""
    if weight is None:
        return _reduced(loss, reduction)
    shape = [1] * label.ndim
    shape[at] = -1
    spread = shapes.reshape(weight, shape)
    share = reduce.sum(elementwise.multiply(label, spread), at, keepdim=True)
    weighted = elementwise.multiply(loss, share)
    if reduction == "mean":
        return elementwise.divide(reduce.sum(weighted), reduce.sum(share))
    return _reduced(weighted, reduction)


def _counted_reduced(loss: Tensor, label: Tensor, weight: Tensor | None, reduction: str, ignore_index: int) -> Tensor:
    """The loss of class numbers; the mean counts the labels that are not ignored, by weight where there is one."""
    counted = label._array != ignore_index
    kind = loss._array.dtype
    share = constant(counted.astype(kind))
    if weight is not None:
        numbers = constant(np.where(counted, label._array, 0).astype(np.int64).reshape(-1))
        picked = shapes.reshape(run("gather", weight, numbers, axis=0), label.shape)
        share = elementwise.multiply(picked, share)
        loss = elementwise.multiply(loss, share)
    if reduction != "mean":
        return _reduced(loss, reduction)
    total = reduce.sum(share)
    if weight is None or total._array == 0:
        empty = constant((total._array == 0).astype(kind))
        total = elementwise.add(total, empty)
    return elementwise.divide(reduce.sum(loss), total)


def nll_loss(
    input: Tensor,
    label: Tensor,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    name: str | None = None,
) -> Tensor:
    """Minus the log-probability ``input`` ``[N, C, ...]`` at the label ``[N, ...]``."""
    shape = input.shape
    flat, labels = input, label
    if input.ndim not in (2, 4):
        flat = shapes.reshape(input, [shape[0], shape[1], 1, -1])
        labels = shapes.reshape(label, [shape[0], 1, -1])
    loss = run_at("nll_loss", 0, flat, labels, weight, ignore_index=int(ignore_index), reduction=reduction)
    return loss if input.ndim in (2, 4) or reduction != "none" else shapes.reshape(loss, [shape[0], *shape[2:]])


def mse_loss(input: Tensor, label: Tensor, reduction: str = "mean", name: str | None = None) -> Tensor:
    """``(input - label)^2``."""
    return _reduced(elementwise.square(elementwise.subtract(input, label)), reduction)


def square_error_cost(input: Tensor, label: Tensor) -> Tensor:
    """``(input - label)^2``, elementwise."""
    return elementwise.square(elementwise.subtract(input, label))


def l1_loss(input: Tensor, label: Tensor, reduction: str = "mean", name: str | None = None) -> Tensor:
    """``|input - label|``."""
    return _reduced(elementwise.abs(elementwise.subtract(input, label)), reduction)


def smooth_l1_loss(
    input: Tensor, label: Tensor, reduction: str = "mean", delta: float = 1.0, name: str | None = None
) -> Tensor:
    """``0.5 d^2`` where ``|d| < delta``, else ``delta |d| - 0.5 delta^2``, with ``d = input - label``."""
    return _reduced(run_at("huber_loss", 0, input, label, delta=float(delta)), reduction)


def kl_div(input: Tensor, label: Tensor, reduction: str = "mean", name: str | None = None) -> Tensor:
    """``label * (log(label) - input)``, 0 where the label is not positive. ``batchmean`` divides by the batch."""
    if reduction == "batchmean":
        total = reduce.sum(run("kldiv_loss", input, label, reduction="none"))
        return elementwise.scale(total, 1.0 / max(input.shape[0], 1))
    return _reduced(run("kldiv_loss", input, label, reduction="none"), reduction)


def binary_cross_entropy(
    input: Tensor, label: Tensor, weight: Tensor | None = None, reduction: str = "mean", name: str | None = None
) -> Tensor:
    """``-(label log(input) + (1 - label) log(1 - input))``."""
    loss = run("bce_loss", input, label)
    return _reduced(loss if weight is None else elementwise.multiply(loss, weight), reduction)


def binary_cross_entropy_with_logits(
    logit: Tensor,
    label: Tensor,
    weight: Tensor | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
    name: str | None = None,
) -> Tensor:
    """:func:`binary_cross_entropy` of ``sigmoid(logit)``, without overflow. ``pos_weight`` weighs positive labels."""
    share = None
    if pos_weight is not None:
        one = _constant_like(label, 1.0)
        share = elementwise.add(elementwise.multiply(label, elementwise.subtract(pos_weight, one)), one)
    loss = run("sigmoid_cross_entropy_with_logits", logit, label, share, normalize=False, ignore_index=-100)
    return _reduced(loss if weight is None else elementwise.multiply(loss, weight), reduction)


def ctc_loss(
    log_probs: Tensor,
    labels: Tensor,
    input_lengths: Tensor,
    label_lengths: Tensor,
    blank: int = 0,
    reduction: str = "mean",
    norm_by_times: bool = False,
) -> Tensor:
    """Connectionist temporal classification (Graves et al., 2006). ``log_probs`` ``[T, B, C]`` are raw logits.

    The mean divides each loss by its label's length first.
    """
    loss = run_at(
        "warpctc",
        0,
        log_probs,
        labels,
        input_lengths,
        label_lengths,
        blank=int(blank),
        norm_by_times=bool(norm_by_times),
    )
    each = shapes.squeeze(loss, -1)
    if reduction == "mean":
        return reduce.mean(elementwise.divide(each, cast_to(label_lengths, each._array.dtype)))
    return _reduced(each, reduction)


def log_loss(input: Tensor, label: Tensor, epsilon: float = 1e-4, name: str | None = None) -> Tensor:
    """``-label log(input + epsilon) - (1 - label) log(1 - input + epsilon)``, elementwise."""
    return run("log_loss", input, label, epsilon=float(epsilon))


def margin_ranking_loss(
    input: Tensor,
    other: Tensor,
    label: Tensor,
    margin: float = 0.0,
    reduction: str = "mean",
    name: str | None = None,
) -> Tensor:
    """``max(0, -label * (input - other) + margin)``."""
    ranked = elementwise.multiply(elementwise.subtract(other, input), label)
    return _reduced(run("relu", elementwise.scale(ranked, 1.0, margin)), reduction)


def hinge_embedding_loss(
    input: Tensor, label: Tensor, margin: float = 1.0, reduction: str = "mean", name: str | None = None
) -> Tensor:
    """``input`` where the label is 1, ``max(0, margin - input)`` where it is -1."""
    hinge = run("relu", elementwise.scale(input, -1.0, margin))
    zero = _constant_like(input, 0.0)
    near = constant(label._array == 1)
    far = constant(label._array == -1)
    total = elementwise.add(_chosen(near, input, zero), _chosen(far, hinge, zero))
    return _reduced(total, reduction)


def _chosen(condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
    picked = where(condition, x, y)
    assert isinstance(picked, Tensor)
    return picked


def cosine_embedding_loss(
    input1: Tensor,
    input2: Tensor,
    label: Tensor,
    margin: float = 0,
    reduction: str = "mean",
    name: str | None = None,
) -> Tensor:
    """``1 - cos`` where the label is 1, ``max(0, cos - margin)`` where it is -1."""
    if label.ndim > 1 or input1.ndim > 2:
        raise InputError(f"cosine_embedding_loss(): label {label.shape} and inputs {input1.shape} have too many axes")
    epsilon = 1e-12
    product = reduce.sum(elementwise.multiply(input1, input2), -1)
    sizes = (elementwise.scale(reduce.sum(elementwise.square(each), -1), 1.0, epsilon) for each in (input1, input2))
    cosine = elementwise.divide(product, elementwise.sqrt(elementwise.multiply(*sizes)))
    zero = _constant_like(cosine, 0.0)
    near = _chosen(constant(label._array == 1), elementwise.scale(cosine, -1.0, 1.0), zero)
    hinge = run("relu", elementwise.scale(cosine, 1.0, -margin))
    return _reduced(elementwise.add(near, _chosen(constant(label._array == -1), hinge, zero)), reduction)


def triplet_margin_loss(
    input: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    epsilon: float = 1e-6,
    swap: bool = False,
    reduction: str = "mean",
    name: str | None = None,
) -> Tensor:
    """``max(0, |input - positive| - |input - negative| + margin)`` in the p-norm."""

    def distance(a: Tensor, b: Tensor) -> Tensor:
        apart = elementwise.scale(elementwise.subtract(a, b), 1.0, epsilon)
        return run("p_norm", apart, porder=float(p), axis=-1, keepdim=False, asvector=False)

    near, far = distance(input, positive), distance(input, negative)
    if swap:
        far = elementwise.minimum(far, distance(positive, negative))
    return _reduced(run("relu", elementwise.scale(elementwise.subtract(near, far), 1.0, margin)), reduction)


def soft_margin_loss(input: Tensor, label: Tensor, reduction: str = "mean", name: str | None = None) -> Tensor:
    """``log(1 + exp(-label * input))``."""
    signs = cast_to(label, input._array.dtype)
    return _reduced(elementwise.log1p(elementwise.exp(elementwise.neg(elementwise.multiply(signs, input)))), reduction)


def multi_label_soft_margin_loss(
    input: Tensor, label: Tensor, weight: Tensor | None = None, reduction: str = "mean", name: str | None = None
) -> Tensor:
    """The mean over classes of binary cross entropies with logits."""
    positive = elementwise.multiply(label, log_sigmoid(input))
    negative = elementwise.multiply(elementwise.scale(label, -1.0, 1.0), log_sigmoid(elementwise.neg(input)))
    loss = elementwise.neg(elementwise.add(positive, negative))
    if weight is not None:
        loss = elementwise.multiply(loss, weight)
    return _reduced(reduce.mean(loss, -1), reduction)


def multi_margin_loss(
    input: Tensor,
    label: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    reduction: str = "mean",
    name: str | None = None,
) -> Tensor:
    """The mean over wrong classes of ``max(0, margin - right + wrong)^p``."""
    classes = input.shape[1]
    numbers = shapes.reshape(label, [-1, 1])
    right = run("index_sample", input, numbers)
    hinge = run("relu", elementwise.scale(elementwise.subtract(input, right), 1.0, margin))
    if weight is not None:
        hinge = elementwise.multiply(hinge, shapes.reshape(run("gather", weight, label, axis=0), [-1, 1]))
        own = elementwise.scale(shapes.reshape(run("gather", weight, label, axis=0), [-1, 1]), margin)
    else:
        own = constant(np.full((input.shape[0], 1), margin, input._array.dtype))
    powered = elementwise.pow(hinge, float(p)) if p != 1 else hinge
    mine = elementwise.pow(own, float(p)) if p != 1 else own
    total = reduce.sum(elementwise.scale(powered, 1.0 / classes), 1)
    loss = elementwise.subtract(total, shapes.reshape(elementwise.scale(mine, 1.0 / classes), [-1]))
    return _reduced(loss, reduction)


def gaussian_nll_loss(
    input: Tensor,
    label: Tensor,
    variance: Tensor,
    full: bool = False,
    epsilon: float = 1e-6,
    reduction: str = "mean",
    name: str | None = None,
) -> Tensor:
    """``0.5 (log(variance) + (input - label)^2 / variance)``; ``full`` adds the constant."""
    if variance.shape != input.shape:
        if variance.shape == input.shape[:-1]:
            variance = shapes.unsqueeze(variance, -1)
        elif not (input.shape[:-1] == variance.shape[:-1] and variance.shape[-1] == 1):
            raise InputError(f"gaussian_nll_loss(): variance {variance.shape} does not fit input {input.shape}")
    if (variance._array < 0).any():
        raise InputError("gaussian_nll_loss(): variance has negative numbers")
    # The bound acts on the value alone; the gradient goes past it, as in Paddle.
    bounded = elementwise.clip(variance.detach(), min=epsilon)
    wide = elementwise.add(variance, elementwise.subtract(bounded, variance.detach()))
    error = elementwise.divide(square_error_cost(input, label), wide)
    loss = elementwise.scale(elementwise.add(elementwise.log(wide), error), 0.5)
    return _reduced(elementwise.scale(loss, 1.0, 0.5 * math.log(2 * math.pi)) if full else loss, reduction)


def poisson_nll_loss(
    input: Tensor,
    label: Tensor,
    log_input: bool = True,
    full: bool = False,
    epsilon: float = 1e-8,
    reduction: str = "mean",
    name: str | None = None,
) -> Tensor:
    """``exp(input) - label * input``, or without ``log_input`` ``input - label * log(input + epsilon)``.

    ``full`` adds Stirling's approximation of ``log(label!)`` for labels above 1.
    """
    if log_input:
        loss = elementwise.subtract(elementwise.exp(input), elementwise.multiply(label, input))
    else:
        logs = elementwise.log(elementwise.scale(input, 1.0, epsilon))
        loss = elementwise.subtract(input, elementwise.multiply(label, logs))
    if full:
        large = constant(label._array > 1)
        n = _chosen(large, label, _constant_like(label, 1.0))
        logs = elementwise.log(n)
        stirling = elementwise.subtract(elementwise.multiply(n, logs), n)
        stirling = elementwise.add(stirling, elementwise.scale(logs, 0.5, 0.5 * math.log(2 * math.pi)))
        loss = elementwise.add(loss, _chosen(large, stirling, _constant_like(loss, 0.0)))
    return _reduced(loss, reduction)


def dice_loss(input: Tensor, label: Tensor, epsilon: float = 1e-5, name: str | None = None) -> Tensor:
    """``1 - 2 |input * label| / (|input| + |label|)`` for class numbers ``label`` ``[N, ..., 1]``."""
    hot = run("one_hot_v2", shapes.squeeze(label, -1), depth=input.shape[-1], dtype=5, allow_out_of_range=False)
    axes = list(range(1, input.ndim))
    both = reduce.sum(elementwise.multiply(input, hot), axes)
    sizes = elementwise.add(reduce.sum(input, axes), reduce.sum(hot, axes))
    ratio = elementwise.divide(elementwise.scale(both, 2.0), elementwise.scale(sizes, 1.0, epsilon))
    return reduce.mean(elementwise.scale(ratio, -1.0, 1.0))


def sigmoid_focal_loss(
    logit: Tensor,
    label: Tensor,
    normalizer: Tensor | None = None,
    alpha: float = 0.25,
    gamma: float = 2.0,
    reduction: str = "sum",
    name: str | None = None,
) -> Tensor:
    """Focal loss (Lin et al., 2017) of binary labels."""
    entropy = binary_cross_entropy_with_logits(logit, label, reduction="none")
    p = sigmoid(logit)
    other, none = elementwise.scale(label, -1.0, 1.0), elementwise.scale(p, -1.0, 1.0)
    hit = elementwise.add(elementwise.multiply(p, label), elementwise.multiply(none, other))
    share = elementwise.add(elementwise.scale(label, alpha), elementwise.scale(other, 1.0 - alpha))
    focus = elementwise.pow(elementwise.scale(hit, -1.0, 1.0), float(gamma))
    loss = elementwise.multiply(elementwise.multiply(share, entropy), focus)
    return _reduced(loss if normalizer is None else elementwise.divide(loss, normalizer), reduction)


def npair_loss(anchor: Tensor, positive: Tensor, labels: Tensor, l2_reg: float = 0.002) -> Tensor:
    """N-pair loss (Sohn, 2016): soft cross entropy of similarities, plus the size of the embeddings."""
    column = labels._array.reshape(-1, 1)
    same = (column == column.T).astype(anchor._array.dtype)
    target = constant(same / same.sum(1, keepdims=True))
    similarity = run("matmul_v2", anchor, positive, trans_x=False, trans_y=True)
    size = elementwise.add(*(reduce.mean(reduce.sum(elementwise.square(each), 1)) for each in (anchor, positive)))
    entropy = reduce.sum(elementwise.multiply(target, elementwise.neg(log_softmax(similarity))), 1)
    return elementwise.add(reduce.mean(entropy), elementwise.scale(size, 0.25 * l2_reg))
