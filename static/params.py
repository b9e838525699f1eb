"""The values of a program's persistable variables: arrays of its own, or the tensors of a layer in it."""

from __future__ import annotations

from collections.abc import Mapping

from ..eager.storage import mutation_epoch
from ..eager.tensor import Tensor
from ..executor.values import Array

__all__ = ["ProgramParams"]


class ProgramParams:
    """A ``ParamStore`` of a program.

    Attributes:
        values: arrays by name; the program writes them by replacing them.
        tensors: tensors by name; the program writes into them, so that their layer sees it.
    """

    def __init__(self, values: Mapping[str, Array]) -> None:
        self.values = dict(values)
        self.tensors: dict[str, Tensor] = {}

    def __contains__(self, name: str) -> bool:
        return name in self.tensors or name in self.values

    def value(self, name: str) -> Array:
        """The current value."""
        tensor = self.tensors.get(name)
        return self.values[name] if tensor is None else tensor._array

    def version(self, name: str) -> int:
        """Moves with every write to the memory of a tensor; the program's own arrays are fed anew when it writes."""
        tensor = self.tensors.get(name)
        return 0 if tensor is None else hash((id(tensor._storage), tensor._storage.version))

    def epoch(self) -> int:
        """Moves when any tensor may have been written to."""
        return mutation_epoch() if self.tensors else 0

    def assign(self, name: str, value: Array) -> None:
        """Keep what the program wrote."""
        tensor = self.tensors.get(name)
        if tensor is None:
            self.values[name] = value
        else:
            tensor._assign(value, "Executor.run")
