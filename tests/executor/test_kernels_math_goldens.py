"""Activations, math functions, elementwise, comparison, conversion and Fourier operators against PaddlePaddle 2.6.2.

The numbers are in ``tests/data/executor/math.npz`` (its README tells the layout): inputs, outputs, cotangents and
gradients of one-op programs, with edge values, mixed shapes and attributes off their defaults. Left out are the
points where Paddle computes infinity times zero and the attributes that its newer kernels no longer read.
"""

from __future__ import annotations

import json
import warnings
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import oarlock.executor.kernels  # noqa: F401 - tells the registry how to find a type
import pytest
from oarlock.executor.plan import PlanRequest, compile_block
from oarlock.ir.backward import append_gradients
from oarlock.ir.desc import BlockDesc, OpDesc, ProgramDesc, VarDesc
from oarlock.ir.dtypes import DType, from_numpy

FILE = Path(__file__).resolve().parent.parent / "data" / "executor" / "math.npz"
TOLERANCE = {"float16": (2e-3, 1e-3), "float32": (1e-5, 1e-6), "float64": (1e-9, 1e-10)}
COMPLEX = (1e-5, 1e-6)  # Paddle's complex exponential is not exact beyond that, in complex128 either
VERSIONS = {"leaky_relu": 1, "hard_shrink": 1}


@cache
def load() -> tuple[list[dict[str, Any]], dict[str, np.ndarray[Any, Any]]]:
    with np.load(FILE) as file:
        meta, data = json.loads(file["meta"].tobytes()), file["data"].tobytes()
    arrays = {
        key: np.frombuffer(data, dtype, int(np.prod(shape, dtype=np.int64)), at).reshape(shape)
        for key, (dtype, shape, at) in meta["arrays"].items()
    }
    return meta["cases"], arrays


def names() -> list[str]:
    counts: Counter[str] = Counter()
    found = []
    for case in load()[0]:
        found.append(f"{case['op']}-{counts[case['op']]}")
        counts[case["op"]] += 1
    return found


def program_of(case: dict[str, Any]) -> tuple[ProgramDesc, dict[str, Any], list[str]]:
    """The one-op program, its feeds by name, the names of its outputs."""
    block = BlockDesc(0)
    feeds: dict[str, Any] = {}
    inputs: dict[str, list[str]] = {}
    for slot, keys in case["ins"].items():
        inputs[slot] = [f"{slot}_{i}" if slot in case["many"] else slot for i in range(len(keys))]
        feeds.update(zip(inputs[slot], (load()[1][key] for key in keys), strict=True))
    for name, array in feeds.items():
        block.vars[name] = VarDesc(name, dtype=from_numpy(array.dtype), shape=array.shape)
    outputs = {slot: [f"{slot}_{i}.out" for i in range(len(keys))] for slot, keys in case["outs"].items()}
    for each in outputs.values():
        for name in each:
            block.vars[name] = VarDesc(name, dtype=DType.FP32, shape=tuple(case["declared"][name]))
    block.ops = [OpDesc(case["op"], inputs, outputs, dict(case["attrs"]))]
    return ProgramDesc([block], 2006002, dict(VERSIONS)), feeds, [n for each in outputs.values() for n in each]


def agree(got: Any, want: Any, what: str) -> None:
    assert (got.dtype, got.shape) == (want.dtype, want.shape), what
    if want.dtype.kind in "fc":
        rtol, atol = COMPLEX if want.dtype.kind == "c" else TOLERANCE[want.dtype.name]
        np.testing.assert_allclose(got, want, rtol, atol, err_msg=what)
    else:
        np.testing.assert_array_equal(got, want, what)


@pytest.mark.parametrize("number", range(len(load()[0])), ids=names())
def test_outputs_and_gradients_are_those_of_paddle(number: int) -> None:
    case = load()[0][number]
    program, feeds, outputs = program_of(case)
    keys = [key for each in case["outs"].values() for key in each]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = compile_block(program, 0, PlanRequest(tuple(feeds), tuple(outputs))).run(feeds.values())
        for name, got, key in zip(outputs, made, keys, strict=True):
            agree(got, load()[1][key], name)
        for name, got in gradients(case, program, feeds).items():
            agree(got, load()[1][case["grads"][name]], f"gradient of {name}")


def gradients(case: dict[str, Any], program: ProgramDesc, feeds: dict[str, Any]) -> dict[str, Any]:
    seeds = {f"{slot}_{i}.out": load()[1][key] for slot, each in case["douts"].items() for i, key in enumerate(each)}
    if not case["grads"]:
        return {}
    work = program.copy()
    for name in seeds:
        work.global_block.vars[f"{name}@SEED"] = VarDesc(f"{name}@SEED")
    made = append_gradients(work, list(seeds), target_gradients=[f"{name}@SEED" for name in seeds])
    wanted = list(case["grads"])
    request = PlanRequest((*feeds, *(f"{name}@SEED" for name in seeds)), tuple(made[name] for name in wanted))
    found = compile_block(work, 0, request).run([*feeds.values(), *seeds.values()])
    return dict(zip(wanted, found, strict=True))
