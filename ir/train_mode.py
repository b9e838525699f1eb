"""Turn an inference program into one whose forward leaves what its gradients read."""

from __future__ import annotations

from .desc import BlockDesc, OpDesc, ProgramDesc, VarDesc
from .dtypes import DType
from .registry import find

__all__ = ["add_residuals", "in_train_mode"]


def in_train_mode(infer_program: ProgramDesc) -> ProgramDesc:
    """A copy with every ``is_test`` attribute that the file states switched off."""
    program = infer_program.copy()
    for block in program.blocks:
        for op in block.ops:
            if "is_test" in op.attrs:
                op.attrs["is_test"] = False
    return program


def add_residuals(program: ProgramDesc) -> None:
    """Give each op the outputs that its gradient reads and that an inference file leaves out; in place.

    Examples: batch_norm's ReserveSpace, dropout's Mask, the XShape of reshape2, layer_norm's Mean.
    """
    for block in program.blocks:
        names = _Namer(program, block)
        for op in block.ops:
            _add_to(op, block, names)


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


def _add_to(op: OpDesc, block: BlockDesc, names: _Namer) -> None:
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
