"""Programs as text: one op a line, shapes and dtypes beside the names."""

from __future__ import annotations

from collections.abc import Iterator

from .desc import AttrType, BlockDesc, OpDesc, ProgramDesc, VarDesc
from .dtypes import to_numpy
from .registry import IGNORED_ATTRS

__all__ = ["op_text", "program_text", "var_text"]


def var_text(var: VarDesc | None) -> str:
    """``float32[-1, 3, 640, 640]``, or the kind of a holder that is no tensor."""
    if var is None:
        return "?"
    if var.dtype is None or var.shape is None:
        return getattr(var.kind, "name", str(var.kind)).lower()
    try:
        name = to_numpy(var.dtype).name
    except KeyError:
        name = f"dtype{var.dtype}"
    return f"{name}{list(var.shape)}"


def op_text(op: OpDesc, block: BlockDesc | None = None, program: ProgramDesc | None = None) -> str:
    """``Out=[y: float32[1, 8]] = relu(X=[x]) {axis: -1}``; back-end attributes are left out."""
    outputs = ", ".join(
        f"{slot}=[{', '.join(_argument(name, block, program) for name in names)}]" for slot, names in op.outputs.items()
    )
    inputs = ", ".join(f"{slot}=[{', '.join(names)}]" for slot, names in op.inputs.items())
    attrs = ", ".join(_attr(op, name) for name in sorted(op.attrs) if name not in IGNORED_ATTRS)
    return f"{outputs} = {op.type}({inputs})" + (f" {{{attrs}}}" if attrs else "")


def _argument(name: str, block: BlockDesc | None, program: ProgramDesc | None) -> str:
    if block is None or program is None:
        return name
    return f"{name}: {var_text(program.find_var(name, block))}"


def _attr(op: OpDesc, name: str) -> str:
    value = op.attrs[name]
    if op.attr_types.get(name) == AttrType.BLOCK:
        return f"{name}: block {value}"
    text = repr(value)
    return f"{name}: {text if len(text) <= 80 else text[:77] + '...'}"


def program_text(program: ProgramDesc) -> str:
    """The whole program, block after block."""
    return "\n".join(_lines(program)) + "\n"


def _lines(program: ProgramDesc) -> Iterator[str]:
    for block in program.blocks:
        parent = f", parent {block.parent_idx}" if block.parent_idx >= 0 else ""
        yield f"block {block.idx} ({len(block.ops)} ops, {len(block.vars)} variables{parent})"
        for name in sorted(block.vars):
            var = block.vars[name]
            if var.is_persistable_tensor:
                yield f"  persistable {name}: {var_text(var)}"
        for index, op in enumerate(block.ops):
            yield f"  {index}: {op_text(op, block, program)}"
