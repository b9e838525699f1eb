"""Files are replaced as a whole, together, or not at all."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO

import pytest
from oarlock.errors import FormatError, NotFoundError
from oarlock.proto.files import listing, map_file, read_file, write_files


def fails(stream: BinaryIO) -> None:
    stream.write(b"half")
    raise RuntimeError("disk on fire")


def test_files_that_belong_together_are_replaced_together(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "new" / "b"
    write_files({first: lambda stream: stream.write(b"1"), second: lambda stream: stream.write(b"2")})
    assert (first.read_bytes(), second.read_bytes()) == (b"1", b"2")
    with pytest.raises(RuntimeError, match="disk on fire"):
        write_files({first: lambda stream: stream.write(b"3"), second: fails})
    assert (first.read_bytes(), second.read_bytes()) == (b"1", b"2")
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["a", "b", "new"]


def test_a_new_file_has_the_permissions_that_open_gives(tmp_path: Path) -> None:
    (tmp_path / "plain").write_bytes(b"")
    write_files({tmp_path / "ours": lambda stream: stream.write(b"")})
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "target").write_bytes(b"old")
    os.symlink(tmp_path / "target", tmp_path / "link")
    write_files({tmp_path / "link": lambda stream: stream.write(b"new")})
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_bytes() == b"new"


def test_reading_refuses_what_is_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")  # opening it would wait for ever
    for read in (map_file, read_file):
        with pytest.raises(FormatError, match="not a regular file"):
            read(tmp_path / "pipe")
        with pytest.raises(FormatError, match="found a folder"):
            read(tmp_path)
        with pytest.raises(NotFoundError, match="no such file"):
            read(tmp_path / "absent")
    (tmp_path / "empty").write_bytes(b"")
    assert bytes(map_file(tmp_path / "empty")) == b""


def test_a_long_listing_is_cut(tmp_path: Path) -> None:
    for index in range(20):
        (tmp_path / f"f{index:02}").touch()
    assert listing(tmp_path).endswith("f10, f11 and 8 more")
