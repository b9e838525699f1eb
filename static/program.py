"""``Program``, ``Block`` and ``Variable``: the program as users of ``paddle.static`` see it."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from ..eager import dtypes, unique_name
from ..errors import InputError
from ..executor.runner import InferenceRunner
from ..executor.scope import Scope
from ..executor.values import Array
from ..ir.desc import GRAD_SUFFIX, AttrType, BlockDesc, OpDesc, ProgramDesc, VarDesc
from ..ir.dtypes import from_numpy, to_numpy
from ..ir.feeding import strip_feed_fetch
from ..ir.passes import PIPELINE
from ..ir.printer import program_text
from ..ir.program_io import read_program, write_program
from ..ir.registry import find
from ..ir.verify import verify
from .params import ProgramParams

__all__ = [
    "Block",
    "Program",
    "Variable",
    "default_main_program",
    "default_startup_program",
    "global_scope",
    "program_guard",
    "scope_guard",
]


class Variable:
    """A variable of a program: its description, not its value."""

    def __init__(self, block: Block, desc: VarDesc) -> None:
        self.block = block
        self.desc = desc

    @property
    def name(self) -> str:
        """Its name, unique in its block."""
        return self.desc.name

    @property
    def shape(self) -> tuple[int, ...]:
        """Its sizes; -1 is unknown."""
        return self.desc.shape or ()

    @property
    def dtype(self) -> Any:
        """Its element type, or None for what is no tensor."""
        return None if self.desc.dtype is None else dtypes.of_numpy(to_numpy(self.desc.dtype))

    @property
    def persistable(self) -> bool:
        """Whether the value is stored with the model."""
        return bool(self.desc.persistable)

    @property
    def stop_gradient(self) -> bool:
        """Whether backward ends here."""
        return bool(self.desc.stop_gradient)

    @stop_gradient.setter
    def stop_gradient(self, stop: bool) -> None:
        self.desc.stop_gradient = stop

    def __repr__(self) -> str:
        return f"var {self.name} : {self.dtype}{list(self.shape)}"


class Block:
    """A block of a program."""

    def __init__(self, program: Program, desc: BlockDesc) -> None:
        self.program = program
        self.desc = desc

    @property
    def idx(self) -> int:
        """Its position in the program."""
        return self.desc.idx

    @property
    def ops(self) -> list[Any]:
        """Its op descriptions, in order."""
        return self.desc.ops

    @property
    def vars(self) -> Mapping[str, Variable]:
        """Its own variables by name."""
        return {name: Variable(self, var) for name, var in self.desc.vars.items()}

    def has_var(self, name: str) -> bool:
        """Whether the block itself has a variable of this name."""
        return name in self.desc.vars

    def var(self, name: str) -> Variable:
        """A variable of the block.

        Raises:
            InputError: there is none of that name.
        """
        if name not in self.desc.vars:
            raise InputError(f"var {name} not in this block")
        return Variable(self, self.desc.vars[name])

    def create_var(
        self,
        name: str | None = None,
        shape: Sequence[int | None] = (),
        dtype: Any = "float32",
        persistable: bool = False,
        stop_gradient: bool = False,
    ) -> Variable:
        """A new variable; one of that name is returned as it is. None and -1 are free sizes."""
        name = name or unique_name.generate("_generated_var")
        if name not in self.desc.vars:
            sizes = tuple(-1 if size is None else int(size) for size in shape)
            code = from_numpy(dtypes.numpy_dtype(dtype))
            made = VarDesc(name, dtype=code, shape=sizes, persistable=persistable, stop_gradient=stop_gradient)
            self.desc.vars[name] = made
        return Variable(self, self.desc.vars[name])

    def append_op(
        self,
        type: str,
        inputs: Mapping[str, Any] | None = None,
        outputs: Mapping[str, Any] | None = None,
        attrs: Mapping[str, Any] | None = None,
    ) -> OpDesc:
        """Add an op at the end.

        Args:
            inputs, outputs: slot -> variable, name, or a list of them.
            attrs: attribute -> value.

        Raises:
            InputError: oarlock has no such operator.
        """
        declared = find(type)
        if declared is None:
            raise InputError(f"append_op: oarlock has no operator '{type}'")
        op = OpDesc(type, _arguments(inputs), _arguments(outputs))
        for name, value in (attrs or {}).items():
            op.set_attr(name, value, AttrType.STRINGS if value == [] else None)
        if declared.since:
            versions = self.program.desc.op_versions or {}
            self.program.desc.op_versions = {declared.type: declared.since, **versions}
        self.desc.ops.append(op)
        return op


def _arguments(slots: Mapping[str, Any] | None) -> dict[str, list[str]]:
    return {
        slot: [
            each if isinstance(each, str) else str(each.name) for each in (v if isinstance(v, (list, tuple)) else [v])
        ]
        for slot, v in (slots or {}).items()
    }


class Program:
    """A program, and the values of its persistable variables when it was loaded with them."""

    def __init__(self, desc: ProgramDesc | None = None, values: Mapping[str, Array] | None = None) -> None:
        self.desc = ProgramDesc([BlockDesc(0)]) if desc is None else desc
        self._params = ProgramParams(values or {})
        self._runners: dict[tuple[tuple[str, ...], tuple[str, ...], int], InferenceRunner] = {}
        self._lock = threading.Lock()

    @staticmethod
    def parse_from_string(data: bytes) -> Program:
        """The program in the bytes of a ``.pdmodel`` file.

        Raises:
            FormatError, ProgramError: the bytes are no valid program.
        """
        desc = read_program(data, "the program string")
        verify(desc, "the program string")
        return Program(desc)

    def serialize_to_string(self) -> bytes:
        """The bytes of a ``.pdmodel`` file."""
        return write_program(self.desc)

    def global_block(self) -> Block:
        """Block 0."""
        return self.block(0)

    def block(self, index: int) -> Block:
        """The block at a position."""
        return Block(self, self.desc.blocks[index])

    @property
    def blocks(self) -> list[Block]:
        """All blocks."""
        return [Block(self, desc) for desc in self.desc.blocks]

    @property
    def num_blocks(self) -> int:
        """How many blocks there are."""
        return len(self.desc.blocks)

    def list_vars(self) -> Iterator[Variable]:
        """Every variable of every block."""
        for block in self.blocks:
            yield from block.vars.values()

    def all_parameters(self) -> list[Variable]:
        """The persistable variables of block 0."""
        return [var for var in self.global_block().vars.values() if var.desc.is_persistable_tensor]

    def clone(self, for_test: bool = False) -> Program:
        """A copy; ``for_test`` turns every ``is_test`` attribute on. Values are shared."""
        desc = self.desc.copy()
        if for_test:
            for block in desc.blocks:
                for op in block.ops:
                    if "is_test" in op.attrs:
                        op.attrs["is_test"] = True
        made = Program(desc)
        made._params = self._params
        return made

    def runner(self, feeds: tuple[str, ...], fetches: tuple[str, ...]) -> InferenceRunner:
        """What runs the program for these feeds and fetches; kept as long as the program does not grow."""
        size = sum(len(block.ops) for block in self.desc.blocks)
        with self._lock:
            runner = self._runners.get((feeds, fetches, size))
            if runner is None:
                while len(self._runners) >= 8:
                    self._runners.pop(next(iter(self._runners)))
                stripped = strip_feed_fetch(self.desc).program
                skip = frozenset(PIPELINE) - {"drop_dead"} if _trains(stripped) else frozenset()
                runner = InferenceRunner(stripped, feeds, fetches, self._params, skip)
                self._runners[feeds, fetches, size] = runner
            return runner

    def __str__(self) -> str:
        return program_text(self.desc)

    to_string = __str__


def _trains(program: ProgramDesc) -> bool:
    """Whether a program holds gradients: inference passes know nothing of what grad ops read."""
    return any(GRAD_SUFFIX in name for block in program.blocks for name in block.vars)


class _Current(threading.local):
    def __init__(self) -> None:
        self.main = Program()
        self.startup = Program()
        self.scope = Scope()


_current = _Current()


def default_main_program() -> Program:
    """The program that is being built in this thread."""
    return _current.main


def default_startup_program() -> Program:
    """The startup program of this thread; loaded models need none."""
    return _current.startup


def global_scope() -> Scope:
    """The scope of this thread."""
    return _current.scope


@contextmanager
def program_guard(main_program: Program, startup_program: Program | None = None) -> Iterator[None]:
    """Inside, these are the default programs."""
    kept = _current.main, _current.startup
    _current.main, _current.startup = main_program, startup_program or _current.startup
    try:
        yield
    finally:
        _current.main, _current.startup = kept


@contextmanager
def scope_guard(scope: Scope) -> Iterator[None]:
    """Inside, this is the global scope."""
    kept = _current.scope
    _current.scope = scope
    try:
        yield
    finally:
        _current.scope = kept
