"""``.pdiparams`` and ``__params__``: the parameters of a model, their records one after the other.

The file states neither names nor a count: record *i* belongs to the *i*-th name of the program's persistable
variables in the order of their UTF-8 bytes. What the names do not account for is an error here, where Paddle
loads a file whose end is cut off without a word.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from ..errors import FormatError, InputError
from .files import Buffer, StrPath, is_pickle, map_file, shown, write_files
from .generated import from_text
from .records import TensorRecord, aligned, encode_record, read_record

__all__ = [
    "COPY_BELOW",
    "dump_params",
    "read_params",
    "read_tensor",
    "record_order",
    "write_params",
    "write_tensor",
]

Array = npt.NDArray[Any]

COPY_BELOW = 64 * 1024
"""Parameters of fewer bytes are copied when they lie unaligned in the file; see :func:`read_params`."""


def record_order(names: Iterable[str]) -> list[str]:
    """Parameter names in the order of their records: sorted by UTF-8 bytes."""
    return sorted(names, key=from_text)


def read_params(
    path_or_buffer: StrPath | Buffer,
    names: Sequence[str],
    *,
    source: str | None = None,
    copy_below: int = COPY_BELOW,
) -> dict[str, Array]:
    """The parameters ``names`` (in any order, each once), as name -> read-only array in file order.

    A file is mapped and its arrays are views: nothing is read before it is used, and processes that load the
    same file share the memory. Most views are unaligned, which makes every numpy call on them slower. So the
    small ones (biases, norms: nearly all of the names and next to none of the bytes) are copied to aligned
    memory, and the large ones stay views, which :func:`~oarlock.proto.records.aligned` turns into an aligned
    copy for whoever computes with them without packing them first. ``copy_below=0`` copies nothing.

    Raises:
        NotFoundError: there is no such file.
        FormatError: the file is damaged, or holds more or fewer records than ``names``; the message names the
            file, the parameter, the offset, what was expected and what was found.
    """
    data, source = _open(path_or_buffer, source)
    _refuse_pickle(data, source)
    order = record_order(names)
    position = 0
    params: dict[str, Array] = {}
    for index, name in enumerate(order):
        if position == len(data):
            raise FormatError(
                f"{source}: parameter {name!r} ({index + 1} of {len(order)}): the file ends at offset "
                f"{position}: it holds {index} of the {len(order)} records that the program names"
            )
        where = f"{source}: parameter {name!r} ({index + 1} of {len(order)})"
        record, position = read_record(data, position, where)
        array = record.array
        if array.nbytes < copy_below and not array.flags.aligned:
            array = aligned(array)
            array.flags.writeable = False
        params[name] = array
    if len(params) != len(order):
        raise InputError(f"{source}: a parameter name is given twice among {len(order)}")
    if position != len(data):
        raise FormatError(_left_over(data, position, source, len(order)))
    return params


def read_tensor(path_or_buffer: StrPath | Buffer, *, source: str | None = None) -> TensorRecord:
    """The one record that a file holds from its first to its last byte, its array a read-only view.

    Raises:
        NotFoundError: there is no such file.
        FormatError: the file is damaged or holds anything behind the record.
    """
    data, source = _open(path_or_buffer, source)
    _refuse_pickle(data, source)
    record, position = read_record(data, 0, source)
    if position != len(data):
        left = len(data) - position
        raise FormatError(f"{source}, offset {position}: {left} bytes left over behind the one record expected")
    return record


def write_params(path: StrPath, items: Mapping[str, Array | TensorRecord]) -> None:
    """Write parameters as one combined file, sorted by name, wholly or not at all.

    Raises:
        InputError: a value has a dtype that the format does not know; the old file is then untouched.
    """
    write_files({path: lambda stream: dump_params(stream, items)})


def write_tensor(path: StrPath, value: Array | TensorRecord) -> None:
    """Write one value as a file of one record, wholly or not at all."""
    write_files({path: lambda stream: dump_params(stream, {os.path.basename(path): value})})


def dump_params(stream: BinaryIO, items: Mapping[str, Array | TensorRecord]) -> None:
    """Write the records of ``items`` to a stream, sorted by name."""
    for name in record_order(items):
        value = items[name]
        record = value if isinstance(value, TensorRecord) else TensorRecord(np.asarray(value))
        try:
            for piece in encode_record(record):
                stream.write(piece)
        except InputError as error:
            raise InputError(f"parameter {name!r}: {error}") from error


def _open(path_or_buffer: StrPath | Buffer, source: str | None) -> tuple[Buffer, str]:
    if isinstance(path_or_buffer, (str, os.PathLike)):
        return map_file(path_or_buffer), source or shown(path_or_buffer)
    return path_or_buffer, source or f"a buffer of {len(path_or_buffer)} bytes"


def _refuse_pickle(data: Buffer, source: str) -> None:
    if is_pickle(data):
        raise FormatError(
            f"{source}: this is a pickled state dict, not a combined parameter stream (it begins with "
            f"80 {data[1]:02x}): read it with oarlock.load and hand the result to set_state_dict"
        )


def _left_over(data: Buffer, position: int, source: str, count: int) -> str:
    """Why bytes may be left behind the last parameter, as precisely as the bytes tell."""
    left, start, further = len(data) - position, position, 0
    try:
        while position < len(data):
            position = read_record(data, position, source)[1]
            further += 1
    except FormatError:
        reason = "the file is damaged or belongs to another program"
    else:
        reason = f"the file holds {count + further} records, the program names {count} parameters"
    return f"{source}, offset {start}: {left} bytes left over behind the last of {count} parameters: {reason}"
