"""Every registered operator against the registry of PaddlePaddle 2.6.2, and every attribute moved off its place.

``tests/data/op_protos.json`` holds the facts: slots (``*`` list, ``?`` optional), attributes as ``[type, default]``
or ``[type]`` when there is no default, and ``extra`` attributes that the runtime accepts.
"""

from __future__ import annotations

import json
import linecache
import traceback
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import oarlock.executor.kernels  # noqa: F401 - tells the registry how to find a type
import pytest
from oarlock.errors import OarlockError, ProgramError
from oarlock.ir.binding import bind_attrs
from oarlock.ir.desc import OpDesc
from oarlock.ir.registry import IGNORED_ATTRS, REQUIRED, Operator, families, find, lookup, registered

PROTOS = Path(__file__).resolve().parent.parent / "data" / "op_protos.json"

# Registered by Paddle, absent here: what they are for.
ABSENT = {
    "other hardware": ("_xpu", "sparse_"),
    "primitive operators of Paddle's automatic differentiation, never in a saved program": ("_p",),
}
DEVICES_AND_SERVERS = [
    "all_gather",
    "all_reduce",
    "all_to_all",
    "alltoall",
    "barrier",
    "broadcast",
    "c_allgather",
    "c_allreduce_max",
    "c_allreduce_min",
    "c_allreduce_prod",
    "c_allreduce_sum",
    "c_broadcast",
    "c_comm_init",
    "c_comm_init_all",
    "c_comm_init_multitrainer",
    "c_concat",
    "c_gen_xccl_id",
    "c_identity",
    "c_reduce_max",
    "c_reduce_min",
    "c_reduce_prod",
    "c_reduce_sum",
    "c_reducescatter",
    "c_scatter",
    "c_softmax_with_cross_entropy",
    "c_split",
    "c_sync_calc_stream",
    "c_sync_comm_stream",
    "c_wait_comm",
    "c_wait_compute",
    "dist_concat",
    "distributed_fused_lamb",
    "distributed_fused_lamb_init",
    "distributed_lookup_table",
    "distributed_push_sparse",
    "fetch_barrier",
    "global_gather",
    "global_scatter",
    "heter_listen_and_serv",
    "listen_and_serv",
    "mp_allreduce_sum",
    "p_recv",
    "p_recv_array",
    "p_send",
    "p_send_array",
    "partial_allgather",
    "partial_recv",
    "partial_send",
    "pull_box_extended_sparse",
    "pull_box_sparse",
    "pull_gpups_sparse",
    "pull_sparse",
    "pull_sparse_v2",
    "push_dense",
    "recv_v2",
    "reduce",
    "reduce_scatter",
    "send",
    "send_and_recv",
    "send_barrier",
    "send_v2",
    "dgc_clip_by_norm",
    "dgc_momentum",
    "alloc_float_status",
    "clear_float_status",
    "get_float_status",
    "check_memory_continue",
]
READERS_AND_RUNNERS = [
    "copy_cross_scope",
    "create_double_buffer_reader",
    "create_py_reader",
    "data",
    "decode_jpeg",
    "delete_var",
    "depend",
    "dequeue",
    "enqueue",
    "fake_init",
    "faster_tokenizer",
    "feed",
    "fetch",
    "fetch_v2",
    "get_places",
    "load",
    "load_combine",
    "py_func",
    "pylayer",
    "queue_generator",
    "read",
    "read_file",
    "recurrent",
    "run_program",
    "save",
    "save_combine",
    "shadow_output",
]
KERNELS_OF_GPUS_ONLY = [
    "batch_fc",
    "block_multihead_attention",
    "fused_dconv_drelu_dbn",
    "fused_scale_bias_add_relu",
    "fused_scale_bias_relu_conv_bn",
    "llm_int8_linear",
    "masked_multihead_attention",
    "moe",
    "pyramid_hash",
    "rank_attention",
    "squeeze_excitation_block",
    "unzip",
    "variable_length_memory_efficient_attention",
    "weight_dequantize",
    "weight_only_linear",
    "weight_quantize",
]

# Declared otherwise than Paddle 2.6.2 registers it.
NEWER = "of Paddle 3, programs of 2.6 do not have it"
ONEDNN = "an extra attribute of programs that Paddle's oneDNN passes wrote"
OLDER = "of programs of an older version"
LENIENT = "files may leave it out; the default is what Paddle's Python API writes"
DIFFERENCES = {
    **{(op, name): NEWER for op in ("adam", "adamw") for name in ("amsgrad", "Moment2Max", "Moment2MaxOut")},
    **{
        (op, name): ONEDNN
        for op in ("conv2d", "conv3d", "depthwise_conv2d", "conv3d_transpose", "fused_conv2d", "fused_conv3d")
        for name in [
            "fuse_activation",
            "fuse_alpha",
            "fuse_beta",
            "fuse_relu",
            "fuse_residual_connection",
            "Bias",
            "ResidualData",
        ]
    },
    **{(op, "qmax"): OLDER for op in ("quantize_linear", "dequantize_linear")},
    **{(op, "ZeroPoint"): "read only when asymmetric" for op in ("quantize_linear", "dequantize_linear")},
    **{(f"elementwise_{name}", "axis"): OLDER for name in ("fmax", "fmin", "heaviside")},
    **{("set_value", f"{kind}_values"): OLDER for kind in ("bool", "fp16", "fp32", "fp64", "int32", "int64")},
    **{("fused_rotary_position_embedding", name): NEWER for name in ("time_major", "rotary_emb_base")},
    **{(f"max_pool{n}d_with_index", "ceil_mode"): NEWER for n in (2, 3)},
    **{
        (op, f"quant_{name}"): LENIENT
        for op in ("rms_norm", "fused_bias_residual_layernorm")
        for name in ("scale", "round_type", "max_bound", "min_bound")
    },
    **{("print", name): LENIENT for name in ("first_n", "message", "summarize")},
    **{("truncated_gaussian_random", name): NEWER for name in ("a", "b")},
    ("assign_value", "values"): NEWER,
    ("assign_value", "int8_values"): NEWER,
    ("flip", "axis"): OLDER,
    ("flip", "dims"): OLDER,
    ("roll", "dims"): OLDER,
    ("trace", "dim1"): OLDER,
    ("trace", "dim2"): OLDER,
    ("write_to_array", "X_W"): "the array before the write, which a program in training names",
}

INT8 = "read by int8 kernels of oneDNN only"
DEVICE = "says where or how to compute"
SERVER = "of a parameter server"
TRAINING = "inference has no draw; training is refused by the dropout rates"
UNREAD = "Paddle's CPU kernel does not read it"
STATED = "the inputs say it already"
IGNORED = {
    **dict.fromkeys(("Scale_data", "Scale_out", "Scale_weights", "Scale_x", "Scale_y", "Shift_data"), INT8),
    **dict.fromkeys(("attn_dropout_fix_seed", "attn_dropout_seed", "dropout_fix_seed", "dropout_seed"), TRAINING),
    **dict.fromkeys(("dropout1_fix_seed", "dropout1_seed", "dropout2_fix_seed", "dropout2_seed"), TRAINING),
    **dict.fromkeys(("entry", "entry_config", "epmap", "height_sections", "remote_prefetch", "table_class"), SERVER),
    **dict.fromkeys(("table_names", "trainer_id", "is_distributed", "slot"), SERVER),
    **dict.fromkeys(("use_cudnn", "use_mkldnn", "use_quantizer", "mkldnn_data_type", "force_fp32_output"), DEVICE),
    **dict.fromkeys(("x_data_format", "y_data_format", "force_cpu", "dst_place_type", "place", "im2col_step"), DEVICE),
    **dict.fromkeys(("chunk_size", "min_row_size_to_use_multithread", "use_seq", "rng_name", "ring_id"), DEVICE),
    **dict.fromkeys(("flag_buffer_hashtable", "flag_perm_buffer", "persist_output", "share_dims_and_dtype"), DEVICE),
    **dict.fromkeys(("sync_stats", "use_sync_bn", "output_format", "format", "use_nhwc", "place_type"), DEVICE),
    **dict.fromkeys(("compute_dtype", "deterministic", "grad_inplace", "save_intermediate_out"), DEVICE),
    **dict.fromkeys(
        ("in_dtype", "input_size", "num", "sections", "max_seqlen_k", "max_seqlen_q", "vocab_size"), STATED
    ),
    **dict.fromkeys(("dtype", "cluster_num"), STATED),
    **dict.fromkeys(("corr_type_multiply", "summary_decay_rate", "data_layout", "data_format", "qmin"), UNREAD),
    **dict.fromkeys(("axis", "fuse_with_relu", "moving_rate", "round_type", "out_dtype"), UNREAD),
    **dict.fromkeys(("quant_max_bound", "quant_min_bound", "quant_round_type"), "quant_scale on is refused"),
    **dict.fromkeys(("fuse_activation", "fuse_beta", "fuse_relu"), "the operator has attribute activation instead"),
    **dict.fromkeys(("output_dir", "stack_height_limit"), "says where a report goes"),
    **dict.fromkeys(("soft_max_lower_bound", "soft_max_up_bound"), "bounds the gradient, and is read there"),
    "fuse_residual_connection": "the residual input says it",
    "is_sparse": "the gradient is dense in any case, with equal values",
    "is_test": "the operator does the same in training",
    "numeric_stable_mode": "always stable",
    "return_softmax": "the softmax is always returned",
    "stable": "always stable",
    "infer_flags": "says what was known when the program was built",
    "epsilon": "read by the gradient",
}

FLAT = "an image of fewer dimensions has no such axis"
MESSAGE = "appears in what is printed or raised, see the operator's tests"
MODE = "linear interpolation alone has two ways to align"
CANNOT = {
    **{(op, "out_d"): FLAT for op in ("bicubic_interp", "bicubic_interp_v2", "bilinear_interp", "bilinear_interp_v2")},
    **{(op, "out_d"): FLAT for op in ("nearest_interp", "linear_interp", "linear_interp_v2")},
    **{(op, "out_h"): FLAT for op in ("linear_interp", "linear_interp_v2")},
    **{
        (op, "align_mode"): MODE
        for op in ("bicubic_interp", "bicubic_interp_v2", "nearest_interp", "nearest_interp_v2")
    },
    **{(op, "out_dtype"): "the result is bool in Paddle too, whatever is asked" for op in ("reduce_all", "reduce_any")},
    **{("check_numerics", name): MESSAGE for name in ("op_type", "var_name")},
    **{("print", f"print_tensor_{name}"): MESSAGE for name in ("name", "type", "shape", "layout", "lod")},
    **{("print", name): MESSAGE for name in ("first_n", "message", "summarize", "is_forward")},
    ("center_loss", "cluster_num"): "Centers has as many rows as there are clusters",
    ("cudnn_lstm", "seed"): "cuDNN's state draws, on the CPU it is kept for the descriptor",
    ("density_prior_box", "clip"): "the boxes are inside already, see the kernel",
    ("fill_constant", "place_type"): DEVICE,
    ("locality_aware_nms", "nms_eta"): "lowers the threshold from the second round on, see its tests",
    ("quant_linear", "quant_round_type"): "no value lies on a tie",
    ("slice", "infer_flags"): "says what was known when the program was built",
}
NO_CASE = {
    **dict.fromkeys(("while", "conditional_block", "conditional_block_infer"), "has a sub-block: test_control_flow"),
    **dict.fromkeys(("array_to_lod_tensor", "lod_tensor_to_array", "max_sequence_len"), "takes a rank table"),
    **dict.fromkeys(("reorder_lod_tensor_by_rank", "shrink_rnn_memory"), "takes a rank table"),
    **dict.fromkeys(("beam_search_decode", "write_to_array", "select_output"), "writes arrays: its family's tests"),
    "assert": "has no output",
}


@cache
def protos() -> dict[str, dict[str, Any]]:
    return json.loads(PROTOS.read_text())  # type: ignore[no-any-return]


def forward_operators() -> list[Operator]:
    families()
    known = protos()
    return [each for each in registered() if each.type in known or not each.type.endswith("_grad")]


def shared() -> list[tuple[Operator, dict[str, Any]]]:
    return [(each, protos()[each.type]) for each in forward_operators() if each.type in protos()]


def same(mine: Any, theirs: Any) -> bool:
    """Equal as the file stores it: floats in single precision, enumerations and sequences by their values."""
    if isinstance(mine, (list, tuple)) and isinstance(theirs, (list, tuple)):
        return len(mine) == len(theirs) and all(map(same, mine, theirs))
    if isinstance(mine, float) or isinstance(theirs, float):
        return isinstance(theirs, (int, float)) and bool(np.float32(mine) == np.float32(theirs))
    return bool(mine == theirs)


def test_every_registered_operator_is_here_or_has_a_reason_not_to_be() -> None:
    families()
    listed = {*DEVICES_AND_SERVERS, *READERS_AND_RUNNERS, *KERNELS_OF_GPUS_ONLY}
    endings = tuple(end for ends in ABSENT.values() for end in ends)
    missing = [
        op
        for op in protos()
        if find(op) is None and op not in listed and not op.endswith(endings) and not op.startswith("sparse_")
    ]
    assert missing == []


def slot_differences(operator: Operator, proto: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for side, declared in (("in", operator.inputs), ("out", operator.outputs)):
        theirs = {word.rstrip("*?"): word for word in proto[side].split()}
        mine = {slot.name: slot for slot in declared}
        for name in theirs.keys() ^ mine.keys():
            yield name, "only here" if name in mine else "only in Paddle"
        for name in theirs.keys() & mine.keys():
            if mine[name].many != ("*" in theirs[name]):
                yield name, "a list on one side only"
            may_be_absent = mine[name].optional or mine[name].many
            if side == "in" and may_be_absent < ("?" in theirs[name]):
                yield name, "optional in Paddle"
            if side == "in" and mine[name].optional > ("?" in theirs[name]):
                yield name, "required in Paddle"


def attr_differences(operator: Operator, proto: dict[str, Any]) -> Iterator[tuple[str, str]]:
    registered_attrs = {name: spec[1:] for name, spec in proto.get("attrs", {}).items()}
    registered_attrs |= {name: [value] for name, value in proto.get("extra", {}).items()}
    for name, default in registered_attrs.items():
        if name in operator.attrs:
            mine = operator.attrs[name]
            if (mine is REQUIRED) != (not default):
                yield name, "required on one side only"
            elif default and not same(mine, default[0]):
                yield name, f"default {mine!r}, registered {default[0]!r}"
        elif name in operator.refuse:
            if default and name in proto.get("attrs", {}) and not same(operator.refuse[name], default[0]):
                yield name, f"only {operator.refuse[name]!r} is taken, registered default {default[0]!r}"
        elif name not in operator.ignores and name not in IGNORED_ATTRS:
            yield name, "neither declared nor ignored nor refused"
    for name in operator.attrs.keys() - registered_attrs.keys():
        yield name, "not registered by Paddle 2.6.2"


@pytest.mark.parametrize("differences", [slot_differences, attr_differences])
def test_declarations_are_those_of_paddle(differences: Any) -> None:
    found = [
        f"{operator.type}.{name}: {what}"
        for operator, proto in shared()
        for name, what in differences(operator, proto)
        if (operator.type, name) not in DIFFERENCES
    ]
    assert found == []


def test_listed_differences_exist() -> None:
    listed = {op for op, _ in DIFFERENCES}
    real = {
        (operator.type, name)
        for operator, proto in shared()
        if operator.type in listed
        for name, _ in (*slot_differences(operator, proto), *attr_differences(operator, proto))
    }
    assert {op for op, _ in real} == listed


def test_every_ignored_attribute_has_a_reason() -> None:
    ignored = {name for operator in forward_operators() for name in operator.ignores}
    assert sorted(ignored - IGNORED.keys() - IGNORED_ATTRS) == []


def test_refused_attributes_take_one_value_only() -> None:
    refusing = [operator for operator in forward_operators() if operator.refuse]
    assert len(refusing) > 10
    for operator in refusing:
        given = {name: 1 for name, default in operator.attrs.items() if default is REQUIRED}
        for name, only in operator.refuse.items():
            bind_attrs(operator, OpDesc(operator.type, attrs={**given, name: only}), "here")
            with pytest.raises(ProgramError, match=name):
                bind_attrs(operator, OpDesc(operator.type, attrs={**given, name: "another"}), "here")


def refused_on_purpose(error: Exception) -> bool:
    """Whether a ``raise`` of oarlock's own says what is wrong, rather than numpy stumbling."""
    cause: BaseException = error
    while cause.__cause__ is not None:
        cause = cause.__cause__
    last = traceback.extract_tb(cause.__traceback__)[-1]
    line = linecache.getline(last.filename, last.lineno or 0).strip()
    return isinstance(error, OarlockError) and line.startswith("raise")


def verdict(base: Any, case: Any, name: str, value: Any) -> str:
    """What moving one attribute of a case does: "changes", "refused", or "" (nothing, or an unclear error)."""
    try:
        moved = case.with_attrs(**{name: value})
        if base.differ(base.run(moved), base.run(case)):
            return "changes"
    except Exception as error:  # every kind of failure is judged
        return "refused" if refused_on_purpose(error) else ""
    try:
        return "changes" if base.differ(base.gradients(moved), base.gradients(case)) else ""
    except Exception:  # no gradient in this mode
        return ""


def settle(base: Any, moves: Any, operator: Operator, name: str) -> str:
    """ "changes" where any move of the attribute shows in any base case; else "refused" where one is."""
    cases = base.cases()[operator.type]
    refused = ""
    for case in sorted(cases, key=lambda each: name not in each.moved):
        default = operator.attrs[name]
        current = case.attrs.get(name, None if default is REQUIRED else default)
        values = [case.moved[name]] if name in case.moved else []
        for value in [*values, *moves(name, current)]:
            found = verdict(base, case, name, value)
            if found == "changes":
                return found
            refused = refused or found
    return refused


def test_every_attribute_off_its_default_is_honoured_or_refused(basecases: Any, attr_moves: Any) -> None:
    """One base case at least changes, or the move is refused in so many words, or it is listed why neither can be."""
    swept = [each for each in forward_operators() if each.type not in NO_CASE]
    silent, listed = [], []
    with np.errstate(all="ignore"):  # some moves make no sense as numbers
        for operator, name in ((each, name) for each in swept for name in each.attrs):
            if not settle(basecases, attr_moves, operator, name):
                (listed if (operator.type, name) in CANNOT else silent).append((operator.type, name))
    assert silent == []
    assert sorted(CANNOT.keys() - {*listed}) == []


def test_every_operator_has_a_base_case(basecases: Any) -> None:
    without = [each.type for each in forward_operators() if each.type not in basecases.cases()]
    assert sorted(set(without) - NO_CASE.keys()) == []


def test_base_cases_run_again_alike(basecases: Any) -> None:
    for cases in basecases.cases().values():
        for case in cases:
            assert not basecases.differ(basecases.run(case), basecases.run(case)), case.op


def test_lookup_finds_what_the_registry_lists() -> None:
    assert all(lookup(each.type).type == each.type for each in forward_operators())
