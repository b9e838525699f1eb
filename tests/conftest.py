"""Samples that every room's tests may use: small saved models with inputs and real Paddle's outputs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from oarlock.ir import AttrType, BlockDesc, OpDesc, ProgramDesc, VarDesc
from oarlock.ir.desc import VarKind
from oarlock.ir.dtypes import from_name
from oarlock.ir.program_io import write_program

MODELS = Path(__file__).parent / "data" / "models"
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Sample:
    """A model that Paddle 2.6.2 saved, as ``tools/take_samples.py`` took it from the zoo."""

    name: str
    folder: Path

    @property
    def path(self) -> Path:
        """What ``jit.load`` takes: the prefix, or the folder of a 1.x model."""
        return self.folder if (self.folder / "__model__").exists() else self.folder / "model"

    @property
    def golden(self) -> dict[str, Array]:
        """All stored arrays by key."""
        with np.load(self.folder / "golden.npz") as archive:
            return dict(archive)

    @property
    def cases(self) -> int:
        """How many sets of inputs there are."""
        return 1 + max(int(key.split("/")[0].removeprefix("case")) for key in self.golden)

    def inputs(self, case: int = 0) -> dict[str, Array]:
        """Input name -> value, in call order."""
        prefix = f"case{case}/in/"
        return {key.removeprefix(prefix): value for key, value in self.golden.items() if key.startswith(prefix)}

    def outputs(self, case: int = 0, method: str = "out") -> list[Array]:
        """What real Paddle gave, in order."""
        golden = self.golden
        found: list[Array] = []
        while f"case{case}/{method}/{len(found)}" in golden:
            found.append(golden[f"case{case}/{method}/{len(found)}"])
        return found


@pytest.fixture
def sample() -> Callable[[str], Sample]:
    """``sample("static_mlp")``: a small saved model of ``tests/data/models``."""
    return lambda name: Sample(name, MODELS / name)


@pytest.fixture
def one_op_program() -> Callable[..., bytes]:
    """``one_op_program("relu", {"X": ["x"]}, {"Out": ["y"]}, {"x": ("float32", [-1])})``, see below."""
    return _one_op_program


def _one_op_program(
    type: str,
    inputs: dict[str, list[str]],
    outputs: dict[str, list[str]],
    variables: dict[str, tuple[str, list[int]]],
    stored: tuple[str, ...] = (),
    fetches: tuple[str, ...] | None = None,
) -> bytes:
    """The bytes of a program with one op, fed with what is not ``stored``, fetching what it makes.

    An empty ``type`` leaves the op out.
    """
    block = BlockDesc(0)
    for name, (dtype, shape) in variables.items():
        block.vars[name] = VarDesc(name, dtype=from_name(dtype), shape=tuple(shape), persistable=name in stored)
    block.vars["feed"] = VarDesc("feed", VarKind.FEED_MINIBATCH, persistable=True)
    block.vars["fetch"] = VarDesc("fetch", VarKind.FETCH_LIST, persistable=True)
    made = {name for names in outputs.values() for name in names}
    for column, name in enumerate(name for name in variables if name not in made and name not in stored):
        block.ops.append(_column("feed", {"X": ["feed"]}, {"Out": [name]}, column))
    if type:
        block.ops.append(OpDesc(type, inputs, outputs))
    for column, name in enumerate(sorted(made) if fetches is None else fetches):
        block.ops.append(_column("fetch", {"X": [name]}, {"Out": ["fetch"]}, column))
    return write_program(ProgramDesc([block], version=2006002))


def _column(type: str, inputs: dict[str, list[str]], outputs: dict[str, list[str]], column: int) -> OpDesc:
    op = OpDesc(type, inputs, outputs)
    op.set_attr("col", column, AttrType.INT)
    return op
