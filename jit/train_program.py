"""The train program of a loaded model: test mode off, residual outputs added, backward appended, and its slices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..ir.backward import append_gradients
from ..ir.desc import EMPTY_VAR, GRAD_SUFFIX, BlockDesc, OpDesc, ProgramDesc, VarDesc
from ..ir.dtypes import DType
from ..ir.registry import find
from ..ir.versioning import single_assignment

__all__ = [
    "GradNames",
    "backward_slice",
    "build_train_program",
    "forward_slice",
    "grad_names",
    "in_train_mode",
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
    """

    program: ProgramDesc
    forward_count: int
    outputs: tuple[str, ...]


def build_train_program(infer_program: ProgramDesc, outputs: Sequence[str]) -> TrainProgram:
    """Forward and backward in one program.

    A copy of the inference program with every ``is_test`` attribute off, every value under a name of its own,
    and the outputs that gradients read added where the file left them out; then one seed op per output, then
    the grad ops.
    """
    program = in_train_mode(infer_program)
    renamed = single_assignment(program)
    targets = tuple(renamed.get(name, name) for name in outputs)
    for block in program.blocks:
        names = _Namer(program, block)
        for op in block.ops:
            _add_residuals(op, block, names)
    count = len(program.global_block.ops)
    append_gradients(program, targets)
    return TrainProgram(program, count, targets)


def in_train_mode(infer_program: ProgramDesc) -> ProgramDesc:
    """A copy with every ``is_test`` attribute that the file states switched off."""
    program = infer_program.copy()
    for block in program.blocks:
        for op in block.ops:
            if "is_test" in op.attrs:
                op.attrs["is_test"] = False
    return program


class _Namer:
    """Fresh names for added variables."""

    def __init__(self, program: ProgramDesc, block: BlockDesc) -> None:
        self.program = program
        self.block = block
        self.count = 0

    def fresh(self, stem: str) -> str:
        while True:
            name = f"{stem}.tmp_{self.count}"
            self.count += 1
            if self.program.find_var(name, self.block) is None:
                return name


def _add_residuals(op: OpDesc, block: BlockDesc, names: _Namer) -> None:
    """Give an op the outputs that its gradient reads and that an inference file does not have."""
    declared, grad = find(op.type), find(f"{op.type}_grad")
    if declared is None or grad is None or grad.forward_of is None:
        return
    outputs = {slot.name for slot in declared.outputs}
    for slot in grad.inputs:
        if slot.source not in outputs or op.outputs.get(slot.source):
            continue
        name = names.fresh("reserve_space" if slot.source == "ReserveSpace" else f"{op.type}_{slot.source}")
        op.outputs[slot.source] = [name]
        block.vars[name] = VarDesc(name, dtype=DType.FP32, shape=(), stop_gradient=True)


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


def grad_names(
    train: ProgramDesc, x: Sequence[str], params: Sequence[str], outputs: Sequence[str], forward_count: int
) -> GradNames:
    """Which gradients the train program makes, and which incoming ones its backward part reads."""
    backward = train.global_block.ops[forward_count + len(outputs) :]
    made = {name for op in backward for name in op.output_names()}
    read = {name for op in backward for name in op.input_names()}

    def names(of: Sequence[str], among: set[str]) -> tuple[str, ...]:
        return tuple(name + GRAD_SUFFIX if name + GRAD_SUFFIX in among else EMPTY_VAR for name in of)

    seeds = {op.outputs["Out"][0] for op in train.global_block.ops[forward_count : forward_count + len(outputs)]}
    return GradNames(names(x, made | seeds), names(params, made), names(outputs, read))
