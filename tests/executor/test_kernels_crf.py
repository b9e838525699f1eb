"""Conditional random fields, Viterbi decoding and chunk scores: numbers of PaddlePaddle 2.6.2 and by hand."""

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


def test_likelihood_of_ragged_sequences_as_paddle() -> None:
    emission, transition = ragged(wave(3, 2), 2, 1), wave(4, 2, k=1)
    label = ragged([[0], [1], [1]], 2, 1)
    alpha, exps, moves, loss = run("linear_chain_crf", emission, transition, label, None)
    np.testing.assert_allclose(loss, [[2.58751667], [1.439895188]], atol=1e-8)
    np.testing.assert_allclose(
        alpha.array,
        [[0.311222218, 0.688777782], [0.464406911, 0.535593089], [0.630783045, 0.369216955]],
        atol=1e-9,
    )
    d_emission, d_transition = run(
        "linear_chain_crf_grad", emission, transition, label, None, alpha, exps, moves, np.ones((2, 1))
    )
    np.testing.assert_allclose(d_emission.array[:, 0], [-0.693882114, 0.620405316, 0.763047407], atol=1e-9)
    np.testing.assert_allclose(
        d_transition.reshape(-1),
        [
            0.069165293,
            -0.069165293,
            1.383452723,
            -1.383452723,
            0.230911314,
            -0.924793429,
            0.389494002,
            0.304388113,
        ],
        atol=1e-9,
    )


def test_likelihood_of_padded_sequences_as_paddle() -> None:
    label = np.array([[0, 1, 1], [1, 0, 0]])
    *_, loss = run("linear_chain_crf", wave(2, 3, 2), wave(4, 2, k=1), label, np.array([[3], [1]]))
    np.testing.assert_allclose(loss, [[3.456201299], [1.033982533]], atol=1e-9)


@pytest.mark.parametrize("padded", [False, True])
def test_likelihood_gradient(gradcheck: Callable[..., Any], padded: bool) -> None:
    labels = np.array([[0, 2, 1, 1], [1, 0, 0, 0], [2, 1, 0, 0]])
    if padded:
        inputs: dict[str, Any] = {"Emission": wave(3, 4, 3), "Label": labels, "Length": np.array([4, 1, 3])}
    else:
        inputs = {
            "Emission": ragged(wave(8, 3), 4, 0, 1, 3),
            "Label": ragged(labels.reshape(-1, 1)[:8], 4, 0, 1, 3),
        }
    gradcheck("linear_chain_crf", {**inputs, "Transition": wave(5, 3, k=1)}, outputs=["LogLikelihood"], rtol=1e-5)


def test_likelihood_does_not_overflow() -> None:
    emission = ragged(np.array([[800.0, 0.0], [0.0, 900.0]]), 2)
    *_, loss = run("linear_chain_crf", emission, np.zeros((4, 2)), ragged([[0], [1]], 2), None)
    np.testing.assert_allclose(loss, [[0.0]], atol=1e-9)


def test_crf_refuses_what_does_not_fit() -> None:
    emission, label = ragged(wave(3, 2), 2, 1), ragged([[0], [1], [1]], 2, 1)
    with pytest.raises(ValueError, match="Transition must have shape \\[4, 2\\]"):
        run("linear_chain_crf", emission, wave(2, 2), label, None)
    with pytest.raises(ValueError, match="Label must lie in \\[0, 2\\)"):
        run("linear_chain_crf", emission, wave(4, 2), ragged([[0], [2], [1]], 2, 1), None)
    with pytest.raises(ValueError, match="Length must give 2 lengths in \\[0, 3\\]"):
        run("linear_chain_crf", wave(2, 3, 2), wave(4, 2), np.zeros((2, 3), int), np.array([3, 4]))


def best_path(scores: Any, start: Any, stop: Any, moves: Any) -> tuple[float, list[int]]:
    """By trying all of them."""
    steps, tags = scores.shape

    def score(path: tuple[int, ...]) -> float:
        walked = sum(moves[a, b] for a, b in itertools.pairwise(path))
        return float(start[path[0]] + stop[path[-1]] + walked + sum(scores[range(steps), path]))

    path = max(itertools.product(range(tags), repeat=steps), key=score)
    return score(path), list(path)


def test_decoding_finds_the_best_path() -> None:
    rng = np.random.default_rng(0)
    emission, transition = rng.standard_normal((9, 3)), rng.standard_normal((5, 3))
    path = run("crf_decoding", ragged(emission, 4, 0, 1, 4), transition, None, None)
    assert path.lengths() == [[4, 0, 1, 4]] and path.array.dtype == np.int64 and path.shape == (9, 1)
    for begin, end in ((0, 4), (4, 5), (5, 9)):
        _, want = best_path(emission[begin:end], transition[0], transition[1], transition[2:])
        assert path.array[begin:end, 0].tolist() == want
    padded = np.stack([emission[:4], emission[5:9]])
    got = run("crf_decoding", padded, transition, None, np.array([[4], [2]]))
    assert got[0].tolist() == path.array[:4, 0].tolist() and got[1, 2:].tolist() == [0, 0]


def test_decoding_with_labels_marks_agreement() -> None:
    emission, transition = ragged(wave(5, 3), 3, 2), wave(5, 3, k=1)
    assert run("crf_decoding", emission, transition, None, None).array[:, 0].tolist() == [1, 1, 0, 1, 0]
    label = ragged([[1], [2], [0], [0], [0]], 3, 2)
    assert run("crf_decoding", emission, transition, label, None).array[:, 0].tolist() == [1, 0, 1, 0, 1]


@pytest.mark.parametrize(
    ("tags", "scores", "path"),
    [
        (True, [3.523042586, 0.457086818], [[0, 0, 2], [3, 0, 0]]),
        (False, [2.964429023, 0.669569762], [[2, 0, 2], [3, 0, 0]]),
    ],
)
def test_viterbi_decode_as_paddle(tags: bool, scores: list[float], path: list[list[int]]) -> None:
    got, found = run("viterbi_decode", wave(2, 4, 4), wave(4, 4, k=1), np.array([3, 1]), include_bos_eos_tag=tags)
    np.testing.assert_allclose(got, scores, atol=1e-9)
    assert found.tolist() == path and found.dtype == np.int64


def test_viterbi_takes_the_first_of_equal_tags() -> None:
    nothing = np.zeros((1, 3, 2), np.float32), np.zeros((2, 2), np.float32), np.array([3])
    _, path = run("viterbi_decode", *nothing, include_bos_eos_tag=False)
    assert path.tolist() == [[0, 0, 0]]


def chunks(inference: list[int], label: list[int], **attrs: Any) -> list[float]:
    value = [ragged(np.array(side)[:, None], len(side)) for side in (inference, label)]
    return [float(each[0]) for each in run("chunk_eval", *value, None, **attrs)]


def test_chunks_of_every_scheme() -> None:
    """One type; the other label is outside of chunks. Counts are found, there, and agreeing."""
    assert chunks([0, 1, 2, 0], [0, 1, 2, 0], num_chunk_types=1, chunk_scheme="IOB")[3:] == [2, 2, 2]
    assert chunks([0, 0, 1], [0, 1, 1], num_chunk_types=1, chunk_scheme="IOB")[3:] == [2, 1, 0]
    assert chunks([0, 1, 0, 1], [0, 0, 0, 1], num_chunk_types=1, chunk_scheme="IOE")[3:] == [2, 1, 0]
    assert chunks([3, 0, 1, 2], [0, 2, 3, 4], num_chunk_types=1, chunk_scheme="IOBES")[3:] == [2, 2, 0]
    assert chunks([0, 0, 1, 0], [0, 0, 1, 1], num_chunk_types=1, chunk_scheme="plain")[3:] == [2, 1, 1]


def test_chunk_scores_and_excluded_types() -> None:
    inference, label = [0, 2, 4, 0], [0, 2, 4, 2]
    precision, recall, f1, *counts = chunks(inference, label, num_chunk_types=2)
    assert counts == [3, 3, 2] and precision == recall
    np.testing.assert_allclose([precision, f1], [2 / 3, 2 / 3], rtol=1e-6)
    assert chunks(inference, label, num_chunk_types=2, excluded_chunk_types=[0])[3:] == [1, 2, 1]
    assert chunks([4], [4], num_chunk_types=2) == [0] * 6


def test_chunks_end_with_their_sequence() -> None:
    both = ragged(np.array([[0], [1], [1]]), 2, 1)
    assert [int(n[0]) for n in run("chunk_eval", both, both, None, num_chunk_types=1)[3:]] == [2, 2, 2]
    padded = np.array([[0, 1, 0], [0, 0, 0]])
    counts = run("chunk_eval", padded, padded, np.array([2, 1]), num_chunk_types=1)[3:]
    assert [int(n[0]) for n in counts] == [2, 2, 2] and counts[0].dtype == np.int64
    with pytest.raises(ValueError, match="chunk_scheme is 'BIO'"):
        run("chunk_eval", both, both, None, num_chunk_types=1, chunk_scheme="BIO")
