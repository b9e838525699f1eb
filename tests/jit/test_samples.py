"""The sample models through ``jit.load``: real Paddle's numbers, shapes and dtypes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import oarlock
import pytest

NAMES = sorted(path.name for path in (Path(__file__).parent.parent / "data" / "models").iterdir())


def listed(outputs: Any) -> list[Any]:
    return [each.numpy() for each in (outputs if isinstance(outputs, list) else [outputs])]


@pytest.mark.parametrize("name", NAMES)
def test_a_sample_gives_what_paddle_gave(name: str, sample: Any) -> None:
    layer = oarlock.jit.load(sample(name).path)
    for case in range(sample(name).cases):
        got, want = listed(layer(*sample(name).inputs(case).values())), sample(name).outputs(case)
        assert [(each.dtype, each.shape) for each in got] == [(each.dtype, each.shape) for each in want]
        for mine, theirs in zip(got, want, strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-5)


def test_the_samples_are_there() -> None:
    assert len(NAMES) == 20


def test_inputs_may_be_given_by_name_in_any_order(sample: Any) -> None:
    layer = oarlock.jit.load(sample("two_in_two_out").path)
    given = sample("two_in_two_out").inputs()
    by_place = listed(layer(given["x"], given["y"]))
    by_name = listed(layer(y=given["y"], x=given["x"]))
    mixed = listed(layer(given["x"], y=given["y"]))
    assert all(np.array_equal(a, b) and np.array_equal(a, c) for a, b, c in zip(by_place, by_name, mixed, strict=True))


def test_tensors_and_arrays_are_equal_inputs(sample: Any) -> None:
    layer = oarlock.jit.load(sample("slash_names").path)
    x = sample("slash_names").inputs()["x"]
    assert np.array_equal(layer(x).numpy(), layer(oarlock.to_tensor(x)).numpy())


def test_an_input_tensor_keeps_its_name(sample: Any) -> None:
    layer = oarlock.jit.load(sample("slash_names").path)
    x = oarlock.to_tensor(sample("slash_names").inputs()["x"])
    x.name = "mine"
    layer(x)
    assert x.name == "mine"


def test_one_output_comes_bare_and_several_as_a_list(sample: Any) -> None:
    one = oarlock.jit.load(sample("slash_names").path)(sample("slash_names").inputs()["x"])
    two = oarlock.jit.load(sample("two_in_two_out").path)(*sample("two_in_two_out").inputs().values())
    assert isinstance(one, oarlock.Tensor)
    assert isinstance(two, list)
    assert len(two) == 2


def test_outputs_of_inference_carry_no_gradient(sample: Any) -> None:
    x = oarlock.to_tensor(sample("slash_names").inputs()["x"])
    x.stop_gradient = False
    made = oarlock.jit.load(sample("slash_names").path)(x)
    assert made.stop_gradient is True


def test_batch_sizes_other_than_the_saved_one(sample: Any) -> None:
    layer = oarlock.jit.load(sample("slash_names").path)
    x = sample("slash_names").inputs()["x"]
    assert layer(np.concatenate([x, x])).shape == [6, 2]
    assert layer(x[:0]).shape == [0, 2]
    np.testing.assert_allclose(layer(x[1:2]).numpy()[0], layer(x).numpy()[1], rtol=1e-6)


def test_specs_name_inputs_and_outputs(sample: Any) -> None:
    layer = oarlock.jit.load(sample("two_in_two_out").path)
    assert [spec.name for spec in layer._input_spec()] == ["x", "y"]
    assert [tuple(spec.shape) for spec in layer._input_spec()] == [(-1, 4), (-1, 4)]
    assert [tuple(spec.shape) for spec in layer._output_spec()] == [(-1, 3), (-1, 3)]


def test_parameters_are_named_by_their_order(sample: Any) -> None:
    layer = oarlock.jit.load(sample("bn_finetune").path)
    assert sorted(layer.state_dict()) == sorted(
        [name for name, _ in layer.named_parameters()] + [name for name, _ in layer.named_buffers()]
    )
    assert all(name.startswith("param_") for name, _ in layer.named_parameters())
    assert {name: tensor.stop_gradient for name, tensor in layer.named_buffers()} == {}
    moved = {name: tensor.stop_gradient for name, tensor in layer.named_parameters() if tensor.stop_gradient}
    assert len(moved) == 4  # running mean and variance of two batch norms


def test_inference_builds_no_backward_program(sample: Any) -> None:
    layer = oarlock.jit.load(sample("bn_finetune").path)
    layer(*sample("bn_finetune").inputs().values())
    assert layer.program_holder.is_backward_built is False


def test_the_program_that_users_see_is_not_the_optimised_one(sample: Any) -> None:
    layer = oarlock.jit.load(sample("bn_finetune").path)
    before = [op.type for op in layer.program().global_block.ops]
    layer(*sample("bn_finetune").inputs().values())
    assert [op.type for op in layer.program().global_block.ops] == before
    assert "batch_norm" in before
