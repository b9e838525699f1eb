"""What stands around attention as one operator: rotary positions, bias and activation, linear epilogues, pruning."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...ir.registry import lookup, operator
from ..values import Array
from .common import accumulate_dtype

__all__ = [
    "fused_bias_act",
    "fused_gemm_epilogue",
    "fused_linear_param_grad_add",
    "fused_rotary_position_embedding",
    "fused_token_prune",
]

# rotary positions


def _turns(
    q: Array, sin: Array | None, cos: Array | None, positions: Array | None, style: bool, base: float
) -> tuple[Array, Array]:
    """Sine and cosine that broadcast against ``[B, S, heads, D]``, from the tables or by the formula."""
    length, size = q.shape[1], q.shape[3]
    if (sin is None) != (cos is None):
        raise ValueError("sin and cos must be given together")
    if sin is not None and cos is not None:
        tables = [each.reshape(-1, size).astype(np.float32, copy=False) for each in (sin, cos)]
    else:
        steps = np.arange(0, size, 2, dtype=np.float32) / np.float32(size)
        count = length if positions is None else max(length, int(positions.max(initial=0)) + 1)
        angles = np.arange(count, dtype=np.float32)[:, None] / np.float32(base) ** steps
        spread = np.repeat(angles, 2, axis=1) if style else np.tile(angles, 2)
        tables = [np.sin(spread), np.cos(spread)]
    if positions is None:
        return tables[0][None, :length, None], tables[1][None, :length, None]
    return tables[0][positions][:, :, None], tables[1][positions][:, :, None]


def _partners(x: Array, style: bool) -> Array:
    """The number that turns with each: ``-x[2i + 1], x[2i]`` in pairs, or the halves ``-second, first``."""
    out = np.empty_like(x)
    half = x.shape[-1] // 2
    if style:
        out[..., 0::2], out[..., 1::2] = -x[..., 1::2], x[..., 0::2]
    else:
        out[..., :half], out[..., half:] = -x[..., half:], x[..., :half]
    return out


def _time_second(x: Array | None, time_major: bool) -> Array | None:
    return x.swapaxes(0, 1) if x is not None and time_major else x


def _rotated(x: Array | None, turn: Callable[[Array], Array], time_major: bool) -> Array | None:
    rows = _time_second(x, time_major)
    if rows is None:
        return None
    made = turn(rows.astype(accumulate_dtype(rows.dtype), copy=False)).astype(rows.dtype, copy=False)
    return _time_second(made, time_major)


@operator(
    "fused_rotary_position_embedding",
    inputs="q k? v? sin? cos? position_ids?",
    outputs="out_q out_k out_v",
)
def fused_rotary_position_embedding(
    q: Array,
    k: Array | None,
    v: Array | None,
    sin: Array | None,
    cos: Array | None,
    position_ids: Array | None,
    *,
    use_neox_rotary_style: bool = True,
    time_major: bool = False,
    rotary_emb_base: float = 10000.0,
) -> tuple[Array | None, ...]:
    """``x * cos + partner * sin`` for each of q, k, v ``[B, S, heads, D]``.

    Partners are neighbours when ``use_neox_rotary_style``, else the same place in the other half. Without tables
    ``[S, D]`` the angle of pair ``i`` at position ``p`` is ``p / base ** (2 i / D)``.
    """
    first = q.swapaxes(0, 1) if time_major else q
    sine, cosine = _turns(first, sin, cos, position_ids, use_neox_rotary_style, rotary_emb_base)

    def turn(x: Array) -> Array:
        turned: Array = x * cosine.astype(x.dtype) + _partners(x, use_neox_rotary_style) * sine.astype(x.dtype)
        return turned

    return tuple(_rotated(each, turn, time_major) for each in (q, k, v))


@fused_rotary_position_embedding.gradient(
    takes="sin? cos? position_ids? out_q@GRAD out_k@GRAD? out_v@GRAD?",
    gives="q@GRAD k@GRAD v@GRAD",
)
def fused_rotary_position_embedding_grad(
    sin: Array | None,
    cos: Array | None,
    position_ids: Array | None,
    d_q: Array,
    d_k: Array | None,
    d_v: Array | None,
    *,
    use_neox_rotary_style: bool = True,
    time_major: bool = False,
    rotary_emb_base: float = 10000.0,
) -> tuple[Array | None, ...]:
    """The turn back: ``d * cos - partner(d * sin)``."""
    first = d_q.swapaxes(0, 1) if time_major else d_q
    sine, cosine = _turns(first, sin, cos, position_ids, use_neox_rotary_style, rotary_emb_base)

    def turn(d: Array) -> Array:
        turned: Array = d * cosine.astype(d.dtype) - _partners(d * sine.astype(d.dtype), use_neox_rotary_style)
        return turned

    return tuple(_rotated(each, turn, time_major) for each in (d_q, d_k, d_v))


# bias, activation, linear epilogues


def _gated(name: str) -> Callable[[Array], Array]:
    """The activation of the first half of the columns, times the second half."""

    def kernel(x: Array) -> Array:
        half = x.shape[-1] // 2
        made: Array = lookup(name).kernel(x[..., :half]) * x[..., half:]
        return made

    return kernel


_BIAS_ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "gelu": lambda x: lookup("gelu").kernel(x),
    "relu": lambda x: lookup("relu").kernel(x),
    "swiglu": _gated("silu"),
    "geglu": _gated("gelu"),
}


@operator(
    "fused_bias_act",
    inputs="x bias? dequant_scales? shift? smooth?",
    outputs="out",
    ignores="compute_dtype quant_round_type quant_max_bound quant_min_bound",
    refuse={"quant_scale": -1.0},
    gradient=None,
)
def fused_bias_act(x: Array, bias: Array | None, *quantised: Array | None, act_method: str = "gelu") -> Array:
    """``act(x + bias)`` for gelu, relu, swiglu and geglu (the gated two halve the columns). Floats only."""
    if any(each is not None for each in quantised) or x.dtype.kind in "iu":
        raise ValueError("quantised input and output (dequant_scales, shift, smooth, integers) are not supported")
    if act_method not in _BIAS_ACTIVATIONS:
        raise ValueError(f"act_method is one of {', '.join(_BIAS_ACTIVATIONS)}, got {act_method!r}")
    wide = x.astype(accumulate_dtype(x.dtype), copy=False)
    shifted = wide if bias is None else wide + bias.astype(wide.dtype, copy=False)
    return _BIAS_ACTIVATIONS[act_method](shifted).astype(x.dtype, copy=False)


def _matrix(x: Array, transposed: bool) -> Array:
    """The leading dimensions (for a transposed operand the trailing ones) laid together; the operand untransposed."""
    return x.reshape(x.shape[0], -1).T if transposed else x.reshape(-1, x.shape[-1])


def _epilogue(name: str) -> str:
    if name not in ("none", "relu", "gelu"):
        raise ValueError(f"activation is none, relu or gelu, got {name!r}")
    return name


@operator("fused_gemm_epilogue", inputs="X Y Bias", outputs="Out ReserveSpace")
def fused_gemm_epilogue(
    x: Array, y: Array, bias: Array, *, trans_x: bool = False, trans_y: bool = False, activation: str = "none"
) -> tuple[Array, Array | None]:
    """``act(X Y + Bias)``; ReserveSpace keeps what goes into the activation."""
    wide = accumulate_dtype(x.dtype)
    left, right = (_matrix(each, turned).astype(wide, copy=False) for each, turned in ((x, trans_x), (y, trans_y)))
    inner = np.matmul(left, right) + bias.astype(wide, copy=False)
    shape = (*(x.shape[1:] if trans_x else x.shape[:-1]), right.shape[1])
    kept = inner.astype(x.dtype, copy=False).reshape(shape)
    if _epilogue(activation) == "none":
        return kept, None
    out: Array = lookup(activation).kernel(inner)
    return out.astype(x.dtype, copy=False).reshape(shape), kept


@fused_gemm_epilogue.gradient(takes="X Y ReserveSpace? DOut=Out@GRAD", gives="DX=X@GRAD DY=Y@GRAD DBias=Bias@GRAD")
def fused_gemm_epilogue_grad(
    x: Array,
    y: Array,
    kept: Array | None,
    d_out: Array,
    *,
    trans_x: bool = False,
    trans_y: bool = False,
    activation: str = "none",
    activation_grad: str = "none",
) -> tuple[Array, Array, Array]:
    """Through the activation, then as of a matmul; the bias gets the sum over the rows."""
    wide = accumulate_dtype(x.dtype)
    slope = d_out.reshape(-1, d_out.shape[-1]).astype(wide, copy=False)
    name = _epilogue(activation if activation != "none" else activation_grad.removesuffix("_grad"))
    if name != "none":
        if kept is None:
            raise ValueError(f"the gradient of {name} needs ReserveSpace")
        inner = kept.reshape(slope.shape).astype(wide, copy=False)
        slope = slope * (inner > 0) if name == "relu" else lookup("gelu_grad").kernel(inner, slope)
    left, right = (_matrix(each, turned).astype(wide, copy=False) for each, turned in ((x, trans_x), (y, trans_y)))
    d_left, d_right = np.matmul(slope, right.T), np.matmul(left.T, slope)
    d_x = (d_left.T if trans_x else d_left).reshape(x.shape)
    d_y = (d_right.T if trans_y else d_right).reshape(y.shape)
    d_bias = slope.sum(axis=0)
    return (
        d_x.astype(x.dtype, copy=False),
        d_y.astype(y.dtype, copy=False),
        d_bias.astype(x.dtype, copy=False),
    )


@operator(
    "fused_linear_param_grad_add",
    inputs="x dout dweight? dbias?",
    outputs="dweight_out dbias_out",
    gradient=None,
)
def fused_linear_param_grad_add(
    x: Array,
    d_out: Array,
    d_weight: Array | None,
    d_bias: Array | None,
    *,
    multi_precision: bool = True,
    has_bias: bool = True,
) -> tuple[Array, Array | None]:
    """The gradients of a linear layer's weight and bias, added to those so far; in float32 when ``multi_precision``."""
    wide = accumulate_dtype(x.dtype)
    rows, slope = (each.reshape(-1, each.shape[-1]).astype(wide, copy=False) for each in (x, d_out))
    weight, shift = np.matmul(rows.T, slope), slope.sum(axis=0)
    dtype = wide if multi_precision else x.dtype
    weight = weight if d_weight is None else weight + d_weight.astype(wide, copy=False)
    shift = shift if d_bias is None else shift + d_bias.astype(wide, copy=False)
    return weight.astype(dtype, copy=False), shift.astype(dtype, copy=False) if has_bias else None


@operator("fused_token_prune", inputs="Attn X Mask NewMask", outputs="SlimmedX CLSInds", gradient=None)
def fused_token_prune(
    attn: Array,
    x: Array,
    mask: Array,
    new_mask: Array,
    *,
    keep_first_token: bool = True,
    keep_order: bool = False,
) -> tuple[Array, Array]:
    """The tokens that get the most attention, as many as ``NewMask`` is long, and their numbers.

    Attention ``[B, heads, S, S]`` counts where ``Mask`` is not negative. The first token may be kept whatever it
    gets; the rest comes by attention, or in the old order.
    """
    received = np.where(mask >= 0, attn, attn.dtype.type(0)).astype(accumulate_dtype(attn.dtype)).sum(axis=(1, 2))
    if keep_first_token:
        received[:, 0] = np.inf
    chosen = np.argsort(-received, axis=1, kind="stable")[:, : new_mask.shape[2]]
    if keep_order:
        chosen = np.sort(chosen, axis=1)
    return np.take_along_axis(x, chosen[:, :, None], axis=1), chosen.astype(np.int64)
