"""Gradients of gradients: a linear operator's gradient is linear, and its gradient is the operator again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

X = np.arange(12.0).reshape(4, 3)
ROWS = np.array([0, 2, 2])


def ones(*shape: int) -> Any:
    return np.ones(shape)


CASES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("reshape2_grad", {"XShape": ones(0, 4, 3), "Out@GRAD": X.reshape(2, 6)}, {"shape": [2, 6]}),
    ("squeeze2_grad", {"XShape": ones(0, 4, 1, 3), "Out@GRAD": X}, {"axes": [1]}),
    ("unsqueeze2_grad", {"XShape": ones(0, 4, 3), "Out@GRAD": X[:, None]}, {"axes": [1]}),
    ("flatten2_grad", {"XShape": ones(0, 2, 2, 3), "Out@GRAD": X}, {"axis": 2}),
    ("flatten_contiguous_range_grad", {"XShape": ones(0, 2, 2, 3), "Out@GRAD": X}, {"start_axis": 0, "stop_axis": 1}),
    ("transpose2_grad", {"XShape": ones(0, 4, 3), "Out@GRAD": X.T}, {"axis": [1, 0]}),
    ("roll_grad", {"X": X, "Out@GRAD": X}, {"shifts": [1], "axis": [0]}),
    ("slice_grad", {"Input": X, "Out@GRAD": ones(2, 3)}, {"axes": [0], "starts": [1], "ends": [3]}),
    (
        "strided_slice_grad",
        {"Input": X, "Out@GRAD": ones(2, 3)},
        {"axes": [0], "starts": [3], "ends": [0], "strides": [-2]},
    ),
    ("concat_grad", {"X": [X, X], "Out@GRAD": ones(8, 3)}, {"axis": 0}),
    ("stack_grad", {"X": [X, X], "Y@GRAD": ones(2, 4, 3)}, {"axis": 0}),
    ("tile_grad", {"X": X, "Out@GRAD": ones(8, 3)}, {"repeat_times": [2, 1]}),
    ("expand_v2_grad", {"X": X[:1], "Out@GRAD": X}, {"shape": [4, 3]}),
    ("expand_as_v2_grad", {"X": X[:1], "Out@GRAD": X}, {"target_shape": [4, 3]}),
    ("repeat_interleave_grad", {"X": X, "Out@GRAD": ones(8, 3)}, {"Repeats": 2, "dim": 0}),
    ("gather_grad", {"X": X, "Index": ROWS, "Out@GRAD": ones(3, 3)}, {"axis": 0}),
    ("gather_nd_grad", {"X": X, "Index": ROWS[:, None], "Out@GRAD": ones(3, 3)}, {}),
    ("index_select_grad", {"X": X, "Index": ROWS, "Out@GRAD": ones(3, 3)}, {"dim": 0}),
    ("take_along_axis_grad", {"Input": X, "Index": X[:, :1].astype(int) % 3, "Result@GRAD": ones(4, 1)}, {"Axis": 1}),
    ("tril_triu_grad", {"Out@GRAD": X}, {"lower": True}),
]


@pytest.mark.parametrize(("type", "inputs", "attrs"), CASES, ids=[case[0] for case in CASES])
def test_second_gradient(gradcheck, type, inputs, attrs) -> None:
    counts = {"X@GRAD": 2} if isinstance(inputs.get("X"), list) else {}
    found = gradcheck(type, inputs, attrs, counts=counts)
    assert list(found) == [next(slot for slot in inputs if slot.endswith("@GRAD"))]
