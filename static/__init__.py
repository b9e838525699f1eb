"""The program-level API that users of ``paddle.static`` know."""

from ..jit.input_spec import InputSpec
from .appending import disable_static, enable_static, in_dynamic_mode
from .backward import append_backward, gradients
from .build import create_global_var, data, name_scope
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
from .saving import normalize_program, save_inference_model

__all__ = [
    "Block",
    "Executor",
    "InputSpec",
    "Program",
    "Variable",
    "append_backward",
    "create_global_var",
    "data",
    "default_main_program",
    "default_startup_program",
    "deserialize_program",
    "disable_static",
    "enable_static",
    "global_scope",
    "gradients",
    "in_dynamic_mode",
    "load_inference_model",
    "load_program_state",
    "name_scope",
    "normalize_program",
    "program_guard",
    "save_inference_model",
    "scope_guard",
    "serialize_program",
]
