"""Feature hashing, tree retrieval, sampled classes, expert routing. Numbers beside "Paddle" are 2.6.2's."""

from __future__ import annotations

import numpy as np
import pytest
from oarlock.errors import KernelError
from oarlock.executor.kernels.recommend import xxh64


@pytest.mark.parametrize(
    ("text", "seed", "want"),
    [
        (b"", 0, 0xEF46DB3751D8E999),
        (b"a", 0, 0xD24EC4F1A98C6E5B),
        (b"abc", 0, 0x44BC2CF5AD770999),
        (b"Nobody inspects the spammish repetition", 0, 0xFBCEA83C8A378BF1),
        (b"Nobody inspects the spammish repetition", 1, None),
    ],
)
def test_xxh64_agrees_with_its_published_values(text, seed, want) -> None:
    rows = np.frombuffer(text * 2, np.uint8).reshape(2, len(text))
    first, second = xxh64(rows, seed)
    assert first == second and (int(first) == want if want is not None else int(first) != 0xFBCEA83C8A378BF1)


@pytest.mark.parametrize(
    ("x", "mod_by", "want"),
    [
        (np.array([[5], [8], [9]], np.int32), 10000, [[3481, 7475], [1719, 5986], [8473, 694]]),
        (np.array([[10], [5]], np.int64), 2**32, [[1204014882, 393011615], [3586283837, 2814821595]]),
    ],
)
def test_hash(run_op, x, mod_by, want) -> None:  # Paddle
    got = run_op("hash", {"X": x}, {"num_hash": 2, "mod_by": mod_by})["Out"]
    assert got.dtype == x.dtype and got.shape == (len(x), 2, 1) and got[..., 0].tolist() == want


TREE = np.array([[0, 0, 0, 1, 2], [0, 1, 0, 3, 4], [0, 1, 0, 5, 0], [7, 2, 1, 0, 0], [8, 2, 1, 0, 0], [9, 2, 2, 0, 0]])


def test_tdm_child(run_op) -> None:
    got = run_op("tdm_child", {"X": np.array([[1], [2], [3], [0]]), "TreeInfo": TREE}, {"child_nums": 2, "dtype": 2})
    assert got["Child"].dtype == np.int32 and got["Child"].shape == (4, 1, 2)
    assert got["Child"][:, 0].tolist() == [[3, 4], [5, 0], [0, 0], [0, 0]]
    assert got["LeafMask"][:, 0].tolist() == [[1, 1], [1, 0], [0, 0], [0, 0]]
    with pytest.raises(KernelError, match="outside the tree"):
        run_op("tdm_child", {"X": np.array([6]), "TreeInfo": TREE}, {"child_nums": 2})


WALK = {
    "X": np.array([[0], [2], [1]]),
    "Travel": np.array([[1, 3], [1, 4], [2, 0]]),
    "Layer": np.array([[1], [2], [3], [4], [5]]),
}
LAYERS = {"layer_offset_lod": [0, 2, 5], "dtype": 3, "seed": 2}


class TestTdmSampler:
    def test_paths_without_samples(self, run_op) -> None:
        got = run_op("tdm_sampler", WALK, {**LAYERS, "neg_samples_num_list": [0, 0]})
        assert got["Out"].tolist() == [[1, 3], [2, 0], [1, 4]] and got["Mask"].tolist() == [[1, 1], [1, 0], [1, 1]]

    def test_samples_are_other_nodes_of_the_layer(self, run_op) -> None:
        attrs = {**LAYERS, "neg_samples_num_list": [1, 2]}
        got = run_op("tdm_sampler", WALK, attrs)
        assert got["Out"].shape == (3, 5) and got["Labels"].tolist() == [
            [1, 0, 1, 0, 0],
            [1, 0, 0, 0, 0],
            [1, 0, 1, 0, 0],
        ]
        assert got["Out"][:, :2].tolist() == [[1, 2], [2, 1], [1, 2]]
        assert sorted(got["Out"][0, 2:].tolist()) == [3, 4, 5] and got["Out"][1, 2:].tolist() == [0, 0, 0]
        np.testing.assert_array_equal(got["Out"], run_op("tdm_sampler", WALK, attrs)["Out"])
        without = run_op("tdm_sampler", WALK, {**attrs, "output_positive": False})
        assert without["Out"].shape == (3, 3) and without["Labels"].sum() == 0

    def test_too_many_samples_are_refused(self, run_op) -> None:
        with pytest.raises(KernelError, match="asks for 2"):
            run_op("tdm_sampler", WALK, {**LAYERS, "neg_samples_num_list": [2, 0]})


def test_class_center_sample(run_op) -> None:
    label = np.array([11, 5, 1, 3, 12, 2, 15, 19, 18, 19])
    got = run_op("class_center_sample", {"Label": label}, {"num_classes": 20, "num_samples": 6})
    assert got["SampledLocalClassCenter"].tolist() == [1, 2, 3, 5, 11, 12, 15, 18, 19]  # Paddle
    assert got["RemappedLabel"].tolist() == [4, 3, 0, 2, 5, 1, 6, 8, 7, 8]
    filled = run_op("class_center_sample", {"Label": label[:2]}, {"num_classes": 20, "num_samples": 6})
    centers = filled["SampledLocalClassCenter"]
    assert len(set(centers.tolist())) == 6 and centers[filled["RemappedLabel"]].tolist() == [11, 5]


class TestExperts:
    def test_counts_and_capacity(self, run_op) -> None:
        got = run_op("number_count", {"numbers": np.array([0, 2, 0, 2, -1, 7])}, {"upper_range": 4})["Out"]
        assert got.dtype == np.int64 and got.tolist() == [2, 0, 2, 0]
        inputs = {"expert_count": np.array([1, 2, 2, 8, 3, 6]), "capacity": np.array([5, 5, 5])}
        assert run_op("limit_by_capacity", inputs, {"n_worker": 2})["Out"].tolist() == [1, 2, 2, 4, 3, 3]
        with pytest.raises(KernelError, match="are needed"):
            run_op("limit_by_capacity", inputs, {"n_worker": 3})

    def test_pruned_gates_and_positions(self, run_op) -> None:
        inputs = {"GateIdx": np.array([1, 3, 3, 3, 3, 2, 1, 1]), "ExpertCount": np.array([0, 3, 1, 3, 0, 0, 0, 0])}
        got = run_op("prune_gate_by_capacity", inputs, {"n_expert": 8, "n_worker": 1})["NewGateIdx"]
        assert got.tolist() == [1, 3, 3, 3, -1, 2, 1, 1]
        inputs = {"X": np.array([0, 2, 0, 2, 1]), "cum_count": np.array([2, 3, 5]), "eff_num_len": np.array([5])}
        assert run_op("assign_pos", inputs)["Out"].tolist() == [2, 0, 4, 3, 1]

    def test_the_second_expert_is_dropped_at_random(self, run_op) -> None:
        inputs = {
            "Prob": np.array([0.9, 0.1]),
            "TopK_Value": np.array([[0.5, 0.4], [0.5, 0.3]]),
            "TopK_Idx": np.array([[1, 2], [3, 4]]),
        }
        assert run_op("random_routing", inputs)["Out"].tolist() == [[1, -1], [3, 4]]
