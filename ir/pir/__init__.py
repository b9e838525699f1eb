"""Programs of Paddle 3 and ours: the one to the other and back."""

from __future__ import annotations

from ...proto.pir_json import decode_pir
from ...proto.pir_write import encode_pir
from ..desc import ProgramDesc
from .export import Info, export_forward, export_program
from .lower import for_paddle_2
from .translate import Translated, translate_module

__all__ = [
    "Translated",
    "export_forward",
    "export_program",
    "for_paddle_2",
    "read_pir_program",
    "translate_module",
    "write_pir_program",
]


def read_pir_program(data: bytes, source: str) -> Translated:
    """The program in the text of a ``.json`` file; ``source`` names it in errors.

    Raises:
        FormatError: the text is no program.
        UnsupportedOpError: operations without counterpart here.
        ProgramError: an operation is used in a way that its counterpart cannot express.
    """
    return translate_module(decode_pir(data, source), source)


def write_pir_program(program: ProgramDesc, info: Info | None = None, source: str = "program") -> bytes:
    """The text of a ``.json`` file that Paddle 3.3 loads. ``info`` tells which stored variables are trained.

    Raises:
        UnsupportedOpError: operators that Paddle 3 does not have; lists all of them.
        ProgramError: an operator is used in a way that cannot be written there.
    """
    return encode_pir(export_program(program, info, source))
