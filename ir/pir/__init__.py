"""Programs of Paddle 3 and ours: the one to the other and back."""

from __future__ import annotations

from ...proto.pir_json import decode_pir
from .translate import Translated, translate_module

__all__ = ["Translated", "read_pir_program", "translate_module"]


def read_pir_program(data: bytes, source: str) -> Translated:
    """The program in the text of a ``.json`` file; ``source`` names it in errors.

    Raises:
        FormatError: the text is no program.
        UnsupportedOpError: operations without counterpart here.
        ProgramError: an operation is used in a way that its counterpart cannot express.
    """
    return translate_module(decode_pir(data, source), source)
