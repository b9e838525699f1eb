"""The names that belong at ``oarlock.*``; the package root looks its attributes up here."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from . import (
    creation,
    devices,
    dtypes,
    functional_linalg,
    functional_math,
    functional_random,
    functional_reduce,
    functional_search,
    functional_shape,
    nn,
    optimizer,
    regularizer,
)
from .creation import *  # noqa: F403
from .devices import *  # noqa: F403
from .dtypes import dtype, finfo, get_default_dtype, iinfo, set_default_dtype
from .engine import backward, grad
from .flags import get_flags, set_flags
from .functional_linalg import *  # noqa: F403
from .functional_math import *  # noqa: F403
from .functional_random import *  # noqa: F403
from .functional_reduce import *  # noqa: F403
from .functional_search import *  # noqa: F403
from .functional_shape import *  # noqa: F403
from .inplace import ACTIVATIONS, FUNCTIONS
from .mode import enable_grad, is_grad_enabled, no_grad, set_grad_enabled
from .nn.attr import ParamAttr
from .nn.create import create_parameter
from .nn.functional import log_softmax, relu, softmax
from .place import CPUPlace, CUDAPinnedPlace, CUDAPlace
from .printing import set_printoptions
from .saving import load, save
from .tensor import Parameter, Tensor

autograd = SimpleNamespace(backward=backward, grad=grad)
"""``paddle.autograd``."""

linalg = SimpleNamespace(
    **{
        name: getattr(module, name)
        for module, names in (
            (functional_linalg, "cholesky cross det diagonal inv matmul matrix_power multi_dot norm slogdet solve"),
            (functional_linalg, "matrix_transpose"),
        )
        for name in names.split()
    }
)
"""Functions of ``paddle.linalg``."""

globals().update(dtypes.ALL_DTYPES)
_INPLACE = {name: each.function for name, each in FUNCTIONS.items() if name not in ACTIVATIONS or name == "tanh_"}
globals().update(_INPLACE)


def is_tensor(x: Any) -> bool:
    """Whether ``x`` is a tensor."""
    return isinstance(x, Tensor)


def is_floating_point(x: Tensor) -> bool:
    """Whether the element type of ``x`` is a real floating type."""
    return dtypes.is_floating(x._array.dtype)


def is_complex(x: Tensor) -> bool:
    """Whether the element type of ``x`` is complex."""
    return bool(x._array.dtype.kind == "c")


def is_integer(x: Tensor) -> bool:
    """Whether the element type of ``x`` is an integer type."""
    return bool(x._array.dtype.kind in "iu")


__all__ = [
    "CPUPlace",
    "CUDAPinnedPlace",
    "CUDAPlace",
    "ParamAttr",
    "Parameter",
    "Tensor",
    "autograd",
    "create_parameter",
    "dtype",
    "enable_grad",
    "finfo",
    "get_default_dtype",
    "get_flags",
    "grad",
    "iinfo",
    "is_complex",
    "is_floating_point",
    "is_grad_enabled",
    "is_integer",
    "is_tensor",
    "linalg",
    "load",
    "log_softmax",
    "nn",
    "no_grad",
    "optimizer",
    "regularizer",
    "relu",
    "save",
    "set_default_dtype",
    "set_flags",
    "set_grad_enabled",
    "set_printoptions",
    "softmax",
    *dtypes.ALL_DTYPES,
    *_INPLACE,
    *creation.__all__,
    *devices.__all__,
    *functional_linalg.__all__,
    *functional_math.__all__,
    *functional_random.__all__,
    *functional_reduce.__all__,
    *functional_search.__all__,
    *functional_shape.__all__,
]
