"""``save`` and ``load``: state dicts, optimizer states and nested objects; files of real Paddle 2.6 and 3.3."""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import oarlock
import pytest
from oarlock.errors import FormatError, InputError, NotFoundError

STATES = Path(__file__).parents[1] / "data" / "proto" / "states"
MODELS = Path(__file__).parents[1] / "data" / "models"


def same(a: Any, b: Any) -> bool:
    return type(a) is type(b) and np.array_equal(a.numpy(), b.numpy()) and a.dtype == b.dtype


@pytest.mark.parametrize("version", ["p26", "p33"])
def test_a_state_dict_of_real_paddle(version: str) -> None:
    path = str(STATES / f"{version}_layer.pdparams")
    state = oarlock.load(path)
    assert all(isinstance(value, oarlock.Tensor) and value.stop_gradient for value in state.values())
    table = oarlock.load(path, keep_name_table=True)["StructuredToParameterName@@"]
    assert {key: value.name for key, value in state.items()} == table
    arrays = oarlock.load(path, return_numpy=True)
    assert all(np.array_equal(arrays[key], state[key].numpy()) for key in state)


@pytest.mark.parametrize("version", ["p26", "p33"])
def test_dtypes_of_real_paddle(version: str) -> None:
    state = oarlock.load(str(STATES / f"{version}_dtypes.pd"))
    assert state["b16"].dtype == oarlock.bfloat16
    assert state["f16"].dtype == oarlock.float16
    assert state["b"].dtype == oarlock.bool
    assert state["empty"].shape == [0, 3]


@pytest.mark.parametrize("version", ["p26", "p33"])
def test_a_nested_checkpoint_of_real_paddle(version: str) -> None:
    loaded = oarlock.load(str(STATES / f"{version}_checkpoint_nested.pdparams"))

    def tensors(value: Any) -> list[Any]:
        if isinstance(value, dict):
            return [each for inner in value.values() for each in tensors(inner)]
        if isinstance(value, (list, tuple)):
            return [each for inner in value for each in tensors(inner)]
        return [value] if isinstance(value, oarlock.Tensor) else []

    assert tensors(loaded)
    single = oarlock.load(str(STATES / f"{version}_single_tensor.pdtensor"))
    assert isinstance(single, oarlock.Tensor)


@pytest.mark.parametrize("protocol", [2, 3, 4])
def test_a_layers_state_comes_back(tmp_path: Path, protocol: int) -> None:
    layer = oarlock.nn.Linear(2, 3)
    oarlock.save(layer.state_dict(), str(tmp_path / "a.pdparams"), protocol=protocol)
    other = oarlock.nn.Linear(2, 3)
    missing, unexpected = other.set_state_dict(oarlock.load(str(tmp_path / "a.pdparams")))
    assert not missing and not unexpected
    assert np.array_equal(other.weight.numpy(), layer.weight.numpy())


def test_the_file_is_what_paddle_writes(tmp_path: Path) -> None:
    layer = oarlock.nn.Linear(2, 3)
    oarlock.save(layer.state_dict(), str(tmp_path / "a.pdparams"))
    written = pickle.loads((tmp_path / "a.pdparams").read_bytes())
    assert list(written) == ["weight", "bias", "StructuredToParameterName@@"]
    assert written["StructuredToParameterName@@"] == {"weight": layer.weight.name, "bias": layer.bias.name}
    assert np.array_equal(written["weight"], layer.weight.numpy())


def test_an_optimizers_state_with_its_schedule_comes_back(tmp_path: Path) -> None:
    def train(steps: int, state: Any = None) -> tuple[Any, Any]:
        with oarlock.eager.unique_name.guard():
            layer = oarlock.nn.Linear(2, 1)
        schedule = oarlock.optimizer.lr.StepDecay(0.1, 2)
        optimizer = oarlock.optimizer.Adam(schedule, parameters=layer.parameters())
        if state is not None:
            layer.set_state_dict(state[0])
            optimizer.set_state_dict(state[1])
        else:
            for parameter in layer.parameters():
                parameter.set_value(np.ones(parameter.shape, np.float32))
        for _ in range(steps):
            layer(oarlock.to_tensor([[1.0, 2.0]])).sum().backward()
            optimizer.step()
            optimizer.clear_grad()
            schedule.step()
        return layer, optimizer

    layer, optimizer = train(3)
    oarlock.save(layer.state_dict(), str(tmp_path / "a.pdparams"))
    oarlock.save(optimizer.state_dict(), str(tmp_path / "a.pdopt"))
    state = oarlock.load(str(tmp_path / "a.pdopt"))
    assert state["LR_Scheduler"]["last_epoch"] == 3
    resumed, _ = train(2, (oarlock.load(str(tmp_path / "a.pdparams")), state))
    straight, _ = train(5)
    for a, b in zip(resumed.parameters(), straight.parameters(), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), 1e-6)


def test_tensors_inside_other_objects(tmp_path: Path) -> None:
    weight, plain = oarlock.nn.Linear(2, 3).weight, np.arange(3)
    given = {"model": {"w": weight}, "epoch": 3, "best": [1.5, (weight, plain)], "note": "x", "none": None}
    oarlock.save(given, str(tmp_path / "a.pd"))
    loaded = oarlock.load(str(tmp_path / "a.pd"))
    assert (loaded["epoch"], loaded["best"][0], loaded["note"], loaded["none"]) == (3, 1.5, "x", None)
    assert loaded["model"]["w"].name == weight.name
    assert np.array_equal(loaded["best"][1][0].numpy(), weight.numpy())
    assert isinstance(loaded["best"][1][1], np.ndarray)  # an array stays one beside tensors
    assert isinstance(oarlock.load(str(tmp_path / "a.pd"), return_numpy=True)["model"]["w"], np.ndarray)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float64", "int64", "bool", "complex64"])
def test_every_dtype_comes_back(tmp_path: Path, dtype: str) -> None:
    value = oarlock.to_tensor([1.0, 0.0, 3.0]).astype(dtype)
    oarlock.save({"a": value}, str(tmp_path / "a.pd"))
    assert same(oarlock.load(str(tmp_path / "a.pd"))["a"], value)


def test_one_tensor_as_a_raw_record(tmp_path: Path) -> None:
    value = oarlock.to_tensor([[1.0, 2.0]])
    oarlock.save(value, str(tmp_path / "a.pd"), use_binary_format=True)
    assert (tmp_path / "a.pd").read_bytes()[:1] == b"\0"
    assert same(oarlock.load(str(tmp_path / "a.pd")), value)
    with pytest.raises(InputError, match="writes one Tensor, got list"):
        oarlock.save([value], str(tmp_path / "a.pd"), use_binary_format=True)


def test_streams() -> None:
    stream = io.BytesIO()
    oarlock.save({"a": oarlock.to_tensor([1, 2])}, stream)
    stream.seek(0)
    assert oarlock.load(stream)["a"].tolist() == [1, 2]


def test_the_parameters_of_a_saved_model_by_structured_name() -> None:
    state = oarlock.load(str(MODELS / "bn_finetune" / "model"))
    assert all(isinstance(value, oarlock.Tensor) for value in state.values())
    layer = oarlock.jit.load(str(MODELS / "bn_finetune" / "model"))
    assert len(state) == len(layer.state_dict())
    assert not any(name.startswith("conv2d_0.w") for name in state)


def test_what_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="nowhere"):
        oarlock.load(str(tmp_path / "nowhere"))
    with pytest.raises(InputError, match="Layer object"):
        oarlock.save(oarlock.nn.Linear(1, 1), str(tmp_path / "a"))
    with pytest.raises(InputError, match="but received protocol=5"):
        oarlock.save({}, str(tmp_path / "a"), protocol=5)
    with pytest.raises(InputError):
        oarlock.save({"f": print}, str(tmp_path / "a"))
    (tmp_path / "bad").write_bytes(b"\x80\x04 nothing")
    with pytest.raises(FormatError, match="bad"):
        oarlock.load(str(tmp_path / "bad"))
    assert [path.name for path in tmp_path.iterdir()] == ["bad"]
