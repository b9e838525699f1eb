"""The way back through a stack of recurrent layers (backpropagation through time)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..values import Array
from .rnn_cells import Alive, Trace
from .rnn_stack import Dropout, Reserve, Stack, alive_steps, in_step_order, weights_of

__all__ = ["StackGrad", "stack_grad"]


@dataclass(frozen=True, slots=True)
class StackGrad:
    """The gradients of a stack: of its input (None unless wanted), first states and WeightList."""

    input: Array | None
    states: list[Array]
    weights: list[Array]


@dataclass(frozen=True, slots=True)
class _Run:
    """A forward run, as the gradient op has it."""

    stack: Stack
    weights: Sequence[Array]
    x: Array
    states: Sequence[Array]
    out: Array
    reserve: Reserve
    alive: Alive
    dropout: Dropout | None

    def plain_weights(self, layer: int) -> list[list[Array]]:
        """Per direction input weight, recurrent weight and both biases, as they are."""
        directions = self.stack.directions
        return [
            [w.astype(self.stack.dtype, copy=False) for w in weights_of(self.weights, layer, k, directions)]
            for k in range(directions)
        ]

    def output(self, layer: int) -> Array:
        """The outputs of a layer, ``[time, batch, directions * hidden]``."""
        last = layer + 1 == len(self.stack.layers)
        return self.out if last else self.reserve.outputs(layer, *self.x.shape[:2])

    def input(self, layer: int) -> Array:
        """The input of a layer as it saw it."""
        if layer == 0:
            return self.x.astype(self.stack.dtype, copy=False)
        below = self.output(layer - 1)
        return below if self.dropout is None else self.dropout(below)

    def mine(self, layer: int, values: Sequence[Array]) -> list[Array]:
        """The part of ``[layers * directions, ...]`` tensors that belongs to a layer."""
        begin = layer * self.stack.directions
        return [v[begin : begin + self.stack.directions].astype(self.stack.dtype, copy=False) for v in values]

    def trace(self, layer: int) -> Trace:
        """What the loop back of a layer reads, in step order."""
        steps, batch = self.x.shape[:2]
        gates = self.reserve.gates(layer, steps, batch)
        if self.stack.directions == 2:
            gates = np.stack([gates[0], gates[1, ::-1]])
        saved = tuple(self.reserve.saved(layer, k, steps, batch) for k in range(self.stack.cell.saved))
        out = in_step_order(self.output(layer), self.stack.directions)
        first = self.mine(layer, self.states)
        return Trace(gates, saved, _before(out, first[0]), out, first)


def _before(out: Array, first: Array) -> Array:
    """The hidden state before every step, taken as the output before it.

    The reversed direction meets the padding, where the output is zero, before its first real step, which should
    see its first state. Paddle's gradient is made so: with SequenceLength it is not the derivative for a
    reversed direction whose first state is not zero.
    """
    return np.concatenate([first[:, None], out[:, :-1]], axis=1)


def _weight_grads(seen: Array, trace: Trace, d_gates: Array, d_product: Array) -> list[Array]:
    """Direction by direction the gradients of input weight, recurrent weight and both biases."""
    grads: list[Array] = []
    rows, width = d_gates.shape[1] * d_gates.shape[2], d_gates.shape[3]
    for direction in range(d_gates.shape[0]):
        x = (seen[::-1] if direction else seen).reshape(rows, seen.shape[2])
        gate, product = d_gates[direction].reshape(rows, width), d_product[direction].reshape(rows, width)
        grads += [gate.T @ x, product.T @ trace.before[direction].reshape(rows, trace.before.shape[3])]
        grads += [gate.sum(axis=0), product.sum(axis=0)]
    return grads


def _layer_back(
    run: _Run, layer: int, d_out: Array, d_last: Sequence[Array], input_wanted: bool
) -> tuple[Array | None, list[Array], list[Array]]:
    """One layer: the gradients of its input, first states and weights."""
    stack = run.stack
    plain = run.plain_weights(layer)
    trace = run.trace(layer)
    d_gates, d_product, d_first = stack.cell.back(
        trace,
        [w_recurrent for _, w_recurrent, *_ in plain],
        in_step_order(d_out, stack.directions),
        run.mine(layer, d_last),
        run.alive,
    )
    grads = _weight_grads(run.input(layer), trace, d_gates, d_product)
    if not input_wanted:
        return None, d_first, grads
    d_x = d_gates[0] @ plain[0][0]
    if stack.directions == 2:
        d_x += (d_gates[1] @ plain[1][0])[::-1]
    return d_x if layer == 0 or run.dropout is None else run.dropout(d_x), d_first, grads


def _in_list_order(by_layer: Sequence[Sequence[Array]], dtype: np.dtype[Any]) -> list[Array]:
    """Per layer ``[w_input, w_recurrent, b_input, b_recurrent] * directions`` in the order of WeightList."""
    flat = [grad.astype(dtype, copy=False) for grads in by_layer for grad in grads]
    return [g for k, g in enumerate(flat) if k % 4 < 2] + [g for k, g in enumerate(flat) if k % 4 >= 2]


def stack_grad(
    stack: Stack,
    weights: Sequence[Array],
    x: Array,
    states: Sequence[Array],
    length: Array | None,
    out: Array,
    reserve: Array,
    d_out: Array | None,
    d_last: Sequence[Array | None],
    *,
    dropout: Dropout | None = None,
    input_wanted: bool = True,
) -> StackGrad:
    """The gradients of a run of ``stack`` from those of its outputs and last states (None: zero)."""
    steps, batch, _ = x.shape
    kept = Reserve(reserve, stack.cell, len(stack.layers), stack.directions, stack.hidden)
    alive = alive_steps(length, steps, batch, stack.directions)
    run = _Run(stack, weights, x, states, out, kept, alive, dropout)
    d_current = np.zeros(out.shape, stack.dtype) if d_out is None else d_out.astype(stack.dtype, copy=False)
    ends = [np.zeros(s.shape, stack.dtype) if d is None else d for s, d in zip(states, d_last, strict=True)]
    d_first: list[list[Array]] = []
    grads: list[list[Array]] = []
    for layer in reversed(range(len(stack.layers))):
        d_below, first, own = _layer_back(run, layer, d_current, ends, layer > 0 or input_wanted)
        d_first.insert(0, first)
        grads.insert(0, own)
        if d_below is not None:
            d_current = d_below
    d_states = [np.concatenate([f[k] for f in d_first]).astype(x.dtype, copy=False) for k in range(len(states))]
    d_x = d_current.astype(x.dtype, copy=False) if input_wanted else None
    return StackGrad(d_x, d_states, _in_list_order(grads, weights[0].dtype))
