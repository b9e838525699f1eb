"""Random small graphs with in-place functions give the gradients of their out-of-place twin, or raise.

The twin knows no aliases: it keeps every piece of memory as one flat tensor, reads a view as a product with a 0/1
matrix, and turns a write into ``memory * keep + value @ place``. It uses out-of-place operators alone. A write that is
not recorded (``no_grad``, ``set_value``) moves the value and leaves the graph as it was, so the twin adds a constant.

``OARLOCK_GRAPHS`` sets the number of graphs; nightly runs use 10000.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
import oarlock as paddle
import pytest
from oarlock.eager.graph import AutogradError, StaleLeafNode

GRAPHS = int(os.environ.get("OARLOCK_GRAPHS", "300"))
BATCH = 50
UNARY = {
    "sin": lambda x: paddle.sin(x),
    "tanh": lambda x: paddle.tanh(x),
    "sigmoid": lambda x: paddle.sigmoid(x),
    "scale": lambda x: paddle.scale(x, *ARGUMENTS["scale"]),
    "cos": lambda x: paddle.cos(x),
    "abs": lambda x: paddle.abs(x),
    "neg": lambda x: paddle.neg(x),
}
ARGUMENTS = {"scale": (0.7, 0.2)}
BINARY = {"add": paddle.add, "multiply": paddle.multiply, "subtract": paddle.subtract}


@dataclass
class Memory:
    """A piece of memory in the twin: its flat value, once for every history that ``detach`` cut off."""

    values: dict[int, Any]


@dataclass
class Variable:
    """One tensor of the program: the real one, and where it lies in the twin's memory."""

    real: Any
    memory: Memory
    index: np.ndarray
    history: int = 0

    def twin(self) -> Any:
        """The value as the twin reads it."""
        turned = paddle.to_tensor(self._matrix().T.copy())
        return paddle.matmul(self.memory.values[self.history], turned).reshape(self.index.shape)

    def _matrix(self) -> np.ndarray:
        size = self.memory.values[self.history].shape[0]
        return np.eye(size)[self.index.reshape(-1)]

    def detached(self) -> Variable:
        """What ``detach`` gives: the same memory with a history that starts here."""
        history = len(self.memory.values)
        self.memory.values[history] = self.memory.values[self.history].detach()
        return Variable(self.real.detach(), self.memory, self.index, history)

    def write(self, value: Any, recorded: bool) -> None:
        """The twin's form of an in-place change to ``value``: recorded in the own history, a constant in others."""
        matrix = self._matrix()
        values = self.memory.values
        change = paddle.matmul((value - self.twin()).detach().reshape([-1]), paddle.to_tensor(matrix))
        for history in values:
            if recorded and history == self.history:
                keep = paddle.to_tensor(1.0 - matrix.sum(0))
                placed = paddle.matmul(value.reshape([-1]), paddle.to_tensor(matrix))
                values[history] = values[history] * keep + placed
            else:
                values[history] = values[history] + change


class Program:
    """A random program, run with in-place functions and by the twin at the same time."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.variables: list[Variable] = []
        self.leaves: list[tuple[Any, Any]] = []
        self.changes = 0
        for trainable in (True, True, False):
            self.new_leaf(trainable)

    def new_leaf(self, trainable: bool) -> None:
        data = self.random.uniform(-1, 1, (2, 3))
        real = paddle.to_tensor(data, stop_gradient=not trainable)
        twin = paddle.to_tensor(data.reshape(-1), stop_gradient=not trainable)
        if trainable:
            self.leaves.append((real, twin))
        self.variables.append(Variable(real, Memory({0: twin}), np.arange(6).reshape(2, 3)))

    def pick(self) -> Variable:
        return self.variables[self.random.integers(len(self.variables))]

    def fresh(self, real: Any, twin: Any) -> None:
        size = int(np.prod(real.shape))
        self.variables.append(Variable(real, Memory({0: twin.reshape([-1])}), np.arange(size).reshape(real.shape)))

    def same_shape(self, x: Variable) -> Variable:
        fitting = [each for each in self.variables if each.index.shape == x.index.shape]
        return fitting[self.random.integers(len(fitting))]

    # Steps

    def compute(self) -> None:
        x = self.pick()
        function = UNARY[self.random.choice(list(UNARY))]
        self.fresh(function(x.real), function(x.twin()))

    def combine(self) -> None:
        x = self.pick()
        y = self.same_shape(x)
        function = BINARY[self.random.choice(list(BINARY))]
        self.fresh(function(x.real, y.real), function(x.twin(), y.twin()))

    def view(self) -> None:
        x = self.pick()
        kind = self.random.choice(["row", "columns", "flat", "turned", "detach"])
        if kind == "detach":
            self.variables.append(x.detached())
            return
        if kind == "flat":
            real, index = x.real.unsqueeze(0), x.index[None]
        elif kind == "turned" and x.index.ndim == 2:
            real, index = x.real.T, x.index.T
        elif kind == "columns" and x.index.ndim == 2 and x.index.shape[1] > 1:
            real, index = x.real[:, 0:2], x.index[:, 0:2]
        elif x.index.ndim >= 1 and x.index.shape[0] >= 1:
            real, index = x.real[0:1], x.index[0:1]
        else:
            return
        self.variables.append(Variable(real, x.memory, index, x.history))

    def change(self) -> None:
        x = self.pick()
        name = self.random.choice(list(UNARY))
        self.in_place(x, lambda: getattr(x.real, f"{name}_")(*ARGUMENTS.get(name, ())), lambda: UNARY[name](x.twin()))

    def change_with(self) -> None:
        x = self.pick()
        y = self.same_shape(x)
        name = self.random.choice(list(BINARY))
        self.in_place(x, lambda: getattr(x.real, f"{name}_")(y.real), lambda: BINARY[name](x.twin(), y.twin()))

    def put(self) -> None:
        x = self.pick()
        rows = [each for each in self.variables if each.index.shape == x.index.shape[1:]]
        if rows:
            y = rows[self.random.integers(len(rows))]
            place = np.zeros(x.index.shape)
            place[0] = 1

            def twin() -> Any:
                spread = y.twin().unsqueeze(0).expand(list(x.index.shape))
                return x.twin() * paddle.to_tensor(1 - place) + spread * paddle.to_tensor(place)

            self.in_place(x, lambda: x.real.__setitem__(0, y.real), twin)

    def fill(self) -> None:
        x = self.pick()
        self.in_place(x, lambda: x.real.fill_(0.5), lambda: x.twin() * 0.0 + 0.5)

    def overwrite(self) -> None:
        x = self.pick()
        data = self.random.uniform(-1, 1, x.index.shape)
        if x.real.is_leaf and not x.real.stop_gradient and type(x.real.grad_fn) is StaleLeafNode:
            return  # a leaf changed through a view becomes a new leaf by this, which the twin cannot express
        x.real.set_value(data)
        x.write(paddle.to_tensor(data), recorded=False)
        self.changes += 1

    def in_place(self, x: Variable, real: Any, twin: Any) -> None:
        """An in-place step in both worlds, sometimes under no_grad. A refused one is left out of both."""
        quiet = self.random.random() < 0.2
        value = twin()
        before = x.real.numpy()
        try:
            if quiet:
                with paddle.no_grad():
                    real()
            else:
                real()
        except ValueError as error:
            assert "Leaf" in str(error)
            np.testing.assert_array_equal(x.real.numpy(), before)
            return
        x.write(value, recorded=not quiet and not x.real.stop_gradient)
        self.changes += 1

    def run(self) -> str:
        """``"equal"``, or ``"raised"`` where backward refused."""
        steps = [
            self.compute,
            self.combine,
            self.view,
            self.change,
            self.change_with,
            self.put,
            self.fill,
            self.overwrite,
        ]
        weights = np.array([3, 3, 3, 3, 3, 1, 0.5, 0.5])
        for _ in range(int(self.random.integers(4, 12))):
            steps[self.random.choice(len(steps), p=weights / weights.sum())]()
        for each in self.variables:
            np.testing.assert_allclose(each.real.numpy(), each.twin().numpy(), rtol=1e-9, atol=1e-12)
        used = [each for each in self.variables if self.random.random() < 0.5] or self.variables[-1:]
        loss = sum((each.real * (i + 1.0)).sum() for i, each in enumerate(used))
        wanted = sum((each.twin() * (i + 1.0)).sum() for i, each in enumerate(used))
        try:
            loss.backward()
        except AutogradError:
            return "raised"
        wanted.backward()
        for real, twin in self.leaves:
            ours = np.zeros((2, 3)) if real.grad is None else real.grad.numpy()
            theirs = np.zeros((2, 3)) if twin.grad is None else twin.grad.numpy().reshape(2, 3)
            np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)
        return "equal"


@pytest.mark.parametrize("start", range(0, GRAPHS, BATCH))
def test_gradients_are_the_twins_or_backward_raises(start: int) -> None:
    outcomes = []
    for seed in range(start, start + BATCH):
        try:
            outcomes.append(Program(seed).run())
        except AssertionError as error:
            raise AssertionError(f"graph {seed}: {error}") from error
    assert outcomes.count("equal") > BATCH // 4, f"too few graphs reach the comparison: {outcomes.count('equal')}"


def test_the_graphs_change_tensors_and_both_outcomes_occur() -> None:
    programs = [Program(seed) for seed in range(60)]
    outcomes = {program.run() for program in programs}
    assert outcomes == {"equal", "raised"}
    assert sum(program.changes for program in programs) > 60
