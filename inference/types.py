"""The enumerations of ``paddle.inference``."""

from __future__ import annotations

import enum

from ..ir.dtypes import to_numpy

__all__ = ["DataType", "PlaceType", "PrecisionType", "get_num_bytes_of_data_type"]


class DataType(enum.IntEnum):
    """Element types of handles; the values are the codes of program files."""

    BOOL = 0
    INT32 = 2
    INT64 = 3
    FLOAT16 = 4
    FLOAT32 = 5
    FLOAT64 = 6
    UINT8 = 20
    INT8 = 21
    BFLOAT16 = 22


class PlaceType(enum.IntEnum):
    """Where a tensor lives. oarlock has the CPU."""

    UNK = -1
    CPU = 0
    GPU = 1
    XPU = 2
    CUSTOM = 3


class PrecisionType(enum.IntEnum):
    """Precisions that a configuration may ask for."""

    Float32 = 0
    Int8 = 1
    Half = 2
    Bfloat16 = 3


def get_num_bytes_of_data_type(dtype: DataType) -> int:
    """The size of one element, in bytes."""
    return int(to_numpy(int(dtype)).itemsize)
