"""Repetition and broadcasting."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from oarlock.errors import KernelError
from oarlock.ir.registry import lookup


def counted(*shape: int, dtype: Any = np.float32) -> Any:
    return np.arange(int(np.prod(shape)), dtype=dtype).reshape(shape)


@pytest.mark.parametrize(
    ("type", "shape", "attrs", "out"),
    [
        ("expand", (2, 3), {"expand_times": [2, 1]}, (4, 3)),
        ("expand", (1, 3), {"expand_times": [4, 2]}, (4, 6)),
        ("expand", (3,), {"expand_times": [2]}, (6,)),
        ("tile", (2, 3), {"repeat_times": [2, 2]}, (4, 6)),
        ("tile", (2, 3), {"repeat_times": [2]}, (2, 6)),
        ("tile", (3,), {"repeat_times": [2, 2]}, (2, 6)),
        ("tile", (), {"repeat_times": [2]}, (2,)),
        ("tile", (2, 3), {"repeat_times": []}, (2, 3)),
        ("tile", (1, 3), {"repeat_times": [4, 1, 1]}, (4, 1, 3)),
        ("expand_v2", (1, 3), {"shape": [2, 3]}, (2, 3)),
        ("expand_v2", (1, 3), {"shape": [2, -1]}, (2, 3)),
        ("expand_v2", (3,), {"shape": [4, 2, -1]}, (4, 2, 3)),
        ("expand_v2", (), {"shape": [2, 2]}, (2, 2)),
        ("expand_v2", (2, 1, 3), {"shape": [4, 2, 5, 3]}, (4, 2, 5, 3)),
        ("expand_v2", (0, 3), {"shape": [-1, 3]}, (0, 3)),
        ("expand_as_v2", (1, 3), {"target_shape": [2, 3]}, (2, 3)),
    ],
)
def test_shapes_values_and_gradients(run_op, gradcheck, type, shape, attrs, out) -> None:
    x = counted(*shape)
    got = run_op(type, {"X": x}, attrs)["Out"]
    assert got.shape == out and got.dtype == np.float32
    times = attrs.get("expand_times", attrs.get("repeat_times"))
    np.testing.assert_array_equal(got, np.broadcast_to(x, out) if times is None else np.tile(x, times))
    if x.size:
        gradcheck(type, {"X": x}, attrs)


def test_the_gradient_sums_over_the_repeats(run_op) -> None:
    got = run_op("tile", {"X": counted(2)}, {"repeat_times": [3]}, cotangents={"Out": counted(6)})
    assert got.gradients["X"].tolist() == [0 + 2 + 4, 1 + 3 + 5]


@pytest.mark.parametrize(
    ("type", "whole", "pieces", "attr"),
    [
        ("expand", "ExpandTimes", "expand_times_tensor", "expand_times"),
        ("tile", "RepeatTimes", "repeat_times_tensor", "repeat_times"),
        ("expand_v2", "Shape", "expand_shapes_tensor", "shape"),
    ],
)
def test_numbers_come_from_tensors_first(run_op, gradcheck, type, whole, pieces, attr) -> None:
    x, numbers = counted(1, 3), [4, 3] if type == "expand_v2" else [4, 1]
    for inputs in ({whole: np.array(numbers, np.int32)}, {pieces: [np.array([n], np.int32) for n in numbers]}):
        assert run_op(type, {"X": x, **inputs}, {attr: [1, 1]})["Out"].shape == (4, 3)
        gradcheck(type, {"X": x, **inputs}, {attr: [1, 1]})


@pytest.mark.parametrize("type", ["expand_v2", "tile", "expand"])
def test_repeating_a_dimension_of_one_is_a_view(type) -> None:
    x = counted(1, 3)
    numbers = {"expand_v2": {"shape": [5, 3]}, "tile": {"repeat_times": [5, 1]}, "expand": {"expand_times": [5, 1]}}
    assert np.shares_memory(lookup(type).kernel(x, None, [], **numbers[type]), x)


@pytest.mark.parametrize(
    ("type", "attrs"),
    [
        ("expand", {"expand_times": [2]}),
        ("expand", {"expand_times": [2, 0]}),
        ("tile", {"repeat_times": [-1, 2]}),
        ("expand_v2", {"shape": [3]}),
        ("expand_v2", {"shape": [2, 4]}),
        ("expand_v2", {"shape": [-1, 2, 3]}),
        ("expand_v2", {"shape": [-2, 3]}),
    ],
)
def test_what_does_not_fit_is_refused(run_op, type, attrs) -> None:
    with pytest.raises(KernelError, match=type):
        run_op(type, {"X": counted(2, 3)}, attrs)


def test_expand_as_follows_its_target(run_op, gradcheck) -> None:
    x, y = counted(1, 3), counted(2, 3)
    assert run_op("expand_as_v2", {"X": x, "Y": y}, {"target_shape": [-1, -1]})["Out"].shape == (2, 3)
    got = run_op("expand_as", {"X": counted(2, 1), "target_tensor": counted(4, 3)})["Out"]
    np.testing.assert_array_equal(got, np.tile(counted(2, 1), (2, 3)))
    gradcheck("expand_as", {"X": counted(2, 1), "target_tensor": counted(4, 3)}, wrt=["X"])
    with pytest.raises(KernelError, match="does not repeat"):
        run_op("expand_as", {"X": counted(2, 2), "target_tensor": counted(4, 3)})


def test_broadcast_tensors_and_meshgrid(run_op, gradcheck) -> None:
    parts = [counted(3), counted(2, 1), counted()]
    for got, part in zip(run_op("broadcast_tensors", {"X": parts}, counts={"Out": 3})["Out"], parts, strict=True):
        np.testing.assert_array_equal(got, np.broadcast_to(part, (2, 3)))
    gradcheck("broadcast_tensors", {"X": parts}, counts={"Out": 3})
    axes = [counted(2), counted(), counted(3)]
    for got, want in zip(
        run_op("meshgrid", {"X": axes}, counts={"Out": 3})["Out"], np.meshgrid(*axes, indexing="ij"), strict=True
    ):
        np.testing.assert_array_equal(got, want)
    gradcheck("meshgrid", {"X": axes}, counts={"Out": 3})


@pytest.mark.parametrize(
    ("attrs", "repeats", "want"),
    [
        ({"Repeats": 2, "dim": 1}, None, [[0, 0, 1, 1], [2, 2, 3, 3]]),
        ({"Repeats": 2, "dim": -2}, None, [[0, 1], [0, 1], [2, 3], [2, 3]]),
        ({"dim": 1}, [0, 3], [[1, 1, 1], [3, 3, 3]]),
    ],
)
def test_repeat_interleave(run_op, gradcheck, attrs, repeats, want) -> None:
    inputs = {"X": counted(2, 2)} if repeats is None else {"X": counted(2, 2), "RepeatsTensor": np.array(repeats)}
    assert run_op("repeat_interleave", inputs, attrs)["Out"].tolist() == want
    gradcheck("repeat_interleave", inputs, attrs)


def test_repeat_interleave_refuses_bad_counts(run_op) -> None:
    with pytest.raises(KernelError, match="positive"):
        run_op("repeat_interleave", {"X": counted(2)}, {"Repeats": 0})
    with pytest.raises(KernelError, match="counts"):
        run_op("repeat_interleave", {"X": counted(2), "RepeatsTensor": np.array([1, 2, 3])})
