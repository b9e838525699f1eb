"""Backward, ``grad()``, hooks, modes, and what the errors say."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np
import oarlock as paddle
import pytest
from oarlock.eager import GradNode, connect, trace_op
from oarlock.eager.graph import AutogradError, BackwardTwiceError
from oarlock.executor.values import Meta


def leaf(values: Any = (1.0, 2.0, 3.0)) -> Any:
    return paddle.to_tensor(np.array(values, "float32"), stop_gradient=False)


def test_gradients_accumulate_over_paths_and_calls() -> None:
    x = leaf()
    y = x * 2
    (y * 3 + y * y).sum().backward()
    assert x.grad.numpy().tolist() == [14.0, 22.0, 30.0]
    x.sum().backward()
    assert x.grad.numpy().tolist() == [15.0, 23.0, 31.0]
    assert not x.grad.stop_gradient


def test_clear_grad_leaves_zeros_or_nothing() -> None:
    x = leaf()
    x.sum().backward()
    x.clear_grad()
    assert x.grad.numpy().tolist() == [0.0, 0.0, 0.0]
    x.clear_gradient(False)
    assert x.grad is None
    assert x.gradient() is None


def test_a_tensor_of_several_elements_starts_from_ones() -> None:
    x = leaf()
    (x * x).backward()
    assert x.grad.numpy().tolist() == [2.0, 4.0, 6.0]


def test_a_given_gradient_must_have_the_shape() -> None:
    x = leaf()
    (x * 2).backward(paddle.to_tensor([1.0, 0.0, 2.0]))
    assert x.grad.numpy().tolist() == [2.0, 0.0, 4.0]
    with pytest.raises(AssertionError, match="Tensor shape not match"):
        (x * 2).backward(paddle.to_tensor([1.0]))


def test_backward_of_what_needs_no_gradient_is_silent() -> None:
    paddle.ones([2]).backward()


@pytest.mark.parametrize("function", [lambda x: (x * x).sum(), lambda x: x * 2, lambda x: x + x])
def test_twice_is_an_error_unless_the_graph_is_retained(function: Any) -> None:
    x = leaf()
    y = function(x)
    y.backward(retain_graph=True)
    y.backward()
    with pytest.raises(
        SystemError, match=r"^\(Fatal\) The TensorWrappers of \w+GradNode do not exist\..*retain_graph=True"
    ):
        y.backward()
    assert issubclass(BackwardTwiceError, RuntimeError)


def test_the_error_names_the_node_as_paddle_does() -> None:
    x = leaf()
    y = x.sum()
    assert y.grad_fn.name() == "SumGradNode"
    assert (x @ x).grad_fn.name() == "MatmulGradNode"
    assert (x + x).grad_fn.name() == "AddGradNode"
    assert x.grad_fn.name() == "GradNodeAccumulation"


def test_only_some_outputs_used() -> None:
    x = leaf()
    a, _, c = x.split(3)
    (a * 2 + c).sum().backward()
    assert x.grad.numpy().tolist() == [2.0, 0.0, 1.0]


def test_hooks_see_the_whole_gradient_and_may_replace_it() -> None:
    x = leaf()
    seen: list[Any] = []
    handle = x.register_hook(lambda g: seen.append(g.numpy().tolist()))
    (x * 2 + x * 3).sum().backward()
    assert seen == [[5.0, 5.0, 5.0]]
    assert handle.remove() is True
    assert handle.remove() is False
    y = x * 2
    y.register_hook(lambda g: g * 10)
    x.clear_gradient(False)
    y.sum().backward()
    assert x.grad.numpy().tolist() == [20.0, 20.0, 20.0]


def test_a_hook_needs_a_gradient_and_must_return_a_tensor() -> None:
    with pytest.raises(RuntimeError, match="stop gradient"):
        paddle.ones([1]).register_hook(lambda g: g)
    y = leaf() * 2
    y.register_hook(lambda g: 3)
    with pytest.raises(ValueError, match="must return a Tensor or None, got int"):
        y.sum().backward()


def test_retained_gradients_are_those_of_the_last_backward() -> None:
    x = leaf()
    y = x * 2
    y.retain_grads()
    z = (y * y).sum()
    z.backward(retain_graph=True)
    z.backward()
    assert y.grad.numpy().tolist() == [4.0, 8.0, 12.0]


def test_detach_and_stop_gradient_cut_the_graph() -> None:
    x = leaf()
    (x * x.detach()).sum().backward()
    assert x.grad.numpy().tolist() == [1.0, 2.0, 3.0]
    y = x * 2
    y.stop_gradient = True
    assert (y * 3).stop_gradient
    assert not y.is_leaf


def test_grad_adds_to_nothing() -> None:
    x = leaf()
    y = x * x
    assert paddle.grad(y, x)[0].numpy().tolist() == [2.0, 4.0, 6.0]
    assert x.grad is None


def test_grad_of_inner_tensors_and_of_itself() -> None:
    x = leaf()
    y = x * x
    z = y * 2
    assert paddle.grad(z, y, retain_graph=True)[0].numpy().tolist() == [2.0, 2.0, 2.0]
    assert paddle.grad(x, x)[0].numpy().tolist() == [1.0, 1.0, 1.0]


def test_grad_of_unused_inputs() -> None:
    x, other = leaf(), leaf()
    with pytest.raises(ValueError, match=r"^\(InvalidArgument\) The 1-th input does not appear in the backward graph"):
        paddle.grad(x * x, [x, other])
    assert paddle.grad(x * x, [x, other], allow_unused=True)[1] is None


def test_grad_stops_at_no_grad_vars() -> None:
    x = leaf()
    y = x * x
    assert paddle.grad(y + x, x, no_grad_vars=[y])[0].numpy().tolist() == [1.0, 1.0, 1.0]


def test_second_derivatives() -> None:
    x = leaf()
    (first,) = paddle.grad((x * x * x).sum(), x, create_graph=True)
    assert first.numpy().tolist() == [3.0, 12.0, 27.0]
    (second,) = paddle.grad(first.sum(), x, create_graph=True)
    assert second.numpy().tolist() == [6.0, 12.0, 18.0]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: paddle.tanh(x * x),
        lambda x: (x**2).sum() * x,
        lambda x: paddle.sqrt(x) * x[0],
        lambda x: paddle.matmul(x.reshape([1, 3]), x.reshape([3, 1])) * x,
        lambda x: paddle.exp(x[1:] - x[:-1]),
    ],
    ids=["tanh", "pow", "sqrt", "matmul", "index"],
)
def test_a_gradient_penalty_has_the_numeric_derivative(function: Any) -> None:
    def penalty(values: Any) -> Any:
        x = paddle.to_tensor(values, stop_gradient=False)
        (grad,) = paddle.grad(function(x).sum(), x, create_graph=True)
        return (grad * grad).sum(), x

    values = np.array([0.5, 0.8, 1.2])
    loss, x = penalty(values)
    loss.backward()
    step = 1e-6
    numeric = [
        (float(penalty(values + step * unit)[0]) - float(penalty(values - step * unit)[0])) / (2 * step)
        for unit in np.eye(3)
    ]
    np.testing.assert_allclose(x.grad.numpy(), numeric, rtol=1e-6)


def test_a_missing_second_order_rule_raises_and_does_not_lose_a_term() -> None:
    x = leaf()
    (grad,) = paddle.grad(paddle.erfinv(x * 0.1).sum(), x, create_graph=True)
    with pytest.raises(AutogradError, match="erfinv_grad has no gradient rule"):
        grad.sum().backward()


def test_no_grad_as_context_decorator_and_generator() -> None:
    x = leaf()

    @paddle.no_grad()
    def doubled() -> Any:
        return x * 2

    @paddle.no_grad()
    def steps() -> Any:
        yield x * 2
        yield x * 3

    with paddle.no_grad():
        assert (x * 2).stop_gradient
        with paddle.enable_grad():
            assert not (x * 2).stop_gradient
    assert doubled().stop_gradient
    for each in steps():
        assert each.stop_gradient
        assert paddle.is_grad_enabled()
    with paddle.set_grad_enabled(False):
        assert (x * 2).stop_gradient
    assert paddle.is_grad_enabled()


class Doubling(GradNode):
    """A node that no operator describes."""

    def apply(self, grads: list[Any]) -> Sequence[Any]:
        return tuple(None if each is None else each * 2 for each in grads)


def test_a_foreign_node_takes_part() -> None:
    x = leaf()
    hidden = x * 3
    with paddle.no_grad():
        out = hidden * 2
    connect(Doubling([hidden], [Meta((3,), np.dtype("float32"))]), [out])
    (out * out).sum().backward()
    assert x.grad.numpy().tolist() == [72.0, 144.0, 216.0]
    with pytest.raises(AutogradError, match="Doubling has no second-order rule"):
        paddle.grad(out.sum(), x, create_graph=True)


def test_trace_op_runs_by_slots() -> None:
    x = leaf()
    outputs = trace_op("softmax", {"X": x}, {"axis": 0})
    assert list(outputs) == ["Out"]
    assert float(outputs["Out"].sum()) == pytest.approx(1.0)
    with pytest.raises(ValueError, match="has no input slot Y, it takes X"):
        trace_op("softmax", {"Y": x})
    with pytest.raises(ValueError, match="needs input slot X"):
        trace_op("softmax", {})
    with pytest.raises(NotImplementedError, match="no_such_operator"):
        trace_op("no_such_operator", {})


def test_a_kernel_error_names_the_operator_and_its_inputs() -> None:
    with pytest.raises(ValueError, match=r"^\(InvalidArgument\) matmul_v2\(X=float32\[3\], Y=float32\[2\]\): "):
        paddle.matmul(leaf(), leaf([1.0, 2.0]))


def test_backward_frees_what_it_kept() -> None:
    x = leaf()
    y = x * 2
    kept = weakref.ref(y)
    z = (y * y).sum()
    del y
    z.backward()
    gc.collect()
    assert kept() is None
    assert z.grad_fn.released


def test_only_what_the_rule_takes_stays_alive() -> None:
    x = leaf()
    hidden = x * 2
    array = weakref.ref(hidden._array)
    out = hidden + 1  # its gradient needs no value
    del hidden
    assert array() is None
    hidden = x * 2
    array = weakref.ref(hidden._array)
    out = paddle.square(hidden)
    del hidden
    assert array() is not None
    out.sum().backward()


def test_a_deep_chain_needs_no_recursion() -> None:
    x = leaf()
    y = x
    for _ in range(5000):
        y = y + 1
    y.sum().backward()
    assert x.grad.numpy().tolist() == [1.0, 1.0, 1.0]
