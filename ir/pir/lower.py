"""Make a translated program one that Paddle 2.6 runs: operators of Paddle 3 replaced, the rest refused."""

from __future__ import annotations

from typing import Final

from ...errors import UnsupportedOpError
from ..desc import AttrType, ProgramDesc
from .table import old_operator

__all__ = ["for_paddle_2"]

_REPLACED: Final = {"cast_rounded": "cast"}
"""Operators with a near twin: ``cast`` of Paddle 2 cuts to bfloat16 where that of Paddle 3 rounds."""
_CONTROL: Final = frozenset({"feed", "fetch", "while", "conditional_block", "select_input"})
_ARRAYS: Final = frozenset({"write_to_array", "read_from_array", "lod_array_length", "tensor_array_to_tensor"})
_KNOWN: Final = _CONTROL | _ARRAYS | {"deformable_conv_v1"}
"""Operators of Paddle 2.6 that correspond to no single operation and are not in the table."""


def for_paddle_2(program: ProgramDesc, source: str = "program") -> ProgramDesc:
    """A copy that Paddle 2.6 loads.

    Raises:
        UnsupportedOpError: operators that Paddle 2.6 does not have; lists all of them.
    """
    made = program.copy()
    missing: dict[str, int] = {}
    for block in made.blocks:
        for op in block.ops:
            op.type = _REPLACED.get(op.type, op.type)
            if "is_test" in op.attrs:  # as jit.save of Paddle 2 writes every program
                op.set_attr("is_test", True, AttrType.BOOLEAN)
            if op.type not in _KNOWN and not old_operator(op.type).known:
                missing[op.type] = missing.get(op.type, 0) + 1
    if missing:
        raise UnsupportedOpError(missing, f"{source}, written for Paddle 2,")
    return made
