"""A writer of pickles that every Paddle reads, whatever numpy this process has.

``pickle`` lets numpy name its own internals, and numpy 2 names them so that a Paddle with numpy 1 cannot load
the file. This writer spells out the few forms that saved parameters need, with the names that both know.
"""

from __future__ import annotations

import struct
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, BinaryIO, Final

import numpy as np

from ..errors import InputError
from .dtypes import is_bfloat16
from .pickle_reader import MAX_DEPTH

__all__ = ["write_pickle"]

_MARK, _STOP, _NONE, _REDUCE, _BUILD = b"(", b".", b"N", b"R", b"b"
_TUPLES: Final = {0: b")", 1: b"\x85", 2: b"\x86", 3: b"\x87"}


def write_pickle(stream: BinaryIO, value: Any, protocol: int) -> None:
    """Write ``value`` (dicts, lists, tuples, text, bytes, numbers, None, numeric arrays) as a pickle.

    bfloat16 arrays are written as the uint16 of their bits, which is what Paddle does.

    Raises:
        InputError: a value of another kind, a container that holds itself, or a protocol other than 2, 3, 4.
    """
    if protocol not in (2, 3, 4):
        raise InputError(f"Expected 1<'protocol'<5, but received protocol={protocol}")
    writer = _Writer(stream.write, protocol)
    stream.write(b"\x80" + bytes([protocol]))
    writer.value(value, 0)
    stream.write(_STOP)


class _Writer:
    def __init__(self, write: Callable[[Any], Any], protocol: int) -> None:
        self.write = write
        self.protocol = protocol

    def value(self, value: Any, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise InputError(f"cannot pickle containers nested deeper than {MAX_DEPTH}")
        if value is None:
            self.write(_NONE)
        elif isinstance(value, bool):
            self.write(b"\x88" if value else b"\x89")
        elif isinstance(value, np.ndarray):
            self.array(value)
        elif isinstance(value, np.generic):
            self.scalar(value)
        elif isinstance(value, int):
            self.integer(value)
        elif isinstance(value, float):
            self.write(b"G" + struct.pack(">d", value))
        elif isinstance(value, str):
            self.text(value)
        elif isinstance(value, (bytes, bytearray)):
            self.blob(bytes(value))
        elif isinstance(value, Mapping):
            self.mapping(value, depth)
        elif isinstance(value, (list, tuple)):
            self.sequence(value, depth)
        else:
            raise InputError(f"cannot save a {type(value).__name__}: expected arrays, containers, text or numbers")

    def integer(self, value: int) -> None:
        if -(2**31) <= value < 2**31:
            self.write(b"J" + struct.pack("<i", value))
            return
        raw = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
        if len(raw) > 64:
            raise InputError(f"cannot save an int of {len(raw)} bytes, at most 64")
        self.write(b"\x8a" + bytes([len(raw)]) + raw)

    def text(self, value: str) -> None:
        raw = value.encode("utf-8", "surrogatepass")
        self.sized(raw, b"\x8c" if self.protocol >= 4 else None, b"X", b"\x8d")

    def blob(self, value: Any) -> None:
        """Bytes, or the memory of an array."""
        if self.protocol >= 3:
            self.sized(value, b"C", b"B", b"\x8e")
            return
        self.call("_codecs", "encode", bytes(value).decode("latin-1"), "latin1")

    def sized(self, raw: Any, short: bytes | None, plain: bytes, long: bytes) -> None:
        size = len(raw)
        if short is not None and size < 2**8:
            self.write(short + bytes([size]))
        elif size < 2**32:
            self.write(plain + struct.pack("<I", size))
        elif self.protocol >= 4:
            self.write(long + struct.pack("<Q", size))
        else:
            raise InputError(f"{size} bytes in one value need protocol 4, not {self.protocol}")
        self.write(raw)

    def mapping(self, value: Mapping[Any, Any], depth: int) -> None:
        if isinstance(value, OrderedDict):
            self.call("collections", "OrderedDict")
        else:
            self.write(b"}")
        if not value:
            return
        self.write(_MARK)
        for key, item in value.items():
            self.value(key, depth + 1)
            self.value(item, depth + 1)
        self.write(b"u")

    def sequence(self, value: Sequence[Any], depth: int) -> None:
        if isinstance(value, list):
            self.write(b"](")
            closing = b"e"
        else:
            closing = _TUPLES.get(len(value), b"t")
            self.write(_MARK if closing == b"t" else b"")
        for item in value:
            self.value(item, depth + 1)
        self.write(closing)

    def name(self, module: str, name: str) -> None:
        if self.protocol >= 4:
            self.text(module)
            self.text(name)
            self.write(b"\x93")
        else:
            self.write(f"c{module}\n{name}\n".encode())

    def call(self, module: str, name: str, *arguments: Any) -> None:
        """The result of calling a global with plain arguments."""
        self.name(module, name)
        self.sequence(arguments, 0)
        self.write(_REDUCE)

    def dtype(self, dtype: np.dtype[Any]) -> None:
        if dtype.kind not in "biufc":
            raise InputError(f"cannot save arrays of dtype {dtype}: expected numbers")
        self.call("numpy", "dtype", f"{dtype.kind}{dtype.itemsize}", False, True)
        order = "|" if dtype.itemsize == 1 else "<"
        self.sequence((3, order, None, None, None, -1, -1, 0), 0)
        self.write(_BUILD)

    def array(self, array: np.ndarray[Any, np.dtype[Any]]) -> None:
        array = _storable(array)
        self.name("numpy.core.multiarray", "_reconstruct")
        self.name("numpy", "ndarray")
        self.value((0,), 0)
        self.blob(b"b")
        self.write(_TUPLES[3] + _REDUCE + _MARK)
        self.integer(1)
        self.value(array.shape, 0)
        self.dtype(array.dtype)
        self.write(b"\x89")  # row-major
        self.blob(array.reshape(-1).view(np.uint8).data if array.size else b"")
        self.write(b"t" + _BUILD)

    def scalar(self, value: np.generic) -> None:
        array = _storable(np.asarray(value))
        self.name("numpy.core.multiarray", "scalar")
        self.dtype(array.dtype)
        self.blob(array.tobytes())
        self.write(_TUPLES[2] + _REDUCE)


def _storable(array: np.ndarray[Any, np.dtype[Any]]) -> np.ndarray[Any, np.dtype[Any]]:
    """The array in the byte order, memory order and dtype of the file."""
    array = np.asarray(array, order="C")
    if is_bfloat16(array.dtype):
        return array.view(np.uint16)
    return array.astype(array.dtype.newbyteorder("<")) if array.dtype.byteorder == ">" else array
