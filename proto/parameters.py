"""The parameters of a model, whichever way its files hold them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy.typing as npt

from ..errors import FormatError, NotFoundError
from .files import listing, shown
from .layouts import ModelFiles
from .pdiparams import COPY_BELOW, read_params, read_tensor
from .records import aligned

__all__ = ["load_parameters", "parameter_path"]

_NAMED: Final = 8

Array = npt.NDArray[Any]


def load_parameters(
    files: ModelFiles,
    names: Mapping[str, Sequence[str]] | Sequence[str],
    described: Mapping[str, str] | None = None,
) -> dict[str, Array]:
    """The parameters of a model, as name -> read-only array.

    Args:
        files: what :func:`~oarlock.proto.layouts.find_model` found.
        names: the persistable variables of each method's program; a plain sequence is those of ``forward``.
            Of a parameter that two methods hold in files of their own, the one of the first method is taken.
        described: what the program says of a parameter, such as ``"[2,3] float32"``, for error messages.

    Raises:
        NotFoundError: a parameter file is missing; the message names its path and the parameters expected.
        FormatError: a parameter file is damaged, or does not hold what the programs name.
    """
    by_method = names if isinstance(names, Mapping) else {"forward": names}
    if files.separate:
        wanted = dict.fromkeys(name for method in by_method.values() for name in method)
        return _load_separate(files.folder, list(wanted), described or {})
    by_file: dict[str, dict[str, None]] = {}
    for method, method_names in by_method.items():
        path = files.params.get(method, files.params["forward"])
        by_file.setdefault(path, {}).update(dict.fromkeys(method_names))
    params: dict[str, Array] = {}
    for path, file_names in by_file.items():
        if not file_names and not os.path.exists(path):
            continue
        if not os.path.exists(path):
            raise NotFoundError(_missing(path, list(file_names), described or {}))
        for name, array in read_params(path, list(file_names)).items():
            params.setdefault(name, array)
    return params


def parameter_path(folder: str, name: str) -> str:
    """The file of one parameter in a folder of separate files; it need not exist.

    Raises:
        FormatError: the name leads out of the folder: absolute, with ``..``, or through a symbolic link.
    """
    parts = name.split("/")
    if "\\" in name and os.sep == "\\":
        parts = name.replace("\\", "/").split("/")
    if not name or "\0" in name or any(part in ("", ".", "..") for part in parts) or os.path.isabs(name):
        raise FormatError(f"parameter {name!r:.200} names no file inside the model's folder {shown(folder)!r}")
    path = os.path.join(folder, *parts)
    root, target = os.path.realpath(folder or "."), os.path.realpath(path)
    if os.path.commonpath([root, target]) != root:
        raise FormatError(
            f"parameter {name!r:.200} leads out of the model's folder {shown(folder)!r} to {shown(target)!r}"
        )
    return path


def _load_separate(folder: str, names: list[str], described: Mapping[str, str]) -> dict[str, Array]:
    paths = {name: parameter_path(folder, name) for name in names}
    missing = [name for name, path in paths.items() if not os.path.isfile(path)]
    if missing:
        raise NotFoundError(
            f"folder {shown(folder)!r} lacks {len(missing)} of {len(names)} parameter files: "
            f"{_listed(missing, described)}; {listing(folder)}"
        )
    params: dict[str, Array] = {}
    for name, path in paths.items():
        array = read_tensor(path, source=f"{shown(path)}: parameter {name!r}").array
        if array.nbytes < COPY_BELOW:
            array = aligned(array)
            array.flags.writeable = False
        params[name] = array
    return params


def _missing(path: str, names: list[str], described: Mapping[str, str]) -> str:
    expected = f"{len(names)} parameter{'s' if len(names) != 1 else ''} expected: {_listed(names, described)}"
    return f"the parameter file {shown(path)!r} is missing: {expected}; {listing(os.path.dirname(path))}"


def _listed(names: list[str], described: Mapping[str, str]) -> str:
    texts = [f"{name} {described[name]}" if name in described else name for name in names[:_NAMED]]
    return ", ".join(texts) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
