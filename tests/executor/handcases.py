"""Base cases written by hand: operators beyond the op bank, and inputs on which a further attribute can be seen.

A row is ``(op, inputs by slot, attributes)``, with a fourth entry for the attributes that this very case is there
for: the value each is moved to.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from oarlock.executor.values import LoDTensor, TensorArray

__all__ = ["hand_cases"]

FP64, INT64 = 6, 3


def wave(*shape: int, k: float = 0.3) -> Any:
    """Smooth numbers between -1 and 1 without repeats, float32."""
    return np.sin(np.arange(int(np.prod(shape)), dtype=np.float32) * 0.7 + np.float32(k)).reshape(shape)


def ints(*values: Any, dtype: Any = np.int64) -> Any:
    return np.array(values, dtype)


def ragged(array: Any, *lengths: int) -> LoDTensor:
    return LoDTensor.from_lengths(np.asarray(array), [list(lengths)])


PAIR = {"X": [wave(2, 3)], "Y": [wave(2, 3, k=1.0)]}
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
        *_axes_and_ties(),
    ]
