"""Diagonals and triangles against numpy, and their gradients. Numbers beside "Paddle" are PaddlePaddle 2.6.2's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from oarlock.errors import KernelError
from oarlock.ir.registry import lookup


def counted(*shape: int, dtype: Any = np.float32) -> Any:
    return np.arange(1, 1 + int(np.prod(shape)), dtype=dtype).reshape(shape)


@pytest.mark.parametrize("offset", [0, 1, -1, 5, -5])
@pytest.mark.parametrize(("shape", "axes"), [((3, 4), (0, 1)), ((4, 3), (1, 0)), ((2, 3, 4), (-1, 0))])
def test_diagonal_is_a_view_of_numpys_diagonal(run_op, gradcheck, shape, axes, offset) -> None:
    x, attrs = counted(*shape), {"offset": offset, "axis1": axes[0], "axis2": axes[1]}
    np.testing.assert_array_equal(run_op("diagonal", {"Input": x}, attrs)["Out"], np.diagonal(x, offset, *axes))
    assert np.shares_memory(lookup("diagonal")(x), x)
    gradcheck("diagonal", {"Input": x}, attrs)


def test_diag_embed_and_diag(run_op) -> None:
    x = counted(2, 3)
    got = run_op("diag_embed", {"Input": x}, {"offset": 1})["Out"]
    np.testing.assert_array_equal(got, [np.diag(row, 1) for row in x])
    moved = run_op("diag_embed", {"Input": x}, {"offset": -1, "dim1": 0, "dim2": 2})["Out"]
    np.testing.assert_array_equal(moved.transpose(1, 0, 2), [np.diag(row, -1) for row in x])
    np.testing.assert_array_equal(run_op("diag", {"Diagonal": x[0]})["Out"], np.diag(x[0]))


@pytest.mark.parametrize("offset", [0, 2, -1])
@pytest.mark.parametrize("shape", [(3,), (), (3, 4), (4, 3)])
def test_diag_v2_goes_both_ways(run_op, gradcheck, shape, offset) -> None:
    x = counted(*shape)
    got = run_op("diag_v2", {"X": x}, {"offset": offset, "padding_value": -1.5})["Out"]
    want = np.diag(np.atleast_1d(x), offset)
    if x.ndim < 2:
        size = want.shape[0]
        want = np.where(np.eye(size, k=offset, dtype=bool), want, np.float32(-1.5))
    np.testing.assert_array_equal(got, want)
    gradcheck("diag_v2", {"X": x}, {"offset": offset})


@pytest.mark.parametrize("diagonal", [0, 1, -2, 7, -9])
@pytest.mark.parametrize(("lower", "function"), [(True, np.tril), (False, np.triu)])
def test_tril_triu(run_op, gradcheck, lower, function, diagonal) -> None:
    x, attrs = counted(2, 3, 4), {"lower": lower, "diagonal": diagonal}
    np.testing.assert_array_equal(run_op("tril_triu", {"X": x}, attrs)["Out"], function(x, diagonal))
    gradcheck("tril_triu", {"X": x}, attrs)
    assert run_op("tril_triu", {"X": x > 3}, attrs)["Out"].dtype == np.bool_


def test_triangle_indices(run_op) -> None:
    lower = run_op("tril_indices", {}, {"rows": 3, "cols": 4, "offset": -1, "dtype": 3})["out"]
    np.testing.assert_array_equal(lower, np.tril_indices(3, -1, 4))
    upper = run_op("triu_indices", {}, {"row": 4, "col": 3, "offset": 1, "dtype": 2})["out"]
    np.testing.assert_array_equal(upper, np.triu_indices(4, 1, 3))
    assert lower.dtype == np.int64 and upper.dtype == np.int32


@pytest.mark.parametrize(
    ("shape", "attrs", "places"),
    [
        ((3, 4), {}, [0, 5, 10]),
        ((3, 4), {"offset": 1}, [1, 6, 11]),
        ((3, 4), {"offset": -1}, [4, 9]),
        ((7, 3), {}, [0, 4, 8]),
        ((7, 3), {"wrap": True}, [0, 4, 8, 12, 16, 20]),
        ((3, 3, 3), {"wrap": True}, [0, 13, 26]),
        ((3, 3, 3), {}, [0]),
    ],
)
def test_fill_diagonal(run_op, gradcheck, shape, attrs, places) -> None:  # Paddle
    x = counted(*shape)
    got = run_op("fill_diagonal", {"X": x}, {"value": -7.0, **attrs})["Out"]
    assert np.flatnonzero(got == -7).tolist() == places
    assert (got.reshape(-1)[~np.isin(np.arange(x.size), places)] > 0).all()
    gradcheck("fill_diagonal", {"X": x}, {"value": -7.0, **attrs})


def test_fill_diagonal_tensor(run_op) -> None:
    x, y = counted(2, 4, 3), counted(2, 3) * -1
    attrs = {"dim1": 1, "dim2": 2}
    got = run_op("fill_diagonal_tensor", {"X": x, "Y": y}, attrs, cotangents={"Out": np.ones_like(x)})
    np.testing.assert_array_equal(np.diagonal(got["Out"], 0, 1, 2), y)
    assert got.gradients["X"].sum() == 24 - 6 and "Y" not in got.gradients
    with pytest.raises(KernelError, match="the diagonal has shape"):
        run_op("fill_diagonal_tensor", {"X": x, "Y": y[:, :2]}, attrs)


@pytest.mark.parametrize(
    ("type", "x", "attrs"),
    [
        ("diagonal", counted(3), {}),
        ("diagonal", counted(3, 3), {"axis1": 1, "axis2": 1}),
        ("diag_embed", counted(), {}),
        ("diag_v2", counted(2, 2, 2), {}),
        ("tril_triu", counted(3), {}),
        ("fill_diagonal", counted(3), {}),
    ],
)
def test_too_few_dimensions_are_refused(run_op, type, x, attrs) -> None:
    with pytest.raises(KernelError, match="dimension"):
        run_op(type, {lookup(type).inputs[0].name: x}, attrs)
