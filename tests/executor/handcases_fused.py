"""Base cases written by hand: fused, normalising, optimizer and random operators. Rows as in ``handcases.py``."""

from __future__ import annotations

from typing import Any

import numpy as np
from oarlock.executor.values import SelectedRows

__all__ = ["hand_cases"]


def wave(*shape: int, k: float = 0.3) -> Any:
    """Smooth numbers between -1 and 1 without repeats, float32."""
    return np.sin(np.arange(int(np.prod(shape)), dtype=np.float32) * 0.7 + np.float32(k)).reshape(shape)


def ints(*values: Any, dtype: Any = np.int64) -> Any:
    return np.array(values, dtype)


def half(*shape: int, k: float = 0.3) -> Any:
    return wave(*shape, k=k).astype(np.float16)


PAIR = {"X": [wave(2, 3)], "Y": [wave(2, 3, k=1.0)]}
SQUARE_IMAGE = wave(1, 3, 3, 3)


def _fused() -> list[tuple[Any, ...]]:
    arithmetic = [
        (f"fused_elementwise_{name}", PAIR, {"fuse_activation": "clip", "fuse_alpha": -0.5, "fuse_beta": 0.5})
        for name in ("add", "sub", "mul", "div")
    ]
    norm = {"x": [wave(2, 4)], "norm_weight": [wave(4, k=1.0)], "norm_bias": [wave(4, k=2.0)]}
    layernorm = {"epsilon": 1e-5, "residual_alpha": 1.0, "begin_norm_axis": 1}
    clip = {"fuse_activation": "clip", "fuse_alpha": -0.5, "fuse_beta": 0.5}
    image = {"Input": [wave(1, 4, 3, 3)], "Filter": [wave(4, 4, 1, 1, k=1.0)]}
    volume = {"Input": [wave(1, 3, 3, 3, 3)], "Filter": [wave(2, 3, 1, 1, 1)]}
    three = {"strides": [1, 1, 1], "paddings": [0, 0, 0], "dilations": [1, 1, 1]}
    square = {"X": [wave(2, 2)], "Y": [wave(2, 2, k=1.0)]}
    return [
        *arithmetic,
        *[(row[0], PAIR, {}, {"fused_output_scale": 2.0, "fused_unsqueeze2_axes": [0]}) for row in arithmetic],
        (
            "fused_chain",
            {"X": [wave(3)], "Operands": []},
            {"steps": [["relu", {}, "alone"]]},
            {"steps": [["tanh", {}, "alone"]]},
        ),
        (
            "fused_embedding_eltwise_layernorm",
            {"Ids": [ints([[0], [1]]), ints([[1], [1]])], "Embs": [wave(2, 4), wave(2, 4, k=1.0)]}
            | {"Bias": [wave(4)], "Scale": [wave(4, k=2.0)]},
            {},
        ),
        ("fused_layernorm", {**norm, "residual": [wave(2, 4, k=3.0)]}, layernorm, {"begin_norm_axis": 2}),
        ("fused_softplus", {"X": [wave(2, 3)]}, clip, {"threshold": -2.0}),
        (
            "fused_transpose",
            {"X": [wave(2, 1, 3)]},
            {"axis": [1, 0, 2]},
            {"axis": [0, 2, 1], "fused_squeeze2_axes": [1]},
        ),
        ("fused_transpose", {"X": [wave(2, 3)]}, {"axis": [1, 0]}, {"fused_unsqueeze2_axes": [0]}),
        (
            "fused_transpose",
            {"X": [wave(2, 3)]},
            {"axis": [1, 0]},
            {"fused_reshape2_shape": [6], "output_data_type": "bf16"},
        ),
        ("fused_gemm_epilogue", {**square, "Bias": [wave(2)]}, {}, {"trans_x": True, "trans_y": True}),
        ("fused_matmul", square, {}, {"trans_x": True, "trans_y": True, "fused_transpose_Out": [1, 0]}),
        (
            "fused_matmul",
            square,
            {},
            {"fused_transpose_X": [1, 0], "fused_transpose_Y": [1, 0], "fused_reshape_Out": [4]},
        ),
        ("fused_matmul", square, clip),
        (
            "fused_matmul",
            {"X": [wave(2, 4)], "Y": [wave(4, 2, k=1.0)]},
            {"fused_reshape_X": [4, 2], "fused_reshape_Y": [2, 4]},
            {"fused_reshape_X": [2, 2, 2], "fused_reshape_Y": [1, 2, 4]},
        ),
        ("matmul_v2", square, {}, {"trans_x": True, "trans_y": True}),
        ("conv2d", image, clip),
        ("depthwise_conv2d", {"Input": image["Input"], "Filter": [wave(4, 1, 1, 1)]}, {**clip, "groups": 4}),
        ("conv2d_transpose", image, clip),
        ("depthwise_conv2d_transpose", {"Input": image["Input"], "Filter": [wave(4, 1, 1, 1)]}, {**clip, "groups": 4}),
        ("conv2d_transpose_bias", {**image, "Bias": [wave(4)]}, clip),
        ("conv2d_transpose_bias", {**image, "Bias": [wave(4)]}, {"strides": [2, 2]}, {"output_padding": [1, 1]}),
        ("conv2d_transpose_bias", {**image, "Bias": [wave(4)]}, {"strides": [2, 2]}, {"output_size": [6, 6]}),
        ("conv2d_transpose_bias", {"Input": [wave(1, 4, 4, 4)], "Filter": [wave(4, 4, 3, 3, k=1.0)]}, {}),
        ("conv3d", volume, clip, {"data_format": "NDHWC"}),
        ("fused_conv3d", volume, {**clip, **three}, {"data_format": "NDHWC"}),
        ("fused_conv3d", volume, three, {"fuse_relu": True}),
        (
            "conv3d_transpose",
            {"Input": [wave(1, 3, 3, 3, 3)], "Filter": [wave(3, 2, 1, 1, 1)]},
            clip,
            {"data_format": "NHWC"},
        ),
        *[
            (op, {"Input": [SQUARE_IMAGE], "Filter": [wave(3, 3, 2, 2)]}, {}, {"data_format": "NHWC"})
            for op in ("conv2d", "fused_conv2d", "conv2d_transpose", "conv2d_transpose_bias")
        ],
        *[
            (op, {"Input": [SQUARE_IMAGE], "Filter": [wave(3, 1, 2, 2)]}, {"groups": 3}, {"data_format": "NHWC"})
            for op in ("depthwise_conv2d", "depthwise_conv2d_transpose")
        ],
        *[
            (op, {**image, "ResidualData": [wave(1, 4, 3, 3, k=2.0)]}, {"fuse_residual_connection": True})
            for op in ("conv2d", "fused_conv2d")
        ],
        (
            "depthwise_conv2d",
            {"Input": image["Input"], "Filter": [wave(4, 1, 1, 1)], "ResidualData": [wave(1, 4, 3, 3, k=2.0)]},
            {"fuse_residual_connection": True, "groups": 4},
        ),
        (
            "conv3d",
            {"Input": [wave(1, 3, 2, 2, 2)], "Filter": [wave(2, 3, 1, 1, 1)], "ResidualData": [wave(1, 2, 2, 2, 2)]},
            {"fuse_residual_connection": True},
        ),
        (
            "sync_batch_norm",
            {"X": [wave(2, 3, 3)], "Scale": [wave(3)], "Bias": [wave(3, k=1.0)], "Mean": [wave(3, k=2.0)]}
            | {"Variance": [np.abs(wave(3)) + np.float32(1)]},
            {},
            {"data_layout": "NHWC"},
        ),
        (
            "group_norm",
            {"X": [wave(1, 4, 4)], "Scale": [wave(4)], "Bias": [wave(4)]},
            {"groups": 2},
            {"data_layout": "NHWC"},
        ),
        (
            "unpool",
            {"X": [wave(1, 1, 1, 1)], "Indices": [ints([[[0]]], dtype=np.int32)]},
            {"ksize": [2, 2], "unpooling_type": "max"},
        ),
    ]


def _optimizers() -> list[tuple[Any, ...]]:
    param = {"Param": [half(3)], "Grad": [half(3, k=1.0)], "LearningRate": [np.float32([0.3])]}
    master = {"MasterParam": [wave(3, k=0.301)]}
    mixed = {"multi_precision": False}
    moment = [np.abs(wave(3, k=2.0))]
    power = [np.float32([0.9])]
    adam = {"Moment1": moment, "Moment2": moment, "Beta1Pow": power, "Beta2Pow": power}
    sparse = SelectedRows(ints(1), wave(1, 2, k=1.0), 3)
    lazy = {name: [np.abs(wave(3, 2, k=2.0))] for name in ("Moment1", "Moment2")}
    rows: list[tuple[Any, ...]] = [
        ("adadelta", {**param, "AvgSquaredGrad": moment, "AvgSquaredUpdate": moment, **master}, mixed),
        ("adagrad", {**param, "Moment": moment, **master}, mixed),
        ("adam", {**param, **adam, **master}, mixed),
        ("adamax", {**param, "Moment": moment, "InfNorm": moment, "Beta1Pow": power, **master}, mixed),
        ("adamw", {**param, **adam, **master}, mixed),
        ("lamb", {**param, **adam, **master}, {**mixed, "weight_decay": 0.01}),
        ("momentum", {**param, "Velocity": moment, **master}, {"mu": 0.9}, {"multi_precision": True}),
        ("rmsprop", {**param, "Moment": moment, "MeanSquare": moment, "MeanGrad": moment, **master}, mixed),
        ("merged_adam", {**param, **adam, **master}, mixed),
        ("merged_momentum", {**param, "Velocity": moment, **master}, {"mu": 0.9}, {"multi_precision": True}),
        (
            "merged_momentum",
            {"Param": [wave(3, 2)], "Grad": [sparse], "Velocity": [wave(3, 2)], "LearningRate": param["LearningRate"]},
            {"mu": 0.9},
            {"rescale_grad": 0.5},
        ),
        ("lars_momentum", {**param, "Velocity": moment, **master}, {"mu": 0.9}, {"multi_precision": True}),
        (
            "fused_adam",
            {"Params": param["Param"], "Grads": param["Grad"], "LearningRate": param["LearningRate"]}
            | {"Moments1": moment, "Moments2": moment, "Beta1Pows": power, "Beta2Pows": power}
            | {"MasterParams": master["MasterParam"]},
            mixed,
        ),
        (
            "adamw",
            {"Param": [wave(3, 2)], "Grad": [sparse], "LearningRate": param["LearningRate"], **lazy}
            | {"Beta1Pow": power, "Beta2Pow": power},
            {"lazy_mode": False},
        ),
        (
            "sparse_momentum",
            {"Param": [half(3, 2)], "Grad": [half(1, 2)], "Velocity": [wave(3, 2)], "Index": [ints(1)]}
            | {"LearningRate": param["LearningRate"], "MasterParam": [wave(3, 2, k=0.301)]},
            {"mu": 0.9},
            {"multi_precision": True},
        ),
    ]
    return rows


def _quantised_and_random() -> list[tuple[Any, ...]]:
    byte = {"quant_scale": 0.25, "quant_max_bound": 2.0, "quant_min_bound": -2.0}
    bounds = {"quant_max_bound": 9.0, "quant_min_bound": 0.0}
    halves = {"x": [np.float32([[1, -1, 1, -1]])], "norm_weight": [np.ones(4, np.float32)]}
    norm = {"epsilon": 0.0, "begin_norm_axis": 1}
    drop = {"dropout_prob": 0.5, "fix_seed": True, "seed": 3}
    heads = {name: [half(1, 4, 2, 8, k=k)] for k, name in enumerate(("q", "k", "v"))}
    rows = {name: [half(4, 2, 8, k=k)] for k, name in enumerate(("q", "k", "v"))}
    names = {name: [half(1, 4, 2, 8, k=k)] for k, name in enumerate(("query", "key", "value"))}
    ends = {"cu_seqlens_q": [ints(0, 4, dtype=np.int32)], "cu_seqlens_k": [ints(0, 4, dtype=np.int32)]}
    statistics = {"Mean": [wave(3, k=2.0)], "Variance": [np.abs(wave(3)) + np.float32(1)]}
    scaled = {"Scale": [wave(3)], "Bias": [wave(3, k=1.0)], **statistics}
    attention = {"X": [wave(1, 2, 4)], "QKVW": [wave(4, 12)], "OutLinearW": [wave(4, 4, k=1.0)]}
    test_mode = {"is_test": True, "transpose_qkv_wb": True, "num_heads": 2}
    feed = {"X": [wave(1, 2, 4)], "Linear1Weight": [wave(4, 4)], "Linear2Weight": [wave(4, 4, k=1.0)]}
    sizes = {
        name: [np.full(2, value, np.float32)]
        for name, value in (("BatchSize", 4), ("BatchSum", 2), ("BatchSquareSum", 8))
    }
    image = {"Input": [wave(1, 3, 3, 3)], "Filter": [wave(3, 3, 2, 2)], "Bias": [wave(3)]}
    layers = [wave(4, 2), wave(4, 4), wave(4, 4, k=1.0), wave(4, 4, k=2.0), wave(4), wave(4), wave(4), wave(4)]
    return [
        *[
            (op, halves, {**norm, **byte, **extra}, {**bounds, "quant_round_type": 1})
            for op, extra in (
                ("rms_norm", {}),
                ("fused_bias_residual_layernorm", {"residual_alpha": 1.0}),
                ("fused_layernorm", {"residual_alpha": 1.0}),
            )
        ],
        ("dropout_nd", {"X": [wave(3, 4)]}, drop, {"seed": 4, "fix_seed": False}),
        (
            "fused_dropout_add",
            {"x": [wave(3, 4)], "y": [wave(3, 4)]},
            {"p": 0.5, "is_test": False, "mode": "upscale_in_train"} | {"fix_seed": True, "seed": 3},
            {"seed": 4, "fix_seed": False},
        ),
        ("flash_attn", heads, {"dropout": 0.5}, {"is_test": True}),
        (
            "flash_attn_unpadded",
            {**rows, **ends},
            {"dropout": 0.5, "scale": 0.3, "max_seqlen_q": 4, "max_seqlen_k": 4},
            {"is_test": True},
        ),
        (
            "memory_efficient_attention",
            names,
            {"causal": False, "dropout_p": 0.5, "scale": 0.3, "is_test": False},
            {"is_test": True, "dropout_p": 0.25},
        ),
        ("inplace_abn", {"X": [wave(2, 3, 3)], **scaled}, {"is_test": True}, {"trainable_statistics": True}),
        ("sync_batch_norm", {"X": [wave(2, 3, 3)], **scaled}, {"is_test": True}, {"trainable_statistics": True}),
        (
            "fused_attention",
            attention,
            {**test_mode, "dropout_implementation": "upscale_in_train"},
            {"num_heads": 1, "transpose_qkv_wb": False},
        ),
        (
            "fused_attention",
            attention,
            {**test_mode, "attn_dropout_implementation": "downgrade_in_infer"},
            {"attn_dropout_rate": 0.25, "dropout_rate": 0.25},
        ),
        (
            "fused_feedforward",
            feed,
            {"dropout1_is_test": True, "dropout2_is_test": True, "dropout1_rate": 0.5, "dropout2_rate": 0.5},
            {"dropout1_is_test": False, "dropout2_is_test": False},
        ),
        (
            "data_norm",
            {"X": [wave(2, 2)], **sizes, "scale_w": [wave(2)], "bias": [wave(2)]},
            {},
            {"enable_scale_and_shift": True},
        ),
        *[(op, image, {}, {"padding_algorithm": "SAME"}) for op in ("conv2d_fusion", "fused_conv2d_add_act")],
        ("fused_conv2d_add_act", image, {"activation": "leaky_relu", "fuse_alpha": 0.1}, {"fuse_alpha": 0.5}),
        ("fused_linear_param_grad_add", {"x": [half(2, 3)], "dout": [half(2, 2)]}, {"multi_precision": True}),
        (
            "coalesce_tensor",
            {"Input": [wave(2), wave(3)]},
            {"dtype": 5, "set_constant": True, "concated_shapes": [2, 3], "concated_ranks": [1, 1]},
            {"concated_shapes": [3, 2]},
        ),
        (
            "coalesce_tensor",
            {"Input": [wave(2), wave(3)]},
            {"dtype": 5, "set_constant": True, "concated_shapes": [2, 3], "concated_ranks": [1, 1]},
            {"concated_ranks": [2, 0]},
        ),
        (
            "update_loss_scaling",
            {
                "X": [wave(2)],
                "FoundInfinite": [np.array([False])],
                "PrevLossScaling": [np.float32([8])],
                "InGoodSteps": [ints(1, dtype=np.int32)],
                "InBadSteps": [ints(0, dtype=np.int32)],
            },
            {"incr_every_n_steps": 2, "decr_every_n_nan_or_inf": 2, "incr_ratio": 2.0, "decr_ratio": 0.5},
        ),
        (
            "rnn",
            {"Input": [wave(3, 1, 2)], "PreState": [wave(2, 1, 4)], "WeightList": layers},
            {"mode": "RNN_TANH", "num_layers": 2, "hidden_size": 4, "dropout_prob": 0.5, "seed": 3},
            {"seed": 4},
        ),
    ]


def hand_cases() -> list[tuple[Any, ...]]:
    """All rows."""
    return [*_fused(), *_optimizers(), *_quantised_and_random()]
