"""The example without a network, and what the README promises: its commands, its links, its pictures."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import oarlock
import pytest

ROOT = Path(__file__).resolve().parents[2]


def example(name: str) -> ModuleType:
    """A module of ``examples/``."""
    sys.path.insert(0, str(ROOT / "examples"))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.pop(0)


@pytest.fixture
def needs_opencv() -> None:
    pytest.importorskip("cv2", reason="the examples extra is not installed")
    pytest.importorskip("PIL", reason="the examples extra is not installed")


@pytest.mark.usefixtures("needs_opencv")
def test_without_a_network_a_small_net_reads_digits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    picture = tmp_path / "digits.png"
    monkeypatch.setattr(sys, "argv", ["read_text.py", "--offline", "--output", str(picture)])
    assert example("read_text").main() == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "no PP-OCR models: --offline was given"
    assert [line.split(maxsplit=2)[2] for line in lines[2:6]] == [
        "2026-12-01 17:45",
        "3.14159 26535",
        "0800 555-0199",
        "12/48, 7:1",
    ]
    assert picture.stat().st_size > 10_000


@pytest.mark.usefixtures("needs_opencv")
def test_a_picture_of_ones_own_is_not_replaced_by_digits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["read_text.py", "--offline", str(tmp_path / "mine.png")])
    with pytest.raises(SystemExit, match="no PP-OCR models: --offline was given"):
        example("read_text").main()


@pytest.mark.usefixtures("needs_opencv")
def test_ctc_drops_blanks_and_repeats() -> None:
    steps = [0, 1, 1, 0, 1, 2, 2, 0, 3]
    probabilities = np.eye(4, dtype=np.float32)[steps] * 0.9
    text, score = example("ocr_pipeline").decode_ctc(probabilities, "abc")
    assert text == "aabc"
    assert score == pytest.approx(0.9)
    assert example("ocr_pipeline").decode_ctc(probabilities[:1], "abc") == ("", 0.0)


def test_models_with_other_bytes_are_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    models = example("ocr_models")

    def refuse(folder: Path) -> Any:
        raise models.ModelsUnavailableError("no network in this test")

    monkeypatch.setattr(models, "_download", refuse)
    (tmp_path / "det.pdmodel").write_bytes(b"something else")
    with pytest.raises(models.ModelsUnavailableError, match="no network in this test"):
        models.fetch_models(tmp_path)


def test_the_shipped_net_is_small_and_was_saved_by_paddle() -> None:
    files = list((ROOT / "examples" / "digits").glob("digits.*"))
    assert sorted(path.suffix for path in files) == [".info", ".pdiparams", ".pdmodel"]
    assert sum(path.stat().st_size for path in files) < 300_000
    layer = oarlock.jit.load(ROOT / "examples" / "digits" / "digits")
    assert layer(np.zeros((2, 1, 24, 80), np.float32)).shape == [2, 20, 17]


def test_the_readme_has_its_two_commands() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for number, needed in ((1, ("[examples]", "examples/read_text.py")), (2, ("[test]", "pytest"))):
        found = re.search(
            rf"<!-- command {number} -->\n```bash\n(.+?)```\n<!-- end of command {number} -->", text, re.S
        )
        assert found is not None
        assert all(word in found.group(1) for word in needed)


@pytest.mark.parametrize("page", ["README.md", *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md")))])
def test_links_and_pictures_exist(page: str) -> None:
    path = ROOT / page
    targets = re.findall(r"\]\((?!https?:)([^)#]+)", path.read_text(encoding="utf-8"))
    assert [target for target in targets if not (path.parent / target).exists()] == []
