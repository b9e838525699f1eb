"""The two halves of a transformer layer as one operator each, for inference: attention and feed-forward.

Training with them is refused: their dropout masks have no gradient here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir.registry import lookup, operator
from ..values import Array
from .common import accumulate_dtype
from .fused_transformer import attend
from .norm_layer import normalize_rows

__all__ = ["fused_attention", "fused_feedforward"]


def _share(rate: float, implementation: str, is_test: bool, slot: str) -> float:
    """What dropout leaves of its input in a test program: all of it, or ``1 - rate`` of every number."""
    if rate and not is_test:
        raise ValueError(f"{slot} is {rate} and is_test false: training is not supported, only inference")
    if implementation not in ("upscale_in_train", "downgrade_in_infer"):
        raise ValueError(f"a dropout is upscale_in_train or downgrade_in_infer, got {implementation!r}")
    return 1.0 - rate if implementation == "downgrade_in_infer" else 1.0


def _normalized(x: Array, scale: Array | None, bias: Array | None, epsilon: float) -> Array:
    return normalize_rows(x, scale, bias, epsilon, x.ndim - 1)[0]


def _linear(x: Array, weight: Array, bias: Array | None) -> Array:
    made: Array = np.matmul(x, weight.astype(x.dtype, copy=False))
    return made if bias is None else made + bias.reshape(-1).astype(x.dtype, copy=False)


_ATTENTION_OUT = (
    "LnMean LnVariance LnOut QKVOut QKVBiasOut TransposeOut2 QKOut QKTVOut SoftmaxOut AttnDropoutMaskOut "
    "AttnDropoutOut SrcMaskOut FMHAOut OutLinearOut DropoutMaskOut Ln2Mean Ln2Variance BiasDropoutResidualOut"
)


@operator(
    "fused_attention",
    inputs="X LnScale? LnBias? QKVW QKVBias? CacheKV? SrcMask? OutLinearW OutLinearBias? Ln2Scale? Ln2Bias?",
    outputs=f"{_ATTENTION_OUT} CacheKVOut Y",
    ignores="attn_dropout_fix_seed attn_dropout_seed dropout_fix_seed dropout_seed",
    refuse={"ring_id": -1},
)
def fused_attention(
    x: Array,
    ln_scale: Array | None,
    ln_bias: Array | None,
    qkv_weight: Array,
    qkv_bias: Array | None,
    cache: Array | None,
    mask: Array | None,
    out_weight: Array,
    out_bias: Array | None,
    ln2_scale: Array | None,
    ln2_bias: Array | None,
    *,
    num_heads: int = -1,
    transpose_qkv_wb: bool = False,
    pre_layer_norm: bool = False,
    epsilon: float = 1e-5,
    attn_dropout_rate: float = 0.5,
    is_test: bool = False,
    attn_dropout_implementation: str = "upscale_in_train",
    dropout_rate: float = 0.5,
    dropout_implementation: str = "downgrade_in_infer",
    ln_epsilon: float = 1e-5,
    add_residual: bool = True,
) -> tuple[Array | None, ...]:
    """``norm(x + linear(attention(x)))``, or with the norm before the attention (``pre_layer_norm``).

    ``QKVW [3, heads, size, H]``, ``QKVBias [3, heads, size]``; with ``transpose_qkv_wb`` ``[H, 3 * heads * size]``.
    ``CacheKV [2, B, heads, L, size]`` comes before this step's keys and values; CacheKVOut is both together.
    Of the other outputs only Y is made.
    """
    kept = _share(attn_dropout_rate, attn_dropout_implementation, is_test, "attn_dropout_rate")
    kept_out = _share(dropout_rate, dropout_implementation, is_test, "dropout_rate")
    batch, length, hidden = x.shape
    if qkv_weight.ndim != (2 if transpose_qkv_wb else 4):
        wanted = "[H, 3 * heads * size]" if transpose_qkv_wb else "[3, heads, size, H]"
        raise ValueError(f"QKVW must be {wanted} (transpose_qkv_wb {transpose_qkv_wb}), got {list(qkv_weight.shape)}")
    heads = num_heads if transpose_qkv_wb else qkv_weight.shape[1]
    wide = x.astype(accumulate_dtype(x.dtype), copy=False)
    rows = _normalized(wide, ln_scale, ln_bias, epsilon) if pre_layer_norm else wide
    weight = qkv_weight if transpose_qkv_wb else qkv_weight.reshape(-1, hidden).T
    size = weight.shape[1] // (3 * heads)
    q, k, v = _linear(rows, weight, qkv_bias).reshape(batch, length, 3, heads, size).transpose(2, 0, 3, 1, 4)
    if cache is not None:
        k, v = (
            np.concatenate((old.astype(k.dtype, copy=False), new), axis=2)
            for old, new in zip(cache, (k, v), strict=True)
        )
    mixed = attend(q, k, v, q.shape[-1] ** -0.5, mask).transpose(0, 2, 1, 3).reshape(batch, length, heads * size)
    out = _linear(mixed * mixed.dtype.type(kept), out_weight, out_bias) * mixed.dtype.type(kept_out)
    if add_residual:
        out = out + wide
    if not pre_layer_norm:
        out = _normalized(out, ln2_scale, ln2_bias, ln_epsilon)
    joined = None if cache is None else np.stack((k, v)).astype(cache.dtype, copy=False)
    return (*(None,) * len(_ATTENTION_OUT.split()), joined, out.astype(x.dtype, copy=False))


@operator(
    "fused_feedforward",
    inputs="X Dropout1Seed? Dropout2Seed? Linear1Weight Linear1Bias? Linear2Weight Linear2Bias? "
    "Ln1Scale? Ln1Bias? Ln2Scale? Ln2Bias?",
    outputs="Out Dropout1Mask Dropout2Mask Ln1Mean Ln1Variance Ln2Mean Ln2Variance Linear1Out Ln1Out "
    "Dropout1Out Dropout2Out",
    ignores="dropout1_fix_seed dropout2_fix_seed dropout1_seed dropout2_seed",
    refuse={"ring_id": -1},
)
def fused_feedforward(
    x: Array,
    seed1: Any,
    seed2: Any,
    weight1: Array,
    bias1: Array | None,
    weight2: Array,
    bias2: Array | None,
    ln1_scale: Array | None,
    ln1_bias: Array | None,
    ln2_scale: Array | None,
    ln2_bias: Array | None,
    *,
    pre_layer_norm: bool = False,
    ln1_epsilon: float = 1e-5,
    ln2_epsilon: float = 1e-5,
    act_method: str = "gelu",
    dropout1_rate: float = 0.5,
    dropout2_rate: float = 0.5,
    dropout1_implementation: str = "downgrade_in_infer",
    dropout2_implementation: str = "downgrade_in_infer",
    is_test: bool = False,
    dropout1_is_test: bool = False,
    dropout2_is_test: bool = False,
    add_residual: bool = True,
) -> tuple[Array | None, ...]:
    """``norm(x + linear2(act(linear1(x))))``, or with the norm before linear1 (``pre_layer_norm``). Only Out is made.

    The first releases of the operator told test mode by ``dropout1_is_test`` and ``dropout2_is_test``.
    """
    kept1 = _share(dropout1_rate, dropout1_implementation, is_test or dropout1_is_test, "dropout1_rate")
    kept2 = _share(dropout2_rate, dropout2_implementation, is_test or dropout2_is_test, "dropout2_rate")
    if act_method not in ("gelu", "relu"):
        raise ValueError(f"act_method is gelu or relu, got {act_method!r}")
    wide = x.astype(accumulate_dtype(x.dtype), copy=False)
    rows = _normalized(wide, ln1_scale, ln1_bias, ln1_epsilon) if pre_layer_norm else wide
    inner: Array = lookup(act_method).kernel(_linear(rows, weight1, bias1))
    out = _linear(inner * inner.dtype.type(kept1), weight2, bias2) * inner.dtype.type(kept2)
    if add_residual:
        out = out + wide
    if not pre_layer_norm:
        out = _normalized(out, ln2_scale, ln2_bias, ln2_epsilon)
    return (out.astype(x.dtype, copy=False), *(None,) * 10)
