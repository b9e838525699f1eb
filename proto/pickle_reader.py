"""A reader of pickles that runs nothing: the part of the pickle language that parameters are saved in.

A pickle is a program for a small stack machine, and Python's own machine imports and calls whatever the file
names. This one knows the few callables that numpy arrays, scalars and plain containers need, by name, and
makes the objects itself; every other global is refused before anything happens. Sizes are held against the
bytes that are there, so no file makes it allocate more than a small multiple of its own size.

The result holds dicts, lists, tuples, text, bytes, numbers, None and numeric numpy arrays, dtypes and
scalars, with no cycle, bounded depth, and a bounded number of values (sharing cannot multiply them).
"""

from __future__ import annotations

import struct
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from math import prod
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ..errors import FormatError
from .dtypes import EXTENSION_NAMES, extension
from .files import Buffer

__all__ = ["MAX_DEPTH", "read_pickle"]

MAX_DEPTH: Final = 64
_MAX_RANK: Final = 32
_MAX_INT_BYTES: Final = 64
_MAX_KEY: Final = 2**60  # larger ints can be chosen so that their hashes collide
_SHARED_VALUES: Final = 1_000_000

Array = npt.NDArray[Any]


def read_pickle(data: Buffer, where: str) -> Any:
    """The object in a pickle of protocol 2 to 5. ``where`` begins the error messages.

    Text that Python 2 wrote is read as Latin-1. Bytes behind the pickle are ignored, as ``pickle`` does.

    Raises:
        FormatError: the file is truncated or damaged, or names anything but arrays, containers, text and
            numbers; the message says at which offset and in which entry.
    """
    return _Reader(data, where).run()


@dataclass(frozen=True, slots=True)
class _Global:
    name: str


@dataclass(slots=True)
class _Unfinished:
    """An array or a dtype between the call that makes it and the state that fills it."""

    dtype: np.dtype[Any] | None = None
    memo_keys: list[int] = field(default_factory=list)


_PARTIAL: Final = (_Global, _Unfinished)


class _Refusal(Exception):
    """What is wrong, before the reader adds where."""


class _Reader:
    def __init__(self, data: Buffer, where: str) -> None:
        self.data = data
        self.where = where
        self.position = 0
        self.opcode_at = 0
        self.stack: list[Any] = []
        self.marks: list[int] = []
        self.memo: dict[int, Any] = {}
        self.frame_end = 0  # where the last frame that runs past the end says that it ends

    def run(self) -> Any:
        data, size = self.data, len(self.data)
        try:
            while True:
                self.opcode_at = position = self.position
                if position >= size:
                    raise _Refusal(f"at least 1 more byte wanted, 0 there: {self.truncated()}")
                opcode = data[position]
                self.position = position + 1
                handler = _HANDLERS.get(opcode)
                if handler is not None:
                    handler(self)
                elif opcode == _STOP:
                    return self.finish()
                else:
                    raise _Refusal(f"pickle opcode {opcode:#04x} is not used by saved parameters")
        except _Refusal as refusal:
            raise FormatError(f"{self.where}, offset {self.opcode_at}{self.entry()}: {refusal}") from None
        except (IndexError, KeyError, OverflowError, TypeError, ValueError) as error:
            what = f"the pickle is damaged ({type(error).__name__}: {error})"
            raise FormatError(f"{self.where}, offset {self.opcode_at}{self.entry()}: {what}") from error

    def finish(self) -> Any:
        if len(self.stack) != 1 or self.marks:
            raise _Refusal(f"the pickle is damaged: it ends with {len(self.stack)} values, expected 1")
        result = self.stack[0]
        count, _ = _measure(result, 0, {})
        if count > len(self.data) + _SHARED_VALUES:
            raise _Refusal(f"values shared so that {len(self.data)} bytes stand for {count} values")
        return result

    def entry(self) -> str:
        """The keys under which the reader stands, as a part of an error message."""
        keys: list[str] = []
        for start, end in pairwise([0, *self.marks, len(self.stack)]):
            items = self.stack[start:end]
            if start and isinstance(self.stack[start - 1], dict):
                # Keys stand at even places; behind the last one lies its value, whole or in parts.
                places = range((len(items) - 1) // 2 * 2, -1, -2)
                place = next((at for at in places if _is_key(items[at])), len(items))
                whole = place == len(items) - 2 and not isinstance(items[-1], _PARTIAL)
                keys.extend(items[place : place + 1] if not whole else [])
                items = items[place + 1 :]
            if len(items) > 1 and isinstance(items[0], dict) and _is_key(items[1]):
                keys.append(items[1])  # a dict that gets a single item, without a mark
        return f", entry {'/'.join(key[:80] for key in keys)!r}" if keys else ""

    # What the handlers are made of.

    def take(self, size: int, what: str) -> int:
        start = self.position
        left = len(self.data) - start
        if size > left:
            raise _Refusal(f"{size} bytes of {what} wanted, {left} there: {self.truncated()}")
        self.position = start + size
        return start

    def truncated(self) -> str:
        known = f" ({self.frame_end} bytes wanted in all, {len(self.data)} there)" if self.frame_end else ""
        return f"the file is truncated{known}"

    def number(self, layout: struct.Struct) -> Any:
        return layout.unpack_from(self.data, self.take(layout.size, "a number"))[0]

    def text(self, size: int, encoding: str) -> str:
        start = self.take(size, "text")
        raw = bytes(self.data[start : start + size])
        return raw.decode(encoding, "surrogatepass" if encoding == "utf-8" else "strict")

    def blob(self, size: int) -> bytes:
        start = self.take(size, "data")
        return bytes(self.data[start : start + size])

    def line(self) -> str:
        start = self.position
        while self.data[self.take(1, "a name")] != 0x0A:
            if self.position - start > 256:
                raise _Refusal("a name of more than 256 bytes")
        return bytes(self.data[start : self.position - 1]).decode("utf-8")

    def pop(self) -> Any:
        floor = self.marks[-1] if self.marks else 0
        if len(self.stack) <= floor:
            raise _Refusal("the pickle is damaged: a value wanted, none there")
        return self.stack.pop()

    def pop_to_mark(self) -> list[Any]:
        if not self.marks:
            raise _Refusal("the pickle is damaged: a mark wanted, none there")
        mark = self.marks.pop()
        items = self.stack[mark:]
        del self.stack[mark:]
        return items

    def pop_tuple(self, size: int) -> None:
        items = [self.pop() for _ in range(size)]
        self.stack.append(tuple(reversed(items)))

    def top(self, kind: type[Any]) -> Any:
        value = self.stack[-1] if self.stack else None
        if not isinstance(value, kind):
            raise _Refusal(f"the pickle is damaged: a {kind.__name__} wanted, {type(value).__name__} there")
        return value

    def set_items(self, items: list[Any]) -> None:
        target = self.top(dict)
        if len(items) % 2:
            raise _Refusal("the pickle is damaged: a key without a value")
        for key, value in zip(items[::2], items[1::2], strict=True):
            target[_checked_key(key)] = value

    def memoize(self, key: int) -> None:
        value = self.stack[-1]
        self.memo[key] = value
        if isinstance(value, _Unfinished):
            value.memo_keys.append(key)

    def find_global(self, module: Any, name: Any) -> None:
        if not isinstance(module, str) or not isinstance(name, str):
            raise _Refusal("the pickle is damaged: a global without a name")
        full = f"{module}.{name}"[:200]
        if full not in _CALLABLES and full not in _NAMES:
            raise _Refusal(
                f"global {full!r} is refused: a file of parameters holds arrays, containers, text and "
                "numbers. Nothing was run"
            )
        self.stack.append(_Global(full))

    def stack_global(self) -> None:
        name, module = self.pop(), self.pop()
        self.find_global(module, name)

    def reduce(self) -> None:
        arguments, function = self.pop(), self.pop()
        if not isinstance(function, _Global) or function.name not in _CALLABLES:
            raise _Refusal("a call of something that cannot be called")
        if not isinstance(arguments, tuple):
            raise _Refusal(f"a call of {function.name} without arguments")
        self.stack.append(_CALLABLES[function.name](*arguments))

    def build(self) -> None:
        state, unfinished = self.pop(), self.pop()
        if not isinstance(unfinished, _Unfinished) or not isinstance(state, tuple):
            raise _Refusal(f"state for a {type(unfinished).__name__}, expected an array or a dtype")
        if unfinished.dtype is None:
            value: Any = _array_from_state(*state)
        else:
            value = _with_byte_order(unfinished.dtype, *state)
        for key in unfinished.memo_keys:
            self.memo[key] = value
        self.stack.append(value)


def _is_key(value: Any) -> bool:
    """Whether a value can be the name of an entry: text, but not the text that names a global."""
    return isinstance(value, str) and value not in _PARTS


def _checked_key(key: Any) -> Any:
    if isinstance(key, int) and not -_MAX_KEY < key < _MAX_KEY:
        raise _Refusal("an int of more than 60 bits as a key")
    if key is not None and not isinstance(key, (str, int, bytes)):
        raise _Refusal(f"a {type(key).__name__} as a key, expected text or an int")
    return key


def _measure(value: Any, depth: int, seen: dict[int, tuple[int, int] | None]) -> tuple[int, int]:
    """How many values hang on ``value``, counting a shared one every time, and how deep they nest."""
    if not isinstance(value, (dict, list, tuple)):
        if isinstance(value, _PARTIAL):
            raise _Refusal("a bare global or an array without content")
        return 1, 0
    known = seen.get(id(value), (0, -1))
    if known is None:
        raise _Refusal("a container that holds itself")
    if known[1] < 0:
        if depth >= MAX_DEPTH:
            raise _Refusal(f"containers nested deeper than {MAX_DEPTH}")
        seen[id(value)] = None
        count, height = 1, 0
        for item in value.values() if isinstance(value, dict) else value:
            item_count, item_height = _measure(item, depth + 1, seen)
            count, height = count + item_count, max(height, item_height + 1)
        known = seen[id(value)] = (count, height)
    if depth + known[1] > MAX_DEPTH:
        raise _Refusal(f"containers nested deeper than {MAX_DEPTH}")
    return known


# The callables that a file may name, each done by hand.


def _make_dtype(spec: Any, align: Any = False, copy: Any = True) -> _Unfinished:
    if isinstance(spec, _Global) and spec.name in _NAMES:
        name = spec.name.partition(".")[2]
        found: Any = extension(name) if name in EXTENSION_NAMES else None
    else:
        found = spec if isinstance(spec, str) and len(spec) <= 4 else None
    dtype = None if found is None else np.dtype(found)
    if dtype is None or (dtype.kind not in "biufc" and dtype.name not in EXTENSION_NAMES):
        shown = spec.name if isinstance(spec, _Global) else spec if isinstance(spec, str) else "unknown"
        raise _Refusal(f"arrays of dtype {shown[:40]!r} are refused: parameters are numbers")
    return _Unfinished(dtype)


def _with_byte_order(dtype: np.dtype[Any], version: Any, order: Any, *rest: Any) -> np.dtype[Any]:
    if order not in ("<", ">", "|", "=") or any(part is not None for part in rest[:3]):
        raise _Refusal(f"dtype {dtype} with fields or an unknown byte order")
    return dtype.newbyteorder(">") if order == ">" else dtype


def _make_array(kind: Any, shape: Any, typecode: Any) -> _Unfinished:
    if kind != _Global("numpy.ndarray"):
        raise _Refusal("an array class other than numpy.ndarray")
    return _Unfinished()


def _array_from_state(version: Any, shape: Any, dtype: Any, fortran: Any, raw: Any) -> Array:
    return _array(raw.encode("latin-1") if isinstance(raw, str) else raw, dtype, shape, bool(fortran))


def _array_from_buffer(raw: Any, dtype: Any, shape: Any, order: Any, axes: Any = None) -> Array:
    array = _array(raw, dtype, shape, order == "F")
    return array if axes is None else array.transpose(axes)


def _array(raw: Any, dtype: Any, shape: Any, fortran: bool) -> Array:
    if not isinstance(raw, bytes) or not isinstance(dtype, np.dtype) or not isinstance(shape, tuple):
        raise _Refusal("the pickle is damaged: an array without data, dtype or shape")
    if len(shape) > _MAX_RANK:
        raise _Refusal(f"an array of {len(shape)} dims, at most {_MAX_RANK}")
    if not all(type(dim) is int and 0 <= dim < 2**62 for dim in shape):
        raise _Refusal("an array whose dims are not all ints from 0 up")
    wanted = prod(shape) * dtype.itemsize
    if wanted != len(raw) or prod(dim for dim in shape if dim) >= 2**58:
        raise _Refusal(f"an array of {dtype} {list(shape)} takes {wanted} bytes, {len(raw)} there")
    flat = np.frombuffer(raw, dtype) if raw else np.zeros(0, dtype)
    array = flat.reshape(shape, order="F" if fortran else "C")
    # A copy owns its memory, may be written, and has the machine's byte order.
    return array.astype(dtype.newbyteorder("=") if dtype.byteorder == ">" else dtype, order="K", copy=True)


def _make_scalar(dtype: Any, raw: Any) -> Any:
    return _array(raw.encode("latin-1") if isinstance(raw, str) else raw, dtype, (), False)[()]


def _encode_latin1(text: str, encoding: Any = "latin1") -> bytes:
    if not isinstance(text, str) or encoding not in ("latin1", "latin-1"):
        raise _Refusal("text encoded in another way than latin1")
    return text.encode("latin-1")


def _ordered_dict(pairs: Any = ()) -> OrderedDict[Any, Any]:
    return OrderedDict((_checked_key(key), value) for key, value in pairs)


def _as_tuple(items: Any = ()) -> tuple[Any, ...]:
    if not isinstance(items, (tuple, list)):
        raise _Refusal(f"a tuple made from a {type(items).__name__}")
    return tuple(items)


def _complex(real: Any, imaginary: Any) -> complex:
    return complex(float(real), float(imaginary))


def _no_bytes() -> bytes:
    return b""


_CALLABLES: Final[dict[str, Callable[..., Any]]] = {
    "numpy.dtype": _make_dtype,
    "collections.OrderedDict": _ordered_dict,
    "_codecs.encode": _encode_latin1,
    **{
        f"numpy.{core}.{name}": make
        for core in ("core", "_core")  # numpy 1 and numpy 2
        for name, make in (
            ("multiarray._reconstruct", _make_array),
            ("multiarray.scalar", _make_scalar),
            ("numeric._frombuffer", _array_from_buffer),
        )
    },
    **{
        f"{builtins}.{name}": make
        for builtins in ("builtins", "__builtin__")  # Python 3 and Python 2
        for name, make in (("tuple", _as_tuple), ("complex", _complex), ("bytes", _no_bytes))
    },
}
_NAMES: Final = frozenset({"numpy.ndarray", *(f"ml_dtypes.{name}" for name in EXTENSION_NAMES)})
_PARTS: Final = frozenset(part for name in (*_CALLABLES, *_NAMES) for part in name.rpartition(".")[::2])


# The opcodes, by their byte.

_STOP: Final = ord(".")
_U1, _U2, _U4, _U8 = (struct.Struct(code) for code in ("<B", "<H", "<I", "<Q"))
_I4, _F8 = struct.Struct("<i"), struct.Struct(">d")


def _long(reader: _Reader, size: int) -> int:
    if not 0 <= size <= _MAX_INT_BYTES:
        raise _Refusal(f"an int of {size} bytes, at most {_MAX_INT_BYTES}")
    return int.from_bytes(reader.blob(size), "little", signed=True)


def _check_protocol(reader: _Reader) -> None:
    protocol = reader.number(_U1)
    if not 2 <= protocol <= 5:
        raise _Refusal(f"pickle protocol {protocol}, expected 2 to 5")


def _note_frame(reader: _Reader) -> None:
    """Note a frame that is cut off; the value inside that lacks its bytes gives the better message."""
    end = reader.number(_U8) + reader.position
    if end > len(reader.data):
        reader.frame_end = end


def _list_extend(reader: _Reader, items: list[Any]) -> None:
    reader.top(list).extend(items)


def _set_item(reader: _Reader) -> None:
    value, key = reader.pop(), reader.pop()
    reader.set_items([key, value])


def _push(make: Callable[[_Reader], Any]) -> Callable[[_Reader], None]:
    return lambda reader: reader.stack.append(make(reader))


_HANDLERS: Final[dict[int, Callable[[_Reader], Any]]] = {
    0x80: _check_protocol,
    0x95: _note_frame,
    ord("("): lambda reader: reader.marks.append(len(reader.stack)),
    ord("0"): lambda reader: reader.pop(),
    ord("N"): _push(lambda reader: None),
    0x88: _push(lambda reader: True),
    0x89: _push(lambda reader: False),
    ord("J"): _push(lambda reader: reader.number(_I4)),
    ord("K"): _push(lambda reader: reader.number(_U1)),
    ord("M"): _push(lambda reader: reader.number(_U2)),
    0x8A: _push(lambda reader: _long(reader, reader.number(_U1))),
    0x8B: _push(lambda reader: _long(reader, reader.number(_I4))),
    ord("G"): _push(lambda reader: reader.number(_F8)),
    ord("U"): _push(lambda reader: reader.text(reader.number(_U1), "latin-1")),
    ord("T"): _push(lambda reader: reader.text(reader.number(_U4), "latin-1")),
    0x8C: _push(lambda reader: reader.text(reader.number(_U1), "utf-8")),
    ord("X"): _push(lambda reader: reader.text(reader.number(_U4), "utf-8")),
    0x8D: _push(lambda reader: reader.text(reader.number(_U8), "utf-8")),
    ord("C"): _push(lambda reader: reader.blob(reader.number(_U1))),
    ord("B"): _push(lambda reader: reader.blob(reader.number(_U4))),
    0x8E: _push(lambda reader: reader.blob(reader.number(_U8))),
    0x96: _push(lambda reader: reader.blob(reader.number(_U8))),
    ord("]"): _push(lambda reader: []),
    ord(")"): _push(lambda reader: ()),
    ord("}"): _push(lambda reader: {}),
    ord("a"): lambda reader: _list_extend(reader, [reader.pop()]),
    ord("e"): lambda reader: _list_extend(reader, reader.pop_to_mark()),
    ord("s"): _set_item,
    ord("u"): lambda reader: reader.set_items(reader.pop_to_mark()),
    ord("t"): _push(lambda reader: tuple(reader.pop_to_mark())),
    0x85: lambda reader: reader.pop_tuple(1),
    0x86: lambda reader: reader.pop_tuple(2),
    0x87: lambda reader: reader.pop_tuple(3),
    ord("h"): _push(lambda reader: reader.memo[reader.number(_U1)]),
    ord("j"): _push(lambda reader: reader.memo[reader.number(_U4)]),
    ord("q"): lambda reader: reader.memoize(reader.number(_U1)),
    ord("r"): lambda reader: reader.memoize(reader.number(_U4)),
    0x94: lambda reader: reader.memoize(len(reader.memo)),
    ord("c"): lambda reader: reader.find_global(reader.line(), reader.line()),
    0x93: _Reader.stack_global,
    ord("R"): _Reader.reduce,
    ord("b"): _Reader.build,
}
