"""``oarlock show``: what it says about a model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from oarlock.cli import main
from oarlock.ir.program_io import read_program, write_program

TWO = """\
saved by    Paddle 2.6.2
inputs      x: float32[-1, 4]
            y: float32[-1, 4]
outputs     save_infer_model/scale_0.tmp_0: float32[-1, 3]
            save_infer_model/scale_1.tmp_0: float32[-1, 3]
parameters  4 tensors, 30 elements, 120 B
operators   9
            elementwise_add     4
            matmul_v2           3
            scale               2
"""


def test_inputs_outputs_parameters_operators_and_size(sample: Any, capsys: pytest.CaptureFixture[str]) -> None:
    path = sample("two_in_two_out").path
    assert main(["show", str(path)]) == 0
    shown = capsys.readouterr().out
    assert shown == f"files       {path}.pdmodel (4.9 kB)\n            {path}.pdiparams (220 B)\n{TWO}"


def test_multiply_accumulates_for_given_inputs(sample: Any, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["show", str(sample("two_in_two_out").path), "--input", "x=random:6x4", "--input", "y=random:6x4"]
    assert main(arguments) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-2:] == [
        "MACs        216",
        "            matmul_v2            216",
    ]  # three products of [6, 4] x [4, 3]


def test_macs_of_convolutions_follow_the_picture(sample: Any, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(sample("bn_finetune").path)
    found = []
    for side in (16, 32):
        assert main(["show", path, "--json", "-i", f"random:1x3x{side}x{side}"]) == 0
        found.append(json.loads(capsys.readouterr().out)["macs"]["conv2d"])
    assert found[1] == 4 * found[0] > 0


def test_every_parameter_on_request(sample: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(sample("two_in_two_out").path), "--params"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert [line.strip() for line in shown if "linear_" in line] == [
        "linear_0.b_0: float32[3]",
        "linear_0.w_0: float32[4, 3]",
        "linear_1.b_0: float32[3]",
        "linear_1.w_0: float32[4, 3]",
    ]


def test_the_program_one_op_a_line(sample: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(sample("two_in_two_out").path), "--program"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "block 0 (13 ops, 17 variables)"
    assert lines[1] == "  persistable linear_0.b_0: float32[3]"
    made, read = "Out=[linear_0.tmp_0: float32[-1, 3]]", "X=[x], Y=[linear_0.w_0]"
    assert lines[7] == f"  2: {made} = matmul_v2({read}) {{trans_x: False, trans_y: False}}"


def test_json_for_other_programs(sample: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(sample("two_in_two_out").path), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["saved_by"] == "Paddle 2.6.2"
    assert facts["inputs"] == [
        {"name": "x", "dtype": "float32", "shape": [-1, 4]},
        {"name": "y", "dtype": "float32", "shape": [-1, 4]},
    ]
    assert facts["parameters"][1] == {"name": "linear_0.w_0", "dtype": "float32", "shape": [4, 3]}
    assert (facts["parameter_elements"], facts["parameter_bytes"], facts["blocks"]) == (30, 120, 1)
    assert facts["operators"] == {"elementwise_add": 4, "matmul_v2": 3, "scale": 2}
    assert facts["unsupported"] == {}


def test_json_keeps_letters_as_they_are(sample: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(sample("unicode_names").path), "--json", "--program"]) == 0
    shown = capsys.readouterr().out
    assert "图像" in shown
    assert json.loads(shown)["program"][0].startswith("block 0")


def test_methods_and_blocks_are_told(sample: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(sample("extra_method_infer").path)]) == 0
    assert "methods     forward, infer\n" in capsys.readouterr().out
    assert main(["show", str(sample("extra_method_infer").path), "--method", "infer"]) == 0
    capsys.readouterr()
    assert main(["show", str(sample("cf_while_sum").path)]) == 0
    assert " in 2 blocks\n" in capsys.readouterr().out


def test_a_folder_of_the_old_layout(sample: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(sample("fluid_dir_separate").folder)]) == 0
    shown = capsys.readouterr().out
    assert shown.splitlines()[1].strip().startswith(str(sample("fluid_dir_separate").folder / "batch_norm_0.b_0"))
    assert shown.splitlines()[6] == "            and 5 more (2.4 kB)"
    assert "inputs      image: float32[-1, 3, 16, 16]\n" in shown


def test_a_file_that_states_no_version(one_op_program: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    variables = {"x": ("float32", [-1]), "y": ("float32", [-1])}
    program = read_program(one_op_program("relu", {"X": ["x"]}, {"Out": ["y"]}, variables), "made here")
    program.version = None
    (tmp_path / "__model__").write_bytes(write_program(program))
    assert main(["show", str(tmp_path)]) == 0
    assert "saved by    unknown (1.x or a development build)\n" in capsys.readouterr().out


def test_a_model_with_operators_that_oarlock_lacks_can_be_looked_at(
    one_op_program: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    variables = {"x": ("float32", [-1]), "y": ("float32", [-1])}
    (tmp_path / "net.pdmodel").write_bytes(one_op_program("made_up", {"X": ["x"]}, {"Out": ["y"]}, variables))
    assert main(["show", str(tmp_path / "net")]) == 0
    assert "            made_up     1  not supported\n" in capsys.readouterr().out
    assert main(["run", str(tmp_path / "net"), "-i", "random:2"]) == 1
    error = capsys.readouterr().err
    assert error.endswith("net.pdmodel uses 1 unsupported operator type(s): made_up (1)\n")
