"""CTC and transducer losses, alignment, edit distance: numbers of PaddlePaddle 2.6.2 and by hand."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import oarlock.executor.kernels  # noqa: F401  (declares the operators)
import pytest
from oarlock.executor.values import LoDTensor
from oarlock.ir.registry import lookup


def wave(*shape: int, k: float = 0) -> Any:
    return np.sin(np.arange(int(np.prod(shape))) * 0.7 + k).reshape(shape)


def ragged(array: Any, *lengths: int) -> LoDTensor:
    return LoDTensor.from_lengths(np.asarray(array), [list(lengths)])


def run(type: str, *inputs: Any, **attrs: Any) -> Any:
    return lookup(type)(*inputs, **attrs)


def test_padded_loss_and_gradient_as_paddle() -> None:
    """The third label sequence needs a blank between its equal labels and does not fit: loss 0, no gradient."""
    logits, times = wave(4, 3, 3), np.array([4, 4, 2])
    label, sizes = np.array([[1, 2], [2, 2], [1, 1]], np.int32), np.array([2, 2, 2])
    loss, made = run("warpctc", logits, label, times, sizes)
    np.testing.assert_allclose(loss, [[1.687333791], [3.690220694], [0]], atol=1e-8)
    np.testing.assert_allclose(
        made[0, :2],
        [[-0.034273726, -0.445534677, 0.479808403], [0.253235625, 0.312537651, -0.565773277]],
        atol=1e-8,
    )
    assert not made[:, 2].any()
    for norm, factor in ((False, 1.0), (True, 0.25)):
        grad = run("warpctc_grad", logits, times, made, np.ones((3, 1)), norm_by_times=norm)
        np.testing.assert_allclose(grad[:, :2], factor * made[:, :2], rtol=1e-12)


def test_ragged_loss_as_paddle() -> None:
    logits, label = ragged(wave(5, 3), 3, 2), ragged(np.array([[0], [1]], np.int32), 1, 1)
    loss, made = run("warpctc", logits, label, None, None, blank=2)
    np.testing.assert_allclose(loss, [[1.252786851], [1.174972893]], atol=1e-8)
    assert made.shape == (3, 2, 3) and not made[2, 1].any()
    grad = run("warpctc_grad", logits, None, made, np.ones((2, 1)))
    assert grad.lengths() == [[3, 2]]
    np.testing.assert_allclose(grad.array[3], [0.18055991, -0.176706273, -0.003853637], atol=1e-8)


def all_paths(log_probs: Any, label: list[int], blank: int) -> float:
    """The loss by summing over every path that collapses to the label."""
    steps, classes = log_probs.shape
    total = -np.inf
    for path in itertools.product(range(classes), repeat=steps):
        merged = [key for key, _ in itertools.groupby(path)]
        if [each for each in merged if each != blank] == label:
            total = np.logaddexp(total, sum(log_probs[range(steps), path]))
    return -float(total)


@pytest.mark.parametrize("label", [[], [1], [1, 2], [1, 1], [2, 1, 2]])
def test_loss_sums_over_all_paths(label: list[int]) -> None:
    logits = wave(5, 1, 3)
    log_probs = logits[:, 0] - np.log(np.exp(logits[:, 0]).sum(axis=1, keepdims=True))
    padded = np.array([label + [0] * (3 - len(label))], np.int32)
    loss, _ = run("warpctc", logits, padded, np.array([5]), np.array([len(label)]))
    np.testing.assert_allclose(loss, [[all_paths(log_probs, label, 0)]], rtol=1e-12)


@pytest.mark.parametrize("ragged_form", [False, True])
def test_ctc_gradient(gradcheck: Callable[..., Any], ragged_form: bool) -> None:
    if ragged_form:
        inputs: dict[str, Any] = {
            "Logits": ragged(wave(11, 4), 5, 2, 4),
            "Label": ragged(np.array([[1], [2], [2], [3], [1]], np.int32), 3, 0, 2),
        }
    else:
        inputs = {
            "Logits": wave(5, 3, 4),
            "Label": np.array([[1, 2, 2], [3, 1, 0], [2, 2, 2]], np.int32),
            "LogitsLength": np.array([5, 3, 5]),
            "LabelLength": np.array([3, 2, 3]),
        }
    gradcheck("warpctc", inputs, outputs=["Loss"], rtol=1e-5)


def test_long_input_neither_underflows_nor_warns() -> None:
    rng = np.random.default_rng(0)
    logits = (30 * rng.standard_normal((400, 2, 6))).astype(np.float32)
    label = rng.integers(1, 6, (2, 60)).astype(np.int32)
    loss, made = run("warpctc", logits, label, np.array([400, 390]), np.array([60, 50]))
    assert np.isfinite(loss).all() and np.isfinite(made).all() and loss.dtype == made.dtype == np.float32
    np.testing.assert_allclose(made.sum(axis=2), 0, atol=1e-4)


def test_gradient_is_made_only_if_read() -> None:
    _, made = run("warpctc", wave(3, 1, 3), np.array([[1]]), np.array([3]), np.array([1]), want=frozenset({"Loss"}))
    assert made is None


def test_ctc_refuses_what_does_not_fit() -> None:
    logits, times, sizes = wave(3, 1, 3), np.array([3]), np.array([1])
    with pytest.raises(ValueError, match="blank is 3"):
        run("warpctc", logits, np.array([[1]]), times, sizes, blank=3)
    with pytest.raises(ValueError, match="Label must lie in \\[0, 3\\)"):
        run("warpctc", logits, np.array([[3]]), times, sizes)
    with pytest.raises(ValueError, match="LogitsLength must give 1 lengths of at most 3"):
        run("warpctc", logits, np.array([[1]]), np.array([4]), sizes)
    with pytest.raises(ValueError, match="LabelLength must be given"):
        run("warpctc", logits, np.array([[1]]), times, None)


def log_probs(*shape: int) -> Any:
    x = wave(*shape)
    return x - np.log(np.exp(x).sum(axis=-1, keepdims=True))


def test_transducer_loss_as_paddle() -> None:
    """The input holds log-probabilities; FastEmit scales the gradient of labels, not the loss."""
    inputs = (
        log_probs(1, 3, 2, 3),
        np.array([[2]], np.int32),
        np.array([3], np.int32),
        np.array([1], np.int32),
    )
    loss, made = run("warprnnt", *inputs, fastemit_lambda=0.5)
    np.testing.assert_allclose(loss, [3.856030349], atol=1e-8)
    np.testing.assert_allclose(made[0, 0], [[-0.322483119, 0, -1.016275321], [-0.677516881, 0, 0]], atol=1e-8)
    np.testing.assert_allclose(made[0, 2], [[0, 0, -0.196322991], [-1, 0, 0]], atol=1e-8)
    plain, unscaled = run("warprnnt", *inputs)
    np.testing.assert_array_equal(plain, loss)
    np.testing.assert_allclose(unscaled[0, 0, 0, 2], made[0, 0, 0, 2] / 1.5)


def test_transducer_gradient(gradcheck: Callable[..., Any]) -> None:
    inputs = {
        "input": log_probs(3, 4, 3, 4),
        "label": np.array([[1, 2], [3, 3], [2, 1]], np.int32),
        "input_lengths": np.array([4, 3, 1], np.int32),
        "label_lengths": np.array([2, 1, 0], np.int32),
    }
    gradcheck("warprnnt", inputs, outputs=["loss"], rtol=1e-5)


def test_transducer_refuses_lengths_out_of_range() -> None:
    with pytest.raises(ValueError, match="label_lengths must be 1 numbers in \\[0, 1\\]"):
        run("warprnnt", log_probs(1, 3, 2, 3), np.array([[2]]), np.array([3]), np.array([2]))


def test_align_merges_and_drops_blanks() -> None:
    x = ragged(np.array([[0], [1], [1], [0], [1], [2], [2]]), 4, 0, 3)
    out, length = run("ctc_align", x, None)
    assert out.array[:, 0].tolist() == [1, 1, 2] and out.lengths() == [[1, 0, 2]] and length is None
    out, _ = run("ctc_align", x, None, merge_repeated=False)
    assert out.lengths() == [[2, 0, 3]]
    out, _ = run("ctc_align", ragged(np.zeros((2, 1), np.int32), 1, 1), None)
    assert out.array.tolist() == [[-1]] and out.lengths() == [[0, 0]]


def test_align_padded() -> None:
    x = np.array([[0, 3, 3, 0, 3], [3, 3, 0, 2, 2]], np.int32)
    out, length = run("ctc_align", x, np.array([[5], [3]], np.int32), padding_value=-1)
    assert out.tolist() == [[3, 3, -1, -1, -1], [3, -1, -1, -1, -1]] and out.dtype == np.int32
    assert length.tolist() == [[2], [1]]
    out, _ = run("ctc_align", x, np.array([[5], [5]], np.int32), blank=3)
    assert out.tolist() == [[0, 0, 0, 0, 0], [0, 2, 0, 0, 0]]


def test_edit_distance() -> None:
    kitten, sitting = [[ord(c)] for c in "kitten"], [[ord(c)] for c in "sitting"]
    hyps, refs = (
        ragged(np.array([*kitten, [7], [8]]), 6, 0, 2),
        ragged(np.array([*sitting, [8], [7]]), 7, 1, 1),
    )
    count, distance = run("edit_distance", hyps, refs, None, None)
    assert distance.tolist() == [[3], [1], [1]] and distance.dtype == np.float32
    assert count.tolist() == [3] and count.dtype == np.int64
    _, share = run("edit_distance", hyps, refs, None, None, normalized=True)
    np.testing.assert_allclose(share[:, 0], [3 / 7, 1, 1], rtol=1e-6)


def test_edit_distance_of_padded_pairs() -> None:
    hyps, refs = np.array([[1, 2, 3], [1, 1, 1]]), np.array([[1, 3], [2, 2]])
    _, distance = run("edit_distance", hyps, refs, np.array([3, 1]), np.array([2, 2]))
    assert distance.tolist() == [[1], [2]]
    with pytest.raises(ValueError, match="a sequence of Refs is empty"):
        run("edit_distance", hyps, refs, np.array([3, 1]), np.array([2, 0]), normalized=True)
    with pytest.raises(ValueError, match="Hyps has 2 sequences, Refs has 1"):
        run("edit_distance", hyps, refs[:1], np.array([3, 1]), np.array([2]))
