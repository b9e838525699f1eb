"""Training goldens of the zoo: gradients, five-step fine-tuning traces, statistics, re-saved outputs.

The judge is real Paddle's golden; where the zoo holds the dygraph gradient because the loaded program of real
Paddle is wrong (``grad_dygraph``), that one is.
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


def check_gradients(reader: ModuleType, model: Any, layer: Any, fmt: str) -> Iterator[str]:
    """What is wrong with the train-mode outputs and the gradients of inputs and parameters."""
    goldens = model.grads(fmt)
    if goldens is None:
        return
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
    yield from _compare_inputs(model, goldens[0], inputs, max(RTOL, 30 * (sensitivity.get("grad_in") or 0.0)))
    yield from _compare_table(goldens[1], _gradients(layer), "gradient of")


def _gradients(layer: Any) -> dict[str, Any]:
    return {name: None if t.grad is None else t.grad.numpy() for name, t in layer._tensors.items()}


def _compare_inputs(model: Any, goldens: dict[str, Any], inputs: list[Any], tolerance: float) -> Iterator[str]:
    for spec, tensor in zip(model.spec["inputs"], inputs, strict=True):
        golden = model._golden(f"grad_dygraph/in/{spec['name']}") or goldens.get(spec["name"])
        if golden is None:
            continue
        if tensor.grad is None:
            yield f"input {spec['name']} has no gradient"
            continue
        deviation = golden.deviation(tensor.grad.numpy())
        if deviation > tolerance:
            yield f"gradient of input {spec['name']} deviates by {deviation:.3g}"


def _compare_table(table: Any, values: dict[str, Any], what: str) -> Iterator[str]:
    for index, name in enumerate(table.names):
        sens = float(table.sens[index])
        value = values.get(name)
        if not table.has[index] or sens >= 0.1 or name not in values:
            continue
        if value is None:
            if float(table.stats[index][3]) > 0:
                yield f"{what} {name} is missing"
            continue
        deviation = table.deviation(name, value)
        if deviation > max(RTOL, 30 * sens):
            yield f"{what} {name} deviates by {deviation:.3g} (sens {sens:.2g})"


def check_finetunes(
    reader: ModuleType, model: Any, load: Callable[[], Any], fmt: str, resave: bool = True
) -> Iterator[str]:
    """What is wrong with the losses, variables and outputs of the five-step traces, and after a re-save."""
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
        for fault in _compare_table(trace.params, values, "variable"):
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
