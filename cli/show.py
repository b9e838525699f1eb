"""``oarlock show``: what a model takes, gives, holds and does."""

from __future__ import annotations

import argparse
import json
import os
from collections import Counter
from collections.abc import Sequence
from typing import Any

from ..ir.desc import VarDesc
from ..ir.printer import program_text, var_text
from ..ir.saved_model import missing_operators
from ..proto.parameters import parameter_path
from .cost import count_macs
from .model import Loaded, add_input_argument, add_model_arguments, human_bytes, human_count, load, parse_inputs

__all__ = ["add_parser"]

_FILES = 6
"""So many files are listed in text."""


def add_parser(commands: Any) -> None:
    """Register the command."""
    parser = commands.add_parser(
        "show",
        help="inputs, outputs, parameters and operators of a model",
        description="Show what a model takes and gives, its parameters, its operators and who saved it. "
        "With --input also the multiply-accumulates for inputs of that size.",
    )
    add_model_arguments(parser)
    add_input_argument(parser, required=False)
    parser.add_argument("--program", action="store_true", help="print the program, one op a line")
    parser.add_argument("--params", action="store_true", help="list every parameter")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(handler=_show)


def _show(args: argparse.Namespace) -> int:
    loaded = load(args, check_operators=False)
    if args.program and not args.json:
        print(program_text(loaded.program), end="")
        return 0
    facts = _facts(loaded)
    if args.input:
        inputs = parse_inputs(args.input, loaded)
        stripped = loaded.stripped
        facts["macs"] = count_macs(
            stripped.program, stripped.feeds, stripped.fetches, inputs, dict(loaded.saved.values)
        )
    if args.json:
        if args.program:
            facts["program"] = program_text(loaded.program).splitlines()
        print(json.dumps(facts, indent=2, ensure_ascii=False))
    else:
        _print_facts(facts, args.params)
    return 0


def _facts(loaded: Loaded) -> dict[str, Any]:
    values = loaded.saved.values
    ops = Counter(op.type for block in loaded.stripped.program.blocks for op in block.ops)
    return {
        "files": _files(loaded),
        "saved_by": _version(loaded.program.version),
        "methods": sorted(loaded.saved.programs),
        "inputs": [_variable(var) for var in loaded.inputs],
        "outputs": [_variable(var) for var in loaded.outputs],
        "parameters": [_entry(name, value.dtype.name, value.shape) for name, value in sorted(values.items())],
        "parameter_elements": sum(int(value.size) for value in values.values()),
        "parameter_bytes": sum(int(value.nbytes) for value in values.values()),
        "blocks": len(loaded.stripped.program.blocks),
        "operators": dict(ops.most_common()),
        "unsupported": missing_operators(loaded.program),
    }


def _files(loaded: Loaded) -> dict[str, int]:
    """Path -> size in bytes."""
    files = loaded.saved.files
    if files is None:
        return {}
    separate = [parameter_path(files.folder, name) for name in sorted(loaded.saved.values)] if files.separate else []
    paths = [*files.programs.values(), *dict.fromkeys(files.params.values()), *separate]
    return {path: os.path.getsize(path) for path in paths if os.path.exists(path)}


def _variable(var: VarDesc) -> dict[str, Any]:
    text = var_text(var)
    return _entry(var.name, text.partition("[")[0], var.shape or ())


def _entry(name: str, dtype: str, shape: Sequence[int]) -> dict[str, Any]:
    return {"name": name, "dtype": dtype, "shape": list(shape)}


def _version(version: int | None) -> str:
    """``2.6.2`` from 2006002; files of 1.x and of development builds state none."""
    if not version:
        return "unknown (1.x or a development build)"
    return f"Paddle {version // 1000000}.{version // 1000 % 1000}.{version % 1000}"


def _print_facts(facts: dict[str, Any], all_parameters: bool) -> None:
    files = list(facts["files"].items())
    for index, (path, size) in enumerate(files[:_FILES]):
        print(f"{'' if index else 'files':<11} {path} ({human_bytes(size)})")
    if len(files) > _FILES:
        print(f"            and {len(files) - _FILES} more ({human_bytes(sum(size for _, size in files[_FILES:]))})")
    print(f"saved by    {facts['saved_by']}")
    if len(facts["methods"]) > 1:
        print(f"methods     {', '.join(facts['methods'])}")
    for title in ("inputs", "outputs"):
        for index, entry in enumerate(facts[title]):
            print(f"{'' if index else title:<11} {_text(entry)}")
    count, size = facts["parameter_elements"], human_bytes(facts["parameter_bytes"])
    print(f"parameters  {len(facts['parameters'])} tensors, {count:,} elements, {size}")
    if all_parameters:
        for entry in facts["parameters"]:
            print(f"            {_text(entry)}")
    _print_operators(facts)


def _text(entry: dict[str, Any]) -> str:
    return f"{entry['name']}: {entry['dtype']}{entry['shape']}"


def _print_operators(facts: dict[str, Any]) -> None:
    blocks = f" in {facts['blocks']} blocks" if facts["blocks"] > 1 else ""
    print(f"operators   {sum(facts['operators'].values())}{blocks}")
    width = max(map(len, facts["operators"]), default=0)
    for name, count in facts["operators"].items():
        print(f"            {name:<{width}} {count:5}{'  not supported' if name in facts['unsupported'] else ''}")
    if "macs" in facts:
        print(f"MACs        {human_count(sum(facts['macs'].values()))}")
        for name, macs in sorted(facts["macs"].items(), key=lambda item: -item[1]):
            print(f"            {name:<{width}} {human_count(macs):>8}")
