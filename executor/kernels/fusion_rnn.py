"""Recurrent operators that 1.x inference passes fuse: the input product and the recurrence in one.

They have no gradient, and of their outputs only those are made that a program can read: the intermediate ones
are scratch space of Paddle's kernels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...ir.registry import operator
from ..values import Array, array_of
from .rnn_legacy import named_gru, ordered, peephole_weights
from .rnn_ragged import LstmActivations, gru_run, lstm_run
from .sequence_layout import Index, batch_layout, lengths_of, offsets_of, pad_rows, same_lod

__all__ = ["attention_lstm", "fused_embedding_fc_lstm", "fusion_gru", "fusion_lstm", "multi_gru"]

_INT8_HINTS = "use_seq use_mkldnn mkldnn_data_type Scale_data Shift_data Scale_weights force_fp32_output"
"""How the product is cut into pieces, and what an int8 back end would scale with: the result stays the same."""


def _projected(x: Any, weight: Any, bias: Any) -> Array:
    """The rows of X times the input weight, with the bias of the gates."""
    gates: Array = array_of(x) @ array_of(weight)
    if bias is not None:
        gates += array_of(bias).reshape(-1)[: gates.shape[1]]
    return gates


def _gru_hidden(
    x: Any,
    gates: Array,
    h0: Any,
    weight: Any,
    acts: tuple[str, str],
    is_reverse: bool,
    origin_mode: bool,
) -> Array:
    layout = batch_layout(offsets_of(x, "X"), is_reverse)
    gru = named_gru(weight, *acts, origin_mode)
    _, hidden = gru_run(gates[layout.rows], layout, ordered(h0, layout.order), gru)
    return layout.to_sequences(hidden)


@operator(
    "fusion_gru",
    inputs="X H0? WeightX WeightH Bias?",
    outputs="ReorderedH0 XX BatchedInput BatchedOut Hidden",
    lod=True,
    gradient=None,
    ignores=_INT8_HINTS,
)
def fusion_gru(
    x: Any,
    h0: Any,
    weight_x: Any,
    weight_h: Any,
    bias: Any,
    *,
    activation: str = "tanh",
    gate_activation: str = "sigmoid",
    is_reverse: bool = False,
    origin_mode: bool = False,
) -> tuple[None, None, None, None, Any]:
    """``gru`` with the input product; weights and gates as there (update, reset, candidate)."""
    gates = _projected(x, weight_x, bias)
    hidden = _gru_hidden(x, gates, h0, weight_h, (gate_activation, activation), is_reverse, origin_mode)
    return None, None, None, None, same_lod(hidden, x)


@operator(
    "multi_gru",
    inputs="X WeightX* WeightH* Bias* Scale_weights*",
    outputs="Hidden",
    lod=True,
    gradient=None,
    ignores=_INT8_HINTS,
)
def multi_gru(
    x: Any,
    weights_x: list[Any],
    weights_h: list[Any],
    biases: list[Any],
    scales: list[Any],
    *,
    activation: str = "tanh",
    gate_activation: str = "sigmoid",
    layers: int = 1,
    origin_mode: bool = False,
) -> Any:
    """A stack of GRUs in two directions; each layer sees both hidden states of the one below side by side."""
    if len(weights_x) != 2 * layers or len(weights_h) != 2 * layers or len(biases) not in (0, 2 * layers):
        raise ValueError(f"WeightX, WeightH and Bias must have {2 * layers} tensors each for {layers} layer(s)")
    current = x
    for layer in range(layers):
        sides = []
        for side in range(2):
            at = 2 * layer + side
            gates = _projected(current, weights_x[at], biases[at] if biases else None)
            acts = (gate_activation, activation)
            sides.append(_gru_hidden(x, gates, None, weights_h[at], acts, side == 1, origin_mode))
        current = same_lod(np.concatenate(sides, axis=1), x)
    return current


def _lstm_outputs(
    x: Any,
    gates: Array,
    first: tuple[Any, Any],
    weight: Any,
    peepholes: Array | None,
    acts: LstmActivations,
    is_reverse: bool,
) -> tuple[Any, Any]:
    """Hidden and cell of every row, as ragged batches."""
    layout = batch_layout(offsets_of(x, "the input"), is_reverse)
    states = (ordered(first[0], layout.order), ordered(first[1], layout.order))
    run = lstm_run(gates[layout.rows], layout, states, array_of(weight), peepholes, acts)
    return same_lod(layout.to_sequences(run.hidden), x), same_lod(layout.to_sequences(run.cells), x)


@operator(
    "fusion_lstm",
    inputs="X WeightX WeightH Bias H0? C0?",
    outputs="Hidden Cell XX BatchedInput BatchedHidden BatchedCell ReorderedH0 ReorderedC0 CheckedCell",
    lod=True,
    gradient=None,
    ignores=_INT8_HINTS,
)
def fusion_lstm(
    x: Any,
    weight_x: Any,
    weight_h: Any,
    bias: Any,
    h0: Any,
    c0: Any,
    *,
    use_peepholes: bool = True,
    is_reverse: bool = False,
    gate_activation: str = "sigmoid",
    cell_activation: str = "tanh",
    candidate_activation: str = "tanh",
) -> tuple[Any | None, ...]:
    """``lstm`` with the input product; weights and gates as there."""
    gates = _projected(x, weight_x, bias)
    peepholes = peephole_weights(bias, array_of(weight_h).shape[0], use_peepholes)
    acts = LstmActivations.named(gate_activation, cell_activation, candidate_activation)
    hidden, cell = _lstm_outputs(x, gates, (h0, c0), weight_h, peepholes, acts, is_reverse)
    return hidden, cell, *(None,) * 7


@operator(
    "fused_embedding_fc_lstm",
    inputs="Ids Embeddings WeightH Bias H0? C0?",
    outputs="Hidden Cell XX BatchedInput BatchedHidden BatchedCell ReorderedH0 ReorderedC0",
    lod=True,
    gradient=None,
    ignores="use_seq",
)
def fused_embedding_fc_lstm(
    ids: Any,
    embeddings: Any,
    weight_h: Any,
    bias: Any,
    h0: Any,
    c0: Any,
    *,
    use_peepholes: bool = True,
    is_reverse: bool = False,
    gate_activation: str = "sigmoid",
    cell_activation: str = "tanh",
    candidate_activation: str = "tanh",
) -> tuple[Any | None, ...]:
    """``lstm`` over rows of a table that holds the input product and the bias of every id already."""
    table, rows = array_of(embeddings), array_of(ids).reshape(-1)
    if rows.size and not 0 <= rows.min() <= rows.max() < table.shape[0]:
        raise ValueError(f"Ids must lie in [0, {table.shape[0]}), the rows of Embeddings")
    gates = table[rows]
    peepholes = peephole_weights(bias, array_of(weight_h).shape[0], use_peepholes)
    acts = LstmActivations.named(gate_activation, cell_activation, candidate_activation)
    hidden, cell = _lstm_outputs(ids, gates, (h0, c0), weight_h, peepholes, acts, is_reverse)
    return hidden, cell, *(None,) * 6


@dataclass(frozen=True, slots=True)
class _Attention:
    """What every step of ``attention_lstm`` weighs: the rows of each sequence, padded, and their scores."""

    rows: Array
    scores: Array
    alive: Array
    cell_weight: Array
    scale: Array | None
    shift: Array | None

    @classmethod
    def over(cls, x: Any, sequences: Index, weight: Any, bias: Any, scale: Any, shift: Any) -> _Attention:
        """For the given sequences of a ragged batch."""
        rows, offsets, flat = array_of(x), offsets_of(x, "X"), array_of(weight).reshape(-1)
        width = rows.shape[1]
        base = rows @ flat[:width]
        if bias is not None:
            base = base + array_of(bias).reshape(())
        scores = pad_rows(base, offsets)[sequences]
        alive = np.arange(scores.shape[1]) < lengths_of(offsets)[sequences, None]
        factors = (None if each is None else array_of(each).reshape(()) for each in (scale, shift))
        return cls(pad_rows(rows, offsets)[sequences], scores, alive, flat[width:], *factors)

    def __call__(self, cell: Array) -> Array:
        """The weighted sum of the rows of every sequence."""
        score = np.maximum(self.scores + (cell @ self.cell_weight)[:, None], 0)
        if self.scale is not None:
            score = np.maximum(score * self.scale + (0 if self.shift is None else self.shift), 0)
        shown = np.where(self.alive, score, -np.inf)
        weights = np.exp(shown - shown.max(axis=1, keepdims=True))
        weights /= weights.sum(axis=1, keepdims=True)
        seen: Array = np.einsum("st,stw->sw", weights, self.rows)
        return seen


@operator(
    "attention_lstm",
    inputs="X C0 H0? AttentionWeight AttentionBias? AttentionScalar? AttentionScalarBias? LSTMWeight LSTMBias",
    outputs="Hidden Cell AttentionedX AttentionFCOut LSTMX LSTMOUT",
    lod=True,
    gradient=None,
)
def attention_lstm(
    x: Any,
    c0: Any,
    h0: Any,
    attention_weight: Any,
    attention_bias: Any,
    attention_scalar: Any,
    attention_scalar_bias: Any,
    lstm_weight: Any,
    lstm_bias: Any,
    *,
    gate_activation: str = "sigmoid",
    cell_activation: str = "tanh",
    candidate_activation: str = "tanh",
) -> tuple[Any | None, ...]:
    """At every step an LSTM sees the sum of its sequence's rows, weighted by how well they fit its cell.

    A row's score is ``relu(row @ w + bias + cell @ v)``, and where a scalar is given ``relu`` of that, scaled
    and shifted; a softmax over the sequence makes weights of them. Gates stand in the order forget, input,
    output, candidate; the LSTM weight holds the rows for the hidden state first.
    """
    offsets, rows = offsets_of(x, "X"), array_of(x)
    filled = np.flatnonzero(lengths_of(offsets))
    attention = _Attention.over(x, filled, attention_weight, attention_bias, attention_scalar, attention_scalar_bias)
    acts = LstmActivations.named(gate_activation, cell_activation, candidate_activation)
    weight, bias = array_of(lstm_weight), array_of(lstm_bias).reshape(-1)
    now = array_of(c0)[filled]
    before = np.zeros_like(now) if h0 is None else array_of(h0)[filled]
    n = now.shape[1]
    hidden, cell = np.empty((rows.shape[0], n), rows.dtype), np.empty((rows.shape[0], n), rows.dtype)
    for step in range(attention.alive.shape[1]):
        gates = before @ weight[:n] + attention(now) @ weight[n:] + bias
        before, now = _attended_step(gates, now, acts)
        running = attention.alive[:, step]
        at = offsets[filled[running]] + step
        hidden[at], cell[at] = before[running], now[running]
    return same_lod(hidden, x), same_lod(cell, x), None, None, None, None


def _attended_step(gates: Array, cell: Array, acts: LstmActivations) -> tuple[Array, Array]:
    n = cell.shape[1]
    forget, enter, leave = (acts.gate.apply(gates[:, k * n : (k + 1) * n]) for k in range(3))
    now = forget * cell + enter * acts.candidate.apply(gates[:, 3 * n :])
    return leave * acts.cell.apply(now), now
