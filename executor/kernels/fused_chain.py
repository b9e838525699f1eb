"""A chain of elementwise operators run over blocks that stay in cache; made by the pass ``fuse_chains``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ...ir.binding import bind_attrs
from ...ir.desc import OpDesc
from ...ir.registry import lookup, operator
from ..parallel import parallel_for
from ..values import Array

__all__ = ["fused_chain"]

_BLOCK = 1 << 15
"""Elements of a block: 128 KiB of float32, and as much for a temporary, fit a core's second-level cache."""

Step = tuple[str, dict[str, Any], str]
Apply = Callable[[Array, Sequence[Array], bool], Array]


@operator("fused_chain", inputs="X Operands*", outputs="Out", inplace="X->Out", gradient=None)
def fused_chain(x: Array, operands: list[Array], *, steps: Sequence[Step], out: Array | None = None) -> Array:
    """Apply ``steps`` in order; each is (op type, attributes, "alone" | "left" | "right").

    "left" and "right" say where the next of ``operands`` stands. Shape and dtype follow from the operators.
    """
    return _run(_compile(steps), x, operands, out)


@fused_chain.prepare
def _prepare(constants: Mapping[str, Any], *, steps: Sequence[Step]) -> Callable[..., Array]:
    """The kernels are looked up and their attributes bound once."""
    apply = _compile(steps)

    def run(x: Array, operands: list[Array], *, out: Array | None = None) -> Array:
        return _run(apply, x, operands, out)

    return run


def _compile(steps: Sequence[Step]) -> Apply:
    """One function that applies all steps to an array, in place where it may."""
    bound = []
    for type, attrs, side in steps:
        declared = lookup(type)
        options = bind_attrs(declared, OpDesc(type, attrs=attrs), type)
        bound.append((declared.kernel, options, side, declared.inplace is not None))

    def apply(value: Array, operands: Sequence[Array], owned: bool) -> Array:
        rest = iter(operands)
        for kernel, options, side, inplace in bound:
            extra = {"out": value} if owned and inplace and side != "left" else {}
            if side == "alone":
                value = kernel(value, **options, **extra)
            elif side == "right":
                value = kernel(value, next(rest), **options, **extra)
            else:
                value = kernel(next(rest), value, **options)
            owned = True
        return value

    return apply


def _run(apply: Apply, x: Array, operands: Sequence[Array], out: Array | None) -> Array:
    aligned = [_along_channels(x, operand) for operand in operands]
    plain = x.dtype.kind == "f" and x.flags.c_contiguous and all(operand.dtype == x.dtype for operand in operands)
    if x.size <= 2 * _BLOCK or not plain or any(each is None for each in aligned):
        return apply(x, operands, out is not None)
    target = np.empty_like(x) if out is None else out
    blocks = list(_blocks(x, target, [each for each in aligned if each is not None]))

    def work(start: int, stop: int) -> None:
        for source, place, parts in blocks[start:stop]:
            result = apply(source, parts, source is place)
            if result is not place:
                np.copyto(place, result, casting="no")

    parallel_for(len(blocks), work)
    return target


def _along_channels(x: Array, operand: Array) -> Array | None:
    """An operand as a scalar or as ``[C, 1]`` along axis 1 of ``x``; None when it lies otherwise."""
    if operand.size == 1 and operand.ndim <= x.ndim:
        return operand.reshape(())
    return None


def _blocks(x: Array, target: Array, operands: Sequence[Array]) -> Iterator[tuple[Array, Array, Sequence[Array]]]:
    flat, place = x.reshape(-1), target.reshape(-1)
    for start in range(0, flat.size, _BLOCK):
        part = place[start : start + _BLOCK]
        source = part if target is x else flat[start : start + _BLOCK]
        yield source, part, operands
