"""Places: where a tensor lives. There is one, the CPU; the others exist so that scripts that name them fail clearly."""

from __future__ import annotations

from ..errors import InputError

__all__ = ["CPU", "CPUPlace", "CUDAPinnedPlace", "CUDAPlace", "Place", "parse_place"]


class Place:
    """A device. Prints as Paddle's: ``Place(cpu)``."""

    __slots__ = ("device", "index")

    def __init__(self, device: str = "cpu", index: int = 0) -> None:
        self.device = device
        self.index = index

    def is_cpu_place(self) -> bool:
        """Whether this is the CPU."""
        return self.device == "cpu"

    def is_gpu_place(self) -> bool:
        """Whether this is a GPU."""
        return self.device == "gpu"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Place) and (self.device, self.index) == (other.device, other.index)

    def __hash__(self) -> int:
        return hash((self.device, self.index))

    def __repr__(self) -> str:
        return "Place(cpu)" if self.device == "cpu" else f"Place({self.device}:{self.index})"


class CPUPlace(Place):
    """The CPU."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__("cpu")


class CUDAPlace(Place):
    """A GPU by number. It may be made and passed around; no tensor can live there."""

    __slots__ = ()

    def __init__(self, index: int = 0) -> None:
        super().__init__("gpu", index)


class CUDAPinnedPlace(CPUPlace):
    """Page-locked host memory, which here is host memory."""

    __slots__ = ()


CPU = CPUPlace()


def parse_place(spec: object) -> Place:
    """The place that ``spec`` names: a Place, ``"cpu"``, or None for the CPU.

    Raises:
        InputError: it names a device that oarlock does not run on.
    """
    if spec is None or spec == "cpu" or (isinstance(spec, Place) and spec.is_cpu_place()):
        return CPU
    raise InputError(f"oarlock runs on the CPU; place {spec!r} is not available, use 'cpu'")
