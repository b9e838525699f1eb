"""Whether calling a loaded layer runs it or adds it to a static program: a hook that the static room fills."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["in_dynamic_mode", "recorder", "set_recorder"]

Recorder = Callable[..., Any]

_recorder: Recorder | None = None


def recorder() -> Recorder | None:
    """What takes the calls of loaded layers while a static program is built; None in dynamic mode."""
    return _recorder


def set_recorder(taker: Recorder | None) -> None:
    """Turn static mode on with what takes the calls, or off with None; for the whole process, as in Paddle."""
    global _recorder
    _recorder = taker


def in_dynamic_mode() -> bool:
    """Whether operators run at once."""
    return _recorder is None
