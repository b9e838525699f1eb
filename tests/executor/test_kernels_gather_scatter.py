"""Reading and writing by index. Numbers beside "Paddle" are PaddlePaddle 2.6.2's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from oarlock.errors import KernelError
from oarlock.ir.registry import lookup


def counted(*shape: int, dtype: Any = np.float32) -> Any:
    return np.arange(1, 1 + int(np.prod(shape)), dtype=dtype).reshape(shape)


X = counted(4, 3)


class TestGather:
    @pytest.mark.parametrize(
        ("index", "axis", "want"),
        [
            ([0, 2, 2], 0, X[[0, 2, 2]]),
            ([[0], [3]], 0, X[[0, 3]]),
            (2, 0, X[2]),
            ([0, 2, 2], 1, X[:, [0, 2, 2]]),
            (1, -1, X[:, 1]),
            ([], 0, X[:0]),
            ([-1], 0, X[3:]),  # allowed since 3.x
        ],
    )
    def test_slices_by_index(self, run_op, gradcheck, index, axis, want) -> None:
        inputs = {"X": X, "Index": np.array(index, np.int64)}
        np.testing.assert_array_equal(run_op("gather", inputs, {"axis": axis})["Out"], want)
        if want.size:
            gradcheck("gather", inputs, {"axis": axis})

    def test_the_axis_tensor_goes_first(self, run_op) -> None:
        inputs = {"X": X, "Index": np.array([1, 0], np.int32), "Axis": np.array([1], np.int32)}
        np.testing.assert_array_equal(run_op("gather", inputs, {"axis": 0})["Out"], X[:, [1, 0]])

    @pytest.mark.parametrize(("index", "word"), [([4], "holds 4"), ([-5], "holds -5"), ([[0, 1]], r"\[n, 1\]")])
    def test_refusals(self, run_op, index, word) -> None:
        with pytest.raises(KernelError, match=word):
            run_op("gather", {"X": X, "Index": np.array(index)})


@pytest.mark.parametrize(
    ("index", "want"),
    [
        ([[0, 1], [2, 2]], X[[0, 2], [1, 2]]),
        ([[0], [2], [2]], X[[0, 2, 2]]),
        ([0, 1], X[0, 1]),
        ([[[0], [1]], [[2], [3]]], X[[[0, 1], [2, 3]]]),
        (np.zeros((2, 0)), np.stack([X, X])),
        (np.zeros((0, 2)), X[:0, 0]),
    ],
)
def test_gather_nd(run_op, gradcheck, index, want) -> None:
    inputs = {"X": X, "Index": np.array(index, np.int64)}
    np.testing.assert_array_equal(run_op("gather_nd", inputs)["Out"], want)
    if want.size:
        gradcheck("gather_nd", inputs)


def test_gather_nd_refuses_places_outside(run_op) -> None:
    for index in ([[4, 0]], [[0, 1, 2]]):
        with pytest.raises(KernelError, match="Index"):
            run_op("gather_nd", {"X": X, "Index": np.array(index)})


def test_index_select_index_sample_take_along_axis(run_op, gradcheck) -> None:
    rows = np.array([[0, 2], [1, 1], [2, 0], [0, 0]])
    np.testing.assert_array_equal(
        run_op("index_select", {"X": X, "Index": np.array([2, 0])}, {"dim": -1})["Out"], X[:, [2, 0]]
    )
    sampled = np.take_along_axis(X, rows, 1)
    np.testing.assert_array_equal(run_op("index_sample", {"X": X, "Index": rows})["Out"], sampled)
    np.testing.assert_array_equal(
        run_op("take_along_axis", {"Input": X, "Index": rows}, {"Axis": 1})["Result"], sampled
    )
    gradcheck("index_select", {"X": X, "Index": np.array([2, 2])}, {"dim": 1})
    gradcheck("index_sample", {"X": X, "Index": rows})
    gradcheck("take_along_axis", {"Input": X, "Index": rows}, {"Axis": 1})
    gradcheck("take_along_axis", {"Input": X, "Index": rows[:2]}, {"Axis": 0})
    with pytest.raises(KernelError, match="one height"):
        run_op("index_sample", {"X": X, "Index": rows[:3]})
    with pytest.raises(KernelError, match="one rank"):
        run_op("take_along_axis", {"Input": X, "Index": np.array([0])}, {"Axis": 0})


def test_gather_tree_follows_the_parents_back(run_op) -> None:
    ids = np.array([[[2, 2], [6, 1]], [[3, 9], [6, 1]], [[0, 1], [9, 0]]])
    parents = np.array([[[0, 0], [1, 1]], [[1, 0], [1, 0]], [[0, 0], [0, 1]]])
    got = run_op("gather_tree", {"Ids": ids, "Parents": parents})["Out"]
    assert got.tolist() == [[[2, 2], [1, 6]], [[3, 3], [6, 1]], [[0, 1], [9, 0]]]  # Paddle


class TestMasks:
    @pytest.mark.parametrize(("x", "mask"), [(X, X > 5), (X, X[:1] > 2), (X, X[:, :1] > 4), (X[0], X > 6), (X, X > 99)])
    def test_masked_select_broadcasts(self, run_op, gradcheck, x, mask) -> None:
        a, b = np.broadcast_arrays(x, mask)
        np.testing.assert_array_equal(run_op("masked_select", {"X": x, "Mask": mask})["Y"], a[b])
        if b.any():
            gradcheck("masked_select", {"X": x, "Mask": mask})

    def test_where_and_its_gradient(self, run_op) -> None:
        mask = X > 5
        got = run_op("where", {"Condition": mask, "X": X, "Y": -X}, cotangents={"Out": X})
        np.testing.assert_array_equal(got["Out"], np.where(mask, X, -X))
        np.testing.assert_array_equal(got.gradients["X"], X * mask)
        np.testing.assert_array_equal(got.gradients["Y"], X * ~mask)

    @pytest.mark.parametrize(
        ("condition", "x", "y"), [(X[0] > 2, X, X), (X > 2, X, X[:1]), (X, X, X), (X > 2, X, X.astype(np.float64))]
    )
    def test_where_takes_one_shape_and_one_dtype(self, run_op, condition, x, y) -> None:
        with pytest.raises(KernelError, match="where"):
            run_op("where", {"Condition": condition, "X": x, "Y": y})

    def test_where_index_lists_places(self, run_op) -> None:
        got = run_op("where_index", {"Condition": np.array([[1, 0], [0, -2]])})["Out"]
        assert got.dtype == np.int64 and got.tolist() == [[0, 0], [1, 1]]
        assert run_op("where_index", {"Condition": X > 99})["Out"].shape == (0, 2)
        with pytest.raises(KernelError, match="0-d"):
            run_op("where_index", {"Condition": np.array(True)})


class TestScatter:
    def test_the_last_of_equal_ids_stays(self, run_op, gradcheck) -> None:
        inputs = {"X": X, "Ids": np.array([1, 3, 1]), "Updates": counted(3, 3) * 10}
        got = run_op("scatter", inputs)["Out"]
        np.testing.assert_array_equal(got[[1, 3]], inputs["Updates"][[2, 1]])
        np.testing.assert_array_equal(got[[0, 2]], X[[0, 2]])
        gradcheck("scatter", {**inputs, "Ids": np.array([1, 3, 0])})

    def test_without_overwrite_the_updates_add_up_and_the_old_rows_go(self, run_op, gradcheck) -> None:
        inputs = {"X": X, "Ids": np.array([[1], [1]]), "Updates": counted(2, 3)}
        got = run_op("scatter", inputs, {"overwrite": False})["Out"]
        np.testing.assert_array_equal(got[1], [1 + 4, 2 + 5, 3 + 6])
        gradcheck("scatter", inputs, {"overwrite": False})

    def test_in_place(self) -> None:
        x = X.copy()
        got = lookup("scatter").kernel(x, np.array(2), counted(3) * 9, out=x)
        assert got is x and x[2].tolist() == [9, 18, 27]

    @pytest.mark.parametrize(
        ("ids", "updates", "word"),
        [
            ([4], counted(1, 3), "holds 4"),
            ([1, 2], counted(2, 2), "call for"),
            ([1, 2], counted(1, 3), "call for"),
            ([1], counted(1, 3, dtype=np.float64), "one dtype"),
        ],
    )
    def test_refusals(self, run_op, ids, updates, word) -> None:
        with pytest.raises(KernelError, match=word):
            run_op("scatter", {"X": X, "Ids": np.array(ids), "Updates": updates})

    @pytest.mark.parametrize(("index", "shape"), [([[1], [1], [2]], (3, 3)), ([[1, 1], [1, 1], [2, 0]], (3,))])
    def test_scatter_nd_add(self, run_op, gradcheck, index, shape) -> None:
        inputs = {"X": X, "Index": np.array(index, np.int64), "Updates": counted(*shape)}
        want = X.copy()
        np.add.at(want, tuple(np.moveaxis(inputs["Index"], -1, 0)), inputs["Updates"])
        np.testing.assert_array_equal(run_op("scatter_nd_add", inputs)["Out"], want)
        gradcheck("scatter_nd_add", inputs)

    def test_scatter_nd_add_without_coordinates_adds_whole_tensors(self, run_op, gradcheck) -> None:
        inputs = {"X": X, "Index": np.zeros((2, 0), np.int64), "Updates": np.stack([X, X])}
        np.testing.assert_array_equal(run_op("scatter_nd_add", inputs)["Out"], 3 * X)
        gradcheck("scatter_nd_add", inputs)

    def test_scatter_nd_add_checks_shapes(self, run_op) -> None:
        with pytest.raises(KernelError, match="call for"):
            run_op("scatter_nd_add", {"X": X, "Index": np.array([[1]]), "Updates": counted(3)})

    def test_index_add(self, run_op, gradcheck) -> None:
        inputs = {"X": X, "Index": np.array([2, 2]), "AddValue": counted(4, 2)}
        want = X.copy()
        want[:, 2] += inputs["AddValue"].sum(1)
        np.testing.assert_array_equal(run_op("index_add", inputs, {"axis": 1})["Out"], want)
        gradcheck("index_add", inputs, {"axis": 1})
        with pytest.raises(KernelError, match="call for"):
            run_op("index_add", inputs, {"axis": 0})

    @pytest.mark.parametrize(
        ("indices", "shape"),
        [
            ([[1, 2]], (3,)),
            ([[1, 2], [0, 1]], (2,)),
            ([[1, -1]], (2, 3)),
            ([[[1], [2]], [0, 1]], (2, 2)),
            ([X > 6], (1,)),
            ([X > 6], (6,)),
            ([[False, True, False, True], [1]], (2,)),
        ],
    )
    @pytest.mark.parametrize("accumulate", [False, True])
    def test_index_put(self, run_op, gradcheck, indices, shape, accumulate) -> None:
        given = [np.array(each) for each in indices]
        inputs = {"x": X, "indices": given, "value": counted(*shape) * 10}
        want = X.copy()
        if accumulate:
            np.add.at(want, tuple(given), inputs["value"])
        else:
            want[tuple(given)] = inputs["value"]
        np.testing.assert_array_equal(run_op("index_put", inputs, {"accumulate": accumulate})["out"], want)
        gradcheck("index_put", inputs, {"accumulate": accumulate}, wrt=["x", "value"])


PUT = {
    "Input": np.array([1, 2, 3, 4], np.float32),
    "Index": np.array([0, 0, 2]),
    "Value": np.array([5, 6, 3], np.float32),
}


class TestPutAlongAxis:
    @pytest.mark.parametrize(
        ("reduce", "with_old", "without"),
        [
            ("assign", [6, 2, 3, 4], [6, 2, 3, 4]),
            ("add", [12, 2, 6, 4], [11, 2, 3, 4]),
            ("mul", [30, 2, 9, 4], [30, 2, 3, 4]),
            ("multiply", [30, 2, 9, 4], [30, 2, 3, 4]),
            ("mean", [4, 2, 3, 4], [5.5, 2, 3, 4]),
            ("amin", [1, 2, 3, 4], [5, 2, 3, 4]),
            ("amax", [6, 2, 3, 4], [6, 2, 3, 4]),
        ],
    )
    def test_reductions(self, run_op, reduce, with_old, without) -> None:  # Paddle
        for include, want in ((True, with_old), (False, without)):
            attrs = {"Axis": 0, "Reduce": reduce, "Include_self": include}
            assert run_op("put_along_axis", PUT, attrs)["Result"].tolist() == want
            whole = {slot: array.astype(np.int64) for slot, array in PUT.items()}
            if reduce != "mean":
                assert run_op("put_along_axis", whole, attrs)["Result"].tolist() == want

    @pytest.mark.parametrize(
        ("reduce", "include", "d_input", "d_value"),
        [
            ("assign", True, [0, 2, 0, 4], [0, 1, 3]),
            ("add", True, [1, 2, 3, 4], [1, 1, 3]),
            ("add", False, [0, 2, 0, 4], [1, 1, 3]),
            ("mul", True, [30, 2, 9, 4], [6, 5, 9]),
            ("mean", True, [1 / 3, 2, 1.5, 4], [1 / 3, 1 / 3, 1.5]),
            ("mean", False, [0, 2, 0, 4], [0.5, 0.5, 3]),
            ("amin", True, [1, 2, 1.5, 4], [0, 0, 1.5]),
            ("amin", False, [0, 2, 0, 4], [1, 0, 1.5]),
            ("amax", True, [0, 2, 1.5, 4], [0, 1, 1.5]),
        ],
    )
    def test_gradients(self, run_op, reduce, include, d_input, d_value) -> None:  # Paddle
        attrs = {"Axis": 0, "Reduce": reduce, "Include_self": include}
        got = run_op("put_along_axis", PUT, attrs, cotangents={"Result": np.array([1, 2, 3, 4], np.float32)})
        np.testing.assert_allclose(got.gradients["Input"], d_input, rtol=1e-6)
        np.testing.assert_allclose(got.gradients["Value"], d_value, rtol=1e-6)

    @pytest.mark.parametrize("reduce", ["assign", "add", "mul", "mean"])
    def test_a_broadcast_value_gets_its_gradient_summed(self, gradcheck, reduce) -> None:
        inputs = {"Input": X, "Index": np.array([[0, 2], [1, 1], [2, 0], [0, 0]])[:, :1], "Value": counted(1, 1)}
        gradcheck("put_along_axis", inputs, {"Axis": 1, "Reduce": reduce})

    def test_refusals(self, run_op) -> None:
        for change, word in (
            ({"Index": np.array([4, 0, 0])}, "holds 4"),
            ({"Value": PUT["Value"].astype(np.float64)}, "one dtype"),
        ):
            with pytest.raises(KernelError, match=word):
                run_op("put_along_axis", {**PUT, **change}, {"Axis": 0})
        with pytest.raises(KernelError, match="Reduce is 'sum'"):
            run_op("put_along_axis", PUT, {"Axis": 0, "Reduce": "sum"})


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int64])
def test_many_updates_of_one_row_add_up_without_rounding_each(run_op, dtype) -> None:
    x = np.zeros((2, 3), dtype)
    inputs = {"X": x, "Index": np.ones((4096, 1), np.int64), "Updates": np.ones((4096, 3), dtype)}
    got = run_op("scatter_nd_add", inputs)["Out"]
    assert got.dtype == dtype and (got[1] == 4096).all() and (got[0] == 0).all()
