"""Dropout: each element is kept with probability ``1 - p``; a mask remembers which.

Two conventions scale differently: ``upscale_in_train`` divides what is kept by ``1 - p`` in training and leaves
test mode alone; ``downgrade_in_infer`` leaves training alone and multiplies by ``1 - p`` in test mode.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...ir.registry import operator
from ..random import generator
from ..values import Array
from .common import normalize_axis

__all__ = ["apply_mask", "draw_mask", "dropout", "dropout_grad", "in_test", "is_upscaling"]

_MODES = ("upscale_in_train", "downgrade_in_infer")


def is_upscaling(implementation: str) -> bool:
    """Which convention an attribute names; raises ValueError for a third one."""
    if implementation not in _MODES:
        raise ValueError(f"dropout_implementation is '{implementation}', expected one of {', '.join(_MODES)}")
    return implementation == _MODES[0]


def check_probability(p: float) -> float:
    """``p``, which must lie in [0, 1]."""
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout_prob is {p}, expected a number between 0 and 1")
    return p


def draw_mask(shape: Sequence[int], p: float, seed: int) -> Array:
    """A uint8 mask that is 1 with probability ``1 - p``; ``seed`` 0 draws from the global generator."""
    if p in (0.0, 1.0):
        return np.full(shape, 1 - int(p), np.uint8)
    drawn = generator(seed).random(tuple(shape), np.float32)
    result: Array = np.greater_equal(drawn, np.float32(p)).view(np.uint8)
    return result


def apply_mask(x: Array, mask: Array, p: float, upscale: bool) -> Array:
    """``x`` where the mask is 1, divided by ``1 - p`` when upscaling; 0 elsewhere."""
    if p == 1.0:
        return np.zeros_like(x)
    out = np.multiply(x, mask.astype(x.dtype))
    result: Array = np.divide(out, x.dtype.type(1.0 - p), out=out) if upscale and p else out
    return result


def in_test(x: Array, p: float, upscale: bool) -> Array:
    """What test mode does to values and gradients alike."""
    return x if upscale else x * x.dtype.type(1.0 - p)


def _seed(tensor: Array | None, seed: int, fix_seed: bool) -> int:
    """A Seed input goes before the attribute, which counts only when it is fixed."""
    if tensor is not None:
        return int(np.asarray(tensor).reshape(-1)[0])
    return seed if fix_seed else 0


def _run(
    x: Array, p: float, implementation: str, is_test: bool, seed: int, mask_shape: Sequence[int]
) -> tuple[Array, Array | None]:
    upscale = is_upscaling(implementation)
    check_probability(p)
    if is_test:
        return in_test(x, p, upscale), None
    mask = draw_mask(mask_shape, p, seed)
    return apply_mask(x, mask, p, upscale), mask


@operator("dropout", inputs="X Seed?", outputs="Out Mask")
def dropout(
    x: Array,
    seed_tensor: Array | None = None,
    *,
    dropout_prob: float = 0.5,
    is_test: bool = False,
    dropout_implementation: str = "downgrade_in_infer",
    seed: int = 0,
    fix_seed: bool = False,
) -> tuple[Array, Array | None]:
    """Drop elements in training, scale in test mode as the module docstring says; no mask in test mode."""
    drawn_from = _seed(seed_tensor, seed, fix_seed)
    return _run(x, dropout_prob, dropout_implementation, is_test, drawn_from, x.shape)


@dropout.gradient(takes="Mask? Out@GRAD", gives="X@GRAD")
def dropout_grad(
    mask: Array | None,
    d_out: Array,
    *,
    dropout_prob: float = 0.5,
    is_test: bool = False,
    dropout_implementation: str = "downgrade_in_infer",
) -> Array:
    """What the forward pass did to values, done to the gradient."""
    upscale = is_upscaling(dropout_implementation)
    if is_test:
        return in_test(d_out, dropout_prob, upscale)
    if mask is None and dropout_prob in (0.0, 1.0):
        mask = draw_mask(d_out.shape, dropout_prob, 0)
    if mask is None:
        raise ValueError("slot Mask is missing: the forward op in training mode must have that output")
    return apply_mask(d_out, mask, dropout_prob, upscale)


@operator("dropout_nd", inputs="X Seed?", outputs="Out Mask")
def dropout_nd(
    x: Array,
    seed_tensor: Array | None = None,
    *,
    dropout_prob: float = 0.5,
    is_test: bool = False,
    dropout_implementation: str = "downgrade_in_infer",
    axis: Sequence[int] = (),
    seed: int = 0,
    fix_seed: bool = False,
) -> tuple[Array, Array | None]:
    """Dropout with one draw for each index along ``axis``; the mask has size 1 along the others."""
    along = {normalize_axis(each, x.ndim) for each in axis}
    shape = [size if not along or i in along else 1 for i, size in enumerate(x.shape)]
    drawn_from = _seed(seed_tensor, seed, fix_seed)
    return _run(x, dropout_prob, dropout_implementation, is_test, drawn_from, shape)


dropout_nd.gradient(takes="Mask? Out@GRAD", gives="X@GRAD")(dropout_grad.kernel)


def _drawn_seed(seed: int) -> int:
    """A seed that can be noted down: the one given, or one drawn from the global generator."""
    return seed or int(generator().integers(1, 1 << 62))


def _probability(p: float, tensor: Array | None) -> float:
    return check_probability(p if tensor is None else float(np.asarray(tensor).reshape(-1)[0]))


@operator("fused_dropout_add", inputs="x y seed_tensor? PTensor?", outputs="out seed_offset")
def fused_dropout_add(
    x: Array,
    y: Array,
    seed_tensor: Array | None = None,
    p_tensor: Array | None = None,
    *,
    p: float,
    is_test: bool,
    mode: str,
    seed: int = 0,
    fix_seed: bool = False,
) -> tuple[Array, Array]:
    """``dropout(x) + y``; ``seed_offset`` holds what the gradient needs to draw the same mask again."""
    rate, upscale = _probability(p, p_tensor), is_upscaling(mode)
    if is_test:
        return in_test(x, rate, upscale) + y, np.zeros(2, np.int64)
    used = _drawn_seed(_seed(seed_tensor, seed, fix_seed))
    mask = draw_mask(x.shape, rate, used)
    return apply_mask(x, mask, rate, upscale) + y, np.array([used, 0], np.int64)


@fused_dropout_add.gradient(takes="PTensor? seed_offset out@GRAD", gives="x@GRAD y@GRAD")
def fused_dropout_add_grad(
    p_tensor: Array | None, seed_offset: Array, d_out: Array, *, p: float, is_test: bool, mode: str
) -> tuple[Array, Array]:
    """The forward mask drawn again from its seed."""
    rate, upscale = _probability(p, p_tensor), is_upscaling(mode)
    if is_test:
        return in_test(d_out, rate, upscale), d_out
    mask = draw_mask(d_out.shape, rate, int(seed_offset[0]))
    return apply_mask(d_out, mask, rate, upscale), d_out
