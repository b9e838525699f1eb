"""``Predictor`` and its tensor handles: feed, run, read; the drop-in for ``paddle.inference``."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..eager.tensor import wrap
from ..errors import InputError, KernelError, NotFoundError, OarlockError
from ..executor.runner import FixedParams, InferenceRunner
from ..executor.values import Array, LoDTensor, array_of
from ..ir.desc import VarDesc
from ..ir.dtypes import to_numpy
from ..ir.feeding import strip_feed_fetch
from ..ir.saved_model import SavedModel, read_model, read_model_buffers
from ..proto.files import listing
from .config import Config
from .types import DataType

__all__ = ["Predictor", "PredictorError", "PredictorPool", "PredictorTensor", "create_predictor"]

OutputHook = Callable[[str, "PredictorTensor"], None]


class PredictorError(OarlockError, RuntimeError):
    """A handle was asked for that the predictor does not have, or a value that is not there yet."""


class PredictorTensor:
    """A handle to one input or output of a predictor.

    Data is copied in and out: what the caller does with its arrays later changes nothing here.
    """

    def __init__(self, var: VarDesc) -> None:
        self.name = var.name
        self._dtype = np.dtype(np.float32) if var.dtype is None else to_numpy(var.dtype)
        self._value: Array | None = None
        self._shape: list[int] | None = None
        self._lod: list[list[int]] = []

    def reshape(self, shape: Sequence[int]) -> None:
        """Announce a shape; :meth:`copy_from_cpu` sets it from the array anyway."""
        self._shape = [int(dim) for dim in shape]

    def copy_from_cpu(self, data: Array | list[str]) -> None:
        """Give an input its value.

        Raises:
            InputError: ``data`` is no numpy array (and no list of strings).
        """
        if isinstance(data, list) and all(isinstance(each, str) for each in data):
            raise InputError(f"input '{self.name}': string tensors are not supported by any operator of oarlock")
        if not isinstance(data, np.ndarray):
            raise InputError("In copy_from_cpu, we only support numpy ndarray and list[str] data type.")
        self._value = np.array(data, order="C")
        self._shape = list(data.shape)

    def share_external_data(self, data: Any) -> None:
        """Use a Tensor's memory as the input, without a copy.

        Raises:
            InputError: ``data`` is no Tensor.
        """
        array = getattr(data, "_array", None)
        if not isinstance(array, np.ndarray):
            raise InputError("In share_external_data, we only support Tensor and LoDTensor.")
        self._value = array
        self._shape = list(array.shape)

    def copy_to_cpu(self) -> Array:
        """A fresh copy of the value.

        Raises:
            PredictorError: there is no value yet.
        """
        if self._value is None:
            raise PredictorError(f"(PreconditionNotMet) '{self.name}' holds no memory: call run() first")
        return np.array(self._value)

    def shape(self) -> list[int]:
        """The shape; ``[0]`` before there is a value."""
        return list(self._shape) if self._shape is not None else [0]

    def type(self) -> DataType:
        """The element type."""
        dtype = self._dtype if self._value is None else self._value.dtype
        return DataType.of(dtype)

    def lod(self) -> list[list[int]]:
        """The levels of offsets of a ragged batch; empty when there are none."""
        return [list(level) for level in self._lod]

    def set_lod(self, lod: Sequence[Sequence[int]]) -> None:
        """Make the value a ragged batch by levels of offsets."""
        self._lod = [list(level) for level in lod]

    def _get(self) -> Any:
        if self._value is None:
            raise InputError(f"input '{self.name}' has no value: call copy_from_cpu() on its handle before run()")
        return LoDTensor(self._value, self._lod) if self._lod else self._value

    def _set(self, value: Any) -> None:
        self._lod = value.lod if isinstance(value, LoDTensor) else []
        self._value = array_of(value)
        self._shape = list(self._value.shape)

    def _check(self, value: Any) -> None:
        array = array_of(value)
        if array.dtype != self._dtype:
            raise InputError(
                f"input '{self.name}' is {self._dtype.name}, got {array.dtype.name}; "
                f"cast it with .astype('{self._dtype.name}')"
            )


@dataclass(frozen=True, slots=True)
class _Shared:
    """What clones have in common: the model prepared to run, and what it declares."""

    runner: InferenceRunner
    inputs: tuple[VarDesc, ...]
    outputs: tuple[VarDesc, ...]


class Predictor:
    """Runs one model. Not for several threads at once: give each thread its own :meth:`clone`.

    Made by :func:`create_predictor`.
    """

    def __init__(self, config: Config, shared: _Shared | None = None) -> None:
        self._shared = _prepare(config) if shared is None else shared
        self._inputs = {var.name: PredictorTensor(var) for var in self._shared.inputs}
        self._outputs = {var.name: PredictorTensor(var) for var in self._shared.outputs}
        self._config = config
        self._hooks: list[OutputHook] = []

    def get_input_names(self) -> list[str]:
        """The inputs, in order."""
        return list(self._inputs)

    def get_output_names(self) -> list[str]:
        """The outputs, in order, as the program names them."""
        return list(self._outputs)

    def get_input_handle(self, name: str) -> PredictorTensor:
        """The handle of an input; PredictorError when there is none of that name."""
        return self._handle(self._inputs, name)

    def get_output_handle(self, name: str) -> PredictorTensor:
        """The handle of an output; PredictorError when there is none of that name."""
        return self._handle(self._outputs, name)

    def _handle(self, handles: dict[str, PredictorTensor], name: str) -> PredictorTensor:
        if name not in handles:
            raise PredictorError(
                f"(PreconditionNotMet) The variable named {name} is not found in the scope of the executor. "
                f"There are {', '.join(handles)}"
            )
        return handles[name]

    def run(self, inputs: Sequence[Any] | None = None) -> Any:
        """Run the model on the values of the input handles.

        Args:
            inputs: arrays or Tensors in input order, in place of the handles.

        Returns:
            True, or with ``inputs`` the list of outputs as Tensors.

        Raises:
            InputError: an input has no value or another dtype than the model declares.
            KernelError: an operator refused its inputs.
        """
        if inputs is not None:
            if len(inputs) != len(self._inputs):
                raise InputError(f"run() takes {len(self._inputs)} inputs, {len(inputs)} were given")
            for handle, value in zip(self._inputs.values(), inputs, strict=True):
                handle.copy_from_cpu(np.asarray(value))
        values = []
        for handle in self._inputs.values():
            value = handle._get()
            handle._check(value)
            values.append(value)
        for output, value in zip(self._outputs.values(), self._compute(values), strict=True):
            output._set(value)
        for hook in self._hooks:
            for name, output in self._outputs.items():
                hook(name, output)
        if inputs is None:
            return True
        return [wrap(output.copy_to_cpu()) for output in self._outputs.values()]

    def _compute(self, values: list[Any]) -> list[Any]:
        """The outputs; an operator's refusal also tells of inputs whose shape is not the declared one.

        Such inputs are tried all the same: many files declare the sizes of the picture that they were saved with.
        """
        try:
            return self._shared.runner.run(values)
        except KernelError as error:
            odd = [
                f"'{var.name}' {list(array_of(value).shape)} where the model declares {list(var.shape)}"
                for var, value in zip(self._shared.inputs, values, strict=True)
                if var.shape is not None and not _fits(var.shape, array_of(value).shape)
            ]
            if not odd:
                raise
            raise KernelError(f"{error}; the inputs may be at fault: {', '.join(odd)}") from error

    def register_output_hook(self, hook: OutputHook) -> None:
        """Call ``hook(name, handle)`` for each output after every run."""
        self._hooks.append(hook)

    def clone(self) -> Predictor:
        """A predictor over the same prepared model with handles of its own."""
        return Predictor(self._config, self._shared)

    def clear_intermediate_tensor(self) -> None:
        """Nothing to clear: intermediate values are freed while the model runs."""

    def try_shrink_memory(self) -> int:
        """Bytes that could be given back: 0, nothing is hoarded between runs."""
        return 0


class PredictorPool:
    """``size`` predictors over the same weights."""

    def __init__(self, config: Config, size: int = 1) -> None:
        if size < 1:
            raise InputError(f"a pool holds at least one predictor, got size {size}")
        first = Predictor(config)
        self._predictors = [first, *(first.clone() for _ in range(size - 1))]

    def retrive(self, index: int) -> Predictor:
        """Predictor number ``index`` (Paddle's spelling)."""
        return self._predictors[index]

    retrieve = retrive


def create_predictor(config: Config) -> Predictor:
    """A predictor for a configuration.

    Raises:
        NotFoundError: a file is missing.
        FormatError, ProgramError, UnsupportedOpError: the model cannot be used; see ``jit.load``.
    """
    return Predictor(config)


def _prepare(config: Config) -> _Shared:
    model = _read(config)
    stripped = strip_feed_fetch(model.programs["forward"])
    feeds, fetches = tuple(stripped.feeds), tuple(stripped.fetches)
    variables = stripped.program.global_block.vars
    runner = InferenceRunner(stripped.program, feeds, fetches, FixedParams(dict(model.values)), config.skipped_passes())
    return _Shared(runner, tuple(variables[name] for name in feeds), tuple(variables[name] for name in fetches))


def _fits(declared: Sequence[int], shape: Sequence[int]) -> bool:
    return len(declared) == len(shape) and all(want in (-1, have) for want, have in zip(declared, shape, strict=True))


def _read(config: Config) -> SavedModel:
    if config._buffers is not None:
        return read_model_buffers(*config._buffers)
    if config.model_dir():
        return _read_files(config.model_dir(), None)
    if not config.prog_file():
        raise InputError("the Config names no model: pass a folder, or a program file and a parameter file")
    if not os.path.isfile(config.prog_file()):
        listed = listing(os.path.dirname(config.prog_file()))
        raise NotFoundError(
            f"(NotFound) Cannot open file {config.prog_file()}, please confirm whether the file is normal: {listed}"
        )
    return _read_files(config.prog_file(), os.path.abspath(config.params_file()) if config.params_file() else None)


def _read_files(path: str, params: str | None) -> SavedModel:
    try:
        return read_model(path, None, params)
    except NotFoundError as error:
        raise NotFoundError(f"(NotFound) Cannot open the model {path}: {error}") from error
