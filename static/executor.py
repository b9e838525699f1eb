"""``static.Executor``: run a program on a dict of feeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..eager.tensor import Tensor, wrap
from ..errors import InputError
from ..executor.scope import Scope
from ..executor.values import LoDTensor, array_of
from ..ir.desc import ProgramDesc
from ..ir.dtypes import to_numpy
from ..ir.feeding import strip_feed_fetch
from .program import Program, Variable, default_main_program

__all__ = ["Executor"]


class Executor:
    """Runs programs.

    Args:
        place: accepted; the CPU runs the program.
    """

    def __init__(self, place: Any = None) -> None:
        self.place = place

    def run(
        self,
        program: Program | None = None,
        feed: Mapping[str, Any] | None = None,
        fetch_list: Sequence[Variable | str] | Variable | str | None = None,
        feed_var_name: str = "feed",
        fetch_var_name: str = "fetch",
        scope: Scope | None = None,
        return_numpy: bool = True,
        use_program_cache: bool = False,
        use_prune: bool = False,
    ) -> list[Any]:
        """Run a program once.

        Args:
            program: the default main program when None.
            feed: variable name -> array, Tensor or LoDTensor; lists of numbers take the variable's dtype.
            fetch_list: variables or names of block 0, or one of them; what the program's own fetch ops name when
                None or empty.
            return_numpy: arrays; else Tensors.
            scope: values in it stand in for the program's persistable variables of the same name.

        Returns:
            The fetched values, in the order of ``fetch_list``.

        Raises:
            InputError: a feed is missing, unknown, or has another dtype than its variable.
            KernelError: an operator refused its inputs.
        """
        target = default_main_program() if program is None else program
        if not isinstance(target, Program):
            raise InputError(f"Executor.run takes a Program, got {type(program).__name__}")
        stripped = strip_feed_fetch(target.desc)
        wanted = [fetch_list] if isinstance(fetch_list, (Variable, str)) else fetch_list
        fetches = tuple(_name(each) for each in (wanted or stripped.fetches))
        if not stripped.program.global_block.ops and not fetches:
            return []  # a startup program: loaded values need no initialisation
        if feed is not None and not isinstance(feed, Mapping):
            raise InputError(f"feed takes a dict of variable name -> array, got {type(feed).__name__}")
        given = dict(feed or {})
        self._check(target, stripped.feeds or _data_names(stripped.program), given)
        names = tuple(given)
        self._take_from(scope, target)
        outputs = target.runner(names, fetches).run([_value(given[name], name, target) for name in names])
        return [array_of(each) if return_numpy else _tensor(each) for each in outputs]

    def _check(self, program: Program, needed: Sequence[str], given: Mapping[str, Any]) -> None:
        block = program.global_block()
        takes = ", ".join(needed) or "nothing"
        for name in given:
            if not block.has_var(name):
                raise InputError(f"feed '{name}' is no variable of the program; it takes {takes}")
        missing = [name for name in needed if name not in given]
        if missing:
            raise InputError(f"'feed_targets' does not have {missing[0]} variable; the program takes {takes}")

    def _take_from(self, scope: Scope | None, program: Program) -> None:
        for var in program.desc.persistables() if scope is not None else ():
            value = scope.find_var(var.name) if scope is not None else None
            if value is not None and (var.name not in program._params or value is not program._params.value(var.name)):
                program._params.assign(var.name, np.asarray(value))
                program._runners.clear()

    def close(self) -> None:
        """Nothing is held."""


def _data_names(program: ProgramDesc) -> list[str]:
    """The variables made by ``static.data`` that some op reads."""
    read = {name for block in program.blocks for op in block.ops for name in op.input_names()}
    return [var.name for var in program.global_block.vars.values() if var.need_check_feed and var.name in read]


def _name(target: Variable | str) -> str:
    if isinstance(target, str):
        return target
    if isinstance(target, (Variable, Tensor)):
        return target.name
    raise InputError(f"fetch_list takes variables or names, got {type(target).__name__}")


def _value(given: Any, name: str, program: Program) -> Any:
    code = program.global_block().desc.vars[name].dtype
    if isinstance(given, Tensor):
        array, lod = given._array, given._lod
    elif isinstance(given, LoDTensor):
        array, lod = given.array, given.lod
    elif isinstance(given, (np.ndarray, np.generic)) or code is None:
        array, lod = np.asarray(given), None
    else:
        array, lod = np.asarray(given, to_numpy(code)), None
    if code is not None and array.dtype != to_numpy(code):
        declared = to_numpy(code).name
        raise InputError(f"feed '{name}' is {declared}, got {array.dtype.name}; cast it with .astype('{declared}')")
    return LoDTensor(array, lod) if lod else array


def _tensor(value: Any) -> Tensor:
    made = wrap(array_of(value))
    if isinstance(value, LoDTensor):
        made._lod = value.lod
    return made
