"""Sliding blocks laid out as columns, and columns added back into an image."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ...ir.registry import REQUIRED, operator
from ..values import Array, Meta
from .window import Window, add_window, copy_window, per_axis

__all__ = ["fold", "unfold"]


def _window(
    kernel_sizes: Sequence[int], strides: Sequence[int], paddings: Sequence[int], dilations: Sequence[int]
) -> Window:
    """The window; paddings are [top, left, bottom, right] or [height, width]."""
    pads = [int(p) for p in paddings] * (2 if len(paddings) == 2 else 1)
    if len(pads) != 4:
        raise ValueError(f"paddings must be [top, left, bottom, right], got {list(paddings)}")
    return Window(
        per_axis(kernel_sizes, 2, "kernel_sizes"),
        per_axis(strides, 2, "strides"),
        per_axis(dilations, 2, "dilations"),
        ((pads[0], pads[2]), (pads[1], pads[3])),
    )


def _lay_out(x: Array, window: Window) -> Array:
    """``[N, C * taps, blocks]`` from ``[N, C, H, W]``."""
    out = window.output(x.shape[2:])
    columns = np.empty((*x.shape[:2], *window.kernel, *out), x.dtype)
    copy_window(columns, x, window.axes(x.shape[2:], out), [(0, size) for size in out])
    return columns.reshape(x.shape[0], x.shape[1] * math.prod(window.kernel), math.prod(out))


def _add_up(columns: Array, spatial: Sequence[int], window: Window) -> Array:
    """The transpose of :func:`_lay_out`: ``[N, C, *spatial]``."""
    out, taps = window.output(spatial), math.prod(window.kernel)
    if columns.shape[1] % taps or columns.shape[2] != math.prod(out):
        raise ValueError(
            f"X {list(columns.shape)} must be [N, C * {taps}, {math.prod(out)}] for an output of size {list(spatial)}"
        )
    channels = columns.shape[1] // taps
    image = np.zeros((columns.shape[0], channels, *spatial), columns.dtype)
    laid = columns.reshape(columns.shape[0], channels, *window.kernel, *out)
    add_window(laid, image, window.axes(spatial, out), [(0, size) for size in out])
    return image


@operator("unfold", inputs="X", outputs="Y")
def unfold(
    x: Array,
    *,
    kernel_sizes: Sequence[int] = REQUIRED,
    strides: Sequence[int] = REQUIRED,
    paddings: Sequence[int] = REQUIRED,
    dilations: Sequence[int] = REQUIRED,
) -> Array:
    """The blocks of ``[N, C, H, W]`` as columns ``[N, C * taps, blocks]``."""
    if x.ndim != 4:
        raise ValueError(f"X must have 4 dimensions, got shape {list(x.shape)}")
    return _lay_out(x, _window(kernel_sizes, strides, paddings, dilations))


@unfold.gradient(takes="X~ Y@GRAD", gives="X@GRAD")
def unfold_grad(
    x: Array | Meta,
    d_out: Array,
    *,
    kernel_sizes: Sequence[int] = REQUIRED,
    strides: Sequence[int] = REQUIRED,
    paddings: Sequence[int] = REQUIRED,
    dilations: Sequence[int] = REQUIRED,
) -> Array:
    """The columns' gradients added back."""
    return _add_up(d_out, x.shape[2:], _window(kernel_sizes, strides, paddings, dilations))


@operator("fold", inputs="X", outputs="Y")
def fold(
    x: Array,
    *,
    output_sizes: Sequence[int] = REQUIRED,
    kernel_sizes: Sequence[int] = REQUIRED,
    strides: Sequence[int] = REQUIRED,
    paddings: Sequence[int] = REQUIRED,
    dilations: Sequence[int] = REQUIRED,
) -> Array:
    """Columns ``[N, C * taps, blocks]`` added up into an image ``[N, C, *output_sizes]``."""
    if x.ndim != 3:
        raise ValueError(f"X must have 3 dimensions, got shape {list(x.shape)}")
    spatial = per_axis(output_sizes, 2, "output_sizes")
    return _add_up(x, spatial, _window(kernel_sizes, strides, paddings, dilations))


@fold.gradient(takes="X~ Y@GRAD", gives="X@GRAD")
def fold_grad(
    x: Array | Meta,
    d_out: Array,
    *,
    kernel_sizes: Sequence[int] = REQUIRED,
    strides: Sequence[int] = REQUIRED,
    paddings: Sequence[int] = REQUIRED,
    dilations: Sequence[int] = REQUIRED,
) -> Array:
    """The image's gradient laid out as columns."""
    return _lay_out(d_out, _window(kernel_sizes, strides, paddings, dilations))
