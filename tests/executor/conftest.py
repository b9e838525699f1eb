"""Fixtures of the executor's tests."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest


def _load(name: str) -> ModuleType:
    """A helper module that lies beside this file, loaded once."""
    key = f"oarlock_executor_tests_{name}"
    if key not in sys.modules:
        spec = importlib.util.spec_from_file_location(key, Path(__file__).with_name(f"{name}.py"))
        assert spec is not None and spec.loader is not None
        sys.modules[key] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[key])
    return sys.modules[key]


@pytest.fixture(scope="session")
def gradcheck() -> Callable[..., dict[str, Any]]:
    """``gradcheck(op_type, inputs_by_slot, attrs, ...)``, see ``gradcheck.py``."""
    return _load("gradcheck").check_gradient  # type: ignore[no-any-return]


@pytest.fixture(scope="session")
def not_differentiable() -> type[ValueError]:
    """What ``gradcheck`` raises where no finite difference can judge."""
    return _load("gradcheck").NotDifferentiable  # type: ignore[no-any-return]


@pytest.fixture(scope="session")
def run_op() -> Callable[..., Any]:
    """``run_op(op_type, inputs_by_slot, attrs, ...)``: outputs and gradients of one op, see ``opcase.py``."""
    return _load("opcase").run_op  # type: ignore[no-any-return]


@pytest.fixture(scope="session")
def basecases() -> ModuleType:
    """The module ``basecases.py``: small cases of every operator, and ways to run them."""
    return _load("basecases")


@pytest.fixture(scope="session")
def attr_moves() -> Callable[..., list[Any]]:
    """``attr_moves(name, current)``: values to move an attribute to, see ``attrmoves.py``."""
    return _load("attrmoves").moves  # type: ignore[no-any-return]
