"""``LazyInitialized``: an attribute that is computed at first access and a plain attribute ever after."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

__all__ = ["LazyInitialized"]

T = TypeVar("T")
_LOCK_NAME = "_lazy_lock"
_creating_locks = threading.Lock()


class LazyInitialized(Generic[T]):
    """Decorator for a method of no arguments whose result becomes an instance attribute.

    The result is stored in the instance's ``__dict__`` under the method's name, where it shadows this
    (non-data) descriptor: later accesses cost nothing. Several threads at the first access compute it once.
    If the method raises, nothing is stored and the next access tries again.

    Access through the class returns the descriptor itself. A class with ``__slots__`` needs ``"__dict__"``
    among them: there is no other place where a value could shadow the descriptor.
    """

    def __init__(self, function: Callable[[Any], T]) -> None:
        self.function = function
        self.__doc__ = function.__doc__
        self.name = function.__name__

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, instance: None, owner: type) -> LazyInitialized[T]: ...

    @overload
    def __get__(self, instance: object, owner: type) -> T: ...

    def __get__(self, instance: object | None, owner: type) -> T | LazyInitialized[T]:
        if instance is None:
            return self
        try:
            store = instance.__dict__
        except AttributeError:
            raise TypeError(
                f"{owner.__name__}.{self.name} is lazily initialized and needs a __dict__: add '__dict__' to __slots__"
            ) from None
        with _lock_of(store):
            if self.name not in store:
                store[self.name] = self.function(instance)
            return store[self.name]  # type: ignore[no-any-return]

    def is_initialized(self, instance: object) -> bool:
        """Whether the value is there already; never computes it."""
        return self.name in instance.__dict__

    @staticmethod
    def state_without_lazy(instance: object) -> dict[str, Any]:
        """An instance's attributes without lazily computed ones: for ``__getstate__`` and copies."""
        lazy = {
            name for cls in type(instance).__mro__ for name, v in vars(cls).items() if isinstance(v, LazyInitialized)
        }
        return {name: value for name, value in instance.__dict__.items() if name not in lazy and name != _LOCK_NAME}


def _lock_of(store: dict[str, Any]) -> Any:
    """The instance's own lock. Re-entrant: one lazy attribute may be computed from another."""
    lock = store.get(_LOCK_NAME)
    if lock is None:
        with _creating_locks:
            lock = store.setdefault(_LOCK_NAME, threading.RLock())
    return lock
