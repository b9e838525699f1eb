"""The train program of a loaded model: test mode off, residual outputs added, backward appended, and its slices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..ir.backward import append_gradients
from ..ir.desc import EMPTY_VAR, ProgramDesc
from ..ir.train_mode import add_residuals, in_train_mode
from ..ir.versioning import single_assignment

__all__ = [
    "GradNames",
    "backward_slice",
    "build_train_program",
    "forward_slice",
    "grad_names",
]


@dataclass(frozen=True, slots=True)
class GradNames:
    """Names of gradients, aligned with inputs, persistables and outputs; ``@EMPTY@`` where there is none."""

    x: tuple[str, ...]
    param: tuple[str, ...]
    out: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TrainProgram:
    """Forward and backward in one program.

    Attributes:
        forward_count: so many ops of block 0 are the forward.
        outputs: the variables that hold the outputs, in order.
        gradients: variable -> its gradient.
    """

    program: ProgramDesc
    forward_count: int
    outputs: tuple[str, ...]
    gradients: Mapping[str, str]


def build_train_program(infer_program: ProgramDesc, outputs: Sequence[str]) -> TrainProgram:
    """Forward and backward in one program.

    A copy of the inference program with every ``is_test`` attribute off, every value under a name of its own,
    and the outputs that gradients read added where the file left them out; then one seed op per output, then
    the grad ops.
    """
    program = in_train_mode(infer_program)
    renamed = single_assignment(program)
    targets = tuple(renamed.get(name, name) for name in outputs)
    add_residuals(program)
    count = len(program.global_block.ops)
    gradients = append_gradients(program, targets)
    return TrainProgram(program, count, targets, gradients)


def forward_slice(train: ProgramDesc, count: int) -> ProgramDesc:
    """The first ``count`` ops of the main block, sub-blocks carried along."""
    program = train.copy()
    program.global_block.ops = program.global_block.ops[:count]
    return program


def backward_slice(train: ProgramDesc, count: int, outputs: int) -> ProgramDesc:
    """The ops behind the forward ops and the seed op of each output."""
    program = train.copy()
    program.global_block.ops = program.global_block.ops[count + outputs :]
    return program


def grad_names(train: TrainProgram, x: Sequence[str], params: Sequence[str]) -> GradNames:
    """Which gradients the train program makes, and which incoming ones its backward part reads."""
    outputs = train.outputs
    ops, start = train.program.global_block.ops, train.forward_count
    backward = ops[start + len(outputs) :]
    made = {name for op in backward for name in op.output_names()}
    read = {name for op in backward for name in op.input_names()}

    def names(of: Sequence[str], among: set[str]) -> tuple[str, ...]:
        gradients = (train.gradients.get(name, EMPTY_VAR) for name in of)
        return tuple(gradient if gradient in among else EMPTY_VAR for gradient in gradients)

    seeds = {op.outputs["Out"][0] for op in ops[start : start + len(outputs)]}
    return GradNames(names(x, made | seeds), names(params, made), names(outputs, read))
