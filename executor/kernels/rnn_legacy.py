"""The recurrent operators of 1.x: ``lstm`` and ``gru`` over ragged batches, and their single steps.

The input of all holds the product with the input weight already. Intermediate outputs (BatchGate and its kin)
have their rows step by step, the longest sequence first.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir.registry import operator
from ..values import Array, array_of
from .common import refuse_half
from .rnn_ragged import (
    ACTIVATIONS,
    Activation,
    Gru,
    LstmActivations,
    LstmRun,
    gru_back,
    gru_run,
    lstm_back,
    lstm_run,
    states_seen,
)
from .rnn_ragged import activation as named_activation
from .sequence_layout import BatchLayout, Index, batch_layout, offsets_of, same_lod

__all__ = [
    "disordered",
    "gru",
    "gru_unit",
    "lstm",
    "lstm_bias_grad",
    "lstm_gates",
    "lstm_unit",
    "named_gru",
    "ordered",
    "peephole_weights",
]


def ordered(state: Any, order: Index) -> Array | None:
    """A first state in batch order."""
    return None if state is None else array_of(state)[order]


def disordered(grad: Array | None, order: Index) -> Array | None:
    """The inverse of :func:`ordered`."""
    if grad is None:
        return None
    out = np.empty_like(grad)
    out[order] = grad
    return out


def peephole_weights(bias: Any, n: int, use: bool) -> Array | None:
    """The weights of the cell in the gates, ``[3, n]``: they stand behind the bias of the gates."""
    return array_of(bias).reshape(-1)[4 * n : 7 * n].reshape(3, n) if use and bias is not None else None


def _check_lstm(rows: Array, weight: Array, bias: Array, use_peepholes: bool) -> int:
    n: int = rows.shape[1] // 4
    width = (7 if use_peepholes else 4) * n
    if rows.shape[1] != weight.shape[1] or bias.size != width:
        raise ValueError(
            f"Input has width {rows.shape[1]}, so Weight must have as many columns and Bias {width} numbers; "
            f"they have {weight.shape[1]} and {bias.size}"
        )
    return n


def lstm_gates(x: Any, bias: Any, layout: BatchLayout) -> Array:
    """The rows of the input in batch order, with the bias of the gates."""
    gates: Array = array_of(x)[layout.rows]
    if bias is not None:
        gates += array_of(bias).reshape(-1)[: gates.shape[1]]
    return gates


@operator(
    "lstm",
    inputs="Input H0? C0? Weight Bias",
    outputs="Hidden Cell BatchGate BatchCellPreAct",
    lod=True,
    ignores="is_test",
)
def lstm(
    x: Any,
    h0: Any,
    c0: Any,
    weight: Any,
    bias: Any,
    *,
    use_peepholes: bool = True,
    is_reverse: bool = False,
    gate_activation: str = "sigmoid",
    cell_activation: str = "tanh",
    candidate_activation: str = "tanh",
) -> tuple[Any, Any, Array, Array]:
    """Hidden and Cell of every row; gates stand in the order candidate, input, forget, output."""
    layout = batch_layout(offsets_of(x, "Input"), is_reverse)
    w, b = array_of(weight), array_of(bias)
    n = _check_lstm(array_of(x), w, b, use_peepholes)
    run = lstm_run(
        lstm_gates(x, b, layout),
        layout,
        (ordered(h0, layout.order), ordered(c0, layout.order)),
        w,
        peephole_weights(b, n, use_peepholes),
        LstmActivations.named(gate_activation, cell_activation, candidate_activation),
    )
    hidden, cell = (same_lod(layout.to_sequences(rows), x) for rows in (run.hidden, run.cells))
    return hidden, cell, run.gates, run.acts


def lstm_bias_grad(
    run: LstmRun, d_gates: Array, layout: BatchLayout, c0: Array | None, bias: Any, use_peepholes: bool
) -> Array | None:
    """Sums over all rows; the peepholes' are weighted with the cell that each gate saw."""
    if bias is None:
        return None
    n = run.cells.shape[1]
    parts = [d_gates.sum(axis=0)]
    if use_peepholes:
        seen = states_seen(layout, run.cells, c0)
        for k, cells in ((1, seen), (2, seen), (3, run.cells)):
            parts.append(np.einsum("rn,rn->n", d_gates[:, k * n : (k + 1) * n], cells))
    return np.concatenate(parts).reshape(array_of(bias).shape)


@lstm.gradient(
    takes="Input H0? C0? Weight Bias Hidden Cell BatchGate BatchCellPreAct Hidden@GRAD",
    gives="Input@GRAD H0@GRAD C0@GRAD Weight@GRAD Bias@GRAD",
)
def lstm_grad(
    x: Any,
    h0: Any,
    c0: Any,
    weight: Any,
    bias: Any,
    hidden: Any,
    cell: Any,
    gates: Any,
    acts: Any,
    d_hidden: Any,
    *,
    use_peepholes: bool = True,
    is_reverse: bool = False,
    gate_activation: str = "sigmoid",
    cell_activation: str = "tanh",
    candidate_activation: str = "tanh",
) -> tuple[Any, Array | None, Array | None, Array, Array | None]:
    """Backpropagation through time; a gradient of Cell is not taken, as in Paddle."""
    layout = batch_layout(offsets_of(x, "Input"), is_reverse)
    w, b = array_of(weight), array_of(bias)
    out, cells = array_of(hidden)[layout.rows], array_of(cell)[layout.rows]
    run = LstmRun(array_of(gates), cells, array_of(acts), out, out)
    first = (ordered(h0, layout.order), ordered(c0, layout.order))
    made = lstm_back(
        run,
        layout,
        first,
        w,
        peephole_weights(b, cells.shape[1], use_peepholes),
        LstmActivations.named(gate_activation, cell_activation, candidate_activation),
        array_of(d_hidden)[layout.rows],
    )
    return (
        same_lod(layout.to_sequences(made.gates), x),
        disordered(made.hidden0, layout.order),
        disordered(made.cell0, layout.order),
        states_seen(layout, out, first[0]).T @ made.gates,
        lstm_bias_grad(run, made.gates, layout, first[1], bias, use_peepholes),
    )


@operator(
    "gru",
    inputs="Input H0? Weight Bias?",
    outputs="BatchGate BatchResetHiddenPrev BatchHidden Hidden",
    lod=True,
    ignores="is_test",
)
def gru(
    x: Any,
    h0: Any,
    weight: Any,
    bias: Any,
    *,
    activation: str = "tanh",
    gate_activation: str = "sigmoid",
    is_reverse: bool = False,
    origin_mode: bool = False,
) -> tuple[Array, Array, Array, Any]:
    """Hidden of every row; gates stand in the order update, reset, candidate."""
    layout = batch_layout(offsets_of(x, "Input"), is_reverse)
    cell = named_gru(weight, gate_activation, activation, origin_mode)
    gates: Array = array_of(x)[layout.rows]
    if bias is not None:
        gates += array_of(bias).reshape(-1)
    resets, hidden = gru_run(gates, layout, ordered(h0, layout.order), cell)
    return gates, resets, hidden, same_lod(layout.to_sequences(hidden), x)


def named_gru(weight: Any, gate_activation: str, candidate: str, origin_mode: bool) -> Gru:
    """The parameters of a GRU whose activations are named."""
    gate = named_activation(gate_activation, "gate_activation")
    return Gru.of(array_of(weight), gate, named_activation(candidate, "activation"), origin_mode)


@gru.gradient(
    takes="Input~ H0? Weight Bias?~ BatchGate BatchResetHiddenPrev BatchHidden Hidden Hidden@GRAD",
    gives="Input@GRAD H0@GRAD Weight@GRAD Bias@GRAD",
)
def gru_grad(
    x: Any,
    h0: Any,
    weight: Any,
    bias: Any,
    batch_gate: Any,
    batch_reset: Any,
    batch_hidden: Any,
    hidden: Any,
    d_hidden: Any,
    *,
    activation: str = "tanh",
    gate_activation: str = "sigmoid",
    is_reverse: bool = False,
    origin_mode: bool = False,
) -> tuple[Any, Array | None, Array, Array | None]:
    """Backpropagation through time."""
    layout = batch_layout(offsets_of(hidden, "Hidden"), is_reverse)
    cell = named_gru(weight, gate_activation, activation, origin_mode)
    first, rows = ordered(h0, layout.order), array_of(batch_hidden)
    d_gates, d_first = gru_back(array_of(batch_gate), rows, layout, first, cell, array_of(d_hidden)[layout.rows])
    return (
        same_lod(layout.to_sequences(d_gates), hidden),
        disordered(d_first, layout.order),
        cell.weight_grad(d_gates, states_seen(layout, rows, first), array_of(batch_reset)),
        None if bias is None else d_gates.sum(axis=0).reshape(bias.shape),
    )


_CODED = (
    Activation(np.positive, ACTIVATIONS["identity"].slope),
    Activation(lambda x: 1 / (1 + np.exp(-x)), ACTIVATIONS["sigmoid"].slope),
    ACTIVATIONS["tanh"],
    ACTIVATIONS["relu"],
)
"""The activations of ``gru_unit`` by their numbers."""


def _coded_gru(weight: Array, gate_activation: int, candidate: int, origin_mode: bool) -> Gru:
    for attr, code in (("gate_activation", gate_activation), ("activation", candidate)):
        if not 0 <= code < len(_CODED):
            raise ValueError(f"{attr} is {code}, it must be 0 (identity), 1 (sigmoid), 2 (tanh) or 3 (relu)")
    return Gru.of(weight, _CODED[gate_activation], _CODED[candidate], origin_mode)


@operator("gru_unit", inputs="Input HiddenPrev Weight Bias?", outputs="Gate ResetHiddenPrev Hidden")
def gru_unit(
    x: Array,
    before: Array,
    weight: Array,
    bias: Array | None,
    *,
    activation: int = 2,
    gate_activation: int = 1,
    origin_mode: bool = False,
) -> tuple[Array, Array, Array]:
    """One step of a GRU for a batch: the activated gates, the reset state, the hidden state."""
    gates = x.copy() if bias is None else x + bias.reshape(-1)
    with np.errstate(over="ignore"):
        reset, hidden = _coded_gru(weight, gate_activation, activation, origin_mode).step(gates, before)
    return gates, reset, hidden


@gru_unit.gradient(
    takes="Input HiddenPrev Weight Bias?~ Gate ResetHiddenPrev Hidden@GRAD",
    gives="Input@GRAD HiddenPrev@GRAD Weight@GRAD Bias@GRAD",
)
def gru_unit_grad(
    x: Array,
    before: Array,
    weight: Array,
    bias: Any,
    gate: Array,
    reset: Array,
    d_hidden: Array,
    *,
    activation: int = 2,
    gate_activation: int = 1,
    origin_mode: bool = False,
) -> tuple[Array, Array, Array, Array | None]:
    """One step back."""
    cell = _coded_gru(weight, gate_activation, activation, origin_mode)
    d_gates, d_before = cell.step_back(gate, before, d_hidden)
    d_bias = None if bias is None else d_gates.sum(axis=0).reshape(bias.shape)
    return d_gates, d_before, cell.weight_grad(d_gates, before, reset), d_bias


def _unit_gates(x: Array, forget_bias: float) -> tuple[Array, Array, Array, Array]:
    """Activated input, forget and output gate and candidate."""
    n = x.shape[1] // 4
    shifted = x[:, n : 2 * n] + np.asarray(forget_bias, x.dtype)
    enter, forget, leave = (0.5 * np.tanh(0.5 * part) + 0.5 for part in (x[:, :n], shifted, x[:, 2 * n : 3 * n]))
    return enter, forget, leave, np.tanh(x[:, 3 * n :])


@operator("lstm_unit", inputs="X C_prev", outputs="C H")
def lstm_unit(x: Array, c_prev: Array, *, forget_bias: float = 0.0) -> tuple[Array, Array]:
    """One step of an LSTM for a batch; X holds input, forget and output gate and the candidate."""
    refuse_half(x)
    if x.shape[1] != 4 * c_prev.shape[1]:
        raise ValueError(f"X must be four times as wide as C_prev, widths are {x.shape[1]} and {c_prev.shape[1]}")
    enter, forget, leave, candidate = _unit_gates(x, forget_bias)
    cell = forget * c_prev + enter * candidate
    return cell, leave * np.tanh(cell)


@lstm_unit.gradient(takes="X C_prev C C@GRAD? H@GRAD?", gives="X@GRAD C_prev@GRAD")
def lstm_unit_grad(
    x: Array,
    c_prev: Array,
    cell: Array,
    d_cell: Array | None,
    d_hidden: Array | None,
    *,
    forget_bias: float = 0.0,
) -> tuple[Array, Array]:
    """One step back."""
    enter, forget, leave, candidate = _unit_gates(x, forget_bias)
    active = np.tanh(cell)
    d_leave = np.zeros_like(cell)
    d_now = np.zeros_like(cell) if d_cell is None else d_cell.copy()
    if d_hidden is not None:
        d_leave = d_hidden * active * leave * (1 - leave)
        d_now += d_hidden * leave * (1 - active * active)
    parts = [
        d_now * candidate * enter * (1 - enter),
        d_now * c_prev * forget * (1 - forget),
        d_leave,
        d_now * enter * (1 - candidate * candidate),
    ]
    return np.concatenate(parts, axis=1), d_now * forget
