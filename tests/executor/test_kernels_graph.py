"""Graph operators: segments, messages, renumbering, sampling. Numbers beside "Paddle" are PaddlePaddle 2.6.2's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from oarlock.errors import KernelError
from oarlock.executor.random import set_seed

RNG = np.random.default_rng(0)
X: Any = RNG.standard_normal((5, 3))
SRC, DST = np.array([0, 1, 2, 0, 4]), np.array([1, 1, 0, 3, 3])
FUNCTIONS: dict[str, Any] = {"SUM": np.sum, "MEAN": np.mean, "MIN": np.min, "MAX": np.max}


def reduced(rows: Any, targets: Any, count: int, reduce: str) -> Any:
    picked = [rows[targets == target] for target in range(count)]
    return np.stack([FUNCTIONS[reduce](each, axis=0) if len(each) else np.zeros(rows.shape[1:]) for each in picked])


@pytest.mark.parametrize("pooltype", FUNCTIONS)
def test_segment_pool(run_op, gradcheck, pooltype) -> None:
    inputs = {"X": X, "SegmentIds": np.array([0, 0, 1, 3, 3])}
    got = run_op("segment_pool", inputs, {"pooltype": pooltype})
    np.testing.assert_allclose(got["Out"], reduced(X, inputs["SegmentIds"], 4, pooltype), rtol=1e-12)
    gradcheck("segment_pool", inputs, {"pooltype": pooltype}, outputs=["Out"])


@pytest.mark.parametrize(
    ("ids", "word"), [([1, 0, 2, 3, 4], "ascending"), ([0, 1], "one each"), ([-1, 0, 0, 0, 0], "0 on")]
)
def test_segment_ids_are_checked(run_op, ids, word) -> None:
    with pytest.raises(KernelError, match=word):
        run_op("segment_pool", {"X": X, "SegmentIds": np.array(ids)})


@pytest.mark.parametrize("reduce", FUNCTIONS)
@pytest.mark.parametrize("size", [0, 7])
def test_graph_send_recv(run_op, gradcheck, reduce, size) -> None:
    inputs = {"X": X, "Src_index": SRC, "Dst_index": DST}
    attrs = {"reduce_op": reduce, "out_size": [size]}
    got = run_op("graph_send_recv", inputs, attrs)
    np.testing.assert_allclose(got["Out"], reduced(X[SRC], DST, size or 5, reduce), rtol=1e-12)
    if reduce == "MEAN":
        assert got["Dst_count"].dtype == np.int32 and got["Dst_count"][:5].tolist() == [1, 2, 0, 2, 0]
    gradcheck("graph_send_recv", inputs, attrs, outputs=["Out"])


@pytest.mark.parametrize("message", ["ADD", "MUL"])
@pytest.mark.parametrize("reduce", FUNCTIONS)
@pytest.mark.parametrize("width", [1, 3])
def test_graph_send_ue_recv(run_op, gradcheck, message, reduce, width) -> None:
    inputs = {"X": X, "Y": RNG.standard_normal((5, width)), "Src_index": SRC, "Dst_index": DST}
    attrs = {"message_op": message, "reduce_op": reduce}
    rows = X[SRC] + inputs["Y"] if message == "ADD" else X[SRC] * inputs["Y"]
    got = run_op("graph_send_ue_recv", inputs, attrs)["Out"]
    np.testing.assert_allclose(got, reduced(rows, DST, 5, reduce), rtol=1e-12)
    gradcheck("graph_send_ue_recv", inputs, attrs, outputs=["Out"])


@pytest.mark.parametrize("message", ["ADD", "MUL"])
def test_graph_send_uv(run_op, gradcheck, message) -> None:
    inputs = {"x": X, "y": RNG.standard_normal((4, 1)), "src_index": SRC, "dst_index": DST}
    want = X[SRC] + inputs["y"][DST] if message == "ADD" else X[SRC] * inputs["y"][DST]
    np.testing.assert_allclose(run_op("graph_send_uv", inputs, {"message_op": message})["out"], want)
    gradcheck("graph_send_uv", inputs, {"message_op": message})


def test_the_size_tensor_goes_first_and_bad_words_are_refused(run_op) -> None:
    inputs = {"X": X, "Src_index": SRC, "Dst_index": DST, "Out_size": np.array([6])}
    assert run_op("graph_send_recv", inputs, {"out_size": [9]})["Out"].shape == (6, 3)
    with pytest.raises(KernelError, match="PROD"):
        run_op("graph_send_recv", inputs, {"reduce_op": "PROD"})
    with pytest.raises(KernelError, match="Dst_index holds 3"):
        run_op("graph_send_recv", {**inputs, "Out_size": np.array([3])})
    with pytest.raises(KernelError, match="SUB"):
        run_op("graph_send_uv", {"x": X, "y": X, "src_index": SRC, "dst_index": DST}, {"message_op": "SUB"})


def test_graph_reindex(run_op) -> None:  # Paddle
    inputs = {"X": np.array([0, 1, 2]), "Neighbors": np.array([8, 9, 0, 4, 7, 6, 7]), "Count": np.array([2, 3, 2])}
    got = run_op("graph_reindex", inputs)
    assert got["Reindex_Src"].tolist() == [3, 4, 0, 5, 6, 7, 6]
    assert got["Reindex_Dst"].tolist() == [0, 0, 1, 1, 1, 2, 2]
    assert got["Out_Nodes"].tolist() == [0, 1, 2, 8, 9, 4, 7, 6]


ROW = np.array([3, 7, 0, 9, 1, 4, 2, 9, 3, 9, 1, 9, 7])
COLUMN = np.array([0, 2, 4, 5, 6, 7, 9, 11, 11, 13, 13])
NODES = np.array([0, 8, 1, 2])


class TestSampling:
    def test_all_neighbours_come_in_order(self, run_op) -> None:
        inputs = {"Row": ROW, "Col_Ptr": COLUMN, "X": NODES, "Eids": np.arange(13) * 2}
        got = run_op("graph_sample_neighbors", inputs, {"sample_size": -1, "return_eids": True})
        assert got["Out"].tolist() == [3, 7, 9, 7, 0, 9, 1] and got["Out_Count"].tolist() == [2, 2, 2, 1]
        assert got["Out_Eids"].tolist() == [0, 2, 22, 24, 4, 6, 8] and got["Out_Count"].dtype == np.int32

    @pytest.mark.parametrize("weighted", [False, True])
    def test_a_sample_is_part_of_the_neighbours(self, run_op, weighted) -> None:
        if weighted:
            inputs = {"row": ROW, "colptr": COLUMN, "edge_weight": np.ones(13, np.float32), "input_nodes": NODES}
            got = run_op("weighted_sample_neighbors", inputs, {"sample_size": 1, "return_eids": False})
            rows, counts = got["out_neighbors"], got["out_count"]
        else:
            got = run_op("graph_sample_neighbors", {"Row": ROW, "Col_Ptr": COLUMN, "X": NODES}, {"sample_size": 1})
            rows, counts = got["Out"], got["Out_Count"]
        assert counts.tolist() == [1, 1, 1, 1]
        assert all(row in ROW[COLUMN[n] : COLUMN[n + 1]] for row, n in zip(rows, NODES, strict=True))

    def test_weights_steer_the_choice(self, run_op) -> None:
        set_seed(3)
        weight = np.array([9, 1, *[1] * 11], np.float32)
        inputs = {"row": ROW, "colptr": COLUMN, "edge_weight": weight, "input_nodes": np.zeros(2000, np.int64)}
        got = run_op("weighted_sample_neighbors", inputs, {"sample_size": 1, "return_eids": False})["out_neighbors"]
        assert (got == 3).mean() == pytest.approx(0.9, abs=0.03)

    def test_khop_renumbers_its_edges(self, run_op) -> None:  # Paddle
        inputs = {"Row": ROW[:, None], "Col_Ptr": COLUMN[:, None], "X": np.array([0, 8])}
        got = run_op("graph_khop_sampler", inputs, {"sample_sizes": [-1]}, without=["Out_Eids"])
        nodes = got["Sample_Index"]
        assert nodes.tolist() == [0, 8, 3, 7, 9] and got["Reindex_X"].tolist() == [0, 1]
        assert nodes[got["Out_Src"][:, 0]].tolist() == [3, 7, 9, 7]
        assert nodes[got["Out_Dst"][:, 0]].tolist() == [0, 0, 8, 8]

    def test_edge_ids_must_be_there(self, run_op) -> None:
        with pytest.raises(KernelError, match="edge ids"):
            run_op("graph_sample_neighbors", {"Row": ROW, "Col_Ptr": COLUMN, "X": NODES}, {"return_eids": True})
