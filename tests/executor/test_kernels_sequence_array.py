"""The dynamic-RNN helpers of 1.x and beam search: results as PaddlePaddle 2.6.2 gives them."""

from __future__ import annotations

from typing import Any

import numpy as np
import oarlock.executor.kernels  # noqa: F401  (declares the operators)
import pytest
from oarlock.executor.plan import PlanRequest, compile_block
from oarlock.executor.values import LoDTensor, TensorArray, array_of
from oarlock.ir import AttrType, BlockDesc, ProgramDesc, VarDesc
from oarlock.ir.backward import append_gradients
from oarlock.ir.desc import OpDesc, VarKind
from oarlock.ir.dtypes import DType
from oarlock.ir.registry import lookup
from oarlock.ir.versioning import single_assignment


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
        desc = OpDesc(type, {s: [s] for s in inputs}, {s: [s] for s in outputs}, {})
        maker = lookup(type).grad_maker
        assert maker is not None
        assert maker(desc, frozenset())[0].type == grad_type
    assert not lookup("merge_lod_tensor_infer").differentiable


def test_memory_helper_hands_on() -> None:
    x = ragged(NINE, [4, 5])
    assert run("rnn_memory_helper", x) is x
    assert not run("rnn_memory_helper_grad", NINE, NINE, None).any()


def op(type: str, out: str, **inputs: Any) -> OpDesc:
    """One output; slots in capitals, attributes in small letters."""
    slots = {slot: [name] for slot, name in inputs.items() if slot[0].isupper()}
    return OpDesc(type, slots, {"Out": [out]}, {k: v for k, v in inputs.items() if k not in slots})


def dynamic_rnn() -> ProgramDesc:
    """``h = tanh(x_t + h)`` over every sequence, as 1.x dynamic RNNs are saved."""
    body = [
        op("read_from_array", "xt", X="xs", I="i"),
        op("shrink_rnn_memory", "running", X="state", RankTable="table", I="i"),
        op("elementwise_add", "s", X="xt", Y="running"),
        op("tanh", "h", X="s"),
        op("write_to_array", "hs", X="h", I="i"),
        op("assign", "state", X="h"),
        op("increment", "i", X="i", step=1.0),
        op("less_than", "more", X="i", Y="steps"),
    ]
    outputs = {"Out": ["state", "hs", "i", "more"], "StepScopes": ["scopes"]}
    reads = ["xs", "state", "table", "i", "steps", "hs"]
    loop = OpDesc("while", {"X": reads, "Condition": ["more"]}, outputs)
    loop.set_attr("sub_block", 1, AttrType.BLOCK)
    main = [
        op("lod_rank_table", "table", X="x", level=0),
        op("max_sequence_len", "steps", RankTable="table"),
        op("lod_tensor_to_array", "xs", X="x", RankTable="table"),
        op("reorder_lod_tensor_by_rank", "state", X="first", RankTable="table"),
        op("fill_constant", "i", shape=[1], value=0.0, dtype=3),
        op("less_than", "more", X="i", Y="steps"),
        loop,
        op("array_to_lod_tensor", "y", X="hs", RankTable="table"),
    ]
    kinds = {"table": VarKind.LOD_RANK_TABLE, "scopes": VarKind.STEP_SCOPES}
    kinds |= dict.fromkeys(("xs", "hs"), VarKind.LOD_TENSOR_ARRAY)
    dtypes = {"i": DType.INT64, "steps": DType.INT64, "more": DType.BOOL}

    def variables(*names: str) -> dict[str, VarDesc]:
        return {
            name: VarDesc(name, kinds.get(name, VarKind.LOD_TENSOR), dtypes.get(name, DType.FP64), (-1, 2))
            for name in names
        }

    outer = variables("x", "first", "state", "y", "i", "steps", "more", "xs", "hs", "table", "scopes", "seed")
    return ProgramDesc([BlockDesc(0, -1, outer, main), BlockDesc(1, 0, variables("xt", "running", "s", "h"), body)])


LENGTHS = [2, 4, 3]


def run_sequences(x: Any, first: Any) -> Any:
    """What :func:`dynamic_rnn` computes, sequence by sequence."""
    out = []
    for part, state in zip(np.split(x, np.cumsum(LENGTHS)[:-1]), first, strict=True):
        for row in part:
            state = np.tanh(row + state)
            out.append(state)
    return np.array(out)


def test_a_dynamic_rnn_runs_and_trains() -> None:
    rng = np.random.default_rng(0)
    x, first, cotangent = (rng.standard_normal(shape) for shape in ((9, 2), (3, 2), (9, 2)))
    program = dynamic_rnn()
    single_assignment(program)
    made = append_gradients(program, ["y"], target_gradients=["seed"])
    fetches = ("y", made["x"], made["first"])
    request = PlanRequest(("x", "first", "seed"), fetches, keep=frozenset({"@training"}), lod=True)
    feeds = [ragged(x, LENGTHS), first, ragged(cotangent, LENGTHS)]
    y, d_x, d_first = compile_block(program, 0, request).run(feeds)
    assert y.lengths() == d_x.lengths() == [LENGTHS]
    np.testing.assert_allclose(y.array, run_sequences(x, first), rtol=1e-12)
    direction = rng.standard_normal((9, 2)), rng.standard_normal((3, 2))
    ahead, behind = (run_sequences(x + e * direction[0], first + e * direction[1]) for e in (1e-6, -1e-6))
    along = np.sum(d_x.array * direction[0]) + np.sum(array_of(d_first) * direction[1])
    np.testing.assert_allclose(along, np.sum((ahead - behind) * cotangent) / 2e-6, rtol=1e-7)


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
