"""Run the zoo (whole saved models with outputs of real Paddle) and print a score table.

    python tools/score_zoo.py --shared ../shared --cache CACHE [--models a,b] [--format pdmodel] [--train]
    python tools/score_zoo.py --shared ../shared --cache CACHE --against tests/data/scores/zoo.json

Inference goldens agree within rtol 1e-4 and atol 1e-5, or within 30 times the change that real Paddle shows
itself when inputs and parameters move by 1e-6 (``sensitivity`` of the golden). With ``--against`` the exit code
is 1 when a model that the committed table counts as passed fails now.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import oarlock
from zoo_training import check_finetunes, check_gradients

RTOL, ATOL = 1e-4, 1e-5
_COUNTED_WIDER = {"int32": "int64"}  # shapes are int64 in Paddle 3; goldens equal in value are stored once


@dataclass(frozen=True)
class Outcome:
    """How one model went in one format."""

    model: str
    format: str
    inference: str
    training: str = "none"
    note: str = ""
    seconds: float = 0.0

    @property
    def key(self) -> str:
        """What the committed table calls it."""
        return f"{self.model}/{self.format}"


def load_reader(shared: Path) -> ModuleType:
    """The zoo's own reader module."""
    spec = importlib.util.spec_from_file_location("read_zoo", shared / "zoo" / "read_zoo.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["read_zoo"] = module
    spec.loader.exec_module(module)
    return module


def load_model(model: Any, fmt: str, cache: Path) -> Any:
    """The loaded layer of a zoo model."""
    path = model.materialize(fmt, str(cache))
    how = model.spec["formats"][fmt]["load"]
    names = {key: how[key] for key in ("model_filename", "params_filename") if how.get(key)}
    return oarlock.jit.load(path, **names)


def compare(golden: Any, got: Any, sensitivity: float) -> str:
    """ "" when the value agrees with the golden, else what is wrong."""
    value = np.asarray(got)
    if list(value.shape) != list(golden.shape):
        return f"shape {list(value.shape)}, expected {list(golden.shape)}"
    if value.dtype.name not in (golden.dtype, "bfloat16", _COUNTED_WIDER.get(golden.dtype)):
        return f"dtype {value.dtype.name}, expected {golden.dtype}"
    deviation = golden.deviation(value)
    if deviation <= max(1e-5, 30 * sensitivity):
        return ""
    want = golden.full
    if want is None:
        size = value.size
        value, want = value.ravel()[np.arange(4096) * size // 4096], golden.samples
    if want.dtype.kind in "fc" and np.allclose(value, want, RTOL, ATOL, equal_nan=True):
        return ""
    return f"deviates by {deviation:.3g} of the largest value"


def _run_case(model: Any, layer: Any, fmt: str, case: int, sensitivity: float) -> list[str]:
    arrays = [
        _as_declared(value, spec) for value, spec in zip(model.inputs(case).values(), model.spec["inputs"], strict=True)
    ]
    outputs = layer(*arrays)
    flat = outputs if isinstance(outputs, list) else [outputs]
    goldens = model.outputs(case, fmt)
    if not goldens:
        return []
    if len(flat) != len(goldens):
        return [f"case {case}: {len(flat)} outputs, expected {len(goldens)}"]
    faults = []
    for index, (golden, got) in enumerate(zip(goldens, flat, strict=True)):
        fault = compare(golden, got.numpy(), sensitivity)
        if fault:
            faults.append(f"case {case} output {index}: {fault}")
    return faults


def _as_declared(value: np.ndarray[Any, Any], spec: dict[str, Any]) -> np.ndarray[Any, Any]:
    dtype = oarlock.to_tensor(0.0).astype(spec["dtype"]).numpy().dtype
    return value if value.dtype == dtype else value.astype(dtype)


def run_model(shared: str, cache: str, name: str, fmt: str, train: bool = False) -> Outcome:
    """Load one model and run all its cases; with ``train`` the training goldens too."""
    reader = load_reader(Path(shared))
    model = next(iter(reader.models(names=[name])))
    start = time.perf_counter()
    try:
        layer = load_model(model, fmt, Path(cache))
        sensitivity = model.spec["sensitivity"].get(fmt, {}).get("eval") or 0.0
        faults = [f for case in range(model.cases) for f in _run_case(model, layer, fmt, case, sensitivity)]
    except Exception as error:  # a score table reports every kind of failure and goes on
        faults = [f"{type(error).__name__}: {error}"]
    training, wrong = "none", []
    if train and (model.grads(fmt) is not None or model.finetunes(fmt)):
        noted: list[str] = []
        wrong = _training_faults(reader, model, fmt, Path(cache), noted)
        training = "fail" if wrong else ("right" if noted else "pass")
        wrong += noted
    note = "; ".join([*faults, *wrong])[:500]
    return Outcome(name, fmt, "fail" if faults else "pass", training, note, time.perf_counter() - start)


def _training_faults(reader: ModuleType, model: Any, fmt: str, cache: Path, noted: list[str]) -> list[str]:
    """What is wrong. Traces are not judged where the golden gradients proved wrong (``noted``)."""
    try:
        faults = list(check_gradients(reader, model, lambda: load_model(model, fmt, cache), fmt, noted))
        traces = list(check_finetunes(reader, model, lambda: load_model(model, fmt, cache), fmt))
        if noted:
            noted.extend(f"not judged, follows the golden gradient: {fault}" for fault in traces)
            return faults
        return faults + traces
    except Exception as error:  # as above
        return [f"training: {type(error).__name__}: {error}"]


def _job(job: tuple[str, str, str, str, bool]) -> Outcome:
    return run_model(*job)


def compare_with(outcomes: Sequence[Outcome], path: Path) -> list[str]:
    """Models that the committed table counts as passed and that fail now."""
    committed = json.loads(path.read_text())
    dropped = []
    for outcome in outcomes:
        for direction in ("inference", "training"):
            old = committed.get(outcome.key, {}).get(direction)
            if old in ("pass", "right") and getattr(outcome, direction) == "fail":
                dropped.append(f"{outcome.key} {direction}: {outcome.note}")
    return dropped


def main(argv: Sequence[str] | None = None) -> int:
    """Command line entry."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--shared", default="../shared", help="the folder that holds zoo/")
    parser.add_argument("--cache", required=True, help="where parameter files are written")
    parser.add_argument("--models", default="", help="comma-separated names")
    parser.add_argument("--format", default="pdmodel,pdmodel_by_3x", help="comma-separated formats")
    parser.add_argument("--max-mb", type=int, default=10000, help="leave out models with larger parameters")
    parser.add_argument("--train", action="store_true", help="run the training goldens too")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", default="", help="write the outcomes there")
    parser.add_argument("--against", default="", help="a committed table; exit 1 on a drop")
    args = parser.parse_args(argv)
    start = time.perf_counter()
    wanted = [name for name in args.models.split(",") if name] or None
    jobs = []
    for model in load_reader(Path(args.shared)).models(names=wanted):
        for fmt in args.format.split(","):
            files = model.spec["formats"].get(fmt, {}).get("files", {})
            if files and sum(f["size"] for f in files.values()) <= args.max_mb << 20:
                jobs.append((args.shared, args.cache, model.name, fmt, args.train))
    with ProcessPoolExecutor(args.jobs) as pool:
        outcomes = list(pool.map(_job, jobs))
    for o in outcomes:
        print(f"{o.key:44} {o.inference:5} {o.training:5} {o.seconds:6.2f} s  {o.note}")
    passed = sum(o.inference == "pass" for o in outcomes)
    trained = [o for o in outcomes if o.training != "none"]
    print(f"zoo inference: {passed} of {len(outcomes)} pass")
    if trained:
        agreed, right = (sum(o.training == how for o in trained) for how in ("pass", "right"))
        print(f"zoo training: {agreed + right} of {len(trained)} pass, {right} of them against a wrong golden")
    print(f"{time.perf_counter() - start:.0f} s")
    if args.json:
        table = {o.key: {"inference": o.inference, "training": o.training} for o in outcomes}
        Path(args.json).write_text(json.dumps(table, indent=0, sort_keys=True) + "\n")
    dropped = compare_with(outcomes, Path(args.against)) if args.against else []
    for line in dropped:
        print(f"DROPPED {line}")
    return 1 if dropped else 0


if __name__ == "__main__":
    raise SystemExit(main())
