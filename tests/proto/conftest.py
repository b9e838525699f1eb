"""Where the sample models and state files of these tests lie."""

from __future__ import annotations

from pathlib import Path

import pytest

DATA = Path(__file__).resolve().parent.parent / "data" / "proto"


@pytest.fixture
def models() -> Path:
    """Folders of small models that Paddle 2.6.2 saved, their parameters in its own format."""
    return DATA / "models"


@pytest.fixture
def states() -> Path:
    """Files that ``paddle.save`` of 2.6.2 (``p26_``) and 3.3.1 (``p33_``) wrote."""
    return DATA / "states"
