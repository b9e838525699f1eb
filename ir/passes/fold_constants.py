"""Run once, now, what depends on nothing but constants.

Before::

    s = fill_constant() {shape: [1, 8]};  t = scale(w) {scale: 2};  y = elementwise_add(t, x)

After (``t`` is a new constant)::

    y = elementwise_add(t, x)

Left alone: random ops, ops that look at the program, and results much larger than what they come from.
"""

from __future__ import annotations

import logging
from typing import Any

import numpy as np

from ..binding import call_operator
from ..desc import EMPTY_VAR, OpDesc
from ..registry import Operator, find
from .graph import Graph

__all__ = ["fold_constants"]

_log = logging.getLogger("oarlock.ir.passes")
_RANDOM_OPS = """
    bernoulli class_center_sample cudnn_lstm dirichlet dpsgd dropout dropout_nd empty exponential flash_attn
    flash_attn_unpadded fused_attention fused_bias_dropout_residual_layer_norm fused_dropout_add
    fused_feedforward gaussian_inplace gaussian_random gaussian_random_batch_size_like generate_proposal_labels
    graph_khop_sampler graph_sample_neighbors gumbel_softmax memory_efficient_attention multinomial nce poisson
    print randint random_crop randperm retinanet_target_assign rnn rpn_target_assign rrelu sample_logits
    sampling_id seed shuffle_batch tdm_sampler top_p_sampling truncated_gaussian_random uniform_random
    uniform_random_batch_size_like uniform_random_inplace weighted_sample_neighbors
"""
_RANDOM = frozenset(_RANDOM_OPS.split())
_GROWTH_LIMIT = 1 << 20
"""Bytes that a folded result may have beyond twice the size of its inputs."""


def fold_constants(graph: Graph) -> None:
    """Edit block 0 in place; results join ``graph.params``."""
    gone = []
    for op in graph.block.ops:
        declared = find(op.type, graph.program.op_version(op.type))
        if declared is None or not _foldable(op, declared, graph):
            continue
        made = _evaluate(op, declared, graph)
        if made is None:
            continue
        for name, value in made.items():
            graph.fold(name, value)
        gone.append(op)
    graph.remove(gone)


def _foldable(op: OpDesc, declared: Operator, graph: Graph) -> bool:
    if op.type in _RANDOM or op.sub_blocks() or declared.takes_ctx or declared.takes_env or declared.lod:
        return False
    if any(kind.name in ("VAR", "VARS") for kind in op.attr_types.values()):
        return False
    outputs = list(op.output_names())
    return (
        bool(outputs)
        and all(graph.is_constant(name) for name in op.input_names())
        and all(graph.is_simple(name) and name not in graph.fetches and name not in graph.params for name in outputs)
    )


def _evaluate(op: OpDesc, declared: Operator, graph: Graph) -> dict[str, Any] | None:
    if not _small_enough(op, graph):
        return None
    try:
        results = call_operator(declared, op, graph.params, op.type)
    except Exception as error:
        # The op fails at run time then, with its place in the program; folding is only ever a short cut.
        _log.debug("%s is not folded: %s", op.type, error)
        return None
    made: dict[str, Any] = {}
    for slot, value in zip(declared.outputs, results, strict=True):
        names = op.outputs.get(slot.name) or []
        values = value if slot.many else [value]
        for name, each in zip(names, values or (), strict=False):
            if name and name != EMPTY_VAR:
                if not isinstance(each, (np.ndarray, np.generic)):
                    return None
                made[name] = np.asarray(each)
    return made if set(made) == set(op.output_names()) else None


def _small_enough(op: OpDesc, graph: Graph) -> bool:
    """Refuse to make large constants out of small ones, judged by the shapes that the program declares."""
    given = sum(graph.params[name].nbytes for name in op.input_names())
    for name in op.output_names():
        var = graph.program.find_var(name, graph.block)
        if var is None or var.shape is None:
            continue
        if 8 * int(np.prod([max(dim, 1) for dim in var.shape], dtype=object)) > 2 * given + _GROWTH_LIMIT:
            return False
    shape = op.attrs.get("shape")
    wanted = 8 * int(np.prod(shape, dtype=object)) if isinstance(shape, list) and shape else 0
    return wanted <= 2 * given + _GROWTH_LIMIT
