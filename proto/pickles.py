"""State files: what ``paddle.save`` writes (``.pdparams``, ``.pdopt``) and a model's ``.pdiparams.info``.

They are pickles, read without running anything in them (:mod:`.pickle_reader`). Two conventions lie on top. A
dict of tensors carries ``StructuredToParameterName@@``, a table from its keys to the names of the parameters.
And pickles of protocol 2 and 3, which cannot hold large values, have large arrays cut in pieces under other
keys, with ``UnpackBigParamInfor@@`` to tell which pieces belong together.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any, BinaryIO, Final

import numpy as np
import numpy.typing as npt

from ..errors import FormatError
from .files import Buffer, StrPath, is_pickle, map_file, shown, write_files
from .pickle_reader import read_pickle
from .pickle_writer import write_pickle
from .records import aligned, read_record, read_selected_rows

__all__ = ["NAME_TABLE", "dump_info", "dump_state", "load_state", "read_info", "read_state", "write_state"]

NAME_TABLE: Final = "StructuredToParameterName@@"
_PIECES: Final = "UnpackBigParamInfor@@"
_PIECE_BYTES: Final = 2**30 - 1
"""Arrays above this size are cut into pieces of at most this size in protocols 2 and 3."""

Array = npt.NDArray[Any]


def load_state(path: StrPath, *, keep_name_table: bool = False) -> Any:
    """What lies in a ``.pdparams`` or ``.pdopt`` file, or another file of ``paddle.save``.

    A state dict becomes a dict of arrays that own their memory; a tensor inside another object is the tuple
    ``(name, array)`` that Paddle saves; a file of one raw tensor record becomes the array, and one of a
    SelectedRows record a :class:`~oarlock.proto.records.SelectedRowsRecord`.

    Raises:
        NotFoundError: there is no such file.
        FormatError: the file is truncated, damaged, or holds other things than arrays, containers, text and
            numbers.
    """
    return read_state(map_file(path), shown(path), keep_name_table=keep_name_table)


def read_state(data: Buffer, source: str, *, keep_name_table: bool = False) -> Any:
    """As :func:`load_state`, from bytes; ``source`` names them in errors."""
    if len(data) == 0:
        raise FormatError(f"{source} is empty (0 bytes): expected a pickle or a tensor record")
    if data[0] != 0x80:
        return _read_raw(data, source)
    state = read_pickle(data, source)
    if isinstance(state, dict):
        state = _join_pieces(state, source)
        if not keep_name_table:
            state.pop(NAME_TABLE, None)
    return state


def dump_state(obj: Any, path: StrPath, protocol: int = 4) -> None:
    """Write arrays and containers so that ``paddle.load`` reads them, wholly or not at all.

    Raises:
        InputError: the object holds something else; the old file is then untouched.
    """
    write_files({path: lambda stream: write_state(stream, obj, protocol)})


def write_state(stream: BinaryIO, obj: Any, protocol: int = 4, *, piece_bytes: int = _PIECE_BYTES) -> None:
    """As :func:`dump_state`, to a stream. ``piece_bytes`` is what protocols 2 and 3 hold in one array."""
    if protocol in (2, 3) and isinstance(obj, Mapping):
        obj = _cut_large(obj, piece_bytes)
    write_pickle(stream, obj, protocol)


def read_info(path: StrPath) -> dict[str, dict[str, Any]]:
    """The ``.pdiparams.info`` of a model: variable name -> its facts.

    The facts are ``structured_name`` (absent when the variable is not in the layer's state dict),
    ``stop_gradient``, and for parameters ``trainable``. The file may name variables that the program lacks.

    Raises:
        NotFoundError: there is no such file.
        FormatError: the file is damaged, holds anything but plain facts, or is no table of them.
    """
    data, source = map_file(path), shown(path)
    if not is_pickle(data):
        raise FormatError(f"{source}: expected a pickle (80 02 to 80 05), found {bytes(data[:4]).hex(' ')!r}")
    info = read_pickle(data, source)
    if not isinstance(info, dict):
        raise FormatError(f"{source}: expected a dict of variable facts, found a {type(info).__name__}")
    for name, facts in info.items():
        if not isinstance(name, str) or not isinstance(facts, dict):
            raise FormatError(f"{source}: entry {name!r:.80}: expected a dict of facts under a variable name")
        for fact, kind in (("structured_name", str), ("stop_gradient", bool), ("trainable", bool)):
            if not isinstance(facts.get(fact, kind()), kind):
                raise FormatError(f"{source}: entry {name!r:.80}: {fact} is no {kind.__name__}")
    return info


def dump_info(stream: BinaryIO, info: Mapping[str, Mapping[str, Any]]) -> None:
    """Write the facts of variables as Paddle does, in protocol 2."""
    write_pickle(stream, info, 2)


def _read_raw(data: Buffer, source: str) -> Any:
    """The value of a file without pickle around it (``use_binary_format=True``)."""
    try:
        record, end = read_record(data, 0, source)
        if end == len(data):
            return aligned(record.array).copy()
        problem = f"{source}, offset {end}: {len(data) - end} bytes left over behind a tensor record"
    except FormatError as error:
        problem = str(error)
    try:
        return read_selected_rows(data, source)
    except FormatError:
        raise FormatError(
            f"{source}: neither a pickle (it begins with {bytes(data[:4]).hex(' ')}) nor one tensor record: {problem}"
        ) from None


def _join_pieces(state: dict[Any, Any], source: str) -> dict[Any, Any]:
    """Put large arrays together again that were saved in pieces."""
    pieces = state.pop(_PIECES, None)
    if pieces is None:
        return state
    if not isinstance(pieces, dict):
        raise FormatError(f"{source}: {_PIECES} is a {type(pieces).__name__}, expected a dict")
    for key, recipe in pieces.items():
        where = f"{source}: entry {key!r:.80}"
        if not isinstance(recipe, dict) or not isinstance(recipe.get("slices"), (list, tuple)):
            raise FormatError(f"{where}: its pieces are not listed")
        names, shape = recipe["slices"], recipe.get("OriginShape")
        if not isinstance(shape, (list, tuple)) or not all(type(dim) is int and dim >= 0 for dim in shape):
            raise FormatError(f"{where}: its shape is not stated")
        parts = [state.pop(name, None) if isinstance(name, str) else None for name in names]
        found = [part for part in parts if isinstance(part, np.ndarray) and part.ndim == 1]
        count = sum(part.size for part in found)
        if len(found) != len(parts) or not parts or len(shape) > 32 or count != prod(shape):
            raise FormatError(
                f"{where}: {len(parts)} pieces with {count} elements do not make an array of shape {list(shape)[:32]}"
            )
        state[key] = np.concatenate(found).reshape(shape)
    return state


def _cut_large(state: Mapping[Any, Any], piece_bytes: int) -> dict[Any, Any]:
    """Replace large arrays by flat pieces of at most ``piece_bytes``, and say how to join them."""
    out: dict[Any, Any] = {}
    recipes: dict[str, Any] = {}
    for key, value in state.items():
        if not isinstance(value, np.ndarray) or value.size <= piece_bytes // max(value.dtype.itemsize, 1):
            out[key] = value
            continue
        flat, step = value.reshape(-1), piece_bytes // value.dtype.itemsize
        names = [f"{key}@@.{index}" for index in range(-(-flat.size // step))]
        recipes[key] = {"OriginShape": tuple(value.shape), "slices": names}
        out.update((name, flat[index * step : (index + 1) * step]) for index, name in enumerate(names))
    if recipes:
        out[_PIECES] = recipes
    return out
