"""Sequences read off images (im2sequence) and instances chosen by their tags (filter_by_instag)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ir.registry import operator
from ..values import Array, LoDTensor, array_of
from .sequence_layout import Index, dress, offsets_of, ranges, same_lod, sequence_ids, to_offsets

__all__ = ["filter_by_instag", "im2sequence"]


def _windows(
    x: Array, kernels: Sequence[int], strides: Sequence[int], paddings: Sequence[int], counts: tuple[int, int]
) -> Array:
    """``[batch, down, across, channel, kernel, kernel]``: the windows of images, zero outside of them."""
    up, left = paddings[:2]
    below, right = (
        max(0, (count - 1) * stride + kernel - before - size)
        for count, stride, kernel, before, size in zip(counts, strides, kernels, (up, left), x.shape[2:], strict=True)
    )
    padded = np.pad(x, ((0, 0), (0, 0), (up, below), (left, right)))
    view = np.lib.stride_tricks.sliding_window_view(padded, tuple(kernels), axis=(2, 3))
    steps: Array = view[
        :, :, : (counts[0] - 1) * strides[0] + 1 : strides[0], : (counts[1] - 1) * strides[1] + 1 : strides[1]
    ]
    turned: Array = steps.transpose(0, 2, 3, 1, 4, 5)
    return turned


def _window_counts(
    size: Sequence[int], kernels: Sequence[int], strides: Sequence[int], paddings: Sequence[int]
) -> tuple[int, int]:
    down, across = ((size[i] + paddings[i] + paddings[i + 2] - kernels[i]) // strides[i] + 1 for i in range(2))
    if down < 1 or across < 1:
        raise ValueError(f"kernels {list(kernels)} are larger than an image of {list(size)} with its paddings")
    return down, across


@operator("im2sequence", inputs="X Y?", outputs="Out", lod=True)
def im2sequence(
    x: Any,
    y: Any,
    *,
    kernels: Sequence[int],
    strides: Sequence[int] = (1, 1),
    paddings: Sequence[int] = (0, 0, 0, 0),
    out_stride: Sequence[int] = (1, 1),
) -> LoDTensor:
    """Every image of a batch as the sequence of its windows, row by row, each window flat (channel first).

    ``paddings`` are up, left, down, right. Y (``[batch, 2]``) holds the real heights and widths before the
    image was made smaller by ``out_stride``: only windows of the real part are taken then.
    """
    images = array_of(x)
    whole = _window_counts(images.shape[2:], kernels, strides, paddings)
    width = images.shape[1] * kernels[0] * kernels[1]
    if y is None or images.shape[0] <= 1:
        rows = _windows(images, kernels, strides, paddings, whole).reshape(-1, width)
        return dress(rows, np.arange(images.shape[0] + 1) * (whole[0] * whole[1]))
    real = -(-array_of(y).astype(np.int64) // np.asarray(out_stride))
    counts = [_window_counts(size, kernels, strides, paddings) for size in real.tolist()]
    parts = [
        _windows(images[i : i + 1], kernels, strides, paddings, count).reshape(-1, width)
        for i, count in enumerate(counts)
    ]
    return dress(np.concatenate(parts), to_offsets([down * across for down, across in counts]))


@im2sequence.gradient(takes="X Out@GRAD", gives="X@GRAD", lod=False)
def im2sequence_grad(
    x: Array,
    d_out: Array,
    *,
    kernels: Sequence[int],
    strides: Sequence[int] = (1, 1),
    paddings: Sequence[int] = (0, 0, 0, 0),
) -> Array:
    """Every pixel collects from the windows that hold it; needs the windows of the whole images."""
    batch, channels, height, width = x.shape
    down, across = _window_counts((height, width), kernels, strides, paddings)
    if d_out.shape[0] != batch * down * across:
        raise ValueError(f"Out@GRAD has {d_out.shape[0]} rows, whole images give {batch * down * across}")
    grad = d_out.reshape(batch, down, across, channels, *kernels).transpose(0, 3, 1, 2, 4, 5)
    up, left, below, right = paddings
    padded = np.zeros((batch, channels, height + up + below, width + left + right), d_out.dtype)
    for i in range(kernels[0]):
        for j in range(kernels[1]):
            rows = slice(i, i + (down - 1) * strides[0] + 1, strides[0])
            padded[:, :, rows, slice(j, j + (across - 1) * strides[1] + 1, strides[1])] += grad[..., i, j]
    return padded[:, :, up : up + height, left : left + width]


def _instances(ins: Any, is_lod: bool) -> Index:
    return offsets_of(ins, "Ins") if is_lod else np.arange(array_of(ins).shape[0] + 1)


@operator("filter_by_instag", inputs="Ins Ins_tag Filter_tag", outputs="Out LossWeight IndexMap", lod=True)
def filter_by_instag(
    ins: Any, ins_tag: Any, filter_tag: Any, *, is_lod: bool = True, out_val_if_empty: int = 0
) -> tuple[LoDTensor, LoDTensor, LoDTensor]:
    """The instances that have one of the filter's tags.

    LossWeight is 1 for each. IndexMap says for each where it stands in Out, where it stood in Ins, and its
    length. Where none is left, Out is one row of ``out_val_if_empty`` and the weight 0.
    """
    rows = array_of(ins)
    offsets = _instances(ins, is_lod)
    tags = offsets_of(ins_tag, "Ins_tag")
    hits = sequence_ids(np.diff(tags))[np.isin(array_of(ins_tag).reshape(-1), array_of(filter_tag))]
    kept = np.unique(hits)
    if not kept.size:
        out = np.full((1, *rows.shape[1:]), out_val_if_empty, rows.dtype)
        one = [0, 1]
        weight = np.zeros((1, 1), np.float32)
        return dress(out, one), dress(weight, one), dress(np.array([[0, 1, 1]], np.int64), one)
    lengths = np.diff(offsets)[kept]
    placed = to_offsets(lengths)
    index_map = np.stack([placed[:-1], offsets[kept], lengths], axis=1)
    each = np.arange(kept.size + 1)
    out = rows[ranges(offsets[kept], lengths)]
    return dress(out, placed), dress(np.ones((kept.size, 1), np.float32), each), dress(index_map, each)


@filter_by_instag.gradient(takes="Ins LossWeight IndexMap Out@GRAD", gives="Ins@GRAD")
def filter_by_instag_grad(ins: Any, loss_weight: Any, index_map: Any, d_out: Any) -> Any:
    """The gradient of the kept rows, zero for the others; all zero where none was kept."""
    d_ins = np.zeros(ins.shape, array_of(d_out).dtype)
    if array_of(loss_weight).any():
        _, sources, lengths = array_of(index_map).T
        d_ins[ranges(sources, lengths)] = array_of(d_out)
    return same_lod(d_ins, ins)
