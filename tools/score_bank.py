"""Run the op bank (one-op models with outputs and gradients of real Paddle) and print a score table.

    python tools/score_bank.py --shared ../shared [--ops conv2d,pool2d] [--family conv] [--verbose] [--json OUT]
    python tools/score_bank.py --shared ../shared --against tests/data/scores/bank.json

With ``--against`` the exit code is 1 when a case that the committed table counts as passed fails now.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import time
import warnings
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from oarlock.executor.kernels import import_families
from oarlock.executor.plan import PlanRequest, compile_block
from oarlock.executor.values import LoDTensor, SelectedRows, array_of
from oarlock.ir import ProgramDesc
from oarlock.ir.backward import append_gradients
from oarlock.ir.dtypes import bfloat16, is_bfloat16
from oarlock.ir.feeding import strip_feed_fetch
from oarlock.ir.program_io import read_program
from oarlock.ir.registry import find
from oarlock.ir.saved_model import missing_operators
from oarlock.ir.train_mode import add_residuals
from oarlock.ir.verify import verify


@dataclass(frozen=True)
class Outcome:
    """How one case went: per direction "pass", "fail", "missing" or "none", with the reason."""

    case: str
    op: str
    forward: str
    gradient: str
    note: str = ""


def load_reader(shared: Path) -> ModuleType:
    """The bank's own reader module."""
    spec = importlib.util.spec_from_file_location("read_opbank", shared / "opbank" / "read_opbank.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["read_opbank"] = module
    spec.loader.exec_module(module)
    return module


def _feed(case: Any, name: str) -> Any:
    array = case.inputs[name]
    if case.dtype(name) == "bfloat16":
        array = array.view(bfloat16())
    lengths = case.lods.get(name)
    return LoDTensor.from_lengths(array, lengths) if lengths else array


def _plain(value: Any) -> np.ndarray[Any, Any]:
    array = array_of(value)
    return array.view(np.uint16) if is_bfloat16(array.dtype) else array


def _check(reader: ModuleType, got: Any, want: Any, tol: tuple[float, float], dtype: str) -> str:
    if got is None:
        return "no value"
    if isinstance(got, list):
        return f"a list of {len(got)}"
    plain = _plain(got)
    if plain.dtype != want.dtype:
        return f"dtype {plain.dtype}, expected {want.dtype}"
    if plain.shape != want.shape:
        return f"shape {list(plain.shape)}, expected {list(want.shape)}"
    ok, worst = reader.compare(plain, want, *tol, dtype=dtype)
    return "" if ok else f"differs by {worst:.3g}"


def _check_lod(got: Any, lengths: Sequence[Sequence[int]] | None) -> str:
    if not lengths:
        return ""
    have = got.lengths() if isinstance(got, LoDTensor) else []
    return "" if have == [list(level) for level in lengths] else f"LoD {have}, expected {lengths}"


def _random_check(got: Any, meta: Mapping[str, Any], name: str) -> str:
    plain = _plain(got)
    shape, dtype = meta["out_shapes"][name], meta["dtypes"][name]
    if list(plain.shape) != list(shape):
        return f"shape {list(plain.shape)}, expected {shape}"
    named = "bfloat16" if dtype == "bfloat16" else plain.dtype.name
    return "" if named == dtype else f"dtype {plain.dtype}, expected {dtype}"


def _run_forward(reader: ModuleType, case: Any, program: ProgramDesc, feeds: list[Any]) -> list[str]:
    stripped = strip_feed_fetch(program)
    lod = bool(case.lods)
    request = PlanRequest(tuple(stripped.feeds), tuple(stripped.fetches), lod=lod or _has_lod_ops(stripped.program))
    got = compile_block(stripped.program, 0, request).run(feeds)
    faults = []
    for name, value in zip(stripped.fetches, got, strict=True):
        if name in case.outputs:
            fault = _check(reader, value, case.outputs[name], case.tol, case.dtype(name))
            fault = fault or _check_lod(value, case.lods.get(name))
        else:
            fault = _random_check(value, case.meta, name)
        if fault:
            faults.append(f"{name}: {fault}")
    return faults


def _has_lod_ops(program: ProgramDesc) -> bool:
    return any((found := find(op.type)) is not None and found.lod for block in program.blocks for op in block.ops)


def _run_gradient(reader: ModuleType, case: Any, program: ProgramDesc, feeds: list[Any]) -> list[str]:
    stripped = strip_feed_fetch(program)
    work = stripped.program.copy()
    targets = [name for name in stripped.fetches if name in case.douts]
    read = {name for op in work.global_block.ops for name in op.input_names()}
    seeds = [f"{name}@SEED" if name in read else f"{name}@GRAD" for name in targets]
    for name, seed in zip(targets, seeds, strict=True):
        var = work.global_block.vars[name]
        work.global_block.vars[seed] = type(var)(seed, var.kind, var.dtype, var.shape)
    add_residuals(work)
    made = append_gradients(work, targets, target_gradients=seeds)
    wanted = [name for name in case.grads if name in made]
    request = PlanRequest(
        (*stripped.feeds, *seeds),
        tuple(made[name] for name in wanted),
        keep=frozenset({"@training"}),
        lod=bool(case.lods) or _has_lod_ops(work),
    )
    cotangents = [c.view(bfloat16()) if case.dtype(n) == "bfloat16" else c for n in targets for c in [case.douts[n]]]
    cotangents = [
        LoDTensor.from_lengths(c, case.lods[n]) if case.lods.get(n) else c
        for n, c in zip(targets, cotangents, strict=True)
    ]
    got = compile_block(work, 0, request).run([*feeds, *cotangents])
    faults = [f"{name}@GRAD: not made" for name in case.grads if name not in made]
    for name, value in zip(wanted, got, strict=True):
        dense = value.to_dense() if isinstance(value, SelectedRows) else value
        fault = _check(reader, dense, case.grads[name], case.grad_tol, case.dtype(name))
        if fault:
            faults.append(f"{name}@GRAD: {fault}")
    return faults


def run_case(reader: ModuleType, case: Any) -> Outcome:
    """Run one case in both directions."""
    forward, gradient, notes, program = "pass", "none", [], None
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            program = read_program(case.model, source=case.case_id)
            verify(program, case.case_id)
            feeds = [_feed(case, name) for name in case.meta["inputs"]]
            faults = _run_forward(reader, case, program, feeds)
        except Exception as error:  # a score table reports every kind of failure and goes on
            faults = [f"{type(error).__name__}: {error}"]
        lacking = program is not None and bool(missing_operators(program))
        if faults:
            forward = "missing" if lacking else "fail"
            notes += faults
        if case.grads and program is not None and not lacking:
            try:
                faults = _run_gradient(reader, case, program, feeds)
            except Exception as error:  # as above
                faults = [f"gradient: {type(error).__name__}: {error}"]
            gradient = "fail" if faults else "pass"
            if faults and not case.grad_is_conventional:
                faults = [f"(unconventional) {fault}" for fault in faults]
            notes += faults
        elif case.grads:
            gradient = "fail"
    notes += [f"warning: {w.message}" for w in caught if issubclass(w.category, RuntimeWarning)][:1]
    return Outcome(case.case_id, case.op_type, forward, gradient, "; ".join(notes)[:700])


def _run_op(job: tuple[str, str]) -> list[Outcome]:
    shared, op = job
    reader = load_reader(Path(shared))
    return [run_case(reader, case) for case in reader.cases(str(Path(shared) / "opbank"), ops=[op])]


def _family(op: str) -> str:
    found = find(op)
    return found.family if found is not None else "(missing)"


def print_table(outcomes: Sequence[Outcome], by: str) -> None:
    """One line a group: cases, forward passes, gradient passes."""
    groups: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        groups.setdefault(_family(outcome.op) if by == "family" else outcome.op, []).append(outcome)
    print(f"{by:32} {'cases':>6} {'forward':>14} {'gradient':>14}")
    for name in sorted(groups):
        print(_row(name, groups[name]))
    print(_row("total", outcomes))


def _row(name: str, outcomes: Sequence[Outcome]) -> str:
    forward = sum(o.forward == "pass" for o in outcomes)
    with_gradient = [o for o in outcomes if o.gradient != "none"]
    gradient = sum(o.gradient == "pass" for o in with_gradient)
    return f"{name:32} {len(outcomes):6} {f'{forward}/{len(outcomes)}':>14} {f'{gradient}/{len(with_gradient)}':>14}"


def compare_with(outcomes: Sequence[Outcome], path: Path) -> list[str]:
    """Cases that the committed table counts as passed and that fail now."""
    committed = json.loads(path.read_text())
    dropped = []
    for outcome in outcomes:
        old = committed.get(outcome.case, {})
        for direction in ("forward", "gradient"):
            if old.get(direction) == "pass" and getattr(outcome, direction) != "pass":
                dropped.append(f"{outcome.case} {direction}: {outcome.note}")
    return dropped


def main(argv: Sequence[str] | None = None) -> int:
    """Command line entry."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--shared", default="../shared", help="the folder that holds opbank/")
    parser.add_argument("--ops", default="", help="comma-separated op types")
    parser.add_argument("--family", default="", help="only ops of these kernel families (comma-separated)")
    parser.add_argument("--by", choices=("op", "family"), default="")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--verbose", action="store_true", help="show every note, not only those of failures")
    parser.add_argument("--json", default="", help="write the outcomes there")
    parser.add_argument("--against", default="", help="a committed table; exit 1 on a drop")
    args = parser.parse_args(argv)
    start = time.perf_counter()
    reader = load_reader(Path(args.shared))
    ops = [o for o in args.ops.split(",") if o] or reader.op_types(str(Path(args.shared) / "opbank"))
    if args.family:
        import_families()
        ops = [op for op in ops if _family(op) in args.family.split(",")]
    with ProcessPoolExecutor(args.jobs) as pool:
        outcomes = [o for part in pool.map(_run_op, [(args.shared, op) for op in ops], chunksize=4) for o in part]
    for outcome in outcomes:
        if (
            "fail" in (outcome.forward, outcome.gradient)
            or outcome.forward == "missing"
            or (args.verbose and outcome.note)
        ):
            print(f"{outcome.case}: forward {outcome.forward}, gradient {outcome.gradient}: {outcome.note}")
    print_table(outcomes, args.by or ("op" if len(ops) <= 60 else "family"))
    print(f"{time.perf_counter() - start:.1f} s")
    if args.json:
        table = {o.case: {"forward": o.forward, "gradient": o.gradient} for o in outcomes}
        Path(args.json).write_text(json.dumps(table, indent=0, sort_keys=True) + "\n")
    dropped = compare_with(outcomes, Path(args.against)) if args.against else []
    for line in dropped:
        print(f"DROPPED {line}")
    return 1 if dropped else 0


if __name__ == "__main__":
    raise SystemExit(main())
