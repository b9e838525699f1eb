"""The text of a Paddle 3 program: what is read, what comes back, what is refused and where."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from oarlock.errors import FormatError
from oarlock.proto import pir_json
from oarlock.proto.pir_desc import PirArrayType, PirAttr, PirScalarType, PirTensorType, PirVectorType
from oarlock.proto.pir_json import decode_pir
from oarlock.proto.pir_write import encode_pir

SAMPLES = sorted((Path(__file__).parent.parent / "data" / "pir").glob("*/model.json"))
FLOAT = {"#": "0.t_dtensor", "D": [{"#": "0.t_f32"}, [-1, 4], "NCHW", [], 0]}


def attr(name: str, kind: str, data: Any) -> dict[str, Any]:
    return {"AT": {"#": kind, "D": data}, "N": name}


def data_op(value: int) -> dict[str, Any]:
    return {"#": "1.data", "A": [attr("name", "0.a_str", "x")], "I": [], "O": [{"%": value, "TT": FLOAT}], "OA": []}


def relu(source: int, target: int) -> dict[str, Any]:
    return {"#": "1.relu", "A": [], "I": [{"%": source}], "O": [{"%": target, "TT": FLOAT}], "OA": []}


def program(*ops: dict[str, Any]) -> dict[str, Any]:
    block = {"#": "block_0", "args": [], "ops": list(ops)}
    return {
        "base_code": {"magic": "pir", "trainable": True, "version": 4},
        "program": {"regions": [{"#": "region_0", "blocks": [block]}]},
    }


def text(tree: Any) -> bytes:
    return json.dumps(tree, ensure_ascii=False, separators=(",", ":")).encode()


def refused(tree: Any) -> str:
    with pytest.raises(FormatError) as caught:
        decode_pir(tree if isinstance(tree, bytes) else text(tree), "model.json")
    assert str(caught.value).startswith("model.json")
    return str(caught.value)


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.parent.name)
def test_what_paddle_wrote_comes_back_byte_for_byte(path: Path) -> None:
    data = path.read_bytes()
    assert encode_pir(decode_pir(data, "model.json")) == data


def test_a_program_is_its_operations_in_order() -> None:
    module = decode_pir(text(program(data_op(1), relu(1, 2))), "model.json")
    assert (module.version, module.trainable) == (4, True)
    assert [op.name for op in module.block.ops] == ["pd_op.data", "pd_op.relu"]
    assert module.block.ops[1].operands == [1]
    assert module.block.ops[1].results[0].type == PirTensorType("0.t_dtensor", "0.t_f32", (-1, 4))
    assert module.block.ops[0].attr("name") == "x"


def test_a_parameter_has_its_flags() -> None:
    made = {"#": "p", "A": [0, 1, 1, "w"], "DA": [], "O": {"%": 1, "TT": FLOAT}, "OA": [1, 1, 0], "QA": []}
    op = decode_pir(text(program(made)), "model.json").block.ops[0]
    assert (op.name, op.attr("parameter_name")) == ("builtin.parameter", "w")
    flags = {name: flag.value for name, flag in op.result_attrs.items()}
    assert flags == {"persistable": True, "stop_gradient": True, "trainable": False}


@pytest.mark.parametrize(
    ("kind", "data", "value"),
    [
        ("0.a_bool", True, True),
        ("0.a_i32", -7, -7),
        ("0.a_i64", 2**40, 2**40),
        ("0.a_index", 3, 3),
        ("0.a_f32", 0.30000001192092896, 0.30000001192092896),
        ("0.a_f64", 2, 2.0),
        ("0.a_str", 'é"\n\u0001', 'é"\n\u0001'),
        ("0.a_tensorname", "w", "w"),
        ("0.a_c64", [1.0, -2.0], 1 - 2j),
        ("0.a_type", {"#": "0.t_bf16"}, PirScalarType("0.t_bf16")),
        ("1.a_intarray", [1, -1], [1, -1]),
        ("1.a_dtype", "float32", "float32"),
        ("1.a_layout", "NCHW", "NCHW"),
        ("1.a_place", [1, 0, ""], [1, 0, ""]),
        ("1.a_scalar", ["float64", 1.5], ("float64", 1.5)),
        ("1.a_scalar", ["complex64", 1.5, 2.0], ("complex64", 1.5 + 2j)),
        ("0.a_array", [], []),
        ("0.a_array", [{"#": "0.a_f64", "D": 1.0}, {"#": "0.a_f64", "D": 2.5}], [1.0, 2.5]),
        ("0.a_array", [{"#": "0.a_array", "D": [{"#": "0.a_i32", "D": 1}]}, {"#": "0.a_array", "D": []}], [[1], []]),
    ],
)
def test_every_kind_of_attribute_is_read_and_written(kind: str, data: Any, value: Any) -> None:
    op = data_op(1)
    op["A"] = [attr("a", kind, data)]
    module = decode_pir(text(program(op)), "model.json")
    assert module.block.ops[0].attr("a") == value
    again = decode_pir(encode_pir(module), "model.json")
    assert again.block.ops[0].attrs == module.block.ops[0].attrs


@pytest.mark.parametrize(("word", "value"), [("INF", math.inf), ("-INF", -math.inf)])
def test_an_infinite_number_is_a_word(word: str, value: float) -> None:
    op = data_op(1)
    op["A"] = [{"AT": {"#": "0.a_f64", "VD": word}, "N": "a"}]
    module = decode_pir(text(program(op)), "model.json")
    assert module.block.ops[0].attrs["a"] == PirAttr("0.a_f64", value)
    assert f'"VD":"{word}"'.encode() in encode_pir(module)


def test_not_a_number_is_a_word() -> None:
    op = data_op(1)
    op["A"] = [{"AT": {"#": "0.a_f32", "VD": "NaN"}, "N": "a"}]
    module = decode_pir(text(program(op)), "model.json")
    assert math.isnan(module.block.ops[0].attr("a"))
    assert b'"VD":"NaN"' in encode_pir(module)


def test_types_of_values() -> None:
    array = {"#": "1.t_dense_tensor_array", "D": [{"#": "0.t_i64"}, [-1], "NCHW"]}
    op = relu(1, 2)
    op["O"] = [
        {"%": 2, "TT": array},
        {"%": 3, "TT": {"#": "0.t_vec", "D": [FLOAT, {"#": "NULL"}]}},
        {"%": 4, "TT": {"#": "NULL"}},
    ]
    found = [value.type for value in decode_pir(text(program(data_op(1), op)), "model.json").block.ops[1].results]
    tensor = PirTensorType("0.t_dtensor", "0.t_f32", (-1, 4))
    assert found == [PirArrayType("0.t_i64", (-1,)), PirVectorType((tensor, None)), None]


def loop(yielded: list[int]) -> dict[str, Any]:
    body = {
        "#": "block_0",
        "args": [{"#": -1, "TT": FLOAT}],
        "ops": [relu(-1, 5), {"#": "2.yield", "A": [], "I": [{"%": v} for v in yielded], "O": [], "OA": []}],
    }
    region = {"#": "region_1", "blocks": [body]}
    inputs, results = [{"%": 1}, {"%": 2}], [{"%": 3, "TT": FLOAT}]
    return {"#": "1.while", "A": [], "I": inputs, "O": results, "OA": [], "regions": [region]}


def test_a_region_sees_the_values_around_it() -> None:
    module = decode_pir(text(program(data_op(1), relu(1, 2), loop([2, 5]))), "model.json")
    body = module.block.ops[2].regions[0].blocks[0]
    assert [value.id for value in body.args] == [-1]
    assert body.ops[-1].operands == [2, 5]


def test_the_result_of_a_loop_is_not_seen_inside() -> None:
    assert "%3 is made by no operation before" in refused(program(data_op(1), relu(1, 2), loop([3, 5])))


def test_a_value_of_a_region_is_not_seen_outside() -> None:
    message = refused(program(data_op(1), relu(1, 2), loop([2, 5]), relu(5, 6)))
    assert "ops[3] (1.relu).I[0]" in message
    assert "made later or in another block" in message


CASES: dict[str, tuple[Callable[[], Any], str]] = {
    "an operand made later": (lambda: program(relu(2, 1), data_op(2)), "ops[0] (1.relu).I[0]: the value %2"),
    "a value made twice": (lambda: program(data_op(1), relu(1, 1)), "ops[1] (1.relu).O[0]: the value %1 is made twice"),
    "an unknown attribute": (
        lambda: program({**data_op(1), "A": [attr("a", "0.a_quaternion", 1)]}),
        "A[0].AT: the attribute kind '0.a_quaternion' is not known",
    ),
    "an unknown type": (
        lambda: program({**data_op(1), "O": [{"%": 1, "TT": {"#": "0.t_f99"}}]}),
        "O[0].TT: the type '0.t_f99' is not known",
    ),
    "an unknown dialect": (lambda: program({**data_op(1), "#": "9.op"}), "'9.op' is of no dialect that is known"),
    "text for a number": (
        lambda: program({**data_op(1), "A": [attr("a", "0.a_i32", "1")]}),
        "A[0].AT.D: expected an integer, found '1'",
    ),
    "an attribute given twice": (
        lambda: program({**data_op(1), "A": [attr("a", "0.a_i32", 1)] * 2}),
        "the attribute 'a' is given twice",
    ),
    "an object for a list": (lambda: program({**data_op(1), "I": {}}), "expected a list, found an object"),
    "a missing field": (lambda: program({"#": "1.relu", "A": [], "I": []}), "the field 'O' is missing"),
    "a large integer": (
        lambda: program({**data_op(1), "A": [attr("a", "0.a_i64", 2**70)]}),
        "does not fit 64 bits",
    ),
    "two regions": (
        lambda: {**program(), "program": {"regions": program()["program"]["regions"] * 2}},
        "there are 2 regions",
    ),
    "other magic": (lambda: {**program(), "base_code": {"magic": "onnx", "version": 4}}, "magic is 'onnx'"),
    "no object": (lambda: [1], "expected an object, found a list"),
    "no base_code": (lambda: {"program": {}}, "the field 'base_code' is missing"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_wrong_program_is_refused_with_the_place(case: str) -> None:
    build, expected = CASES[case]
    assert expected in refused(build())


def test_cut_text_is_refused_with_line_and_column() -> None:
    data = text(program(data_op(1), relu(1, 2)))
    for length in range(1, len(data), 37):
        assert "line 1 column" in refused(data[:length])


def test_an_empty_file_is_refused() -> None:
    assert "is empty" in refused(b" \n")


def test_bytes_that_are_no_text_are_refused() -> None:
    assert "is not UTF-8 text: byte 3 is 0xff" in refused(b'{"a\xff"}')


def test_deep_nesting_is_refused_and_not_followed() -> None:
    assert "nested too deep" in refused(b'{"base_code":' + b"[" * 200_000)
    inner: Any = {"#": "0.a_i32", "D": 1}
    for _ in range(20):
        inner = {"#": "0.a_array", "D": [inner]}
    assert "arrays are nested more than 16 deep" in refused(program({**data_op(1), "A": [{"AT": inner, "N": "a"}]}))


def test_numbers_that_no_field_holds_are_refused() -> None:
    data = text(program({**data_op(1), "A": [attr("a", "0.a_f64", 12345.0)]}))
    assert "does not fit a double" in refused(data.replace(b"12345.0", b"1e999"))
    assert "has 5000 digits" in refused(data.replace(b"12345.0", b"1" * 5000))
    assert "NaN is not JSON" in refused(data.replace(b"12345.0", b"NaN"))


def test_an_oversized_text_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pir_json, "MAX_BYTES", 100)
    assert "a program has at most 100" in refused(program(data_op(1)))
