"""Static mode: loaded layers added to a program that is built, run, trained and saved."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import oarlock
import pytest
from oarlock import static
from oarlock.errors import InputError

F32 = np.float32


@pytest.fixture(autouse=True)
def static_mode() -> Iterator[None]:
    oarlock.enable_static()
    with static.program_guard(static.Program(), static.Program()):
        yield
    oarlock.disable_static()


def dynamic(layer: Any, *inputs: Any) -> list[np.ndarray[Any, Any]]:
    """What the layer gives when it runs at once."""
    oarlock.disable_static()
    outputs = layer(*inputs)
    oarlock.enable_static()
    return [each.numpy() for each in (outputs if isinstance(outputs, list) else [outputs])]


def mean_of(var: static.Variable) -> static.Variable:
    block = static.default_main_program().global_block()
    loss = block.create_var(f"{var.name}.mean", [], "float32")
    block.append_op("reduce_mean", {"X": var}, {"Out": loss}, {"reduce_all": True, "dim": [0], "keep_dim": False})
    return loss


def test_the_mode_is_told() -> None:
    assert not oarlock.in_dynamic_mode()
    oarlock.disable_static()
    assert oarlock.in_dynamic_mode()


def test_a_called_layer_becomes_ops_and_returns_variables(sample: Any) -> None:
    layer = oarlock.jit.load(sample("two_in_two_out").path)
    x, y = static.data("a", [None, 4]), static.data("b", [None, 4])
    outputs = layer(x, y)
    assert [type(each) for each in outputs] == [static.Variable, static.Variable]
    ops = static.default_main_program().global_block().ops
    assert [(op.type, op.input("X")) for op in ops[:2]] == [("assign", "a"), ("assign", "b")]
    inputs = sample("two_in_two_out").inputs()
    feed = dict(zip(("a", "b"), inputs.values(), strict=True))
    got = static.Executor().run(feed=feed, fetch_list=outputs)
    for mine, theirs in zip(got, dynamic(layer, *inputs.values()), strict=True):
        assert np.array_equal(mine, theirs)


def test_calling_twice_shares_weights_and_nothing_else(sample: Any) -> None:
    layer = oarlock.jit.load(sample("two_in_two_out").path)
    x = static.data("x", [None, 4])
    first, second = layer(x, x), layer(x, x)
    program = static.default_main_program()
    names = [op.output("Out") for op in program.global_block().ops if op.type != "fetch"]
    assert len(names) == len(set(names))
    assert len(program.all_parameters()) == len(layer.parameters())
    assert not {each.name for each in first} & {each.name for each in second}
    value = np.ones((2, 4), F32)
    got = static.Executor().run(feed={"x": value}, fetch_list=[first[0], second[0]])
    assert np.array_equal(got[0], got[1])


def test_two_layers_that_name_their_weights_alike_keep_their_own(sample: Any) -> None:
    one = oarlock.jit.load(sample("two_in_two_out").path)
    other = oarlock.jit.load(sample("two_in_two_out").path)
    oarlock.disable_static()
    other.parameters()[0].set_value(other.parameters()[0].numpy() * 2)
    oarlock.enable_static()
    x = static.data("x", [None, 4])
    a, b = one(x, x)[0], other(x, x)[0]
    value = np.ones((2, 4), F32)
    got = static.Executor().run(feed={"x": value}, fetch_list=[a, b])
    assert np.array_equal(got[0], dynamic(one, value, value)[0])
    assert np.array_equal(got[1], dynamic(other, value, value)[0])
    assert not np.array_equal(got[0], got[1])


@pytest.mark.parametrize("name", ["cf_while_sum", "cf_cond_api"])
def test_sub_blocks_are_numbered_on(name: str, sample: Any) -> None:
    layer = oarlock.jit.load(sample(name).path)
    inputs = list(sample(name).inputs().values())
    data = [static.data(f"in{i}", list(each.shape), each.dtype) for i, each in enumerate(inputs)]
    layer(*data)
    out = layer(*data)
    program = static.default_main_program()
    inner = len(layer.program().blocks) - 1
    assert program.num_blocks == 1 + 2 * inner
    assert [block.idx for block in program.blocks] == list(range(1 + 2 * inner))
    feed = {var.name: value for var, value in zip(data, inputs, strict=True)}
    got = static.Executor().run(feed=feed, fetch_list=out)
    for mine, theirs in zip(got, dynamic(layer, *inputs), strict=True):
        np.testing.assert_allclose(mine, theirs, 1e-6)


def test_gradients_through_a_layer_agree_with_running_at_once(sample: Any) -> None:
    layer = oarlock.jit.load(sample("bn_finetune").path)
    layer.train()
    (value,) = sample("bn_finetune").inputs().values()
    x = static.data("x", [None, *value.shape[1:]])
    loss = mean_of(layer(x))
    pairs = static.append_backward(loss)
    trained = {each.name for each in layer.parameters() if not each.stop_gradient}
    assert {parameter.name for parameter, _ in pairs} == trained
    assert len(trained) < len(layer.parameters())  # running statistics have no gradient
    before = {name: each.numpy() for name, each in layer.state_dict().items()}
    got = static.Executor().run(feed={"x": value}, fetch_list=[loss, *(gradient for _, gradient in pairs)])
    moved = {name: each.numpy() for name, each in layer.state_dict().items()}
    statistics = {name for name, each in layer.state_dict().items() if each.stop_gradient}
    assert {name for name in before if not np.array_equal(before[name], moved[name])} == statistics

    oarlock.disable_static()
    layer.set_state_dict(before)
    out = layer(value).mean()
    out.backward()
    assert float(out) == pytest.approx(float(got[0]), rel=1e-6)
    by_name = {each.name: each.grad.numpy() for each in layer.parameters() if each.name in trained}
    for (parameter, _), gradient in zip(pairs, got[1:], strict=True):
        want = by_name[parameter.name]
        np.testing.assert_allclose(gradient, want, 1e-4, 1e-6 * np.abs(want).max() + 1e-7)


def test_an_sgd_op_trains_the_layers_own_tensors(sample: Any) -> None:
    layer = oarlock.jit.load(sample("two_in_two_out").path)
    x = static.data("x", [None, 4])
    loss = mean_of(layer(x, x)[0])
    pairs = static.append_backward(loss)
    rate = static.create_global_var([1], 0.5, name="rate")
    block = static.default_main_program().global_block()
    for parameter, gradient in pairs:
        slots = {"Param": parameter, "Grad": gradient, "LearningRate": rate}
        block.append_op("sgd", slots, {"ParamOut": parameter})
    exe = static.Executor()
    assert exe.run(static.default_startup_program()) == []
    before = {each.name: each.numpy() for each in layer.parameters()}
    value = np.ones((2, 4), F32)
    losses, gradients = [], []
    for _ in range(3):
        found = exe.run(feed={"x": value}, fetch_list=[loss, *(gradient for _, gradient in pairs)])
        losses.append(float(found[0]))
        gradients.append(dict(zip((p.name for p, _ in pairs), found[1:], strict=True)))
    assert losses[0] > losses[1] > losses[2]
    for each in layer.parameters():
        if each.name in gradients[0]:
            want = before[each.name] - 0.5 * sum(found[each.name] for found in gradients)
            np.testing.assert_allclose(each.numpy(), want, 1e-5, 1e-6)


def test_gradients_of_inputs(sample: Any) -> None:
    layer = oarlock.jit.load(sample("two_in_two_out").path)
    x, y = static.data("x", [None, 4]), static.data("y", [None, 4])
    x.stop_gradient = False
    first, _ = layer(x, y)
    d_x, d_y = static.gradients(first, [x, y])
    assert d_x is not None and d_y is None
    value = np.ones((2, 4), F32)
    (got,) = static.Executor().run(feed={"x": value, "y": value}, fetch_list=[d_x])
    assert got.shape == (2, 4) and np.abs(got).max() > 0


def test_the_layers_own_inputs_need_no_feed(sample: Any) -> None:
    """A program that was exported from static mode marks its inputs as checked feeds."""
    layer = oarlock.jit.load(sample("static_conv_bn").path)
    (value,) = sample("static_conv_bn").inputs().values()
    out = layer(static.data("mine", list(value.shape)))
    (got,) = static.Executor().run(feed={"mine": value}, fetch_list=out)
    assert np.array_equal(got, dynamic(layer, value)[0])


def test_what_a_layer_refuses_in_static_mode(sample: Any) -> None:
    layer = oarlock.jit.load(sample("two_in_two_out").path)
    x = static.data("x", [None, 4])
    with pytest.raises(InputError, match=r"takes variables of the program, got ndarray; make one with static\.data"):
        layer(x, np.ones((2, 4), F32))
    with static.program_guard(static.Program()):
        elsewhere = static.data("x", [None, 4])
    with pytest.raises(InputError, match="belongs to another program"):
        layer(x, elsewhere)
    with pytest.raises(InputError, match=r"misses input\(s\) y"):
        layer(x)


def test_a_missing_feed_is_named(sample: Any) -> None:
    layer = oarlock.jit.load(sample("two_in_two_out").path)
    out = layer(static.data("x", [None, 4]), static.data("y", [None, 4]))
    with pytest.raises(InputError, match="'feed_targets' does not have y variable"):
        static.Executor().run(feed={"x": np.ones((2, 4), F32)}, fetch_list=out)


def test_save_inference_model_keeps_what_the_fetches_need(sample: Any, tmp_path: Path) -> None:
    layer = oarlock.jit.load(sample("two_in_two_out").path)
    x, y = static.data("x", [None, 4]), static.data("y", [None, 4])
    first, _ = layer(x, y)
    loss = mean_of(first)
    static.append_backward(loss)
    exe = static.Executor()
    static.save_inference_model(str(tmp_path / "m"), [x, y], [first], exe)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.pdiparams", "m.pdmodel"]
    program, feeds, fetches = static.load_inference_model(str(tmp_path / "m"), exe)
    assert feeds == ["x", "y"]
    assert not [op for op in program.global_block().ops if op.type.endswith("_grad") or op.type == "reduce_mean"]
    value = np.ones((2, 4), F32)
    (got,) = exe.run(program, feed={"x": value, "y": value}, fetch_list=fetches)
    assert np.array_equal(got, dynamic(layer, value, value)[0])
    oarlock.disable_static()
    again = oarlock.jit.load(str(tmp_path / "m"))
    assert np.array_equal(again(value, value).numpy(), got)


def test_save_inference_model_names_the_input_that_is_missing(sample: Any, tmp_path: Path) -> None:
    layer = oarlock.jit.load(sample("two_in_two_out").path)
    x, y = static.data("x", [None, 4]), static.data("y", [None, 4])
    outputs = layer(x, y)
    with pytest.raises(InputError, match="need 'y', which feed_vars lacks"):
        static.save_inference_model(str(tmp_path / "m"), [x], outputs, None)
    assert not list(tmp_path.iterdir())


def test_an_output_that_is_written_in_place_at_the_end_is_kept() -> None:
    """``y = 2x; relu(y) -> y``: pruning to y keeps the relu."""
    block = static.default_main_program().global_block()
    x = static.data("x", [None, 4])
    y = block.create_var("y", [None, 4])
    block.append_op("scale", {"X": x}, {"Out": y}, {"scale": 2.0})
    block.append_op("relu", {"X": y}, {"Out": y})
    made = static.normalize_program(static.default_main_program(), x, y)
    assert [op.type for op in made.global_block().ops] == ["feed", "scale", "relu", "scale", "fetch"]
    (got,) = static.Executor().run(made, feed={"x": np.array([[-1, 0, 1, 2]], F32)})
    assert got.tolist() == [[0, 0, 2, 4]]
