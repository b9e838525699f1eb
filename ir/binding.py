"""Bind an op description to the declaration of its operator: slots checked, attributes made keyword arguments."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from ..errors import ProgramError
from .desc import EMPTY_VAR, AttrType, OpDesc
from .registry import IGNORED_ATTRS, REQUIRED, Operator, parameter_name

__all__ = ["bind_attrs", "call_operator", "check_slots"]

_log = logging.getLogger("oarlock.ir")
_ABSENT = ("", EMPTY_VAR)


def check_slots(declared: Operator, op: OpDesc, where: str) -> None:
    """Refuse arguments in slots that the operator does not know, and missing ones that it needs.

    Raises:
        ProgramError: names the slot.
    """
    known = {slot.name: slot for slot in declared.inputs}
    for name, arguments in op.inputs.items():
        present = [each for each in arguments if each not in _ABSENT]
        slot = known.get(name)
        if slot is None and present:
            raise ProgramError(
                f"{where}: input slot {name} is not supported by this operator, which takes {', '.join(sorted(known))}"
            )
        if slot is not None and not slot.many and len(arguments) > 1:
            raise ProgramError(f"{where}: slot {name} takes one argument, the program gives {len(arguments)}")
    for slot in declared.inputs:
        if not (slot.many or slot.optional) and not any(a not in _ABSENT for a in op.inputs.get(slot.name) or ()):
            raise ProgramError(f"{where}: required input slot {slot.name} is missing")


def bind_attrs(declared: Operator, op: OpDesc, where: str) -> dict[str, Any]:
    """The kernel's keyword arguments, coerced to the kind of the registered default.

    Attributes fed by variables are left out: their values come at run time.

    Raises:
        ProgramError: a required attribute is missing, or one is off the only value that is supported.
    """
    bound: dict[str, Any] = {}
    for name, default in declared.attrs.items():
        if op.attr_types.get(name) in (AttrType.VAR, AttrType.VARS):
            continue
        if name in op.attrs:
            bound[parameter_name(name)] = _coerce(op.attrs[name], default)
        elif default is REQUIRED:
            raise ProgramError(f"{where}: required attribute {name} is missing")
    for name, value in op.attrs.items():
        if name in declared.attrs or name in declared.ignores or name in IGNORED_ATTRS:
            continue
        if name in declared.refuse and value != declared.refuse[name]:
            raise ProgramError(f"{where}: attribute {name}={value!r} is not supported, only {declared.refuse[name]!r}")
        if name not in declared.refuse:
            _log.debug("%s: attribute %s=%r is not known to this operator and is left out", where, name, value)
    return bound


def _coerce(value: Any, default: Any) -> Any:
    """A file may state an int where the registry has a float, and the other way round."""
    if isinstance(default, bool):
        return bool(value) if isinstance(value, int) else value
    if isinstance(default, float) and isinstance(value, int):
        return float(value)
    if isinstance(default, int) and isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def call_operator(declared: Operator, op: OpDesc, values: Mapping[str, Any], where: str) -> tuple[Any, ...]:
    """Run an operator on known values (constant folding); its outputs in slot order.

    ``values`` maps argument names to arrays. The operator must take neither ``ctx`` nor ``env``.
    """
    check_slots(declared, op, where)
    bound = bind_attrs(declared, op, where)
    arguments: list[Any] = []
    for slot in declared.inputs:
        names = op.inputs.get(slot.name) or []
        found = [None if name in _ABSENT else values[name] for name in names]
        arguments.append(found if slot.many else (found[0] if found else None))
    if declared.takes_want:
        bound["want"] = frozenset(op.outputs)
    result = declared.kernel(*arguments, **bound)
    return (result,) if len(declared.outputs) == 1 else tuple(result)
