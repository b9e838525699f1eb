"""The in-place contract: versions, checks, what backward notices, views, dtypes, atomicity."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import oarlock as paddle
import pytest
from oarlock.eager import inplace, mutation_epoch
from oarlock.eager.graph import AutogradError
from oarlock.eager.inplace import FUNCTIONS, INPLACE, trace_op_
from oarlock.ir.registry import find


def leaf(values: Any = ((1.0, 2.0), (3.0, 4.0))) -> Any:
    return paddle.to_tensor(np.array(values, "float32"), stop_gradient=False)


def filled() -> Any:
    a = paddle.to_tensor(np.full((4, 2), 1.5, "float32"), stop_gradient=False)
    return a, a**2


# The three programs of the contract


def test_a_change_after_use_raises_and_names_everybody() -> None:
    _, b = filled()
    c = b**2
    b[1:2] = 3.3
    with pytest.raises(RuntimeError) as raised:
        c.sum().backward()
    text = str(raised.value)
    assert text.startswith(
        "(PermissionDenied) Tensor '' used in gradient computation has been modified by an inplace operation. "
        "Its version is 1 but the expected version is 0."
    )
    assert "PowGradNode needs it (slot X of pow_grad)" in text
    assert "set_value wrote to it last" in text
    assert "clone()" in text
    assert "\n" not in text


def test_a_change_before_use_is_part_of_the_gradient() -> None:
    a, b = filled()
    b[1:2] = 3.3
    (b**2).sum().backward()
    np.testing.assert_allclose(a.grad.numpy(), [[13.5, 13.5], [0, 0], [13.5, 13.5], [13.5, 13.5]])


def test_a_change_of_what_backward_does_not_need_is_fine() -> None:
    a, b = filled()
    c = b + 1
    b[1:2] = 3.3
    c.sum().backward()
    np.testing.assert_allclose(a.grad.numpy(), np.full((4, 2), 3.0))


# Versions


def test_views_share_one_version_in_both_directions() -> None:
    a = paddle.ones([2, 3])
    views = [a.reshape([6]), a[0], a.T, a.detach(), a.unsqueeze(0), a.flatten(), a[:, 1:]]
    a.add_(paddle.ones([2, 3]))
    views[0].zero_()
    assert [each.inplace_version for each in (a, *views)] == [2] * 8
    assert a.clone().inplace_version == 0
    assert (a + 1).inplace_version == 0
    np.testing.assert_array_equal(a.numpy(), np.zeros((2, 3)))


def test_the_version_is_read_only() -> None:
    with pytest.raises(AttributeError):
        paddle.ones([1]).inplace_version = 3


def test_plus_equals_binds_a_new_tensor() -> None:
    a = paddle.ones([2])
    b = a
    a += 1
    assert (b.numpy().tolist(), a.inplace_version) == ([1.0, 1.0], 0)


def test_a_reshape_in_place_leaves_the_shape_of_views() -> None:
    a = paddle.ones([2, 3])
    b = a.reshape([6])
    assert a.reshape_([3, 2]) is a
    assert (a.shape, b.shape, b.inplace_version) == ([3, 2], [6], 1)
    b[0] = 9.0
    assert float(a[0, 0]) == 9.0


@pytest.mark.parametrize(
    "write",
    [
        lambda p: p.set_value(np.zeros(3, "float32")),
        lambda p: p.copy_(paddle.zeros([3]), True),
        lambda p: p.exponential_(),
        lambda p: p.__setitem__(0, 1.0),
        lambda p: p.fill_(0.0),
    ],
    ids=["set_value", "copy_", "exponential_", "setitem", "fill_"],
)
def test_every_write_to_a_parameter_moves_version_and_epoch(write: Any) -> None:
    p = paddle.Parameter(np.ones(3, "float32"))
    epoch, version = mutation_epoch(), p._storage.version
    with paddle.no_grad():
        write(p)
    assert p.inplace_version == 1
    assert p._storage.version == version + 1
    assert mutation_epoch() > epoch


def test_a_write_to_other_tensors_leaves_the_epoch() -> None:
    epoch = mutation_epoch()
    paddle.ones([3]).zero_()
    assert mutation_epoch() == epoch


def test_without_the_flag_the_plan_still_sees_writes() -> None:
    p = paddle.Parameter(np.ones(3, "float32"))
    paddle.set_flags({"FLAGS_strict_inplace": False})
    try:
        p.set_value(np.zeros(3, "float32"))
    finally:
        paddle.set_flags({"FLAGS_strict_inplace": True})
    assert (p.inplace_version, p._storage.version) == (0, 1)


def test_an_optimizer_step_between_forward_and_backward_raises() -> None:
    linear = paddle.nn.Linear(2, 2)
    x = leaf()
    optimizer = paddle.optimizer.SGD(0.1, parameters=linear.parameters())
    linear(x).sum().backward()
    hidden = linear(x)
    optimizer.step()
    assert linear.weight.inplace_version == 1
    with pytest.raises(AutogradError, match=r"SGD\.step wrote to it last"):
        hidden.sum().backward()


# Checks


def test_a_leaf_refuses_and_stays_as_it_was() -> None:
    x = leaf()
    x.name = "weight"
    with pytest.raises(ValueError, match=r"^\(InvalidArgument\) Leaf Var \(weight\) that doesn't stop gradient can't"):
        x.exp_()
    assert (x.inplace_version, x.numpy().tolist()) == (0, [[1.0, 2.0], [3.0, 4.0]])
    with pytest.raises(ValueError, match=r"Leaf Tensor \(weight\)"):
        x[0] = 1.0


def test_under_no_grad_a_leaf_may_be_changed() -> None:
    x = leaf()
    with paddle.no_grad():
        assert x.exp_() is x
    assert (x.inplace_version, x.is_leaf, x.stop_gradient) == (1, True, False)


def test_a_failed_kernel_changes_nothing() -> None:
    x = leaf()
    y = x * 2
    node = y.grad_fn
    for attempt in (
        lambda: y.add_(paddle.ones([3])),
        lambda: y.add_(paddle.ones([5, 2, 2])),
        lambda: y.reshape_([3, 3]),
        lambda: y.add_(paddle.ones([2, 2], "float64")),
        lambda: y.__setitem__(0, paddle.ones([7])),
        lambda: y.transpose_([0, 5]),
    ):
        with pytest.raises((ValueError, TypeError)):
            attempt()
    assert (y.inplace_version, y.shape, y.numpy().tolist()) == (0, [2, 2], [[2.0, 4.0], [6.0, 8.0]])
    assert y.grad_fn is node


def test_data_becomes_part_of_the_graph_through_the_other_operand() -> None:
    data, w = paddle.ones([2, 2]), leaf()
    data.multiply_(w)
    assert (data.stop_gradient, data.is_leaf) == (False, False)
    data.sum().backward()
    np.testing.assert_array_equal(w.grad.numpy(), np.ones((2, 2)))


@pytest.mark.parametrize(
    ("left", "right", "kept"),
    [
        ("float64", "float32", True),
        ("float32", "float64", False),
        ("float32", "int64", True),
        ("int64", "int32", True),
        ("int32", "int64", False),
        ("int32", "float32", False),
        ("float16", "bfloat16", False),
        ("float32", "bfloat16", True),
        ("complex64", "float32", True),
        ("float32", "complex64", False),
    ],
)
def test_the_left_type_stays_or_the_call_is_refused(left: str, right: str, kept: bool) -> None:
    x = paddle.to_tensor(np.array([2, 3])).astype(left)
    y = paddle.to_tensor(np.array([1, 1])).astype(right)
    if kept:
        x.add_(y)
        assert (str(x.dtype), x.astype("complex64").numpy().real.tolist()) == (f"paddle.{left}", [3.0, 4.0])
    else:
        with pytest.raises(ValueError, match="does not fit into"):
            x.add_(y)
        assert x.inplace_version == 0


def test_float64_plus_float32_in_place_is_exact() -> None:
    a = paddle.to_tensor(np.array([1e-9, 1.0]))
    b = paddle.to_tensor(np.array([1.0, 2.0], "float32"))
    a.add_(b)
    assert a.numpy().tolist() == [1.000000001, 3.0]


# The graph


def test_an_operator_that_keeps_its_output_trips_on_the_second_change() -> None:
    x = leaf()
    y = x * 1
    y.exp_()
    y.exp_()
    with pytest.raises(RuntimeError, match="Its version is 2 but the expected version is 1"):
        y.sum().backward()


def test_the_same_operand_twice_trips_where_its_value_is_kept() -> None:
    x = leaf()
    b = x * 1
    b.multiply_(b)
    with pytest.raises(RuntimeError, match="PermissionDenied"):
        b.sum().backward()
    b = x * 2
    b.scale_(3.0)
    b.add_(b)
    b.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), np.full((2, 2), 12.0))


def test_hooks_and_retained_gradients_belong_to_the_value_they_were_set_on() -> None:
    x = leaf()
    seen: list[Any] = []
    y = x * 2
    y.register_hook(lambda g: seen.append(("old", g.numpy()[0, 0])))
    y.retain_grads()
    y.scale_(3.0)
    y.register_hook(lambda g: seen.append(("new", g.numpy()[0, 0])))
    y.sum().backward()
    assert seen == [("new", 1.0), ("old", 3.0)]
    assert float(y.grad[0, 0]) == 3.0


def test_values_assigned_get_their_gradient_and_overwritten_ones_none() -> None:
    x, v = leaf(), leaf([5.0, 6.0])
    y = x * 1
    y[0] = v
    (y * y).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [[0, 0], [6, 8]])
    np.testing.assert_array_equal(v.grad.numpy(), [10, 12])


def test_a_value_is_broadcast_and_its_gradient_summed() -> None:
    x, v = leaf(), leaf([2.0])
    y = x * 1
    y[:, 1] = v
    y.sum().backward()
    assert v.grad.numpy().tolist() == [2.0]


# Views: the right gradient where Paddle gives ones


def test_a_change_through_a_view_is_in_the_gradient_of_its_base() -> None:
    x = leaf()
    base = x * 1
    view = base[0]
    view.scale_(5.0)
    base.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [[5, 5], [1, 1]])


def test_a_change_of_the_base_is_in_the_gradient_of_its_views() -> None:
    x = leaf()
    base = x * 1
    column, turned = base[:, 1], base.T
    base.scale_(3.0)
    (column.sum() + turned[0].sum()).backward()
    np.testing.assert_array_equal(x.grad.numpy(), [[3, 3], [3, 3]])


def test_overlapping_views_share_out_the_gradient() -> None:
    x = leaf([1.0, 2.0, 3.0, 4.0])
    base = x * 1
    left, right = base[:3], base[1:]
    left.scale_(10.0)
    right.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [0, 10, 10, 1])


def test_data_changed_through_a_view_carries_the_gradient_too() -> None:
    data, w = paddle.ones([2, 2]), leaf([3.0, 4.0])
    data[1].multiply_(w)
    data.sum().backward()
    np.testing.assert_array_equal(w.grad.numpy(), [1, 1])


def test_a_leaf_changed_through_a_view_raises_when_it_is_used_again() -> None:
    p = paddle.Parameter(np.ones((2, 2), "float32"))
    p[0].scale_(2.0)
    assert p.is_leaf
    with pytest.raises(AutogradError, match="changed by scale_ through a view"):
        p.sum().backward()
    p.set_value(np.ones((2, 2), "float32"))
    p.sum().backward()
    np.testing.assert_array_equal(p.grad.numpy(), np.ones((2, 2)))


def test_what_was_detached_from_raises_after_a_recorded_change_behind_its_back() -> None:
    x, w = leaf(), leaf()
    base = x * 1
    base.detach().multiply_(w)
    with pytest.raises(AutogradError, match="through a detached view"):
        base.sum().backward()


def test_a_detached_tensor_stays_a_constant() -> None:
    x = leaf()
    base = x * 1
    kept = base.detach()
    base.scale_(2.0)
    assert kept.stop_gradient
    assert kept.numpy().tolist() == [[2.0, 4.0], [6.0, 8.0]]


def test_mapped_memory_is_copied_before_the_first_write() -> None:
    mapped = np.ones((2, 2), "float32")
    mapped.flags.writeable = False
    p = paddle.Parameter(mapped, copy=False)
    view = p.detach()
    with paddle.no_grad():
        p[0] = 5.0
    assert mapped.tolist() == [[1, 1], [1, 1]]
    assert view.numpy().tolist() == [[5, 5], [1, 1]]
    view.zero_()
    assert p.numpy().tolist() == [[0, 0], [0, 0]]


def test_one_gradient_given_to_two_leaves_is_not_shared() -> None:
    a, b = leaf(), leaf()
    (a + b).sum().backward()
    with paddle.no_grad():
        a.grad.scale_(0.0)
    np.testing.assert_array_equal(b.grad.numpy(), np.ones((2, 2)))


# The table


def test_every_operator_of_the_table_has_the_slots_it_names() -> None:
    for type, places in INPLACE.items():
        operator = find(type)
        if operator is None:
            continue
        inputs, outputs = ({slot.name for slot in slots} for slots in (operator.inputs, operator.outputs))
        assert places.keys() <= inputs, type
        assert set(places.values()) <= outputs, type


def test_every_function_of_one_operator_is_in_the_table() -> None:
    for name, function in FUNCTIONS.items():
        assert not function.op or function.op in INPLACE, name
        assert function.function.__doc__, name
    assert len(inplace.listed()) == len(FUNCTIONS)


PADDLES = """abs_ acos_ acosh_ add_ addmm_ asin_ asinh_ atan_ atanh_ bitwise_and_ bitwise_not_ bitwise_or_ bitwise_xor_
cast_ cauchy_ ceil_ clip_ copy_ cos_ cosh_ cumprod_ cumsum_ detach_ digamma_ divide_ equal_ erfinv_ exp_ exponential_
fill_ fill_diagonal_ fill_diagonal_tensor_ flatten_ floor_ floor_divide_ floor_mod_ frac_ gcd_ geometric_ greater_equal_
greater_than_ hypot_ i0_ index_add_ index_fill_ index_put_ lcm_ ldexp_ lerp_ less_equal_ less_than_ lgamma_ log_ log10_
log1p_ log2_ logical_and_ logical_not_ logical_or_ logical_xor_ logit_ masked_fill_ mod_ multigammaln_ multiply_
nan_to_num_ neg_ normal_ not_equal_ polygamma_ pow_ put_along_axis_ reciprocal_ remainder_ renorm_ reshape_ round_
rsqrt_ scale_ scatter_ sigmoid_ sin_ sinh_ sqrt_ squeeze_ subtract_ t_ tan_ tanh_ transpose_ tril_ triu_ trunc_ uniform_
unsqueeze_ where_ zero_"""


def test_tensors_have_all_of_paddles_methods() -> None:
    missing = [name for name in PADDLES.split() if not hasattr(paddle.Tensor, name)]
    assert not missing


def test_trace_op_in_place_returns_its_input() -> None:
    x = leaf()
    y = x * 1
    assert trace_op_("softmax", {"X": y}, {"axis": -1})["Out"] is y
    with pytest.raises(ValueError, match="Leaf Var"):
        trace_op_("softmax", {"X": x}, {"axis": -1})
    with pytest.raises(ValueError, match="no in-place form"):
        trace_op_("concat", {"X": [y]})


def test_where_in_place_changes_its_second_argument() -> None:
    condition = paddle.to_tensor([True, False])
    x = paddle.to_tensor([1.0, 2.0])
    assert paddle.where_(condition, x, paddle.to_tensor([9.0, 9.0])) is x
    assert x.numpy().tolist() == [1.0, 9.0]


def test_grad_mode_belongs_to_the_thread() -> None:
    x = leaf()
    seen: list[bool] = []
    with paddle.no_grad():
        thread = threading.Thread(target=lambda: seen.append((x * 2).stop_gradient))
        thread.start()
        thread.join()
        assert (x * 2).stop_gradient
    assert seen == [False]
