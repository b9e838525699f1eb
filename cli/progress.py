"""A progress bar that shows only on a terminal, and only when the work takes longer than a second."""

from __future__ import annotations

import sys
import time
from types import TracebackType

__all__ = ["Progress"]

_WIDTH = 30


class Progress:
    """``with Progress("title", total) as bar: bar.step()``; writes to stderr, leaves nothing behind."""

    def __init__(self, title: str, total: int) -> None:
        self.title = title
        self.total = max(total, 1)
        self.done = 0
        self._start = time.monotonic()
        self._drawn = 0.0

    def __enter__(self) -> Progress:
        return self

    def step(self) -> None:
        """Note one unit of work."""
        self.done += 1
        now = time.monotonic()
        if now - self._start > 1.0 and now - self._drawn > 0.1 and sys.stderr.isatty():
            self._drawn = now
            filled = _WIDTH * self.done // self.total
            bar = "#" * filled + "-" * (_WIDTH - filled)
            print(f"\r{self.title} [{bar}] {self.done}/{self.total}", end="", file=sys.stderr, flush=True)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._drawn:
            print("\r\033[K", end="", file=sys.stderr, flush=True)
