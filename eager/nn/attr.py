"""``ParamAttr``: how a layer's parameter is named, initialised and trained."""

from __future__ import annotations

from typing import Any

from ...errors import InputError
from .initializer import Initializer

__all__ = ["ParamAttr"]


class ParamAttr:
    """Attributes of a parameter.

    Args:
        name: its name, else one is made from the layer's.
        initializer: what it starts as.
        learning_rate: factor on the optimizer's learning rate.
        regularizer: overrides the optimizer's weight decay.
        trainable: whether it is trained.
        need_clip: whether gradient clipping applies.
    """

    def __init__(
        self,
        name: str | None = None,
        initializer: Initializer | None = None,
        learning_rate: float = 1.0,
        regularizer: Any = None,
        trainable: bool = True,
        do_model_average: bool = True,
        need_clip: bool = True,
    ) -> None:
        self.name = name
        self.initializer = initializer
        self.learning_rate = learning_rate
        self.regularizer = regularizer
        self.trainable = trainable
        self.do_model_average = do_model_average
        self.need_clip = need_clip

    @staticmethod
    def of(spec: Any) -> ParamAttr | None:
        """The attributes that ``spec`` means: itself, a name, an initializer, None for defaults.

        False means that the layer has no such parameter, and gives None.
        """
        if spec is None or spec is True:
            return ParamAttr()
        if spec is False:
            return None
        if isinstance(spec, ParamAttr):
            return spec
        if isinstance(spec, str):
            return ParamAttr(name=spec)
        if isinstance(spec, Initializer):
            return ParamAttr(initializer=spec)
        raise InputError(f"a parameter attribute is a ParamAttr, a name, an Initializer, None or False, not {spec!r}")
