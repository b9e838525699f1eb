"""Normalisation layers."""

from __future__ import annotations

import math
from typing import Any

from ...errors import InputError
from ..operands import int_list
from ..tensor import Parameter, Tensor
from . import functional as F
from .attr import ParamAttr
from .initializer import Constant
from .layer import Layer

__all__ = [
    "BatchNorm",
    "BatchNorm1D",
    "BatchNorm2D",
    "BatchNorm3D",
    "GroupNorm",
    "InstanceNorm1D",
    "InstanceNorm2D",
    "InstanceNorm3D",
    "LayerNorm",
    "SyncBatchNorm",
]


class _BatchNorm(Layer):
    """Channels normalised by the batch in training and by running statistics otherwise.

    The running statistics are parameters that are not trained, as in Paddle.
    """

    dims: tuple[int, ...] = (2, 3, 4, 5)
    layout = "NCHW"
    weight: Parameter | None
    bias: Parameter | None
    _mean: Parameter
    _variance: Parameter

    def __init__(
        self,
        num_features: int,
        momentum: float = 0.9,
        epsilon: float = 1e-5,
        weight_attr: Any = None,
        bias_attr: Any = None,
        data_format: str | None = None,
        use_global_stats: bool | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__()
        self._num_features, self._momentum, self._epsilon = num_features, momentum, epsilon
        self._data_format = data_format or self.layout
        self._use_global_stats = use_global_stats
        one = Constant(1.0)
        self.weight = self.create_parameter([num_features], weight_attr, default_initializer=one)
        self.bias = self.create_parameter([num_features], bias_attr, is_bias=True)
        self._mean = self._statistic(Constant(0.0))
        self._variance = self._statistic(one)

    def _statistic(self, initial: Constant) -> Parameter:
        attr = ParamAttr(initializer=initial, trainable=False)
        made = self.create_parameter([self._num_features], attr)
        assert made is not None
        return made

    def forward(self, input: Tensor) -> Tensor:
        if input.ndim not in self.dims:
            raise InputError(f"{type(self).__name__} takes {self.dims} dimensions, got shape {input.shape}")
        return F.batch_norm(
            input,
            self._mean,
            self._variance,
            self.weight,
            self.bias,
            self.training,
            self._momentum,
            self._epsilon,
            self._data_format,
            self._use_global_stats,
        )

    def extra_repr(self) -> str:
        text = f"num_features={self._num_features}, momentum={self._momentum}, epsilon={self._epsilon}"
        return text if self._data_format == "NCHW" else f"{text}, data_format={self._data_format}"


class BatchNorm1D(_BatchNorm):
    """Batch normalisation of ``[N, C]`` or ``[N, C, L]``."""

    dims, layout = (2, 3), "NCL"


class BatchNorm2D(_BatchNorm):
    """Batch normalisation of ``[N, C, H, W]``."""

    dims = (4,)


class BatchNorm3D(_BatchNorm):
    """Batch normalisation of ``[N, C, D, H, W]``."""

    dims, layout = (5,), "NCDHW"


class SyncBatchNorm(_BatchNorm):
    """Batch normalisation; with one process there is nothing to synchronise."""


class BatchNorm(_BatchNorm):
    """Batch normalisation of any rank with the arguments of Paddle 1.x, and an optional activation."""

    def __init__(
        self,
        num_channels: int,
        act: str | None = None,
        is_test: bool = False,
        momentum: float = 0.9,
        epsilon: float = 1e-5,
        param_attr: Any = None,
        bias_attr: Any = None,
        dtype: Any = "float32",
        data_layout: str = "NCHW",
        in_place: bool = False,
        moving_mean_name: str | None = None,
        moving_variance_name: str | None = None,
        do_model_average_for_mean_and_var: bool = True,
        use_global_stats: bool = False,
        trainable_statistics: bool = False,
    ) -> None:
        super().__init__(num_channels, momentum, epsilon, param_attr, bias_attr, data_layout, use_global_stats or None)
        self._act = act
        for name, held in ((moving_mean_name, self._mean), (moving_variance_name, self._variance)):
            if name is not None:
                held.name = name
        if is_test:
            self.eval()

    def forward(self, input: Tensor) -> Tensor:
        out = super().forward(input)
        return out if self._act is None else getattr(F, self._act)(out)


class LayerNorm(Layer):
    """The trailing axes of ``normalized_shape`` normalised together."""

    weight: Parameter | None
    bias: Parameter | None

    def __init__(
        self,
        normalized_shape: Any,
        epsilon: float = 1e-5,
        weight_attr: Any = None,
        bias_attr: Any = None,
        name: str | None = None,
    ) -> None:
        super().__init__()
        self._normalized_shape, self._epsilon = int_list(normalized_shape), epsilon
        size = [math.prod(self._normalized_shape)]
        self.weight = self.create_parameter(size, weight_attr, default_initializer=Constant(1.0))
        self.bias = self.create_parameter(size, bias_attr, is_bias=True)

    def forward(self, input: Tensor) -> Tensor:
        return F.layer_norm(input, self._normalized_shape, self.weight, self.bias, self._epsilon)

    def extra_repr(self) -> str:
        return f"normalized_shape={self._normalized_shape}, epsilon={self._epsilon}"


class GroupNorm(Layer):
    """Groups of channels of each sample normalised together."""

    weight: Parameter | None
    bias: Parameter | None

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        epsilon: float = 1e-5,
        weight_attr: Any = None,
        bias_attr: Any = None,
        data_format: str = "NCHW",
        name: str | None = None,
    ) -> None:
        super().__init__()
        self._num_groups, self._num_channels, self._epsilon = num_groups, num_channels, epsilon
        self._data_format = data_format
        self.weight = self.create_parameter([num_channels], weight_attr, default_initializer=Constant(1.0))
        self.bias = self.create_parameter([num_channels], bias_attr, is_bias=True)

    def forward(self, input: Tensor) -> Tensor:
        return F.group_norm(input, self._num_groups, self._epsilon, self.weight, self.bias, self._data_format)

    def extra_repr(self) -> str:
        return f"num_groups={self._num_groups}, num_channels={self._num_channels}, epsilon={self._epsilon}"


class _InstanceNorm(Layer):
    """Each channel of each sample normalised by itself."""

    scale: Parameter | None
    bias: Parameter | None

    def __init__(
        self,
        num_features: int,
        epsilon: float = 1e-5,
        momentum: float = 0.9,
        weight_attr: Any = None,
        bias_attr: Any = None,
        data_format: str = "NCHW",
        name: str | None = None,
    ) -> None:
        super().__init__()
        self._num_features, self._epsilon = num_features, epsilon
        self.scale = self.create_parameter([num_features], weight_attr, default_initializer=Constant(1.0))
        self.bias = self.create_parameter([num_features], bias_attr, is_bias=True)

    def forward(self, input: Tensor) -> Tensor:
        return F.instance_norm(input, weight=self.scale, bias=self.bias, eps=self._epsilon)

    def extra_repr(self) -> str:
        return f"num_features={self._num_features}, epsilon={self._epsilon}"


class InstanceNorm1D(_InstanceNorm):
    """Instance normalisation of ``[N, C, L]``."""


class InstanceNorm2D(_InstanceNorm):
    """Instance normalisation of ``[N, C, H, W]``."""


class InstanceNorm3D(_InstanceNorm):
    """Instance normalisation of ``[N, C, D, H, W]``."""
