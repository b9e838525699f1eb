"""Memory stays where it is over many calls and many sizes (B94), and goes when a layer goes."""

from __future__ import annotations

import gc
import tracemalloc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import oarlock
import pytest
from oarlock.executor.kernels.workspace import KEPT_BYTES
from oarlock.executor.parallel import num_threads

SIZES = [(1 + i % 3, 3, 8 + 4 * (i % 6), 8 + 4 * (i // 6)) for i in range(30)]

SLACK = 500_000
"""Bytes that modules, caches of types and the like may take while a test runs, whatever ran before it."""


@pytest.fixture
def held() -> Any:
    """``held()``: bytes that Python and numpy hold now."""

    def now() -> int:
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    yield now
    tracemalloc.stop()


def test_new_sizes_leave_nothing_behind(sample: Any, held: Callable[[], int]) -> None:
    layer = oarlock.jit.load(sample("bn_finetune").path)
    inputs = [np.ones(size, np.float32) for size in SIZES]
    for x in inputs:
        layer(x)
    before = held()
    for _ in range(5):
        for x in inputs:
            layer(x)
    assert held() < before + SLACK  # what each call leaves would be 3 MB by now


def test_the_largest_call_is_given_back(sample: Any, held: Callable[[], int]) -> None:
    layer = oarlock.jit.load(sample("bn_finetune").path)
    layer(np.ones((1, 3, 8, 8), np.float32))
    before = held()
    layer(np.ones((32, 3, 256, 256), np.float32))  # 25 MB in, 50 MB after the first convolution
    layer(np.ones((1, 3, 8, 8), np.float32))
    assert held() < before + num_threads() * KEPT_BYTES + SLACK  # scratch of each thread stays, bounded


def test_calls_that_fail_leave_nothing_behind(sample: Any, held: Callable[[], int]) -> None:
    layer = oarlock.jit.load(sample("two_in_two_out").path)
    wrong = np.ones((2000, 5), np.float32)

    def attempt() -> None:
        with pytest.raises(oarlock.errors.InputError):
            layer(wrong, wrong)

    attempt()
    before = held()
    for _ in range(50):
        attempt()
    assert held() < before + SLACK  # the inputs of all attempts are 2 MB


def test_a_layer_that_nobody_holds_is_freed(sample: Any) -> None:
    layer = oarlock.jit.load(sample("bn_finetune").path)
    layer(np.ones((1, 3, 8, 8), np.float32))
    gone = weakref.ref(layer)
    del layer
    gc.collect()
    assert gone() is None
