"""Training a loaded layer: when the backward program is built, what a call keeps, what gradients come out."""

from __future__ import annotations

import gc
import sys
import threading
import tracemalloc
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import oarlock
import pytest
from oarlock.ir import BlockDesc, OpDesc, ProgramDesc
from oarlock.ir.train_mode import in_train_mode
from oarlock.jit import TranslatedLayer, holder

MODELS = Path(__file__).parents[1] / "data" / "models"


def load(name: str) -> TranslatedLayer:
    folder = MODELS / name
    return oarlock.jit.load(str(folder / "model") if (folder / "model.pdmodel").exists() else str(folder))


@pytest.fixture
def layer() -> TranslatedLayer:
    return load("bn_finetune")


def inputs(layer: TranslatedLayer) -> list[Any]:
    """Random inputs of the declared shapes, 4 where a size is free."""
    rng = np.random.default_rng(0)
    made = []
    for spec in layer._input_spec():
        shape = [4 if dim < 0 else dim for dim in spec.shape]
        made.append(oarlock.to_tensor(rng.standard_normal(shape).astype(np.float32)))
    return made


def grads(layer: TranslatedLayer) -> dict[str, Any]:
    return {n: None if p.grad is None else p.grad.numpy() for n, p in layer.named_parameters()}


@pytest.mark.parametrize("name", sorted(path.name for path in MODELS.iterdir()))
def test_loading_and_inference_build_no_backward(name: str, sample: Any) -> None:
    taken = sample(name)
    layer = oarlock.jit.load(taken.path)
    for _ in range(3):
        layer(*taken.inputs().values())
    assert not any(holder.is_backward_built for holder in layer._program_holder_dict.values())


def test_the_first_training_call_builds_the_backward_once(layer: TranslatedLayer) -> None:
    layer.train()
    assert not layer.program_holder.is_backward_built
    layer(*inputs(layer)).sum().backward()
    built = layer.program_holder.train_program
    layer(*inputs(layer)).sum().backward()
    assert layer.program_holder.train_program is built


def test_train_mode_without_gradients_builds_no_backward(layer: TranslatedLayer) -> None:
    layer.train()
    with oarlock.no_grad():
        output = layer(*inputs(layer))
    assert output.stop_gradient
    assert not layer.program_holder.is_backward_built


def test_threads_at_their_first_training_call_build_it_once(
    layer: TranslatedLayer, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[int] = []
    real = holder.build_train_program
    monkeypatch.setattr(holder, "build_train_program", lambda *args: (built.append(1), real(*args))[1])
    layer.train()
    threads = [threading.Thread(target=lambda: layer(*inputs(layer))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert built == [1]


def test_outputs_of_train_mode_carry_gradients(layer: TranslatedLayer) -> None:
    layer.train()
    output = layer(*inputs(layer))
    assert not output.stop_gradient
    output.sum().backward()
    assert all(grad is not None for name, grad in grads(layer).items() if not layer._parameters[name].stop_gradient)


def test_two_forwards_before_a_backward_do_not_disturb_each_other(layer: TranslatedLayer) -> None:
    layer.train()
    (x,) = inputs(layer)
    layer(x).sum().backward()
    alone = grads(layer)
    for parameter in layer.parameters():
        parameter.clear_gradient(False)
    first = layer(x)
    layer(x * 3.0)
    first.sum().backward()
    for name, grad in grads(layer).items():
        if grad is not None:
            np.testing.assert_allclose(grad, alone[name], 1e-5, 1e-6)


def test_a_second_backward_needs_retain_graph(layer: TranslatedLayer) -> None:
    layer.train()
    loss = layer(*inputs(layer)).sum()
    loss.backward(retain_graph=True)
    once = grads(layer)
    loss.backward()
    for name, grad in grads(layer).items():
        if grad is not None:
            np.testing.assert_allclose(grad, 2 * once[name], 1e-5, 1e-6)
    with pytest.raises(SystemError, match="retain_graph"):
        loss.backward()


def test_inputs_get_gradients_when_they_ask(layer: TranslatedLayer) -> None:
    layer.train()
    (x,) = inputs(layer)
    x.stop_gradient = False
    layer(x).sum().backward()
    assert x.grad.shape == x.shape


def test_a_parameter_changed_between_forward_and_backward_is_noticed(layer: TranslatedLayer) -> None:
    layer.train()
    output = layer(*inputs(layer))
    weight = next(p for p in layer.parameters() if not p.stop_gradient and p.ndim > 1)
    with oarlock.no_grad():
        weight.scale_(2.0)
    with pytest.raises(RuntimeError, match=r"\(PermissionDenied\).*modified by an inplace operation"):
        output.sum().backward()


def test_a_parameter_changed_between_inferences_is_noticed(layer: TranslatedLayer) -> None:
    (x,) = inputs(layer)
    before = layer(x).numpy()
    with oarlock.no_grad():
        for parameter in layer.parameters():
            parameter.scale_(1.5)
    assert not np.allclose(layer(x).numpy(), before)


def test_a_frozen_parameter_gets_no_gradient_and_is_left_alone(layer: TranslatedLayer) -> None:
    weight = next(p for p in layer.parameters() if not p.stop_gradient)
    weight.trainable = False
    assert weight.stop_gradient
    kept = weight.numpy()
    layer.train()
    optimizer = oarlock.optimizer.SGD(0.1, parameters=layer.parameters())
    layer(*inputs(layer)).sum().backward()
    optimizer.step()
    assert weight.grad is None
    assert np.array_equal(weight.numpy(), kept)
    weight.stop_gradient = False
    optimizer.clear_grad()
    layer(*inputs(layer)).sum().backward()
    assert weight.trainable
    assert weight.grad is not None


def test_running_statistics_move_in_training_and_are_used_in_eval(layer: TranslatedLayer) -> None:
    (x,) = inputs(layer)
    before = layer(x).numpy()
    layer.train()
    for _ in range(3):
        layer(x * 2.0 + 1.0)
    layer.eval()
    assert not layer.training
    moved = layer(x).numpy()
    assert not np.allclose(moved, before)
    assert np.array_equal(layer(x).numpy(), moved)


def test_dropout_draws_in_training_and_rests_in_eval() -> None:
    layer = load("dropout_upscale")
    (x,) = inputs(layer)
    assert np.array_equal(layer(x).numpy(), layer(x).numpy())
    layer.train()
    assert not np.array_equal(layer(x).numpy(), layer(x).numpy())
    layer.eval()
    assert np.array_equal(layer(x).numpy(), layer(x).numpy())


def test_a_layer_around_a_loaded_one_switches_its_mode() -> None:
    """Real Paddle sets ``training`` of the inner layer and goes on inferring."""
    outer = oarlock.nn.Sequential(load("dropout_upscale"), oarlock.nn.Linear(2, 2))
    inner = outer[0]
    (x,) = inputs(inner)
    assert np.array_equal(inner(x).numpy(), inner(x).numpy())
    outer.train()
    assert not np.array_equal(inner(x).numpy(), inner(x).numpy())
    outer.eval()
    assert np.array_equal(inner(x).numpy(), inner(x).numpy())
    assert (inner.training, inner._is_test) == (False, True)


def test_what_a_dropped_forward_kept_is_freed(layer: TranslatedLayer) -> None:
    layer.train()
    output = layer(*inputs(layer))
    kept = weakref.ref(output.grad_fn)
    scope = output.grad_fn._scope
    assert scope.vars and not scope.can_reuse
    del output
    gc.collect()
    assert kept() is None
    assert not scope.vars and scope.can_reuse


def test_two_loads_share_no_weights() -> None:
    one, other = load("bn_finetune"), load("bn_finetune")
    one.train()
    one(*inputs(one)).sum().backward()
    oarlock.optimizer.SGD(1.0, parameters=one.parameters()).step()
    assert not np.array_equal(one.parameters()[0].numpy(), other.parameters()[0].numpy())
    assert {p.name for p in one.parameters()}.isdisjoint({p.name for p in other.parameters()})


def test_a_trained_layer_saved_and_loaded_gives_the_same_bits(layer: TranslatedLayer, tmp_path: Path) -> None:
    layer.train()
    layer(*inputs(layer)).sum().backward()
    oarlock.optimizer.SGD(0.1, parameters=layer.parameters()).step()
    layer.eval()
    oarlock.jit.save(layer, tmp_path / "again")
    again = oarlock.jit.load(tmp_path / "again")
    (x,) = inputs(layer)
    assert np.array_equal(layer(x).numpy(), again(x).numpy())
    assert sorted(p.name for p in tmp_path.iterdir()) == ["again.pdiparams", "again.pdiparams.info", "again.pdmodel"]


def test_an_unchanged_layer_saves_back_to_the_same_program(layer: TranslatedLayer, tmp_path: Path) -> None:
    oarlock.jit.save(layer, tmp_path / "again")
    assert (tmp_path / "again.pdmodel").read_bytes() == (MODELS / "bn_finetune" / "model.pdmodel").read_bytes()


def test_saving_over_files_that_cannot_be_replaced_leaves_them_whole(
    layer: TranslatedLayer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    oarlock.jit.save(layer, tmp_path / "m")
    kept = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def fail(stream: Any, values: Any) -> None:
        stream.write(b"half")
        raise OSError("disk full")

    # The package's name for this module is the function that it holds.
    monkeypatch.setattr(sys.modules["oarlock.jit.save"], "dump_params", fail)
    with pytest.raises(OSError, match="disk full"):
        oarlock.jit.save(layer, tmp_path / "m")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == kept


def test_two_hundred_steps_leave_nothing_behind(layer: TranslatedLayer) -> None:
    (x,) = inputs(layer)
    layer.train()
    optimizer = oarlock.optimizer.Momentum(1e-3, 0.9, parameters=layer.parameters())

    def steps(count: int) -> None:
        for _ in range(count):
            layer(x).sum().backward()
            optimizer.step()
            optimizer.clear_grad()

    steps(5)
    gc.collect()
    tracemalloc.start()
    try:
        steps(50)
        gc.collect()
        before, _ = tracemalloc.get_traced_memory()
        steps(150)
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after < before + 20_000


def test_an_observer_without_running_state_keeps_its_range_in_training() -> None:
    """Quantised models for inference leave the running state of their ranges out."""
    ops = {"fake_quantize_dequantize_moving_average_abs_max": True, "dropout": False}
    made = [OpDesc(type, {"X": ["x"]}, {"Out": [type]}, {"is_test": True}) for type in ops]
    made.append(OpDesc(made[0].type, {"InAccum": ["a"], "InState": ["s"]}, {}, {"is_test": True}))
    program = in_train_mode(ProgramDesc([BlockDesc(0, -1, {}, made)]))
    assert [op.attrs["is_test"] for op in program.global_block.ops] == [True, False, False]
