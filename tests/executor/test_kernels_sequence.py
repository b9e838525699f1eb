"""Sequence operators over ragged batches: literal results, LoD of the results, refusals, gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import oarlock.executor.kernels  # noqa: F401  (declares the operators)
import pytest
from oarlock.executor.values import LoDTensor, array_of
from oarlock.ir.desc import OpDesc
from oarlock.ir.registry import lookup


def wave(*shape: int, k: float = 0) -> Any:
    return np.sin(np.arange(int(np.prod(shape))) * 0.7 + k).reshape(shape)


def ragged(array: Any, *levels: list[int]) -> LoDTensor:
    return LoDTensor.from_lengths(np.asarray(array), levels)


def column(*values: Any) -> Any:
    return np.array(values)[:, None]


def run(type: str, *inputs: Any, **attrs: Any) -> Any:
    return lookup(type)(*inputs, **attrs)


def rows(value: Any) -> list[Any]:
    return array_of(value).reshape(array_of(value).shape[0], -1)[:, 0].tolist()


def test_concat_joins_sequence_by_sequence() -> None:
    out = run("sequence_concat", [ragged(column(1, 2, 3), [2, 1]), ragged(column(7, 8, 9), [0, 3])])
    assert rows(out) == [1, 2, 3, 7, 8, 9] and out.lengths() == [[2, 4]]
    with pytest.raises(ValueError, match="same number of sequences"):
        run("sequence_concat", [ragged(column(1), [1]), ragged(column(1), [1, 0])])


def test_expand_repeats_sequences_or_rows() -> None:
    y = ragged(column(*range(5)), [2, 1], [2, 0, 3])
    out = run("sequence_expand", ragged(column(1, 2, 3), [1, 2]), y, ref_level=0)
    assert rows(out) == [1, 1, 2, 3] and out.lengths() == [[1, 1, 2]]
    plain = run("sequence_expand", column(1, 2, 3), y)
    assert isinstance(plain, np.ndarray) and rows(plain) == [1, 1, 3, 3, 3]
    with pytest.raises(ValueError, match="X has 2 sequence"):
        run("sequence_expand", column(1, 2), y)


def test_expand_as_repeats_each_row() -> None:
    out = run("sequence_expand_as", column(1, 2, 3), ragged(column(*range(4)), [3, 0, 1]))
    assert rows(out) == [1, 1, 1, 3] and out.lengths() == [[3, 0, 1]]
    with pytest.raises(ValueError, match="X has 2 row"):
        run("sequence_expand_as", column(1, 2), ragged(column(1), [1]))


def test_pad_and_unpad() -> None:
    x = ragged(column(1, 2, 3), [1, 0, 2])
    out, length = run("sequence_pad", x, np.array([9]))
    assert out[..., 0].tolist() == [[1, 9], [9, 9], [2, 3]]
    assert length.tolist() == [1, 0, 2] and length.dtype == np.int64
    assert run("sequence_pad", x, np.array([9]), padded_length=4)[0].shape == (3, 4, 1)
    back = run("sequence_unpad", out, length)
    assert rows(back) == [1, 2, 3] and back.lengths() == [[1, 0, 2]]
    assert run("sequence_unpad", out[..., 0], length).shape == (3, 1)
    with pytest.raises(ValueError, match="padded_length is 1, the longest sequence of X has 2"):
        run("sequence_pad", x, np.array([9]), padded_length=1)
    with pytest.raises(ValueError, match="must lie in \\[0, 2\\]"):
        run("sequence_unpad", out, np.array([1, 0, 3]))
    with pytest.raises(ValueError, match="one length for each sequence"):
        run("sequence_unpad", out, np.array([[1], [0], [2]]))


def test_pad_value_of_a_rows_shape() -> None:
    out, _ = run("sequence_pad", ragged(wave(3, 2), [1, 2]), np.array([7.0, 8.0]))
    assert out[0, 1].tolist() == [7, 8]
    with pytest.raises(ValueError, match="PadValue must be one value"):
        run("sequence_pad", ragged(wave(3, 2), [1, 2]), np.array([7.0, 8.0, 9.0]))


def test_reshape_moves_the_lod_with_the_rows() -> None:
    out = run("sequence_reshape", ragged(np.arange(12).reshape(3, 4), [1, 2]), new_dim=2)
    assert out.shape == (6, 2) and out.lengths() == [[2, 4]]
    with pytest.raises(ValueError, match="new_dim is 8"):
        run("sequence_reshape", ragged(np.arange(12).reshape(3, 4), [1, 2]), new_dim=8)


def test_reverse_within_sequences() -> None:
    out = run("sequence_reverse", ragged(column(1, 2, 3, 4), [3, 0, 1]))
    assert rows(out) == [3, 2, 1, 4] and out.lengths() == [[3, 0, 1]]


def test_slice_takes_its_offset_per_sequence() -> None:
    x = ragged(column(1, 2, 3, 4, 5), [3, 2])
    out = run("sequence_slice", x, column(1, 0), column(2, 1))
    assert rows(out) == [2, 3, 4] and out.lengths() == [[2, 1]]
    with pytest.raises(ValueError, match="within the sequences"):
        run("sequence_slice", x, column(2, 0), column(2, 1))


def test_scatter_adds_where_ids_say() -> None:
    ids = ragged(column(1, 1, 0), [2, 1])
    out = run("sequence_scatter", np.ones((2, 3)), ids, ragged(column(2.0, 3.0, 4.0), [2, 1]))
    assert out.tolist() == [[1, 6, 1], [5, 1, 1]]


def test_lod_reset_takes_y_or_offsets_or_the_attribute() -> None:
    x = ragged(column(1, 2, 3), [1, 2])
    assert run("lod_reset", x, None, target_lod=[0, 2, 3]).lengths() == [[2, 1]]
    assert run("lod_reset", x, np.array([0, 3], np.int32)).lengths() == [[3]]
    two = ragged(column(*range(3)), [1, 1], [2, 1])
    assert run("lod_reset", x, two, target_lod=[0, 3]).lengths() == [[1, 1], [2, 1]]
    assert run("lod_reset", x, None, target_lod=[0, 1, 2, 3], append=True).lengths() == [[1, 2], [1, 1, 1]]
    for wrong in ([0], [1, 3], [0, 2], [0, 2, 1, 3]):
        with pytest.raises(ValueError, match="target_lod must rise from 0 to 3"):
            run("lod_reset", x, None, target_lod=wrong)


POOLED = {
    "AVERAGE": [0.44014596, 0.385547942],
    "SUM": [1.32043788, 1.156643826],
    "SQRT": [0.762355166, 0.667788624],
    "MAX": [0.98544973, 0.863209367],
    "FIRST": [0.0, 0.644217687],
    "LAST": [0.33498815, -0.350783228],
}


@pytest.mark.parametrize("pooltype", POOLED)
def test_pool_as_paddle(pooltype: str) -> None:
    """The second sequence is empty and gets the pad value."""
    out, index = run("sequence_pool", ragged(wave(4, 2), [3, 0, 1]), pooltype=pooltype, pad_value=0.5)
    np.testing.assert_allclose(out, [POOLED[pooltype], [0.5, 0.5], [-0.871575772, -0.982452613]], atol=1e-9)
    assert (index is not None) == (pooltype == "MAX")
    if index is not None:
        assert index.tolist() == [[1, 1], [-1, -1], [3, 3]] and index.dtype == np.int32


def test_pool_keeps_the_outer_level_and_takes_the_first_of_equals() -> None:
    out, index = run("sequence_pool", ragged(column(1.0, 2.0, 2.0), [1, 1], [2, 1]), pooltype="MAX")
    assert out.lengths() == [[1, 1]]
    _, index = run("sequence_pool", ragged(column(2.0, 2.0, 1.0), [3]), pooltype="MAX")
    assert index.tolist() == [[0]]
    with pytest.raises(ValueError, match="pooltype is 'MEDIAN'"):
        run("sequence_pool", ragged(column(1.0), [1]), pooltype="MEDIAN")


def test_pool_gradient_op_reads_max_index_only_for_max() -> None:
    for pooltype, slots in (("MAX", {"X", "MaxIndex", "Out@GRAD"}), ("SUM", {"X", "Out@GRAD"})):
        op = OpDesc("sequence_pool", {"X": ["x"]}, {"Out": ["o"], "MaxIndex": ["m"]}, {"pooltype": pooltype})
        maker = lookup("sequence_pool").grad_maker
        assert maker is not None
        assert set(maker(op, frozenset())[0].inputs) == slots


def test_half_precision_sums_in_float32() -> None:
    x = ragged(np.full((4096, 1), 1.0, np.float16), [4096])
    out, _ = run("sequence_pool", x, pooltype="AVERAGE")
    assert out.dtype == np.float16 and out.tolist() == [[1.0]]


def test_softmax_over_each_sequence() -> None:
    out = run("sequence_softmax", ragged(column(0.0, 0.0, 5.0, 1e4, 0.0), [2, 0, 1, 2]))
    np.testing.assert_allclose(rows(out), [0.5, 0.5, 1, 1, 0], atol=1e-12)
    with pytest.raises(ValueError, match="rows of one number"):
        run("sequence_softmax", ragged(wave(3, 2), [3]))


def test_conv_with_trainable_padding_as_paddle() -> None:
    x = ragged(wave(4, 2).astype(np.float32), [3, 1])
    padding, filter = wave(2, 2, k=5).astype(np.float32), wave(6, 1, k=1).astype(np.float32)
    attrs = {"contextLength": 3, "contextStart": -1}
    out = run("sequence_conv", x, padding, filter, paddingTrainable=True, **attrs)
    np.testing.assert_allclose(rows(out), [-2.7729836, 1.4783119, 1.1130273, -2.7664716], rtol=1e-6)
    ones = ragged(np.ones((4, 1), np.float32), [3, 1])
    d_x, d_padding, d_filter = run("sequence_conv_grad", x, padding, filter, ones, paddingTrainable=True, **attrs)
    np.testing.assert_allclose(d_padding, [[1.6829419, 1.9833297], [-1.2237158, -1.9550602]], rtol=1e-5)
    np.testing.assert_allclose(d_x.array[2], [0.06360531, -0.93594944], rtol=1e-5)
    np.testing.assert_allclose(d_filter[:2, 0], [-0.93239886, 0.406056], rtol=1e-5)
    bare = run("sequence_conv", x, None, filter, **attrs)
    zero = run("sequence_conv", x, np.zeros_like(padding), filter, paddingTrainable=True, **attrs)
    np.testing.assert_array_equal(bare.array, zero.array)


def test_conv_stride_is_refused_in_the_declaration() -> None:
    assert lookup("sequence_conv").refuse == {"contextStride": 1}
    with pytest.raises(ValueError, match="Filter must have contextLength \\* width = 4 rows"):
        run("sequence_conv", ragged(wave(3, 2), [3]), None, wave(6, 1), contextLength=2)


def test_row_conv_looks_ahead_as_paddle() -> None:
    x, filter = wave(4, 2).astype(np.float32), wave(2, 2, k=1).astype(np.float32)
    out = run("row_conv", ragged(x, [3, 1]), filter)
    np.testing.assert_allclose(
        out.array.reshape(-1),
        [0.66563505, 0.67474085, 1.0554996, 0.8414286, 0.2818828, -0.34785938, -0.7334057, -0.9742637],
        rtol=1e-5,
    )
    padded = run("row_conv", x[None], filter)
    assert isinstance(padded, np.ndarray)
    np.testing.assert_allclose(padded, run("row_conv", ragged(x, [4]), filter).array[None])
    with pytest.raises(ValueError, match="three dimensions"):
        run("row_conv", x, filter)


def test_enumerate_windows_and_erase_tokens() -> None:
    out = run("sequence_enumerate", ragged(column(1, 2, 3, 4), [3, 1]), win_size=2, pad_value=9)
    assert out.array.tolist() == [[1, 2], [2, 3], [3, 9], [4, 9]] and out.array.dtype == np.int64
    with pytest.raises(ValueError, match="win_size is 1"):
        run("sequence_enumerate", ragged(column(1), [1]), win_size=1)
    kept = run("sequence_erase", ragged(column(1, 2, 3, 2), [1, 2], [2, 1, 1]), tokens=[2, 7])
    assert rows(kept) == [1, 3] and kept.lengths() == [[1, 2], [1, 1, 0]]


def test_im2sequence_reads_windows_row_by_row() -> None:
    image = np.arange(6.0).reshape(1, 1, 2, 3)
    out = run("im2sequence", image, None, kernels=[2, 2], strides=[1, 1], paddings=[0, 0, 0, 1])
    assert out.array.tolist() == [[0, 1, 3, 4], [1, 2, 4, 5], [2, 0, 5, 0]] and out.lengths() == [[3]]
    with pytest.raises(ValueError, match="larger than an image"):
        run("im2sequence", image, None, kernels=[3, 3])


def test_im2sequence_takes_the_real_part_of_each_image() -> None:
    images = np.arange(16.0).reshape(2, 1, 2, 4)
    real = np.array([[4.0, 8.0], [2.0, 3.0]], np.float32)
    out = run("im2sequence", images, real, kernels=[1, 2], out_stride=[2, 2])
    assert out.lengths() == [[6, 1]]
    assert out.array[:2].tolist() == [[0, 1], [1, 2]] and out.array[6].tolist() == [8, 9]


def test_filter_by_instag_keeps_tagged_instances() -> None:
    tags = ragged(column(1, 2, 3, 1), [2, 1, 1])
    out, weight, index_map = run("filter_by_instag", wave(3, 2), tags, np.array([1]), is_lod=False)
    np.testing.assert_array_equal(out.array, wave(3, 2)[[0, 2]])
    assert weight.array.tolist() == [[1], [1]] and index_map.array.tolist() == [[0, 0, 1], [1, 2, 1]]
    d_ins = run("filter_by_instag_grad", wave(3, 2), weight, index_map, np.ones((2, 2)))
    assert d_ins.tolist() == [[1, 1], [0, 0], [1, 1]]
    out, weight, _ = run("filter_by_instag", ragged(wave(3, 2), [1, 1, 1]), tags, np.array([9]), out_val_if_empty=5)
    assert out.array.tolist() == [[5, 5]] and weight.array.tolist() == [[0]]


def test_a_plain_tensor_is_refused() -> None:
    with pytest.raises(ValueError, match="X must carry a LoD"):
        run("sequence_pool", wave(3, 2))
    with pytest.raises(ValueError, match="does not cover them in order"):
        run("sequence_pool", LoDTensor(wave(3, 2), [[0, 2]]))


def test_no_sequences_and_no_rows() -> None:
    nothing = LoDTensor(np.zeros((0, 2)), [[0]])
    hollow = LoDTensor(np.zeros((0, 2)), [[0, 0, 0]])
    for pooltype in POOLED:
        assert run("sequence_pool", nothing, pooltype=pooltype)[0].shape == (0, 2)
        assert run("sequence_pool", hollow, pooltype=pooltype, pad_value=1.0)[0].tolist() == [[1, 1], [1, 1]]
    assert run("sequence_reverse", hollow).lengths() == [[0, 0]]
    assert run("sequence_pad", hollow, np.array([0.0]))[0].shape == (2, 0, 2)


X = LoDTensor.from_lengths(wave(9, 2), [[4, 0, 3, 2]])
GRADIENTS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("sequence_concat", {"X": [X, ragged(wave(5, 2), [1, 2, 0, 2])]}, {}),
    ("sequence_expand", {"X": wave(4, 2), "Y": X}, {}),
    ("sequence_expand", {"X": ragged(wave(5, 2), [2, 1, 0, 2]), "Y": X}, {"ref_level": 0}),
    ("sequence_expand_as", {"X": wave(4, 2), "Y": X}, {}),
    ("sequence_pad", {"X": X, "PadValue": np.array([1.0])}, {"padded_length": 5}),
    ("sequence_unpad", {"X": wave(3, 4, 2), "Length": np.array([2, 0, 4])}, {}),
    ("sequence_reshape", {"X": X}, {"new_dim": 1}),
    ("sequence_reverse", {"X": X}, {}),
    ("sequence_slice", {"X": X, "Offset": column(1, 0, 0, 1), "Length": column(2, 0, 3, 1)}, {}),
    (
        "sequence_scatter",
        {"X": wave(2, 4), "Ids": ragged(column(1, 1, 3), [2, 1]), "Updates": ragged(wave(3, 1), [2, 1])},
        {},
    ),
    ("lod_reset", {"X": X}, {"target_lod": [0, 4, 9]}),
    *(("sequence_pool", {"X": X}, {"pooltype": pooltype}) for pooltype in POOLED),
    ("sequence_softmax", {"X": ragged(wave(9, 1), [4, 0, 3, 2])}, {}),
    ("sequence_conv", {"X": X, "Filter": wave(6, 2)}, {"contextLength": 3, "contextStart": -2}),
    (
        "sequence_conv",
        {"X": X, "PaddingData": wave(3, 2), "Filter": wave(6, 2)},
        {"contextLength": 3, "contextStart": 1, "paddingTrainable": True},
    ),
    ("row_conv", {"X": X, "Filter": wave(3, 2)}, {}),
    ("row_conv", {"X": wave(2, 4, 3), "Filter": wave(3, 3)}, {}),
    (
        "im2sequence",
        {"X": wave(2, 2, 4, 5)},
        {"kernels": [2, 3], "strides": [2, 1], "paddings": [1, 0, 2, 1]},
    ),
]


@pytest.mark.parametrize(("type", "inputs", "attrs"), GRADIENTS)
def test_gradient(gradcheck: Callable[..., Any], type: str, inputs: dict[str, Any], attrs: dict[str, Any]) -> None:
    wrt = [slot for slot in ("X", "Filter", "PaddingData", "Updates") if slot in inputs]
    gradcheck(type, inputs, attrs, wrt=wrt)
