"""Where random operators draw from: one global generator, or one of their own for an op that states a seed.

An op with ``seed`` 0 draws from the global generator, whose state moves on with every draw; an op with
another seed draws the same numbers at every run, as Paddle's CPU kernels do. The numbers are not Paddle's:
numpy's generator gives the same distribution, not the same bits.
"""

from __future__ import annotations

import threading

import numpy as np

__all__ = ["generator", "set_seed"]

_lock = threading.Lock()
_global: np.random.Generator | None = None


def set_seed(seed: int | None) -> None:
    """Start the global generator again from ``seed``; None takes fresh entropy from the system."""
    global _global
    made = np.random.default_rng(seed)
    with _lock:
        _global = made


def generator(seed: int = 0) -> np.random.Generator:
    """The generator for an op with this ``seed``: the global one for 0, else a new one that starts from it.

    numpy generators lock themselves during a draw, so that the global one may be used from many threads.
    Negative seeds, which int attributes allow, are taken by their low 64 bits.
    """
    global _global
    if seed:
        return np.random.default_rng(seed & 0xFFFFFFFFFFFFFFFF)
    with _lock:
        if _global is None:
            _global = np.random.default_rng()
        return _global
