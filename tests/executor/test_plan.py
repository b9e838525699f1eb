"""Plans: names to slots, eager deletion, reuse of dying buffers, errors that name the place."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
import oarlock.executor.kernels  # noqa: F401  (declares the operators)
import pytest
from oarlock.errors import KernelError, ProgramError, UnsupportedOpError
from oarlock.executor.interpreter import profile
from oarlock.executor.plan import Plan, PlanRequest, compile_block
from oarlock.executor.steps import make_step
from oarlock.ir import AttrType, BlockDesc, OpDesc, ProgramDesc, VarDesc
from oarlock.ir.dtypes import DType


def op(type: str, out: str, *inputs: str, **attrs: Any) -> OpDesc:
    slots = {slot: [name] for slot, name in zip("XY", inputs, strict=False)}
    return OpDesc(type, slots, {"Out": [out]}, attrs)


def program(*ops: OpDesc, stored: tuple[str, ...] = ()) -> ProgramDesc:
    names = {name for each in ops for name in (*each.input_names(), *each.output_names())} | set(stored)
    variables = {name: VarDesc(name, dtype=DType.FP32, shape=(-1,), persistable=name in stored) for name in names}
    return ProgramDesc([BlockDesc(0, -1, variables, list(ops))])


def plan(made: ProgramDesc, feeds: str, fetches: str, **options: Any) -> Plan:
    constants = options.pop("constants", None)
    return compile_block(made, 0, PlanRequest(tuple(feeds.split()), tuple(fetches.split()), **options), constants)


def f32(*values: float) -> np.ndarray[Any, Any]:
    return np.array(values, np.float32)


def test_feeds_go_in_and_fetches_come_out_in_order() -> None:
    made = plan(program(op("relu", "a", "x"), op("elementwise_sub", "b", "x", "y")), "x y", "b a")
    b, a = made.run([f32(-1, 2), f32(1, 1)])
    assert a.tolist() == [0, 2]
    assert b.tolist() == [-2, 1]


def test_constants_need_no_feed() -> None:
    made = plan(program(op("elementwise_add", "a", "x", "w")), "x", "a", constants={"w": f32(10)})
    assert made.run([f32(1)])[0].tolist() == [11]


def test_a_value_is_dropped_after_its_last_reader() -> None:
    seen: list[weakref.ref[Any]] = []
    double = "elementwise_add"  # with itself: no buffer can be reused
    made = plan(program(op("exp", "a", "x"), op(double, "b", "a", "a"), op(double, "c", "b", "b")), "x", "c")
    first = made.steps[0]

    def watching(frame: list[Any]) -> None:
        first(frame)
        seen.append(weakref.ref(frame[made.slots["a"]]))

    made.steps[0] = watching
    frame = made.frame([f32(*range(100))])
    made.execute(frame)
    assert seen[0]() is None
    assert [name for name, slot in made.slots.items() if frame[slot] is not None] == ["c"]


def test_kept_names_survive() -> None:
    made = plan(program(op("exp", "a", "x"), op("tanh", "b", "a")), "x", "b", keep=frozenset({"a"}))
    frame = made.frame([f32(0)])
    made.execute(frame)
    assert frame[made.slots["a"]].tolist() == [1]


def test_one_name_may_hold_two_values_in_turn() -> None:
    made = plan(program(op("exp", "a", "x"), op("relu", "a", "a"), op("scale", "b", "a", scale=2.0)), "x", "b")
    assert made.run([f32(0)])[0].tolist() == [2]


def test_a_dying_buffer_is_written_over() -> None:
    made = plan(program(op("exp", "a", "x"), op("relu", "b", "a")), "x", "b")
    address: list[int] = []
    first = made.steps[0]

    def watching(frame: list[Any]) -> None:
        first(frame)
        address.append(frame[made.slots["a"]].ctypes.data)

    made.steps[0] = watching
    (b,) = made.run([f32(*range(64))])
    assert b.ctypes.data == address[0]


@pytest.mark.parametrize("shared_by", ["feed", "view", "second reader", "constant"])
def test_a_buffer_that_somebody_else_holds_is_left_alone(shared_by: str) -> None:
    x = f32(-1, 2)
    if shared_by == "feed":
        made = plan(program(op("relu", "b", "x")), "x", "b")
        made.run([x])
        assert x.tolist() == [-1, 2]
    elif shared_by == "view":
        ops = op("scale", "a", "x", scale=1.5), op("reshape2", "v", "a", shape=[2, 1]), op("relu", "b", "a")
        a_view, b = plan(program(*ops), "x", "v b").run([x])
        assert a_view.ravel().tolist() == [-1.5, 3]
        assert b.tolist() == [0, 3]
    elif shared_by == "second reader":
        ops = op("scale", "a", "x", scale=1.5), op("relu", "b", "a"), op("elementwise_add", "c", "a", "b")
        assert plan(program(*ops), "x", "c").run([x])[0].tolist() == [-1.5, 6]
    else:
        made = plan(program(op("relu", "b", "w"), stored=("w",)), "", "b", constants={"w": x})
        made.run([])
        assert x.tolist() == [-1, 2]


def test_numpy_scalars_become_arrays() -> None:
    frame: list[Any] = [None, np.array(2.0), None]
    make_step(lambda x: np.float32(3), [1], [2], [])(frame)
    assert isinstance(frame[2], np.ndarray)
    assert frame[2].dtype == np.float32


def test_a_variable_that_nobody_makes_is_found_at_compile_time() -> None:
    with pytest.raises(ProgramError, match=r"block 0 op 0 \(relu\): input X='x' is read before"):
        plan(program(op("relu", "a", "x")), "", "a")
    with pytest.raises(ProgramError, match="fetched variable 'q' is never given a value"):
        plan(program(op("relu", "a", "x")), "x", "q")


def test_all_missing_operators_are_listed() -> None:
    made = program(op("relu", "a", "x"), op("frobnicate", "b", "a"), op("frobnicate", "c", "b"), op("mangle", "d", "c"))
    with pytest.raises(UnsupportedOpError) as caught:
        plan(made, "x", "d")
    assert caught.value.missing == {"frobnicate": 2, "mangle": 1}
    assert "frobnicate (2), mangle (1)" in str(caught.value)


def test_an_unknown_slot_is_refused() -> None:
    bad = OpDesc("relu", {"X": ["x"], "Gate": ["x"]}, {"Out": ["a"]})
    with pytest.raises(ProgramError, match=r"op 0 \(relu\): input slot Gate is not supported"):
        plan(program(bad), "x", "a")


def test_a_missing_required_slot_is_refused() -> None:
    with pytest.raises(ProgramError, match=r"op 0 \(elementwise_add\): required input slot Y is missing"):
        plan(program(op("elementwise_add", "a", "x")), "x", "a")


def test_a_failing_kernel_names_its_place_and_its_arguments() -> None:
    made = plan(
        program(op("relu", "a", "x"), op("elementwise_add", "b", "a", "w"), stored=("w",)),
        "x",
        "b",
        constants={"w": f32(1, 2, 3)},
    )
    with pytest.raises(KernelError) as caught:
        made.run([f32(1, 2)])
    message = str(caught.value)
    assert message.startswith("block 0 op 1 (elementwise_add): ")
    assert "X='a' float32[2]" in message
    assert "Y='w' (parameter) float32[3]" in message
    assert "\n" not in message


def test_an_attribute_fed_by_a_variable_is_read_at_run_time() -> None:
    fed = op("scale", "a", "x", scale="s")
    fed.attr_types["scale"] = AttrType.VAR
    made = plan(program(fed, op("relu", "s", "t")), "x s t", "a")
    assert made.run([f32(3), f32(2), f32(1)])[0].tolist() == [6]


def test_profile_times_each_operator() -> None:
    made = plan(program(op("exp", "a", "x"), op("tanh", "b", "a")), "x", "b")
    seen: list[str] = []
    with profile(lambda each, seconds: seen.append(each.type)):
        made.run([f32(1)])
    made.run([f32(1)])
    assert seen == ["exp", "tanh"]
