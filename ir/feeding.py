"""Take the feed and fetch ops off a program: what remains computes, the names say what goes in and comes out."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import ProgramError
from .desc import BlockDesc, OpDesc, ProgramDesc

__all__ = ["Stripped", "strip_feed_fetch"]


@dataclass(frozen=True, slots=True)
class Stripped:
    """A program without feed and fetch ops, and the names they held, by column."""

    program: ProgramDesc
    feeds: list[str]
    fetches: list[str]


def strip_feed_fetch(program: ProgramDesc) -> Stripped:
    """``program`` with a block 0 that has no feed and fetch ops; names in the order of attr ``col``.

    ``program`` keeps its own list of ops and table of variables; the descriptions themselves are shared.

    Raises:
        ProgramError: two feed ops (or two fetch ops) claim one column.
    """
    block = program.global_block
    feeds = _columns(block, "feed")
    fetches = _columns(block, "fetch")
    holders = {name for op in block.ops for name in _holders(op)}
    bare = BlockDesc(
        block.idx,
        block.parent_idx,
        {name: var for name, var in block.vars.items() if name not in holders},
        [op for op in block.ops if op.type not in ("feed", "fetch")],
        block.forward_block_idx,
        block.unknown,
    )
    made = ProgramDesc([bare, *program.blocks[1:]], program.version, program.op_versions, program.unknown)
    return Stripped(made, feeds, fetches)


def _holders(op: OpDesc) -> list[str]:
    if op.type == "feed":
        return op.inputs.get("X", [])
    return op.outputs.get("Out", []) if op.type == "fetch" else []


def _columns(block: BlockDesc, kind: str) -> list[str]:
    columns: dict[int, str] = {}
    for index, op in enumerate(block.ops):
        if op.type != kind:
            continue
        name = op.output("Out") if kind == "feed" else op.input("X")
        column = op.attrs.get("col", 0)
        if name is None or column in columns:
            raise ProgramError(f"block 0 op {index} ({kind}): column {column} is taken by '{columns.get(column)}'")
        columns[column] = name
    return [columns[column] for column in sorted(columns)]
