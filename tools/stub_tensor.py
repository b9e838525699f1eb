"""Writes ``eager/tensor_methods.pyi``, the stub that lists the methods of tensors, from ``eager/methods.py``.

Run it from a place where ``oarlock`` can be imported::

    python -m oarlock.tools.stub_tensor  # or: python tools/stub_tensor.py

``text()`` gives what the file should hold; a test compares.
"""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

_HEAD = '''# fmt: off
# ruff: noqa
"""The methods that ``methods.py`` gives to tensors. Written by ``tools/stub_tensor.py``."""

from typing import Any, Sequence

import numpy as np

from .tensor import Tensor

class TensorMethods:
'''
_COMPARISONS = ("__eq__", "__ne__")


def text() -> str:
    """The stub."""
    from oarlock.eager.methods import METHODS

    return _HEAD + "\n".join(_entry(name, METHODS[name]) for name in sorted(METHODS)) + "\n"


def _entry(name: str, value: Any) -> str:
    if isinstance(value, property):
        doc = (value.fget.__doc__ or "").strip()
        return f'    @property\n    def {name}(self) -> Tensor:\n        """{doc}"""'
    parameters, result = _signature(value)
    if name.startswith("__"):
        ignore = "  # type: ignore[override]" if name in _COMPARISONS else ""
        return f"    def {name}({', '.join(parameters)}) -> {result}: ...{ignore}"
    doc = " ".join((value.__doc__ or "").strip().split("\n\n")[0].split())
    return f'    def {name}({", ".join(parameters)}) -> {result}:\n        """{doc}"""'


def _signature(function: Any) -> tuple[list[str], str]:
    signature = inspect.signature(function)
    parameters = []
    starred = False
    for position, each in enumerate(signature.parameters.values()):
        if position == 0:
            parameters.append("self")
            continue
        if each.kind is each.KEYWORD_ONLY and not starred:
            parameters.append("*")
            starred = True
        prefix = {each.VAR_POSITIONAL: "*", each.VAR_KEYWORD: "**"}.get(each.kind, "")
        starred = starred or prefix == "*"
        default = "" if each.default is each.empty else " = ..."
        parameters.append(f"{prefix}{each.name}: {_type(each.annotation)}{default}")
    plain_operator = function.__name__ == "method"  # those that may answer NotImplemented
    return parameters, "Tensor" if plain_operator else _type(signature.return_annotation)


def _type(annotation: Any) -> str:
    known = {"Axis": "Any", "npt.NDArray[Any]": "Any"}
    written = "Any" if annotation is inspect.Parameter.empty else str(annotation)
    return known.get(written, written)


if __name__ == "__main__":
    target = Path(__file__).resolve().parent.parent / "eager" / "tensor_methods.pyi"
    target.write_text(text())
    print(target)
