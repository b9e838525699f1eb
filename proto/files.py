"""Files as the other modules of this room use them: mapped for reading, replaced as a whole on writing."""

from __future__ import annotations

import mmap
import os
import stat
from collections.abc import Callable, Mapping
from typing import BinaryIO, TypeAlias

from ..errors import FormatError, NotFoundError

__all__ = ["Buffer", "StrPath", "is_pickle", "listing", "map_file", "read_file", "shown", "write_files"]

StrPath: TypeAlias = "str | os.PathLike[str]"
Buffer: TypeAlias = "bytes | bytearray | memoryview | mmap.mmap"

_LISTED = 12
_PICKLE_PROTOCOLS = (2, 3, 4, 5)


def shown(path: StrPath) -> str:
    """A path as errors print it: undecodable bytes made visible, the rest as it is."""
    return os.fspath(path).encode("utf-8", "backslashreplace").decode("utf-8")


def map_file(path: StrPath) -> Buffer:
    """The bytes of a file, mapped read-only; processes that map the same file share the memory.

    Arrays made from the result keep the mapping alive. A file must not be cut while it is mapped (the system
    ends a process that touches the missing part); :func:`write_files` never does that, it puts a new file in
    the old one's place.

    Raises:
        NotFoundError: there is no such file.
        FormatError: the path is a folder or a device.
    """
    with _open_regular(path) as stream:
        if os.fstat(stream.fileno()).st_size == 0:
            return b""
        return mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)


def read_file(path: StrPath) -> bytes:
    """The bytes of a file, read into memory.

    Raises:
        NotFoundError: there is no such file.
        FormatError: the path is a folder or a device.
    """
    with _open_regular(path) as stream:
        return stream.read()


def _open_regular(path: StrPath) -> BinaryIO:
    try:
        mode = os.stat(path).st_mode
    except (FileNotFoundError, NotADirectoryError) as error:
        raise NotFoundError(f"{shown(path)}: there is no such file") from error
    if not stat.S_ISREG(mode):
        kind = "a folder" if stat.S_ISDIR(mode) else "not a regular file"
        raise FormatError(f"{shown(path)}: expected a file, found {kind}")
    return open(path, "rb")


def is_pickle(data: Buffer) -> bool:
    """Whether bytes begin like a pickle of protocol 2 to 5."""
    return len(data) >= 2 and data[0] == 0x80 and data[1] in _PICKLE_PROTOCOLS


def listing(folder: StrPath) -> str:
    """What lies in a folder, for an error message: the first few names, sorted."""
    try:
        names = sorted(os.listdir(folder or "."))
    except (OSError, ValueError):
        return f"folder {shown(folder)!r} cannot be listed"
    if not names:
        return f"folder {shown(folder) or '.'!r} is empty"
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return f"folder {shown(folder) or '.'!r} holds {', '.join(shown(name) for name in names[:_LISTED])}{more}"


def write_files(writers: Mapping[StrPath, Callable[[BinaryIO], object]]) -> None:
    """Write files that belong together, each of them wholly or not at all.

    Every writer is called with a stream to a temporary file beside its target. Only when all have returned
    and their bytes are on the disk do the new files take the places of the old ones, in the order given. If
    a writer raises, every old file is as it was. Parent folders are made; a symbolic link stays one, its
    target is replaced.
    """
    pending: list[tuple[str, str]] = []
    try:
        for path, write in writers.items():
            target = os.path.realpath(path)
            folder = os.path.dirname(target)
            os.makedirs(folder, exist_ok=True)
            temporary = os.path.join(folder, f".oarlock-{os.urandom(8).hex()}.tmp")
            with open(temporary, "xb") as stream:
                pending.append((temporary, target))
                write(stream)
                stream.flush()
                os.fsync(stream.fileno())
        while pending:
            os.replace(*pending[0])
            pending.pop(0)
    finally:
        for temporary, _ in pending:
            os.unlink(temporary)
    for folder in {os.path.dirname(os.path.realpath(path)) for path in writers}:
        _sync_folder(folder)


def _sync_folder(folder: str) -> None:
    """Make renames in a folder durable, where the system lets a folder be opened."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
