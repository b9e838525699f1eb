"""Eager mode: tensors, autograd, in-place operations, functions, layers and optimizers."""

from __future__ import annotations

from .creation import create_lod_tensor, to_tensor
from .dispatch import trace_op
from .engine import backward, grad
from .graph import GradNode, connect
from .methods import install as _install  # noqa: F401  importing it gives tensors their methods
from .mode import enable_grad, is_grad_enabled, no_grad, set_grad_enabled
from .nn.layer import Layer
from .storage import mutation_epoch
from .tensor import Parameter, Tensor

__all__ = [
    "GradNode",
    "Layer",
    "Parameter",
    "Tensor",
    "backward",
    "connect",
    "create_lod_tensor",
    "enable_grad",
    "grad",
    "is_grad_enabled",
    "mutation_epoch",
    "no_grad",
    "set_grad_enabled",
    "to_tensor",
    "trace_op",
]
