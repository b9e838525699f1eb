"""What ``verify`` accepts and refuses, and that its message names the place."""

from __future__ import annotations

import pytest
from oarlock.errors import ProgramError
from oarlock.ir import AttrType, BlockDesc, OpDesc, ProgramDesc, VarDesc
from oarlock.ir.dtypes import DType
from oarlock.ir.verify import verify


def var(name: str, shape: tuple[int, ...] = (2,)) -> VarDesc:
    return VarDesc(name, dtype=DType.FP32, shape=shape)


def relu(x: str = "x", out: str = "y") -> OpDesc:
    return OpDesc("relu", {"X": [x]}, {"Out": [out]})


def program(*ops: OpDesc, names: str = "x y") -> ProgramDesc:
    return ProgramDesc([BlockDesc(0, -1, {name: var(name) for name in names.split()}, list(ops))])


def with_block(parent: int, *ops: OpDesc) -> ProgramDesc:
    made = program(relu())
    made.blocks.append(BlockDesc(1, parent, {"z": var("z")}, list(ops)))
    return made


def loop(index: int) -> OpDesc:
    op = OpDesc("while", {"X": ["x"], "Condition": ["x"]}, {"Out": ["x"]})
    op.set_attr("sub_block", index, AttrType.BLOCK)
    return op


def test_a_plain_program_is_valid() -> None:
    verify(program(relu()))


def test_a_sub_block_sees_the_variables_of_its_parent() -> None:
    verify(with_block(0, relu("x", "z")))


def test_absent_arguments_are_no_names() -> None:
    verify(program(OpDesc("relu", {"X": ["x"], "Y": ["@EMPTY@"]}, {"Out": ["y"]})))


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (ProgramDesc(), "no block"),
        (program(relu("gone")), r"block 0 op 0 \(relu\): input X='gone' is a variable of neither"),
        (program(relu("x", "gone")), r"output Out='gone'"),
        (program(OpDesc("")), "has no type"),
        (ProgramDesc([BlockDesc(3)]), "block at position 0 calls itself 3"),
        (with_block(5), "names block 5 as its parent"),
        (with_block(1), "names block 1 as its parent"),
        (program(loop(7)), "it runs block 7, there are 1 blocks"),
        (program(loop(0)), "runs block 0"),
        (program(OpDesc("feed", {"X": ["x"]}, {})), "it names no variable"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_refused(broken: ProgramDesc, message: str) -> None:
    with pytest.raises(ProgramError, match=message):
        verify(broken, "model.pdmodel")


def test_a_loop_whose_body_runs_itself_is_refused() -> None:
    made = with_block(0, loop(1))
    made.global_block.ops.append(loop(1))
    with pytest.raises(ProgramError, match="block 1 runs block 1"):
        verify(made)


def test_ancestors_in_a_circle_are_refused() -> None:
    made = with_block(2)
    made.blocks.append(BlockDesc(2, 1))
    with pytest.raises(ProgramError, match="its own ancestor"):
        verify(made)


def test_an_absurd_dimension_is_refused() -> None:
    made = program(relu())
    made.global_block.vars["x"].shape = (2**62, 3)
    with pytest.raises(ProgramError, match="variable 'x' has the dimension 4611686018427387904"):
        verify(made)


def test_any_negative_dimension_means_unknown() -> None:
    made = program(relu())
    made.global_block.vars["x"].shape = (-96, 3)
    verify(made)


def test_the_message_shows_the_ops_around_the_fault() -> None:
    with pytest.raises(ProgramError) as caught:
        verify(program(relu(), relu("y", "x"), relu("gone")))
    assert "> 2: Out=[y] = relu(X=[gone])" in str(caught.value)
    assert "  1: Out=[x] = relu(X=[y])" in str(caught.value)
