"""Graph learning: segment pooling, messages along edges, node renumbering and neighbour sampling."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...ir.registry import operator
from ..random import generator
from ..values import Array
from .common import add_rows, as_ints, unbroadcast
from .gather_scatter import checked_index

__all__ = [
    "graph_khop_sampler",
    "graph_reindex",
    "graph_sample_neighbors",
    "graph_send_recv",
    "graph_send_ue_recv",
    "graph_send_uv",
    "segment_pool",
    "weighted_sample_neighbors",
]

Ints = Sequence[int]

_REDUCTIONS = ("SUM", "MEAN", "MIN", "MAX")


def _extremes(rows: Array, index: Array, count: int, choose: np.ufunc) -> Array:
    """Per target the smallest or largest of its rows; zeros where a target has none."""
    out = np.zeros((count, *rows.shape[1:]), rows.dtype)
    if len(index):
        order = np.argsort(index, kind="stable")
        ordered = index[order]
        starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
        out[ordered[starts]] = choose.reduceat(rows[order], starts, axis=0)
    return out


def _columns(values: Array, like: Array) -> Array:
    """A number per row, shaped to divide the rows of ``like``."""
    return values.reshape(-1, *(1,) * (like.ndim - 1))


def _reduced(rows: Array, index: Array, count: int, reduce: str) -> Array:
    """The rows of each target summed, averaged, or their extreme."""
    if reduce not in _REDUCTIONS:
        raise ValueError(f"the reduction is '{reduce}', not one of {', '.join(_REDUCTIONS)}")
    if reduce in ("MIN", "MAX"):
        return _extremes(rows, index, count, np.minimum if reduce == "MIN" else np.maximum)
    out = np.zeros((count, *rows.shape[1:]), rows.dtype)
    add_rows(out, index, rows)
    if reduce == "MEAN":
        sizes = np.maximum(np.bincount(index, minlength=count), 1)
        out = (out / _columns(sizes, out)).astype(rows.dtype)
    return out


def _reduced_grad(rows: Array, index: Array, out: Array, d_out: Array, reduce: str) -> Array:
    """What each row gets: the target's gradient, its share of a mean, or all of it where it is the extreme."""
    taken = d_out[index]
    if reduce == "MEAN":
        sizes = np.maximum(np.bincount(index, minlength=len(out)), 1)
        return (taken / _columns(sizes[index], taken)).astype(d_out.dtype)
    if reduce in ("MIN", "MAX"):
        return np.where(rows == out[index], taken, np.zeros((), taken.dtype))
    return taken


@operator("segment_pool", inputs="X SegmentIds", outputs="Out SummedIds")
def segment_pool(x: Array, segments: Array, *, pooltype: str = "SUM") -> tuple[Array, Array | None]:
    """Per segment (ascending ids, one per row) the reduced rows of X; SummedIds counts them for a mean."""
    ids = segments.reshape(-1).astype(np.int64)
    if len(ids) != len(x) or not len(ids):
        raise ValueError(f"SegmentIds holds {len(ids)} ids for the {len(x)} rows of X, one each is needed")
    if ids[0] < 0 or (np.diff(ids) < 0).any():
        raise ValueError("SegmentIds is not ascending from 0 on")
    count = int(ids[-1]) + 1
    out = _reduced(x, ids, count, pooltype)
    sizes = np.bincount(ids, minlength=count).astype(x.dtype).reshape(-1, 1) if pooltype == "MEAN" else None
    return out, sizes


@segment_pool.gradient(takes="X SegmentIds Out SummedIds? Out@GRAD", gives="X@GRAD")
def segment_pool_grad(
    x: Array, segments: Array, out: Array, sizes: Any, d_out: Array, *, pooltype: str = "SUM"
) -> Array:
    """Each row's part of its segment's gradient."""
    return _reduced_grad(x, segments.reshape(-1), out, d_out, pooltype)


def _rows_out(size_tensor: Any, out_size: Ints | int, rows: int) -> int:
    if size_tensor is not None:
        stated = as_ints(size_tensor)[0]
    else:
        stated = out_size if isinstance(out_size, int) else out_size[0] if len(out_size) else 0
    return stated if stated > 0 else rows


def _arrivals(index: Array, count: int, reduce: str) -> Array | None:
    return np.bincount(index, minlength=count).astype(np.int32) if reduce == "MEAN" else None


@operator("graph_send_recv", inputs="X Src_index Dst_index Out_size?", outputs="Out Dst_count")
def graph_send_recv(
    x: Array,
    src: Array,
    dst: Array,
    size_tensor: Any,
    *,
    reduce_op: str = "SUM",
    out_size: Ints | int = (0,),
) -> tuple[Array, Array | None]:
    """Rows of X sent from Src_index to Dst_index and reduced there; ``out_size`` targets, or as X has rows."""
    count = _rows_out(size_tensor, out_size, len(x))
    targets = checked_index(dst, count, "Dst_index")
    rows = x[checked_index(src, len(x), "Src_index")]
    return _reduced(rows, targets, count, reduce_op), _arrivals(targets, count, reduce_op)


@graph_send_recv.gradient(takes="X Src_index Dst_index Out? Dst_count? Out@GRAD", gives="X@GRAD")
def graph_send_recv_grad(
    x: Array, src: Array, dst: Array, out: Array, arrived: Any, d_out: Array, *, reduce_op: str = "SUM"
) -> Array:
    """Each edge's part of its target's gradient, added up at the source."""
    grad = np.zeros(x.shape, d_out.dtype)
    add_rows(grad, src, _reduced_grad(x[src], dst, d_out if out is None else out, d_out, reduce_op))
    return grad


_MESSAGES: dict[str, Callable[[Array, Array], Array]] = {"ADD": np.add, "MUL": np.multiply}
"""How the two parts of a message meet; differences and quotients are exported by negating or inverting one."""


def _message(x: Array, y: Array, op: str) -> Array:
    if op not in _MESSAGES:
        raise ValueError(f"message_op is '{op}', not one of {', '.join(_MESSAGES)}")
    return _MESSAGES[op](x, y)


def _message_grads(x: Array, y: Array, d_message: Array, op: str) -> tuple[Array, Array]:
    """The gradients of a message by its two parts, summed over what was broadcast."""
    d_x, d_y = (d_message * y, d_message * x) if op == "MUL" else (d_message, d_message)
    return unbroadcast(d_x, x.shape), unbroadcast(d_y, y.shape)


@operator("graph_send_ue_recv", inputs="X Y Src_index Dst_index Out_size?", outputs="Out Dst_count")
def graph_send_ue_recv(
    x: Array,
    y: Array,
    src: Array,
    dst: Array,
    size_tensor: Any,
    *,
    message_op: str = "ADD",
    reduce_op: str = "SUM",
    out_size: Ints | int = (0,),
) -> tuple[Array, Array | None]:
    """As ``graph_send_recv``, the message being X's row and the edge's row of Y added or multiplied."""
    count = _rows_out(size_tensor, out_size, len(x))
    targets = checked_index(dst, count, "Dst_index")
    rows = _message(*_aligned(x[checked_index(src, len(x), "Src_index")], y), message_op)
    return _reduced(rows, targets, count, reduce_op), _arrivals(targets, count, reduce_op)


def _aligned(x: Array, y: Array) -> tuple[Array, Array]:
    """Both with one rank: ones go behind the first dimension, which counts edges."""
    ndim = max(x.ndim, y.ndim)
    return tuple(each.reshape(len(each), *(1,) * (ndim - each.ndim), *each.shape[1:]) for each in (x, y))  # type: ignore[return-value]


@graph_send_ue_recv.gradient(takes="X Y Src_index Dst_index Out? Dst_count? Out@GRAD", gives="X@GRAD Y@GRAD")
def graph_send_ue_recv_grad(
    x: Array,
    y: Array,
    src: Array,
    dst: Array,
    out: Array,
    arrived: Any,
    d_out: Array,
    *,
    message_op: str = "ADD",
    reduce_op: str = "SUM",
) -> tuple[Array, Array]:
    """Each edge's part of its target's gradient, to Y's row and added up at X's."""
    sent, edge = _aligned(x[src], y)
    rows = _message(sent, edge, message_op)
    d_rows = _reduced_grad(rows, dst, d_out if out is None else out, d_out, reduce_op)
    d_sent, d_edge = _message_grads(sent, edge, d_rows, message_op)
    d_x = np.zeros(x.shape, d_out.dtype)
    add_rows(d_x, src, d_sent.reshape(len(src), *x.shape[1:]))
    return d_x, d_edge.reshape(y.shape)


@operator("graph_send_uv", inputs="x y src_index dst_index", outputs="out")
def graph_send_uv(x: Array, y: Array, src: Array, dst: Array, *, message_op: str = "ADD") -> Array:
    """Per edge the rows of x at its source and of y at its target, combined."""
    sent = x[checked_index(src, len(x), "src_index")]
    return _message(*_aligned(sent, y[checked_index(dst, len(y), "dst_index")]), message_op)


@graph_send_uv.gradient(takes="x y src_index dst_index out@GRAD", gives="x@GRAD y@GRAD")
def graph_send_uv_grad(
    x: Array, y: Array, src: Array, dst: Array, d_out: Array, *, message_op: str = "ADD"
) -> tuple[Array, Array]:
    """The edges' gradients added up at their sources and targets."""
    sent, received = _aligned(x[src], y[dst])
    d_sent, d_received = _message_grads(sent, received, d_out, message_op)
    d_x, d_y = np.zeros(x.shape, d_out.dtype), np.zeros(y.shape, d_out.dtype)
    add_rows(d_x, src, d_sent.reshape(len(src), *x.shape[1:]))
    add_rows(d_y, dst, d_received.reshape(len(dst), *y.shape[1:]))
    return d_x, d_y


def _renumbered(nodes: Array, neighbors: Array) -> tuple[Array, Array]:
    """All nodes in order of appearance, and the number of each neighbour among them."""
    joined = np.concatenate([nodes, neighbors])
    _, first, inverse = np.unique(joined, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return joined[first[order]], rank[inverse.reshape(-1)][len(nodes) :]


@operator(
    "graph_reindex",
    inputs="X Neighbors Count HashTable_Value? HashTable_Index?",
    outputs="Reindex_Src Reindex_Dst Out_Nodes",
    ignores="flag_buffer_hashtable",
    gradient=None,
)
def graph_reindex(x: Array, neighbors: Array, count: Array, values: Any, index: Any) -> tuple[Array, Array, Array]:
    """Edges renumbered from 0: sources, targets (``Count`` edges for each of X, per edge type), and the nodes."""
    if len(count) % max(len(x), 1):
        raise ValueError(f"Count holds {len(count)} numbers, a multiple of the {len(x)} nodes of X is needed")
    nodes, sources = _renumbered(x, neighbors)
    targets = np.repeat(np.tile(np.arange(len(x)), len(count) // max(len(x), 1)), count)
    return sources.astype(x.dtype), targets.astype(x.dtype), nodes


def _neighbour_ranges(row: Array, column: Array, nodes: Array) -> tuple[Array, Array]:
    """Where the neighbours of each node start in ``row``, and how many there are."""
    places = checked_index(nodes.reshape(-1), column.size - 1, "X")
    starts = column.reshape(-1)[places].astype(np.int64)
    return starts, column.reshape(-1)[places + 1].astype(np.int64) - starts


def _sampled_edges(
    row: Array, column: Array, nodes: Array, size: int, weight: Array | None = None
) -> tuple[Array, Array]:
    """Places in ``row`` of at most ``size`` neighbours of each node (all for a negative size), and counts.

    A node with more gets a random choice of them, in proportion to ``weight`` where there is one.
    """
    starts, counts = _neighbour_ranges(row, column, nodes)
    draw = generator()
    chosen = []
    for start, count in zip(starts, counts, strict=True):
        places = np.arange(start, start + count)
        if 0 <= size < count:
            rates = 1.0 if weight is None else weight[places]
            with np.errstate(divide="ignore"):
                times = draw.standard_exponential(count) / rates
            places = places[np.sort(np.argpartition(times, size)[:size])] if size else places[:0]
        chosen.append(places)
    taken = np.array([len(each) for each in chosen], np.int32)
    return np.concatenate(chosen) if chosen else np.zeros(0, np.int64), taken


@operator(
    "graph_sample_neighbors",
    inputs="Row Col_Ptr X Eids? Perm_Buffer?",
    outputs="Out Out_Count Out_Eids",
    ignores="flag_perm_buffer",
    gradient=None,
)
def graph_sample_neighbors(
    row: Array,
    column: Array,
    x: Array,
    eids: Array | None,
    buffer: Any,
    *,
    sample_size: int = -1,
    return_eids: bool = False,
) -> tuple[Array, Array, Array | None]:
    """At most ``sample_size`` neighbours of each node of X from a graph in compressed columns.

    Out holds them end to end, Out_Count how many each node has, Out_Eids the ids of their edges.
    """
    places, counts = _sampled_edges(row.reshape(-1), column, x, sample_size)
    edges = _edge_ids(eids, places, return_eids)
    return row.reshape(-1)[places], counts, edges


def _edge_ids(eids: Array | None, places: Array, wanted: bool) -> Array | None:
    if not wanted:
        return None
    if eids is None:
        raise ValueError("return_eids is set, which needs the slot of edge ids")
    return eids.reshape(-1)[places]


@operator(
    "weighted_sample_neighbors",
    inputs="row colptr edge_weight input_nodes eids?",
    outputs="out_neighbors out_count out_eids",
    gradient=None,
)
def weighted_sample_neighbors(
    row: Array,
    column: Array,
    weight: Array,
    nodes: Array,
    eids: Array | None,
    *,
    sample_size: int,
    return_eids: bool,
) -> tuple[Array, Array, Array | None]:
    """As ``graph_sample_neighbors``, the choice being in proportion to the edges' weights."""
    places, counts = _sampled_edges(row.reshape(-1), column, nodes, sample_size, weight.reshape(-1))
    return row.reshape(-1)[places], counts, _edge_ids(eids, places, return_eids)


@operator(
    "graph_khop_sampler",
    inputs="Row Eids? Col_Ptr X",
    outputs="Out_Src Out_Dst Sample_Index Reindex_X Out_Eids",
    gradient=None,
)
def graph_khop_sampler(
    row: Array,
    eids: Array | None,
    column: Array,
    x: Array,
    *,
    sample_sizes: Ints = (),
    return_eids: bool = False,
) -> tuple[Array, Array, Array, Array, Array | None]:
    """Neighbours of neighbours, hop by hop, each hop with its sample size.

    Out_Src and Out_Dst [edges, 1] are renumbered ends of the sampled edges, Sample_Index the nodes in order
    of their new numbers, Reindex_X the new numbers of X.
    """
    flat = row.reshape(-1)
    start = x.reshape(-1)
    frontier, known = start, start
    places, targets = [], []
    for size in sample_sizes:
        taken, counts = _sampled_edges(flat, column, frontier, size)
        places.append(taken)
        targets.append(np.repeat(frontier, counts))
        reached = np.unique(flat[taken])
        frontier = reached[~np.isin(reached, known)]
        known = np.concatenate([known, frontier])
    taken = np.concatenate(places) if places else np.zeros(0, np.int64)
    nodes, numbers = _renumbered(start, np.concatenate([flat[taken], *targets]))
    sources, ends = numbers[: len(taken)], numbers[len(taken) :]
    own = _renumbered(nodes, start)[1]
    return (
        sources.astype(x.dtype).reshape(-1, 1),
        ends.astype(x.dtype).reshape(-1, 1),
        nodes,
        own.astype(x.dtype).reshape(x.shape),
        _edge_ids(eids, taken, return_eids),
    )
