"""``ProgramHolder``: one saved method's program, prepared to run, and its train program, built on first use."""

from __future__ import annotations

from typing import Any

from ..errors import ProgramError
from ..executor.run_program import ProgramPair
from ..executor.scope import ScopePool
from ..ir.backward import differentiable_inputs
from ..ir.desc import AttrType, OpDesc, ProgramDesc, VarDesc
from ..ir.dtypes import DType
from ..ir.feeding import strip_feed_fetch
from ..ir.train_mode import in_train_mode
from ..proto.layouts import Kind
from .lazy import LazyInitialized
from .train_program import (
    GradNames,
    TrainProgram,
    backward_slice,
    build_train_program,
    forward_slice,
    grad_names,
)

__all__ = ["ProgramHolder"]

_SAVED_SCALE = "save_infer_model/scale_"
_OUTPUT_SCALE = "translated_layer/scale_"


class ProgramHolder:
    """The program of one saved method.

    The inference program is ready after construction. ``train_program``, ``forward_program``,
    ``backward_program`` and ``grad_var_names`` are computed at first access, once, whatever the layout of the
    files; :attr:`is_backward_built` tells without computing. Copies and pickles leave them behind.

    Attributes:
        kind: what the program was in its file.
        saved_program: as it was read; never altered.
        infer_program: feed, fetch and the saved scale-by-one ops stripped; a scale-by-one added per output.
        input_descs, output_descs: what goes in and comes out, in call order.
        persistable_names: the stored variables, in program order.
    """

    def __init__(self, program: ProgramDesc, source: str = "program", kind: Kind = "pdmodel") -> None:
        self.source = source
        self.kind = kind
        self.saved_program = program
        stripped = strip_feed_fetch(program)
        self.infer_program = stripped.program
        # Paddle's loader meets the saved scales before the fetches, so that outputs without one come last.
        ordered = sorted(stripped.fetches, key=lambda name: not name.startswith(_SAVED_SCALE))
        outputs = [self._unscaled(name) for name in ordered]
        self.input_descs = [self._describe(name, "input") for name in stripped.feeds]
        self.result_descs = [self._describe(name, "output") for name in outputs]
        self.persistable_names = [var.name for var in self.infer_program.persistables()]
        self.result_names = tuple(outputs)
        self.output_descs = self._add_output_scales(outputs)

    def _describe(self, name: str, kind: str) -> VarDesc:
        var = self.infer_program.find_var(name, self.infer_program.global_block)
        if var is None:
            raise ProgramError(f"{self.source}: {kind} '{name}' is not described in block 0")
        return var

    def _unscaled(self, name: str) -> str:
        """The variable behind a saved ``scale`` by one; the op is dropped."""
        block = self.infer_program.global_block
        if not name.startswith(_SAVED_SCALE):
            return name
        for op in block.ops:
            if op.type == "scale" and op.output("Out") == name and _is_plain_scale(op):
                block.ops.remove(op)
                block.vars.pop(name, None)
                return op.inputs["X"][0]
        return name

    def _add_output_scales(self, outputs: list[str]) -> list[VarDesc]:
        """A ``scale`` by one behind every output, so that two outputs on one branch keep both gradients."""
        if any(var.dtype == DType.BOOL for var in self.result_descs) or not outputs:
            return list(self.result_descs)
        block = self.infer_program.global_block
        scaled = []
        for index, (name, var) in enumerate(zip(outputs, self.result_descs, strict=True)):
            target = f"{_OUTPUT_SCALE}{index}.tmp_0"
            block.vars[target] = VarDesc(target, var.kind, var.dtype, var.shape, var.lod_level)
            op = OpDesc("scale", {"X": [name]}, {"Out": [target]})
            op.set_attr("scale", 1.0, AttrType.FLOAT)
            op.set_attr("bias", 0.0, AttrType.FLOAT)
            op.set_attr("bias_after_scale", True, AttrType.BOOLEAN)
            block.ops.append(op)
            scaled.append(block.vars[target])
        return scaled

    @property
    def input_names(self) -> tuple[str, ...]:
        """The names of the inputs, in call order."""
        return tuple(var.name for var in self.input_descs)

    @property
    def output_names(self) -> tuple[str, ...]:
        """The names of the outputs as the train program has them, in call order."""
        return tuple(var.name for var in self.output_descs)

    @property
    def is_backward_built(self) -> bool:
        """Whether the train program has been built; asking does not build it."""
        return "_train" in self.__dict__

    def trainable_names(self) -> set[str]:
        """The persistables that a gradient would reach; found without building the backward program."""
        stored = {var.name for var in self.infer_program.persistables() if var.dtype in _TRAINABLE}
        return stored & differentiable_inputs(self.infer_program, self.output_names)

    @LazyInitialized
    def _train(self) -> TrainProgram:
        return build_train_program(self.infer_program, self.output_names)

    @LazyInitialized
    def train_program(self) -> ProgramDesc:
        """Forward in train mode, a seed op per output, backward."""
        return self._train.program

    @LazyInitialized
    def forward_program(self) -> ProgramDesc:
        """The forward ops of the train program."""
        return forward_slice(self.train_program, self._train.forward_count)

    @LazyInitialized
    def backward_program(self) -> ProgramDesc:
        """The grad ops of the train program."""
        return backward_slice(self.train_program, self._train.forward_count, len(self.output_descs))

    @LazyInitialized
    def grad_var_names(self) -> GradNames:
        """The gradients of inputs, persistables and outputs."""
        return grad_names(self._train, self.input_names, self.persistable_names)

    @LazyInitialized
    def scopes(self) -> ScopePool:
        """The scopes that train-mode calls take turns in."""
        return ScopePool()

    @LazyInitialized
    def train_pair(self) -> ProgramPair:
        """Forward and backward with the plans compiled for them."""
        return ProgramPair(
            self.forward_program,
            self.backward_program,
            self.input_names,
            tuple(self.persistable_names),
            self._train.outputs,
            self.grad_var_names.out,
        )

    @LazyInitialized
    def forward_pair(self) -> ProgramPair:
        """The forward in train mode alone, for calls that record nothing; builds no backward."""
        return ProgramPair(
            in_train_mode(self.infer_program),
            None,
            self.input_names,
            tuple(self.persistable_names),
            self.output_names,
        )

    def __getstate__(self) -> dict[str, Any]:
        return LazyInitialized.state_without_lazy(self)


_TRAINABLE = frozenset({DType.FP16, DType.BF16, DType.FP32, DType.FP64, DType.COMPLEX64, DType.COMPLEX128})


def _is_plain_scale(op: OpDesc) -> bool:
    return bool(op.attrs.get("scale", 1.0) == 1.0 and op.attrs.get("bias", 0.0) == 0.0)
