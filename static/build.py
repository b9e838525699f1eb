"""Variables of a program under construction: ``data``, ``create_global_var``; ``name_scope``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..eager import dtypes, unique_name
from .program import Variable, default_main_program

__all__ = ["create_global_var", "data", "name_scope"]


def data(name: str, shape: Sequence[int | None], dtype: Any = None, lod_level: int = 0) -> Variable:
    """An input of the default main program, to be fed under its name.

    Args:
        shape: None and -1 are free sizes.
        dtype: the default float dtype when None.
        lod_level: more than 0 for ragged batches.
    """
    block = default_main_program().global_block()
    kind = dtypes.default_float() if dtype is None else dtype
    made = block.create_var(name, shape, kind, stop_gradient=True)
    made.desc.lod_level = lod_level
    made.desc.need_check_feed = True
    return made


def create_global_var(
    shape: Sequence[int],
    value: float,
    dtype: Any = "float32",
    persistable: bool = False,
    force_cpu: bool = False,
    name: str | None = None,
) -> Variable:
    """A variable of the default main program that starts filled with ``value``: a learning rate, a counter.

    ``persistable`` and ``force_cpu`` are accepted: the value always stays from run to run.
    """
    program = default_main_program()
    label = name or unique_name.generate("global_var")
    made = program.global_block().create_var(label, shape, dtype, persistable=True, stop_gradient=True)
    program._params.values[made.name] = np.full(tuple(shape), value, dtypes.numpy_dtype(dtype))
    return made


@contextmanager
def name_scope(prefix: str | None = None) -> Iterator[None]:
    """Accepted: names of ops are not kept."""
    yield
