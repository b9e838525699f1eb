"""Losses over very many classes that look at few: noise contrastive estimation, class trees, sampled logits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...ir.registry import operator
from ..random import generator
from ..values import Array, Meta, SelectedRows
from .common import accumulate_dtype, add_rows, flattened
from .loss import sigmoid, softplus

__all__ = ["hierarchical_sigmoid", "nce", "sample_logits"]


def _wide(x: Array) -> Array:
    return x.astype(accumulate_dtype(x.dtype), copy=False)


def _scattered(rows: Array, values: Array, like: Array, sparse: bool) -> Array | SelectedRows:
    """The sum of ``values[i]`` at row ``rows[i]`` of a table shaped as ``like``, dense or as selected rows."""
    if sparse:
        distinct, at = np.unique(rows, return_inverse=True)
        summed = np.zeros((len(distinct), *values.shape[1:]), like.dtype)
        add_rows(summed, at.reshape(-1), values)
        return SelectedRows(distinct, summed, len(like))
    table = np.zeros((len(like), *values.shape[1:]), like.dtype)
    add_rows(table, rows, values)
    return table.reshape(like.shape)


# Noise contrastive estimation


def _log_uniform(classes: Array, reach: int) -> Array:
    """The probability that the log-uniform sampler over ``[0, reach)`` draws each class."""
    result: Array = np.log((classes + 2.0) / (classes + 1.0)) / np.log(reach + 1.0)
    return result


def _draw_log_uniform(random: np.random.Generator, reach: int, count: int) -> Array:
    drawn = np.exp(random.random(count) * np.log(reach + 1.0)).astype(np.int64) - 1
    result: Array = np.clip(drawn, 0, max(reach - 1, 0))
    return result


def _noise(sampler: int, total: int, probabilities: Array | None, classes: Array) -> Array:
    """The probability that the sampler draws each of ``classes``."""
    if sampler == 0:
        return np.full(classes.shape, 1.0 / total)
    if sampler == 1:
        return _log_uniform(classes, total - 1)  # Paddle's sampler reaches one class less here
    if sampler == 2 and probabilities is not None:
        return probabilities.reshape(-1)[classes].astype(np.float64)
    raise ValueError(f"attribute sampler is {sampler}, expected 0, 1, or 2 with CustomDistProbs")


def _draw(sampler: int, total: int, probabilities: Array | None, count: int, seed: int) -> Array:
    """``count`` classes drawn by the sampler, int64."""
    random = generator(seed)
    if sampler == 0:
        return random.integers(0, total, count)
    if sampler == 1:
        return _draw_log_uniform(random, total - 1, count)
    if probabilities is None:
        raise ValueError("sampler 2 needs the slot CustomDistProbs, which the op lacks")
    weights = probabilities.reshape(-1).astype(np.float64)
    return random.choice(total, count, p=weights / weights.sum()).astype(np.int64)


def _nce_samples(
    label: Array,
    negatives: int,
    sampler: int,
    total: int,
    probabilities: Array | None,
    seed: int,
    custom: Sequence[int],
) -> Array:
    """Per sample its true classes, then the negative ones: ``[B, true + negatives]``, int64."""
    true = flattened(label).astype(np.int64)
    if custom:
        drawn = np.broadcast_to(np.asarray(custom, np.int64), (len(label), len(custom)))
    else:
        drawn = _draw(sampler, total, probabilities, len(label) * negatives, seed).reshape(len(label), negatives)
    samples = np.concatenate([true, drawn], axis=1)
    if samples.size and (samples.min() < 0 or samples.max() >= total):
        raise ValueError(f"Label and custom_neg_classes must name one of the {total} classes")
    return samples


_NCE_INPUTS = "Input Label Weight Bias? SampleWeight? CustomDistProbs? CustomDistAlias? CustomDistAliasProbs?"
_REMOTE = "remote_prefetch table_names epmap height_sections trainer_id is_test"


@operator("nce", inputs=_NCE_INPUTS, outputs="Cost SampleLogits SampleLabels", ignores=f"{_REMOTE} is_sparse")
def nce(
    x: Array,
    label: Array,
    weight: Array,
    bias: Array | None = None,
    sample_weight: Array | None = None,
    probabilities: Array | None = None,
    alias: Array | None = None,
    alias_probabilities: Array | None = None,
    *,
    num_total_classes: int,
    num_neg_samples: int = 10,
    sampler: int = 0,
    seed: int = 0,
    custom_neg_classes: Sequence[int] = (),
) -> tuple[Array, Array, Array]:
    """Binary losses that tell each sample's true classes from drawn ones, summed: ``[B, 1]``.

    Of ``o = sigmoid(w[class] . x + b[class])`` and the noise ``n = negatives * P(class)``: ``-log(o / (o + n))``
    for true classes, ``-log(n / (o + n))`` for the others. ``SampleLogits`` holds ``o``.
    """
    samples = _nce_samples(label, num_neg_samples, sampler, num_total_classes, probabilities, seed, custom_neg_classes)
    logits = np.einsum("bkd,bd->bk", _wide(weight[samples]), flattened(_wide(x)))
    if bias is not None:
        logits = logits + bias.reshape(-1)[samples]
    o = sigmoid(logits)
    noise = _noise_of(samples, sampler, num_total_classes, num_neg_samples, probabilities, o)
    is_true = np.arange(samples.shape[1]) < math.prod(label.shape[1:])
    cost = -np.log(np.where(is_true, o, noise) / (o + noise))
    total = cost.sum(axis=1, keepdims=True)
    if sample_weight is not None:
        total = total * sample_weight.reshape(-1, 1)
    return total.astype(x.dtype, copy=False), o.astype(x.dtype, copy=False), samples


def _noise_of(
    samples: Array, sampler: int, total: int, negatives: int, probabilities: Array | None, like: Array
) -> Array:
    return (_noise(sampler, total, probabilities, samples) * negatives).astype(like.dtype)


@nce.gradient(
    takes="Input Label Weight Bias?~ Cost@GRAD SampleLogits SampleLabels SampleWeight? CustomDistProbs? "
    "CustomDistAlias? CustomDistAliasProbs?",
    gives="Input@GRAD Weight@GRAD Bias@GRAD",
)
def nce_grad(
    x: Array,
    label: Array,
    weight: Array,
    bias: Meta | None,
    d_cost: Array,
    o: Array,
    samples: Array,
    sample_weight: Array | None,
    probabilities: Array | None,
    alias: Array | None,
    alias_probabilities: Array | None,
    *,
    num_total_classes: int,
    num_neg_samples: int = 10,
    sampler: int = 0,
    is_sparse: bool = False,
) -> tuple[Array, Array | SelectedRows, Array | SelectedRows | None]:
    """``(o - 1) * n / (o + n)`` for true classes and ``o * (1 - o) / (o + n)`` for the others, at the logits."""
    o = _wide(o)
    noise = _noise_of(samples, sampler, num_total_classes, num_neg_samples, probabilities, o)
    is_true = np.arange(samples.shape[1]) < label.reshape(len(label), -1).shape[1]
    slope = np.where(is_true, (o - 1) * noise, o * (1 - o)) / (o + noise) * d_cost.reshape(-1, 1)
    if sample_weight is not None:
        slope = slope * sample_weight.reshape(-1, 1)
    flat = _wide(x).reshape(len(x), -1)
    d_x = np.einsum("bk,bkd->bd", slope, _wide(weight[samples])).astype(x.dtype, copy=False).reshape(x.shape)
    outer = (slope[:, :, None] * flat[:, None, :]).reshape(-1, flat.shape[1])
    d_weight = _scattered(samples.reshape(-1), outer, weight, is_sparse)
    if bias is None:
        return d_x, d_weight, None
    like = np.empty((num_total_classes, 1), x.dtype)
    d_bias = _scattered(samples.reshape(-1), slope.reshape(-1, 1), like, is_sparse)
    return d_x, d_weight, d_bias.reshape(bias.shape) if isinstance(d_bias, np.ndarray) else d_bias


# Trees of classes


@dataclass(frozen=True, slots=True)
class _Paths:
    """For each sample the nodes on the way to its class, the turns taken, and where the way ends."""

    nodes: Array
    turns: Array
    inside: Array


def _paths(label: Array, table: Array | None, code: Array | None, num_classes: int) -> _Paths:
    """The given paths (a negative node ends one), or those of a complete binary tree over the classes."""
    if table is not None and code is not None:
        rows = label.reshape(-1).astype(np.int64) if len(table) != label.size else np.arange(len(table))
        nodes = table[rows].astype(np.int64)
        inside = np.cumprod(nodes >= 0, axis=1).astype(np.bool_)
        return _Paths(np.where(inside, nodes, 0), code[rows] != 0, inside)
    classes = label.reshape(-1).astype(np.int64)
    if classes.size and (classes.min() < 0 or classes.max() >= num_classes):
        raise ValueError(f"Label must name one of the {num_classes} classes")
    number = classes[:, None] + num_classes
    bits = np.arange((2 * num_classes - 1).bit_length() - 1)
    nodes = (number >> (bits + 1)) - 1
    inside = nodes >= 0
    return _Paths(np.where(inside, nodes, 0), ((number >> bits) & 1) == 1, inside)


_LIMIT = 40.0
"""Logits at the nodes are cut to this magnitude."""

_TREE_IGNORES = "trainer_id height_sections epmap table_names remote_prefetch"


@operator(
    "hierarchical_sigmoid",
    inputs="X W Label PathTable? PathCode? Bias?",
    outputs="Out PreOut W_Out",
    ignores=f"{_TREE_IGNORES} is_sparse",
)
def hierarchical_sigmoid(
    x: Array,
    w: Array,
    label: Array,
    table: Array | None = None,
    code: Array | None = None,
    bias: Array | None = None,
    *,
    num_classes: int = 2,
) -> tuple[Array, Array, None]:
    """The logistic losses of the turns on the way from the root of a class tree to the label, ``[N, 1]``.

    ``PreOut`` holds ``log(1 + exp(logit))`` of each node; beyond the end of a way the logit counts as 0.
    """
    paths = _paths(label, table, code, num_classes)
    logits = np.einsum("nld,nd->nl", _wide(w[paths.nodes]), _wide(x))
    if bias is not None:
        logits = logits + bias.reshape(-1)[paths.nodes]
    logits = np.where(paths.inside, np.clip(logits, -_LIMIT, _LIMIT), 0).astype(logits.dtype)
    pre_out = softplus(logits)
    taken = np.where(paths.turns & paths.inside, logits, 0)
    total = (pre_out - taken).sum(axis=1, keepdims=True)
    return total.astype(x.dtype, copy=False), pre_out.astype(x.dtype, copy=False), None


@hierarchical_sigmoid.gradient(
    takes="X W Label PathTable? PathCode? Bias?~ PreOut Out@GRAD", gives="X@GRAD W@GRAD Bias@GRAD"
)
def hierarchical_sigmoid_grad(
    x: Array,
    w: Array,
    label: Array,
    table: Array | None,
    code: Array | None,
    bias: Meta | None,
    pre_out: Array,
    d_out: Array,
    *,
    num_classes: int = 2,
    is_sparse: bool = False,
) -> tuple[Array, Array | SelectedRows, Array | None]:
    """``sigmoid(logit) - turn`` at each node of the way."""
    paths = _paths(label, table, code, num_classes)
    slope = (1 - np.exp(-_wide(pre_out))) - paths.turns
    slope = (np.where(paths.inside, slope, 0) * d_out.reshape(-1, 1)).astype(slope.dtype)
    d_x = np.einsum("nl,nld->nd", slope, _wide(w[paths.nodes])).astype(x.dtype, copy=False)
    sample, step = np.nonzero(paths.inside)
    nodes, amount = paths.nodes[sample, step], slope[sample, step]
    d_w = _scattered(nodes, amount[:, None] * _wide(x)[sample], w, is_sparse)
    if bias is None:
        return d_x, d_w, None
    d_bias = np.zeros(w.shape[0], amount.dtype)
    add_rows(d_bias, nodes, amount)
    return d_x, d_w, d_bias.astype(bias.dtype, copy=False).reshape(bias.shape)


# Sampled softmax


def _distinct(total: int, count: int, seed: int) -> tuple[Array, int]:
    """``count`` distinct classes of the log-uniform sampler, and how many draws that took."""
    random = generator(seed)
    found: dict[int, None] = {}
    tries = 0
    while len(found) < count:
        for each in _draw_log_uniform(random, total, count).tolist():
            tries += 1
            found.setdefault(each)
            if len(found) == count:
                break
    return np.fromiter(found, np.int64, count), tries


@operator(
    "sample_logits",
    inputs="Logits Labels CustomizedSamples? CustomizedProbabilities?",
    outputs="Samples Probabilities LogitsDim LabelsDim SampledLogits SampledLabels",
    refuse={"uniq": True},
)
def sample_logits(
    logits: Array,
    labels: Array,
    custom_samples: Array | None = None,
    custom_probabilities: Array | None = None,
    *,
    num_samples: int,
    use_customized_samples: bool = False,
    remove_accidental_hits: bool = True,
    seed: int = 0,
) -> tuple[Array, Array, Array, Array, Array, Array]:
    """The logits of the true and of some drawn classes, less the logarithm of how often those are drawn.

    All rows share the draw. A drawn class that is a true one is pushed out of the softmax.
    """
    count, total = logits.shape
    true = labels.shape[1]
    if use_customized_samples and custom_samples is not None and custom_probabilities is not None:
        samples, probabilities = custom_samples, custom_probabilities
    else:
        if num_samples > total:
            raise ValueError(f"num_samples {num_samples} is above the number of classes {total}")
        drawn, tries = _distinct(total, num_samples, seed)
        shared = np.broadcast_to(drawn, (count, num_samples))
        samples = np.concatenate([labels.astype(np.int64), shared], axis=1)
        once = _log_uniform(samples, total)
        probabilities = (-np.expm1(tries * np.log1p(-once))).astype(logits.dtype)
    picked = np.take_along_axis(_wide(logits), samples, axis=1)
    if remove_accidental_hits:
        hits = (samples[:, true:, None] == samples[:, None, :true]).any(axis=2)
        picked = picked.copy()
        picked[:, true:] -= np.where(hits, picked.dtype.type(1e20), 0)
    limit = 1e4 if logits.dtype == np.float16 else 1e20  # what can be held and still hides a class
    shifted = np.clip(picked - np.clip(np.log(_wide(probabilities)), -1e20, 1e20), -limit, limit)
    numbers = np.broadcast_to(np.arange(true), (count, true)).astype(np.int64)
    # Shapes alone matter in these two: views that take no memory.
    dims = [np.broadcast_to(np.zeros((), each.dtype), each.shape) for each in (logits, labels)]
    return samples, probabilities, *dims, shifted.astype(logits.dtype, copy=False), numbers


@sample_logits.gradient(takes="LogitsDim~ LabelsDim~ Samples SampledLogits@GRAD", gives="Logits@GRAD")
def sample_logits_grad(shape: Meta, labels: Meta, samples: Array, d_sampled: Array) -> Array:
    """Each gradient back to its class; equal classes add up."""
    count, total = shape.shape
    flat = np.zeros(count * total, d_sampled.dtype)
    add_rows(flat, (np.arange(count)[:, None] * total + samples).reshape(-1), d_sampled.reshape(-1))
    return flat.reshape(count, total)
