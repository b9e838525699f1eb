"""Operators of recommenders and large classifiers: feature hashing, tree-based retrieval, sampled classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ir.dtypes import DType, to_numpy
from ...ir.registry import operator
from ..random import generator
from ..values import Array

__all__ = ["class_center_sample", "hash_", "tdm_child", "tdm_sampler", "xxh64"]

Ints = Sequence[int]
_MASK = 0xFFFFFFFFFFFFFFFF
_PRIMES = (
    0x9E3779B185EBCA87,
    0xC2B2AE3D27D4EB4F,
    0x165667B19E3779F9,
    0x85EBCA77C2B2AE63,
    0x27D4EB2F165667C5,
)
_P1, _P2, _P3, _P4, _P5 = (np.array(prime, np.uint64) for prime in _PRIMES)


def _turned(x: Array, bits: int) -> Array:
    turned: Array = (x << np.uint64(bits)) | (x >> np.uint64(64 - bits))
    return turned


def _round(state: Array, lane: Array) -> Array:
    return _turned(state + lane * _P2, 31) * _P1


def xxh64(rows: Array, seed: int) -> Array:
    """The 64-bit xxHash of each row of bytes. ``rows`` [n, length] uint8 -> [n] uint64."""
    count, length = rows.shape
    rows = np.ascontiguousarray(rows)
    start = np.full(count, seed & _MASK, np.uint64)
    at = 0
    if length >= 32:
        lanes = [start + _P1 + _P2, start + _P2, start.copy(), start - _P1]
        while at + 32 <= length:
            words = np.ascontiguousarray(rows[:, at : at + 32]).view("<u8")
            lanes = [_round(lane, words[:, i]) for i, lane in enumerate(lanes)]
            at += 32
        state = sum((_turned(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True)), start * 0)
        for lane in lanes:
            state = (state ^ _round(start * 0, lane)) * _P1 + _P4
    else:
        state = start + _P5
    return _avalanche(_tail(state + np.uint64(length), rows[:, at:]))


def _tail(state: Array, rest: Array) -> Array:
    """Take in the last bytes: eight at a time, then four, then one."""
    at, length = 0, rest.shape[1]
    while at + 8 <= length:
        word = np.ascontiguousarray(rest[:, at : at + 8]).view("<u8")[:, 0]
        state = _turned(state ^ _round(word * 0, word), 27) * _P1 + _P4
        at += 8
    if at + 4 <= length:
        half = np.ascontiguousarray(rest[:, at : at + 4]).view("<u4")[:, 0].astype(np.uint64)
        state = _turned(state ^ half * _P1, 23) * _P2 + _P3
        at += 4
    for byte in range(at, length):
        state = _turned(state ^ rest[:, byte].astype(np.uint64) * _P5, 11) * _P1
    return state


def _avalanche(state: Array) -> Array:
    state = (state ^ (state >> np.uint64(33))) * _P2
    state = (state ^ (state >> np.uint64(29))) * _P3
    state = state ^ (state >> np.uint64(32))
    return state


@operator("hash", inputs="X", outputs="Out", ignores="@ALL_KERNELS_MUST_COMPUTE_RUNTIME_SHAPE@", gradient=None)
def hash_(x: Array, *, num_hash: int = 1, mod_by: int = 100000) -> Array:
    """Each row of ids hashed ``num_hash`` times (seeds 0, 1, ...) into ``mod_by`` places.

    X [n, length] -> [n, num_hash, 1] in the dtype of X.
    """
    if x.dtype not in (np.int32, np.int64) or x.ndim < 2:
        raise TypeError(f"X is {x.dtype} {list(x.shape)}, rows of int32 or int64 are needed")
    rows = np.ascontiguousarray(x).reshape(-1, x.shape[-1]).view(np.uint8).reshape(-1, x.shape[-1] * x.itemsize)
    codes = np.stack([xxh64(rows, seed) % np.uint64(mod_by) for seed in range(num_hash)], axis=1)
    return codes.astype(x.dtype).reshape(*x.shape[:-1], num_hash, 1)


@operator("tdm_child", inputs="X TreeInfo", outputs="Child LeafMask", gradient=None)
def tdm_child(x: Array, tree: Array, *, child_nums: int, dtype: int = DType.INT32) -> tuple[Array, Array]:
    """The children of nodes of a tree, and whether each is a leaf (holds an item).

    A row of TreeInfo is item, layer, parent, then ``child_nums`` children; node 0 is padding.
    """
    if x.size and not 0 <= int(x.min()) <= int(x.max()) < len(tree):
        raise ValueError(f"X holds a node outside the tree of {len(tree)}")
    info = tree.astype(np.int64)[x.astype(np.int64)]
    childless = (x == 0) | (info[..., 3] == 0)
    children = np.where(childless[..., None], 0, info[..., 3 : 3 + child_nums])
    leaves = ~childless[..., None] & (tree[children, 0] != 0)
    kind = to_numpy(dtype)
    return children.astype(kind), leaves.astype(kind)


def _negatives(nodes: Array, positive: Array, count: int, draw: np.random.Generator) -> Array:
    """Per sample ``count`` different nodes of a layer, none of them its positive one."""
    if count > len(nodes) - 1:
        raise ValueError(f"neg_samples_num_list asks for {count} of a layer of {len(nodes)} nodes")
    keys = draw.random((len(positive), len(nodes)))
    keys[nodes[None, :] == positive[:, None]] = np.inf
    return nodes[np.argsort(keys, axis=1)[:, :count]]


@operator("tdm_sampler", inputs="X Travel Layer", outputs="Out Labels Mask", gradient=None)
def tdm_sampler(
    x: Array,
    travel: Array,
    layer: Array,
    *,
    output_positive: bool = True,
    neg_samples_num_list: Ints = (),
    layer_offset_lod: Ints = (),
    seed: int = 0,
    dtype: int = DType.INT32,
) -> tuple[Array, Array, Array]:
    """Per leaf its path through a tree, layer by layer, with random other nodes of each layer.

    Travel holds the path of each leaf, Layer the nodes of all layers end to end. Labels are 1 on the path,
    Mask is 0 where the path ends early.
    """
    draw = generator(seed)
    leaves = x.reshape(-1).astype(np.int64)
    nodes = layer.reshape(-1).astype(np.int64)
    parts: list[tuple[Array, Array, Array]] = []
    for depth, count in enumerate(neg_samples_num_list):
        positive = travel[leaves, depth].astype(np.int64)
        members = nodes[layer_offset_lod[depth] : layer_offset_lod[depth + 1]]
        others = _negatives(members, positive, count, draw)
        there = (positive != 0).astype(np.int64)[:, None]
        if output_positive:
            parts.append((positive[:, None], there, there))
        parts.append((others * there, others * 0, np.broadcast_to(there, others.shape)))
    kind = to_numpy(dtype)
    joined = [np.concatenate(each, axis=1).astype(kind) for each in zip(*parts, strict=True)]
    return joined[0], joined[1], joined[2]


@operator(
    "class_center_sample",
    inputs="Label",
    outputs="RemappedLabel SampledLocalClassCenter",
    ignores="ring_id",
    refuse={"rank": 0, "nranks": 1},
    gradient=None,
)
def class_center_sample(
    label: Array, *, num_classes: int, num_samples: int, fix_seed: bool = False, seed: int = 0
) -> tuple[Array, Array]:
    """The classes that occur, filled up with random others to ``num_samples``, and the labels as places among them."""
    flat = label.reshape(-1)
    present, remapped = np.unique(flat, return_inverse=True)
    if len(present) and not 0 <= int(present[0]) <= int(present[-1]) < num_classes:
        raise ValueError(f"Label holds a class outside the {num_classes} classes")
    missing = min(num_samples, num_classes) - len(present)
    if missing > 0:
        absent = np.setdiff1d(np.arange(num_classes, dtype=label.dtype), present)
        draw: Any = generator(seed if fix_seed else 0)
        present = np.concatenate([present, draw.choice(absent, missing, replace=False)])
    return remapped.reshape(label.shape).astype(label.dtype), present.astype(label.dtype)
