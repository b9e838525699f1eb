"""Layers with weights: Linear, convolutions, Embedding, PReLU, Bilinear; and Flatten, Identity, Unfold."""

from __future__ import annotations

import math
from typing import Any

from ...errors import InputError
from ..operands import int_list
from ..tensor import Parameter, Tensor
from . import functional as F
from .initializer import Constant, Normal, Uniform
from .layer import Layer

__all__ = [
    "Bilinear",
    "Conv1D",
    "Conv1DTranspose",
    "Conv2D",
    "Conv2DTranspose",
    "Conv3D",
    "Embedding",
    "Flatten",
    "Identity",
    "Linear",
    "PReLU",
    "Softmax2D",
    "Unflatten",
    "Unfold",
    "UpsamplingBilinear2D",
    "UpsamplingNearest2D",
]


class Linear(Layer):
    """``x @ weight + bias`` with ``weight`` ``[in_features, out_features]``."""

    weight: Parameter
    bias: Parameter | None

    def __init__(
        self,
        in_features: int,
        out_features: int,
        weight_attr: Any = None,
        bias_attr: Any = None,
        name: str | None = None,
    ) -> None:
        super().__init__()
        self._size = (in_features, out_features)
        self.weight = _required(self.create_parameter([in_features, out_features], weight_attr))
        self.bias = self.create_parameter([out_features], bias_attr, is_bias=True)
        self.name = name

    def forward(self, input: Tensor) -> Tensor:
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return f"in_features={self._size[0]}, out_features={self._size[1]}, dtype={self._dtype}"


def _required(parameter: Parameter | None) -> Parameter:
    if parameter is None:
        raise InputError("weight_attr=False: this layer cannot do without its weight")
    return parameter


class _Conv(Layer):
    """A convolution over ``dims`` axes; weights are drawn with variance 2 / fan-in (He et al., 2015)."""

    dims = 2
    layout = "NCHW"
    transposed = False
    weight: Parameter
    bias: Parameter | None

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        padding_mode: str = "zeros",
        weight_attr: Any = None,
        bias_attr: Any = None,
        data_format: str | None = None,
    ) -> None:
        super().__init__()
        if in_channels % groups or out_channels % groups:
            raise InputError(f"channels {in_channels} and {out_channels} must be divisible by groups {groups}")
        if padding_mode not in ("zeros", "reflect", "replicate", "circular"):
            raise InputError(f"padding_mode is zeros, reflect, replicate or circular, not {padding_mode!r}")
        window = int_list(kernel_size)
        self._kernel_size = window * self.dims if len(window) == 1 else window
        self._channels = (in_channels, out_channels)
        self._padding, self._padding_mode = padding, padding_mode
        self._arguments = {"stride": stride, "dilation": dilation, "groups": groups}
        self._data_format = data_format or self.layout
        pair = [in_channels, out_channels // groups] if self.transposed else [out_channels, in_channels // groups]
        self.weight = _required(
            self.create_parameter([*pair, *self._kernel_size], weight_attr, default_initializer=self._initializer())
        )
        self.bias = self.create_parameter([out_channels], bias_attr, is_bias=True)

    def _initializer(self) -> Any:
        if self.transposed:
            return None
        fan_in = math.prod(self._kernel_size) * self._channels[0]
        return Normal(0.0, math.sqrt(2.0 / fan_in))

    def forward(self, x: Tensor) -> Tensor:
        convolve = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}[self.dims]
        padding = self._padding
        if self._padding_mode != "zeros":
            amounts = int_list(padding)
            amounts = amounts * self.dims if len(amounts) == 1 else amounts
            around = [each for amount in reversed(amounts) for each in (amount, amount)]
            x, padding = F.pad(x, around, self._padding_mode, data_format=self._data_format), 0
        return convolve(x, self.weight, self.bias, padding=padding, data_format=self._data_format, **self._arguments)

    def extra_repr(self) -> str:
        text = f"{self._channels[0]}, {self._channels[1]}, kernel_size={self._kernel_size}"
        for key, plain in (("stride", 1), ("dilation", 1), ("groups", 1)):
            if self._arguments[key] not in (plain, [plain] * self.dims):
                text += f", {key}={self._arguments[key]}"
        if self._padding not in (0, [0] * self.dims):
            text += f", padding={self._padding}"
        return f"{text}, data_format={self._data_format}"


class Conv1D(_Conv):
    """Convolution of ``[N, C, L]`` with ``weight`` ``[out, in / groups, k]``."""

    dims, layout = 1, "NCL"


class Conv2D(_Conv):
    """Convolution of ``[N, C, H, W]`` with ``weight`` ``[out, in / groups, kh, kw]``."""


class Conv3D(_Conv):
    """Convolution of ``[N, C, D, H, W]`` with ``weight`` ``[out, in / groups, kd, kh, kw]``."""

    dims, layout = 3, "NCDHW"


class Conv2DTranspose(_Conv):
    """Transposed convolution with ``weight`` ``[in, out / groups, kh, kw]``."""

    transposed = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        weight_attr: Any = None,
        bias_attr: Any = None,
        data_format: str = "NCHW",
    ) -> None:
        super().__init__(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            dilation,
            groups,
            weight_attr=weight_attr,
            bias_attr=bias_attr,
            data_format=data_format,
        )
        self._output_padding = output_padding

    def forward(self, x: Tensor, output_size: Any = None) -> Tensor:
        return F.conv2d_transpose(
            x,
            self.weight,
            self.bias,
            padding=self._padding,
            output_padding=0 if output_size is not None else self._output_padding,
            output_size=output_size,
            data_format=self._data_format,
            **self._arguments,
        )


class Conv1DTranspose(_Conv):
    """Transposed convolution of ``[N, C, L]`` with ``weight`` ``[in, out / groups, k]``."""

    dims, layout, transposed = 1, "NCL", True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        dilation: Any = 1,
        weight_attr: Any = None,
        bias_attr: Any = None,
        data_format: str = "NCL",
    ) -> None:
        super().__init__(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            dilation,
            groups,
            weight_attr=weight_attr,
            bias_attr=bias_attr,
            data_format=data_format,
        )
        self._output_padding = output_padding

    def forward(self, x: Tensor, output_size: Any = None) -> Tensor:
        return F.conv1d_transpose(
            x,
            self.weight,
            self.bias,
            padding=self._padding,
            output_padding=0 if output_size is not None else self._output_padding,
            output_size=output_size,
            data_format=self._data_format,
            **self._arguments,
        )


class Embedding(Layer):
    """Rows of ``weight`` ``[num_embeddings, embedding_dim]`` by number; the row ``padding_idx`` stays zero."""

    weight: Parameter

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        sparse: bool = False,
        weight_attr: Any = None,
        name: str | None = None,
    ) -> None:
        super().__init__()
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            raise InputError(f"padding_idx {padding_idx} is outside a table of {num_embeddings} rows")
        self._padding_idx, self._sparse = padding_idx, sparse
        self.weight = _required(self.create_parameter([num_embeddings, embedding_dim], weight_attr))
        if padding_idx is not None:
            value = self.weight.numpy()
            value[padding_idx] = 0
            self.weight.set_value(value)

    def forward(self, x: Tensor) -> Tensor:
        return F.embedding(x, self.weight, self._padding_idx, self._sparse)

    def extra_repr(self) -> str:
        rows, width = self.weight.shape
        between = "" if self._padding_idx is None else f"padding_idx={self._padding_idx}, "
        return f"{rows}, {width}, {between}sparse={self._sparse}"


class PReLU(Layer):
    """``x`` above 0, a learned slope times ``x`` below; one slope, or one per channel."""

    _weight: Parameter

    def __init__(
        self,
        num_parameters: int = 1,
        init: float = 0.25,
        weight_attr: Any = None,
        data_format: str = "NCHW",
        name: str | None = None,
    ) -> None:
        super().__init__()
        self._init, self._data_format = init, data_format
        self._weight = _required(
            self.create_parameter([num_parameters], weight_attr, default_initializer=Constant(init))
        )

    def forward(self, x: Tensor) -> Tensor:
        return F.prelu(x, self._weight, self._data_format)

    def extra_repr(self) -> str:
        count = self._weight.shape[0]
        return f"num_parameters={count}, data_format={self._data_format}, init={self._init}, dtype={self._dtype}"


class Bilinear(Layer):
    """``x1 @ weight[k] @ x2 + bias[k]`` for every output k."""

    weight: Parameter
    bias: Parameter | None

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        weight_attr: Any = None,
        bias_attr: Any = None,
        name: str | None = None,
    ) -> None:
        super().__init__()
        bound = 1.0 / math.sqrt(in1_features)
        draw = Uniform(-bound, bound)
        shape = [out_features, in1_features, in2_features]
        self.weight = _required(self.create_parameter(shape, weight_attr, default_initializer=draw))
        self.bias = self.create_parameter([1, out_features], bias_attr, is_bias=True, default_initializer=draw)

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return F.bilinear(x1, x2, self.weight, self.bias)


class Flatten(Layer):
    """Axes ``start_axis`` to ``stop_axis`` as one."""

    def __init__(self, start_axis: int = 1, stop_axis: int = -1) -> None:
        super().__init__()
        self.start_axis, self.stop_axis = start_axis, stop_axis

    def forward(self, input: Tensor) -> Tensor:
        return input.flatten(self.start_axis, self.stop_axis)


class Unflatten(Layer):
    """One axis split into ``shape``."""

    def __init__(self, axis: int, shape: Any, name: str | None = None) -> None:
        super().__init__()
        self.axis, self.shape = axis, shape

    def forward(self, input: Tensor) -> Tensor:
        return input.unflatten(self.axis, self.shape)


class Softmax2D(Layer):
    """Softmax over the channels of ``[N, C, H, W]``."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__()

    def forward(self, x: Tensor) -> Tensor:
        return F.softmax(x, axis=-3)


class _Upsampling(Layer):
    """Planes resized by one method."""

    mode = "nearest"
    align_corners = False

    def __init__(
        self, size: Any = None, scale_factor: Any = None, data_format: str = "NCHW", name: str | None = None
    ) -> None:
        super().__init__()
        self.size, self.scale_factor, self.data_format = size, scale_factor, data_format

    def forward(self, x: Tensor) -> Tensor:
        return F.interpolate(
            x,
            self.size,
            self.scale_factor,
            self.mode,
            align_corners=self.align_corners,
            data_format=self.data_format,
        )


class UpsamplingNearest2D(_Upsampling):
    """Planes resized by the nearest element."""


class UpsamplingBilinear2D(_Upsampling):
    """Planes resized by linear interpolation, corners aligned."""

    mode, align_corners = "bilinear", True


class Identity(Layer):
    """Its input."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Any) -> Any:
        return input


class Unfold(Layer):
    """The windows of planes as columns."""

    def __init__(
        self, kernel_sizes: Any, dilations: Any = 1, paddings: Any = 0, strides: Any = 1, name: str | None = None
    ) -> None:
        super().__init__()
        self._windows = (kernel_sizes, strides, paddings, dilations)

    def forward(self, input: Tensor) -> Tensor:
        return F.unfold(input, *self._windows)
