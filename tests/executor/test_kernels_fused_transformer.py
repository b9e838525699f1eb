"""Attention as one operator against the plain formula, with gradients; what stands around it."""

from __future__ import annotations

from typing import Any

import numpy as np
import oarlock.executor.kernels  # noqa: F401 - tells the registry how to find a type
import pytest
from oarlock.errors import KernelError
from oarlock.executor.plan import missing_operators
from oarlock.ir.desc import BlockDesc, OpDesc, ProgramDesc
from oarlock.ir.registry import lookup

RANDOM = np.random.default_rng(5)


def normal(*shape: int) -> np.ndarray:
    return RANDOM.normal(size=shape)


def softmax(x: np.ndarray) -> np.ndarray:
    shares = np.exp(x - x.max(axis=-1, keepdims=True))
    return shares / shares.sum(axis=-1, keepdims=True)


def attention(q: np.ndarray, k: np.ndarray, v: np.ndarray, scale: float, bias: Any = 0.0) -> np.ndarray:
    """``[B, S, heads, D]``, by einsum."""
    shares = softmax(np.einsum("bqhd,bkhd->bhqk", q, k) * scale + bias)
    return np.einsum("bhqk,bkhd->bqhd", shares, v)


def test_multihead_matmul_is_projection_then_attention() -> None:
    x, w, bias, mask = normal(2, 5, 6), normal(6, 3, 8), normal(3, 8), normal(2, 1, 1, 5)
    made = lookup("multihead_matmul")(x, w, bias, mask, alpha=0.3, head_number=2)
    q, k, v = (np.einsum("bsh,hw->bsw", x, w[:, part]) + bias[part] for part in range(3))
    expected = attention(*(each.reshape(2, 5, 2, 4) for each in (q, k, v)), 0.3, mask)
    np.testing.assert_allclose(made, expected.reshape(2, 5, 8), rtol=1e-9)
    with pytest.raises(ValueError, match="3 heads cannot share evenly"):
        lookup("multihead_matmul")(x, w, bias, None, head_number=3)


def test_self_attention_of_packed_heads() -> None:
    x = normal(2, 4, 3, 2, 3)
    made = lookup("self_dp_attention")(x, alpha=0.5, head_number=2)
    np.testing.assert_allclose(made, attention(x[:, :, 0], x[:, :, 1], x[:, :, 2], 0.5), rtol=1e-9)


def test_flash_attention_and_its_log_sums() -> None:
    q, k, v = normal(2, 4, 2, 3), normal(2, 4, 2, 3), normal(2, 4, 2, 3)
    out, shares, log_sum, _ = lookup("flash_attn")(q, k, v, None, None)
    np.testing.assert_allclose(out, attention(q, k, v, 3**-0.5), rtol=1e-9)
    scores = np.einsum("bqhd,bkhd->bhqk", q, k) * 3**-0.5
    np.testing.assert_allclose(log_sum, np.log(np.exp(scores).sum(axis=-1)), rtol=1e-6)
    assert shares is None and log_sum.dtype == np.float32
    hidden = np.where(np.tri(4, dtype=bool), 0, -np.inf)
    causal = lookup("flash_attn")(q, k, v, None, None, causal=True)[0]
    np.testing.assert_allclose(causal, attention(q, k, v, 3**-0.5, hidden), rtol=1e-9)


def test_key_heads_are_shared_by_groups_of_query_heads() -> None:
    q, k, v = normal(1, 3, 4, 2), normal(1, 3, 2, 2), normal(1, 3, 2, 2)
    made = lookup("flash_attn")(q, k, v, None, None)[0]
    np.testing.assert_allclose(made, attention(q, k.repeat(2, axis=2), v.repeat(2, axis=2), 2**-0.5), rtol=1e-9)
    with pytest.raises(ValueError, match="4 query heads cannot share 3 key heads"):
        lookup("flash_attn")(q, normal(1, 3, 3, 2), normal(1, 3, 3, 2), None, None)


def test_causal_needs_as_many_keys_as_queries() -> None:
    with pytest.raises(ValueError, match="causal takes as many keys as queries, got 5 and 3"):
        lookup("flash_attn")(normal(1, 3, 1, 2), normal(1, 5, 1, 2), normal(1, 5, 1, 2), None, None, causal=True)


def test_a_row_that_is_masked_whole_gives_zero() -> None:
    mask = np.zeros((1, 1, 2, 2))
    mask[..., 1, :] = -np.inf
    made = lookup("flash_attn")(normal(1, 2, 1, 2), normal(1, 2, 1, 2), normal(1, 2, 1, 2), None, mask)[0]
    assert np.isfinite(made).all() and not made[0, 1].any()


def test_half_precision_is_computed_in_single() -> None:
    q = np.full((1, 2, 1, 2), 300, np.float16)
    out = lookup("flash_attn")(q, q, q, None, None)[0]
    assert out.dtype == np.float16 and (out == 300).all()


@pytest.mark.parametrize("attrs", [{}, {"causal": True}, {"dropout": 0.4}])
def test_the_gradient_of_flash_attention(attrs: dict[str, Any], gradcheck: Any) -> None:
    inputs = {
        "q": normal(2, 3, 4, 2),
        "k": normal(2, 3, 2, 2),
        "v": normal(2, 3, 2, 2),
        "fixed_seed_offset": np.array([7, 0]),
        "attn_mask": normal(2, 1, 3, 3),
    }
    gradcheck("flash_attn", inputs, attrs, wrt=["q", "k", "v"], outputs=["out"], without=["softmax"])


def test_dropout_keeps_the_mean_and_is_off_in_test_mode() -> None:
    q = k = np.zeros((1, 64, 1, 2))
    v = np.ones((1, 64, 1, 2))
    out, *_, seeds = lookup("flash_attn")(q, k, v, None, None, dropout=0.5)
    assert out.std() > 0 and abs(out.mean() - 1) < 0.1 and seeds[0] > 0
    tested = lookup("flash_attn")(q, k, v, None, None, dropout=0.5, is_test=True)[0]
    np.testing.assert_allclose(tested, v)


def test_sequences_end_to_end_attend_to_themselves(gradcheck: Any) -> None:
    q, k, v, ends = normal(5, 2, 3), normal(5, 2, 3), normal(5, 2, 3), np.array([0, 2, 5], np.int32)
    attrs: dict[str, Any] = {"scale": 0.4, "max_seqlen_q": 3, "max_seqlen_k": 3}
    out = lookup("flash_attn_unpadded")(q, k, v, ends, ends, None, None, scale=0.4)[0]
    np.testing.assert_allclose(out[2:], attention(q[None, 2:], k[None, 2:], v[None, 2:], 0.4)[0], rtol=1e-9)
    inputs = {"q": q, "k": k, "v": v, "cu_seqlens_q": ends, "cu_seqlens_k": ends}
    gradcheck("flash_attn_unpadded", inputs, attrs, wrt=["q", "k", "v"], outputs=["out"], without=["softmax"])


def test_memory_efficient_attention(gradcheck: Any) -> None:
    inputs = {
        "query": normal(2, 3, 2, 4),
        "key": normal(2, 3, 2, 4),
        "value": normal(2, 3, 2, 4),
        "bias": normal(1, 2, 3, 3),
    }
    attrs = {"causal": False, "dropout_p": 0.0, "scale": -1.0, "is_test": True}
    out = lookup("memory_efficient_attention")(*inputs.values(), *[None] * 6, **attrs)[0]
    np.testing.assert_allclose(out, attention(*list(inputs.values())[:3], 0.5, inputs["bias"]), rtol=1e-9)
    gradcheck("memory_efficient_attention", inputs, attrs, wrt=list(inputs), outputs=["output"])
    with pytest.raises(ValueError, match="sequence lengths"):
        lookup("memory_efficient_attention")(*inputs.values(), np.array([0, 3]), *[None] * 5, **attrs)


@pytest.mark.parametrize("pairs", [True, False])
def test_rotary_positions_turn_each_pair(pairs: bool, gradcheck: Any) -> None:
    q = normal(1, 3, 2, 4)
    attrs = {"use_neox_rotary_style": pairs}
    made, none, _ = lookup("fused_rotary_position_embedding")(q, None, None, None, None, None, **attrs)
    assert none is None
    places = [(0, 1), (2, 3)] if pairs else [(0, 2), (1, 3)]
    for number, (one, other) in enumerate(places):
        angle = np.arange(3)[:, None] / 100.0**number
        turned = (q[0, ..., one] + 1j * q[0, ..., other]) * np.exp(1j * angle)
        np.testing.assert_allclose(made[0, ..., one] + 1j * made[0, ..., other], turned, rtol=1e-5, atol=1e-7)
    inputs = {"q": q, "k": normal(1, 3, 2, 4), "position_ids": np.array([[2, 0, 1]])}
    gradcheck("fused_rotary_position_embedding", inputs, attrs, wrt=["q", "k"], without=["out_v"])


def test_rotary_tables_and_positions() -> None:
    q, sin, cos = normal(2, 2, 1, 2), normal(1, 4, 1, 2), normal(1, 4, 1, 2)
    positions = np.array([[3, 1], [0, 2]])
    made = lookup("fused_rotary_position_embedding")(q, None, None, sin, cos, positions)[0]
    table_sin, table_cos = sin[0, positions, 0], cos[0, positions, 0]
    partner = np.stack((-q[..., 1], q[..., 0]), axis=-1)
    np.testing.assert_allclose(made, q * table_cos[:, :, None] + partner * table_sin[:, :, None], rtol=1e-6)


def test_bias_and_activation() -> None:
    x, bias = np.array([[-1.0, 2.0, 3.0, -4.0]]), np.array([0.5, 0.0, 1.0, 0.0])
    assert lookup("fused_bias_act")(x, bias, None, None, None, act_method="relu").tolist() == [[0, 2, 4, 0]]
    gated = lookup("fused_bias_act")(x, bias, None, None, None, act_method="swiglu")
    np.testing.assert_allclose(gated, [[-0.5 / (1 + np.exp(0.5)) * 4, 2 / (1 + np.exp(-2)) * -4]], rtol=1e-9)
    with pytest.raises(ValueError, match="act_method is one of"):
        lookup("fused_bias_act")(x, bias, None, None, None, act_method="sine")
    with pytest.raises(ValueError, match="quantised input"):
        lookup("fused_bias_act")(x, bias, np.ones(4), None, None)


@pytest.mark.parametrize("activation", ["none", "relu", "gelu"])
@pytest.mark.parametrize("turned", [(False, False), (True, True)])
def test_linear_with_epilogue(activation: str, turned: tuple[bool, bool], gradcheck: Any) -> None:
    x = normal(4, 2, 3) if turned[0] else normal(2, 3, 4)
    y = normal(5, 4) if turned[1] else normal(4, 5)
    attrs = {"trans_x": turned[0], "trans_y": turned[1], "activation": activation}
    inputs = {"X": x, "Y": y, "Bias": normal(5)}
    made, _ = lookup("fused_gemm_epilogue")(*inputs.values(), **attrs)
    rows = x.reshape(4, -1).T if turned[0] else x.reshape(-1, 4)
    inner = rows @ (y.T if turned[1] else y) + inputs["Bias"]
    expected = inner if activation == "none" else lookup(activation).kernel(inner)
    np.testing.assert_allclose(made, expected.reshape(2, 3, 5), rtol=1e-9)
    without = ["ReserveSpace"] if activation == "none" else []
    gradcheck("fused_gemm_epilogue", inputs, attrs, outputs=["Out"], without=without)


def test_gradients_of_a_linear_layer_are_added_up() -> None:
    x, slope = normal(2, 3, 4), normal(2, 3, 5)
    weight, bias = lookup("fused_linear_param_grad_add")(x, slope, np.ones((4, 5)), None)
    np.testing.assert_allclose(weight, 1 + np.einsum("abi,abj->ij", x, slope))
    np.testing.assert_allclose(bias, slope.sum(axis=(0, 1)))
    assert lookup("fused_linear_param_grad_add")(x, slope, None, None, has_bias=False)[1] is None


def test_tokens_are_pruned_by_the_attention_they_get() -> None:
    attention_map = np.zeros((1, 1, 4, 4))
    attention_map[0, 0] = [[0.1, 0.9, 0.3, 0.5]] * 4
    x = np.arange(8.0).reshape(1, 4, 2)
    mask, new = np.ones((1, 1, 4, 4)), np.ones((1, 1, 3, 3))
    kept, ids = lookup("fused_token_prune")(attention_map, x, mask, new)
    assert ids.tolist() == [[0, 1, 3]] and kept.tolist() == [[[0, 1], [2, 3], [6, 7]]]
    mask[..., 1] = -1
    assert lookup("fused_token_prune")(attention_map, x, mask, new)[1].tolist() == [[0, 3, 2]]
    assert lookup("fused_token_prune")(attention_map, x, mask, new, keep_order=True)[1].tolist() == [[0, 2, 3]]
    assert lookup("fused_token_prune")(attention_map, x, mask, new, keep_first_token=False)[1].tolist() == [[3, 2, 0]]


def test_what_is_left_out_is_named_before_anything_runs() -> None:
    types = ("masked_multihead_attention", "fused_multi_transformer", "weight_only_linear", "decode_jpeg")
    program = ProgramDesc([BlockDesc(0, ops=[OpDesc(type) for type in types])])
    assert missing_operators(program) == dict.fromkeys(types, 1)


def layer_norm(x: np.ndarray, scale: np.ndarray, bias: np.ndarray) -> np.ndarray:
    middle, spread = x.mean(axis=-1, keepdims=True), x.var(axis=-1, keepdims=True)
    return (x - middle) / np.sqrt(spread + 1e-5) * scale + bias


TEST_MODE: dict[str, Any] = {"is_test": True, "dropout_implementation": "upscale_in_train"}


@pytest.mark.parametrize("first", [True, False])
def test_an_attention_block_in_test_mode(first: bool, run_op: Any) -> None:
    x, weight, bias, mask = normal(2, 3, 4), normal(3, 2, 2, 4), normal(3, 2, 2), normal(2, 1, 3, 3)
    out_weight, out_bias, scale, shift = normal(4, 4), normal(4), normal(4), normal(4)
    norm = ("LnScale", "LnBias") if first else ("Ln2Scale", "Ln2Bias")
    inputs = {
        "X": x,
        "QKVW": weight,
        "QKVBias": bias,
        "SrcMask": mask,
        "OutLinearW": out_weight,
        "OutLinearBias": out_bias,
    }
    made = run_op("fused_attention", {**inputs, norm[0]: scale, norm[1]: shift}, {**TEST_MODE, "pre_layer_norm": first})
    rows = layer_norm(x, scale, shift) if first else x
    q, k, v = (np.einsum("bsh,ndh->bsnd", rows, weight[part]) + bias[part] for part in range(3))
    expected = x + attention(q, k, v, 2**-0.5, mask).reshape(2, 3, 4) @ out_weight + out_bias
    np.testing.assert_allclose(made["Y"], expected if first else layer_norm(expected, scale, shift), rtol=1e-8)
    assert made["CacheKVOut"] is None
    with pytest.raises(KernelError, match="training is not supported, only inference"):
        run_op("fused_attention", inputs, {})


def test_an_attention_block_with_a_cache_and_flat_weights(run_op: Any) -> None:
    x, weight, cache = normal(1, 2, 4), normal(4, 12), normal(2, 1, 2, 3, 2)
    inputs = {"X": x, "QKVW": weight, "CacheKV": cache, "OutLinearW": np.eye(4)}
    attrs = {
        **TEST_MODE,
        "pre_layer_norm": True,
        "transpose_qkv_wb": True,
        "num_heads": 2,
        "add_residual": False,
    }
    made = run_op("fused_attention", inputs, attrs)
    zeros, ones = np.zeros(4), np.ones(4)
    q, k, v = (layer_norm(x, ones, zeros) @ weight).reshape(1, 2, 3, 2, 2).transpose(2, 0, 1, 3, 4)
    k, v = (np.concatenate((old.transpose(0, 2, 1, 3), new), axis=1) for old, new in zip(cache, (k, v), strict=True))
    np.testing.assert_allclose(made["Y"], attention(q, k, v, 2**-0.5).reshape(1, 2, 4), rtol=1e-8)
    np.testing.assert_allclose(made["CacheKVOut"], np.stack((k, v)).transpose(0, 1, 3, 2, 4), rtol=1e-8)


@pytest.mark.parametrize("first", [True, False])
def test_a_feed_forward_block_in_test_mode(first: bool, run_op: Any) -> None:
    """Dropout that downgrades leaves 0.75 of the inner and 0.5 of the outer numbers."""
    x, one, one_bias, two, two_bias, scale, shift = (
        normal(*shape) for shape in ((2, 3, 4), (4, 6), (6,), (6, 4), (4,), (4,), (4,))
    )
    names = (
        "Linear1Weight",
        "Linear1Bias",
        "Linear2Weight",
        "Linear2Bias",
        *(f"Ln{1 if first else 2}{end}" for end in ("Scale", "Bias")),
    )
    inputs = {"X": x, **dict(zip(names, (one, one_bias, two, two_bias, scale, shift), strict=True))}
    attrs = {
        "is_test": True,
        "pre_layer_norm": first,
        "act_method": "relu",
        "dropout1_rate": 0.25,
        "dropout2_rate": 0.5,
    }
    made = run_op("fused_feedforward", inputs, attrs)["Out"]
    rows = layer_norm(x, scale, shift) if first else x
    inner = np.maximum(rows @ one + one_bias, 0) * 0.75
    expected = x + (inner @ two + two_bias) * 0.5
    np.testing.assert_allclose(made, expected if first else layer_norm(expected, scale, shift), rtol=1e-8)
    with pytest.raises(KernelError, match="act_method is gelu or relu"):
        run_op("fused_feedforward", inputs, {**attrs, "act_method": "swish"})
