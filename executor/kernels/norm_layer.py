"""Normalisation within a sample: layer_norm over trailing dimensions, group_norm, instance_norm."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...ir.registry import operator
from ..values import Array, Meta
from .common import accumulate_dtype, row_blocks
from .norm import EPSILON, inverse_deviation, rows_dot

__all__ = ["group_norm", "instance_norm", "layer_norm", "normalize_rows"]


def _rows_of(shape: tuple[int, ...], begin: int) -> tuple[int, int]:
    if not 0 < begin < len(shape):
        raise ValueError(f"begin_norm_axis {begin} must lie between 0 and the rank of X {list(shape)}")
    return math.prod(shape[:begin]), math.prod(shape[begin:])


def _check_affine(name: str, value: Array | None, columns: int) -> Array | None:
    if value is not None and value.size != columns:
        raise ValueError(f"{name} of shape {list(value.shape)} must have the {columns} elements that are normalised")
    return None if value is None else value.reshape(-1)


def normalize_rows(
    x: Array, scale: Array | None, bias: Array | None, epsilon: float, begin: int
) -> tuple[Array, Array, Array]:
    """``(x - mean) / sqrt(variance + epsilon) * scale + bias`` over dimensions ``begin`` and later.

    Returns:
        The result in the shape and dtype of ``x``; mean and biased variance per row, in the wide dtype, with
        the dimensions before ``begin``.
    """
    rows, columns = _rows_of(x.shape, begin)
    scale, bias = _check_affine("Scale", scale, columns), _check_affine("Bias", bias, columns)
    data = x.astype(accumulate_dtype(x.dtype), copy=False).reshape(rows, columns)
    y = np.empty((rows, columns), data.dtype)
    mean, variance = np.zeros(rows, data.dtype), np.zeros(rows, data.dtype)

    def work(start: int, stop: int) -> None:
        out, m, v = y[start:stop], mean[start:stop], variance[start:stop]
        np.add.reduce(data[start:stop], axis=1, out=m)
        m /= columns
        np.subtract(data[start:stop], m[:, None], out=out)
        np.einsum("rc,rc->r", out, out, out=v)
        v /= columns
        out *= inverse_deviation(v, epsilon)[:, None]
        if scale is not None:
            out *= scale
        if bias is not None:
            out += bias

    if columns:
        row_blocks(rows, columns, work)
    leading = x.shape[:begin]
    return y.reshape(x.shape).astype(x.dtype, copy=False), mean.reshape(leading), variance.reshape(leading)


@operator("layer_norm", inputs="X Scale? Bias?", outputs="Y Mean Variance", ignores="is_test mkldnn_data_type")
def layer_norm(
    x: Array,
    scale: Array | None = None,
    bias: Array | None = None,
    *,
    epsilon: float = EPSILON,
    begin_norm_axis: int = 1,
) -> tuple[Array, Array, Array]:
    """Normalise over the dimensions from ``begin_norm_axis``; Scale and Bias have one element for each."""
    return normalize_rows(x, scale, bias, epsilon, begin_norm_axis)


@layer_norm.gradient(takes="X Scale? Bias?~ Mean? Variance? Y@GRAD", gives="X@GRAD Scale@GRAD Bias@GRAD")
def layer_norm_grad(
    x: Array,
    scale: Array | None,
    bias: Meta | None,
    mean: Array | None,
    variance: Array | None,
    d_y: Array,
    *,
    epsilon: float = EPSILON,
    begin_norm_axis: int = 1,
) -> tuple[Array, Array | None, Array | None]:
    """The gradient through mean and variance; those of Scale and Bias are sums over rows."""
    if mean is None or variance is None:
        _, mean, variance = normalize_rows(x, None, None, epsilon, begin_norm_axis)
    rows, columns = _rows_of(x.shape, begin_norm_axis)
    wide = accumulate_dtype(x.dtype)
    data, d = (each.astype(wide, copy=False).reshape(rows, columns) for each in (x, d_y))
    centre, inverse = mean.reshape(-1), inverse_deviation(variance.reshape(-1), epsilon)
    factor = None if scale is None else scale.reshape(-1).astype(wide, copy=False)
    d_x, hat = np.empty((rows, columns), wide), np.empty((rows, columns), wide)

    def work(start: int, stop: int) -> None:
        part = slice(start, stop)
        h, g = hat[part], d_x[part]
        np.subtract(data[part], centre[part, None], out=h)
        h *= inverse[part, None]
        weighted = d[part] if factor is None else d[part] * factor
        along = np.einsum("rc,rc->r", weighted, h) / wide.type(columns)
        shift = weighted.sum(axis=1) / wide.type(columns)
        np.multiply(h, along[:, None], out=g)
        np.subtract(weighted, g, out=g)
        g -= shift[:, None]
        g *= inverse[part, None]

    if columns:
        row_blocks(rows, columns, work)
    d_scale = None if scale is None else rows_dot(d, hat).astype(scale.dtype, copy=False).reshape(scale.shape)
    d_bias = None if bias is None else rows_dot(d, None).astype(bias.dtype, copy=False).reshape(bias.shape)
    return d_x.reshape(x.shape).astype(x.dtype, copy=False), d_scale, d_bias


class _Groups:
    """A tensor cut into groups of channels: ``[N * groups, channels of a group, positions]``."""

    def __init__(self, x: Array, groups: int, last: bool) -> None:
        if x.ndim < 2:
            raise ValueError(f"X needs at least 2 dimensions, got shape {list(x.shape)}")
        self.last = last and x.ndim > 2
        self.shape = x.shape
        self.batch, self.channels = x.shape[0], x.shape[-1 if self.last else 1]
        if groups <= 0 or self.channels % groups:
            raise ValueError(f"groups={groups} does not divide the {self.channels} channels of X {list(x.shape)}")
        self.groups = groups
        self.depth = self.channels // groups
        self.positions = math.prod(x.shape) // max(self.batch * self.channels, 1)
        self.wide = accumulate_dtype(x.dtype)

    def fold(self, x: Array) -> Array:
        """``x`` in groups, in the dtype that sums are kept in."""
        first = np.moveaxis(x, -1, 1) if self.last else x
        wide = np.ascontiguousarray(first, self.wide)
        return wide.reshape(self.batch * self.groups, self.depth, self.positions)

    def unfold(self, y: Array, dtype: np.dtype[Any]) -> Array:
        """The inverse of :meth:`fold`."""
        if not self.last:
            return y.reshape(self.shape).astype(dtype, copy=False)
        first = y.reshape(self.batch, self.channels, *self.shape[1:-1])
        return np.ascontiguousarray(np.moveaxis(first, 1, -1), dtype)

    def per_row(self, v: Array | None) -> Array | None:
        """A vector over channels as ``[N * groups, depth]``."""
        if v is None:
            return None
        if v.size != self.channels:
            raise ValueError(f"Scale and Bias must have {self.channels} elements, got shape {list(v.shape)}")
        table = v.astype(self.wide, copy=False).reshape(1, self.groups, self.depth)
        return np.broadcast_to(table, (self.batch, self.groups, self.depth)).reshape(-1, self.depth)

    def per_channel(self, table: Array, like: Array) -> Array:
        """The sum over samples of a ``[N * groups, depth]`` table, as the gradient of ``like``."""
        total = table.reshape(self.batch, self.channels).sum(axis=0)
        result: Array = total.astype(like.dtype, copy=False).reshape(like.shape)
        return result


def _normalize_groups(
    groups: _Groups, x: Array, scale: Array | None, bias: Array | None, epsilon: float
) -> tuple[Array, Array, Array]:
    """The normalised tensor; mean and variance per row of groups."""
    data = groups.fold(x)
    rows, size = len(data), groups.depth * groups.positions
    factors, shifts = groups.per_row(scale), groups.per_row(bias)
    y = np.empty_like(data)
    mean, variance = np.zeros(rows, data.dtype), np.zeros(rows, data.dtype)

    def work(start: int, stop: int) -> None:
        part, out = data[start:stop], y[start:stop]
        flat = out.reshape(stop - start, size)
        m = part.reshape(stop - start, size).sum(axis=1) / data.dtype.type(size)
        np.subtract(part, m[:, None, None], out=out)
        v = np.einsum("rs,rs->r", flat, flat) / data.dtype.type(size)
        factor = inverse_deviation(v, epsilon)[:, None]
        if factors is not None:
            factor = factor * factors[start:stop]
        out *= factor[..., None]
        if shifts is not None:
            out += shifts[start:stop, :, None]
        mean[start:stop], variance[start:stop] = m, v

    if size:
        row_blocks(rows, size, work)
    return groups.unfold(y, x.dtype), mean, variance


def _groups_gradient(
    groups: _Groups, x: Array, d_y: Array, scale: Array | None, mean: Array, inverse: Array
) -> tuple[Array, Array, Array]:
    """The gradient of ``x``, and the tables ``[N * groups, depth]`` that Scale's and Bias' sum up."""
    data, d = groups.fold(x), groups.fold(d_y)
    rows, size = len(data), groups.depth * groups.positions
    factors = groups.per_row(scale)
    d_x = np.empty_like(data)
    by_scale, by_bias = np.zeros((rows, groups.depth), data.dtype), np.zeros((rows, groups.depth), data.dtype)

    def work(start: int, stop: int) -> None:
        part, out, inv = slice(start, stop), d_x[start:stop], inverse[start:stop]
        hat = data[part] - mean[part, None, None]
        hat *= inv[:, None, None]
        total, dot = d[part].sum(axis=2), np.einsum("rdp,rdp->rd", d[part], hat)
        by_bias[part], by_scale[part] = total, dot
        factor = np.ones((1, 1), data.dtype) if factors is None else factors[part]
        shift = (total * factor).sum(axis=1) / data.dtype.type(size) * inv
        along = (dot * factor).sum(axis=1) / data.dtype.type(size) * inv
        np.multiply(d[part], (factor * inv[:, None])[..., None], out=out)
        hat *= along[:, None, None]
        hat += shift[:, None, None]
        out -= hat

    if size:
        row_blocks(rows, size, work)
    return groups.unfold(d_x, x.dtype), by_scale, by_bias


@operator("group_norm", inputs="X Scale? Bias?", outputs="Y Mean Variance")
def group_norm(
    x: Array,
    scale: Array | None = None,
    bias: Array | None = None,
    *,
    epsilon: float = EPSILON,
    groups: int = -1,
    data_layout: str = "NCHW",
) -> tuple[Array, Array, Array]:
    """Normalise each group of channels of each sample; Mean and Variance have shape ``[N, groups]``."""
    cut = _Groups(x, groups, _channels_last(data_layout))
    y, mean, variance = _normalize_groups(cut, x, scale, bias, epsilon)
    shape = cut.batch, groups
    return y, mean.reshape(shape), variance.reshape(shape)


def _channels_last(data_layout: str) -> bool:
    return data_layout in ("NHWC", "NDHWC", "NLC", "NWC")


@group_norm.gradient(takes="X Scale? Bias? Y? Mean? Variance? Y@GRAD", gives="X@GRAD Scale@GRAD Bias@GRAD")
def group_norm_grad(
    x: Array,
    scale: Array | None,
    bias: Array | None,
    y: Array | None,
    mean: Array | None,
    variance: Array | None,
    d_y: Array,
    *,
    epsilon: float = EPSILON,
    groups: int = -1,
    data_layout: str = "NCHW",
) -> tuple[Array, Array | None, Array | None]:
    """The gradient through mean and variance of each group."""
    cut = _Groups(x, groups, _channels_last(data_layout))
    if mean is None or variance is None:
        _, mean, variance = _normalize_groups(cut, x, None, None, epsilon)
    inverse = inverse_deviation(variance.reshape(-1), epsilon)
    d_x, by_scale, by_bias = _groups_gradient(cut, x, d_y, scale, mean.reshape(-1), inverse)
    d_scale = None if scale is None else cut.per_channel(by_scale, scale)
    d_bias = None if bias is None else cut.per_channel(by_bias, bias)
    return d_x, d_scale, d_bias


@operator("instance_norm", inputs="X Scale? Bias?", outputs="Y SavedMean SavedVariance")
def instance_norm(
    x: Array, scale: Array | None = None, bias: Array | None = None, *, epsilon: float = EPSILON
) -> tuple[Array, Array, Array]:
    """Normalise each channel of each sample; SavedVariance ``[N * C]`` is ``1 / sqrt(var + epsilon)``."""
    cut = _Groups(x, x.shape[1] if x.ndim > 1 else 0, False)
    y, mean, variance = _normalize_groups(cut, x, scale, bias, epsilon)
    return y, mean, inverse_deviation(variance, epsilon)


@instance_norm.gradient(takes="X Scale? SavedMean? SavedVariance? Y@GRAD", gives="X@GRAD Scale@GRAD Bias@GRAD")
def instance_norm_grad(
    x: Array,
    scale: Array | None,
    saved_mean: Array | None,
    saved_inverse: Array | None,
    d_y: Array,
    *,
    epsilon: float = EPSILON,
) -> tuple[Array, Array, Array]:
    """The gradient through mean and variance of each channel of each sample."""
    cut = _Groups(x, x.shape[1], False)
    if saved_mean is None or saved_inverse is None:
        _, saved_mean, variance = _normalize_groups(cut, x, None, None, epsilon)
        saved_inverse = inverse_deviation(variance, epsilon)
    d_x, by_scale, by_bias = _groups_gradient(cut, x, d_y, scale, saved_mean, saved_inverse)
    like = np.empty(cut.channels, by_scale.dtype if scale is None else scale.dtype)
    return d_x, cut.per_channel(by_scale, like), cut.per_channel(by_bias, like)
