"""Fused recurrent and sequence operators of 1.x inference exports: numbers of PaddlePaddle 2.6.2."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import oarlock.executor.kernels  # noqa: F401  (declares the operators)
import pytest
from oarlock.executor.values import LoDTensor, SelectedRows, array_of
from oarlock.ir.registry import lookup


def wave(*shape: int, k: float = 0) -> Any:
    return np.sin(np.arange(int(np.prod(shape))) * 0.7 + k).reshape(shape)


def ragged(array: Any, *lengths: int) -> LoDTensor:
    return LoDTensor.from_lengths(np.asarray(array), [list(lengths)])


def run(type: str, *inputs: Any, **attrs: Any) -> Any:
    return lookup(type)(*inputs, **attrs)


def test_fusion_lstm_as_paddle() -> None:
    x = ragged(wave(3, 2), 2, 1)
    weights = wave(2, 8, k=1), wave(2, 8, k=2), wave(1, 8, k=3)
    hidden, cell, *scratch = run("fusion_lstm", x, *weights, None, None, use_peepholes=False)
    np.testing.assert_allclose(
        hidden.array,
        [[0.074578789, 0.0041351], [0.148086933, 0.158344297], [0.054023585, -0.08445309]],
        atol=1e-9,
    )
    np.testing.assert_allclose(cell.array[1], [0.582456047, 0.34313863], atol=1e-9)
    assert hidden.lengths() == cell.lengths() == [[2, 1]] and len(scratch) == 7


def test_fusion_lstm_is_product_and_lstm() -> None:
    x, states = ragged(wave(5, 3), 2, 0, 3), (wave(3, 2, k=5), wave(3, 2, k=6))
    weights = wave(3, 8, k=1), wave(2, 8, k=2), wave(1, 14, k=3)
    hidden, *_ = run("fusion_lstm", x, *weights, *states, is_reverse=True)
    product = LoDTensor(x.array @ weights[0], x.lod)
    want, *_ = run("lstm", product, *states, weights[1], weights[2], is_reverse=True)
    np.testing.assert_allclose(hidden.array, want.array, atol=1e-12)


def test_fusion_gru_as_paddle() -> None:
    x = ragged(wave(3, 2), 2, 1)
    *_, hidden = run("fusion_gru", x, None, wave(2, 6, k=1), wave(2, 6, k=2), wave(1, 6, k=3), is_reverse=True)
    np.testing.assert_allclose(
        hidden.array,
        [[-0.023911247, 0.112910467], [-0.11605864, -0.09247618], [-0.519067375, -0.160408118]],
        atol=1e-9,
    )


def test_fusion_gru_honours_origin_mode() -> None:
    x, weights = ragged(wave(3, 2), 2, 1), (wave(2, 6, k=1), wave(2, 6, k=2), wave(1, 6, k=3))
    *_, hidden = run("fusion_gru", x, None, *weights, origin_mode=True)
    product = LoDTensor(x.array @ weights[0], x.lod)
    *_, want = run("gru", product, None, weights[1], weights[2], origin_mode=True)
    np.testing.assert_allclose(hidden.array, want.array, atol=1e-12)


def test_multi_gru_as_paddle() -> None:
    """Golden of the oneDNN kernel, the only one that Paddle has."""
    lists = [
        [wave(*shape, k=k + i).astype(np.float32) for i in range(2)]
        for shape, k in (((2, 6), 0), ((2, 6), 2), ((1, 6), 4))
    ]
    hidden = run("multi_gru", ragged(wave(3, 2).astype(np.float32), 2, 1), *lists, [])
    np.testing.assert_allclose(
        hidden.array,
        [
            [0.15297486, 0.14999962, 0.36234578, 0.3776037],
            [0.2877366, 0.31663504, 0.24650903, 0.20317511],
            [0.13973442, 0.17293361, 0.17148498, 0.11191673],
        ],
        atol=1e-5,
    )
    with pytest.raises(ValueError, match="must have 4 tensors each for 2 layer"):
        run("multi_gru", ragged(wave(3, 2), 2, 1), *lists, [], layers=2)


def test_embedding_lstm_as_paddle() -> None:
    ids, table = ragged([[2], [0], [1]], 2, 1), wave(3, 8, k=1)
    hidden, *_ = run(
        "fused_embedding_fc_lstm",
        ids,
        table,
        wave(2, 8, k=2),
        wave(1, 8, k=3),
        None,
        None,
        use_peepholes=False,
    )
    np.testing.assert_allclose(
        hidden.array,
        [[-0.081865625, 0.061595173], [0.100959531, 0.17119591], [0.059053239, 0.125585852]],
        atol=1e-9,
    )
    with pytest.raises(ValueError, match="Ids must lie in \\[0, 3\\)"):
        run("fused_embedding_fc_lstm", ragged([[3]], 1), table, wave(2, 8), wave(1, 8), None, None)


def test_attention_lstm_as_paddle() -> None:
    inputs = (
        ragged(wave(3, 2), 2, 1),
        wave(2, 2, k=4),
        None,
        wave(4, 1, k=1),
        wave(1, 1, k=2),
        wave(1, 1, k=1),
        wave(1, 1, k=1),
        wave(4, 8, k=2),
        wave(1, 8, k=3),
    )
    hidden, cell, *_ = run("attention_lstm", *inputs, candidate_activation="relu")
    np.testing.assert_allclose(
        hidden.array,
        [[-0.181206677, -0.201777002], [-0.12398206, -0.158263279], [-0.081511004, 0.103670158]],
        atol=1e-9,
    )
    np.testing.assert_allclose(cell.array[2], [-0.24987361, 0.206010386], atol=1e-9)


def test_seqconv_relu_is_the_three_operators() -> None:
    x, filter, bias = ragged(wave(5, 2), 3, 2), wave(6, 3, k=1), wave(1, 3)
    out, columns = run("fusion_seqconv_eltadd_relu", x, filter, bias, contextLength=3, contextStart=-1)
    conv = run("sequence_conv", x, None, filter, contextLength=3, contextStart=-1)
    np.testing.assert_allclose(out.array, np.maximum(conv.array + bias, 0), atol=1e-12)
    assert columns[0].tolist() == [0, 0, *x.array[0], *x.array[1]]


def test_seqexpand_concat_fc() -> None:
    x, other, weight, bias = ragged(wave(4, 2), 3, 1), wave(2, 1), wave(3, 2), wave(1, 2)
    for name, act in (("identity", np.positive), ("relu", lambda v: np.maximum(v, 0)), ("tanh", np.tanh)):
        out, _ = run("fusion_seqexpand_concat_fc", [x, other], weight, bias, fc_activation=name)
        joined = np.concatenate([x.array, np.repeat(other, [3, 1], axis=0)], axis=1)
        np.testing.assert_allclose(out.array, act(joined @ weight + bias), atol=1e-12)
    with pytest.raises(ValueError, match="a row for each of 2 sequences"):
        run("fusion_seqexpand_concat_fc", [x, wave(3, 1)], weight, None)


def test_seqpool_concat_with_and_without_counts() -> None:
    xs = [ragged([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], 2, 1), ragged([[7.0, 8.0], [9.0, 10.0]], 1, 1)]
    out = run("fusion_seqpool_concat", xs)
    assert out.array.tolist() == [[4, 6, 7, 8], [5, 6, 9, 10]] and out.lengths() == [[1, 1]]
    out = run("fusion_seqpool_cvm_concat", xs, np.zeros((2, 2)), pooltype="AVERAGE")
    np.testing.assert_allclose(out.array[0], [np.log(3), np.log(4 / 3), np.log(8), np.log(9 / 8)])
    assert lookup("fusion_seqpool_cvm_concat").refuse == {"use_cvm": True}
    with pytest.raises(ValueError, match="equally wide"):
        run("fusion_seqpool_concat", [xs[0], ragged(wave(2, 3), 1, 1)])
    with pytest.raises(ValueError, match="pooltype is 'MAX'"):
        run("fusion_seqpool_concat", xs, pooltype="MAX")


def test_cvm_and_its_gradient_by_convention() -> None:
    x, counts = ragged(np.abs(wave(3, 4)), 2, 1), np.array([[5.0, 1.0], [7.0, 2.0]])
    kept = run("cvm", x, counts)
    np.testing.assert_allclose(kept.array[:, 0], np.log(x.array[:, 0] + 1))
    np.testing.assert_allclose(kept.array[:, 1], np.log((x.array[:, 1] + 1) / (x.array[:, 0] + 1)))
    assert run("cvm", x, counts, use_cvm=False).shape == (3, 2)
    d_x = run("cvm_grad", x, counts, ragged(np.ones((3, 4)), 2, 1))
    assert d_x.array.tolist() == [[5, 1, 1, 1], [5, 1, 1, 1], [7, 2, 1, 1]]
    d_x = run("cvm_grad", x.array, np.ones((3, 2)), np.full((3, 2), 3.0), use_cvm=False)
    assert d_x[0].tolist() == [1, 1, 3, 3]


def test_fused_seqpool_cvm() -> None:
    x, counts = (
        ragged([[1.0, 3.0, 5.0], [2.0, 4.0, 6.0], [1.0, 1.0, 1.0]], 2, 1),
        np.array([[9.0, 8.0], [7.0, 6.0]]),
    )
    (out,) = run("fused_seqpool_cvm", [x], counts)
    np.testing.assert_allclose(out, [[np.log(4), np.log(2), 11], [np.log(2), 0, 1]])
    (bare,) = run("fused_seqpool_cvm", [x], counts, use_cvm=False, pad_value=0.5)
    assert bare.tolist() == [[11.5], [1.5]]
    (d_x,), d_counts = run("fused_seqpool_cvm_grad", [x], counts, [np.array([[0.0, 0.0, 2.0], [0.0, 0.0, 3.0]])])
    assert d_x.array.tolist() == [[9, 8, 2], [9, 8, 2], [7, 6, 3]] and not d_counts.any()


def test_embedding_seq_pool_and_its_sparse_gradient(gradcheck: Callable[..., Any]) -> None:
    table, ids = wave(5, 2), ragged([[[1], [2]], [[0], [2]], [[4], [4]]], 2, 1)
    out = run("fused_embedding_seq_pool", table, ids)
    np.testing.assert_allclose(out[0], [*(table[1] + table[0]), *(2 * table[2])])
    padded = run("fused_embedding_seq_pool", table, ids, padding_idx=2)
    assert padded[0, 2:].tolist() == [0, 0]
    gradcheck("fused_embedding_seq_pool", {"W": table, "Ids": ids}, {"padding_idx": 0})
    rows = run("fused_embedding_seq_pool_grad", table, ids, np.ones((2, 4)), is_sparse=True)
    dense = run("fused_embedding_seq_pool_grad", table, ids, np.ones((2, 4)))
    assert isinstance(rows, SelectedRows) and rows.rows.tolist() == [1, 2, 0, 2, 4, 4]
    np.testing.assert_array_equal(array_of(rows), dense)
    with pytest.raises(ValueError, match="combiner is 'mean'"):
        run("fused_embedding_seq_pool", table, ids, combiner="mean")


def test_transpose_flatten_concat() -> None:
    x = wave(2, 3, 2, 2)
    out = run("fusion_transpose_flatten_concat", [x, x], trans_axis=[0, 2, 3, 1], flatten_axis=1, concat_axis=1)
    np.testing.assert_array_equal(out, np.tile(x.transpose(0, 2, 3, 1).reshape(2, 12), (1, 2)))
