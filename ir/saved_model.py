"""From files to programs and values: what ``jit.load``, ``static`` and ``inference`` build on."""

from __future__ import annotations

import contextlib
import gc
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from ..errors import NotFoundError, UnsupportedOpError
from ..proto.files import read_file
from ..proto.generated import messages
from ..proto.layouts import Kind, ModelFiles, find_model
from ..proto.parameters import load_parameters
from ..proto.pdiparams import read_params, record_order
from ..proto.pickles import read_info
from .desc import ProgramDesc
from .pir import read_pir_program
from .printer import var_text
from .program_io import read_program
from .registry import exists
from .verify import verify

messages()  # the schema comes with this module and not with the first model, which somebody is waiting for

__all__ = ["SavedModel", "missing_operators", "read_model", "read_model_buffers"]

Array = npt.NDArray[Any]


@dataclass(slots=True)
class SavedModel:
    """A model as it lies in its files.

    Attributes:
        programs: method name -> program as saved, verified.
        values: variable name -> value; views of mapped files where possible, to be treated as read-only.
        info: variable name -> facts (``trainable``, ``stop_gradient``, ``structured_name``); from the program
            itself for a ``.json``; None without file.
        files: where it came from; None for buffers.
        kind: what the programs were before they were read.
    """

    programs: dict[str, ProgramDesc]
    values: dict[str, Array]
    info: dict[str, dict[str, Any]] | None = None
    files: ModelFiles | None = None
    kind: Kind = "pdmodel"


def read_model(
    path: str | os.PathLike[str],
    model_filename: str | None = None,
    params_filename: str | None = None,
    *,
    check_operators: bool = True,
) -> SavedModel:
    """Read a saved model of any layout (see :func:`oarlock.proto.layouts.find_model`).

    Args:
        check_operators: refuse programs with operators that oarlock lacks; off for those who only look at them.

    Raises:
        NotFoundError: no model there, or a file of it is missing.
        FormatError: a file is damaged.
        ProgramError: a program is not valid.
        UnsupportedOpError: operators are missing; lists all of them.
    """
    with _no_collection():
        files = find_model(path, model_filename, params_filename)
        info = read_info(files.info) if files.info is not None else None
        if files.kind == "pir":
            programs, info = _read_pir(files, check_operators)
        else:
            programs = {name: _read(read_file(file), file, check_operators) for name, file in files.programs.items()}
        names = {name: _stored(program) for name, program in programs.items()}
        values = load_parameters(files, names, _described(programs))
        _check_info(info, values, files)
        return SavedModel(programs, values, info, files, files.kind)


@contextlib.contextmanager
def _no_collection() -> Iterator[None]:
    """Keep the collector from going over ten thousand new descriptions, none of which is garbage."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def read_model_buffers(program: bytes, params: bytes) -> SavedModel:
    """The same from memory: the bytes of a program (of either format) and of its combined parameters.

    Raises:
        FormatError, ProgramError, UnsupportedOpError: as :func:`read_model`.
    """
    info = None
    if program.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
        translated = read_pir_program(program, "the program buffer")
        made, info = _checked(translated.program, "the program buffer", True), translated.info
    else:
        made = _read(program, "the program buffer")
    names = _stored(made)
    values = read_params(params, record_order(names), source="the parameter buffer") if names or params else {}
    return SavedModel({"forward": made}, values, info, kind="pdmodel" if info is None else "pir")


def _read_pir(files: ModelFiles, check_operators: bool) -> tuple[dict[str, ProgramDesc], dict[str, dict[str, Any]]]:
    """The programs of ``.json`` files, translated; what they say about parameters takes the place of an info file."""
    programs: dict[str, ProgramDesc] = {}
    info: dict[str, dict[str, Any]] = {}
    for name, file in files.programs.items():
        translated = read_pir_program(read_file(file), file)
        programs[name] = _checked(translated.program, file, check_operators)
        info |= translated.info
    return programs, info


def _read(data: bytes, source: str, check_operators: bool = True) -> ProgramDesc:
    return _checked(read_program(data, source), source, check_operators)


def _checked(program: ProgramDesc, source: str, check_operators: bool) -> ProgramDesc:
    verify(program, source)
    missing = missing_operators(program) if check_operators else {}
    if missing:
        raise UnsupportedOpError(missing, source)
    return program


def missing_operators(program: ProgramDesc) -> dict[str, int]:
    """Operator types without a kernel, with their number of uses (feed and fetch are the loader's)."""
    missing: dict[str, int] = {}
    for block in program.blocks:
        for op in block.ops:
            if op.type not in ("feed", "fetch") and not exists(op.type):
                missing[op.type] = missing.get(op.type, 0) + 1
    return missing


def _stored(program: ProgramDesc) -> list[str]:
    return [var.name for var in program.persistables()]


def _described(programs: Mapping[str, ProgramDesc]) -> dict[str, str]:
    """Variable name -> shape and dtype as the program declares them, for messages about missing files."""
    return {var.name: var_text(var) for program in programs.values() for var in program.persistables()}


def _check_info(info: Mapping[str, Any] | None, values: Mapping[str, Array], files: ModelFiles) -> None:
    missing = [name for name in values if name not in info] if info is not None else []
    if missing:
        raise NotFoundError(
            f"{files.info}: The model to be loaded is not complete. The variable `{missing[0]}` of program cannot be "
            f"found in loaded model ({len(missing)} such variable(s))"
        )
