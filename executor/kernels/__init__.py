"""Operator families: each file declares its operators whole. Families import on first use of a type.

The index of which file has which type is a generated cache (``index.py``); a type that it lacks makes the
registry import every family, so a stale index costs time and never an answer.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Sequence

from ...ir import registry

__all__ = ["family_names", "import_families"]

_INTERNAL = frozenset({"index", "common"})


def family_names() -> list[str]:
    """The names of the family modules, sorted."""
    return sorted(m.name for m in pkgutil.iter_modules(__path__) if m.name not in _INTERNAL)


def import_families() -> Sequence[str]:
    """Import all family modules; their names."""
    names = family_names()
    for name in names:
        importlib.import_module(f"{__name__}.{name}")
    return names


@functools.cache
def _index() -> dict[str, str]:
    try:
        return importlib.import_module(f"{__name__}.index").FAMILY_OF  # type: ignore[no-any-return]
    except ModuleNotFoundError:
        return {}


def _import_family(type: str) -> None:
    family = _index().get(type)
    if family is not None:
        importlib.import_module(f"{__name__}.{family}")
    else:
        import_families()


def _is_listed(type: str) -> bool:
    return type in _index()


registry.set_family_loader(_import_family, import_families, _is_listed)
