"""Attention as one operator: the fused forms of optimised exports and the flash-attention interface.

Probabilities are kept whole: memory is that of the plain formula. Half types are computed in float32.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir.registry import REQUIRED, operator
from ..random import generator
from ..values import Array
from .common import accumulate_dtype, unbroadcast

__all__ = [
    "attend",
    "flash_attn",
    "flash_attn_unpadded",
    "memory_efficient_attention",
    "multihead_matmul",
    "self_dp_attention",
]


def _softmax(scores: Array) -> tuple[Array, Array]:
    """Softmax along the last axis, in place, and the log of the sum of exponentials ``[..., rows]``."""
    top = scores.max(axis=-1, keepdims=True, initial=-np.inf)
    # A row that is masked whole has no maximum; it becomes 0 instead of nan.
    safe = np.where(np.isfinite(top), top, scores.dtype.type(0))
    np.subtract(scores, safe, out=scores)
    np.exp(scores, out=scores)
    total = scores.sum(axis=-1, keepdims=True)
    np.divide(scores, total, out=scores, where=total > 0)
    with np.errstate(divide="ignore"):
        log_total: Array = (np.log(total) + safe)[..., 0]
    return scores, log_total


def _causal(scores: Array) -> None:
    """Hide from row ``i`` every column after ``i``. Square only: two alignments exist for other shapes."""
    rows, columns = scores.shape[-2:]
    if rows != columns:
        raise ValueError(f"causal takes as many keys as queries, got {columns} and {rows}")
    scores[..., np.triu(np.ones((rows, columns), bool), 1)] = -np.inf


def _repeat_heads(x: Array, heads: int) -> Array:
    """``[B, heads, S, D]`` from fewer heads, each shared by a group of query heads."""
    if x.shape[1] == heads:
        return x
    if heads % x.shape[1]:
        raise ValueError(f"{heads} query heads cannot share {x.shape[1]} key heads evenly")
    return np.repeat(x, heads // x.shape[1], axis=1)


def _sum_heads(grad: Array, heads: int) -> Array:
    batch, every, length, size = grad.shape
    return grad if every == heads else grad.reshape(batch, heads, every // heads, length, size).sum(axis=2)


def _probabilities(q: Array, k: Array, scale: Any, bias: Array | None, causal: bool) -> tuple[Array, Array]:
    """``softmax(scale * q k^T + bias)`` of ``[B, H, S, D]`` arrays, and its log sums."""
    scores = np.matmul(q * q.dtype.type(scale), k.swapaxes(-1, -2))
    if bias is not None:
        scores = scores + bias.astype(scores.dtype, copy=False)
    if causal:
        _causal(scores)
    return _softmax(scores)


def attend(q: Array, k: Array, v: Array, scale: Any, bias: Array | None = None, causal: bool = False) -> Array:
    """``softmax(scale * q k^T + bias) v`` for ``[B, H, S, D]`` arrays; half types in float32."""
    wide = accumulate_dtype(q.dtype)
    q, k, v = (each.astype(wide, copy=False) for each in (q, k, v))
    return np.asarray(np.matmul(_probabilities(q, k, scale, bias, causal)[0], v))


@operator(
    "multihead_matmul",
    inputs="Input W Bias BiasQK?",
    outputs="Out",
    refuse={"transpose_Q": False, "transpose_K": True, "transpose_V": False},
    gradient=None,
)
def multihead_matmul(
    x: Array, w: Array, bias: Array, bias_qk: Array | None, *, alpha: float = 1.0, head_number: int = 1
) -> Array:
    """Self-attention with one matmul for q, k and v.

    ``Input [B, S, H]``, ``W [H, 3, heads * size]`` and ``Bias [3, heads * size]`` give ``[B, S, heads * size]``;
    scores are times ``alpha``, plus ``BiasQK`` that broadcasts to ``[B, heads, S, S]``.
    """
    batch, length, hidden = x.shape
    width = w.size // (3 * hidden)
    if width % head_number:
        raise ValueError(f"W gives {width} numbers per position, which {head_number} heads cannot share evenly")
    wide = accumulate_dtype(x.dtype)
    weights, shift = (
        w.reshape(hidden, 3 * width).astype(wide, copy=False),
        bias.reshape(-1).astype(wide, copy=False),
    )
    qkv = np.matmul(x.reshape(-1, hidden).astype(wide, copy=False), weights) + shift
    q, k, v = qkv.reshape(batch, length, 3, head_number, width // head_number).transpose(2, 0, 3, 1, 4)
    out = attend(q, k, v, alpha, bias_qk).transpose(0, 2, 1, 3).reshape(batch, length, width)
    return np.asarray(out, x.dtype)


@operator("self_dp_attention", inputs="X", outputs="Out", gradient=None)
def self_dp_attention(x: Array, *, alpha: float = 1.0, head_number: int = 1) -> Array:
    """``X [B, S, 3, heads, size]`` (q, k, v) to ``[B, S, heads, size]``; scores are times ``alpha``."""
    if x.ndim != 5 or x.shape[2] != 3 or x.shape[3] != head_number:
        raise ValueError(f"X is [batch, length, 3, {head_number} heads, size], got {list(x.shape)}")
    q, k, v = x.transpose(2, 0, 3, 1, 4)
    return np.asarray(attend(q, k, v, alpha).transpose(0, 2, 1, 3), x.dtype)


# flash attention: [B, S, heads, size], with dropout and gradient


def _seeds(fixed: Array | None, drops: bool) -> Array:
    """Seed and offset ``[2]`` of the dropout: those given, else drawn when dropout happens."""
    if fixed is not None:
        return fixed.reshape(-1)[:2].astype(np.int64)
    return np.asarray([generator().integers(1, 2**31) if drops else 0, 0], np.int64)


def _kept(shape: tuple[int, ...], rate: float, seeds: Array, dtype: Any) -> Array:
    """What dropout multiplies the probabilities by: 0, or 1 over the share that is kept."""
    draws = np.random.default_rng([int(seed) & 0xFFFFFFFF for seed in seeds]).random(shape, np.float32)
    factors: Array = (draws >= rate) / np.dtype(dtype).type(1 - rate)
    return factors


def _heads_first(*arrays: Array) -> tuple[Array, ...]:
    """``[B, S, H, D]`` to ``[B, H, S, D]``, in the dtype to compute in."""
    return tuple(each.swapaxes(1, 2).astype(accumulate_dtype(each.dtype), copy=False) for each in arrays)


def _forward(
    q: Array, k: Array, v: Array, scale: float, bias: Array | None, causal: bool, rate: float, seeds: Array
) -> tuple[Array, Array, Array]:
    """Output ``[B, S, H, D]``, probabilities and log sums of one batch."""
    wide_q, wide_k, wide_v = _heads_first(q, k, v)
    heads = wide_q.shape[1]
    shares, log_total = _probabilities(wide_q, _repeat_heads(wide_k, heads), scale, bias, causal)
    mixed = shares * _kept(shares.shape, rate, seeds, shares.dtype) if rate else shares
    out = np.matmul(mixed, _repeat_heads(wide_v, heads)).swapaxes(1, 2)
    return (
        np.ascontiguousarray(out).astype(q.dtype, copy=False),
        shares,
        log_total.astype(np.float32, copy=False),
    )


def _backward(
    q: Array,
    k: Array,
    v: Array,
    d_out: Array,
    scale: float,
    bias: Array | None,
    causal: bool,
    rate: float,
    seeds: Array,
) -> tuple[Array, Array, Array, Array]:
    """The gradients of q, k and v ``[B, S, H, D]`` and of the scores ``[B, H, S, S]``."""
    wide_q, wide_k, wide_v, slope = _heads_first(q, k, v, d_out)
    heads, groups = wide_q.shape[1], wide_k.shape[1]
    every_k, every_v = _repeat_heads(wide_k, heads), _repeat_heads(wide_v, heads)
    shares, _ = _probabilities(wide_q, every_k, scale, bias, causal)
    kept = _kept(shares.shape, rate, seeds, shares.dtype) if rate else None
    mixed = shares if kept is None else shares * kept
    d_v = _sum_heads(np.matmul(mixed.swapaxes(-1, -2), slope), groups)
    d_shares = np.matmul(slope, every_v.swapaxes(-1, -2))
    if kept is not None:
        d_shares *= kept
    d_scores = shares * (d_shares - (d_shares * shares).sum(axis=-1, keepdims=True))
    factor = d_scores.dtype.type(scale)
    d_q = np.matmul(d_scores, every_k) * factor
    d_k = _sum_heads(np.matmul(d_scores.swapaxes(-1, -2), wide_q), groups) * factor
    d_q, d_k, d_v = (
        np.ascontiguousarray(grad.swapaxes(1, 2)).astype(like.dtype, copy=False)
        for grad, like in ((d_q, q), (d_k, k), (d_v, v))
    )
    return d_q, d_k, d_v, d_scores


@operator(
    "flash_attn",
    inputs="q k v fixed_seed_offset? attn_mask?",
    outputs="out softmax softmax_lse seed_offset",
    ignores="rng_name",
)
def flash_attn(
    q: Array,
    k: Array,
    v: Array,
    fixed_seed_offset: Array | None,
    attn_mask: Array | None,
    *,
    dropout: float = 0.0,
    causal: bool = False,
    return_softmax: bool = False,
    is_test: bool = False,
) -> tuple[Array, Array | None, Array, Array]:
    """``softmax(q k^T / sqrt(D) + mask) v`` for ``[B, S, heads, D]``; key heads may be fewer, shared by groups."""
    rate = 0.0 if is_test else dropout
    seeds = _seeds(fixed_seed_offset, rate > 0)
    out, shares, log_total = _forward(q, k, v, q.shape[-1] ** -0.5, attn_mask, causal, rate, seeds)
    return out, shares.astype(q.dtype, copy=False) if return_softmax else None, log_total, seeds


@flash_attn.gradient(takes="q k v out softmax_lse seed_offset attn_mask? out@GRAD", gives="q@GRAD k@GRAD v@GRAD")
def flash_attn_grad(
    q: Array,
    k: Array,
    v: Array,
    out: Any,
    log_total: Any,
    seeds: Array,
    attn_mask: Array | None,
    d_out: Array,
    *,
    dropout: float = 0.0,
    causal: bool = False,
    is_test: bool = False,
) -> tuple[Array, Array, Array]:
    """The gradients of q, k and v; the probabilities are computed again."""
    rate = 0.0 if is_test else dropout
    return _backward(q, k, v, d_out, q.shape[-1] ** -0.5, attn_mask, causal, rate, seeds)[:3]


def _spans(cu_seqlens: Array) -> list[slice]:
    ends = cu_seqlens.reshape(-1).tolist()
    return [slice(start, end) for start, end in zip(ends[:-1], ends[1:], strict=True)]


@operator(
    "flash_attn_unpadded",
    inputs="q k v cu_seqlens_q cu_seqlens_k fixed_seed_offset? attn_mask?",
    outputs="out softmax softmax_lse seed_offset",
    ignores="rng_name max_seqlen_q max_seqlen_k",
    refuse={"return_softmax": False},
)
def flash_attn_unpadded(
    q: Array,
    k: Array,
    v: Array,
    cu_seqlens_q: Array,
    cu_seqlens_k: Array,
    fixed_seed_offset: Array | None,
    attn_mask: Array | None,
    *,
    scale: float = REQUIRED,
    dropout: float = 0.0,
    causal: bool = False,
    is_test: bool = False,
) -> tuple[Array, None, Array, Array]:
    """As flash_attn for sequences laid end to end, ``[rows, heads, D]``, each attending to itself only."""
    if attn_mask is not None:
        raise ValueError("attn_mask is not supported for sequences laid end to end")
    rate = 0.0 if is_test else dropout
    seeds = _seeds(fixed_seed_offset, rate > 0)
    out = np.zeros((*q.shape[:-1], v.shape[-1]), q.dtype)
    spans = list(zip(_spans(cu_seqlens_q), _spans(cu_seqlens_k), strict=True))
    longest = max((mine.stop - mine.start for mine, _ in spans), default=0)
    log_totals = np.zeros((len(spans), q.shape[1], longest), np.float32)
    for number, (mine, theirs) in enumerate(spans):
        made, _, log_total = _forward(q[None, mine], k[None, theirs], v[None, theirs], scale, None, causal, rate, seeds)
        out[mine] = made[0]
        log_totals[number, :, : mine.stop - mine.start] = log_total[0]
    return out, None, log_totals, seeds


@flash_attn_unpadded.gradient(
    takes="q k v cu_seqlens_q cu_seqlens_k out softmax_lse seed_offset attn_mask? out@GRAD",
    gives="q@GRAD k@GRAD v@GRAD",
)
def flash_attn_unpadded_grad(
    q: Array,
    k: Array,
    v: Array,
    cu_seqlens_q: Array,
    cu_seqlens_k: Array,
    out: Any,
    log_total: Any,
    seeds: Array,
    attn_mask: Array | None,
    d_out: Array,
    *,
    scale: float = REQUIRED,
    dropout: float = 0.0,
    causal: bool = False,
    is_test: bool = False,
) -> tuple[Array, Array, Array]:
    """The gradients of q, k and v, sequence by sequence."""
    rate = 0.0 if is_test else dropout
    d_q, d_k, d_v = (np.zeros_like(each) for each in (q, k, v))
    for mine, theirs in zip(_spans(cu_seqlens_q), _spans(cu_seqlens_k), strict=True):
        rows = (q[None, mine], k[None, theirs], v[None, theirs], d_out[None, mine])
        made = _backward(*rows, scale, None, causal, rate, seeds)
        d_q[mine], d_k[theirs], d_v[theirs] = (grad[0] for grad in made[:3])
    return d_q, d_k, d_v


_VARIABLE = "cu_seqlens_q? cu_seqlens_k? causal_diagonal? seqlen_k? MaxSeqlenQTensor? MaxSeqlenKTensor?"
_VARIABLE_BACK = "cu_seqlens_q? cu_seqlens_k? MaxSeqlenQTensor? MaxSeqlenKTensor?"


def _scale_of(scale: float, q: Array) -> float:
    return scale if scale > 0 else q.shape[-1] ** -0.5


@operator(
    "memory_efficient_attention",
    inputs=f"query key value bias? {_VARIABLE}",
    outputs="output logsumexp seed_and_offset",
    ignores="max_seqlen_q max_seqlen_k",
)
def memory_efficient_attention(
    q: Array,
    k: Array,
    v: Array,
    bias: Array | None,
    *variable: Array | None,
    causal: bool = REQUIRED,
    dropout_p: float = REQUIRED,
    scale: float = REQUIRED,
    is_test: bool = REQUIRED,
) -> tuple[Array, Array, Array]:
    """``softmax(scale * q k^T + bias) v`` for ``[B, S, heads, D]``; a scale of 0 or less stands for ``1 / sqrt(D)``."""
    if any(each is not None for each in variable):
        raise ValueError("sequence lengths (cu_seqlens_*, seqlen_k, causal_diagonal) are not supported")
    rate = 0.0 if is_test else dropout_p
    seeds = _seeds(None, rate > 0)
    out, _, log_total = _forward(q, k, v, _scale_of(scale, q), bias, causal, rate, seeds)
    return out, log_total, seeds


@memory_efficient_attention.gradient(
    takes=f"query key value bias? {_VARIABLE_BACK} output logsumexp seed_and_offset output@GRAD",
    gives="query@GRAD key@GRAD value@GRAD bias@GRAD",
)
def memory_efficient_attention_grad(
    q: Array,
    k: Array,
    v: Array,
    bias: Array | None,
    *rest: Any,
    causal: bool = REQUIRED,
    dropout_p: float = REQUIRED,
    scale: float = REQUIRED,
    is_test: bool = REQUIRED,
) -> tuple[Array, Array, Array, Array | None]:
    """The gradients of q, k, v and of the bias, summed over what it was broadcast along."""
    seeds, d_out = rest[-2:]
    rate = 0.0 if is_test else dropout_p
    d_q, d_k, d_v, d_scores = _backward(q, k, v, d_out, _scale_of(scale, q), bias, causal, rate, seeds)
    d_bias = None if bias is None else unbroadcast(d_scores, bias.shape).astype(bias.dtype, copy=False)
    return d_q, d_k, d_v, d_bias
