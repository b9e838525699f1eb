"""Steps: one operator bound to the slots of a frame. A plan is a list of them.

A frame is a list of values; slot 0 is always None and stands for an absent argument. A step reads its inputs
from the frame, calls the kernel, stores the outputs and drops what is dead.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .values import LoDTensor

__all__ = ["ABSENT", "Frame", "Step", "make_step", "run_once", "with_lod"]

Frame = list[Any]
Step = Callable[[Frame], None]
Slots = Sequence["int | list[int]"]

ABSENT = 0
"""The frame slot of an argument that is not there."""


def _tidy(value: Any) -> Any:
    """Numpy scalars become 0-d arrays, so that kernels always see arrays."""
    return np.asarray(value) if isinstance(value, np.generic) else value


def _count_references() -> int:
    """The reference count that ``_sole_owner`` sees for a value held by its frame alone."""
    frame: Frame = [np.empty(1)]
    value = frame[0]
    return sys.getrefcount(value)


_FRAME_ONLY = _count_references()


def make_step(
    kernel: Callable[..., Any],
    inputs: Slots,
    outputs: Slots,
    dead: Sequence[int],
    *,
    reuse: int | None = None,
) -> Step:
    """A step for ``kernel(*inputs) -> outputs``.

    Args:
        kernel: attributes already bound.
        inputs: per input slot a frame index, or a list of indices for a list slot.
        outputs: per output slot likewise; :data:`ABSENT` drops the value.
        dead: frame indices to clear after the call.
        reuse: the position among ``inputs`` of an argument that dies here and that the kernel may write
            over (``out=``). It does so only when nothing else holds the array or a view of it.
    """
    clear = tuple(dead)
    single = len(outputs) == 1 and isinstance(outputs[0], int)
    plain = all(isinstance(index, int) for index in inputs)
    if single and plain:
        target: int = outputs[0]  # type: ignore[assignment]
        sources: list[int] = list(inputs)  # type: ignore[arg-type]
        if reuse is not None:
            return _reusing_step(kernel, sources, target, clear, reuse)
        if len(sources) == 1:
            return _unary_step(kernel, sources[0], target, clear)
        if len(sources) == 2:
            return _binary_step(kernel, sources[0], sources[1], target, clear)
    return _general_step(kernel, inputs, outputs, clear)


def _unary_step(kernel: Callable[..., Any], source: int, target: int, clear: tuple[int, ...]) -> Step:
    def step(frame: Frame) -> None:
        value = kernel(frame[source])
        frame[target] = value if type(value) is np.ndarray else _tidy(value)
        for index in clear:
            frame[index] = None

    return step


def _binary_step(kernel: Callable[..., Any], x: int, y: int, target: int, clear: tuple[int, ...]) -> Step:
    def step(frame: Frame) -> None:
        value = kernel(frame[x], frame[y])
        frame[target] = value if type(value) is np.ndarray else _tidy(value)
        for index in clear:
            frame[index] = None

    return step


def _reusing_step(
    kernel: Callable[..., Any], sources: list[int], target: int, clear: tuple[int, ...], reuse: int
) -> Step:
    source = sources[reuse]

    def step(frame: Frame) -> None:
        held = frame[source]
        # A view keeps its base alive through ``base``, so a count of one owner also rules out views.
        sole = type(held) is np.ndarray and sys.getrefcount(held) == _FRAME_ONLY and held.flags.carray
        arguments = [frame[index] for index in sources]
        if sole and held.base is None:
            value = kernel(*arguments, out=held)
        else:
            value = kernel(*arguments)
        frame[target] = value if type(value) is np.ndarray else _tidy(value)
        for index in clear:
            frame[index] = None

    return step


def _general_step(kernel: Callable[..., Any], inputs: Slots, outputs: Slots, clear: tuple[int, ...]) -> Step:
    def step(frame: Frame) -> None:
        run_once(frame, kernel, inputs, outputs, clear)

    return step


def run_once(frame: Frame, kernel: Callable[..., Any], inputs: Slots, outputs: Slots, clear: Sequence[int]) -> None:
    """What a step does, for a kernel whose bound values are known only now; arguments as in :func:`make_step`."""
    values = kernel(
        *[frame[index] if type(index) is int else [frame[each] for each in index] for index in inputs]  # type: ignore[union-attr]
    )
    _store(frame, outputs, (values,) if len(outputs) == 1 else values)
    for index in clear:
        frame[index] = None


def _store(frame: Frame, outputs: Slots, values: Sequence[Any]) -> None:
    for target, value in zip(outputs, values, strict=True):
        if type(target) is int:
            if target != ABSENT:
                frame[target] = _tidy(value)
        else:
            for each, part in zip(target, value or (), strict=False):  # type: ignore[arg-type]
                if each != ABSENT:
                    frame[each] = _tidy(part)


def with_lod(kernel: Callable[..., Any], share: int) -> Callable[..., Any]:
    """Wrap a kernel that knows no LoD: it sees plain arrays, its outputs inherit the LoD of input ``share``.

    An output whose first dimension does not fit the LoD stays a plain array.
    """

    def call(*arguments: Any, **options: Any) -> Any:
        source = arguments[share] if share < len(arguments) else None
        source = source[0] if isinstance(source, list) and source else source
        result = kernel(*[_strip(each) for each in arguments], **options)
        lod = source.lod if isinstance(source, LoDTensor) else None
        if not lod:
            return result
        if isinstance(result, (tuple, list)):
            return type(result)(_dress(each, lod) for each in result)
        return _dress(result, lod)

    return call


def _strip(value: Any) -> Any:
    if isinstance(value, LoDTensor):
        return value.array
    return [_strip(each) for each in value] if type(value) is list else value


def _dress(value: Any, lod: list[list[int]]) -> Any:
    if type(value) is list:
        return [_dress(each, lod) for each in value]
    if isinstance(value, np.ndarray) and value.ndim and value.shape[0] == lod[-1][-1]:
        return LoDTensor(value, lod)
    return value
