"""Fused sequence operators of inference exports, and the click-through columns of ranking models (``cvm``).

A *cvm* tensor holds, for every row, how often an item was shown and clicked; its two numbers stand in the
first two columns of the features.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ir.registry import operator
from ..values import Array, SelectedRows, array_of
from .rnn_ragged import activation
from .sequence_layout import (
    Index,
    dress,
    lengths_of,
    level_of,
    lod_of,
    offsets_of,
    same_lod,
    sequence_ids,
    sum_rows,
    summed_at,
)
from .sequence_math import context_index, pool_rows

__all__ = [
    "cvm",
    "fused_embedding_seq_pool",
    "fused_seqpool_cvm",
    "fusion_seqconv_eltadd_relu",
    "fusion_seqexpand_concat_fc",
    "fusion_seqpool_concat",
    "fusion_seqpool_cvm_concat",
    "fusion_transpose_flatten_concat",
]


def _logged(features: Array) -> Array:
    """The first two columns as ``log(show + 1)`` and ``log(click + 1) - log(show + 1)``."""
    out: Array = features.copy()
    out[:, :2] = np.log(features[:, :2] + 1)
    out[:, 1] -= out[:, 0]
    return out


@operator("cvm", inputs="X CVM", outputs="Y", lod=True)
def cvm(x: Any, counts: Any, *, use_cvm: bool = True) -> Any:
    """X with its first two columns in logarithms, or without them."""
    rows = array_of(x)
    return same_lod(_logged(rows) if use_cvm else rows[:, 2:], x)


@cvm.gradient(takes="X CVM Y@GRAD", gives="X@GRAD")
def cvm_grad(x: Any, counts: Any, d_y: Any, *, use_cvm: bool = True) -> Any:
    """The gradient of Y; the first two columns are the counts themselves, which is how they are learnt.

    With a LoD, all rows of a sequence take the counts of that sequence.
    """
    grad = array_of(d_y)
    d_x = np.empty(array_of(x).shape, grad.dtype)
    d_x[:, 2:] = grad[:, 2:] if use_cvm else grad
    given = array_of(counts)[:, :2]
    if lod_of(x):
        given = np.repeat(given, lengths_of(offsets_of(x, "X")), axis=0)
    d_x[:, :2] = given
    return same_lod(d_x, x)


@operator("fused_seqpool_cvm", inputs="X* CVM", outputs="Out*", lod=True, refuse={"pooltype": "SUM"})
def fused_seqpool_cvm(
    xs: list[Any], counts: Any, *, pad_value: float = 0.0, use_cvm: bool = True, cvm_offset: int = 2
) -> list[Array]:
    """Every input summed over its sequences (from ``pad_value`` on), then ``cvm``.

    Without ``use_cvm`` the first ``cvm_offset`` columns are dropped.
    """
    pooled = [sum_rows(array_of(x), offsets_of(x, "X")) for x in xs]
    pooled = [rows + np.asarray(pad_value, rows.dtype) for rows in pooled]
    return [_logged(rows) if use_cvm else rows[:, cvm_offset:] for rows in pooled]


@fused_seqpool_cvm.gradient(takes="X* CVM Out@GRAD*", gives="X@GRAD* CVM@GRAD")
def fused_seqpool_cvm_grad(
    xs: list[Any],
    counts: Any,
    d_outs: list[Any],
    *,
    use_cvm: bool = True,
    cvm_offset: int = 2,
) -> tuple[list[Any], Array]:
    """As ``cvm_grad``, spread over the rows of every sequence."""
    given = array_of(counts)
    grads = []
    for x, d_out in zip(xs, d_outs, strict=True):
        tail = array_of(d_out)
        pooled = np.concatenate([given[:, :cvm_offset], tail[:, cvm_offset:] if use_cvm else tail], axis=1)
        rows = np.repeat(pooled.astype(tail.dtype, copy=False), lengths_of(offsets_of(x, "X")), axis=0)
        grads.append(same_lod(rows, x))
    return grads, np.zeros_like(given)


def _pooled(xs: Sequence[Any], pooltype: str, axis: int) -> list[Array]:
    if pooltype not in ("SUM", "AVERAGE", "SQRT"):
        raise ValueError(f"pooltype is {pooltype!r}, it must be SUM, AVERAGE or SQRT")
    if axis != 1:
        raise ValueError(f"axis is {axis}, only 1 is supported")
    widths = {array_of(x).shape[1] for x in xs}
    if len(widths) > 1:
        raise ValueError(f"the inputs X must be equally wide, their widths are {sorted(widths)}")
    return [pool_rows(array_of(x), offsets_of(x, "X"), pooltype) for x in xs]


def _side_by_side(parts: Sequence[Array]) -> Any:
    """The columns of all parts; every row is a sequence of one."""
    out = np.concatenate(parts, axis=1)
    return dress(out, np.arange(out.shape[0] + 1))


@operator("fusion_seqpool_concat", inputs="X*", outputs="Out", lod=True, gradient=None)
def fusion_seqpool_concat(xs: list[Any], *, pooltype: str = "SUM", axis: int = 1) -> Any:
    """Every input pooled over its sequences, side by side."""
    return _side_by_side(_pooled(xs, pooltype, axis))


@operator(
    "fusion_seqpool_cvm_concat",
    inputs="X* CVM",
    outputs="Out",
    lod=True,
    gradient=None,
    refuse={"use_cvm": True},
)
def fusion_seqpool_cvm_concat(xs: list[Any], counts: Any, *, pooltype: str = "SUM", axis: int = 1) -> Any:
    """Every input pooled over its sequences and through ``cvm``, side by side."""
    return _side_by_side([_logged(rows) for rows in _pooled(xs, pooltype, axis)])


@operator(
    "fusion_seqconv_eltadd_relu",
    inputs="X Filter Bias",
    outputs="Out ColMat",
    lod=True,
    gradient=None,
    refuse={"contextStride": 1},
)
def fusion_seqconv_eltadd_relu(
    x: Any,
    filter: Any,
    bias: Any,
    *,
    contextLength: int,
    contextStart: int = 0,
) -> tuple[Any, Array]:
    """``relu(sequence_conv(X, Filter) + Bias)`` and the context matrix."""
    rows = array_of(x)
    needed = contextLength * rows.shape[1]
    if len(filter) != needed:
        raise ValueError(f"Filter must have contextLength * width = {needed} rows, it has {len(filter)}")
    index = context_index(offsets_of(x, "X"), contextStart, contextLength)
    columns = np.concatenate([rows, np.zeros((1, rows.shape[1]), rows.dtype)])[index]
    columns = columns.reshape(rows.shape[0], needed)
    out = columns @ array_of(filter) + array_of(bias).reshape(-1)
    return same_lod(np.maximum(out, 0, out=out), x), columns


@operator(
    "fusion_seqexpand_concat_fc",
    inputs="X* FCWeight FCBias?",
    outputs="Out FCOut",
    lod=True,
    gradient=None,
)
def fusion_seqexpand_concat_fc(
    xs: list[Any], weight: Any, bias: Any, *, fc_activation: str = "identity"
) -> tuple[Any, Array]:
    """``act([rows of the first input, the others' row of that sequence] @ FCWeight + FCBias)``.

    FCOut is the part of the product that the other inputs give, one row for every sequence.
    """
    offsets = offsets_of(xs[0], "X")
    first, w = array_of(xs[0]), array_of(weight)
    others = [array_of(x) for x in xs[1:]]
    if any(other.shape[0] != offsets.size - 1 for other in others):
        raise ValueError(f"the further inputs of X must have a row for each of {offsets.size - 1} sequences")
    per_sequence = np.zeros((offsets.size - 1, w.shape[1]), first.dtype)
    if others:
        per_sequence = np.concatenate(others, axis=1) @ w[first.shape[1] :]
    out = first @ w[: first.shape[1]] + np.repeat(per_sequence, lengths_of(offsets), axis=0)
    if bias is not None:
        out += array_of(bias).reshape(-1)
    return same_lod(activation(fc_activation, "fc_activation").apply(out), xs[0]), per_sequence


def _id_table(ids: Any) -> tuple[Index, Index]:
    """Ids as ``[rows, ids per row]``, and the offsets of their sequences."""
    table = np.asarray(array_of(ids), np.int64)
    offsets = level_of(ids, "Ids", 0)
    return table.reshape(table.shape[0], -1), offsets


def _check_combiner(combiner: str) -> None:
    if combiner != "sum":
        raise ValueError(f"combiner is {combiner!r}, only 'sum' is supported")


@operator("fused_embedding_seq_pool", inputs="W Ids", outputs="Out", lod=True, ignores="grad_inplace is_sparse")
def fused_embedding_seq_pool(w: Any, ids: Any, *, combiner: str = "sum", padding_idx: int = -1) -> Array:
    """The rows of W that every sequence's ids name, summed; several ids in a row stand side by side.

    ``padding_idx`` (-1: none) counts as a row of zeros.
    """
    _check_combiner(combiner)
    table, (rows, offsets) = array_of(w), _id_table(ids)
    if rows.size and not 0 <= rows.min() <= rows.max() < table.shape[0]:
        raise ValueError(f"Ids must lie in [0, {table.shape[0]}), the rows of W")
    picked = table[rows]
    if padding_idx != -1:
        picked[rows == padding_idx] = 0
    return sum_rows(picked.reshape(rows.shape[0], rows.shape[1] * table.shape[1]), offsets)


@fused_embedding_seq_pool.gradient(takes="W Ids Out@GRAD", gives="W@GRAD")
def fused_embedding_seq_pool_grad(
    w: Any, ids: Any, d_out: Any, *, padding_idx: int = -1, is_sparse: bool = False
) -> Array | SelectedRows:
    """The gradient of a sequence for every id of it; as selected rows where ``is_sparse``."""
    table, (rows, offsets) = array_of(w), _id_table(ids)
    grad = array_of(d_out).reshape(offsets.size - 1, rows.shape[1], table.shape[1])
    values = grad[sequence_ids(lengths_of(offsets))].reshape(rows.size, table.shape[1])
    flat = rows.reshape(-1)
    if padding_idx != -1:
        values = np.where((flat == padding_idx)[:, None], 0, values)
    if is_sparse:
        return SelectedRows(flat, values, table.shape[0])
    return summed_at(flat, values, table.shape[0])


@operator("fusion_transpose_flatten_concat", inputs="X*", outputs="Out", gradient=None)
def fusion_transpose_flatten_concat(
    xs: list[Array], *, trans_axis: Sequence[int], flatten_axis: int, concat_axis: int
) -> Array:
    """Every input transposed, made two-dimensional at ``flatten_axis``, and joined."""
    parts = []
    for x in xs:
        turned = x.transpose(tuple(trans_axis))
        shape = turned.shape
        parts.append(turned.reshape(int(np.prod(shape[:flatten_axis])), int(np.prod(shape[flatten_axis:]))))
    return np.concatenate(parts, axis=concat_axis)
