"""``oarlock bench``: load time, first call, steady latency, time per operator, peak memory."""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Sequence
from typing import Any

from ..executor.interpreter import profile
from ..executor.parallel import set_num_threads
from ..executor.runner import InferenceRunner
from ..ir.desc import OpDesc
from .model import add_input_argument, add_model_arguments, human_bytes, load, parse_inputs
from .progress import Progress

__all__ = ["add_parser"]


def add_parser(commands: Any) -> None:
    """Register the command."""
    parser = commands.add_parser(
        "bench",
        help="measure a model",
        description="Measure loading, the first call (which builds the plan), steady calls, the share of each "
        "operator, and the peak memory of the process.",
    )
    add_model_arguments(parser)
    add_input_argument(parser, required=False)
    parser.add_argument("--repeat", type=_positive, default=20, help="steady calls (default: 20)")
    parser.add_argument("--threads", type=_positive, help="threads that operators may use (default: all CPUs)")
    parser.add_argument("--top", type=int, default=12, help="rows of the operator table (default: 12)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(handler=_bench)


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not at least 1")
    return number


def _bench(args: argparse.Namespace) -> int:
    if args.threads:
        set_num_threads(args.threads)
    start = time.perf_counter()
    loaded = load(args)
    runner = loaded.runner()
    load_time = time.perf_counter() - start
    inputs = parse_inputs(args.input, loaded)
    start = time.perf_counter()
    runner.run(inputs)
    first = time.perf_counter() - start
    steady = _steady(runner, inputs, args.repeat)
    facts = {
        "load_ms": 1e3 * load_time,
        "first_call_ms": 1e3 * first,
        "steady_median_ms": 1e3 * statistics.median(steady),
        "steady_min_ms": 1e3 * min(steady),
        "peak_memory_bytes": _peak_memory(),
        "operators_ms": _per_operator(runner, inputs, min(args.repeat, 5)),
    }
    if args.json:
        print(json.dumps(facts, indent=2))
    else:
        _print(facts, args.top)
    return 0


def _steady(runner: InferenceRunner, inputs: Sequence[Any], repeat: int) -> list[float]:
    times = []
    with Progress("steady calls", repeat) as progress:
        for _ in range(repeat):
            start = time.perf_counter()
            runner.run(inputs)
            times.append(time.perf_counter() - start)
            progress.step()
    return times


def _per_operator(runner: InferenceRunner, inputs: Sequence[Any], repeat: int) -> dict[str, float]:
    """Op type -> milliseconds a call, control-flow ops with what runs inside them."""
    totals: dict[str, float] = {}

    def record(op: OpDesc, seconds: float) -> None:
        totals[op.type] = totals.get(op.type, 0.0) + seconds

    with profile(record):
        for _ in range(repeat):
            runner.run(inputs)
    ordered = sorted(totals.items(), key=lambda item: -item[1])
    return {name: 1e3 * seconds / repeat for name, seconds in ordered}


def _peak_memory() -> int | None:
    """The largest resident size of this process so far, in bytes; None where the system does not tell."""
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _print(facts: dict[str, Any], top: int) -> None:
    print(f"load          {facts['load_ms']:9.2f} ms")
    print(f"first call    {facts['first_call_ms']:9.2f} ms")
    print(f"steady        {facts['steady_median_ms']:9.2f} ms median, {facts['steady_min_ms']:.2f} ms best")
    if facts["peak_memory_bytes"] is not None:
        print(f"peak memory   {human_bytes(facts['peak_memory_bytes']):>12}")
    rows = facts["operators_ms"]
    total = sum(rows.values()) or 1.0
    width = max(map(len, rows), default=8)
    print(f"\n{'operator':<{width}} {'ms':>9} {'share':>7}")
    for name, spent in list(rows.items())[:top]:
        print(f"{name:<{width}} {spent:9.3f} {spent / total:7.1%}")
