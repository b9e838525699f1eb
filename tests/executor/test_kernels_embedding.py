"""Embeddings, one-hot rows and id arithmetic."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from oarlock.errors import KernelError
from oarlock.executor.values import LoDTensor, SelectedRows
from oarlock.ir.registry import lookup

W = np.arange(15, dtype=np.float32).reshape(5, 3)


class TestLookupTable:
    @pytest.mark.parametrize("dtype", [np.int32, np.int64])
    @pytest.mark.parametrize("ids", [[0, 2, 2], [[0, 4], [1, 1]], 3, [[[1], [2]]], []])
    def test_rows_by_id(self, run_op, gradcheck, ids, dtype) -> None:
        inputs = {"Ids": np.array(ids, dtype), "W": W}
        got = run_op("lookup_table_v2", inputs)["Out"]
        np.testing.assert_array_equal(got, W[inputs["Ids"]])
        if got.size:
            gradcheck("lookup_table_v2", inputs)

    @pytest.mark.parametrize("type", ["lookup_table", "lookup_table_v2"])
    def test_the_padding_row_is_zero_and_learns_nothing(self, run_op, type) -> None:
        ids = np.array([[0], [2], [2], [0]]) if type == "lookup_table" else np.array([0, 2, 2, 0])
        cotangent = np.ones((4, 3), np.float32)
        got = run_op(type, {"Ids": ids, "W": W}, {"padding_idx": 2}, cotangents={"Out": cotangent})
        assert got["Out"].tolist() == [[0, 1, 2], [0] * 3, [0] * 3, [0, 1, 2]]
        assert got.gradients["W"].sum(1).tolist() == [6, 0, 0, 0, 0]

    @pytest.mark.parametrize("type", ["lookup_table", "lookup_table_v2"])
    def test_a_sparse_gradient_is_selected_rows_as_they_came(self, run_op, type) -> None:
        ids = np.array([[0], [2], [2]]) if type == "lookup_table" else np.array([0, 2, 2])
        cotangent = np.arange(9, dtype=np.float32).reshape(3, 3)
        got = run_op(type, {"Ids": ids, "W": W}, {"is_sparse": True}, cotangents={"Out": cotangent})
        sparse = got.gradients["W"]
        assert isinstance(sparse, SelectedRows) and sparse.height == 5 and sparse.rows.tolist() == [0, 2, 2]
        np.testing.assert_array_equal(sparse.values, cotangent)
        dense = run_op(type, {"Ids": ids, "W": W}, cotangents={"Out": cotangent}).gradients["W"]
        np.testing.assert_array_equal(sparse.to_dense(), dense)

    def test_version_1_drops_the_last_dimension_of_its_ids(self, run_op) -> None:
        assert run_op("lookup_table", {"Ids": np.array([[[0], [1]]]), "W": W})["Out"].shape == (1, 2, 3)
        with pytest.raises(KernelError, match="must be 1"):
            run_op("lookup_table", {"Ids": np.array([1, 2]), "W": W})

    @pytest.mark.parametrize(("ids", "word"), [([5], "holds 5"), ([-1], "holds -1")])
    def test_ids_outside_are_refused(self, run_op, ids, word) -> None:
        with pytest.raises(KernelError, match=word):
            run_op("lookup_table_v2", {"Ids": np.array(ids), "W": W})

    def test_ids_are_int32_or_int64(self, run_op) -> None:
        with pytest.raises(KernelError, match="int32 or int64"):
            run_op("lookup_table_v2", {"Ids": np.array([1], np.uint8), "W": W})

    def test_the_output_inherits_the_sequences_of_the_ids(self) -> None:
        assert lookup("lookup_table").share_lod == "Ids"


def test_lookup_table_dequant_unpacks_bytes(run_op) -> None:
    codes = np.array([0, 64, 128, 255], np.uint8).view(np.float32)
    w = np.concatenate([np.array([-1, 1], np.float32), codes])[None]
    got = run_op("lookup_table_dequant", {"W": w, "Ids": np.array([[0], [0]])})["Out"]
    np.testing.assert_allclose(got, [[-1, -0.5, 0, 255 / 128 - 1]] * 2)


def test_c_embedding_knows_one_part_of_the_table(run_op, gradcheck) -> None:
    inputs = {"W": W, "Ids": np.array([[0, 2], [6, 9]])}
    got = run_op("c_embedding", inputs, {"start_index": 2, "vocab_size": 100})["Out"]
    assert got.tolist() == [[[0] * 3, [0, 1, 2]], [[12, 13, 14], [0] * 3]]
    gradcheck("c_embedding", inputs, {"start_index": 2})


def test_fused_embeddings_are_summed_and_normalised(run_op) -> None:
    rng = np.random.default_rng(0)
    tables = [rng.standard_normal((7, 8)).astype(np.float32) for _ in range(2)]
    ids = [rng.integers(0, 7, (2, 3)) for _ in range(2)]
    bias, scale = rng.standard_normal((2, 8)).astype(np.float32)
    total = tables[0][ids[0]].astype(np.float64) + tables[1][ids[1]]
    centred = total - total.mean(-1, keepdims=True)
    want = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 0.01) * scale + bias
    inputs = {"Ids": ids, "Embs": tables, "Bias": bias, "Scale": scale}
    got = run_op("fused_embedding_eltwise_layernorm", inputs, {"epsilon": 0.01})["Out"]
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
    with pytest.raises(KernelError, match="pairs"):
        run_op("fused_embedding_eltwise_layernorm", {**inputs, "Ids": ids[:1]})


class TestOneHot:
    @pytest.mark.parametrize(("code", "dtype"), [(5, np.float32), (3, np.int64), (0, np.bool_)])
    def test_rows(self, run_op, code, dtype) -> None:
        got = run_op("one_hot_v2", {"X": np.array([[0], [2]])}, {"depth": 3, "dtype": code})["Out"]
        assert got.dtype == dtype and got.tolist() == [[[1, 0, 0]], [[0, 0, 1]]]

    def test_version_1_drops_the_last_dimension(self, run_op) -> None:
        assert run_op("one_hot", {"X": np.array([[0], [2]])}, {"depth": 3})["Out"].shape == (2, 3)

    def test_the_depth_tensor_goes_first(self, run_op) -> None:
        got = run_op("one_hot_v2", {"X": np.array([1]), "depth_tensor": np.array([4], np.int32)}, {"depth": 2})["Out"]
        assert got.tolist() == [[0, 1, 0, 0]]

    @pytest.mark.parametrize("value", [3, -1])
    def test_values_outside_are_refused_or_zero(self, run_op, value) -> None:
        x = np.array([value])
        with pytest.raises(KernelError, match=f"holds {value}"):
            run_op("one_hot_v2", {"X": x}, {"depth": 3})
        assert run_op("one_hot_v2", {"X": x}, {"depth": 3, "allow_out_of_range": True})["Out"].tolist() == [[0] * 3]


@pytest.mark.parametrize(
    ("nshards", "shard", "want"), [(2, 0, [1, 6, -1, -1]), (2, 1, [-1, -1, 2, 9]), (3, 2, [-1, -1, -1, 5])]
)
def test_shard_index(run_op, nshards, shard, want) -> None:
    attrs = {"index_num": 20, "nshards": nshards, "shard_id": shard}
    assert run_op("shard_index", {"X": np.array([1, 6, 12, 19])}, attrs)["Out"].tolist() == want
    with pytest.raises(KernelError, match="outside"):
        run_op("shard_index", {"X": np.array([20])}, attrs)


@pytest.mark.parametrize(
    ("x", "attrs", "want"),
    [
        ([2, 1, 0], {"maxlen": -1}, [[1, 1], [1, 0], [0, 0]]),
        ([2, 1], {"maxlen": 3}, [[1, 1, 0], [1, 0, 0]]),
        ([[2], [1]], {"maxlen": 1}, [[[1]], [[1]]]),
    ],
)
def test_sequence_mask(run_op, x, attrs, want) -> None:
    got = run_op("sequence_mask", {"X": np.array(x)}, {**attrs, "out_dtype": 3})["Y"]
    assert got.dtype == np.int64 and got.tolist() == want


def test_sequence_mask_limits(run_op) -> None:
    inputs: dict[str, Any] = {"X": np.array([1]), "MaxLenTensor": np.array([4])}
    assert run_op("sequence_mask", inputs, {"maxlen": 2, "out_dtype": 5})["Y"].shape == (1, 4)
    with pytest.raises(KernelError, match="maxlen is 0"):
        run_op("sequence_mask", {"X": np.array([1])}, {"maxlen": 0, "out_dtype": 5})
    ragged = LoDTensor.from_lengths(np.array([2, 1]), [[2]])
    assert lookup("sequence_mask").kernel(ragged, None, out_dtype=3).tolist() == [[1, 1], [1, 0]]
