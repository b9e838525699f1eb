"""Layers: ``Layer`` and the building blocks of ``paddle.nn``."""

from __future__ import annotations

from .attr import ParamAttr
from .layer import Layer

__all__ = ["Layer", "ParamAttr"]
