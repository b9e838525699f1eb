"""Activations with a second tensor, with groups or with noise: ``prelu``, ``rrelu``, ``maxout``; position encoding."""

from __future__ import annotations

import numpy as np

from ...ir.registry import operator
from ..random import generator
from ..values import Array, LoDTensor, array_of
from .activation import activate
from .common import accumulate_dtype
from .elementwise import binary
from .matmul_fused import activation
from .pointwise import widened

__all__ = ["maxout", "prelu", "rrelu"]


def _spread_alpha(x: Array, alpha: Array, mode: str, data_format: str) -> Array:
    """``Alpha`` in a shape that broadcasts against ``x``.

    Raises:
        ValueError: its size does not fit the mode.
    """
    if mode == "all":
        wanted, shape = 1, (1,) * x.ndim
    elif mode == "channel":
        axis = x.ndim - 1 if data_format == "NHWC" else 1
        if x.ndim < 2:
            raise ValueError(f"slot X: at least 2 dimensions expected for mode 'channel', got {list(x.shape)}")
        wanted = x.shape[axis]
        shape = tuple(wanted if i == axis else 1 for i in range(x.ndim))
    elif mode == "element":
        if alpha.ndim != x.ndim:
            raise ValueError(f"slot Alpha: {x.ndim} dimension(s) expected as X has, got {list(alpha.shape)}")
        wanted, shape = int(np.prod(x.shape[1:])), (1, *x.shape[1:])
    else:
        raise ValueError(f"attribute mode='{mode}': all, channel or element expected")
    if alpha.size != wanted:
        raise ValueError(f"slot Alpha: {wanted} element(s) expected for mode '{mode}', got {list(alpha.shape)}")
    return alpha.reshape(shape)


def _bent(x: Array, slope: Array, out: Array | None = None) -> Array:
    """``x`` where positive, else ``slope * x``, called like a ufunc."""
    zero = x.dtype.type(0)
    negative = np.minimum(x, zero)
    negative = np.multiply(negative, slope, out=negative if negative.ndim else None)
    result: Array = np.add(np.maximum(x, zero, out=out), negative, out=out)
    return result


@operator("prelu", inputs="X Alpha", outputs="Out", inplace="X->Out", ignores="is_test mkldnn_data_type")
def prelu(x: Array, alpha: Array, *, mode: str = "all", data_format: str = "NCHW", out: Array | None = None) -> Array:
    """``x`` where positive, else ``alpha * x``, with one ``alpha`` for all, per channel or per element."""
    wide, given = widened("prelu", "X", x.dtype, "f")
    if alpha.dtype != given:
        raise TypeError(f"slot Alpha: dtype {alpha.dtype}, X has {given}")
    slope = _spread_alpha(x, alpha, mode, data_format)
    with np.errstate(all="ignore"):
        if wide != given:
            return np.asarray(_bent(x.astype(wide), slope.astype(wide))).astype(given)
        return binary(_bent, x, slope, out)


@prelu.gradient(takes="X Alpha Out@GRAD", gives="X@GRAD Alpha@GRAD")
def prelu_grad(
    x: Array,
    alpha: Array,
    d_out: Array,
    *,
    mode: str = "all",
    data_format: str = "NCHW",
    want: frozenset[str] = frozenset({"X@GRAD", "Alpha@GRAD"}),
) -> tuple[Array | None, Array | None]:
    """``d_out`` times 1 or ``alpha``; ``alpha`` receives ``sum(d_out * min(x, 0))``."""
    slope = _spread_alpha(x, alpha, mode, data_format)
    d_x = d_alpha = None
    if "X@GRAD" in want:
        positive = x > 0
        d_x = np.asarray(d_out * positive + d_out * ~positive * slope).astype(x.dtype, copy=False)
    if "Alpha@GRAD" in want:
        part = np.asarray(d_out * np.minimum(x, 0))
        axes = tuple(i for i, dim in enumerate(slope.shape) if dim == 1)
        total = part.sum(axis=axes, dtype=accumulate_dtype(x.dtype))
        d_alpha = np.asarray(total).reshape(alpha.shape).astype(alpha.dtype, copy=False)
    return d_x, d_alpha


@operator("rrelu", inputs="X", outputs="Out Noise?")
def rrelu(
    x: Array,
    *,
    lower: float = 0.125,
    upper: float = 0.3333333432674408,
    is_test: bool = False,
) -> tuple[Array, Array]:
    """``x`` where not negative, else ``x`` times a slope drawn from ``[lower, upper]``, their mean at test."""
    if not (0.0 <= lower < 1.0 and lower <= upper <= 1.0):
        raise ValueError(f"attributes lower={lower}, upper={upper}: 0 <= lower <= upper <= 1 expected")
    widened("rrelu", "X", x.dtype, "f")
    if is_test:
        slope: Array = np.full(x.shape, 0.5 * (lower + upper), np.float32)
    else:
        slope = generator().uniform(lower, upper, x.shape)
    noise = np.where(x < 0, slope, 1.0).astype(x.dtype)
    return np.asarray(x * noise), noise


@rrelu.gradient(takes="X Noise Out@GRAD", gives="X@GRAD", forgets="is_test lower upper")
def rrelu_grad(x: Array, noise: Array, d_out: Array) -> Array:
    """``d_out`` times the slope that was used."""
    return np.asarray(d_out * noise)


def _groups(x: Array, groups: int, axis: int) -> int:
    """The axis whose channels are grouped.

    Raises:
        ValueError: the groups do not fit.
    """
    if groups <= 1:
        raise ValueError(f"attribute groups={groups}: more than 1 expected")
    if x.ndim != 4 or axis not in (1, -1, 3):
        raise ValueError(f"attribute axis={axis} of shape {list(x.shape)}: 4 dimensions and axis 1, 3 or -1 expected")
    axis %= 4
    if x.shape[axis] % groups:
        raise ValueError(f"attribute groups={groups} does not divide {x.shape[axis]} channels")
    return axis


def _grouped(x: Array, groups: int, axis: int) -> Array:
    """A view with the members of each group along a new axis behind ``axis``."""
    return x.reshape(*x.shape[:axis], x.shape[axis] // groups, groups, *x.shape[axis + 1 :])


@operator("maxout", inputs="X", outputs="Out")
def maxout(x: Array, *, groups: int, axis: int = 1) -> Array:
    """The largest of every ``groups`` neighbouring channels."""
    axis = _groups(x, groups, axis)
    return np.asarray(_grouped(x, groups, axis).max(axis=axis + 1))


@maxout.gradient(takes="X Out Out@GRAD", gives="X@GRAD")
def maxout_grad(x: Array, out: Array, d_out: Array, *, groups: int, axis: int = 1) -> Array:
    """``d_out`` to the first channel of each group that holds the maximum."""
    axis = _groups(x, groups, axis)
    best = np.expand_dims(_grouped(x, groups, axis).argmax(axis=axis + 1), axis + 1)
    grad = np.zeros(x.shape, d_out.dtype)
    np.put_along_axis(_grouped(grad, groups, axis), best, np.expand_dims(d_out, axis + 1), axis + 1)
    return grad


@operator("fused_softplus", inputs="X", outputs="Out", gradient=None)
def fused_softplus(
    x: Array,
    *,
    beta: float = 1.0,
    threshold: float = 20.0,
    fuse_activation: str = "",
    fuse_alpha: float = 0.0,
    fuse_beta: float = 0.0,
) -> Array:
    """``softplus``, then the activation that was fused."""
    result = activate("softplus", x, beta=beta, threshold=threshold)
    apply = activation(fuse_activation, fuse_alpha, fuse_beta)
    return result if apply is None else apply(result)


def _encoding(length: int, size: int) -> Array:
    """Sines in the first half of each row, cosines in the second; ``[length, size]`` in float64."""
    half = size // 2
    exponents = np.arange(half) / (half - 1) if half > 1 else np.ones(half)
    angles = np.arange(length)[:, None] / np.power(10000.0, exponents)
    return np.concatenate([np.sin(angles), np.cos(angles)], axis=1)


@operator("add_position_encoding", inputs="X", outputs="Out", lod=True)
def add_position_encoding(x: Array | LoDTensor, *, alpha: float = 1.0, beta: float = 1.0) -> Array | LoDTensor:
    """``alpha * x + beta * encoding`` of ``[N, length, size]``, or of a ragged batch ``[rows, size]``."""
    array = array_of(x)
    size = array.shape[-1] if array.ndim else 0
    if size % 2 or array.ndim != (2 if isinstance(x, LoDTensor) else 3):
        raise ValueError(
            f"slot X: [N, length, even size] or a ragged batch [rows, even size] expected, got {list(array.shape)}"
        )
    if isinstance(x, LoDTensor):
        offsets = x.lod[-1]
        lengths = [end - start for start, end in zip(offsets, offsets[1:], strict=False)]
        encoding = _encoding(max(lengths, default=0), size)
        added = np.concatenate([encoding[:length] for length in lengths] or [encoding])
    else:
        added = _encoding(array.shape[1], size)
    result = (alpha * array + beta * added).astype(array.dtype)
    return LoDTensor(result, x.lod) if isinstance(x, LoDTensor) else result


@add_position_encoding.gradient(takes="Out@GRAD", gives="X@GRAD", lod=False)
def add_position_encoding_grad(d_out: Array, *, alpha: float = 1.0) -> Array:
    """``alpha * d_out``."""
    return np.asarray(alpha * d_out).astype(d_out.dtype, copy=False)
