"""Cut a saved program down to some of its inputs and outputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import InputError
from ..ir.desc import BlockDesc, OpDesc, ProgramDesc

__all__ = ["keep_inputs_and_outputs"]


def keep_inputs_and_outputs(
    program: ProgramDesc, inputs: Sequence[Any] | None, outputs: Sequence[Any] | None
) -> ProgramDesc:
    """A copy with only the ops that the kept outputs need; feeds that are left without a reader go too.

    Args:
        inputs: names, or specs with a ``name``; each must be an input of the program and all that the outputs
            need must be among them. None keeps what is needed.
        outputs: the outputs to keep; None keeps all.

    Raises:
        InputError: a name is no input or output, or a needed input is left out.
    """
    copy = program.copy()
    block = copy.global_block
    if outputs is not None:
        _keep_fetches(block, [_name(each) for each in outputs])
    _drop_unneeded(copy)
    feeds = [op.outputs["Out"][0] for op in block.ops if op.type == "feed"]
    if inputs is not None:
        _check_inputs(program, feeds, inputs)
    _renumber(block, "feed")
    _renumber(block, "fetch")
    return copy


def _name(spec: Any) -> str:
    name = spec if isinstance(spec, str) else getattr(spec, "name", None)
    if not name:
        raise InputError(f"{spec!r} has no name: inputs and outputs of a saved program are told by name")
    return str(name)


def _keep_fetches(block: BlockDesc, names: Sequence[str]) -> None:
    fetched = {op.inputs["X"][0]: op for op in block.ops if op.type == "fetch"}
    for name in names:
        if name not in fetched:
            raise InputError(f"The tensor `{name}` does not exists. Outputs are {', '.join(fetched)}")
    kept = [fetched[name] for name in names]
    block.ops = [op for op in block.ops if op.type != "fetch"] + kept


def _drop_unneeded(program: ProgramDesc) -> None:
    block = program.global_block
    live: set[str] = set()
    kept: list[OpDesc] = []
    for op in reversed(block.ops):
        if op.type == "fetch" or live.intersection(op.output_names()) or op.sub_blocks():
            kept.append(op)
            live.update(op.input_names())
            for index in op.sub_blocks():
                live.update(name for inner in program.blocks[index].ops for name in inner.input_names())
    block.ops = kept[::-1]
    used = {name for each in program.blocks for op in each.ops for name in (*op.input_names(), *op.output_names())}
    block.vars = {name: var for name, var in block.vars.items() if name in used}


def _check_inputs(program: ProgramDesc, needed: Sequence[str], inputs: Sequence[Any]) -> None:
    known = [op.outputs["Out"][0] for op in program.global_block.ops if op.type == "feed"]
    given = [_name(each) for each in inputs]
    for name in given:
        if name not in known:
            raise InputError(f"'{name}' is no input of the model; it takes {', '.join(sorted(known))}")
    missing = [name for name in needed if name not in given]
    if missing:
        raise InputError(f"the kept outputs need the input(s) {', '.join(missing)}, which input_spec leaves out")


def _renumber(block: BlockDesc, kind: str) -> None:
    """Columns count from 0 again, in their old order."""
    ops = sorted((op for op in block.ops if op.type == kind), key=lambda op: int(op.attrs.get("col", 0)))
    if kind == "fetch":
        ops = [op for op in block.ops if op.type == kind]
    for column, op in enumerate(ops):
        op.attrs["col"] = column
