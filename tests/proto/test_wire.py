"""The wire layout by hand: numbers, fields, and unknown ones put back in place."""

from __future__ import annotations

import pytest
from oarlock.proto import wire


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (0, "00"),
        (127, "7f"),
        (128, "8001"),
        (300, "ac02"),
        (-1, "ffffffffffffffffff01"),
        (2**63, "80" * 9 + "01"),
    ],
)
def test_varints(value: int, encoded: str) -> None:
    raw = bytes.fromhex(encoded)
    assert wire.varint(value) == raw
    assert wire.read_varint(raw, 0, len(raw)) == (value % 2**64, len(raw))


def test_a_message_is_split_into_its_fields() -> None:
    data = bytes.fromhex("0805 120161 1d00000000 21000000000000000000"[:-2] + "2b08012c")
    fields = [(field.number, field.wire_type, data[field.start : field.end].hex()) for field in wire.split(data)]
    assert fields == [
        (1, 0, "0805"),
        (2, 2, "120161"),
        (3, 5, "1d00000000"),
        (4, 1, "210000000000000000"),
        (5, 3, "2b08012c"),
    ]


@pytest.mark.parametrize("encoded", ["08", "08ff", "0aff01", "1500", "0f", "0001", "0b", "0c", "0b" * 200])
def test_what_is_no_message_is_refused(encoded: str) -> None:
    with pytest.raises(ValueError):
        wire.split(bytes.fromhex(encoded))


def test_unknown_fields_go_back_between_the_known_ones() -> None:
    data = wire.varint_field(1, 5) + wire.field_bytes(2, b"new") + wire.varint_field(3, 7) + wire.varint_field(9, 1)
    unknown = wire.keep_unknown(data, {1, 3})
    assert unknown == wire.field_bytes(2, b"new") + wire.varint_field(9, 1)
    assert wire.merge(wire.varint_field(1, 5) + wire.varint_field(3, 7), unknown) == data
