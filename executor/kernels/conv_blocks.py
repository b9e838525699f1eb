"""The blocks that a convolution is cut into, and running them over threads.

Blocks are split over oarlock's own threads and every product runs on the thread that asks for it, see
:mod:`executor.blas`. Where the library cannot be told so, blocks run one after the other and it uses its threads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np

from ..blas import can_set_blas_threads, own_threads
from ..parallel import num_threads, parallel_for
from ..values import Array

__all__ = [
    "BLOCK_BYTES",
    "even_blocks",
    "pixels_of",
    "position_blocks",
    "row_blocks",
    "run_blocks",
    "shares",
    "sum_blocks",
]

BLOCK_BYTES = 6 << 20
"""Aim for the buffers of one block."""
_SMALL = 1 << 19
"""Multiply-adds up to which a library does not split a product anyway."""
_SPLIT = 1 << 25
"""Multiply-adds from which waking a second thread pays."""

Block = TypeVar("Block")


def shares(macs: int) -> int:
    """Into how many parts a convolution of so many multiply-adds is worth cutting, for threads."""
    return num_threads() if macs >= _SPLIT and can_set_blas_threads() else 1


def even_blocks(count: int, most: int) -> Iterator[tuple[int, int]]:
    """``range(count)`` in blocks of about equal size, none above ``most`` (at least 1)."""
    blocks = -(-count // max(most, 1))
    size = -(-count // blocks)
    for start in range(0, count, size):
        yield start, min(start + size, count)


def row_blocks(rows: int, halo: int, row_bytes: int, parts: int) -> Iterator[tuple[int, int]]:
    """Blocks of output rows whose buffers, ``halo`` extra rows included, meet the aim; ``parts`` or more."""
    most = max(BLOCK_BYTES // max(row_bytes, 1) - halo, halo, 4)
    return even_blocks(rows, min(most, -(-rows // parts)))


def position_blocks(extents: Sequence[int], most: int) -> Iterator[tuple[tuple[int, int], ...]]:
    """Cover the output positions by blocks that are contiguous when flattened, about ``most`` positions each."""
    rest = math.prod(extents[1:])
    if rest <= most or len(extents) == 1:
        whole = tuple((0, extent) for extent in extents[1:])
        for start, stop in even_blocks(extents[0], most // max(rest, 1)):
            yield ((start, stop), *whole)
        return
    for index in range(extents[0]):
        for tail in position_blocks(extents[1:], most):
            yield ((index, index + 1), *tail)


def pixels_of(ranges: Sequence[tuple[int, int]], extents: Sequence[int]) -> slice:
    """The flattened positions of a block of :func:`position_blocks`."""
    start = 0
    for (first, _), extent in zip(ranges, extents, strict=True):
        start = start * extent + first
    return slice(start, start + math.prod(stop - first for first, stop in ranges))


def run_blocks(blocks: Sequence[Block], work: Callable[[Block], None], macs: int) -> None:
    """Do all blocks of a convolution of ``macs`` multiply-adds."""
    if macs <= _SMALL:
        for block in blocks:
            work(block)
        return

    def chunk(start: int, stop: int) -> None:
        for block in blocks[start:stop]:
            work(block)

    with own_threads():
        parallel_for(len(blocks), chunk, 1 if shares(macs) > 1 else len(blocks))


def sum_blocks(
    blocks: Sequence[Block],
    work: Callable[[Block, Array], None],
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    macs: int,
) -> Array:
    """The sum of what ``work(block, total)`` adds to ``total``, in an order that does not vary from run to run."""
    parts = min(shares(macs), len(blocks))
    totals = np.zeros((parts, *shape), dtype)

    def share(start: int, stop: int) -> None:
        for part in range(start, stop):
            for block in blocks[part * len(blocks) // parts : (part + 1) * len(blocks) // parts]:
                work(block, totals[part])

    if macs <= _SMALL:
        share(0, parts)
    else:
        with own_threads():
            parallel_for(parts, share)
    total: Array = totals[0] if parts == 1 else totals.sum(axis=0)
    return total
