"""How operations of Paddle 3 correspond to operators of Paddle 2: the facts of ``ops.json``, read on first use."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from importlib import resources
from typing import Any

from ..desc import AttrType

__all__ = [
    "AttrSource",
    "Correspondence",
    "OldOperator",
    "PirAttribute",
    "correspondence",
    "old_operator",
    "operations",
]


@dataclass(frozen=True, slots=True)
class AttrSource:
    """An operand that an old operator has as an attribute.

    ``tensor`` and ``tensors`` are the slots that take the value from one variable or from a list of them;
    ``by_name`` says that the attribute itself may name variables (types VAR and VARS).
    """

    attr: str
    tensor: str | None = None
    tensors: str | None = None
    by_name: bool = False


@dataclass(frozen=True, slots=True)
class PirAttribute:
    """An attribute of an operation: its name in the old operator (None where it has none), its kind, its default.

    The kind of an array is that of its items in brackets. The default is None where the file must state it.
    """

    legacy: str | None
    kind: str
    default: Any = None


@dataclass(frozen=True, slots=True)
class Correspondence:
    """One operation and the old operator of the same meaning.

    Attributes:
        type: the old operator's type.
        operands: ``(operand, slot)``; an :class:`AttrSource` for what the old operator takes as an attribute,
            None for what it does not take.
        results: ``(result, slot)``.
        attrs: attribute -> what it is called there.
    """

    type: str
    operands: tuple[tuple[str, str | AttrSource | None], ...]
    results: tuple[tuple[str, str], ...]
    attrs: dict[str, PirAttribute]


@dataclass(frozen=True, slots=True)
class OldOperator:
    """What is known about an operator of Paddle 2.6: the types of its attributes, the version of its meaning.

    ``known`` is False for one that the table lacks.
    """

    attrs: dict[str, AttrType]
    version: int = 0
    known: bool = True


@functools.cache
def _facts() -> dict[str, Any]:
    text = resources.files(__package__).joinpath("ops.json").read_text(encoding="utf-8")
    return json.loads(text)  # type: ignore[no-any-return]


@functools.cache
def correspondence(name: str) -> Correspondence | None:
    """The entry of an operation such as ``"reshape"``, without dialect and trailing underscore; None without one."""
    found = _facts()["ops"].get(name)
    if found is None:
        return None
    operands = tuple((operand, _source(source)) for operand, source in found["in"])
    attrs = {attr: PirAttribute(fact[0], fact[1], _default(*fact[2:])) for attr, fact in found["attrs"].items()}
    return Correspondence(found["type"], operands, tuple((r, s) for r, s in found["out"]), attrs)


def operations() -> list[str]:
    """The names of all operations with an entry."""
    return list(_facts()["ops"])


@functools.cache
def old_operator(type: str) -> OldOperator:
    """The facts of an old operator; empty for one that Paddle 2.6 does not have."""
    found = _facts()["legacy"].get(type)
    if found is None:
        return OldOperator({}, known=False)
    return OldOperator({name: AttrType[kind] for name, kind in found["attrs"].items()}, found.get("version", 0))


def _source(source: Any) -> str | AttrSource | None:
    if isinstance(source, list):
        return AttrSource(source[0], source[1], source[2], by_name=len(source) > 3)
    return source  # type: ignore[no-any-return]


_WORDS = {"true": True, "false": False, "{}": []}


def _default(text: str | None = None) -> Any:
    """A default as the signature writes it: ``false``, ``-1``, ``0.5f``, ``"NCHW"``, ``{1, 1}``, ``phi::...``."""
    if text is None or text in _WORDS:
        return _WORDS.get(text or "")
    if text.startswith('"'):
        return text.strip('"')
    if text.startswith("{"):
        return [_default(each.strip()) for each in text.strip("{}").split(",")]
    try:
        return float(text.rstrip("fF")) if any(mark in text for mark in ".ef") else int(text)
    except ValueError:
        return None
