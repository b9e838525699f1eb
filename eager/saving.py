"""``save`` and ``load``: state dicts, optimizer states and nested objects, in files that Paddle reads and writes."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..errors import InputError, NotFoundError
from ..executor.values import Array, SelectedRows
from ..ir.dtypes import bfloat16
from ..ir.saved_model import read_model
from ..proto.files import StrPath
from ..proto.pdiparams import dump_params, write_tensor
from ..proto.pickles import NAME_TABLE, dump_state, load_state, read_state, write_state
from ..proto.records import SelectedRowsRecord
from .nn.layer import Layer
from .tensor import Tensor, wrap

__all__ = ["load", "save"]

_SAVE_CONFIGS = frozenset({"use_binary_format", "pickle_protocol"})
_LOAD_CONFIGS = frozenset({"return_numpy", "keep_name_table", "model_filename", "params_filename"})


def save(obj: Any, path: Any, protocol: int = 4, **configs: Any) -> None:
    """Write an object with tensors in it; the file is written wholly or not at all.

    Args:
        obj: a state dict of a layer or an optimizer, a tensor, or containers (dict, list, tuple) of tensors,
            arrays, numbers and text.
        path: a file name, or a writable binary stream.
        protocol: of the pickle, 2 to 4.
        configs: ``use_binary_format=True`` writes one tensor as a raw record.

    Raises:
        InputError: the object is a layer, or holds something that a file of parameters cannot hold.
    """
    unknown = sorted(set(configs) - _SAVE_CONFIGS)
    if unknown:
        raise InputError(f"save() takes no config '{unknown[0]}', only {', '.join(sorted(_SAVE_CONFIGS))}")
    if isinstance(obj, Layer):
        raise InputError("save() does not support saving a Layer object: save layer.state_dict(), or use jit.save")
    protocol = configs.get("pickle_protocol", protocol)
    if configs.get("use_binary_format"):
        _save_record(obj, path)
        return
    plain = _state(obj) if _is_state(obj) else _spelled(obj)
    if hasattr(path, "write"):
        write_state(path, plain, protocol)
        return
    if not os.path.basename(os.fspath(path)):
        raise InputError(f"The input path MUST be format of dirname/filename, got {os.fspath(path)!r}")
    dump_state(plain, path, protocol)


def _save_record(obj: Any, path: Any) -> None:
    if not isinstance(obj, Tensor):
        raise InputError(f"use_binary_format=True writes one Tensor, got {type(obj).__name__}")
    if hasattr(path, "write"):
        dump_params(path, {"tensor": obj._array})
    else:
        write_tensor(path, obj._array)


def _is_state(obj: Any) -> bool:
    """A dict of tensors and of dicts without tensors, which Paddle writes with a table of the tensors' names."""
    return isinstance(obj, Mapping) and all(
        isinstance(value, Tensor) or (isinstance(value, Mapping) and not _holds_tensor(value)) for value in obj.values()
    )


def _holds_tensor(obj: Any) -> bool:
    if isinstance(obj, Mapping):
        return any(_holds_tensor(value) for value in obj.values())
    if isinstance(obj, (list, tuple)):
        return any(_holds_tensor(value) for value in obj)
    return isinstance(obj, Tensor)


def _state(obj: Mapping[Any, Any]) -> dict[Any, Any]:
    arrays = {key: value._array if isinstance(value, Tensor) else value for key, value in obj.items()}
    return {**arrays, NAME_TABLE: {key: value.name for key, value in obj.items() if isinstance(value, Tensor)}}


def _spelled(obj: Any) -> Any:
    """An object in whose place each tensor is the pair of its name and its array."""
    if isinstance(obj, Tensor):
        return obj.name, obj._array
    return _each(obj, _spelled)


def _each(obj: Any, change: Callable[[Any], Any]) -> Any:
    """The same containers, with every value changed."""
    if isinstance(obj, Mapping):
        return {key: change(value) for key, value in obj.items()}
    if type(obj) in (list, tuple):
        return type(obj)(change(value) for value in obj)
    return obj


def load(path: Any, **configs: Any) -> Any:
    """Read what :func:`save` or ``paddle.save`` wrote, or the parameters of a saved model.

    Args:
        path: a file name, a readable binary stream, or the prefix or folder of a saved model.
        configs: ``return_numpy=True`` gives arrays in place of tensors; ``keep_name_table=True`` keeps the table
            of names in a state dict; ``model_filename`` and ``params_filename`` name files in a folder.

    Returns:
        The object with its tensors; of a model a dict from structured name (variable name where the files do
        not tell) to value.

    Raises:
        NotFoundError: nothing lies there.
        FormatError: the file is damaged, or holds things that are not data.
    """
    unknown = sorted(set(configs) - _LOAD_CONFIGS)
    if unknown:
        raise InputError(f"load() takes no config '{unknown[0]}', only {', '.join(sorted(_LOAD_CONFIGS))}")
    loaded = _read(path, configs)
    if configs.get("return_numpy"):
        return _without_table(_arrays(loaded), configs)
    return _without_table(_tensors(loaded), configs)


def _read(path: Any, configs: Mapping[str, Any]) -> Any:
    if hasattr(path, "read"):
        return read_state(path.read(), "the stream", keep_name_table=True)
    if os.path.isfile(path):
        return load_state(path, keep_name_table=True)
    return _model_state(path, configs)


def _model_state(path: StrPath, configs: Mapping[str, Any]) -> dict[str, Any]:
    try:
        model = read_model(path, configs.get("model_filename"), configs.get("params_filename"), check_operators=False)
    except NotFoundError as error:
        raise NotFoundError(f"The ``path`` ({os.fspath(path)}) to load model not exists: {error}") from error
    facts = model.info or {}
    return {facts.get(name, {}).get("structured_name", name): np.array(value) for name, value in model.values.items()}


def _without_table(loaded: Any, configs: Mapping[str, Any]) -> Any:
    if isinstance(loaded, dict) and not configs.get("keep_name_table"):
        loaded.pop(NAME_TABLE, None)
    return loaded


def _is_pair(obj: Any) -> bool:
    """A tensor as Paddle pickles it inside other objects: its name and its array."""
    return type(obj) is tuple and len(obj) == 2 and isinstance(obj[0], str) and isinstance(obj[1], np.ndarray)


def _has_pair(obj: Any) -> bool:
    if isinstance(obj, dict):
        return any(_has_pair(value) for value in obj.values())
    return _is_pair(obj) or (isinstance(obj, (list, tuple)) and any(_has_pair(value) for value in obj))


def _arrays(obj: Any) -> Any:
    if isinstance(obj, SelectedRowsRecord):
        return SelectedRows(obj.rows, obj.array, obj.height).to_dense()
    return obj[1] if _is_pair(obj) else _each(obj, _arrays)


def _tensors(obj: Any) -> Any:
    """Arrays as tensors; where tensors are spelled as pairs, plain arrays were arrays and stay."""
    if isinstance(obj, SelectedRowsRecord):
        return wrap(_arrays(obj))
    if _has_pair(obj):
        return _from_pairs(obj)
    loaded = _from_arrays(obj)
    table = obj.get(NAME_TABLE) if isinstance(obj, dict) else None
    for key, name in (table or {}).items():
        if isinstance(loaded.get(key), Tensor):
            loaded[key].name = name
    return loaded


def _from_pairs(obj: Any) -> Any:
    if not _is_pair(obj):
        return _each(obj, _from_pairs)
    made = _tensor(obj[1])
    made.name = obj[0]
    return made


def _from_arrays(obj: Any) -> Any:
    return _tensor(obj) if isinstance(obj, np.ndarray) else _each(obj, _from_arrays)


def _tensor(array: Array) -> Tensor:
    """Pickles hold bfloat16 as the uint16 of its bits, and Paddle has no other uint16 tensors."""
    return wrap(array.view(bfloat16()) if array.dtype == np.uint16 else array)
