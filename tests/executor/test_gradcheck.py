"""The gradient check must catch wrong gradients and refuse points where it cannot judge."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from oarlock.ir import registry
from oarlock.ir.registry import define


@pytest.fixture
def made_up() -> Iterator[None]:
    """Operators with right and wrong gradients, gone after the test."""
    before = dict(registry._TABLE)

    def declare(name: str, forward, backward) -> None:  # type: ignore[no-untyped-def]
        op = define(name, forward, inputs="X", outputs="Out")
        op.gradient(takes="X Out@GRAD", gives="X@GRAD")(backward)

    declare("t_square", lambda x: x * x, lambda x, d_out: 2 * x * d_out)
    declare("t_factor", lambda x: x * x, lambda x, d_out: 2.0001 * x * d_out)
    declare("t_one_element", lambda x: x * x, _wrong_in_one)
    declare("t_shape", lambda x: x * x, lambda x, d_out: (2 * x * d_out).reshape(-1))
    declare("t_dtype", lambda x: x * x, lambda x, d_out: (2 * x * d_out).astype(np.float32))
    declare("t_writes", lambda x: x * x, _writes)
    declare("t_abs", lambda x: np.abs(x), lambda x, d_out: np.sign(x) * d_out)
    declare("t_floor", lambda x: np.floor(x), lambda x, d_out: 0 * d_out)
    declare("t_conj", lambda x: np.conj(x), lambda x, d_out: np.conj(d_out))
    declare("t_no_conj", lambda x: np.conj(x), lambda x, d_out: d_out)
    yield
    registry._TABLE.clear()
    registry._TABLE.update(before)


def _wrong_in_one(x, d_out):  # type: ignore[no-untyped-def]
    grad = 2 * x * d_out
    grad[0] += 1e-3
    return grad


def _writes(x, d_out):  # type: ignore[no-untyped-def]
    d_out *= 2 * x
    return d_out


@pytest.mark.usefixtures("made_up")
class TestGradcheck:
    x = np.random.default_rng(5).standard_normal((3, 4))

    def test_a_right_gradient_passes_and_is_returned(self, gradcheck) -> None:  # type: ignore[no-untyped-def]
        found = gradcheck("t_square", {"X": self.x.astype(np.float32)})
        assert found["X"].dtype == np.float64 and found["X"].shape == (3, 4)

    def test_a_complex_gradient_is_the_conjugate_convention(self, gradcheck) -> None:  # type: ignore[no-untyped-def]
        z = self.x + 1j * self.x[::-1]
        gradcheck("t_conj", {"X": z})
        with pytest.raises(AssertionError, match="central difference"):
            gradcheck("t_no_conj", {"X": z})

    @pytest.mark.parametrize("type", ["t_factor", "t_one_element"])
    def test_a_slightly_wrong_gradient_is_caught(self, type, gradcheck) -> None:  # type: ignore[no-untyped-def]
        with pytest.raises(AssertionError, match="central difference"):
            gradcheck(type, {"X": self.x})

    @pytest.mark.parametrize("type", ["t_shape", "t_dtype"])
    def test_shape_and_dtype_must_be_the_inputs(self, type, gradcheck) -> None:  # type: ignore[no-untyped-def]
        with pytest.raises(AssertionError, match="gradient of X is"):
            gradcheck(type, {"X": self.x})

    def test_a_kernel_that_writes_to_its_inputs_is_caught(self, gradcheck) -> None:  # type: ignore[no-untyped-def]
        with pytest.raises(AssertionError, match="wrote to"):
            gradcheck("t_writes", {"X": self.x})

    def test_kinks_and_jumps_are_refused(self, gradcheck, not_differentiable) -> None:  # type: ignore[no-untyped-def]
        gradcheck("t_abs", {"X": np.array([1.0, -2.0])})
        with pytest.raises(not_differentiable, match="kink"):
            gradcheck("t_abs", {"X": np.array([0.0, -2.0])})
        with pytest.raises(not_differentiable, match="kink"):
            gradcheck("t_floor", {"X": np.array([2.0, 0.5])})
