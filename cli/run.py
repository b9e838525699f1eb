"""``oarlock run``: run a model once and show or store its outputs."""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from ..executor.values import LoDTensor, array_of
from .model import add_input_argument, add_model_arguments, load, parse_inputs

__all__ = ["add_parser"]


def add_parser(commands: Any) -> None:
    """Register the command."""
    parser = commands.add_parser(
        "run",
        help="run a model once",
        description="Run a model once. Prints shape, dtype, smallest, largest and mean value of every output.",
    )
    add_model_arguments(parser)
    add_input_argument(parser, required=False)
    parser.add_argument("--output", "-o", metavar="OUT.npz", help="store the outputs there, by name")
    parser.set_defaults(handler=_run)


def _run(args: argparse.Namespace) -> int:
    loaded = load(args)
    inputs = parse_inputs(args.input, loaded)
    outputs = dict(zip(loaded.stripped.fetches, loaded.runner().run(inputs), strict=True))
    for name, value in outputs.items():
        print(f"{name}: {_summary(value)}")
    if args.output:
        _store(Path(args.output), {name: array_of(value) for name, value in outputs.items()})
    return 0


def _summary(value: Any) -> str:
    array = array_of(value)
    lod = f" lengths {value.lengths()}" if isinstance(value, LoDTensor) else ""
    text = f"{array.dtype.name}{list(array.shape)}{lod}"
    if array.size == 0 or array.dtype.kind == "c":
        return text
    plain = array.astype(np.float64)
    return f"{text} min {plain.min():.6g} max {plain.max():.6g} mean {plain.mean():.6g}"


def _store(path: Path, outputs: dict[str, Any]) -> None:
    """Write the archive whole or not at all."""
    handle, temporary = tempfile.mkstemp(dir=path.parent or Path(), suffix=".npz.tmp")
    try:
        with os.fdopen(handle, "wb") as stream:
            np.savez(stream, **outputs)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
