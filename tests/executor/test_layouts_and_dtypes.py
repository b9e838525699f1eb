"""Every operator on awkward memory, on 16-bit floats, on nothing at all and on numbers without a dimension."""

from __future__ import annotations

import linecache
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np
import oarlock.executor.kernels  # noqa: F401 - tells the registry how to find a type
import pytest
from oarlock.errors import OarlockError
from oarlock.executor.values import LoDTensor, SelectedRows, TensorArray, array_of
from oarlock.ir.dtypes import bfloat16
from oarlock.ir.registry import lookup

WIDER: dict[str, str] = {
    "keeps the moments of half parameters in float32": """
        adadelta adagrad adam adamax adamw fused_adam lamb lars_momentum merged_adam rmsprop momentum merged_momentum
        sgd sparse_momentum""",
    "statistics in float32, as Paddle has them": """
        batch_norm fused_batch_norm_act fused_bn_add_activation sync_batch_norm inplace_abn group_norm instance_norm
        layer_norm fused_fc_elementwise_layernorm fused_layernorm fused_bias_residual_layernorm
        fused_bias_dropout_residual_layer_norm""",
    "the dtype is an attribute or fixed": """
        accuracy check_numerics fill_constant_batch_size_like prior_box target_assign gaussian_random_batch_size_like
        uniform_random_batch_size_like dequantize_abs_max lookup_table_dequant fused_linear_param_grad_add rnn
        cudnn_lstm""",
    "the case is not a plain array": "merge_selected_rows get_tensor_from_selected_rows",
    "the case is half already": "flash_attn flash_attn_unpadded memory_efficient_attention",
    "Paddle's CPU kernel takes no halves; ours computes bfloat16 in float32 and leaves it there": """
        fsp fusion_gru fusion_lstm multi_gru fusion_seqconv_eltadd_relu fusion_seqexpand_concat_fc match_matrix_tensor
        sequence_conv var_conv_2d""",
}
"""Operators with an output that does not follow a 16-bit input, and why."""

NEEDS_A_DIMENSION = {
    "expand_v2": "the case states the rank of the result",
    "fft_c2c": "transforms along axes",
    "fft_r2c": "transforms along axes",
    "fused_softmax_mask_upper_triangle": "masks a matrix",
    "lrn": "sums over channels",
    "number_count": "counts into a vector",
    "roll": "the case names an axis",
    "set_value": "the case names an axis",
    "uniform_random_inplace": "the case sets a diagonal",
    "cast": "its gradient op needs in_dtype, which the case leaves out",
    "cast_rounded": "its gradient op needs in_dtype, which the case leaves out",
    "transfer_dtype": "its gradient op needs in_dtype, which the case leaves out",
}
NEEDS_AN_ELEMENT = {
    "check_numerics": "largest and smallest of nothing",
    "fake_channel_wise_quantize_dequantize_abs_max": "a scale is the largest of a channel",
    "lu": "the case is one matrix",
    "multinomial": "the case is one distribution",
    "uniform_random_inplace": "the case sets a diagonal",
    "uniform_random_batch_size_like": "the case sets a diagonal",
}


def refused_on_purpose(error: Exception) -> bool:
    """Whether a ``raise`` of oarlock's own says what is wrong, rather than numpy stumbling."""
    cause: BaseException = error
    while cause.__cause__ is not None:
        cause = cause.__cause__
    last = traceback.extract_tb(cause.__traceback__)[-1]
    line = linecache.getline(last.filename, last.lineno or 0).strip()
    return isinstance(error, OarlockError) and line.startswith("raise")


def mapped(case: Any, change: Callable[[Any], Any]) -> Any:
    """The case with every plain array changed, also inside ragged batches and tensor arrays."""

    def of(value: Any) -> Any:
        if isinstance(value, LoDTensor):
            return LoDTensor(change(value.array), value.lod)
        if isinstance(value, TensorArray):
            return TensorArray(map(of, value))
        return change(value) if isinstance(value, np.ndarray) else value

    return case.with_inputs({slot: [of(value) for value in values] for slot, values in case.inputs.items()})


def awkward(array: Any) -> Any:
    """The same numbers with gaps between them, at odd addresses, read-only."""
    memory = np.zeros(2 * array.nbytes + 2 * array.itemsize + 1, np.uint8)
    view = np.ndarray((*array.shape, 2), array.dtype, memory, offset=1)[..., 0]
    view[...] = array
    view.flags.writeable = False
    return view


def alike(a: Any, b: Any) -> bool:
    """Same dtypes and shapes, and numbers equal but for the order of sums."""
    if isinstance(a, dict):
        return all(alike(a[name], b[name]) for name in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(alike, a, b))
    if a is None or b is None or array_of(a).dtype == object:
        return type(a) is type(b)
    x, y = array_of(a), array_of(b)
    if x.dtype != y.dtype or x.shape != y.shape:
        return False
    if x.dtype.kind in "biu":
        return np.array_equal(x, y)
    wide = np.complex128 if x.dtype.kind == "c" else np.float64
    loose = 1e-2 if x.dtype.itemsize == 2 else 1e-4
    return np.allclose(x.astype(wide), y.astype(wide), rtol=loose, atol=loose, equal_nan=True)


def all_cases(basecases: Any) -> list[Any]:
    return [case for cases in basecases.cases().values() for case in cases]


@pytest.mark.parametrize("direction", ["run", "gradients"])
def test_strided_unaligned_read_only_inputs_give_the_same(direction: str, basecases: Any) -> None:
    execute = getattr(basecases, direction)
    wrong = []
    with np.errstate(all="ignore"):
        for case in all_cases(basecases):
            try:
                plain = execute(case)
            except Exception:  # a case whose gradient is refused
                assert direction == "gradients", case.op
                continue
            if not alike(plain, execute(mapped(case, awkward))):
                wrong.append(case.op)
    assert wrong == []


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_half_floats_stay_half_or_are_refused(name: str, basecases: Any) -> None:
    half = bfloat16() if name == "bfloat16" else np.dtype(np.float16)

    def halved(array: Any) -> Any:
        return array.astype(half) if array.dtype.kind == "f" and array.itemsize > 2 else array

    unclear, wide = set(), set()
    for case in all_cases(basecases):
        floats = [v for values in case.inputs.values() for v in values if isinstance(v, (np.ndarray, LoDTensor))]
        kinds = [value.dtype for value in floats if value.dtype.kind == "f"]
        if not kinds or "dtype" in case.attrs or "out_dtype" in case.attrs:
            continue
        with np.errstate(all="ignore"):
            plain = basecases.run(case)
            try:
                found = basecases.run(mapped(case, halved))
            except Exception as error:  # judged below
                if not refused_on_purpose(error):
                    unclear.add(case.op)
                continue
        for slot, value in plain.items():
            if isinstance(value, (np.ndarray, LoDTensor)) and value.dtype == kinds[0] and found[slot].dtype != half:
                wide.add(case.op)
    assert sorted(unclear) == []
    assert sorted(wide - {op for ops in WIDER.values() for op in ops.split()}) == []


def only_array(case: Any) -> tuple[str, Any] | None:
    """Slot and array of a case with one input."""
    given = [(slot, value) for slot, values in case.inputs.items() for value in values]
    return given[0] if len(given) == 1 and isinstance(given[0][1], np.ndarray) else None


def test_an_empty_batch_goes_through_or_is_refused(basecases: Any) -> None:
    """Operators with one input; those with several that must agree are in :data:`BATCHES`."""
    fell = set()
    for case in all_cases(basecases):
        single = only_array(case)
        if single is None or not single[1].ndim:
            continue
        try:
            with np.errstate(all="ignore"):
                basecases.run(case.with_inputs({single[0]: [single[1][:0]]}))
        except Exception as error:  # judged here
            if not refused_on_purpose(error):
                fell.add(case.op)
    assert sorted(fell - NEEDS_AN_ELEMENT.keys()) == []


BATCHES = {
    "conv2d": "Input ResidualData",
    "depthwise_conv2d": "Input ResidualData",
    "conv3d": "Input ResidualData",
    "conv2d_transpose": "Input",
    "deformable_conv": "Input Offset Mask",
    "unpool": "X Indices",
    "unpool3d": "X Indices",
    "smooth_l1_loss": "X Y",
    "squared_l2_distance": "X",
    "cos_sim": "X",
    "batch_norm": "X",
    "layer_norm": "X",
    "group_norm": "X",
    "instance_norm": "X",
    "prelu": "X",
    "softmax_with_cross_entropy": "Logits Label",
    "yolo_box": "X ImgSize",
    "multihead_matmul": "Input BiasQK",
    "fused_attention": "X",
    "fsp": "X Y",
    "lookup_table_dequant": "Ids",
    "quant_linear": "x",
    "fc": "Input",
    "grid_sampler": "X Grid",
}


@pytest.mark.parametrize("op", sorted(BATCHES))
def test_an_empty_batch_through_several_inputs(op: str, basecases: Any) -> None:
    case = next(each for each in basecases.cases()[op] if "CacheKV" not in each.inputs)
    emptied = BATCHES[op].split()
    inputs = {s: [v[:0] if s in emptied else v for v in values] for s, values in case.inputs.items()}
    with np.errstate(invalid="ignore"):  # the mean of no rows
        found = basecases.run(case.with_inputs(inputs))
    assert next(array_of(value).size for value in found.values() if value is not None) == 0


def test_numbers_without_a_dimension(basecases: Any) -> None:
    """What keeps the shape of its only input keeps that of a 0-d one, forward and back."""
    fell, tried = set(), 0
    for case in all_cases(basecases):
        single = only_array(case)
        if single is None or single[1].size == 0 or case.op in NEEDS_A_DIMENSION:
            continue
        plain = next(iter(basecases.run(case).values()), None)
        if not isinstance(plain, np.ndarray) or plain.shape != single[1].shape:
            continue
        small = case.with_inputs({single[0]: [np.asarray(single[1].reshape(-1)[-1])]})
        small.shapes = {}
        tried += 1
        try:
            with np.errstate(all="ignore"):
                found = [basecases.run(small), basecases.gradients(small)]
        except Exception as error:  # judged here
            if not refused_on_purpose(error):
                fell.add(case.op)
            continue
        firsts = [next(iter(values.values())) for values in found if values]
        if any(each.shape != () for each in firsts) or firsts[0].dtype != plain.dtype:
            fell.add(case.op)
    assert tried > 100
    assert sorted(fell) == []


def test_selected_rows_in_awkward_memory() -> None:
    """A sparse gradient is read the same whatever holds its values."""
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    param, rate = np.ones((4, 3), np.float32), np.float32([0.5])
    rows = np.array([2, 0], np.int64)
    plain, strided = SelectedRows(rows, values, 4), SelectedRows(awkward(rows), awkward(values), 4)
    want = lookup("sgd")(param, rate, plain, None)[0]
    np.testing.assert_array_equal(lookup("sgd")(awkward(param), rate, strided, None)[0], want)


def weights(size: int, out: int) -> Any:
    """Linear interpolation with aligned corners as a matrix ``[out, size]``, in float64."""
    made = np.zeros((out, size))
    for place in range(out):
        source = place * (size - 1) / (out - 1)
        low = min(int(source + 1e-9), size - 2)
        made[place, low : low + 2] += (1 - (source - low), source - low)
    return made


def test_bfloat16_gradient_of_interpolation_is_the_exact_one_rounded() -> None:
    """Paddle's CPU kernel adds up in bfloat16 and cuts each sum short, up to 7 % too small; ours rounds once."""
    draw = np.random.default_rng(0)
    x = draw.standard_normal((1, 1, 9, 6, 8)).astype(bfloat16())
    d_out = draw.standard_normal((1, 1, 12, 12, 12)).astype(bfloat16())
    grad_op = lookup("trilinear_interp_v2_grad")
    given = {"X": x, "Out@GRAD": d_out}
    absent = [given.get(slot.name, [] if slot.many else None) for slot in grad_op.inputs]
    sizes = {"out_d": 12, "out_h": 12, "out_w": 12}
    found = grad_op(*absent, **sizes, interp_method="trilinear", align_corners=True)
    exact = np.einsum("ncdhw,da,hb,we->ncabe", d_out.astype(np.float64), weights(9, 12), weights(6, 12), weights(8, 12))
    assert found.dtype == bfloat16()
    np.testing.assert_allclose(found.astype(np.float64), exact, rtol=2.0**-8, atol=2e-3)
