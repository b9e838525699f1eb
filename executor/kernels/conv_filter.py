"""A convolution filter and the layouts of it that the formulations want, each made once on demand."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np

from ..values import Array

__all__ = ["PackedFilter"]


class PackedFilter:
    """A filter ``[O, C / groups, *kernel]``.

    Attributes:
        weight: ``[groups, O / groups, C / groups, *kernel]``.
        inputs: input channels of one group.
        group_outputs: output channels of one group.
        outputs: output channels of all groups.
    """

    def __init__(self, filter: Array, groups: int) -> None:
        self.groups = groups
        self.outputs, self.inputs = filter.shape[0], filter.shape[1]
        self.group_outputs = self.outputs // groups
        self.weight = filter.reshape(groups, self.group_outputs, *filter.shape[1:])
        self._bands: dict[tuple[int, int, int], Array] = {}

    @property
    def kernel(self) -> tuple[int, ...]:
        """The kernel's extents."""
        return self.weight.shape[3:]

    @property
    def depthwise(self) -> bool:
        """Whether each input channel of a 2-D filter is a group with few outputs of its own."""
        return self.inputs == 1 and self.groups > 1 and self.group_outputs <= 8 and len(self.kernel) == 2

    @cached_property
    def by_columns(self) -> Array:
        """``[G, O, C * taps]``."""
        inner = self.inputs * math.prod(self.kernel)
        return np.ascontiguousarray(self.weight.reshape(self.groups, self.group_outputs, inner))

    @cached_property
    def by_rows(self) -> Array:
        """``[G, kh * O, kw * C]``."""
        kh, kw = self.kernel
        moved = np.ascontiguousarray(self.weight.transpose(0, 3, 1, 4, 2))
        return moved.reshape(self.groups, kh * self.group_outputs, kw * self.inputs)

    @cached_property
    def by_outputs(self) -> Array:
        """``[G, kh * kw * O, C]``."""
        moved = np.ascontiguousarray(self.weight.transpose(0, 3, 4, 1, 2))
        return moved.reshape(self.groups, -1, self.inputs)

    def band(self, rows: int, stride: int, dilation: int) -> Array:
        """``[G, O, rows, kw * high]``: the filter of one input channel as a banded matrix.

        It maps ``kw`` shifted copies of ``high`` input rows to ``rows`` output rows.
        """
        key = (rows, stride, dilation)
        band = self._bands.get(key)
        if band is None:
            kh, kw = self.kernel
            high = (rows - 1) * stride + (kh - 1) * dilation + 1
            band = np.zeros((self.groups, self.group_outputs, rows, kw, high), self.weight.dtype)
            taps = self.weight[:, :, 0].swapaxes(2, 3)
            for row in range(rows):
                first = row * stride
                band[:, :, row, :, first : first + (kh - 1) * dilation + 1 : dilation] = taps
            band = band.reshape(self.groups, self.group_outputs, rows, kw * high)
            self._bands = {**self._bands, key: band} if len(self._bands) < 8 else {key: band}
        return band

    @cached_property
    def _turned(self) -> PackedFilter:
        spatial = tuple(range(3, self.weight.ndim))
        flipped = np.flip(self.weight, spatial).swapaxes(1, 2)
        return PackedFilter(
            np.ascontiguousarray(flipped).reshape(self.groups * self.inputs, self.group_outputs, *self.kernel),
            self.groups,
        )

    def turned(self) -> PackedFilter:
        """The filter that carries outputs back to inputs: kernel turned around, inputs and outputs exchanged."""
        return self._turned
