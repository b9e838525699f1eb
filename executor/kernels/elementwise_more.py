"""Two-tensor operators beside the arithmetic table: fused forms, ``minus``, ``atan2``, ``nextafter``, ``lerp``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ir.desc import EMPTY_VAR, GRAD_SUFFIX, OpDesc
from ...ir.registry import define, lookup, operator
from ..values import Array
from .common import unbroadcast
from .elementwise import arithmetic
from .matmul_fused import activation
from .pointwise import widened

__all__ = ["atan2", "fused_elemwise_activation", "lerp", "minus", "nextafter"]


@operator("minus", inputs="X Y", outputs="Out", inplace="X->Out")
def minus(x: Array, y: Array, *, out: Array | None = None) -> Array:
    """``x - y`` of two tensors of one shape."""
    if x.shape != y.shape:
        raise ValueError(f"slot Y: shape {list(y.shape)} differs from that of X, {list(x.shape)}")
    return arithmetic("sub", x, y, out=out)


@minus.gradient_maker
def _minus_grads(op: OpDesc, no_grad: frozenset[str]) -> list[OpDesc]:
    """``scale`` by 1 and by -1."""
    grads = []
    for slot, factor in (("X", 1.0), ("Y", -1.0)):
        target = op.inputs[slot][0] + GRAD_SUFFIX
        if target not in no_grad and op.inputs[slot][0] != EMPTY_VAR:
            seed = op.outputs["Out"][0] + GRAD_SUFFIX
            attrs = {**op.attrs, "scale": factor}
            grads.append(OpDesc("scale", {"X": [seed]}, {"Out": [target]}, attrs, dict(op.attr_types)))
    return grads


@operator("atan2", inputs="X1 X2", outputs="Out")
def atan2(x1: Array, x2: Array) -> Array:
    """The angle of the point ``(x2, x1)``; of integers in float64."""
    if x1.ndim != x2.ndim:
        raise ValueError(f"slot X2: {x2.ndim} dimension(s), X1 has {x1.ndim}")
    widened("atan2", "X1", x1.dtype, "fi")
    if x1.dtype.kind in "iu":
        x1, x2 = x1.astype(np.float64), x2.astype(np.float64)
    return np.arctan2(x1, x2)


@atan2.gradient(takes="X1 X2 Out@GRAD", gives="X1@GRAD X2@GRAD")
def atan2_grad(x1: Array, x2: Array, d_out: Array) -> tuple[Array, Array]:
    """``d_out * x2 / (x1**2 + x2**2)`` and ``-d_out * x1 / (x1**2 + x2**2)``."""
    wide = np.dtype(np.float32) if x1.dtype.kind == "V" or x1.dtype == np.float16 else x1.dtype
    y, x, d = (a.astype(wide, copy=False) for a in (x1, x2, d_out))
    with np.errstate(all="ignore"):
        shared = d / (x * x + y * y)
        to_y, to_x = np.asarray(shared * x), np.asarray(-shared * y)
    return (
        unbroadcast(to_y, x1.shape).astype(x1.dtype, copy=False),
        unbroadcast(to_x, x2.shape).astype(x2.dtype, copy=False),
    )


@operator("nextafter", inputs="x y", outputs="out", gradient=None)
def nextafter(x: Array, y: Array) -> Array:
    """The next float from ``x`` towards ``y``; both of one shape."""
    if x.shape != y.shape:
        raise ValueError(f"slot y: shape {list(y.shape)} differs from that of x, {list(x.shape)}")
    if x.dtype not in (np.float32, np.float64):
        raise TypeError(f"slot x: nextafter takes float32 or float64 tensors, got {x.dtype}")
    with np.errstate(all="ignore"):
        return np.nextafter(x, y)


@operator("lerp", inputs="X Y Weight", outputs="Out")
def lerp(x: Array, y: Array, weight: Array) -> Array:
    """``x + weight * (y - x)``, all three broadcast."""
    widened("lerp", "X", x.dtype, "f")
    return np.asarray(x + weight * (y - x)).astype(x.dtype, copy=False)


@lerp.gradient(takes="X Y Weight Out Out@GRAD", gives="X@GRAD Y@GRAD")
def lerp_grad(x: Array, y: Array, weight: Array, out: Array, d_out: Array) -> tuple[Array, Array]:
    """``d_out * (1 - weight)`` and ``d_out * weight``; the weight gets none, as Paddle has it."""
    to_y = np.asarray(d_out * weight)
    to_x = np.asarray(d_out - to_y)
    return (
        unbroadcast(to_x, x.shape).astype(x.dtype, copy=False),
        unbroadcast(to_y, y.shape).astype(y.dtype, copy=False),
    )


def _fused_kernel(name: str) -> Any:
    def kernel(
        x: Array,
        y: Array,
        *,
        axis: int = -1,
        fuse_activation: str = "",
        fuse_alpha: float = 0.0,
        fuse_beta: float = 0.0,
        fused_output_scale: float = 1.0,
        fused_unsqueeze2_axes: Sequence[int] = (),
    ) -> Array:
        result = np.asarray(arithmetic(name, x, y, axis))
        apply = activation(fuse_activation, fuse_alpha, fuse_beta)
        if apply is not None:
            result = apply(result)
        if fused_output_scale != 1.0:
            result = (result * fused_output_scale).astype(x.dtype, copy=False)
        return np.expand_dims(result, tuple(fused_unsqueeze2_axes)) if fused_unsqueeze2_axes else result

    kernel.__doc__ = f"``elementwise_{name}``, then the fused activation, scale and new axes."
    return kernel


for _name in ("add", "sub", "mul", "div"):
    define(
        f"fused_elementwise_{_name}",
        _fused_kernel(_name),
        inputs="X Y",
        outputs="Out",
        refuse={"scale_x": 1.0, "scale_y": 1.0, "scale_out": 1.0},
        gradient=None,
    )


_BINARY = {"elementwise_add": "add", "elementwise_mul": "mul"}
_UNARY = {"relu": "Out", "tanh": "Out", "sigmoid": "Out", "gelu": "X", "scale": ""}
"""The functions that may be fused, and what the gradient of each reads."""


def _functors(names: Sequence[str]) -> tuple[bool, str, str]:
    """Whether the unary function comes last, its name, and that of the binary one.

    Raises:
        ValueError: the list is not one of each.
    """
    listed = [name.removesuffix("_grad") for name in names]
    if len(listed) == 2:
        first, second = listed
        if first in _UNARY and second in _BINARY:
            return True, first, second
        if first in _BINARY and second in _UNARY:
            return False, second, first
    raise ValueError(
        f"attribute functor_list={list(names)}: one of {', '.join(_BINARY)} and one of {', '.join(_UNARY)} expected"
    )


def _unary(name: str, x: Array, scale: float) -> Array:
    return np.asarray(np.multiply(x, x.dtype.type(scale)) if name == "scale" else lookup(name).kernel(x))


def _unary_grad(name: str, x: Array, out: Array, d_out: Array, scale: float) -> Array:
    if name == "scale":
        return np.asarray(np.multiply(d_out, scale, dtype=d_out.dtype))
    return np.asarray(lookup(f"{name}_grad").kernel(out if _UNARY[name] == "Out" else x, d_out))


@operator(
    "fused_elemwise_activation",
    "fused_elemwise_add_activation",
    inputs="X Y",
    outputs="Out IntermediateOut?",
    ignores="save_intermediate_out",
)
def fused_elemwise_activation(
    x: Array, y: Array, *, functor_list: Sequence[str], axis: int = -1, scale: float = 0.0
) -> tuple[Array, Array]:
    """``unary(binary(x, y))`` or ``binary(x, unary(y))``, as ``functor_list`` orders them, and what lies between."""
    last, unary, two = _functors(functor_list)
    if last:
        between = np.asarray(arithmetic(_BINARY[two], x, y, axis))
        return _unary(unary, between, scale), between
    between = _unary(unary, y, scale)
    return np.asarray(arithmetic(_BINARY[two], x, between, axis)), between


@fused_elemwise_activation.gradient(takes="X Y Out IntermediateOut? Out@GRAD", gives="X@GRAD Y@GRAD")
def fused_elemwise_activation_grad(
    x: Array,
    y: Array,
    out: Array,
    between: Array | None,
    d_out: Array,
    *,
    functor_list: Sequence[str],
    axis: int = -1,
    scale: float = 0.0,
) -> tuple[Array, Array]:
    """The chain rule over the two functions; what lay between is computed again where it was not saved."""
    last, unary, two = _functors(functor_list)
    gradient = lookup(f"{two}_grad").kernel
    if last:
        if between is None:
            between = np.asarray(arithmetic(_BINARY[two], x, y, axis))
        return gradient(x, y, _unary_grad(unary, between, out, d_out, scale), axis=axis)  # type: ignore[no-any-return]
    if between is None:
        between = _unary(unary, y, scale)
    d_x, d_between = gradient(x, between, d_out, axis=axis)
    return d_x, _unary_grad(unary, y, between, d_between, scale)
