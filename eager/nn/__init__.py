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
    Conv1DTranspose,
    Conv2D,
    Conv2DTranspose,
    Conv3D,
    Embedding,
    Flatten,
    Identity,
    Linear,
    PReLU,
    Softmax2D,
    Unflatten,
    Unfold,
    UpsamplingBilinear2D,
    UpsamplingNearest2D,
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
from .recurrent import GRU, LSTM, GRUCell, LSTMCell, SimpleRNN, SimpleRNNCell

globals().update(GENERATED)

__all__ = [
    "GRU",
    "LSTM",
    "GRUCell",
    "LSTMCell",
    "SimpleRNN",
    "SimpleRNNCell",
    "BatchNorm",
    "BatchNorm1D",
    "BatchNorm2D",
    "BatchNorm3D",
    "Bilinear",
    "ClipGradByGlobalNorm",
    "ClipGradByNorm",
    "ClipGradByValue",
    "Conv1D",
    "Conv1DTranspose",
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
    "Softmax2D",
    "SyncBatchNorm",
    "Unflatten",
    "Unfold",
    "UpsamplingBilinear2D",
    "UpsamplingNearest2D",
    "functional",
    "initializer",
    *GENERATED,
]
