"""What a valid program is, checked: block indices, names, slots, dims. Runs on every load of a file."""

from __future__ import annotations

from collections.abc import Iterator

from ..errors import ProgramError
from .desc import EMPTY_VAR, FAKE_VAR, AttrType, BlockDesc, OpDesc, ProgramDesc, VarDesc
from .printer import op_text

__all__ = ["verify"]

_MAX_DIM = 2**62
_HOLDERS = frozenset({"feed", "fetch"})


def verify(program: ProgramDesc, source: str = "program") -> None:
    """Check the structure of a program.

    Raises:
        ProgramError: names block, op index, op type and slot, and shows the ops around the fault.
    """
    if not program.blocks:
        raise ProgramError(f"{source}: the program has no block")
    _check_blocks(program, source)
    for block in program.blocks:
        for var in block.vars.values():
            _check_var(var, block, source)
        for index, op in enumerate(block.ops):
            fault = next(_op_faults(program, block, op), None)
            if fault is not None:
                raise ProgramError(
                    f"{source}: block {block.idx} op {index} ({op.type}): {fault}{_around(block, index)}"
                )


def _check_blocks(program: ProgramDesc, source: str) -> None:
    count = len(program.blocks)
    for position, block in enumerate(program.blocks):
        if block.idx != position:
            raise ProgramError(f"{source}: block at position {position} calls itself {block.idx}")
        if position == 0:
            continue
        if not 0 <= block.parent_idx < count or block.parent_idx == position:
            raise ProgramError(
                f"{source}: block {position} names block {block.parent_idx} as its parent, there are {count} blocks"
            )
    for position in range(count):
        seen: set[int] = set()
        while position > 0:
            if position in seen:
                raise ProgramError(f"{source}: block {position} is its own ancestor")
            seen.add(position)
            position = program.blocks[position].parent_idx
    _check_nesting(program, source)


def _check_nesting(program: ProgramDesc, source: str) -> None:
    """Refuse blocks that run themselves: the graph of sub-blocks has no cycle."""
    count = len(program.blocks)
    children = [[i for op in block.ops for i in op.sub_blocks()] for block in program.blocks]
    state = [0] * count  # 0 unseen, 1 on the path, 2 done
    for root in range(count):
        stack = [(root, iter(children[root]))] if state[root] == 0 else []
        state[root] = state[root] or 1
        while stack:
            block, rest = stack[-1]
            child = next(rest, None)
            if child is None:
                state[block] = 2
                stack.pop()
            elif 0 <= child < count:
                if state[child] == 1:
                    raise ProgramError(f"{source}: block {block} runs block {child}, which contains it")
                if state[child] == 0:
                    state[child] = 1
                    stack.append((child, iter(children[child])))


def _check_var(var: VarDesc, block: BlockDesc, source: str) -> None:
    for dim in var.shape or ():
        if abs(dim) >= _MAX_DIM:  # real files hold -1 and, in a few places, other negative sizes for "unknown"
            raise ProgramError(f"{source}: block {block.idx} variable '{var.name}' has the dimension {dim}")


def _op_faults(program: ProgramDesc, block: BlockDesc, op: OpDesc) -> Iterator[str]:
    if not op.type:
        yield "the op has no type"
    for name in op.attr_types:
        if name not in op.attrs:
            yield f"attribute {name} has a type and no value"
    for index in op.sub_blocks():
        if not isinstance(index, int) or not 0 < index < len(program.blocks):
            yield f"it runs block {index}, there are {len(program.blocks)} blocks"
    if op.type in _HOLDERS:
        yield from _feed_faults(op)
    local = block.vars
    for kind, slots in (("input", op.inputs), ("output", op.outputs)):
        for slot, names in slots.items():
            for name in names:
                if name in local or name in ("", EMPTY_VAR, FAKE_VAR):
                    continue
                if program.find_var(name, block) is None and not _scope_of_backward(program, block, name):
                    yield f"{kind} {slot}='{name}' is a variable of neither this block nor an enclosing one"
    for name, attr_kind in op.attr_types.items():
        if attr_kind == AttrType.VAR and program.find_var(str(op.attrs[name]), block) is None:
            yield f"attribute {name} is fed by '{op.attrs[name]}', which does not exist"


def _scope_of_backward(program: ProgramDesc, block: BlockDesc, name: str) -> bool:
    """A grad block also sees the variables of the forward block whose scope it runs in."""
    index = block.forward_block_idx
    return index is not None and 0 <= index < len(program.blocks) and name in program.blocks[index].vars


def _feed_faults(op: OpDesc) -> Iterator[str]:
    if not isinstance(op.attrs.get("col", 0), int):
        yield f"attribute col is {op.attrs['col']!r}, expected an int"
    name = op.output("Out") if op.type == "feed" else op.input("X")
    if name is None:
        yield "it names no variable"


def _around(block: BlockDesc, index: int, width: int = 2) -> str:
    first, last = max(index - width, 0), min(index + width + 1, len(block.ops))
    shown = [f"{'>' if i == index else ' '} {i}: {op_text(block.ops[i])[:160]}" for i in range(first, last)]
    return "".join(f"\n    {line}" for line in shown)
