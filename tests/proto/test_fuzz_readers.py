"""Damaged files of every kind: a reader gives a value or a FormatError, and nothing else.

The examples are the same in every run. ``OARLOCK_FUZZ_EXAMPLES`` asks for more of them.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from oarlock.errors import FormatError
from oarlock.ir.program_io import read_program, write_program
from oarlock.proto.pdiparams import read_params
from oarlock.proto.pickles import read_state
from oarlock.proto.records import read_selected_rows, read_vocab

DATA = Path(__file__).resolve().parent.parent / "data" / "proto"
PROGRAMS = [path.read_bytes() for path in sorted(DATA.glob("models/*/*model*")) if "pdiparams" not in path.name]
PARAMS = [path.read_bytes() for path in sorted(DATA.glob("models/*/*.pdiparams"))]
STATES = [path.read_bytes() for path in sorted([*DATA.glob("states/*"), *DATA.glob("models/*/*.info")])]

steady = settings(
    max_examples=int(os.environ.get("OARLOCK_FUZZ_EXAMPLES", "250")),
    derandomize=True,
    deadline=2000,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)

PATCHES = st.one_of(
    st.binary(min_size=0, max_size=9),
    st.sampled_from([b"\xff" * 8, b"\0" * 8, b"\xff\xff\xff\x7f", b"\x80" * 9, b"\x80\x02", b"R", b"b", b"\x93"]),
)


@st.composite
def damaged(draw: st.DrawFn, samples: list[bytes]) -> bytes:
    """A sample with a few places overwritten, cut out or stretched, perhaps without its end."""
    data = bytearray(draw(st.sampled_from(samples)))
    for _ in range(draw(st.integers(0, 4))):
        start = draw(st.integers(0, len(data)))
        data[start : start + draw(st.integers(0, 12))] = draw(PATCHES)
    if draw(st.booleans()):
        del data[draw(st.integers(0, len(data))) :]
    return bytes(data)


def value_or_format_error(read: Callable[[], Any]) -> None:
    try:
        read()
    except FormatError as error:
        assert str(error).startswith("file"), error
        assert "\n" not in str(error)


@steady
@given(damaged(PROGRAMS))
def test_programs(data: bytes) -> None:
    value_or_format_error(lambda: write_program(read_program(data, "file")))


@steady
@given(st.binary(max_size=200))
def test_random_bytes_as_anything(data: bytes) -> None:
    value_or_format_error(lambda: read_program(data, "file"))
    value_or_format_error(lambda: read_params(data, ["a"], source="file"))
    value_or_format_error(lambda: read_state(data, "file"))
    value_or_format_error(lambda: read_state(b"\x80\x04" + data, "file"))
    value_or_format_error(lambda: read_selected_rows(b"\0\0\0\0" + data, "file"))
    value_or_format_error(lambda: read_vocab(data, "file"))


@steady
@given(damaged(PARAMS), st.integers(0, 6))
def test_parameters(data: bytes, count: int) -> None:
    value_or_format_error(lambda: read_params(data, [f"p{index}" for index in range(count)], source="file"))


@steady
@given(damaged(STATES))
def test_states(data: bytes) -> None:
    value_or_format_error(lambda: read_state(data, "file"))


@steady
@given(damaged(PROGRAMS))
def test_what_was_read_is_written_so_that_it_reads_equal(data: bytes) -> None:
    try:
        first = read_program(data, "file")
    except FormatError:
        return
    again = read_program(write_program(first), "file")
    assert repr(again.blocks) == repr(first.blocks)  # repr: NaN is equal to itself there
    assert (again.version, again.op_versions) == (first.version, first.op_versions)
