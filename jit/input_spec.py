"""``InputSpec``: the shape, dtype and name of an input."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..eager import dtypes
from ..eager.tensor import Tensor
from ..errors import InputError

__all__ = ["InputSpec"]


class InputSpec:
    """Describes an input of a model.

    Args:
        shape: sizes; None and -1 mean any size.
        dtype: a name such as ``"float32"``, an oarlock or numpy dtype.
        name: the input's name, or None.
        stop_gradient: whether no gradient is wanted.
    """

    def __init__(
        self,
        shape: Sequence[int | None],
        dtype: Any = "float32",
        name: str | None = None,
        stop_gradient: bool = False,
    ) -> None:
        if isinstance(shape, int) or not all(dim is None or isinstance(dim, (int, np.integer)) for dim in shape):
            raise InputError(f"shape takes a list of sizes, None or -1 for any size, got {shape!r}")
        self.shape = tuple(-1 if dim is None else int(dim) for dim in shape)
        self.dtype = dtypes.of_numpy(dtypes.numpy_dtype(dtype))
        self.name = name
        self.stop_gradient = stop_gradient

    @classmethod
    def from_tensor(cls, tensor: Tensor, name: str | None = None) -> InputSpec:
        """The description of a tensor, under its own name unless another is given."""
        return cls(tensor.shape, tensor.dtype, name or tensor.name)

    @classmethod
    def from_numpy(cls, array: np.ndarray[Any, Any], name: str | None = None) -> InputSpec:
        """The description of an array."""
        return cls(array.shape, array.dtype, name)

    def batch(self, batch_size: int) -> InputSpec:
        """Put a dimension of ``batch_size`` in front, in place; returns this object."""
        self.shape = (int(batch_size), *self.shape)
        return self

    def unbatch(self) -> InputSpec:
        """Take the first dimension away, in place; returns this object.

        Raises:
            InputError: there is no dimension.
        """
        if not self.shape:
            raise InputError("Not support to unbatch a InputSpec when len(shape) == 0")
        self.shape = self.shape[1:]
        return self

    def __repr__(self) -> str:
        return (
            f"InputSpec(shape={self.shape}, dtype={self.dtype}, name={self.name}, stop_gradient={self.stop_gradient})"
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, InputSpec):
            return NotImplemented
        return (self.shape, self.dtype, self.name) == (other.shape, other.dtype, other.name)

    def __hash__(self) -> int:
        return hash((self.shape, self.dtype, self.name))
