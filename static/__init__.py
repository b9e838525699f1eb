"""The program-level API that users of ``paddle.static`` know."""

from ..jit.input_spec import InputSpec
from .backward import append_backward, gradients
from .executor import Executor
from .io import deserialize_program, load_inference_model, load_program_state, serialize_program
from .program import (
    Block,
    Program,
    Variable,
    default_main_program,
    default_startup_program,
    global_scope,
    program_guard,
    scope_guard,
)

__all__ = [
    "Block",
    "Executor",
    "InputSpec",
    "Program",
    "Variable",
    "append_backward",
    "default_main_program",
    "default_startup_program",
    "deserialize_program",
    "global_scope",
    "gradients",
    "load_inference_model",
    "load_program_state",
    "program_guard",
    "scope_guard",
    "serialize_program",
]
