"""Detection, quantisation, optimizer and metric operators against PaddlePaddle 2.6.2, case by case.

The numbers are in ``tests/data/executor`` (its README tells the layout). Each case runs as a one-op program.
"""

from __future__ import annotations

import json
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import oarlock.executor.kernels  # noqa: F401 - tells the registry how to find a type
import pytest
from oarlock.executor.plan import PlanRequest, compile_block
from oarlock.executor.values import LoDTensor, SelectedRows
from oarlock.ir.desc import BlockDesc, OpDesc, ProgramDesc, VarDesc
from oarlock.ir.dtypes import bfloat16, from_numpy

FOLDER = Path(__file__).resolve().parent.parent / "data" / "executor"
AREAS = ("detection", "optimizers", "quantize")

# Paddle's outputs may hold buffers that it never wrote; these are compared where something is defined.
UNDEFINED = {("fake_quantize_range_abs_max", "OutScales")}


@cache
def cases(area: str) -> tuple[list[dict[str, Any]], bytes]:
    with np.load(FOLDER / f"{area}.npz") as file:
        return json.loads(file["meta"].tobytes()), file["data"].tobytes()


def value(note: dict[str, Any], data: bytes) -> Any:
    count = int(np.prod(note["shape"], dtype=np.int64))
    array = np.frombuffer(data, note["dtype"], count, note["at"]).reshape(note["shape"])
    if note.get("bf16"):
        array = array.view(bfloat16())
    if "rows" in note:
        return SelectedRows(np.asarray(note["rows"], np.int64), array, note["height"])
    return LoDTensor.from_lengths(array, note["lod"]) if "lod" in note else array


def run(case: dict[str, Any], data: bytes) -> dict[tuple[str, int], Any]:
    block, feeds, values = BlockDesc(0), [], []
    inputs: dict[str, list[str]] = {}
    for slot, notes in case["ins"].items():
        inputs[slot] = [f"{slot}_{number}" for number in range(len(notes))]
        feeds += inputs[slot]
        values += [value(note, data) for note in notes]
    for name, each in zip(feeds, values, strict=True):
        block.vars[name] = VarDesc(name, dtype=from_numpy(each.dtype), shape=each.shape)
    outputs = {slot: [f"{slot}_{number}.out" for number in range(count)] for slot, count in case["counts"].items()}
    block.vars.update({name: VarDesc(name) for names in outputs.values() for name in names})
    block.ops.append(OpDesc(case["op"], inputs, outputs, case["attrs"]))
    keys = [(slot, number) for slot, names in outputs.items() for number in range(len(names))]
    fetches = tuple(name for names in outputs.values() for name in names)
    request = PlanRequest(tuple(feeds), fetches, lod=case["lod"])
    made = compile_block(ProgramDesc([block]), 0, request).run(values)
    return dict(zip(keys, made, strict=True))


def check(made: Any, expected: Any, where: str) -> None:
    assert type(made) is type(expected), where
    if isinstance(expected, LoDTensor):
        assert made.lengths() == expected.lengths(), where
        made, expected = made.array, expected.array
    elif isinstance(expected, SelectedRows):
        np.testing.assert_array_equal(made.rows, expected.rows, where)
        made, expected = made.values, expected.values
    assert made.dtype == expected.dtype, where
    assert made.shape == expected.shape, where
    if expected.dtype.kind in "iub":
        np.testing.assert_array_equal(made, expected, where)
    else:
        wide = [each.astype(np.float64) for each in (made, expected)]
        np.testing.assert_allclose(*wide, rtol=2e-5, atol=2e-6, err_msg=where)


@pytest.mark.parametrize("area", AREAS)
def test_operators_give_what_paddle_gives(area: str) -> None:
    listed, data = cases(area)
    for number, case in enumerate(listed):
        where = f"{area} {number}: {case['op']} {case['attrs']}"
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            made = run(case, data)
        for slot, notes in case["outs"].items():
            if (case["op"], slot) not in UNDEFINED:
                for argument, note in notes:
                    check(made[slot, argument], value(note, data), f"{where} {slot}")


def test_the_goldens_cover_the_families() -> None:
    operators = {case["op"] for area in AREAS for case in cases(area)[0]}
    assert len(operators) == 75
    assert sum(len(cases(area)[0]) for area in AREAS) > 400
