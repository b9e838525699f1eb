"""Batch normalisation in all its modes and forms: plain, synchronised, with a fused activation."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ...ir.registry import operator
from ..parallel import parallel_for
from ..values import Array
from .common import accumulate_dtype

__all__ = ["EPSILON", "batch_norm", "batch_norm_grad", "inverse_deviation", "rows_dot"]

EPSILON = 9.999999747378752e-06
MOMENTUM = 0.8999999761581421
_BLOCK = 1 << 16
"""Elements that one thread takes at a time: a block and its temporary stay in a core's cache."""


def rows_dot(a: Array, b: Array | None) -> Array:
    """Column sums of ``a`` or of ``a * b``, ``[M, C] -> [C]``; short runs keep float32 sums exact enough."""
    run = 256
    whole = len(a) // run * run
    head = a[:whole].reshape(whole // run, run, a.shape[1])
    if b is None:
        result: Array = head.sum(axis=1).sum(axis=0) + a[whole:].sum(axis=0)
        return result
    other = b[:whole].reshape(head.shape)
    total = np.einsum("kmc,kmc->kc", head, other).sum(axis=0)
    return np.asarray(total + np.einsum("mc,mc->c", a[whole:], b[whole:]))


def _planes_dot(a: Array, b: Array | None) -> Array:
    """Sums per channel of ``a`` or of ``a * b``, ``[N, C, L] -> [C]``."""
    if b is None:
        result: Array = a.sum(axis=2).sum(axis=0)
        return result
    result = np.einsum("ncl,ncl->nc", a, b).sum(axis=0)
    return result


@dataclass(frozen=True, slots=True)
class _Channels:
    """How a tensor lies: channels last (``[M, C]``) or second (``[N, C, L]``)."""

    shape: tuple[int, ...]
    last: bool

    @classmethod
    def of(cls, x: Array, data_layout: str) -> _Channels:
        """The layout of ``x``; raises ValueError for a rank without channels."""
        if x.ndim < 2:
            raise ValueError(f"X needs 2 to 5 dimensions, got shape {list(x.shape)}")
        return cls(x.shape, x.ndim == 2 or data_layout in ("NHWC", "NDHWC", "NLC", "NWC"))

    @property
    def count(self) -> int:
        """The number of channels."""
        return self.shape[-1] if self.last else self.shape[1]

    @property
    def per_channel(self) -> int:
        """The number of elements of one channel."""
        return math.prod(self.shape) // self.count if self.count else 0

    def fold(self, x: Array) -> Array:
        """``x`` as ``[M, C]`` or ``[N, C, L]``, in the dtype that sums are kept in."""
        wide = x.astype(accumulate_dtype(x.dtype), copy=False)
        if self.last:
            return wide.reshape(self.per_channel, self.count)
        return wide.reshape(self.shape[0], self.count, math.prod(self.shape[2:]))

    def spread(self, v: Array) -> Array:
        """A vector over channels, shaped to broadcast against a folded tensor."""
        return v if self.last else v[:, None]

    def dot(self, a: Array, b: Array | None = None) -> Array:
        """Sums per channel of a folded tensor, or of the product of two."""
        return rows_dot(a, b) if self.last else _planes_dot(a, b)

    def blocks(self, work: Callable[[slice], None]) -> None:
        """Run ``work`` on slices of the channel axis, side by side where that pays."""
        size = math.prod(self.shape)
        step = max(1, _BLOCK // max(self.per_channel, 1))
        if self.last or size <= 2 * _BLOCK or step >= self.count:
            work(slice(0, self.count))
            return
        starts = range(0, self.count, step)

        def run(first: int, stop: int) -> None:
            for index in range(first, stop):
                work(slice(starts[index], starts[index] + step))

        parallel_for(len(starts), run)


def _affine(channels: _Channels, x: Array, factor: Array, shift: Array) -> Array:
    """``x * factor + shift`` per channel; ``x`` as given, the result in its dtype."""
    data = channels.fold(x)
    out = np.empty(data.shape, data.dtype)
    factor, shift = factor.astype(data.dtype, copy=False), shift.astype(data.dtype, copy=False)

    def work(part: slice) -> None:
        at = (..., part) if channels.last else (slice(None), part)
        np.multiply(data[at], channels.spread(factor[part]), out=out[at])
        out[at] += channels.spread(shift[part])

    channels.blocks(work)
    return out.reshape(x.shape).astype(x.dtype, copy=False)


def _moments(channels: _Channels, x: Array) -> tuple[Array, Array]:
    """Mean and biased variance per channel, the latter from centred values."""
    data = channels.fold(x)
    mean, variance = np.empty(channels.count, data.dtype), np.empty(channels.count, data.dtype)
    count = data.dtype.type(channels.per_channel)

    def work(part: slice) -> None:
        at = (..., part) if channels.last else (slice(None), part)
        mean[part] = channels.dot(data[at]) / count
        centred = data[at] - channels.spread(mean[part])
        variance[part] = channels.dot(centred, centred) / count

    channels.blocks(work)
    return mean, variance


def inverse_deviation(variance: Array, epsilon: float) -> Array:
    """``1 / sqrt(variance + epsilon)`` in the dtype of the variance."""
    result: Array = 1 / np.sqrt(variance + variance.dtype.type(epsilon))
    return result


_SLOTS = "X Scale? Bias? Mean Variance MomentumTensor?"
_RESULTS = "Y MeanOut VarianceOut SavedMean SavedVariance ReserveSpace"

Normalized = tuple[Array, Array, Array, Array, Array, Array]


@operator("batch_norm", "sync_batch_norm", inputs=_SLOTS, outputs=_RESULTS)
def batch_norm(
    x: Array,
    scale: Array | None,
    bias: Array | None,
    mean: Array,
    variance: Array,
    momentum_tensor: Array | None = None,
    *,
    is_test: bool = False,
    momentum: float = MOMENTUM,
    epsilon: float = EPSILON,
    data_layout: str = "NCHW",
    use_global_stats: bool = False,
    trainable_statistics: bool = False,
    fuse_with_relu: bool = False,
) -> Normalized:
    """Normalise each channel, scale and shift it.

    Statistics come from the batch, or from ``Mean`` and ``Variance`` with ``use_global_stats`` or in test
    mode (``is_test`` without ``trainable_statistics``). ``SavedMean`` and ``SavedVariance`` hold the mean and
    ``1 / sqrt(variance + epsilon)`` that were used. The running statistics move by ``1 - momentum`` towards
    the batch's (biased) ones, else they are the inputs themselves. A batch of one element per channel has no
    statistics: ``x`` passes unchanged, as in Paddle.
    """
    channels = _Channels.of(x, data_layout)
    if channels.count != mean.size:
        raise ValueError(f"X of shape {list(x.shape)} ({data_layout}) has {channels.count} channels, Mean {mean.size}")
    kept = use_global_stats or (is_test and not trainable_statistics)
    mean_out, variance_out = mean, variance
    used_mean, used_variance = mean, variance
    if not kept and channels.per_channel == 1:
        none = np.zeros_like(mean)
        return x, mean, variance, none, none, np.empty(0, np.uint8)
    if not kept:
        rate = momentum if momentum_tensor is None else float(momentum_tensor.reshape(-1)[0])
        used_mean, used_variance = _moments(channels, x)
        mean_out = _moved(mean, used_mean, rate)
        variance_out = _moved(variance, used_variance, rate)
    inverse = inverse_deviation(used_variance, epsilon)
    factor = inverse if scale is None else inverse * scale
    shift = -used_mean * factor if bias is None else bias - used_mean * factor
    y = _affine(channels, x, factor, shift)
    if fuse_with_relu:
        np.maximum(y, np.zeros((), y.dtype), out=y)
    return y, mean_out, variance_out, used_mean, inverse, np.empty(0, np.uint8)


def _moved(running: Array, batch: Array, momentum: float) -> Array:
    kind = running.dtype.type
    result: Array = running * kind(momentum) + batch.astype(running.dtype, copy=False) * kind(1 - kind(momentum))
    return result


Gradients = tuple[Array, Array, Array]


def _gradient(
    channels: _Channels,
    x: Array,
    d_y: Array,
    scale: Array | None,
    statistics: tuple[Array, Array],
    through_statistics: bool,
) -> Gradients:
    """Gradients of X, Scale and Bias for the mean and the inverse deviation that were used.

    ``through_statistics`` says whether those came from ``x`` itself.
    """
    data, d = channels.fold(x), channels.fold(d_y)
    mean, inverse = (each.astype(data.dtype, copy=False) for each in statistics)
    factor = inverse if scale is None else inverse * scale.astype(data.dtype, copy=False)
    d_x = np.empty(data.shape, data.dtype)
    d_scale, d_bias = np.empty_like(mean), np.empty_like(mean)
    count = data.dtype.type(max(channels.per_channel, 1))

    def work(part: slice) -> None:
        at = (..., part) if channels.last else (slice(None), part)
        centred = data[at] - channels.spread(mean[part])
        total, dot = channels.dot(d[at]), channels.dot(d[at], centred)
        d_bias[part], d_scale[part] = total, dot * inverse[part]
        np.multiply(d[at], channels.spread(factor[part]), out=d_x[at])
        if through_statistics:
            centred *= channels.spread(factor[part] * np.square(inverse[part]) * dot / count)
            centred += channels.spread(factor[part] * total / count)
            d_x[at] -= centred

    channels.blocks(work)
    kind = d_scale.dtype if scale is None else scale.dtype
    d_scale, d_bias = d_scale.astype(kind, copy=False), d_bias.astype(kind, copy=False)
    return d_x.reshape(x.shape).astype(x.dtype, copy=False), d_scale, d_bias


@batch_norm.gradient(
    takes="X Scale? Bias? MeanOut? VarianceOut? SavedMean? SavedVariance? ReserveSpace? Y@GRAD "
    "Mean=MeanOut? Variance=VarianceOut?",
    gives="X@GRAD Scale@GRAD Bias@GRAD",
    without=lambda attrs: "" if attrs.get("use_global_stats") or attrs.get("is_test") else "Mean Variance",
)
def batch_norm_grad(
    x: Array,
    scale: Array | None,
    bias: Array | None,
    mean_out: Array | None,
    variance_out: Array | None,
    saved_mean: Array | None,
    saved_variance: Array | None,
    reserve: Array | None,
    d_y: Array,
    mean: Array | None = None,
    variance: Array | None = None,
    *,
    is_test: bool = False,
    epsilon: float = EPSILON,
    data_layout: str = "NCHW",
    use_global_stats: bool = False,
    fuse_with_relu: bool = False,
) -> Gradients:
    """Through the batch statistics, or with fixed ones under ``use_global_stats`` or ``is_test``.

    Paddle reads fixed statistics from the slots Mean and Variance, older programs have MeanOut and VarianceOut.
    """
    if fuse_with_relu:
        raise ValueError("attribute fuse_with_relu=True has no gradient: the grad op does not see the output")
    channels = _Channels.of(x, data_layout)
    if use_global_stats or is_test:
        mean, variance = (mean_out, variance_out) if mean is None or variance is None else (mean, variance)
        if mean is None or variance is None:
            raise ValueError("fixed statistics need the slots MeanOut and VarianceOut, which the op lacks")
        fixed = mean, inverse_deviation(variance, epsilon)
        return _gradient(channels, x, d_y, scale, fixed, through_statistics=False)
    if channels.per_channel == 1:
        none = np.zeros(channels.count, accumulate_dtype(x.dtype))
        return d_y, none, none
    if saved_mean is None or saved_variance is None:
        saved_mean, variance = _moments(channels, x)
        saved_variance = inverse_deviation(variance, epsilon)
    return _gradient(channels, x, d_y, scale, (saved_mean, saved_variance), through_statistics=True)


_FUSED_REST = "MeanOut VarianceOut SavedMean SavedVariance ReserveSpace"


def _fused_activation(act_type: str) -> bool:
    """Whether the fused activation is relu; identity is the other one that is possible."""
    if act_type not in ("relu", "", "identity"):
        raise ValueError(f"attribute act_type is '{act_type}', expected 'relu'")
    return act_type == "relu"


def _rectified(y: Array, relu: bool) -> Array:
    return np.maximum(y, np.zeros((), y.dtype)) if relu else y


@operator("fused_batch_norm_act", inputs="X Scale Bias Mean Variance", outputs=f"Y {_FUSED_REST}")
def fused_batch_norm_act(
    x: Array,
    scale: Array,
    bias: Array,
    mean: Array,
    variance: Array,
    *,
    momentum: float = MOMENTUM,
    epsilon: float = EPSILON,
    act_type: str = "relu",
) -> Normalized:
    """Activation of batch_norm in training mode, channels last."""
    relu = _fused_activation(act_type)
    y, *rest = batch_norm(x, scale, bias, mean, variance, momentum=momentum, epsilon=epsilon, data_layout="NHWC")
    return _rectified(y, relu), *rest


@fused_batch_norm_act.gradient(
    takes="X Y Scale Bias SavedMean SavedVariance ReserveSpace? Y@GRAD",
    gives="X@GRAD Scale@GRAD Bias@GRAD",
)
def fused_batch_norm_act_grad(
    x: Array,
    y: Array,
    scale: Array,
    bias: Array,
    saved_mean: Array,
    saved_variance: Array,
    reserve: Array | None,
    d_y: Array,
    *,
    epsilon: float = EPSILON,
    act_type: str = "relu",
) -> Gradients:
    """batch_norm's gradient of what the activation lets through."""
    d = d_y * (y > 0) if _fused_activation(act_type) else d_y
    statistics = None, None, saved_mean, saved_variance, None
    grads: Gradients = batch_norm_grad(x, scale, bias, *statistics, d, epsilon=epsilon, data_layout="NHWC")
    return grads


@operator("fused_bn_add_activation", inputs="X Z Scale Bias Mean Variance", outputs=f"Y {_FUSED_REST}")
def fused_bn_add_activation(
    x: Array,
    z: Array,
    scale: Array,
    bias: Array,
    mean: Array,
    variance: Array,
    *,
    momentum: float = MOMENTUM,
    epsilon: float = EPSILON,
    act_type: str = "relu",
) -> Normalized:
    """Activation of batch_norm(x) + z in training mode, channels last."""
    relu = _fused_activation(act_type)
    y, *rest = batch_norm(x, scale, bias, mean, variance, momentum=momentum, epsilon=epsilon, data_layout="NHWC")
    return _rectified(y + z, relu), *rest


@fused_bn_add_activation.gradient(
    takes="X Y Scale Bias SavedMean SavedVariance ReserveSpace? Y@GRAD",
    gives="X@GRAD Z@GRAD Scale@GRAD Bias@GRAD",
)
def fused_bn_add_activation_grad(
    x: Array,
    y: Array,
    scale: Array,
    bias: Array,
    saved_mean: Array,
    saved_variance: Array,
    reserve: Array | None,
    d_y: Array,
    *,
    epsilon: float = EPSILON,
    act_type: str = "relu",
) -> tuple[Array, Array, Array, Array]:
    """batch_norm's gradient of what the activation lets through, which is the gradient of ``z``."""
    d = d_y * (y > 0) if _fused_activation(act_type) else d_y
    statistics = None, None, saved_mean, saved_variance, None
    d_x, d_scale, d_bias = batch_norm_grad(x, scale, bias, *statistics, d, epsilon=epsilon, data_layout="NHWC")
    return d_x, d, d_scale, d_bias


def _elu(z: Array, alpha: float) -> Array:
    return np.where(z > 0, z, np.expm1(np.minimum(z, 0)) * z.dtype.type(alpha))


def _leaky(z: Array, alpha: float) -> Array:
    return np.where(z > 0, z, z * z.dtype.type(alpha))


def _elu_undone(y: Array, alpha: float) -> tuple[Array, Array]:
    below = np.minimum(y, 0) / y.dtype.type(alpha)
    slope = np.where(y > 0, y.dtype.type(1), y + y.dtype.type(alpha))
    return np.where(y > 0, y, np.log1p(below)), slope


def _leaky_undone(y: Array, alpha: float) -> tuple[Array, Array]:
    slope = np.where(y > 0, y.dtype.type(1), y.dtype.type(alpha))
    return y / slope, slope


_ABN: dict[str, tuple[Callable[[Array, float], Array], Callable[[Array, float], tuple[Array, Array]]]] = {
    "elu": (_elu, _elu_undone),
    "leaky_relu": (_leaky, _leaky_undone),
    "leakyrelu": (_leaky, _leaky_undone),
}
"""Activation of inplace_abn -> the function, and its undoing: ``y -> (z, slope at z)``."""


@operator("inplace_abn", inputs=_SLOTS, outputs=_RESULTS, ignores="use_sync_bn fuse_with_relu")
def inplace_abn(
    x: Array,
    scale: Array | None,
    bias: Array | None,
    mean: Array,
    variance: Array,
    momentum_tensor: Array | None = None,
    *,
    is_test: bool = False,
    momentum: float = MOMENTUM,
    epsilon: float = EPSILON,
    data_layout: str = "NCHW",
    use_global_stats: bool = False,
    trainable_statistics: bool = False,
    activation: str = "",
    alpha: float = 0.1,
) -> Normalized:
    """batch_norm followed by an activation that can be undone, so that the gradient needs no ``x``."""
    y, *rest = batch_norm(
        x,
        scale,
        bias,
        mean,
        variance,
        momentum_tensor,
        is_test=is_test,
        momentum=momentum,
        epsilon=epsilon,
        data_layout=data_layout,
        use_global_stats=use_global_stats,
        trainable_statistics=trainable_statistics,
    )
    return (_ABN[activation][0](y, alpha) if _has_activation(activation) else y), *rest


def _has_activation(name: str) -> bool:
    if name not in _ABN and name not in ("", "identity"):
        raise ValueError(f"attribute activation is '{name}', expected identity, leaky_relu or elu")
    return name in _ABN


@inplace_abn.gradient(
    takes="Y Scale? Bias? MeanOut? VarianceOut? SavedMean SavedVariance ReserveSpace? Y@GRAD",
    gives="X@GRAD Scale@GRAD Bias@GRAD",
)
def inplace_abn_grad(
    y: Array,
    scale: Array | None,
    bias: Array | None,
    mean_out: Array | None,
    variance_out: Array | None,
    saved_mean: Array,
    saved_variance: Array,
    reserve: Array | None,
    d_y: Array,
    *,
    is_test: bool = False,
    epsilon: float = EPSILON,
    data_layout: str = "NCHW",
    use_global_stats: bool = False,
    activation: str = "",
    alpha: float = 0.1,
) -> Gradients:
    """Undo the activation and the normalisation to find ``x``, then as batch_norm."""
    z, slope = _ABN[activation][1](y, alpha) if _has_activation(activation) else (y, y.dtype.type(1))
    channels = _Channels.of(y, data_layout)
    fixed = use_global_stats or is_test
    if fixed and mean_out is not None and variance_out is not None:
        saved_mean, saved_variance = mean_out, inverse_deviation(variance_out, epsilon)
    factor = saved_variance if scale is None else saved_variance * scale
    shift = saved_mean if bias is None else saved_mean - bias / factor
    x = _affine(channels, z, 1 / factor, shift)
    return _gradient(channels, x, d_y * slope, scale, (saved_mean, saved_variance), not fixed)
