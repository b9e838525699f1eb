"""The threads of the BLAS library behind numpy's matrix products.

OpenBLAS, which numpy's wheels carry, keeps its own threads and lets them spin while they wait for each other. On
a machine that has other work to do a product of half a millisecond then takes ten or a hundred times as long. So
kernels that split their work themselves run their products on the calling thread (:func:`own_threads`).

numpy has no call for the number of threads. The libraries have one each, under a few names; the library that
numpy has loaded is found beside numpy or among what the process has mapped. Where none is found nothing is set.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

__all__ = ["can_set_blas_threads", "own_threads", "set_blas_threads"]

_NAMES = (
    ("scipy_openblas_set_num_threads64_", "scipy_openblas_get_num_threads64_"),
    ("scipy_openblas_set_num_threads", "scipy_openblas_get_num_threads"),
    ("openblas_set_num_threads64_", "openblas_get_num_threads64_"),
    ("openblas_set_num_threads", "openblas_get_num_threads"),
    ("MKL_Set_Num_Threads", "MKL_Get_Max_Threads"),
)
_MARKS = ("openblas", "mkl_rt")


class _Calls(NamedTuple):
    set: Callable[[int], object]
    get: Callable[[], int]


def _libraries() -> Iterator[Path]:
    """Files that may be the library, the likely ones first."""
    package = Path(np.__file__).parent
    for folder in (package.parent / "numpy.libs", package / ".libs", package / ".dylibs"):
        if folder.is_dir():
            yield from sorted(path for path in folder.iterdir() if any(mark in path.name for mark in _MARKS))
    with contextlib.suppress(OSError):
        lines = Path("/proc/self/maps").read_text().splitlines()
        mapped = {line.split(None, 5)[5] for line in lines if "/" in line}
        yield from sorted(Path(name) for name in mapped if any(mark in Path(name).name for mark in _MARKS))


@functools.cache
def _calls() -> _Calls | None:
    for path in _libraries():
        with contextlib.suppress(OSError):
            library = ctypes.CDLL(str(path))
            for setter, getter in _NAMES:
                if hasattr(library, setter) and hasattr(library, getter):
                    found = _Calls(getattr(library, setter), getattr(library, getter))
                    found.set.argtypes, found.set.restype = [ctypes.c_int], None  # type: ignore[attr-defined]
                    found.get.argtypes, found.get.restype = [], ctypes.c_int  # type: ignore[attr-defined]
                    return found
    return None


class _State:
    """How many callers are inside :func:`own_threads`, and what the last of them puts back."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.inside = 0
        self.outside = 1


_state = _State()


def _after_fork() -> None:
    """A child has none of its parent's callers."""
    global _state
    before, _state = _state, _State()
    calls = _calls() if before.inside else None
    if calls is not None:
        calls.set(before.outside)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def can_set_blas_threads() -> bool:
    """Whether the library was found."""
    return _calls() is not None


def set_blas_threads(n: int) -> bool:
    """Set the number of threads of matrix products, for the whole process; False where no library answers."""
    calls = _calls()
    if calls is None:
        return False
    with _state.lock:
        _state.outside = n
        if not _state.inside:
            calls.set(n)
    return True


@contextlib.contextmanager
def own_threads() -> Iterator[bool]:
    """While inside, a matrix product runs on the thread that asks for it; gives False where that cannot be had.

    The number of threads belongs to the process: products of other threads run alone too for that time.
    """
    calls, state = _calls(), _state
    if calls is None:
        yield False
        return
    with state.lock:
        if not state.inside:
            state.outside = calls.get()
            calls.set(1)
        state.inside += 1
    try:
        yield True
    finally:
        with state.lock:
            state.inside -= 1
            if not state.inside:
                calls.set(state.outside)
