"""Every operator that claims a gradient, against central differences in float64 on its base cases.

First and second order: the grad op of an operator is checked as an operator of its own, where it has a gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import oarlock.executor.kernels  # noqa: F401 - tells the registry how to find a type
import pytest
from oarlock.errors import OarlockError
from oarlock.executor.random import set_seed
from oarlock.executor.values import LoDTensor, TensorArray
from oarlock.ir.registry import Operator, families, lookup, registered

ROUNDS = "the gradient passes rounding straight through (quantisation aware training)"
SHOWS = "the gradient is what Paddle's CTR models learn from: the show and click columns of CVM itself"
OTHERWISE = {
    "fake_channel_wise_quantize_dequantize_abs_max": ROUNDS,
    "fake_quantize_dequantize_abs_max": ROUNDS,
    "fake_quantize_dequantize_moving_average_abs_max": ROUNDS,
    "cvm": SHOWS,
    "fused_seqpool_cvm": SHOWS,
    "gumbel_softmax": "Paddle leaves the temperature out of the gradient, and a hard choice passes straight through",
    "spectral_norm": "the gradient lets the norm's vectors stand, which the forward op moves; so does the op bank",
    "soft_relu": "Paddle compares the threshold with the result instead of the input",
}
ELSEWHERE = {
    "while": "test_control_flow",
    "conditional_block": "test_control_flow",
    "conditional_block_infer": "no gradient op is ever made for it",
    "write_to_array": "test_kernels_sequence_array",
    "read_from_array": "test_kernels_sequence_array",
    "tensor_array_to_tensor": "test_kernels_sequence_array",
    "array_to_lod_tensor": "test_kernels_sequence_array",
    "lod_tensor_to_array": "test_kernels_sequence_array",
    "shrink_rnn_memory": "test_kernels_sequence_array",
    "reorder_lod_tensor_by_rank": "test_kernels_sequence_array",
    "select_output": "test_control_flow",
    "select_input": "the gradient reaches the chosen input only: test_control_flow",
    "increment": "the gradient op counts back, it carries no gradient",
}
SYMMETRIC = ("cholesky", "eigh", "eigvalsh")


def wave(*shape: int, k: float = 0.3) -> Any:
    return np.sin(np.arange(int(np.prod(shape))) * 0.7 + k).reshape(shape)


CASTS = {"in_dtype": 6, "out_dtype": 6}
POINTS: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "angle": ({"X": wave(3) + 1j * wave(3, k=1.0)}, {}, {}),
    "as_strided": ({"input": wave(3, 4)}, {"dims": [2, 2], "stride": [4, 1]}, {}),
    "bce_loss": ({"X": np.array([0.2, 0.6, 0.3]), "Label": np.array([0.0, 1.0, 0.4])}, {}, {}),
    "cast": ({"X": wave(3)}, CASTS, {}),
    "cast_rounded": ({"X": wave(3)}, CASTS, {}),
    "transfer_dtype": ({"X": wave(3)}, CASTS, {}),
    "cross_entropy": ({"X": np.array([[0.2, 0.3, 0.5]]), "Label": np.array([[1]])}, {}, {}),
    "dist": ({"X": wave(2, 3), "Y": wave(2, 3, k=1.0)}, {"p": 3.0}, {}),
    "eig": ({"X": wave(3, 3) + 1j * wave(3, 3, k=1.0)}, {}, {"outputs": ["Eigenvalues"]}),
    "im2sequence": ({"X": wave(1, 1, 3, 3)}, {"kernels": [2, 2]}, {}),
    "log_softmax": ({"X": wave(2, 3)}, {"axis": 1}, {}),
    "mode": ({"X": np.array([[3.0, 1.0, 2.0]])}, {}, {}),
    "prroi_pool": (
        {"X": wave(1, 2, 5, 5), "ROIs": LoDTensor(np.array([[0.6, 0.7, 3.3, 2.9]]), [[0, 1]])},
        {"pooled_height": 2, "pooled_width": 2, "spatial_scale": 1.0},
        {},
    ),
    "sigmoid_cross_entropy_with_logits": ({"X": wave(4), "Label": np.array([0.0, 1.0, 0.3, 0.8])}, {}, {}),
    "sign": ({"X": wave(4)}, {}, {}),
    "view_dtype": ({"input": wave(2, 2)}, {"dtype": 6}, {}),
}
"""Inputs, attributes and options of the check where the base case is no place to differentiate at."""

OPTIONS: dict[str, dict[str, Any]] = {
    "data_norm": {"wrt": ["X"]},  # the sums get Paddle's update of the statistics instead
    "yolov3_loss": {"wrt": ["X"]},  # boxes and scores get zeros
}


def unsuitable(case: Any) -> str:
    """Why Paddle's gradient (which is ours) is not the derivative on this very case, or ""."""
    op, inputs = case.op, case.inputs
    if op in ("batch_norm", "sync_batch_norm", "inplace_abn") and case.attrs.get("trainable_statistics"):
        return "test mode takes the statistics for constants"
    if op == "elementwise_pow" and bool((np.asarray(inputs["X"][0]) <= 0).any()):
        return "no real power"
    if op == "softmax_with_cross_entropy" and case.attrs.get("soft_label"):
        return "labels that do not sum to 1" if not np.allclose(inputs["Label"][0].sum(-1), 1, atol=1e-7) else ""
    if op == "matmul" and case.attrs.get("head_number", 1) > 1:
        return "Paddle has no gradient for heads, and says so"
    if op == "maxout" and np.unique(inputs["X"][0]).size < inputs["X"][0].size:
        return "a tie"
    if op == "sample_logits" and case.attrs.get("use_customized_samples"):
        return "hits by accident lie 1e20 down"
    if op == "unpool" and np.unique(inputs["Indices"][0]).size < inputs["Indices"][0].size:
        return "two values fall on one place"
    if op == "yolov3_loss" and inputs["GTBox"][0].shape[1] > 2:
        return "of two boxes in one cell the last one counts"
    if any(case.attrs.get(name) for name in ("fuse_activation", "fuse_relu")) and "conv" in op:
        return "fused for inference"
    return ""


def claiming() -> list[str]:
    families()
    return [each.type for each in registered() if each.grad_maker or each.block_grad_maker]


FIRST = [op for op in claiming() if not op.endswith("_grad") and op not in ELSEWHERE]
SECOND = [op for op in claiming() if op.endswith("_grad")]
TOTAL = {"silu_grad": "it is given X and Out = silu(X), and differentiates through both"}


def unchanged(value: Any, place: int) -> Any:
    return value


def shifted(value: Any, place: int) -> Any:
    """Floats moved a little, each by another amount: off ties and kinks. ``place`` tells the inputs apart."""
    if isinstance(value, LoDTensor):
        return LoDTensor(shifted(value.array, place), value.lod)
    array = np.asarray(value)
    if array.dtype.kind != "f":
        return value
    return array.astype(np.float64) + 0.0137 * np.cos(np.arange(array.size) * 1.3 + 0.2 + place).reshape(array.shape)


def arguments(operator: Operator, case: Any, change: Callable[[Any, int], Any]) -> dict[str, Any]:
    """The inputs of a base case as ``gradcheck`` takes them."""
    found: dict[str, Any] = {}
    for place, (slot, values) in enumerate(case.inputs.items()):
        declared = operator.input_slot(slot)
        if values and declared is not None:
            found[slot] = [change(value, place) for value in values] if declared.many else change(values[0], place)
    return found


def check(gradcheck: Any, case: Any, change: Callable[[Any, int], Any], options: dict[str, Any]) -> None:
    operator = lookup(case.op)
    shapes = {slot: tuple(each[0]) for slot, each in case.shapes.items() if each and each[0] is not None}
    without = [slot.name for slot in operator.outputs if slot.name not in case.counts]
    gradcheck(
        case.op,
        arguments(operator, case, change),
        case.attrs,
        counts=case.counts,
        declared=shapes,
        without=without,
        **options,
    )


@pytest.mark.parametrize("op", sorted(set(FIRST) - OTHERWISE.keys() - {*SYMMETRIC}))
def test_gradient_is_the_derivative(op: str, gradcheck: Any, not_differentiable: Any, basecases: Any) -> None:
    options = {"before_run": lambda: set_seed(0), **OPTIONS.get(op, {})}
    if op in POINTS:
        inputs, attrs, more = POINTS[op]
        gradcheck(op, inputs, attrs, **options, **more)
        return
    suitable = [case for case in basecases.cases()[op] if not unsuitable(case)]
    judged = 0
    for case in suitable:
        for change in (unchanged, shifted):
            try:
                check(gradcheck, case, change, options)
            except not_differentiable:
                continue
            judged += 1
            break
    assert judged, f"no base case of {op} is a place to differentiate at"


@pytest.mark.parametrize("op", sorted(OTHERWISE))
def test_gradient_by_convention_is_not_the_derivative(
    op: str, gradcheck: Any, not_differentiable: Any, basecases: Any
) -> None:
    """Keeps the list of conventions honest: where the check would pass, the reason is gone."""
    with pytest.raises((AssertionError, not_differentiable)):
        for case in basecases.cases()[op]:
            check(gradcheck, case, unchanged, {"before_run": lambda: set_seed(0)})


@pytest.mark.parametrize("op", SYMMETRIC)
def test_gradient_along_symmetric_directions(op: str) -> None:
    """One triangle is read, the gradient is spread over both: right for every step that stays symmetric."""
    operator = lookup(op)
    x = wave(3, 3) @ wave(3, 3).T + 2 * np.eye(3) + np.diag([0.0, 1.0, 3.0])
    step = wave(3, 3, k=2.0) + wave(3, 3, k=2.0).T
    grad_op = lookup(f"{op}_grad")

    def outputs(at: Any) -> dict[str, Any]:
        values = operator(at)
        names = [slot.name for slot in operator.outputs]
        return dict(zip(names, values if isinstance(values, tuple) else (values,), strict=True))

    def loss(at: Any) -> float:
        values = outputs(at)
        return sum(float((weights[name] * value).sum()) for name, value in values.items())

    here = outputs(x)
    weights = {name: wave(*value.shape, k=1.0) for name, value in here.items()}
    if op == "eigvalsh":
        weights["Eigenvectors"] = np.zeros_like(here["Eigenvectors"])
    known = {"X": x, **here, **{f"{name}@GRAD": weight for name, weight in weights.items()}}
    gradient = grad_op(*[known.get(slot.name) for slot in grad_op.inputs])
    eps = 1e-6
    central = (loss(x + eps * step) - loss(x - eps * step)) / (2 * eps)
    np.testing.assert_allclose(float((np.asarray(gradient).real * step).sum()), central, rtol=1e-6)


def grad_op_case(basecases: Any, op: str) -> list[tuple[dict[str, Any], dict[str, Any], dict[str, int]]]:
    """Inputs, attributes and output counts of a grad op: what the base cases of its forward op feed it."""
    made = []
    for case in basecases.cases()[op.removesuffix("_grad")]:
        if unsuitable(case) or any(
            isinstance(value, TensorArray) for values in case.inputs.values() for value in values
        ):
            continue
        places = enumerate(case.inputs.items())
        double = case.with_inputs({slot: [shifted(value, at) for value in values] for at, (slot, values) in places})
        grads, given = basecases.backward(double)
        if len(grads) != 1 or grads[0].type != op:
            continue
        many = {slot.name for slot in lookup(op).inputs if slot.many}
        found = {}
        for slot, names in grads[0].inputs.items():
            values = [given[name] for name in names if name in given]
            if values:
                found[slot] = values if slot in many else values[0]
        made.append((found, dict(grads[0].attrs), {slot: len(names) for slot, names in grads[0].outputs.items()}))
    return made


@pytest.mark.parametrize("op", sorted(set(SECOND) - TOTAL.keys()))
def test_second_gradient_is_the_derivative_of_the_first(
    op: str, gradcheck: Any, not_differentiable: Any, basecases: Any
) -> None:
    judged = 0
    for inputs, attrs, counts in grad_op_case(basecases, op):
        without = [slot.name for slot in lookup(op).outputs if slot.name not in counts]
        try:
            gradcheck(op, inputs, attrs, counts=counts, without=without)
        except not_differentiable:
            continue
        judged += 1
    assert judged, f"no case of {op} is a place to differentiate at"


def test_second_gradient_of_silu_goes_through_its_result_too() -> None:
    x, d_out, step = wave(5), wave(5, k=1.0), wave(5, k=2.0)
    silu, first, second = lookup("silu"), lookup("silu_grad"), lookup("silu_grad_grad")
    known = {"X": x, "Out": silu(x), "grad_out": d_out, "grad_x@GRAD": step}

    def slope(at: Any) -> Any:
        given = {"X": at, "Out": silu(at), "Out@GRAD": d_out}
        return first(*[given[slot.name] for slot in first.inputs])

    d_x, _ = second(*[known[slot.name] for slot in second.inputs])
    eps = 1e-6
    central = (slope(x + eps) - slope(x - eps)) / (2 * eps) * step
    np.testing.assert_allclose(d_x, central, rtol=1e-6)


FUSING = ("conv2d", "conv3d", "depthwise_conv2d", "conv2d_transpose", "conv3d_transpose", "depthwise_conv2d_transpose")


@pytest.mark.parametrize("op", FUSING)
def test_convolution_fused_with_an_activation_has_no_gradient(op: str, basecases: Any) -> None:
    fused = [case for case in basecases.cases()[op] if case.attrs.get("fuse_activation")]
    assert fused
    for case in fused:
        with pytest.raises(OarlockError, match="has no gradient"):
            basecases.gradients(case)


def test_nothing_is_left_out() -> None:
    assert len(FIRST) > 350 and len(SECOND) > 40
    assert {*OTHERWISE, *POINTS, *SYMMETRIC} <= {*FIRST}
    assert {*ELSEWHERE} <= {*claiming()}
