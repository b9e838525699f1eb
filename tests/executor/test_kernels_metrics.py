"""Metrics, sampling, checks and sparse-gradient tools."""

from __future__ import annotations

from typing import Any

import numpy as np
import oarlock.executor.kernels  # noqa: F401 - tells the registry how to find a type
import pytest
from oarlock.errors import KernelError, ProgramError
from oarlock.executor.values import SelectedRows
from oarlock.ir.registry import lookup


def f32(*values: Any) -> np.ndarray:
    return np.array(values, np.float32)


def test_accuracy_counts_a_label_among_the_best(run_op: Any) -> None:
    inputs = {
        "Out": np.zeros((3, 2), np.float32),
        "Indices": np.array([[1, 2], [0, 3], [4, 1]]),
        "Label": np.array([[2], [1], [4]]),
    }
    made = run_op("accuracy", inputs)
    assert made["Accuracy"].shape == () and made["Accuracy"] == np.float32(2 / 3)
    assert (made["Correct"], made["Total"]) == (2, 3)
    assert made["Correct"].dtype == made["Total"].dtype == np.int32
    old = run_op("accuracy", inputs, declared={"Accuracy": (1,), "Correct": (1,), "Total": (1,)})
    assert old["Accuracy"].shape == old["Total"].shape == (1,)


def auc_inputs(width: int, steps: int) -> dict[str, np.ndarray]:
    size = (1 + steps) * width + (1 if steps else 0)
    zeros = np.zeros(size, np.int64)
    predict, label = f32([0.9, 0.1], [0.6, 0.4], [0.3, 0.7], [0.2, 0.8]), np.array([[0], [1], [0], [1]])
    return {"Predict": predict, "Label": label, "StatPos": zeros, "StatNeg": zeros.copy()}


def test_auc_of_four_predictions(run_op: Any) -> None:
    """Three of the four pairs of a positive and a negative are in order."""
    made = run_op("auc", auc_inputs(101, 0), {"num_thresholds": 100, "slide_steps": 0})
    assert made["AUC"] == pytest.approx(0.75) and made["AUC"].dtype == np.float64
    assert made["StatPosOut"].shape == (1, 101) and made["StatPosOut"][0, [40, 80]].tolist() == [1, 1]


def test_auc_slides_over_the_last_steps(run_op: Any) -> None:
    attrs = {"num_thresholds": 10, "slide_steps": 2}
    inputs = auc_inputs(11, 2)
    for step in range(4):
        made = run_op("auc", inputs, attrs)
        positive = made["StatPosOut"]
        assert positive[22:33].sum() == 2 * min(step + 1, 2) and positive[33] == step + 1
        inputs = {**inputs, "StatPos": positive, "StatNeg": made["StatNegOut"]}


def test_auc_does_not_count_padding(run_op: Any) -> None:
    inputs = {**auc_inputs(11, 0), "InsTagWeight": np.zeros((4, 1), np.float32)}
    made = run_op("auc", inputs, {"num_thresholds": 10, "slide_steps": 0})
    assert not made["StatPosOut"].any()


def test_auc_refuses_what_it_cannot_do(run_op: Any) -> None:
    with pytest.raises(ProgramError, match="attribute curve='PR' is not supported"):
        run_op("auc", auc_inputs(11, 0), {"num_thresholds": 10, "slide_steps": 0, "curve": "PR"})
    inputs = {**auc_inputs(11, 0), "Predict": f32([2], [0], [0], [0])}
    with pytest.raises(KernelError, match=r"values outside \[0, 1\]"):
        run_op("auc", inputs, {"num_thresholds": 10, "slide_steps": 0})


def test_precision_and_recall() -> None:
    """Class 0: one hit, one false alarm. Class 1: one hit, one miss. Class 2 does not occur and counts as perfect."""
    found, truth = np.array([[0], [0], [1]], np.int32), np.array([[0], [1], [1]], np.int32)
    batch, total, states = lookup("precision_recall")(
        np.zeros((3, 1), np.float32), found, truth, None, None, class_number=3
    )
    assert states.tolist() == [[1, 1, 1, 0], [1, 0, 1, 1], [0, 0, 3, 0]]
    precision, recall = (0.5 + 1 + 1) / 3, (1 + 0.5 + 1) / 3
    np.testing.assert_allclose(
        batch,
        [precision, recall, 2 * precision * recall / (precision + recall), 2 / 3, 2 / 3, 2 / 3],
        rtol=1e-6,
    )
    np.testing.assert_array_equal(batch, total)
    _, _, more = lookup("precision_recall")(np.zeros((3, 1), np.float32), found, truth, None, states, class_number=3)
    np.testing.assert_array_equal(more, states * 2)
    with pytest.raises(ValueError, match=r"Labels holds classes outside 0\.\.1"):
        lookup("precision_recall")(
            np.zeros((1, 1), np.float32), found[:1], np.array([[2]], np.int32), None, None, class_number=2
        )


def test_pairs_of_a_query() -> None:
    """Query 7: two ordered pairs and one tie, which also counts as negative. Query 8 has one document."""
    score, label = f32([0.9], [0.5], [0.5], [0.1]), f32([2], [1], [0], [0])
    query = np.array([[7], [7], [7], [8]])
    made = lookup("positive_negative_pair")(score, label, query, *[None] * 4)
    assert [each.tolist() for each in made] == [[2], [1], [1]]
    made = lookup("positive_negative_pair")(score, label, query, f32(10), f32(20), f32(30), None)
    assert [each.tolist() for each in made] == [[12], [21], [31]]


def test_nucleus_sampling_stays_in_the_nucleus() -> None:
    chances = np.tile(f32(0.05, 0.5, 0.3, 0.15), (400, 1))
    value, ids = lookup("top_p_sampling")(chances, np.full((400, 1), 0.8, np.float32), None, seed=3)
    assert ids.shape == value.shape == (400, 1) and ids.dtype == np.int64
    assert set(ids.reshape(-1).tolist()) == {1, 2}
    assert abs((ids == 1).mean() - 0.5 / 0.8) < 0.08
    np.testing.assert_array_equal(value, np.take_along_axis(chances, ids, axis=1))
    again = lookup("top_p_sampling")(chances, np.full((400, 1), 0.8, np.float32), None, seed=3)[1]
    np.testing.assert_array_equal(ids, again)


def test_check_numerics() -> None:
    bad = f32(np.nan, np.inf, 0, -2)
    with pytest.raises(ValueError, match="'w' of relu holds 1 nan and 1 inf"):
        lookup("check_numerics")(bad, op_type="relu", var_name="w")
    stats, values = lookup("check_numerics")(bad, check_nan_inf_level=1)
    assert stats.tolist() == [1, 1, 1] and values[:2].tolist() == [np.inf, -2] and np.isnan(values[2])
    stats, values = lookup("check_numerics")(f32(1, 3))
    assert stats.tolist() == [0, 0, 0] and values.tolist() == [3, 1, 2]


def test_sparse_gradients_are_merged_or_laid_bare() -> None:
    sparse = SelectedRows(np.array([3, 1, 3]), f32([1, 2], [3, 4], [5, 6]), 5)
    merged = lookup("merge_selected_rows")(sparse)
    assert merged.rows.tolist() == [1, 3] and merged.values.tolist() == [[3, 4], [6, 8]] and merged.height == 5
    np.testing.assert_array_equal(merged.to_dense(), sparse.to_dense())
    assert lookup("get_tensor_from_selected_rows")(sparse) is sparse.values
