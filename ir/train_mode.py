"""Turn an inference program into one whose forward leaves what its gradients read."""

from __future__ import annotations

from .desc import BlockDesc, OpDesc, ProgramDesc, VarDesc
from .dtypes import DType
from .registry import Operator, Slot, find

__all__ = ["add_residuals", "in_train_mode"]


def in_train_mode(infer_program: ProgramDesc) -> ProgramDesc:
    """A copy with every ``is_test`` attribute that the file states switched off.

    Files of 1.x mark inputs with ``stop_gradient``, newer ones mark nothing; tensors decide, so the marks go. An
    observer of quantisation ranges whose running state the file left out keeps its saved range.
    """
    program = infer_program.copy()
    for block in program.blocks:
        for var in block.vars.values():
            var.stop_gradient = None
        for op in block.ops:
            if "is_test" in op.attrs and not _is_frozen_observer(op):
                op.attrs["is_test"] = False
    return program


def _is_frozen_observer(op: OpDesc) -> bool:
    declared = find(op.type)
    observes = declared is not None and declared.input_slot("InAccum") is not None
    return observes and not (op.inputs.get("InAccum") and op.inputs.get("InState"))


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
    outputs = {slot.name: slot for slot in declared.outputs}
    for slot in grad.inputs:
        made = outputs.get(slot.source)
        if made is None or op.outputs.get(made.name):
            continue
        stem = "reserve_space" if made.name == "ReserveSpace" else f"{op.type}_{made.name}"
        op.outputs[made.name] = [names.fresh(stem) for _ in range(_count(made, declared, op))]
        for name in op.outputs[made.name]:
            block.vars[name] = _residual(name, made.name, names.program.find_var(next(op.input_names()), block))


def _count(made: Slot, declared: Operator, op: OpDesc) -> int:
    """One variable; in a list slot one for each argument of the first input that is a list."""
    many = next((slot for slot in declared.inputs if slot.many), None) if made.many else None
    return 1 if many is None else len(op.inputs[many.name])


def _residual(name: str, slot: str, x: VarDesc | None) -> VarDesc:
    """The description of an added variable, as far as the op's first input tells it."""
    shape = () if x is None else x.shape or ()
    dtype = DType.FP32 if x is None or x.dtype is None else x.dtype
    if slot == "Mask":
        return VarDesc(name, dtype=DType.UINT8, shape=shape, stop_gradient=True)
    return VarDesc(name, dtype=dtype, shape=(0, *shape) if slot == "XShape" else (-1,), stop_gradient=True)
