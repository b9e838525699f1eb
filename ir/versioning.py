"""Give every value of a program a name of its own, so that backward finds the value that the forward op read.

Programs write variables in place: ``relu(y) -> y``, loops that update what they carry, branches that replace a
value. Gradients are named after variables, so a name that holds two values in turn makes wrong gradients
without a word. Before::

    y = exp(x);  y = relu(y);  while(c) { h = tanh(h) }

After::

    y = exp(x);  y@1 = relu(y);  h@1 = assign(h);  while(c) { t = tanh(h@1);  h@1 = assign(t) }

What a loop or branch writes keeps one name outside it, since several turns share it; inside, the body reads
the value at its start under that name and writes it once, at its end. Stored variables and tensor arrays keep
their names: the former are updated for good, the latter are written index by index.
"""

from __future__ import annotations

from .desc import EMPTY_VAR, BlockDesc, OpDesc, ProgramDesc, VarDesc, VarKind
from .registry import find

__all__ = ["single_assignment"]


def single_assignment(program: ProgramDesc) -> dict[str, str]:
    """Rename in place so that each plain variable of a block is written once.

    Feeds count as written at the start.

    Returns:
        For each renamed variable of block 0 the name of its last value.
    """
    renamer = _Renamer(program, program.global_block)
    renamer.run(frozenset(_fed(program)))
    return renamer.current


def _fed(program: ProgramDesc) -> set[str]:
    """Variables of block 0 that no op makes."""
    made: set[str] = set()
    read_first: set[str] = set()
    for op in program.global_block.ops:
        read_first.update(name for name in op.input_names() if name not in made)
        made.update(op.output_names())
    return read_first


class _Renamer:
    """Walks the ops of one block; ``current`` maps a name of the file to the name of its present value."""

    def __init__(self, program: ProgramDesc, block: BlockDesc) -> None:
        self.program = program
        self.block = block
        self.current: dict[str, str] = {}
        self.ops: list[OpDesc] = []

    def run(self, defined: frozenset[str]) -> None:
        """Process the block; ``defined`` are names that have a value before its first op."""
        known = set(defined)
        for op in self.block.ops:
            self._rename_reads(op)
            if op.sub_blocks():
                self._enter(op, known)
            else:
                self._rename_writes(op, known)
            self.ops.append(op)
            known.update(op.output_names())
        self.block.ops = self.ops

    def _rename_reads(self, op: OpDesc) -> None:
        for slot, names in op.inputs.items():
            op.inputs[slot] = [self.current.get(name, name) for name in names]
        for attr, kind in op.attr_types.items():
            if kind.name == "VAR":
                op.attrs[attr] = self.current.get(op.attrs[attr], op.attrs[attr])
            elif kind.name == "VARS":
                op.attrs[attr] = [self.current.get(name, name) for name in op.attrs[attr]]

    def _rename_writes(self, op: OpDesc, known: set[str]) -> None:
        declared = find(op.type)
        if declared is not None and declared.takes_env:
            return  # an array write adds to what the name holds
        for slot, names in op.outputs.items():
            op.outputs[slot] = [self._written(name, known) for name in names]

    def _written(self, name: str, known: set[str]) -> str:
        if name == EMPTY_VAR or (name not in known and name not in self.current) or not self._is_plain(name):
            return name
        return self._new_version(name)

    def _new_version(self, name: str) -> str:
        number = 1
        while self.program.find_var(f"{name}@{number}", self.block) is not None:
            number += 1
        var = self.program.find_var(name, self.block)
        made = VarDesc(f"{name}@{number}")
        if var is not None:
            made.kind, made.dtype, made.shape, made.lod_level = var.kind, var.dtype, var.shape, var.lod_level
            made.stop_gradient = var.stop_gradient
        self.block.vars[made.name] = made
        self.current[name] = made.name
        return made.name

    def _is_plain(self, name: str) -> bool:
        var = self.program.find_var(name, self.block)
        return var is not None and var.kind == VarKind.LOD_TENSOR and not var.persistable

    def _enter(self, op: OpDesc, known: set[str]) -> None:
        """A loop or branch: outer values that its body writes get a fresh name that the body shares."""
        moved: dict[str, str] = {}
        for name in dict.fromkeys(op.output_names()):
            present = self.current.get(name, name)
            if present in known and self._is_plain(name):
                moved[present] = self._new_version(name)
                self.ops.append(OpDesc("assign", {"X": [present]}, {"Out": [moved[present]]}))
                known.add(moved[present])
        op.rename(moved)
        for slot, names in op.outputs.items():
            op.outputs[slot] = [self.current.get(name, name) for name in names]
        for index in op.sub_blocks():
            _rename_block(self.program, index, self.current)
            self._version_body(index, known)

    def _version_body(self, index: int, known: set[str]) -> None:
        """Inside the body an outer value is read under its outer name and written back by a last assign."""
        body = self.program.blocks[index]
        inner = _Renamer(self.program, body)
        inner.run(frozenset(known))
        for name, last in inner.current.items():
            if name not in body.vars:
                body.ops.append(OpDesc("assign", {"X": [last]}, {"Out": [name]}))


def _rename_block(program: ProgramDesc, index: int, names: dict[str, str]) -> None:
    """Apply new names of outer variables in a block and in the blocks that it runs."""
    block = program.blocks[index]
    visible = {old: new for old, new in names.items() if old not in block.vars}
    if not visible:
        return
    for op in block.ops:
        op.rename(visible)
        for attr, kind in op.attr_types.items():
            if kind.name == "VAR":
                op.attrs[attr] = visible.get(op.attrs[attr], op.attrs[attr])
            elif kind.name == "VARS":
                op.attrs[attr] = [visible.get(name, name) for name in op.attrs[attr]]
        for inner in op.sub_blocks():
            _rename_block(program, inner, visible)
