"""Gradient mode, one switch per thread: ``no_grad``, ``enable_grad``, ``set_grad_enabled``."""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeVar

__all__ = ["enable_grad", "is_grad_enabled", "no_grad", "set_grad_enabled", "state"]

F = TypeVar("F", bound=Callable[..., Any])


class _State(threading.local):
    """``enabled``: whether operators that run in this thread record how to go back."""

    enabled = True


state = _State()


def is_grad_enabled() -> bool:
    """Whether operators record gradients in this thread."""
    return state.enabled


class _Switch:
    """A context manager that sets the mode, and a decorator that runs a function in it.

    One object may be entered again while it is active (recursion, generators): each entry keeps its own mode
    to go back to.
    """

    target = True

    def __init__(self) -> None:
        self._before: list[bool] = []

    def __enter__(self) -> _Switch:
        self._before.append(state.enabled)
        state.enabled = self.target
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        state.enabled = self._before.pop()

    def __call__(self, function: F) -> F:
        if inspect.isgeneratorfunction(function):
            return _switched_generator(function, self.target)  # type: ignore[return-value]

        @functools.wraps(function)
        def switched(*args: Any, **kwargs: Any) -> Any:
            before = state.enabled
            state.enabled = self.target
            try:
                return function(*args, **kwargs)
            finally:
                state.enabled = before

        return switched  # type: ignore[return-value]


def _switched_generator(function: Callable[..., Any], target: bool) -> Callable[..., Any]:
    """The generator function with its body in mode ``target`` and its consumer in the consumer's mode."""

    @functools.wraps(function)
    def switched(*args: Any, **kwargs: Any) -> Any:
        running = function(*args, **kwargs)
        answer = None
        while True:
            before = state.enabled
            state.enabled = target
            try:
                value = running.send(answer)
            except StopIteration as end:
                return end.value
            finally:
                state.enabled = before
            answer = yield value

    return switched


class no_grad_(_Switch):
    """See :func:`no_grad`."""

    target = False


class enable_grad(_Switch):
    """Context manager and decorator: operators inside record gradients even within ``no_grad``."""

    target = True


def no_grad(function: F | None = None) -> Any:
    """Operators inside record nothing. ``with no_grad():``, ``@no_grad()`` or ``@no_grad``."""
    return no_grad_() if function is None else no_grad_()(function)


class set_grad_enabled(_Switch):
    """Set the mode of this thread at once; as a context manager, go back at its end."""

    def __init__(self, mode: bool) -> None:
        super().__init__()
        self._before.append(state.enabled)
        self.target = bool(mode)
        state.enabled = self.target

    def __enter__(self) -> _Switch:
        state.enabled = self.target
        return self
