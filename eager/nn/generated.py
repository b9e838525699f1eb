"""Layers that only hold the arguments of one function: activations, losses, pooling, resizing.

Each is made from its function: the constructor takes the arguments after the tensors, with their names, order and
defaults; ``forward`` takes the tensors.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Final

from . import functional as F
from .layer import Layer

__all__ = ["GENERATED"]


class _Generated(Layer):
    """A layer that holds the arguments of a function.

    Attributes:
        function: what ``forward`` calls.
        signature: the constructor's arguments.
        visible: the arguments that ``repr`` shows.
        follows_mode: whether the function takes ``training``.
    """

    function: Callable[..., Any]
    signature: inspect.Signature
    visible: tuple[str, ...]
    follows_mode: bool

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kwargs.pop("name", None)
        bound = self.signature.bind(*args, **kwargs)
        bound.apply_defaults()
        super().__init__()
        object.__setattr__(self, "_names", tuple(bound.arguments))
        for key, value in bound.arguments.items():
            setattr(self, key, value)

    def forward(self, *tensors: Any, **more: Any) -> Any:
        arguments = {key: getattr(self, key) for key in self._names}
        if self.follows_mode:
            arguments["training"] = self.training
        return type(self).function(*tensors, **arguments, **more)

    def extra_repr(self) -> str:
        return ", ".join(f"{key}={getattr(self, key)}" for key in self.visible)


def _layer_of(
    name: str, function: Callable[..., Any], inputs: int = 1, shown: str | None = None, skip: str = ""
) -> type[Layer]:
    """A layer class.

    Args:
        inputs: how many leading arguments of the function are tensors given to ``forward``.
        shown: the arguments that ``repr`` shows; all by default.
        skip: arguments of the function that the constructor does not take.
    """
    every = list(inspect.signature(function).parameters.values())
    left_out = {"name", "training", *skip.split()}
    taken = [
        each.replace(kind=inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=Any)
        for each in every[inputs:]
        if each.name not in left_out
    ]
    contents = {
        "function": staticmethod(function),
        "signature": inspect.Signature(taken),
        "visible": tuple(each.name for each in taken) if shown is None else tuple(shown.split()),
        "follows_mode": any(each.name == "training" for each in every),
        "__doc__": f"Layer of ``{function.__name__}``: {(function.__doc__ or '').strip().splitlines()[0]}",
        "__signature__": inspect.Signature(taken),
        "__module__": __name__,
    }
    return type(name, (_Generated,), contents)


_ACTIVATIONS: Final[dict[str, Callable[..., Any]]] = {
    "CELU": F.celu,
    "ELU": F.elu,
    "GELU": F.gelu,
    "GLU": F.glu,
    "Hardshrink": F.hardshrink,
    "Hardswish": F.hardswish,
    "Hardtanh": F.hardtanh,
    "LeakyReLU": F.leaky_relu,
    "LogSigmoid": F.log_sigmoid,
    "Maxout": F.maxout,
    "Mish": F.mish,
    "RReLU": F.rrelu,
    "ReLU": F.relu,
    "ReLU6": F.relu6,
    "SELU": F.selu,
    "Sigmoid": F.sigmoid,
    "Silu": F.silu,
    "Softplus": F.softplus,
    "Softshrink": F.softshrink,
    "Softsign": F.softsign,
    "Swish": F.swish,
    "Tanh": F.tanh,
    "Tanhshrink": F.tanhshrink,
    "ThresholdedReLU": F.thresholded_relu,
}
_LOSSES: Final[dict[str, tuple[Callable[..., Any], int, str]]] = {
    "BCELoss": (F.binary_cross_entropy, 2, ""),
    "BCEWithLogitsLoss": (F.binary_cross_entropy_with_logits, 2, ""),
    "CTCLoss": (F.ctc_loss, 4, "norm_by_times"),
    "CosineEmbeddingLoss": (F.cosine_embedding_loss, 3, ""),
    "CrossEntropyLoss": (F.cross_entropy, 2, ""),
    "GaussianNLLLoss": (F.gaussian_nll_loss, 3, ""),
    "HingeEmbeddingLoss": (F.hinge_embedding_loss, 2, ""),
    "KLDivLoss": (F.kl_div, 2, ""),
    "L1Loss": (F.l1_loss, 2, ""),
    "MSELoss": (F.mse_loss, 2, ""),
    "MarginRankingLoss": (F.margin_ranking_loss, 3, ""),
    "MultiLabelSoftMarginLoss": (F.multi_label_soft_margin_loss, 2, ""),
    "MultiMarginLoss": (F.multi_margin_loss, 2, ""),
    "NLLLoss": (F.nll_loss, 2, ""),
    "PoissonNLLLoss": (F.poisson_nll_loss, 2, ""),
    "SmoothL1Loss": (F.smooth_l1_loss, 2, ""),
    "SoftMarginLoss": (F.soft_margin_loss, 2, ""),
    "TripletMarginLoss": (F.triplet_margin_loss, 3, ""),
}
_RESIZED: Final[dict[str, tuple[Callable[..., Any], int, str | None]]] = {
    "AdaptiveAvgPool1D": (F.adaptive_avg_pool1d, 1, "output_size"),
    "AdaptiveAvgPool2D": (F.adaptive_avg_pool2d, 1, "output_size"),
    "AdaptiveAvgPool3D": (F.adaptive_avg_pool3d, 1, "output_size"),
    "AdaptiveMaxPool1D": (F.adaptive_max_pool1d, 1, "output_size return_mask"),
    "AdaptiveMaxPool2D": (F.adaptive_max_pool2d, 1, "output_size return_mask"),
    "AlphaDropout": (F.alpha_dropout, 1, None),
    "AvgPool1D": (F.avg_pool1d, 1, "kernel_size stride padding"),
    "AvgPool2D": (F.avg_pool2d, 1, "kernel_size stride padding"),
    "AvgPool3D": (F.avg_pool3d, 1, "kernel_size stride padding"),
    "ChannelShuffle": (F.channel_shuffle, 1, None),
    "CosineSimilarity": (F.cosine_similarity, 2, None),
    "Dropout2D": (F.dropout2d, 1, None),
    "Dropout3D": (F.dropout3d, 1, None),
    "Fold": (F.fold, 1, None),
    "LocalResponseNorm": (F.local_response_norm, 1, None),
    "MaxPool1D": (F.max_pool1d, 1, "kernel_size stride padding"),
    "MaxPool2D": (F.max_pool2d, 1, "kernel_size stride padding"),
    "MaxPool3D": (F.max_pool3d, 1, "kernel_size stride padding"),
    "Pad1D": (F.pad, 1, None),
    "Pad2D": (F.pad, 1, None),
    "Pad3D": (F.pad, 1, None),
    "PairwiseDistance": (F.pairwise_distance, 2, None),
    "PixelShuffle": (F.pixel_shuffle, 1, None),
    "PixelUnshuffle": (F.pixel_unshuffle, 1, None),
    "Upsample": (F.interpolate, 1, None),
    "ZeroPad2D": (F.zeropad2d, 1, None),
}

GENERATED: Final[dict[str, type[Layer]]] = {
    **{name: _layer_of(name, function) for name, function in _ACTIVATIONS.items()},
    "Hardsigmoid": _layer_of("Hardsigmoid", F.hardsigmoid, skip="slope offset"),
    "Softmax": _layer_of("Softmax", F.softmax, skip="dtype"),
    "LogSoftmax": _layer_of("LogSoftmax", F.log_softmax, skip="dtype"),
    **{name: _layer_of(name, *spec[:2], shown="", skip=spec[2]) for name, spec in _LOSSES.items()},
    **{name: _layer_of(name, function, inputs, shown) for name, (function, inputs, shown) in _RESIZED.items()},
    "Dropout": _layer_of("Dropout", F.dropout),
}
"""Name -> layer class."""
