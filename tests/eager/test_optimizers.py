"""Optimizers and schedules do, step by step, what real Paddle 2.6.2 recorded in ``tests/data/optim``."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import oarlock as paddle
import pytest

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "tests" / "data" / "optim"


def _load_tool() -> Any:
    spec = importlib.util.spec_from_file_location("record_optimizers", ROOT / "tools" / "record_optimizers.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


tool = _load_tool()
OPTIMIZERS = json.loads((DATA / "optimizers.json").read_text())
SCHEDULES = json.loads((DATA / "schedules.json").read_text())


@pytest.mark.parametrize("row", OPTIMIZERS, ids=lambda row: row["case"]["name"])
def test_five_steps_equal_paddles(row: dict[str, Any]) -> None:
    found = tool.run_optimizer(paddle, row["case"])
    for step, (ours, theirs) in enumerate(zip(found["trace"], row["trace"], strict=True)):
        for name in ("w", "b"):
            np.testing.assert_allclose(ours[name], theirs[name], rtol=2e-6, atol=2e-7, err_msg=f"{name} step {step}")
        assert ours["lr"] == pytest.approx(theirs["lr"], rel=1e-6)


def _unnumbered(state: dict[str, Any]) -> dict[str, Any]:
    """Keys without their number, which counts the optimizers of the process."""
    return {re.sub(r"_\d+$", "", key): value for key, value in state.items()}


@pytest.mark.parametrize("row", OPTIMIZERS, ids=lambda row: row["case"]["name"])
def test_the_state_has_paddles_keys_and_values(row: dict[str, Any]) -> None:
    ours = _unnumbered(tool.run_optimizer(paddle, row["case"])["state"])
    theirs = _unnumbered(row["state"])
    assert ours.keys() == theirs.keys()
    for key, value in theirs.items():
        if key == "LR_Scheduler":
            assert ours[key]["last_epoch"] == value["last_epoch"]
        else:
            np.testing.assert_allclose(ours[key], value, rtol=1e-5, atol=1e-8, err_msg=key)


@pytest.mark.parametrize("row", SCHEDULES[:-1], ids=lambda row: row["name"])
def test_twelve_rates_equal_paddles(row: dict[str, Any]) -> None:
    found = tool.run_schedule(paddle, row["name"], row["arguments"])
    np.testing.assert_allclose(found["rates"], row["rates"], rtol=1e-9, atol=1e-12)
    assert found["state"].keys() == row["state"].keys()


def test_plateau_equals_paddles() -> None:
    assert tool.run_plateau(paddle) == pytest.approx(SCHEDULES[-1]["rates"])
