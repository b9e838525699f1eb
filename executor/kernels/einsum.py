"""einsum: sums of products over labelled dimensions, and their gradients as further einsums."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...ir.desc import OpDesc
from ...ir.registry import operator
from ..values import Array
from .common import accumulate_dtype, x_shape

__all__ = ["einsum"]

_ELLIPSIS_LABELS = 26
"""Hidden labels start here; written ones are numbered from 0 (letters of either case)."""


@dataclass(frozen=True, slots=True)
class _Equation:
    """Labels as numbers: one tuple for each operand, one for the result."""

    operands: tuple[tuple[int, ...], ...]
    result: tuple[int, ...]


def _label(letter: str, equation: str) -> int:
    if not ("a" <= letter <= "z" or "A" <= letter <= "Z"):
        raise ValueError(f"equation '{equation}' has '{letter}' where a letter is expected")
    return ord(letter.lower()) - ord("a") + (0 if letter.islower() else 2 * _ELLIPSIS_LABELS)


def _term(term: str, rank: int, equation: str) -> list[int]:
    """The labels of one operand; an ellipsis stands for the dimensions left over, numbered from the last."""
    letters = term.replace("...", "")
    hidden = rank - len(letters)
    if "..." not in term:
        if hidden:
            raise ValueError(f"equation '{equation}' gives {len(letters)} label(s) to an operand of rank {rank}")
        return [_label(letter, equation) for letter in letters]
    if hidden < 0:
        raise ValueError(f"equation '{equation}' gives {len(letters)} label(s) to an operand of rank {rank}")
    head, _, tail = term.partition("...")
    middle = [_ELLIPSIS_LABELS + hidden - 1 - i for i in range(hidden)]
    return [*(_label(c, equation) for c in head), *middle, *(_label(c, equation) for c in tail)]


@functools.lru_cache(maxsize=256)
def _parse(equation: str, ranks: tuple[int, ...]) -> _Equation:
    """The labels of an equation for operands of these ranks; without ``->`` the result follows numpy's rule."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks):
        raise ValueError(f"equation '{equation}' is for {len(terms)} operand(s), the op has {len(ranks)}")
    operands = tuple(tuple(_term(term, rank, equation)) for term, rank in zip(terms, ranks, strict=True))
    hidden = max((sum(_is_hidden(label) for label in labels) for labels in operands), default=0)
    middle = [_ELLIPSIS_LABELS + hidden - 1 - i for i in range(hidden)]
    if arrow:
        written = right.replace("...", "")
        result = _term(right, len(written) + (hidden if "..." in right else 0), equation)
    else:
        letters = left.replace(".", "").replace(",", "")
        once = sorted(letter for letter in set(letters) if letters.count(letter) == 1)
        result = [*middle, *(_label(letter, equation) for letter in once)]
    known = {label for labels in operands for label in labels}
    if not known.issuperset(result):
        raise ValueError(f"equation '{equation}' has a label in its result that no operand has")
    return _Equation(operands, tuple(result))


def _is_hidden(label: int) -> bool:
    return _ELLIPSIS_LABELS <= label < 2 * _ELLIPSIS_LABELS


def _contract(operands: Sequence[Array], labels: Sequence[Sequence[int]], result: Sequence[int]) -> Array:
    """numpy's einsum with labels numbered afresh, since it takes few; in float32 for half types."""
    numbers: dict[int, int] = {}
    for term in labels:
        for label in term:
            numbers.setdefault(label, len(numbers))
    if len(numbers) > 52:
        raise ValueError(f"an einsum of {len(numbers)} labels is more than the 52 that numpy takes")
    arguments: list[object] = []
    for operand, term in zip(operands, labels, strict=True):
        arguments += [
            operand.astype(accumulate_dtype(operand.dtype), copy=False),
            [numbers[each] for each in term],
        ]
    out = np.einsum(*arguments, [numbers[each] for each in result], optimize=len(operands) > 1)  # type: ignore[call-overload]
    return np.asarray(out).astype(operands[0].dtype, copy=False)


@operator("einsum", inputs="Operands*", outputs="Out InnerCache* XShape*")
def einsum(operands: list[Array], *, equation: str) -> tuple[Array, list[Array], list[Array]]:
    """The sum of products that ``equation`` says; ``InnerCache`` holds what the gradient needs, the operands."""
    parsed = _parse(equation, tuple(each.ndim for each in operands))
    out = _contract(operands, parsed.operands, parsed.result)
    return out, list(operands), [x_shape(each) for each in operands]


@einsum.gradient(takes="x_shape=XShape* InnerCache* Out@GRAD", gives="Operands@GRAD*")
def einsum_grad(shapes: list[Array], operands: list[Array], d_out: Array, *, equation: str) -> list[Array]:
    """For each operand, the einsum of the gradient with the other operands."""
    parsed = _parse(equation, tuple(each.ndim for each in operands))
    return [_operand_grad(parsed, operands, index, d_out) for index in range(len(operands))]


def _operand_grad(parsed: _Equation, operands: Sequence[Array], index: int, d_out: Array) -> Array:
    x, labels = operands[index], parsed.operands[index]
    others = [i for i in range(len(operands)) if i != index]
    values = [d_out, *(operands[i].conj() if operands[i].dtype.kind == "c" else operands[i] for i in others)]
    terms = [parsed.result, *(parsed.operands[i] for i in others)]
    distinct = tuple(dict.fromkeys(labels))
    sizes = dict(zip(labels, x.shape, strict=True))
    there = {label for term in terms for label in term}
    found = tuple(label for label in distinct if label in there)
    grad = _contract(values, terms, found)
    # A dimension of 1 that met a longer one was stretched: sum it back.
    stretched = tuple(i for i, label in enumerate(found) if sizes[label] == 1 and grad.shape[i] != 1)
    grad = grad.sum(axis=stretched, keepdims=True, dtype=grad.dtype) if stretched else grad
    # A label of this operand alone was summed away: the gradient is the same all along it.
    spread = grad.reshape([grad.shape[found.index(label)] if label in there else 1 for label in distinct])
    full = np.broadcast_to(spread, [sizes[label] for label in distinct]).astype(x.dtype)
    return full if distinct == labels else _on_diagonals(full, distinct, labels, x)


def _on_diagonals(grad: Array, distinct: tuple[int, ...], labels: tuple[int, ...], x: Array) -> Array:
    """The gradient laid on the diagonal of repeated labels; zero beside it."""
    out = np.zeros(x.shape, grad.dtype)
    index = np.meshgrid(*(np.arange(size) for size in grad.shape), indexing="ij", sparse=True)
    out[tuple(index[distinct.index(label)] for label in labels)] = grad
    return out


@einsum.gradient_maker
def _make_einsum_grad(op: OpDesc, no_grad: frozenset[str]) -> list[OpDesc]:
    """Saved programs lack the cache that training adds: then the operands themselves serve."""
    grads = [f"{name}@GRAD" for name in op.inputs["Operands"]]
    outputs = ["@EMPTY@" if name in no_grad else name for name in grads]
    if all(name == "@EMPTY@" for name in outputs):
        return []
    cache = op.outputs.get("InnerCache") or []
    inputs = {
        "InnerCache": list(cache if len(cache) == len(grads) else op.inputs["Operands"]),
        "Out@GRAD": [f"{name}@GRAD" for name in op.outputs["Out"]],
        "x_shape": list(op.outputs.get("XShape") or []),
    }
    made = OpDesc("einsum_grad", inputs, {"Operands@GRAD": outputs}, dict(op.attrs), dict(op.attr_types))
    return [made]
