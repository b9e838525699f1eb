"""``create_parameter`` outside a layer."""

from __future__ import annotations

from typing import Any

from ...errors import InputError
from .. import dtypes, unique_name
from ..operands import int_list
from ..tensor import Parameter
from .attr import ParamAttr
from .initializer import Constant, XavierUniform

__all__ = ["create_parameter"]


def create_parameter(
    shape: Any,
    dtype: Any = None,
    name: str | None = None,
    attr: Any = None,
    is_bias: bool = False,
    default_initializer: Any = None,
) -> Parameter:
    """A new parameter; biases start at zero, others from ``XavierUniform``.

    Raises:
        InputError: ``attr`` is False.
    """
    chosen = ParamAttr.of(attr)
    if chosen is None:
        raise InputError("create_parameter(): attr=False means no parameter")
    initializer = chosen.initializer or default_initializer or (Constant(0.0) if is_bias else XavierUniform())
    kind = dtypes.default_float() if dtype is None else dtypes.numpy_dtype(dtype)
    return Parameter(
        initializer.array(tuple(int_list(shape)), kind),
        name=name or chosen.name or unique_name.generate(f"create_parameter_0.{'b' if is_bias else 'w'}"),
        trainable=chosen.trainable,
        copy=False,
        learning_rate=chosen.learning_rate,
        regularizer=chosen.regularizer,
        need_clip=chosen.need_clip,
    )
