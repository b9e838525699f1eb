"""What blocks and ops read and write, sub-blocks included, and when each variable is used last."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..ir.desc import AttrType, BlockDesc, OpDesc, ProgramDesc
from ..ir.registry import find

__all__ = ["BlockUse", "ProgramUse", "dead_after"]


@dataclass(frozen=True, slots=True)
class BlockUse:
    """The outer variables that a sub-block touches: those it reads, those it writes, in order of first use."""

    reads: tuple[str, ...]
    writes: tuple[str, ...]


class ProgramUse:
    """Answers what the blocks and ops of one program read and write; each block is looked at once."""

    def __init__(self, program: ProgramDesc) -> None:
        self._program = program
        self._blocks: dict[int, BlockUse] = {}

    def block(self, index: int) -> BlockUse:
        """Which variables of enclosing blocks the block ``index`` reads and writes.

        A name that the block declares itself is local. A name that nobody declares counts as local too.
        """
        if index not in self._blocks:
            self._blocks[index] = BlockUse((), ())  # a block that contains itself ends here
            self._blocks[index] = self._look_at(self._program.blocks[index])
        return self._blocks[index]

    def free_reads(self, index: int) -> list[str]:
        """Every variable that a block reads before it makes it, wherever it comes from; for grad blocks."""
        made: set[str] = set()
        free: dict[str, None] = {}
        for op in self._program.blocks[index].ops:
            for name in self.reads(op):
                if name not in made:
                    free.setdefault(name)
            made.update(self.writes(op))
        return list(free)

    def _look_at(self, block: BlockDesc) -> BlockUse:
        reads: dict[str, None] = {}
        writes: dict[str, None] = {}
        written: set[str] = set()
        for op in block.ops:
            for name in self.reads(op):
                if name not in written and self._is_outer(block, name):
                    reads.setdefault(name)
            for name in self.writes(op):
                if self._is_outer(block, name):
                    writes.setdefault(name)
                if not op.sub_blocks():
                    written.add(name)
        return BlockUse(tuple(reads), tuple(writes))

    def _is_outer(self, block: BlockDesc, name: str) -> bool:
        if name in block.vars or not 0 <= block.parent_idx < len(self._program.blocks):
            return False
        return self._program.find_var(name, self._program.blocks[block.parent_idx]) is not None

    def reads(self, op: OpDesc) -> list[str]:
        """Every variable an op reads: arguments, attributes fed by variables, what its sub-blocks capture.

        An op that works on the block's variables (control flow, arrays) also reads what it writes: where
        the branch is not taken the old value stays.
        """
        names = dict.fromkeys(op.input_names())
        for attr, kind in op.attr_types.items():
            if kind == AttrType.VAR:
                names.setdefault(op.attrs[attr])
            elif kind == AttrType.VARS:
                names.update(dict.fromkeys(op.attrs[attr]))
        for index in op.sub_blocks():
            names.update(dict.fromkeys(self._captured(index)))
        declared = find(op.type)
        if declared is not None and declared.takes_env:
            names.update(dict.fromkeys(self.writes(op)))
        return list(names)

    def _captured(self, index: int) -> Iterable[str]:
        """What a sub-block reads of its surroundings; a grad block also reads what its forward block recorded."""
        block = self._program.blocks[index]
        forward = block.forward_block_idx
        if forward is None or forward < 0:
            return self.block(index).reads
        recorded = self._program.blocks[forward].vars
        return [name for name in self.free_reads(index) if name not in recorded]

    def writes(self, op: OpDesc) -> list[str]:
        """Every variable an op writes, those that its sub-blocks write included."""
        names = dict.fromkeys(op.output_names())
        for index in op.sub_blocks():
            names.update(dict.fromkeys(self.block(index).writes))
        return list(names)


def dead_after(
    uses: list[tuple[list[str], list[str]]], survive: Iterable[str]
) -> tuple[list[list[str]], list[set[str]]]:
    """Eager deletion: per op the variables that nobody reads any more once it has run.

    Args:
        uses: per op the names it reads and the names it writes.
        survive: what must live on after the last op (fetches, the skip set).

    Returns:
        Per op the names to drop after it, and per op the names that are live after it.
    """
    live = set(survive)
    dead: list[list[str]] = [[] for _ in uses]
    live_after: list[set[str]] = [set() for _ in uses]
    for index in range(len(uses) - 1, -1, -1):
        reads, writes = uses[index]
        live_after[index] = live & set(writes)
        dead[index] = [name for name in dict.fromkeys([*reads, *writes]) if name not in live]
        live.difference_update(writes)
        live.update(reads)
    return dead, live_after
