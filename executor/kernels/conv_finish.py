"""What follows a convolution inside a fused operator: bias, residual, activation, in place on one block at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..values import Array
from .activation import activate
from .common import flattened
from .workspace import workspace

__all__ = ["BlockActivation", "Finisher", "block_activation"]

BlockActivation = Callable[[Array], None]
"""Applies an activation to a block in place."""


def _leaky(slope: float) -> BlockActivation:
    def apply(block: Array) -> None:
        if slope == 0.0:
            np.maximum(block, 0, out=block)
        else:
            np.multiply(block, block.dtype.type(slope), out=block, where=block < 0)

    return apply


def _clip(low: float, high: float) -> BlockActivation:
    def apply(block: Array) -> None:
        np.clip(block, block.dtype.type(low), block.dtype.type(high), out=block)

    return apply


def _gate(slope: float, offset: float, times_x: bool) -> BlockActivation:
    """``clip(slope * x + offset, 0, 1)``, times ``x`` for hard_swish."""

    def apply(block: Array) -> None:
        kind = block.dtype.type
        gate = workspace("gate", block.shape, block.dtype) if times_x else block
        np.multiply(block, kind(slope), out=gate)
        gate += kind(offset)
        np.clip(gate, kind(0), kind(1), out=gate)
        if times_x:
            np.multiply(block, gate, out=block)

    return apply


def _operator(type: str, **attrs: Any) -> BlockActivation:
    """An activation that exists as an operator."""

    def apply(block: Array) -> None:
        activate(type, block, block, **attrs)

    return apply


_Maker = Callable[[float, float], BlockActivation]

_ACTIVATIONS: dict[str, _Maker] = {
    "relu": lambda a, b: _leaky(a),
    "leaky_relu": lambda a, b: _leaky(a),
    # Programs older than 2.4 give the threshold of relu6 alone; files saved without extra attributes give nothing.
    "relu6": lambda a, b: _clip(a, b) if b > a else _clip(0.0, a or 6.0),
    "relux": lambda a, b: _clip(0.0, a or 6.0),
    "clip": _clip,
    "hard_swish": lambda a, b: _gate(a, b, True) if a or b else _gate(1 / 6, 0.5, True),
    "hard_sigmoid": lambda a, b: _gate(a, b, False),
    "swish": lambda a, b: _operator("swish", beta=a),
    "sigmoid": lambda a, b: _operator("sigmoid"),
    "tanh": lambda a, b: _operator("tanh"),
    "mish": lambda a, b: _operator("mish"),
    "abs": lambda a, b: _operator("abs"),
    "sqrt": lambda a, b: _operator("sqrt"),
    "gelu": lambda a, b: _operator("gelu", approximate=False),
    "gelu_erf": lambda a, b: _operator("gelu", approximate=False),
    "gelu_tanh": lambda a, b: _operator("gelu", approximate=True),
}
"""Activation name -> maker from ``fuse_alpha`` and ``fuse_beta``, with the meaning that oneDNN gives to them."""


def block_activation(name: str, alpha: float = 0.0, beta: float = 0.0) -> BlockActivation | None:
    """The activation of a fused operator; None for the identity.

    Raises:
        ValueError: the name is not known.
    """
    if name in ("", "identity"):
        return None
    maker = _ACTIVATIONS.get(name)
    if maker is None:
        raise ValueError(f"activation '{name}' is not known, only {', '.join(sorted(_ACTIVATIONS))}")
    return maker(alpha, beta)


class Finisher:
    """Bias ``[C]``, residual (shape of the output) and activation, applied to a block of ``out`` ``[N, C, pixels]``."""

    def __init__(self, bias: Array | None, residual: Array | None, activation: BlockActivation | None) -> None:
        self._bias = None if bias is None else bias.reshape(-1, 1)
        self._residual = None if residual is None else flattened(residual, 2)
        self._activation = activation

    def __call__(self, out: Array, image: int, channels: slice, pixels: slice) -> None:
        block = out[image, channels, pixels]
        if self._bias is not None:
            np.add(block, self._bias[channels], out=block)
        if self._residual is not None:
            np.add(block, self._residual[image, channels, pixels], out=block)
        if self._activation is not None:
            self._activation(block)
