"""Programs to descriptions and back: the same bytes, the right values, and a sentence for every damage."""

from __future__ import annotations

import math
import struct
from pathlib import Path

import pytest
from oarlock.errors import FormatError, ProgramError
from oarlock.ir import AttrType, BlockDesc, OpDesc, ProgramDesc, VarDesc, VarKind
from oarlock.ir.dtypes import DType
from oarlock.ir.program_io import describe_parameters, read_program, write_program
from oarlock.proto.wire import field_bytes, varint_field

SAMPLES = Path(__file__).resolve().parent.parent / "data" / "proto" / "models"
PROGRAMS = sorted(path for path in SAMPLES.rglob("*") if path.suffix == ".pdmodel" or path.name == "__model__")


def text(number: int, value: str | bytes) -> bytes:
    return field_bytes(number, value.encode() if isinstance(value, str) else value)


def attr(name: str, kind: int, value: bytes = b"") -> bytes:
    return field_bytes(4, text(1, name) + varint_field(2, kind) + value)


def op(*parts: bytes, op_type: str = "relu") -> bytes:
    """A block's field with one encoded op; parts numbered below 3 go before the type, as files have them."""
    before = b"".join(part for part in parts if part[0] >> 3 < 3)
    after = b"".join(part for part in parts if part[0] >> 3 > 3)
    return field_bytes(4, before + text(3, op_type) + after)


def slot(number: int, name: str, *arguments: str) -> bytes:
    return field_bytes(number, text(1, name) + b"".join(text(2, argument) for argument in arguments))


def block(*parts: bytes, idx: int = 0, parent: int = -1) -> bytes:
    return field_bytes(1, varint_field(1, idx) + varint_field(2, parent) + b"".join(parts))


def only_op(data: bytes) -> OpDesc:
    return read_program(data, "test").blocks[0].ops[0]


def test_the_samples_are_there() -> None:
    assert len(PROGRAMS) == 10


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_a_program_of_paddle_comes_back_byte_for_byte(path: Path) -> None:
    data = path.read_bytes()
    assert write_program(read_program(data, path.name)) == data


def test_what_a_program_says(models: Path) -> None:
    program = read_program((models / "params_bfloat16" / "model.pdmodel").read_bytes(), "model")
    assert program.version == 2006002
    assert program.op_version("leaky_relu") == 1
    feed = program.global_block.ops[0]
    assert (feed.type, feed.inputs, feed.attrs["col"]) == ("feed", {"X": ["feed"]}, 0)
    assert program.global_block.vars["feed"].kind is VarKind.FEED_MINIBATCH
    weights = describe_parameters(program)
    assert weights["linear_0.w_0"].endswith("bfloat16")


def test_control_flow_names_its_blocks(models: Path) -> None:
    program = read_program((models / "cf_nested" / "model.pdmodel").read_bytes(), "model")
    assert len(program.blocks) > 2
    assert [one.idx for one in program.blocks] == list(range(len(program.blocks)))
    named = {index for one in program.blocks for each in one.ops for index in each.sub_blocks()}
    assert named == set(range(1, len(program.blocks)))


VALUES = [
    (AttrType.INT, varint_field(3, -7), -7),
    (AttrType.FLOAT, b"\x25" + struct.pack("<f", 0.1), struct.unpack("<f", struct.pack("<f", 0.1))[0]),
    (AttrType.STRING, text(5, "naïve"), "naïve"),
    (AttrType.INTS, varint_field(6, 3) + varint_field(6, -1), [3, -1]),
    (AttrType.FLOATS, b"\x3d" + struct.pack("<f", math.inf), [math.inf]),
    (AttrType.STRINGS, text(8, "a") + text(8, ""), ["a", ""]),
    (AttrType.BOOLEAN, varint_field(10, 1), True),
    (AttrType.BOOLEANS, varint_field(11, 0) + varint_field(11, 1), [False, True]),
    (AttrType.BLOCK, varint_field(12, 0), 0),
    (AttrType.LONG, varint_field(13, -(2**62)), -(2**62)),
    (AttrType.BLOCKS, varint_field(14, 0), [0]),
    (AttrType.LONGS, varint_field(15, 2**40), [2**40]),
    (AttrType.FLOAT64S, b"\x81\x01" + struct.pack("<d", 0.1), [0.1]),
    (AttrType.VAR, text(17, "x"), "x"),
    (AttrType.VARS, text(18, "x") + text(18, "y"), ["x", "y"]),
    (AttrType.FLOAT64, b"\x99\x01" + struct.pack("<d", -0.0), -0.0),
    (AttrType.SCALAR, field_bytes(20, varint_field(1, 1) + varint_field(2, 1)), True),
    (AttrType.SCALAR, field_bytes(20, varint_field(1, 2) + varint_field(3, 5)), 5),
    (AttrType.SCALARS, field_bytes(21, varint_field(1, 3) + b"\x21" + struct.pack("<d", 2.5)), [2.5]),
    (AttrType.INTS, b"", []),
]


@pytest.mark.parametrize(("kind", "encoded", "value"), VALUES, ids=lambda value: str(value)[:20])
def test_an_attribute_of_every_type_has_a_plain_value(kind: AttrType, encoded: bytes, value: object) -> None:
    data = block(op(attr("a", kind, encoded)))
    read = only_op(data)
    assert read.attrs == {"a": value}
    assert type(read.attrs["a"]) is type(value)
    assert read.attr_types == {"a": kind}
    assert write_program(read_program(data, "test")) == data
    assert not read.original


def test_a_complex_scalar_is_a_complex() -> None:
    complex_part = field_bytes(5, b"\x09" + struct.pack("<d", 1.0) + b"\x11" + struct.pack("<d", -2.0))
    data = block(op(attr("a", 16, field_bytes(20, varint_field(1, 4) + complex_part))))
    assert only_op(data).attrs == {"a": 1 - 2j}
    assert write_program(read_program(data, "test")) == data


ODDITIES = {
    "an attribute twice": op(attr("a", 0, varint_field(3, 1)), attr("a", 0, varint_field(3, 2))),
    "a slot twice": op(slot(1, "X", "a"), slot(1, "X", "b")),
    "a value left out": op(attr("a", 0)),
    "a value of another type beside": op(attr("a", 0, varint_field(3, 1) + varint_field(13, 2))),
    "a packed list": op(attr("a", 3, field_bytes(6, b"\x01\x02\x03"))),
    "an unknown field in an attribute": op(attr("a", 0, varint_field(3, 1) + varint_field(99, 1))),
    "an unknown field in a slot": op(field_bytes(1, text(1, "X") + text(2, "x") + varint_field(77, 5))),
    "an unknown field in the op": op(slot(1, "X", "x"), varint_field(60, 1)),
    "fields in another order": field_bytes(4, attr("a", 0, varint_field(3, 1)) + text(3, "relu")),
    "a signalling NaN": op(attr("a", 1, b"\x25\x01\x00\xa0\x7f")),
    "a name that is not UTF-8": op(slot(1, "X", "x"), attr("a", 2, text(5, b"\xff\xfe"))),
}


@pytest.mark.parametrize("name", ODDITIES)
def test_an_op_written_in_an_odd_way_comes_back_as_it_was(name: str) -> None:
    data = block(ODDITIES[name])
    assert write_program(read_program(data, "test")) == data


def test_an_odd_op_that_was_edited_is_written_as_edited() -> None:
    program = read_program(block(ODDITIES["an attribute twice"]), "test")
    edited = program.blocks[0].ops[0]
    assert edited.attrs == {"a": 2} and edited.original
    edited.set_attr("a", 3, AttrType.INT)
    assert write_program(program) == block(op(attr("a", 0, varint_field(3, 3))))


def test_unknown_fields_keep_their_place() -> None:
    body = varint_field(1, 0) + varint_field(2, -1) + varint_field(9, 4)
    data = field_bytes(1, body) + field_bytes(3, b"old map") + field_bytes(4, varint_field(1, 0)) + b"\x78\x01"
    program = read_program(data, "test")
    assert program.unknown == field_bytes(3, b"old map") + b"\x78\x01"
    assert program.blocks[0].unknown == varint_field(9, 4)
    assert write_program(program) == data


def test_absent_is_not_default() -> None:
    tensor = field_bytes(1, varint_field(1, 5) + varint_field(2, -1))
    kind = field_bytes(2, varint_field(1, 7) + field_bytes(3, tensor))
    plain = block(field_bytes(3, text(1, "x") + kind))
    explicit = block(field_bytes(3, text(1, "x") + kind + varint_field(3, 0)))
    assert read_program(plain, "test").blocks[0].vars["x"].persistable is None
    assert read_program(explicit, "test").blocks[0].vars["x"].persistable is False
    assert write_program(read_program(plain, "test")) == plain
    assert write_program(read_program(explicit, "test")) == explicit
    var = read_program(plain, "test").blocks[0].vars["x"]
    assert (var.kind, var.dtype, var.shape, var.lod_level) == (VarKind.LOD_TENSOR, DType.FP32, (-1,), None)


@pytest.mark.parametrize(
    "kind",
    [
        varint_field(1, 15) + field_bytes(5, field_bytes(1, field_bytes(1, varint_field(1, 5)))),
        varint_field(1, 18) + field_bytes(7, varint_field(1, 5) + varint_field(1, 3)),
        varint_field(1, 99),
        varint_field(1, 8) + field_bytes(2, varint_field(1, 5) + varint_field(2, 3)),
    ],
    ids=["reader", "tuple", "unknown kind", "selected rows"],
)
def test_variables_of_every_kind_come_back_as_they_were(kind: bytes) -> None:
    data = block(field_bytes(3, text(1, "v") + field_bytes(2, kind)))
    assert write_program(read_program(data, "test")) == data


def test_attributes_of_variables_come_back() -> None:
    held = field_bytes(7, text(1, "a") + varint_field(2, 2) + text(4, "value"))
    data = block(field_bytes(3, text(1, "v") + field_bytes(2, varint_field(1, 17)) + held))
    assert read_program(data, "test").blocks[0].vars["v"].attrs == {"a": "value"}
    assert write_program(read_program(data, "test")) == data


def test_new_attributes_get_the_type_of_their_value() -> None:
    made = OpDesc("op")
    for name, value in {"i": 1, "l": 2**40, "f": 0.5, "s": "x", "b": True, "is": [1], "ls": [2**40]}.items():
        made.set_attr(name, value)
    program = ProgramDesc([BlockDesc(0, ops=[made])])
    read = read_program(write_program(program), "test").blocks[0].ops[0]
    assert read.attrs == made.attrs
    assert list(read.attr_types.values()) == [0, 9, 1, 2, 6, 3, 11]


@pytest.mark.parametrize(
    ("value", "kind", "said"),
    [
        (2**40, AttrType.INT, "block 0, op 0 (op): cannot be saved: attribute 'a' of type INT"),
        ("x", AttrType.FLOATS, "attribute 'a' of type FLOATS"),
        ({1: 2}, None, "attribute 'a': no attribute type holds a dict"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_on_saving(value: object, kind: AttrType | None, said: str) -> None:
    made = OpDesc("op")
    made.set_attr("a", value, kind)
    with pytest.raises(ProgramError, match=said.replace("(", r"\(").replace(")", r"\)")):
        write_program(ProgramDesc([BlockDesc(0, ops=[made])]))


def test_a_program_made_in_memory_is_read_back_equal() -> None:
    var = VarDesc("x", dtype=DType.FP32, shape=(2, -1), lod_level=0, persistable=True)
    made = OpDesc("scale", {"X": ["x"]}, {"Out": ["x"]}, {"scale": 2.0}, {"scale": AttrType.FLOAT})
    program = ProgramDesc([BlockDesc(0, -1, {"x": var}, [made])], 2006002, {"scale": 0})
    read = read_program(write_program(program), "test")
    assert (read.blocks, read.version, read.op_versions) == (program.blocks, 2006002, {"scale": 0})


DAMAGED = {
    "is empty": b"",
    "are no program? begin like JSON": b'{"base_code": {}}',
    "begin like a pickle": b"\x80\x02}q\x00.",
    "begin like a tensor record": b"\0\0\0\0\0\0\0\0\0\0\0\0",
    "hold no block": field_bytes(4, varint_field(1, 0)),
    "block 0 of 1 states index 3": block(idx=3),
    "block 1 of 2 states index 0": block() + block(),
    "block 0 of 1 states parent 0": block(parent=0),
    "block 1 of 2 states parent 7": block() + block(idx=1, parent=7),
    "block 0 of 1 states parent -2": block(parent=-2),
    "states forward block 9": block(varint_field(5, 9)),
    "op 0 (no type): it has no type": block(field_bytes(4, slot(1, "X", "x"))),
    "op 0 (relu): a slot has no name": block(op(field_bytes(1, text(2, "x")))),
    "attribute 'a' has type code 99; known are 0 to 17": block(op(attr("a", 99))),
    "attribute 'a' has type code none": block(op(field_bytes(4, text(1, "a")))),
    "attribute 'a' holds a scalar of type code 9": block(op(attr("a", 16, field_bytes(20, varint_field(1, 9))))),
    "attribute 'sub_block' names block 4; the program has 1": block(op(attr("sub_block", 8, b"\x60\x04"))),
    "an attribute has no name": block(op(field_bytes(4, varint_field(2, 0)))),
    "op 0 (relu): 2 bytes do not decode as Attr": block(op(field_bytes(4, b"\xff\xff"))),
    "declares variable 'v' twice": block(*[field_bytes(3, text(1, "v") + field_bytes(2, varint_field(1, 17)))] * 2),
    "variable 0 has no name": block(field_bytes(3, field_bytes(2, varint_field(1, 17)))),
    "variable 'v': its type states no kind": block(field_bytes(3, text(1, "v"))),
}


@pytest.mark.parametrize("said", DAMAGED)
def test_damage_is_named(said: str) -> None:
    with pytest.raises(FormatError) as caught:
        read_program(DAMAGED[said], "net.pdmodel")
    message = str(caught.value)
    assert message.startswith("net.pdmodel")
    assert said.split("? ")[-1] in message
    assert "\n" not in message


def test_nested_groups_are_bounded() -> None:
    deep = block() + b"\x53" * 100_000
    with pytest.raises(FormatError):
        read_program(deep, "net.pdmodel")
