"""Time loops of LSTM and GRU over ragged batches (1.x), in the time-major order of a batch layout.

Rows stand step by step, the longest sequence first, so that the sequences still running are always the first
rows of a step; see :class:`~.sequence_layout.BatchLayout`. Shared by the operators that 1.x programs hold and
by those that inference passes fuse.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..values import Array
from .sequence_layout import BatchLayout

__all__ = [
    "ACTIVATIONS",
    "Activation",
    "Gru",
    "LstmActivations",
    "LstmGrads",
    "LstmRun",
    "activation",
    "gru_back",
    "gru_run",
    "lstm_back",
    "lstm_run",
    "states_seen",
]


@dataclass(frozen=True, slots=True)
class Activation:
    """An activation and its derivative as a function of its output."""

    apply: Callable[[Array], Array]
    slope: Callable[[Array], Array]


def _sigmoid(x: Array) -> Array:
    """``1 / (1 + exp(-x))`` with x held in [-40, 13], as the 1.x kernels do."""
    out: Array = np.exp(-np.clip(x, -40, 13))
    out += 1
    return np.reciprocal(out, out=out)


def _relu(x: Array) -> Array:
    return np.maximum(x, 0)


ACTIVATIONS = {
    "identity": Activation(np.positive, np.ones_like),
    "sigmoid": Activation(_sigmoid, lambda y: y * (1 - y)),
    "tanh": Activation(np.tanh, lambda y: 1 - y * y),
    "relu": Activation(_relu, lambda y: (y > 0).astype(y.dtype)),
}


def activation(name: str, attr: str) -> Activation:
    """The activation that an attribute names (the empty name is the identity)."""
    found = ACTIVATIONS.get(name or "identity")
    if found is None:
        raise ValueError(f"{attr} is {name!r}, it must be one of {', '.join(ACTIVATIONS)}")
    return found


@dataclass(frozen=True, slots=True)
class LstmActivations:
    """The three activations of an LSTM: of the gates, of the cell on its way out, of the candidate."""

    gate: Activation
    cell: Activation
    candidate: Activation

    @classmethod
    def named(cls, gate: str, cell: str, candidate: str) -> LstmActivations:
        """By the names in the attributes."""
        return cls(
            activation(gate, "gate_activation"),
            activation(cell, "cell_activation"),
            activation(candidate, "candidate_activation"),
        )


@dataclass(slots=True)
class LstmRun:
    """What an LSTM run made, rows in batch order.

    Attributes:
        gates: activated candidate, input, forget and output gate.
        cells: the cell; ``acts`` its activation.
        hidden: the output of the cell.
        state: what the next step sees: ``hidden``, or its projection.
    """

    gates: Array
    cells: Array
    acts: Array
    hidden: Array
    state: Array


def lstm_run(
    gates: Array,
    layout: BatchLayout,
    first: tuple[Array | None, Array | None],
    weight: Array,
    peepholes: Array | None,
    acts: LstmActivations,
    project: Callable[[Array], Array] | None = None,
    cell_clip: float = 0.0,
) -> LstmRun:
    """Run an LSTM over gates (order: candidate, input, forget, output) that hold all but the recurrent product.

    ``first`` are the states of the sequences in batch order (None: zero), ``peepholes`` ``[3, hidden]`` the
    weights of the cell in the input, forget and output gate. Overwrites ``gates``.
    """
    n = gates.shape[1] // 4
    cells, active, hidden = (np.empty((gates.shape[0], n), gates.dtype) for _ in range(3))
    state = hidden if project is None else np.empty((gates.shape[0], weight.shape[0]), gates.dtype)
    before, cell = first
    for begin, end in layout.spans():
        count = end - begin
        gate, now = gates[begin:end], cells[begin:end]
        if before is not None:
            gate += before[:count] @ weight
        old = np.zeros_like(now) if cell is None else cell[:count]
        if peepholes is not None:
            gate[:, n : 2 * n] += old * peepholes[0]
            gate[:, 2 * n : 3 * n] += old * peepholes[1]
        gate[:, :n] = acts.candidate.apply(gate[:, :n])
        gate[:, n : 3 * n] = acts.gate.apply(gate[:, n : 3 * n])
        np.multiply(gate[:, :n], gate[:, n : 2 * n], out=now)
        now += old * gate[:, 2 * n : 3 * n]
        if cell_clip > 0:
            np.clip(now, -cell_clip, cell_clip, out=now)
        if peepholes is not None:
            gate[:, 3 * n :] += now * peepholes[2]
        gate[:, 3 * n :] = acts.gate.apply(gate[:, 3 * n :])
        active[begin:end] = acts.cell.apply(now)
        np.multiply(gate[:, 3 * n :], active[begin:end], out=hidden[begin:end])
        if project is not None:
            state[begin:end] = project(hidden[begin:end])
        before, cell = state[begin:end], now
    return LstmRun(gates, cells, active, hidden, state)


@dataclass(slots=True)
class LstmGrads:
    """Gradients of an LSTM run: of the gates before activation, and of the first states (None where absent)."""

    gates: Array
    hidden0: Array | None
    cell0: Array | None


def lstm_back(
    run: LstmRun,
    layout: BatchLayout,
    first: tuple[Array | None, Array | None],
    weight: Array,
    peepholes: Array | None,
    acts: LstmActivations,
    d_state: Array,
    unproject: Callable[[slice], Array] | None = None,
    cell_clip: float = 0.0,
) -> LstmGrads:
    """Back through :func:`lstm_run`. Overwrites ``d_state``, the gradient of ``run.state``.

    ``unproject(rows)`` gives, from ``d_state``, the gradient of these rows of ``run.hidden``.
    """
    d_gates, d_cells = np.empty_like(run.gates), np.zeros_like(run.cells)
    d_first = [None if each is None else np.zeros_like(each) for each in first]
    spans = layout.spans()
    for at in range(len(spans) - 1, -1, -1):
        begin, end = spans[at]
        rows = slice(begin, end)
        d_hidden = d_state[rows] if unproject is None else unproject(rows)
        d_gates[rows], d_source = _lstm_step_back(
            run.gates[rows],
            run.cells[rows],
            run.acts[rows],
            _source(spans, at, run.cells, first[1]),
            d_hidden,
            d_cells[rows],
            peepholes,
            acts,
            cell_clip,
        )
        start = spans[at - 1][0] if at else 0
        d_before, d_cell = (d_state, d_cells) if at else d_first
        if d_before is not None:
            d_before[start : start + end - begin] += d_gates[rows] @ weight.T
        if d_cell is not None:
            d_cell[start : start + end - begin] += d_source
    return LstmGrads(d_gates, *d_first)


def _lstm_step_back(
    gate: Array,
    cell: Array,
    active: Array,
    source: Array,
    d_hidden: Array,
    d_cell: Array,
    peepholes: Array | None,
    acts: LstmActivations,
    cell_clip: float,
) -> tuple[Array, Array]:
    """One step: the gradients of its gates before activation and of the cell that it saw."""
    n = cell.shape[1]
    candidate, enter, forget, leave = (gate[:, k * n : (k + 1) * n] for k in range(4))
    d_leave = d_hidden * active * acts.gate.slope(leave)
    d_cell = d_cell + d_hidden * leave * acts.cell.slope(active)
    if peepholes is not None:
        d_cell += d_leave * peepholes[2]
    if cell_clip > 0:
        d_cell[np.abs(cell) >= cell_clip] = 0
    d_enter = d_cell * candidate * acts.gate.slope(enter)
    d_forget = d_cell * source * acts.gate.slope(forget)
    d_source = d_cell * forget
    if peepholes is not None:
        d_source += d_enter * peepholes[0] + d_forget * peepholes[1]
    d_candidate = d_cell * enter * acts.candidate.slope(candidate)
    return np.concatenate([d_candidate, d_enter, d_forget, d_leave], axis=1), d_source


def _source(spans: list[tuple[int, int]], at: int, rows: Array, first: Array | None) -> Array:
    """The rows that step ``at`` saw as its state."""
    count = spans[at][1] - spans[at][0]
    if at:
        begin = spans[at - 1][0]
        return rows[begin : begin + count]
    return np.zeros_like(rows[:count]) if first is None else first[:count]


def states_seen(layout: BatchLayout, rows: Array, first: Array | None) -> Array:
    """For every row the state that it saw: that of its sequence one step before, or the first one."""
    spans = layout.spans()
    return np.concatenate([_source(spans, at, rows, first) for at in range(len(spans))] or [rows])


@dataclass(frozen=True, slots=True)
class Gru:
    """The parameters of a GRU: weights, activations, and which way its update gate mixes.

    Attributes:
        gate: ``[hidden, 2 * hidden]``, the recurrent weight of update and reset gate.
        state: ``[hidden, hidden]``, that of the candidate.
        origin_mode: whether the update gate is the share of the old state (else that of the candidate).
    """

    gate: Array
    state: Array
    gate_act: Activation
    act: Activation
    origin_mode: bool

    @classmethod
    def of(cls, weight: Array, gate_act: Activation, act: Activation, origin_mode: bool) -> Gru:
        """From the one tensor of the program: both weights, one behind the other in memory."""
        n = weight.shape[0]
        if weight.shape != (n, 3 * n):
            raise ValueError(f"Weight must have shape [hidden, 3 * hidden], it has {list(weight.shape)}")
        flat = weight.reshape(-1)
        return cls(flat[: 2 * n * n].reshape(n, 2 * n), flat[2 * n * n :].reshape(n, n), gate_act, act, origin_mode)

    def step(self, gate: Array, before: Array | None) -> tuple[Array, Array]:
        """Reset state and hidden state from gates (update, reset, candidate), which are overwritten."""
        n = self.state.shape[0]
        if before is not None:
            gate[:, : 2 * n] += before @ self.gate
        gate[:, : 2 * n] = self.gate_act.apply(gate[:, : 2 * n])
        old = np.zeros_like(gate[:, :n]) if before is None else before
        reset = gate[:, n : 2 * n] * old
        if before is not None:
            gate[:, 2 * n :] += reset @ self.state
        gate[:, 2 * n :] = self.act.apply(gate[:, 2 * n :])
        update, candidate = gate[:, :n], gate[:, 2 * n :]
        if self.origin_mode:
            return reset, candidate + update * (old - candidate)
        return reset, old + update * (candidate - old)

    def step_back(self, gate: Array, before: Array, d_hidden: Array) -> tuple[Array, Array]:
        """The gradients of the gates before activation and of the state before the step."""
        n = self.state.shape[0]
        update, reset, candidate = (gate[:, k * n : (k + 1) * n] for k in range(3))
        d_update, share = d_hidden * (candidate - before), update
        if self.origin_mode:
            d_update, share = -d_update, 1 - update
        d_candidate = d_hidden * share * self.act.slope(candidate)
        d_reset_state = d_candidate @ self.state.T
        d_reset = d_reset_state * before * self.gate_act.slope(reset)
        d_gates = np.concatenate([d_update * self.gate_act.slope(update), d_reset, d_candidate], axis=1)
        d_before = d_hidden * (1 - share) + d_reset_state * reset
        d_before += d_gates[:, : 2 * n] @ self.gate.T
        return d_gates, d_before

    def weight_grad(self, d_gates: Array, before: Array, resets: Array) -> Array:
        """The gradient of the one weight tensor, from rows of all steps."""
        n = self.state.shape[0]
        parts = [before.T @ d_gates[:, : 2 * n], resets.T @ d_gates[:, 2 * n :]]
        return np.concatenate([part.reshape(-1) for part in parts]).reshape(n, 3 * n)


def gru_run(gates: Array, layout: BatchLayout, first: Array | None, gru: Gru) -> tuple[Array, Array]:
    """Reset states and hidden states in batch order; ``gates`` hold all but the recurrent product, and are
    overwritten with the activated gates."""
    n = gru.state.shape[0]
    resets, hidden = np.empty((gates.shape[0], n), gates.dtype), np.empty((gates.shape[0], n), gates.dtype)
    before = first
    for begin, end in layout.spans():
        seen = None if before is None else before[: end - begin]
        resets[begin:end], hidden[begin:end] = gru.step(gates[begin:end], seen)
        before = hidden[begin:end]
    return resets, hidden


def gru_back(
    gates: Array, hidden: Array, layout: BatchLayout, first: Array | None, gru: Gru, d_hidden: Array
) -> tuple[Array, Array | None]:
    """Gradients of the gates before activation and of the first states. Overwrites ``d_hidden``."""
    d_gates = np.empty_like(gates)
    d_first = None if first is None else np.zeros_like(first)
    spans = layout.spans()
    for at in range(len(spans) - 1, -1, -1):
        begin, end = spans[at]
        before = _source(spans, at, hidden, first)
        d_gates[begin:end], d_before = gru.step_back(gates[begin:end], before, d_hidden[begin:end])
        if at:
            start = spans[at - 1][0]
            d_hidden[start : start + end - begin] += d_before
        elif d_first is not None:
            d_first[: end - begin] += d_before
    return d_gates, d_first
