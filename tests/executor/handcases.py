"""Base cases written by hand: operators beyond the op bank, and inputs on which a further attribute can be seen.

A row is ``(op, inputs by slot, attributes)``, with a fourth entry for the attributes that this very case is there
for: the value each is moved to.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from oarlock.executor.values import LoDTensor, SelectedRows, TensorArray

__all__ = ["hand_cases"]

FP64, INT64 = 6, 3


def wave(*shape: int, k: float = 0.3) -> Any:
    """Smooth numbers between -1 and 1 without repeats, float32."""
    return np.sin(np.arange(int(np.prod(shape)), dtype=np.float32) * 0.7 + np.float32(k)).reshape(shape)


def ints(*values: Any, dtype: Any = np.int64) -> Any:
    return np.array(values, dtype)


def ragged(array: Any, *lengths: int) -> LoDTensor:
    return LoDTensor.from_lengths(np.asarray(array), [list(lengths)])


def half(*shape: int, k: float = 0.3) -> Any:
    return wave(*shape, k=k).astype(np.float16)


PAIR = {"X": [wave(2, 3)], "Y": [wave(2, 3, k=1.0)]}
SQUARE_IMAGE = wave(1, 3, 3, 3)
GRAPH = {"Row": [ints(1, 2, 0, 2, 0, 1)], "Col_Ptr": [ints(0, 2, 4, 6)], "X": [ints(0, 2)]}


def _indexing() -> list[tuple[Any, ...]]:
    index = ints([0, 2], [1, 0])
    return [
        (
            "as_strided",
            {"input": [wave(3, 4)]},
            {"dims": [2, 2], "stride": [4, 1], "offset": 4},
            {"dims": [1, 2], "stride": [1, 2], "offset": 0},
        ),
        ("broadcast_tensors", {"X": [wave(2, 1), wave(1, 3, k=1.0)]}, {}),
        ("c_embedding", {"W": [wave(4, 3)], "Ids": [ints(1, 3)]}, {"start_index": 0}),
        ("cast_rounded", {"X": [wave(3)]}, {"out_dtype": 4}),
        ("diag", {"Diagonal": [wave(3)]}, {}),
        ("expand_as", {"X": [wave(1, 3)], "target_tensor": [wave(2, 3)]}, {}),
        ("flatten", {"X": [wave(2, 3, 2)]}, {"axis": 1}),
        ("gather_tree", {"Ids": [ints([[2, 2]], [[3, 1]])], "Parents": [ints([[0, 0]], [[1, 0]])]}, {}),
        ("index_add", {"X": [wave(3, 3)], "Index": [ints(0, 2, 0)], "AddValue": [wave(3, 3, k=1.0)]}, {"axis": 0}),
        (
            "index_put",
            {"x": [wave(3, 2)], "indices": [ints(0, 2)], "value": [wave(2, 2, k=2.0)]},
            {"accumulate": False},
        ),
        ("index_select_strided", {"x": [wave(3, 3)]}, {"index": 1, "axis": 0}),
        ("one_hot", {"X": [ints([0], [2])]}, {"depth": 3}),
        ("one_hot", {"X": [ints([0], [5])]}, {"depth": 3, "allow_out_of_range": True}, {"allow_out_of_range": False}),
        ("one_hot_v2", {"X": [ints(0, 5)]}, {"depth": 3, "allow_out_of_range": True}, {"allow_out_of_range": False}),
        (
            "put_along_axis",
            {"Input": [wave(3, 3)], "Index": [index], "Value": [wave(2, 2, k=1.0)]},
            {"Axis": 0, "Reduce": "add"},
            {"Reduce": "mul", "Axis": 1, "Include_self": False},
        ),
        ("reshape", {"X": [wave(2, 3)]}, {"shape": [3, 2]}, {"shape": [6]}),
        ("sequence_mask", {"X": [ints(1, 3)]}, {"maxlen": 4, "out_dtype": INT64}),
        ("shape64", {"Input": [wave(2, 3)]}, {}),
        ("squeeze", {"X": [wave(1, 2, 1)]}, {"axes": [0]}, {"axes": [2]}),
        ("unsqueeze", {"X": [wave(2, 3)]}, {"axes": [0]}),
        ("take_along_axis", {"Input": [wave(3, 3)], "Index": [index]}, {"Axis": 0}),
        ("tensor_unfold", {"input": [wave(5, 5)]}, {"axis": 0, "size": 2, "step": 1}),
        ("transpose", {"X": [wave(2, 3)]}, {"axis": [1, 0]}, {"axis": [0, 1]}),
        ("view_dtype", {"input": [wave(2, 2)]}, {"dtype": 2}, {"dtype": FP64}),
        ("view_shape", {"input": [wave(2, 3)]}, {"dims": [3, 2]}, {"dims": [6]}),
        ("roll", {"X": [wave(2, 3)]}, {"dims": [0], "shifts": [1]}, {"dims": [1]}),
        ("flip", {"X": [wave(2, 3)]}, {"dims": [0]}, {"dims": [1]}),
        ("diag_v2", {"X": [wave(2)]}, {"offset": 0, "padding_value": 0.5}),
        ("slice", {"Input": [wave(3, 3)]}, {"axes": [0], "starts": [0], "ends": [2]}, {"decrease_axis": [0]}),
        (
            "set_value",
            {"Input": [wave(2, 2, 2)], "ValueTensor": [wave(2, 2, k=1.0)]},
            {"axes": [0], "starts": [0], "ends": [1], "steps": [1], "decrease_axes": [0]},
            {"none_axes": [0], "axes": [1]},
        ),
        (
            "set_value",
            {"Input": [wave(2, 2).astype(np.float16)]},
            {"axes": [0], "starts": [0], "ends": [1], "steps": [1], "shape": [1], "fp16_values": [1.0], "dtype": 4},
            {"fp16_values": [2.0]},
        ),
        (
            "set_value",
            {"Input": [wave(2, 2)]},
            {"axes": [0], "starts": [0], "ends": [1], "steps": [1], "shape": [2], "values": [1.0, 2.0], "dtype": 5},
            {"shape": [1, 2], "values": [3.0, 4.0]},
        ),
    ]


def _creation() -> list[tuple[Any, ...]]:
    like = {"Input": [wave(2, 3)]}
    return [
        ("fill", {}, {"value": [1.0, 2.0], "shape": [2], "dtype": 5}, {"shape": [1, 2], "value": [3.0, 4.0]}),
        ("fill_any_like", {"X": [wave(2)]}, {"value": 1.0, "dtype": -1}),
        ("fill_zeros_like", {"X": [wave(2)]}, {}),
        ("full_int_array", {}, {"value": [1, 2], "dtype": INT64}),
        ("gaussian_inplace", {"x": [wave(2, 3)]}, {"seed": 3}),
        (
            "gaussian_random_batch_size_like",
            like,
            {"shape": [4, 4], "seed": 3},
            {"output_dim_idx": 1, "input_dim_idx": 1},
        ),
        ("random_crop", {"X": [wave(2, 5, 5)], "Seed": [ints(7)]}, {"shape": [3, 3]}, {"shape": [2, 2]}),
        ("random_crop", {"X": [wave(2, 5, 5)], "Seed": [ints()]}, {"shape": [1, 1], "startup_seed": 1}),
        ("shuffle_batch", {"X": [wave(6, 2)], "Seed": [ints(3)]}, {}),
        ("shuffle_batch", {"X": [wave(6, 2)], "Seed": [ints()]}, {"startup_seed": 1}),
        ("uniform_random", {}, {"shape": [3, 3], "seed": 3, "diag_num": 2, "diag_step": 1}, {"diag_step": 2}),
        ("uniform_random_inplace", {"X": [wave(3, 3)]}, {"seed": 3, "diag_num": 2, "diag_step": 3}),
        (
            "uniform_random_batch_size_like",
            like,
            {"shape": [4, 4], "seed": 3, "diag_num": 2, "diag_step": 2},
            {"output_dim_idx": 1, "input_dim_idx": 1},
        ),
        (
            "fill_constant_batch_size_like",
            {"Input": [wave(3, 2)]},
            {"shape": [5, 7], "value": 1.0},
            {"output_dim_idx": 1, "input_dim_idx": 1},
        ),
        ("assign_value", {}, {"shape": [2], "dtype": 21, "int8_values": [1, 2]}, {"int8_values": [3, 4]}),
    ]


def _ragged_and_arrays() -> list[tuple[Any, ...]]:
    rows = ragged(wave(3, 2), 2, 1)
    array = TensorArray([wave(2, 2), wave(1, 2, k=2.0)])
    return [
        ("lod_array_length", {"X": [array]}, {}),
        ("nop", {"X": [wave(2)]}, {}),
        ("read_from_array", {"X": [array], "I": [ints(1)]}, {}),
        ("select_input", {"X": [wave(2), wave(2, k=1.0)], "Mask": [ints(1, dtype=np.int32)]}, {}),
        ("share_buffer", {"X": [wave(2)]}, {}),
        ("tensor_array_to_tensor", {"X": [TensorArray([wave(2, 2), wave(2, 2, k=2.0)])]}, {"axis": 0}),
        (
            "sequence_expand",
            {"X": [ragged(wave(2, 1), 1, 1)], "Y": [_two_levels()]},
            {"ref_level": 0},
            {"ref_level": 1},
        ),
        ("sequence_softmax", {"X": [ragged(wave(3, 1), 2, 1)]}, {}),
        ("sequence_conv", {"X": [rows], "Filter": [wave(6, 2, k=1.0)]}, {"contextLength": 3, "contextStart": -1}),
    ]


def _two_levels() -> LoDTensor:
    return LoDTensor.from_lengths(wave(6, 1), [[1, 1], [2, 4]])


def _logic_and_routing() -> list[tuple[Any, ...]]:
    truth = {"X": [np.array([True, False])], "Y": [np.array([True, True])]}
    return [
        ("assign_pos", {"X": [ints(1, 0, 1)], "cum_count": [ints(1, 3)], "eff_num_len": [ints(3)]}, {}),
        ("bitwise_xor", truth, {}),
        ("logical_or", truth, {}),
        ("isfinite", {"X": [np.array([1.0, np.inf], np.float32)]}, {}),
        ("limit_by_capacity", {"expert_count": [ints(3, 1, 2, 2)], "capacity": [ints(4, 2)]}, {"n_worker": 2}),
        ("number_count", {"numbers": [ints(0, 2, 2)]}, {"upper_range": 3}),
        (
            "prune_gate_by_capacity",
            {"GateIdx": [ints(0, 0, 1)], "ExpertCount": [ints(1, 1)]},
            {"n_expert": 2, "n_worker": 1},
        ),
        (
            "random_routing",
            {"Prob": [wave(2)], "TopK_Value": [wave(2, 2)], "TopK_Idx": [ints([0, 1], [2, 3])]},
            {},
        ),
        ("graph_khop_sampler", GRAPH, {"sample_sizes": [2]}, {"sample_sizes": [1]}),
        (
            "graph_khop_sampler",
            {**GRAPH, "Eids": [ints(5, 4, 3, 2, 1, 0)]},
            {"sample_sizes": [2]},
            {"return_eids": True},
        ),
        (
            "graph_sample_neighbors",
            {**GRAPH, "Eids": [ints(5, 4, 3, 2, 1, 0)]},
            {},
            {"sample_size": 1, "return_eids": True},
        ),
        (
            "weighted_sample_neighbors",
            {
                "row": GRAPH["Row"],
                "colptr": GRAPH["Col_Ptr"],
                "edge_weight": [np.abs(wave(6))],
                "input_nodes": GRAPH["X"],
                "eids": [ints(5, 4, 3, 2, 1, 0)],
            },
            {"sample_size": -1, "return_eids": False},
            {"sample_size": 1, "return_eids": True},
        ),
        (
            "class_center_sample",
            {"Label": [ints(1, 4)]},
            {"num_classes": 20, "num_samples": 6, "seed": 1, "fix_seed": True},
        ),
        ("grad_add", PAIR, {}),
        ("allclose", {"Input": [np.float32([1.0])], "Other": [np.float32([1.01])]}, {}, {"rtol": "1", "atol": "1"}),
        ("kthvalue", {"X": [wave(3, 3)]}, {"k": 2, "axis": 1}, {"axis": 0}),
        ("unique_consecutive", {"X": [ints([1, 1], [1, 1])]}, {"axis": []}, {"axis": [0]}),
        ("histogram", {"X": [wave(9)]}, {"bins": 4, "min": 0, "max": 0}, {"min": -1, "max": 2}),
        ("split", {"X": [wave(4, 4)]}, {"num": 2, "axis": 0}, {"axis": 1}),
        ("unstack", {"X": [wave(2, 2)]}, {"axis": 0, "num": 2}, {"axis": 1}),
        ("fill_diagonal_tensor", {"X": [wave(3, 3)], "Y": [wave(3)]}, {"dim1": 0, "dim2": 1}, {"dim1": 1, "dim2": 0}),
        ("matrix_rank", {"X": [np.float32([[0, 1], [0, 0]])]}, {}, {"hermitian": True}),
        ("top_k", {"X": [wave(2, 4)]}, {"k": 1}, {"k": 2}),
        ("qr", {"X": [wave(3, 2)]}, {"mode": "reduced"}, {"mode": "complete"}),
    ]


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


ALONG = [
    "elementwise_add",
    "elementwise_sub",
    "elementwise_mul",
    "elementwise_div",
    "elementwise_max",
    "elementwise_min",
    "elementwise_pow",
    "elementwise_mod",
    "elementwise_floordiv",
    "elementwise_fmax",
    "elementwise_fmin",
    "elementwise_heaviside",
    "grad_add",
    "equal",
    "not_equal",
    "less_than",
    "less_equal",
    "greater_than",
    "greater_equal",
    "fused_elementwise_add",
    "fused_elementwise_sub",
    "fused_elementwise_mul",
    "fused_elementwise_div",
]


def _axes_and_ties() -> list[tuple[Any, ...]]:
    square = np.float32([[1, 2], [3, 3]])
    broadcast = {"X": [square], "Y": [np.float32([1, 3])]}
    zero = {"X": [np.float32([[0, 2], [0, 0]])], "Y": [np.float32([1, 3])]}
    ties = {"X": [np.float32([[127, 0.5], [1.5, 2.5]])]}
    narrow = {"interp_method": "linear", "out_w": 5, "align_corners": False}
    return [
        *[(op, zero if op == "elementwise_heaviside" else broadcast, {}, {"axis": 0}) for op in ALONG],
        *[
            (op, broadcast, {"functor_list": ["elementwise_add", "relu"]}, {"axis": 0})
            for op in ("fused_elemwise_activation", "fused_elemwise_add_activation")
        ],
        *[(f"fake_quantize_{name}", ties, {}, {"round_type": 0}) for name in ("abs_max", "dequantize_abs_max")],
        ("mul", {"X": [wave(2, 4)], "Y": [wave(4, 1, 3)]}, {}, {"y_num_col_dims": 2}),
        ("mul", {"X": [wave(4, 1, 4)], "Y": [wave(4, 4)]}, {}, {"x_num_col_dims": 2}),
        ("prelu", {"X": [wave(1, 2, 2, 2)], "Alpha": [wave(2)]}, {"mode": "channel"}, {"data_format": "NHWC"}),
        ("linear_interp", {"X": [wave(1, 1, 3)]}, narrow, {"align_mode": 0}),
        (
            "check_numerics",
            {"tensor": [np.float32([1, np.nan])]},
            {"check_nan_inf_level": 3},
            {"check_nan_inf_level": 0},
        ),
        (
            "softmax_with_cross_entropy",
            {"Logits": [wave(2, 3)], "Label": [ints([0, 1, 0])]},
            {"axis": 0},
            {"numeric_stable_mode": False},
        ),
    ]


def hand_cases() -> list[tuple[Any, ...]]:
    """All rows."""
    return [
        *_indexing(),
        *_creation(),
        *_ragged_and_arrays(),
        *_logic_and_routing(),
        *_fused(),
        *_optimizers(),
        *_quantised_and_random(),
        *_axes_and_ties(),
    ]
