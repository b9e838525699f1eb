"""append_gradients: which ops it appends, how repeated gradients are summed, what it leaves out."""

from __future__ import annotations

import oarlock.executor.kernels  # noqa: F401  (declares the operators)
import pytest
from oarlock.errors import ProgramError
from oarlock.ir import BlockDesc, OpDesc, ProgramDesc, VarDesc
from oarlock.ir.backward import append_gradients, differentiable_inputs
from oarlock.ir.dtypes import DType


def op(type: str, out: str, *inputs: str, **attrs: object) -> OpDesc:
    slots = {slot: [name] for slot, name in zip("XY", inputs, strict=False)}
    return OpDesc(type, slots, {"Out": [out]}, dict(attrs))


def program(*ops: OpDesc) -> ProgramDesc:
    names = {name for each in ops for name in (*each.input_names(), *each.output_names())}
    variables = {name: VarDesc(name, dtype=DType.FP32, shape=(2,)) for name in names}
    return ProgramDesc([BlockDesc(0, -1, variables, list(ops))])


def appended(made: ProgramDesc, forward: int) -> list[str]:
    return [each.type for each in made.global_block.ops[forward:]]


def test_a_chain_is_walked_backwards_from_a_seed() -> None:
    made = program(op("tanh", "a", "x"), op("exp", "b", "a"))
    assert append_gradients(made, ["b"]) == {"b": "b@GRAD", "a": "a@GRAD", "x": "x@GRAD"}
    assert appended(made, 2) == ["fill_any_like", "exp_grad", "tanh_grad"]
    seed = made.global_block.ops[2]
    assert (seed.inputs, seed.outputs, seed.attrs["value"]) == ({"X": ["b"]}, {"Out": ["b@GRAD"]}, 1.0)
    assert all(each.attrs["op_role"] == 1 for each in made.global_block.ops[2:])


def test_a_gradient_made_twice_is_summed_under_renamed_pieces() -> None:
    made = program(op("tanh", "a", "x"), op("exp", "b", "x"), op("elementwise_add", "c", "a", "b"))
    append_gradients(made, ["c"])
    total = made.global_block.ops[-1]
    assert total.type == "sum"
    assert total.inputs["X"] == ["x@GRAD@RENAME@block0@0", "x@GRAD@RENAME@block0@1"]
    assert total.outputs["Out"] == ["x@GRAD"]


def test_one_op_that_reads_a_variable_twice_gives_two_pieces() -> None:
    made = program(op("elementwise_mul", "b", "x", "x"))
    append_gradients(made, ["b"])
    grad, total = made.global_block.ops[-2:]
    assert grad.outputs == {"X@GRAD": ["x@GRAD@RENAME@block0@0"], "Y@GRAD": ["x@GRAD@RENAME@block0@1"]}
    assert total.type == "sum"


def test_the_sum_stands_before_the_first_reader() -> None:
    made = program(
        op("sigmoid", "h", "x"),
        op("tanh", "a", "h"),
        op("exp", "b", "h"),
        op("elementwise_add", "c", "a", "b"),
    )
    append_gradients(made, ["c"])
    kinds = appended(made, 4)
    assert kinds.index("sum") < kinds.index("sigmoid_grad")


def test_a_target_that_is_an_inner_node_keeps_its_own_seed() -> None:
    made = program(op("tanh", "y", "x"), op("exp", "z", "y"))
    append_gradients(made, ["y", "z"])
    total = next(each for each in made.global_block.ops if each.type == "sum")
    assert len(total.inputs["X"]) == 2
    assert total.outputs["Out"] == ["y@GRAD"]


def test_stop_gradient_ends_the_path() -> None:
    made = program(op("tanh", "a", "x"), op("exp", "b", "a"))
    made.global_block.vars["a"].stop_gradient = True
    assert "x" not in append_gradients(made, ["b"])
    assert "tanh_grad" not in appended(made, 2)


def test_no_grad_names_get_none() -> None:
    made = program(op("elementwise_mul", "b", "x", "y"))
    assert set(append_gradients(made, ["b"], no_grad=["y"])) == {"b", "x"}
    assert "Y@GRAD" not in made.global_block.ops[-1].outputs


def test_only_what_the_inputs_reach_is_differentiated() -> None:
    made = program(op("tanh", "a", "x"), op("exp", "b", "y"), op("elementwise_add", "c", "a", "b"))
    append_gradients(made, ["c"], inputs=["x"])
    assert "exp_grad" not in appended(made, 3)
    assert "tanh_grad" in appended(made, 3)


def test_gradient_variables_take_shape_and_dtype_of_the_forward_variable() -> None:
    made = program(op("tanh", "a", "x"))
    made.global_block.vars["x"].shape = (-1, 7)
    made.global_block.vars["x"].dtype = DType.FP64
    append_gradients(made, ["a"])
    grad = made.global_block.vars["x@GRAD"]
    assert (grad.shape, grad.dtype) == ((-1, 7), DType.FP64)


def test_an_unknown_target_is_an_error() -> None:
    with pytest.raises(ProgramError, match="no variable 'q'"):
        append_gradients(program(op("tanh", "a", "x")), ["q"])


def test_reachability_builds_nothing() -> None:
    made = program(op("tanh", "a", "x"), op("shape", "s", "w"), op("elementwise_add", "c", "a", "v"))
    before = len(made.global_block.ops)
    assert {"x", "v"} <= differentiable_inputs(made, ["c"])
    assert "w" not in differentiable_inputs(made, ["c"])
    assert len(made.global_block.ops) == before
