"""Normalisation and dropout. Literal numbers beside "Paddle" are PaddlePaddle 2.6.2's."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from oarlock.executor.random import generator, set_seed
from oarlock.ir.registry import lookup

RNG = np.random.default_rng(3)


def draw(*shape: int, dtype: Any = float) -> Any:
    return np.asarray(RNG.standard_normal(shape)).astype(dtype)


def f32(*rows: Any) -> Any:
    return np.array(rows, np.float32)


def batch_norm_inputs() -> dict[str, Any]:
    return {
        "X": f32([1, 2], [3, 5], [8, 2]),
        "Scale": f32(2, 3),
        "Bias": f32(0.5, 0.25),
        "Mean": f32(1, 2),
        "Variance": f32(1, 4),
    }


class TestBatchNorm:
    d_y = f32([1, 0], [0, 2], [3, -1])

    def test_training_uses_and_moves_the_statistics(self, run_op) -> None:
        attrs = {"epsilon": 1e-3, "momentum": 0.75}
        got = run_op("batch_norm", batch_norm_inputs(), attrs, cotangents={"Y": self.d_y})
        want = {  # Paddle
            "Y": [[-1.537981, -1.87079], [-0.179327, 4.491581], [3.217308, -1.87079]],
            "MeanOut": [1.75, 2.25],
            "VarianceOut": [2.9166667, 3.5],
            "SavedMean": [4, 3],
            "SavedVariance": [0.3396635, 0.7069301],
        }
        for slot, value in want.items():
            np.testing.assert_allclose(got[slot], value, rtol=1e-5, err_msg=slot)
        gradients = {  # Paddle
            "X": [[0.4789312, 1.0595121], [-0.6706449, 0.001766], [0.1917136, -1.0612781]],
            "Scale": [3.0569715, 3.5346506],
            "Bias": [4, 1],
        }
        for slot, value in gradients.items():
            np.testing.assert_allclose(got.gradients[slot], value, rtol=1e-4, atol=2e-6, err_msg=slot)
        assert got["ReserveSpace"].size == 0

    @pytest.mark.parametrize("flags", [{"use_global_stats": True}, {"is_test": True}])
    def test_fixed_statistics_are_handed_on_themselves(self, flags) -> None:
        inputs = batch_norm_inputs()
        y, mean, variance, *_ = lookup("batch_norm").kernel(*inputs.values(), epsilon=1e-3, **flags)
        np.testing.assert_allclose(y, [[0.5, 0.25], [4.498002, 4.749438], [14.493006, 0.25]], rtol=1e-5)  # Paddle
        assert mean is inputs["Mean"] and variance is inputs["Variance"]

    def test_the_gradient_with_fixed_statistics(self, run_op) -> None:
        attrs = {"epsilon": 1e-3, "use_global_stats": True}
        got = run_op("batch_norm", batch_norm_inputs(), attrs, cotangents={"Y": self.d_y}).gradients
        np.testing.assert_allclose(got["X"], [[1.999001, 0], [0, 2.999625], [5.997003, -1.499813]], rtol=1e-5)
        np.testing.assert_allclose(got["Scale"], [20.98951, 2.999625], rtol=1e-5)  # Paddle, as the line above

    @pytest.mark.parametrize(
        ("is_test", "trainable", "moves"),
        [(False, False, True), (False, True, True), (True, True, True), (True, False, False)],
    )
    def test_which_mode_moves_the_statistics(self, run_op, is_test, trainable, moves) -> None:
        attrs = {"is_test": is_test, "trainable_statistics": trainable}
        got = run_op("batch_norm", batch_norm_inputs(), attrs)
        assert np.array_equal(got["MeanOut"], f32(1, 2)) is not moves

    @pytest.mark.parametrize("shape", [(2, 4, 3, 5), (2, 4, 6), (2, 4, 2, 3, 2), (5, 4)])
    @pytest.mark.parametrize("is_test", [False, True])
    def test_channels_last_equals_channels_second(self, run_op, shape, is_test) -> None:
        rest = {"Scale": draw(4), "Bias": draw(4), "Mean": draw(4), "Variance": np.abs(draw(4)) + 1}
        x, d_y = draw(*shape), draw(*shape)
        second = run_op("batch_norm", {"X": x, **rest}, {"is_test": is_test}, cotangents={"Y": d_y})
        turned = {"X": np.moveaxis(x, 1, -1), **rest}
        attrs = {"is_test": is_test, "data_layout": "NHWC"}
        last = run_op("batch_norm", turned, attrs, cotangents={"Y": np.moveaxis(d_y, 1, -1)})
        np.testing.assert_allclose(np.moveaxis(last["Y"], -1, 1), second["Y"], rtol=1e-10)
        np.testing.assert_allclose(
            np.moveaxis(last.gradients["X"], -1, 1), second.gradients["X"], rtol=1e-8, atol=1e-12
        )
        np.testing.assert_allclose(last.gradients["Scale"], second.gradients["Scale"], rtol=1e-8)

    def test_a_single_element_per_channel_passes_unchanged(self, run_op) -> None:
        inputs = {**batch_norm_inputs(), "X": f32([7, 9])}
        got = run_op("batch_norm", inputs, cotangents={"Y": f32([1, 2])})
        np.testing.assert_array_equal(got["Y"], [[7, 9]])  # Paddle, as the lines below
        np.testing.assert_array_equal(got["MeanOut"], [1, 2])
        np.testing.assert_array_equal(got["SavedVariance"], [0, 0])
        np.testing.assert_array_equal(got.gradients["X"], [[1, 2]])
        np.testing.assert_array_equal(got.gradients["Scale"], [0, 0])

    def test_a_momentum_tensor_goes_before_the_attribute(self, run_op) -> None:
        inputs = {**batch_norm_inputs(), "MomentumTensor": f32(0.75)}
        np.testing.assert_allclose(run_op("batch_norm", inputs, {"momentum": 0.5})["MeanOut"], [1.75, 2.25])

    @pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
    def test_half_types_keep_their_statistics_in_float32(self, run_op, dtype) -> None:
        inputs = batch_norm_inputs()
        got = run_op("batch_norm", {**inputs, "X": inputs["X"].astype(dtype)})
        assert got["Y"].dtype == dtype and got["MeanOut"].dtype == np.float32
        np.testing.assert_array_equal(got["SavedMean"], [4, 3])

    def test_large_tensors_go_through_in_blocks(self, run_op) -> None:
        x = draw(2, 64, 60, 60, dtype=np.float32) + 3
        rest = {"Scale": np.ones(64, np.float32), "Bias": np.zeros(64, np.float32)}
        stats = {"Mean": np.zeros(64, np.float32), "Variance": np.ones(64, np.float32)}
        y = run_op("batch_norm", {"X": x, **rest, **stats})["Y"]
        np.testing.assert_allclose(y.mean(axis=(0, 2, 3)), 0, atol=1e-5)
        np.testing.assert_allclose(y.std(axis=(0, 2, 3)), 1, rtol=1e-4)

    def test_fused_relu(self, run_op) -> None:
        got = run_op("batch_norm", batch_norm_inputs(), {"is_test": True, "fuse_with_relu": True, "epsilon": 1e-3})
        assert got["Y"].min() >= 0

    def test_channels_that_do_not_fit_are_named(self) -> None:
        with pytest.raises(ValueError, match="3 channels, Mean 2"):
            lookup("batch_norm").kernel(draw(2, 3), None, None, np.zeros(2), np.ones(2))


def statistics() -> dict[str, Any]:
    return {"Mean": np.zeros(3), "Variance": np.ones(3)}


class TestFusedBatchNorm:
    def test_activation_and_addition(self, run_op) -> None:
        x, z, affine = draw(4, 3), draw(4, 3), {"Scale": draw(3), "Bias": draw(3)}
        plain = run_op("batch_norm", {"X": x, **affine, **statistics()})["Y"]
        act = run_op("fused_batch_norm_act", {"X": x, **affine, **statistics()})["Y"]
        np.testing.assert_allclose(act, np.maximum(plain, 0))
        added = run_op("fused_bn_add_activation", {"X": x, "Z": z, **affine, **statistics()})["Y"]
        np.testing.assert_allclose(added, np.maximum(plain + z, 0))

    @pytest.mark.parametrize("activation", ["identity", "leaky_relu", "elu"])
    def test_inplace_abn_finds_its_gradient_from_the_output(self, gradcheck, activation) -> None:
        inputs = {"X": draw(4, 3, 2), "Scale": np.abs(draw(3)) + 0.5, "Bias": draw(3), **statistics()}
        attrs = {"activation": activation, "alpha": 0.3}
        gradcheck("inplace_abn", inputs, attrs, wrt=["X", "Scale", "Bias"], outputs=["Y"])


class TestLayerNorm:
    def test_the_statistics_have_the_leading_dimensions(self, run_op) -> None:
        inputs = {"X": f32([[1, 2, 4], [0, 3, -3]]), "Scale": f32(1, 2, 0.5), "Bias": f32(0, 1, -1)}
        d_y = f32([[1, 0, 2], [-1, 1, 0]])
        got = run_op("layer_norm", inputs, {"begin_norm_axis": 2}, cotangents={"Y": d_y})
        np.testing.assert_allclose(  # Paddle, as all below
            got["Y"],
            [[[-1.0690414, 0.4654794, -0.3318491], [0, 3.4494877, -1.6123719]]],
            rtol=1e-5,
            atol=1e-6,
        )
        np.testing.assert_allclose(got["Mean"], [[2.3333333, 0]], rtol=1e-6)
        np.testing.assert_allclose(got["Variance"], [[1.5555557, 6]], rtol=1e-6)
        want = [[[0.34362, -0.5154308, 0.1718108], [-0.5443306, 0.272166, 0.2721646]]]
        np.testing.assert_allclose(got.gradients["X"], want, rtol=1e-4)
        np.testing.assert_allclose(got.gradients["Scale"], [-1.0690414, 1.2247438, 2.6726036], rtol=1e-5)
        np.testing.assert_allclose(got.gradients["Bias"], [0, 1, 2])

    def test_scale_and_bias_may_be_absent(self, run_op) -> None:
        got = run_op("layer_norm", {"X": draw(3, 8)}, cotangents={"Y": draw(3, 8)})
        np.testing.assert_allclose(got["Y"].std(axis=1), 1, rtol=1e-3)
        assert set(got.gradients) == {"X"}

    def test_half_types(self, run_op) -> None:
        x = (draw(2, 512) * 100).astype(np.float16)
        got = run_op("layer_norm", {"X": x, "Scale": np.ones(512, np.float32), "Bias": np.zeros(512, np.float32)})
        assert got["Y"].dtype == np.float16 and got["Mean"].dtype == np.float32
        np.testing.assert_allclose(got["Y"].astype(float).std(axis=1), 1, rtol=1e-2)

    def test_many_rows_go_through_in_blocks(self, run_op) -> None:
        x = draw(300, 1000, dtype=np.float32)
        y = run_op("layer_norm", {"X": x})["Y"]
        np.testing.assert_allclose(y, (x - x.mean(1, keepdims=True)) / x.std(1, keepdims=True), atol=1e-3)

    def test_empty_batches(self, run_op) -> None:
        inputs = {"X": np.zeros((0, 4)), "Scale": np.ones(4)}
        got = run_op("layer_norm", inputs, cotangents={"Y": np.zeros((0, 4))})
        assert got["Y"].shape == (0, 4) and got.gradients["Scale"].tolist() == [0] * 4

    def test_what_does_not_fit_is_refused(self) -> None:
        with pytest.raises(ValueError, match="begin_norm_axis 0"):
            lookup("layer_norm").kernel(draw(3, 4), begin_norm_axis=0)
        with pytest.raises(ValueError, match=r"Scale of shape \[3\] must have the 4"):
            lookup("layer_norm").kernel(draw(3, 4), np.ones(3))


class TestGroups:
    def test_group_norm(self, run_op) -> None:
        inputs = {"X": f32([[1], [2], [4], [8]]), "Scale": f32(1, 2, 3, 4), "Bias": f32(0, 1, 0, 1)}
        got = run_op("group_norm", inputs, {"groups": 2}, cotangents={"Y": f32([[1], [0], [2], [-1]])})
        np.testing.assert_allclose(got["Y"].ravel(), [-0.99998, 2.99996, -2.9999964, 4.9999952], rtol=1e-5)  # Paddle
        np.testing.assert_allclose(got["Mean"], [[1.5, 6]])
        np.testing.assert_allclose(got["Variance"], [[0.25, 4]])
        np.testing.assert_allclose(got.gradients["Scale"], [-0.99998, 0, -1.9999976, -0.9999988], rtol=1e-5)

    @pytest.mark.parametrize("groups", [1, 2, 4])
    def test_group_norm_channels_last(self, run_op, groups) -> None:
        x, d_y, affine = draw(2, 4, 3, 5), draw(2, 4, 3, 5), {"Scale": draw(4), "Bias": draw(4)}
        second = run_op("group_norm", {"X": x, **affine}, {"groups": groups}, cotangents={"Y": d_y})
        attrs = {"groups": groups, "data_layout": "NHWC"}
        turned = {"X": np.moveaxis(x, 1, -1), **affine}
        last = run_op("group_norm", turned, attrs, cotangents={"Y": np.moveaxis(d_y, 1, -1)})
        np.testing.assert_allclose(np.moveaxis(last["Y"], -1, 1), second["Y"])
        np.testing.assert_allclose(np.moveaxis(last.gradients["X"], -1, 1), second.gradients["X"])

    def test_groups_must_divide_the_channels(self) -> None:
        with pytest.raises(ValueError, match="groups=3 does not divide the 4"):
            lookup("group_norm").kernel(draw(2, 4, 3), groups=3)

    def test_instance_norm(self, run_op) -> None:
        inputs = {"X": f32([[1, 2, 6], [4, 8, 0]]), "Scale": f32(1, 2), "Bias": f32(0, 1)}
        got = run_op("instance_norm", inputs, cotangents={"Y": f32([[1, 0, 2], [-1, 1, 0]])})
        want = [[[-0.9258191, -0.4629095, 1.3887286], [1, 3.4494886, -1.4494886]]]
        np.testing.assert_allclose(got["Y"], want, rtol=1e-5)  # Paddle, as all below
        np.testing.assert_allclose(got["SavedMean"], [3, 4])
        np.testing.assert_allclose(got["SavedVariance"], [0.46290955, 0.30618608], rtol=1e-6)
        want = [[[0.2645192, -0.33065, 0.0661308], [-0.6123722, 0.3061864, 0.3061858]]]
        np.testing.assert_allclose(got.gradients["X"], want, rtol=1e-4)


class TestOthers:
    def test_data_norm_summaries_are_its_gradients(self, run_op) -> None:
        inputs = {
            "X": f32([1, 2], [3, 4]),
            "BatchSize": f32(4, 4),
            "BatchSum": f32(8, 4),
            "BatchSquareSum": f32(16, 64),
        }
        got = run_op("data_norm", inputs, cotangents={"Y": np.ones((2, 2), np.float32)})
        np.testing.assert_allclose(got["Y"], [[-0.5, 0.25], [0.5, 0.75]])  # Paddle, as all below
        np.testing.assert_allclose(got.gradients["X"], [[0.5, 0.25], [0.5, 0.25]])
        np.testing.assert_allclose(got.gradients["BatchSize"], [2, 2])
        np.testing.assert_allclose(got.gradients["BatchSum"], [4, 6])
        np.testing.assert_allclose(got.gradients["BatchSquareSum"], [2.0002, 10.0002])

    def test_data_norm_slots_without_data_are_zero(self, run_op) -> None:
        size = {"BatchSize": np.ones(4), "BatchSum": np.zeros(4), "BatchSquareSum": np.ones(4)}
        got = run_op("data_norm", {"X": np.array([[0.0, 5.0, 1.0, 6.0]]), **size}, {"slot_dim": 2})["Y"]
        np.testing.assert_array_equal(got, [[0, 0, 1, 6]])

    def test_spectral_norm_follows_paddle_in_its_gradient_too(self, run_op) -> None:
        inputs = {"Weight": f32([1, 2], [3, 4]), "U": f32(1, 0), "V": f32(0, 1)}
        got = run_op("spectral_norm", inputs, {"power_iters": 1}, cotangents={"Out": np.eye(2, dtype=np.float32)})
        np.testing.assert_allclose(got["Out"], [[0.1850583, 0.3701166], [0.5551749, 0.7402332]], rtol=1e-5)
        np.testing.assert_allclose(got.gradients["Weight"], [[0.1216822, 0], [0, -0.0937967]], rtol=1e-4)  # Paddle

    def test_rms_norm_with_residual(self, run_op) -> None:
        x, residual, weight = draw(2, 3), draw(2, 3), draw(3)
        inputs = {"x": x, "residual": residual, "norm_weight": weight}
        got = run_op("rms_norm", inputs, {"epsilon": 1e-6, "begin_norm_axis": 1})
        total = x + residual
        want = total / np.sqrt(np.square(total).mean(axis=1, keepdims=True) + 1e-6) * weight
        np.testing.assert_allclose(got["out"], want)
        np.testing.assert_allclose(got["residual_out"], total)

    @pytest.mark.parametrize(("round_type", "half"), [(0, 0), (1, 1)])
    def test_rms_norm_quantises(self, run_op, round_type, half) -> None:
        inputs = {"x": f32([1, 1, -1, 1]), "norm_weight": f32(0.5, 1, 1, 300)}
        attrs = {
            "epsilon": 0.0,
            "begin_norm_axis": 1,
            "quant_scale": 1 / 127,
            "quant_round_type": round_type,
            "quant_max_bound": 127.0,
            "quant_min_bound": -127.0,
        }
        got = run_op("rms_norm", inputs, attrs)["out"]
        assert got.dtype == np.int8
        np.testing.assert_array_equal(got, [[half, 1, -1, 127]])

    def test_residual_layer_norms_are_layer_norm_of_a_sum(self, run_op) -> None:
        x, y, scale, shift = draw(2, 3, 4), draw(2, 3, 4), draw(4), draw(4)
        want = run_op("layer_norm", {"X": x + y, "Scale": scale, "Bias": shift}, {"begin_norm_axis": 2})["Y"]
        attrs = {"epsilon": 1e-5, "begin_norm_axis": 2}
        skip = run_op("skip_layernorm", {"X": x, "Y": y, "Scale": scale, "Bias": shift}, attrs)["Out"]
        np.testing.assert_allclose(skip, want)
        inputs = {"x": x, "residual": 2 * y, "norm_weight": scale, "norm_bias": shift}
        fused = run_op("fused_bias_residual_layernorm", inputs, {**attrs, "residual_alpha": 0.5})
        np.testing.assert_allclose(fused["out"], want)
        np.testing.assert_allclose(fused["residual_out"], x + y)


GRADIENTS: list[tuple[str, dict[str, Any], dict[str, Any], list[str]]] = [
    (
        "batch_norm",
        {"X": draw(3, 2, 4), "Scale": draw(2), "Bias": draw(2), "Mean": draw(2), "Variance": np.ones(2)},
        {},
        ["Y"],
    ),
    (
        "batch_norm",
        {"X": draw(5, 3), "Mean": draw(3), "Variance": np.ones(3)},
        {"use_global_stats": True},
        ["Y"],
    ),
    ("layer_norm", {"X": draw(3, 2, 4), "Scale": draw(8), "Bias": draw(8)}, {}, ["Y"]),
    ("layer_norm", {"X": draw(3, 4)}, {}, ["Y"]),
    ("group_norm", {"X": draw(2, 4, 3), "Scale": draw(4), "Bias": draw(4)}, {"groups": 2}, ["Y"]),
    ("group_norm", {"X": draw(2, 4, 3), "Bias": draw(4)}, {"groups": 2}, ["Y"]),
    ("instance_norm", {"X": draw(2, 4, 3), "Scale": draw(4), "Bias": draw(4)}, {}, ["Y"]),
    ("dropout", {"X": draw(3, 4)}, {"dropout_prob": 0.3, "fix_seed": True, "seed": 7}, ["Out"]),
    (
        "fused_bias_dropout_residual_layer_norm",
        {
            "X": draw(2, 3, 4),
            "Residual": draw(2, 3, 4),
            "Bias": draw(4),
            "LnScale": draw(4),
            "LnBias": draw(4),
        },
        {"dropout_rate": 0.25, "dropout_seed": 5},
        ["Y"],
    ),
]


@pytest.mark.parametrize(
    ("type", "inputs", "attrs", "outputs"), GRADIENTS, ids=[f"{i}-{g[0]}" for i, g in enumerate(GRADIENTS)]
)
def test_gradients_agree_with_differences(gradcheck, type, inputs, attrs, outputs) -> None:
    wrt = [slot for slot in inputs if slot not in ("Mean", "Variance")]
    gradcheck(type, inputs, attrs, wrt=wrt, outputs=outputs)


UPSCALE, DOWNGRADE = "upscale_in_train", "downgrade_in_infer"


class TestDropout:
    @pytest.mark.parametrize(("mode", "want"), [(UPSCALE, [2, 4]), (DOWNGRADE, [1.5, 3])])
    def test_in_test_mode(self, run_op, mode, want) -> None:
        attrs = {"dropout_prob": 0.25, "is_test": True, "dropout_implementation": mode}
        got = run_op("dropout", {"X": f32(2, 4)}, attrs, cotangents={"Out": f32(2, 4)})
        np.testing.assert_allclose(got["Out"], want)
        np.testing.assert_allclose(got.gradients["X"], want)

    @pytest.mark.parametrize(("mode", "factor"), [(UPSCALE, 1 / 0.75), (DOWNGRADE, 1)])
    def test_in_training(self, run_op, mode, factor) -> None:
        set_seed(0)
        x = np.full(10000, 3, np.float32)
        attrs = {"dropout_prob": 0.25, "dropout_implementation": mode}
        got = run_op("dropout", {"X": x}, attrs, cotangents={"Out": x})
        np.testing.assert_allclose(got["Out"], got["Mask"] * np.float32(3 * factor), rtol=1e-6)
        np.testing.assert_array_equal(got.gradients["X"], got["Out"])
        assert got["Mask"].dtype == np.uint8 and abs(got["Mask"].mean() - 0.75) < 0.02

    @pytest.mark.parametrize("mode", [UPSCALE, DOWNGRADE])
    @pytest.mark.parametrize(("p", "kept"), [(0.0, 1), (1.0, 0)])
    def test_the_ends_of_the_range(self, run_op, mode, p, kept) -> None:
        attrs = {"dropout_prob": p, "dropout_implementation": mode}
        got = run_op("dropout", {"X": f32(2, 4)}, attrs, cotangents={"Out": f32(2, 4)})
        np.testing.assert_array_equal(got["Out"], f32(2, 4) * kept)
        np.testing.assert_array_equal(got.gradients["X"], f32(2, 4) * kept)

    def test_seeds(self, run_op) -> None:
        x, fixed = np.ones(64, np.float32), {"fix_seed": True, "seed": 9}
        first, second = (run_op("dropout", {"X": x}, fixed)["Mask"] for _ in range(2))
        np.testing.assert_array_equal(first, second)
        free, other = (run_op("dropout", {"X": x}, {"seed": 9})["Mask"] for _ in range(2))
        assert not np.array_equal(free, other)
        given = run_op("dropout", {"X": x, "Seed": np.array([9], np.int32)})["Mask"]
        np.testing.assert_array_equal(given, first)

    def test_axis_shares_the_draw_along_the_others(self, run_op) -> None:
        got = run_op("dropout_nd", {"X": np.ones((50, 4, 3))}, {"axis": [0], "dropout_prob": 0.5})
        assert got["Mask"].shape == (50, 1, 1)
        np.testing.assert_array_equal(got["Out"], np.broadcast_to(got["Mask"], (50, 4, 3)))

    def test_fused_addition_draws_the_same_mask_again_for_its_gradient(self, run_op) -> None:
        x, y = np.ones(100, np.float32), np.full(100, 5, np.float32)
        attrs = {"p": 0.5, "is_test": False, "mode": DOWNGRADE}
        got = run_op("fused_dropout_add", {"x": x, "y": y}, attrs, cotangents={"out": x})
        np.testing.assert_array_equal(got["out"] - 5, got.gradients["x"])
        np.testing.assert_array_equal(got.gradients["y"], x)

    def test_what_is_no_dropout_is_refused(self) -> None:
        kernel = lookup("dropout").kernel
        with pytest.raises(ValueError, match=r"dropout_prob is 1\.5"):
            kernel(f32(1), dropout_prob=1.5)
        with pytest.raises(ValueError, match="'other'"):
            kernel(f32(1), dropout_implementation="other")
        with pytest.raises(ValueError, match="Mask is missing"):
            lookup("dropout_grad").kernel(None, f32(1))


class TestGenerator:
    def test_seed_zero_is_the_global_generator(self) -> None:
        assert generator(0) is generator()
        set_seed(5)
        first = generator().random(3)
        set_seed(5)
        np.testing.assert_array_equal(generator().random(3), first)

    def test_another_seed_starts_anew_each_time(self) -> None:
        np.testing.assert_array_equal(generator(4).random(3), generator(4).random(3))
        assert not np.array_equal(generator(4).random(3), generator(-4).random(3))
