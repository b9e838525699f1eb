"""One tensor record: the bytes that hold a single array, alone in a file or one after the other.

    uint32  version, 0
    uint64  number of LoD levels, and for each: uint64 byte length, that many bytes of uint64 offsets
    uint32  version of the inner tensor, 0
    int32   length of the description, and the description: element type and dims, a protobuf ``TensorDesc``
    data    row-major, without padding or alignment

No dims is a scalar of one element. Everything is little-endian. Every length is held against the bytes that
are there before anything is allocated.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ..errors import FormatError, InputError
from . import wire
from .dtypes import DType, from_numpy, to_numpy
from .files import Buffer
from .generated import to_text

__all__ = [
    "MAX_RANK",
    "SelectedRowsRecord",
    "TensorRecord",
    "aligned",
    "encode_record",
    "read_record",
    "read_selected_rows",
    "read_vocab",
]

Array = npt.NDArray[Any]

MAX_RANK: Final = 32
"""numpy 1.26 has no more dimensions; Paddle has 9."""
_MAX_DESC: Final = 1024  # the description of a rank-32 tensor takes under 400 bytes
_MAX_BYTES: Final = 2**62


@dataclass(frozen=True, slots=True)
class TensorRecord:
    """An array and its LoD levels: per level, the offsets where the sequences start, and the end."""

    array: Array
    lod: tuple[npt.NDArray[np.uint64], ...] = ()


@dataclass(frozen=True, slots=True)
class SelectedRowsRecord:
    """Some rows of a matrix: ``array[i]`` is row ``rows[i]`` of ``height``."""

    rows: npt.NDArray[np.int64]
    height: int
    array: Array


class _Cursor:
    """A position in bytes that fails with a sentence instead of running past the end."""

    __slots__ = ("data", "position", "where")

    def __init__(self, data: Buffer, position: int, where: str) -> None:
        self.data = data
        self.position = position
        self.where = where

    @property
    def left(self) -> int:
        return len(self.data) - self.position

    def fail(self, what: str, position: int | None = None) -> FormatError:
        at = self.position if position is None else position
        return FormatError(f"{self.where}, offset {at}: {what}")

    def take(self, size: int, what: str) -> int:
        """The offset of ``size`` bytes, behind which the cursor then stands."""
        start = self.position
        if size > self.left:
            raise self.fail(f"{size} bytes of {what} wanted, {self.left} there: the file is truncated or damaged")
        self.position = start + size
        return start

    def number(self, code: str, what: str) -> int:
        layout = struct.Struct("<" + code)
        value: int = layout.unpack_from(self.data, self.take(layout.size, what))[0]
        return value

    def array(self, dtype: Any, count: int, what: str) -> Array:
        start = self.take(np.dtype(dtype).itemsize * count, what)
        return _view(self.data, start, np.dtype(dtype), (count,))


def read_record(data: Buffer, position: int, where: str) -> tuple[TensorRecord, int]:
    """The record at ``position``, its array a read-only view of ``data``, and the position behind it.

    ``where`` begins the error messages: the file and the parameter. The view is unaligned more often than
    not, see :func:`aligned`.

    Raises:
        FormatError: naming the offset, what was expected and what was found.
    """
    cursor = _Cursor(data, position, where)
    version = cursor.number("I", "tensor version")
    if version != 0:
        raise cursor.fail(f"tensor version {version}, expected 0: no tensor record starts here", position)
    lod = _read_lod(cursor)
    array = _read_tensor(cursor)
    return TensorRecord(array, lod), cursor.position


def _read_lod(cursor: _Cursor) -> tuple[npt.NDArray[np.uint64], ...]:
    start = cursor.position
    levels = cursor.number("Q", "LoD level count")
    if levels * 8 > cursor.left:
        raise cursor.fail(f"{levels} LoD levels of at least 8 bytes each, {cursor.left} bytes there", start)
    lod = []
    for level in range(levels):
        start = cursor.position
        size = cursor.number("Q", f"the length of LoD level {level}")
        if size % 8:
            raise cursor.fail(f"LoD level {level} of {size} bytes, expected a multiple of 8", start)
        lod.append(cursor.array(np.uint64, size // 8, f"LoD level {level}"))
    return tuple(lod)


def _read_tensor(cursor: _Cursor) -> Array:
    start = cursor.position
    version = cursor.number("I", "inner tensor version")
    if version != 0:
        raise cursor.fail(f"inner tensor version {version}, expected 0", start)
    start = cursor.position
    size = cursor.number("i", "the length of the tensor description")
    if not 0 <= size <= _MAX_DESC:
        raise cursor.fail(f"a tensor description of {size} bytes, expected 0 to {_MAX_DESC}", start)
    start = cursor.take(size, "tensor description")
    try:
        dtype, dims = _decode_desc(bytes(cursor.data[start : start + size]))
    except ValueError as error:
        raise cursor.fail(f"tensor description: {error}", start) from error
    wanted = prod(dims) * dtype.itemsize
    if wanted > cursor.left:
        raise cursor.fail(
            f"{wanted} bytes of data wanted for {dtype.name} {list(dims)}, {cursor.left} there: "
            "the file is truncated or damaged"
        )
    return _view(cursor.data, cursor.take(wanted, "data"), dtype, dims)


@lru_cache(maxsize=1024)
def _decode_desc(raw: bytes) -> tuple[np.dtype[Any], tuple[int, ...]]:
    """The dtype and the dims of a ``TensorDesc``; ``ValueError`` says what is wrong with it."""
    code: int | None = None
    dims: list[int] = []
    for field in wire.split(raw):
        if field.number == 1 and field.wire_type == 0:
            code = wire.read_varint(raw, field.payload, field.end)[0]
        elif field.number == 2 and field.wire_type in (0, 2):
            position = field.payload
            while position < field.end:
                value, position = wire.read_varint(raw, position, field.end)
                dims.append(value - 2**64 if value >= 2**63 else value)
    if code is None:
        raise ValueError("no element type")
    try:
        dtype = to_numpy(code)
    except KeyError:
        known = ", ".join(f"{member.value} {member.name}" for member in DType)
        raise ValueError(f"element type code {code}; known are {known}") from None
    if len(dims) > MAX_RANK:
        raise ValueError(f"{len(dims)} dims, at most {MAX_RANK}")
    if any(dim < 0 for dim in dims):
        raise ValueError(f"dims {dims}, expected none negative")
    if prod(dim for dim in dims if dim) * dtype.itemsize > _MAX_BYTES:
        raise ValueError(f"dims {dims}, more than any file holds")
    return dtype, tuple(dims)


def _view(data: Buffer, start: int, dtype: np.dtype[Any], dims: tuple[int, ...]) -> Array:
    if prod(dims) == 0:
        array: Array = np.zeros(dims, dtype)
    else:
        array = np.ndarray(dims, dtype, buffer=data, offset=start)
    array.flags.writeable = False
    return array


def aligned(array: Array) -> Array:
    """``array`` itself when its data is aligned, else an aligned copy.

    A record has no padding, so a mapped float32 array is aligned in one file position out of four. numpy
    computes right results on the others but copies them inside every call: half as much time again for a
    matrix product. Whoever reads a parameter more than once takes it through this function once.
    ``np.ascontiguousarray`` does not align.
    """
    return array if array.flags.aligned else array.copy()


def encode_record(record: TensorRecord) -> Iterator[bytes | memoryview]:
    """The bytes of a record, in pieces; the last piece is the array's own memory where that is possible.

    Raises:
        InputError: no record holds arrays of this dtype or rank.
    """
    array = np.asarray(record.array, order="C")
    if array.dtype.byteorder == ">":
        array = array.astype(array.dtype.newbyteorder("<"))
    try:
        code = from_numpy(array.dtype)
    except KeyError:
        raise InputError(f"a tensor record cannot hold dtype {array.dtype}") from None
    yield struct.pack("<IQ", 0, len(record.lod))
    for level in record.lod:
        offsets = np.asarray(level, dtype="<u8").tobytes()
        yield struct.pack("<Q", len(offsets)) + offsets
    desc = wire.varint_field(1, code) + b"".join(wire.varint_field(2, dim) for dim in array.shape)
    yield struct.pack("<Ii", 0, len(desc)) + desc
    if array.size:
        yield array.reshape(-1).view(np.uint8).data


def read_selected_rows(data: Buffer, where: str) -> SelectedRowsRecord:
    """The SelectedRows record that ``data`` holds from its first to its last byte.

    Raises:
        FormatError: the bytes are no such record.
    """
    cursor = _Cursor(data, 0, where)
    version = cursor.number("I", "version")
    if version != 0:
        raise cursor.fail(f"SelectedRows version {version}, expected 0", 0)
    count = cursor.number("Q", "row count")
    rows = cursor.array(np.int64, count, "row numbers")
    height = cursor.number("q", "height")
    array = _read_tensor(cursor)
    if cursor.left:
        raise cursor.fail(f"{cursor.left} bytes left over behind the record")
    if array.ndim == 0 or len(array) != count:
        raise cursor.fail(f"a value of shape {list(array.shape)} for {count} rows")
    return SelectedRowsRecord(rows, height, array)


def read_vocab(data: Buffer, where: str) -> dict[str, int]:
    """The vocabulary record that ``data`` holds from its first to its last byte: token -> id.

    Raises:
        FormatError: the bytes are no such record.
    """
    cursor = _Cursor(data, 0, where)
    count = cursor.number("Q", "entry count")
    if count * 12 > cursor.left:
        raise cursor.fail(f"{count} entries of at least 12 bytes each, {cursor.left} bytes there", 0)
    vocab: dict[str, int] = {}
    for index in range(count):
        size = cursor.number("Q", f"the length of entry {index}")
        start = cursor.take(size, f"entry {index}")
        token = to_text(bytes(data[start : start + size]))
        vocab[token] = cursor.number("i", f"the id of entry {index}")
    if cursor.left:
        raise cursor.fail(f"{cursor.left} bytes left over behind entry {count - 1}")
    return vocab
