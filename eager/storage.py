"""What tensors over the same memory share: how often it was written to, by whom, and who they are.

Two counters move. ``version`` counts every write; plans that folded a parameter compare it. ``counter`` is what
``Tensor.inplace_version`` shows and what backward compares; it moves with ``version``, save for the writes that
Paddle forgets (``set_value``, optimizer steps, ...) while ``FLAGS_strict_inplace`` is off.
"""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING, Any

import numpy as np

from ..executor.values import Array

if TYPE_CHECKING:
    from .tensor import Tensor

__all__ = ["Storage", "Window", "is_strict", "mutation_epoch", "same_memory", "set_strict"]

_lock = threading.Lock()
_epoch = 0
_strict = True


def mutation_epoch() -> int:
    """A number that moves whenever a persistable tensor (parameter, statistic, buffer) is written to.

    While it stands still, nothing that a plan folded has changed; when it moved, the plan compares the
    versions of its own parameters.
    """
    return _epoch


def is_strict() -> bool:
    """Whether every write counts as an in-place change (see ``set_flags``)."""
    return _strict


def set_strict(strict: bool) -> None:
    """Set by ``set_flags``."""
    global _strict
    _strict = strict


class Storage:
    """The shared part of tensors that are views of each other.

    Instances start from the class's values, so that making one costs next to nothing.

    Attributes:
        version: number of writes.
        counter: number of writes that count as in-place changes.
        writer: the operator that wrote last.
        owned: False while the memory belongs to somebody else too (a mapped file, a gradient handed to two
            leaves); the first write then moves all views to memory of their own.
        persistable: whether writes move the mutation epoch.
        aliases: the tensors over this memory, once there is more than one.
    """

    version = 0
    counter = 0
    writer = ""
    owned = True
    persistable = False
    aliases: list[weakref.ref[Tensor]] | None = None

    def bump(self, writer: str, counted: bool = True) -> None:
        """Note a write by ``writer``; ``counted`` False marks one of those that Paddle does not count."""
        global _epoch
        self.version += 1
        self.writer = writer
        if counted or _strict:
            self.counter += 1
        if self.persistable:
            with _lock:
                _epoch += 1

    def add_alias(self, source: Tensor, view: Tensor) -> None:
        """Note that ``view`` was made over the memory of ``source``."""
        aliases = self.aliases
        if aliases is None:
            self.aliases = [weakref.ref(source), weakref.ref(view)]
            return
        if len(aliases) >= 16 and len(aliases) & (len(aliases) - 1) == 0:
            aliases[:] = [each for each in aliases if each() is not None]
        aliases.append(weakref.ref(view))

    def others(self, tensor: Tensor) -> list[Tensor]:
        """The living tensors over this memory besides ``tensor``."""
        found = [each() for each in self.aliases or ()]
        return [each for each in found if each is not None and each is not tensor]

    def take_ownership(self, tensor: Tensor) -> None:
        """Move ``tensor`` and all views of its memory to writable memory that nobody else holds."""
        views = [each for each in self.others(tensor) if np.may_share_memory(each._array, tensor._array)]
        if not views:
            tensor._array = np.array(tensor._array, order="K")
        else:
            _move_together([tensor, *views])
        self.owned = True


class Window:
    """Where the elements of an array lie in memory; holds no reference to it.

    Attributes:
        start: address of the lowest byte.
        stop: address after the highest byte.
    """

    __slots__ = ("dtype", "first", "shape", "start", "stop", "strides")

    def __init__(self, array: Array) -> None:
        self.shape, self.strides, self.dtype = array.shape, array.strides, array.dtype
        self.first: int = array.__array_interface__["data"][0]
        reach = [(n - 1) * step for n, step in zip(array.shape, array.strides, strict=True)]
        self.start = self.first + sum(each for each in reach if each < 0)
        self.stop = self.first + sum(each for each in reach if each > 0) + array.itemsize
        if array.size == 0:
            self.start = self.stop = self.first

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Window) and all(
            getattr(self, name) == getattr(other, name) for name in ("first", "shape", "strides", "dtype")
        )

    __hash__ = None  # type: ignore[assignment]

    def positions(self, origin: int) -> Array:
        """The place of each element, in items from ``origin``; shaped as the array. int64."""
        place = np.full((), self.first - origin, np.int64)
        for n, step in zip(self.shape, self.strides, strict=True):
            place = place[..., None] + np.arange(n, dtype=np.int64) * step
        items: Array = place // self.dtype.itemsize
        return items

    def rebuilt(self, memory: Array, origin: int) -> Array:
        """An array of this layout over ``memory``, whose first byte stands for address ``origin``."""
        made: Array = np.ndarray(self.shape, self.dtype, memory.data, self.first - origin, self.strides)
        return made


def _move_together(tensors: list[Tensor]) -> None:
    windows = [Window(each._array) for each in tensors]
    origin = min(each.start for each in windows)
    memory = np.empty(max(each.stop for each in windows) - origin, np.uint8)
    for tensor, window in zip(tensors, windows, strict=True):
        moved = window.rebuilt(memory, origin)
        moved[...] = tensor._array
        tensor._array = moved


def same_memory(a: Array, b: Array) -> bool:
    """Whether two arrays may overlap in memory. Cheap when they come from different allocations."""
    return _root(a) is _root(b) and bool(np.may_share_memory(a, b))


def _root(array: Any) -> Any:
    while isinstance(array, np.ndarray) and array.base is not None:
        array = array.base
    return array
