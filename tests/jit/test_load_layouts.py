"""Where ``jit.load`` finds a model: every layout of Paddle 1.x and 2.x, names of any spelling, no parameters.

The rows of public reports that a test replays are named in it: B01 (no parameters), B02 (the parameter file is
missing), B03 (dots in the prefix), B04 (what to pass), B14 (spelling), B15 (old layouts), B18 (what an output may
share), B20 (methods beside ``forward``).
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import oarlock
import pytest
from oarlock.errors import FormatError, InputError, NotFoundError
from oarlock.proto.pdiparams import read_params, write_params

F32 = np.float32


def place(sample: Any, prefix: Path) -> Path:
    """Copy a sample saved as ``model`` so that it lies under another prefix."""
    prefix.parent.mkdir(parents=True, exist_ok=True)
    for file in sample.folder.glob("model*"):
        shutil.copyfile(file, f"{prefix}{file.name.removeprefix('model')}")
    return prefix


def check(layer: Any, sample: Any) -> None:
    """The layer gives what real Paddle gave for the sample."""
    outputs = layer(*sample.inputs().values())
    got = [each.numpy() for each in (outputs if isinstance(outputs, list) else [outputs])]
    for mine, theirs in zip(got, sample.outputs(), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-5)


# Prefixes (B03, B14)


@pytest.mark.parametrize(
    "name",
    ["export.jit", "v1.2/model", "model.v2", "ends.", "with space", "模型/ĉapelo 🙂/inference", "a.pdmodel"],
)
@pytest.mark.parametrize("kind", [str, Path])
def test_a_prefix_of_any_spelling(name: str, kind: type, sample: Any, tmp_path: Path) -> None:
    place(sample("slash_names"), Path(f"{tmp_path}/{name}"))
    check(oarlock.jit.load(kind(f"{tmp_path}/{name}")), sample("slash_names"))


def test_a_relative_prefix(sample: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place(sample("slash_names"), tmp_path / "net")
    monkeypatch.chdir(tmp_path)
    check(oarlock.jit.load("net"), sample("slash_names"))


def test_a_prefix_that_another_one_begins_with(sample: Any, tmp_path: Path) -> None:
    place(sample("slash_names"), tmp_path / "net")
    place(sample("unicode_names"), tmp_path / "net2")
    check(oarlock.jit.load(tmp_path / "net"), sample("slash_names"))
    assert sorted(oarlock.jit.load(tmp_path / "net")._program_holder_dict) == ["forward"]


# What may be passed (B04)


def test_prefix_program_file_and_folder_give_the_same(sample: Any, tmp_path: Path) -> None:
    prefix = place(sample("slash_names"), tmp_path / "m" / "inference")
    for path in (prefix, f"{prefix}.pdmodel", prefix.parent, f"{prefix.parent}/"):
        check(oarlock.jit.load(path), sample("slash_names"))


def test_a_program_file_under_a_name_of_its_own(sample: Any, tmp_path: Path) -> None:
    shutil.copyfile(sample("slash_names").folder / "model.pdmodel", tmp_path / "network.bin")
    shutil.copyfile(sample("slash_names").folder / "model.pdiparams", tmp_path / "weights.bin")
    layer = oarlock.jit.load(tmp_path, model_filename="network.bin", params_filename="weights.bin")
    check(layer, sample("slash_names"))


def test_nothing_there_is_an_error_that_lists_what_lies_there(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").touch()
    with pytest.raises(NotFoundError, match=r"no model at .*net.*net\.pdmodel.*holds model\.onnx"):
        oarlock.jit.load(tmp_path / "net")
    with pytest.raises(ValueError, match=r"holds model\.onnx"):
        oarlock.jit.load(tmp_path)


def test_a_prefix_that_is_a_folder_too_is_ambiguous(sample: Any, tmp_path: Path) -> None:
    place(sample("slash_names"), tmp_path / "net")
    (tmp_path / "net").mkdir()
    with pytest.raises(InputError, match="both exist"):
        oarlock.jit.load(tmp_path / "net")


def test_a_parameter_file_is_no_model(sample: Any) -> None:
    path = sample("slash_names").folder / "model.pdiparams"
    with pytest.raises(FormatError, match=r"holds parameters, not a program: pass the model's prefix"):
        oarlock.jit.load(path)


def test_an_unknown_option_is_refused(sample: Any) -> None:
    with pytest.raises(ValueError, match=r"The additional config \(params\) of `paddle.jit.load` is not supported"):
        oarlock.jit.load(sample("slash_names").path, params="x")


# Layouts of Paddle 1.x (B15)


def test_model_with_one_file_per_parameter(sample: Any) -> None:
    check(oarlock.jit.load(sample("fluid_dir_separate").folder), sample("fluid_dir_separate"))


def test_model_with_combined_parameters(sample: Any) -> None:
    check(oarlock.jit.load(sample("fluid_dir_combined").folder), sample("fluid_dir_combined"))
    named = {"model_filename": "__model__", "params_filename": "__params__"}
    check(oarlock.jit.load(sample("fluid_dir_combined").folder, **named), sample("fluid_dir_combined"))


def test_model_and_params_without_underscores(sample: Any, tmp_path: Path) -> None:
    shutil.copyfile(sample("fluid_dir_combined").folder / "__model__", tmp_path / "model")
    shutil.copyfile(sample("fluid_dir_combined").folder / "__params__", tmp_path / "params")
    check(oarlock.jit.load(tmp_path), sample("fluid_dir_combined"))


def test_a_slash_in_the_name_of_a_parameter_is_a_folder(sample: Any, tmp_path: Path) -> None:
    folder = sample("slash_names").folder
    shutil.copyfile(folder / "model.pdmodel", tmp_path / "__model__")
    names = [var.name for var in oarlock.jit.load(sample("slash_names").path).program().persistables()]
    assert any("/" in name for name in names)
    for name, value in read_params(folder / "model.pdiparams", names).items():
        write_params(tmp_path / name, {name: value})
    check(oarlock.jit.load(tmp_path), sample("slash_names"))


def test_a_parameter_cannot_lead_out_of_the_folder(one_op_program: Any, tmp_path: Path) -> None:
    name = "../outside"
    slots = {"X": ["x"], "Y": [name]}
    variables = {"x": ("float32", [-1]), name: ("float32", [1]), "y": ("float32", [-1])}
    program = one_op_program("elementwise_add", slots, {"Out": ["y"]}, variables, (name,))
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "__model__").write_bytes(program)
    write_params(tmp_path / "outside", {name: np.ones(1, F32)})
    with pytest.raises(FormatError, match=r"names no file inside the model's folder"):
        oarlock.jit.load(tmp_path / "m")


# No parameters (B01), a missing file (B02)


def test_a_program_without_parameters_needs_no_file(one_op_program: Any, tmp_path: Path) -> None:
    variables = {name: ("float32", [-1]) for name in ("x", "y", "z")}
    program = one_op_program("elementwise_add", {"X": ["x"], "Y": ["y"]}, {"Out": ["z"]}, variables)
    (tmp_path / "add.pdmodel").write_bytes(program)
    layer = oarlock.jit.load(tmp_path / "add")
    assert layer.state_dict() == {}
    assert layer(np.array([1, 2], F32), np.array([3, 4], F32)).tolist() == [4, 6]


def test_a_program_that_only_hands_its_input_on(one_op_program: Any, tmp_path: Path) -> None:
    program = one_op_program("", {}, {}, {"x": ("float32", [-1, 2])}, fetches=("x",))
    (tmp_path / "same.pdmodel").write_bytes(program)
    x = np.array([[1, 2]], F32)
    made = oarlock.jit.load(tmp_path / "same")(x)
    assert made.tolist() == [[1, 2]]
    x[:] = 0
    assert made.tolist() == [[1, 2]]


def test_a_missing_parameter_file_is_named_with_what_it_should_hold(one_op_program: Any, tmp_path: Path) -> None:
    variables = {"x": ("float32", [-1, 3]), "w": ("float32", [2, 3]), "y": ("float32", [-1, 3])}
    program = one_op_program("elementwise_add", {"X": ["x"], "Y": ["w"]}, {"Out": ["y"]}, variables, ("w",))
    (tmp_path / "net.pdmodel").write_bytes(program)
    with pytest.raises(NotFoundError, match=r"net\.pdiparams' is missing: 1 parameter expected: w float32\[2, 3\]"):
        oarlock.jit.load(tmp_path / "net")


def test_with_and_without_the_info_file(sample: Any, tmp_path: Path) -> None:
    place(sample("bn_finetune"), tmp_path / "net")
    with_info = oarlock.jit.load(tmp_path / "net")
    Path(f"{tmp_path / 'net'}.pdiparams.info").unlink()
    without = oarlock.jit.load(tmp_path / "net")
    check(without, sample("bn_finetune"))
    assert [name for name, _ in without.named_parameters()] == [name for name, _ in with_info.named_parameters()]
    assert [each.stop_gradient for each in without.parameters()] == [
        each.stop_gradient for each in with_info.parameters()
    ]
    assert without.program_holder.is_backward_built is False


# What outputs and layers share (B18)


def test_an_output_that_is_an_input_is_a_copy(sample: Any) -> None:
    layer = oarlock.jit.load(sample("output_is_input").path)
    x = sample("output_is_input").inputs()["x"].copy()
    first = layer(x)[0]
    np.testing.assert_array_equal(first.numpy(), x)
    kept = x.copy()
    first.set_value(np.zeros_like(x))
    np.testing.assert_array_equal(x, kept)


def test_two_loads_do_not_share_weights(sample: Any) -> None:
    one, two = (oarlock.jit.load(sample("slash_names").path) for _ in range(2))
    x = sample("slash_names").inputs()["x"]
    before = two(x).numpy()
    for parameter in one.parameters():
        parameter.set_value(np.zeros(parameter.shape, F32))
    assert not np.array_equal(one(x).numpy(), before)
    np.testing.assert_array_equal(two(x).numpy(), before)


def test_writing_to_a_weight_leaves_the_file_alone(sample: Any, tmp_path: Path) -> None:
    place(sample("slash_names"), tmp_path / "net")
    before = (tmp_path / "net.pdiparams").read_bytes()
    layer = oarlock.jit.load(tmp_path / "net")
    for parameter in layer.parameters():
        parameter.set_value(np.ones(parameter.shape, F32))
    assert (tmp_path / "net.pdiparams").read_bytes() == before


def test_fetching_one_variable_twice(one_op_program: Any, tmp_path: Path) -> None:
    variables = {"x": ("float32", [-1]), "y": ("float32", [-1])}
    program = one_op_program("relu", {"X": ["x"]}, {"Out": ["y"]}, variables, fetches=("y", "y"))
    (tmp_path / "twice.pdmodel").write_bytes(program)
    one, two = oarlock.jit.load(tmp_path / "twice")(np.array([-1, 2], F32))
    one.set_value(np.zeros(2, F32))
    assert two.tolist() == [0, 2]


# Methods beside forward (B20)


def test_another_method_is_an_attribute(sample: Any) -> None:
    layer = oarlock.jit.load(sample("extra_method_infer").path)
    x = sample("extra_method_infer").inputs()["x"]
    check(layer, sample("extra_method_infer"))
    np.testing.assert_allclose(layer.infer(x).numpy(), sample("extra_method_infer").outputs(0, "infer")[0], rtol=1e-5)


def test_methods_share_their_parameters(sample: Any) -> None:
    layer = oarlock.jit.load(sample("extra_method_infer").path)
    x = sample("extra_method_infer").inputs()["x"]
    before = layer.infer(x).numpy()
    names = [set(holder.persistable_names) for holder in layer._program_holder_dict.values()]
    assert names[0] & names[1]
    for parameter in layer.parameters():
        parameter.set_value(np.zeros(parameter.shape, F32))
    assert not np.array_equal(layer.infer(x).numpy(), before)
    assert not layer(x).numpy().any()


def test_a_method_that_was_not_saved(sample: Any) -> None:
    layer = oarlock.jit.load(sample("slash_names").path)
    with pytest.raises(AttributeError, match="infer"):
        layer.infer(np.zeros((1, 4), F32))
    with pytest.raises(ValueError, match=r"The method `infer` does not exist in loaded TranslatedLayer"):
        layer.program("infer")
