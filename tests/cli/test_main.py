"""The command line as a whole: exit codes, one-line errors, help that teaches, a progress bar for people only."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from oarlock.cli import main
from oarlock.cli.progress import Progress


def shell(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "oarlock.cli", *arguments], capture_output=True, text=True, check=False
    )


def test_help_shows_examples_and_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["--help"])
    assert stopped.value.code == 0
    shown = capsys.readouterr().out
    assert "oarlock run inference --input x.npy --output out.npz" in shown
    assert "exit codes: 0 fine, 1 the model or an input is at fault, 2 the command line is at fault." in shown


@pytest.mark.parametrize("command", ["show", "run", "bench", "ops"])
def test_every_command_has_help(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main([command, "--help"])
    assert stopped.value.code == 0
    assert "MODEL" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [[], ["fly"], ["show"], ["run", "m", "--fast"]])
def test_a_wrong_command_line_is_exit_code_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    assert capsys.readouterr().err.startswith("usage: oarlock")


def test_a_wrong_model_is_one_line_and_exit_code_1(tmp_path: Path) -> None:
    (tmp_path / "net.pdmodel").write_bytes(b"\n\x08nonsense")
    for path in (tmp_path / "net", tmp_path / "missing"):
        done = shell("show", str(path))
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
        assert done.stderr.startswith("oarlock show: ")
        assert "Traceback" not in done.stderr


def test_an_unknown_method(sample: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(sample("slash_names").path), "--method", "infer"]) == 1
    assert capsys.readouterr().err == "oarlock show: there is no method 'infer'; the model has forward\n"


@pytest.mark.skipif(os.name != "posix", reason="needs a POSIX shell")
def test_a_reader_that_goes_away_is_no_traceback(sample: Any) -> None:
    command = f"{sys.executable} -m oarlock.cli show {sample('bn_finetune').path} --program | head -n 1"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert done.stdout.startswith("block 0")
    assert "Traceback" not in done.stderr


def test_the_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["--version"])
    assert stopped.value.code == 0
    assert capsys.readouterr().out.startswith("oarlock 0.")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that the test sets."""
    now = [0.0]
    monkeypatch.setattr("oarlock.cli.progress.time.monotonic", lambda: now[0])
    return now


@pytest.mark.parametrize(("stream", "seen"), [(Terminal, True), (io.StringIO, False)])
def test_the_bar_is_for_terminals(stream: Any, seen: bool, clock: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    shown = stream()
    monkeypatch.setattr("sys.stderr", shown)
    with Progress("steady calls", 4) as bar:
        for _ in range(4):
            clock[0] += 0.6
            bar.step()
    assert ("steady calls [" in shown.getvalue()) is seen
    assert shown.getvalue().endswith("\r\033[K" if seen else "")


def test_no_bar_for_short_work(clock: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    shown = Terminal()
    monkeypatch.setattr("sys.stderr", shown)
    with Progress("steady calls", 4) as bar:
        for _ in range(4):
            clock[0] += 0.1
            bar.step()
    assert shown.getvalue() == ""
