"""Losses. Literal numbers beside "Paddle" are PaddlePaddle 2.6.2's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from oarlock.executor.values import SelectedRows
from oarlock.ir.registry import lookup

RNG = np.random.default_rng(6)


def draw(*shape: int) -> Any:
    return np.asarray(RNG.standard_normal(shape))


def chances(*shape: int) -> Any:
    x = np.exp(draw(*shape))
    return x / x.sum(axis=-1, keepdims=True)


def f32(*rows: Any) -> Any:
    return np.array(rows, np.float32)


class TestSoftmaxWithCrossEntropy:
    def test_hard_labels_and_those_to_ignore(self, run_op) -> None:
        inputs = {"Logits": f32([1, 2, 3], [0, 0, 0]), "Label": np.array([[2], [-100]])}
        got = run_op("softmax_with_cross_entropy", inputs, cotangents={"Loss": f32([1], [1])})
        np.testing.assert_allclose(got["Softmax"][0], [0.0900306, 0.2447285, 0.6652409], rtol=1e-5)  # Paddle
        np.testing.assert_allclose(got["Loss"], [[0.407606], [0]], rtol=1e-5)
        want = [[0.0900306, 0.2447285, -0.3347591], [0, 0, 0]]
        np.testing.assert_allclose(got.gradients["Logits"], want, rtol=1e-5)

    @pytest.mark.parametrize("axis", [0, 1, -1])
    @pytest.mark.parametrize("soft", [False, True])
    @pytest.mark.parametrize("use_softmax", [False, True])
    def test_any_axis(self, run_op, axis, soft, use_softmax) -> None:
        x = draw(3, 4, 5)
        if not use_softmax:
            x = np.exp(x) / np.exp(x).sum(axis=axis, keepdims=True)
        classes = x.shape[axis]
        shape = [1 if i == axis % 3 else n for i, n in enumerate(x.shape)]
        label = RNG.integers(0, classes, shape)
        weights = np.zeros_like(x)
        np.put_along_axis(weights, label, 1, axis=axis)
        attrs = {"axis": axis, "use_softmax": use_softmax}
        d = draw(*shape)
        hard = run_op("softmax_with_cross_entropy", {"Logits": x, "Label": label}, attrs, cotangents={"Loss": d})
        assert hard["Loss"].shape == tuple(shape)
        p = np.exp(x) / np.exp(x).sum(axis=axis, keepdims=True) if use_softmax else x
        np.testing.assert_allclose(hard["Loss"], -np.log(np.take_along_axis(p, label, axis)))
        if soft:
            inputs = {"Logits": x, "Label": weights}
            same = run_op("softmax_with_cross_entropy", inputs, {**attrs, "soft_label": True}, cotangents={"Loss": d})
            np.testing.assert_allclose(same["Loss"], hard["Loss"])
            np.testing.assert_allclose(same.gradients["Logits"], hard.gradients["Logits"], atol=1e-15)

    def test_ignore_index(self, run_op) -> None:
        inputs = {"Logits": draw(2, 3), "Label": np.array([[1], [2]], np.int32)}
        got = run_op("softmax_with_cross_entropy", inputs, {"ignore_index": 1})["Loss"]
        assert got[0, 0] == 0 and got[1, 0] > 0

    def test_half_types(self, run_op) -> None:
        inputs = {"Logits": np.zeros((1, 1000), np.float16), "Label": np.array([[3]])}
        got = run_op("softmax_with_cross_entropy", inputs)
        assert got["Loss"].dtype == np.float16 and abs(float(got["Loss"].item()) - np.log(1000)) < 4e-3

    def test_what_is_no_label_is_refused(self) -> None:
        kernel = lookup("softmax_with_cross_entropy").kernel
        with pytest.raises(ValueError, match="label 4 is outside the 4 classes"):
            kernel(draw(1, 4), np.array([[4]]))
        with pytest.raises(ValueError, match="last axis only"):
            kernel(draw(4, 1), np.array([[0]]), axis=0, numeric_stable_mode=False)


class TestProbabilities:
    @pytest.mark.parametrize("trailing", [False, True])
    def test_the_loss_has_the_shape_of_the_labels(self, run_op, trailing) -> None:
        label = np.array([1, 3])
        x = chances(2, 4)
        got = run_op("cross_entropy", {"X": x, "Label": label[:, None] if trailing else label})["Y"]
        assert got.shape == ((2, 1) if trailing else (2,))
        np.testing.assert_allclose(got.ravel(), -np.log(x[[0, 1], label]))

    def test_certain_failure_is_huge_not_infinite(self, run_op) -> None:
        got = run_op("cross_entropy", {"X": f32([0, 1]), "Label": np.array([[0]])})["Y"]
        np.testing.assert_allclose(got, [[1e20]])

    def test_cross_entropy2_has_a_grad_op_of_another_name(self, run_op) -> None:
        x, label = chances(2, 4), np.array([[1], [-100]])
        got = run_op("cross_entropy2", {"X": x, "Label": label}, cotangents={"Y": np.array([[2.0], [3.0]])})
        assert got["XShape"].shape == (0, 2, 4) and got["MatchX"].tolist() == [[x[0, 1]], [0]]
        want = np.zeros((2, 4))
        want[0, 1] = -2 / x[0, 1]
        np.testing.assert_allclose(got.gradients["X"], want)


class TestNll:
    def test_weights_and_ignored_labels(self, run_op) -> None:
        inputs = {
            "X": f32([-1, -2, -3], [-4, -5, -6], [-1, -1, -1]),
            "Label": np.array([0, 2, 1]),
            "Weight": f32(1, 2, 4),
        }
        got = run_op("nll_loss", inputs, {"ignore_index": 1}, cotangents={"Out": np.array(10, np.float32)})
        assert got["Out"] == 5 and got["Total_weight"] == 5  # Paddle, as below
        np.testing.assert_array_equal(got.gradients["X"], [[-2, 0, 0], [0, 0, -8], [0, 0, 0]])

    @pytest.mark.parametrize(("reduction", "shape"), [("none", (2, 3)), ("sum", ()), ("mean", ())])
    def test_more_dimensions(self, run_op, reduction, shape) -> None:
        x, label = draw(2, 4, 3), RNG.integers(0, 4, (2, 3))
        got = run_op("nll_loss", {"X": x, "Label": label}, {"reduction": reduction})["Out"]
        losses = -np.take_along_axis(x, label[:, None], 1)[:, 0]
        want = {"none": losses, "sum": losses.sum(), "mean": losses.mean()}[reduction]
        assert got.shape == shape
        np.testing.assert_allclose(got, want)

    def test_old_programs_declare_one_element(self, run_op) -> None:
        declared = {"Out": (1,), "Total_weight": (1,)}
        got = run_op("nll_loss", {"X": draw(2, 3), "Label": np.array([0, 1])}, declared=declared)
        assert got["Out"].shape == got["Total_weight"].shape == (1,)

    def test_what_does_not_fit_is_refused(self) -> None:
        kernel = lookup("nll_loss").kernel
        with pytest.raises(ValueError, match=r"\[2, 3\] and \[3\]"):
            kernel(draw(2, 3), np.array([0, 1, 2]))
        with pytest.raises(ValueError, match="label -1"):
            kernel(draw(2, 3), np.array([0, -1]))
        with pytest.raises(ValueError, match="'avg'"):
            kernel(draw(2, 3), np.array([0, 1]), reduction="avg")


def test_margin_cross_entropy_moves_the_label_only(run_op) -> None:
    x, label = np.tanh(draw(2, 4)), np.array([1, 3])
    attrs = {"margin1": 1.0, "margin2": 0.3, "margin3": 0.1, "scale": 8.0}
    got = run_op("margin_cross_entropy", {"Logits": x, "Label": label}, attrs)
    moved = x.copy()
    moved[[0, 1], label] = np.cos(np.arccos(x[[0, 1], label]) + 0.3) - 0.1
    p = np.exp(8 * moved) / np.exp(8 * moved).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(got["Softmax"], p)
    np.testing.assert_allclose(got["Loss"][:, 0], -np.log(p[[0, 1], label]))


class TestElementwise:
    def test_sigmoid_cross_entropy_is_normalised_by_what_counts(self, run_op) -> None:
        inputs = {"X": f32(1, -2, 0.5), "Label": f32(1, 0, -100), "pos_weight": f32(3, 3, 3)}
        d = f32(1, 1, 1)
        got = run_op("sigmoid_cross_entropy_with_logits", inputs, {"normalize": True}, cotangents={"Out": d})
        np.testing.assert_allclose(got["Out"], [0.4698925, 0.1903921, 0], rtol=1e-5)  # Paddle
        np.testing.assert_allclose(got.gradients["X"], [0.5965879, 0.1788044, 0], rtol=1e-5)  # Paddle

    def test_bce_is_cut_at_100_and_wants_probabilities(self, run_op) -> None:
        got = run_op("bce_loss", {"X": np.array([0.0, 1.0, 0.5]), "Label": np.array([1.0, 0.0, 1.0])})["Out"]
        np.testing.assert_allclose(got, [100, 100, np.log(2)])
        with pytest.raises(ValueError, match="between 0 and 1"):
            lookup("bce_loss").kernel(np.array([1.5]), np.array([1.0]))

    def test_teacher_student_labels_say_which_parts_there_are(self, run_op) -> None:
        inputs = {"X": f32([1], [1], [1], [1]), "Label": f32([-2], [-1], [0.25], [1.25])}
        got = run_op("teacher_student_sigmoid_loss", inputs, cotangents={"Y": np.ones((4, 1), np.float32)})
        np.testing.assert_allclose(got["Y"].ravel(), [1.3132617, 0.3132617, 2.3765235, 1.3765234], rtol=1e-5)  # Paddle
        np.testing.assert_allclose(got.gradients["X"].ravel(), [0.7310586, -0.2689414, 1.2121172, 0.2121172], rtol=1e-5)

    def test_huber(self, run_op) -> None:
        got = run_op("huber_loss", {"X": f32(1, 4), "Y": f32(1.5, 1)}, {"delta": 1.0}, cotangents={"Out": f32(1, 2)})
        np.testing.assert_array_equal(got["Out"], [0.125, 2.5])  # Paddle, as below
        np.testing.assert_array_equal(got["Residual"], [0.5, -3])
        np.testing.assert_array_equal(got.gradients["X"], [-0.5, 2])
        np.testing.assert_array_equal(got.gradients["Y"], [0.5, -2])

    def test_smooth_l1_sums_over_each_sample(self, run_op) -> None:
        x, y = np.array([[1.0, 3.0], [0.0, 0.0]]), np.zeros((2, 2))
        got = run_op("smooth_l1_loss", {"X": x, "Y": y})
        np.testing.assert_array_equal(got["Out"], [[0.5 + 2.5], [0]])
        weighted = {
            "X": x,
            "Y": y,
            "InsideWeight": np.full((2, 2), 0.5),
            "OutsideWeight": np.full((2, 2), 2.0),
        }
        got = run_op("smooth_l1_loss", weighted, {"sigma": 2.0})
        np.testing.assert_array_equal(got["Out"], [[2 * (0.375 + 1.375)], [0]])

    @pytest.mark.parametrize(
        ("reduction", "want"),
        [("batchmean", 0.1534264), ("sum", 0.1534264), ("mean", 0.0767132), ("none", [[0.1534264, 0]])],
    )
    def test_kldiv_reductions(self, run_op, reduction, want) -> None:
        inputs = {"X": f32([-1, -2]), "Target": f32([0.5, 0])}
        np.testing.assert_allclose(run_op("kldiv_loss", inputs, {"reduction": reduction})["Loss"], want, rtol=1e-5)

    def test_hinge_and_modified_huber(self, run_op) -> None:
        logits, labels = np.array([[0.5], [-2.0], [3.0]]), np.array([[1.0], [1.0], [0.0]])
        np.testing.assert_array_equal(
            run_op("hinge_loss", {"Logits": logits, "Labels": labels})["Loss"].ravel(), [0.5, 3, 4]
        )
        got = run_op("modified_huber_loss", {"X": logits, "Y": labels})
        np.testing.assert_array_equal(got["Out"].ravel(), [0.25, 8, 12])
        np.testing.assert_array_equal(got["IntermediateVal"].ravel(), [0.5, -2, -3])

    def test_sigmoid_focal_loss_counts_classes_from_one(self, run_op) -> None:
        x = np.zeros((3, 2))
        label = np.array([[2], [0], [-1]], np.int32)
        got = run_op("sigmoid_focal_loss", {"X": x, "Label": label, "FgNum": np.array([1], np.int32)})["Out"]
        positive, negative = 0.25 * 0.25 * np.log(2), 0.75 * 0.25 * np.log(2)
        np.testing.assert_allclose(got, [[negative, positive], [negative, negative], [0, 0]])


class TestPairs:
    def test_bpr(self, run_op) -> None:
        got = run_op("bpr_loss", {"X": f32([1, 2, 0]), "Label": np.array([[1]])}, cotangents={"Y": f32([1])})
        np.testing.assert_allclose(got["Y"], [[0.2200949]], rtol=1e-5)  # Paddle, as below
        np.testing.assert_allclose(got.gradients["X"], [[0.1344707, -0.1940722, 0.0596015]], rtol=1e-5)

    def test_margin_rank(self, run_op) -> None:
        inputs = {"X1": np.array([1.0, 1.0]), "X2": np.array([2.0, -2.0]), "Label": np.array([1.0, 1.0])}
        got = run_op("margin_rank_loss", inputs, {"margin": 0.5})
        np.testing.assert_array_equal(got["Out"], [1.5, 0])
        np.testing.assert_array_equal(got["Activated"], [1, 0])

    def test_one_row_of_y_serves_all(self, run_op) -> None:
        x, y = np.array([[3.0, 4.0], [0.0, 2.0]]), np.array([[0.0, 1.0]])
        cos = run_op("cos_sim", {"X": x, "Y": y})
        np.testing.assert_allclose(cos["Out"], [[0.8], [1]])
        assert cos["XNorm"].ravel().tolist() == [5, 2] and cos["YNorm"].shape == (1, 1)
        np.testing.assert_array_equal(run_op("squared_l2_distance", {"X": x, "Y": y})["Out"], [[18], [1]])

    def test_center_loss_moves_its_centres(self, run_op) -> None:
        inputs = {
            "X": np.array([[1.0, 0.0], [3.0, 0.0], [0.0, 2.0]]),
            "Label": np.array([0, 0, 1]),
            "Centers": np.zeros((3, 2)),
            "CenterUpdateRate": np.array([0.5]),
        }
        got = run_op("center_loss", inputs, {"cluster_num": 3, "need_update": True})
        np.testing.assert_array_equal(got["Loss"].ravel(), [0.5, 4.5, 2])
        np.testing.assert_allclose(got["CentersOut"], [[2 / 3, 0], [0, 0.5], [0, 0]])
        kept = run_op("center_loss", inputs, {"cluster_num": 3, "need_update": False})["CentersOut"]
        np.testing.assert_array_equal(kept, inputs["Centers"])


class TestSampled:
    def nce(self) -> dict[str, Any]:
        return {
            "Input": f32([1, 2]),
            "Label": np.array([[1]]),
            "Weight": f32([1, 0], [0, 1], [1, -1]),
            "Bias": f32([0], [0.5], [-0.5]),
        }

    def test_nce_with_given_negatives(self, run_op) -> None:
        attrs = {"num_total_classes": 3, "num_neg_samples": 2, "custom_neg_classes": [0, 2]}
        got = run_op("nce", self.nce(), attrs, cotangents={"Cost": f32([1])})
        np.testing.assert_allclose(got["Cost"], [[1.525321]], rtol=1e-5)  # Paddle, as all below
        np.testing.assert_array_equal(got["SampleLabels"], [[1, 0, 2]])
        np.testing.assert_allclose(got.gradients["Input"], [[0.3163196, -0.2074442]], rtol=1e-5)
        np.testing.assert_allclose(got.gradients["Bias"].ravel(), [0.1406656, -0.0317902, 0.175654], rtol=1e-5)

    def test_nce_gradients_may_be_sparse(self, run_op) -> None:
        attrs = {"num_total_classes": 3, "num_neg_samples": 2, "custom_neg_classes": [2, 2]}
        dense = run_op("nce", self.nce(), attrs, cotangents={"Cost": f32([1])}).gradients["Weight"]
        sparse = run_op("nce", self.nce(), {**attrs, "is_sparse": True}, cotangents={"Cost": f32([1])})
        rows = sparse.gradients["Weight"]
        assert isinstance(rows, SelectedRows) and rows.rows.tolist() == [1, 2]
        np.testing.assert_allclose(rows.to_dense(), dense)

    @pytest.mark.parametrize("sampler", [0, 1, 2])
    def test_nce_draws_classes(self, run_op, sampler) -> None:
        inputs = {**self.nce(), "CustomDistProbs": f32(0.5, 0.5, 0).ravel()}
        attrs = {"num_total_classes": 3, "num_neg_samples": 40, "sampler": sampler, "seed": 3}
        first, second = (run_op("nce", inputs, attrs)["SampleLabels"] for _ in range(2))
        np.testing.assert_array_equal(first, second)
        assert first.shape == (1, 41) and set(first[0, 1:]) <= ({0, 1} if sampler == 2 else {0, 1, 2})

    def test_hierarchical_sigmoid_over_the_default_tree(self, run_op) -> None:
        inputs = {"X": f32([1, 2]), "W": f32([1, 0], [0, 1], [1, -1]), "Label": np.array([[2]])}
        got = run_op("hierarchical_sigmoid", inputs, {"num_classes": 4}, cotangents={"Out": f32([1])})
        np.testing.assert_allclose(got["Out"], [[0.6265233]], rtol=1e-5)  # Paddle, as all below
        np.testing.assert_allclose(got["PreOut"], [[0.3132617, 1.3132616]], rtol=1e-5)
        want = [[-0.2689414, -0.5378828], [0, 0], [0.2689414, 0.5378828]]
        np.testing.assert_allclose(got.gradients["W"], want, rtol=1e-5)

    def test_sample_logits(self, run_op) -> None:
        logits, labels = draw(2, 50), np.array([[3], [7]])
        got = run_op("sample_logits", {"Logits": logits, "Labels": labels}, {"num_samples": 5, "seed": 1})
        samples = got["Samples"]
        assert samples.shape == (2, 6) and samples[:, 0].tolist() == [3, 7]
        assert len(set(samples[0, 1:])) == 5 and np.array_equal(samples[0, 1:], samples[1, 1:])
        free = samples[0, 1:] != 3
        want = np.take_along_axis(logits, samples, 1) - np.log(got["Probabilities"])
        np.testing.assert_allclose(got["SampledLogits"][0, 1:][free], want[0, 1:][free])
        np.testing.assert_array_equal(got["SampledLabels"], [[0], [0]])

    def test_sample_logits_hides_accidental_hits(self, run_op) -> None:
        inputs = {
            "Logits": draw(1, 4),
            "Labels": np.array([[2]]),
            "CustomizedSamples": np.array([[2, 2, 1]]),
            "CustomizedProbabilities": np.ones((1, 3)),
        }
        attrs = {"num_samples": 2, "use_customized_samples": True}
        got = run_op("sample_logits", inputs, attrs, cotangents={"SampledLogits": np.ones((1, 3))})
        assert got["SampledLogits"][0, 1] < -1e19 < got["SampledLogits"][0, 2]
        np.testing.assert_array_equal(got.gradients["Logits"], [[0, 1, 2, 0]])


LABELS = RNG.integers(0, 4, (3, 1))
GRADIENTS: list[tuple[str, dict[str, Any], dict[str, Any], list[str], list[str] | None]] = [
    ("softmax_with_cross_entropy", {"Logits": draw(3, 4), "Label": LABELS}, {}, ["Logits"], ["Loss"]),
    (
        "softmax_with_cross_entropy",
        {"Logits": chances(3, 4), "Label": LABELS},
        {"use_softmax": False},
        ["Logits"],
        ["Loss"],
    ),
    (
        "softmax_with_cross_entropy",
        {"Logits": draw(3, 4), "Label": chances(3, 4)},
        {"soft_label": True},
        ["Logits"],
        ["Loss"],
    ),
    ("cross_entropy", {"X": chances(3, 4), "Label": LABELS}, {}, ["X"], None),
    ("cross_entropy", {"X": chances(3, 4), "Label": chances(3, 4)}, {"soft_label": True}, ["X"], None),
    ("cross_entropy2", {"X": chances(3, 4), "Label": LABELS}, {}, ["X"], ["Y"]),
    ("nll_loss", {"X": draw(3, 4), "Label": LABELS[:, 0], "Weight": chances(4)}, {}, ["X"], ["Out"]),
    (
        "margin_cross_entropy",
        {"Logits": np.tanh(draw(3, 4)), "Label": LABELS[:, 0]},
        {"scale": 4.0},
        ["Logits"],
        ["Loss"],
    ),
    ("sigmoid_cross_entropy_with_logits", {"X": draw(3, 4), "Label": chances(3, 4)}, {}, ["X"], None),
    ("bce_loss", {"X": chances(3, 4), "Label": chances(3, 4)}, {}, ["X"], None),
    (
        "log_loss",
        {"Predicted": chances(3, 4), "Labels": chances(3, 4)},
        {"epsilon": 1e-4},
        ["Predicted"],
        None,
    ),
    ("hinge_loss", {"Logits": draw(5, 1), "Labels": RNG.integers(0, 2, (5, 1)) * 1.0}, {}, ["Logits"], None),
    ("modified_huber_loss", {"X": draw(5, 1), "Y": RNG.integers(0, 2, (5, 1)) * 1.0}, {}, ["X"], ["Out"]),
    ("huber_loss", {"X": draw(5, 2), "Y": draw(5, 2)}, {"delta": 0.7}, ["X", "Y"], ["Out"]),
    (
        "smooth_l1_loss",
        {"X": draw(3, 4), "Y": draw(3, 4), "InsideWeight": chances(3, 4), "OutsideWeight": chances(3, 4)},
        {"sigma": 1.5},
        ["X", "Y"],
        ["Out"],
    ),
    ("kldiv_loss", {"X": draw(3, 4), "Target": chances(3, 4)}, {"reduction": "batchmean"}, ["X"], None),
    ("kldiv_loss", {"X": draw(3, 4), "Target": chances(3, 4)}, {"reduction": "none"}, ["X"], None),
    (
        "teacher_student_sigmoid_loss",
        {"X": draw(4, 1), "Label": np.array([[-2], [-1], [0.3], [1.6]])},
        {},
        ["X"],
        None,
    ),
    (
        "sigmoid_focal_loss",
        {
            "X": draw(4, 3),
            "Label": np.array([[1], [0], [3], [-1]], np.int32),
            "FgNum": np.array([2], np.int32),
        },
        {},
        ["X"],
        None,
    ),
    (
        "rank_loss",
        {"Label": chances(4, 1), "Left": draw(4, 1), "Right": draw(4, 1)},
        {},
        ["Left", "Right"],
        None,
    ),
    (
        "margin_rank_loss",
        {"X1": draw(4), "X2": draw(4), "Label": np.array([1.0, -1, 1, -1])},
        {"margin": 0.1},
        ["X1", "X2"],
        ["Out"],
    ),
    ("bpr_loss", {"X": draw(3, 4), "Label": LABELS}, {}, ["X"], None),
    ("cos_sim", {"X": draw(3, 4), "Y": draw(1, 4)}, {}, ["X", "Y"], ["Out"]),
    ("cos_sim", {"X": draw(3, 4), "Y": draw(3, 4)}, {}, ["X", "Y"], ["Out"]),
    ("squared_l2_distance", {"X": draw(3, 4), "Y": draw(1, 4)}, {}, ["X", "Y"], ["Out"]),
    (
        "center_loss",
        {"X": draw(3, 4), "Label": LABELS[:, 0], "Centers": draw(4, 4), "CenterUpdateRate": np.array([0.1])},
        {"cluster_num": 4, "need_update": False},
        ["X"],
        ["Loss"],
    ),
    (
        "nce",
        {
            "Input": draw(3, 4),
            "Label": LABELS,
            "Weight": draw(5, 4),
            "Bias": draw(5, 1),
            "SampleWeight": chances(3, 1),
        },
        {"num_total_classes": 5, "num_neg_samples": 2, "custom_neg_classes": [1, 4]},
        ["Input", "Weight", "Bias"],
        ["Cost"],
    ),
    (
        "hierarchical_sigmoid",
        {"X": draw(3, 4), "W": draw(4, 4), "Label": LABELS, "Bias": draw(4, 1)},
        {"num_classes": 5},
        ["X", "W", "Bias"],
        ["Out"],
    ),
    (
        "hierarchical_sigmoid",
        {
            "X": draw(2, 3),
            "W": draw(5, 3),
            "Label": np.array([[0], [1]]),
            "PathTable": np.array([[0, 2, -1], [0, 1, 4]]),
            "PathCode": np.array([[0, 1, -1], [1, 0, 0]]),
        },
        {"num_classes": 6},
        ["X", "W"],
        ["Out"],
    ),
    (
        "sample_logits",
        {"Logits": draw(2, 9), "Labels": np.array([[3], [7]])},
        {"num_samples": 3, "seed": 2},
        ["Logits"],
        ["SampledLogits"],
    ),
]


@pytest.mark.parametrize(
    ("type", "inputs", "attrs", "wrt", "outputs"),
    GRADIENTS,
    ids=[f"{i}-{g[0]}" for i, g in enumerate(GRADIENTS)],
)
def test_gradients_agree_with_differences(gradcheck, type, inputs, attrs, wrt, outputs) -> None:
    gradcheck(type, inputs, attrs, wrt=wrt, outputs=outputs)
