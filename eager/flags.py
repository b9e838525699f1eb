"""Global flags: ``set_flags({"FLAGS_strict_inplace": False})``.

Flags of other back ends are kept and change nothing.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import InputError
from . import storage

__all__ = ["get_flags", "set_flags"]

_STRICT = "FLAGS_strict_inplace"
_kept: dict[str, Any] = {}


def set_flags(flags: Mapping[str, Any]) -> None:
    """Set flags by name.

    ``FLAGS_strict_inplace`` (True): every write to a tensor counts as an in-place change, so that a backward
    that needed the old value raises. False: ``set_value``, ``copy_``, random fills and optimizer steps do not
    count, as in Paddle, and such a backward may return wrong gradients.

    Raises:
        InputError: a name does not start with ``FLAGS_``, or ``flags`` is no mapping.
    """
    if not isinstance(flags, Mapping):
        raise InputError(f"set_flags takes a dict of flags, got {type(flags).__name__}")
    for name, value in flags.items():
        if not name.startswith("FLAGS_"):
            raise InputError(f"flag {name!r} does not start with FLAGS_")
        _kept[name] = value
        if name == _STRICT:
            storage.set_strict(_truth(value))


def get_flags(flags: str | Sequence[str]) -> dict[str, Any]:
    """The values of flags, by name.

    Raises:
        InputError: a flag was never set and has no default here.
    """
    names = [flags] if isinstance(flags, str) else list(flags)
    values = {_STRICT: storage.is_strict(), **_kept}
    for name in names:
        if name not in values:
            raise InputError(f"flag {name!r} is not known here: set it first, or use {_STRICT}")
    return {name: values[name] for name in names}


def _truth(value: Any) -> bool:
    return value.strip().lower() not in ("", "0", "false", "off") if isinstance(value, str) else bool(value)


if _STRICT in os.environ:
    set_flags({_STRICT: _truth(os.environ[_STRICT])})
