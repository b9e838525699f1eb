"""What the commands share: the MODEL argument, input specifications, sizes for people."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError
from ..executor.runner import FixedParams, InferenceRunner
from ..ir.desc import ProgramDesc, VarDesc
from ..ir.dtypes import to_numpy
from ..ir.feeding import Stripped, strip_feed_fetch
from ..ir.printer import var_text
from ..ir.saved_model import SavedModel, read_model
from ..jit.inputs import InputChecker

__all__ = ["Loaded", "add_input_argument", "add_model_arguments", "human_bytes", "human_count", "load", "parse_inputs"]

_INPUT_HELP = (
    "an input, as x.npy, NAME=x.npy, random:1x3x48x320 or NAME=random:SHAPE; repeat for several inputs. "
    "Random values are normal for floats (seed 0), 0 or 1 for integers"
)


def add_model_arguments(parser: argparse.ArgumentParser) -> None:
    """MODEL and the options that find its files."""
    parser.add_argument("model", metavar="MODEL", help="prefix, folder or program file of a saved model")
    parser.add_argument("--model-filename", metavar="NAME", help="the program file in the folder MODEL")
    parser.add_argument("--params-filename", metavar="NAME", help="the parameter file in the folder MODEL")
    parser.add_argument("--method", default="forward", help="which saved method (default: forward)")


def add_input_argument(parser: argparse.ArgumentParser, required: bool = True) -> None:
    """``--input``, repeatable."""
    parser.add_argument("--input", "-i", action="append", default=[], required=required, help=_INPUT_HELP)


class Loaded:
    """A model read for a command, with its feeds and fetches taken off the program."""

    def __init__(self, model: SavedModel, method: str) -> None:
        if method not in model.programs:
            raise InputError(f"there is no method '{method}'; the model has {', '.join(sorted(model.programs))}")
        self.saved = model
        self.method = method
        self.program: ProgramDesc = model.programs[method]
        self.stripped: Stripped = strip_feed_fetch(self.program)

    @property
    def inputs(self) -> list[VarDesc]:
        """The input variables in order."""
        return [self.stripped.program.global_block.vars[name] for name in self.stripped.feeds]

    @property
    def outputs(self) -> list[VarDesc]:
        """The output variables in order."""
        return [self.stripped.program.global_block.vars[name] for name in self.stripped.fetches]

    def runner(self) -> InferenceRunner:
        """What runs it."""
        return InferenceRunner(
            self.stripped.program,
            tuple(self.stripped.feeds),
            tuple(self.stripped.fetches),
            FixedParams(dict(self.saved.values)),
        )


def load(args: argparse.Namespace, check_operators: bool = True) -> Loaded:
    """Read the model that the arguments name; without ``check_operators`` even one that cannot run here."""
    model = read_model(args.model, args.model_filename, args.params_filename, check_operators=check_operators)
    return Loaded(model, args.method)


def parse_inputs(specs: Sequence[str], loaded: Loaded) -> list[np.ndarray[Any, Any]]:
    """Arrays for the inputs that the model declares, in their order.

    Raises:
        InputError: an unknown name, a missing input, a file that is no array, a shape that cannot be read, an array
            that does not fit what the model declares.
    """
    given: dict[str, np.ndarray[Any, Any]] = {}
    declared = loaded.inputs
    names = [var.name for var in declared]
    for spec in specs:
        name, value = _split(spec, names)
        unnamed = next((each for each in names if each not in given), None)
        target = name or unnamed
        if target is None or target not in names or target in given:
            raise InputError(f"--input {spec}: the model takes {_listed(declared)}")
        given[target] = _array(value, declared[names.index(target)], spec)
    missing = [name for name in names if name not in given]
    if missing:
        raise InputError(f"no --input for {', '.join(missing)}; the model takes {_listed(declared)}")
    return InputChecker(declared, loaded.method).values([given[name] for name in names])


def _split(spec: str, names: Sequence[str]) -> tuple[str, str]:
    """``NAME=VALUE`` where NAME is an input of the model; a file name may hold ``=`` itself."""
    name, equals, value = spec.partition("=")
    if equals and (name in names or not Path(spec).exists()):
        return name, value
    return "", spec


def _listed(declared: Sequence[VarDesc]) -> str:
    return ", ".join(f"{var.name} {var_text(var)}" for var in declared) or "no inputs"


def _array(value: str, var: VarDesc, spec: str) -> np.ndarray[Any, Any]:
    dtype = np.dtype(np.float32) if var.dtype is None else to_numpy(var.dtype)
    if value.startswith("random:"):
        return _random(_shape(value.removeprefix("random:"), spec), dtype)
    try:
        array = np.load(value, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise InputError(f"--input {spec}: {value} is no .npy array: {error}") from error
    if not isinstance(array, np.ndarray):
        raise InputError(f"--input {spec}: {value} holds several arrays; give one .npy file per input")
    return array


def _shape(text: str, spec: str) -> tuple[int, ...]:
    if text and not re.fullmatch(r"\d+([x,]\d+)*", text):
        raise InputError(f"--input {spec}: a shape is written 1x3x48x320, got '{text}'")
    shape = tuple(int(dim) for dim in re.split("[x,]", text)) if text else ()
    if int(np.prod(shape, dtype=object)) > 1 << 31:
        raise InputError(f"--input {spec}: more than 2^31 elements")
    return shape


def _random(shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(0)
    if dtype.kind in "iub":
        return rng.integers(0, 2, shape).astype(dtype)
    return rng.standard_normal(shape).astype(dtype)


def human_count(count: float) -> str:
    """``108``, ``2.30 G`` and the like."""
    for unit in ("", "k", "M"):
        if count < 1000:
            return f"{count:.0f}" if not unit else f"{count:.2f} {unit}"
        count /= 1000
    return f"{count:.2f} G"


def human_bytes(count: float) -> str:
    """``4.7 MB`` and the like."""
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"
