"""Layers: ``Layer`` and the building blocks of ``paddle.nn``."""

from __future__ import annotations

from ..optimizer.clip import ClipGradByGlobalNorm, ClipGradByNorm, ClipGradByValue
from . import functional, initializer
from .attr import ParamAttr
from .container import LayerDict, LayerList, ParameterList, Sequential
from .generated import GENERATED
from .layer import Layer
from .linear import (
    Bilinear,
    Conv1D,
    Conv2D,
    Conv2DTranspose,
    Conv3D,
    Embedding,
    Flatten,
    Identity,
    Linear,
    PReLU,
    Unfold,
)
from .norm import (
    BatchNorm,
    BatchNorm1D,
    BatchNorm2D,
    BatchNorm3D,
    GroupNorm,
    InstanceNorm1D,
    InstanceNorm2D,
    InstanceNorm3D,
    LayerNorm,
    SyncBatchNorm,
)

globals().update(GENERATED)

__all__ = [
    "BatchNorm",
    "BatchNorm1D",
    "BatchNorm2D",
    "BatchNorm3D",
    "Bilinear",
    "ClipGradByGlobalNorm",
    "ClipGradByNorm",
    "ClipGradByValue",
    "Conv1D",
    "Conv2D",
    "Conv2DTranspose",
    "Conv3D",
    "Embedding",
    "Flatten",
    "GroupNorm",
    "Identity",
    "InstanceNorm1D",
    "InstanceNorm2D",
    "InstanceNorm3D",
    "Layer",
    "LayerDict",
    "LayerList",
    "LayerNorm",
    "Linear",
    "PReLU",
    "ParamAttr",
    "ParameterList",
    "Sequential",
    "SyncBatchNorm",
    "Unfold",
    "functional",
    "initializer",
    *GENERATED,
]
