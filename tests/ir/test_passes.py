"""Each pass: what it does to a program, what it leaves alone, and that the outputs stay the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import oarlock.executor.kernels  # noqa: F401  (declares the operators)
import pytest
from oarlock.executor.plan import PlanRequest, compile_block
from oarlock.ir import AttrType, BlockDesc, OpDesc, ProgramDesc, VarDesc
from oarlock.ir.dtypes import DType
from oarlock.ir.passes import PIPELINE, optimize

RNG = np.random.default_rng(0)
Values = dict[str, np.ndarray[Any, Any]]


def op(type: str, out: str, *inputs: str, slots: str = "X Y", result: str = "Out", **attrs: Any) -> OpDesc:
    named = {slot: [name] for slot, name in zip(slots.split(), inputs, strict=False)}
    return OpDesc(type, named, {result: [out]}, attrs)


def conv(out: str, x: str, w: str, **attrs: Any) -> OpDesc:
    return op("conv2d", out, x, w, slots="Input Filter", result="Output", **attrs)


def norm(out: str, x: str, stem: str = "bn") -> OpDesc:
    made = OpDesc("batch_norm", attrs={"is_test": True, "epsilon": 1e-3})
    made.inputs = {"X": [x], "Scale": [f"{stem}.g"], "Bias": [f"{stem}.b"]}
    made.inputs |= {"Mean": [f"{stem}.m"], "Variance": [f"{stem}.v"]}
    made.outputs = {"Y": [out], "MeanOut": [f"{stem}.m"], "VarianceOut": [f"{stem}.v"]}
    return made


def program(params: Values, *ops: OpDesc) -> ProgramDesc:
    names = {name for each in ops for name in (*each.input_names(), *each.output_names())}
    variables = {name: VarDesc(name, dtype=DType.FP32, shape=(-1, -1), persistable=name in params) for name in names}
    return ProgramDesc([BlockDesc(0, -1, variables, list(ops))])


def normal(*shape: int) -> np.ndarray[Any, Any]:
    return RNG.standard_normal(shape).astype(np.float32)


def norm_params(channels: int, stem: str = "bn") -> Values:
    spread = RNG.uniform(0.5, 2, (2, channels)).astype(np.float32)
    return {
        f"{stem}.g": spread[0],
        f"{stem}.v": spread[1],
        f"{stem}.b": normal(channels),
        f"{stem}.m": normal(channels),
    }


def only(name: str) -> list[str]:
    """The passes to skip so that one is left, with the clean-up behind it."""
    return [each for each in PIPELINE if each not in (name, "drop_dead")]


def types(made: ProgramDesc) -> list[str]:
    return [each.type for each in made.global_block.ops]


def run(made: ProgramDesc, params: Values, feeds: Values, fetches: str) -> list[Any]:
    plan = compile_block(made, 0, PlanRequest(tuple(feeds), tuple(fetches.split())), params)
    return plan.run(feeds.values())


def check(made: ProgramDesc, params: Values, feeds: Values, fetches: str = "y", skip: Any = ()) -> ProgramDesc:
    """Optimise, compare the outputs with those of the program as it is, return the optimised program."""
    expected = run(made, params, feeds, fetches)
    given = dict(params)
    better = optimize(made, given, fetches.split(), skip=skip)
    for want, got in zip(expected, run(better, given, feeds, fetches), strict=True):
        np.testing.assert_allclose(got, want, 1e-4, 1e-5)
    return better


def test_the_program_given_is_not_altered() -> None:
    made = program({}, op("assign", "a", "x"), op("relu", "y", "a"))
    optimize(made, {}, ["y"])
    assert types(made) == ["assign", "relu"]


@pytest.mark.parametrize(
    "identity",
    [
        op("assign", "a", "x"),
        op("scale", "a", "x", scale=1.0, bias=0.0),
        op("dropout", "a", "x", is_test=True, dropout_implementation="upscale_in_train"),
        op("dropout", "a", "x", is_test=True, dropout_prob=0.0),
    ],
    ids=["assign", "scale", "upscale dropout", "dropout of nothing"],
)
def test_identities_go(identity: OpDesc) -> None:
    better = check(program({}, identity, op("relu", "y", "a")), {}, {"x": normal(4)})
    assert types(better) == ["relu"]
    assert better.global_block.ops[0].inputs == {"X": ["x"]}


def test_an_identity_before_a_fetch_hands_the_name_to_the_producer() -> None:
    better = check(program({}, op("relu", "a", "x"), op("scale", "y", "a", scale=1.0)), {}, {"x": normal(4)})
    assert types(better) == ["relu"]
    assert better.global_block.ops[0].outputs == {"Out": ["y"]}


def test_a_snapshot_of_a_variable_that_changes_stays() -> None:
    made = program({}, op("assign", "a", "x"), op("exp", "x", "x"), op("elementwise_add", "y", "a", "x"))
    better = check(made, {}, {"x": normal(4)})
    assert "assign" in types(better)


def test_a_dropout_that_scales_in_test_mode_stays() -> None:
    made = program({}, op("dropout", "y", "x", is_test=True, dropout_prob=0.25))
    assert types(check(made, {}, {"x": normal(4)})) == ["dropout"]


def test_constants_are_folded() -> None:
    params = {"w": normal(3)}
    made = program(params, op("scale", "t", "w", scale=2.0), op("exp", "u", "t"), op("elementwise_add", "y", "x", "u"))
    better = check(made, params, {"x": normal(3)}, skip=only("fold_constants"))
    assert types(better) == ["elementwise_add"]


def test_large_constants_are_not_made_from_small_ones() -> None:
    fill = OpDesc("fill_constant", {}, {"Out": ["t"]}, {"shape": [4096, 4096], "value": 1.0, "dtype": 5})
    made = program({}, fill, op("elementwise_add", "y", "x", "t"))
    better = optimize(made, {}, ["y"])
    assert "fill_constant" in types(better)


def test_random_ops_are_not_folded() -> None:
    drawn = OpDesc("uniform_random", {}, {"Out": ["t"]}, {"shape": [3], "dtype": 5, "min": 0.0, "max": 1.0})
    better = optimize(program({}, drawn, op("elementwise_add", "y", "x", "t")), {}, ["y"])
    assert "uniform_random" in types(better)


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_affine_ops_are_folded_into_a_convolution(groups: int, layout: str) -> None:
    channels = 6
    params = {"w": normal(channels, 4 // groups, 3, 3), "bias": normal(channels), "s": normal(1)}
    params |= norm_params(channels)
    add = op("elementwise_add", "b", "a", "bias", axis=1 if layout == "NCHW" else -1)
    ops = [conv("a", "x", "w", groups=groups, paddings=[1, 1], data_format=layout), add, norm("c", "b")]
    ops[2].attrs["data_layout"] = layout
    ops.append(op("elementwise_mul", "y", "s", "c", axis=-1))
    x = normal(2, 4, 5, 7) if layout == "NCHW" else normal(2, 5, 7, 4)
    better = check(program(params, *ops), params, {"x": x}, skip=only("fold_affine"))
    assert types(better) == ["fused_conv2d"]


@pytest.mark.parametrize("groups", [1, 2])
def test_affine_ops_are_folded_into_a_transposed_convolution(groups: int) -> None:
    params = {"w": normal(4, 6 // groups, 2, 2)} | norm_params(6)
    made = op("conv2d_transpose", "a", "x", "w", slots="Input Filter", result="Output", strides=[2, 2], groups=groups)
    better = check(program(params, made, norm("y", "a")), params, {"x": normal(2, 4, 3, 5)}, skip=only("fold_affine"))
    assert types(better) == ["conv2d_transpose"]


def test_what_others_read_is_not_folded() -> None:
    params = {"w": normal(3, 3, 1, 1)} | norm_params(3)
    made = program(params, conv("a", "x", "w"), norm("b", "a"), op("elementwise_add", "y", "a", "b"))
    better = check(made, params, {"x": normal(1, 3, 4, 4)})
    assert types(better) == ["conv2d", "batch_norm", "elementwise_add"]


def test_an_operand_that_is_not_per_channel_is_not_folded() -> None:
    params = {"w": normal(3, 3, 1, 1), "t": normal(1, 3, 4, 4)}
    made = program(params, conv("a", "x", "w"), op("elementwise_add", "y", "a", "t"))
    assert types(check(made, params, {"x": normal(1, 3, 4, 4)})) == ["conv2d", "elementwise_add"]


def test_a_batch_norm_in_train_mode_is_not_folded() -> None:
    params = {"w": normal(3, 3, 1, 1)} | norm_params(3)
    made = program(params, conv("a", "x", "w"), norm("y", "a"))
    made.global_block.ops[1].attrs["is_test"] = False
    assert types(optimize(made, dict(params), ["y"])) == ["conv2d", "batch_norm"]


@pytest.mark.parametrize(
    ("type", "attrs"),
    [
        ("relu", {}),
        ("relu6", {"threshold": 6.0}),
        ("leaky_relu", {"alpha": 0.3}),
        ("sigmoid", {}),
        ("tanh", {}),
        ("swish", {"beta": 1.0}),
        ("hard_swish", {"threshold": 6.0, "scale": 6.0, "offset": 3.0}),
        ("hard_sigmoid", {"slope": 0.2, "offset": 0.4}),
    ],
)
def test_an_activation_goes_into_the_convolution(type: str, attrs: dict[str, Any]) -> None:
    params = {"w": 3 * normal(4, 3, 3, 3)}
    made = program(params, conv("a", "x", "w", paddings=[1, 1]), op(type, "y", "a", **attrs))
    better = check(made, params, {"x": normal(2, 3, 6, 5)}, skip=only("fuse_activation"))
    assert types(better) == ["fused_conv2d"]


def test_a_hard_swish_of_another_shape_stays_outside() -> None:
    params = {"w": normal(4, 3, 1, 1)}
    other = op("hard_swish", "y", "a", threshold=5.0, scale=6.0, offset=3.0)
    better = check(program(params, conv("a", "x", "w"), other), params, {"x": normal(1, 3, 4, 4)})
    assert types(better) == ["conv2d", "hard_swish"]


@pytest.mark.parametrize("size", [5, 200_001])
def test_chains_give_the_same_bits(size: int) -> None:
    params = {"s": normal(1), "t": normal(1)}
    made = program(
        params,
        op("hard_swish", "a", "x"),
        op("elementwise_mul", "b", "s", "a"),
        op("elementwise_add", "c", "b", "t"),
        op("sigmoid", "y", "c"),
    )
    x = normal(size)
    kept = x.copy()
    better = optimize(made, dict(params), ["y"])
    assert types(better) == ["fused_chain"]
    (plain,), (fused,) = run(made, params, {"x": x}, "y"), run(better, params, {"x": x}, "y")
    assert np.array_equal(plain, fused)
    assert np.array_equal(x, kept)


def test_dead_ops_go_and_stored_variables_are_still_written() -> None:
    params = {"n": normal(1)}
    made = program(params, op("exp", "dead", "x"), op("scale", "n", "n", bias=1.0), op("relu", "y", "x"))
    assert types(optimize(made, dict(params), ["y"])) == ["scale", "relu"]


def test_names_that_a_sub_block_sees_are_left_alone() -> None:
    body = BlockDesc(1, 0, {}, [op("relu", "y", "a")])
    branch = OpDesc("conditional_block", {"Cond": ["c"], "Input": ["a"]}, {"Out": ["y"]})
    branch.set_attr("sub_block", 1, AttrType.BLOCK)
    branch.set_attr("is_scalar_condition", True)
    made = program({}, op("assign", "a", "x"), branch)
    made.global_block.vars["c"] = VarDesc("c", dtype=DType.BOOL, shape=(1,))
    made.blocks.append(body)
    better = check(made, {}, {"x": normal(3), "c": np.array([True])})
    assert types(better) == ["assign", "conditional_block"]


def test_inspect_sees_the_program_after_every_pass() -> None:
    seen: list[str] = []
    optimize(program({}, op("relu", "y", "x")), {}, ["y"], inspect=lambda name, made, params: seen.append(name))
    assert seen == list(PIPELINE)


def test_a_pass_can_be_switched_off_by_name() -> None:
    made = program({}, op("assign", "a", "x"), op("relu", "y", "a"))
    assert types(optimize(made, {}, ["y"], skip=["drop_identities"])) == ["assign", "relu"]
