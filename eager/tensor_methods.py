"""The class that carries the tensor methods which functions of the library provide; filled by ``methods.py``.

The stub ``tensor_methods.pyi`` beside this file lists them with their signatures.
"""

from __future__ import annotations

__all__ = ["TensorMethods"]


class TensorMethods:
    """Operators, indexing, and the methods named after functions and in-place functions."""
