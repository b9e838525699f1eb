"""Run the train programs that oarlock builds in real Paddle and compare outputs and gradients.

    python tools/check_train_program.py --paddle PADDLE_PYTHON --shared ../shared --cache CACHE --models lenet,vit_tiny

The train program of a zoo model (forward in train mode, one seed per output, backward) is serialized as it is;
only the seeds are multiplied by fed cotangents, so that no gradient is trivial. Real Paddle 2.6 runs it with its
own executor. Programs that draw random numbers (dropout) are left out: the numbers differ. The exit code is 1
when Paddle refuses a program or a value differs.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import oarlock
from oarlock.executor.plan import PlanRequest, compile_block
from oarlock.executor.values import array_of
from oarlock.ir import ProgramDesc
from oarlock.ir.desc import EMPTY_VAR, OpDesc, VarDesc
from oarlock.ir.program_io import write_program
from score_zoo import load_model, load_reader

RANDOM = frozenset({"dropout", "gaussian_random", "uniform_random", "randint", "bernoulli", "multinomial", "rrelu"})


@dataclass(frozen=True)
class Case:
    """A program, what it is fed and given, and what to fetch."""

    program: ProgramDesc
    feeds: dict[str, np.ndarray[Any, Any]]
    params: dict[str, np.ndarray[Any, Any]]
    fetches: list[str]


def is_random(program: ProgramDesc) -> bool:
    """Whether a run draws numbers."""
    ops = [op for block in program.blocks for op in block.ops if op.type in RANDOM]
    return any(op.type != "dropout" or op.attrs.get("dropout_prob", 0.5) > 0 for op in ops)


def train_case(layer: Any, arrays: Sequence[np.ndarray[Any, Any]], cotangent: Any) -> Case:
    """The train program of a loaded layer, with cotangents of the outputs among its feeds."""
    holder = layer.program_holder
    names = holder.grad_var_names
    program = holder.train_program.copy()
    feeds = dict(zip(holder.input_names, arrays, strict=True))
    params = {name: layer._tensors[name].numpy() for name in holder.persistable_names}
    layer.eval()
    outputs = layer(*arrays)
    shapes = [each.numpy() for each in (outputs if isinstance(outputs, list) else [outputs])]
    count = len(program.global_block.ops) - len(holder.backward_program.global_block.ops) - len(shapes)
    weighted = []
    for index, (seed, value) in enumerate(zip(program.global_block.ops[count:], shapes, strict=False)):
        if names.out[index] == EMPTY_VAR or value.dtype not in (np.float32, np.float64):
            continue
        feeds[f"cotangent_{index}"] = cotangent(index, value.shape).astype(value.dtype)
        weighted.append(_weigh(program, seed, f"cotangent_{index}"))
    at = count + len(shapes)
    program.global_block.ops[at:at] = weighted
    fetches = list(holder._train.outputs)
    fetches += [name for name in (*names.x, *names.param) if name != EMPTY_VAR]
    return Case(program, feeds, params, list(dict.fromkeys(fetches)))


def _weigh(program: ProgramDesc, seed: OpDesc, cotangent: str) -> OpDesc:
    """Let a seed op write ones elsewhere, and multiply them by a fed cotangent."""
    block = program.global_block
    gradient = seed.outputs["Out"][0]
    like = block.vars[gradient]
    ones = f"{gradient}@ONES"
    for name in (ones, cotangent):
        block.vars[name] = VarDesc(name, like.kind, like.dtype, like.shape, like.lod_level)
    seed.outputs["Out"] = [ones]
    product = OpDesc("elementwise_mul", {"X": [ones], "Y": [cotangent]}, {"Out": [gradient]})
    product.set_attr("axis", -1)
    return product


def run_here(case: Case) -> dict[str, np.ndarray[Any, Any]]:
    """What oarlock's executor makes of the program, every value fetched by name."""
    feeds = (*case.feeds, *case.params)
    made = {name for op in case.program.global_block.ops for name in op.output_names()}
    fetches = tuple(name for name in case.fetches if name in made)
    plan = compile_block(case.program, 0, PlanRequest(feeds, fetches))
    values = plan.run([*case.feeds.values(), *(each.copy() for each in case.params.values())])
    return {name: array_of(value) for name, value in zip(fetches, values, strict=True) if value is not None}


def run_in_paddle(case: Case, python: str) -> dict[str, np.ndarray[Any, Any]]:
    """What real Paddle makes of it.

    Raises:
        RuntimeError: Paddle refused; holds the last lines of what it said.
    """
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "program").write_bytes(write_program(case.program))
        for file, values in (("feeds", case.feeds), ("params", case.params)):
            np.savez(root / f"{file}.npz", **{f"a{i}": value for i, value in enumerate(values.values())})
        names = {"feeds": list(case.feeds), "params": list(case.params), "fetches": case.fetches}
        (root / "names.json").write_text(json.dumps(names))
        runner = Path(__file__).with_name("paddle_runner.py")
        done = subprocess.run([python, str(runner), folder], capture_output=True, text=True, env={}, check=False)
        if done.returncode:
            said = [line for line in done.stderr.splitlines() if line.strip() and "Hint" not in line]
            raise RuntimeError(" | ".join(line.strip() for line in said[-3:])[-600:] or f"code {done.returncode}")
        with np.load(root / "results.npz") as found:
            return {name: found[f"a{i}"] for i, name in enumerate(case.fetches) if f"a{i}" in found}


def differences(ours: dict[str, Any], theirs: dict[str, Any]) -> list[str]:
    """Where two sets of values differ by more than 1e-3 of the largest element.

    A gradient that is zero but for rounding (a bias before a batch norm) is measured against the largest of all.
    """
    faults = []
    floor = 1e-3 * max((float(np.abs(value).max()) for value in theirs.values() if value.size), default=0.0)
    for name in sorted(ours.keys() | theirs.keys()):
        if name not in ours or name not in theirs:
            faults.append(f"{name} is there in {'oarlock' if name in ours else 'Paddle'} only")
        elif ours[name].shape != theirs[name].shape:
            faults.append(f"{name} has shape {list(ours[name].shape)}, in Paddle {list(theirs[name].shape)}")
        elif ours[name].size:
            want = theirs[name].astype(np.complex128)
            off = np.abs(ours[name] - want).max() / max(np.abs(want).max(), floor, 1e-6)
            if off > 1e-3:
                faults.append(f"{name} is off by {off:.2g}")
    return faults


def check(shared: Path, cache: Path, name: str, fmt: str, python: str) -> str:
    """ "" when Paddle agrees, "skip ..." where it cannot be asked, else what is wrong."""
    reader = load_reader(shared)
    model = next(iter(reader.models(names=[name])))
    if fmt not in model.spec["formats"]:
        return f"skip: no format {fmt}"
    layer = load_model(model, fmt, cache)
    if is_random(layer.program_holder.infer_program):
        return "skip: draws random numbers"
    arrays = [
        np.asarray(value, oarlock.to_tensor(0.0).astype(spec["dtype"]).numpy().dtype)
        for value, spec in zip(model.inputs(0).values(), model.spec["inputs"], strict=True)
    ]
    case = train_case(layer, arrays, reader.cotangent)
    ours = run_here(case)
    try:
        theirs = run_in_paddle(case, python)
    except RuntimeError as error:
        return f"Paddle refuses: {error}"
    return "; ".join(differences(ours, theirs)[:3])


def main(argv: Sequence[str] | None = None) -> int:
    """Command line entry."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--paddle", required=True, help="a Python with paddlepaddle 2.6 installed")
    parser.add_argument("--shared", default="../shared", help="the folder that holds zoo/")
    parser.add_argument("--cache", required=True, help="where parameter files are written")
    parser.add_argument("--models", required=True, help="comma-separated names")
    parser.add_argument("--format", default="pdmodel")
    args = parser.parse_args(argv)
    wrong = 0
    names = args.models.split(",")
    for name in names:
        try:
            fault = check(Path(args.shared), Path(args.cache), name, args.format, args.paddle)
        except Exception as error:  # a table reports every kind of failure and goes on
            fault = f"oarlock: {type(error).__name__}: {error}"
        wrong += bool(fault) and not fault.startswith("skip")
        print(f"{name:32} {fault or 'agrees'}", flush=True)
    print(f"{wrong} of {len(names)} disagree")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
