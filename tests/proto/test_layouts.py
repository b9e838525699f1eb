"""Which files make a model, told by content and by the places where Paddle puts them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from oarlock.errors import FormatError, InputError, NotFoundError
from oarlock.ir.program_io import describe_parameters, read_program
from oarlock.proto.files import read_file
from oarlock.proto.layouts import ModelFiles, find_model, program_kind
from oarlock.proto.parameters import load_parameters, parameter_path
from oarlock.proto.pdiparams import write_params, write_tensor

PIR = '{"base_code":{"magic":"pir","trainable":true,"version":4},"program":{"regions":[]}}'


def load(files: ModelFiles) -> dict[str, Any]:
    programs = {method: read_program(read_file(path), path) for method, path in files.programs.items()}
    names = {method: [var.name for var in program.persistables()] for method, program in programs.items()}
    return load_parameters(files, names, describe_parameters(programs["forward"]))


def place(models: Path, name: str, prefix: Path) -> None:
    """Copy a sample saved as ``model`` so that it lies under another prefix."""
    prefix.parent.mkdir(parents=True, exist_ok=True)
    for file in (models / name).iterdir():
        shutil.copyfile(file, f"{prefix}{file.name.removeprefix('model')}")


@pytest.mark.parametrize(
    "name",
    [
        "model",
        "export.jit",
        "v1.2/model",
        "model.v2",
        "ends.",
        "with space",
        "模型/ĉapelo 🙂/inference",
        "a.pdmodel",
    ],
)
@pytest.mark.parametrize("kind", [str, Path])
def test_a_prefix_of_any_spelling(name: str, kind: type, models: Path, tmp_path: Path) -> None:
    place(models, "slash_names", tmp_path / name)
    files = find_model(kind(f"{tmp_path}/{name}"))
    assert files.kind == "pdmodel"
    assert files.programs == {"forward": f"{tmp_path}/{name}.pdmodel"}
    assert files.params == {"forward": f"{tmp_path}/{name}.pdiparams"}
    assert files.info == f"{tmp_path}/{name}.pdiparams.info"
    assert len(load(files)) > 0


def test_prefix_file_and_folder_are_the_same_model(models: Path, tmp_path: Path) -> None:
    place(models, "slash_names", tmp_path / "inference")
    by_prefix = find_model(tmp_path / "inference")
    assert find_model(tmp_path / "inference.pdmodel") == by_prefix
    assert find_model(tmp_path) == by_prefix
    assert find_model(f"{tmp_path}/").programs.keys() == by_prefix.programs.keys()


def test_a_relative_prefix_in_the_working_folder(models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place(models, "extra_method_infer", tmp_path / "m")
    monkeypatch.chdir(tmp_path)
    assert find_model("m").programs == {"forward": "m.pdmodel", "infer": "m.infer.pdmodel"}
    assert len(load(find_model("."))) == 4


def test_old_folders_hold_the_same_model(models: Path, tmp_path: Path) -> None:
    separate, combined = find_model(models / "fluid_dir_separate"), find_model(models / "fluid_dir_combined")
    assert separate.separate and separate.params == {}
    assert combined.params == {"forward": str(models / "fluid_dir_combined" / "__params__")}
    params = load(separate)
    assert sorted(params)[:2] == ["batch_norm_0.b_0", "batch_norm_0.w_0"]

    shutil.copyfile(models / "fluid_dir_separate" / "__model__", tmp_path / "model")
    write_params(tmp_path / "params", params)
    for files in (
        find_model(tmp_path),
        find_model(tmp_path / "model"),
        find_model(tmp_path, "model", "params"),
        find_model(tmp_path, model_filename="model"),
    ):
        again = load(files)
        assert {name: array.tobytes() for name, array in again.items()} == {
            name: array.tobytes() for name, array in params.items()
        }


def test_file_names_of_any_kind_are_taken(models: Path, tmp_path: Path) -> None:
    shutil.copyfile(models / "fluid_dir_combined" / "__model__", tmp_path / "net.bin")
    elsewhere = tmp_path / "weights"
    elsewhere.mkdir()
    shutil.copyfile(models / "fluid_dir_combined" / "__params__", elsewhere / "all.bin")
    for files in (
        find_model(tmp_path, "net.bin", "weights/all.bin"),
        find_model(tmp_path / "net.bin", params_filename=str(elsewhere / "all.bin")),
        find_model(tmp_path, params_filename="weights/all.bin"),
    ):
        assert files.programs == {"forward": str(tmp_path / "net.bin")}
        assert len(load(files)) == 6


def test_methods_share_the_parameter_file_or_have_their_own(models: Path, tmp_path: Path) -> None:
    place(models, "extra_method_infer", tmp_path / "m")
    place(models, "no_params", tmp_path / "m2")  # begins like m, and is no method of it
    (tmp_path / "m.config.json").write_text('{"threads": 2}')
    files = find_model(tmp_path / "m")
    assert list(files.programs) == ["forward", "infer"]
    assert files.params["infer"] == str(tmp_path / "m.infer.pdiparams")
    params = load(files)

    (tmp_path / "m.infer.pdiparams").unlink()
    write_params(tmp_path / "m.pdiparams", params)
    shared = find_model(tmp_path / "m")
    assert shared.params["infer"] == shared.params["forward"] == str(tmp_path / "m.pdiparams")
    assert load(shared).keys() == params.keys()


def test_a_json_program_is_told_from_other_json(models: Path, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "net"}')
    (tmp_path / "net.json").write_text(PIR)
    assert program_kind(tmp_path / "config.json") is None
    for path in (tmp_path, tmp_path / "net", tmp_path / "net.json"):
        files = find_model(path)
        assert (files.kind, files.programs) == ("pir", {"forward": str(tmp_path / "net.json")})


def test_of_both_formats_the_pdmodel_is_taken(models: Path, tmp_path: Path) -> None:
    place(models, "slash_names", tmp_path / "net")
    (tmp_path / "net.json").write_text(PIR)
    assert find_model(tmp_path / "net").kind == find_model(tmp_path).kind == "pdmodel"
    assert find_model(tmp_path / "net.json").kind == "pir"


def test_content_decides_against_the_name(models: Path, tmp_path: Path) -> None:
    (tmp_path / "net.pdmodel").write_text(PIR)
    shutil.copyfile(models / "no_params" / "model.pdmodel", tmp_path / "old.json")
    assert find_model(tmp_path / "net").kind == "pir"
    assert find_model(tmp_path / "old.json").kind == "pdmodel"


def test_inference_is_preferred_in_a_folder_of_several(models: Path, tmp_path: Path) -> None:
    place(models, "slash_names", tmp_path / "inference")
    place(models, "no_params", tmp_path / "other")
    assert find_model(tmp_path).programs == {"forward": str(tmp_path / "inference.pdmodel")}


def test_several_models_in_a_folder_are_listed(models: Path, tmp_path: Path) -> None:
    place(models, "slash_names", tmp_path / "a")
    place(models, "no_params", tmp_path / "b")
    with pytest.raises(NotFoundError, match=r"holds 2 models \(a, b\): pass one of them, such as '.*/a'"):
        find_model(tmp_path)


def test_a_prefix_that_is_also_a_folder_is_refused_as_paddle_does(models: Path, tmp_path: Path) -> None:
    place(models, "slash_names", tmp_path / "net")
    place(models, "no_params", tmp_path / "net" / "inference")
    with pytest.raises(InputError, match="both exist"):
        find_model(tmp_path / "net")
    assert find_model(f"{tmp_path}/net/").programs == {"forward": f"{tmp_path}/net/inference.pdmodel"}
    assert find_model(tmp_path / "net.pdmodel").programs == {"forward": f"{tmp_path}/net.pdmodel"}


def test_nothing_found_lists_what_lies_there(tmp_path: Path) -> None:
    (tmp_path / "readme.txt").write_text("hello")
    with pytest.raises(NotFoundError, match=r"expected .*net\.pdmodel or .*net\.json; folder .* holds readme\.txt"):
        find_model(tmp_path / "net")
    with pytest.raises(NotFoundError, match=r"no file there is a program; folder .* holds readme\.txt"):
        find_model(tmp_path)
    with pytest.raises(NotFoundError, match=r"no program .*__model__"):
        find_model(tmp_path, model_filename="__model__")
    with pytest.raises(ValueError, match="cannot be listed"):
        find_model(tmp_path / "no" / "folder" / "net")


def test_a_parameter_file_is_no_model(models: Path) -> None:
    for suffix in ("", ".info"):
        with pytest.raises(FormatError, match=r"holds parameters, not a program: pass .* '.*slash_names/model'"):
            find_model(models / "slash_names" / f"model.pdiparams{suffix}")


def test_no_parameter_file_is_needed_without_parameters(models: Path) -> None:
    assert load(find_model(models / "no_params" / "model")) == {}


def test_a_missing_parameter_file_names_path_and_parameters(models: Path, tmp_path: Path) -> None:
    shutil.copyfile(models / "slash_names" / "model.pdmodel", tmp_path / "m.pdmodel")
    with pytest.raises(NotFoundError, match=r"m\.pdiparams' is missing: \d+ parameters expected: .* float32"):
        load(find_model(tmp_path / "m"))
    files = find_model(tmp_path / "m")
    with pytest.raises(NotFoundError, match=r"1 parameter expected: w \[2,3\] float32; folder"):
        load_parameters(files, ["w"], {"w": "[2,3] float32"})


def test_missing_separate_files_are_counted(models: Path, tmp_path: Path) -> None:
    shutil.copytree(models / "fluid_dir_separate", tmp_path / "m")
    (tmp_path / "m" / "fc_0.w_0").unlink()
    with pytest.raises(NotFoundError, match=r"lacks 1 of 10 parameter files: fc_0\.w_0 \[\d+,\d+\] float32"):
        load(find_model(tmp_path / "m"))
    (tmp_path / "m" / "fc_0.w_0").write_bytes(b"\0\0\0")
    with pytest.raises(FormatError, match=r"fc_0\.w_0: parameter 'fc_0\.w_0', offset 0: 4 bytes"):
        load(find_model(tmp_path / "m"))


def test_a_slash_in_a_name_is_a_folder_of_separate_files(models: Path, tmp_path: Path) -> None:
    shutil.copyfile(models / "fluid_dir_separate" / "__model__", tmp_path / "__model__")
    write_tensor(tmp_path / "block" / "w", np.arange(3, dtype=np.float32))
    files = find_model(tmp_path)
    assert load_parameters(files, ["block/w"])["block/w"].tolist() == [0, 1, 2]


@pytest.mark.parametrize("name", ["../w", "a/../../w", "/etc/passwd", "", ".", "a//b", "a/", "w\0"])
def test_a_name_cannot_lead_out_of_the_folder(name: str, tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="names no file inside the model's folder"):
        parameter_path(str(tmp_path), name)


def test_a_link_cannot_lead_out_of_the_folder(tmp_path: Path) -> None:
    inside, outside = tmp_path / "m", tmp_path / "secret"
    inside.mkdir()
    write_tensor(outside / "w", np.zeros(1, np.float32))
    os.symlink(outside, inside / "block")
    os.symlink(outside / "w", inside / "w")
    for name in ("block/w", "w"):
        with pytest.raises(FormatError, match="leads out of the model's folder"):
            parameter_path(str(inside), name)


def test_a_model_behind_links_is_found(models: Path, tmp_path: Path) -> None:
    """Caches of downloaded models keep the files elsewhere and link to them."""
    for file in (models / "slash_names").iterdir():
        os.symlink(file, tmp_path / file.name)
    assert len(load(find_model(tmp_path / "model"))) > 0
