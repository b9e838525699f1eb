"""The values that variables hold besides plain arrays: ragged batches, tensor arrays, selected rows, shapes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Array", "LoDTensor", "Meta", "SelectedRows", "TensorArray", "array_of", "memory_owner"]

Array = npt.NDArray[Any]


@dataclass(slots=True)
class LoDTensor:
    """A batch of sequences laid end to end (Paddle 1.x).

    Attributes:
        array: the rows of all sequences, sequence axis first.
        lod: levels of offsets, outermost first; each level starts at 0. ``[[0, 2, 5]]`` is two sequences of
            two and three rows.
    """

    array: Array
    lod: list[list[int]] = field(default_factory=list)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array."""
        return self.array.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the array."""
        return self.array.dtype

    def lengths(self) -> list[list[int]]:
        """The levels as sequence lengths, the way users write them."""
        return [[b - a for a, b in zip(level, level[1:], strict=False)] for level in self.lod]

    @classmethod
    def from_lengths(cls, array: Array, lengths: Sequence[Sequence[int]]) -> LoDTensor:
        """Build from recursive sequence lengths, e.g. ``[[2, 3]]``."""
        return cls(array, [[0, *(int(end) for end in np.cumsum(level))] for level in lengths])


class TensorArray(list[Any]):
    """A ``LOD_TENSOR_ARRAY``: a list of arrays (or None where nothing was written yet)."""


@dataclass(slots=True)
class SelectedRows:
    """A sparse gradient: ``values[i]`` belongs to row ``rows[i]`` of a table with ``height`` rows.

    A row may occur several times; its values then add up.
    """

    rows: npt.NDArray[np.int64]
    values: Array
    height: int

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the dense table."""
        return (self.height, *self.values.shape[1:])

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the values."""
        return self.values.dtype

    def to_dense(self) -> Array:
        """The whole table, zero where no row is selected. Shape ``[height, ...]``."""
        dense = np.zeros(self.shape, self.values.dtype)
        np.add.at(dense, self.rows, self.values)
        return dense


@dataclass(frozen=True, slots=True)
class Meta:
    """Shape and dtype of an array that is gone: all that a ``~`` slot may read."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return int(np.prod(self.shape, dtype=np.int64))


def array_of(value: Any) -> Array:
    """The plain array behind a value: itself, the rows of a ragged batch, selected rows made dense."""
    if isinstance(value, LoDTensor):
        return value.array
    if isinstance(value, SelectedRows):
        return value.to_dense()
    return np.asarray(value)


def memory_owner(array: Array) -> Any:
    """The object at the end of an array's chain of bases: an array, a mapped file, a buffer."""
    owner: Any = array
    while isinstance(owner, np.ndarray) and owner.base is not None:
        owner = owner.base
    return owner
