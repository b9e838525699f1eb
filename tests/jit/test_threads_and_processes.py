"""One loaded layer under many threads (B91), and in forked, fork-served and spawned processes (B93)."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import oarlock
import pytest

THREADS, CALLS = 16, 40


def inputs_of(sample: Any, seed: int) -> Any:
    """An input of its own for each seed: its batch and its values differ."""
    shape = next(iter(sample.inputs().values())).shape
    return np.random.default_rng(seed).standard_normal((1 + seed % 7, *shape[1:]), np.float32)


@pytest.mark.parametrize("name", ["bn_finetune", "static_conv_bn", "slash_names"])
def test_every_thread_gets_its_own_answer(name: str, sample: Any) -> None:
    layer = oarlock.jit.load(sample(name).path)
    given = [inputs_of(sample(name), seed) for seed in range(THREADS)]
    serial = [oarlock.jit.load(sample(name).path)(each).numpy() for each in given]
    ready = threading.Barrier(THREADS)

    def work(index: int) -> int:
        ready.wait()  # the first calls, which build the plan, collide
        return sum(not np.array_equal(layer(given[index]).numpy(), serial[index]) for _ in range(CALLS))

    with ThreadPoolExecutor(THREADS) as pool:
        assert sum(pool.map(work, range(THREADS))) == 0


def test_loops_under_threads(sample: Any) -> None:
    layer = oarlock.jit.load(sample("cf_while_sum").path)
    x, n = sample("cf_while_sum").inputs().values()

    def work(turns: int) -> Any:
        return [each.numpy() for each in layer(x, np.full_like(n, turns))]

    serial = [work(turns) for turns in range(8)]
    with ThreadPoolExecutor(8) as pool:
        for mine, alone in zip(pool.map(work, range(8)), serial, strict=True):
            assert all(np.array_equal(a, b) for a, b in zip(mine, alone, strict=True))


_loaded: Any = None


def _load_and_run(path: Path, value: Any) -> Any:
    return oarlock.jit.load(path)(value).numpy()


def _run_loaded(value: Any) -> Any:
    return _loaded(value).numpy()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_loaded_and_used_before_the_fork(sample: Any) -> None:
    global _loaded
    _loaded = oarlock.jit.load(sample("static_conv_bn").path)
    value = inputs_of(sample("static_conv_bn"), 3)
    here = _loaded(value).numpy()
    with multiprocessing.get_context("fork").Pool(2) as pool:
        for there in pool.map(_run_loaded, [value] * 4):
            np.testing.assert_array_equal(there, here)
    np.testing.assert_array_equal(_loaded(value).numpy(), here)


@pytest.mark.parametrize("method", ["forkserver", "spawn"])
@pytest.mark.skipif(sys.platform == "win32", reason="forkserver needs a POSIX system")
def test_loaded_in_a_child(method: str, sample: Any, tmp_path: Path) -> None:
    value = inputs_of(sample("static_conv_bn"), 3)
    here = _load_and_run(sample("static_conv_bn").path, value)
    script = tmp_path / "child.py"  # a child of these kinds imports its main module, so it needs one of its own
    script.write_text(
        "import multiprocessing, sys\n"
        "import numpy as np\n"
        "import oarlock\n"
        "def run(job):\n"
        "    path, value = job\n"
        "    return oarlock.jit.load(path)(value).numpy()\n"
        "if __name__ == '__main__':\n"
        "    value = np.load(sys.argv[2])\n"
        f"    with multiprocessing.get_context({method!r}).Pool(1) as pool:\n"
        "        np.save(sys.argv[3], pool.map(run, [(sys.argv[1], value)])[0])\n",
        encoding="utf-8",
    )
    np.save(tmp_path / "in.npy", value)
    arguments = [sample("static_conv_bn").path, tmp_path / "in.npy", tmp_path / "out.npy"]
    subprocess.run([sys.executable, script, *map(str, arguments)], check=True, timeout=120)
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), here)
