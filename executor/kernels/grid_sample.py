"""Sampling an input at the positions of a grid, and making the grid of an affine map."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...ir.registry import operator
from ..values import Array, Meta
from .common import accumulate_dtype, as_ints
from .sampling import Corner, Line, corners_of, gather, line_of, round_half_away, scatter, slopes_of

__all__ = ["affine_grid", "grid_sampler"]


def _reflect(position: Array, span: float, offset: float) -> tuple[Array, Array]:
    """Fold positions into ``[-offset, span - offset]`` by mirrors at both ends; also the sign of the slope."""
    if span <= 0:
        return np.zeros_like(position), np.zeros_like(position)
    shifted = position + position.dtype.type(offset)
    sign = np.where(shifted < 0, -1, 1).astype(position.dtype)
    size = np.abs(shifted)
    period = position.dtype.type(2 * span)
    rest = size - np.floor(size / period) * period
    flipped = rest > period - rest
    folded = np.where(flipped, period - rest, rest) - position.dtype.type(offset)
    return folded, np.where(flipped, -sign, sign)


def _locate(coordinate: Array, size: int, padding_mode: str, align_corners: bool) -> tuple[Array, Array]:
    """Positions in points of an axis from coordinates in [-1, 1], and their slope by the coordinate."""
    kind = coordinate.dtype.type
    last = kind(size - 1)
    half = last / kind(2) if align_corners else kind(size) / kind(2)
    with np.errstate(invalid="ignore", over="ignore"):
        position = (coordinate + kind(1)) * half
        if not align_corners:
            position -= kind(0.5)
        slope = np.full_like(position, half)
        if padding_mode == "reflection":
            span, offset = (size - 1, 0.0) if align_corners else (size, 0.5)
            position, sign = _reflect(position, span, offset)
            slope *= sign
        if padding_mode in ("border", "reflection"):
            slope[(position < 0) | (position > last)] = 0
            position = np.clip(position, kind(0), last)
    return position, slope


def _nearest_line(position: Array, size: int, strict: bool) -> Line:
    """The line whose low end is the nearest point, with all the weight; halves go away from zero.

    With ``strict`` a position outside the points sees nothing, even where the nearest point exists: what Paddle
    does over three axes.
    """
    with np.errstate(invalid="ignore"):
        rounded = round_half_away(position)
        if strict:
            rounded[(position < 0) | (position > size - 1)] = -2
    return line_of(rounded, size)


def _lines(
    grid: Array, spatial: Sequence[int], mode: str, padding_mode: str, align_corners: bool
) -> tuple[list[Line], list[Array]]:
    """Per spatial axis (outermost first) the lines of one image's grid ``[..., axes]``, and the slopes."""
    lines, slopes = [], []
    for axis, size in enumerate(spatial):
        coordinate = np.ascontiguousarray(grid[..., len(spatial) - 1 - axis]).reshape(-1)
        position, slope = _locate(coordinate, size, padding_mode, align_corners)
        if mode == "nearest":
            lines.append(_nearest_line(position, size, len(spatial) == 3))
        else:
            lines.append(line_of(position, size))
        slopes.append(slope)
    return lines, slopes


def _checked(x: Array, grid: Array, mode: str, padding_mode: str) -> None:
    if x.dtype.kind != "f" and x.dtype.name != "bfloat16":
        raise TypeError(f"X must be floating, got {x.dtype}")
    if x.ndim not in (4, 5) or grid.ndim != x.ndim or grid.shape[-1] != x.ndim - 2 or grid.shape[0] != x.shape[0]:
        raise ValueError(
            f"X [N, C, H, W] needs a Grid [N, H, W, 2] (one axis more: [N, D, H, W, 3]), got {list(x.shape)} and "
            f"{list(grid.shape)}"
        )
    if mode not in ("bilinear", "nearest") or padding_mode not in ("zeros", "border", "reflection"):
        raise ValueError(
            "mode must be bilinear or nearest and padding_mode zeros, border or reflection, got "
            f"'{mode}' and '{padding_mode}'"
        )


@operator("grid_sampler", inputs="X Grid", outputs="Output")
def grid_sampler(
    x: Array,
    grid: Array,
    *,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool = True,
) -> Array:
    """``x`` ``[N, C, *spatial]`` read at ``grid`` ``[N, *out, axes]``, whose last axis is (x, y[, z]) in [-1, 1]."""
    _checked(x, grid, mode, padding_mode)
    wide = x.astype(accumulate_dtype(x.dtype), copy=False)
    where = grid.astype(wide.dtype, copy=False)
    out = np.empty((*x.shape[:2], *grid.shape[1:-1]), wide.dtype)
    for n in range(x.shape[0]):
        lines, _ = _lines(where[n], x.shape[2:], mode, padding_mode, align_corners)
        corners = corners_of(lines)[: 1 if mode == "nearest" else None]
        out[n] = gather(wide[n].reshape(x.shape[1], -1), corners).reshape(out.shape[1:])
    return out.astype(x.dtype, copy=False)


def _slope_sum(planes: Array, above: Array, corners: Sequence[Corner]) -> Array:
    """Per position the sum over channels of ``above`` times what :func:`gather` reads at the corners."""
    total: Array = np.einsum("cp,cp->p", gather(planes, corners), above)
    return total


@grid_sampler.gradient(takes="X Grid Output@GRAD", gives="X@GRAD Grid@GRAD")
def grid_sampler_grad(
    x: Array,
    grid: Array,
    d_out: Array,
    *,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool = True,
    want: frozenset[str] = frozenset({"X@GRAD", "Grid@GRAD"}),
) -> tuple[Array | None, Array | None]:
    """Gradients of the input and of the grid; the nearest mode has none for the grid (zeros)."""
    wide = x.astype(accumulate_dtype(x.dtype), copy=False)
    where = grid.astype(wide.dtype, copy=False)
    d_x, d_grid = np.zeros(x.shape, wide.dtype), np.zeros(grid.shape, wide.dtype)
    for n in range(x.shape[0]):
        lines, slopes = _lines(where[n], x.shape[2:], mode, padding_mode, align_corners)
        planes = wide[n].reshape(x.shape[1], -1)
        above = d_out[n].reshape(x.shape[1], -1).astype(wide.dtype, copy=False)
        if "X@GRAD" in want:
            corners = corners_of(lines)[: 1 if mode == "nearest" else None]
            scatter(above, corners, d_x[n].reshape(planes.shape))
        if "Grid@GRAD" in want and mode == "bilinear":
            for axis, slope in enumerate(slopes):
                part = _slope_sum(planes, above, slopes_of(lines, axis)) * slope
                d_grid[n, ..., len(slopes) - 1 - axis] = part.reshape(grid.shape[1:-1])
    return (
        d_x.astype(x.dtype, copy=False) if "X@GRAD" in want else None,
        d_grid.astype(grid.dtype, copy=False) if "Grid@GRAD" in want else None,
    )


def _base_grid(extents: Sequence[int], align_corners: bool, dtype: np.dtype[np.generic]) -> Array:
    """``[points, axes + 1]``: the coordinates of every point of the output, last axis first, and a one."""
    axes = []
    for extent in extents:
        # A single point between aligned corners is nowhere: Paddle gives nan.
        line = np.linspace(-1, 1, extent) if extent > 1 else np.full(1, np.nan if align_corners else 0.0)
        axes.append(line if align_corners else line * (extent - 1) / extent)
    mesh = np.meshgrid(*axes, indexing="ij")
    columns = [*(part.reshape(-1) for part in mesh[::-1]), np.ones(mesh[0].size)]
    return np.stack(columns, axis=1).astype(dtype)


def _extents(theta: Array, shape_tensor: Array | None, output_shape: Sequence[int]) -> tuple[int, ...]:
    shape = [int(v) for v in output_shape] if shape_tensor is None else as_ints(shape_tensor)
    axes = theta.shape[1] if theta.ndim == 3 else 0
    if axes not in (2, 3) or theta.shape[2] != axes + 1 or len(shape) != axes + 2 or min(shape[2:]) <= 0:
        raise ValueError(
            f"Theta must be [N, 2, 3] with an output shape [N, C, H, W], or [N, 3, 4] with [N, C, D, H, W], got "
            f"{list(theta.shape)} and {shape}"
        )
    return tuple(shape[2:])


@operator("affine_grid", inputs="Theta OutputShape?", outputs="Output")
def affine_grid(
    theta: Array,
    shape_tensor: Array | None,
    *,
    output_shape: Sequence[int] = (),
    align_corners: bool = True,
) -> Array:
    """The grid ``[N, *out, axes]`` whose points are the affine images of the output's points."""
    extents = _extents(theta, shape_tensor, output_shape)
    wide = theta.astype(accumulate_dtype(theta.dtype), copy=False)
    base = _base_grid(extents, align_corners, wide.dtype)
    out = np.matmul(base, wide.swapaxes(1, 2))
    result: Array = out.reshape(theta.shape[0], *extents, theta.shape[1]).astype(theta.dtype, copy=False)
    return result


@affine_grid.gradient(takes="Theta~ Output@GRAD OutputShape?", gives="Theta@GRAD")
def affine_grid_grad(
    theta: Array | Meta,
    d_out: Array,
    shape_tensor: Array | None,
    *,
    output_shape: Sequence[int] = (),
    align_corners: bool = True,
) -> Array:
    """``d_out`` projected on the points of the output: ``[N, axes, axes + 1]``."""
    wide = accumulate_dtype(d_out.dtype)
    base = _base_grid(d_out.shape[1:-1], align_corners, wide)
    above = d_out.reshape(d_out.shape[0], -1, d_out.shape[-1]).astype(wide, copy=False)
    result: Array = np.matmul(above.swapaxes(1, 2), base).astype(d_out.dtype, copy=False)
    return result
