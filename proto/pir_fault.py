"""Faults in the JSON of a program with their place, and the checks that raise them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

__all__ = ["Fault", "boolean", "field_of", "integer", "items", "mapping", "text", "value_id"]

Made = TypeVar("Made")

_INT64: Final = 1 << 63
_MAX_ID: Final = 1 << 40


class Fault(Exception):
    """What is wrong, and the path to it, which grows as the fault travels outwards."""

    def __init__(self, message: str, place: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.place = place

    def __str__(self) -> str:
        return f"{self.place}: {self.message}" if self.place else self.message

    def within(self, place: str) -> Fault:
        """The same fault, seen from the object that holds it."""
        self.place = f"{place}.{self.place}" if self.place else place
        return self

    @staticmethod
    def at(place: str, read: Callable[..., Made], *args: Any) -> Made:
        """The result of ``read(*args)``; a fault in it is placed at ``place``."""
        try:
            return read(*args)
        except Fault as fault:
            raise fault.within(place) from None


def _shown(tree: Any) -> str:
    words = {dict: "an object", list: "a list", type(None): "null"}
    return words.get(type(tree)) or repr(tree)[:40]


def mapping(tree: Any) -> dict[str, Any]:
    """The tree, which must be an object."""
    if not isinstance(tree, dict):
        raise Fault(f"expected an object, found {_shown(tree)}")
    return tree


def items(tree: Any) -> list[Any]:
    """The tree, which must be a list."""
    if not isinstance(tree, list):
        raise Fault(f"expected a list, found {_shown(tree)}")
    return tree


def text(tree: Any) -> str:
    """The tree, which must be a string."""
    if not isinstance(tree, str):
        raise Fault(f"expected a string, found {_shown(tree)}")
    return tree


def boolean(tree: Any) -> bool:
    """The tree, which must be true or false."""
    if not isinstance(tree, bool):
        raise Fault(f"expected true or false, found {_shown(tree)}")
    return tree


def integer(tree: Any) -> int:
    """The tree, which must be an integer of 64 bits."""
    if not isinstance(tree, int) or isinstance(tree, bool):
        raise Fault(f"expected an integer, found {_shown(tree)}")
    if not -_INT64 <= tree < _INT64:
        raise Fault(f"the integer {tree} does not fit 64 bits")
    return tree


def value_id(tree: Any) -> int:
    """The tree, which must be the id of a value."""
    found = integer(tree)
    if abs(found) > _MAX_ID:
        raise Fault(f"{found} is no id of a value")
    return found


def field_of(fields: dict[str, Any], key: str) -> Any:
    """A field that must be there."""
    try:
        return fields[key]
    except KeyError:
        raise Fault(f"the field {key!r} is missing; there are {', '.join(map(repr, sorted(fields)))[:120]}") from None
