"""Let a convolution apply the activation behind it while a block of its output is still in cache.

Before::

    a = fused_conv2d(x, w, bias);  y = hard_swish(a)

After::

    y = fused_conv2d(x, w, bias) {fuse_activation: hard_swish, fuse_alpha: 1/6, fuse_beta: 0.5}

The activation's attributes go into ``fuse_alpha`` and ``fuse_beta`` with the meaning that fused programs of Paddle
give them. Exact up to rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..desc import OpDesc
from .graph import Graph

__all__ = ["fuse_activation"]

_CONVS = {"conv2d": "fused_conv2d", "depthwise_conv2d": "fused_conv2d", "fused_conv2d": "fused_conv2d"}

Attrs = Mapping[str, Any]
Fused = tuple[str, float, float]


def _hard_swish(attrs: Attrs) -> Fused | None:
    scale, offset, threshold = attrs.get("scale", 6.0), attrs.get("offset", 3.0), attrs.get("threshold", 6.0)
    return ("hard_swish", 1.0 / scale, offset / scale) if scale == threshold != 0 else None


_ACTIVATIONS: dict[str, Callable[[Attrs], Fused | None]] = {
    "relu": lambda attrs: ("relu", 0.0, 0.0),
    "relu6": lambda attrs: ("relu6", 0.0, attrs.get("threshold", 6.0)),
    "leaky_relu": lambda attrs: ("leaky_relu", attrs.get("alpha", 0.02), 0.0),
    "sigmoid": lambda attrs: ("sigmoid", 0.0, 0.0),
    "tanh": lambda attrs: ("tanh", 0.0, 0.0),
    "swish": lambda attrs: ("swish", attrs.get("beta", 1.0), 0.0),
    "hard_swish": _hard_swish,
    "hard_sigmoid": lambda attrs: ("hard_sigmoid", attrs.get("slope", 0.2), attrs.get("offset", 0.5)),
}
"""Op type -> ``(fuse_activation, fuse_alpha, fuse_beta)``, None where the attributes cannot be told."""


def fuse_activation(graph: Graph) -> None:
    """Edit block 0 in place."""
    gone: list[OpDesc] = []
    for op in graph.block.ops:
        if op.type not in _CONVS or op.attrs.get("fuse_activation") or op.input("ResidualData"):
            continue
        made = op.output("Output")
        reader = (
            graph.sole_reader(made) if made is not None and graph.constant(op.input("Filter")) is not None else None
        )
        fused = _fused(reader, graph)
        if reader is None or fused is None:
            continue
        op.type = _CONVS[op.type]
        for name, value in zip(("fuse_activation", "fuse_alpha", "fuse_beta"), fused, strict=True):
            op.set_attr(name, value)
        op.outputs["Output"] = [reader.outputs["Out"][0]]
        gone.append(reader)
    graph.remove(gone)


def _fused(reader: OpDesc | None, graph: Graph) -> Fused | None:
    if reader is None or reader.type not in _ACTIVATIONS or len(list(reader.input_names())) != 1:
        return None
    if any(kind.name in ("VAR", "VARS") for kind in reader.attr_types.values()):
        return None
    target = reader.output("Out")
    if target is None or not graph.is_simple(target):
        return None
    return _ACTIVATIONS[reader.type](reader.attrs)
