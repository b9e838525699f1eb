"""Tables looked up by id, one-hot rows, and the id arithmetic around them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ir.dtypes import DType, to_numpy
from ...ir.registry import operator
from ..values import Array, LoDTensor, Meta, SelectedRows
from .common import add_rows, as_ints

__all__ = ["c_embedding", "lookup_table", "lookup_table_v2", "one_hot", "one_hot_v2", "shard_index"]

NO_PADDING = -1

_SERVER = """remote_prefetch entry_config is_test entry table_class table_names trainer_id slot grad_inplace epmap
height_sections is_distributed"""
"""Attributes that tell a parameter server where the table lies."""


def _checked_ids(ids: Array, height: int, padding_idx: int) -> Array:
    places = ids.reshape(-1)
    if places.dtype not in (np.int32, np.int64):
        raise TypeError(f"Ids is {ids.dtype}, int32 or int64 is needed")
    if places.size:
        low, high = int(places.min()), int(places.max())
        if low < 0 or high >= height:
            inside = (places >= 0) & (places < height) | (places == padding_idx)
            if padding_idx == NO_PADDING or not inside.all():
                raise ValueError(f"Ids holds {low if low < 0 else high}, the table W has {height} row(s)")
            return np.where(places == padding_idx, 0, places)
    return places


def _looked_up(w: Array, ids: Array, padding_idx: int) -> Array:
    """One row of ``w`` per id, zeros for the padding id. Shape [count, width]."""
    if w.ndim != 2:
        raise ValueError(f"W has shape {list(w.shape)}, a matrix is needed")
    rows = np.take(w, _checked_ids(ids, w.shape[0], padding_idx), 0)
    if padding_idx != NO_PADDING:
        rows[ids.reshape(-1) == padding_idx] = 0
    return rows


def _without_one(ids: Array) -> tuple[int, ...]:
    """The shape of ids of 1.x without their last dimension, which is 1."""
    if not ids.ndim or ids.shape[-1] != 1:
        raise ValueError(f"Ids has shape {list(ids.shape)}, the last dimension must be 1")
    return ids.shape[:-1]


@operator("lookup_table", inputs="W Ids", outputs="Out", share_lod="Ids", ignores=_SERVER)
def lookup_table(w: Array, ids: Array, *, padding_idx: int = NO_PADDING, is_sparse: bool = False) -> Array:
    """Rows of W by id (1.x: the last dimension of Ids is 1); zeros for ``padding_idx``."""
    return _looked_up(w, ids, padding_idx).reshape(*_without_one(ids), w.shape[1])


@operator("lookup_table_v2", inputs="Ids W", outputs="Out", ignores=_SERVER)
def lookup_table_v2(ids: Array, w: Array, *, padding_idx: int = NO_PADDING, is_sparse: bool = False) -> Array:
    """Rows of W by id: shape of Ids and the width of W; zeros for ``padding_idx``."""
    return _looked_up(w, ids, padding_idx).reshape(*ids.shape, w.shape[1])


def _table_grad(ids: Array, w: Any, d_out: Array, padding_idx: int, is_sparse: bool) -> Array | SelectedRows:
    """The table's gradient: the rows as they came (sparse), or added up; padding rows stay zero when dense."""
    height, width = w.shape
    rows = d_out.reshape(-1, width)
    places = _checked_ids(ids, height, padding_idx).astype(np.int64, copy=False)
    if is_sparse:
        return SelectedRows(places, rows, height)
    grad = np.zeros((height, width), d_out.dtype)
    if padding_idx != NO_PADDING:
        kept = ids.reshape(-1) != padding_idx
        places, rows = places[kept], rows[kept]
    add_rows(grad, places, rows)
    return grad


@lookup_table.gradient(takes="W~ Ids Out@GRAD", gives="W@GRAD")
def lookup_table_grad(
    w: Array | Meta, ids: Array, d_out: Array, *, padding_idx: int = NO_PADDING, is_sparse: bool = False
) -> Array | SelectedRows:
    """Add the gradients of equal ids; with ``is_sparse`` as selected rows."""
    return _table_grad(ids, w, d_out, padding_idx, is_sparse)


@lookup_table_v2.gradient(takes="Ids W~ Out@GRAD", gives="W@GRAD")
def lookup_table_v2_grad(
    ids: Array, w: Array | Meta, d_out: Array, *, padding_idx: int = NO_PADDING, is_sparse: bool = False
) -> Array | SelectedRows:
    """Add the gradients of equal ids; with ``is_sparse`` as selected rows."""
    return _table_grad(ids, w, d_out, padding_idx, is_sparse)


@operator("lookup_table_dequant", inputs="W Ids", outputs="Out", share_lod="Ids", gradient=None)
def lookup_table_dequant(w: Array, ids: Array, *, padding_idx: int = NO_PADDING) -> Array:
    """Rows of a table of bytes: each row of W holds its minimum, its maximum, and codes of 1/256 of the range.

    The codes lie four to a float32, so that a row of width n gives ``(n - 2) * 4`` numbers.
    """
    packed = np.ascontiguousarray(np.take(w, _checked_ids(ids, w.shape[0], padding_idx), 0))
    low, high = packed[:, :1], packed[:, 1:2]
    codes = np.ascontiguousarray(packed[:, 2:]).view(np.uint8)
    rows: Array = (high - low) / np.float32(256) * codes + low
    if padding_idx != NO_PADDING:
        rows[ids.reshape(-1) == padding_idx] = 0
    return rows.astype(np.float32, copy=False).reshape(*_without_one(ids), rows.shape[-1])


def _local(ids: Array, start: int, height: int) -> tuple[Array, Array]:
    """Ids as places in a part of the table, and which of them lie in it."""
    places = ids.reshape(-1).astype(np.int64) - start
    return places, (places >= 0) & (places < height)


@operator("c_embedding", inputs="W Ids", outputs="Out", share_lod="Ids", ignores="vocab_size")
def c_embedding(w: Array, ids: Array, *, start_index: int = 0) -> Array:
    """Rows of a part of a table that starts at ``start_index``; zeros for ids of other parts."""
    places, inside = _local(ids, start_index, w.shape[0])
    rows = np.zeros((len(places), w.shape[1]), w.dtype)
    rows[inside] = w[places[inside]]
    return rows.reshape(*ids.shape, w.shape[1])


@c_embedding.gradient(takes="W~ Ids Out@GRAD", gives="W@GRAD")
def c_embedding_grad(w: Array | Meta, ids: Array, d_out: Array, *, start_index: int = 0) -> Array:
    """Add the gradients of the ids that lie in this part."""
    places, inside = _local(ids, start_index, w.shape[0])
    grad = np.zeros(w.shape, d_out.dtype)
    add_rows(grad, places[inside], d_out.reshape(-1, w.shape[1])[inside])
    return grad


@operator("fused_embedding_eltwise_layernorm", inputs="Ids* Embs* Bias Scale", outputs="Out", gradient=None)
def fused_embedding_eltwise_layernorm(
    ids: Sequence[Array], tables: Sequence[Array], bias: Array, scale: Array, *, epsilon: float = 1e-5
) -> Array:
    """The sum of several embeddings, normalised over the last dimension, scaled and shifted."""
    if not ids or len(ids) != len(tables):
        raise ValueError(f"Ids holds {len(ids)} tensors and Embs {len(tables)}, they go in pairs")
    total = np.zeros((ids[0].size, tables[0].shape[1]), np.float32)
    for each, table in zip(ids, tables, strict=True):
        total += _looked_up(table, each, NO_PADDING)
    total -= total.mean(axis=1, keepdims=True)
    total /= np.sqrt(np.mean(total * total, axis=1, keepdims=True) + np.float32(epsilon))
    total = total * scale.astype(np.float32) + bias.astype(np.float32)
    shape = ids[0].shape[:-1] if ids[0].ndim == 3 and ids[0].shape[-1] == 1 else ids[0].shape
    return total.astype(tables[0].dtype, copy=False).reshape(*shape, tables[0].shape[1])


def _one_hot(x: Array, depth_tensor: Any, depth: int, dtype: int, lenient: bool) -> Array:
    """Rows of ``depth`` zeros with a one at each id. Shape [count, depth]."""
    width = depth if depth_tensor is None else as_ints(depth_tensor)[0]
    places = x.reshape(-1)
    inside = (places >= 0) & (places < width)
    if not lenient and not inside.all():
        raise ValueError(f"X holds {places[~inside][0]}, outside the depth of {width}")
    rows = np.zeros((len(places), width), to_numpy(dtype))
    (which,) = np.nonzero(inside)
    rows[which, places[which]] = 1
    return rows


@operator("one_hot", inputs="X depth_tensor?", outputs="Out", gradient=None)
def one_hot(
    x: Array,
    depth_tensor: Any,
    *,
    depth: int = -1,
    dtype: int = DType.FP32,
    allow_out_of_range: bool = False,
) -> Array:
    """One-hot rows of ids whose last dimension is 1 (1.x)."""
    shape = _without_one(x)
    rows = _one_hot(x, depth_tensor, depth, dtype, allow_out_of_range)
    return rows.reshape(*shape, rows.shape[-1])


@operator("one_hot_v2", inputs="X depth_tensor?", outputs="Out", gradient=None)
def one_hot_v2(
    x: Array,
    depth_tensor: Any,
    *,
    depth: int = -1,
    dtype: int = DType.FP32,
    allow_out_of_range: bool = False,
) -> Array:
    """One-hot rows of ids, ``depth`` as a new last dimension; ids out of range are refused or give zeros."""
    rows = _one_hot(x, depth_tensor, depth, dtype, allow_out_of_range)
    return rows.reshape(*x.shape, rows.shape[1])


@operator("shard_index", inputs="X", outputs="Out", gradient=None)
def shard_index(x: Array, *, index_num: int, nshards: int, shard_id: int, ignore_value: int = -1) -> Array:
    """Ids as places in shard ``shard_id`` of ``nshards``; ``ignore_value`` for ids of other shards."""
    if index_num <= 0 or nshards <= 0 or not 0 <= shard_id < nshards:
        raise ValueError(f"index_num {index_num}, nshards {nshards} and shard_id {shard_id} do not go together")
    if x.size and not 0 <= int(x.min()) <= int(x.max()) < index_num:
        raise ValueError(f"X holds an id outside [0, {index_num})")
    size = -(-index_num // nshards)
    return np.where(x // size == shard_id, x % size, x.dtype.type(ignore_value))


@operator("sequence_mask", inputs="X MaxLenTensor?", outputs="Y", gradient=None)
def sequence_mask(x: Array | LoDTensor, max_len_tensor: Any, *, maxlen: int = -1, out_dtype: int) -> Array:
    """Ones where the position lies before the length, over a new last dimension of ``maxlen`` positions.

    Without a limit (negative) the longest length is taken.
    """
    lengths = x.array if isinstance(x, LoDTensor) else x
    limit = maxlen if max_len_tensor is None else as_ints(max_len_tensor)[0]
    if limit == 0:
        raise ValueError("maxlen is 0, it is positive, or negative for the longest length")
    if limit < 0:
        if not lengths.size:
            raise ValueError("X is empty and maxlen is not stated")
        limit = int(lengths.max())
    return (np.arange(limit) < lengths[..., None]).astype(to_numpy(out_dtype))
