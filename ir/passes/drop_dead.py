"""Remove ops whose results nobody reads.

Before::

    a = relu(x);  s = shape(x);  y = tanh(a)      # fetch y

After::

    a = relu(x);  y = tanh(a)

Kept: ops that write a stored variable, print, assert, or run a sub-block with an effect on something live.
"""

from __future__ import annotations

from .graph import Graph

__all__ = ["drop_dead"]

_EFFECTS = frozenset({"print", "assert", "py_func"})


def drop_dead(graph: Graph) -> None:
    """Edit block 0 in place, last op first."""
    live = set(graph.fetches)
    kept = []
    for op in reversed(graph.block.ops):
        outputs = list(op.output_names())
        stored = any((var := graph.block.vars.get(name)) is not None and var.is_persistable_tensor for name in outputs)
        if (
            op.type in _EFFECTS
            or op.sub_blocks()
            or (stored and not _is_frozen(op.attrs))
            or live.intersection(outputs)
        ):
            kept.append(op)
            live.update(op.input_names())
            live.update(graph.inner_reads(op))
    graph.block.ops = kept[::-1]


def _is_frozen(attrs: dict[str, object]) -> bool:
    """A batch norm in test mode names its statistics as outputs and leaves them as they are."""
    return bool(attrs.get("is_test"))
