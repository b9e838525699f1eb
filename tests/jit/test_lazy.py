"""``LazyInitialized``: computed once, at first access, on the instance."""

from __future__ import annotations

import copy
import pickle
import threading
import time

import pytest
from oarlock.jit import LazyInitialized


class Holder:
    def __init__(self) -> None:
        self.calls = 0

    @LazyInitialized
    def value(self) -> list[int]:
        """What it costs to compute."""
        self.calls += 1
        time.sleep(0.01)
        return [self.calls]

    @LazyInitialized
    def doubled(self) -> list[int]:
        return self.value * 2

    def __getstate__(self) -> dict[str, object]:
        return LazyInitialized.state_without_lazy(self)


def test_it_is_computed_at_the_first_access_only() -> None:
    holder = Holder()
    assert holder.calls == 0
    assert holder.value is holder.value
    assert holder.calls == 1


def test_asking_whether_it_is_there_does_not_compute_it() -> None:
    holder = Holder()
    assert not Holder.value.is_initialized(holder)
    assert holder.calls == 0
    _ = holder.value
    assert Holder.value.is_initialized(holder)


def test_access_through_the_class_returns_the_descriptor() -> None:
    assert isinstance(Holder.value, LazyInitialized)
    assert Holder.value.__doc__ == "What it costs to compute."


def test_threads_at_the_first_access_compute_it_once() -> None:
    holder, seen = Holder(), []
    threads = [threading.Thread(target=lambda: seen.append(holder.value)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert holder.calls == 1
    assert all(each is holder.value for each in seen)


def test_one_lazy_attribute_may_be_computed_from_another() -> None:
    assert Holder().doubled == [1, 1]


def test_a_failure_is_not_kept() -> None:
    class Flaky:
        attempts = 0

        @LazyInitialized
        def value(self) -> int:
            self.attempts += 1
            if self.attempts == 1:
                raise OSError("not yet")
            return 7

    flaky = Flaky()
    with pytest.raises(OSError, match="not yet"):
        _ = flaky.value
    assert flaky.value == 7


def test_copies_and_pickles_leave_computed_values_behind() -> None:
    holder = Holder()
    _ = holder.value
    for twin in (copy.copy(holder), pickle.loads(pickle.dumps(holder))):
        assert "value" not in twin.__dict__
        assert twin.value == [2]


def test_a_class_with_slots_is_told_what_is_missing() -> None:
    class Slotted:
        __slots__ = ()

        @LazyInitialized
        def value(self) -> int:
            return 1

    with pytest.raises(TypeError, match="add '__dict__' to __slots__"):
        _ = Slotted().value
