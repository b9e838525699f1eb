"""Overlaps of boxes and polygons and greedy suppression: the arithmetic under every NMS. Declares no operator."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from ..values import Array

__all__ = [
    "Index",
    "box_areas",
    "deltas_to",
    "greedy_keep",
    "jaccard_overlap",
    "overlap_with",
    "pixel_overlaps",
    "pixel_unit",
    "polygon_overlap",
    "ranked",
]

Index = npt.NDArray[np.int64]


def pixel_unit(normalized: bool, dtype: Any) -> Any:
    """What a side of a box gains when its corners are pixels, both inside the box: 1, else 0."""
    return np.dtype(dtype).type(0 if normalized else 1)


def box_areas(boxes: Array, unit: Any) -> Array:
    """Areas of ``[..., 4]`` corner boxes; 0 for a box whose corners are in the wrong order."""
    size = boxes[..., 2:4] - boxes[..., :2]
    area: Array = (size[..., 0] + unit) * (size[..., 1] + unit)
    return np.where((size < 0).any(axis=-1), boxes.dtype.type(0), area)


def jaccard_overlap(box: Array, others: Array, area: Any, areas: Array, unit: Any) -> Array:
    """Intersection over union of ``box [..., 4]`` with ``others [..., 4]``; nan where the union is empty.

    Boxes that do not touch overlap by 0, whatever ``unit`` adds to the sides.
    """
    left = np.maximum(box[..., 0], others[..., 0])
    top = np.maximum(box[..., 1], others[..., 1])
    width = np.minimum(box[..., 2], others[..., 2]) - left
    height = np.minimum(box[..., 3], others[..., 3]) - top
    apart = (width < 0) | (height < 0)
    inter = (width + unit) * (height + unit)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        overlap: Array = inter / (area + areas - inter)
    overlap[apart] = 0
    return overlap


def pixel_overlaps(boxes: Array, others: Array) -> Array:
    """``[N, M]`` intersection over union of pixel boxes ``[N, 4]`` and ``[M, 4]``; 0 where they do not meet."""
    low = np.maximum(boxes[:, None, :2], others[None, :, :2])
    high = np.minimum(boxes[:, None, 2:], others[None, :, 2:])
    sides = np.maximum(high - low + 1, 0)
    inter = sides[..., 0] * sides[..., 1]
    areas = [np.multiply.reduce(each[:, 2:] - each[:, :2] + 1, axis=1) for each in (boxes, others)]
    union = areas[0][:, None] + areas[1] - inter
    overlap: Array = np.divide(inter, union, out=np.zeros_like(inter), where=inter != 0)
    return overlap


def deltas_to(boxes: Array, targets: Array) -> Array:
    """``[n, 4]``: what moves each pixel box onto its target, centers over sizes and logs of size ratios."""
    half = boxes.dtype.type(0.5)
    size, target_size = (each[:, 2:] - each[:, :2] + 1 for each in (boxes, targets))
    center, target_center = boxes[:, :2] + half * size, targets[:, :2] + half * target_size
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.concatenate(((target_center - center) / size, np.log(target_size / size)), axis=1)


def _shoelace(points: Array) -> Array:
    x, y = points[..., 0], points[..., 1]
    after = np.roll(points, -1, axis=-2)
    doubled: Array = np.abs((x * after[..., 1] - y * after[..., 0]).sum(axis=-1))
    return doubled / 2


def _event_heights(edges: Array) -> Array:
    """``[K, events]`` sorted: the y of every vertex and of every crossing of two edges ``[K, E, 2 ends, 2]``."""
    start, end = edges[:, :, 0], edges[:, :, 1]
    run = end - start
    first, second = np.triu_indices(edges.shape[1], 1)
    gap = start[:, second] - start[:, first]
    along, other = run[:, first], run[:, second]
    with np.errstate(divide="ignore", invalid="ignore"):
        cross = along[..., 0] * other[..., 1] - along[..., 1] * other[..., 0]
        share = (gap[..., 0] * other[..., 1] - gap[..., 1] * other[..., 0]) / cross
        reach = (gap[..., 0] * along[..., 1] - gap[..., 1] * along[..., 0]) / cross
        inside = (share >= 0) & (share <= 1) & (reach >= 0) & (reach <= 1)
        crossing = np.where(inside, start[:, first, 1] + share * along[..., 1], start[:, first, 1])
    return np.sort(np.concatenate((start[..., 1], crossing), axis=1), axis=1)


def _intersection_areas(polygon: Array, others: Array) -> Array:
    """Areas common to ``polygon [n, 2]`` and each of ``others [K, m, 2]``, inside by the even-odd rule.

    Between two neighbouring events no edges cross, so that the common width at the middle of the slab times
    its height is exact.
    """
    first = np.broadcast_to(polygon, (others.shape[0], *polygon.shape))
    edges = np.concatenate(
        [np.stack((points, np.roll(points, -1, axis=1)), axis=2) for points in (first, others)], axis=1
    )
    events = _event_heights(edges)
    middle = (events[:, :-1] + events[:, 1:])[..., None] / 2
    (x0, y0), (x1, y1) = (np.moveaxis(edges[:, None, :, end], -1, 0) for end in (0, 1))
    crossed = (np.minimum(y0, y1) < middle) & (middle < np.maximum(y0, y1))
    with np.errstate(divide="ignore", invalid="ignore"):
        x = np.where(crossed, x0 + (middle - y0) / (y1 - y0) * (x1 - x0), edges[..., 0].max(initial=0.0))
    order = np.argsort(x, axis=-1)
    x = np.take_along_axis(x, order, axis=-1)
    toggles = np.take_along_axis(crossed, order, axis=-1)
    mine = order < polygon.shape[0]
    common = (np.cumsum(toggles & mine, axis=-1) & np.cumsum(toggles & ~mine, axis=-1) & 1)[..., :-1]
    width = (np.diff(x, axis=-1) * common).sum(axis=-1)
    return np.asarray((width * np.diff(events, axis=1)).sum(axis=1))


def polygon_overlap(polygon: Array, others: Array) -> Array:
    """Intersection over union of a polygon ``[2 n]`` (x, y, x, y, ...) with ``others [K, 2 n]``.

    0 where an area or the intersection is 0. The areas of the polygons themselves are shoelace areas.
    """
    mine = polygon.astype(np.float64).reshape(-1, 2)
    theirs = others.astype(np.float64).reshape(-1, *mine.shape)
    area, areas = _shoelace(mine), _shoelace(theirs)
    inter = np.zeros(areas.shape)
    near = np.flatnonzero(
        ((theirs.min(axis=1) < mine.max(axis=0)) & (theirs.max(axis=1) > mine.min(axis=0))).all(axis=1)
    )
    if near.size:
        inter[near] = _intersection_areas(mine, theirs[near])
    some = (area != 0) & (areas != 0) & (inter != 0)
    overlap: Array = np.divide(inter, area + areas - inter, out=np.zeros_like(inter), where=some)
    return overlap.astype(others.dtype, copy=False)


def overlap_with(box: Array, others: Array, unit: Any) -> Array:
    """Overlap of one box with ``others``, rectangles (4 numbers) or polygons (more)."""
    if box.shape[-1] == 4:
        return jaccard_overlap(box, others, box_areas(box, unit), box_areas(others, unit), unit)
    return polygon_overlap(box, others)


def ranked(scores: Array, threshold: float, top: int) -> Index:
    """Indices of the scores above ``threshold``, best first, ties in index order; ``top`` of them (-1: all)."""
    above = np.flatnonzero(scores > scores.dtype.type(np.float32(threshold)))
    order = above[np.argsort(-scores[above].astype(np.float32, copy=False), kind="stable")]
    return order if top < 0 else order[:top]


_BLOCK = 64
"""Candidates that are settled among themselves before the kept ones meet the rest."""


def _meets(sides: Array, first: slice | Index, second: Index, areas: Array, limit: Any, unit: Any) -> Array:
    """``[first, second]``: whether a box of ``first`` suppresses one of ``second``.

    ``sides [4, N]`` are corners. Only pairs that touch are divided; the others overlap by 0.
    """
    left, top, right, bottom = (side[first][:, None] for side in sides)
    width = np.minimum(right, sides[2][second]) - np.maximum(left, sides[0][second])
    height = np.minimum(bottom, sides[3][second]) - np.maximum(top, sides[1][second])
    # Written so that a nan counts as touching: its overlap is nan, which suppresses.
    touching = np.flatnonzero(~((width < 0) | (height < 0)))
    met = np.zeros(width.shape, bool)
    if not limit >= 0:
        met[:] = True
    if touching.size:
        row, column = np.divmod(touching, width.shape[1])
        inter = (width.reshape(-1)[touching] + unit) * (height.reshape(-1)[touching] + unit)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            overlap = inter / (areas[first][row] + areas[second][column] - inter)
        met.reshape(-1)[touching] = ~(overlap <= limit)
    return met


def _settled(met: Array) -> list[int]:
    """Which of a block of boxes, best first, stay when each that stays takes out what it meets."""
    rows = [int.from_bytes(row.tobytes(), "little") for row in np.packbits(met, axis=1, bitorder="little")]
    gone, kept = 0, []
    for place, row in enumerate(rows):
        if not gone >> place & 1:
            kept.append(place)
            gone |= row
    return kept


def _keep_rectangles(boxes: Array, limit: Any, unit: Any) -> Index:
    """:func:`greedy_keep` at a fixed threshold, block by block."""
    sides, areas = np.ascontiguousarray(boxes.T), box_areas(boxes, unit)
    alive = np.arange(boxes.shape[0])
    kept = []
    while alive.size:
        block, alive = alive[:_BLOCK], alive[_BLOCK:]
        chosen = block[_settled(_meets(sides, block, block, areas, limit, unit))]
        kept.append(chosen)
        if alive.size:
            alive = alive[~_meets(sides, chosen, alive, areas, limit, unit).any(axis=0)]
    return np.concatenate([np.zeros(0, np.int64), *kept])


def greedy_keep(boxes: Array, threshold: float, eta: float, unit: Any) -> Index:
    """Positions of the boxes ``[N, 4 or more]``, best first, that no better kept box suppresses.

    A box goes when its overlap with a kept one is not at most ``threshold`` (so also when it is nan). After
    every kept box a threshold above 0.5 shrinks by ``eta``, if ``eta`` is below 1.
    """
    limit = boxes.dtype.type(np.float32(threshold))
    if boxes.shape[1] == 4 and not eta < 1:
        return _keep_rectangles(boxes, limit, unit)
    alive = np.arange(boxes.shape[0])
    worst = np.zeros(boxes.shape[0], boxes.dtype)
    kept = []
    while alive.size:
        best, alive, worst = alive[0], alive[1:], worst[1:]
        kept.append(best)
        if eta < 1 and limit > 0.5:
            limit = boxes.dtype.type(limit * boxes.dtype.type(np.float32(eta)))
        worst = np.maximum(worst, overlap_with(boxes[best], boxes[alive], unit))
        stays = worst <= limit
        alive, worst = alive[stays], worst[stays]
    return np.asarray(kept, np.int64)
