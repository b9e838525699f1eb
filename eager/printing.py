"""Tensors as text, laid out as Paddle lays them out."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import InputError
from ..executor.values import Array
from .dtypes import is_floating

__all__ = ["array_text", "set_printoptions"]

_options: dict[str, Any] = {
    "precision": 8,
    "threshold": 1000,
    "edgeitems": 3,
    "sci_mode": False,
    "linewidth": 80,
}


def set_printoptions(
    precision: int | None = None,
    threshold: int | None = None,
    edgeitems: int | None = None,
    sci_mode: bool | None = None,
    linewidth: int | None = None,
) -> None:
    """How tensors print: digits after the point, the size from which the middle is left out, how much then
    stays at each end of an axis, exponents, and the width of a line. None leaves an option as it is."""
    given = {
        "precision": precision,
        "threshold": threshold,
        "edgeitems": edgeitems,
        "sci_mode": sci_mode,
        "linewidth": linewidth,
    }
    for name, value in given.items():
        if value is None:
            continue
        if not isinstance(value, int) or value < 0:
            raise InputError(f"set_printoptions: {name} must be a number of at least 0, got {value!r}")
        _options[name] = value


def array_text(array: Array, indent: int) -> str:
    """The elements of an array; lines after the first are indented."""
    if array.size == 0:
        return "[]"
    if array.dtype.name in ("bfloat16", "float16") or array.dtype.name.startswith("float8"):
        array = array.astype(np.float32)
    short = array.size > _options["threshold"]
    shown = _shown(array, short)
    if array.ndim == 0:
        return _item(array[()])
    signed = array.dtype.kind in "fi" and bool((shown < 0).any())
    width = max(len(_item(each)) for each in shown.ravel())
    return _rows(array, short, width, signed, indent)


def _shown(array: Array, short: bool) -> Array:
    """The part of an array that is printed."""
    edge = _options["edgeitems"]
    for axis in range(array.ndim if short else 0):
        if array.shape[axis] > 2 * edge:
            keep = [*range(edge), *range(array.shape[axis] - edge, array.shape[axis])]
            array = array.take(keep, axis=axis)
    return array


def _item(value: Any) -> str:
    if is_floating(np.asarray(value).dtype):
        if _options["sci_mode"]:
            return f"{value:.{_options['precision']}e}"
        if np.ceil(value) == value:
            return f"{value:.0f}."
        return f"{value:.{_options['precision']}f}"
    return str(value)


def _padded(value: Any, width: int, signed: bool) -> str:
    """One element in a column, after a blank where others have a sign and there is room."""
    text = _item(value)
    if len(text) < width and signed and not value < 0:
        text = " " + text
    return text.ljust(width)


def _rows(array: Array, short: bool, width: int, signed: bool, indent: int) -> str:
    edge = _options["edgeitems"]
    cut = short and array.shape[0] > 2 * edge
    ends = [array[:edge], array[-edge:]] if cut else [array]
    if array.ndim == 1:
        items = [_padded(each, width, signed) for end in ends for each in end]
        if cut:
            items.insert(edge, "...")
        per_line = max(1, (_options["linewidth"] - indent) // (width + 2))
        lines = [", ".join(items[i : i + per_line]) for i in range(0, len(items), per_line)]
        return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"
    parts = [_rows(each, short, width, signed, indent + 1) for end in ends for each in end]
    if cut:
        parts.insert(edge, "...")
    gap = ",\n" * max(1, array.ndim - 1) if array.ndim == 2 else "," + "\n" * (array.ndim - 1)
    return "[" + (gap + " " * (indent + 1)).join(parts) + "]"
