"""Training a PP-OCR model with oarlock and PaddlePaddle side by side: ratios in one run.

    python bench/training.py --model FOLDER [--paddle-python OTHER/bin/python] [--rounds 2] [--shape 1,3,320,320]

``FOLDER`` holds ``inference.pdmodel``, ``.pdiparams`` and ``.info`` (``examples/ocr_models.py`` fetches them). Shown
are the load time with and without the ``.info`` file, the time to build the backward program, and the time of a
training step (forward, a mean over the output, backward, Momentum) with the peak memory of its process. Every kind of
measurement runs in a process of its own, both sides in turn and with the same number of threads; medians over all
rounds count.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

Facts = dict[str, float]


# In the worker processes


def engine(name: str, threads: int) -> Any:
    """The module under test."""
    if name == "paddle":
        import paddle  # type: ignore[import-not-found]

        return paddle
    import oarlock
    from oarlock.executor.parallel import set_num_threads

    set_num_threads(threads)
    return oarlock


def milliseconds(call: Callable[[], Any], times: int) -> float:
    """The median of some calls."""
    taken = []
    for _ in range(times):
        begin = time.perf_counter()
        call()
        taken.append(1e3 * (time.perf_counter() - begin))
    return statistics.median(taken)


def measure_load(module: Any, prefix: str, bare: str) -> Facts:
    """Loading in turn with and without the ``.info`` file, when a first load has imported what it needs."""
    module.jit.load(prefix)
    whole, without = [], []
    for _ in range(7):
        whole.append(milliseconds(lambda: module.jit.load(prefix), 1))
        without.append(milliseconds(lambda: module.jit.load(bare), 1))
    return {"load_ms": statistics.median(whole), "load_without_info_ms": statistics.median(without)}


def measure_append(module: Any, prefix: str) -> Facts:
    """Building the train program of a loaded layer, and cutting it into its two halves."""
    holders = [module.jit.load(prefix)._program_holder_dict["forward"] for _ in range(4)]
    whole, slices = [], []
    for holder in holders:
        whole.append(milliseconds(lambda holder=holder: holder.train_program, 1))
        slices.append(milliseconds(lambda holder=holder: (holder.forward_program, holder.backward_program), 1))
    return {"append_ms": statistics.median(whole[1:]), "slices_ms": statistics.median(slices[1:])}


def measure_step(module: Any, prefix: str, shape: list[int], steps: int) -> Facts:
    """Training steps; the first one apart, which builds the backward program."""
    import numpy as np

    layer = module.jit.load(prefix)
    layer.train()
    parameters = [each for each in layer.parameters() if not each.stop_gradient]
    optimizer = module.optimizer.Momentum(1e-4, 0.9, parameters=parameters)
    rng = np.random.default_rng(0)
    x = module.to_tensor(rng.standard_normal(shape, np.float32))
    weights: list[Any] = []

    def step() -> None:
        output = layer(x)
        output = output[0] if isinstance(output, (list, tuple)) else output
        output.stop_gradient = False  # real Paddle 2.6.2 hands out outputs that stop the gradient
        if not weights:  # a plain mean of probabilities would have no gradient
            weights.append(module.to_tensor(rng.standard_normal(output.shape, np.float32)))
        (output * weights[0]).mean().backward()
        optimizer.step()
        optimizer.clear_grad()

    first = milliseconds(step, 1)
    before = [each.numpy() for each in parameters]
    steady = milliseconds(step, steps)
    assert any(not np.array_equal(a, b.numpy()) for a, b in zip(before, parameters, strict=True))  # it does train
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"first_step_ms": first, "step_ms": steady, "peak_mb": peak}


def work(args: argparse.Namespace) -> int:
    """One measurement, as JSON."""
    module = engine(args.engine, args.threads)
    if args.worker == "load":
        facts = measure_load(module, args.prefix, args.bare)
    elif args.worker == "append":
        facts = measure_append(module, args.prefix)
    else:
        facts = measure_step(module, args.prefix, [int(each) for each in args.shape.split(",")], args.steps)
    print(json.dumps(facts))
    return 0


# In the parent process


def run(args: argparse.Namespace, name: str, worker: str, prefix: Path, bare: Path) -> Facts:
    """One measurement in a fresh process."""
    python = args.paddle_python if name == "paddle" else sys.executable
    command = [python, __file__, "--worker", worker, "--engine", name, "--prefix", str(prefix), "--bare", str(bare)]
    command += ["--threads", str(args.threads), "--shape", args.shape, "--steps", str(args.steps)]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("OPENBLAS_")}
    environment |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), str(args.threads))
    if name == "paddle":
        environment.pop("PYTHONPATH", None)
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        raise SystemExit(f"{name} {worker}: {done.stderr.strip()[-600:]}")
    return {key: float(value) for key, value in json.loads(done.stdout.splitlines()[-1]).items()}


def without_info(model: Path, folder: Path) -> Path:
    """The prefix of a copy that lacks the ``.info`` file."""
    for suffix in (".pdmodel", ".pdiparams"):
        shutil.copy(model / f"inference{suffix}", folder / f"inference{suffix}")
    return folder / "inference"


def measure(args: argparse.Namespace) -> dict[str, list[float]]:
    """All rounds: ``<engine> <what>`` -> values."""
    found: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        bare = without_info(args.model, Path(folder))
        whole = args.model / "inference"
        engines = ["oarlock", "paddle"] if args.paddle_python else ["oarlock"]
        for _ in range(args.rounds):
            for name in engines:
                for worker in ("load", "append", "step"):
                    for key, value in run(args, name, worker, whole, bare).items():
                        found.setdefault(f"{name} {key}", []).append(value)
    return found


def report(found: dict[str, list[float]]) -> None:
    """One line per figure, with the ratio where both sides have it."""
    ours = {key.partition(" ")[2]: statistics.median(v) for key, v in found.items() if key.startswith("oarlock")}
    for key, value in ours.items():
        theirs = found.get(f"paddle {key}")
        tail = "" if theirs is None else f"  Paddle {statistics.median(theirs):9.1f}"
        ratio = "" if theirs is None else f"  ratio {value / statistics.median(theirs):.2f}"
        print(f"{key:28} {value:9.1f}{tail}{ratio}")
    ratio = ours["load_without_info_ms"] / ours["load_ms"]
    print(f"load without .info over with: {ratio:.2f}")


def main(argv: Sequence[str] | None = None) -> int:
    """Command line entry."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", type=Path, help="a folder with inference.pdmodel, .pdiparams and .info")
    parser.add_argument("--paddle-python", default="", help="a Python with paddlepaddle 2.6 installed")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--shape", default="1,3,320,320")
    parser.add_argument("--threads", type=int, default=2)
    for hidden in ("--worker", "--engine", "--prefix", "--bare"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.worker:
        return work(args)
    report(measure(args))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
