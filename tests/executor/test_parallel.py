"""The thread helper."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from oarlock.executor import parallel


@pytest.fixture(autouse=True)
def _restored():
    before = parallel.num_threads()
    yield
    parallel.set_num_threads(before)


@pytest.mark.parametrize("threads", [1, 2, 5])
@pytest.mark.parametrize(("items", "grain"), [(0, 1), (1, 1), (10, 3), (100, 7), (8, 100)])
def test_every_item_is_done_once(threads, items, grain) -> None:
    parallel.set_num_threads(threads)
    done = np.zeros(items, int)

    def work(start: int, stop: int) -> None:
        assert 0 < stop - start <= grain
        done[start:stop] += 1

    parallel.parallel_for(items, work, grain)
    assert np.all(done == 1)


def test_chunks_run_side_by_side() -> None:
    parallel.set_num_threads(2)
    meet = threading.Barrier(2, timeout=20)
    parallel.parallel_for(2, lambda start, stop: meet.wait() and None)


def test_an_error_reaches_the_caller_and_the_pool_lives_on() -> None:
    parallel.set_num_threads(3)

    def work(start: int, stop: int) -> None:
        if start == 5:
            raise ValueError("chunk five")

    with pytest.raises(ValueError, match="chunk five"):
        parallel.parallel_for(50, work)
    test_every_item_is_done_once(3, 100, 7)


def test_inside_a_chunk_it_runs_on() -> None:
    parallel.set_num_threads(2)
    done = np.zeros((6, 6), int)

    def outer(start: int, stop: int) -> None:
        for i in range(start, stop):
            parallel.parallel_for(6, lambda a, b, i=i: done[i].__setitem__(slice(a, b), 1))

    parallel.parallel_for(6, outer)
    assert done.all()


def test_helpers_keep_the_callers_error_state() -> None:
    parallel.set_num_threads(2)
    meet = threading.Barrier(2, timeout=20)
    seen = []

    def work(start: int, stop: int) -> None:
        meet.wait()
        seen.append(np.geterr()["divide"])

    with np.errstate(divide="raise"):
        parallel.parallel_for(2, work)
    assert seen == ["raise", "raise"]


def test_many_callers_at_once() -> None:
    parallel.set_num_threads(2)
    results = [0] * 8

    def call(n: int) -> None:
        for _ in range(50):
            total = np.zeros(20)
            parallel.parallel_for(20, lambda a, b, total=total: total.__setitem__(slice(a, b), n), 3)
            results[n] += int(total.sum()) == 20 * n

    threads = [threading.Thread(target=call, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [50] * 8


def test_a_number_below_one_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1, got 0"):
        parallel.set_num_threads(0)


@pytest.mark.parametrize(("text", "want"), [("3", 3), ("2,1", 2), ("x", None), ("", None), ("-1", None)])
def test_the_default_follows_omp_num_threads(text, want, monkeypatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", text)
    monkeypatch.setattr(parallel, "_threads", None)
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    assert parallel.num_threads() == want if want else 1 <= parallel.num_threads() <= cpus


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_makes_its_own_pool() -> None:
    script = (
        "import os, numpy as np\n"
        "from oarlock.executor import parallel\n"
        "parallel.set_num_threads(2)\n"
        "def run():\n"
        "    done = np.zeros(40)\n"
        "    parallel.parallel_for(40, lambda a, b: done.__setitem__(slice(a, b), 1))\n"
        "    return done.all()\n"
        "assert run()\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    os._exit(0 if run() else 1)\n"
        "assert os.waitpid(child, 0)[1] == 0 and run()\n"
    )
    root = Path(parallel.__file__).resolve().parents[2]
    path = os.pathsep.join([str(Path(p)) for p in sys.path if p] or [str(root)])
    subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script],
        check=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": path},
    )


def test_matrix_products_follow_the_number_of_threads() -> None:
    script = (
        "import time, numpy as np\n"
        "from oarlock.executor.parallel import set_num_threads\n"
        "a = np.ones((1200, 1200), np.float32)\n"
        "a @ a\n"
        "set_num_threads(1)\n"
        "wall, cpu = time.perf_counter(), time.process_time()\n"
        "for _ in range(6): a @ a\n"
        "wall, cpu = time.perf_counter() - wall, time.process_time() - cpu\n"
        "assert cpu <= 1.25 * wall + 0.05, (cpu, wall)\n"
    )
    path = os.pathsep.join(str(Path(p)) for p in sys.path if p)
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60, env={**os.environ, "PYTHONPATH": path})
