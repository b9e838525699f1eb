"""The autograd graph: nodes that turn gradients of outputs into gradients of inputs, and the edges between them."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from ..errors import OarlockError
from ..executor.values import Array, Meta

if TYPE_CHECKING:
    from .tensor import Tensor

__all__ = [
    "AccumulationNode",
    "AutogradError",
    "BackwardTwiceError",
    "Edge",
    "GradNode",
    "HookHandle",
    "connect",
    "edge_of",
]

Hook = Callable[["Tensor"], "Tensor | None"]


class AutogradError(OarlockError, RuntimeError):
    """Backward cannot go on: a value it needs was overwritten, a rule is missing, the graph is gone."""


class BackwardTwiceError(AutogradError, SystemError):
    """The graph was freed by an earlier backward. Call that one with ``retain_graph=True``."""


class GradNode:
    """One step of backward. The public base of nodes that no operator of the registry describes.

    A subclass implements :meth:`apply`. Its gradients arrive and leave as arrays.

    Attributes:
        edges: per input of the forward step where its gradient goes, or None.
        metas: per output of the forward step its shape and dtype; used where a missing gradient means zeros.
        hooks: output index -> functions that see, and may replace, the gradient of that output.
        retained: output index -> tensors that keep the gradient of that output as their ``grad``.
    """

    __slots__ = ("__weakref__", "edges", "hooks", "metas", "retained")

    def __init__(self, inputs: Sequence[Tensor | None], metas: Sequence[Meta]) -> None:
        self.edges: Sequence[Edge | None] = [None if each is None else edge_of(each) for each in inputs]
        self.metas: Sequence[Meta] = metas
        self.hooks: dict[int, dict[int, Hook]] | None = None
        self.retained: dict[int, list[weakref.ref[Tensor]]] | None = None

    @property
    def width(self) -> int:
        """The number of outputs of the forward step, that is of gradients that come in."""
        return len(self.metas)

    def name(self) -> str:
        """The name in messages, e.g. ``MatmulGradNode``."""
        return type(self).__name__

    def apply(self, grads: list[Array | None]) -> Sequence[Array | None]:
        """The gradients of the inputs, aligned with ``edges``.

        ``grads`` has one entry per output, None where none arrived. None in the result means no gradient.
        """
        raise NotImplementedError(f"{self.name()} has no apply()")

    def apply_graph(self, grads: list[Tensor | None]) -> Sequence[Tensor | None]:
        """As :meth:`apply` with tensors, recorded so that the result can be differentiated again.

        Raises:
            AutogradError: this node has no second-order rule.
        """
        raise AutogradError(f"{self.name()} has no second-order rule; call grad() with create_graph=False")

    def release(self) -> None:
        """Drop what was kept for backward; called after backward unless ``retain_graph`` is set."""

    @property
    def released(self) -> bool:
        """Whether :meth:`release` was called."""
        return False


Edge = tuple[GradNode, int]
"""Where a gradient goes: a node and which of its outputs it is the gradient of."""


class AccumulationNode(GradNode):
    """The end of a path: adds the gradient to ``grad`` of a leaf, which it does not keep alive."""

    __slots__ = ("leaf",)

    def __init__(self, leaf: Tensor) -> None:
        super().__init__((), (leaf._meta(),))
        self.leaf = weakref.ref(leaf)

    def name(self) -> str:
        """As Paddle names it."""
        return "GradNodeAccumulation"


class StaleLeafNode(AccumulationNode):
    """Stands for a leaf whose memory was changed, in a recorded way, through a view of it.

    Attributes:
        original: the edge that the leaf had; what was computed before the change still leads there.
        writer: the operator that made the change.
    """

    __slots__ = ("original", "writer")

    def __init__(self, leaf: Tensor, writer: str) -> None:
        super().__init__(leaf)
        self.original = leaf._edge
        self.writer = writer


def edge_of(tensor: Tensor) -> Edge | None:
    """Where the gradient of ``tensor`` goes; None when it needs none. Makes the end node of a leaf."""
    if tensor._stop:
        return None
    edge = tensor._edge
    if edge is None:
        edge = tensor._edge = (AccumulationNode(tensor), 0)
    return edge


def connect(node: GradNode, outputs: Sequence[Tensor | None]) -> None:
    """Make ``node`` the history of its outputs: they need a gradient and are no leaves."""
    for index, each in enumerate(outputs):
        if each is not None:
            each._edge = (node, index)
            each._stop = False


class HookHandle:
    """What ``register_hook`` returns: ``remove()`` takes the hook away."""

    _count = 0

    def __init__(self, edge: Edge, hook: Hook) -> None:
        node, index = edge
        if node.hooks is None:
            node.hooks = {}
        HookHandle._count += 1
        self._id: Final = HookHandle._count
        self._hooks = node.hooks.setdefault(index, {})
        self._hooks[self._id] = hook

    def remove(self) -> bool:
        """Take the hook away; False when it was away already."""
        return self._hooks.pop(self._id, None) is not None


def retain(edge: Edge, tensor: Tensor) -> None:
    """Let ``tensor`` keep the gradient that arrives at ``edge``."""
    node, index = edge
    if node.retained is None:
        node.retained = {}
    kept = node.retained.setdefault(index, [])
    if not any(each() is tensor for each in kept):
        kept.append(weakref.ref(tensor))


def name_of_node(op_type: str) -> str:
    """The name of an operator's node as Paddle writes it: ``reduce_sum`` -> ``SumGradNode``."""
    base = _PHI_NAMES.get(op_type, op_type)
    return "".join(part[:1].upper() + part[1:] for part in base.split("_")) + "GradNode"


_PHI_NAMES: Final[dict[str, str]] = {
    "elementwise_add": "add",
    "elementwise_sub": "subtract",
    "elementwise_mul": "multiply",
    "elementwise_div": "divide",
    "elementwise_max": "maximum",
    "elementwise_min": "minimum",
    "elementwise_pow": "elementwise_pow",
    "elementwise_mod": "remainder",
    "elementwise_floordiv": "floor_divide",
    "elementwise_heaviside": "heaviside",
    "elementwise_fmax": "fmax",
    "elementwise_fmin": "fmin",
    "reduce_sum": "sum",
    "reduce_mean": "mean",
    "reduce_max": "max",
    "reduce_min": "min",
    "reduce_prod": "prod",
    "reduce_all": "all",
    "reduce_any": "any",
    "reduce_amax": "amax",
    "reduce_amin": "amin",
    "matmul_v2": "matmul",
    "reshape2": "reshape",
    "transpose2": "transpose",
    "squeeze2": "squeeze",
    "unsqueeze2": "unsqueeze",
    "flatten_contiguous_range": "flatten",
    "lookup_table_v2": "embedding",
    "expand_v2": "expand",
    "top_k_v2": "topk",
    "softmax_with_cross_entropy": "cross_entropy_with_softmax",
    "hard_swish": "hardswish",
    "hard_sigmoid": "hardsigmoid",
    "brelu": "hardtanh",
    "set_value": "set_value_with_tensor",
    "fill_any": "fill",
}
