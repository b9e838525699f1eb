"""``.pdmodel`` and ``__model__``: the bytes of a program to descriptions and back.

The file is one ``ProgramDesc`` message without header or checksum. Decoding keeps what encoding needs to give
the same bytes again: presence of optional fields, order of slots and attributes, unknown fields, and for the
rare description that our own encoding would write otherwise, its bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from types import SimpleNamespace
from typing import Any, Final, NamedTuple, TypeVar

from ..errors import FormatError, ProgramError
from . import wire
from .attrs import BLOCK, BLOCKS, DecodedAttr, decode_attr, encode_attr, infer_kind, kind_name
from .generated import from_text, messages, parse, to_text
from .protocols import BlockLike, DescFactory, OpLike, ProgramLike, VarLike
from .vartypes import DecodedType, decode_type, encode_type

__all__ = ["decode_program", "encode_program"]

ProgramT = TypeVar("ProgramT")
Key = TypeVar("Key")
Value = TypeVar("Value")

_PROGRAM_FIELDS: Final = frozenset({1, 4, 5})
_BLOCK_FIELDS: Final = frozenset({1, 2, 3, 4, 5})
_OP_FIELDS: Final = frozenset({1, 2, 3, 4, 5})
_VAR_FIELDS: Final = frozenset({1, 2, 3, 4, 5, 6, 7})
_VAR_FLAGS: Final = ("persistable", "need_check_feed", "is_parameter", "stop_gradient")
# What an attribute of a variable can be; its fields are numbered otherwise than those of an operator's.
_VAR_ATTR_FIELDS: Final = {0: "i", 2: "s", 3: "ints"}


def decode_program(data: bytes, factory: DescFactory[ProgramT], *, source: str) -> ProgramT:
    """The program in ``data``, built with ``factory``. ``source`` names the bytes in errors.

    Raises:
        FormatError: the bytes are empty, no program, or a program whose blocks or attributes cannot be read.
    """
    if not data:
        raise FormatError(f"{source} is empty (0 bytes): a program has at least one block")
    pb = messages()
    try:
        message = parse(pb.ProgramDesc, data)
    except ValueError as error:
        raise FormatError(f"{source} is not a program: its {len(data)} bytes{_looks_like(data)}") from error
    if not message.blocks:
        raise FormatError(f"{source} is not a program: its {len(data)} bytes hold no block{_looks_like(data)}")
    message.DiscardUnknownFields()
    plain = message.SerializePartialToString() == data
    program: ProgramT = _Decoder(factory, source).program(message, None if plain else data)
    return program


def encode_program(program: ProgramLike) -> bytes:
    """The bytes of a program.

    Raises:
        ProgramError: a value does not fit its field of the format; the message names block, op and attribute.
    """
    parts = [wire.field_bytes(1, _encode_block(block)) for block in program.blocks]
    if program.version is not None:
        parts.append(wire.field_bytes(4, wire.varint_field(1, program.version)))
    if program.op_versions is not None:
        pairs = (
            wire.field_bytes(1, from_text(name)) + wire.field_bytes(2, wire.varint_field(1, version))
            for name, version in program.op_versions.items()
        )
        parts.append(wire.field_bytes(5, b"".join(wire.field_bytes(1, pair) for pair in pairs)))
    return wire.merge(b"".join(parts), program.unknown)


def _looks_like(data: bytes) -> str:
    """What bytes that are no program seem to be, as the end of a sentence."""
    if data[:1] == b"{":
        return " begin like JSON: a .json program of Paddle 3 is loaded under its own name"
    if data[:1] == b"\x80" and data[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05"):
        return " begin like a pickle: parameters, not a program"
    if data[:4] == b"\0\0\0\0":
        return " begin like a tensor record: parameters, not a program"
    return f" begin with {data[:8].hex(' ')}"


class _AttrSet(NamedTuple):
    """All attributes of an op, shared by the ops that have the same: values, types, which values are lists,
    and whether encoding them gives the same bytes."""

    values: dict[str, Any]
    kinds: dict[str, int]
    lists: list[str]
    plain: bool


class _Memo(dict[Key, Value]):
    """A dict that computes what is not there: programs repeat names, attributes and types many times over."""

    __slots__ = ("_compute",)

    def __init__(self, compute: Callable[[Key], Value]) -> None:
        super().__init__()
        self._compute = compute

    def __missing__(self, key: Key) -> Value:
        value = self[key] = self._compute(key)
        return value


class _Names(dict[bytes, str]):
    """Text by its bytes: a name is decoded once, and its uses share one string."""

    __slots__ = ()

    def __missing__(self, raw: bytes) -> str:
        text = self[raw] = raw.decode("utf-8", "surrogateescape")
        return text


class _Decoder:
    """One decoding: the factory, the name for errors, and what was decoded already.

    A ``raw`` argument is the encoded message when the file is not written the way this library would write it
    (unknown fields, other order); None when it is, and then most checks for faithfulness can be left out.
    """

    def __init__(self, factory: DescFactory[Any], source: str) -> None:
        self._factory = factory
        self._source = source
        self._names = _Names()
        self._attrs: _Memo[bytes, DecodedAttr] = _Memo(self._decode_attr)
        self._attr_sets: _Memo[tuple[bytes, ...], _AttrSet] = _Memo(self._decode_attr_set)
        self._types: _Memo[bytes, DecodedType] = _Memo(self._decode_type)
        self._block_count = 0

    def program(self, message: Any, raw: bytes | None) -> Any:
        blocks = message.blocks
        self._block_count = len(blocks)
        raws = _raw_parts(raw, 1, len(blocks))
        decoded = [self._block(block, index, raws[index]) for index, block in enumerate(blocks)]
        versions = None
        if message.HasField("op_version_map"):
            pairs = message.op_version_map.pair
            versions = {self._names[pair.op_name]: pair.op_version.version for pair in pairs}
        return self._factory.program(
            blocks=decoded,
            version=message.version.version if message.HasField("version") else None,
            op_versions=versions,
            unknown=wire.keep_unknown(raw, _PROGRAM_FIELDS) if raw is not None else b"",
        )

    def _block(self, message: Any, index: int, raw: bytes | None) -> Any:
        self._check_block(message, index)
        names, raws = self._names, _raw_parts(raw, 3, len(message.vars))
        variables: dict[str, Any] = {}
        for position, var in enumerate(message.vars):
            name = names[var.name]
            if name in variables or not (name or var.HasField("name")):
                what = f"declares variable {name!r} twice" if name else f"variable {position} has no name"
                raise FormatError(f"{self._source}: block {index}: {what}")
            try:
                variables[name] = self._var(name, var, raws[position])
            except ValueError as error:
                raise FormatError(f"{self._source}: block {index}, variable {name!r}: {error}") from error
        raws = _raw_parts(raw, 4, len(message.ops))
        ops: list[Any] = []
        for position, op in enumerate(message.ops):
            try:
                ops.append(self._op(op, raws[position]))
            except ValueError as error:
                where = f"block {index}, op {position} ({to_text(op.type) or 'no type'})"
                raise FormatError(f"{self._source}: {where}: {error}") from error
        return self._factory.block(
            idx=index,
            parent_idx=message.parent_idx,
            vars=variables,
            ops=ops,
            forward_block_idx=message.forward_block_idx if message.HasField("forward_block_idx") else None,
            unknown=wire.keep_unknown(raw, _BLOCK_FIELDS) if raw is not None else b"",
        )

    def _check_block(self, message: Any, index: int) -> None:
        where = f"{self._source}: block {index} of {self._block_count}"
        if not message.HasField("idx") or message.idx != index:
            found = message.idx if message.HasField("idx") else "none"
            raise FormatError(f"{where} states index {found}; blocks are stored in order of their index")
        if not message.HasField("parent_idx") or not -1 <= message.parent_idx < max(index, 0):
            found = message.parent_idx if message.HasField("parent_idx") else "none"
            raise FormatError(f"{where} states parent {found}; a parent is an earlier block, or -1")
        if not -1 <= message.forward_block_idx < self._block_count and message.HasField("forward_block_idx"):
            found = message.forward_block_idx
            raise FormatError(f"{where} states forward block {found}; there is no such block")

    def _var(self, name: str, message: Any, raw: bytes | None) -> Any:
        kind, dtype, shape, lod_level, extra = self._types[message.type]
        attrs: dict[str, Any] = {}
        kinds: dict[str, int] = {}
        for attr in message.attrs:
            key, value_kind, value = self._var_attr(attr)
            attrs[key], kinds[key] = value, value_kind
        has = message.HasField
        desc = self._factory.var(
            name=name,
            kind=kind,
            dtype=dtype,
            shape=shape,
            lod_level=lod_level,
            persistable=message.persistable if has("persistable") else None,
            need_check_feed=message.need_check_feed if has("need_check_feed") else None,
            is_parameter=message.is_parameter if has("is_parameter") else None,
            stop_gradient=message.stop_gradient if has("stop_gradient") else None,
            attrs=attrs,
            attr_types=kinds,
            type_extra=extra,
            unknown=wire.keep_unknown(raw, _VAR_FIELDS) if raw is not None else b"",
        )
        if raw is not None or attrs:
            written = message.SerializePartialToString() if raw is None else raw
            if _encode_var_plainly(desc) != written:
                desc.original = written
        return desc

    def _var_attr(self, message: Any) -> tuple[str, int, Any]:
        name, code = to_text(message.name), message.type
        field = _VAR_ATTR_FIELDS.get(code)
        if field is None or not message.HasField("name"):
            raise ValueError(f"its attribute {name!r} has type {kind_name(code)}; known are INT, STRING, INTS")
        held = getattr(message, field)
        value = to_text(held) if field == "s" else list(held) if field == "ints" else held
        return name, self._factory.attr_type(code), value

    def _op(self, message: Any, raw: bytes | None) -> Any:
        name_of = self._names.__getitem__
        input_slots, output_slots = message.inputs, message.outputs
        attrs, kinds, lists, plain = self._attr_sets[tuple(message.attrs)]
        attrs, kinds = attrs.copy(), kinds.copy()
        for name in lists:
            attrs[name] = attrs[name].copy()
        inputs = {name_of(slot.parameter): [*map(name_of, slot.arguments)] for slot in input_slots}
        outputs = {name_of(slot.parameter): [*map(name_of, slot.arguments)] for slot in output_slots}
        op_type = name_of(message.type)
        if not op_type or "" in inputs or "" in outputs:
            raise ValueError("a slot has no name" if op_type else "it has no type")
        desc = self._factory.op(
            type=op_type,
            inputs=inputs,
            outputs=outputs,
            attrs=attrs,
            attr_types=kinds,
            is_target=message.is_target if message.HasField("is_target") else None,
            unknown=wire.keep_unknown(raw, _OP_FIELDS) if raw is not None else b"",
        )
        plain = plain and len(input_slots) == len(inputs) and len(output_slots) == len(outputs)
        if not plain or raw is not None:
            written = message.SerializePartialToString() if raw is None else raw
            if _encode_op_plainly(desc) != written:
                desc.original = written
        return desc

    def _decode_attr_set(self, encoded: tuple[bytes, ...]) -> _AttrSet:
        decoded = [self._attrs[raw] for raw in encoded]
        values = {attr.name: attr.value for attr in decoded}
        kinds = {attr.name: attr.kind for attr in decoded}
        lists = [name for name, value in values.items() if isinstance(value, list)]
        plain = len(values) == len(decoded) and all(attr.plain for attr in decoded)
        return _AttrSet(values, kinds, lists, plain)

    def _decode_attr(self, raw: bytes) -> DecodedAttr:
        name, code, value, faithful = decode_attr(raw)
        if code in (BLOCK, BLOCKS):
            for index in value if code == BLOCKS else [value]:
                if not 0 <= index < self._block_count:
                    count = self._block_count
                    raise ValueError(f"attribute {name!r} names block {index}; the program has {count}")
        return DecodedAttr(name, self._factory.attr_type(code), value, faithful)

    def _decode_type(self, raw: bytes) -> DecodedType:
        kind, dtype, shape, lod_level, extra = decode_type(raw)
        with suppress(ValueError):  # a code that is not known yet stays a number
            kind = self._factory.var_kind(kind)
        return DecodedType(kind, dtype, shape, lod_level, extra)


def _raw_parts(raw: bytes | None, number: int, count: int) -> Sequence[bytes | None]:
    """The encoded submessages of one field, or Nones when the bytes of the whole are not needed."""
    if raw is None:
        return [None] * count
    return [raw[field.payload : field.end] for field in wire.split(raw) if field.number == number]


def _encode_block(block: BlockLike) -> bytes:
    parts = [wire.varint_field(1, block.idx), wire.varint_field(2, block.parent_idx)]
    for var in block.vars.values():
        try:
            parts.append(wire.field_bytes(3, _encode_var(var)))
        except (TypeError, ValueError) as error:
            raise ProgramError(f"block {block.idx}, variable {var.name!r}: cannot be saved: {error}") from error
    for index, op in enumerate(block.ops):
        try:
            parts.append(wire.field_bytes(4, _encode_op(op)))
        except (TypeError, ValueError) as error:
            raise ProgramError(f"block {block.idx}, op {index} ({op.type}): cannot be saved: {error}") from error
    if block.forward_block_idx is not None:
        parts.append(wire.varint_field(5, block.forward_block_idx))
    return wire.merge(b"".join(parts), block.unknown)


def _encode_var(var: VarLike) -> bytes:
    plain = _encode_var_plainly(var)
    if var.original and plain == _encode_var_plainly(_redecode(messages().VarDesc, var.original)):
        return var.original
    return plain


def _encode_var_plainly(var: VarLike) -> bytes:
    pb = messages()
    message = pb.VarDesc(name=from_text(var.name), type=_encode_var_type(var))
    for flag in _VAR_FLAGS:
        value = getattr(var, flag)
        if value is not None:
            setattr(message, flag, value)
    for name, value in var.attrs.items():
        kind = var.attr_types.get(name)
        kind = infer_kind(value) if kind is None else kind
        if kind not in _VAR_ATTR_FIELDS:
            raise ValueError(f"attribute {name!r}: a variable has none of type {kind_name(kind)}")
        attr = message.attrs.add(name=from_text(name), type=int(kind))
        field = _VAR_ATTR_FIELDS[kind]
        if field == "ints":
            attr.ints.extend(value)
        else:
            setattr(attr, field, from_text(value) if field == "s" else value)
    return wire.merge(message.SerializePartialToString(), var.unknown)


def _encode_var_type(var: VarLike) -> bytes:
    if var.type_extra:
        kept = decode_type(var.type_extra)
        if kept[:4] == (var.kind, var.dtype, var.shape, var.lod_level):
            return var.type_extra
    return encode_type(var.kind, var.dtype, var.shape, var.lod_level)


def _encode_op(op: OpLike) -> bytes:
    plain = _encode_op_plainly(op)
    if op.original and plain == _encode_op_plainly(_redecode(messages().OpDesc, op.original)):
        return op.original
    return plain


def _encode_op_plainly(op: OpLike) -> bytes:
    message = messages().OpDesc(type=from_text(op.type))
    if op.is_target is not None:
        message.is_target = op.is_target
    for slots, held in ((op.inputs, message.inputs), (op.outputs, message.outputs)):
        for slot, names in slots.items():
            held.add(parameter=from_text(slot), arguments=[from_text(name) for name in names])
    message.attrs.extend(_encoded_attrs(op))
    return wire.merge(message.SerializePartialToString(), op.unknown)


def _encoded_attrs(op: OpLike) -> Iterator[bytes]:
    for name, value in op.attrs.items():
        kind = op.attr_types.get(name)
        try:
            kind = infer_kind(value) if kind is None else kind
            yield encode_attr(name, kind, value)
        except (TypeError, ValueError) as error:
            known = "" if kind is None else f" of type {kind_name(kind)}"
            raise ValueError(f"attribute {name!r}{known}: {error}") from error


class _Loose:
    """A factory of attribute bags: enough to encode a description again."""

    program = block = op = var = SimpleNamespace
    attr_type = var_kind = int


def _redecode(message: Any, original: bytes) -> Any:
    decoder = _Decoder(_Loose(), "original")
    decoder._block_count = 2**31
    parsed = parse(message, original)
    if message is messages().OpDesc:
        return decoder._op(parsed, original)
    return decoder._var(to_text(parsed.name), parsed, original)
