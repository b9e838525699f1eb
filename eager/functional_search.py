"""Functions that look for elements: positions of extremes, sorting, selecting, unique values."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir.dtypes import from_numpy
from .dtypes import numpy_dtype
from .operands import as_tensor, axis_list, constant, matched, run, run_at, run_many
from .tensor import Tensor

__all__ = [
    "argmax",
    "argmin",
    "argsort",
    "bucketize",
    "index_sample",
    "index_select",
    "kthvalue",
    "masked_fill",
    "masked_select",
    "mode",
    "nonzero",
    "one_hot",
    "searchsorted",
    "sort",
    "topk",
    "unique",
    "unique_consecutive",
    "where",
]


def _arg(op: str, x: Tensor, axis: int | None, keepdim: bool, dtype: Any) -> Tensor:
    return run(
        op,
        x,
        axis=0 if axis is None else int(axis),
        keepdims=bool(keepdim),
        flatten=axis is None,
        dtype=int(from_numpy(numpy_dtype(dtype))),
    )


def argmax(
    x: Tensor, axis: int | None = None, keepdim: bool = False, dtype: Any = "int64", name: str | None = None
) -> Tensor:
    """The position of the largest element, the first of equal ones; in the flattened tensor for ``axis=None``."""
    return _arg("arg_max", x, axis, keepdim, dtype)


def argmin(
    x: Tensor, axis: int | None = None, keepdim: bool = False, dtype: Any = "int64", name: str | None = None
) -> Tensor:
    """The position of the smallest element, the first of equal ones; in the flattened tensor for ``axis=None``."""
    return _arg("arg_min", x, axis, keepdim, dtype)


def argsort(x: Tensor, axis: int = -1, descending: bool = False, name: str | None = None) -> Tensor:
    """The positions of the elements in order, int64."""
    return run_at("argsort", 1, x, axis=int(axis), descending=bool(descending))


def sort(x: Tensor, axis: int = -1, descending: bool = False, name: str | None = None) -> Tensor:
    """The elements in order."""
    return run_at("argsort", 0, x, axis=int(axis), descending=bool(descending))


def topk(
    x: Tensor,
    k: Any,
    axis: int | None = None,
    largest: bool = True,
    sorted: bool = True,
    name: str | None = None,
) -> tuple[Tensor, Tensor]:
    """The ``k`` largest (or smallest) elements along ``axis``, the last by default, and their positions."""
    at = -1 if axis is None else int(axis)
    values, indices = run_many("top_k_v2", x, k=int(k), axis=at, largest=bool(largest), sorted=bool(sorted))
    return values, indices


def kthvalue(
    x: Tensor, k: int, axis: int | None = None, keepdim: bool = False, name: str | None = None
) -> tuple[Tensor, Tensor]:
    """The k-th smallest element along ``axis`` and its position."""
    at = -1 if axis is None else int(axis)
    values, indices = run_many("kthvalue", x, k=int(k), axis=at, keepdim=bool(keepdim))
    return values, indices


def mode(x: Tensor, axis: int = -1, keepdim: bool = False, name: str | None = None) -> tuple[Tensor, Tensor]:
    """The most frequent element along ``axis`` and the position of its last occurrence."""
    values, indices = run_many("mode", x, axis=int(axis), keepdim=bool(keepdim))
    return values, indices


def searchsorted(
    sorted_sequence: Tensor, values: Tensor, out_int32: bool = False, right: bool = False, name: str | None = None
) -> Tensor:
    """Where ``values`` would go in a sorted sequence; ``right`` puts them after equal ones."""
    return run("searchsorted", sorted_sequence, values, out_int32=bool(out_int32), right=bool(right))


def bucketize(
    x: Tensor, sorted_sequence: Tensor, out_int32: bool = False, right: bool = False, name: str | None = None
) -> Tensor:
    """As :func:`searchsorted` with the operands the other way round."""
    return searchsorted(sorted_sequence, x, out_int32, right)


def where(condition: Tensor, x: Any = None, y: Any = None, name: str | None = None) -> Tensor | tuple[Tensor, ...]:
    """Elements of ``x`` where the condition holds, else of ``y``; without them the positions where it holds."""
    if x is None and y is None:
        positions: tuple[Tensor, ...] = nonzero(condition, as_tuple=True)
        return positions
    if x is None or y is None:
        raise ValueError("either both or neither of x and y should be given")
    like = x if isinstance(x, Tensor) else y if isinstance(y, Tensor) else None
    a, b = matched(as_tensor(x, like), as_tensor(y, like), "where", mix=True)
    shape = np.broadcast_shapes(condition._array.shape, a._array.shape, b._array.shape)
    spread = [each if each._array.shape == shape else _expanded(each, shape) for each in (condition, a, b)]
    return run("where", *spread)


def _expanded(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    return run("expand_v2", x, shape=list(shape))


def nonzero(x: Tensor, as_tuple: bool = False) -> Any:
    """The positions of elements that are not zero: [n, ndim], or per axis a tensor of shape [n, 1]. int64."""
    found = run("where_index", x)
    if not as_tuple:
        return found
    return tuple(constant(found._array[:, axis : axis + 1].copy()) for axis in range(max(x.ndim, 1)))


def masked_select(x: Tensor, mask: Tensor, name: str | None = None) -> Tensor:
    """The elements where ``mask`` is true, as a 1-d tensor."""
    return run("masked_select", x, mask)


def masked_fill(x: Tensor, mask: Tensor, value: Any, name: str | None = None) -> Tensor:
    """``x`` with ``value`` (a number or 0-d tensor) where ``mask`` is true."""
    chosen = where(mask, as_tensor(value, x), x)
    return chosen  # type: ignore[return-value]


def unique(
    x: Tensor,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    dtype: Any = "int64",
    name: str | None = None,
) -> Any:
    """The distinct elements in order (of the flattened tensor for ``axis=None``).

    Returns:
        The values, or a tuple with first positions, the way back, and counts as asked for.
    """
    out, indices, index, counts = run_many(
        "unique",
        x,
        return_index=bool(return_index),
        return_inverse=bool(return_inverse),
        return_counts=bool(return_counts),
        axis=[] if axis is None else axis_list(axis, x.ndim),
        dtype=int(from_numpy(numpy_dtype(dtype))),
        is_sorted=True,
    )
    asked = ((return_index, indices), (return_inverse, index), (return_counts, counts))
    chosen = [out, *(each for wanted, each in asked if wanted)]
    return out if len(chosen) == 1 else tuple(chosen)


def unique_consecutive(
    x: Tensor,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    dtype: Any = "int64",
    name: str | None = None,
) -> Any:
    """Each run of equal elements once; with the way back and counts as asked for."""
    out, index, counts = run_many(
        "unique_consecutive",
        x,
        return_inverse=bool(return_inverse),
        return_counts=bool(return_counts),
        axis=[] if axis is None else axis_list(axis, x.ndim),
        dtype=int(from_numpy(numpy_dtype(dtype))),
    )
    chosen = [out, *(each for wanted, each in ((return_inverse, index), (return_counts, counts)) if wanted)]
    return out if len(chosen) == 1 else tuple(chosen)


def index_sample(x: Tensor, index: Tensor) -> Tensor:
    """Row i of the result: elements of row i of ``x`` at ``index[i]``."""
    return run("index_sample", x, index)


def index_select(x: Tensor, index: Tensor, axis: int = 0, name: str | None = None) -> Tensor:
    """Slices of ``x`` along ``axis`` at the positions in a 1-d ``index``."""
    return run("index_select", x, index, dim=int(axis))


def one_hot(x: Tensor, num_classes: int, name: str | None = None) -> Tensor:
    """A 1 at the position of each class, float32, in a new last axis."""
    return run("one_hot_v2", x, depth=int(num_classes), dtype=5, allow_out_of_range=False)
