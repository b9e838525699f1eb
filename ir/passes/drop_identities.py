"""Remove ops that hand their input on unchanged.

Before::

    b = assign(a);  c = scale(b) {scale: 1, bias: 0};  d = dropout(c) {is_test};  e = relu(d)

After::

    e = relu(a)

Holds for simple names only (see :class:`Graph`): a loop that snapshots a variable with ``assign`` keeps it.
"""

from __future__ import annotations

from ..desc import OpDesc
from .graph import Graph

__all__ = ["drop_identities"]


def drop_identities(graph: Graph) -> None:
    """Edit block 0 in place."""
    gone: list[OpDesc] = []
    renamed: dict[str, str] = {}
    written: set[str] = set()
    for op in graph.block.ops:
        op.rename(renamed)
        source = op.input("X")
        if source is None or not _is_removable(op, source, graph, written):
            written.update(op.output_names())
            continue
        target = op.outputs["Out"][0]
        if target in graph.fetches:
            # The producer writes the fetched name itself; everybody else follows.
            renamed = {old: target if new == source else new for old, new in renamed.items()}
            renamed[source] = target
            for each in graph.block.ops:
                each.rename({source: target})
            written.add(target)
        else:
            renamed[target] = source
        gone.append(op)
    graph.remove(gone)


def _is_removable(op: OpDesc, source: str, graph: Graph, written: set[str]) -> bool:
    """Whether readers of the target may read the source instead.

    A stored or fed variable that an op writes later is no such source: the target is a snapshot of it.
    """
    target = _target(op)
    if target is None or target == source or not _is_identity(op, graph):
        return False
    if not graph.is_simple(source) or not graph.is_simple(target):
        return False
    if source in graph.producer and source not in written:
        return False
    return target not in graph.fetches or (source in written and source not in graph.fetches)


def _target(op: OpDesc) -> str | None:
    others = [name for slot, names in op.outputs.items() if slot != "Out" for name in names]
    return op.output("Out") if not others or op.type == "dropout" else None


def _is_identity(op: OpDesc, graph: Graph) -> bool:
    attrs = op.attrs
    if op.type in ("assign", "share_data", "npu_identity", "memcpy", "memcpy_h2d", "memcpy_d2h"):
        return True
    if op.type == "scale":
        return attrs.get("scale", 1.0) == 1.0 and attrs.get("bias", 0.0) == 0.0 and not op.input("ScaleTensor")
    if op.type == "dropout":
        mask = op.output("Mask")
        unread = mask is None or (mask not in graph.readers and mask not in graph.fetches)
        keeps = attrs.get("dropout_implementation", "downgrade_in_infer") == "upscale_in_train"
        plain = "dropout_prob" not in op.attr_types or op.attr_types["dropout_prob"].name != "VAR"
        return unread and plain and bool(attrs.get("is_test")) and (keeps or attrs.get("dropout_prob") == 0.0)
    return False
