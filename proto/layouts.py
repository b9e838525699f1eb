"""Which files a saved model consists of, and what they are.

Names say where the files of a model may lie; what a file is, its content says. Known layouts:

    prefix.pdmodel + prefix.pdiparams [+ .info]       jit.save and save_inference_model of Paddle 2
    prefix.json + prefix.pdiparams                    the same of Paddle 3
    prefix.METHOD.pdmodel [+ prefix.METHOD.pdiparams] methods saved beside ``forward``
    folder/__model__ + one file per parameter         save_inference_model of Paddle 1; a "/" in the name of
                                                      a parameter is a sub-folder
    folder/__model__ + folder/__params__              the same with parameters combined
    folder/model + folder/params                      the same under the names that converters use

Without persistable variables there is no parameter file.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from ..errors import FormatError, InputError, NotFoundError
from . import wire
from .files import StrPath, is_pickle, listing, shown

__all__ = ["Kind", "ModelFiles", "find_model", "program_kind"]

Kind: TypeAlias = Literal["pdmodel", "pir"]

_SUFFIXES: Final[dict[str, Kind]] = {".pdmodel": "pdmodel", ".json": "pir"}
_FOLDER_PARAMS: Final = ("__params__", "params")
_HEAD: Final = 4096


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """The files of one model.

    Attributes:
        kind: what the programs are.
        folder: where the files lie; the folder of parameter files when ``separate``.
        programs: method name -> program file, ``"forward"`` first.
        params: method name -> file of combined parameters (it need not exist); empty when ``separate``.
            Methods that share a file share its parameters.
        separate: every parameter has a file of its own.
        info: the file with facts about the parameters, when there is one.
    """

    kind: Kind
    folder: str
    programs: dict[str, str]
    params: dict[str, str]
    separate: bool = False
    info: str | None = None


def find_model(path: StrPath, model_filename: str | None = None, params_filename: str | None = None) -> ModelFiles:
    """The files of the model at ``path``: a prefix, a folder, or a program file.

    As a prefix, ``path`` is what was given to ``jit.save``; dots in it are part of the name. When both
    ``path.pdmodel`` and ``path.json`` are there, the ``.pdmodel`` is taken, because only that format keeps
    what ``train()`` needs; name the ``.json`` file itself to get the other. The file names are ignored then,
    as Paddle does.

    In a folder, ``model_filename`` names the program and ``params_filename`` the parameters. Without them the
    first of these is taken: ``__model__``, ``inference.pdmodel`` or ``inference.json``, ``model``, the only
    prefix of a ``.pdmodel`` or ``.json`` program, the only file that is a program by content. Parameters lie
    in the file of the same name, in ``__params__`` or ``params``, or else one to a file.

    A program file may have any name. ``params_filename`` may lead out of its folder: it is the caller's word,
    not the file's.

    Raises:
        NotFoundError: there is no model, or there are several; the message lists what lies there.
        InputError: ``path`` is a prefix and a folder at the same time.
        FormatError: ``path`` is a file of parameters.
    """
    path = os.fspath(path)
    found = None if path.endswith(("/", os.sep)) else _prefix_program(path)
    if found is not None and os.path.isdir(path) and model_filename is None:
        raise InputError(
            f"{shown(path)}: the model {shown(found)} and the folder of that name both exist; "
            f"pass {shown(found)!r} or {shown(path) + '/'!r}"
        )
    if found is not None and not os.path.isdir(path):
        return _from_prefix(path, found)
    if os.path.isfile(path):
        return _from_file(path, params_filename)
    if os.path.isdir(path):
        return _from_folder(path, model_filename, params_filename)
    wanted = " or ".join(shown(path + suffix) for suffix in _SUFFIXES)
    raise NotFoundError(f"no model at {shown(path)!r}: expected {wanted}; {listing(os.path.dirname(path))}")


def program_kind(path: StrPath) -> Kind | None:
    """What kind of program a file is, by its first bytes; None when it is none."""
    head = _head(path)
    if head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
        return "pir" if b'"base_code"' in head else None
    # A program begins with a block, whose own first field is its index.
    try:
        payload = wire.read_varint(head, 1, len(head))[1]
    except ValueError:
        return None
    return "pdmodel" if head[:1] == b"\x0a" and head[payload : payload + 1] == b"\x08" else None


def _head(path: StrPath) -> bytes:
    with open(path, "rb") as stream:
        return stream.read(_HEAD)


def _prefix_program(prefix: str) -> str | None:
    """The program file of a prefix, by the order of preference."""
    return next((prefix + suffix for suffix in _SUFFIXES if os.path.isfile(prefix + suffix)), None)


def _is_program(path: str) -> bool:
    """Whether a file met in a folder is a program: a ``.pdmodel`` is one, even damaged; not so any JSON."""
    return os.path.isfile(path) and (path.endswith(".pdmodel") or program_kind(path) is not None)


def _kind(program: str) -> Kind:
    """The kind by content; by name for content that the decoder will then refuse in its own words."""
    return program_kind(program) or _SUFFIXES.get(os.path.splitext(program)[1], "pdmodel")


def _from_prefix(prefix: str, program: str, params: str | None = None) -> ModelFiles:
    shared = prefix + ".pdiparams" if params is None else params
    programs, files = {"forward": program}, {"forward": shared}
    for method, method_program in _methods(prefix, program[len(prefix) :]):
        own = f"{prefix}.{method}.pdiparams"
        programs[method] = method_program
        files[method] = own if os.path.isfile(own) else shared
    return ModelFiles(_kind(program), os.path.dirname(prefix), programs, files, info=_info(shared))


def _methods(prefix: str, suffix: str) -> Iterator[tuple[str, str]]:
    """Programs saved beside ``forward``: method name and file. A method's name has no dot."""
    folder, base = os.path.split(prefix)
    for name in sorted(os.listdir(folder or ".")):
        if not name.startswith(base + ".") or not name.endswith(suffix):
            continue
        method, program = name[len(base) + 1 : -len(suffix)], os.path.join(folder, name)
        if method.isidentifier() and method != "forward" and _is_program(program):
            yield method, program


def _from_file(path: str, params_filename: str | None) -> ModelFiles:
    head = _head(path)
    if is_pickle(head) or head[:4] == b"\0\0\0\0":
        prefix = os.path.splitext(path.removesuffix(".info"))[0]
        raise FormatError(
            f"{shown(path)} holds parameters, not a program: pass the model's prefix, such as {shown(prefix)!r}"
        )
    folder, name = os.path.split(path)
    params = None if params_filename is None else os.path.join(folder, params_filename)
    prefix, suffix = os.path.splitext(path)
    if suffix in _SUFFIXES:
        return _from_prefix(prefix, path, params)
    return _in_folder(folder, name, params)


def _from_folder(folder: str, model_filename: str | None, params_filename: str | None) -> ModelFiles:
    params = None if params_filename is None else os.path.join(folder, params_filename)
    if model_filename is not None:
        program = os.path.join(folder, model_filename)
        if not os.path.isfile(program):
            raise NotFoundError(f"no program {shown(program)!r}; {listing(folder)}")
        return _in_folder(folder, model_filename, params)
    if os.path.isfile(os.path.join(folder, "__model__")):
        return _in_folder(folder, "__model__", params)
    programs = _prefixed_programs(folder)
    if "inference" in programs:
        return _from_prefix(os.path.join(folder, "inference"), programs["inference"], params)
    if os.path.isfile(os.path.join(folder, "model")):
        return _in_folder(folder, "model", params)
    if len(programs) > 1:
        _refuse_several(folder, list(programs))
    for prefix, program in programs.items():
        return _from_prefix(os.path.join(folder, prefix), program, params)
    return _in_folder(folder, _only_program(folder), params)


def _prefixed_programs(folder: str) -> dict[str, str]:
    """The prefixes of the models in a folder, sorted, each with its program; a method has none of its own."""
    programs: dict[str, str] = {}
    for name in sorted(os.listdir(folder)):  # x.json comes before x.pdmodel, which wins
        prefix, suffix = os.path.splitext(name)
        if suffix in _SUFFIXES and _is_program(os.path.join(folder, name)):
            programs[prefix] = os.path.join(folder, name)
    return {name: path for name, path in programs.items() if name.rpartition(".")[0] not in programs}


def _only_program(folder: str) -> str:
    """The one file in a folder that is a program by content."""
    files = [name for name in sorted(os.listdir(folder)) if os.path.isfile(os.path.join(folder, name))]
    programs = [name for name in files if program_kind(os.path.join(folder, name)) is not None]
    if len(programs) > 1:
        _refuse_several(folder, programs)
    if not programs:
        raise NotFoundError(f"no model in folder {shown(folder)!r}: no file there is a program; {listing(folder)}")
    return programs[0]


def _refuse_several(folder: str, names: list[str]) -> None:
    listed = ", ".join(shown(name) for name in names[:12])
    choice = shown(os.path.join(folder, names[0]))
    raise NotFoundError(
        f"folder {shown(folder)!r} holds {len(names)} models ({listed}): pass one of them, such as {choice!r}"
    )


def _in_folder(folder: str, name: str, params: str | None) -> ModelFiles:
    """A program under a name of its own, its parameters combined under another or one to a file."""
    program = os.path.join(folder, name)
    if params is None:
        stem = name.removesuffix(".pdmodel").removesuffix(".json")
        candidates = (os.path.join(folder, found) for found in (stem + ".pdiparams", *_FOLDER_PARAMS))
        params = next((found for found in candidates if os.path.isfile(found)), None)
    kind, programs = _kind(program), {"forward": program}
    if params is None:
        return ModelFiles(kind, folder, programs, {}, separate=True)
    return ModelFiles(kind, folder, programs, {"forward": params}, info=_info(params))


def _info(params: str) -> str | None:
    info = params + ".info"
    return info if os.path.isfile(info) else None
