"""Load inference models the way ``paddle.static`` does, and programs from and to bytes."""

from __future__ import annotations

import os
from typing import Any

from ..errors import InputError, NotFoundError
from ..ir.feeding import strip_feed_fetch
from ..ir.saved_model import read_model, read_model_buffers
from .program import Program, Variable, default_main_program
from .saving import normalize_program

__all__ = ["deserialize_program", "load_inference_model", "load_program_state", "serialize_program"]

_OPTIONS = frozenset({"model_filename", "params_filename"})


def load_inference_model(path_prefix: str | os.PathLike[str] | None, executor: Any = None, **options: Any) -> list[Any]:
    """Load a model for :class:`Executor`.

    Args:
        path_prefix: prefix or folder; None takes the model from memory: ``model_filename`` and
            ``params_filename`` then are the bytes of the program and of the parameters.
        executor: accepted for Paddle's sake.
        options: ``model_filename``, ``params_filename``.

    Returns:
        ``[program, feed names, fetch variables]``.

    Raises:
        NotFoundError, FormatError, ProgramError, UnsupportedOpError: as ``jit.load``.
    """
    unknown = sorted(set(options) - _OPTIONS)
    if unknown:
        raise InputError(f"load_inference_model takes no option '{unknown[0]}', only {', '.join(sorted(_OPTIONS))}")
    program, params = options.get("model_filename"), options.get("params_filename")
    if path_prefix is None:
        if not isinstance(program, bytes):
            raise InputError("with path_prefix=None, model_filename and params_filename hold the model's bytes")
        model = read_model_buffers(program, params or b"")
    else:
        try:
            model = read_model(path_prefix, program, params)
        except NotFoundError as error:
            if os.path.exists(os.path.dirname(os.path.abspath(path_prefix))):
                raise
            raise NotFoundError(f"There is no directory named {os.path.dirname(path_prefix)}: {error}") from error
    made = Program(model.programs["forward"], model.values)
    stripped = strip_feed_fetch(made.desc)
    block = made.global_block()
    return [made, stripped.feeds, [Variable(block, block.desc.vars[name]) for name in stripped.fetches]]


def load_program_state(model_path: str | os.PathLike[str], var_list: Any = None) -> dict[str, Any]:
    """Variable name -> array of a saved model; ``var_list`` limits it to these variables."""
    values = read_model(model_path).values
    if var_list is None:
        return dict(values)
    return {var.name: values[var.name] for var in var_list}


def deserialize_program(data: bytes) -> Program:
    """The program in the bytes of a ``.pdmodel`` file."""
    return Program.parse_from_string(data)


def serialize_program(feed_vars: Any, fetch_vars: Any, program: Program | None = None, **options: Any) -> bytes:
    """The bytes of a ``.pdmodel`` file: the part of ``program`` between the feeds and the fetches."""
    return normalize_program(program or default_main_program(), feed_vars, fetch_vars).serialize_to_string()
