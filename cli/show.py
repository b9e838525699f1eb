"""``oarlock show``: what a model takes, gives, holds and does."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from typing import Any

from ..ir.printer import program_text, var_text
from .cost import count_macs
from .model import Loaded, add_input_argument, add_model_arguments, human_bytes, load, parse_inputs

__all__ = ["add_parser"]


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
    loaded = load(args)
    if args.program and not args.json:
        print(program_text(loaded.program), end="")
        return 0
    facts = _facts(loaded)
    if args.input:
        inputs = parse_inputs(args.input, loaded.inputs)
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
    files = loaded.saved.files
    return {
        "files": {} if files is None else {"program": files.programs, "parameters": files.params},
        "saved by": _version(loaded.program.version),
        "methods": sorted(loaded.saved.programs),
        "inputs": {var.name: var_text(var) for var in loaded.inputs},
        "outputs": {var.name: var_text(var) for var in loaded.outputs},
        "parameters": {name: f"{value.dtype.name}{list(value.shape)}" for name, value in sorted(values.items())},
        "parameter elements": sum(int(value.size) for value in values.values()),
        "parameter bytes": sum(int(value.nbytes) for value in values.values()),
        "blocks": len(loaded.stripped.program.blocks),
        "operators": dict(ops.most_common()),
    }


def _version(version: int | None) -> str:
    """``2.6.2`` from 2006002; files of 1.x and of development builds state none."""
    if not version:
        return "unknown (1.x or a development build)"
    return f"Paddle {version // 1000000}.{version // 1000 % 1000}.{version % 1000}"


def _print_facts(facts: dict[str, Any], all_parameters: bool) -> None:
    print(f"saved by    {facts['saved by']}")
    if len(facts["methods"]) > 1:
        print(f"methods     {', '.join(facts['methods'])}")
    for title in ("inputs", "outputs"):
        for index, (name, text) in enumerate(facts[title].items()):
            print(f"{title if index == 0 else '':<11} {name}: {text}")
    count, size = facts["parameter elements"], human_bytes(facts["parameter bytes"])
    print(f"parameters  {len(facts['parameters'])} tensors, {count:,} elements, {size}")
    if all_parameters:
        for name, text in facts["parameters"].items():
            print(f"            {name}: {text}")
    total = sum(facts["operators"].values())
    blocks = f" in {facts['blocks']} blocks" if facts["blocks"] > 1 else ""
    print(f"operators   {total}{blocks}")
    width = max(map(len, facts["operators"]), default=0)
    for name, count in facts["operators"].items():
        print(f"            {name:<{width}} {count:5}")
    if "macs" in facts:
        print(f"MACs        {sum(facts['macs'].values()) / 1e6:,.1f} million")
        for name, macs in sorted(facts["macs"].items(), key=lambda item: -item[1]):
            print(f"            {name:<{width}} {macs / 1e6:,.1f} million")
