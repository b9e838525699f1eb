"""``lstmp``: the 1.x LSTM whose output is projected before the next step sees it."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir.registry import operator
from ..values import Array, array_of
from .rnn_legacy import disordered, lstm_bias_grad, lstm_gates, ordered, peephole_weights
from .rnn_ragged import Activation, LstmActivations, LstmRun, activation, lstm_back, lstm_run, states_seen
from .sequence_layout import batch_layout, offsets_of, same_lod

__all__ = ["lstmp", "lstmp_grad"]


def _projection_act(name: str, cell_activation: str) -> Activation:
    """Paddle's kernel takes the activation of the cell unless this one is the identity."""
    return activation("identity" if name == "identity" else cell_activation, "proj_activation")


@operator(
    "lstmp",
    inputs="Input H0? C0? Weight ProjWeight Bias?",
    outputs="Projection Cell BatchGate BatchCellPreAct BatchHidden",
    lod=True,
    ignores="is_test",
)
def lstmp(
    x: Any,
    h0: Any,
    c0: Any,
    weight: Any,
    proj_weight: Any,
    bias: Any,
    *,
    use_peepholes: bool = True,
    is_reverse: bool = False,
    cell_clip: float = 0.0,
    proj_clip: float = 0.0,
    gate_activation: str = "sigmoid",
    cell_activation: str = "tanh",
    candidate_activation: str = "tanh",
    proj_activation: str = "tanh",
) -> tuple[Any, Any, Array, Array, Array]:
    """Projection ``clip(act(hidden @ ProjWeight))`` and Cell of every row."""
    layout = batch_layout(offsets_of(x, "Input"), is_reverse)
    narrow, act = array_of(proj_weight), _projection_act(proj_activation, cell_activation)

    def project(hidden: Array) -> Array:
        out = act.apply(hidden @ narrow)
        return np.clip(out, -proj_clip, proj_clip) if proj_clip > 0 else out

    n = narrow.shape[0]
    run = lstm_run(
        lstm_gates(x, bias, layout),
        layout,
        (ordered(h0, layout.order), ordered(c0, layout.order)),
        array_of(weight),
        peephole_weights(bias, n, use_peepholes),
        LstmActivations.named(gate_activation, cell_activation, candidate_activation),
        project,
        cell_clip,
    )
    projection, cell = (same_lod(layout.to_sequences(rows), x) for rows in (run.state, run.cells))
    return projection, cell, run.gates, run.acts, run.hidden


@lstmp.gradient(
    takes="Input H0? C0? Weight ProjWeight Bias? Projection Cell BatchGate BatchCellPreAct BatchHidden Projection@GRAD",
    gives="Input@GRAD H0@GRAD C0@GRAD Weight@GRAD ProjWeight@GRAD Bias@GRAD",
)
def lstmp_grad(
    x: Any,
    h0: Any,
    c0: Any,
    weight: Any,
    proj_weight: Any,
    bias: Any,
    projection: Any,
    cell: Any,
    gates: Any,
    acts: Any,
    hidden: Any,
    d_projection: Any,
    *,
    use_peepholes: bool = True,
    is_reverse: bool = False,
    cell_clip: float = 0.0,
    proj_clip: float = 0.0,
    gate_activation: str = "sigmoid",
    cell_activation: str = "tanh",
    candidate_activation: str = "tanh",
    proj_activation: str = "tanh",
) -> tuple[Any, Array | None, Array | None, Array, Array, Array | None]:
    """Backpropagation through time; what was clipped passes no gradient."""
    layout = batch_layout(offsets_of(x, "Input"), is_reverse)
    narrow, act = array_of(proj_weight), _projection_act(proj_activation, cell_activation)
    state, cells = array_of(projection)[layout.rows], array_of(cell)[layout.rows]
    run = LstmRun(array_of(gates), cells, array_of(acts), array_of(hidden), state)
    first = (ordered(h0, layout.order), ordered(c0, layout.order))
    slope = act.slope(state)
    if proj_clip > 0:
        slope[np.abs(state) >= proj_clip] = 0
    d_state = array_of(d_projection)[layout.rows]

    def unproject(rows: slice) -> Array:
        d_state[rows] *= slope[rows]
        d_hidden: Array = d_state[rows] @ narrow.T
        return d_hidden

    made = lstm_back(
        run,
        layout,
        first,
        array_of(weight),
        peephole_weights(bias, narrow.shape[0], use_peepholes),
        LstmActivations.named(gate_activation, cell_activation, candidate_activation),
        d_state,
        unproject,
        cell_clip,
    )
    return (
        same_lod(layout.to_sequences(made.gates), x),
        disordered(made.hidden0, layout.order),
        disordered(made.cell0, layout.order),
        states_seen(layout, state, first[0]).T @ made.gates,
        run.hidden.T @ d_state,
        lstm_bias_grad(run, made.gates, layout, first[1], bias, use_peepholes),
    )
