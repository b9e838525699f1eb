"""oarlock: load, run and fine-tune models saved by PaddlePaddle, without PaddlePaddle.

The names are those that Paddle users type, so that ``import oarlock as paddle`` carries an inference or
fine-tuning script over. Rooms are imported when they are first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import inference as inference
    from . import jit as jit
    from . import static as static

__version__ = "0.1.0"

_ROOMS = frozenset({"cli", "eager", "errors", "executor", "inference", "ir", "jit", "proto", "static"})

_STATIC_MODE = frozenset({"disable_static", "enable_static", "in_dynamic_mode"})


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return importlib.import_module(f"{__name__}.{name}")
    if name in _STATIC_MODE:
        return getattr(importlib.import_module(f"{__name__}.static"), name)
    api = importlib.import_module(f"{__name__}.eager.api")
    try:
        value = getattr(api, name)
    except AttributeError:
        raise AttributeError(f"module 'oarlock' has no attribute '{name}'") from None
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    api = importlib.import_module(f"{__name__}.eager.api")
    return sorted({*globals(), *_ROOMS, *_STATIC_MODE, *api.__all__})
