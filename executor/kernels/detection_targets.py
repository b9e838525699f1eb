"""Training targets of one-stage detectors and RPNs: which prior answers for which ground-truth box."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir.registry import REQUIRED, operator
from ..random import generator
from ..values import Array, LoDTensor, array_of
from .detection_geometry import Index, deltas_to, pixel_overlaps
from .sequence_layout import level_of, lod_of, sequence_ids

__all__ = [
    "bipartite_match",
    "mine_hard_examples",
    "reservoir",
    "retinanet_target_assign",
    "rpn_target_assign",
    "target_assign",
]

_NEAR_ZERO = 1e-6
"""A distance below this matches nothing."""

_MANY_ROWS = 130
"""From so many rows on Paddle takes another matching loop, with another rule for ties and small distances."""


def _match_greedily(dist: Array, indices: Array, distances: Array) -> None:
    """Give each row its best free column, best pairs first; writes column -> row and its distance."""
    rows, columns = dist.shape
    few = rows < _MANY_ROWS
    work = (dist.T if few else dist).copy()
    work[work < _NEAR_ZERO if few else work <= 0] = -1
    for _ in range(min(rows, columns)):
        first, second = np.unravel_index(int(work.argmax()), work.shape)
        best = work[first, second]
        if not best > 0:
            break
        row, column = (second, first) if few else (first, second)
        indices[column], distances[column] = row, best
        work[first, :] = -1
        work[:, second] = -1


def _match_rest(dist: Array, indices: Array, distances: Array, threshold: float) -> None:
    """Give each column that is still free its best row, where that is at least ``threshold``."""
    near = (dist >= dist.dtype.type(_NEAR_ZERO)) & (dist >= np.float32(threshold))
    allowed = np.where(near, dist, dist.dtype.type(-1))
    row = allowed.argmax(axis=0)
    best = allowed[row, np.arange(dist.shape[1])]
    free = (indices == -1) & (best > -1)
    indices[free], distances[free] = row[free], best[free]


@operator(
    "bipartite_match",
    inputs="DistMat",
    outputs="ColToRowMatchIndices ColToRowMatchDist",
    lod=True,
    gradient=None,
)
def bipartite_match(
    dist_mat: Any, *, match_type: str = "bipartite", dist_threshold: float = 0.5
) -> tuple[Array, Array]:
    """Match columns to rows, greatest distance first: ``[images, columns]`` row numbers (-1: none) and distances.

    ``per_prediction`` also gives a free column its best row above the threshold.
    """
    if match_type not in ("bipartite", "per_prediction"):
        raise ValueError(f"match_type is bipartite or per_prediction, got {match_type!r}")
    dist = array_of(dist_mat)
    lod = lod_of(dist_mat)
    if dist.ndim != 2 or len(lod) > 1:
        raise ValueError(
            f"DistMat is [rows, columns] with at most one LoD level, got {list(dist.shape)} and {len(lod)}"
        )
    offsets = lod[-1] if lod and len(lod[-1]) > 2 else [0, dist.shape[0]]
    indices = np.full((len(offsets) - 1, dist.shape[1]), -1, np.int32)
    distances = np.zeros(indices.shape, dist.dtype)
    for image, (start, end) in enumerate(zip(offsets[:-1], offsets[1:], strict=True)):
        if end > start and dist.shape[1]:
            _match_greedily(dist[start:end], indices[image], distances[image])
            if match_type == "per_prediction":
                _match_rest(dist[start:end], indices[image], distances[image], dist_threshold)
    return indices, distances


@operator("target_assign", inputs="X MatchIndices NegIndices?", outputs="Out OutWeight", lod=True, gradient=None)
def target_assign(x: Any, match: Any, negative: Any, *, mismatch_value: int = 0) -> tuple[Array, Array]:
    """Targets ``[N, M, K]`` of M priors from their matched rows of ``X [rows, P, K]``, and weights ``[N, M, 1]``.

    Prior ``m`` takes column ``m % P``. An unmatched prior gets ``mismatch_value`` at weight 0, at weight 1 if
    ``NegIndices`` names it.
    """
    starts = level_of(x, "X")
    rows, matched = x.array, array_of(match)
    images, priors = matched.shape
    found = matched > -1
    row = np.where(found, matched + starts[:images, None], 0)
    out = rows[row, np.arange(priors) % rows.shape[1]]
    out[~found] = mismatch_value
    weight = found.astype(np.float32)[..., None]
    if negative is not None:
        image = sequence_ids(np.diff(level_of(negative, "NegIndices")))
        prior = negative.array.reshape(-1)
        out[image, prior] = mismatch_value
        weight[image, prior] = 1
    return out, weight


def _mine(cls_loss: Array, loc_loss: Array | None, match: Array, eligible: Array, take: int) -> Index:
    """The ``take`` eligible priors with the highest loss."""
    loss = cls_loss if loc_loss is None else cls_loss + loc_loss
    candidates = np.flatnonzero(eligible)
    order = np.argsort(-loss[candidates].astype(np.float32), kind="stable")
    return np.sort(candidates[order[:take]])


@operator(
    "mine_hard_examples",
    inputs="ClsLoss LocLoss? MatchIndices MatchDist",
    outputs="NegIndices UpdatedMatchIndices",
    lod=True,
    gradient=None,
)
def mine_hard_examples(
    cls_loss: Any,
    loc_loss: Any,
    match_indices: Any,
    match_dist: Any,
    *,
    neg_pos_ratio: float = 1.0,
    neg_dist_threshold: float = 0.5,
    sample_size: int = 0,
    mining_type: str = "max_negative",
) -> tuple[LoDTensor, Array]:
    """The negatives with the highest loss per image, as prior numbers ``[n, 1]`` with LoD.

    ``max_negative`` takes at most ``neg_pos_ratio`` times the positives, among unmatched priors under the
    distance; ``hard_example`` takes ``sample_size`` of all priors and unmatches the positives that it leaves out.
    """
    loss, match = array_of(cls_loss), array_of(match_indices)
    _check_mining(mining_type, neg_pos_ratio, neg_dist_threshold, sample_size)
    hard = mining_type == "hard_example"
    location = array_of(loc_loss) if hard and loc_loss is not None else None
    near = array_of(match_dist).astype(np.float32) < np.float32(neg_dist_threshold)
    eligible = np.ones(match.shape, bool) if hard else (match == -1) & near
    updated = match.copy()
    chosen = []
    for image in range(match.shape[0]):
        positives = int((match[image] != -1).sum())
        take = sample_size if hard else int(np.float32(positives) * np.float32(neg_pos_ratio))
        best = _mine(loss[image], None if location is None else location[image], match[image], eligible[image], take)
        if hard:
            kept = np.isin(np.arange(match.shape[1]), best)
            updated[image][(match[image] > -1) & ~kept] = -1
            best = best[match[image][best] <= -1]
        chosen.append(best)
    offsets = [0, *(int(end) for end in np.cumsum([each.size for each in chosen]))]
    return LoDTensor(np.concatenate(chosen).astype(np.int32)[:, None], [offsets]), updated


def _check_mining(mining_type: str, ratio: float, threshold: float, sample_size: int) -> None:
    if mining_type == "max_negative":
        if not (ratio > 0 and 0 < threshold < 1):
            raise ValueError(
                f"max_negative needs neg_pos_ratio > 0 and neg_dist_threshold in (0, 1), got {ratio}, {threshold}"
            )
    elif mining_type != "hard_example":
        raise ValueError(f"mining_type is max_negative or hard_example, got {mining_type!r}")
    elif sample_size <= 0:
        raise ValueError(f"hard_example needs sample_size > 0, got {sample_size}")


def reservoir(items: Index, keep: int, use_random: bool, slots: int | None = None) -> Index:
    """The numbers of the ``keep`` items that a sample leaves: the first ones, some replaced at random.

    Item ``i`` past the kept ones draws a place below ``i`` and takes it if it lies under ``slots`` (``keep``).
    """
    order = np.arange(items.size)
    if use_random and items.size > keep:
        tail = np.arange(keep, items.size)
        draws = np.floor(generator().random(tail.size) * tail).astype(np.int64)
        for place, item in zip(draws, tail, strict=True):
            if place < (keep if slots is None else slots):
                order[place], order[item] = order[item], order[place]
    return order[:keep]


def _assign(
    overlap: Array, positive: float, negative: float, batch: int, fraction: float, use_random: bool
) -> tuple[Index, Index, Index, Array]:
    """Foreground and background anchors of one image, from ``overlap [anchors, boxes]``.

    A foreground anchor has the best overlap of some box or at least ``positive``. One that is background too
    (below ``negative``) counts as background; the first foreground anchor stands in for it with weight 0.

    Returns:
        The located anchors, the foreground, the background, and the weights of the located ones.
    """
    best = overlap.max(axis=1, initial=-np.inf)
    top = np.abs(overlap - overlap.max(axis=0, initial=-np.inf)) < 1e-5
    front = np.flatnonzero(top.any(axis=1) | (best >= np.float32(positive)))
    back = np.flatnonzero(best < np.float32(negative))
    if batch > 0 and fraction > 0:
        front = front[reservoir(front, int(np.float32(fraction) * batch), use_random)]
        back = back[reservoir(back, batch - front.size, use_random)]
    both = int(np.isin(front, back).sum())
    stand_in = np.repeat(front[:1], both)
    front = np.sort(front[~np.isin(front, back)])
    weights = np.repeat(np.asarray([0, 1], overlap.dtype), [both, front.size])
    return np.concatenate((stand_in, front)), front, np.sort(back), weights


def _assign_image(
    anchors: Array, inside: Index, boxes: Array, labels: Array | None, options: dict[str, Any]
) -> dict[str, Array]:
    overlap = pixel_overlaps(anchors[inside], boxes)
    located, front, back, weights = _assign(overlap, **options)
    best = overlap.argmax(axis=1) if boxes.shape[0] else np.zeros(inside.size, np.int64)
    front_labels = np.ones(front.size, np.int32) if labels is None else labels[best[front]]
    return {
        "location": inside[located],
        "score": inside[np.concatenate((front, back))],
        "target": deltas_to(anchors[inside[located]], boxes[best[located]]),
        "label": np.concatenate((front_labels, np.zeros(back.size, np.int32))).astype(np.int32)[:, None],
        "weight": np.repeat(weights[:, None], 4, axis=1),
    }


def _per_image(
    anchor: Any,
    gt_boxes: Any,
    gt_labels: Any,
    is_crowd: Any,
    im_info: Any,
    straddle: float,
    options: dict[str, Any],
) -> list[dict[str, Array]]:
    """The targets of every image: crowds left out, ground truth scaled, anchors far outside left out."""
    anchors, info, crowd = array_of(anchor), array_of(im_info), array_of(is_crowd).reshape(-1)
    offsets = level_of(gt_boxes, "GtBoxes")
    images = []
    for number, (start, end) in enumerate(zip(offsets[:-1], offsets[1:], strict=True)):
        alone = np.arange(start, end)[crowd[start:end] == 0]
        height, width, scale = info[number, :3]
        inside = np.arange(anchors.shape[0])
        if straddle >= 0:
            low, high = anchors[:, :2] >= -straddle, anchors[:, 2:] < np.asarray([width, height]) + straddle
            inside = inside[(low & high).all(axis=1)]
        labels = None if gt_labels is None else array_of(gt_labels).reshape(-1)[alone]
        made = _assign_image(anchors, inside, gt_boxes.array[alone] * scale, labels, options)
        made["location"] = (made["location"] + number * anchors.shape[0]).astype(np.int32)
        made["score"] = (made["score"] + number * anchors.shape[0]).astype(np.int32)
        images.append(made)
    return images


def _together(images: list[dict[str, Array]]) -> tuple[LoDTensor, ...]:
    """The five outputs, end to end with LoD."""
    outputs = []
    for key in ("location", "score", "target", "label", "weight"):
        parts = [image[key] for image in images]
        offsets = [0, *(int(end) for end in np.cumsum([part.shape[0] for part in parts]))]
        outputs.append(LoDTensor(np.concatenate(parts), [offsets]))
    return tuple(outputs)


@operator(
    "rpn_target_assign",
    inputs="Anchor GtBoxes IsCrowd ImInfo",
    outputs="LocationIndex ScoreIndex TargetBBox TargetLabel BBoxInsideWeight",
    lod=True,
    gradient=None,
)
def rpn_target_assign(
    anchor: Any,
    gt_boxes: Any,
    is_crowd: Any,
    im_info: Any,
    *,
    rpn_batch_size_per_im: int = 256,
    rpn_straddle_thresh: float = REQUIRED,
    rpn_positive_overlap: float = 0.7,
    rpn_negative_overlap: float = 0.3,
    rpn_fg_fraction: float = 0.25,
    use_random: bool = True,
) -> tuple[LoDTensor, ...]:
    """Sampled anchors of an RPN: numbers over the batch, box deltas, object labels and weights, all with LoD."""
    options = {
        "positive": rpn_positive_overlap,
        "negative": rpn_negative_overlap,
        "batch": rpn_batch_size_per_im,
        "fraction": rpn_fg_fraction,
        "use_random": use_random,
    }
    return _together(_per_image(anchor, gt_boxes, None, is_crowd, im_info, rpn_straddle_thresh, options))


@operator(
    "retinanet_target_assign",
    inputs="Anchor GtBoxes GtLabels IsCrowd ImInfo",
    outputs="LocationIndex ScoreIndex TargetBBox TargetLabel BBoxInsideWeight ForegroundNumber",
    lod=True,
    gradient=None,
)
def retinanet_target_assign(
    anchor: Any,
    gt_boxes: Any,
    gt_labels: Any,
    is_crowd: Any,
    im_info: Any,
    *,
    positive_overlap: float = 0.5,
    negative_overlap: float = 0.4,
) -> tuple[LoDTensor, ...]:
    """As rpn_target_assign without sampling, labelled by class; also the located anchors per image plus one."""
    options = {
        "positive": positive_overlap,
        "negative": negative_overlap,
        "batch": -1,
        "fraction": -1.0,
        "use_random": False,
    }
    images = _per_image(anchor, gt_boxes, gt_labels, is_crowd, im_info, -1.0, options)
    numbers = np.asarray([[image["location"].shape[0] + 1] for image in images], np.int32)
    return (*_together(images), LoDTensor(numbers, [list(range(len(images) + 1))]))
