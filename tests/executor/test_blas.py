"""The threads of numpy's matrix products."""

from __future__ import annotations

import os
import threading

import numpy as np
import pytest
from oarlock.executor import blas

pytestmark = pytest.mark.skipif(not blas.can_set_blas_threads(), reason="the BLAS library is not one we know")


@pytest.fixture(autouse=True)
def _restored():
    before = blas._calls().get()
    yield
    blas.set_blas_threads(before)


def now() -> int:
    return blas._calls().get()


def test_inside_products_run_alone_and_afterwards_as_before() -> None:
    blas.set_blas_threads(2)
    with blas.own_threads() as alone:
        assert alone and now() == 1
        with blas.own_threads():
            assert now() == 1
        assert now() == 1
    assert now() == 2


def test_an_error_inside_puts_the_number_back() -> None:
    blas.set_blas_threads(2)
    with pytest.raises(KeyError), blas.own_threads():
        raise KeyError
    assert now() == 2


def test_a_number_set_inside_holds_afterwards() -> None:
    blas.set_blas_threads(1)
    with blas.own_threads():
        blas.set_blas_threads(2)
        assert now() == 1
    assert now() == 2


def test_many_threads_leave_the_number_as_it_was() -> None:
    blas.set_blas_threads(2)
    a = np.ones((64, 64), np.float32)

    def work() -> None:
        for _ in range(200):
            with blas.own_threads():
                assert (a @ a)[0, 0] == 64

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert now() == 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_child_forked_inside_has_the_number_from_outside() -> None:
    blas.set_blas_threads(2)
    with blas.own_threads():
        child = os.fork()
        if child == 0:
            os._exit(0 if now() == 2 else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert now() == 2


def test_without_a_library_nothing_is_set(monkeypatch) -> None:
    monkeypatch.setattr(blas, "_calls", lambda: None)
    assert not blas.can_set_blas_threads() and not blas.set_blas_threads(3)
    with blas.own_threads() as alone:
        assert not alone
