"""Element types as the program names them: a code in attributes and variables, a numpy dtype in kernels."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..proto.dtypes import DType, bfloat16, from_name, from_numpy, is_bfloat16, to_numpy

__all__ = ["UNSET", "DType", "bfloat16", "from_name", "from_numpy", "is_bfloat16", "resolve", "to_numpy"]

UNSET = -1
"""The value of a dtype attribute that means "as the input"."""


def resolve(code: int, default: np.dtype[Any]) -> np.dtype[Any]:
    """The numpy dtype of an attribute's code, or ``default`` where the code is :data:`UNSET`."""
    return default if code == UNSET else to_numpy(code)
