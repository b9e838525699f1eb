"""The time loops of LSTM, GRU and plain recurrent layers, forward and backward, all directions at once.

Everything here is in *step order*: arrays are ``[directions, steps, batch, ...]`` and the second direction
has its time reversed, so that one loop serves both. Gates come with the product of the input already in them;
a loop adds only the recurrent product. Sigmoids are taken as ``(1 + tanh(x / 2)) / 2``: the halves are packed
into the weights (:attr:`Cell.halved`), so that one tanh serves all gates of a step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from ..values import Array

__all__ = ["CELLS", "Alive", "Cell", "Trace"]

Alive = Sequence[Array | None]
"""Per step ``[directions, batch, 1]``: True where the sequence has this step; None where all have it."""


@dataclass(frozen=True, slots=True)
class Trace:
    """What a run leaves for the way back.

    Attributes:
        gates: ``[directions, steps, batch, gates * hidden]``: activated (as they were, for a plain layer).
        saved: further arrays ``[directions, steps, batch, hidden]``, see the cells.
        before: the hidden state before every step, ``[directions, steps, batch, hidden]``.
        out: the outputs.
        first: the states before the first step, ``[directions, batch, hidden]`` each.
    """

    gates: Array
    saved: tuple[Array, ...]
    before: Array
    out: Array
    first: Sequence[Array]


class Run(Protocol):
    """A forward loop: outputs, last states, and what it saved (nothing unless ``keep``).

    Overwrites ``gates``. ``weight`` are the packed recurrent ones, ``bias`` the reset bias of GRU.
    """

    def __call__(
        self,
        gates: Array,
        states: Sequence[Array],
        weight: Sequence[Array],
        bias: Array,
        alive: Alive,
        keep: bool,
    ) -> tuple[Array, list[Array], tuple[Array, ...]]: ...


class Back(Protocol):
    """A loop back: gradients of the gates before activation, of the recurrent product, of the first states.

    ``weight`` are the recurrent ones as the program has them, ``[gates * hidden, hidden]`` per direction.
    """

    def __call__(
        self, trace: Trace, weight: Sequence[Array], d_out: Array, d_last: Sequence[Array], alive: Alive
    ) -> tuple[Array, Array, list[Array]]: ...


@dataclass(frozen=True, slots=True)
class Cell:
    """One kind of recurrent layer.

    Attributes:
        halved: for every gate, in the order of the weights, whether it is a sigmoid.
        states: number of state tensors (the hidden state, and the cell of LSTM).
        saved: how many arrays a run saves.
        run: the forward loop; ``back`` is the loop back.
    """

    halved: tuple[bool, ...]
    states: int
    saved: int
    run: Run
    back: Back

    @property
    def gates(self) -> int:
        """The number of gates."""
        return len(self.halved)

    def halves(self, hidden: int, dtype: np.dtype[Any]) -> Array:
        """The factor of every gate column in packed weights: a half for sigmoids."""
        return np.repeat(np.where(self.halved, 0.5, 1.0), hidden).astype(dtype)


def _hold(alive: Array, out: Array, new: Sequence[Array], old: Sequence[Array]) -> None:
    """Where a sequence has ended its states stay what they were and the output is zero."""
    np.copyto(out, 0, where=~alive)
    for now, before in zip(new, old, strict=True):
        np.copyto(now, before, where=~alive)


def _multiply(left: Array, right: Sequence[Array], out: Array) -> Array:
    """``out[d] = left[d] @ right[d]``: a call each, as numpy takes stacks of small products more slowly."""
    for a, b, target in zip(left, right, out, strict=True):
        np.matmul(a, b, out=target)
    return out


def _back_product(d_gate: Array, weight: Sequence[Array]) -> Array:
    """The gradient of the hidden state that a step's recurrent product read."""
    directions, batch, _ = d_gate.shape
    return _multiply(d_gate, weight, np.empty((directions, batch, weight[0].shape[1]), d_gate.dtype))


_LSTM_SIGMOIDS = (True, True, False, True)


def _lstm_run(
    gates: Array, states: Sequence[Array], weight: Sequence[Array], bias: Array, alive: Alive, keep: bool
) -> tuple[Array, list[Array], tuple[Array, ...]]:
    """``c = f c + i g``, ``h = o tanh(c)``, gates in the order i, f, g, o. Saves the cells and their tanh."""
    directions, steps, batch, width = gates.shape
    n = width // 4
    scale = np.repeat(np.where(_LSTM_SIGMOIDS, 0.5, 1.0), n).astype(gates.dtype)
    shift = np.repeat(np.where(_LSTM_SIGMOIDS, 0.5, 0.0), n).astype(gates.dtype)
    out = np.empty((directions, steps, batch, n), gates.dtype)
    cells, acts = (np.empty((directions, steps if keep else 2, batch, n), gates.dtype) for _ in range(2))
    product, part = np.empty((directions, batch, width), gates.dtype), np.empty_like(cells[:, 0])
    hidden, cell = states
    for step in range(steps):
        slot = step if keep else step % 2
        gate, now, act, y = gates[:, step], cells[:, slot], acts[:, slot], out[:, step]
        gate += _multiply(hidden, weight, product)
        np.tanh(gate, out=gate)
        gate *= scale
        gate += shift
        np.multiply(gate[..., n : 2 * n], cell, out=now)
        now += np.multiply(gate[..., :n], gate[..., 2 * n : 3 * n], out=part)
        np.multiply(gate[..., 3 * n :], np.tanh(now, out=act), out=y)
        before, hidden = hidden, y
        held = alive[step]
        if held is not None:
            hidden = y.copy()
            _hold(held, y, (hidden, now), (before, cell))
        cell = now
    return out, [hidden, cell], (cells, acts) if keep else ()


def _lstm_back(
    trace: Trace, weight: Sequence[Array], d_out: Array, d_last: Sequence[Array], alive: Alive
) -> tuple[Array, Array, list[Array]]:
    """The factors that need no loop are taken for all steps at once."""
    gates, (cells, acts) = trace.gates, trace.saved
    n = gates.shape[3] // 4
    i, f, g, o = (gates[..., k * n : (k + 1) * n] for k in range(4))
    cells_before = np.concatenate([trace.first[1][:, None], cells[:, :-1]], axis=1)
    d_gates = np.empty_like(gates)
    d_gates[..., :n] = g * i * (1 - i)
    d_gates[..., n : 2 * n] = cells_before * f * (1 - f)
    d_gates[..., 2 * n : 3 * n] = i * (1 - g * g)
    d_gates[..., 3 * n :] = acts * o * (1 - o)
    through = o * (1 - acts * acts)
    d_hidden, d_cell = d_last
    for step in range(gates.shape[1] - 1, -1, -1):
        gate = d_gates[:, step]
        d_y = d_hidden + d_out[:, step]
        d_now = d_cell + d_y * through[:, step]
        by_gate = gate.reshape(*gate.shape[:2], 4, n)
        by_gate[:, :, :3] *= d_now[:, :, None]
        by_gate[:, :, 3] *= d_y
        held = alive[step]
        if held is None:
            d_hidden, d_cell = _back_product(gate, weight), d_now * f[:, step]
        else:
            np.copyto(gate, 0, where=~held)
            d_hidden = np.where(held, _back_product(gate, weight), d_hidden)
            d_cell = np.where(held, d_now * f[:, step], d_cell)
    return d_gates, d_gates, [d_hidden, d_cell]


def _gru_run(
    gates: Array, states: Sequence[Array], weight: Sequence[Array], bias: Array, alive: Alive, keep: bool
) -> tuple[Array, list[Array], tuple[Array, ...]]:
    """``h' = n + z (h - n)``, ``n = tanh(x_n + r (W h + b))``, gates in the order r, z, n.

    Saves ``r (W h + b)``.
    """
    directions, steps, batch, width = gates.shape
    n = width // 3
    out = np.empty((directions, steps, batch, n), gates.dtype)
    resets = np.empty((directions, steps if keep else 1, batch, n), gates.dtype)
    product = np.empty((directions, batch, width), gates.dtype)
    (hidden,) = states
    for step in range(steps):
        gate, y, reset = gates[:, step], out[:, step], resets[:, step if keep else 0]
        sigmoids, new = gate[..., : 2 * n], gate[..., 2 * n :]
        _multiply(hidden, weight, product)
        sigmoids += product[..., : 2 * n]
        np.tanh(sigmoids, out=sigmoids)
        sigmoids *= 0.5
        sigmoids += 0.5
        np.add(product[..., 2 * n :], bias, out=reset)
        reset *= gate[..., :n]
        new += reset
        np.tanh(new, out=new)
        np.subtract(hidden, new, out=y)
        y *= gate[..., n : 2 * n]
        y += new
        before, hidden = hidden, y
        held = alive[step]
        if held is not None:
            hidden = y.copy()
            _hold(held, y, (hidden,), (before,))
    return out, [hidden], (resets,) if keep else ()


def _gru_back(
    trace: Trace, weight: Sequence[Array], d_out: Array, d_last: Sequence[Array], alive: Alive
) -> tuple[Array, Array, list[Array]]:
    """As :func:`_lstm_back`; the recurrent product behind the reset gate comes from what the run saved."""
    gates, before, (resets,) = trace.gates, trace.before, trace.saved
    n = gates.shape[3] // 3
    r, z, new = (gates[..., k * n : (k + 1) * n] for k in range(3))
    d_gates, d_product = np.empty_like(gates), np.empty_like(gates)
    d_new = (1 - z) * (1 - new * new)
    d_gates[..., :n] = resets * (1 - r) * d_new
    d_gates[..., n : 2 * n] = (before - new) * z * (1 - z)
    d_gates[..., 2 * n :] = d_new
    (d_hidden,) = d_last
    for step in range(gates.shape[1] - 1, -1, -1):
        gate, at = d_gates[:, step], d_product[:, step]
        d_y = d_hidden + d_out[:, step]
        gate.reshape(*gate.shape[:2], 3, n)[...] *= d_y[:, :, None]
        held = alive[step]
        if held is not None:
            np.copyto(gate, 0, where=~held)
        at[...] = gate
        at[..., 2 * n :] *= r[:, step]
        passed = _back_product(at, weight)
        passed += d_y * z[:, step]
        d_hidden = passed if held is None else np.where(held, passed, d_hidden)
    return d_gates, d_product, [d_hidden]


def _plain_run(activate: Callable[..., Array]) -> Run:
    """``h' = activate(x + W h)``; the gate stays what it was before the activation."""

    def run(
        gates: Array, states: Sequence[Array], weight: Sequence[Array], bias: Array, alive: Alive, keep: bool
    ) -> tuple[Array, list[Array], tuple[Array, ...]]:
        out = np.empty_like(gates)
        product = np.empty_like(gates[:, 0])
        (hidden,) = states
        for step in range(gates.shape[1]):
            gate, y = gates[:, step], out[:, step]
            gate += _multiply(hidden, weight, product)
            activate(gate, out=y)
            before, hidden = hidden, y
            held = alive[step]
            if held is not None:
                hidden = y.copy()
                _hold(held, y, (hidden,), (before,))
        return out, [hidden], ()

    return run


def _plain_back(slope: Callable[[Array], Array]) -> Back:
    """``slope`` is the derivative of the activation as a function of its output."""

    def back(
        trace: Trace, weight: Sequence[Array], d_out: Array, d_last: Sequence[Array], alive: Alive
    ) -> tuple[Array, Array, list[Array]]:
        d_gates = slope(trace.out)
        (d_hidden,) = d_last
        for step in range(d_gates.shape[1] - 1, -1, -1):
            gate = d_gates[:, step]
            gate *= d_hidden + d_out[:, step]
            held = alive[step]
            if held is None:
                d_hidden = _back_product(gate, weight)
            else:
                np.copyto(gate, 0, where=~held)
                d_hidden = np.where(held, _back_product(gate, weight), d_hidden)
        return d_gates, d_gates, [d_hidden]

    return back


def _relu(x: Array, out: Array) -> Array:
    return np.maximum(x, 0, out=out)


CELLS = {
    "LSTM": Cell(_LSTM_SIGMOIDS, states=2, saved=2, run=_lstm_run, back=_lstm_back),
    "GRU": Cell((True, True, False), states=1, saved=1, run=_gru_run, back=_gru_back),
    "RNN_TANH": Cell((False,), 1, 0, _plain_run(np.tanh), _plain_back(lambda y: 1 - y * y)),
    "RNN_RELU": Cell((False,), 1, 0, _plain_run(_relu), _plain_back(lambda y: (y > 0).astype(y.dtype))),
}
"""The recurrent layers by the ``mode`` of the operator."""
