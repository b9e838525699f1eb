"""Linear maps, embeddings, dropout, normalisation, padding, resizing, attention."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ....errors import InputError
from ....executor.random import generator
from ....ir.dtypes import from_numpy
from ... import functional_math as elementwise
from ... import functional_reduce as reduce
from ... import functional_shape as shapes
from ...dtypes import numpy_dtype
from ...functional_linalg import matmul
from ...operands import constant, int_list, run, run_at, run_many
from ...tensor import Tensor
from .activation import softmax
from .windows import adaptive_avg_pool2d

__all__ = [
    "affine_grid",
    "alpha_dropout",
    "batch_norm",
    "bilinear",
    "channel_shuffle",
    "cosine_similarity",
    "dropout",
    "dropout2d",
    "dropout3d",
    "embedding",
    "grid_sample",
    "group_norm",
    "instance_norm",
    "interpolate",
    "label_smooth",
    "layer_norm",
    "linear",
    "local_response_norm",
    "normalize",
    "pad",
    "pairwise_distance",
    "pixel_shuffle",
    "pixel_unshuffle",
    "scaled_dot_product_attention",
    "sequence_mask",
    "temporal_shift",
    "upsample",
    "zeropad2d",
]


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None, name: str | None = None) -> Tensor:
    """``x @ weight + bias`` with ``weight`` ``[in, out]``."""
    product = run("matmul_v2", x, weight, trans_x=False, trans_y=False)
    return product if bias is None else run("elementwise_add", product, bias)


def bilinear(x1: Tensor, x2: Tensor, weight: Tensor, bias: Tensor | None = None, name: str | None = None) -> Tensor:
    """``x1 @ weight[k] @ x2`` for each output k, plus ``bias``."""
    return run("bilinear_tensor_product", x1, x2, weight, bias)


def embedding(
    x: Tensor, weight: Tensor, padding_idx: int | None = None, sparse: bool = False, name: str | None = None
) -> Tensor:
    """Rows of ``weight`` by number; the row ``padding_idx`` reads as zeros and gets no gradient."""
    rows = weight.shape[0]
    if padding_idx is not None and not -rows <= padding_idx < rows:
        raise InputError(f"embedding(): padding_idx {padding_idx} is outside a table of {rows} rows")
    at = -1 if padding_idx is None else padding_idx % rows
    return run("lookup_table_v2", x, weight, padding_idx=at)


def dropout(
    x: Tensor,
    p: Any = 0.5,
    axis: Any = None,
    training: bool = True,
    mode: str = "upscale_in_train",
    name: str | None = None,
) -> Tensor:
    """Elements set to zero with probability ``p`` in training; along ``axis`` only whole slices.

    ``upscale_in_train`` divides the rest by ``1 - p``; ``downscale_in_infer`` multiplies by it outside training.
    """
    rate = float(p)
    if not 0 <= rate <= 1:
        raise InputError(f"dropout(): p must lie in [0, 1], got {rate}")
    if mode not in ("upscale_in_train", "downscale_in_infer"):
        raise InputError(f"dropout(): mode is upscale_in_train or downscale_in_infer, not {mode!r}")
    if rate == 0:
        return x
    how = "downgrade_in_infer" if mode == "downscale_in_infer" else mode
    attrs = {"dropout_prob": rate, "is_test": not training, "dropout_implementation": how}
    if axis is None:
        return run_at("dropout", 0, x, **attrs)
    return run_at("dropout_nd", 0, x, axis=int_list(axis), **attrs)


def dropout2d(
    x: Tensor, p: float = 0.5, training: bool = True, data_format: str = "NCHW", name: str | None = None
) -> Tensor:
    """Whole planes of ``[N, C, H, W]`` dropped."""
    return dropout(x, p, [0, 1] if data_format == "NCHW" else [0, 3], training)


def dropout3d(
    x: Tensor, p: float = 0.5, training: bool = True, data_format: str = "NCDHW", name: str | None = None
) -> Tensor:
    """Whole volumes of ``[N, C, D, H, W]`` dropped."""
    return dropout(x, p, [0, 1] if data_format == "NCDHW" else [0, 4], training)


def alpha_dropout(x: Tensor, p: float = 0.5, training: bool = True, name: str | None = None) -> Tensor:
    """Dropout that keeps mean and variance behind SELU (Klambauer et al., 2017)."""
    if not training or p == 0:
        return x
    low = -1.0507009873554805 * 1.6732632423543772
    keep = generator().uniform(size=x.shape) >= p
    a = ((1 - p) * (1 + p * low**2)) ** -0.5
    kept = constant(keep.astype(x._array.dtype))
    lost = constant(((~keep) * low).astype(x._array.dtype))
    mixed = elementwise.add(elementwise.multiply(x, kept), lost)
    return elementwise.scale(mixed, a, -a * p * low)


def batch_norm(
    x: Tensor,
    running_mean: Tensor,
    running_var: Tensor,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.9,
    epsilon: float = 1e-5,
    data_format: str = "NCHW",
    use_global_stats: bool | None = None,
    name: str | None = None,
) -> Tensor:
    """Each channel normalised by the batch in training, else by the running statistics; those move in training."""
    fixed = not training if use_global_stats is None else use_global_stats
    outputs = run_many(
        "batch_norm",
        x,
        weight,
        bias,
        running_mean,
        running_var,
        None,
        momentum=float(momentum),
        epsilon=float(epsilon),
        data_layout="NHWC" if data_format[-1] == "C" and len(data_format) > 2 else "NCHW",
        is_test=not training,
        use_global_stats=bool(fixed),
        trainable_statistics=False,
    )
    if training and not fixed:
        for held, moved in ((running_mean, outputs[1]), (running_var, outputs[2])):
            held._assign(moved._array, "batch_norm")
    normalized: Tensor = outputs[0]
    return normalized


def layer_norm(
    x: Tensor,
    normalized_shape: Any,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    epsilon: float = 1e-5,
    name: str | None = None,
) -> Tensor:
    """The trailing axes of ``normalized_shape`` normalised together."""
    size = int_list(normalized_shape)
    if x.shape[x.ndim - len(size) :] != size:
        raise InputError(f"layer_norm(): input of shape {x.shape} does not end in normalized_shape {size}")
    flat = (None if each is None else shapes.reshape(each, [-1]) for each in (weight, bias))
    return run_at("layer_norm", 0, x, *flat, epsilon=float(epsilon), begin_norm_axis=x.ndim - len(size))


def instance_norm(
    x: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.9,
    eps: float = 1e-5,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Tensor:
    """Each channel of each sample normalised by itself."""
    return run_at("instance_norm", 0, x, weight, bias, epsilon=float(eps))


def group_norm(
    x: Tensor,
    num_groups: int,
    epsilon: float = 1e-5,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Tensor:
    """Groups of channels of each sample normalised together."""
    layout = "NHWC" if data_format[-1] == "C" else "NCHW"
    return run_at("group_norm", 0, x, weight, bias, epsilon=float(epsilon), groups=int(num_groups), data_layout=layout)


def local_response_norm(
    x: Tensor,
    size: int,
    alpha: float = 1e-4,
    beta: float = 0.75,
    k: float = 1.0,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Tensor:
    """Each element divided by ``(k + alpha * mean of squares of size neighbouring channels)^beta``."""
    last = data_format[-1] == "C"
    at = x.ndim - 1 if last else 1
    squares = elementwise.square(x)
    before, after = size // 2, (size - 1) // 2
    widened = [0] * (2 * x.ndim)
    widened[2 * at], widened[2 * at + 1] = before, after
    padded = run("pad", squares, paddings=widened, pad_value=0.0)
    count = x.shape[at]
    parts = [shapes.slice(padded, [at], [start], [start + count]) for start in range(size)]
    mean = elementwise.scale(elementwise.add_n(parts), alpha / size, k)
    return elementwise.divide(x, elementwise.pow(mean, beta))


def normalize(x: Tensor, p: float = 2, axis: int = 1, epsilon: float = 1e-12, name: str | None = None) -> Tensor:
    """``x`` divided by its p-norm along ``axis``, which is at least ``epsilon``."""
    at = 0 if x.ndim == 1 else axis
    size = run("p_norm", x, porder=float(p), axis=int(at), keepdim=True, asvector=False, epsilon=float(epsilon))
    floor = constant(np.full((1,), epsilon, x._array.dtype))
    return elementwise.divide(x, elementwise.maximum(size, floor))


def cosine_similarity(x1: Tensor, x2: Tensor, axis: int = 1, eps: float = 1e-8) -> Tensor:
    """``x1 . x2 / max(|x1| |x2|, eps)`` along ``axis``."""
    product = reduce.sum(elementwise.multiply(x1, x2), axis)
    sizes = elementwise.multiply(reduce.sum(elementwise.square(x1), axis), reduce.sum(elementwise.square(x2), axis))
    floor = elementwise.clip(sizes, min=eps * eps)
    return elementwise.divide(product, elementwise.sqrt(floor))


def pairwise_distance(
    x: Tensor, y: Tensor, p: float = 2.0, epsilon: float = 1e-6, keepdim: bool = False, name: str | None = None
) -> Tensor:
    """The p-norm of ``x - y + epsilon`` along the last axis."""
    apart = elementwise.scale(elementwise.subtract(x, y), 1.0, epsilon)
    return run("p_norm", apart, porder=float(p), axis=-1, keepdim=bool(keepdim), asvector=False)


def pad(
    x: Tensor,
    pad: Any,
    mode: str = "constant",
    value: float = 0.0,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Tensor:
    """Elements added around: for every axis two numbers from the first axis on, or for the last axes, last first.

    ``mode`` is constant, reflect, replicate or circular; only constant may pad all axes.
    """
    amounts = int_list(pad)
    if mode == "constant" and len(amounts) == 2 * x.ndim:
        return run("pad", x, paddings=amounts, pad_value=float(value))
    if x.ndim not in (3, 4, 5):
        raise InputError(f"pad(): {len(amounts)} numbers for shape {x.shape}; give two for each axis")
    last = data_format in ("NLC", "NHWC", "NDHWC")
    missing = 5 - x.ndim
    added = list(range(1, 1 + missing)) if last else list(range(2, 2 + missing))
    wide = shapes.unsqueeze(x, added) if missing else x
    amounts = amounts + [0] * (6 - len(amounts))
    padded = run(
        "pad3d",
        wide,
        None,
        paddings=amounts,
        mode=mode,
        value=float(value),
        data_format="NDHWC" if last else "NCDHW",
    )
    return shapes.squeeze(padded, added) if missing else padded


def zeropad2d(x: Tensor, padding: Any, data_format: str = "NCHW", name: str | None = None) -> Tensor:
    """Zeros around planes: left, right, top, bottom."""
    return pad(x, padding, "constant", 0.0, data_format)


_RESIZERS = {
    "nearest": "nearest_interp_v2",
    "linear": "linear_interp_v2",
    "bilinear": "bilinear_interp_v2",
    "trilinear": "trilinear_interp_v2",
    "bicubic": "bicubic_interp_v2",
}


def interpolate(
    x: Tensor,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool = False,
    align_mode: int = 0,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Tensor:
    """Planes resized to ``size`` or by ``scale_factor``: nearest, linear, bilinear, trilinear, bicubic or area."""
    method = mode.lower()
    spatial = x.ndim - 2
    if method == "area":
        held = x.shape[2:]
        target = int_list(size) if size is not None else [int(n * scale_factor) for n in held]
        return adaptive_avg_pool2d(x, target, data_format)
    if method not in _RESIZERS:
        raise InputError(f"interpolate(): mode is one of {', '.join(_RESIZERS)}, area; not {mode!r}")
    if (size is None) == (scale_factor is None):
        raise InputError("interpolate(): give either size or scale_factor")
    attrs = _target(spatial, size, scale_factor)
    return run(
        _RESIZERS[method],
        x,
        None,
        [],
        None,
        data_layout="NHWC" if data_format[-1] == "C" else "NCHW",
        interp_method=method,
        align_corners=bool(align_corners),
        align_mode=int(align_mode),
        **attrs,
    )


def _target(spatial: int, size: Any, scale_factor: Any) -> dict[str, Any]:
    """The attributes that say how large the result of a resize is."""
    attrs: dict[str, Any] = {"out_d": -1, "out_h": -1, "out_w": -1, "scale": []}
    if size is not None:
        wanted = int_list(size)
        wanted = wanted * spatial if len(wanted) == 1 else wanted
        attrs.update(zip(("out_d", "out_h", "out_w")[3 - spatial :], wanted, strict=True))
    else:
        factors = [float(each) for each in np.atleast_1d(np.asarray(scale_factor, np.float64))]
        attrs["scale"] = factors * spatial if len(factors) == 1 else factors
    return attrs


upsample = interpolate


def pixel_shuffle(x: Tensor, upscale_factor: int, data_format: str = "NCHW", name: str | None = None) -> Tensor:
    """Channels laid out as finer planes."""
    return run("pixel_shuffle", x, upscale_factor=int(upscale_factor), data_format=data_format)


def pixel_unshuffle(x: Tensor, downscale_factor: int, data_format: str = "NCHW", name: str | None = None) -> Tensor:
    """Planes laid out as channels; the reverse of :func:`pixel_shuffle`."""
    return run("pixel_unshuffle", x, downscale_factor=int(downscale_factor), data_format=data_format)


def channel_shuffle(x: Tensor, groups: int, data_format: str = "NCHW", name: str | None = None) -> Tensor:
    """Channels of groups interleaved."""
    return run("channel_shuffle", x, groups=int(groups), data_format=data_format)


def grid_sample(
    x: Tensor,
    grid: Tensor,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool = True,
    name: str | None = None,
) -> Tensor:
    """Planes read at the points of ``grid`` (from -1 to 1)."""
    return run("grid_sampler", x, grid, mode=mode, padding_mode=padding_mode, align_corners=bool(align_corners))


def affine_grid(theta: Tensor, out_shape: Any, align_corners: bool = True, name: str | None = None) -> Tensor:
    """The points of a grid moved by the matrices ``theta`` ``[N, 2, 3]``."""
    return run("affine_grid", theta, output_shape=int_list(out_shape), align_corners=bool(align_corners))


def temporal_shift(
    x: Tensor, seg_num: int, shift_ratio: float = 0.25, name: str | None = None, data_format: str = "NCHW"
) -> Tensor:
    """Some channels moved to the frame before or after."""
    return run("temporal_shift", x, seg_num=int(seg_num), shift_ratio=float(shift_ratio), data_format=data_format)


def label_smooth(
    label: Tensor, prior_dist: Tensor | None = None, epsilon: float = 0.1, name: str | None = None
) -> Tensor:
    """``(1 - epsilon) * label + epsilon * prior``, uniform by default."""
    return run("label_smooth", label, prior_dist, epsilon=float(epsilon))


def sequence_mask(x: Tensor, maxlen: Any = None, dtype: Any = "int64", name: str | None = None) -> Tensor:
    """1 for positions below each length, else 0; ``maxlen`` is the largest length by default."""
    longest = -1 if maxlen is None else int(maxlen)
    return run("sequence_mask", x, maxlen=longest, out_dtype=int(from_numpy(numpy_dtype(dtype))))


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    training: bool = True,
    name: str | None = None,
) -> Tensor:
    """``softmax(q k^T / sqrt(d)) v`` for ``[batch, length, heads, d]``."""
    q, k, v = (shapes.transpose(each, [0, 2, 1, 3]) for each in (query, key, value))
    scores = elementwise.scale(matmul(q, k, transpose_y=True), 1.0 / math.sqrt(query.shape[-1]))
    if is_causal:
        hidden = np.triu(np.full(scores.shape[-2:], -np.inf, scores._array.dtype), 1)
        scores = elementwise.add(scores, constant(hidden))
    if attn_mask is not None:
        scores = elementwise.add(scores, attn_mask)
    weights = dropout(softmax(scores), dropout_p, training=training)
    return shapes.transpose(matmul(weights, v), [0, 2, 1, 3])
