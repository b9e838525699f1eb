"""``oarlock bench`` and ``oarlock ops``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from oarlock.cli import main


@pytest.fixture(autouse=True)
def same_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """``--threads`` is for the process; put the number back."""
    monkeypatch.setattr("oarlock.executor.parallel._threads", None)


def test_bench_measures_each_part(sample: Any, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [
        "bench",
        str(sample("static_conv_bn").path),
        "-i",
        "random:2x3x16x16",
        "--repeat",
        "3",
        "--threads",
        "1",
    ]
    assert main(arguments) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("  ")[0] for line in lines[:4]] == ["load", "first call", "steady", "peak memory"]
    assert lines[2].endswith("best")
    assert lines[5].split() == ["operator", "ms", "share"]
    shares = [float(line.split()[-1].rstrip("%")) for line in lines[6:]]
    assert shares == sorted(shares, reverse=True)
    assert sum(shares) == pytest.approx(100, abs=1)


def test_bench_as_json(sample: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", str(sample("slash_names").path), "-i", "random:2x4", "--repeat", "2", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert sorted(facts) == [
        "first_call_ms",
        "load_ms",
        "operators_ms",
        "peak_memory_bytes",
        "steady_median_ms",
        "steady_min_ms",
    ]
    assert facts["steady_min_ms"] <= facts["steady_median_ms"]


@pytest.mark.parametrize("option", ["--repeat", "--threads"])
def test_bench_wants_at_least_one(option: str, sample: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["bench", str(sample("slash_names").path), option, "0"])
    assert stopped.value.code == 2
    assert f"argument {option}: 0 is not at least 1" in capsys.readouterr().err


def test_ops_lists_every_operator(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ops"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["operator", "gradient", "slots"]
    assert next(line for line in lines if line.startswith("softmax ")).split() == ["softmax", "yes", "X", "->", "Out"]
    count = len(lines) - 2
    assert count > 300
    assert lines[-1].startswith(f"{count} operators, ")


def test_ops_tells_all_about_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ops", "softmax"]) == 0
    assert capsys.readouterr().out == (
        "softmax\n  family: softmax\n  gradient: yes\n  inputs: X\n  outputs: Out\n  attr axis = -1\n"
    )


def test_ops_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ops", "softmax", "shape", "--json"]) == 0
    softmax, shape = json.loads(capsys.readouterr().out)
    assert softmax["attrs"] == {"axis": -1}
    assert (softmax["gradient"], shape["gradient"]) == ("yes", "none in Paddle")


def test_ops_suggests_what_may_be_meant(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ops", "softmx"]) == 1
    assert capsys.readouterr().err.startswith("oarlock ops: there is no operator 'softmx'; near are softmax")


def test_what_a_model_lacks(
    sample: Any, one_op_program: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["ops", "--missing", str(sample("slash_names").path)]) == 0
    assert capsys.readouterr().out == "all operators of this model are supported\n"
    variables = {"x": ("float32", [-1]), "y": ("float32", [-1])}
    (tmp_path / "net.pdmodel").write_bytes(one_op_program("made_up", {"X": ["x"]}, {"Out": ["y"]}, variables))
    assert main(["ops", "--missing", str(tmp_path / "net")]) == 1
    assert capsys.readouterr().out == "made_up 1\n"
    assert main(["ops", "--missing", str(tmp_path / "net"), "--json"]) == 1
    assert json.loads(capsys.readouterr().out) == {"made_up": 1}


def test_ops_inplace_names_what_is_written_over(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ops", "--inplace"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert ["exp_", "exp", "X", "->", "Out"] in [line.split() for line in lines]
    assert main(["ops", "--inplace", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {"name": "reshape_", "operator": "reshape2", "input": "X", "output": "Out"} in rows
