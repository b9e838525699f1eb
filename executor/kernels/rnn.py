"""The 2.x recurrent operators: ``rnn`` (LSTM, GRU and plain layers) and its forerunner ``cudnn_lstm``.

Input is ``[time, batch, width]``. WeightList holds, for every layer and direction, the input weight and the
recurrent one (``[gates * hidden, width]``), then, for every layer and direction, the two biases.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...ir.registry import operator
from ..random import generator
from ..values import Array
from .rnn_back import stack_grad
from .rnn_stack import Dropout, Stack, pack_stack, run_stack

__all__ = ["cudnn_lstm", "cudnn_lstm_grad", "rnn", "rnn_grad"]

_ALL = frozenset({"Out", "DropoutState", "State", "Reserve", "LastH", "LastC", "StateOut"})
_ALL_GRADS = frozenset({"Input@GRAD", "PreState@GRAD", "WeightList@GRAD"})


def _draw(shape: tuple[int, ...], probability: float, layers: int, seed: int) -> Array:
    """The DropoutState: 1 where an input of the upper layers is kept."""
    if probability <= 0 or layers < 2:
        return np.ones(shape, np.uint8)
    return (generator(seed).random(shape, np.float32) >= probability).astype(np.uint8)


def _dropout(mask: Array | None, probability: float) -> Dropout | None:
    return None if mask is None or probability <= 0 else Dropout(mask, probability)


def _as(dtype: np.dtype[Any], values: Sequence[Array]) -> list[Array]:
    return [value.astype(dtype, copy=False) for value in values]


@operator(
    "rnn",
    inputs="Input PreState* WeightList* SequenceLength?",
    outputs="Out DropoutState State* Reserve",
    ignores="input_size",
)
def rnn(
    x: Array,
    states: list[Array],
    weights: list[Array],
    length: Array | None,
    *,
    mode: str = "RNN_TANH",
    num_layers: int = 1,
    is_bidirec: bool = False,
    hidden_size: int = 100,
    dropout_prob: float = 0.0,
    is_test: bool = False,
    seed: int = 0,
    want: frozenset[str] = _ALL,
) -> tuple[Array, Array | None, list[Array], Array | None]:
    """Out ``[time, batch, directions * hidden]``, the last State of all layers and directions, the Reserve.

    With SequenceLength a sequence's state is taken at its length, outputs behind it are zero, and the second
    direction starts at its last step. In training, DropoutState (uint8, shape of Out) says which inputs of
    the upper layers were kept; all of them use the same.
    """
    stack = pack_stack(weights, mode, num_layers, is_bidirec, hidden_size)
    mask = None
    if not is_test:
        mask = _draw((*x.shape[:2], stack.directions * hidden_size), dropout_prob, num_layers, seed)
    keep = not is_test and "Reserve" in want
    out, last, reserve = run_stack(stack, x, states, length, keep=keep, dropout=_dropout(mask, dropout_prob))
    return out.astype(x.dtype, copy=False), mask, _as(x.dtype, last), reserve


@rnn.prepare
def _prepare_rnn(
    constants: Mapping[str, Any],
    *,
    mode: str = "RNN_TANH",
    num_layers: int = 1,
    is_bidirec: bool = False,
    hidden_size: int = 100,
    is_test: bool = False,
    **_: Any,
) -> Callable[..., tuple[Array, None, list[Array], None]] | None:
    """For inference with constant weights: pack them once."""
    if not is_test or "WeightList" not in constants:
        return None
    stack = pack_stack(constants["WeightList"], mode, num_layers, is_bidirec, hidden_size)

    def run(
        x: Array, states: list[Array], weights: list[Array], length: Array | None
    ) -> tuple[Array, None, list[Array], None]:
        out, last, _ = run_stack(stack, x, states, length)
        return out.astype(x.dtype, copy=False), None, _as(x.dtype, last), None

    return run


@rnn.gradient(
    takes="Input PreState* WeightList* SequenceLength? Out DropoutState? Reserve Out@GRAD? State@GRAD*",
    gives="Input@GRAD PreState@GRAD* WeightList@GRAD*",
)
def rnn_grad(
    x: Array,
    states: list[Array],
    weights: list[Array],
    length: Array | None,
    out: Array,
    mask: Array | None,
    reserve: Array,
    d_out: Array | None,
    d_last: list[Array | None],
    *,
    mode: str = "RNN_TANH",
    num_layers: int = 1,
    is_bidirec: bool = False,
    hidden_size: int = 100,
    dropout_prob: float = 0.0,
    want: frozenset[str] = _ALL_GRADS,
) -> tuple[Array | None, list[Array], list[Array]]:
    """Backpropagation through time; the gates come from the Reserve."""
    made = stack_grad(
        pack_stack(weights, mode, num_layers, is_bidirec, hidden_size),
        weights,
        x,
        states,
        length,
        out,
        reserve,
        d_out,
        d_last or [None] * len(states),
        dropout=_dropout(mask, dropout_prob) if num_layers > 1 else None,
        input_wanted="Input@GRAD" in want,
    )
    return made.input, made.states, made.weights


def _unpack_flat(flat: Array, width: int, hidden: int, layers: int, directions: int) -> list[Array]:
    """A WeightList from the one tensor W of early programs: all weights, then all biases, layer by layer."""
    shapes: list[tuple[int, ...]] = []
    for layer in range(layers):
        below = width if layer == 0 else hidden * directions
        shapes += [(4 * hidden, below), (4 * hidden, hidden)] * directions
    shapes += [(4 * hidden,)] * (2 * directions * layers)
    sizes = [int(np.prod(shape)) for shape in shapes]
    if flat.size != sum(sizes):
        raise ValueError(f"W has {flat.size} numbers, the attributes take {sum(sizes)}")
    parts = np.split(flat.reshape(-1), np.cumsum(sizes)[:-1])
    return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]


def _lstm_weights(
    x: Array, flat: Array | None, weights: list[Array], hidden: int, layers: int, directions: int
) -> list[Array]:
    if weights:
        return weights
    if flat is None:
        raise ValueError("one of W and WeightList must be given")
    return _unpack_flat(flat, x.shape[2], hidden, layers, directions)


def _lstm_stack(weights: list[Array], num_layers: int, is_bidirec: bool, hidden_size: int) -> Stack:
    return pack_stack(weights, "LSTM", num_layers, is_bidirec, hidden_size)


@operator(
    "cudnn_lstm",
    inputs="Input InitH InitC W? WeightList* SequenceLength?",
    outputs="Reserve StateOut Out LastH LastC",
    ignores="input_size",
)
def cudnn_lstm(
    x: Array,
    init_h: Array,
    init_c: Array,
    w: Array | None,
    weight_list: list[Array],
    length: Array | None,
    *,
    num_layers: int = 1,
    is_bidirec: bool = False,
    hidden_size: int = 100,
    dropout_prob: float = 0.0,
    is_test: bool = False,
    seed: int = 0,
    want: frozenset[str] = _ALL,
) -> tuple[Array | None, Array | None, Array, Array, Array]:
    """The LSTM of ``rnn`` under its first name; W holds all weights in one. StateOut is the dropout mask."""
    directions = 2 if is_bidirec else 1
    weights = _lstm_weights(x, w, weight_list, hidden_size, num_layers, directions)
    stack = _lstm_stack(weights, num_layers, is_bidirec, hidden_size)
    mask = None
    if not is_test:
        mask = _draw((*x.shape[:2], directions * hidden_size), dropout_prob, num_layers, seed)
    keep = not is_test and "Reserve" in want
    out, last, reserve = run_stack(stack, x, [init_h, init_c], length, keep=keep, dropout=_dropout(mask, dropout_prob))
    hidden, cell = _as(x.dtype, last)
    return reserve, mask, out.astype(x.dtype, copy=False), hidden, cell


@cudnn_lstm.gradient(
    takes="Input InitH InitC WeightList* SequenceLength? Out Reserve StateOut Out@GRAD? LastH@GRAD? LastC@GRAD?",
    gives="Input@GRAD InitH@GRAD InitC@GRAD WeightList@GRAD*",
)
def cudnn_lstm_grad(
    x: Array,
    init_h: Array,
    init_c: Array,
    weights: list[Array],
    length: Array | None,
    out: Array,
    reserve: Array,
    mask: Array | None,
    d_out: Array | None,
    d_last_h: Array | None,
    d_last_c: Array | None,
    *,
    num_layers: int = 1,
    is_bidirec: bool = False,
    hidden_size: int = 100,
    dropout_prob: float = 0.0,
    want: frozenset[str] = _ALL_GRADS,
) -> tuple[Array | None, Array, Array, list[Array]]:
    """As ``rnn_grad``; only for a WeightList, as in Paddle."""
    made = stack_grad(
        _lstm_stack(weights, num_layers, is_bidirec, hidden_size),
        weights,
        x,
        [init_h, init_c],
        length,
        out,
        reserve,
        d_out,
        [d_last_h, d_last_c],
        dropout=_dropout(mask, dropout_prob) if num_layers > 1 else None,
        input_wanted="Input@GRAD" in want,
    )
    d_hidden, d_cell = made.states
    return made.input, d_hidden, d_cell, made.weights
