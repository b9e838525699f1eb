"""The helpers of 1.x dynamic RNNs: a rank table of a ragged batch, and the steps that it cuts the batch into.

A *unit* is what one position of a LoD level stands for: a sequence with all levels below it, or a row under
the last level. All operators here take units in some order, see :func:`take_units`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...ir.registry import define, operator
from ..values import Array, LoDTensor, TensorArray, array_of
from .sequence_layout import Index, batch_layout, level_of, lod_of, ranges, same_lod, to_offsets

__all__ = ["RankTable", "take_units"]


@dataclass(frozen=True, slots=True)
class RankTable:
    """The value of a ``LOD_RANK_TABLE`` variable: which sequences are longest.

    Attributes:
        offsets: the ranked LoD level.
        coarse: the levels above it.
    """

    offsets: Index
    coarse: tuple[tuple[int, ...], ...] = ()

    @property
    def lengths(self) -> Index:
        """Lengths of the sequences in rank order: longest first, equal ones in their order."""
        return np.diff(self.offsets)[self.order]

    @property
    def order(self) -> Index:
        """Sequence numbers in rank order."""
        return batch_layout(self.offsets).order

    def alive(self, step: int) -> int:
        """How many sequences are longer than ``step``."""
        return int(np.count_nonzero(np.diff(self.offsets) > step))


def take_units(array: Array, levels: Sequence[Sequence[int]], units: Index) -> Any:
    """The units in the order given; ``levels`` is the LoD from the level of the units on."""
    taken: list[list[int]] = []
    for level in levels:
        offsets = np.asarray(level, np.int64)
        lengths = np.diff(offsets)[units]
        taken.append(to_offsets(lengths).tolist())
        units = ranges(offsets[:-1][units], lengths)
    return LoDTensor(array[units], taken) if taken else array[units]


def _joined(parts: Sequence[Any]) -> tuple[Array, list[list[int]]]:
    """Values end to end, with their LoD levels joined."""
    arrays = [array_of(part) for part in parts]
    depths = {len(lod_of(part)) for part in parts}
    if len(depths) > 1:
        raise ValueError(f"the tensors to join have different numbers of LoD levels: {sorted(depths)}")
    levels = [
        to_offsets(np.concatenate([np.diff(part.lod[depth]) for part in parts])).tolist()
        for depth in range(depths.pop() if depths else 0)
    ]
    return np.concatenate(arrays), levels


def _prefixed(value: Any, levels: Sequence[Sequence[int]]) -> Any:
    if not levels:
        return value
    return LoDTensor(array_of(value), [*(list(level) for level in levels), *lod_of(value)])


def _inverse(order: Index) -> Index:
    inverse = np.empty_like(order)
    inverse[order] = np.arange(order.size)
    return inverse


@operator("lod_rank_table", inputs="X", outputs="Out", lod=True, gradient=None)
def lod_rank_table(x: Any, *, level: int = 0) -> RankTable:
    """Rank the sequences of one LoD level by length."""
    return RankTable(level_of(x, "X", level), tuple(tuple(each) for each in x.lod[:level]))


@operator("max_sequence_len", inputs="RankTable", outputs="Out", lod=True, gradient=None)
def max_sequence_len(table: RankTable) -> Array:
    """The longest length, int64 of shape [1]."""
    return np.array([np.diff(table.offsets).max(initial=0)], np.int64)


@operator("lod_tensor_to_array", inputs="X RankTable", outputs="Out", lod=True)
def lod_tensor_to_array(x: Any, table: RankTable) -> TensorArray:
    """Entry ``t`` holds unit ``t`` of every sequence longer than ``t``, longest sequence first."""
    layout = batch_layout(table.offsets)
    below = lod_of(x)[len(table.coarse) + 1 :]
    rows = array_of(x)
    return TensorArray(take_units(rows, below, layout.rows[begin:end]) for begin, end in layout.spans())


@operator("array_to_lod_tensor", inputs="X RankTable", outputs="Out", lod=True)
def array_to_lod_tensor(x: TensorArray, table: RankTable) -> Any:
    """Steps back to sequences in their first order: the inverse of ``lod_tensor_to_array``."""
    layout = batch_layout(table.offsets)
    if len(x) != len(layout.spans()):
        raise ValueError(f"X has {len(x)} entries, the longest sequence of RankTable has {len(layout.spans())}")
    if not x:
        raise ValueError("X is empty")
    rows, below = _joined(x)
    restored = take_units(rows, below, _inverse(layout.rows))
    return _prefixed(restored, [*table.coarse, table.offsets.tolist()])


lod_tensor_to_array.gradient_op("array_to_lod_tensor", takes="X=Out@GRAD RankTable", gives="Out=X@GRAD")
array_to_lod_tensor.gradient_op("lod_tensor_to_array", takes="X=Out@GRAD RankTable", gives="Out=X@GRAD")


def _reordered(x: Any, order: Index) -> Any:
    rows, lod = array_of(x), lod_of(x)
    count = len(lod[0]) - 1 if lod else rows.shape[0]
    if count != order.size:
        raise ValueError(f"X has {count} units, RankTable ranks {order.size}; they must agree")
    return take_units(rows, lod, order)


@operator("reorder_lod_tensor_by_rank", inputs="X RankTable", outputs="Out", lod=True)
def reorder_lod_tensor_by_rank(x: Any, table: RankTable) -> Any:
    """The sequences (or rows) of X in rank order."""
    return _reordered(x, table.order)


@operator("reorder_lod_tensor_by_rank_grad", inputs="X RankTable", outputs="Out", lod=True, gradient=None)
def reorder_lod_tensor_by_rank_grad(d_out: Any, table: RankTable) -> Any:
    """Rank order back to the first order."""
    return _reordered(d_out, _inverse(table.order))


reorder_lod_tensor_by_rank.gradient_op(
    "reorder_lod_tensor_by_rank_grad", takes="X=Out@GRAD RankTable", gives="Out=X@GRAD"
)


@operator("shrink_rnn_memory", inputs="X RankTable I", outputs="Out", lod=True)
def shrink_rnn_memory(x: Any, table: RankTable, i: Any) -> Any:
    """The state of the sequences that are still running at step I: the first ones in rank order."""
    alive = table.alive(int(array_of(i).reshape(())))
    return take_units(array_of(x), lod_of(x), np.arange(alive))


@shrink_rnn_memory.gradient(takes="X Out@GRAD?", gives="X@GRAD")
def shrink_rnn_memory_grad(x: Any, d_out: Any) -> Any:
    """Zero for the sequences that had ended."""
    d_x = np.zeros_like(array_of(x))
    if d_out is not None:
        rows = array_of(d_out)
        d_x[: rows.shape[0]] = rows
    return same_lod(d_x, x)


def _mask(mask: Any) -> Array:
    return array_of(mask).reshape(-1).astype(bool)


@operator("split_lod_tensor", inputs="X Mask", outputs="OutTrue OutFalse", lod=True)
def split_lod_tensor(x: Any, mask: Any, *, level: int = 0) -> tuple[Any, Any]:
    """The units of one LoD level (rows where there is none) where the mask is true, and where it is false."""
    chosen = _mask(mask)
    rows, levels = array_of(x), lod_of(x)[level:]
    count = len(levels[0]) - 1 if levels else rows.shape[0]
    if chosen.size != count:
        raise ValueError(f"Mask has {chosen.size} entries, X has {count} units on level {level}")
    return (
        take_units(rows, levels, np.flatnonzero(chosen)),
        take_units(rows, levels, np.flatnonzero(~chosen)),
    )


@operator("merge_lod_tensor", inputs="X Mask InTrue InFalse", outputs="Out", lod=True)
def merge_lod_tensor(x: Any, mask: Any, in_true: Any, in_false: Any, *, level: int = 0) -> Any:
    """The inverse of ``split_lod_tensor``; X gives the LoD levels above ``level``."""
    chosen = _mask(mask)
    rows, levels = _joined([in_true, in_false])
    count = len(levels[0]) - 1 if levels else rows.shape[0]
    if chosen.size != count:
        raise ValueError(f"Mask has {chosen.size} entries, InTrue and InFalse have {count} units")
    order = np.concatenate([np.flatnonzero(chosen), np.flatnonzero(~chosen)])
    return _prefixed(take_units(rows, levels, _inverse(order)), lod_of(x)[:level])


define(
    "merge_lod_tensor_infer",
    merge_lod_tensor.kernel,
    inputs="X Mask InTrue InFalse",
    outputs="Out",
    lod=True,
    gradient=None,
)

split_lod_tensor.gradient_op(
    "merge_lod_tensor",
    takes="X Mask InTrue=OutTrue@GRAD InFalse=OutFalse@GRAD",
    gives="Out=X@GRAD",
)
merge_lod_tensor.gradient_op(
    "split_lod_tensor",
    takes="X=Out@GRAD Mask",
    gives="OutTrue=InTrue@GRAD OutFalse=InFalse@GRAD",
)


@operator("rnn_memory_helper", inputs="X", outputs="Out", lod="through", ignores="dtype")
def rnn_memory_helper(x: Any) -> Any:
    """X itself: a state of a recurrent block under the name of the next step."""
    return x


@rnn_memory_helper.gradient(takes="X Out Out@GRAD?", gives="X@GRAD", lod="through")
def rnn_memory_helper_grad(x: Any, out: Any, d_out: Any) -> Any:
    """The gradient itself, zero where nothing used the state."""
    return np.zeros_like(array_of(x)) if d_out is None else d_out
