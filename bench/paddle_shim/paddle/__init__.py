"""A module named ``paddle`` that is oarlock: put its folder on the path where a program imports ``paddle``."""

from __future__ import annotations

import sys
from typing import Any

import oarlock
from oarlock import inference

sys.modules["paddle.inference"] = inference


def __getattr__(name: str) -> Any:
    return getattr(oarlock, name)
