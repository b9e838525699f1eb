"""Moving whole sequences of ragged batches: join, repeat, cut, reverse, pad, scatter, relabel.

All work on the innermost LoD level and are gathers or scatters of rows by an index that is computed once for
the whole batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ir.registry import operator
from ..values import Array, LoDTensor, array_of
from .sequence_layout import (
    Index,
    dress,
    level_of,
    lod_of,
    offsets_of,
    pad_rows,
    ranges,
    same_lod,
    sequence_ids,
    sum_rows,
    summed_at,
    to_offsets,
)

__all__ = [
    "lod_reset",
    "sequence_concat",
    "sequence_expand",
    "sequence_expand_as",
    "sequence_pad",
    "sequence_reshape",
    "sequence_reverse",
    "sequence_scatter",
    "sequence_slice",
    "sequence_unpad",
]


def _concat_places(xs: Sequence[Any]) -> tuple[list[Index], Index]:
    """For every input the rows of the joined batch that it fills, and the joined offsets."""
    every = [offsets_of(x, "X") for x in xs]
    counts = {offsets.size - 1 for offsets in every}
    if len(counts) != 1:
        raise ValueError(f"X must hold the same number of sequences each, found {sorted(counts)}")
    joined = np.add.reduce(every, axis=0)
    starts = joined[:-1].copy()
    places = []
    for offsets in every:
        lengths = np.diff(offsets)
        places.append(ranges(starts, lengths))
        starts += lengths
    return places, joined


@operator("sequence_concat", inputs="X*", outputs="Out", lod=True)
def sequence_concat(xs: list[Any]) -> LoDTensor:
    """Join the inputs sequence by sequence: the first of each, then the second of each, and so on."""
    places, joined = _concat_places(xs)
    first = array_of(xs[0])
    out = np.empty((int(joined[-1]), *first.shape[1:]), first.dtype)
    for x, place in zip(xs, places, strict=True):
        out[place] = array_of(x)
    return dress(out, joined)


@sequence_concat.gradient(takes="X* Out@GRAD", gives="X@GRAD*")
def sequence_concat_grad(xs: list[Any], d_out: Any) -> list[Any]:
    """Every input takes back the rows that it filled."""
    places, _ = _concat_places(xs)
    rows = array_of(d_out)
    return [same_lod(rows[place], x) for x, place in zip(xs, places, strict=True)]


def _expansion(x: Any, y: Any, ref_level: int) -> tuple[Index, Index | None] | None:
    """Which row of ``x`` stands in every row of the result, and the new lengths where ``x`` has a LoD.

    None when the reference level holds no sequence: the result is ``x`` itself.
    """
    repeats = np.diff(level_of(y, "Y", ref_level))
    if not repeats.size:
        return None
    ragged = len(lod_of(x)) == 1
    rows = array_of(x).shape[0]
    offsets = offsets_of(x, "X") if ragged else np.arange(rows + 1)
    if offsets.size - 1 != repeats.size:
        raise ValueError(f"X has {offsets.size - 1} sequence(s), level {ref_level} of Y has {repeats.size}")
    lengths = np.repeat(np.diff(offsets), repeats)
    return ranges(np.repeat(offsets[:-1], repeats), lengths), lengths if ragged else None


@operator("sequence_expand", inputs="X Y", outputs="Out", lod=True)
def sequence_expand(x: Any, y: Any, *, ref_level: int = -1) -> Any:
    """Repeat sequence (or row) ``i`` of X as often as sequence ``i`` of Y's level ``ref_level`` is long."""
    plan = _expansion(x, y, ref_level)
    if plan is None:
        return x
    index, lengths = plan
    out = array_of(x)[index]
    return out if lengths is None else dress(out, to_offsets(lengths))


@sequence_expand.gradient(takes="X Y Out@GRAD", gives="X@GRAD")
def sequence_expand_grad(x: Any, y: Any, d_out: Any, *, ref_level: int = -1) -> Any:
    """The repetitions of a row add up."""
    plan = _expansion(x, y, ref_level)
    rows = array_of(d_out)
    return same_lod(rows if plan is None else summed_at(plan[0], rows, array_of(x).shape[0]), x)


def _expand_as_offsets(x: Any, y: Any) -> Index:
    offsets = level_of(y, "Y", 0)
    rows = array_of(x).shape[0]
    if offsets.size - 1 != rows:
        raise ValueError(f"X has {rows} row(s), level 0 of Y has {offsets.size - 1} sequence(s); they must agree")
    return offsets


@operator("sequence_expand_as", inputs="X Y", outputs="Out", lod=True)
def sequence_expand_as(x: Any, y: Any) -> LoDTensor:
    """Row ``i`` of X, repeated over the length of sequence ``i`` of Y."""
    offsets = _expand_as_offsets(x, y)
    return dress(np.repeat(array_of(x), np.diff(offsets), axis=0), offsets)


@sequence_expand_as.gradient(takes="X Y Out@GRAD", gives="X@GRAD")
def sequence_expand_as_grad(x: Any, y: Any, d_out: Any) -> Any:
    """The sum of the gradient over every sequence."""
    return same_lod(sum_rows(array_of(d_out), _expand_as_offsets(x, y)), x)


def _rows_by_outer_level(x: Any) -> Index:
    """The outermost level of X, which must count rows."""
    offsets = level_of(x, "X", 0)
    if offsets[-1] != x.array.shape[0]:
        raise ValueError(f"level 0 of the LoD of X ends at {offsets[-1]}, X has {x.array.shape[0]} rows")
    return offsets


@operator("sequence_pad", inputs="X PadValue", outputs="Out Length", lod=True)
def sequence_pad(x: Any, pad_value: Any, *, padded_length: int = -1) -> tuple[Array, Array]:
    """``[sequences, padded_length, ...]`` and the lengths (int64); -1 pads to the longest."""
    offsets = _rows_by_outer_level(x)
    lengths = np.diff(offsets)
    rows, fill = array_of(x), array_of(pad_value)
    if rows.ndim < 2:
        raise ValueError(f"X must have two dimensions or more, it has shape {list(rows.shape)}")
    longest = int(lengths.max(initial=0))
    if padded_length >= 0 and padded_length < longest:
        raise ValueError(f"padded_length is {padded_length}, the longest sequence of X has {longest} rows")
    if fill.size != 1 and fill.shape != rows.shape[1:]:
        raise ValueError(f"PadValue must be one value or have the shape {list(rows.shape[1:])} of a row of X")
    fill = fill.reshape(()) if fill.size == 1 else fill
    return pad_rows(rows, offsets, padded_length, fill), lengths


@sequence_pad.gradient(takes="X Out@GRAD", gives="X@GRAD")
def sequence_pad_grad(x: Any, d_out: Any, *, padded_length: int = -1) -> Any:
    """The gradient without its padding."""
    lengths = np.diff(_rows_by_outer_level(x))
    return same_lod(_unpadded(array_of(d_out), lengths), x)


def _unpadded(padded: Array, lengths: Index) -> Array:
    return padded[sequence_ids(lengths), ranges(np.zeros_like(lengths), lengths)]


def _unpad_lengths(x: Array, length: Any) -> Index:
    lengths = np.asarray(array_of(length), np.int64)
    if x.ndim < 2 or lengths.shape != x.shape[:1]:
        raise ValueError(
            f"Length must give one length for each sequence of X, it has shape {list(lengths.shape)}, "
            f"X has shape {list(x.shape)}"
        )
    if lengths.size and not 0 <= lengths.min() <= lengths.max() <= x.shape[1]:
        raise ValueError(f"Length must lie in [0, {x.shape[1]}], the padded length of X")
    return lengths


@operator("sequence_unpad", inputs="X Length", outputs="Out", lod=True)
def sequence_unpad(x: Any, length: Any) -> LoDTensor:
    """The rows of a padded batch within their lengths; ``[n, t]`` gives rows of one number."""
    padded = array_of(x)
    lengths = _unpad_lengths(padded, length)
    rows = _unpadded(padded, lengths)
    return dress(rows[:, None] if rows.ndim == 1 else rows, to_offsets(lengths))


@sequence_unpad.gradient(takes="X~ Out@GRAD", gives="X@GRAD")
def sequence_unpad_grad(x: Any, d_out: Any) -> Array:
    """Zero behind every sequence; the lengths are the LoD of the gradient."""
    rows = array_of(d_out)
    return pad_rows(rows.reshape(rows.shape[0], *x.shape[2:]), offsets_of(d_out, "Out@GRAD"), x.shape[1])


@operator("sequence_reshape", inputs="X", outputs="Out", lod=True)
def sequence_reshape(x: Any, *, new_dim: int) -> LoDTensor:
    """Every sequence as rows of ``new_dim`` numbers; its size must be a multiple of that."""
    offsets = offsets_of(x, "X")
    rows = array_of(x)
    if rows.ndim != 2:
        raise ValueError(f"X must have two dimensions, it has shape {list(rows.shape)}")
    sizes = offsets * rows.shape[1]
    if new_dim <= 0 or (sizes % new_dim).any():
        raise ValueError(f"new_dim is {new_dim}, every sequence of X must be a multiple of it long (in numbers)")
    return dress(rows.reshape(-1, new_dim), sizes // new_dim)


@sequence_reshape.gradient(takes="X Out@GRAD", gives="X@GRAD")
def sequence_reshape_grad(x: Any, d_out: Any, *, new_dim: int) -> Any:
    """The gradient in the shape of X."""
    return same_lod(array_of(d_out).reshape(x.shape), x)


@operator("sequence_reverse", inputs="X", outputs="Y", lod=True)
def sequence_reverse(x: Any) -> Any:
    """Every sequence from its last row to its first."""
    offsets = offsets_of(x, "X")
    mirror = np.repeat(offsets[:-1] + offsets[1:] - 1, np.diff(offsets))
    return same_lod(array_of(x)[mirror - np.arange(mirror.size)], x)


sequence_reverse.gradient_op("sequence_reverse", takes="X=Y@GRAD", gives="Y=X@GRAD")


def _slice_rows(x: Any, offset: Any, length: Any) -> tuple[Index, Index]:
    """The rows of X that are kept, and their offsets."""
    offsets = offsets_of(x, "X")
    begins = np.asarray(array_of(offset), np.int64).reshape(-1)
    lengths = np.asarray(array_of(length), np.int64).reshape(-1)
    if not begins.size == lengths.size == offsets.size - 1:
        raise ValueError(f"Offset and Length must give one number for each of the {offsets.size - 1} sequences of X")
    if (begins < 0).any() or (lengths < 0).any() or (begins + lengths > np.diff(offsets)).any():
        raise ValueError("Offset and Length must stay within the sequences of X")
    return ranges(offsets[:-1] + begins, lengths), to_offsets(lengths)


@operator("sequence_slice", inputs="X Offset Length", outputs="Out", lod=True)
def sequence_slice(x: Any, offset: Any, length: Any) -> LoDTensor:
    """Of every sequence the ``length`` rows from ``offset`` on."""
    index, offsets = _slice_rows(x, offset, length)
    return dress(array_of(x)[index], offsets)


@sequence_slice.gradient(takes="X Offset Length Out@GRAD", gives="X@GRAD")
def sequence_slice_grad(x: Any, offset: Any, length: Any, d_out: Any) -> Any:
    """Zero outside of the slices."""
    rows = array_of(d_out)
    d_x = np.zeros(x.shape, rows.dtype)
    d_x[_slice_rows(x, offset, length)[0]] = rows
    return same_lod(d_x, x)


def _scatter_places(ids: Any, count: int) -> tuple[Index, Index]:
    offsets = offsets_of(ids, "Ids")
    if offsets.size - 1 != count:
        raise ValueError(f"X has {count} row(s), Ids has {offsets.size - 1} sequence(s); they must agree")
    return sequence_ids(np.diff(offsets)), np.asarray(array_of(ids), np.int64).reshape(-1)


@operator("sequence_scatter", inputs="X Ids Updates", outputs="Out", lod=True)
def sequence_scatter(x: Any, ids: Any, updates: Any) -> Any:
    """Add sequence ``i`` of Updates to row ``i`` of X, at the columns that Ids names."""
    out = array_of(x).copy()
    rows, columns = _scatter_places(ids, out.shape[0])
    np.add.at(out, (rows, columns), array_of(updates).reshape(-1))
    return same_lod(out, x)


@sequence_scatter.gradient(takes="Ids Updates Out@GRAD", gives="X@GRAD Updates@GRAD")
def sequence_scatter_grad(ids: Any, updates: Any, d_out: Any) -> tuple[Any, Any]:
    """X takes the gradient whole, Updates what stands where it was added."""
    grad = array_of(d_out)
    picked = grad[_scatter_places(ids, grad.shape[0])].reshape(updates.shape)
    return d_out, same_lod(picked, updates)


def _target_level(y: Any, target_lod: Sequence[int], rows: int) -> list[int]:
    level = [int(each) for each in (target_lod if y is None else array_of(y).reshape(-1))]
    source = "target_lod" if y is None else "Y"
    if len(level) < 2 or level[0] != 0 or level[-1] != rows or sorted(level) != level:
        raise ValueError(f"{source} must rise from 0 to {rows}, the rows of X; it is {level}")
    return level


@operator("lod_reset", inputs="X Y?", outputs="Out", lod=True)
def lod_reset(x: Any, y: Any, *, target_lod: Sequence[int] = (), append: bool = False) -> Any:
    """X with the LoD of Y, or with the offsets in Y or ``target_lod``; ``append`` adds these as a level."""
    rows = array_of(x)
    if y is not None and lod_of(y):
        if y.lod[-1][-1] != rows.shape[0]:
            raise ValueError(f"the LoD of Y covers {y.lod[-1][-1]} rows, X has {rows.shape[0]}")
        return same_lod(rows, y)
    level = _target_level(y, target_lod, rows.shape[0])
    return dress(rows, *(lod_of(x) if append else ()), level)


@lod_reset.gradient(takes="X Out@GRAD", gives="X@GRAD")
def lod_reset_grad(x: Any, d_out: Any, *, target_lod: Sequence[int] = (), append: bool = False) -> Any:
    """The gradient with the LoD of X."""
    return same_lod(array_of(d_out), x)
