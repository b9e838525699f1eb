"""The dynamic-RNN helpers of 1.x and beam search: results as PaddlePaddle 2.6.2 gives them."""

from __future__ import annotations

from typing import Any

import numpy as np
import oarlock.executor.kernels  # noqa: F401  (declares the operators)
import pytest
from oarlock.executor.values import LoDTensor, TensorArray, array_of
from oarlock.ir.desc import OpDesc
from oarlock.ir.registry import lookup


def ragged(array: Any, *levels: list[int]) -> LoDTensor:
    return LoDTensor.from_lengths(np.asarray(array), levels)


def column(*values: Any) -> Any:
    return np.array(values)[:, None]


def run(type: str, *inputs: Any, **attrs: Any) -> Any:
    return lookup(type)(*inputs, **attrs)


def rows(value: Any) -> list[Any]:
    return array_of(value).reshape(-1).tolist()


NINE = column(*np.arange(9.0))


def test_rank_table_orders_by_length_and_keeps_ties() -> None:
    table = run("lod_rank_table", ragged(NINE, [2, 0, 4, 3]))
    assert table.order.tolist() == [2, 3, 0, 1] and table.lengths.tolist() == [4, 3, 2, 0]
    longest = run("max_sequence_len", table)
    assert longest.tolist() == [4] and longest.dtype == np.int64
    assert run("lod_rank_table", ragged(column(*range(4)), [2, 2])).order.tolist() == [0, 1]


def test_steps_of_a_ragged_batch_and_back() -> None:
    x = ragged(NINE, [2, 0, 4, 3])
    table = run("lod_rank_table", x)
    steps = run("lod_tensor_to_array", x, table)
    assert [rows(step) for step in steps] == [[2, 6, 0], [3, 7, 1], [4, 8], [5]]
    back = run("array_to_lod_tensor", steps, table)
    assert rows(back) == rows(x) and back.lengths() == x.lengths()
    with pytest.raises(ValueError, match="X has 3 entries, the longest sequence of RankTable has 4"):
        run("array_to_lod_tensor", TensorArray(steps[:3]), table)


def test_steps_of_two_levels_hold_whole_sequences() -> None:
    x = ragged(NINE, [1, 3], [2, 1, 4, 2])
    table = run("lod_rank_table", x, level=0)
    steps = run("lod_tensor_to_array", x, table)
    assert [step.lengths() for step in steps] == [[[1, 2]], [[4]], [[2]]]
    assert rows(steps[0]) == [2, 0, 1]
    back = run("array_to_lod_tensor", steps, table)
    assert rows(back) == rows(x) and back.lengths() == x.lengths()
    inner = run("lod_rank_table", x, level=1)
    steps = run("lod_tensor_to_array", x, inner)
    assert rows(steps[0]) == [3, 0, 7, 2]
    assert run("array_to_lod_tensor", steps, inner).lengths() == x.lengths()


def test_reorder_and_its_gradient() -> None:
    x = ragged(NINE, [2, 0, 4, 3])
    table = run("lod_rank_table", x)
    assert rows(run("reorder_lod_tensor_by_rank", column(0, 1, 2, 3), table)) == [2, 3, 0, 1]
    moved = run("reorder_lod_tensor_by_rank", x, table)
    assert rows(moved) == [2, 3, 4, 5, 6, 7, 8, 0, 1] and moved.lengths() == [[4, 3, 2, 0]]
    back = run("reorder_lod_tensor_by_rank_grad", moved, table)
    assert rows(back) == rows(x) and back.lengths() == x.lengths()
    with pytest.raises(ValueError, match="X has 3 units, RankTable ranks 4"):
        run("reorder_lod_tensor_by_rank", column(0, 1, 2), table)


def test_shrink_keeps_what_still_runs() -> None:
    table = run("lod_rank_table", ragged(NINE, [2, 0, 4, 3]))
    state = column(0.0, 1.0, 2.0, 3.0)
    kept = run("shrink_rnn_memory", state, table, np.array([2]))
    assert rows(kept) == [0, 1]
    assert rows(run("shrink_rnn_memory_grad", state, np.ones((2, 1)))) == [1, 1, 0, 0]
    assert rows(run("shrink_rnn_memory_grad", state, None)) == [0, 0, 0, 0]
    nested = run("shrink_rnn_memory", ragged(column(*range(6)), [1, 2, 2, 1]), table, np.array([1]))
    assert rows(nested) == [0, 1, 2, 3, 4] and nested.lengths() == [[1, 2, 2]]


@pytest.mark.parametrize(
    ("x", "mask", "level"),
    [
        (NINE, [i % 2 == 0 for i in range(9)], 0),
        (ragged(NINE, [2, 0, 4, 3]), [False, True, True, False], 0),
        (ragged(NINE, [1, 3], [2, 1, 4, 2]), [False, True], 0),
        (ragged(NINE, [1, 3], [2, 1, 4, 2]), [False, True, True, False], 1),
        (NINE, [False] * 9, 0),
    ],
)
def test_split_and_merge_are_inverse(x: Any, mask: list[bool], level: int) -> None:
    chosen = column(*mask)
    true, false = run("split_lod_tensor", x, chosen, level=level)
    assert len(rows(true)) + len(rows(false)) == 9
    for type in ("merge_lod_tensor", "merge_lod_tensor_infer"):
        merged = run(type, x, chosen, true, false, level=level)
        assert rows(merged) == rows(x)
        assert getattr(merged, "lod", None) == getattr(x, "lod", None)


def test_split_takes_units_of_its_level() -> None:
    x = ragged(NINE, [1, 3], [2, 1, 4, 2])
    true, false = run("split_lod_tensor", x, column(False, True), level=0)
    assert rows(true) == [2, 3, 4, 5, 6, 7, 8] and true.lengths() == [[3], [1, 4, 2]]
    assert false.lengths() == [[1], [2]]
    with pytest.raises(ValueError, match="Mask has 3 entries, X has 2 units on level 0"):
        run("split_lod_tensor", x, column(True, True, True), level=0)


def test_gradients_are_the_inverse_operators() -> None:
    for type, grad_type, inputs, outputs in (
        ("lod_tensor_to_array", "array_to_lod_tensor", ["X", "RankTable"], ["Out"]),
        ("array_to_lod_tensor", "lod_tensor_to_array", ["X", "RankTable"], ["Out"]),
        ("split_lod_tensor", "merge_lod_tensor", ["X", "Mask"], ["OutTrue", "OutFalse"]),
        ("merge_lod_tensor", "split_lod_tensor", ["X", "Mask", "InTrue", "InFalse"], ["Out"]),
    ):
        op = OpDesc(type, {s: [s] for s in inputs}, {s: [s] for s in outputs}, {})
        maker = lookup(type).grad_maker
        assert maker is not None
        assert maker(op, frozenset())[0].type == grad_type
    assert not lookup("merge_lod_tensor_infer").differentiable


def test_memory_helper_hands_on() -> None:
    x = ragged(NINE, [4, 5])
    assert run("rnn_memory_helper", x) is x
    assert not run("rnn_memory_helper_grad", NINE, NINE, None).any()


def search(pre_ids: list[int], scores: Any, **attrs: Any) -> Any:
    lod = [[2, len(pre_ids) - 2], [1] * len(pre_ids)]
    inputs = (column(*pre_ids), np.arange(len(pre_ids), dtype=np.float32)[:, None] / 10, None, scores)
    values = [None if each is None else ragged(each, *lod) for each in inputs]
    return run("beam_search", *values, **{"level": 0, "beam_size": 2, "end_id": 0, **attrs})


def test_beam_search_takes_the_best_of_each_source() -> None:
    scores = np.array([[0.1, 0.9], [0.8, 0.2], [0.3, 0.4], [0.5, 0.6], [0.7, 0.0]], np.float32)
    ids, best, parents = search([1, 2, 3, 4, 5], scores)
    assert rows(ids) == [1, 0, 1, 0] and ids.array.dtype == np.int64 and ids.shape == (4, 1)
    np.testing.assert_allclose(rows(best), [0.9, 0.8, 0.6, 0.7])
    assert parents.tolist() == [0, 1, 3, 4] and parents.dtype == np.int32
    assert ids.lod == [[0, 2, 5], [0, 1, 2, 2, 3, 4]] == best.lod


def test_beam_search_carries_ended_beams_and_drops_ended_sources() -> None:
    scores = np.full((5, 2), -5, np.float32)
    ids, best, parents = search([0, 0, 3, 0, 5], scores, beam_size=3)
    assert parents.tolist() == [3, 4, 4] and rows(ids) == [0, 0, 1]
    np.testing.assert_allclose(rows(best), [0.3, -5, -5])
    assert ids.lod == [[0, 2, 5], [0, 0, 0, 0, 1, 3]]


def test_beam_search_adds_logarithms_of_probabilities() -> None:
    scores = np.array([[0.5, 0.25], [0.125, 0.125], [0.5, 0.5], [0.5, 0.5], [0.5, 0.5]], np.float32)
    _, best, _ = search([1, 2, 3, 4, 5], scores, is_accumulated=False, beam_size=1)
    np.testing.assert_allclose(rows(best), [np.log(0.5), 0.4 + np.log(0.5)], rtol=1e-6)


def test_beam_search_of_equal_scores_prefers_the_later_prefix() -> None:
    ids, _, parents = search([1, 2, 3, 4, 5], np.zeros((5, 3), np.float32), beam_size=2)
    assert parents.tolist() == [1, 1, 4, 4] and rows(ids) == [0, 2, 0, 2]


def test_beam_search_decode_reads_sentences_back() -> None:
    """Two sources of two beams; the first one ends a step before the second."""

    def step(ids: list[int], scores: list[float], lod: list[list[int]]) -> tuple[LoDTensor, LoDTensor]:
        return LoDTensor(column(*ids), lod), LoDTensor(column(*scores), lod)

    steps = [
        step([2, 3, 4, 5], [0.1, 0.4, 0.3, 0.2], [[0, 1, 2], [0, 2, 4]]),
        step([6, 1, 7, 8], [0.5, 0.6, 0.9, 0.8], [[0, 2, 4], [0, 1, 2, 3, 4]]),
        step([1, 1, 9, 10], [0.7, 0.6, 1.9, 1.1], [[0, 2, 4], [0, 1, 2, 2, 4]]),
        step([1, 1], [2.0, 3.0], [[0, 2, 4], [0, 0, 0, 1, 2]]),
    ]
    ids, scores = (TensorArray(part) for part in zip(*steps, strict=True))
    words, marks = run("beam_search_decode", ids, scores, beam_size=2, end_id=1)
    assert words.array.tolist() == [2, 6, 1, 3, 1, 5, 8, 10, 1, 5, 8, 9, 1]
    assert marks.array.tolist() == [0.1, 0.5, 0.7, 0.4, 0.6, 0.2, 0.8, 1.1, 3.0, 0.2, 0.8, 1.9, 2.0]
    assert words.lod == marks.lod == [[0, 2, 4], [0, 3, 5, 9, 13]]
    with pytest.raises(ValueError, match="as many steps"):
        run("beam_search_decode", ids, TensorArray(), beam_size=2, end_id=1)
