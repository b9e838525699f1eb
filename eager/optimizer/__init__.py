"""Optimizers, learning-rate schedules, gradient clipping and regularisation."""

from __future__ import annotations

from . import lr
from .optimizer import Optimizer
from .rules import SGD, Adadelta, Adagrad, Adam, Adamax, AdamW, Lamb, Momentum, RMSProp

__all__ = [
    "SGD",
    "Adadelta",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "Lamb",
    "Momentum",
    "Optimizer",
    "RMSProp",
    "lr",
]
