"""Static mode: a loaded layer that is called adds its program to the one that is being built."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..eager import static_mode
from ..eager.static_mode import in_dynamic_mode
from ..errors import InputError, ProgramError
from ..ir.desc import AttrType, BlockDesc, OpDesc, ProgramDesc
from ..ir.registry import find
from ..ir.train_mode import add_residuals, in_train_mode
from ..ir.versioning import single_assignment
from ..jit.holder import ProgramHolder
from ..jit.translated_layer import TranslatedLayer
from .program import Program, Variable, default_main_program

__all__ = ["append_layer", "disable_static", "enable_static", "in_dynamic_mode"]


def enable_static() -> None:
    """From here on, calling a loaded layer adds its ops to the default main program."""
    static_mode.set_recorder(_record)


def disable_static(place: Any = None) -> None:
    """Back to running at once; ``place`` is accepted."""
    static_mode.set_recorder(None)


def _record(layer: TranslatedLayer, holder: ProgramHolder, inputs: Sequence[Any]) -> Any:
    outputs = append_layer(default_main_program(), layer, holder, inputs)
    return outputs[0] if len(outputs) == 1 else outputs


def append_layer(
    target: Program, layer: TranslatedLayer, holder: ProgramHolder, inputs: Sequence[Any]
) -> list[Variable]:
    """Add the program of a layer's method to ``target``.

    A layer in ``train()`` mode adds its train-mode forward. Every input is assigned to the layer's input variable.
    Variables get names of their own; stored ones the name of their tensor, which the program reads and writes.

    Returns:
        The output variables.

    Raises:
        InputError: an input is no variable of the program.
        ProgramError: both programs use an operator, in two versions of its meaning.
    """
    added, last = _prepared(layer, holder)
    for var in added.persistables():
        var.stop_gradient = bool(layer._tensors[var.name].stop_gradient)  # frozen ones get no grad ops
    _merge_versions(target.desc, added)
    names = _new_names(target, layer, added)
    _rename(added, names)
    _share_values(target, layer, holder, names)
    block = target.desc.global_block
    for given, declared in zip(inputs, holder.input_names, strict=True):
        block.ops.append(OpDesc("assign", {"X": [_input_name(given, target)]}, {"Out": [names[declared]]}))
    _append_blocks(target.desc, added)
    return [target.global_block().var(names[last.get(name, name)]) for name in holder.output_names]


def _prepared(layer: TranslatedLayer, holder: ProgramHolder) -> tuple[ProgramDesc, dict[str, str]]:
    """The layer's program, ready for a backward, and new names of variables that it writes more than once."""
    program = holder.infer_program.copy() if layer._is_test else in_train_mode(holder.infer_program)
    last = single_assignment(program)
    add_residuals(program)
    return program, last


def _input_name(given: Any, target: Program) -> str:
    if not isinstance(given, Variable):
        raise InputError(
            f"in static mode a layer takes variables of the program, got {type(given).__name__}; make one with "
            "static.data, or leave static mode with oarlock.disable_static()"
        )
    if given.block.program is not target:
        raise InputError(f"variable '{given.name}' belongs to another program than the one that is being built")
    return given.name


def _merge_versions(target: ProgramDesc, added: ProgramDesc) -> None:
    ours = {op.type for block in target.blocks for op in block.ops}
    versions = dict(target.op_versions or {})
    for block in added.blocks:
        for op in block.ops:
            version = added.op_version(op.type)
            kept = versions.get(op.type, 0)
            if op.type in ours and find(op.type, kept) is not find(op.type, version):
                raise ProgramError(
                    f"operator {op.type} has version {kept} in the program and {version} in the layer that is added; "
                    "build them into two programs"
                )
            versions[op.type] = max(kept, version)
    target.op_versions = versions or target.op_versions
    target.version = max(target.version or 0, added.version or 0) or None


def _new_names(target: Program, layer: TranslatedLayer, added: ProgramDesc) -> dict[str, str]:
    taken = {name for block in target.desc.blocks for name in block.vars}
    names: dict[str, str] = {}
    for block in added.blocks:
        for var in block.vars.values():
            if var.name in names:
                continue
            tensor = layer._tensors.get(var.name)
            stem = var.name if tensor is None else tensor.name
            if tensor is None or target._params.tensors.get(stem) is not tensor:
                stem = _free(stem, taken)
            names[var.name] = stem
            taken.add(stem)
    return names


def _free(stem: str, taken: set[str]) -> str:
    if stem not in taken:
        return stem
    number = 1
    while f"{stem}_{number}" in taken:
        number += 1
    return f"{stem}_{number}"


def _rename(program: ProgramDesc, names: dict[str, str]) -> None:
    for block in program.blocks:
        for op in block.ops:
            op.rename(names)
            for attr, kind in op.attr_types.items():
                if kind == AttrType.VAR:
                    op.attrs[attr] = names.get(op.attrs[attr], op.attrs[attr])
                elif kind == AttrType.VARS:
                    op.attrs[attr] = [names.get(name, name) for name in op.attrs[attr]]
        for var in block.vars.values():
            var.name, var.need_check_feed = names[var.name], None
            var.stop_gradient = var.stop_gradient if var.persistable else None
        block.vars = {var.name: var for var in block.vars.values()}


def _share_values(target: Program, layer: TranslatedLayer, holder: ProgramHolder, names: dict[str, str]) -> None:
    for name in holder.persistable_names:
        target._params.tensors[names[name]] = layer._tensors[name]


def _append_blocks(target: ProgramDesc, added: ProgramDesc) -> None:
    """Block 0 goes on, further blocks are numbered on."""
    offset = len(target.blocks) - 1
    for block in added.blocks:
        for op in block.ops:
            _shift_blocks(op, offset)
    target.global_block.ops += added.global_block.ops
    for name, var in added.global_block.vars.items():
        target.global_block.vars.setdefault(name, var)
    target.blocks += [_moved(block, offset) for block in added.blocks[1:]]


def _moved(block: BlockDesc, offset: int) -> BlockDesc:
    block.idx += offset
    block.parent_idx += offset if block.parent_idx > 0 else 0
    if block.forward_block_idx is not None and block.forward_block_idx > 0:
        block.forward_block_idx += offset
    return block


def _shift_blocks(op: OpDesc, offset: int) -> None:
    for attr, kind in op.attr_types.items():
        if kind == AttrType.BLOCK:
            op.attrs[attr] += offset
        elif kind == AttrType.BLOCKS:
            op.attrs[attr] = [index + offset for index in op.attrs[attr]]
