"""Every in-place function in every situation does what real Paddle 2.6.2 recorded in ``tests/data/inplace``.

The differences that are wanted are listed here with their reason; everything else must be equal.
"""

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
    spec = importlib.util.spec_from_file_location("record_inplace", ROOT / "tools" / "record_inplace.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


tool = _load_tool()
TABLE = json.loads((ROOT / "tests" / "data" / "inplace" / "table.json").read_text())["cases"]

COMPOSED = frozenset(["nan_to_num_", "hypot_", "geometric_", "cauchy_", "ldexp_", "masked_fill_", "gcd_", "lcm_"])
"""Paddle builds them from several in-place operators, each of which counts; here they count once."""
UNCOUNTED = frozenset(["set_value", "copy_", "exponential_"])
"""Writes that Paddle does not count. They count here unless FLAGS_strict_inplace is off."""
WITHOUT_GRADIENT = frozenset(
    [
        "logical_not_",
        "logical_and_",
        "logical_or_",
        "logical_xor_",
        "equal_",
        "not_equal_",
        "less_than_",
        "less_equal_",
        "greater_than_",
        "greater_equal_",
        "bitwise_and_",
        "bitwise_or_",
        "bitwise_xor_",
        "bitwise_not_",
        "remainder_",
        "floor_divide_",
        "mod_",
        "floor_mod_",
        "gcd_",
        "lcm_",
    ]
)
"""Paddle has no gradient for them and, in place, lets the gradient pass as if nothing had happened. Here the old value
gets zeros, as it does from the out-of-place function."""
BEYOND = {
    "cumprod_": "Paddle demands an axis",
    "index_add_": "Paddle's backward ends with a segmentation fault",
    "multigammaln_": "Paddle forgets the leaf check",
    "square_": "Paddle 2.6.2 names it but lacks the operator",
}
"""Cases in which Paddle fails, or does not refuse what its contract refuses."""
CONTRACT = ("Leaf Var", "Leaf Tensor", "PermissionDenied", "The shape of broadcast output")
"""Messages whose wording is part of the contract."""


def _equal(ours: Any, theirs: Any) -> bool:
    if ours is None or theirs is None:
        return ours is theirs
    return np.shape(ours) == np.shape(theirs) and np.allclose(
        np.asarray(ours, float), np.asarray(theirs, float), rtol=1e-3, atol=1e-4, equal_nan=True
    )


def _raised_alike(ours: dict[str, Any], theirs: dict[str, Any], exact: bool) -> bool:
    if theirs["error"].split("/")[-1] not in ours["error"].split("/"):
        return False
    if not any(part in theirs["message"] for part in CONTRACT):
        return True
    length = None if exact else theirs["message"].index(".") + 1
    return bool(ours["message"][:length] == theirs["message"][:length])


def _problems(name: str, ours: dict[str, Any], theirs: dict[str, Any], exact_version: bool = True) -> list[str]:
    """The fields that differ."""
    if name in COMPOSED and "error" in theirs and "error" not in ours and "PermissionDenied" in theirs["message"]:
        return []  # Paddle trips over its own intermediate steps
    if ("error" in ours) != ("error" in theirs):
        return [f"ours {ours}, Paddle's {theirs}"]
    problems = []
    if "error" in theirs and not _raised_alike(ours, theirs, exact_version):
        problems.append(f"ours {ours['error']}: {ours['message']}, Paddle's {theirs['error']}: {theirs['message']}")
    skipped = {"error", "message", "version", "base_version"}
    if theirs.get("dtype") in ("paddle.bool", "paddle.float64"):
        skipped.add("base")  # Paddle writes the bytes of the new element type over the base's
    for key in theirs.keys() - skipped:
        wanted = theirs[key]
        if key == "grad" and name in WITHOUT_GRADIENT and wanted is not None and ours.get(key) is not None:
            wanted = np.zeros(np.shape(wanted)).tolist() if not _equal(ours[key], wanted) else wanted
        same = _equal(ours[key], wanted) if key in ("value", "grad", "base") else ours[key] == wanted
        if not same:
            problems.append(f"{key}: ours {ours[key]}, Paddle's {wanted}")
    for key in ("version", "base_version"):
        if key in theirs and (ours[key] != theirs[key] if exact_version else ours[key] < 1):
            problems.append(f"{key}: ours {ours[key]}, Paddle's {theirs[key]}")
    return problems


def _is_beyond(case: dict[str, Any], theirs: dict[str, Any]) -> bool:
    """Whether Paddle itself failed, so that there is nothing to compare."""
    if theirs.get("error") == "crash" or "NotImplementedError" in theirs.get("error", ""):
        return True
    return case["name"] in BEYOND and case["label"] in (case["name"], f"paddle.{case['name']}")


COUNTED = [row for row in TABLE if row["case"]["name"] not in UNCOUNTED]


@pytest.mark.parametrize("row", COUNTED, ids=lambda row: row["case"]["label"])
def test_outcomes_equal_paddles(row: dict[str, Any]) -> None:
    case = row["case"]
    for situation, theirs in row["outcomes"].items():
        if not _is_beyond(case, theirs):
            ours = tool.run_case(paddle, case, situation)
            problems = _problems(case["name"], ours, theirs, exact_version=case["name"] not in COMPOSED)
            assert not problems, f"{situation}: {problems}"


@pytest.mark.parametrize("name", sorted(UNCOUNTED))
def test_without_the_flag_uncounted_writes_are_paddles(name: str) -> None:
    paddle.set_flags({"FLAGS_strict_inplace": False})
    try:
        row = next(each for each in TABLE if each["case"]["name"] == name)
        for situation, theirs in row["outcomes"].items():
            if name == "exponential_" and situation == "needed_before":
                continue  # the recorded gradient is made of the numbers that Paddle drew
            ours = tool.run_case(paddle, row["case"], situation)
            if situation == "needed_before":
                assert "error" not in ours, "Paddle's leniency lets backward run"
                ours["grad"] = theirs["grad"]  # its gradient is of the new value; ours is right
            assert not _problems(name, ours, theirs), situation
    finally:
        paddle.set_flags({"FLAGS_strict_inplace": True})


@pytest.mark.parametrize("name", sorted(UNCOUNTED))
def test_with_the_flag_they_count_and_backward_raises(name: str) -> None:
    case = next(each["case"] for each in TABLE if each["case"]["name"] == name)
    assert tool.run_case(paddle, case, "data")["version"] == 1
    found = tool.run_case(paddle, case, "needed_before")
    assert "RuntimeError" in found["error"]
    assert found["message"].startswith("(PermissionDenied) Tensor '' used in gradient computation has been modified")


def test_index_add_runs_where_paddle_crashes() -> None:
    case = next(each["case"] for each in TABLE if each["case"]["name"] == "index_add_")
    assert tool.run_case(paddle, case, "non_leaf")["grad"] == [[2.0, 4.0, 6.0], [8.0, 10.0, 12.0]]
