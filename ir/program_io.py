"""Programs to and from bytes: the descriptions of this room handed to the codec of the room below."""

from __future__ import annotations

from typing import Final

from ..proto.pdmodel import decode_program, encode_program
from .desc import AttrType, BlockDesc, OpDesc, ProgramDesc, VarDesc, VarKind
from .dtypes import DType, to_numpy

__all__ = ["describe_parameters", "read_program", "write_program"]


class _Descs:
    """The factory that ``proto`` builds programs with."""

    program = ProgramDesc
    block = BlockDesc
    op = OpDesc
    var = VarDesc
    attr_type = AttrType
    var_kind = VarKind


_DESCS: Final = _Descs()


def read_program(data: bytes, source: str) -> ProgramDesc:
    """The program in the bytes of a ``.pdmodel`` or ``__model__`` file; ``source`` names them in errors.

    Raises:
        FormatError: the bytes are no program.
    """
    return decode_program(data, _DESCS, source=source)


def write_program(program: ProgramDesc) -> bytes:
    """The bytes of ``program``; those it was read from, when nothing was changed.

    Raises:
        ProgramError: a value does not fit the format.
    """
    return encode_program(program)


def describe_parameters(program: ProgramDesc) -> dict[str, str]:
    """Name -> shape and dtype of every parameter, such as ``"[2,3] float32"``, for error messages."""
    return {var.name: _described(var) for var in program.persistables()}


def _described(var: VarDesc) -> str:
    shape = "[?]" if var.shape is None else f"[{','.join(map(str, var.shape))}]"
    return f"{shape} {to_numpy(var.dtype).name if isinstance(var.dtype, DType) else var.dtype}"
