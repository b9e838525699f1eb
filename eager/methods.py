"""Gives tensors their methods: operators, indexing, functions whose first argument is a tensor, in-place functions.

``install()`` runs once, when the eager room is imported. The stub ``tensor_methods.pyi`` says the same to editors and
type checkers; ``tools/stub_tensor.py`` writes it from here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import InputError
from . import (
    engine,
    functional_linalg,
    functional_math,
    functional_random,
    functional_reduce,
    functional_search,
    functional_shape,
    indexing,
)
from .dtypes import is_floating, numpy_dtype
from .inplace import FUNCTIONS
from .nn.functional import activation
from .operands import cast_to
from .operators import OPERATORS
from .place import parse_place
from .tensor import Tensor
from .tensor_methods import TensorMethods

__all__ = ["METHODS", "install"]

_BY_MODULE: dict[Any, str] = {
    functional_math: """abs acos acosh add add_n allclose angle asin asinh atan atan2 atanh bitwise_and bitwise_not
        bitwise_or bitwise_xor ceil clip conj cos cosh deg2rad digamma divide equal equal_all erf erfinv exp expm1
        floor floor_divide floor_mod fmax fmin frac gcd greater_equal greater_than heaviside hypot i0 i0e i1 i1e imag
        increment isclose isfinite isinf isnan kron lcm ldexp lerp less_equal less_than lgamma log log10 log1p log2
        logaddexp logical_and logical_not logical_or logical_xor logit maximum minimum mod multigammaln multiplex
        multiply nan_to_num neg nextafter not_equal polygamma pow rad2deg real reciprocal remainder renorm round rsqrt
        scale sgn sigmoid sign sin sinh sqrt square stanh subtract tan tanh trunc""",
    functional_reduce: """all amax amin any bincount count_nonzero cummax cummin cumprod cumsum diff histogram
        logcumsumexp logsumexp max mean median min nanmean nansum prod quantile std sum var""",
    functional_search: """argmax argmin argsort bucketize index_sample index_select kthvalue masked_fill masked_select
        mode nonzero sort topk unique unique_consecutive where""",
    functional_shape: """as_complex as_real as_strided astype broadcast_to cast chunk clone concat expand expand_as
        flatten flip gather gather_nd index_add index_fill index_put moveaxis numel put_along_axis rank
        repeat_interleave reshape reverse roll rot90 scatter scatter_nd_add slice split squeeze stack strided_slice t
        take take_along_axis tile transpose unbind unflatten unsqueeze unstack view view_as vsplit
        is_empty""",
    functional_linalg: """addmm bmm cholesky cross det diag diag_embed diagflat diagonal dist dot
        fill_diagonal_tensor inner inverse matmul matrix_power mm multi_dot mv norm outer solve tensordot trace tril
        triu""",
    functional_random: "bernoulli multinomial",
    activation: "softmax",
}


def _backward(self: Tensor, grad_tensor: Tensor | None = None, retain_graph: bool = False) -> None:
    """Add the gradient of this tensor (of its sum, where it has several elements) to ``grad`` of every leaf."""
    engine.backward(self, None if grad_tensor is None else [grad_tensor], retain_graph)


def _get_item(self: Tensor, index: Any) -> Tensor:
    return indexing.get_item(self, index)


def _set_item(self: Tensor, index: Any, value: Any) -> None:
    indexing.set_item(self, index, value)


def _transposed(self: Tensor) -> Tensor:
    """All axes in reverse order."""
    return functional_shape.transpose(self, list(range(self.ndim))[::-1])


def _cpu(self: Tensor) -> Tensor:
    """A copy that passes no gradient."""
    made = functional_shape.clone(self.detach())
    made._stop = self._stop
    return made


def _to(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """With another element type, or that of another tensor. The only device is the CPU."""
    made = self
    for each in (*args, *(kwargs.get(key) for key in ("device", "other", "dtype"))):
        if isinstance(each, Tensor):
            made = cast_to(made, each._array.dtype)
        elif each is None or isinstance(each, bool):
            continue
        elif (isinstance(each, str) and each.split(":")[0] in ("cpu", "gpu", "xpu", "gpu_pinned")) or type(
            each
        ).__name__.endswith("Place"):
            parse_place(each)
        else:
            made = cast_to(made, numpy_dtype(each))
    return made


def _cuda(self: Tensor, device_id: int | None = None, blocking: bool = True) -> Tensor:
    """Always an error: there is no GPU.

    Raises:
        InputError: always.
    """
    raise InputError("oarlock runs on the CPU: Tensor.cuda() is not available")


def _same(self: Tensor) -> Tensor:
    """This tensor: host memory is all there is."""
    return self


def _contiguous(self: Tensor) -> Tensor:
    """This tensor when its elements lie in row-major order, else a copy where they do."""
    return self if self.is_contiguous() else functional_shape.clone(self)


def _is_floating_point(self: Tensor) -> bool:
    """Whether the element type is a real floating type."""
    return is_floating(self._array.dtype)


def _is_complex(self: Tensor) -> bool:
    """Whether the element type is complex."""
    return bool(self._array.dtype.kind == "c")


def _is_integer(self: Tensor) -> bool:
    """Whether the element type is an integer type."""
    return bool(np.issubdtype(self._array.dtype, np.integer))


METHODS: dict[str, Any] = {
    **{name: getattr(module, name) for module, names in _BY_MODULE.items() for name in names.split()},
    **{name: each.function for name, each in FUNCTIONS.items() if each.method},
    **OPERATORS,
    "__getitem__": _get_item,
    "__setitem__": _set_item,
    "T": property(_transposed),
    "backward": _backward,
    "contiguous": _contiguous,
    "cpu": _cpu,
    "cuda": _cuda,
    "is_complex": _is_complex,
    "is_floating_point": _is_floating_point,
    "is_integer": _is_integer,
    "pin_memory": _same,
    "to": _to,
}
"""Name -> what tensors have under it."""


def install() -> None:
    """Put the methods on the class."""
    for name, each in METHODS.items():
        setattr(TensorMethods, name, each)


install()
