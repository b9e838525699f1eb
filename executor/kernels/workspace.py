"""Scratch buffers of the convolution kernels, kept per thread so that a block never waits for fresh pages."""

from __future__ import annotations

import math
import threading
from typing import Any

import numpy as np
import numpy.typing as npt

from ..values import Array

__all__ = ["KEPT_BYTES", "workspace"]

KEPT_BYTES = 1 << 23
"""The largest buffer that a thread keeps in one slot; larger ones live as long as their array."""


class _Buffers(threading.local):
    def __init__(self) -> None:
        self.slots: dict[str, npt.NDArray[np.uint8]] = {}


_buffers = _Buffers()


def workspace(slot: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """An uninitialised array of this thread, valid until the thread asks for the same slot again."""
    size = math.prod(shape) * dtype.itemsize
    if size > KEPT_BYTES:
        return np.empty(shape, dtype)
    buffer = _buffers.slots.get(slot)
    if buffer is None or buffer.size < size:
        buffer = _buffers.slots[slot] = np.empty(size, np.uint8)
    return buffer[:size].view(dtype).reshape(shape)
