"""A loaded layer's tensors as the executor sees them: values, versions, one number that moves with any write."""

from __future__ import annotations

from collections.abc import Mapping

from ..eager.storage import mutation_epoch
from ..eager.tensor import Tensor
from ..executor.values import Array

__all__ = ["LayerParams"]


class LayerParams:
    """The persistable variables of a layer by their name in the program (a ``ParamStore``)."""

    def __init__(self, tensors: Mapping[str, Tensor]) -> None:
        self.tensors = tensors

    def value(self, name: str) -> Array:
        """The current value."""
        return self.tensors[name]._array

    def version(self, name: str) -> int:
        """The number of writes to the tensor's memory; tells another tensor of the same name apart too."""
        tensor = self.tensors[name]
        return hash((id(tensor._storage), tensor._storage.version))

    def epoch(self) -> int:
        """Moves with any write to any persistable tensor of the process."""
        return mutation_epoch()

    def assign(self, name: str, value: Array) -> None:
        """Write what the program made back into the tensor. Paddle does not count such writes."""
        self.tensors[name]._assign(value, "run_program")
