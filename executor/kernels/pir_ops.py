"""Operators that only programs of Paddle 3 use: those without a twin of the same meaning in Paddle 2."""

from __future__ import annotations

import numpy as np

from ...ir.dtypes import to_numpy
from ...ir.registry import operator
from ..values import Array

__all__ = ["cast_rounded"]


@operator("cast_rounded", inputs="X", outputs="Out", ignores="in_dtype")
def cast_rounded(x: Array, *, out_dtype: int) -> Array:
    """``x`` in a shorter float type, rounded to the nearest as Paddle 3 does; ``cast`` of Paddle 2 cuts to bfloat16."""
    with np.errstate(over="ignore", invalid="ignore"):
        return x.astype(to_numpy(out_dtype))


cast_rounded.gradient_op(
    "cast",
    takes="X=Out@GRAD",
    gives="Out=X@GRAD",
    attrs=lambda attrs: {"in_dtype": attrs["out_dtype"], "out_dtype": attrs["in_dtype"]},
)
