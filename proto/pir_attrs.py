"""Attributes in the JSON of a program: every kind, read and written."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from .pir_desc import PirAttr
from .pir_fault import Fault, boolean, field_of, integer, items, mapping, text
from .pir_types import read_type, write_type

__all__ = ["read_attr", "write_attr"]

_MAX_ARRAYS: Final = 16
_NOT_FINITE: Final = {"INF": math.inf, "-INF": -math.inf, "NaN": math.nan}
_ARRAY: Final = "0.a_array"
_FLOATS: Final = frozenset({"0.a_f32", "0.a_f64"})


def _read_float(tree: Any) -> float:
    if isinstance(tree, bool) or not isinstance(tree, (int, float)):
        raise Fault(f"expected a number, found {str(tree)[:40]!r}")
    try:
        return float(tree)
    except OverflowError:
        raise Fault(f"the number {str(tree)[:24]} does not fit a double") from None


def _read_complex(tree: Any) -> complex:
    parts = items(tree)
    if len(parts) != 2:
        raise Fault(f"a complex number has {len(parts)} parts, expected 2")
    return complex(_read_float(parts[0]), _read_float(parts[1]))


def _read_ints(tree: Any) -> list[int]:
    return [integer(each) for each in items(tree)]


def _read_place(tree: Any) -> list[Any]:
    parts = items(tree)
    if len(parts) != 3:
        raise Fault(f"a place has {len(parts)} parts, expected type, device id and device name")
    return [integer(parts[0]), integer(parts[1]), text(parts[2])]


def _read_scalar(tree: Any) -> tuple[str, Any]:
    parts = items(tree)
    if len(parts) not in (2, 3):
        raise Fault(f"a scalar has {len(parts)} parts, expected its type and value")
    name = text(parts[0])
    if len(parts) == 3:
        return name, complex(_read_float(parts[1]), _read_float(parts[2]))
    if isinstance(parts[1], str) and parts[1] in _NOT_FINITE:
        return name, _NOT_FINITE[parts[1]]
    if not isinstance(parts[1], (bool, int, float)):
        raise Fault(f"a scalar holds {str(parts[1])[:40]!r}, expected a number")
    return name, parts[1] if isinstance(parts[1], (bool, float)) else integer(parts[1])


_READERS: Final[dict[str, Callable[[Any], Any]]] = {
    "0.a_bool": boolean,
    "0.a_i32": integer,
    "0.a_i64": integer,
    "0.a_index": integer,
    "0.a_f32": _read_float,
    "0.a_f64": _read_float,
    "0.a_c64": _read_complex,
    "0.a_c128": _read_complex,
    "0.a_str": text,
    "0.a_tensorname": text,
    "0.a_type": read_type,
    "1.a_intarray": _read_ints,
    "1.a_dtype": text,
    "1.a_layout": text,
    "1.a_place": _read_place,
    "1.a_scalar": _read_scalar,
}


def read_attr(tree: Any, depth: int = 0) -> PirAttr:
    """The attribute in an ``AT`` field.

    Raises:
        Fault: its data does not fit its kind, or the kind is not known.
    """
    fields = mapping(tree)
    kind = text(field_of(fields, "#"))
    if kind == _ARRAY:
        if depth >= _MAX_ARRAYS:
            raise Fault(f"arrays are nested more than {_MAX_ARRAYS} deep", "AT")
        entries = Fault.at("AT.D", lambda: items(field_of(fields, "D")))
        return PirAttr(kind, [read_attr(each, depth + 1) for each in entries])
    reader = _READERS.get(kind)
    if reader is None:
        raise Fault(f"the attribute kind {kind[:60]!r} is not known", "AT")
    if "VD" in fields and kind in _FLOATS:
        word = fields["VD"]
        if word not in _NOT_FINITE:
            raise Fault(f"expected one of {', '.join(_NOT_FINITE)}, found {str(word)[:40]!r}", "AT.VD")
        return PirAttr(kind, _NOT_FINITE[word])
    return PirAttr(kind, Fault.at("AT.D", lambda: reader(field_of(fields, "D"))))


def _write_number(value: float) -> dict[str, Any]:
    if math.isfinite(value):
        return {"D": value}
    return {"VD": "NaN" if math.isnan(value) else "INF" if value > 0 else "-INF"}


def _write_scalar(value: tuple[str, Any]) -> list[Any]:
    name, number = value
    if isinstance(number, complex):
        return [name, number.real, number.imag]
    if isinstance(number, float) and not math.isfinite(number):
        return [name, _write_number(number)["VD"]]
    return [name, number]


_DATA: Final[dict[str, Callable[[Any], Any]]] = {
    "0.a_type": write_type,
    "0.a_c64": lambda value: [value.real, value.imag],
    "0.a_c128": lambda value: [value.real, value.imag],
    "1.a_scalar": _write_scalar,
    _ARRAY: lambda value: [write_attr(each) for each in value],
}


def write_attr(attr: PirAttr) -> dict[str, Any]:
    """The JSON of an attribute."""
    if attr.kind in _FLOATS:
        return {"#": attr.kind, **_write_number(attr.value)}
    convert = _DATA.get(attr.kind)
    return {"#": attr.kind, "D": attr.value if convert is None else convert(attr.value)}
