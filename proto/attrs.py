"""Attribute values: one encoded ``Attr`` message to a plain Python value and back.

A table says for every attribute type which field holds its value; nothing else in oarlock knows those fields.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from .generated import from_text, messages, parse, to_text

__all__ = ["BLOCK", "BLOCKS", "DecodedAttr", "decode_attr", "encode_attr", "infer_kind", "kind_name"]

BLOCK: Final = 8
BLOCKS: Final = 10


class _Holder(NamedTuple):
    """Where one attribute type keeps its value, and how an element turns into Python and back."""

    kind: str
    field: str
    repeated: bool
    read: Callable[[Any], Any] | None = None
    write: Callable[[Any], Any] | None = None


def _read_scalar(message: Any) -> bool | int | float | complex:
    code = message.type
    if code == 1:
        return bool(message.b)
    if code == 2:
        return int(message.i)
    if code == 3:
        return float(message.r)
    if code == 4:
        return complex(message.c.r, message.c.i)
    raise ValueError(f"a scalar of type code {code}; known are 1 to 4")


def _write_scalar(value: Any) -> Any:
    pb = messages()
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, bool):
        return pb.Scalar(type=1, b=value)
    if isinstance(value, int):
        return pb.Scalar(type=2, i=value)
    if isinstance(value, float):
        return pb.Scalar(type=3, r=value)
    if isinstance(value, complex):
        return pb.Scalar(type=4, c=pb.Complex(r=value.real, i=value.imag))
    raise TypeError(f"a scalar is a bool, int, float or complex, not {type(value).__name__}")


_HOLDERS: Final = (
    _Holder("INT", "i", False),
    _Holder("FLOAT", "f", False),
    _Holder("STRING", "s", False, to_text, from_text),
    _Holder("INTS", "ints", True),
    _Holder("FLOATS", "floats", True),
    _Holder("STRINGS", "strings", True, to_text, from_text),
    _Holder("BOOLEAN", "b", False),
    _Holder("BOOLEANS", "bools", True),
    _Holder("BLOCK", "block_idx", False),
    _Holder("LONG", "l", False),
    _Holder("BLOCKS", "blocks_idx", True),
    _Holder("LONGS", "longs", True),
    _Holder("FLOAT64S", "float64s", True),
    _Holder("VAR", "var_name", False, to_text, from_text),
    _Holder("VARS", "vars_name", True, to_text, from_text),
    _Holder("FLOAT64", "float64", False),
    _Holder("SCALAR", "scalar", False, _read_scalar, _write_scalar),
    _Holder("SCALARS", "scalars", True, _read_scalar, _write_scalar),
)
"""One row per attribute type, at the index that is its code."""


class DecodedAttr(NamedTuple):
    """An attribute as decoded. ``plain``: encoding name, type and value again gives the same bytes."""

    name: str
    kind: int
    value: Any
    plain: bool


def decode_attr(raw: bytes) -> DecodedAttr:
    """Name, type and value of one encoded attribute.

    Raises:
        ValueError: the bytes are no attribute, or its type is not known; the message says what is wrong.
    """
    message = parse(messages().OpDesc.Attr, raw)
    if not message.HasField("name"):
        raise ValueError("an attribute has no name")
    name, kind = to_text(message.name), message.type
    if not message.HasField("type") or not 0 <= kind < len(_HOLDERS):
        found = kind if message.HasField("type") else "none"
        raise ValueError(f"attribute {name!r} has type code {found}; known are 0 to {len(_HOLDERS) - 1}")
    holder = _HOLDERS[kind]
    held = getattr(message, holder.field)
    try:
        if holder.repeated:
            value = list(held) if holder.read is None else [holder.read(element) for element in held]
        else:
            value = held if holder.read is None else holder.read(held)
    except ValueError as error:
        raise ValueError(f"attribute {name!r} holds {error}") from error
    return DecodedAttr(name, kind, value, encode_attr(name, kind, value) == raw)


def encode_attr(name: str, kind: int, value: Any) -> bytes:
    """The encoded attribute.

    Raises:
        TypeError, ValueError: the value does not fit the type.
    """
    message = messages().OpDesc.Attr(name=from_text(name), type=int(kind))
    _, field, repeated, _, write = _HOLDERS[kind]
    if repeated:
        getattr(message, field).extend(value if write is None else [write(element) for element in value])
    elif write is _write_scalar:
        message.scalar.CopyFrom(write(value))
    else:
        setattr(message, field, value if write is None else write(value))
    encoded: bytes = message.SerializePartialToString()
    return encoded


def kind_name(kind: int) -> str:
    """The name of an attribute type, for messages."""
    return _HOLDERS[kind].kind if 0 <= kind < len(_HOLDERS) else str(kind)


def infer_kind(value: Any) -> int:
    """The attribute type of a Python value that comes without one.

    Raises:
        TypeError: no attribute type holds such a value.
    """
    if isinstance(value, (list, tuple)):
        return _infer_list([element.item() if hasattr(element, "item") else element for element in value])
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, int) and not isinstance(value, bool):
        return 0 if _fits_int32(value) else 9
    for types, kind in ((bool, 6), (float, 1), (str, 2), (complex, 16)):
        if isinstance(value, types):
            return kind
    raise TypeError(f"no attribute type holds a {type(value).__name__}")


def _infer_list(values: list[Any]) -> int:
    if all(isinstance(value, bool) for value in values) and values:
        return 7
    if all(isinstance(value, int) for value in values):
        return 3 if all(map(_fits_int32, values)) else 11
    if all(isinstance(value, (int, float)) for value in values):
        return 4
    if all(isinstance(value, str) for value in values):
        return 5
    if all(isinstance(value, (int, float, complex)) for value in values):
        return 17
    raise TypeError("no attribute type holds a list of mixed values")


def _fits_int32(value: int) -> bool:
    return -(2**31) <= value < 2**31
