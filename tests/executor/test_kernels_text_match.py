"""Text matching over ragged pairs: numbers of PaddlePaddle 2.6.2, gradients, refusals."""

from __future__ import annotations

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


def test_match_matrix_as_paddle() -> None:
    out, product = run(
        "match_matrix_tensor",
        ragged(wave(3, 2), 2, 1),
        ragged(wave(3, 2, k=1), 1, 2),
        wave(2, 2, 2, k=2),
        dim_t=2,
    )
    want = [
        -0.99074435,
        -0.15586716,
        0.3244931,
        -0.57675195,
        0.45802495,
        -0.78206146,
        -0.057969354,
        0.50084513,
    ]
    np.testing.assert_allclose(out.array[:, 0], want, atol=1e-7)
    np.testing.assert_allclose(product[:3, 0], [-0.6417469, -0.45452154, -0.05352766], atol=1e-7)
    assert out.lengths() == [[4, 4]] and product.shape == (12, 1)
    with pytest.raises(ValueError, match="X has 2 sequences, Y has 1"):
        run("match_matrix_tensor", ragged(wave(3, 2), 2, 1), ragged(wave(3, 2), 3), wave(2, 2, 2), dim_t=2)
    with pytest.raises(ValueError, match="W must have shape"):
        run("match_matrix_tensor", ragged(wave(3, 2), 3), ragged(wave(3, 2), 3), wave(2, 2, 2), dim_t=1)


def test_match_matrix_gradient(gradcheck: Callable[..., Any]) -> None:
    gradcheck(
        "match_matrix_tensor",
        {"X": ragged(wave(6, 3), 2, 0, 4), "Y": ragged(wave(5, 2, k=1), 1, 2, 2), "W": wave(3, 2, 2, k=2)},
        {"dim_t": 2},
        outputs=["Out"],
    )


CONV = {"InputChannel": 1, "OutputChannel": 1, "StrideH": 1, "StrideW": 2, "KernelH": 2, "KernelW": 3}


def test_var_conv_as_paddle() -> None:
    """Images of 2 x 3 and 1 x 2."""
    x, row, column = ragged(wave(8, 1), 6, 2), ragged(wave(3, 1), 2, 1), ragged(wave(5, 1), 3, 2)
    out, columns = run("var_conv_2d", x, row, column, wave(1, 6, k=1), **CONV)
    want = [-0.6297422, -0.5761682, -0.42047715, 1.7478849, 1.4936576]
    np.testing.assert_allclose(out.array[:, 0], want, atol=1e-6)
    assert out.lengths() == [[4, 1]] and columns.lengths() == [[24, 6]]
    np.testing.assert_allclose(columns.array[-2:, 0], [-0.8715758, -0.98245263], atol=1e-7)
    with pytest.raises(ValueError, match="W must have shape \\[1, 6\\]"):
        run("var_conv_2d", x, row, column, wave(1, 5), **CONV)
    with pytest.raises(ValueError, match="X has 7 numbers"):
        run("var_conv_2d", ragged(wave(7, 1), 5, 2), row, column, wave(1, 6), **CONV)


def test_var_conv_gradient(gradcheck: Callable[..., Any]) -> None:
    gradcheck(
        "var_conv_2d",
        {
            "X": ragged(wave(20, 1), 12, 0, 8),
            "ROW": ragged(wave(7, 1), 3, 0, 4),
            "COLUMN": ragged(wave(3, 1), 2, 0, 1),
            "W": wave(3, 12, k=1),
        },
        {"InputChannel": 2, "OutputChannel": 3, "KernelH": 3, "KernelW": 2, "StrideH": 2},
        wrt=["X", "W"],
        outputs=["Out"],
    )


def test_similarity_focus_matches_greedily() -> None:
    x = np.array([[[[0.8, 0.1], [0.4, 0.5]], [[0.9, 0.7], [0.9, 0.9]]]])
    out = run("similarity_focus", x, axis=1, indexes=[0])
    assert out.tolist() == [[[[1, 0], [0, 1]], [[1, 0], [0, 1]]]] and out.dtype == x.dtype
    both = run(
        "similarity_focus",
        np.array([[[[3.0, 1.0], [2.0, 0.0]], [[1.0, 3.0], [0.0, 2.0]]]]),
        axis=1,
        indexes=[0, 1],
    )
    assert both.tolist() == np.ones((1, 2, 2, 2)).tolist()
    with pytest.raises(ValueError, match="indexes must lie in"):
        run("similarity_focus", x, axis=1, indexes=[2])
    with pytest.raises(ValueError, match="axis be 1, 2 or 3"):
        run("similarity_focus", x, axis=0, indexes=[0])


def topk_inputs() -> dict[str, Any]:
    """Pairs of 1 x 3 and 2 x 1, two channels."""
    numbers = np.array([5.0, 1.0, 3.0, 2.0, 6.0, 4.0, 7.0, 8.0, 9.0, 10.0])
    return {
        "X": ragged(numbers[:, None], 6, 4),
        "ROW": ragged(wave(3, 1), 1, 2),
        "COLUMN": ragged(wave(4, 1), 3, 1),
    }


def test_topk_average_pooling() -> None:
    out, places = run("sequence_topk_avg_pooling", *topk_inputs().values(), topks=[1, 2], channel_num=2)
    assert out.array.tolist() == [[5, 4, 6, 5], [7, 3.5, 9, 4.5], [8, 4, 10, 5]] and out.lengths() == [[1, 2]]
    assert places.reshape(3, 2, 2).tolist() == [[[0, 2], [1, 2]], [[0, -1], [0, -1]], [[0, -1], [0, -1]]]
    assert places.dtype == np.int32


def test_topk_average_pooling_gradient(gradcheck: Callable[..., Any]) -> None:
    gradcheck("sequence_topk_avg_pooling", topk_inputs(), {"topks": [1, 3], "channel_num": 2}, wrt=["X"])
