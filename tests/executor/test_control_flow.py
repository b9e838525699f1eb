"""Loops and branches: forward, records and gradients through sub-blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
import oarlock.executor.kernels  # noqa: F401  (declares the operators)
import pytest
from oarlock.errors import KernelError
from oarlock.executor.plan import PlanRequest, compile_block
from oarlock.ir import AttrType, BlockDesc, OpDesc, ProgramDesc, VarDesc
from oarlock.ir.backward import append_gradients
from oarlock.ir.dtypes import DType
from oarlock.ir.versioning import single_assignment


def op(type: str, out: str, *inputs: str, **attrs: Any) -> OpDesc:
    slots = {slot: [name] for slot, name in zip("XY", inputs, strict=False)}
    return OpDesc(type, slots, {"Out": [out]}, attrs)


def variables(**dtypes: DType) -> dict[str, VarDesc]:
    return {name: VarDesc(name, dtype=dtype, shape=(1,)) for name, dtype in dtypes.items()}


F, INT, B = DType.FP32, DType.INT64, DType.BOOL


def power_loop(is_test: bool) -> ProgramDesc:
    """``h = x; while i < n: h = h * w; i = i + 1`` and ``y = h + h``."""
    body = [
        op("elementwise_mul", "t", "h", "w"),
        op("assign", "h", "t"),
        op("scale", "i", "i", scale=1.0, bias=1.0),
        op("less_than", "c", "i", "n"),
    ]
    loop = OpDesc(
        "while", {"X": ["h", "w", "i", "n"], "Condition": ["c"]}, {"Out": ["h", "i", "c"], "StepScopes": ["s"]}
    )
    loop.set_attr("sub_block", 1, AttrType.BLOCK)
    loop.set_attr("is_test", is_test)
    main = [op("assign", "h", "x"), op("less_than", "c", "i", "n"), loop, op("elementwise_add", "y", "h", "h")]
    names = variables(x=F, h=F, w=F, i=INT, n=INT, c=B, y=F)
    names["s"] = VarDesc("s", kind=11)
    return ProgramDesc([BlockDesc(0, -1, names, main), BlockDesc(1, 0, variables(t=F), body)])


def branch() -> ProgramDesc:
    """``y = x * x if c else x + w`` as saved: two blocks, ``select_input``."""

    def conditional(index: int, cond: str, out: str) -> OpDesc:
        made = OpDesc(
            "conditional_block", {"Cond": [cond], "Input": ["x", "w"]}, {"Out": [out], "Scope": [f"s{index}"]}
        )
        made.set_attr("sub_block", index, AttrType.BLOCK)
        made.set_attr("is_scalar_condition", True)
        return made

    main = [
        conditional(1, "c", "a"),
        op("logical_not", "nc", "c"),
        conditional(2, "nc", "b"),
        op("cast", "m", "c", in_dtype=0, out_dtype=2),
        OpDesc("select_input", {"X": ["b", "a"], "Mask": ["m"]}, {"Out": ["y"]}),
    ]
    names = variables(x=F, w=F, c=B, nc=B, a=F, b=F, m=DType.INT32, y=F)
    names |= {f"s{i}": VarDesc(f"s{i}", kind=11) for i in (1, 2)}
    return ProgramDesc(
        [
            BlockDesc(0, -1, names, main),
            BlockDesc(1, 0, {}, [op("elementwise_mul", "a", "x", "x")]),
            BlockDesc(2, 0, {}, [op("elementwise_add", "b", "x", "w")]),
        ]
    )


def run(program: ProgramDesc, feeds: dict[str, Any], *fetches: str) -> list[Any]:
    plan = compile_block(program, 0, PlanRequest(tuple(feeds), fetches))
    return plan.run(feeds.values())


def f32(*values: float) -> np.ndarray[Any, Any]:
    return np.array(values, np.float32)


def i64(value: int) -> np.ndarray[Any, Any]:
    return np.array([value], np.int64)


@pytest.mark.parametrize(("turns", "expected"), [(0, 2.0), (1, 6.0), (3, 54.0)])
def test_a_loop_runs_until_its_condition_is_false(turns: int, expected: float) -> None:
    feeds = {"x": f32(1), "w": f32(3), "i": i64(0), "n": i64(turns)}
    y, i = run(power_loop(True), feeds, "y", "i")
    assert y.tolist() == [expected]
    assert (i.tolist(), i.dtype) == ([turns], np.int64)


@pytest.mark.parametrize("turns", [0, 1, 3])
def test_gradients_flow_through_every_turn(turns: int) -> None:
    program = power_loop(False)
    single_assignment(program)
    made = append_gradients(program, ["y"])
    feeds = {"x": f32(2), "w": f32(3), "i": i64(0), "n": i64(turns)}
    dx, dw = run(program, feeds, made["x"], made["w"])
    assert dx.tolist() == [2 * 3.0**turns]
    assert dw.tolist() == [2 * 2 * turns * 3.0 ** max(turns - 1, 0)]


@pytest.mark.parametrize(("taken", "y", "dx", "dw"), [(True, 9.0, 6.0, 0.0), (False, 8.0, 1.0, 1.0)])
def test_a_branch_and_its_gradient(taken: bool, y: float, dx: float, dw: float) -> None:
    program = branch()
    single_assignment(program)
    made = append_gradients(program, ["y"])
    feeds = {"x": f32(3), "w": f32(5), "c": np.array([taken])}
    got = run(program, feeds, "y", made["x"], made["w"])
    assert [value.tolist() for value in got] == [[y], [dx], [dw]]


def test_a_condition_of_several_elements_is_an_error_with_its_place() -> None:
    feeds = {"x": f32(3), "w": f32(5), "c": np.array([True, False])}
    with pytest.raises(KernelError, match=r"block 0 op 0 \(conditional_block\): a condition holds one element"):
        run(branch(), feeds, "y")


def test_an_error_inside_a_body_names_block_and_op() -> None:
    feeds = {"x": f32(1), "w": f32(1, 2, 3), "i": i64(0), "n": i64(3)}
    program = power_loop(True)
    program.blocks[1].ops.insert(0, op("matmul_v2", "t", "w", "n"))
    with pytest.raises(KernelError, match=r"block 1 op 0 \(matmul_v2\)"):
        run(program, feeds, "y")


def test_arrays_grow_and_are_read_back() -> None:
    write = OpDesc("write_to_array", {"X": ["x"], "I": ["i"]}, {"Out": ["arr"]})
    again = OpDesc("write_to_array", {"X": ["w"], "I": ["n"]}, {"Out": ["arr"]})
    length = OpDesc("lod_array_length", {"X": ["arr"]}, {"Out": ["len"]})
    read = OpDesc("read_from_array", {"X": ["arr"], "I": ["i"]}, {"Out": ["y"]})
    names = variables(x=F, w=F, i=INT, n=INT, len=INT, y=F)
    names["arr"] = VarDesc("arr", kind=13, dtype=F, shape=(1,))
    program = ProgramDesc([BlockDesc(0, -1, names, [write, again, length, read])])
    feeds = {"x": f32(1, 2), "w": f32(3), "i": i64(0), "n": i64(2)}
    count, first = run(program, feeds, "len", "y")
    assert (count.tolist(), first.tolist()) == ([3], [1, 2])
    with pytest.raises(KernelError, match="none there"):
        run(_reading(program, "hole"), feeds | {"hole": i64(1)}, "y")


def _reading(program: ProgramDesc, index: str) -> ProgramDesc:
    made = program.copy()
    made.global_block.vars[index] = VarDesc(index, dtype=INT, shape=(1,))
    made.global_block.ops[-1].inputs["I"] = [index]
    return made
