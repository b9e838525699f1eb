"""Routing of mixtures of experts: counting, capacity limits, pruning, and the order of tokens by expert."""

from __future__ import annotations

import numpy as np

from ...ir.registry import operator
from ..values import Array

__all__ = ["assign_pos", "limit_by_capacity", "number_count", "prune_gate_by_capacity", "random_routing"]


@operator("number_count", inputs="numbers", outputs="Out", gradient=None)
def number_count(numbers: Array, *, upper_range: int) -> Array:
    """How often each number below ``upper_range`` occurs (others are not counted), int64."""
    flat = numbers.reshape(-1)
    inside = flat[(flat >= 0) & (flat < upper_range)]
    return np.bincount(inside, minlength=upper_range).astype(np.int64, copy=False)


@operator("limit_by_capacity", inputs="expert_count capacity", outputs="Out", gradient=None)
def limit_by_capacity(counts: Array, capacity: Array, *, n_worker: int) -> Array:
    """The counts of all workers cut so that each expert stays within its capacity, first workers first."""
    per_worker = counts.reshape(n_worker, -1)
    if per_worker.shape[1] != capacity.size:
        raise ValueError(f"expert_count holds {counts.size} counts, {n_worker} workers x {capacity.size} are needed")
    before = np.cumsum(per_worker, axis=0) - per_worker
    room = np.maximum(capacity.reshape(-1) - before, 0)
    kept: Array = np.minimum(per_worker, room).astype(counts.dtype, copy=False)
    return kept.reshape(counts.shape)


def _ranks(groups: Array) -> Array:
    """How many earlier entries have the same number. Shape [count]."""
    order = np.argsort(groups, kind="stable")
    ordered = groups[order]
    place = np.arange(len(groups))
    starts = np.ones(len(groups), np.bool_)
    starts[1:] = ordered[1:] != ordered[:-1]
    ranks = np.empty(len(groups), np.int64)
    ranks[order] = place - np.maximum.accumulate(np.where(starts, place, 0))
    return ranks


@operator("prune_gate_by_capacity", inputs="GateIdx ExpertCount", outputs="NewGateIdx", gradient=None)
def prune_gate_by_capacity(gates: Array, counts: Array, *, n_expert: int = 0, n_worker: int = 0) -> Array:
    """Each token's expert, or -1 where ExpertCount earlier tokens already go there."""
    if counts.size != n_expert * n_worker:
        raise ValueError(f"ExpertCount holds {counts.size} counts, {n_expert} x {n_worker} are needed")
    flat = gates.reshape(-1)
    kept = _ranks(flat) < counts.reshape(-1)[flat]
    return np.where(kept, flat, -1).astype(gates.dtype, copy=False).reshape(gates.shape)


@operator("random_routing", inputs="Prob TopK_Value TopK_Idx", outputs="Out", gradient=None)
def random_routing(probability: Array, values: Array, index: Array) -> Array:
    """The two experts of each token, the second dropped (-1) where twice its weight is below the probability."""
    if index.ndim != 2 or index.shape[1] != 2 or values.shape != index.shape:
        raise ValueError(f"TopK_Idx {list(index.shape)} and TopK_Value {list(values.shape)} must be [n, 2]")
    out: Array = index.copy()
    out[2 * values[:, 1] < probability.reshape(-1), 1] = -1
    return out


@operator("assign_pos", inputs="X cum_count eff_num_len", outputs="Out", gradient=None)
def assign_pos(x: Array, cumulated: Array, length: Array) -> Array:
    """Tokens ordered by expert, each expert's from its end (``cum_count``) backwards; int64."""
    gates = x.reshape(-1)
    out = np.zeros(int(np.asarray(length).reshape(-1)[0]), np.int64)
    (routed,) = np.nonzero(gates >= 0)
    places = cumulated.reshape(-1)[gates[routed]] - 1 - _ranks(gates[routed])
    kept = places >= 0
    out[places[kept]] = routed[kept]
    return out
