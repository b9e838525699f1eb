"""``oarlock diff``: two models side by side, their operators, attributes and parameters, and what they compute."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any, Final

import numpy as np

from ..errors import InputError
from ..executor.runner import FixedParams, InferenceRunner
from ..executor.values import array_of
from ..ir.desc import OpDesc, VarDesc, VarKind
from ..ir.printer import var_text
from ..ir.registry import IGNORED_ATTRS, find
from ..ir.saved_model import read_model
from .model import Loaded, add_input_argument, parse_inputs

__all__ = ["add_parser"]

_LISTED: Final = 12
"""So many differences of a kind are printed."""
_FREE_SIZE: Final = 2
"""What an unknown dimension of a random input is."""
EXIT_DIFFERENT: Final = 1


def add_parser(commands: Any) -> None:
    """Register the command."""
    parser = commands.add_parser(
        "diff",
        help="compare two models: operators, attributes, parameters, outputs",
        description="Compare two models of either format: what they are made of, and what they compute from the same "
        "input (random when none is given). The exit code is 0 when they agree, 1 when they do not.",
    )
    parser.add_argument("a", metavar="A", help="prefix, folder or program file of a saved model")
    parser.add_argument("b", metavar="B", help="the other one")
    add_input_argument(parser, required=False)
    parser.add_argument("--method", default="forward", help="which saved method (default: forward)")
    parser.add_argument("--trace", action="store_true", help="find the first operator whose result differs")
    parser.add_argument("--rtol", type=float, default=1e-4, help="relative tolerance (default: 1e-4)")
    parser.add_argument("--atol", type=float, default=1e-5, help="absolute tolerance (default: 1e-5)")
    parser.set_defaults(handler=_diff)


def _diff(args: argparse.Namespace) -> int:
    a, b = (Loaded(read_model(path), args.method) for path in (args.a, args.b))
    faults = 0
    for title, lines in (
        ("inputs and outputs", list(_ends(a, b))),
        ("operators", list(_operators(a, b))),
        ("attributes", list(_attributes(a, b))),
        ("parameters", list(_parameters(a, b, args))),
    ):
        _print(title, lines)
        faults += len(lines) if title in ("inputs and outputs", "parameters") else 0
    if len(a.inputs) != len(b.inputs):
        raise InputError(f"A takes {len(a.inputs)} inputs and B {len(b.inputs)}: they cannot be run on the same input")
    given = parse_inputs(args.input or [_random_spec(var) for var in a.inputs], a)
    lines = list(_outputs(a, b, given, args))
    _print("outputs", lines)
    if args.trace:
        print(f"trace: {_trace(a, b, given, args)}")
    return EXIT_DIFFERENT if faults or lines else 0


def _print(title: str, lines: Sequence[str]) -> None:
    print(f"{title}: {'equal' if not lines else f'{len(lines)} differ'}")
    for line in lines[:_LISTED]:
        print(f"  {line}")
    if len(lines) > _LISTED:
        print(f"  and {len(lines) - _LISTED} more")


def _random_spec(var: VarDesc) -> str:
    sizes = [_FREE_SIZE if size < 0 else size for size in var.shape or ()]
    return f"{var.name}=random:{'x'.join(map(str, sizes))}"


def _ends(a: Loaded, b: Loaded) -> Iterator[str]:
    for kind, mine, theirs in (("input", a.inputs, b.inputs), ("output", a.outputs, b.outputs)):
        for index in range(max(len(mine), len(theirs))):
            texts = [var_text(each[index]) if index < len(each) else "none" for each in (mine, theirs)]
            if texts[0] != texts[1]:
                yield f"{kind} {index}: {texts[0]} | {texts[1]}"


def _ops(loaded: Loaded) -> list[OpDesc]:
    return [op for block in loaded.stripped.program.blocks for op in block.ops]


def _operators(a: Loaded, b: Loaded) -> Iterator[str]:
    mine, theirs = (Counter(op.type for op in _ops(each)) for each in (a, b))
    for type in sorted(mine.keys() | theirs.keys()):
        if mine[type] != theirs[type]:
            yield f"{type}: {mine[type]} | {theirs[type]}"


def _pairs(a: Sequence[OpDesc], b: Sequence[OpDesc]) -> Iterator[tuple[OpDesc, OpDesc]]:
    """Operators of the two models that stand in the same place of the longest common sequences of types."""
    matcher = SequenceMatcher(None, [op.type for op in a], [op.type for op in b], autojunk=False)
    for start_a, start_b, size in matcher.get_matching_blocks():
        yield from zip(a[start_a : start_a + size], b[start_b : start_b + size], strict=True)


def _attributes(a: Loaded, b: Loaded) -> Iterator[str]:
    for mine, theirs in _pairs(_ops(a), _ops(b)):
        declared = find(mine.type)
        defaults = {} if declared is None else declared.attrs
        for name in sorted(mine.attrs.keys() | theirs.attrs.keys()):
            if name in IGNORED_ATTRS or name == "sub_block" or (declared is not None and name not in defaults):
                continue
            values = [each.attrs.get(name, defaults.get(name)) for each in (mine, theirs)]
            if not _same(*values):
                yield f"{mine.type} -> {next(mine.output_names(), '')}: {name} {values[0]!r} | {values[1]!r}"


def _same(x: Any, y: Any) -> bool:
    if isinstance(x, (list, tuple)) and isinstance(y, (list, tuple)):
        return len(x) == len(y) and all(_same(p, q) for p, q in zip(x, y, strict=True))
    if isinstance(x, (int, float)) and isinstance(y, (int, float)):
        return x == y or abs(x - y) <= 1e-6 * max(abs(x), abs(y))
    return bool(x == y)


def _parameters(a: Loaded, b: Loaded, args: argparse.Namespace) -> Iterator[str]:
    mine, theirs = a.saved.values, b.saved.values
    for name in sorted(mine.keys() | theirs.keys()):
        if name not in mine or name not in theirs:
            yield f"{name}: only in {'A' if name in mine else 'B'}"
        elif (fault := _deviation(mine[name], theirs[name], args)) is not None:
            yield f"{name}: {fault}"


def _deviation(x: Any, y: Any, args: argparse.Namespace) -> str | None:
    """How two arrays differ, None when they agree within the tolerances."""
    x, y = array_of(x), array_of(y)
    if x.shape != y.shape or x.dtype != y.dtype:
        return f"{x.dtype.name}{list(x.shape)} | {y.dtype.name}{list(y.shape)}"
    wide = np.complex128 if x.dtype.kind == "c" else np.float64
    left, right = x.astype(wide), y.astype(wide)
    if np.allclose(left, right, args.rtol, args.atol, equal_nan=True):
        return None
    return f"largest difference {np.nanmax(np.abs(left - right)):.3g}, largest value {np.nanmax(np.abs(left)):.3g}"


def _outputs(a: Loaded, b: Loaded, given: Sequence[Any], args: argparse.Namespace) -> Iterator[str]:
    mine, theirs = a.runner().run(list(given)), b.runner().run(list(given))
    for index, (x, y) in enumerate(zip(mine, theirs, strict=False)):
        fault = _deviation(x, y, args)
        if fault is not None:
            yield f"output {index}: {fault}"


def _trace(a: Loaded, b: Loaded, given: Sequence[Any], args: argparse.Namespace) -> str:
    """The first pair of operators of the main block whose first results differ."""
    ops = [each.stripped.program.global_block.ops for each in (a, b)]
    values = [_every_value(each, given) for each in (a, b)]
    compared = 0
    for mine, theirs in _pairs(*ops):
        names = [_first(op) for op in (mine, theirs)]
        if names[0] not in values[0] or names[1] not in values[1]:
            continue
        compared += 1
        x, y = (_widened(each[name]) for each, name in zip(values, names, strict=True))
        fault = _deviation(x, y, args)
        if fault is not None:
            place = f"op {ops[0].index(mine)} of A, op {ops[1].index(theirs)} of B"
            return f"{mine.type} ({place}; {names[0]} | {names[1]}) is the first to differ: {fault}"
    return f"{compared} operators agree"


def _first(op: OpDesc) -> str:
    """The argument of the first output slot that the operator declares, "" without one."""
    declared = find(op.type)
    slots = [slot.name for slot in declared.outputs] if declared is not None else list(op.outputs)
    return next((op.outputs[slot][0] for slot in slots if op.outputs.get(slot)), "")


def _widened(value: Any) -> Any:
    """Integers in one dtype: Paddle 3 counts shapes in int64 where Paddle 2 has int32."""
    array = array_of(value)
    return array.astype(np.int64) if array.dtype.kind in "iu" else array


def _every_value(loaded: Loaded, given: Sequence[Any]) -> Mapping[str, Any]:
    """The first result of each operator of the main block, where it is a tensor and written once."""
    block = loaded.stripped.program.global_block
    written = Counter(name for op in block.ops for name in op.output_names())
    first = [name for op in block.ops if written[name := _first(op)] == 1]
    names = [
        name
        for name in first
        if (var := block.vars.get(name)) is not None and var.kind == VarKind.LOD_TENSOR and not var.persistable
    ]
    runner = InferenceRunner(
        loaded.stripped.program, tuple(loaded.stripped.feeds), tuple(names), FixedParams(dict(loaded.saved.values))
    )
    return dict(zip(names, runner.run(list(given)), strict=True))
