"""The protobuf wire layout by hand: varints, and a message split into its fields without knowing its schema.

The generated module decodes programs. This is for what it cannot do: keep the bytes of unknown fields and
their place, assemble messages from parts that are encoded already, and read the tiny description in a tensor
record without importing protobuf.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

__all__ = ["Field", "field_bytes", "keep_unknown", "merge", "read_varint", "split", "varint", "varint_field"]

_MAX_GROUP_DEPTH = 100
_VARINT, _FIXED64, _BYTES, _GROUP, _END_GROUP, _FIXED32 = range(6)


class Field(NamedTuple):
    """One field of a message: its number, wire type, whole extent, and where its payload starts."""

    number: int
    wire_type: int
    start: int
    payload: int
    end: int


def varint(value: int) -> bytes:
    """An integer as a varint; a negative one as its 64-bit two's complement, int32 fields included."""
    value &= 0xFFFF_FFFF_FFFF_FFFF
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def varint_field(number: int, value: int) -> bytes:
    """A field that holds an integer."""
    return varint(number << 3 | _VARINT) + varint(value)


def field_bytes(number: int, payload: bytes) -> bytes:
    """A field that holds bytes, text or an encoded message."""
    return varint(number << 3 | _BYTES) + varint(len(payload)) + payload


def read_varint(data: bytes | memoryview, position: int, end: int) -> tuple[int, int]:
    """The unsigned varint at ``position`` and the position behind it.

    Raises:
        ValueError: it runs past ``end`` or is longer than ten bytes.
    """
    value = shift = 0
    while position < end and shift < 70:
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, position
        shift += 7
    raise ValueError("unfinished varint")


def split(data: bytes | memoryview) -> list[Field]:
    """The fields of one message, in file order.

    Raises:
        ValueError: the bytes are not a message.
    """
    fields: list[Field] = []
    position, end = 0, len(data)
    while position < end:
        field = _field(data, position, end, 0)
        fields.append(field)
        position = field.end
    return fields


def _field(data: bytes | memoryview, start: int, end: int, depth: int) -> Field:
    tag, payload = read_varint(data, start, end)
    number, wire_type = tag >> 3, tag & 7
    if wire_type == _VARINT:
        stop = read_varint(data, payload, end)[1]
    elif wire_type == _FIXED64:
        stop = payload + 8
    elif wire_type == _FIXED32:
        stop = payload + 4
    elif wire_type == _BYTES:
        length, payload = read_varint(data, payload, end)
        stop = payload + length
    elif wire_type == _GROUP:
        stop = _group_end(data, payload, end, number, depth + 1)
    else:
        raise ValueError(f"wire type {wire_type}")
    if number == 0 or stop > end:
        raise ValueError(f"field {number} runs past the end")
    return Field(number, wire_type, start, payload, stop)


def _group_end(data: bytes | memoryview, position: int, end: int, number: int, depth: int) -> int:
    if depth > _MAX_GROUP_DEPTH:
        raise ValueError("groups nested too deep")
    closing = number << 3 | _END_GROUP
    while position < end:
        tag, behind = read_varint(data, position, end)
        if tag == closing:
            return behind
        position = _field(data, position, end, depth).end
    raise ValueError("unfinished group")


def keep_unknown(data: bytes, known: Collection[int]) -> bytes:
    """The fields of a message whose numbers are not in ``known``, as they are encoded, in file order."""
    return b"".join(data[field.start : field.end] for field in split(data) if field.number not in known)


def merge(data: bytes, unknown: bytes) -> bytes:
    """A message with unknown fields put back at the place that their numbers give them."""
    if not unknown:
        return data
    parts = [(field.number, data[field.start : field.end]) for field in split(data)]
    parts += [(field.number, unknown[field.start : field.end]) for field in split(unknown)]
    return b"".join(part for _, part in sorted(parts, key=lambda item: item[0]))
