"""Run a chain of elementwise ops as one op that goes over the data once, block by block.

Before::

    a = hard_swish(x);  b = elementwise_mul(c1, a);  y = elementwise_add(b, c2)

After::

    y = fused_chain(x, [c1, c2]) {steps: hard_swish, elementwise_mul, elementwise_add}

The same kernels run in the same order on the same numbers, so results are bit-equal; only the traffic to memory
is less. A chain holds activations and arithmetic with constants of one number or one number a channel.
"""

from __future__ import annotations

from typing import Any

from ..desc import OpDesc
from ..registry import IGNORED_ATTRS, find
from .graph import Graph

__all__ = ["fuse_chains"]

_UNARY = frozenset(
    [
        "relu",
        "relu6",
        "leaky_relu",
        "sigmoid",
        "tanh",
        "hard_swish",
        "hard_sigmoid",
        "swish",
        "silu",
        "gelu",
        "elu",
        "selu",
        "softplus",
        "mish",
        "exp",
        "sqrt",
        "square",
        "abs",
    ]
)
_BINARY = frozenset(["elementwise_add", "elementwise_sub", "elementwise_mul", "elementwise_div"])


def fuse_chains(graph: Graph) -> None:
    """Edit block 0 in place."""
    gone: list[OpDesc] = []
    taken: set[int] = set()
    for op in list(graph.block.ops):
        if id(op) in taken:
            continue
        chain = _chain_from(op, graph)
        if len(chain) < 2:
            continue
        taken.update(id(each) for each in chain)
        # The last op becomes the fused one: its operands are constants, its input exists by then.
        source = _source(chain[0], graph)
        _become_chain(chain, source, graph)
        gone.extend(chain[:-1])
    graph.remove(gone)


def _chain_from(op: OpDesc, graph: Graph) -> list[OpDesc]:
    chain: list[OpDesc] = []
    current: OpDesc | None = op
    while current is not None and _source(current, graph):
        target = current.output("Out")
        if target is None or not graph.is_simple(target):
            break
        chain.append(current)
        current = graph.sole_reader(target)
    return chain


def _source(op: OpDesc, graph: Graph) -> str:
    """The flowing input of an op that may stand in a chain, else ``""``."""
    if any(kind.name in ("VAR", "VARS") for kind in op.attr_types.values()) or find(op.type) is None:
        return ""
    names = list(op.input_names())
    if op.type in _UNARY:
        return names[0] if len(names) == 1 and op.input("X") == names[0] else ""
    if op.type not in _BINARY or len(names) != 2:
        return ""
    x, y = names
    if graph.is_constant(y) and not graph.is_constant(x) and _narrow(y, graph):
        return x
    # With the constant on the left its shape must not widen the result: one element, no more dimensions.
    if graph.is_constant(x) and not graph.is_constant(y) and graph.params[x].size == 1 and graph.params[x].ndim <= 1:
        return y
    return ""


def _narrow(name: str, graph: Graph) -> bool:
    """One number, or one number along a single axis."""
    shape = graph.params[name].shape
    return bool(sum(dim != 1 for dim in shape) <= 1)


def _become_chain(chain: list[OpDesc], source: str, graph: Graph) -> None:
    steps: list[tuple[str, dict[str, Any], str]] = []
    operands: list[str] = []
    for op in chain:
        attrs = {name: value for name, value in op.attrs.items() if name not in IGNORED_ATTRS}
        if op.type in _UNARY:
            steps.append((op.type, attrs, "alone"))
            continue
        left = graph.is_constant(op.inputs["X"][0])
        operands.append(op.inputs["X" if left else "Y"][0])
        steps.append((op.type, attrs, "left" if left else "right"))
    last = chain[-1]
    last.type = "fused_chain"
    last.inputs = {"X": [source], "Operands": operands}
    last.outputs = {"Out": [last.outputs["Out"][0]]}
    last.attrs = {"steps": steps}
    last.attr_types = {}
