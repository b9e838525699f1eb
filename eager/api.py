"""The names that belong at ``oarlock.*``; the package root looks its attributes up here."""

from __future__ import annotations

from .creation import create_lod_tensor, to_tensor
from .dtypes import get_default_dtype, set_default_dtype
from .engine import grad
from .flags import get_flags, set_flags
from .mode import enable_grad, is_grad_enabled, no_grad, set_grad_enabled
from .nn.attr import ParamAttr
from .place import CPUPlace, CUDAPinnedPlace, CUDAPlace
from .printing import set_printoptions
from .tensor import Parameter, Tensor

__all__ = [
    "CPUPlace",
    "CUDAPinnedPlace",
    "CUDAPlace",
    "ParamAttr",
    "Parameter",
    "Tensor",
    "create_lod_tensor",
    "enable_grad",
    "get_default_dtype",
    "get_flags",
    "grad",
    "is_grad_enabled",
    "no_grad",
    "set_default_dtype",
    "set_flags",
    "set_grad_enabled",
    "set_printoptions",
    "to_tensor",
]
