"""Plans: a block compiled once for its feeds and fetches, run many times.

Names become frame slots, attributes are bound to kernels, last uses are computed. A plan is immutable and may
run in many threads at once; each run has its own frame.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import InputError, ProgramError, UnsupportedOpError
from ..ir.binding import bind_attrs, check_slots
from ..ir.desc import EMPTY_VAR, GRAD_SUFFIX, AttrType, BlockDesc, OpDesc, ProgramDesc, VarKind
from ..ir.registry import OpContext, Operator, Slot, find, parameter_name
from ..ir.saved_model import missing_operators
from .analysis import ProgramUse, dead_after
from .environment import Body, Env
from .interpreter import run_steps
from .steps import ABSENT, Frame, Step, make_step, run_once, with_lod
from .values import Array, TensorArray, memory_owner

__all__ = ["Plan", "PlanRequest", "compile_block"]

_log = logging.getLogger("oarlock.executor")
_NO_TENSORS = TensorArray()


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """What a plan is compiled for.

    Attributes:
        feeds: names whose values every run is given, in order.
        fetches: names whose values a run returns, in order.
        keep: further names that must survive the run (the skip set of eager deletion).
        lod: whether ragged batches may flow; else the LoD machinery is left out.
    """

    feeds: tuple[str, ...]
    fetches: tuple[str, ...]
    keep: frozenset[str] = frozenset()
    lod: bool = False


@dataclass(slots=True, eq=False)
class Plan:
    """A compiled block.

    Attributes:
        slots: name -> frame slot.
        template: a frame with the constants in place; a run starts from a copy.
        updates: persistable variables that ops write, with their slots.
        owners: identities of the objects that own the memory of the constants.
    """

    program: ProgramDesc
    block: BlockDesc
    request: PlanRequest
    steps: list[Step]
    ops: list[OpDesc]
    slots: dict[str, int]
    template: Frame
    updates: tuple[tuple[str, int], ...]
    owners: frozenset[int]

    def frame(self, feeds: Iterable[Any]) -> Frame:
        """A frame for one run, with the values of ``request.feeds`` in place."""
        frame = self.template.copy()
        for name, value in zip(self.request.feeds, feeds, strict=True):
            frame[self.slots[name]] = value
        return frame

    def execute(self, frame: Frame) -> list[Any]:
        """Run the steps on a frame; the fetched values.

        Raises:
            KernelError: an operator refused its inputs; names the op and its arguments.
        """
        run_steps(self, frame)
        return [frame[self.slots[name]] for name in self.request.fetches]

    def run(self, feeds: Iterable[Any]) -> list[Any]:
        """``execute`` on a fresh frame."""
        return self.execute(self.frame(feeds))


def compile_block(
    program: ProgramDesc,
    index: int,
    request: PlanRequest,
    constants: Mapping[str, Any] | None = None,
    use: ProgramUse | None = None,
) -> Plan:
    """Compile block ``index``.

    Args:
        constants: values that every run shares; operators may prepare work from them once.

    Raises:
        UnsupportedOpError: operators are missing.
        ProgramError: a variable is read before anything gives it a value, a slot or attribute is unknown.
    """
    missing = missing_operators(program)
    if missing:
        raise UnsupportedOpError(missing)
    return _Compiler(program, index, request, constants or {}, use or ProgramUse(program)).compile()


class _Compiler:
    """The state of one compilation: the growing slot table and what is defined so far."""

    def __init__(
        self,
        program: ProgramDesc,
        index: int,
        request: PlanRequest,
        constants: Mapping[str, Any],
        use: ProgramUse,
    ) -> None:
        self.program = program
        self.block = program.blocks[index]
        self.request = request
        self.constants = constants
        self.use = use
        self.slots: dict[str, int] = {}
        self.defined: set[str] = set(request.feeds)

    def compile(self) -> Plan:
        """The plan."""
        ops = self.block.ops
        uses = [(self.use.reads(op), self.use.writes(op)) for op in ops]
        written = {name for _, writes in uses for name in writes}
        updates = [name for name in sorted(written) if self._is_persistable(name)]
        dead, live = dead_after(uses, {*self.request.fetches, *self.request.keep, *updates})
        steps = []
        for position, op in enumerate(ops):
            self._check_defined(op, position, uses[position][0])
            steps.append(self._step(op, position, dead[position], live[position]))
            self.defined.update(uses[position][1])
        for name in self.request.fetches:
            if name not in self.defined and name not in self.constants:
                raise ProgramError(f"block {self.block.idx}: fetched variable '{name}' is never given a value")
            self._slot(name)
        for name in self.request.feeds:
            self._slot(name)
        template: Frame = [None] * (len(self.slots) + 1)
        for name, slot in self.slots.items():
            if name in self.constants:
                template[slot] = self.constants[name]
            elif (var := self.block.vars.get(name)) is not None and var.kind == VarKind.LOD_TENSOR_ARRAY:
                template[slot] = _NO_TENSORS  # an array that nothing was written to yet is empty
        _log.debug("compiled block %d: %d steps, %d variables", self.block.idx, len(steps), len(self.slots))
        return Plan(
            self.program,
            self.block,
            self.request,
            steps,
            list(ops),
            self.slots,
            template,
            tuple((name, self._slot(name)) for name in updates),
            frozenset(id(memory_owner(each)) for each in template if isinstance(each, np.ndarray)),
        )

    def _is_persistable(self, name: str) -> bool:
        var = self.program.find_var(name, self.block)
        return var is not None and var.is_persistable_tensor

    def _slot(self, name: str) -> int:
        return self.slots.setdefault(name, len(self.slots) + 1)

    def _check_defined(self, op: OpDesc, position: int, reads: Sequence[str]) -> None:
        declared = find(op.type)
        if declared is not None and declared.takes_env:
            return  # a branch that is not taken, an array that is not there yet: seen at run time
        for slot, names in op.inputs.items():
            for name in names:
                if name in self.defined or name in self.constants or name in ("", EMPTY_VAR):
                    continue
                raise ProgramError(
                    f"block {self.block.idx} op {position} ({op.type}): input {slot}='{name}' is read "
                    "before any op, feed or parameter gives it a value"
                )

    def _step(self, op: OpDesc, position: int, dead: Sequence[str], live: set[str]) -> Step:
        where = f"block {self.block.idx} op {position} ({op.type})"
        declared = find(op.type, self.program.op_version(op.type))
        if declared is None:
            raise UnsupportedOpError({op.type: 1})
        check_slots(declared, op, where)
        inputs = [self._arguments(slot, op.inputs.get(slot.name)) for slot in declared.inputs]
        outputs = [self._arguments(slot, op.outputs.get(slot.name)) for slot in declared.outputs]
        kernel = self._bind(declared, op, where, live)
        clear = [self._slot(name) for name in dead if name not in self.constants]
        if declared.takes_env:
            return self._environment_step(declared, op, kernel, inputs, outputs, clear)
        if self.request.lod and not declared.lod:
            share = next((i for i, s in enumerate(declared.inputs) if s.name == declared.share_lod), 0)
            kernel = with_lod(kernel, share)
        dynamic = _variable_attrs(op, declared)
        if dynamic:
            return self._dynamic_step(kernel, inputs, outputs, clear, dynamic)
        return make_step(kernel, inputs, outputs, clear, reuse=self._reusable(declared, op, dead))

    def _arguments(self, slot: Slot, names: list[str] | None) -> int | list[int]:
        present = [ABSENT if name in ("", EMPTY_VAR) else self._slot(name) for name in names or ()]
        if slot.many:
            return present
        return present[0] if present else ABSENT

    def _bind(self, declared: Operator, op: OpDesc, where: str, live: set[str]) -> Callable[..., Any]:
        """The kernel with its attributes and special arguments bound, prepared where it can be."""
        bound = bind_attrs(declared, op, where)
        prepared = self._prepare(declared, op, bound)
        if prepared is not None:
            return prepared
        if declared.takes_want:
            bound["want"] = frozenset(slot for slot, names in op.outputs.items() if any(name in live for name in names))
        if declared.takes_ctx:
            bound["ctx"] = OpContext(op, self.block, self.program)
        return functools.partial(declared.kernel, **bound) if bound else declared.kernel

    def _prepare(self, declared: Operator, op: OpDesc, bound: Mapping[str, Any]) -> Callable[..., Any] | None:
        if declared.preparer is None:
            return None
        constants: dict[str, Any] = {}
        for slot in declared.inputs:
            names = op.inputs.get(slot.name) or []
            if names and all(name in self.constants for name in names):
                values = [self.constants[name] for name in names]
                constants[slot.name] = values if slot.many else values[0]
        return declared.preparer(constants, **bound) if constants else None

    def _reusable(self, declared: Operator, op: OpDesc, dead: Sequence[str]) -> int | None:
        """The position of the input that the kernel may write over: it dies here and is not shared."""
        if declared.inplace is None or self.request.lod:
            return None
        source = declared.inplace[0]
        name = op.input(source)
        overwritten = name is not None and name in (op.outputs.get(declared.inplace[1]) or ())
        if name is None or name in self.constants or not (name in dead or overwritten):
            return None
        if sum(each == name for each in op.input_names()) != 1:
            return None
        return next(i for i, slot in enumerate(declared.inputs) if slot.name == source)

    def _dynamic_step(
        self,
        kernel: Callable[..., Any],
        inputs: list[int | list[int]],
        outputs: list[int | list[int]],
        clear: list[int],
        dynamic: Mapping[str, str | list[str]],
    ) -> Step:
        """A step whose attributes named in ``dynamic`` are read from variables at run time."""
        sources = {
            parameter_name(attr): self._slot(name) if isinstance(name, str) else [self._slot(n) for n in name]
            for attr, name in dynamic.items()
        }

        def step(frame: Frame) -> None:
            values = {
                attr: _attr_value(frame[at]) if isinstance(at, int) else [_attr_value(frame[i]) for i in at]
                for attr, at in sources.items()
            }
            run_once(frame, functools.partial(kernel, **values), inputs, outputs, clear)

        return step

    def _environment_step(
        self,
        declared: Operator,
        op: OpDesc,
        kernel: Callable[..., Any],
        inputs: list[int | list[int]],
        outputs: list[int | list[int]],
        clear: list[int],
    ) -> Step:
        bodies = {index: self._body(index) for index in op.sub_blocks()}
        for name in (*self.use.reads(op), *self.use.writes(op)):
            self._slot(name)
        slots = self.slots

        def step(frame: Frame) -> None:
            run_once(frame, functools.partial(kernel, env=Env(op, frame, slots, bodies)), inputs, outputs, clear)

        return step

    def _body(self, index: int) -> Body:
        """The plan of a sub-block, with the outer slots that it captures and writes."""
        block = self.program.blocks[index]
        if block.forward_block_idx is not None and block.forward_block_idx >= 0:
            return self._grad_body(block)
        use = self.use.block(index)
        feeds = tuple(n for n in dict.fromkeys((*use.reads, *use.writes)) if n not in self.constants)
        recorded = self._recorded(block)
        local = tuple(name for name in recorded if name in block.vars)
        entry = tuple(name for name in recorded if name in use.writes)
        constants = {name: value for name, value in self.constants.items() if name not in use.writes}
        request = PlanRequest(feeds, use.writes, frozenset(local), self.request.lod)
        plan = _Compiler(self.program, index, request, constants, self.use).compile()
        captured = tuple(self._slot(name) for name in feeds)
        written = tuple(self._slot(name) for name in use.writes)
        return Body(plan, captured, written, entry, tuple(name for name in local if name in plan.slots))

    def _recorded(self, block: BlockDesc) -> list[str]:
        """What the grad block of a sub-block reads, when the program has one."""
        for other in self.program.blocks:
            if other.forward_block_idx == block.idx and other.idx != block.idx:
                return self.use.free_reads(other.idx)
        return []

    def _grad_body(self, block: BlockDesc) -> Body:
        """The plan of a grad block: what it reads comes from the record of a run, from gradients, from outside."""
        feeds = tuple(name for name in self.use.free_reads(block.idx) if name not in self.constants)
        made = dict.fromkeys(name for op in block.ops for name in op.output_names() if GRAD_SUFFIX in name)
        request = PlanRequest(feeds, tuple(made), frozenset(), self.request.lod)
        plan = _Compiler(self.program, block.idx, request, self.constants, self.use).compile()
        captured = tuple(self._slot(name) for name in feeds)
        return Body(plan, captured, ())


def _variable_attrs(op: OpDesc, declared: Operator) -> dict[str, str | list[str]]:
    """Attributes that a variable feeds: attribute -> variable name(s)."""
    return {
        name: op.attrs[name]
        for name, kind in op.attr_types.items()
        if kind in (AttrType.VAR, AttrType.VARS) and name in declared.attrs
    }


def _attr_value(value: Array) -> Any:
    """A tensor as an attribute: one element is a number, more are a list of numbers."""
    array = np.asarray(value)
    if array.ndim > 1:
        raise InputError(f"an attribute fed by a variable takes a scalar or a vector, got shape {list(array.shape)}")
    return array.item() if array.ndim == 0 else array.tolist()
