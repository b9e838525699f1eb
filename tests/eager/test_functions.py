"""Eager functions give values, element types and gradients that real Paddle 2.6.2 recorded in ``tests/data/eager``."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import oarlock as paddle
import pytest

ROOT = Path(__file__).resolve().parents[2]


def _load_tool() -> Any:
    spec = importlib.util.spec_from_file_location("record_eager", ROOT / "tools" / "record_eager.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


tool = _load_tool()
ROWS = json.loads((ROOT / "tests" / "data" / "eager" / "functions.json").read_text())

WRONG_GRADIENTS = {
    "paddle.gather(x, i[0] - 1, 1)": "Paddle repeats the gradient of the first row: the identity has another",
    "F.gaussian_nll_loss(x, y, y + 1)": "Paddle cuts the graph at the variance",
    "F.gaussian_nll_loss(x, y, y + 1, True)": "Paddle cuts the graph at the variance",
}
"""Expressions whose gradients are wrong in Paddle 2.6.2; values are compared all the same."""


def _check(ours: Any, theirs: Any, where: str) -> None:
    if isinstance(theirs, list) and isinstance(ours, list) and any(isinstance(each, (dict, list)) for each in theirs):
        assert len(ours) == len(theirs), where
        for index, (a, b) in enumerate(zip(ours, theirs, strict=True)):
            _check(a, b, f"{where}[{index}]")
    elif isinstance(theirs, dict):
        assert ours.get("dtype") == theirs.get("dtype"), where
        assert ours["shape"] == theirs["shape"], where
        np.testing.assert_allclose(
            np.ravel(ours["data"]), np.ravel(theirs["data"]), rtol=2e-5, atol=2e-6, err_msg=where
        )
    elif isinstance(theirs, float):
        assert ours == pytest.approx(theirs, rel=1e-5), where
    else:
        assert ours == theirs or np.allclose(ours, theirs), where


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["expression"])
def test_value_and_gradients_equal_paddles(row: dict[str, Any]) -> None:
    ours = json.loads(json.dumps(tool.evaluate(paddle, row["expression"])))
    _check(ours["value"], row["value"], "value")
    if row["expression"] in WRONG_GRADIENTS:
        return
    theirs = row.get("grads", {})
    for name, grad in theirs.items():
        zero = not np.any(grad["data"])
        assert zero or name in ours.get("grads", {}), f"no gradient of {name}"
        if name in ours.get("grads", {}):
            _check(ours["grads"][name], grad, f"gradient of {name}")
    for name, grad in ours.get("grads", {}).items():
        assert name in theirs or not np.any(grad["data"]), f"a gradient of {name} that Paddle does not have"
