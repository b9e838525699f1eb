"""Convolutions over two and three spatial axes: plain, depthwise, and fused with bias, residual and activation.

The formulations are in :mod:`conv_fast`; here are the slots and attributes, dtypes, layouts and gradients.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...ir.registry import Kernel, operator
from ..values import Array
from .common import accumulate_dtype
from .conv_back import convolve_back, filter_gradient
from .conv_fast import convolve
from .conv_filter import PackedFilter
from .conv_finish import BlockActivation, Finisher, block_activation
from .window import Window, channels_first, channels_last, pads_of, per_axis

__all__ = ["ConvAttrs", "checked_floats", "conv2d", "conv3d", "fused_conv2d", "fused_conv2d_add_act"]

_INT8_ONLY: dict[str, Any] = {
    "Scale_in": 1.0,
    "Scale_out": 1.0,
    "Scale_in_eltwise": 1.0,
    "Scale_weights": [1.0],
}
"""Attributes of int8 programs, supported at their neutral values."""


@dataclass(frozen=True, slots=True)
class ConvAttrs:
    """The attributes that all convolutions share."""

    strides: Sequence[int] = ()
    paddings: Sequence[int] = ()
    padding_algorithm: str = "EXPLICIT"
    dilations: Sequence[int] = ()
    groups: int = 1
    data_format: str = "NCHW"

    def window(self, spatial: Sequence[int], kernel: tuple[int, ...]) -> Window:
        """The window over an input of this size. SAME sets the dilations to 1, as Paddle does."""
        count = len(kernel)
        steps, spread = per_axis(self.strides, count, "strides"), per_axis(self.dilations, count, "dilations")
        pads = pads_of(self.padding_algorithm, self.paddings, spatial, kernel, steps)
        return Window(kernel, steps, (1,) * count if self.padding_algorithm == "SAME" else spread, pads)


_SHARED = tuple(ConvAttrs.__dataclass_fields__)


def shared_attrs(attrs: Mapping[str, Any]) -> ConvAttrs:
    """The shared attributes among ``attrs``."""
    return ConvAttrs(**{name: attrs[name] for name in _SHARED if name in attrs})


def checked_floats(x: Array, filter: Array, groups: int, *, transposed: bool = False) -> None:
    """Refuse what no convolution takes; ``x`` is channels first.

    Raises:
        TypeError: not a floating dtype, or two different ones.
        ValueError: ranks or channels do not fit.
    """
    if x.dtype.name not in ("float32", "float64", "float16", "bfloat16") or filter.dtype != x.dtype:
        raise TypeError(f"Input ({x.dtype}) and Filter ({filter.dtype}) must have one floating dtype")
    if x.ndim != filter.ndim or x.ndim not in (4, 5):
        raise ValueError(
            f"Input {list(x.shape)} and Filter {list(filter.shape)} must both have 4 dimensions, or both 5"
        )
    wanted = filter.shape[0] if transposed else filter.shape[1] * groups
    if groups < 1 or x.shape[1] != wanted or filter.shape[0] % groups:
        raise ValueError(
            f"Input has {x.shape[1]} channels, Filter {list(filter.shape)} with groups={groups} takes {wanted}, "
            "and groups must divide the Filter's first dimension"
        )


def pack(filter: Array, groups: int) -> PackedFilter:
    """A filter in the dtype that sums are kept in."""
    return PackedFilter(np.require(filter, accumulate_dtype(filter.dtype), "A"), groups)


def finisher(
    bias: Array | None,
    residual: Array | None,
    activation: BlockActivation | None,
    outputs: int,
    dtype: np.dtype[Any],
) -> Finisher | None:
    """What is to be done to each block of the output, None for nothing; ``residual`` is channels first."""
    if bias is None and residual is None and activation is None:
        return None
    if bias is not None:
        if bias.size != outputs:
            raise ValueError(f"Bias has {bias.size} values for {outputs} output channels")
        bias = bias.astype(dtype, copy=False)
    if residual is not None:
        residual = residual.astype(dtype, copy=False)
    return Finisher(bias, residual, activation)


def _run(
    x: Array,
    filter: PackedFilter,
    bias: Array | None,
    residual: Array | None,
    attrs: ConvAttrs,
    activation: BlockActivation | None,
) -> Array:
    images = channels_first(x, attrs.data_format)
    window = attrs.window(images.shape[2:], filter.kernel)
    added = None if residual is None else channels_first(residual, attrs.data_format)
    finish = finisher(bias, added, activation, filter.outputs, filter.weight.dtype)
    out = convolve(images.astype(filter.weight.dtype, copy=False), filter, window, finish)
    return channels_last(out.astype(x.dtype, copy=False), attrs.data_format)


def _kernel(count: int, layout: str) -> Kernel:
    """The convolution kernel whose registered defaults are for ``count`` spatial axes."""
    ones, zeros = (1,) * count, (0,) * count

    def convolution(
        x: Array,
        filter: Array,
        bias: Array | None = None,
        residual: Array | None = None,
        *,
        strides: Sequence[int] = ones,
        paddings: Sequence[int] = zeros,
        padding_algorithm: str = "EXPLICIT",
        dilations: Sequence[int] = ones,
        groups: int = 1,
        data_format: str = layout,
        fuse_activation: str = "",
        fuse_alpha: float = 0.0,
        fuse_beta: float = 0.0,
        fuse_relu: bool = False,
        fuse_residual_connection: bool = False,
    ) -> Array:
        attrs = ConvAttrs(strides, paddings, padding_algorithm, dilations, groups, data_format)
        checked_floats(channels_first(x, data_format), filter, groups)
        activation = block_activation(fuse_activation or ("relu" if fuse_relu else ""), fuse_alpha, fuse_beta)
        added = residual if fuse_residual_connection else None
        return _run(x, pack(filter, groups), bias, added, attrs, activation)

    convolution.__doc__ = f"""Convolution of ``x`` with ``filter`` ``[O, C / groups, *kernel]``, {count} spatial axes.

    Then bias ``[O]``, residual (shape of the output) and activation, where the program was optimised that way.
    Half dtypes are summed in float32. Returns ``[N, O, *out]``, channels last where ``data_format`` says so.
    """
    return convolution


_SLOTS = "Input Filter Bias? ResidualData?"
_DEPTHWISE_REFUSE = {**_INT8_ONLY, "fuse_relu_before_depthwise_conv": False}

conv2d = operator(
    "conv2d", "depthwise_conv2d", inputs=_SLOTS, outputs="Output", ignores="is_test", refuse=_DEPTHWISE_REFUSE
)(_kernel(2, "NCHW"))
conv3d = operator("conv3d", inputs=_SLOTS, outputs="Output", ignores="is_test", refuse=_INT8_ONLY)(_kernel(3, "NCDHW"))
fused_conv2d = operator(
    "fused_conv2d", "fused_conv3d", inputs=_SLOTS, outputs="Output", refuse=_INT8_ONLY, gradient=None
)(_kernel(2, "NCHW"))


def _prepare(constants: Mapping[str, Any], **attrs: Any) -> Callable[..., Array] | None:
    """A run with the filter packed once; declined when the filter changes from run to run."""
    filter = constants.get("Filter")
    if filter is None:
        return None
    shared = shared_attrs(attrs)
    packed = pack(filter, shared.groups)
    name = attrs.get("fuse_activation") or ("relu" if attrs.get("fuse_relu") else "")
    activation = block_activation(name, attrs.get("fuse_alpha", 0.0), attrs.get("fuse_beta", 0.0))
    use_residual = bool(attrs.get("fuse_residual_connection"))

    def run(x: Array, filter: Array, bias: Array | None = None, residual: Array | None = None) -> Array:
        checked_floats(channels_first(x, shared.data_format), filter, shared.groups)
        return _run(x, packed, bias, residual if use_residual else None, shared, activation)

    return run


for _each in (conv2d, conv3d, fused_conv2d):
    _each.prepare(_prepare)


def _gradient_kernel(count: int, layout: str) -> Kernel:
    ones, zeros = (1,) * count, (0,) * count

    def convolution_grad(
        x: Array,
        filter: Array,
        d_out: Array,
        *,
        strides: Sequence[int] = ones,
        paddings: Sequence[int] = zeros,
        padding_algorithm: str = "EXPLICIT",
        dilations: Sequence[int] = ones,
        groups: int = 1,
        data_format: str = layout,
        fuse_activation: str = "",
        fuse_relu: bool = False,
        want: frozenset[str] = frozenset({"Input@GRAD", "Filter@GRAD"}),
    ) -> tuple[Array | None, Array | None]:
        if fuse_activation or fuse_relu:
            raise ValueError("a convolution fused with an activation (fuse_activation, fuse_relu) has no gradient")
        wide = accumulate_dtype(x.dtype)
        images = channels_first(x, data_format).astype(wide, copy=False)
        above = channels_first(d_out, data_format).astype(wide, copy=False)
        attrs = ConvAttrs(strides, paddings, padding_algorithm, dilations, groups, data_format)
        window = attrs.window(images.shape[2:], filter.shape[2:])
        d_x = d_filter = None
        if "Input@GRAD" in want:
            back = convolve_back(above, pack(filter, groups), window, images.shape[2:])
            d_x = channels_last(back.astype(x.dtype, copy=False), data_format)
        if "Filter@GRAD" in want:
            d_filter = filter_gradient(images, above, groups, window).astype(filter.dtype, copy=False)
        return d_x, d_filter

    convolution_grad.__doc__ = "The gradients of input and filter; each is computed only when somebody reads it."
    return convolution_grad


_TAKES, _GIVES = "Input Filter Output@GRAD", "Input@GRAD Filter@GRAD"
conv2d_grad = conv2d.gradient(takes=_TAKES, gives=_GIVES)(_gradient_kernel(2, "NCHW"))
conv3d_grad = conv3d.gradient(takes=_TAKES, gives=_GIVES)(_gradient_kernel(3, "NCDHW"))


@operator(
    "fused_conv2d_add_act",
    "conv2d_fusion",
    inputs=_SLOTS,
    outputs="Output Outputs*",
    ignores="is_test fuse_residual_connection fuse_beta fuse_activation fuse_relu",
    refuse=_DEPTHWISE_REFUSE,
    gradient=None,
)
def fused_conv2d_add_act(
    x: Array,
    filter: Array,
    bias: Array | None,
    residual: Array | None,
    *,
    strides: Sequence[int] = (1, 1),
    paddings: Sequence[int] = (0, 0),
    padding_algorithm: str = "EXPLICIT",
    dilations: Sequence[int] = (1, 1),
    groups: int = 1,
    data_format: str = "NCHW",
    activation: str = "relu",
    split_channels: Sequence[int] = (),
    fuse_alpha: float = 0.0,
) -> tuple[Array, list[Array]]:
    """``activation(conv(x) + residual + bias)``; ``split_channels`` also gives it in pieces along the channels.

    Returns ``(Output, Outputs)``.
    """
    attrs = ConvAttrs(strides, paddings, padding_algorithm, dilations, groups, data_format)
    checked_floats(channels_first(x, data_format), filter, groups)
    out = _run(x, pack(filter, groups), bias, residual, attrs, block_activation(activation, fuse_alpha))
    if not split_channels:
        return out, []
    axis = -1 if data_format.endswith("C") else 1
    if sum(split_channels) != out.shape[axis]:
        raise ValueError(f"split_channels {list(split_channels)} must add up to {out.shape[axis]} channels")
    return out, np.split(out, np.cumsum(split_channels)[:-1], axis=axis)
