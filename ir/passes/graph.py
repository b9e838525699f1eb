"""Who makes and who reads each variable of block 0: what a pass asks before it changes anything."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from ..desc import OpDesc, ProgramDesc

__all__ = ["Array", "Graph", "Params"]

Array = npt.NDArray[Any]
Params = dict[str, Array]
"""Constant values by name: parameters, and what passes compute from them."""


class Graph:
    """Block 0 as a graph over single-assignment names.

    A name is *simple* when block 0 writes it at most once and no sub-block touches it; passes rewire simple
    names only, so loops, branches and in-place programs stay what they are.
    """

    def __init__(self, program: ProgramDesc, fetches: Iterable[str], params: Params) -> None:
        self.program = program
        self.block = program.global_block
        self.params = params
        self.fetches = frozenset(fetches)
        self.producer: dict[str, OpDesc] = {}
        self.readers: dict[str, list[OpDesc]] = {}
        self._writes: dict[str, int] = {}
        self._inner: set[str] = set()
        for op in self.block.ops:
            for name in op.output_names():
                self.producer[name] = op
                self._writes[name] = self._writes.get(name, 0) + 1
            for name in dict.fromkeys(op.input_names()):
                self.readers.setdefault(name, []).append(op)
        for block in program.blocks[1:]:
            for op in block.ops:
                self._inner.update(op.input_names(), op.output_names())
        for op in self.block.ops:
            if op.sub_blocks():
                self._inner.update(op.input_names(), op.output_names())
            self._inner.update(_attr_names(op))

    def is_simple(self, name: str) -> bool:
        """Whether the name is written at most once, in block 0, and no sub-block or attribute sees it."""
        return self._writes.get(name, 0) <= 1 and name not in self._inner

    def is_constant(self, name: str) -> bool:
        """Whether the value is known before any run and no op writes it."""
        return name in self.params and self._writes.get(name, 0) == 0

    def sole_reader(self, name: str) -> OpDesc | None:
        """The only op that reads a simple, unfetched name; None when there is none or more than one."""
        if name in self.fetches or not self.is_simple(name):
            return None
        readers = self.readers.get(name, [])
        if len(readers) != 1 or sum(each == name for each in readers[0].input_names()) != 1:
            return None
        return readers[0]

    def constant(self, name: str | None) -> Array | None:
        """The array behind a constant name."""
        return self.params[name] if name is not None and self.is_constant(name) else None

    def add_constant(self, stem: str, value: Array) -> str:
        """A fresh constant, named after ``stem``."""
        name, number = stem, 0
        while name in self.params or self.program.find_var(name, self.block) is not None:
            number += 1
            name = f"{stem}.{number}"
        self.params[name] = np.ascontiguousarray(value)
        return name

    def inner_reads(self, op: OpDesc) -> list[str]:
        """What an op reads besides its arguments: attribute variables, and everything its sub-blocks name."""
        found = _attr_names(op)
        pending, seen = list(op.sub_blocks()), set()
        while pending:
            index = pending.pop()
            if index in seen:
                continue
            seen.add(index)
            for inner in self.program.blocks[index].ops:
                found.extend(inner.input_names())
                found.extend(inner.output_names())
                pending.extend(inner.sub_blocks())
        return found

    def fold(self, name: str, value: Array) -> None:
        """Make a name that an op wrote a constant; the caller removes the op."""
        self.params[name] = value
        self.producer.pop(name, None)
        self._writes[name] = 0

    def remove(self, gone: Iterable[OpDesc]) -> None:
        """Take ops out of block 0."""
        identities = {id(op) for op in gone}
        self.block.ops = [op for op in self.block.ops if id(op) not in identities]


def _attr_names(op: OpDesc) -> list[str]:
    """Variables that attributes name."""
    found: list[str] = []
    for attr, kind in op.attr_types.items():
        if kind.name == "VAR":
            found.append(op.attrs[attr])
        elif kind.name == "VARS":
            found.extend(op.attrs[attr])
    return found
