"""What a ``.json`` program of Paddle 3 holds: module, regions, blocks, operations, values, types, attributes.

Plain descriptions without meaning. Names of operations are written out (``"pd_op.add"``, ``"builtin.parameter"``);
kinds of types and attributes stay as the file has them (``"0.t_f32"``, ``"1.a_intarray"``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

__all__ = [
    "ABSENT",
    "PARAMETER",
    "SHADOW_OUTPUT",
    "PirArrayType",
    "PirAttr",
    "PirBlock",
    "PirModule",
    "PirOp",
    "PirRegion",
    "PirScalarType",
    "PirTensorType",
    "PirType",
    "PirValue",
    "PirVectorType",
    "walk_blocks",
]

ABSENT: Final = 0
"""The id of an optional operand that is not there."""
PARAMETER: Final = "builtin.parameter"
SHADOW_OUTPUT: Final = "builtin.shadow_output"


@dataclass(slots=True, frozen=True)
class PirScalarType:
    """An element type, such as ``"0.t_f32"``."""

    kind: str


@dataclass(slots=True, frozen=True)
class PirTensorType:
    """A tensor: dense, selected rows or sparse, as ``kind`` says. A dimension of -1 is unknown."""

    kind: str
    dtype: str
    dims: tuple[int, ...]
    layout: str = "NCHW"
    lod: tuple[Any, ...] = ()
    offset: int = 0


@dataclass(slots=True, frozen=True)
class PirArrayType:
    """An array of tensors that loops read and write by index."""

    dtype: str
    dims: tuple[int, ...]
    layout: str = "NCHW"


@dataclass(slots=True, frozen=True)
class PirVectorType:
    """A fixed list of values under one id, as ``builtin.combine`` makes it."""

    items: tuple[PirType, ...]


PirType: TypeAlias = "PirScalarType | PirTensorType | PirArrayType | PirVectorType | None"
"""None is the type of a result that an operation leaves out."""


@dataclass(slots=True)
class PirAttr:
    """An attribute: its kind as the file names it and its value.

    The value is a bool, int, float (not finite ones too), str, a list of :class:`PirAttr` (``0.a_array``), a
    type (``0.a_type``), a complex, a list of ints (``1.a_intarray``), ``(dtype, value)`` (``1.a_scalar``) or
    ``[type, device id, device name]`` (``1.a_place``).
    """

    kind: str
    value: Any

    def plain(self) -> Any:
        """The value with the attributes in arrays unwrapped."""
        return [each.plain() for each in self.value] if self.kind == "0.a_array" else self.value


@dataclass(slots=True)
class PirValue:
    """A result (id above 0) or an argument of a block (id below 0)."""

    id: int
    type: PirType


@dataclass(slots=True)
class PirOp:
    """One operation.

    ``operands`` are value ids, 0 for an absent one. ``result_attrs`` hold one bool per result under
    ``stop_gradient`` and ``persistable``. A parameter is an operation ``builtin.parameter`` whose attributes are
    ``parameter_name``, ``is_distributed``, ``is_parameter``, ``need_clip`` and, about its result,
    ``persistable``, ``stop_gradient``, ``trainable``. ``extra`` keeps fields that say nothing here.
    """

    name: str
    operands: list[int] = field(default_factory=list)
    results: list[PirValue] = field(default_factory=list)
    attrs: dict[str, PirAttr] = field(default_factory=dict)
    result_attrs: dict[str, PirAttr] = field(default_factory=dict)
    regions: list[PirRegion] = field(default_factory=list)
    extra: dict[str, Any] = field(default_factory=dict)

    def attr(self, name: str, default: Any = None) -> Any:
        """The plain value of an attribute, or ``default`` where the operation does not state it."""
        found = self.attrs.get(name)
        return default if found is None else found.plain()


@dataclass(slots=True)
class PirBlock:
    """Operations in order. ``kwargs`` are arguments with a key, after those by position."""

    name: str = "block_0"
    args: list[PirValue] = field(default_factory=list)
    kwargs: list[tuple[str, PirValue]] = field(default_factory=list)
    ops: list[PirOp] = field(default_factory=list)


@dataclass(slots=True)
class PirRegion:
    """A body of an operation."""

    name: str = "region_0"
    blocks: list[PirBlock] = field(default_factory=list)


@dataclass(slots=True)
class PirModule:
    """A whole program. ``version`` is that of the file format, ``trainable`` whether result attributes were kept."""

    block: PirBlock
    version: int = 4
    trainable: bool = True
    region_name: str = "region_0"


def walk_blocks(block: PirBlock) -> Iterator[PirBlock]:
    """A block and all blocks inside it."""
    stack = [block]
    while stack:
        current = stack.pop()
        yield current
        for op in current.ops:
            for region in op.regions:
                stack.extend(region.blocks)
