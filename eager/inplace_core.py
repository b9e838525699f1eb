"""How a tensor takes over the result of an operator in place: checks, the write, the graph, the views.

The order is that of the contract: leaf check, run, write, version, history. Everything that can fail happens before
anything is changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import InputError
from ..executor.values import Array
from .graph import AccumulationNode, AutogradError, Edge, GradNode, StaleLeafNode, edge_of
from .mode import state
from .storage import Window
from .tape import OpNode
from .tensor import Tensor, wrap

__all__ = ["adopt", "check_leaf", "reshape_in_place", "shadow", "write_region"]


def check_leaf(x: Tensor, word: str = "Var") -> None:
    """Refuse to change a leaf that needs a gradient while gradients are recorded.

    Raises:
        InputError: it is one.
    """
    if state.enabled and not x._stop and x.is_leaf:
        raise InputError(
            f"(InvalidArgument) Leaf {word} ({x.name}) that doesn't stop gradient can't use inplace strategy. "
            "Change it under no_grad(), or change a clone()."
        )


def shadow(x: Tensor, keep_memory: bool = False) -> Tensor:
    """A stand-in for ``x`` that a differentiable operator may keep although ``x`` is about to be overwritten.

    It has the value and history of ``x`` but a version of its own. Its memory is that of ``x`` where the result will
    not be written there (or with ``keep_memory``, for operators that only change the shape), else a copy.
    """
    made = wrap(x._array)
    if not keep_memory and _stays_in_memory(x):
        made._array = x._array.copy()
    if not x._stop:
        made._edge, made._stop = edge_of(x), False
    return made


def adopt(x: Tensor, result: Tensor, writer: str, counted: bool = True, zero: bool = False) -> Tensor:
    """Make ``x`` hold ``result``: value, shape, dtype, and history where the result has one. Returns ``x``.

    The version of ``x`` goes up by one before the node of the result looks at what it kept, so that an operator
    which keeps its own output keeps it at the new version.

    Args:
        counted: False for the writes that Paddle does not count.
        zero: the operator has no gradient; a computed ``x`` then gets a zero one. (Paddle lets the gradient of the
            new value through to the old one.)
    """
    recorded = state.enabled and (not result._stop or (zero and not x._stop and not x.is_leaf))
    if not recorded:
        if x._array is not result._array:
            _write(x, result._array)
        x._storage.bump(writer, counted)
        return x
    edge = None if result._stop else result._edge
    if edge is None:
        edge = (ZeroNode(x, result), 0)
    if _goes_where_it_is(x, result._array):
        _own(x)
    views: Views | None = Views(x)
    if x._array is not result._array and not _write(x, result._array):
        views = None
    x._storage.bump(writer, counted)
    _keep_at_new_version(edge, x)
    x._edge, x._stop = edge, False
    if views is not None:
        views.follow(writer)
    return x


def write_region(x: Tensor, index: tuple[Any, ...], value: Array, writer: str, edge: Edge | None) -> None:
    """Write part of ``x``; ``edge`` is its history afterwards, or None where nothing is recorded."""
    _own(x)
    views = None if edge is None else Views(x)
    x._array[index] = value
    x._storage.bump(writer)
    if edge is not None:
        x._edge, x._stop = edge, False
    if views is not None:
        views.follow(writer)


def _stays_in_memory(x: Tensor) -> bool:
    """Whether a new value goes where the old one is, since views look at that memory or a plan may hold it."""
    return x._storage.aliases is not None or x._storage.persistable


def _write(x: Tensor, value: Array) -> bool:
    """Put the value in the memory of ``x``; or, where nothing else looks at that, give ``x`` the value's memory.

    Returns:
        Whether other views see the value.
    """
    if _goes_where_it_is(x, value):
        _own(x)
        held = x._array
        if held.shape == value.shape:
            held[...] = value
        else:
            held.reshape(-1)[...] = value.reshape(-1)
            x._array = held.reshape(value.shape)
        return True
    x._array = value
    if not x._storage.owned and x._storage.aliases is None:
        x._storage.owned = True
    return False


def _goes_where_it_is(x: Tensor, value: Array) -> bool:
    """Whether a value is written into the memory of ``x``: somebody looks at that, and it fits."""
    held = x._array
    if not _stays_in_memory(x) or held.dtype != value.dtype:
        return False
    return held.shape == value.shape or (held.size == value.size and held.flags.c_contiguous)


def _own(x: Tensor) -> None:
    """Move ``x`` and its views to memory that may be written."""
    if not (x._storage.owned and x._array.flags.writeable):
        x._storage.take_ownership(x)


def reshape_in_place(x: Tensor, result: Tensor, writer: str) -> Tensor:
    """Make ``x`` hold ``result``, which looks at the same memory in another shape. Returns ``x``."""
    x._array = result._array
    x._storage.bump(writer)
    if not result._stop and state.enabled and result._edge is not None:
        x._edge, x._stop = result._edge, False
    return x


def _keep_at_new_version(edge: Edge, x: Tensor) -> None:
    """Let the result's node keep ``x``, which will show later writes, where it kept the result."""
    node, index = edge
    if isinstance(node, OpNode) and node.saved is not None:
        outputs: list[Any] = [None] * node.width
        outputs[index] = x
        node.plan.keep_outputs(node.saved, outputs)


class Views:
    """The other tensors over the memory of one that is about to change, as they are before the change."""

    def __init__(self, x: Tensor) -> None:
        self.tensor = x
        found = x._storage.others(x) if x._storage.aliases is not None else []
        touched = [each for each in found if np.may_share_memory(each._array, x._array)]
        self.before = [(each, Window(each._array), edge_of(each)) for each in touched]

    def follow(self, writer: str) -> None:
        """After a recorded change: tell the others what their new value means for their gradients.

        A detached view stays a constant. What it was detached from does not learn of changes made behind its back,
        nor the other way round: it raises when backward reaches it.
        """
        x = self.tensor
        new = edge_of(x)
        if new is None or not self.before:
            return
        window_of_x = Window(x._array)
        for each, window, edge in self.before:
            if each._family is not x._family and each._family is not None and each._stop:
                continue
            if edge is not None and isinstance(edge[0], AccumulationNode):
                each._edge = (StaleLeafNode(each, writer), 0)
            elif each._family is not x._family:
                each._edge, each._stop = (StaleNode(each, writer), 0), False
            else:
                each._edge, each._stop = (OverlapNode(each, window, edge, window_of_x, new), 0), False


class ZeroNode(GradNode):
    """History of a tensor that an operator without gradient changed in place: the old value gets zeros."""

    __slots__ = ("old",)

    def __init__(self, x: Tensor, result: Tensor) -> None:
        super().__init__((x,), (result._meta(),))
        self.old = x._meta()

    def apply(self, grads: list[Array | None]) -> Sequence[Array | None]:
        return (np.zeros(self.old.shape, self.old.dtype),)

    def apply_graph(self, grads: list[Tensor | None]) -> Sequence[Tensor | None]:
        return (wrap(np.zeros(self.old.shape, self.old.dtype)),)


class StaleNode(GradNode):
    """Stands for a computed tensor whose memory was changed, in a recorded way, through a detached view."""

    __slots__ = ("message",)

    def __init__(self, tensor: Tensor, writer: str) -> None:
        super().__init__((), (tensor._meta(),))
        self.message = (
            f"(PermissionDenied) Tensor '{tensor._name or ''}' was changed by {writer} through a detached view of it, "
            "so its gradient is not known; change a clone() of the detached tensor instead."
        )

    def apply(self, grads: list[Array | None]) -> Sequence[Array | None]:
        raise AutogradError(self.message)

    def apply_graph(self, grads: list[Tensor | None]) -> Sequence[Tensor | None]:
        raise AutogradError(self.message)


class OverlapNode(GradNode):
    """History of a tensor part of whose memory was changed through another view.

    Where the two overlap the gradient belongs to the other view's new value, elsewhere to this tensor's old one.
    """

    __slots__ = ("mine", "other")

    def __init__(self, tensor: Tensor, mine: Window, old: Edge | None, other: Window, new: Edge) -> None:
        super().__init__((), (tensor._meta(),))
        self.edges = (old, new)
        self.mine = mine
        self.other = other

    def apply(self, grads: list[Array | None]) -> Sequence[Array | None]:
        grad = grads[0]
        if grad is None:
            return (None, None)
        if self.mine.dtype != self.other.dtype:
            raise AutogradError(
                f"a view of dtype {self.other.dtype} was changed in place over memory read as {self.mine.dtype}; "
                "its gradient is not known, change a clone() instead"
            )
        origin = min(self.mine.start, self.other.start)
        size = (max(self.mine.stop, self.other.stop) - origin) // self.mine.dtype.itemsize
        ours, theirs = self.mine.positions(origin), self.other.positions(origin)
        spread = np.zeros(size, grad.dtype)
        spread[ours] = grad
        given = spread[theirs]
        spread[theirs] = 0
        return (spread[ours], given)
