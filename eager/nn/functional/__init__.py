"""Functions of ``paddle.nn.functional``. Names with an underscore at the end work in place."""

from __future__ import annotations

import importlib
from typing import Any

from ...functional_linalg import diag_embed
from ...functional_search import one_hot
from . import activation, common, loss, windows
from .activation import *  # noqa: F403
from .common import *  # noqa: F403
from .loss import *  # noqa: F403
from .windows import *  # noqa: F403

__all__ = ["diag_embed", "one_hot", *activation.__all__, *common.__all__, *loss.__all__, *windows.__all__]


def __getattr__(name: str) -> Any:
    # In-place functions are made from these functions, so they are looked up when they are asked for.
    if name.endswith("_") and not name.startswith("_"):
        inplace = importlib.import_module("...inplace", __name__)
        if name in inplace.ACTIVATIONS:
            return inplace.FUNCTIONS[name].function
    raise AttributeError(f"module 'nn.functional' has no attribute '{name}'")
