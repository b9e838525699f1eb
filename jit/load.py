"""``jit.load``: a saved model becomes a layer."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from ..eager import unique_name
from ..eager.tensor import Parameter, Tensor, borrow
from ..errors import InputError
from ..executor.values import Array
from ..ir.desc import ProgramDesc
from ..ir.saved_model import SavedModel, read_model
from .holder import ProgramHolder
from .translated_layer import TranslatedLayer

__all__ = ["build_layer", "load"]

_CONFIGS = frozenset({"model_filename", "params_filename"})


def load(path: str | os.PathLike[str], **configs: str | None) -> TranslatedLayer:
    """Load a model saved by ``paddle.jit.save`` or ``paddle.static.save_inference_model``.

    The ``.pdmodel`` of Paddle 2, the ``.json`` of Paddle 3 and the layouts of 1.x are all taken, and behave alike.

    Args:
        path: a prefix (``"inference"`` for ``inference.pdmodel``), a folder, or a program file.
        configs: ``model_filename`` and ``params_filename`` name the files in a folder.

    Returns:
        A layer in ``eval()`` mode. Parameters are views of the mapped file until they are written to.

    Raises:
        NotFoundError: there is no model; the message lists what lies there.
        FormatError: a file is damaged or of another format.
        ProgramError: the program is not valid.
        UnsupportedOpError: the program uses operators that oarlock lacks; all are listed.
    """
    unknown = sorted(set(configs) - _CONFIGS)
    if unknown:
        raise InputError(f"The additional config ({unknown[0]}) of `paddle.jit.load` is not supported.")
    return build_layer(read_model(path, configs.get("model_filename"), configs.get("params_filename")))


def build_layer(model: SavedModel) -> TranslatedLayer:
    """The layer of a model that has been read."""
    holders = {
        name: ProgramHolder(program, name if model.files is None else model.files.programs[name], model.kind)
        for name, program in model.programs.items()
    }
    return TranslatedLayer(holders, _tensors(model, holders))


def _tensors(model: SavedModel, holders: Mapping[str, ProgramHolder]) -> dict[str, Tensor]:
    """One tensor per variable, shared by all methods: a Parameter, or a plain tensor for a buffer."""
    trainable: set[str] = set()
    is_parameter: set[str] = set()
    if model.info is None:
        for holder in holders.values():
            trainable |= holder.trainable_names()
            is_parameter |= _parameter_names(holder.infer_program)
    else:
        trainable = {name for name, facts in model.info.items() if not facts.get("stop_gradient", False)}
        is_parameter = {name for name, facts in model.info.items() if facts.get("trainable") is not None}
    return {
        name: _tensor(name, model.values[name], name in is_parameter, name in trainable)
        for name in sorted(model.values)
    }


def _tensor(name: str, value: Array, is_parameter: bool, trainable: bool) -> Tensor:
    made_name = unique_name.generate(re.sub(r"_\d+$", "", name))
    if is_parameter:
        return Parameter(value, name=made_name, trainable=trainable, copy=False)
    buffer = borrow(value)
    buffer.name = made_name
    buffer.persistable = True
    buffer.stop_gradient = not trainable
    return buffer


def _parameter_names(program: ProgramDesc) -> set[str]:
    """Without facts in a file: a persistable is a parameter if ops read it and none makes it from nothing."""
    read: set[str] = set()
    made: set[str] = set()
    for block in program.blocks:
        for op in block.ops:
            inputs = set(op.input_names())
            read |= inputs
            made.update(name for name in op.output_names() if name not in inputs)
    return {var.name for var in program.persistables() if var.name in read and var.name not in made}
