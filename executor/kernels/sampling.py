"""Reading planes between their points: corners and weights, gathering, and the transposes that gradients need.

A set of ``P`` sampling positions is a list of corners; a corner is a flat index into a plane and a weight per
position. A position that sees nothing at a corner has a valid index and the weight 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from ..values import Array

__all__ = ["Corner", "Line", "corners_of", "gather", "line_of", "round_half_away", "scatter", "slopes_of"]


@dataclass(frozen=True, slots=True)
class Line:
    """Positions along one axis: the two neighbouring points, their weights, and whether they exist."""

    size: int
    low: npt.NDArray[np.int64]
    high: npt.NDArray[np.int64]
    low_weight: Array
    high_weight: Array
    low_inside: npt.NDArray[np.bool_]
    high_inside: npt.NDArray[np.bool_]

    def ends(self) -> tuple[tuple[Array, Array, Array, float], ...]:
        """(index, weight, inside, slope of the weight) of both points."""
        return (
            (self.low, self.low_weight, self.low_inside, -1.0),
            (self.high, self.high_weight, self.high_inside, 1.0),
        )


@dataclass(frozen=True, slots=True)
class Corner:
    """One corner of every position: where it is in the flattened plane and what it counts."""

    index: npt.NDArray[np.int64]
    weight: Array


def round_half_away(values: Array) -> Array:
    """To the nearest integer, halves away from zero."""
    rounded: Array = np.copysign(np.floor(np.abs(values) + values.dtype.type(0.5)), values)
    return rounded


def line_of(position: Array, size: int) -> Line:
    """Linear interpolation along an axis of ``size`` points; points outside do not exist."""
    with np.errstate(invalid="ignore"):
        floor = np.floor(position)
        far = position - floor
        low = np.where(np.isfinite(floor), np.clip(floor, -2, size + 1), -2).astype(np.int64)
    high = low + 1
    one = position.dtype.type(1)
    return Line(
        size,
        np.clip(low, 0, max(size - 1, 0)),
        np.clip(high, 0, max(size - 1, 0)),
        one - far,
        far,
        (low >= 0) & (low < size),
        (high >= 0) & (high < size),
    )


def _flat(indices: Sequence[Array], lines: Sequence[Line]) -> Any:
    flat: Any = 0
    for index, line in zip(indices, lines, strict=True):
        flat = flat * line.size + index
    return flat


def corners_of(lines: Sequence[Line]) -> list[Corner]:
    """The corners around positions that are given per axis, outermost axis first."""
    corners = []
    for ends in product(*(line.ends() for line in lines)):
        weight, inside = ends[0][1], ends[0][2]
        for _, part, there, _ in ends[1:]:
            weight, inside = weight * part, inside & there
        corners.append(Corner(_flat([end[0] for end in ends], lines), np.where(inside, weight, 0)))
    return corners


def slopes_of(lines: Sequence[Line], axis: int) -> list[Corner]:
    """As :func:`corners_of` with the derivative of the weights by the position along ``axis``."""
    corners = []
    for ends in product(*(line.ends() for line in lines)):
        slope = np.full_like(lines[axis].low_weight, ends[axis][3])
        inside = ends[axis][2]
        for position, (_, part, there, _) in enumerate(ends):
            if position != axis:
                slope, inside = slope * part, inside & there
        corners.append(Corner(_flat([end[0] for end in ends], lines), np.where(inside, slope, 0)))
    return corners


def gather(planes: Array, corners: Sequence[Corner]) -> Array:
    """``[C, P]``: the weighted sums of ``planes`` ``[C, size]`` at the corners."""
    total: Array | None = None
    for corner in corners:
        part = np.take(planes, corner.index, axis=1)
        np.multiply(part, corner.weight, out=part)
        total = part if total is None else np.add(total, part, out=total)
    assert total is not None
    return total


def scatter(values: Array, corners: Sequence[Corner], planes: Array) -> None:
    """Add to ``planes`` ``[C, size]`` what :func:`gather` would have read for ``values`` ``[C, P]``."""
    count, size = planes.shape
    flat = planes.reshape(-1)
    rows = np.arange(count, dtype=np.int64)[:, None] * size
    for corner in corners:
        np.add.at(flat, (rows + corner.index).reshape(-1), (values * corner.weight).reshape(-1))
