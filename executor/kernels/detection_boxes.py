"""Anchor boxes and box arithmetic of detection models: priors, coding against priors, clipping, overlap."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ir.registry import REQUIRED, operator
from ..values import Array, LoDTensor
from .common import flattened, refuse_half
from .detection_geometry import pixel_unit
from .sequence_layout import same_lod, sequence_ids

__all__ = [
    "anchor_generator",
    "box_clip",
    "box_coder",
    "box_decoder_and_assign",
    "density_prior_box",
    "iou_similarity",
    "polygon_box_transform",
    "prior_box",
]


def _centers(feature: Array, image: Array, step_w: float, step_h: float, offset: float) -> tuple[Array, Array]:
    """Cell centers in image pixels, ``(x [1, W], y [H, 1])``; a zero step is image size over feature size."""
    height, width = feature.shape[2:4]
    dtype = feature.dtype.type
    step_x = dtype(step_w) if step_w else dtype(image.shape[3]) / dtype(width)
    step_y = dtype(step_h) if step_h else dtype(image.shape[2]) / dtype(height)
    x = (np.arange(width, dtype=dtype) + dtype(offset)) * step_x
    y = (np.arange(height, dtype=dtype) + dtype(offset)) * step_y
    return x[None, :], y[:, None]


def _like_boxes(variances: Sequence[float], shape: tuple[int, ...], dtype: Any) -> Array:
    """The four variances repeated for every box."""
    if len(variances) != 4:
        raise ValueError(f"variances takes 4 numbers, got {list(variances)}")
    repeated: Array = np.broadcast_to(np.asarray(variances, dtype), shape).copy()
    return repeated


def _all_ratios(aspect_ratios: Sequence[float], flip: bool) -> list[float]:
    """1, then every distinct ratio, each followed by its inverse when ``flip``."""
    ratios = [1.0]
    for ratio in aspect_ratios:
        if any(abs(ratio - known) < 1e-6 for known in ratios):
            continue
        ratios.append(ratio)
        if flip:
            ratios.append(1.0 / ratio)
    return ratios


def _prior_sizes(
    min_sizes: Sequence[float], max_sizes: Sequence[float], ratios: Sequence[float], min_max_first: bool
) -> list[tuple[float, float]]:
    """Width and height of every prior of a cell, in output order."""
    sizes = []
    for index, small in enumerate(min_sizes):
        square = [(np.sqrt(small * max_sizes[index]),) * 2] if max_sizes else []
        ratioed = [(small * np.sqrt(ratio), small / np.sqrt(ratio)) for ratio in ratios]
        if min_max_first:
            others = [size for size, ratio in zip(ratioed, ratios, strict=True) if abs(ratio - 1.0) >= 1e-6]
            sizes += [(small, small), *square, *others]
        else:
            sizes += [*ratioed, *square]
    return sizes


def _corner_boxes(x: Array, y: Array, width: Array, height: Array, image: Array) -> Array:
    """``[H, W, priors, 4]`` corners over the image size, from centers that broadcast against the sizes."""
    left, top, right, bottom = np.broadcast_arrays(
        (x - width) / x.dtype.type(image.shape[3]),
        (y - height) / y.dtype.type(image.shape[2]),
        (x + width) / x.dtype.type(image.shape[3]),
        (y + height) / y.dtype.type(image.shape[2]),
    )
    return np.stack((left, top, right, bottom), axis=-1)


@operator("prior_box", inputs="Input Image", outputs="Boxes Variances", gradient=None)
def prior_box(
    feature: Array,
    image: Array,
    *,
    min_sizes: Sequence[float] = REQUIRED,
    max_sizes: Sequence[float] = (),
    aspect_ratios: Sequence[float] = (),
    variances: Sequence[float] = (),
    flip: bool = True,
    clip: bool = True,
    step_w: float = 0.0,
    step_h: float = 0.0,
    offset: float = 0.5,
    min_max_aspect_ratios_order: bool = False,
) -> tuple[Array, Array]:
    """SSD priors of every feature cell: ``[H, W, priors, 4]`` corners relative to the image, and variances."""
    if max_sizes and len(max_sizes) != len(min_sizes):
        raise ValueError(f"max_sizes has {len(max_sizes)} entries, min_sizes {len(min_sizes)}: they must pair")
    sizes = _prior_sizes(min_sizes, max_sizes, _all_ratios(aspect_ratios, flip), min_max_aspect_ratios_order)
    halves = (np.asarray(sizes, np.float64) / 2.0).astype(feature.dtype)
    x, y = _centers(feature, image, step_w, step_h, offset)
    boxes = _corner_boxes(x[..., None], y[..., None], halves[:, 0], halves[:, 1], image)
    if clip:
        boxes = boxes.clip(0, 1)
    return boxes, _like_boxes(variances, boxes.shape, boxes.dtype)


@operator("density_prior_box", inputs="Input Image", outputs="Boxes Variances", gradient=None)
def density_prior_box(
    feature: Array,
    image: Array,
    *,
    variances: Sequence[float] = REQUIRED,
    clip: bool = True,
    flatten_to_2d: bool = False,
    step_w: float = 0.0,
    step_h: float = 0.0,
    offset: float = 0.5,
    fixed_sizes: Sequence[float] = (),
    fixed_ratios: Sequence[float] = (),
    densities: Sequence[int] = (),
) -> tuple[Array, Array]:
    """Priors on a grid of ``density * density`` shifted centers per cell; always clipped to the image from one side.

    The lower corner is kept at 0 or above and the upper at 1 or below; ``clip`` bounds both from both sides.
    """
    if len(densities) != len(fixed_sizes):
        raise ValueError(f"densities has {len(densities)} entries, fixed_sizes {len(fixed_sizes)}: they must pair")
    x, y = _centers(feature, image, step_w, step_h, offset)
    dtype = feature.dtype
    pitch_x = step_w or float(image.shape[3]) / feature.shape[3]
    pitch_y = step_h or float(image.shape[2]) / feature.shape[2]
    pitch = int((pitch_x + pitch_y) * 0.5)
    rows = []
    for size, density in zip(fixed_sizes, densities, strict=True):
        shift = pitch // density
        start = shift / 2.0 - pitch / 2.0
        for ratio in fixed_ratios:
            half = (size * np.sqrt(ratio) / 2.0, size / np.sqrt(ratio) / 2.0)
            rows += [
                (start + column * shift, start + row * shift, *half)
                for row in range(density)
                for column in range(density)
            ]
    dx, dy, half_w, half_h = np.asarray(rows, dtype).reshape(-1, 4).T
    boxes = _corner_boxes(x[..., None] + dx, y[..., None] + dy, half_w, half_h, image)
    np.maximum(boxes[..., :2], 0, out=boxes[..., :2])
    np.minimum(boxes[..., 2:], 1, out=boxes[..., 2:])
    if clip:
        boxes = boxes.clip(0, 1)
    if flatten_to_2d:
        boxes = boxes.reshape(-1, 4)
    return boxes, _like_boxes(variances, boxes.shape, dtype)


@operator("anchor_generator", inputs="Input", outputs="Anchors Variances", gradient=None)
def anchor_generator(
    feature: Array,
    *,
    anchor_sizes: Sequence[float] = REQUIRED,
    aspect_ratios: Sequence[float] = REQUIRED,
    variances: Sequence[float] = REQUIRED,
    stride: Sequence[float] = (16.0, 16.0),
    offset: float = 0.5,
) -> tuple[Array, Array]:
    """Faster R-CNN anchors in pixels, ``[H, W, ratios * sizes, 4]``: whole-pixel base boxes scaled to each size."""
    refuse_half(feature)
    if len(stride) != 2:
        raise ValueError(f"stride takes 2 numbers (width, height), got {list(stride)}")
    dtype = feature.dtype.type
    stride_w, stride_h = dtype(stride[0]), dtype(stride[1])
    halves = []
    for ratio in aspect_ratios:
        base_w = _round_half_away(np.sqrt(stride_w * stride_h / dtype(ratio)))
        base_h = _round_half_away(base_w * dtype(ratio))
        for size in anchor_sizes:
            width, height = dtype(size) / stride_w * base_w, dtype(size) / stride_h * base_h
            halves.append((0.5 * (width - 1), 0.5 * (height - 1)))
    half = np.asarray(halves, dtype)
    rows, columns = feature.shape[2:4]
    x = (np.arange(columns, dtype=dtype) * stride_w + dtype(offset) * (stride_w - 1))[None, :, None]
    y = (np.arange(rows, dtype=dtype) * stride_h + dtype(offset) * (stride_h - 1))[:, None, None]
    sides = np.broadcast_arrays(x - half[:, 0], y - half[:, 1], x + half[:, 0], y + half[:, 1])
    anchors = np.stack(sides, axis=-1)
    return anchors, _like_boxes(variances, anchors.shape, dtype)


def _round_half_away(value: Any) -> Any:
    return np.sign(value) * np.floor(np.abs(value) + value.dtype.type(0.5))


@operator("box_clip", inputs="Input ImInfo", outputs="Output", lod=True, gradient=None)
def box_clip(boxes: Any, im_info: Any) -> LoDTensor:
    """Boxes clipped into the unscaled image of their sequence; ``ImInfo`` rows are height, width, scale."""
    if not isinstance(boxes, LoDTensor) or len(boxes.lod) != 1:
        raise ValueError("Input must carry one level of LoD (boxes per image)")
    info = im_info.array if isinstance(im_info, LoDTensor) else im_info
    image = sequence_ids(np.diff(boxes.lod[0]))
    if info.shape[0] < len(boxes.lod[0]) - 1:
        raise ValueError(f"ImInfo has {info.shape[0]} rows for {len(boxes.lod[0]) - 1} images")
    limits = _round_half_away(info[:, :2] / info[:, 2:3]) - 1
    limit = limits[image][:, [1, 0, 1, 0]].reshape(-1, *(1,) * (boxes.array.ndim - 2), 4)
    return LoDTensor(np.maximum(np.minimum(boxes.array, limit), 0), boxes.lod)


def _center_form(boxes: Array, unit: Any) -> tuple[Array, Array]:
    """Centers and sizes, ``[..., 2]`` each, of corner boxes."""
    size = boxes[..., 2:4] - boxes[..., :2] + unit
    return boxes[..., :2] + size / boxes.dtype.type(2), size


def _encode(prior: Array, target: Array, unit: Any) -> Array:
    center, size = _center_form(prior, unit)
    target_size = target[:, 2:4] - target[:, :2] + unit
    target_center = (target[:, 2:4] + target[:, :2]) / target.dtype.type(2)
    out = np.empty((target.shape[0], prior.shape[0], 4), target.dtype)
    with np.errstate(divide="ignore", invalid="ignore"):
        np.divide(target_center[:, None] - center, size, out=out[..., :2])
        np.log(np.abs(target_size[:, None] / size), out=out[..., 2:])
    return out


def _decode(prior: Array, target: Array, unit: Any, scale: Array | None) -> Array:
    center, size = _center_form(prior, unit)
    delta = target if scale is None else target * scale
    middle = delta[..., :2] * size + center
    with np.errstate(over="ignore"):
        half = np.exp(delta[..., 2:4]) * size / target.dtype.type(2)
    return np.concatenate((middle - half, middle + half - unit), axis=-1)


@operator("box_coder", inputs="PriorBox PriorBoxVar? TargetBox", outputs="OutputBox", lod=True, gradient=None)
def box_coder(
    prior_value: Any,
    prior_var: Any,
    target_value: Any,
    *,
    code_type: str = "encode_center_size",
    box_normalized: bool = True,
    axis: int = 0,
    variance: Sequence[float] = (),
) -> Any:
    """Center-size offsets of boxes against priors, or back.

    Encode: ``[N, 4]`` targets and ``[M, 4]`` priors give ``[N, M, 4]``. Decode: ``[N, M, 4]`` offsets; priors
    go with dimension 1 (``axis`` 0) or dimension 0 (``axis`` 1). Offsets are over the variances.
    """
    prior, target = (each.array if isinstance(each, LoDTensor) else each for each in (prior_value, target_value))
    _check_box_coder(prior, prior_var, variance, axis)
    scale = np.asarray(variance, target.dtype) if variance else None
    if prior_var is not None:
        scale = prior_var.array if isinstance(prior_var, LoDTensor) else prior_var
    unit = pixel_unit(box_normalized, target.dtype)
    if code_type == "encode_center_size":
        out = _encode(prior, target, unit)
        return same_lod(out if scale is None else out / scale, target_value)
    if code_type != "decode_center_size":
        raise ValueError(f"code_type is encode_center_size or decode_center_size, got {code_type!r}")
    if target.ndim != 3 or target.shape[1 - axis] != prior.shape[0]:
        raise ValueError(
            f"TargetBox of shape {list(target.shape)} does not fit {prior.shape[0]} priors along dimension {1 - axis}"
        )
    if axis == 1:
        prior = prior[:, None]
        scale = scale[:, None] if scale is not None and scale.ndim == 2 else scale
    return same_lod(_decode(prior, target, unit, scale), target_value)


def _check_box_coder(prior: Array, prior_var: Any, variance: Sequence[float], axis: int) -> None:
    if axis not in (0, 1):
        raise ValueError(f"axis is 0 or 1, got {axis}")
    if prior_var is not None and variance:
        raise ValueError("PriorBoxVar and the attribute variance are both given, at most one may be")
    if prior_var is not None and tuple(prior_var.shape) != prior.shape:
        raise ValueError(f"PriorBoxVar has shape {list(prior_var.shape)}, PriorBox {list(prior.shape)}: must be equal")
    if len(variance) not in (0, 4):
        raise ValueError(f"variance takes 4 numbers, got {len(variance)}")


@operator(
    "box_decoder_and_assign",
    inputs="PriorBox PriorBoxVar? TargetBox BoxScore",
    outputs="DecodeBox OutputAssignBox",
    gradient=None,
)
def box_decoder_and_assign(
    prior: Array,
    prior_var: Array | None,
    target: Array,
    score: Array,
    *,
    box_clip: float = 4.135,
) -> tuple[Array, Array]:
    """Decode ``[N, classes * 4]`` offsets of pixel boxes, and pick the box of the best class but class 0.

    Log sizes are bounded by ``box_clip``. A roi whose scores are all at or below -1 keeps its prior.
    """
    if prior_var is None or prior_var.shape != (4,):
        given = "none" if prior_var is None else f"shape {list(prior_var.shape)}"
        raise ValueError(f"PriorBoxVar takes 4 numbers, got {given}")
    rois, classes = score.shape
    deltas = target.reshape(rois, classes, 4) * prior_var
    np.minimum(deltas[..., 2:], deltas.dtype.type(box_clip), out=deltas[..., 2:])
    decoded = _decode(prior[:, None, :4], deltas, target.dtype.type(1), None)
    rest = score[:, 1:]
    if rest.shape[1] == 0:
        return flattened(decoded), prior.copy()
    best = rest.argmax(axis=1)
    every = np.arange(rois)
    assigned = np.where((rest[every, best] > -1)[:, None], decoded[every, best + 1], prior[:, :4])
    return flattened(decoded), assigned


@operator("iou_similarity", inputs="X Y", outputs="Out", gradient=None)
def iou_similarity(x: Array, y: Array, *, box_normalized: bool = True) -> Array:
    """``[N, M]`` intersection over union of ``[N, 4]`` and ``[M, 4]`` boxes; 0 where the union is empty."""
    unit = pixel_unit(box_normalized, x.dtype)
    low = np.maximum(x[:, None, :2], y[None, :, :2])
    high = np.minimum(x[:, None, 2:4], y[None, :, 2:4])
    sides = np.maximum(high - low + unit, 0)
    inter = sides[..., 0] * sides[..., 1]
    areas = [np.multiply.reduce(each[:, 2:4] - each[:, :2] + unit, axis=1) for each in (x, y)]
    union = areas[0][:, None] + areas[1] - inter
    overlap: Array = np.divide(inter, union, out=np.zeros_like(inter), where=union != 0)
    return overlap


@operator("polygon_box_transform", inputs="Input", outputs="Output", gradient=None)
def polygon_box_transform(x: Array) -> Array:
    """EAST geometry maps to quad corners: ``4 * column - x`` on even channels, ``4 * row - x`` on odd ones."""
    if x.ndim != 4 or x.shape[1] % 2:
        raise ValueError(f"Input is [N, even number, H, W], got {list(x.shape)}")
    out = np.empty_like(x)
    height, width = x.shape[2:]
    np.subtract(np.arange(width, dtype=x.dtype) * 4, x[:, 0::2], out=out[:, 0::2])
    np.subtract(np.arange(height, dtype=x.dtype)[:, None] * 4, x[:, 1::2], out=out[:, 1::2])
    return out
