"""A saved model to the other format: ``.pdmodel`` of Paddle 2 and ``.json`` of Paddle 3. Nothing is run."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO, Final, Literal, TypeAlias

from ..errors import InputError
from ..ir.desc import ProgramDesc
from ..ir.pir import for_paddle_2, write_pir_program
from ..ir.program_io import write_program
from ..ir.saved_model import SavedModel, read_model
from ..proto.files import write_files
from ..proto.pdiparams import dump_params
from ..proto.pickles import dump_info

__all__ = ["FORMATS", "ModelFormat", "convert", "program_bytes"]

ModelFormat: TypeAlias = Literal["pdmodel", "json"]
Info: TypeAlias = "Mapping[str, Mapping[str, Any]] | None"

FORMATS: Final[tuple[ModelFormat, ...]] = ("pdmodel", "json")
"""``.pdmodel`` of Paddle 2, ``.json`` of Paddle 3."""


def convert(source: str | os.PathLike[str], target: str | os.PathLike[str], format: str | None = None) -> str:
    """Write the model at ``source`` as another one at ``target``; the format written.

    Args:
        source: what ``jit.load`` takes.
        target: a prefix, or a program file whose suffix tells the format.
        format: ``"pdmodel"`` or ``"json"``; when None the suffix of ``target``, else the format that ``source``
            does not have.

    Raises:
        InputError: the format is not known, or the target has no file name.
        UnsupportedOpError: operators that the other side does not have; lists all of them.
    """
    model = read_model(source, check_operators=False)
    prefix, suffix = os.path.splitext(os.fspath(target))
    if suffix[1:] not in FORMATS:
        prefix, suffix = os.fspath(target), ""
    chosen = format or suffix[1:] or ("json" if model.kind == "pdmodel" else "pdmodel")
    if chosen not in FORMATS:
        raise InputError(f"format={chosen!r} is not known, formats are {', '.join(FORMATS)}")
    if not os.path.basename(prefix):
        raise InputError(f"{os.fspath(target)!r} has no file name: pass a prefix such as 'folder/model'")
    write_files(_writers(model, prefix, chosen))
    return chosen


def program_bytes(program: ProgramDesc, format: str, info: Info = None, source: str = "program") -> bytes:
    """The bytes of a program in a format."""
    if format == "json":
        return write_pir_program(program, info, source)
    return write_program(program)


def _writers(model: SavedModel, prefix: str, format: str) -> dict[str | os.PathLike[str], Callable[[BinaryIO], object]]:
    writers: dict[str | os.PathLike[str], Callable[[BinaryIO], object]] = {}
    was_pir = model.kind == "pir"
    for method, program in model.programs.items():
        stem = prefix if method == "forward" else f"{prefix}.{method}"
        name = stem if model.files is None else model.files.programs[method]
        ready = for_paddle_2(program, name) if was_pir and format == "pdmodel" else program
        writers[f"{stem}.{format}"] = _bytes_writer(program_bytes(ready, format, model.info, name))
        values = {var.name: model.values[var.name] for var in program.persistables()}
        if values:
            writers[f"{stem}.pdiparams"] = _params_writer(values)
    if format == "pdmodel" and model.info:
        info = {name: {"structured_name": name, **facts} for name, facts in model.info.items()}
        writers[f"{prefix}.pdiparams.info"] = lambda stream: dump_info(stream, info)
    return writers


def _bytes_writer(data: bytes) -> Callable[[BinaryIO], object]:
    return lambda stream: stream.write(data)


def _params_writer(values: Mapping[str, Any]) -> Callable[[BinaryIO], object]:
    return lambda stream: dump_params(stream, values)
