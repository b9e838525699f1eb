"""Scopes: variables by name, with a parent chain; what a run leaves behind for the backward block."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np

from .values import LoDTensor, Meta, SelectedRows, TensorArray

__all__ = ["Scope", "ScopePool", "nbytes"]


def nbytes(value: Any) -> int:
    """The bytes that a value holds, views counted at their own size."""
    if isinstance(value, (list, tuple, TensorArray)):
        return sum(nbytes(each) for each in value)
    if isinstance(value, LoDTensor):
        return int(value.array.nbytes)
    if isinstance(value, SelectedRows):
        return int(value.values.nbytes + value.rows.nbytes)
    if isinstance(value, Scope):
        return sum(nbytes(each) for each in value.vars.values())
    return int(value.nbytes) if isinstance(value, (np.ndarray, np.generic)) else 0


class Scope:
    """Variables by name. A lookup walks to the parent; a write stays here.

    Attributes:
        vars: this scope's own variables.
        parent: the enclosing scope, or None.
        can_reuse: whether the next call may take this scope again. It is set after an inference forward and
            after backward has run, and cleared while a backward may still read what the forward left.
    """

    __slots__ = ("__weakref__", "can_reuse", "children", "parent", "vars")

    def __init__(self, parent: Scope | None = None) -> None:
        self.vars: dict[str, Any] = {}
        self.parent = parent
        self.children: list[Scope] = []
        self.can_reuse = True

    def new_scope(self) -> Scope:
        """A child scope, listed in ``children`` until :meth:`drop_kids`."""
        child = Scope(self)
        self.children.append(child)
        return child

    def find_var(self, name: str) -> Any:
        """The value of a variable here or in an ancestor; None when there is none."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.vars:
                return scope.vars[name]
            scope = scope.parent
        return None

    def __contains__(self, name: str) -> bool:
        return self.find_var(name) is not None

    def set_var(self, name: str, value: Any) -> None:
        """Give a variable of this scope a value."""
        self.vars[name] = value

    def local_var_names(self) -> list[str]:
        """The names of this scope's own variables, sorted."""
        return sorted(self.vars)

    def drop_kids(self) -> None:
        """Forget all child scopes."""
        self.children.clear()

    def release(self) -> None:
        """Free every variable and child, and mark the scope as reusable."""
        self.vars.clear()
        self.children.clear()
        self.can_reuse = True

    def describe(self) -> str:
        """The scope tree as text: one variable a line with shape, dtype and bytes, and the reuse flags."""
        return "\n".join(self._lines(0))

    def _lines(self, depth: int) -> Iterator[str]:
        pad = "  " * depth
        flag = "reusable" if self.can_reuse else "in use"
        yield f"{pad}scope ({flag}, {len(self.vars)} variables, {nbytes(self)} bytes)"
        for name in sorted(self.vars):
            yield f"{pad}  {name}: {_summary(self.vars[name])}"
        for child in self.children:
            yield from child._lines(depth + 1)


def _summary(value: Any) -> str:
    shape = getattr(value, "shape", None)
    if isinstance(value, Meta):
        return f"{value.dtype}{list(value.shape)}, shape only"
    if shape is not None:
        lod = f", lod {value.lod}" if isinstance(value, LoDTensor) else ""
        return f"{value.dtype}{list(shape)}{lod}, {nbytes(value)} bytes"
    if isinstance(value, list):
        return f"{type(value).__name__} of {len(value)}, {nbytes(value)} bytes"
    return type(value).__name__


class ScopePool:
    """Scopes for the calls of one program: a call takes a reusable one or gets a new one.

    Safe in threads without a lock, which a scope given back by the garbage collector might find taken: single
    operations of a deque are atomic. A few scopes are kept, further ones are dropped.
    """

    def __init__(self, kept: int = 8) -> None:
        self._free: deque[Scope] = deque(maxlen=kept)

    def take(self) -> Scope:
        """A scope that no other call uses, marked as not reusable."""
        try:
            scope = self._free.pop()
        except IndexError:
            scope = Scope()
        scope.can_reuse = False
        return scope

    def give_back(self, scope: Scope) -> None:
        """Release a scope and keep it for the next call."""
        scope.release()
        self._free.append(scope)
