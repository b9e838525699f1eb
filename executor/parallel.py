"""Splitting numpy work over threads: numpy releases the GIL inside a ufunc or a matmul, so blocks run side by side.

One pool of daemon threads serves the whole process. It is made at the first use that needs it, grows to
``num_threads() - 1`` helpers, and is forgotten in a forked child, which makes its own. The caller always works
too, so a busy or missing pool slows a call down and never blocks it.
"""

from __future__ import annotations

import contextlib
import os
import queue
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np

from .blas import set_blas_threads

__all__ = ["num_threads", "parallel_for", "set_num_threads"]

RangeFn = Callable[[int, int], None]
"""Does the items ``[start, stop)``."""


class _Job:
    """A range of items that threads claim chunk by chunk until none is left."""

    def __init__(self, n_items: int, fn: RangeFn, grain: int) -> None:
        self._fn = fn
        self._n = n_items
        self._grain = grain
        self._next = 0
        self._busy = 0
        self._lock = threading.Lock()
        self._idle = threading.Condition(self._lock)
        self._error: BaseException | None = None
        self._errstate = np.geterr()

    def _claim(self) -> int:
        with self._lock:
            start = self._next
            if start >= self._n:
                return -1
            self._next = start + self._grain
            self._busy += 1
            return start

    def work(self) -> None:
        """Claim and do chunks until none is left; an error stops the claiming and is kept for the caller."""
        while (start := self._claim()) >= 0:
            error = None
            try:
                self._fn(start, min(start + self._grain, self._n))
            except BaseException as caught:  # handed to the caller's thread by finish()
                error = caught
            with self._lock:
                self._busy -= 1
                if error is not None:
                    self._next = self._n
                    self._error = self._error or error
                if self._busy == 0:
                    self._idle.notify_all()

    def help(self) -> None:
        """As :meth:`work`, on a pool thread, with the caller's floating-point error state."""
        with np.errstate(**self._errstate):
            self.work()

    def finish(self) -> None:
        """Wait until every claimed chunk is done, then raise what went wrong."""
        with self._lock:
            while self._busy:
                self._idle.wait()
        if self._error is not None:
            raise self._error


class _Pool:
    """The threads and the queue that they wait on."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[_Job] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._size = 0

    def offer(self, job: _Job, helpers: int) -> None:
        """Ask up to ``helpers`` threads to work on the job, starting threads that are missing."""
        with self._lock:
            while self._size < helpers:
                self._size += 1
                threading.Thread(target=self._serve, name=f"oarlock-{self._size}", daemon=True).start()
        for _ in range(helpers):
            self._jobs.put(job)

    def _serve(self) -> None:
        _inside.helper = True
        while True:
            self._jobs.get().help()


class _Inside(threading.local):
    helper = False


_inside = _Inside()
_pool = _Pool()
_threads: int | None = None


def _forget() -> None:
    """In a forked child the pool's threads do not exist: start anew."""
    global _pool
    _pool = _Pool()
    _inside.helper = False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def _positive(text: str | None) -> int:
    try:
        return max(int(text or 0), 0)
    except ValueError:
        return 0


def _cgroup_cpus() -> int:
    """The whole CPUs that a container's quota allows, 0 where there is no quota."""
    with contextlib.suppress(OSError, ValueError):
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text("ascii").split()
        return 0 if quota == "max" else max(int(quota) // int(period), 1)
    with contextlib.suppress(OSError, ValueError):
        folder = Path("/sys/fs/cgroup/cpu")
        limit = int((folder / "cpu.cfs_quota_us").read_text("ascii"))
        return 0 if limit <= 0 else max(limit // int((folder / "cpu.cfs_period_us").read_text("ascii")), 1)
    return 0


def _default_threads() -> int:
    asked = _positive(os.environ.get("OMP_NUM_THREADS", "").split(",")[0])
    if asked:
        return asked
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = _cgroup_cpus()
    return max(min(cpus, quota) if quota else cpus, 1)


def num_threads() -> int:
    """How many threads a kernel may use: what was set, else ``OMP_NUM_THREADS``, else the CPUs allowed to us."""
    global _threads
    if _threads is None:
        _threads = _default_threads()
    return _threads


def set_num_threads(n: int) -> None:
    """Set the number of threads that kernels and matrix products may use, the caller's included.

    Raises:
        ValueError: ``n`` is below 1.
    """
    global _threads
    if n < 1:
        raise ValueError(f"the number of threads must be at least 1, got {n}")
    _threads = int(n)
    set_blas_threads(_threads)


def parallel_for(n_items: int, fn: RangeFn, grain: int = 1) -> None:
    """Call ``fn(start, stop)`` for chunks of at most ``grain`` items that cover ``range(n_items)``.

    Chunks run on the calling thread and on the pool, in no set order; the call returns when all are done. It
    pays when one numpy call of a chunk takes tens of microseconds. From inside a chunk it runs serially.
    The first error stops the handing out of chunks and is raised here.
    """
    chunks = -(-n_items // grain)
    helpers = min(num_threads(), chunks) - 1
    if helpers <= 0 or _inside.helper:
        for start in range(0, n_items, grain):
            fn(start, min(start + grain, n_items))
        return
    job = _Job(n_items, fn, grain)
    _pool.offer(job, helpers)
    job.work()
    job.finish()
