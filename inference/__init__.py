"""The drop-in for ``paddle.inference``: ``Config``, ``create_predictor``, predictors and their handles."""

from __future__ import annotations

from .config import Config
from .predictor import Predictor, PredictorError, PredictorPool, PredictorTensor, create_predictor
from .types import DataType, PlaceType, PrecisionType, get_num_bytes_of_data_type

__all__ = [
    "Config",
    "DataType",
    "PlaceType",
    "PrecisionType",
    "Predictor",
    "PredictorError",
    "PredictorPool",
    "PredictorTensor",
    "Tensor",
    "create_predictor",
    "get_num_bytes_of_data_type",
    "get_version",
]

Tensor = PredictorTensor
"""Paddle's name of the handle."""


def get_version() -> str:
    """The version that clients of Paddle read, as text."""
    return "version: 2.6.2\ncommit: oarlock\nbranch: oarlock\n"
