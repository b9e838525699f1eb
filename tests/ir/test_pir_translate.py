"""Programs of Paddle 3 as ours and back: operands, constants, control flow, names, refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import oarlock.executor.kernels  # noqa: F401  (fills the table of operators)
import pytest
from oarlock.errors import ProgramError, UnsupportedOpError
from oarlock.ir.desc import AttrType, OpDesc, ProgramDesc, VarKind
from oarlock.ir.pir import export_program, for_paddle_2, translate_module
from oarlock.ir.verify import verify
from oarlock.proto.pir_desc import PirAttr, PirBlock, PirModule, PirOp, PirTensorType, PirValue, PirVectorType
from oarlock.proto.pir_json import decode_pir

SAMPLES = Path(__file__).parent.parent / "data" / "pir"


def tensor(*dims: int, dtype: str = "f32") -> PirTensorType:
    return PirTensorType("0.t_dtensor", f"0.t_{dtype}", dims)


def text(value: str) -> PirAttr:
    return PirAttr("0.a_str", value)


def data(value: int, *dims: int, dtype: str = "f32") -> PirOp:
    return PirOp("pd_op.data", [], [PirValue(value, tensor(*dims, dtype=dtype))], {"name": text(f"x{value}")})


def ints(value: int, *numbers: int) -> PirOp:
    items = PirAttr("0.a_array", [PirAttr("0.a_i64", number) for number in numbers])
    attrs = {"value": items, "dtype": PirAttr("1.a_dtype", "int64")}
    return PirOp("pd_op.full_int_array", [], [PirValue(value, tensor(len(numbers), dtype="i64"))], attrs)


def full(value: int, number: float, dtype: str = "float32") -> PirOp:
    attrs = {
        "shape": PirAttr("1.a_intarray", [1]),
        "value": PirAttr("0.a_f64", number),
        "dtype": PirAttr("1.a_dtype", dtype),
    }
    return PirOp("pd_op.full", [], [PirValue(value, tensor(1))], attrs)


def op(name: str, operands: list[int], value: int, made: Any, **attrs: PirAttr) -> PirOp:
    return PirOp(f"pd_op.{name}", operands, [PirValue(value, made)], attrs)


def fetch(value: int, column: int = 0) -> PirOp:
    attrs = {"name": text(f"fetch_name_{column}"), "col": PirAttr("0.a_i32", column)}
    return PirOp("pd_op.fetch", [value], [PirValue(900 + column, tensor())], attrs)


def translated(*ops: PirOp) -> ProgramDesc:
    program = translate_module(PirModule(PirBlock(ops=list(ops)))).program
    verify(program)
    return program


def only(program: ProgramDesc, type: str) -> OpDesc:
    found = [each for block in program.blocks for each in block.ops if each.type == type]
    assert len(found) == 1, [each.type for each in program.global_block.ops]
    return found[0]


def sample(name: str) -> PirModule:
    return decode_pir((SAMPLES / name / "model.json").read_bytes(), name)


def test_a_constant_operand_becomes_the_attribute_and_its_operation_goes() -> None:
    program = translated(data(1, -1, 8), ints(2, -1, 2, 4), op("reshape", [1, 2], 3, tensor(-1, 2, 4)), fetch(3))
    reshape = only(program, "reshape2")
    assert reshape.attrs["shape"] == [-1, 2, 4]
    assert reshape.attr_types["shape"] == AttrType.INTS
    assert reshape.inputs == {"X": ["x1"]}
    assert [each.type for each in program.global_block.ops] == ["feed", "reshape2", "fetch"]


def test_a_computed_operand_goes_to_the_tensor_slot() -> None:
    shape = data(2, 3, dtype="i64")
    program = translated(data(1, -1, 8), shape, op("reshape", [1, 2], 3, tensor(-1, 2, 4)), fetch(3))
    assert only(program, "reshape2").inputs == {"X": ["x1"], "Shape": ["x2"]}


def test_a_list_that_is_partly_computed_goes_to_the_list_slot() -> None:
    listed = PirOp("builtin.combine", [2, 3], [PirValue(4, PirVectorType((tensor(dtype="i64"), tensor(1))))])
    program = translated(
        data(1, -1, 8),
        data(2, dtype="i64"),
        full(3, 8.0, "int64"),
        listed,
        op("reshape", [1, 4], 5, tensor()),
        fetch(5),
    )
    reshape = only(program, "reshape2")
    constant = only(program, "fill_constant").outputs["Out"][0]
    assert reshape.inputs["ShapeTensor"] == ["x2", constant]


def test_an_absent_operand_leaves_its_slot_out() -> None:
    half = {"is_test": PirAttr("0.a_bool", True), "mode": text("upscale_in_train")}
    dropout = PirOp("pd_op.dropout", [1, 0, 2], [PirValue(3, tensor(4)), PirValue(4, tensor(4, dtype="ui8"))], half)
    made = only(translated(data(1, 4), full(2, 0.5), dropout, fetch(3)), "dropout")
    assert made.inputs == {"X": ["x1"]}
    assert (made.attrs["dropout_prob"], made.attrs["dropout_implementation"]) == (0.5, "upscale_in_train")


def test_outputs_are_named_and_ordered_by_their_fetch() -> None:
    program = translated(
        data(1, 4), op("relu", [1], 2, tensor(4)), op("exp", [1], 3, tensor(4)), fetch(3, 1), fetch(2, 0)
    )
    fetched = [each.inputs["X"][0] for each in program.global_block.ops if each.type == "fetch"]
    assert fetched == ["fetch_name_0", "fetch_name_1"]
    assert only(program, "relu").outputs["Out"] == ["fetch_name_0"]


def test_without_a_fetch_shadow_outputs_are_the_outputs() -> None:
    shadow = PirOp("builtin.shadow_output", [2], [], {"output_name": text("y")})
    program = translated(data(1, 4), op("relu", [1], 2, tensor(4)), shadow)
    assert only(program, "fetch").inputs["X"] == ["y"]


def test_a_cast_to_bfloat16_rounds() -> None:
    wanted = PirAttr("1.a_dtype", "bfloat16")
    program = translated(data(1, 4), op("cast", [1], 2, tensor(4, dtype="bf16"), dtype=wanted), fetch(2))
    assert only(program, "cast_rounded").attrs == {"out_dtype": 22, "in_dtype": 5}
    assert only(for_paddle_2(program), "cast").attrs["out_dtype"] == 22


def test_in_place_statistics_are_the_stored_variables() -> None:
    program = translate_module(sample("bn_finetune")).program
    norm = next(each for each in program.global_block.ops if each.type == "batch_norm")
    assert norm.outputs["MeanOut"] == norm.inputs["Mean"]
    assert norm.outputs["VarianceOut"] == norm.inputs["Variance"]


def test_a_branch_is_two_conditional_blocks_and_a_choice() -> None:
    program = translate_module(sample("cf_cond_api")).program
    types = [each.type for each in program.global_block.ops]
    assert types.count("conditional_block") == 2 * types.count("logical_not") > 0
    assert "select_input" in types
    assert all(
        each.attrs["is_scalar_condition"] for each in program.global_block.ops if each.type == "conditional_block"
    )


def test_a_loop_carries_variables_of_the_block_around_it() -> None:
    program = translate_module(sample("cf_while_sum")).program
    loop = only(program, "while")
    outer = program.global_block.vars
    assert loop.inputs["Condition"][0] in loop.outputs["Out"]
    assert all(name in outer for name in (*loop.inputs["X"], *loop.outputs["Out"]))


def test_an_array_is_a_variable_that_the_loop_writes() -> None:
    program = translate_module(sample("cf_list_append")).program
    write = only(program, "write_to_array")
    assert program.global_block.vars[write.outputs["Out"][0]].kind == VarKind.LOD_TENSOR_ARRAY
    assert write.outputs["Out"][0] in only(program, "while").outputs["Out"]


def test_the_file_says_what_is_trained() -> None:
    info = translate_module(sample("bn_finetune")).info
    assert {name for name, facts in info.items() if facts["stop_gradient"]} == {
        name for name in info if name.endswith((".w_1", ".w_2"))
    }


def test_a_newer_attribute_off_its_default_is_refused() -> None:
    ok = translated(data(1, 4), op("round", [1], 2, tensor(4), decimals=PirAttr("0.a_i32", 0)), fetch(2))
    assert only(ok, "round").attrs == {}
    with pytest.raises(ProgramError, match="attribute decimals=2 is not supported"):
        translated(data(1, 4), op("round", [1], 2, tensor(4), decimals=PirAttr("0.a_i32", 2)), fetch(2))


def test_all_missing_operations_are_listed() -> None:
    with pytest.raises(UnsupportedOpError) as caught:
        translated(data(1, 4), op("wobble", [1], 2, tensor(4)), op("wobble", [2], 3, tensor(4)), fetch(3))
    assert caught.value.missing == {"pd_op.wobble": 2}


def test_an_error_names_the_operation() -> None:
    with pytest.raises(ProgramError, match=r"m: block_0 operation 1 \(builtin.split\)"):
        translate_module(PirModule(PirBlock(ops=[data(1, 4), PirOp("builtin.split", [1], [])])), "m")


@pytest.mark.parametrize("name", sorted(path.name for path in SAMPLES.iterdir()))
def test_there_and_back_again_is_a_valid_program_of_the_same_operators(name: str) -> None:
    first = translate_module(sample(name))
    again = translate_module(export_program(first.program, first.info)).program
    verify(again)
    assert {each.name for each in again.persistables()} == {each.name for each in first.program.persistables()}


def test_operators_that_paddle_3_lacks_are_all_listed() -> None:
    program = translate_module(PirModule(PirBlock(ops=[data(1, 4), op("relu", [1], 2, tensor(4)), fetch(2)]))).program
    only(program, "relu").type = "sequence_softmax_of_mine"
    with pytest.raises(UnsupportedOpError) as caught:
        export_program(program)
    assert caught.value.missing == {"sequence_softmax_of_mine": 1}


def test_a_forward_operand_of_another_axis_is_reshaped_for_paddle_3() -> None:
    program = translated(data(1, 2, 3, 4, 4), data(2, 3), op("add", [1, 2], 3, tensor(2, 3, 4, 4)), fetch(3))
    only(program, "elementwise_add").set_attr("axis", 1, AttrType.INT)
    names = [each.name for each in export_program(program).block.ops]
    assert names == ["pd_op.data", "pd_op.data", "pd_op.full_int_array", "pd_op.reshape", "pd_op.add", "pd_op.fetch"]
