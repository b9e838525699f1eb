"""Transposed convolutions over two and three spatial axes, plain and depthwise.

A transposed convolution is what carries gradients back through a convolution, so the formulations are those of
:mod:`conv_fast` with input and output exchanged. A filter is ``[C, O / groups, *kernel]``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...ir.registry import Kernel, operator
from ..values import Array
from .common import accumulate_dtype
from .conv import ConvAttrs, checked_floats, finisher, pack, shared_attrs
from .conv_back import convolve_back, filter_gradient
from .conv_fast import convolve
from .conv_filter import PackedFilter
from .conv_finish import BlockActivation, block_activation
from .window import Window, channels_first, channels_last

__all__ = ["conv2d_transpose", "conv3d_transpose"]


def _output_extents(
    window: Window, spatial: Sequence[int], output_size: Sequence[int], output_padding: Sequence[int]
) -> tuple[int, ...]:
    """The output extents: those that just hold the window, extended by what the attributes ask for."""
    least = [
        (size - 1) * s - sum(pad) + d * (k - 1) + 1
        for size, k, s, d, pad in zip(
            spatial, window.kernel, window.strides, window.dilations, window.pads, strict=True
        )
    ]
    if output_size:
        asked = [int(size) for size in output_size]
        fits = len(asked) == len(least) and all(
            low <= size < low + s for size, low, s in zip(asked, least, window.strides, strict=True)
        )
        if not fits:
            bounds = [[low, low + s - 1] for low, s in zip(least, window.strides, strict=True)]
            raise ValueError(f"output_size must lie between {bounds} per axis, got {list(output_size)}")
        return tuple(asked)
    extra = [int(p) for p in output_padding] or [0] * len(least)
    limits = [max(s, d) for s, d in zip(window.strides, window.dilations, strict=True)]
    if len(extra) != len(least) or any(not 0 <= p < limit for p, limit in zip(extra, limits, strict=True)):
        raise ValueError(f"output_padding must be below {limits} per axis, got {list(output_padding)}")
    grown = tuple(low + p for low, p in zip(least, extra, strict=True))
    if min(grown) <= 0:
        raise ValueError(f"an input of size {list(spatial)} leaves an output of size {list(grown)}")
    return grown


def _run(
    x: Array,
    filter: PackedFilter,
    bias: Array | None,
    attrs: ConvAttrs,
    sizes: tuple[Sequence[int], Sequence[int]],
    activation: BlockActivation | None,
) -> Array:
    images = channels_first(x, attrs.data_format)
    window = attrs.window(images.shape[2:], filter.kernel)
    extents = _output_extents(window, images.shape[2:], *sizes)
    finish = finisher(bias, None, activation, filter.groups * filter.inputs, filter.weight.dtype)
    out = convolve_back(images.astype(filter.weight.dtype, copy=False), filter, window, extents, finish)
    return channels_last(out.astype(x.dtype, copy=False), attrs.data_format)


def _kernel(count: int) -> Kernel:
    ones, zeros = (1,) * count, (0,) * count

    def transposed(
        x: Array,
        filter: Array,
        bias: Array | None = None,
        *,
        strides: Sequence[int] = ones,
        paddings: Sequence[int] = zeros,
        output_padding: Sequence[int] = (),
        output_size: Sequence[int] = (),
        padding_algorithm: str = "EXPLICIT",
        groups: int = 1,
        dilations: Sequence[int] = ones,
        data_format: str = "NCHW",
        fuse_activation: str = "",
        fuse_alpha: float = 0.0,
        fuse_beta: float = 0.0,
        fuse_relu: bool = False,
    ) -> Array:
        attrs = ConvAttrs(strides, paddings, padding_algorithm, dilations, groups, data_format)
        checked_floats(channels_first(x, data_format), filter, groups, transposed=True)
        activation = block_activation(fuse_activation or ("relu" if fuse_relu else ""), fuse_alpha, fuse_beta)
        return _run(x, pack(filter, groups), bias, attrs, (output_size, output_padding), activation)

    transposed.__doc__ = "Spread every input over its window of the output; then bias ``[O]`` and activation."
    return transposed


conv2d_transpose = operator(
    "conv2d_transpose",
    "depthwise_conv2d_transpose",
    "conv2d_transpose_bias",
    inputs="Input Filter Bias?",
    outputs="Output",
    ignores="is_test",
)(_kernel(2))
conv3d_transpose = operator("conv3d_transpose", inputs="Input Filter", outputs="Output", ignores="is_test")(_kernel(3))


def _prepare(constants: Mapping[str, Any], **attrs: Any) -> Callable[..., Array] | None:
    """A run with the filter packed once; declined when the filter changes from run to run."""
    filter = constants.get("Filter")
    if filter is None:
        return None
    shared = shared_attrs(attrs)
    packed = pack(filter, shared.groups)
    output_padding = attrs.get("output_padding", ())
    name = attrs.get("fuse_activation") or ("relu" if attrs.get("fuse_relu") else "")
    activation = block_activation(name, attrs.get("fuse_alpha", 0.0), attrs.get("fuse_beta", 0.0))

    def run(
        x: Array,
        filter: Array,
        bias: Array | None = None,
        *,
        output_size: Sequence[int] = attrs.get("output_size", ()),  # a variable may give it from run to run
    ) -> Array:
        checked_floats(channels_first(x, shared.data_format), filter, shared.groups, transposed=True)
        return _run(x, packed, bias, shared, (output_size, output_padding), activation)

    return run


for _each in (conv2d_transpose, conv3d_transpose):
    _each.prepare(_prepare)


def _refuse_fused(fuse_activation: str, fuse_relu: bool) -> None:
    if fuse_activation or fuse_relu:
        raise ValueError("a convolution fused with an activation (fuse_activation, fuse_relu) has no gradient")


def _gradients(
    x: Array, filter: Array, d_out: Array, attrs: ConvAttrs, want: frozenset[str]
) -> tuple[Array | None, Array | None]:
    """The gradients of input and filter; each is computed only when somebody reads it."""
    wide = accumulate_dtype(x.dtype)
    images = channels_first(x, attrs.data_format).astype(wide, copy=False)
    above = channels_first(d_out, attrs.data_format).astype(wide, copy=False)
    window = attrs.window(images.shape[2:], filter.shape[2:])
    d_x = d_filter = None
    if "Input@GRAD" in want:
        back = convolve(above, pack(filter, attrs.groups), window)
        d_x = channels_last(back.astype(x.dtype, copy=False), attrs.data_format)
    if "Filter@GRAD" in want:
        d_filter = filter_gradient(above, images, attrs.groups, window).astype(filter.dtype, copy=False)
    return d_x, d_filter


_BOTH = frozenset({"Input@GRAD", "Filter@GRAD"})
_GIVES = "Input@GRAD Filter@GRAD"


@conv2d_transpose.gradient(takes="Input Filter Bias? Output@GRAD", gives=_GIVES)
def conv2d_transpose_grad(
    x: Array,
    filter: Array,
    bias: Array | None,
    d_out: Array,
    *,
    strides: Sequence[int] = (1, 1),
    paddings: Sequence[int] = (0, 0),
    padding_algorithm: str = "EXPLICIT",
    groups: int = 1,
    dilations: Sequence[int] = (1, 1),
    data_format: str = "NCHW",
    fuse_activation: str = "",
    fuse_relu: bool = False,
    want: frozenset[str] = _BOTH,
) -> tuple[Array | None, Array | None]:
    """The gradients of input and filter; Paddle makes none for the bias that a back end fused in."""
    _refuse_fused(fuse_activation, fuse_relu)
    attrs = ConvAttrs(strides, paddings, padding_algorithm, dilations, groups, data_format)
    return _gradients(x, filter, d_out, attrs, want)


@conv3d_transpose.gradient(takes="Input Filter Output@GRAD", gives=_GIVES)
def conv3d_transpose_grad(
    x: Array,
    filter: Array,
    d_out: Array,
    *,
    strides: Sequence[int] = (1, 1, 1),
    paddings: Sequence[int] = (0, 0, 0),
    padding_algorithm: str = "EXPLICIT",
    groups: int = 1,
    dilations: Sequence[int] = (1, 1, 1),
    data_format: str = "NCHW",
    fuse_activation: str = "",
    fuse_relu: bool = False,
    want: frozenset[str] = _BOTH,
) -> tuple[Array | None, Array | None]:
    """The gradients of input and filter."""
    _refuse_fused(fuse_activation, fuse_relu)
    attrs = ConvAttrs(strides, paddings, padding_algorithm, dilations, groups, data_format)
    return _gradients(x, filter, d_out, attrs, want)
