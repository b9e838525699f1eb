"""A stack of recurrent layers: weights packed for the time loops, the run through all layers, what it keeps.

Serves ``rnn`` and ``cudnn_lstm``. Activations are ``[time, batch, width]`` between the layers and in *step
order* within one, see rnn_cells.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..values import Array
from .common import accumulate_dtype
from .rnn_cells import CELLS, Alive, Cell

__all__ = [
    "Dropout",
    "Reserve",
    "Stack",
    "alive_steps",
    "in_step_order",
    "in_time_order",
    "pack_stack",
    "run_stack",
    "weights_of",
]


@dataclass(frozen=True, slots=True)
class Dropout:
    """What is dropped between layers: the same uint8 mask for all, kept values scaled up."""

    mask: Array
    probability: float

    def __call__(self, x: Array) -> Array:
        """``x * mask / (1 - probability)``; its own gradient as well."""
        if self.probability == 1.0:
            return np.zeros_like(x)
        scaled: Array = self.mask.astype(x.dtype) / np.asarray(1.0 - self.probability, x.dtype)
        scaled *= x
        return scaled


@dataclass(frozen=True, slots=True)
class Layer:
    """The weights of one layer, packed for the loops: transposed, sigmoid gates halved.

    Attributes:
        input: ``[directions, width, gates * hidden]``.
        bias: ``[directions, 1, gates * hidden]``, what can be added before the loop.
        recurrent: per direction ``[hidden, gates * hidden]``.
        reset: ``[directions, 1, hidden]``: the recurrent bias of GRU's new gate, which its reset gate scales;
            unused in other layers.
    """

    input: Array
    bias: Array
    recurrent: list[Array]
    reset: Array


@dataclass(frozen=True, slots=True)
class Stack:
    """The layers of one operator, bottom first, with what they have in common."""

    cell: Cell
    layers: list[Layer]
    directions: int
    hidden: int
    dtype: np.dtype[Any]


def _cell(mode: str) -> Cell:
    if mode not in CELLS:
        raise ValueError(f"mode is {mode!r}, it must be one of {', '.join(CELLS)}")
    return CELLS[mode]


def weights_of(weights: Sequence[Array], layer: int, direction: int, directions: int) -> list[Array]:
    """Input weight, recurrent weight, input bias, recurrent bias."""
    at = 2 * (layer * directions + direction)
    half = len(weights) // 2
    return [weights[at], weights[at + 1], weights[half + at], weights[half + at + 1]]


def pack_stack(weights: Sequence[Array], mode: str, num_layers: int, is_bidirec: bool, hidden_size: int) -> Stack:
    """Pack a WeightList.

    Raises:
        ValueError: an unknown mode, or a list that does not fit the attributes.
    """
    cell = _cell(mode)
    directions = 2 if is_bidirec else 1
    if len(weights) != 4 * num_layers * directions:
        raise ValueError(
            f"WeightList has {len(weights)} tensors, {num_layers} layer(s) in {directions} direction(s) take "
            f"{4 * num_layers * directions}"
        )
    if weights[1].shape != (cell.gates * hidden_size, hidden_size):
        raise ValueError(
            f"WeightList[1] has shape {list(weights[1].shape)}, {mode} with hidden_size {hidden_size} takes "
            f"{[cell.gates * hidden_size, hidden_size]}"
        )
    dtype = accumulate_dtype(weights[0].dtype)
    layers = [_pack_layer(cell, weights, layer, directions, hidden_size, dtype) for layer in range(num_layers)]
    return Stack(cell, layers, directions, hidden_size, dtype)


def _pack_layer(
    cell: Cell, weights: Sequence[Array], layer: int, directions: int, hidden: int, dtype: np.dtype[Any]
) -> Layer:
    each = [weights_of(weights, layer, direction, directions) for direction in range(directions)]
    halves = cell.halves(hidden, dtype)
    inputs = np.stack([w_input.T for w_input, *_ in each]) * halves
    recurrents = [np.ascontiguousarray(w_recurrent.T) * halves for _, w_recurrent, *_ in each]
    bias = np.stack([bias_in for *_, bias_in, _ in each]).astype(dtype)
    bias_hidden = np.stack([bias_hidden for *_, bias_hidden in each]).astype(dtype)
    reset = bias_hidden[:, None, -hidden:].copy()
    if cell is CELLS["GRU"]:
        bias_hidden[:, -hidden:] = 0
    return Layer(inputs, ((bias + bias_hidden) * halves)[:, None], recurrents, reset)


def alive_steps(length: Array | None, steps: int, batch: int, directions: int) -> Alive:
    """Which sequences have which steps, in step order: the reversed direction meets the padding first."""
    if length is None:
        return [None] * steps
    ends = np.asarray(length).reshape(-1)
    if ends.size != batch:
        raise ValueError(f"SequenceLength has {ends.size} entries, the batch of Input is {batch}")
    step = np.arange(steps)[:, None]
    masks = np.stack([step < ends, step >= steps - ends][:directions], axis=1)[..., None]
    return [None if mask.all() else mask for mask in masks]


def in_step_order(array: Array, directions: int) -> Array:
    """``[time, batch, directions * n]`` as ``[directions, time, batch, n]``, the second one reversed."""
    if directions == 1:
        return array[None]
    half = array.shape[2] // 2
    return np.stack([array[..., :half], array[::-1, :, half:]])


def in_time_order(array: Array) -> Array:
    """The inverse of :func:`in_step_order`."""
    halves = [array[0], *(array[k, ::-1] for k in range(1, len(array)))]
    return halves[0] if len(halves) == 1 else np.concatenate(halves, axis=2)


def _input_gates(x: Array, layer: Layer) -> Array:
    """The product of a layer's whole input, in step order."""
    directions, _, width = layer.input.shape
    steps, batch, _ = x.shape
    gates = np.empty((directions, steps * batch, width), layer.input.dtype)
    for direction in range(directions):
        seen = x[::-1] if direction else x
        np.matmul(seen.reshape(steps * batch, x.shape[2]), layer.input[direction], out=gates[direction])
    gates += layer.bias
    by_step: Array = gates.reshape(directions, steps, batch, width)
    return by_step


@dataclass(slots=True)
class Reserve:
    """Paddle's Reserve, ``[rows, directions * time * batch * hidden]``, by parts.

    Per layer the gates (time order), then per layer each saved array (step order), then the outputs of all
    layers but the last.
    """

    array: Array
    cell: Cell
    layers: int
    directions: int
    hidden: int

    @classmethod
    def empty(cls, stack: Stack, steps: int, batch: int) -> Reserve:
        """Room for a run of ``stack``."""
        count = len(stack.layers)
        rows = (stack.cell.gates + stack.cell.saved) * count + count - 1
        array = np.empty((rows, stack.directions * steps * batch * stack.hidden), stack.dtype)
        return cls(array, stack.cell, count, stack.directions, stack.hidden)

    def gates(self, layer: int, steps: int, batch: int) -> Array:
        """The gates of a layer as ``[directions, time, batch, gates * hidden]``."""
        rows = self.array[layer * self.cell.gates : (layer + 1) * self.cell.gates]
        return rows.reshape(self.directions, steps, batch, self.cell.gates * self.hidden)

    def saved(self, layer: int, which: int, steps: int, batch: int) -> Array:
        """A saved array of a layer as ``[directions, steps, batch, hidden]``."""
        row = (self.cell.gates + which) * self.layers + layer
        saved: Array = self.array[row].reshape(self.directions, steps, batch, self.hidden)
        return saved

    def outputs(self, layer: int, steps: int, batch: int) -> Array:
        """The outputs of a layer as ``[time, batch, directions * hidden]``."""
        row = (self.cell.gates + self.cell.saved) * self.layers + layer
        out: Array = self.array[row].reshape(steps, batch, self.directions * self.hidden)
        return out


def _check_states(states: Sequence[Array], stack: Stack, batch: int) -> None:
    expected = (len(stack.layers) * stack.directions, batch, stack.hidden)
    if len(states) != stack.cell.states or any(state.shape != expected for state in states):
        shapes = [list(state.shape) for state in states]
        raise ValueError(f"PreState must be {stack.cell.states} tensor(s) of shape {list(expected)}, found {shapes}")


def run_stack(
    stack: Stack,
    x: Array,
    states: Sequence[Array],
    length: Array | None,
    *,
    keep: bool = False,
    dropout: Dropout | None = None,
) -> tuple[Array, list[Array], Array | None]:
    """Outputs, last states and, with ``keep``, the Reserve; ``dropout`` is for the inputs of the upper layers.

    ``states`` are ``[layers * directions, batch, hidden]``; ``length`` is int ``[batch]`` or None.
    """
    if x.ndim != 3 or x.shape[2] != stack.layers[0].input.shape[1]:
        raise ValueError(
            f"Input must have shape [time, batch, {stack.layers[0].input.shape[1]}], it has {list(x.shape)}"
        )
    steps, batch, _ = x.shape
    _check_states(states, stack, batch)
    alive = alive_steps(length, steps, batch, stack.directions)
    reserve = Reserve.empty(stack, steps, batch) if keep else None
    last: list[list[Array]] = []
    current = x.astype(stack.dtype, copy=False)
    for index, layer in enumerate(stack.layers):
        if index and dropout is not None:
            current = dropout(current)
        mine = slice(index * stack.directions, (index + 1) * stack.directions)
        first = [state[mine].astype(stack.dtype, copy=False) for state in states]
        gates = _input_gates(current, layer)
        out, end, saved = stack.cell.run(gates, first, layer.recurrent, layer.reset, alive, keep)
        current = in_time_order(out)
        last.append(end)
        if reserve is not None:
            _fill(reserve, index, gates, saved, current)
    ends = [np.concatenate([end[which] for end in last]) for which in range(stack.cell.states)]
    return current, ends, reserve.array if reserve is not None else None


def _fill(reserve: Reserve, layer: int, gates: Array, saved: Sequence[Array], out: Array) -> None:
    _, steps, batch, _ = gates.shape
    kept = reserve.gates(layer, steps, batch)
    kept[0] = gates[0]
    if reserve.directions == 2:
        kept[1] = gates[1, ::-1]
    for which, array in enumerate(saved):
        reserve.saved(layer, which, steps, batch)[...] = array
    if layer + 1 < reserve.layers:
        reserve.outputs(layer, steps, batch)[...] = out
