"""The number of threads of the BLAS library behind numpy's matrix products.

numpy has no call for it. The libraries have one each, under a few names; the library that numpy has loaded is
found beside numpy (its wheels carry OpenBLAS) or among what the process has mapped. Where none is found nothing
is set, and the library keeps the number that its environment variables gave it.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

__all__ = ["set_blas_threads"]

_SETTERS = (
    "scipy_openblas_set_num_threads64_",
    "scipy_openblas_set_num_threads",
    "openblas_set_num_threads64_",
    "openblas_set_num_threads",
    "MKL_Set_Num_Threads",
    "bli_thread_set_num_threads",
)
_MARKS = ("openblas", "mkl_rt", "blis")


def _libraries() -> Iterator[Path]:
    """Files that may be the library, the likely ones first."""
    package = Path(np.__file__).parent
    for folder in (package.parent / "numpy.libs", package / ".libs", package / ".dylibs"):
        if folder.is_dir():
            yield from sorted(path for path in folder.iterdir() if any(mark in path.name for mark in _MARKS))
    with contextlib.suppress(OSError):
        mapped = {
            line.split(None, 5)[5] for line in Path("/proc/self/maps").read_text().splitlines() if "/" in line
        }
        yield from sorted(Path(name) for name in mapped if any(mark in Path(name).name for mark in _MARKS))


@functools.cache
def _setter() -> Callable[[int], object] | None:
    for path in _libraries():
        with contextlib.suppress(OSError):
            library = ctypes.CDLL(str(path))
            for name in _SETTERS:
                found = getattr(library, name, None)
                if found is not None:
                    found.argtypes, found.restype = [ctypes.c_int], None
                    return found  # type: ignore[no-any-return]
    return None


def set_blas_threads(n: int) -> bool:
    """Set the number of threads of matrix products, for the whole process; False where no library answers."""
    setter = _setter()
    if setter is None:
        return False
    setter(n)
    return True
