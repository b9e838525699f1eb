"""``oarlock run``: inputs in every spelling, outputs to the screen and to a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from oarlock.cli import main


@pytest.fixture
def model(sample: Any) -> str:
    """Takes ``x`` and ``y``, float32 [-1, 4]."""
    return str(sample("two_in_two_out").path)


@pytest.fixture
def files(sample: Any, tmp_path: Path) -> dict[str, str]:
    """The golden inputs as ``.npy`` files."""
    made = {}
    for name, value in sample("two_in_two_out").inputs().items():
        np.save(tmp_path / f"{name}.npy", value)
        made[name] = str(tmp_path / f"{name}.npy")
    return made


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line that a command says when it fails with exit code 1."""
    assert main(["run", *arguments]) == 1
    out, error = capsys.readouterr()
    assert out == ""
    assert error.count("\n") == 1
    return error


def test_it_prints_what_came_out(model: str, files: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", model, "--input", files["x"], "--input", files["y"]]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("save_infer_model/scale_0.tmp_0: float32[3, 3] min ")
    assert len(lines) == 2


def test_it_stores_what_came_out(model: str, files: dict[str, str], sample: Any, tmp_path: Path) -> None:
    out = tmp_path / "out.npz"
    assert main(["run", model, "-i", f"y={files['y']}", "-i", f"x={files['x']}", "-o", str(out)]) == 0
    with np.load(out) as stored:
        assert sorted(stored) == ["save_infer_model/scale_0.tmp_0", "save_infer_model/scale_1.tmp_0"]
        got = [stored[f"save_infer_model/scale_{index}.tmp_0"] for index in range(2)]
    for mine, theirs in zip(got, sample("two_in_two_out").outputs(), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-5)
    assert [path.name for path in tmp_path.glob("*.tmp")] == []


def test_random_inputs_are_the_same_every_time(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    shown = []
    for _ in range(2):
        assert main(["run", model, "-i", "random:2x4", "-i", "y=random:2,4"]) == 0
        shown.append(capsys.readouterr().out)
    assert shown[0] == shown[1]


def test_another_method(sample: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(sample("extra_method_infer").path), "--method", "infer", "-i", "random:2x4"]) == 0
    assert "float32[2, " in capsys.readouterr().out


def test_scalars_and_booleans_are_summarised(sample: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(sample("zero_dim_outputs").path), "-i", "random:3x4"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(": ")[1].split()[0] for line in lines] == ["float32[]", "float32[]", "int64[]", "bool[]"]


def test_a_missing_input(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert refused(capsys, model, "-i", "random:2x4") == (
        "oarlock run: no --input for y; the model takes x float32[-1, 4], y float32[-1, 4]\n"
    )


@pytest.mark.parametrize(
    ("specs", "said"),
    [
        (["z=random:2x4"], "--input z=random:2x4: the model takes x float32[-1, 4], y float32[-1, 4]"),
        (["random:2x4"] * 3, "--input random:2x4: the model takes x float32[-1, 4], y float32[-1, 4]"),
        (["random:2xfour", "random:2x4"], "--input random:2xfour: a shape is written 1x3x48x320, got '2xfour'"),
        (["random:99999x99999", "random:2x4"], "--input random:99999x99999: more than 2^31 elements"),
        (
            ["random:4", "random:2x4"],
            "input 'x' of forward() has shape [-1, 4] (-1 is any size), got [4]; a batch dimension may be missing: "
            "add it with x[None]",
        ),
        (["/nope.npy", "random:2x4"], "[Errno 2] No such file or directory: '/nope.npy'"),
    ],
)
def test_inputs_that_do_not_fit(specs: list[str], said: str, model: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [argument for spec in specs for argument in ("--input", spec)]
    assert refused(capsys, model, *arguments) == f"oarlock run: {said}\n"


def test_a_file_of_another_dtype(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "x.npy", np.zeros((2, 4)))
    said = refused(capsys, model, "-i", str(tmp_path / "x.npy"), "-i", "random:2x4")
    assert said == ("oarlock run: input 'x' of forward() is float32, got float64; cast it with .astype('float32')\n")


def test_a_pickle_is_not_opened(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "x.npy", np.array([{}], object), allow_pickle=True)
    assert "is no .npy array" in refused(capsys, model, "-i", str(tmp_path / "x.npy"), "-i", "random:2x4")


def test_an_archive_of_arrays_is_not_one_input(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez(tmp_path / "x.npz", a=np.zeros(1))
    assert "holds several arrays" in refused(capsys, model, "-i", str(tmp_path / "x.npz"), "-i", "random:2x4")


def test_an_output_that_cannot_be_written(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", model, "-i", "random:2x4", "-i", "random:2x4", "-o", "/nope/out.npz"]) == 1
    assert "No such file or directory" in capsys.readouterr().err


def test_a_missing_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "no model at" in refused(capsys, str(tmp_path / "net"))
