"""run_program: what test mode leaves out, what the backward block keeps alive, scopes, logs, right gradients."""

from __future__ import annotations

import gc
import logging
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import oarlock
import pytest
from oarlock.executor.run_program import ProgramPair, needed_by_backward, run_backward, run_forward
from oarlock.executor.scope import Scope, ScopePool
from oarlock.executor.values import LoDTensor, Meta
from oarlock.ir.desc import BlockDesc, OpDesc, ProgramDesc, VarDesc
from oarlock.ir.dtypes import DType
from oarlock.jit import TranslatedLayer
from oarlock.jit.holder import ProgramHolder
from oarlock.jit.train_program import backward_slice, build_train_program, forward_slice

Arrays = dict[str, np.ndarray[Any, Any]]


def op(type: str, outputs: dict[str, str], attrs: dict[str, Any] | None = None, **inputs: str | list[str]) -> OpDesc:
    slots = {slot: [names] if isinstance(names, str) else names for slot, names in inputs.items()}
    return OpDesc(type, slots, {slot: [name] for slot, name in outputs.items()}, dict(attrs or {}))


def program(ops: list[OpDesc], shapes: dict[str, tuple[int, ...]], stored: str = "") -> ProgramDesc:
    names = dict.fromkeys(name for each in ops for name in (*each.input_names(), *each.output_names()))
    variables = {
        name: VarDesc(name, dtype=DType.FP32, shape=shapes.get(name, (-1, 4)), persistable=name in stored.split())
        for name in names
    }
    return ProgramDesc([BlockDesc(0, -1, variables, ops)])


def pair_of(made: ProgramDesc, x: str, params: str, outputs: str) -> ProgramPair:
    """Forward and backward of a program, as a loaded layer makes them."""
    built = build_train_program(made, outputs.split())
    grads = tuple(built.gradients.get(name, "@EMPTY@") for name in built.outputs)
    return ProgramPair(
        forward_slice(built.program, built.forward_count),
        backward_slice(built.program, built.forward_count, len(built.outputs)),
        tuple(x.split()),
        tuple(params.split()),
        built.outputs,
        grads,
    )


def layer_of(made: ProgramDesc, x: list[str], outputs: list[str], values: Arrays) -> TranslatedLayer:
    """A layer of a program with feed and fetch ops added."""
    block = made.global_block
    feeds = [op("feed", {"Out": name}, {"col": i}, X="feed") for i, name in enumerate(x)]
    fetches = [op("fetch", {"Out": "fetch"}, {"col": i}, X=name) for i, name in enumerate(outputs)]
    block.ops = [*feeds, *block.ops, *fetches]
    holder = ProgramHolder(made)
    tensors = {name: oarlock.Parameter(value, name=name) for name, value in values.items()}
    layer = TranslatedLayer({"forward": holder}, tensors)
    layer.train()
    return layer


def difference(loss: Callable[[np.ndarray[Any, Any]], float], at: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The gradient of a loss by central differences."""
    grad = np.zeros_like(at, np.float64)
    for index in np.ndindex(at.shape):
        moved = [at.astype(np.float64), at.astype(np.float64)]
        moved[0][index] += 1e-2
        moved[1][index] -= 1e-2
        grad[index] = (loss(moved[0].astype(np.float32)) - loss(moved[1].astype(np.float32))) / 2e-2
    return grad


def two_layer(rng: np.random.Generator) -> tuple[ProgramDesc, Arrays]:
    """``tanh(x w) w2 + b``: the middle is needed whole, the product with x only by shape."""
    ops = [
        op("matmul_v2", {"Out": "h"}, X="x", Y="w"),
        op("tanh", {"Out": "t"}, X="h"),
        op("matmul_v2", {"Out": "m"}, X="t", Y="w2"),
        op("elementwise_add", {"Out": "y"}, {"axis": -1}, X="m", Y="b"),
        op("reduce_sum", {"Out": "s"}, {"dim": [1], "keep_dim": False, "reduce_all": False}, X="y"),
    ]
    values = {"w": rng.standard_normal((4, 4)), "w2": rng.standard_normal((4, 4)), "b": rng.standard_normal(4)}
    shapes = {name: value.shape for name, value in values.items()} | {"s": (-1,)}
    return program(ops, shapes, "w w2 b"), {name: value.astype(np.float32) for name, value in values.items()}


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(7)


# What test mode leaves out, and what the backward block keeps


def test_test_mode_has_no_backward_block_and_leaves_an_empty_reusable_scope(rng: np.random.Generator) -> None:
    made, values = two_layer(rng)
    pair = ProgramPair(made, None, ("x",), tuple(values), ("s",))
    scope = Scope()
    scope.can_reuse = False
    result = run_forward(pair, [np.ones((2, 4), np.float32)], list(values.values()), scope)
    assert result.outputs[0].shape == (2,)
    assert pair.needed() == (frozenset(), frozenset())
    assert not scope.vars and scope.can_reuse


def test_the_backward_block_keeps_what_it_reads_and_shapes_where_shapes_do(rng: np.random.Generator) -> None:
    made, values = two_layer(rng)
    pair = pair_of(made, "x", "w w2 b", "s")
    scope = Scope()
    run_forward(pair, [np.ones((2, 4), np.float32)], list(values.values()), scope)
    assert not scope.can_reuse
    whole, shapes = pair.needed()
    assert {"x", "w", "t", "w2"} <= whole
    assert {"m", "y"} <= shapes and "h" not in whole | shapes
    assert scope.find_var("t").shape == (2, 4)
    assert isinstance(scope.find_var("m"), Meta) and scope.find_var("m").shape == (2, 4)
    assert "h" not in scope


def test_the_skip_set_leaves_out_what_the_backward_block_makes_itself(rng: np.random.Generator) -> None:
    made, _ = two_layer(rng)
    pair = pair_of(made, "x", "w w2 b", "s")
    assert pair.backward is not None
    whole, shapes = needed_by_backward(pair.backward, pair.forward)
    made_there = {name for each in pair.backward.global_block.ops for name in each.output_names()}
    assert made_there.isdisjoint(whole | shapes)
    assert "s@GRAD" in whole  # handed in from outside


def test_only_the_gradients_asked_for_are_computed(rng: np.random.Generator, caplog: pytest.LogCaptureFixture) -> None:
    made, values = two_layer(rng)
    pair = pair_of(made, "x", "w w2 b", "s")
    scope = Scope()
    run_forward(pair, [np.ones((2, 4), np.float32)], list(values.values()), scope)
    caplog.set_level(logging.DEBUG, "oarlock.executor")
    (d_b,) = run_backward(pair, [np.ones(2, np.float32)], ["b@GRAD"], scope)
    assert d_b.tolist() == [2, 2, 2, 2]
    assert not any("matmul_v2_grad" in record.getMessage() for record in caplog.records)


def test_a_gradient_that_nobody_makes_is_none(rng: np.random.Generator) -> None:
    made, values = two_layer(rng)
    pair = pair_of(made, "x", "w w2 b", "s")
    scope = Scope()
    run_forward(pair, [np.ones((2, 4), np.float32)], list(values.values()), scope)
    assert run_backward(pair, [np.ones(2, np.float32)], ["nobody@GRAD"], scope) == [None]


# Scopes


def test_scopes_take_turns() -> None:
    pool = ScopePool(kept=1)
    first, second = pool.take(), pool.take()
    assert first is not second and not first.can_reuse
    first.set_var("x", np.ones(3))
    pool.give_back(first)
    assert first.can_reuse and not first.vars
    assert pool.take() is first


def test_a_layers_scope_is_in_use_between_forward_and_backward(rng: np.random.Generator) -> None:
    made, values = two_layer(rng)
    layer = layer_of(made, ["x"], ["s"], values)
    loss = layer(np.ones((2, 4), np.float32)).sum()
    pool = layer.program_holder.scopes
    other = pool.take()
    pool.give_back(other)
    loss.backward()
    taken = {id(pool.take()) for _ in range(2)}
    assert id(other) in taken and len(taken) == 2


def test_the_scope_tree_as_text() -> None:
    scope = Scope()
    scope.set_var("x", np.zeros((2, 3), np.float32))
    scope.set_var("list", [np.zeros(4, np.int64)])
    scope.set_var("shape", Meta((5,), np.dtype("float32")))
    scope.can_reuse = False
    child = scope.new_scope()
    child.set_var("rows", LoDTensor(np.zeros((3, 1), np.float64), [[0, 1, 3]]))
    assert scope.describe().splitlines() == [
        "scope (in use, 3 variables, 56 bytes)",
        "  list: list of 1, 32 bytes",
        "  shape: float32[5], shape only",
        "  x: float32[2, 3], 24 bytes",
        "  scope (reusable, 1 variables, 24 bytes)",
        "    rows: float64[3, 1], lod [[0, 1, 3]], 24 bytes",
    ]


# Logs


@pytest.fixture
def silent() -> Iterator[None]:
    yield
    logging.getLogger("oarlock.executor").setLevel(logging.NOTSET)


def test_runs_are_silent_unless_asked(
    rng: np.random.Generator, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    made, values = two_layer(rng)
    layer_of(made, ["x"], ["s"], values)(np.ones((2, 4), np.float32)).sum().backward()
    assert capfd.readouterr() == ("", "")
    assert not caplog.records


def test_the_debug_log_shows_every_step_and_every_lifetime(
    rng: np.random.Generator, caplog: pytest.LogCaptureFixture
) -> None:
    made, values = two_layer(rng)
    layer = layer_of(made, ["x"], ["s"], values)
    caplog.set_level(logging.DEBUG, "oarlock.executor")
    layer(np.ones((2, 4), np.float32)).sum().backward()
    text = "\n".join(record.getMessage() for record in caplog.records)
    assert "run_program forward: 1 inputs, 3 parameters" in text
    assert "block 0 op 1 (tanh): t float32[2, 4]; freed h" in text
    assert "run_program forward leaves\nscope (in use" in text
    assert "  m: float32[2, 4], shape only" in text
    assert "run_program backward: 3 gradients wanted" in text
    assert "(tanh_grad): h@GRAD float32[2, 4]; freed" in text


# Gradients


def test_a_backward_from_some_of_three_outputs(rng: np.random.Generator) -> None:
    """Three fetches of different shapes; the start of backward is not found by counting ops."""

    def make() -> TranslatedLayer:
        ops = [
            op("matmul_v2", {"Out": "h"}, X="x", Y="w"),
            op("reduce_sum", {"Out": "s"}, {"dim": [1], "keep_dim": False, "reduce_all": False}, X="h"),
            op("tanh", {"Out": "t"}, X="h"),
        ]
        return layer_of(program(ops, {"w": (4, 3), "s": (-1,)}, "w"), ["x"], ["h", "s", "t"], {"w": w})

    w = rng.standard_normal((4, 3)).astype(np.float32)
    x = rng.standard_normal((2, 4)).astype(np.float32)
    weights = [rng.standard_normal(shape).astype(np.float32) for shape in ((2, 3), (2,), (2, 3))]
    for used in ((1,), (0, 2), (0, 1, 2)):
        layer = make()
        outputs = layer(x)
        assert [list(each.shape) for each in outputs] == [[2, 3], [2], [2, 3]]
        loss = sum((outputs[i] * oarlock.to_tensor(weights[i])).sum() for i in used)
        loss.backward()

        def value(at: np.ndarray[Any, Any], used: tuple[int, ...] = used) -> float:
            h = x @ at
            return float(
                sum((part * weights[i]).sum() for i, part in enumerate((h, h.sum(1), np.tanh(h))) if i in used)
            )

        (parameter,) = layer.parameters()
        np.testing.assert_allclose(parameter.grad.numpy(), difference(value, w), 2e-2, 2e-3)


def test_outputs_that_nobody_uses_give_zeros_not_none(rng: np.random.Generator) -> None:
    ops = [op("matmul_v2", {"Out": "a"}, X="x", Y="w"), op("matmul_v2", {"Out": "b"}, X="x", Y="w2")]
    w = rng.standard_normal((4, 4)).astype(np.float32)
    made = program(ops, {"w": (4, 4), "w2": (4, 4)}, "w w2")
    layer = layer_of(made, ["x"], ["a", "b"], {"w": w, "w2": w})
    layer(np.ones((2, 4), np.float32))[0].sum().backward()
    used, unused = layer.parameters()
    assert used.grad.numpy().tolist() == [[2.0] * 4] * 4
    assert unused.grad.numpy().tolist() == [[0.0] * 4] * 4


def test_two_outputs_on_one_branch_add_up(rng: np.random.Generator) -> None:
    """Real Paddle needs a scale behind each output for this; the seed of the inner one was lost before."""
    ops = [op("tanh", {"Out": "t"}, X="x"), op("exp", {"Out": "e"}, X="t")]
    layer = layer_of(program(ops, {}), ["x"], ["t", "e"], {})
    x = oarlock.to_tensor(np.array([[0.5, -1.0, 0.0, 2.0]], np.float32), stop_gradient=False)
    inner, outer = layer(x)
    (inner.sum() + outer.sum()).backward()
    t = np.tanh(x.numpy())
    np.testing.assert_allclose(x.grad.numpy(), (1 - t * t) * (1 + np.exp(t)), 1e-5)


def test_one_variable_fetched_twice_gives_two_outputs_with_gradients_of_their_own() -> None:
    layer = layer_of(program([op("square", {"Out": "y"}, X="x")], {}), ["x"], ["y", "y"], {})
    x = oarlock.to_tensor(np.array([[1.0, 2.0, 3.0, 4.0]], np.float32), stop_gradient=False)
    first, second = layer(x)
    assert first is not second
    (first.sum() + 10 * second.sum()).backward()
    assert x.grad.numpy().tolist() == [[22, 44, 66, 88]]


def test_an_output_that_is_the_input_is_a_copy_with_a_gradient() -> None:
    layer = layer_of(program([op("square", {"Out": "y"}, X="x")], {}), ["x"], ["x", "y"], {})
    x = oarlock.to_tensor(np.ones((1, 4), np.float32), stop_gradient=False)
    same, y = layer(x)
    (same.sum() + y.sum()).backward()
    assert x.grad.numpy().tolist() == [[3, 3, 3, 3]]
    with oarlock.no_grad():
        same.set_value(np.zeros((1, 4), np.float32))
    assert x.numpy().tolist() == [[1, 1, 1, 1]]


def test_a_parameter_used_twice_gets_the_sum(rng: np.random.Generator) -> None:
    ops = [
        op("matmul_v2", {"Out": "h"}, X="x", Y="w"),
        op("tanh", {"Out": "t"}, X="h"),
        op("matmul_v2", {"Out": "y"}, X="t", Y="w"),
    ]
    w = rng.standard_normal((4, 4)).astype(np.float32) * 0.5
    x = rng.standard_normal((3, 4)).astype(np.float32)
    layer = layer_of(program(ops, {"w": (4, 4)}, "w"), ["x"], ["y"], {"w": w})
    layer(x).sum().backward()
    want = difference(lambda at: float((np.tanh(x @ at) @ at).sum()), w)
    np.testing.assert_allclose(layer.parameters()[0].grad.numpy(), want, 2e-2, 2e-3)


def test_a_value_written_in_place_keeps_its_gradient_right() -> None:
    """``y = 3x; relu(y) -> y; exp(y) -> y``: three values, one name."""
    ops = [
        op("scale", {"Out": "y"}, {"scale": 3.0, "bias": 0.0, "bias_after_scale": True}, X="x"),
        op("relu", {"Out": "y"}, X="y"),
        op("exp", {"Out": "y"}, X="y"),
    ]
    layer = layer_of(program(ops, {}), ["x"], ["y"], {})
    x = oarlock.to_tensor(np.array([[-1.0, 0.5, 0.1, -0.2]], np.float32), stop_gradient=False)
    out = layer(x)
    np.testing.assert_allclose(out.numpy(), np.exp(np.maximum(3 * x.numpy(), 0)), 1e-6)
    out.sum().backward()
    want = np.where(x.numpy() > 0, 3 * np.exp(3 * x.numpy()), 0)
    np.testing.assert_allclose(x.grad.numpy(), want, 1e-5)


def test_a_program_that_holds_grad_ops_is_trained_through_them() -> None:
    """``x@GRAD = 3 exp(x); y = (x@GRAD)^2``: old gradients are values, the new one of x needs another name."""
    ops = [
        op("exp", {"Out": "h@GRAD"}, X="x"),
        op("scale", {"Out": "x@GRAD"}, {"scale": 3.0, "bias": 0.0, "bias_after_scale": True}, X="h@GRAD"),
        op("square", {"Out": "y"}, X="x@GRAD"),
    ]
    layer = layer_of(program(ops, {}), ["x"], ["y", "x@GRAD"], {})
    x = oarlock.to_tensor(np.array([[0.3, -0.7, 0.0, 1.5]], np.float32), stop_gradient=False)
    y, slope = layer(x)
    np.testing.assert_allclose(slope.numpy(), 3 * np.exp(x.numpy()), 1e-6)
    y.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 18 * np.exp(2 * x.numpy()), 1e-5)
    assert layer.program_holder.grad_var_names.x == ("grad/x@GRAD",)


def test_a_saved_gradient_computation_is_differentiated_by_the_second_order_rules() -> None:
    """``y = (d tanh(x) / dx)^2``."""
    ops = [
        op("tanh", {"Out": "t"}, X="x"),
        op("fill_any_like", {"Out": "t@GRAD"}, {"value": 1.0, "dtype": 5}, X="t"),
        OpDesc("tanh_grad", {"Out": ["t"], "Out@GRAD": ["t@GRAD"]}, {"X@GRAD": ["x@GRAD"]}),
        op("square", {"Out": "y"}, X="x@GRAD"),
    ]
    layer = layer_of(program(ops, {}), ["x"], ["y"], {})
    x = oarlock.to_tensor(np.array([[0.3, -0.7, 0.0, 1.5]], np.float32), stop_gradient=False)
    layer(x).sum().backward()
    t = np.tanh(x.numpy())
    np.testing.assert_allclose(x.grad.numpy(), -4 * (1 - t * t) ** 2 * t, 1e-5, 1e-6)


# Memory


def test_fifty_forwards_whose_outputs_are_dropped_leave_nothing() -> None:
    ops = [op("tanh", {"Out": "t"}, X="x"), op("exp", {"Out": "y"}, X="t")]
    layer = layer_of(program(ops, {"x": (-1, 64)}), ["x"], ["y"], {})
    x = oarlock.to_tensor(np.ones((4096, 64), np.float32), stop_gradient=False)  # 1 MB
    layer(x)
    gc.collect()
    tracemalloc.start()
    try:
        for _ in range(50):
            layer(x)
        gc.collect()
        left, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert left < 200_000
    assert peak < 8 << 20
    out = layer(x)
    out.sum().backward()
    assert x.grad.numpy()[0, 0] == pytest.approx((1 - np.tanh(1) ** 2) * np.exp(np.tanh(1)), rel=1e-5)
