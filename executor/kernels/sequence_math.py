"""Arithmetic within the sequences of a ragged batch: pooling, softmax, windows of context."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...ir.registry import operator
from ..values import Array, LoDTensor, array_of
from .common import accumulate_dtype
from .sequence_layout import (
    Index,
    dress,
    lengths_of,
    lod_of,
    offsets_of,
    pad_rows,
    same_lod,
    sequence_ids,
    sum_rows,
    summed_at,
    to_offsets,
)

__all__ = [
    "context_index",
    "pool_rows",
    "row_conv",
    "sequence_conv",
    "sequence_enumerate",
    "sequence_erase",
    "sequence_pool",
    "sequence_softmax",
]

_EVERYTHING = frozenset({"Out", "MaxIndex"})


def _per_row(values: Array, ndim: int) -> Array:
    return values.reshape(-1, *(1,) * (ndim - 1))


def _largest(rows: Array, offsets: Index) -> Index:
    """For every sequence and column the row of the largest value (the first of equals), -1 if it is empty."""
    lengths = lengths_of(offsets)
    if not rows.size:
        return np.full((lengths.size, *rows.shape[1:]), -1, np.int64)
    low = -np.inf if rows.dtype.kind in "fV" else np.iinfo(rows.dtype).min
    first: Index = pad_rows(rows, offsets, fill=low).argmax(axis=1)
    index = first + _per_row(offsets[:-1], rows.ndim)
    index[lengths == 0] = -1
    return index


_DIVISORS: dict[str, Callable[[Index], Array]] = {
    "SUM": np.ones_like,
    "AVERAGE": lambda lengths: np.maximum(lengths, 1),
    "SQRT": lambda lengths: np.sqrt(np.maximum(lengths, 1)),
}
"""What the sum over a sequence is divided by, where the pooling is such a sum."""


def _edge(pooltype: str, offsets: Index) -> Index:
    """The row of every sequence that FIRST or LAST takes, -1 if it is empty."""
    if pooltype not in ("FIRST", "LAST"):
        raise ValueError(f"pooltype is {pooltype!r}, it must be AVERAGE, SUM, SQRT, MAX, FIRST or LAST")
    edge = offsets[:-1] if pooltype == "FIRST" else offsets[1:] - 1
    return np.where(np.diff(offsets) > 0, edge, -1)


def pool_rows(rows: Array, offsets: Index, pooltype: str, pad_value: float = 0.0) -> Array:
    """One row for every sequence; ``pad_value`` for an empty one."""
    lengths = lengths_of(offsets)
    if pooltype in _DIVISORS:
        total = sum_rows(rows.astype(accumulate_dtype(rows.dtype), copy=False), offsets)
        total /= _per_row(_DIVISORS[pooltype](lengths), rows.ndim).astype(total.dtype)
        out = total.astype(rows.dtype, copy=False)
    elif not rows.shape[0]:
        out = np.empty((lengths.size, *rows.shape[1:]), rows.dtype)
    elif pooltype == "MAX":
        out = np.take_along_axis(rows, _largest(rows, offsets), axis=0)
    else:
        out = rows[_edge(pooltype, offsets)]
    out[lengths == 0] = pad_value
    return out


@operator("sequence_pool", inputs="X", outputs="Out MaxIndex", lod=True, ignores="is_test")
def sequence_pool(
    x: Any, *, pooltype: str = "AVERAGE", pad_value: float = 0.0, want: frozenset[str] = _EVERYTHING
) -> tuple[Any, Array | None]:
    """Pool every sequence into a row: AVERAGE, SUM, SQRT (sum by the root of the length), MAX, FIRST, LAST.

    MaxIndex (int32, MAX only) is the row of X that every value of Out came from, -1 for an empty sequence.
    """
    offsets = offsets_of(x, "X")
    rows = array_of(x)
    out = pool_rows(rows, offsets, pooltype, pad_value)
    index = None
    if pooltype == "MAX" and "MaxIndex" in want:
        index = _largest(rows, offsets).astype(np.int32)
    return dress(out, *x.lod[:-1]) if len(x.lod) > 1 else out, index


@sequence_pool.gradient(
    takes="X MaxIndex? Out@GRAD",
    gives="X@GRAD",
    without=lambda attrs: "" if attrs.get("pooltype", "AVERAGE") == "MAX" else "MaxIndex",
)
def sequence_pool_grad(x: Any, max_index: Any, d_out: Any, *, pooltype: str = "AVERAGE", pad_value: float = 0.0) -> Any:
    """A sum spreads its gradient over the sequence; MAX, FIRST and LAST give it to the row they took."""
    offsets = offsets_of(x, "X")
    grad = array_of(d_out)
    lengths = lengths_of(offsets)
    if pooltype in _DIVISORS:
        divisor = _DIVISORS[pooltype](lengths)
        scaled = (grad / _per_row(divisor, grad.ndim).astype(accumulate_dtype(grad.dtype))).astype(grad.dtype)
        return same_lod(np.repeat(scaled, lengths, axis=0), x)
    filled = lengths > 0
    d_x = np.zeros(x.shape, grad.dtype)
    if pooltype == "MAX":
        index = _largest(array_of(x), offsets) if max_index is None else array_of(max_index)
        np.put_along_axis(d_x, index[filled].astype(np.int64), grad[filled], axis=0)
    else:
        d_x[_edge(pooltype, offsets)[filled]] = grad[filled]
    return same_lod(d_x, x)


@operator("sequence_softmax", inputs="X", outputs="Out", lod=True, ignores="use_cudnn data_format")
def sequence_softmax(x: Any) -> Any:
    """Softmax over the rows (of one number) of every sequence."""
    offsets = offsets_of(x, "X")
    rows = array_of(x)
    if rows.size != rows.shape[0]:
        raise ValueError(f"X must have rows of one number, it has shape {list(rows.shape)}")
    flat = rows.reshape(-1).astype(accumulate_dtype(rows.dtype), copy=False)
    lengths = lengths_of(offsets)
    starts = offsets[:-1][lengths > 0]
    peaks = np.maximum.reduceat(flat, starts) if starts.size else flat
    out = np.exp(flat - np.repeat(peaks, lengths[lengths > 0]))
    out /= np.repeat(sum_rows(out, offsets), lengths)
    return same_lod(out.reshape(rows.shape).astype(rows.dtype, copy=False), x)


@sequence_softmax.gradient(takes="X~ Out Out@GRAD", gives="X@GRAD")
def sequence_softmax_grad(x: Any, out: Any, d_out: Any) -> Any:
    """``out * (d_out - sum(d_out * out))`` within every sequence."""
    offsets = offsets_of(out, "Out")
    values, grad = array_of(out), array_of(d_out)
    mean = sum_rows((values * grad).reshape(-1), offsets)
    spread = np.repeat(mean, lengths_of(offsets)).reshape(values.shape)
    return same_lod(values * (grad - spread), out)


def context_index(offsets: Index, start: int, length: int) -> Index:
    """``[rows, length]``: for every row the rows ``start, start + 1, ...`` from it, within its sequence.

    What lies outside of the sequence is one row behind the last.
    """
    place, span, first = _places(offsets, start, length)
    return np.where((place >= 0) & (place < span), place + first, int(offsets[-1]))


def _places(offsets: Index, start: int, length: int) -> tuple[Index, Index, Index]:
    """Positions within the sequence ``[rows, length]``, and the sequence's length and first row ``[rows, 1]``."""
    lengths = lengths_of(offsets)
    first = np.repeat(offsets[:-1], lengths)[:, None]
    place = np.arange(int(offsets[-1]))[:, None] - first + np.arange(start, start + length)
    return place, np.repeat(lengths, lengths)[:, None], first


def _padded_context_index(offsets: Index, start: int, length: int) -> Index:
    """As :func:`context_index`; outside stand padding rows, numbered behind all rows, those before the start first.

    ``p`` rows before the start is padding row ``up - p`` of the ``up`` such rows, ``p`` behind the end is ``up + p``.
    """
    place, span, first = _places(offsets, start, length)
    outside = np.where(place < 0, place, place - span) + max(0, -start)
    return np.where((place >= 0) & (place < span), place + first, int(offsets[-1]) + outside)


def _conv_columns(x: Any, padding: Any, start: int, length: int, trainable: bool) -> tuple[Array, Index]:
    """The context matrix ``[rows, length * width]`` and the index that made it."""
    rows = array_of(x)
    offsets = offsets_of(x, "X")
    if trainable and padding is not None:
        table = np.concatenate([rows, array_of(padding)])
        index = _padded_context_index(offsets, start, length)
    else:
        table = np.concatenate([rows, np.zeros((1, rows.shape[1]), rows.dtype)])
        index = context_index(offsets, start, length)
    return table[index].reshape(rows.shape[0], -1), index


@operator("sequence_conv", inputs="X PaddingData? Filter", outputs="Out", lod=True, refuse={"contextStride": 1})
def sequence_conv(
    x: Any,
    padding_data: Any,
    filter: Any,
    *,
    contextLength: int,
    contextStart: int = 0,
    paddingTrainable: bool = False,
) -> Any:
    """The rows ``contextStart ...`` around every row, side by side, times Filter.

    Outside of the sequence stand zeros, or the rows of PaddingData (those before the start first) where
    ``paddingTrainable``.
    """
    weight = array_of(filter)
    columns, _ = _conv_columns(x, padding_data, contextStart, contextLength, paddingTrainable)
    if columns.shape[1] != weight.shape[0]:
        raise ValueError(f"Filter must have contextLength * width = {columns.shape[1]} rows, it has {weight.shape[0]}")
    return same_lod(columns @ weight, x)


@sequence_conv.gradient(
    takes="X PaddingData? Filter Out@GRAD",
    gives="X@GRAD PaddingData@GRAD Filter@GRAD",
    without=lambda attrs: "" if attrs.get("paddingTrainable") else "PaddingData PaddingData@GRAD",
)
def sequence_conv_grad(
    x: Any,
    padding_data: Any,
    filter: Any,
    d_out: Any,
    *,
    contextLength: int,
    contextStart: int = 0,
    paddingTrainable: bool = False,
) -> tuple[Any, Array | None, Array]:
    """The context columns' gradient goes back to the rows they were taken from."""
    rows, grad, weight = array_of(x), array_of(d_out), array_of(filter)
    columns, index = _conv_columns(x, padding_data, contextStart, contextLength, paddingTrainable)
    d_columns = (grad @ weight.T).reshape(index.size, -1)
    trainable = paddingTrainable and padding_data is not None
    count = rows.shape[0] + (array_of(padding_data).shape[0] if trainable else 1)
    d_table = summed_at(index.reshape(-1), d_columns, count)
    d_padding = d_table[rows.shape[0] :] if trainable else None
    return same_lod(d_table[: rows.shape[0]], x), d_padding, columns.T @ grad


def _row_batch(x: Any) -> tuple[Array, Index]:
    """Rows and offsets of a ragged batch, or of a padded one ``[batch, time, width]``."""
    rows = array_of(x)
    if lod_of(x):
        return rows, offsets_of(x, "X")
    if rows.ndim != 3:
        raise ValueError(f"X must carry a LoD or have three dimensions, it has shape {list(rows.shape)}")
    return rows.reshape(-1, rows.shape[2]), np.arange(rows.shape[0] + 1) * rows.shape[1]


def _shifts(offsets: Index, steps: int) -> list[tuple[Index, Index]]:
    """For every step ahead the rows that have one so far ahead in their sequence, and that row."""
    rows = np.arange(int(offsets[-1]))
    left = np.repeat(offsets[1:], lengths_of(offsets)) - rows
    return [(rows[left > step], rows[left > step] + step) for step in range(steps)]


@operator("row_conv", inputs="X Filter", outputs="Out", lod="through")
def row_conv(x: Any, filter: Any) -> Any:
    """Look-ahead convolution: ``out[t] = sum_j x[t + j] * filter[j]`` within every sequence."""
    rows, offsets = _row_batch(x)
    weight = array_of(filter)
    out = np.zeros_like(rows)
    for step, (here, ahead) in enumerate(_shifts(offsets, weight.shape[0])):
        out[here] += rows[ahead] * weight[step]
    return same_lod(out.reshape(x.shape), x)


@row_conv.gradient(takes="X Filter Out@GRAD", gives="X@GRAD Filter@GRAD", lod="through")
def row_conv_grad(x: Any, filter: Any, d_out: Any) -> tuple[Any, Array]:
    """Every row collects from those that looked ahead to it."""
    rows, offsets = _row_batch(x)
    weight, grad = array_of(filter), array_of(d_out).reshape(rows.shape)
    d_x, d_filter = np.zeros_like(rows), np.zeros_like(weight)
    for step, (here, ahead) in enumerate(_shifts(offsets, weight.shape[0])):
        d_x[ahead] += grad[here] * weight[step]
        d_filter[step] = np.einsum("td,td->d", grad[here], rows[ahead])
    return same_lod(d_x.reshape(x.shape), x), d_filter


@operator("sequence_enumerate", inputs="X", outputs="Out", lod=True, gradient=None)
def sequence_enumerate(x: Any, *, win_size: int, pad_value: int = 0) -> Any:
    """``[rows, win_size]``: every id with those that follow it in its sequence, then ``pad_value``."""
    if win_size < 2:
        raise ValueError(f"win_size is {win_size}, it must be 2 or more")
    ids = array_of(x).reshape(-1)
    index = context_index(offsets_of(x, "X"), 0, win_size)
    return same_lod(np.append(ids, np.asarray(pad_value, ids.dtype))[index], x)


@operator("sequence_erase", inputs="X", outputs="Out", lod=True, gradient=None)
def sequence_erase(x: Any, *, tokens: Sequence[int]) -> LoDTensor:
    """The batch without the rows whose id is one of ``tokens``."""
    offsets = offsets_of(x, "X")
    ids = array_of(x)
    kept = ~np.isin(ids.reshape(-1), np.asarray(tokens, np.int64))
    lengths = np.bincount(sequence_ids(lengths_of(offsets))[kept], minlength=offsets.size - 1)
    return dress(ids[kept], *x.lod[:-1], to_offsets(lengths))
