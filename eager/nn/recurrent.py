"""Recurrent layers: SimpleRNN, GRU and LSTM over whole sequences, and their cells for one step."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from ...errors import InputError
from ..functional_shape import squeeze, transpose, unsqueeze
from ..operands import constant, run_many
from ..tensor import Parameter, Tensor
from .initializer import Uniform
from .layer import Layer

__all__ = ["GRU", "LSTM", "GRUCell", "LSTMCell", "SimpleRNN", "SimpleRNNCell"]


class _Cell(Layer):
    """One step of a recurrent layer; holds its four parameters.

    Attributes:
        mode: the operator's name for it.
        gates: how many times ``hidden_size`` the rows of a weight are.
        states: how many states go from step to step.
    """

    mode: ClassVar[str] = "RNN_TANH"
    gates: ClassVar[int] = 1
    states: ClassVar[int] = 1
    weight_ih: Parameter
    weight_hh: Parameter
    bias_ih: Parameter
    bias_hh: Parameter

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        weight_ih_attr: Any = None,
        weight_hh_attr: Any = None,
        bias_ih_attr: Any = None,
        bias_hh_attr: Any = None,
        name: str | None = None,
    ) -> None:
        super().__init__()
        self.input_size, self.hidden_size = input_size, hidden_size
        bound = 1.0 / math.sqrt(hidden_size)
        draw, rows = Uniform(-bound, bound), self.gates * hidden_size
        self.weight_ih = _made(self, [rows, input_size], weight_ih_attr, False, draw)
        self.weight_hh = _made(self, [rows, hidden_size], weight_hh_attr, False, draw)
        self.bias_ih = _made(self, [rows], bias_ih_attr, True, draw)
        self.bias_hh = _made(self, [rows], bias_hh_attr, True, draw)

    def weights(self) -> list[Parameter]:
        """The two weights."""
        return [self.weight_ih, self.weight_hh]

    def biases(self) -> list[Parameter]:
        """The two biases."""
        return [self.bias_ih, self.bias_hh]

    def forward(self, inputs: Tensor, states: Any = None) -> tuple[Tensor, Any]:
        """The output ``[batch, hidden]`` and the states after it."""
        given = _listed(states, self.states)
        if given is None:
            zero = constant(np.zeros((inputs.shape[0], self.hidden_size), inputs._array.dtype))
            given = [zero] * self.states
        out, _, last, _ = run_many(
            "rnn",
            unsqueeze(inputs, 0),
            [unsqueeze(each, 0) for each in given],
            [*self.weights(), *self.biases()],
            mode=self.mode,
            hidden_size=self.hidden_size,
            input_size=self.input_size,
            num_layers=1,
            is_bidirec=False,
            is_test=not self.training,
        )
        after = tuple(squeeze(each, 0) for each in last)
        return squeeze(out, 0), after if self.states > 1 else after[0]

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.hidden_size}"


def _made(layer: Layer, shape: list[int], attr: Any, is_bias: bool, initializer: Any) -> Parameter:
    made = layer.create_parameter(shape, attr, is_bias=is_bias, default_initializer=initializer)
    if made is None:
        raise InputError(f"{type(layer).__name__} cannot do without its weights and biases: an attr is False")
    return made


def _listed(states: Any, count: int) -> list[Tensor] | None:
    if states is None:
        return None
    listed = [states] if isinstance(states, Tensor) else list(states)
    if len(listed) != count:
        raise InputError(f"{count} state(s) are needed, got {len(listed)}")
    return listed


class SimpleRNNCell(_Cell):
    """``tanh(x W_ih + b_ih + h W_hh + b_hh)``."""

    mode = "RNN_TANH"


class GRUCell(_Cell):
    """One step of a gated recurrent unit (Cho et al., 2014)."""

    mode, gates = "GRU", 3


class LSTMCell(_Cell):
    """One step of long short-term memory; the states are hidden and cell."""

    mode, gates, states = "LSTM", 4, 2


class _Direction(Layer):
    """The cells of one layer, under the names that Paddle's states have."""

    def __init__(self, cells: list[_Cell]) -> None:
        super().__init__("bi_rnn" if len(cells) > 1 else "rnn")
        names = ("cell_fw", "cell_bw") if len(cells) > 1 else ("cell",)
        for name, cell in zip(names, cells, strict=True):
            self.add_sublayer(name, cell)


class _Recurrent(Layer):
    """Layers of cells run over ``[batch, time, size]``, or ``[time, batch, size]`` with ``time_major``.

    Args:
        direction: ``"forward"``, or ``"bidirect"`` for a second set of cells that runs backwards.
        dropout: probability of dropping inputs of the upper layers in training.
    """

    cell: ClassVar[type[_Cell]] = SimpleRNNCell

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        direction: str = "forward",
        time_major: bool = False,
        dropout: float = 0.0,
        weight_ih_attr: Any = None,
        weight_hh_attr: Any = None,
        bias_ih_attr: Any = None,
        bias_hh_attr: Any = None,
        name: str | None = None,
    ) -> None:
        super().__init__()
        if direction not in ("forward", "bidirect", "bidirectional"):
            raise InputError(f"direction is forward or bidirect, not {direction!r}")
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        self.time_major, self.dropout = time_major, dropout
        self.num_directions = 1 if direction == "forward" else 2
        attrs = (weight_ih_attr, weight_hh_attr, bias_ih_attr, bias_hh_attr)
        cells = []
        for layer in range(num_layers):
            width = input_size if layer == 0 else hidden_size * self.num_directions
            here = [self.cell(width, hidden_size, *attrs) for _ in range(self.num_directions)]
            self.add_sublayer(str(layer), _Direction(here))
            cells += here
        object.__setattr__(self, "_cells", cells)
        for index, cell in enumerate(cells):
            suffix = f"l{index // self.num_directions}{'_reverse' if index % self.num_directions else ''}"
            for key in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
                self.add_parameter(f"{key}_{suffix}", getattr(cell, key))

    def forward(
        self, inputs: Tensor, initial_states: Any = None, sequence_length: Tensor | None = None
    ) -> tuple[Tensor, Any]:
        """The outputs of the last layer at all steps, and the last states ``[layers * directions, batch, hidden]``."""
        x = inputs if self.time_major else transpose(inputs, [1, 0, 2])
        states = _listed(initial_states, self.cell.states)
        if states is None:
            shape = (self.num_layers * self.num_directions, x.shape[1], self.hidden_size)
            states = [constant(np.zeros(shape, x._array.dtype)) for _ in range(self.cell.states)]
        weights = [each for cell in self._cells for each in cell.weights()]
        biases = [each for cell in self._cells for each in cell.biases()]
        out, _, last, _ = run_many(
            "rnn",
            x,
            states,
            [*weights, *biases],
            sequence_length,
            mode=self.cell.mode,
            input_size=self.input_size,
            hidden_size=self.hidden_size,
            num_layers=self.num_layers,
            is_bidirec=self.num_directions == 2,
            dropout_prob=float(self.dropout),
            is_test=not self.training,
        )
        after = tuple(last)
        return out if self.time_major else transpose(out, [1, 0, 2]), after if len(after) > 1 else after[0]

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        text += f", num_layers={self.num_layers}" if self.num_layers != 1 else ""
        text += ", time_major=True" if self.time_major else ""
        return text + (f", dropout={self.dropout}" if self.dropout else "")


class SimpleRNN(_Recurrent):
    """Plain recurrent layers (Elman, 1990) with tanh."""


class GRU(_Recurrent):
    """Gated recurrent units."""

    cell = GRUCell


class LSTM(_Recurrent):
    """Long short-term memory; the states are a pair: hidden and cell."""

    cell = LSTMCell
