"""The arguments of a call checked against what the model declares, and turned into values for the executor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..eager.tensor import Tensor
from ..errors import InputError
from ..executor.values import LoDTensor
from ..ir.desc import VarDesc
from ..ir.dtypes import to_numpy
from ..ir.printer import var_text

__all__ = ["InputChecker"]


class InputChecker:
    """Checks calls of one method.

    Args:
        declared: the input variables, in call order. A dimension of -1 takes any size.
        method: the method's name, for messages.
    """

    def __init__(self, declared: Sequence[VarDesc], method: str) -> None:
        self.declared = tuple(declared)
        self.method = method
        self.names = tuple(var.name for var in declared)
        self._dtypes = tuple(None if var.dtype is None else to_numpy(var.dtype) for var in declared)

    def arrange(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        """Positional and named arguments in the declared order.

        Raises:
            InputError: too many, unknown, missing or repeated inputs.
        """
        if not kwargs and len(args) == len(self.names):
            return list(args)
        if len(args) > len(self.names):
            raise InputError(f"{self.method}() takes {self._summary()}, {len(args)} were given")
        given = dict(zip(self.names, args, strict=False))
        for name, value in kwargs.items():
            if name not in self.names:
                raise InputError(f"{self.method}() has no input '{name}'; it takes {self._summary()}")
            if name in given:
                raise InputError(f"{self.method}() got input '{name}' twice, by position and by name")
            given[name] = value
        missing = [name for name in self.names if name not in given]
        if missing:
            raise InputError(f"{self.method}() misses input(s) {', '.join(missing)}; it takes {self._summary()}")
        return [given[name] for name in self.names]

    def _summary(self) -> str:
        listed = ", ".join(f"'{var.name}' {var_text(var)}" for var in self.declared)
        return f"{len(self.names)} input(s): {listed}" if self.names else "no inputs"

    def values(self, arguments: Sequence[Any]) -> list[Any]:
        """The arrays (or LoDTensors) behind arguments, checked.

        Raises:
            InputError: an argument is no array, or its dtype, rank or a fixed dimension is not the declared one.
        """
        return [self._value(argument, index) for index, argument in enumerate(arguments)]

    def _value(self, argument: Any, index: int) -> Any:
        if isinstance(argument, Tensor):
            array, lod = argument._array, argument._lod
        elif isinstance(argument, (np.ndarray, np.generic)):
            array, lod = np.asarray(argument), None
        elif isinstance(argument, LoDTensor):
            array, lod = argument.array, argument.lod
        else:
            raise InputError(
                f"input '{self.names[index]}' of {self.method}() must be a numpy array or a Tensor, got "
                f"{type(argument).__name__}; wrap it with numpy.asarray"
            )
        self._check(array, index)
        return LoDTensor(array, lod) if lod else array

    def _check(self, array: np.ndarray[Any, Any], index: int) -> None:
        var, dtype = self.declared[index], self._dtypes[index]
        if dtype is not None and array.dtype != dtype:
            raise InputError(
                f"input '{var.name}' of {self.method}() is {dtype.name}, got {array.dtype.name}; "
                f"cast it with .astype('{dtype.name}')"
            )
        shape = var.shape
        if shape is None:
            return
        if len(shape) != array.ndim or any(
            want not in (-1, have) for want, have in zip(shape, array.shape, strict=True)
        ):
            raise InputError(
                f"input '{var.name}' of {self.method}() has shape {list(shape)} (-1 is any size), got "
                f"{list(array.shape)}{_remedy(shape, array.shape)}"
            )


def _remedy(want: Sequence[int], have: Sequence[int]) -> str:
    if len(have) + 1 == len(want):
        return "; a batch dimension may be missing: add it with x[None]"
    return "; the file fixes these sizes"
