"""Fold per-channel multiplications and additions after a convolution into its weights and bias.

Before::

    a = conv2d(x, w);  b = elementwise_add(a, bias);  c = batch_norm(b) {is_test};  d = elementwise_mul(s, c)

After (``w'`` and ``bias'`` computed once, in float64)::

    d = fused_conv2d(x, w', bias')

Exact up to rounding: a convolution is linear in its filter, so ``s * (conv(x, w) + t)`` equals
``conv(x, s * w) + s * t`` for per-output-channel ``s`` and ``t``, whatever the padding.
"""

from __future__ import annotations

import numpy as np

from ..desc import OpDesc
from .graph import Array, Graph

__all__ = ["fold_affine"]

_FUSED = {
    "conv2d": "fused_conv2d",
    "depthwise_conv2d": "fused_conv2d",
    "conv3d": "fused_conv3d",
    "conv2d_transpose": "conv2d_transpose",
    "depthwise_conv2d_transpose": "depthwise_conv2d_transpose",
}
_FLOATS = ("float32", "float64")


def fold_affine(graph: Graph) -> None:
    """Edit block 0 in place."""
    gone: list[OpDesc] = []
    for op in list(graph.block.ops):
        if op.type in _FUSED:
            gone.extend(_fold_after(op, graph))
    graph.remove(gone)


def _fold_after(conv: OpDesc, graph: Graph) -> list[OpDesc]:
    """Swallow the affine ops behind one convolution; the ops that are gone."""
    weights = graph.constant(conv.input("Filter"))
    start = conv.output("Output")
    if weights is None or start is None or weights.dtype.name not in _FLOATS or conv.input("ResidualData"):
        return []
    channels = _output_channels(conv, weights)
    scale, shift = np.ones(channels), np.zeros(channels)
    bias = conv.input("Bias")
    if bias is not None:
        given = graph.constant(bias)
        if given is None or given.size != channels:
            return []
        shift += given.astype(np.float64).reshape(-1)
    last, gone = start, []
    while True:
        reader = graph.sole_reader(last)
        step = _affine(reader, last, conv, channels, graph) if reader is not None else None
        if reader is None or step is None:
            break
        scale, shift = scale * step[0], shift * step[0] + step[1]
        last = reader.output("Y") or reader.output("Out") or ""
        gone.append(reader)
    if gone:
        _rewrite(conv, graph, weights, scale, shift, last)
    return gone


def _output_channels(conv: OpDesc, weights: Array) -> int:
    if conv.type.endswith("transpose"):
        return int(weights.shape[1] * conv.attrs.get("groups", 1))
    return int(weights.shape[0])


def _rewrite(conv: OpDesc, graph: Graph, weights: Array, scale: Array, shift: Array, last: str) -> None:
    if conv.type.endswith("transpose"):  # filter [in, out / groups, ...]: input channels lie group by group
        groups = conv.attrs.get("groups", 1)
        per_group = scale.reshape(groups, 1, -1)
        split = weights.reshape(groups, weights.shape[0] // groups, *weights.shape[1:])
        factor = per_group.reshape(groups, 1, weights.shape[1], *(1,) * (weights.ndim - 2))
        scaled = (split * factor).reshape(weights.shape)
    else:
        scaled = weights * scale.reshape(-1, *(1,) * (weights.ndim - 1))
    name = conv.input("Filter") or "filter"
    conv.inputs["Filter"] = [graph.add_constant(f"{name}.folded", scaled.astype(weights.dtype))]
    conv.inputs["Bias"] = [graph.add_constant(f"{name}.bias", shift.astype(weights.dtype))]
    conv.outputs["Output"] = [last]
    conv.type = _FUSED[conv.type]


def _affine(
    op: OpDesc, source: str, conv: OpDesc, channels: int, graph: Graph
) -> tuple[Array | float, Array | float] | None:
    """``(scale, shift)`` when the op is ``source * scale + shift`` per channel, else None."""
    if op.type == "batch_norm":
        return _batch_norm(op, conv, graph)
    if op.type == "affine_channel" and op.input("X") == source:
        scale, bias = graph.constant(op.input("Scale")), graph.constant(op.input("Bias"))
        if scale is None or bias is None or scale.size != channels:
            return None
        return scale.astype(np.float64).reshape(-1), bias.astype(np.float64).reshape(-1)
    if op.type == "scale" and not op.input("ScaleTensor"):
        factor, bias_value = float(op.attrs.get("scale", 1.0)), float(op.attrs.get("bias", 0.0))
        return factor, bias_value if op.attrs.get("bias_after_scale", True) else factor * bias_value
    if op.type in ("elementwise_add", "elementwise_sub", "elementwise_mul", "elementwise_div"):
        return _elementwise(op, source, conv, channels, graph)
    return None


def _batch_norm(op: OpDesc, conv: OpDesc, graph: Graph) -> tuple[Array, Array] | None:
    attrs = op.attrs
    frozen = (attrs.get("is_test") or attrs.get("use_global_stats")) and not attrs.get("trainable_statistics")
    if not frozen or attrs.get("data_layout", "NCHW") != _layout(conv) or attrs.get("fuse_with_relu"):
        return None
    mean, variance = graph.params.get(op.input("Mean") or ""), graph.params.get(op.input("Variance") or "")
    if mean is None or variance is None or any(_is_read(graph, op, slot) for slot in _STATISTICS):
        return None
    gamma, beta = graph.constant(op.input("Scale")), graph.constant(op.input("Bias"))
    if (op.input("Scale") and gamma is None) or (op.input("Bias") and beta is None):
        return None
    scale = 1.0 / np.sqrt(variance.astype(np.float64) + attrs.get("epsilon", 1e-5))
    if gamma is not None:
        scale = scale * gamma.astype(np.float64)
    shift = -mean.astype(np.float64) * scale
    return scale, shift if beta is None else shift + beta.astype(np.float64)


_STATISTICS = ("SavedMean", "SavedVariance", "ReserveSpace")


def _is_read(graph: Graph, op: OpDesc, slot: str) -> bool:
    return any(name in graph.readers or name in graph.fetches for name in op.outputs.get(slot) or ())


def _layout(conv: OpDesc) -> str:
    layout = conv.attrs.get("data_format", "NCHW")
    return "NCHW" if layout in ("AnyLayout", "NCDHW") else str(layout).replace("NDHWC", "NHWC")


def _elementwise(
    op: OpDesc, source: str, conv: OpDesc, channels: int, graph: Graph
) -> tuple[Array | float, Array | float] | None:
    first = op.input("X") == source
    operand = graph.constant(op.input("Y") if first else op.input("X"))
    if operand is None or operand.dtype.name not in _FLOATS:
        return None
    value = _per_channel(operand, conv, channels, op.attrs.get("axis", -1) if first else -1)
    if value is None:
        return None
    if op.type == "elementwise_add":
        return 1.0, value
    if op.type == "elementwise_sub":
        return (1.0, -value) if first else (-1.0, value)
    if op.type == "elementwise_mul":
        return value, 0.0
    return (1.0 / value, 0.0) if first and np.all(value != 0) else None


def _per_channel(operand: Array, conv: OpDesc, channels: int, axis: int) -> Array | None:
    """An operand as one float64 number per output channel, None when it is anything else."""
    rank = 5 if conv.type == "conv3d" else 4
    if operand.size == 1 and operand.ndim <= rank:
        return np.full(channels, float(operand.reshape(())))
    channel_axis = 1 if _layout(conv) == "NCHW" else rank - 1
    start = rank - operand.ndim if axis == -1 else axis
    shape = [1] * start + list(operand.shape)
    shape += [1] * (rank - len(shape))
    expected = [1] * rank
    expected[channel_axis] = channels
    return operand.astype(np.float64).reshape(-1) if shape == expected else None
