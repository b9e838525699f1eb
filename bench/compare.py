"""oarlock and PaddlePaddle side by side on the PP-OCR models: time and memory as ratios, in one run.

    python bench/compare.py --paddle-python OTHER/bin/python [--rounds 3] [--calls 10]

Every measurement runs in processes of its own, oarlock's and Paddle's in turn, both with the same number of
threads; the median over all rounds counts. Paddle runs through ``paddle.jit.load``. The models are those of
``examples/`` and come into the same cache folder.

The variables OPENBLAS_CORETYPE and OPENBLAS_L2_SIZE are taken out of the environment of the benchmark's own
processes, and of nothing else: where they are set, they hold the BLAS of both sides to an older processor. Compiled
modules are kept in a temporary folder, as an installed package keeps them beside its files; one run of each side
before the first round fills it.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).resolve().parent
SHAPES = {"det": (1, 3, 640, 640), "rec": (1, 3, 48, 320), "cls": (1, 3, 48, 192)}
TINY_OPS = 1000
GROWTH_CALLS, GROWTH_SIZES, GROWTH_WARM = 300, 30, 90

Facts = dict[str, float]


# In the worker processes


class Engine:
    """``load(prefix) -> call(array) -> array`` of either side."""

    def __init__(self, name: str, threads: int) -> None:
        start = time.perf_counter()
        if name == "paddle":
            import paddle  # type: ignore[import-not-found]

            paddle.set_grad_enabled(False)
            self._module = paddle
        else:
            import oarlock
            import oarlock.jit  # a room is imported at its first use; that is part of the import here
            from oarlock.executor.parallel import set_num_threads

            set_num_threads(threads)
            self._module = oarlock
        self.import_ms = 1e3 * (time.perf_counter() - start)

    def load(self, prefix: str) -> Any:
        """A function from an array to the first output as an array."""
        layer = self._module.jit.load(prefix)
        layer.eval()
        to_tensor = self._module.to_tensor

        def call(x: Any) -> Any:
            made = layer(to_tensor(x))
            return (made[0] if isinstance(made, (list, tuple)) else made).numpy()

        return call


def random_input(shape: tuple[int, ...]) -> Any:
    """The same values on both sides."""
    return np.random.default_rng(0).standard_normal(shape, np.float32)


def measure_model(engine: Engine, prefix: str, shape: tuple[int, ...], calls: int) -> Facts:
    """Load, first call, steady calls."""
    x = random_input(shape)
    start = time.perf_counter()
    call = engine.load(prefix)
    loaded = time.perf_counter()
    call(x)
    first = time.perf_counter()
    steady = []
    for _ in range(calls):
        begin = time.perf_counter()
        call(x)
        steady.append(time.perf_counter() - begin)
    return {
        "import_ms": engine.import_ms,
        "load_ms": 1e3 * (loaded - start),
        "first_ms": 1e3 * (first - loaded),
        "steady_ms": 1e3 * statistics.median(steady),
    }


def measure_fresh(engine: Engine, prefix: str) -> Facts:
    """One detection in a fresh process, and the most memory it took; the caller stops the time."""
    import resource

    engine.load(prefix)(random_input(SHAPES["det"]))
    return {"peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def measure_growth(engine: Engine, prefix: str) -> Facts:
    """Resident memory after many calls over many sizes, over what it was when every size had come thrice."""
    call = engine.load(prefix)
    sizes = [(1, 3, 64 + 32 * (i % 6), 64 + 32 * (i // 6)) for i in range(GROWTH_SIZES)]
    inputs = [random_input(size) for size in sizes]
    before = 0.0
    for index in range(GROWTH_CALLS):
        call(inputs[index * 7 % GROWTH_SIZES])
        if index + 1 == GROWTH_WARM:
            before = resident_mb()
    return {"growth": resident_mb() / before, "resident_mb": resident_mb()}


def resident_mb() -> float:
    """Resident memory of this process now."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def measure_tiny(engine: Engine, prefix: str, calls: int) -> Facts:
    """Microseconds an op of a program of tiny ops, and of the numpy calls alone."""
    call = engine.load(prefix)
    x, w = np.ones(4, np.float32), np.full(4, 0.5, np.float32)
    call(x)

    def plain() -> None:
        value = x
        for _ in range(TINY_OPS // 2):
            value = np.maximum(np.subtract(value, w), 0)

    per_op = 1e6 / TINY_OPS
    return {"op_us": per_op * best_time(lambda: call(x), calls), "numpy_us": per_op * best_time(plain, calls)}


def best_time(work: Any, calls: int) -> float:
    """The shortest of several runs: what is measured is overhead, the rest is other people's load."""
    times = []
    for _ in range(max(calls, 5)):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def work(args: argparse.Namespace) -> Facts:
    """One measurement, in a worker process."""
    engine = Engine(args.engine, args.threads)
    if args.worker == "fresh":
        return measure_fresh(engine, args.prefix)
    if args.worker == "growth":
        return measure_growth(engine, args.prefix)
    if args.worker == "tiny":
        return measure_tiny(engine, args.prefix, args.calls)
    return measure_model(engine, args.prefix, SHAPES[args.worker], args.calls)


# In the process that compares


def write_tiny_program(prefix: Path) -> None:
    """``relu(x - w)`` again and again: no op of it can be left out, and each does next to nothing."""
    from oarlock.ir import BlockDesc, ProgramDesc, VarDesc
    from oarlock.ir.desc import VarKind
    from oarlock.ir.dtypes import DType
    from oarlock.ir.program_io import write_program
    from oarlock.proto.pdiparams import write_params

    block = BlockDesc(0)
    block.vars["x"] = VarDesc("x", dtype=DType.FP32, shape=(4,))
    block.vars["w"] = VarDesc("w", dtype=DType.FP32, shape=(4,), persistable=True)
    block.vars["feed"] = VarDesc("feed", VarKind.FEED_MINIBATCH, persistable=True)
    block.vars["fetch"] = VarDesc("fetch", VarKind.FETCH_LIST, persistable=True)
    block.ops.append(_op("feed", {"X": "feed"}, "x", "col", 0))
    value = "x"
    for index in range(TINY_OPS):
        name = f"v{index}"
        block.vars[name] = VarDesc(name, dtype=DType.FP32, shape=(4,))
        if index % 2:
            block.ops.append(_op("relu", {"X": value}, name))
        else:
            block.ops.append(_op("elementwise_sub", {"X": value, "Y": "w"}, name, "axis", -1))
        value = name
    block.ops.append(_op("fetch", {"X": value}, "fetch", "col", 0))
    prefix.with_suffix(".pdmodel").write_bytes(write_program(ProgramDesc([block], version=2006002)))
    write_params(prefix.with_suffix(".pdiparams"), {"w": np.full(4, 0.5, np.float32)})


def _op(type: str, inputs: dict[str, str], output: str, attr: str = "", value: int = 0) -> Any:
    from oarlock.ir import AttrType, OpDesc

    op = OpDesc(type, {slot: [name] for slot, name in inputs.items()}, {"Out": [output]})
    if attr:
        op.set_attr(attr, value, AttrType.INT)
    return op


_LEFT_OUT = ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE", "PYTHONDONTWRITEBYTECODE")


def run_worker(python: str, engine: str, measure: str, prefix: Path, args: argparse.Namespace) -> Facts:
    """One measurement in a process of its own; ``wall_ms`` is its whole life."""
    environment = {name: value for name, value in os.environ.items() if name not in _LEFT_OUT}
    environment.update(OMP_NUM_THREADS=str(args.threads), OPENBLAS_NUM_THREADS=str(args.threads), GLOG_v="0")
    environment["PYTHONPYCACHEPREFIX"] = args.compiled
    if engine == "paddle":
        environment.pop("PYTHONPATH", None)
    command = [python, str(HERE / "compare.py"), "--worker", measure, "--engine", engine, "--prefix", str(prefix)]
    command += ["--threads", str(args.threads), "--calls", str(args.calls)]
    start = time.perf_counter()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    wall = time.perf_counter() - start
    if done.returncode:
        raise SystemExit(f"{engine} {measure} failed:\n{done.stderr[-3000:]}")
    facts: Facts = json.loads(done.stdout.splitlines()[-1])
    return {**facts, "wall_ms": 1e3 * wall}


def run_all(args: argparse.Namespace, models: Path, tiny: Path) -> dict[str, dict[str, Facts]]:
    """Engine -> measure -> medians over the rounds; the sides take turns."""
    pythons = {"oarlock": sys.executable, **({"paddle": args.paddle_python} if args.paddle_python else {})}
    prefixes = {name: models / name for name in SHAPES}
    prefixes.update(fresh=models / "det", growth=models / "det", tiny=tiny)
    for engine, python in pythons.items():
        run_worker(python, engine, "fresh", prefixes["fresh"], args)
    seen: dict[str, dict[str, list[Facts]]] = {engine: {name: [] for name in prefixes} for engine in pythons}
    for round_index in range(args.rounds):
        for name, prefix in prefixes.items():
            if name == "growth" and round_index:
                continue  # three hundred calls say enough
            for engine, python in pythons.items():
                seen[engine][name].append(run_worker(python, engine, name, prefix, args))
    return {engine: {name: medians(rounds) for name, rounds in of.items()} for engine, of in seen.items()}


def medians(rounds: list[Facts]) -> Facts:
    """Key by key."""
    return {key: statistics.median(each[key] for each in rounds) for key in rounds[0]}


# Title, measure, key, unit, what the ratio to Paddle should be at most.
ROWS = (
    ("det load", "det", "load_ms", "ms", 0.5),
    ("det first call", "det", "first_ms", "ms", None),
    ("det 1x3x640x640 steady", "det", "steady_ms", "ms", 1.0),
    ("rec load", "rec", "load_ms", "ms", 0.5),
    ("rec first call", "rec", "first_ms", "ms", None),
    ("rec 1x3x48x320 steady", "rec", "steady_ms", "ms", 1.0),
    ("cls load", "cls", "load_ms", "ms", 0.5),
    ("cls 1x3x48x192 steady", "cls", "steady_ms", "ms", None),
    ("import", "det", "import_ms", "ms", None),
    ("fresh process to first det output", "fresh", "wall_ms", "ms", 0.5),
    ("peak memory of that process", "fresh", "peak_mb", "MB", 1 / 3),
    ("memory after 300 calls over after 90", "growth", "growth", "x", None),
    ("program of 1000 tiny ops, an op", "tiny", "op_us", "us", None),
    ("the numpy calls of it alone, an op", "tiny", "numpy_us", "us", None),
)


def print_table(results: dict[str, dict[str, Facts]]) -> None:
    """One row a measure."""
    mine, theirs = results["oarlock"], results.get("paddle")
    print(f"{'measure':<38} {'oarlock':>11} {'Paddle':>11} {'ratio':>7} {'bar':>6}")
    for title, measure, key, unit, bar in ROWS:
        own = mine[measure][key]
        row = f"{title:<38} {own:>8.2f} {unit:<2}"
        if theirs is not None:
            other = theirs[measure][key]
            row += f" {other:>8.2f} {unit:<2} {own / other:>7.2f} {'' if bar is None else f'{bar:.2f}':>6}"
        print(row)
    overhead = mine["tiny"]["op_us"] - mine["tiny"]["numpy_us"]
    print(f"interpreter above numpy: {overhead:.2f} us an op (bar 3)")


def main() -> int:
    """Command line entry."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--paddle-python", help="a Python with PaddlePaddle; without it only oarlock is measured")
    parser.add_argument("--models", type=Path, help="folder with det, rec, cls; fetched into the cache when left out")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--calls", type=int, default=10)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", type=Path, help="write all medians there")
    for hidden in ("--worker", "--engine", "--prefix"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        print(json.dumps(work(args)))
        return 0
    models = args.models
    if models is None:
        sys.path.insert(0, str(HERE.parent / "examples"))
        from ocr_models import default_cache, fetch_models

        models = fetch_models(default_cache())
    with tempfile.TemporaryDirectory() as folder:
        args.compiled = str(Path(folder) / "compiled")
        write_tiny_program(Path(folder) / "tiny")
        results = run_all(args, models.resolve(), Path(folder) / "tiny")
    print(f"{args.threads} threads, medians of {args.rounds} rounds, {args.calls} steady calls each")
    print_table(results)
    if args.json:
        args.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
