"""Backward: walks the graph from the outputs, each node once all gradients of its outputs have arrived."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import InputError
from ..executor.values import array_of
from . import dtypes
from .dispatch import bind
from .graph import AccumulationNode, AutogradError, BackwardTwiceError, Edge, GradNode, StaleLeafNode, edge_of
from .mode import enable_grad
from .tensor import Tensor, borrow

__all__ = ["backward", "grad"]


class GradientShapeError(InputError, AssertionError):
    """A given gradient has another shape than its tensor."""


_leaf_lock = threading.Lock()


def backward(
    tensors: Tensor | Sequence[Tensor],
    grad_tensors: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool = False,
) -> None:
    """Add to ``grad`` of every leaf the gradient of the sum of ``tensors``, weighted by ``grad_tensors``.

    Args:
        tensors: any shapes. One that needs no gradient is passed over.
        grad_tensors: per tensor the incoming gradient, of its shape; None means ones.
        retain_graph: keep what the nodes hold, so that backward can run again.

    Raises:
        GradientShapeError: a gradient has another shape than its tensor.
        AutogradError: a value that a node needs was changed in place, or its operator has no gradient rule.
        BackwardTwiceError: the graph was freed by an earlier backward.
    """
    roots = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    seeds = _seeds(roots, grad_tensors)
    _Walk(retain_graph=retain_graph, recorded=False).run(roots, seeds)


def grad(
    outputs: Tensor | Sequence[Tensor],
    inputs: Tensor | Sequence[Tensor],
    grad_outputs: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool = False,
    no_grad_vars: Tensor | Sequence[Tensor] | None = None,
) -> list[Tensor | None]:
    """The gradients of ``outputs`` with respect to ``inputs``; nothing is added to any ``grad``.

    Args:
        grad_outputs: per output the incoming gradient; None means ones.
        retain_graph: keep the graph; by default the same as ``create_graph``.
        create_graph: record the computation of the gradients, so that they can be differentiated.
        only_inputs: must be True, as in Paddle.
        allow_unused: give None for an input that the outputs do not depend on, instead of raising.
        no_grad_vars: tensors that backward does not pass.

    Raises:
        InputError: an input is not reached (and ``allow_unused`` is False), or shapes do not fit.
    """
    if not only_inputs:
        raise InputError("grad(): only_inputs=False is not supported; list the inputs")
    roots = [outputs] if isinstance(outputs, Tensor) else list(outputs)
    wanted = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    blocked = [no_grad_vars] if isinstance(no_grad_vars, Tensor) else list(no_grad_vars or ())
    walk = _Walk(retain_graph=create_graph if retain_graph is None else retain_graph, recorded=create_graph)
    walk.stop_at(blocked)
    targets = [edge_of(each) for each in wanted]
    walk.capture(targets)
    walk.run(roots, _seeds(roots, grad_outputs))
    results = [None if edge is None else walk.captured.get(edge) for edge in targets]
    for index, each in enumerate(results):
        if each is None and not allow_unused:
            raise InputError(
                f"(InvalidArgument) The {index}-th input does not appear in the backward graph. Please check the "
                "input tensor or set allow_unused=True to get None result."
            )
    return [None if each is None else _as_tensor(each, stop=not create_graph) for each in results]


def _seeds(roots: Sequence[Tensor], given: Any) -> list[Tensor | None]:
    """The incoming gradients, checked and aligned with the roots."""
    if given is None:
        return [None] * len(roots)
    seeds = [given] if isinstance(given, Tensor) else list(given)
    if len(seeds) != len(roots):
        raise InputError(f"{len(seeds)} gradient(s) given for {len(roots)} tensor(s)")
    for root, seed in zip(roots, seeds, strict=True):
        if seed is not None and not isinstance(seed, Tensor):
            raise InputError(f"the type of grad_tensor must be Tensor or None, got {type(seed).__name__}")
        if seed is not None and seed._array.shape != root._array.shape:
            raise GradientShapeError(
                f"Tensor shape not match, Tensor of grad_tensor [ {seed.name} ] with shape {seed.shape} mismatch "
                f"Tensor [ {root.name} ] with shape {root.shape}"
            )
    return seeds


def _as_tensor(value: Any, stop: bool) -> Tensor:
    if isinstance(value, Tensor):
        return value
    made = borrow(array_of(value))
    made._stop = stop
    return made


class _Walk:
    """One backward run. Gradients are arrays, or tensors where the run is recorded."""

    def __init__(self, retain_graph: bool, recorded: bool) -> None:
        self.retain_graph = retain_graph
        self.recorded = recorded
        self.waiting: dict[GradNode, int] = {}
        self.arrived: dict[GradNode, list[Any]] = {}
        self.ours: set[Edge] = set()
        self.blocked: set[Edge] = set()
        self.targets: set[Edge] | None = None
        self.captured: dict[Edge, Any] = {}

    def stop_at(self, tensors: Sequence[Tensor]) -> None:
        """Let no gradient through these tensors."""
        self.blocked = {edge for edge in map(edge_of, tensors) if edge is not None}

    def capture(self, targets: Sequence[Edge | None]) -> None:
        """Take the gradients at these edges instead of adding to leaves; visit only nodes that lead there."""
        self.targets = {edge for edge in targets if edge is not None}

    def run(self, roots: Sequence[Tensor], seeds: Sequence[Tensor | None]) -> None:
        """Walk from the roots until nothing waits."""
        edges = []
        for root, seed in zip(roots, seeds, strict=True):
            edge = edge_of(root)
            if edge is None or edge in self.blocked:
                continue
            self._arrive(edge, self._seed(root, seed))
            edges.append(edge)
        starts = list(dict.fromkeys(node for node, _ in edges))
        useful = self._count(starts)
        ready = deque(node for node in starts if not self.waiting.get(node))
        while ready:
            node = ready.popleft()
            grads = self.arrived.pop(node, None)
            if grads is None:
                grads = [None] * node.width
            results = self._visit(node, grads, useful)
            for edge, result in zip(node.edges, results, strict=True):
                if edge is None:
                    continue
                target = edge[0]
                if result is not None and edge not in self.blocked:
                    self._arrive(edge, result)
                left = self.waiting[target] = self.waiting[target] - 1
                if not left:
                    ready.append(target)

    def _seed(self, root: Tensor, seed: Tensor | None) -> Any:
        if seed is not None:
            return seed if self.recorded else seed._array
        ones = np.ones(root._array.shape, root._array.dtype)
        return borrow(ones) if self.recorded else ones

    def _count(self, starts: Sequence[GradNode]) -> set[GradNode] | None:
        """Count for each node the gradients it waits for; the nodes that lead to a target, None for all."""
        order = []
        seen = set(starts)
        stack = list(starts)
        while stack:
            node = stack.pop()
            order.append(node)
            for edge in node.edges:
                if edge is not None:
                    target = edge[0]
                    self.waiting[target] = self.waiting.get(target, 0) + 1
                    if target not in seen:
                        seen.add(target)
                        stack.append(target)
        return None if self.targets is None else self._leading(order)

    def _leading(self, nodes: Sequence[GradNode]) -> set[GradNode]:
        """The nodes from which some target is reached."""
        parents: dict[GradNode, list[GradNode]] = {}
        for node in nodes:
            for edge in node.edges:
                if edge is not None:
                    parents.setdefault(edge[0], []).append(node)
        targets = self.targets or ()
        useful: set[GradNode] = set()
        stack = [parent for node in dict.fromkeys(edge[0] for edge in targets) for parent in parents.get(node, ())]
        while stack:
            node = stack.pop()
            if node not in useful:
                useful.add(node)
                stack.extend(parents.get(node, ()))
        return useful

    def _visit(self, node: GradNode, grads: list[Any], useful: set[GradNode] | None) -> Sequence[Any]:
        """Hooks, then the node itself; gradients of its inputs."""
        if node.hooks or node.retained:
            for index, each in enumerate(grads):
                if each is not None:
                    grads[index] = self._hooked(node, index, each)
        if self.targets:
            for index, each in enumerate(grads):
                if each is not None and (node, index) in self.targets:
                    self.captured[node, index] = each
        if isinstance(node, AccumulationNode):
            if self.targets is None and grads[0] is not None:
                _accumulate(node, grads[0])
            return ()
        if (useful is not None and node not in useful) or all(each is None for each in grads):
            return [None] * len(node.edges)
        if node.released:
            raise BackwardTwiceError(
                f"(Fatal) The TensorWrappers of {node.name()} do not exist. This may be because: You calculate "
                "backward twice for the same subgraph without setting retain_graph=True. Please set "
                "retain_graph=True in the first backward/grad call."
            )
        results = self._apply(node, grads)
        if not self.retain_graph:
            node.release()
        return results

    def _apply(self, node: GradNode, grads: list[Any]) -> Sequence[Any]:
        if not self.recorded:
            return node.apply(grads)
        with enable_grad():
            return node.apply_graph(grads)

    def _hooked(self, node: GradNode, index: int, value: Any) -> Any:
        """The gradient after the hooks of its tensor; tensors that retain it are given it."""
        for hook in list((node.hooks or {}).get(index, {}).values()):
            seen = _as_tensor(value, stop=True)
            answer = hook(seen)
            chosen = seen if answer is None else answer
            if not isinstance(chosen, Tensor):
                raise InputError(f"a gradient hook must return a Tensor or None, got {type(chosen).__name__}")
            value = chosen if self.recorded else chosen._array
        for reference in (node.retained or {}).get(index, ()):
            tensor = reference()
            if tensor is not None:
                tensor._grad = _as_tensor(value, stop=False)
        return value

    def _arrive(self, edge: Edge, value: Any) -> None:
        """Add a gradient to those that arrived at an edge."""
        node, index = edge
        grads = self.arrived.get(node)
        if grads is None:
            grads = self.arrived[node] = [None] * node.width
        held = grads[index]
        if held is None:
            grads[index] = value
        elif self.recorded:
            grads[index] = bind("elementwise_add", {"axis": -1})(held, value)
        elif edge in self.ours and held.dtype == value.dtype:
            np.add(held, array_of(value), out=held)
        else:
            grads[index] = np.asarray(array_of(held) + array_of(value))
            self.ours.add(edge)


def _accumulate(node: AccumulationNode, value: Any) -> None:
    """Add to the gradient of a leaf."""
    leaf = node.leaf()
    if isinstance(node, StaleLeafNode):
        name = "" if leaf is None else leaf.name
        raise AutogradError(
            f"(PermissionDenied) Tensor '{name}' is a leaf that was changed by {node.writer} through a view of it, "
            "so the gradient of what was computed from it afterwards is not its own; write to it under no_grad() "
            "or set_value() it before using it again."
        )
    if leaf is None:
        return
    if isinstance(value, Tensor):
        with enable_grad():
            leaf._grad = value if leaf._grad is None else bind("elementwise_add", {"axis": -1})(leaf._grad, value)
        return
    array = array_of(value)
    with _leaf_lock:
        held = leaf._grad
        if held is None:
            leaf._grad = _as_tensor(array, stop=False)
        elif held._storage.owned and held._array.flags.writeable and dtypes.is_floating(held._array.dtype):
            np.add(held._array, array, out=held._array, casting="same_kind")
            held._storage.bump("backward")
        else:
            held._array = np.asarray(held._array + array, held._array.dtype)
            held._storage.owned = True
