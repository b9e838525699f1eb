"""Backward over a program that holds grad ops already: old gradients are values like others, new ones need names.

While the new grad ops are built, the old variables ``x@GRAD`` go by a name without the suffix, so that nobody
takes them for gradients that are being made. Afterwards they have their names back, and a new gradient that
would have the same name is called ``grad/x@GRAD``, as Paddle prefixes the names of a second backward.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from .desc import GRAD_SUFFIX, BlockDesc, ProgramDesc

__all__ = ["hidden", "hide_gradients", "show_gradients"]

_HIDDEN = "@held"
_AGAIN = "grad/"


def hidden(name: str, kept: Collection[str]) -> str:
    """What a variable is called while gradients are hidden; ``kept`` are the names that stay."""
    return name if name in kept else name.replace(GRAD_SUFFIX, _HIDDEN)


def hide_gradients(program: ProgramDesc, kept: Collection[str]) -> dict[str, str]:
    """Rename the gradients that the program holds, in place.

    Returns:
        Hidden name -> true name; empty when there was nothing to hide.
    """
    found = {
        name: hidden(name, kept)
        for block in program.blocks
        for name in block.vars
        if GRAD_SUFFIX in name and name not in kept
    }
    if found:
        _rename(program, found)
    return {new: old for old, new in found.items()}


def show_gradients(program: ProgramDesc, names: Mapping[str, str]) -> dict[str, str]:
    """Undo :func:`hide_gradients`, in place; new gradients of the same names give way.

    Returns:
        Old name -> new name, of all variables that were renamed.
    """
    taken = set(names.values())
    renamed: dict[str, str] = {}
    for block in program.blocks:
        for name in block.vars:
            base, suffix, rest = name.partition(GRAD_SUFFIX)
            final = names.get(name) or names.get(base, base) + suffix + rest
            while name not in names and final in taken:
                final = _AGAIN + final
            if final != name:
                renamed[name] = final
    _rename(program, renamed)
    return renamed


def _rename(program: ProgramDesc, names: dict[str, str]) -> None:
    for block in program.blocks:
        for op in block.ops:
            op.rename(names)
        _rename_vars(block, names)


def _rename_vars(block: BlockDesc, names: Mapping[str, str]) -> None:
    """Rename variable descriptions where they are, so that those who hold them see it."""
    for var in block.vars.values():
        var.name = names.get(var.name, var.name)
    block.vars = {var.name: var for var in block.vars.values()}
