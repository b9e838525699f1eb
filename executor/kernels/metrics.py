"""Metrics that programs compute, sampling from the nucleus, and the tools for sparse gradients and bad numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir.registry import REQUIRED, OpContext, operator
from ..random import generator
from ..values import Array, SelectedRows
from .common import follow_rank
from .optimizers import merged_rows

__all__ = [
    "accuracy",
    "auc",
    "check_numerics",
    "positive_negative_pair",
    "precision_recall",
    "top_p_sampling",
]


@operator("accuracy", inputs="Out Indices Label", outputs="Accuracy Correct Total", gradient=None)
def accuracy(out: Array, indices: Array, label: Array, *, ctx: OpContext) -> tuple[Array, ...]:
    """The share of rows of ``Indices [N, k]`` that hold their label ``[N, 1]``; int32 counts beside it."""
    correct = int((indices == label.reshape(-1, 1)).any(axis=1).sum())
    total = indices.shape[0]
    share = np.float32(correct) / np.float32(total) if total else np.float32(0)
    numbers = (np.asarray(share, np.float32), np.asarray(correct, np.int32), np.asarray(total, np.int32))
    slots = ("Accuracy", "Correct", "Total")
    return tuple(follow_rank(number, ctx.declared(slot)) for number, slot in zip(numbers, slots, strict=True))


def _bins(predict: Array, label: Array, thresholds: int) -> tuple[Array, Array]:
    """How many positives and negatives fall in each of ``thresholds + 1`` bins of the predicted probability."""
    chance = predict[:, -1]
    if ((chance < 0) | (chance > 1)).any():
        raise ValueError("Predict holds probabilities, found values outside [0, 1]")
    bin_of = (chance * chance.dtype.type(thresholds)).astype(np.int64)
    label = label.reshape(-1)
    return tuple(np.bincount(bin_of[chosen], minlength=thresholds + 1) for chosen in (label > 0, label == 0))  # type: ignore[return-value]


def _area(positive: Array, negative: Array) -> float:
    """The area under the ROC curve by trapezoids, from the highest bin down."""
    hits, alarms = (np.concatenate(([0.0], each[::-1].cumsum())) for each in (positive, negative))
    area = float((np.abs(np.diff(alarms)) * (hits[1:] + hits[:-1]) / 2.0).sum())
    return area / hits[-1] / alarms[-1] if hits[-1] > 0 and alarms[-1] > 0 else area


@operator(
    "auc",
    inputs="Predict Label StatPos StatNeg InsTagWeight?",
    outputs="AUC StatPosOut StatNegOut",
    refuse={"curve": "ROC"},
    gradient=None,
)
def auc(
    predict: Array,
    label: Array,
    stat_pos: Array,
    stat_neg: Array,
    tag_weight: Array | None,
    *,
    num_thresholds: int = 8191,
    slide_steps: int = 1,
    ctx: OpContext,
) -> tuple[Array, Array, Array]:
    """Area under the ROC curve of everything counted so far, and the counts.

    The counts hold one row of bins per step of the sliding window, then their sum, then the number of steps;
    without a window (``slide_steps`` 0) one row. A first InsTagWeight of 0 marks padding: nothing is counted.
    """
    width = num_thresholds + 1
    padding = tag_weight is not None and float(tag_weight.reshape(-1)[0]) == 0
    counts = []
    fresh = _bins(predict, label, num_thresholds) if not (padding and slide_steps == 0) else (0, 0)
    for stat, new in zip((stat_pos, stat_neg), fresh, strict=True):
        flat = stat.reshape(-1).copy()
        if slide_steps == 0:
            flat[:width] += new
        else:
            # Both windows turn by the counter of the positives.
            place = int(stat_pos.reshape(-1)[(slide_steps + 1) * width]) % slide_steps * width
            total = flat[slide_steps * width : (slide_steps + 1) * width]
            total -= flat[place : place + width]
            flat[place : place + width] = new
            total += 0 if padding else new
        counts.append(flat)
    area = _area(*(flat[slide_steps * width : (slide_steps + 1) * width] for flat in counts))
    if slide_steps:
        for flat in counts:
            flat[(slide_steps + 1) * width] += 1
    number = follow_rank(np.asarray(area, np.float64), ctx.declared("AUC"))
    shape = (-1,) if slide_steps else (1, -1)
    return number, counts[0].reshape(shape), counts[1].reshape(shape)


def _ratio(count: Any, other: Any) -> Any:
    """``count / (count + other)``, 1 where both are 0."""
    total = count + other
    return np.divide(count, total, out=np.ones_like(total), where=(count > 0) | (other > 0))


def _f1(precision: Any, recall: Any) -> Any:
    return 2 * precision * recall / (precision + recall) if precision > 0 or recall > 0 else precision.dtype.type(0)


def _averages(states: Array) -> Array:
    """Macro precision, recall and F1, then micro, from rows of (hits, false alarms, correct rejections, misses)."""
    hits, alarms, _, misses = states.T
    macro = tuple(_ratio(hits, other).mean(dtype=states.dtype) for other in (alarms, misses))
    total = hits.sum(keepdims=True)
    micro = tuple(_ratio(total, other.sum(keepdims=True))[0] for other in (alarms, misses))
    return np.asarray([*macro, _f1(*macro), *micro, _f1(*micro)], np.float64)


@operator(
    "precision_recall",
    inputs="MaxProbs Indices Labels Weights? StatesInfo?",
    outputs="BatchMetrics AccumMetrics AccumStatesInfo",
    gradient=None,
)
def precision_recall(
    max_probs: Array,
    indices: Array,
    labels: Array,
    weights: Array | None,
    states: Array | None,
    *,
    class_number: int = REQUIRED,
) -> tuple[Array, Array, Array]:
    """Macro and micro averages ``[6]`` of this batch and of all so far, and the counts ``[classes, 4]``."""
    found, truth = indices.reshape(-1), labels.reshape(-1)
    for slot, values in (("Indices", found), ("Labels", truth)):
        if ((values < 0) | (values >= class_number)).any():
            raise ValueError(f"{slot} holds classes outside 0..{class_number - 1}")
    weight = np.ones(found.size, max_probs.dtype) if weights is None else weights.reshape(-1)
    right = found == truth
    counts = np.zeros((class_number, 4), weight.dtype)
    np.add.at(counts[:, 0], found[right], weight[right])
    np.add.at(counts[:, 1], found[~right], weight[~right])
    np.add.at(counts[:, 3], truth[~right], weight[~right])
    counts[:, 2] = weight.sum() - counts[:, [0, 1, 3]].sum(axis=1)
    batch = _averages(counts)
    if states is not None:
        counts = counts + states
    return batch, _averages(counts), counts


@operator(
    "positive_negative_pair",
    inputs="Score Label QueryID AccumulatePositivePair? AccumulateNegativePair? AccumulateNeutralPair? Weight?",
    outputs="PositivePair NegativePair NeutralPair",
    gradient=None,
)
def positive_negative_pair(
    score: Array,
    label: Array,
    query: Array,
    positive: Array | None,
    negative: Array | None,
    neutral: Array | None,
    weight: Array | None,
    *,
    column: int = 0,
) -> tuple[Array, Array, Array]:
    """Pairs of a query that the scores put in the order of the labels, and in the other; ``[1]`` each.

    A pair with equal scores is neutral and counts as negative too.
    """
    points, labels, queries = score[:, column], label.reshape(-1), query.reshape(-1)
    weights = np.ones_like(points) if weight is None else weight.reshape(-1)
    totals = np.zeros(3, score.dtype)
    if positive is not None and negative is not None and neutral is not None:
        totals[:] = [each.reshape(-1)[0] for each in (positive, negative, neutral)]
    for each in np.unique(queries):
        own = np.flatnonzero(queries == each)
        first, second = (own[index] for index in np.triu_indices(own.size, 1))
        differ = labels[first] != labels[second]
        first, second = first[differ], second[differ]
        pair = (weights[first] + weights[second]) * score.dtype.type(0.5)
        gap = points[first] - points[second]
        ordered = gap * (labels[first] - labels[second]) > 0
        totals += [pair[ordered].sum(), pair[~ordered].sum(), pair[gap == 0].sum()]
    return totals[0:1], totals[1:2], totals[2:3]


@operator("top_p_sampling", inputs="x ps threshold?", outputs="out ids", gradient=None)
def top_p_sampling(x: Array, ps: Array, threshold: Array | None, *, seed: int = -1) -> tuple[Array, Array]:
    """Draw one column per row of probabilities ``[B, V]``, from the likeliest ones that make up ``ps [B]``.

    The drawn probability and its column, ``[B, 1]`` each. A seed of -1 draws from the global generator.
    """
    if threshold is not None:
        raise ValueError("threshold is not supported, only ps")
    order = np.argsort(-x, axis=1, kind="stable")
    mass = np.take_along_axis(x, order, axis=1).astype(np.float64).cumsum(axis=1)
    wanted = generator(0 if seed < 0 else seed).random(x.shape[0]) * np.minimum(ps.reshape(-1), mass[:, -1])
    place = (mass < wanted[:, None]).sum(axis=1).clip(0, x.shape[1] - 1)
    ids = np.take_along_axis(order, place[:, None], axis=1)
    return np.take_along_axis(x, ids, axis=1), ids.astype(np.int64)


@operator(
    "check_numerics",
    inputs="tensor",
    outputs="stats values",
    ignores="stack_height_limit output_dir",
    gradient=None,
)
def check_numerics(
    tensor: Array, *, op_type: str = "", var_name: str = "", check_nan_inf_level: int = 0
) -> tuple[Array, Array]:
    """Counts of nan, inf and zero (int64), and largest, smallest and mean value (float32).

    Level 0 raises on nan or inf.
    """
    stats = np.asarray([np.isnan(tensor).sum(), np.isinf(tensor).sum(), (tensor == 0).sum()], np.int64)
    if check_nan_inf_level == 0 and stats[:2].any():
        raise ValueError(f"'{var_name}' of {op_type} holds {stats[0]} nan and {stats[1]} inf")
    wide = tensor.astype(np.promote_types(tensor.dtype, np.float32)) if tensor.dtype.kind != "c" else np.abs(tensor)
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        edges = [
            np.fmax.reduce(wide.reshape(-1)),
            np.fmin.reduce(wide.reshape(-1)),
            wide.sum() / wide.dtype.type(wide.size),
        ]
    return stats, np.asarray(edges, np.float32)


@operator("merge_selected_rows", inputs="X", outputs="Out", gradient=None)
def merge_selected_rows(x: SelectedRows) -> SelectedRows:
    """The same sparse gradient with sorted distinct rows."""
    return merged_rows(x)


@operator("get_tensor_from_selected_rows", inputs="X", outputs="Out", gradient=None)
def get_tensor_from_selected_rows(x: SelectedRows) -> Array:
    """The values of a sparse gradient, row by row as they are."""
    return x.values
