"""Names that no other tensor or layer has: ``generate("linear")`` gives ``linear_0``, ``linear_1``, ..."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections import defaultdict
from collections.abc import Iterator

__all__ = ["generate", "guard"]

_lock = threading.Lock()
_counts: defaultdict[str, Iterator[int]] = defaultdict(itertools.count)
_prefix = ""


def generate(key: str) -> str:
    """The next name for a kind of thing, ``<key>_<number>``; numbers start at 0 for each key."""
    with _lock:
        return f"{_prefix}{key}_{next(_counts[key])}"


@contextlib.contextmanager
def guard(prefix: str = "") -> Iterator[None]:
    """Within it the numbers start at 0 again; ``prefix`` goes before every name. For repeatable parameter names."""
    global _counts, _prefix
    with _lock:
        kept = _counts, _prefix
        _counts, _prefix = defaultdict(itertools.count), prefix
    try:
        yield
    finally:
        with _lock:
            _counts, _prefix = kept
