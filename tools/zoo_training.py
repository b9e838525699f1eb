"""Training goldens of the zoo: gradients, five-step fine-tuning traces, statistics, re-saved outputs.

The judge is real Paddle's golden. Where we differ from it, a referee decides: our own net in float64, whose
gradient must agree with a central difference of its own loss and with our float32 gradient. If both hold, the
golden is at fault (README of the zoo, "Gradients to distrust") or a kink flipped, and the fault becomes a note.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import oarlock

__all__ = ["check_finetunes", "check_gradients"]

RTOL = 1e-3
"""Relative to the largest value of a tensor, unless real Paddle itself moves more (``sens``)."""

OPTIMIZERS: dict[str, Callable[..., Any]] = {
    "sgd": lambda lr, p: oarlock.optimizer.SGD(lr or 0.01, parameters=p),
    "momentum": lambda lr, p: oarlock.optimizer.Momentum(lr or 0.005, 0.9, parameters=p),
    "nesterov": lambda lr, p: oarlock.optimizer.Momentum(
        lr or 0.005, 0.9, parameters=p, use_nesterov=True, weight_decay=1e-3
    ),
    "adam": lambda lr, p: oarlock.optimizer.Adam(lr or 1e-3, parameters=p),
    "adamw": lambda lr, p: oarlock.optimizer.AdamW(lr or 1e-3, parameters=p, weight_decay=0.01),
    "adamw_clip": lambda lr, p: oarlock.optimizer.AdamW(
        lr or 1e-3, parameters=p, weight_decay=0.05, grad_clip=oarlock.nn.ClipGradByGlobalNorm(0.5)
    ),
    "rmsprop": lambda lr, p: oarlock.optimizer.RMSProp(lr or 1e-3, parameters=p),
    "adagrad": lambda lr, p: oarlock.optimizer.Adagrad(lr or 1e-2, parameters=p),
}


def judge_of(model: Any, fmt: str) -> str:
    """Whose training goldens count: Paddle 3.3.1 bakes test mode into a ``.json``, so the ``.pdmodel`` of the net.

    Two nets have outputs of other shapes or in another order there; they are judged by their own.
    """
    if fmt != "pir" or "pdmodel" not in model.formats:
        return fmt
    shapes = [[tuple(golden.shape) for golden in model.outputs(0, each)] for each in ("pir", "pdmodel")]
    return "pdmodel" if shapes[0] == shapes[1] else fmt


def _tensors(model: Any, wants_grad: bool) -> list[Any]:
    made = []
    for spec, value in zip(model.spec["inputs"], model.inputs(0).values(), strict=True):
        tensor = oarlock.to_tensor(value).astype(spec["dtype"])
        if wants_grad and spec.get("wants_grad") and tensor.numpy().dtype.kind in "fcV":
            tensor = tensor.detach()
            tensor.stop_gradient = False
        made.append(tensor)
    return made


def _flat(outputs: Any) -> list[Any]:
    return list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]


def _is_float(tensor: Any) -> bool:
    return bool(np.asarray(tensor.numpy()).dtype.kind in "fcV")


def check_gradients(
    reader: ModuleType, model: Any, load: Callable[[], Any], fmt: str, notes: list[str]
) -> Iterator[str]:
    """What is wrong with the train-mode outputs and the gradients of inputs and parameters.

    ``notes`` receives what differs from the golden and is right by the referee.
    """
    fmt = judge_of(model, fmt)
    goldens = model.grads(fmt)
    if goldens is None:
        return
    layer = load()
    layer.train()
    inputs = _tensors(model, True)
    outputs = _flat(layer(*inputs))
    sensitivity = model.spec["sensitivity"].get(fmt, {})
    for index, (golden, got) in enumerate(zip(model.train_outputs(fmt), outputs, strict=True)):
        deviation = golden.deviation(got.numpy())
        if deviation > max(RTOL, 30 * (sensitivity.get("train") or 0.0)):
            yield f"train output {index} deviates by {deviation:.3g}"
    loss = None
    for index, output in enumerate(outputs):
        if _is_float(output):
            cotangent = reader.cotangent(index, output.shape).astype(output.numpy().dtype)
            part = (output * oarlock.to_tensor(cotangent)).sum()
            loss = part if loss is None else loss + part
    if loss is None:
        return
    loss.backward()
    referee = Referee(reader, model, load)
    for name, fault, value in (
        *_compare_inputs(model, goldens[0], inputs, max(RTOL, 30 * (sensitivity.get("grad_in") or 0.0))),
        *_compare_table(goldens[1], _gradients(layer), "gradient of"),
    ):
        if value is not None and referee.accepts(name, value):
            notes.append(f"{fault}: ours is right by a float64 difference")
        else:
            yield fault


def _gradients(layer: Any) -> dict[str, Any]:
    return {name: None if t.grad is None else t.grad.numpy() for name, t in layer._tensors.items()}


Fault = tuple[str, str, Any]
"""The variable, what is wrong, and our value (None where there is none)."""


def _compare_inputs(model: Any, goldens: dict[str, Any], inputs: list[Any], tolerance: float) -> Iterator[Fault]:
    for spec, tensor in zip(model.spec["inputs"], inputs, strict=True):
        name = spec["name"]
        golden = goldens.get(name)
        if golden is None:
            continue
        if tensor.grad is None:
            yield name, f"input {name} has no gradient", None
            continue
        value = tensor.grad.numpy()
        deviation = golden.deviation(value)
        if deviation > tolerance:
            yield name, f"gradient of input {name} deviates by {deviation:.3g}", value


def _compare_table(table: Any, values: dict[str, Any], what: str) -> Iterator[Fault]:
    for index, name in enumerate(table.names):
        sens = float(table.sens[index])
        value = values.get(name)
        if sens >= 0.1 or name not in values:
            continue
        if not table.has[index]:
            if value is not None and what.startswith("gradient") and np.abs(value).max() > 0:
                yield name, f"{what} {name} is there, real Paddle has none", value
            continue
        if value is None:
            if float(table.stats[index][3]) > 0:
                yield name, f"{what} {name} is missing", None
            continue
        deviation = table.deviation(name, value)
        if deviation > max(RTOL, 30 * sens):
            yield name, f"{what} {name} deviates by {deviation:.3g} (sens {sens:.2g})", value


class Referee:
    """Our own net in float64: its gradient, checked against a central difference of its loss."""

    def __init__(self, reader: ModuleType, model: Any, load: Callable[[], Any]) -> None:
        self._reader = reader
        self._model = model
        self._load = load
        self._variables: dict[str, Any] = {}

    def accepts(self, name: str, value: Any) -> bool:
        """Whether our float32 gradient of a variable is the derivative."""
        if not self._variables:
            self._differentiate()
        variable = self._variables.get(name)
        if variable is None or variable.grad is None:
            return False
        exact = variable.grad.numpy()
        largest = max(float(np.abs(exact).max()), 1e-30)
        if float(np.abs(exact - value).max()) > RTOL * largest:
            return False
        direction = np.random.default_rng(0).standard_normal(exact.shape)
        return self._slope_agrees(variable, direction, float((exact * direction).sum()), largest)

    def _slope_agrees(self, variable: Any, direction: Any, expected: float, largest: float) -> bool:
        """Central differences at a few steps: a kink spoils some of them, a wrong gradient all."""
        start = variable._array.copy()
        scale = float(np.linalg.norm(direction)) * largest
        for step in (1e-4, 1e-5, 1e-6, 1e-7):
            ends = []
            for sign in (1, -1):
                variable._array = start + sign * step * direction
                ends.append(float(self._loss()))
            variable._array = start
            if abs((ends[0] - ends[1]) / (2 * step) - expected) <= 1e-3 * max(abs(expected), 1e-3 * scale):
                return True
        return False

    def _differentiate(self) -> None:
        self._layer = self._load()
        self._layer.train()
        for block in self._layer.program().blocks:
            for op in block.ops:
                for attr in ("dtype", "in_dtype", "out_dtype"):
                    if op.attrs.get(attr) == 5:  # the constants of a float32 net
                        op.attrs[attr] = 6
        for tensor in self._layer._tensors.values():
            if tensor._array.dtype == np.float32:
                tensor._array = tensor._array.astype(np.float64)
            tensor.clear_gradient(False)
        self._inputs = []
        for tensor in _tensors(self._model, True):
            wide = tensor.astype("float64") if tensor.numpy().dtype == np.float32 else tensor
            made = wide.detach()
            made.stop_gradient = tensor.stop_gradient
            self._inputs.append(made)
        self._variables = dict(self._layer._tensors)
        self._variables |= {s["name"]: t for s, t in zip(self._model.spec["inputs"], self._inputs, strict=True)}
        self._loss().backward()

    def _loss(self) -> Any:
        method = self._layer._methods["forward"]
        outputs = method._train_call(self._inputs, [each._array for each in self._inputs])
        loss = None
        for index, output in enumerate(outputs):
            if _is_float(output):
                cotangent = self._reader.cotangent(index, output.shape).astype(output.numpy().dtype)
                part = (output * oarlock.to_tensor(cotangent)).sum()
                loss = part if loss is None else loss + part
        return loss


def check_finetunes(
    reader: ModuleType, model: Any, load: Callable[[], Any], fmt: str, resave: bool = True
) -> Iterator[str]:
    """What is wrong with the losses, variables and outputs of the five-step traces, and after a re-save."""
    fmt = judge_of(model, fmt)
    for index, trace in enumerate(model.finetunes(fmt)):
        layer = load()
        layer.train()
        losses = _train(reader, model, layer, OPTIMIZERS[trace.optimizer], model.spec.get("lr"))
        sensitivity = model.spec["sensitivity"].get(fmt, {})
        sens = np.asarray(sensitivity.get(f"ft_{trace.optimizer}_losses") or 0.0)
        worst = np.abs(losses - trace.losses) / np.maximum(np.abs(trace.losses), 1e-12)
        if np.any(worst > np.maximum(RTOL, 30 * sens)):
            yield f"{trace.optimizer}: losses {losses.tolist()}, expected {trace.losses.tolist()}"
        values = {name: tensor.numpy() for name, tensor in layer._tensors.items()}
        for _, fault, _ in _compare_table(trace.params, values, "variable"):
            yield f"{trace.optimizer}: {fault}"
        layer.eval()
        tolerance = max(RTOL, 30 * (sensitivity.get(f"ft_{trace.optimizer}_eval") or 0.0))
        outputs = [each.numpy() for each in _flat(layer(*_tensors(model, False)))]
        for number, (golden, got) in enumerate(zip(trace.eval_outputs, outputs, strict=True)):
            if golden.deviation(got) > tolerance:
                yield f"{trace.optimizer}: output {number} after training deviates by {golden.deviation(got):.3g}"
        if resave and index == 0:
            yield from _check_resaved(model, layer, outputs)


def _train(reader: ModuleType, model: Any, layer: Any, make: Callable[..., Any], lr: float | None) -> Any:
    optimizer = make(lr, layer.parameters())
    inputs = _tensors(model, False)
    losses = []
    for _ in range(5):
        loss = None
        for index, output in enumerate(_flat(layer(*inputs))):
            if _is_float(output):
                target = reader.target(index, output.shape).astype(output.numpy().dtype)
                difference = output - oarlock.to_tensor(target)
                part = (difference * difference).mean()
                loss = part if loss is None else loss + part
        losses.append(float(loss))
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
    return np.asarray(losses)


def _check_resaved(model: Any, layer: Any, outputs: list[Any]) -> Iterator[str]:
    """A trained layer that is saved and loaded again gives the same bits."""
    with tempfile.TemporaryDirectory() as folder:
        oarlock.jit.save(layer, str(Path(folder) / "again"))
        again = _flat(oarlock.jit.load(str(Path(folder) / "again"))(*_tensors(model, False)))
        for number, (before, after) in enumerate(zip(outputs, again, strict=True)):
            if not np.array_equal(before, after.numpy(), equal_nan=before.dtype.kind in "fc"):
                yield f"output {number} changed by saving and loading"
