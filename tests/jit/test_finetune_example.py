"""examples/finetune.py in small: a trunk cut out of a saved net, a new head, a few steps, saved and loaded."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import numpy as np
import oarlock
import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def finetune(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    pytest.importorskip("PIL")
    for name in ("finetune", "hex_lines", "loss_curve"):
        sys.modules.pop(name, None)
    return importlib.import_module("finetune")


def test_the_example_trains_saves_and_loads(finetune: Any, tmp_path: Path) -> None:
    oarlock.seed(0)
    old = finetune.cut_trunk(EXAMPLES / "digits" / "digits", tmp_path / "trunk")
    assert oarlock.in_dynamic_mode()
    assert [each.shape for each in old] == [[48, 17], [17]]
    reader = finetune.HexReader(tmp_path / "trunk")
    reader.take_over(old)
    before = {name: each.numpy() for name, each in reader.state_dict().items()}
    losses = finetune.train(reader, 4, 4, False)
    assert losses[-1] < losses[0]
    moved = {name for name, each in reader.state_dict().items() if not np.array_equal(each.numpy(), before[name])}
    weights = {name for name, each in reader.state_dict().items() if not each.stop_gradient}
    assert moved == weights  # the net was saved in eval mode, which fixes its running statistics for good

    oarlock.jit.save(reader.trunk, tmp_path / "trunk")
    oarlock.save(reader.head.state_dict(), tmp_path / "head.pdparams")
    again = finetune.HexReader(tmp_path / "trunk")
    again.head.set_state_dict(oarlock.load(tmp_path / "head.pdparams"))
    again.eval()
    pictures, *_ = finetune.make_batch(3, np.random.default_rng(1))
    assert finetune.read(again, pictures) == finetune.read(reader, pictures)


def test_a_frozen_trunk_keeps_its_weights(finetune: Any, tmp_path: Path) -> None:
    finetune.cut_trunk(EXAMPLES / "digits" / "digits", tmp_path / "trunk")
    reader = finetune.HexReader(tmp_path / "trunk")
    frozen = {each.name: each.numpy() for each in reader.trunk.parameters() if not each.stop_gradient}
    head = reader.head.weight.numpy()
    finetune.train(reader, 2, 2, True)
    assert all(
        np.array_equal(each.numpy(), frozen[each.name]) for each in reader.trunk.parameters() if each.name in frozen
    )
    assert not np.array_equal(reader.head.weight.numpy(), head)


def test_the_loss_curve_is_a_picture(finetune: Any, tmp_path: Path) -> None:
    finetune.draw_loss_curve([3.0, 2.0, 1.0, 0.5], tmp_path / "loss.png", "loss")
    assert (tmp_path / "loss.png").read_bytes()[:4] == b"\x89PNG"


def test_the_progress_bar_says_little_off_a_terminal(finetune: Any, capsys: pytest.CaptureFixture[str]) -> None:
    bar = finetune.Progress(100)
    for step in range(1, 101):
        bar.show(step, 0.25)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 10
    assert lines[0].startswith("[##------------------]   10/100  loss 0.250")
