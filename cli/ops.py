"""``oarlock ops``: the operators that oarlock has, or that a model needs and oarlock lacks."""

from __future__ import annotations

import argparse
import difflib
import json
from typing import Any

from ..errors import InputError
from ..executor import kernels
from ..ir.program_io import read_program
from ..ir.registry import REQUIRED, Operator, registered
from ..ir.saved_model import missing_operators
from ..proto.files import read_file
from ..proto.layouts import find_model

__all__ = ["add_parser"]


def add_parser(commands: Any) -> None:
    """Register the command."""
    parser = commands.add_parser(
        "ops",
        help="supported operators",
        description="List the operators: slots, attributes, and whether there is a gradient. A slot with * takes "
        "a list, one with ? may be absent.",
    )
    parser.add_argument("names", nargs="*", metavar="OP", help="only these, in full")
    parser.add_argument("--missing", metavar="MODEL", help="what MODEL needs and oarlock lacks; exit code 1 if any")
    parser.add_argument("--inplace", action="store_true", help="the functions that write over their input instead")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(handler=_ops)


def _ops(args: argparse.Namespace) -> int:
    if args.missing:
        return _missing(args.missing, args.json)
    if args.inplace:
        return _inplace(args.json)
    kernels.import_families()
    rows = [_facts(each) for each in registered() if each.forward_of is None]
    if args.names:
        rows = _named(rows, args.names)
    if args.json:
        print(json.dumps(rows, indent=2))
    elif args.names:
        for row in rows:
            _print_full(row)
    else:
        _print_table(rows)
    return 0


def _named(rows: list[dict[str, Any]], names: list[str]) -> list[dict[str, Any]]:
    by_type = {row["type"]: row for row in rows}
    for name in names:
        if name not in by_type:
            near = difflib.get_close_matches(name, by_type, 3)
            raise InputError(f"there is no operator '{name}'" + (f"; near are {', '.join(near)}" if near else ""))
    return [by_type[name] for name in names]


def _inplace(as_json: bool) -> int:
    from ..eager.inplace import listed  # the other commands do without eager mode

    rows = [dict(zip(("name", "operator", "input", "output"), row, strict=True)) for row in listed()]
    if as_json:
        print(json.dumps(rows, indent=2))
        return 0
    width = max(len(row["name"]) for row in rows)
    for row in rows:
        slots = f"{row['input']} -> {row['output']}" if row["input"] else "made of several operators"
        print(f"{row['name']:<{width}} {row['operator']:<22} {slots}")
    print(f"{len(rows)} in-place functions")
    return 0


def _missing(path: str, as_json: bool) -> int:
    files = find_model(path)
    lacking: dict[str, int] = {}
    for file in files.programs.values():
        for name, count in missing_operators(read_program(read_file(file), file)).items():
            lacking[name] = lacking.get(name, 0) + count
    if as_json:
        print(json.dumps(lacking, indent=2))
    else:
        for name, count in sorted(lacking.items()):
            print(f"{name} {count}")
        if not lacking:
            print("all operators of this model are supported")
    return 1 if lacking else 0


def _facts(operator: Operator) -> dict[str, Any]:
    has_gradient = operator.grad_maker is not None or operator.block_grad_maker is not None
    return {
        "type": operator.type,
        "family": operator.family,
        "inputs": [_slot(slot) for slot in operator.inputs],
        "outputs": [_slot(slot) for slot in operator.outputs],
        "attrs": {name: None if default is REQUIRED else default for name, default in operator.attrs.items()},
        "gradient": "yes" if has_gradient else ("none in Paddle" if not operator.differentiable else "missing"),
    }


def _slot(slot: Any) -> str:
    return f"{slot.name}{'*' if slot.many else ''}{'?' if slot.optional else ''}"


def _print_table(rows: list[dict[str, Any]]) -> None:
    width = max(len(row["type"]) for row in rows)
    print(f"{'operator':<{width}} {'gradient':<15} slots")
    for row in rows:
        slots = f"{' '.join(row['inputs'])} -> {' '.join(row['outputs'])}"
        print(f"{row['type']:<{width}} {row['gradient']:<15} {slots}")
    with_gradient = sum(row["gradient"] == "yes" for row in rows)
    print(f"{len(rows)} operators, {with_gradient} with a gradient")


def _print_full(row: dict[str, Any]) -> None:
    print(row["type"])
    for key in ("family", "gradient"):
        print(f"  {key}: {row[key]}")
    print(f"  inputs: {' '.join(row['inputs'])}\n  outputs: {' '.join(row['outputs'])}")
    for name, default in row["attrs"].items():
        print(f"  attr {name} = {default!r}")
