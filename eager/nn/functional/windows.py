"""Convolutions and pooling."""

from __future__ import annotations

from typing import Any

from ....errors import InputError
from ...functional_shape import squeeze, unsqueeze
from ...operands import int_list, run, run_many
from ...tensor import Tensor

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "adaptive_max_pool1d",
    "adaptive_max_pool2d",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "conv1d",
    "conv1d_transpose",
    "conv2d",
    "conv2d_transpose",
    "conv3d",
    "fold",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "unfold",
]

_CHANNELS_LAST = ("NLC", "NHWC", "NDHWC")


def _spread(value: Any, count: int) -> list[int]:
    """One number per spatial axis."""
    values = int_list(value)
    return values * count if len(values) == 1 else values


def _padding(padding: Any, count: int, last: bool) -> tuple[list[int], str]:
    """Paddings as the operator takes them, and the algorithm: numbers, pairs, per-axis pairs, SAME or VALID."""
    if isinstance(padding, str):
        if padding.upper() not in ("SAME", "VALID"):
            raise InputError(f"padding is numbers, 'SAME' or 'VALID', not {padding!r}")
        return [0] * count, padding.upper()
    if isinstance(padding, (list, tuple)) and padding and isinstance(padding[0], (list, tuple)):
        pairs = list(padding)
        if len(pairs) == count + 2:
            pairs = pairs[1:-1] if last else pairs[2:]
        return [int(each) for pair in pairs for each in pair], "EXPLICIT"
    return _spread(padding, count), "EXPLICIT"


def _conv(
    count: int, x: Tensor, weight: Tensor, bias: Tensor | None, data_format: str, depthwise: bool, **attrs: Any
) -> Tensor:
    last = data_format in _CHANNELS_LAST
    paddings, algorithm = _padding(attrs.pop("padding"), count, last)
    op = "depthwise_conv2d" if depthwise else f"conv{count}d"
    out = run(
        op,
        x,
        weight,
        strides=_spread(attrs["stride"], count),
        paddings=paddings,
        padding_algorithm=algorithm,
        dilations=_spread(attrs["dilation"], count),
        groups=int(attrs["groups"]),
        data_format=data_format,
    )
    return out if bias is None else _with_bias(out, bias, last)


def _with_bias(out: Tensor, bias: Tensor, last: bool) -> Tensor:
    return run("elementwise_add", out, bias, axis=-1 if last else 1)


def conv2d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Tensor:
    """Convolution of ``[N, C, H, W]`` (or ``NHWC``) with ``weight`` ``[out, C / groups, kh, kw]``."""
    channels = x.shape[-1] if data_format == "NHWC" else x.shape[1]
    depthwise = groups == channels > 1 and weight.shape[0] % channels == 0
    return _conv(
        2, x, weight, bias, data_format, depthwise, stride=stride, padding=padding, dilation=dilation, groups=groups
    )


def conv3d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    data_format: str = "NCDHW",
    name: str | None = None,
) -> Tensor:
    """Convolution of ``[N, C, D, H, W]`` (or ``NDHWC``)."""
    return _conv(
        3, x, weight, bias, data_format, False, stride=stride, padding=padding, dilation=dilation, groups=groups
    )


def conv1d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    data_format: str = "NCL",
    name: str | None = None,
) -> Tensor:
    """Convolution of ``[N, C, L]`` (or ``NLC``) with ``weight`` ``[out, C / groups, k]``."""
    last = data_format == "NLC"
    at = 1 if last else 2
    flat = [0, *int_list(padding)] if not isinstance(padding, (str, list, tuple)) else _flat_padding(padding)
    out = conv2d(
        unsqueeze(x, at),
        unsqueeze(weight, 2),
        bias,
        [1, *_spread(stride, 1)],
        flat,
        [1, *_spread(dilation, 1)],
        groups,
        "NHWC" if last else "NCHW",
    )
    return squeeze(out, at)


def _flat_padding(padding: Any) -> Any:
    """The padding of one axis as that of two, the first of size one."""
    if isinstance(padding, str):
        return padding
    values = int_list(padding[0] if isinstance(padding[0], (list, tuple)) else padding)
    return [0, values[0]] if len(values) == 1 else [0, 0, *values]


def _conv_transpose(
    count: int, x: Tensor, weight: Tensor, bias: Tensor | None, data_format: str, **attrs: Any
) -> Tensor:
    last = data_format in _CHANNELS_LAST
    paddings, algorithm = _padding(attrs["padding"], count, last)
    size = attrs["output_size"]
    extra = [] if size is not None or attrs["output_padding"] == 0 else _spread(attrs["output_padding"], count)
    out = run(
        f"conv{count}d_transpose",
        x,
        weight,
        None,
        strides=_spread(attrs["stride"], count),
        paddings=paddings,
        output_padding=extra,
        output_size=[] if size is None else _spread(size, count),
        padding_algorithm=algorithm,
        groups=int(attrs["groups"]),
        dilations=_spread(attrs["dilation"], count),
        data_format=data_format,
    )
    return out if bias is None else _with_bias(out, bias, last)


def conv2d_transpose(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    output_size: Any = None,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Tensor:
    """Transposed convolution with ``weight`` ``[C, out / groups, kh, kw]``."""
    return _conv_transpose(
        2,
        x,
        weight,
        bias,
        data_format,
        stride=stride,
        padding=padding,
        output_padding=output_padding,
        dilation=dilation,
        groups=groups,
        output_size=output_size,
    )


def conv1d_transpose(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
    output_size: Any = None,
    data_format: str = "NCL",
    name: str | None = None,
) -> Tensor:
    """Transposed convolution of ``[N, C, L]`` with ``weight`` ``[C, out / groups, k]``."""
    last = data_format == "NLC"
    at = 1 if last else 2
    out = conv2d_transpose(
        unsqueeze(x, at),
        unsqueeze(weight, 2),
        bias,
        [1, *_spread(stride, 1)],
        [0, *int_list(padding)] if not isinstance(padding, (str, list, tuple)) else _flat_padding(padding),
        0 if output_padding == 0 else [0, *_spread(output_padding, 1)],
        [1, *_spread(dilation, 1)],
        groups,
        None if output_size is None else [1, *int_list(output_size)],
        "NHWC" if last else "NCHW",
    )
    return squeeze(out, at)


def _pool(
    count: int,
    kind: str,
    x: Tensor,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    ceil_mode: bool,
    exclusive: bool,
    data_format: str,
) -> Tensor:
    window = _spread(kernel_size, count)
    paddings, algorithm = _padding(padding, count, data_format in _CHANNELS_LAST)
    return run(
        f"pool{count}d",
        x,
        ksize=window,
        strides=window if stride is None else _spread(stride, count),
        paddings=paddings,
        padding_algorithm=algorithm,
        pooling_type=kind,
        ceil_mode=bool(ceil_mode),
        exclusive=bool(exclusive),
        global_pooling=False,
        adaptive=False,
        data_format=data_format,
    )


def max_pool2d(
    x: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    return_mask: bool = False,
    ceil_mode: bool = False,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Any:
    """The largest element of each window; with ``return_mask`` also its position in the plane."""
    if not return_mask:
        return _pool(2, "max", x, kernel_size, stride, padding, ceil_mode, True, data_format)
    window = _spread(kernel_size, 2)
    return run_many(
        "max_pool2d_with_index",
        x,
        ksize=window,
        strides=window if stride is None else _spread(stride, 2),
        paddings=_padding(padding, 2, False)[0],
        global_pooling=False,
        adaptive=False,
    )


def avg_pool2d(
    x: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    exclusive: bool = True,
    divisor_override: float | None = None,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Tensor:
    """The mean of each window; ``exclusive`` leaves the padding out of the count."""
    out = _pool(2, "avg", x, kernel_size, stride, padding, ceil_mode, exclusive, data_format)
    if divisor_override is None:
        return out
    window = _spread(kernel_size, 2)
    factor = window[0] * window[1] / divisor_override
    return run("scale", out, scale=factor, bias=0.0, bias_after_scale=True)


def max_pool1d(
    x: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    return_mask: bool = False,
    ceil_mode: bool = False,
    name: str | None = None,
) -> Any:
    """The largest element of each window of ``[N, C, L]``."""
    step = kernel_size if stride is None else stride
    out = max_pool2d(
        unsqueeze(x, 2),
        [1, *_spread(kernel_size, 1)],
        [1, *_spread(step, 1)],
        [0, *int_list(padding)] if not isinstance(padding, str) else padding,
        return_mask,
        ceil_mode,
    )
    return tuple(squeeze(each, 2) for each in out) if return_mask else squeeze(out, 2)


def avg_pool1d(
    x: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    exclusive: bool = True,
    ceil_mode: bool = False,
    name: str | None = None,
) -> Tensor:
    """The mean of each window of ``[N, C, L]``."""
    step = kernel_size if stride is None else stride
    flat = [0, *int_list(padding)] if not isinstance(padding, str) else padding
    window = [1, *_spread(kernel_size, 1)]
    return squeeze(avg_pool2d(unsqueeze(x, 2), window, [1, *_spread(step, 1)], flat, ceil_mode, exclusive), 2)


def max_pool3d(
    x: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    return_mask: bool = False,
    ceil_mode: bool = False,
    data_format: str = "NCDHW",
    name: str | None = None,
) -> Any:
    """The largest element of each window of ``[N, C, D, H, W]``; with ``return_mask`` also its position."""
    if not return_mask:
        return _pool(3, "max", x, kernel_size, stride, padding, ceil_mode, True, data_format)
    window = _spread(kernel_size, 3)
    strides = window if stride is None else _spread(stride, 3)
    return run_many("max_pool3d_with_index", x, ksize=window, strides=strides, paddings=_spread(padding, 3))


def avg_pool3d(
    x: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    exclusive: bool = True,
    divisor_override: float | None = None,
    data_format: str = "NCDHW",
    name: str | None = None,
) -> Tensor:
    """The mean of each window of ``[N, C, D, H, W]``; ``exclusive`` leaves the padding out of the count."""
    out = _pool(3, "avg", x, kernel_size, stride, padding, ceil_mode, exclusive, data_format)
    if divisor_override is None:
        return out
    depth, height, width = _spread(kernel_size, 3)
    return run("scale", out, scale=depth * height * width / divisor_override, bias=0.0, bias_after_scale=True)


def _adaptive_mean(x: Tensor, output_size: Any, data_format: str) -> Tensor:
    given = list(output_size) if isinstance(output_size, (list, tuple)) else [output_size] * 2
    held = x.shape[1:3] if data_format == "NHWC" else x.shape[2:4]
    size = [n if want is None else int(want) for want, n in zip(given, held, strict=True)]
    return run("pool2d", x, ksize=size, pooling_type="avg", adaptive=True, data_format=data_format)


def adaptive_avg_pool2d(x: Tensor, output_size: Any, data_format: str = "NCHW", name: str | None = None) -> Tensor:
    """The means of a grid of ``output_size`` parts; None keeps a dimension."""
    return _adaptive_mean(x, output_size, data_format)


def adaptive_max_pool2d(x: Tensor, output_size: Any, return_mask: bool = False, name: str | None = None) -> Any:
    """The largest elements of a grid of ``output_size`` parts; with ``return_mask`` also their positions."""
    given = list(output_size) if isinstance(output_size, (list, tuple)) else [output_size] * 2
    size = [n if want is None else int(want) for want, n in zip(given, x.shape[2:4], strict=True)]
    pooled, mask = run_many("max_pool2d_with_index", x, ksize=size, adaptive=True)
    return (pooled, mask) if return_mask else pooled


def adaptive_avg_pool1d(x: Tensor, output_size: Any, name: str | None = None) -> Tensor:
    """The means of ``output_size`` parts of ``[N, C, L]``."""
    return squeeze(_adaptive_mean(unsqueeze(x, 2), [1, int(output_size)], "NCHW"), 2)


def adaptive_avg_pool3d(x: Tensor, output_size: Any, data_format: str = "NCDHW", name: str | None = None) -> Tensor:
    """The means of a grid of ``output_size`` parts of ``[N, C, D, H, W]``; None keeps a dimension."""
    given = list(output_size) if isinstance(output_size, (list, tuple)) else [output_size] * 3
    held = x.shape[1:4] if data_format == "NDHWC" else x.shape[2:5]
    size = [n if want is None else int(want) for want, n in zip(given, held, strict=True)]
    return run("pool3d", x, ksize=size, pooling_type="avg", adaptive=True, data_format=data_format)


def adaptive_max_pool1d(x: Tensor, output_size: Any, return_mask: bool = False, name: str | None = None) -> Any:
    """The largest elements of ``output_size`` parts of ``[N, C, L]``; with ``return_mask`` also their positions."""
    out = adaptive_max_pool2d(unsqueeze(x, 2), [1, int(output_size)], return_mask)
    return tuple(squeeze(each, 2) for each in out) if return_mask else squeeze(out, 2)


def unfold(
    x: Tensor, kernel_sizes: Any, strides: Any = 1, paddings: Any = 0, dilations: Any = 1, name: str | None = None
) -> Tensor:
    """The windows of ``[N, C, H, W]`` as columns: ``[N, C * kh * kw, count]``."""
    return run("unfold", x, **_sliding(kernel_sizes, strides, paddings, dilations))


def fold(
    x: Tensor,
    output_sizes: Any,
    kernel_sizes: Any,
    strides: Any = 1,
    paddings: Any = 0,
    dilations: Any = 1,
    name: str | None = None,
) -> Tensor:
    """The sum of columns at the places of their windows; the reverse of :func:`unfold`."""
    attrs = _sliding(kernel_sizes, strides, paddings, dilations)
    return run("fold", x, output_sizes=_spread(output_sizes, 2), **attrs)


def _sliding(kernel_sizes: Any, strides: Any, paddings: Any, dilations: Any) -> dict[str, list[int]]:
    around = int_list(paddings)
    around = around * 4 if len(around) == 1 else around * 2 if len(around) == 2 else around
    return {
        "kernel_sizes": _spread(kernel_sizes, 2),
        "strides": _spread(strides, 2),
        "paddings": around,
        "dilations": _spread(dilations, 2),
    }
