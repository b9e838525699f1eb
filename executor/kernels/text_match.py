"""Matching of text pairs: similarity matrices of two ragged batches, and convolution and pooling over them.

A matrix of every pair has its own size, so that batches of them are flat: one number a row, a sequence for
every pair, channel by channel.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...ir.registry import operator
from ..values import Array, LoDTensor, array_of
from .common import flattened
from .sequence_layout import Index, dress, lengths_of, offsets_of, same_lod, to_offsets

__all__ = ["match_matrix_tensor", "sequence_topk_avg_pooling", "similarity_focus", "var_conv_2d"]


def _spans(offsets: Index) -> Iterator[slice]:
    ends = offsets.tolist()
    return (slice(begin, end) for begin, end in zip(ends[:-1], ends[1:], strict=True))


def _paired(first: Any, second: Any, slots: tuple[str, str]) -> tuple[Index, Index]:
    offsets = offsets_of(first, slots[0]), offsets_of(second, slots[1])
    if offsets[0].size != offsets[1].size:
        raise ValueError(
            f"{slots[0]} has {offsets[0].size - 1} sequences, {slots[1]} has {offsets[1].size - 1}; they must agree"
        )
    return offsets


@operator("match_matrix_tensor", inputs="X Y W", outputs="Out Tmp", lod=True)
def match_matrix_tensor(x: Any, y: Any, w: Any, *, dim_t: int = 1) -> tuple[LoDTensor, Array]:
    """For every pair of sequences and each of ``dim_t`` channels the matrix ``x @ W[:, t] @ y^T``.

    W is ``[width of X, dim_t, width of Y]``. Tmp is the product of X and W, flat.
    """
    weight = array_of(w)
    if weight.ndim != 3 or weight.shape[1] != dim_t:
        raise ValueError(f"W must have shape [width, {dim_t}, width], it has {list(weight.shape)}")
    x_offsets, y_offsets = _paired(x, y, ("X", "Y"))
    left, right = array_of(x), array_of(y)
    product = (left @ weight.reshape(weight.shape[0], -1)).reshape(-1, dim_t, weight.shape[2])
    matrices = [
        (product[mine].swapaxes(0, 1) @ right[theirs].T).reshape(-1, 1)
        for mine, theirs in zip(_spans(x_offsets), _spans(y_offsets), strict=True)
    ]
    sizes = dim_t * lengths_of(x_offsets) * lengths_of(y_offsets)
    return dress(np.concatenate(matrices), to_offsets(sizes)), product.reshape(-1, 1)


@match_matrix_tensor.gradient(takes="X Y W Tmp Out@GRAD", gives="X@GRAD Y@GRAD W@GRAD")
def match_matrix_tensor_grad(x: Any, y: Any, w: Any, tmp: Any, d_out: Any, *, dim_t: int = 1) -> tuple[Any, Any, Array]:
    """Pair by pair to Y and to the product of X and W; from that to X and W at once."""
    weight, left, right = array_of(w), array_of(x), array_of(y)
    x_offsets, y_offsets = _paired(x, y, ("X", "Y"))
    product = array_of(tmp).reshape(left.shape[0], dim_t, weight.shape[2])
    d_product, d_y = np.zeros_like(product), np.zeros_like(right)
    grad = array_of(d_out).reshape(-1)
    begin = 0
    for mine, theirs in zip(_spans(x_offsets), _spans(y_offsets), strict=True):
        rows, columns = mine.stop - mine.start, theirs.stop - theirs.start
        matrix = grad[begin : begin + dim_t * rows * columns].reshape(dim_t, rows, columns)
        begin += matrix.size
        d_product[mine] = (matrix @ right[theirs]).swapaxes(0, 1)
        d_y[theirs] = np.einsum("trc,rtw->cw", matrix, product[mine])
    flat = d_product.reshape(left.shape[0], -1)
    d_x = flat @ weight.reshape(weight.shape[0], -1).T
    return same_lod(d_x, x), same_lod(d_y, y), (left.T @ flat).reshape(weight.shape)


@dataclass(frozen=True, slots=True)
class _VarConv:
    """The geometry of ``var_conv_2d``: sizes of the images and of what the kernel makes of them.

    Attributes:
        heights: of the images; ``widths``, ``down`` and ``across`` likewise (the latter two of the results).
        channels: of every image; ``kernel`` and ``stride`` are (vertical, horizontal).
    """

    heights: Index
    widths: Index
    down: Index
    across: Index
    channels: int
    kernel: tuple[int, int]
    stride: tuple[int, int]

    @classmethod
    def of(cls, row: Any, column: Any, channels: int, kernel: tuple[int, int], stride: tuple[int, int]) -> _VarConv:
        """From the LoD of ROW and COLUMN."""
        heights, widths = (lengths_of(offsets) for offsets in _paired(row, column, ("ROW", "COLUMN")))
        down, across = (-(-size // step) for size, step in zip((heights, widths), stride, strict=True))
        return cls(heights, widths, down, across, channels, kernel, stride)

    @property
    def taps(self) -> int:
        """The number of values that one result is made of."""
        return self.channels * self.kernel[0] * self.kernel[1]

    @property
    def image_offsets(self) -> Index:
        """Where the images begin in X."""
        return to_offsets(self.channels * self.heights * self.widths)

    @property
    def column_offsets(self) -> Index:
        """Where the columns of the images begin in Col."""
        return to_offsets(self.taps * self.down * self.across)

    def places(self, at: int) -> tuple[Array, Array]:
        """For every value of a sample's columns where it comes from in X, and whether that is in the image."""
        height, width = int(self.heights[at]), int(self.widths[at])
        rows = np.arange(self.kernel[0])[:, None] - self.kernel[0] // 2
        rows = rows + np.arange(self.down[at]) * self.stride[0]
        columns = np.arange(self.kernel[1])[:, None] - self.kernel[1] // 2
        columns = columns + np.arange(self.across[at]) * self.stride[1]
        place = rows[:, None, :, None] * width + columns[None, :, None, :]
        inside = ((rows >= 0) & (rows < height))[:, None, :, None] & ((columns >= 0) & (columns < width))[
            None, :, None, :
        ]
        base = self.image_offsets[at] + np.arange(self.channels) * height * width
        index = base[:, None, None, None, None] + place
        shape = (self.taps, int(self.down[at] * self.across[at]))
        return index.reshape(shape), np.broadcast_to(inside, index.shape).reshape(shape)


@operator("var_conv_2d", inputs="X ROW COLUMN W", outputs="Out Col", lod=True)
def var_conv_2d(
    x: Any,
    row: Any,
    column: Any,
    w: Any,
    *,
    InputChannel: int = 1,
    OutputChannel: int = 1,
    StrideH: int = 1,
    StrideW: int = 1,
    KernelH: int = 1,
    KernelW: int = 1,
) -> tuple[LoDTensor, LoDTensor]:
    """Convolution of images of different sizes, padded by half the kernel; W is ``[OutputChannel, taps]``.

    The LoD of ROW and COLUMN gives heights and widths. Col holds the columns of every image, tap by tap.
    """
    conv = _VarConv.of(row, column, InputChannel, (KernelH, KernelW), (StrideH, StrideW))
    weight, flat = array_of(w), array_of(x).reshape(-1)
    if weight.shape != (OutputChannel, conv.taps):
        raise ValueError(f"W must have shape {[OutputChannel, conv.taps]}, it has {list(weight.shape)}")
    if flat.size != conv.image_offsets[-1]:
        raise ValueError(f"X has {flat.size} numbers, ROW and COLUMN make {conv.image_offsets[-1]}")
    columns, outs = [], []
    for at in range(conv.heights.size):
        index, inside = conv.places(at)
        taken = np.where(inside, flat[np.where(inside, index, 0)], np.zeros((), flat.dtype))
        columns.append(taken.reshape(-1, 1))
        outs.append((weight @ taken).reshape(-1, 1))
    out = dress(np.concatenate(outs), to_offsets(OutputChannel * conv.down * conv.across))
    return out, dress(np.concatenate(columns), conv.column_offsets)


@var_conv_2d.gradient(takes="X ROW COLUMN W Out Col Out@GRAD", gives="X@GRAD W@GRAD")
def var_conv_2d_grad(
    x: Any,
    row: Any,
    column: Any,
    w: Any,
    out: Any,
    col: Any,
    d_out: Any,
    *,
    InputChannel: int = 1,
    OutputChannel: int = 1,
    StrideH: int = 1,
    StrideW: int = 1,
    KernelH: int = 1,
    KernelW: int = 1,
) -> tuple[Any, Array]:
    """Image by image through its columns."""
    conv = _VarConv.of(row, column, InputChannel, (KernelH, KernelW), (StrideH, StrideW))
    weight, columns, grad = array_of(w), array_of(col).reshape(-1), array_of(d_out).reshape(-1)
    d_x, d_w = np.zeros(array_of(x).size, grad.dtype), np.zeros_like(weight)
    out_offsets = to_offsets(OutputChannel * conv.down * conv.across)
    for at, (mine, made) in enumerate(zip(_spans(conv.column_offsets), _spans(out_offsets), strict=True)):
        d_made = grad[made].reshape(OutputChannel, -1)
        d_w += d_made @ columns[mine].reshape(conv.taps, -1).T
        index, inside = conv.places(at)
        np.add.at(d_x, index[inside], (weight.T @ d_made)[inside])
    return same_lod(d_x.reshape(array_of(x).shape), x), d_w


@operator("similarity_focus", inputs="X", outputs="Out", gradient=None)
def similarity_focus(x: Array, *, axis: int, indexes: Sequence[int]) -> Array:
    """A mask of X (four dimensions): 1 where one of the chosen slices has its best matches.

    In the slice at each of ``indexes`` along ``axis`` the largest value is matched, its row and column are
    left out, and so on; matches hold for all of ``axis``.
    """
    if x.ndim != 4 or axis not in (1, 2, 3):
        raise ValueError(f"X must have four dimensions and axis be 1, 2 or 3; found {x.ndim} and {axis}")
    if not indexes or not all(0 <= each < x.shape[axis] for each in indexes):
        raise ValueError(f"indexes must lie in [0, {x.shape[axis]}), found {list(indexes)}")
    slices = np.moveaxis(x, axis, 1)[:, list(indexes)]
    batch, count, height, width = slices.shape
    left = slices.reshape(batch * count, height, width).copy()
    mask = np.zeros(left.shape, bool)
    every = np.arange(batch * count)
    for _ in range(min(height, width)):
        row, column = np.divmod(flattened(left).argmax(axis=1), width)
        mask[every, row, column] = True
        left[every, row] = -np.inf
        left[every, :, column] = -np.inf
    focus = mask.reshape(batch, count, height, width).any(axis=1)
    return np.broadcast_to(np.expand_dims(focus, axis), x.shape).astype(x.dtype)


def _topk_matrices(x: Any, row: Any, column: Any, channels: int) -> Iterator[tuple[slice, slice, Array]]:
    """For every pair its rows, its numbers in X, and these as ``[rows, channels, columns]``."""
    row_offsets, column_offsets = _paired(row, column, ("ROW", "COLUMN"))
    flat, offsets = array_of(x).reshape(-1), offsets_of(x, "X")
    for rows, columns, mine in zip(_spans(row_offsets), _spans(column_offsets), _spans(offsets), strict=True):
        shape = (channels, rows.stop - rows.start, columns.stop - columns.start)
        if mine.stop - mine.start != int(np.prod(shape)):
            raise ValueError(f"X has {mine.stop - mine.start} numbers for a pair of size {list(shape)}")
        yield rows, mine, flat[mine].reshape(shape).swapaxes(0, 1)


@operator("sequence_topk_avg_pooling", inputs="X ROW COLUMN", outputs="Out pos", lod=True)
def sequence_topk_avg_pooling(
    x: Any, row: Any, column: Any, *, topks: Sequence[int], channel_num: int
) -> tuple[Any, Array]:
    """For every row and channel of every pair's matrix the sums of its ``k`` largest values over ``k``.

    ``pos`` (int32, flat) is where the largest ones stand, -1 where a row is shorter.
    """
    rows = int(offsets_of(row, "ROW")[-1])
    most, dtype = topks[-1], array_of(x).dtype
    out = np.zeros((rows, channel_num, len(topks)), dtype)
    places = np.full((rows, channel_num, most), -1, np.int32)
    for mine, _, matrix in _topk_matrices(x, row, column, channel_num):
        order = np.argsort(-matrix, axis=2, kind="stable")[..., :most]
        places[mine, :, : order.shape[2]] = order
        sums = np.zeros((*matrix.shape[:2], most + 1), dtype)
        best = np.zeros((*matrix.shape[:2], most), dtype)
        best[..., : order.shape[2]] = np.take_along_axis(matrix, order, axis=2)
        np.cumsum(best, axis=2, out=sums[..., 1:])
        out[mine] = sums[..., list(topks)] / np.asarray(topks, dtype)
    return same_lod(out.reshape(rows, -1), row), places.reshape(-1)


@sequence_topk_avg_pooling.gradient(takes="X ROW COLUMN pos Out@GRAD", gives="X@GRAD")
def sequence_topk_avg_pooling_grad(
    x: Any, row: Any, column: Any, pos: Any, d_out: Any, *, topks: Sequence[int], channel_num: int
) -> Any:
    """A value takes its share of every mean that it is in."""
    grad = array_of(d_out).reshape(-1, channel_num, len(topks)) / np.asarray(topks, array_of(d_out).dtype)
    shares = np.stack([grad[..., [k > at for k in topks]].sum(axis=2) for at in range(topks[-1])], axis=2).astype(
        grad.dtype
    )
    places = array_of(pos).reshape(-1, channel_num, topks[-1])
    d_x = np.zeros(array_of(x).size, grad.dtype)
    for mine, where, matrix in _topk_matrices(x, row, column, channel_num):
        taken = min(matrix.shape[2], topks[-1])
        d_matrix = np.zeros(matrix.shape, grad.dtype)
        np.put_along_axis(d_matrix, places[mine, :, :taken].astype(np.int64), shares[mine, :, :taken], axis=2)
        d_x[where] = d_matrix.swapaxes(0, 1).reshape(-1)
    return same_lod(d_x.reshape(array_of(x).shape), x)
