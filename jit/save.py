"""``jit.save``: a loaded (and trained) layer back to files that real Paddle loads. All files or none are written."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, BinaryIO

from ..eager.tensor import Parameter, Tensor
from ..errors import InputError
from ..ir.pir import for_paddle_2
from ..proto.files import write_files
from ..proto.pdiparams import dump_params
from ..proto.pickles import dump_info
from .convert import FORMATS, program_bytes
from .prune import keep_inputs_and_outputs
from .translated_layer import TranslatedLayer

__all__ = ["save"]

_CONFIGS = frozenset({"output_spec", "clip_extra", "with_hook", "combine_params", "skip_forward", "format"})


def save(layer: Any, path: str | os.PathLike[str], input_spec: Sequence[Any] | None = None, **configs: Any) -> None:
    """Write a loaded layer as ``path.pdmodel``, ``path.pdiparams`` and ``path.pdiparams.info``, or as ``path.json``
    and ``path.pdiparams``.

    An unchanged ``.pdmodel`` is written with the same ops, attributes and order as it was loaded; the parameters
    with their present values. Further methods go to ``path.METHOD.pdmodel``. If writing fails, files that were
    there before stay whole.

    Args:
        layer: what ``jit.load`` returned.
        path: folder and file prefix.
        input_spec: the inputs to keep, by name; all when None.
        configs: ``format``, ``"pdmodel"`` for Paddle 2 or ``"json"`` for Paddle 3; by default that of the file
            which was loaded. ``output_spec``, the outputs to keep (names, or Variables and Tensors with names).
            ``clip_extra`` and ``with_hook`` are accepted.

    Raises:
        InputError: the layer was not loaded, the path has no file name, a spec names nothing of the model, or a
            config is not supported.
        UnsupportedOpError: operators that the Paddle of that format does not have; lists all of them.
    """
    unknown = sorted(set(configs) - _CONFIGS)
    if unknown:
        raise InputError(f"The additional config ({unknown[0]}) of `paddle.jit.save` is not supported.")
    prefix = _checked_prefix(path)
    _check_supported(layer, configs)
    writers: dict[str | os.PathLike[str], Callable[[BinaryIO], object]] = {}
    format = configs.get("format") or ("json" if layer.program_holder.kind == "pir" else "pdmodel")
    info = _info(layer._tensors, layer._persistable_var_name_dict)
    for method, holder in layer._program_holder_dict.items():
        stem = prefix if method == "forward" else f"{prefix}.{method}"
        program = holder.saved_program
        if input_spec is not None or configs.get("output_spec") is not None:
            program = keep_inputs_and_outputs(program, input_spec, configs.get("output_spec"))
        if holder.kind == "pir" and format == "pdmodel":
            program = for_paddle_2(program, holder.source)
        writers[f"{stem}.{format}"] = _writer(program_bytes(program, format, info, holder.source))
        values = {var.name: layer._tensors[var.name]._array for var in program.persistables()}
        if values:
            writers[f"{stem}.pdiparams"] = _params_writer(values)
    if info and format == "pdmodel":
        writers[f"{prefix}.pdiparams.info"] = lambda stream: dump_info(stream, info)
    os.makedirs(os.path.dirname(prefix) or ".", exist_ok=True)
    write_files(writers)


def _checked_prefix(path: str | os.PathLike[str]) -> str:
    prefix = os.fspath(path)
    if not os.path.basename(prefix):
        raise InputError(f"The input path MUST be format of dirname/file_prefix, got {prefix!r}")
    return prefix


def _check_supported(layer: Any, configs: Mapping[str, Any]) -> None:
    if not isinstance(layer, TranslatedLayer):
        raise InputError(
            f"jit.save writes layers that jit.load returned; a {type(layer).__name__} would have to be traced, which "
            "oarlock does not do. Save its parameters with oarlock.save(layer.state_dict(), path)"
        )
    if configs.get("format") not in (None, *FORMATS):
        raise InputError(f"format={configs['format']!r} is not supported, only {', '.join(map(repr, FORMATS))}")
    for name in ("combine_params", "skip_forward"):
        if configs.get(name):
            raise InputError(f"{name}=True is not supported: every method is written with parameters of its own")


def _writer(data: bytes) -> Callable[[BinaryIO], object]:
    return lambda stream: stream.write(data)


def _params_writer(values: Mapping[str, Any]) -> Callable[[BinaryIO], object]:
    return lambda stream: dump_params(stream, values)


def _info(tensors: Mapping[str, Tensor], attributes: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """The facts of the variables: name in the layer, whether it wants a gradient, for parameters ``trainable``."""
    facts: dict[str, dict[str, Any]] = {}
    for name, tensor in tensors.items():
        entry: dict[str, Any] = {"structured_name": attributes[name], "stop_gradient": bool(tensor.stop_gradient)}
        if isinstance(tensor, Parameter):
            entry["trainable"] = bool(tensor.trainable)
        facts[name] = entry
    return facts
