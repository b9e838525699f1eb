"""A program of Paddle 3 to ours: values become named variables, regions become blocks, operations become operators.

Most operations follow the table (:mod:`.table`): operands and results go to the slots of the old operator, and
operands that it has as attributes are folded when a constant operation makes them, else fed as tensors. What the
table cannot say is in :mod:`.special` and :mod:`.control`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from ...errors import ProgramError, UnsupportedOpError
from ...proto.pir_desc import ABSENT, PARAMETER, PirAttr, PirBlock, PirModule, PirOp, PirType, walk_blocks
from ..desc import AttrType, BlockDesc, OpDesc, ProgramDesc, VarDesc, VarKind
from ..registry import find
from .table import AttrSource, Correspondence, PirAttribute, correspondence, old_operator
from .types import attr_type_of, coerced, describe, old_value

__all__ = ["Translated", "Translator", "bare_name", "translate_module"]

VERSION: Final = 2006002
"""The version of Paddle whose operators the translation uses."""
_PD_OP: Final = "pd_op."
_CONSTANTS: Final = frozenset({"pd_op.full", "pd_op.full_int_array"})
_XSHAPE: Final = frozenset({"reshape2", "squeeze2", "unsqueeze2", "transpose2", "flatten_contiguous_range", "flatten2"})
# Names for people, places, a hint, and the order of equal elements, which is always kept here.
_IGNORED: Final = frozenset({"struct_name", "op_callstack", "place", "output_size", "stable"})
# In-place operations that write to a variable which others go on reading: name -> the operand written to.
_WRITES: Final = {"pd_op.increment_": 0, "pd_op.assign_out_": 1, "pd_op.array_write_": 0, "pd_op.assign_value_": 0}


@dataclass(slots=True)
class Translated:
    """A translated program, and about each stored variable whether it is trained and wants a gradient."""

    program: ProgramDesc
    info: dict[str, dict[str, Any]] = field(default_factory=dict)


def bare_name(name: str) -> str:
    """An operation's name in the table: without dialect and in-place mark."""
    return name.partition(".")[2].rstrip("_")


def translate_module(module: PirModule, source: str = "program") -> Translated:
    """Our program for a program of Paddle 3.

    Raises:
        UnsupportedOpError: operations without counterpart; lists all of them.
        ProgramError: an operation is used in a way that its counterpart cannot express.
    """
    from .special import HANDLERS

    missing: dict[str, int] = {}
    for block in walk_blocks(module.block):
        for op in block.ops:
            if op.name not in HANDLERS and (
                not op.name.startswith(_PD_OP) or correspondence(bare_name(op.name)) is None
            ):
                missing[op.name] = missing.get(op.name, 0) + 1
    if missing:
        raise UnsupportedOpError(missing, source)
    return Translator(module, source).run()


class Translator:
    """One translation. The methods without underscore are what :mod:`.special` and :mod:`.control` work with."""

    def __init__(self, module: PirModule, source: str) -> None:
        self.module = module
        self.source = source
        self.program = ProgramDesc([BlockDesc(0, -1)], VERSION, {})
        self.block = self.program.global_block
        self.info: dict[str, dict[str, Any]] = {}
        self.names: dict[int, str] = {}
        self.lists: dict[int, list[str]] = {}
        self.members: dict[int, list[int]] = {}
        self.constants: dict[int, PirOp] = {}
        self.types: dict[int, PirType] = {}
        self.feeds: list[str] = []
        self.fetches: list[tuple[int, str]] = []
        self.shadows: list[str] = []
        self._taken: set[str] = set()
        self._removable: list[tuple[BlockDesc, OpDesc]] = []
        self._wanted_names = _result_names(module.block)
        self._mutated = _mutated(module.block)
        self._used = _used(module.block)
        self._place = ""

    def run(self) -> Translated:
        self.translate_block(self.module.block)
        self._drop_unread()
        self._add_feed_fetch()
        types = {op.type for block in self.program.blocks for op in block.ops}
        versions = {type: version for type in sorted(types) if (version := old_operator(type).version)}
        self.program.op_versions = versions
        return Translated(self.program, self.info)

    def translate_block(self, block: PirBlock) -> None:
        """Translate the operations of a block into the current block."""
        from .special import HANDLERS

        for index, op in enumerate(block.ops):
            for result in op.results:
                self.types[result.id] = result.type
            handler = HANDLERS.get(op.name)
            try:
                if handler is not None:
                    handler(self, op)
                else:
                    self.by_table(op)
            except ProgramError as error:
                if self._place:
                    raise
                self._place = f"{self.source}: {block.name} operation {index} ({op.name})"
                raise type(error)(f"{self._place}: {error}") from error

    # names and variables

    def declare(self, name: str, made: PirType, block: BlockDesc | None = None) -> str:
        """A variable of a block (the current one when None), under ``name``."""
        if name in self._taken:
            raise ProgramError(f"two values have the name '{name}'")
        self._taken.add(name)
        (block or self.block).vars[name] = describe(name, made)
        return name

    def reserve(self, stem: str) -> str:
        """A name that no variable has, for a variable that is declared elsewhere."""
        count = 0
        while (name := f"{stem}.tmp_{count}") in self._taken:
            count += 1
        self._taken.add(name)
        return name

    def fresh(self, stem: str, made: PirType, block: BlockDesc | None = None) -> str:
        """A variable under a name of its own."""
        name = self.reserve(stem)
        (block or self.block).vars[name] = describe(name, made)
        return name

    def name_result(self, op: PirOp, index: int, stem: str) -> str:
        """The variable of a result, made now."""
        value = op.results[index]
        wanted = self._wanted_names.get(value.id)
        if wanted is not None and wanted not in self._taken:
            name = self.declare(wanted, value.type)
        else:
            name = self.fresh(f"{stem}_{value.id}", value.type)
        self.names[value.id] = name
        return name

    def alias(self, op: PirOp, index: int, name: str) -> None:
        """Say that a result is a variable that exists."""
        self.names[op.results[index].id] = name

    def name_of(self, value: int) -> str:
        """The variable of an operand."""
        name = self.names.get(value)
        if name is None:
            raise ProgramError(f"the operand %{value} is a list of values where one is expected")
        return name

    def names_of(self, value: int) -> list[str]:
        """The variables of an operand that may be a list or absent."""
        if value == ABSENT:
            return []
        return self.lists[value] if value in self.lists else [self.name_of(value)]

    def is_used(self, value: int) -> bool:
        """Whether any operation reads a value."""
        return value in self._used

    # operators

    def append(self, type: str, inputs: dict[str, list[str]], outputs: dict[str, list[str]], **attrs: Any) -> OpDesc:
        """Add an operator to the current block; attributes get the types that Paddle 2.6 declares."""
        op = OpDesc(type, {slot: n for slot, n in inputs.items() if n}, {slot: n for slot, n in outputs.items() if n})
        known = old_operator(type).attrs
        for name, value in attrs.items():
            op.set_attr(name, value, known.get(name))
        self.block.ops.append(op)
        return op

    def add_removable(self, made: OpDesc) -> None:
        """Register an operator that was added just now and is dropped when nobody reads its outputs."""
        self._removable.append((self.block, made))

    def add_constant(self, op: PirOp, made: OpDesc) -> None:
        """Register a constant that was added just now: folded where it can be, dropped when nobody reads it."""
        if op.results[0].id not in self._mutated:
            self.add_removable(made)
            self.constants[op.results[0].id] = op

    def constant_value(self, value: int) -> Any:
        """The value of a constant operand: a number or a list of ints; None where it is computed at run time."""
        made = self.constants.get(value)
        if made is not None:
            return made.attr("value")
        members = self.members.get(value)
        if members is None:
            return None
        found = [self.constant_value(each) for each in members]
        if any(each is None for each in found):
            return None
        return [number for each in found for number in (each if isinstance(each, list) else [each])]

    def by_table(self, op: PirOp) -> OpDesc:
        """Translate an operation as the table says."""
        entry = correspondence(bare_name(op.name))
        if entry is None:
            raise ProgramError("the operation has no counterpart")
        made = OpDesc(entry.type)
        types = old_operator(entry.type).attrs
        for (name, source), value in zip(entry.operands, op.operands, strict=False):
            self._operand(made, name, source, value, types)
        if len(op.operands) > len(entry.operands):
            raise ProgramError(f"it has {len(op.operands)} operands, expected {len(entry.operands)}")
        self._attrs(made, op, entry, types)
        self._results(made, op, entry)
        self.block.ops.append(made)
        return made

    def _operand(
        self, made: OpDesc, name: str, source: str | AttrSource | None, value: int, types: dict[str, AttrType]
    ) -> None:
        if value == ABSENT or source is None:
            return
        if isinstance(source, str):
            made.inputs[source] = list(self.names_of(value))
            return
        constant = self.constant_value(value)
        if constant is not None:
            kind = types.get(source.attr, AttrType.LONGS if isinstance(constant, list) else AttrType.FLOAT)
            made.set_attr(source.attr, _unwrapped(constant, kind), kind)
            return
        names = self.names_of(value)
        many = value in self.lists
        if many and source.tensors is not None:
            made.inputs[source.tensors] = list(names)
        elif not many and source.tensor is not None:
            made.inputs[source.tensor] = names
        elif source.tensors is not None:
            made.inputs[source.tensors] = self._unstacked(value, names[0])
        elif source.by_name:
            made.set_attr(source.attr, list(names) if many else names[0], AttrType.VARS if many else AttrType.VAR)
        else:
            raise ProgramError(f"the operand {name} is computed at run time; {made.type} needs a constant")
        if many and types.get(source.attr) in _LISTS and source.attr not in made.attrs:
            made.set_attr(source.attr, [-1] * max(self._count(value), 1), types[source.attr])

    def _count(self, value: int) -> int:
        """How many numbers an operand holds, 0 when that is not known."""
        if value in self.lists:
            return len(self.lists[value])
        dims: tuple[int, ...] = getattr(self.types.get(value), "dims", ())
        return dims[0] if len(dims) == 1 and dims[0] > 0 else 0

    def _unstacked(self, value: int, name: str) -> list[str]:
        """The elements of a 1-d tensor, for a slot that wants one tensor an element."""
        count = self._count(value)
        if not count:
            raise ProgramError("the number of elements of an operand is not known before it runs")
        made = self.types[value]
        parts = [self.fresh(f"{name}_part", made) for _ in range(count)]
        for part in parts:
            self.block.vars[part].shape = (1,)
        self.append("split", {"X": [name]}, {"Out": parts}, num=count, axis=0, sections=[])
        return parts

    def _attrs(self, made: OpDesc, op: PirOp, entry: Correspondence, types: dict[str, AttrType]) -> None:
        for name, attr in op.attrs.items():
            if name in _IGNORED:
                continue
            known = entry.attrs.get(name, PirAttribute(name if name in types else None, attr.kind))
            if known.legacy is not None:
                kind = types.get(known.legacy)
                made.set_attr(known.legacy, *self._typed(attr, kind))
            elif known.default is not None and attr.plain() != known.default:
                self._newer_attr(made, name, attr)

    def _typed(self, attr: PirAttr, kind: AttrType | None) -> tuple[Any, AttrType]:
        wanted = attr_type_of(attr) if kind is None else kind
        return old_value(attr, wanted), wanted

    def _newer_attr(self, made: OpDesc, name: str, attr: PirAttr) -> None:
        """An attribute that Paddle 2.6 does not have, off its default: our operator must know it."""
        declared = find(made.type)
        if declared is None or name not in declared.attrs:
            raise ProgramError(f"attribute {name}={attr.plain()!r} is not supported, {made.type} does not have it")
        made.set_attr(name, *self._typed(attr, None))

    def _results(self, made: OpDesc, op: PirOp, entry: Correspondence) -> None:
        for index, value in enumerate(op.results):
            if value.type is None:
                continue
            slot = entry.results[index][1] if index < len(entry.results) else f"Out{index}"
            made.outputs[slot] = self.name_results(op, index, entry.type)
        if made.type in _XSHAPE and "Out" in made.outputs:
            made.outputs["XShape"] = [self.xshape(made)]

    def name_results(self, op: PirOp, index: int, stem: str) -> list[str]:
        """The variables of a result that may be a vector."""
        value = op.results[index]
        items = getattr(value.type, "items", None)
        if items is None:
            return [self.name_result(op, index, stem)]
        names = [self.fresh(f"{stem}_{value.id}", item) for item in items]
        self.lists[value.id] = names
        return names

    def xshape(self, made: OpDesc) -> str:
        """The output that carries the shape of X to the gradient; Paddle 2.6 refuses to train without it."""
        source = self.program.find_var(made.inputs["X"][0], self.block)
        name = f"{made.outputs['Out'][0]}.xshape"
        self._taken.add(name)
        dims = () if source is None or source.shape is None else source.shape
        dtype = None if source is None else source.dtype
        self.block.vars[name] = VarDesc(name, dtype=dtype, shape=(0, *dims), lod_level=0, persistable=False)
        return name

    # the ends

    def _drop_unread(self) -> None:
        """Remove constants that were folded everywhere."""
        read = {name for _, name in self.fetches} | set(self.shadows)
        for block in self.program.blocks:
            for op in block.ops:
                read.update(op.input_names())
                for attr, kind in op.attr_types.items():
                    if kind == AttrType.VAR:
                        read.add(op.attrs[attr])
                    elif kind == AttrType.VARS:
                        read.update(op.attrs[attr])
        dead = {id(op) for block, op in self._removable if not read & set(op.output_names())}
        for block in self.program.blocks:
            for op in block.ops:
                if id(op) in dead:
                    for name in op.output_names():
                        block.vars.pop(name, None)
            block.ops = [op for op in block.ops if id(op) not in dead]

    def _add_feed_fetch(self) -> None:
        block = self.program.global_block
        outputs = [name for _, name in sorted(self.fetches)] or self.shadows
        feeds = []
        for column in range(len(self.feeds) - 1, -1, -1):
            op = OpDesc("feed", {"X": ["feed"]}, {"Out": [self.feeds[column]]})
            op.set_attr("col", column, AttrType.INT)
            feeds.append(op)
        block.ops[:0] = feeds
        for column, name in enumerate(outputs):
            op = OpDesc("fetch", {"X": [name]}, {"Out": ["fetch"]})
            op.set_attr("col", column, AttrType.INT)
            block.ops.append(op)
        for holder, kind in (("feed", VarKind.FEED_MINIBATCH), ("fetch", VarKind.FETCH_LIST)):
            if holder in self._taken:
                raise ProgramError(f"{self.source}: a value has the name '{holder}', which is reserved")
            block.vars[holder] = VarDesc(holder, kind, persistable=True)


_LISTS: Final = frozenset({AttrType.INTS, AttrType.LONGS, AttrType.FLOATS, AttrType.FLOAT64S})


def _unwrapped(constant: Any, kind: AttrType) -> Any:
    """A folded constant as its attribute type wants it."""
    if isinstance(constant, list) and kind not in _LISTS:
        if len(constant) != 1:
            raise ProgramError(f"{len(constant)} numbers are given where one is expected")
        constant = constant[0]
    return coerced(constant, kind)


def _result_names(block: PirBlock) -> dict[int, str]:
    """The names that the file gives to outputs: by ``fetch`` and ``shadow_output``."""
    made = {value.id for op in block.ops if op.name not in (PARAMETER, "pd_op.data") for value in op.results}
    found: dict[int, str] = {}
    for op in block.ops:
        key = {"pd_op.fetch": "name", "builtin.shadow_output": "output_name"}.get(op.name)
        if key is not None and op.operands and op.operands[0] in made and op.attr(key):
            found.setdefault(op.operands[0], op.attr(key))
    return found


def _mutated(block: PirBlock) -> frozenset[int]:
    """The values that in-place operations write to and that therefore are no constants."""
    found = set()
    for each in walk_blocks(block):
        for op in each.ops:
            index = _WRITES.get(op.name)
            if index is not None and index < len(op.operands):
                found.add(op.operands[index])
    return frozenset(found)


def _used(block: PirBlock) -> frozenset[int]:
    return frozenset(value for each in walk_blocks(block) for op in each.ops for value in op.operands)
