"""The static program as plain Python objects: ``ProgramDesc`` > ``BlockDesc`` > ``OpDesc`` and ``VarDesc``.

They are decoded once from the file and encoded back byte-faithfully. Passes edit them directly; nothing here
knows protobuf. A field that the file leaves out is ``None`` where the format tells absent from default, and
bytes of fields that this version does not know travel in ``unknown``. ``original`` holds the encoded description
where the file writes it in a way that these fields cannot tell (a name twice, a value left out); it is written
back for as long as nobody edits the description.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from .dtypes import DType

__all__ = [
    "EMPTY_VAR",
    "FAKE_VAR",
    "GRAD_SUFFIX",
    "AttrType",
    "BlockDesc",
    "OpDesc",
    "ProgramDesc",
    "VarDesc",
    "VarKind",
]

EMPTY_VAR = "@EMPTY@"
"""An argument that is absent but keeps its place in a list."""
FAKE_VAR = "Fake_var"
"""The placeholder for an input that the backward block does not read."""
GRAD_SUFFIX = "@GRAD"


class AttrType(enum.IntEnum):
    """The type of an attribute as the file states it."""

    INT = 0
    FLOAT = 1
    STRING = 2
    INTS = 3
    FLOATS = 4
    STRINGS = 5
    BOOLEAN = 6
    BOOLEANS = 7
    BLOCK = 8
    LONG = 9
    BLOCKS = 10
    LONGS = 11
    FLOAT64S = 12
    VAR = 13
    VARS = 14
    FLOAT64 = 15
    SCALAR = 16
    SCALARS = 17


class VarKind(enum.IntEnum):
    """What a variable is: a dense tensor or one of the few other holders."""

    LOD_TENSOR = 7
    SELECTED_ROWS = 8
    FEED_MINIBATCH = 9
    FETCH_LIST = 10
    STEP_SCOPES = 11
    LOD_RANK_TABLE = 12
    LOD_TENSOR_ARRAY = 13
    PLACE_LIST = 14
    READER = 15
    RAW = 17
    TUPLE = 18
    STRING = 25
    STRINGS = 26
    VOCAB = 27
    FEED_LIST = 28
    PSTRING = 29
    SPARSE_COO = 30
    SPARSE_CSR = 31


_NOT_PARAMETERS = frozenset({VarKind.FEED_MINIBATCH, VarKind.FETCH_LIST, VarKind.READER, VarKind.RAW})


@dataclass(slots=True)
class VarDesc:
    """One variable of a block.

    ``kind`` is an int when the file holds a code that :class:`VarKind` does not know. ``dtype`` and ``shape``
    are None for holders without a tensor description; a dimension of -1 is unknown. ``type_extra`` keeps the
    encoded type of kinds that carry more than one tensor description (readers, tuples).
    """

    name: str
    kind: VarKind | int = VarKind.LOD_TENSOR
    dtype: DType | int | None = None
    shape: tuple[int, ...] | None = None
    lod_level: int | None = None
    persistable: bool | None = None
    need_check_feed: bool | None = None
    is_parameter: bool | None = None
    stop_gradient: bool | None = None
    attrs: dict[str, Any] = field(default_factory=dict)
    attr_types: dict[str, AttrType] = field(default_factory=dict)
    type_extra: bytes = b""
    unknown: bytes = b""
    original: bytes = b""

    @property
    def is_persistable_tensor(self) -> bool:
        """Whether the value is stored with the model (parameters, statistics, buffers)."""
        return bool(self.persistable) and self.kind not in _NOT_PARAMETERS


@dataclass(slots=True)
class OpDesc:
    """One operator: slots with variable names, attributes with Python values.

    ``inputs`` and ``outputs`` map a slot to its argument names, in file order. ``attr_types`` holds the type
    that the file gave to each attribute; a new attribute needs no entry, its type follows from the value.
    """

    type: str
    inputs: dict[str, list[str]] = field(default_factory=dict)
    outputs: dict[str, list[str]] = field(default_factory=dict)
    attrs: dict[str, Any] = field(default_factory=dict)
    attr_types: dict[str, AttrType] = field(default_factory=dict)
    is_target: bool | None = None
    unknown: bytes = b""
    original: bytes = b""

    def input(self, slot: str) -> str | None:
        """The first argument of an input slot, or None where the slot is absent or empty."""
        names = self.inputs.get(slot)
        return names[0] if names else None

    def output(self, slot: str) -> str | None:
        """The first argument of an output slot, or None where the slot is absent or empty."""
        names = self.outputs.get(slot)
        return names[0] if names else None

    def input_names(self) -> Iterator[str]:
        """All argument names that the op reads, absent ones left out."""
        for names in self.inputs.values():
            for name in names:
                if name and name != EMPTY_VAR:
                    yield name

    def output_names(self) -> Iterator[str]:
        """All argument names that the op writes, absent ones left out."""
        for names in self.outputs.values():
            for name in names:
                if name and name != EMPTY_VAR:
                    yield name

    def set_attr(self, name: str, value: Any, kind: AttrType | None = None) -> None:
        """Set an attribute; without ``kind`` a type that the file gave is dropped."""
        self.attrs[name] = value
        if kind is None:
            self.attr_types.pop(name, None)
        else:
            self.attr_types[name] = kind

    def rename(self, names: dict[str, str]) -> None:
        """Replace argument names by ``names[old]``, in every slot."""
        for slots in (self.inputs, self.outputs):
            for slot, arguments in slots.items():
                if any(name in names for name in arguments):
                    slots[slot] = [names.get(name, name) for name in arguments]

    def copy(self) -> OpDesc:
        """A copy that shares no container with this op (attribute values themselves are shared)."""
        return OpDesc(
            self.type,
            {slot: list(names) for slot, names in self.inputs.items()},
            {slot: list(names) for slot, names in self.outputs.items()},
            dict(self.attrs),
            dict(self.attr_types),
            self.is_target,
            self.unknown,
            self.original,
        )

    def sub_blocks(self) -> list[int]:
        """The indices of the blocks that the op's attributes name."""
        found: list[int] = []
        for name, kind in self.attr_types.items():
            if kind == AttrType.BLOCK:
                found.append(self.attrs[name])
            elif kind == AttrType.BLOCKS:
                found.extend(self.attrs[name])
        return found


@dataclass(slots=True)
class BlockDesc:
    """A list of ops and the variables they name. Block 0 is the main block; a sub-block names its parent."""

    idx: int
    parent_idx: int = -1
    vars: dict[str, VarDesc] = field(default_factory=dict)
    ops: list[OpDesc] = field(default_factory=list)
    forward_block_idx: int | None = None
    unknown: bytes = b""

    def copy(self) -> BlockDesc:
        """A copy with its own ops and its own table of variables (``VarDesc`` objects copied too)."""
        return BlockDesc(
            self.idx,
            self.parent_idx,
            {name: _copy_var(var) for name, var in self.vars.items()},
            [op.copy() for op in self.ops],
            self.forward_block_idx,
            self.unknown,
        )


@dataclass(slots=True, eq=False)
class ProgramDesc:
    """A whole program: its blocks, the version of the writer, the versions of the writer's operators.

    ``version`` is ``major * 1000000 + minor * 1000 + patch``, 0 for a development build, None when absent.
    ``op_versions`` is None when the file has no map at all (1.x).
    """

    blocks: list[BlockDesc] = field(default_factory=list)
    version: int | None = None
    op_versions: dict[str, int] | None = None
    unknown: bytes = b""

    @property
    def global_block(self) -> BlockDesc:
        """Block 0."""
        return self.blocks[0]

    def find_var(self, name: str, block: BlockDesc) -> VarDesc | None:
        """The variable ``name`` as seen from ``block``: there, else in its ancestors."""
        seen = 0
        while True:
            var = block.vars.get(name)
            if var is not None:
                return var
            seen += 1
            if not 0 <= block.parent_idx < len(self.blocks) or seen > len(self.blocks):
                return None
            block = self.blocks[block.parent_idx]

    def op_version(self, op_type: str) -> int:
        """The version of an operator's meaning that the file was written with; a grad op has its operator's."""
        versions = self.op_versions or {}
        return versions.get(op_type, versions.get(op_type.removesuffix("_grad"), 0))

    def persistables(self) -> list[VarDesc]:
        """Every variable stored with the model, each name once, in block order."""
        found: dict[str, VarDesc] = {}
        for block in self.blocks:
            for var in block.vars.values():
                if var.is_persistable_tensor:
                    found.setdefault(var.name, var)
        return list(found.values())

    def copy(self) -> ProgramDesc:
        """A copy that can be edited without touching this program."""
        versions = None if self.op_versions is None else dict(self.op_versions)
        return ProgramDesc([block.copy() for block in self.blocks], self.version, versions, self.unknown)


def _copy_var(var: VarDesc) -> VarDesc:
    return VarDesc(
        var.name,
        var.kind,
        var.dtype,
        var.shape,
        var.lod_level,
        var.persistable,
        var.need_check_feed,
        var.is_parameter,
        var.stop_gradient,
        dict(var.attrs),
        dict(var.attr_types),
        var.type_extra,
        var.unknown,
        var.original,
    )
