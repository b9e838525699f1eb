"""The element types of saved tensors: code in the file, name, numpy dtype.

Codes are the ``VarType.Type`` numbers of ``framework.proto``; integer attributes named ``dtype``,
``in_dtype`` or ``out_dtype`` hold them as well. The types that numpy lacks (bfloat16, float8) come from
``ml_dtypes``, which is imported when one of them is met: importing it may take longer than all the rest.
"""

from __future__ import annotations

import enum
import functools
from typing import Any, Final

import numpy as np

__all__ = [
    "EXTENSION_NAMES",
    "DType",
    "bfloat16",
    "extension",
    "from_name",
    "from_numpy",
    "is_bfloat16",
    "to_numpy",
]


class DType(enum.IntEnum):
    """Element types by their code in the file."""

    BOOL = 0
    INT16 = 1
    INT32 = 2
    INT64 = 3
    FP16 = 4
    FP32 = 5
    FP64 = 6
    SIZE_T = 19
    UINT8 = 20
    INT8 = 21
    BF16 = 22
    COMPLEX64 = 23
    COMPLEX128 = 24
    FP8_E4M3FN = 32
    FP8_E5M2 = 33
    UINT16 = 36
    UINT32 = 37
    UINT64 = 38


_NUMPY: Final[dict[int, np.dtype[Any]]] = {
    DType.BOOL: np.dtype(np.bool_),
    DType.INT16: np.dtype(np.int16),
    DType.INT32: np.dtype(np.int32),
    DType.INT64: np.dtype(np.int64),
    DType.FP16: np.dtype(np.float16),
    DType.FP32: np.dtype(np.float32),
    DType.FP64: np.dtype(np.float64),
    DType.SIZE_T: np.dtype(np.uint64),
    DType.UINT8: np.dtype(np.uint8),
    DType.INT8: np.dtype(np.int8),
    DType.COMPLEX64: np.dtype(np.complex64),
    DType.COMPLEX128: np.dtype(np.complex128),
    DType.UINT16: np.dtype(np.uint16),
    DType.UINT32: np.dtype(np.uint32),
    DType.UINT64: np.dtype(np.uint64),
}
_CODE: Final = {dtype: DType(code) for code, dtype in reversed(_NUMPY.items())}
_NAMES: Final = {dtype.name: code for dtype, code in _CODE.items()}
EXTENSION_NAMES: Final[dict[str, DType]] = {
    "bfloat16": DType.BF16,
    "float8_e4m3fn": DType.FP8_E4M3FN,
    "float8_e5m2": DType.FP8_E5M2,
}
"""The element types of ``ml_dtypes``, by name."""
_EXTENSION_CODES: Final = {int(code): name for name, code in EXTENSION_NAMES.items()}


@functools.cache
def extension(name: str) -> np.dtype[Any]:
    """The numpy dtype of one of :data:`EXTENSION_NAMES`."""
    import ml_dtypes

    found: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
    return found


def bfloat16() -> np.dtype[Any]:
    """The numpy dtype of bfloat16."""
    return extension("bfloat16")


def is_bfloat16(dtype: np.dtype[Any]) -> bool:
    """Whether a numpy dtype is bfloat16; never imports anything."""
    return dtype.kind == "V" and dtype.name == "bfloat16"


def to_numpy(code: int) -> np.dtype[Any]:
    """The numpy dtype of an element-type code.

    Raises:
        KeyError: the code names no element type.
    """
    found = _NUMPY.get(code)
    return extension(_EXTENSION_CODES[int(code)]) if found is None else found


def from_numpy(dtype: Any) -> DType:
    """The element-type code of a numpy dtype.

    Raises:
        KeyError: no saved tensor can have this dtype.
    """
    made = np.dtype(dtype)
    found = _CODE.get(made)
    return EXTENSION_NAMES[made.name] if found is None else found


def from_name(name: str) -> DType:
    """The element-type code of a name such as ``"float32"``, ``"bfloat16"`` or ``"bool"``.

    Raises:
        KeyError: the name is unknown.
    """
    return _NAMES[name] if name in _NAMES else EXTENSION_NAMES[name]
