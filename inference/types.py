"""The enumerations of ``paddle.inference``."""

from __future__ import annotations

import enum
from typing import Any

import numpy as np

from ..errors import InputError
from ..ir.dtypes import from_name, to_numpy

__all__ = ["DataType", "PlaceType", "PrecisionType", "get_num_bytes_of_data_type"]


class DataType(enum.IntEnum):
    """Element types of handles, with Paddle's numbers."""

    FLOAT32 = 0
    INT64 = 1
    INT32 = 2
    UINT8 = 3
    INT8 = 4
    FLOAT16 = 5
    BOOL = 6
    FLOAT64 = 7
    BFLOAT16 = 8

    @staticmethod
    def of(dtype: np.dtype[Any]) -> DataType:
        """The member for a numpy dtype.

        Raises:
            InputError: handles have no name for this element type.
        """
        try:
            return DataType[dtype.name.upper()]
        except KeyError:
            listed = ", ".join(member.name.lower() for member in DataType)
            raise InputError(f"paddle.inference has no DataType for {dtype.name}, only for {listed}") from None


class PlaceType(enum.IntEnum):
    """Where a tensor lives. oarlock has the CPU."""

    UNK = -1
    CPU = 0
    GPU = 1
    XPU = 2
    CUSTOM = 4


class PrecisionType(enum.IntEnum):
    """Precisions that a configuration may ask for."""

    Float32 = 0
    Int8 = 1
    Half = 2
    Bfloat16 = 3


def get_num_bytes_of_data_type(dtype: DataType) -> int:
    """The size of one element, in bytes."""
    return int(to_numpy(from_name(DataType(dtype).name.lower())).itemsize)
