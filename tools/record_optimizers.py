"""Records optimizers and learning-rate schedules of real Paddle, step by step, as data for the tests.

Run it with a Python that has PaddlePaddle 2.6.2::

    python tools/record_optimizers.py tests/data/optim

``run_optimizer`` and ``run_schedule`` use the public API alone: ``tests/eager/test_optimizers.py`` runs the same steps
with oarlock and compares.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

Case = dict[str, Any]

_W = [[0.5, -1.5, 2.0], [0.25, 1.0, -0.75]]
_B = [0.1, -0.2, 0.3]
_STEPS = 5


def optimizer_cases() -> list[Case]:
    """Each optimizer in its modes. ``make`` is an expression over ``paddle``, ``w``, ``b`` and ``both``."""
    plain = {
        "sgd": "SGD(0.1, parameters=both)",
        "momentum": "Momentum(0.1, 0.9, parameters=both)",
        "nesterov": "Momentum(0.1, 0.9, parameters=both, use_nesterov=True)",
        "momentum_rescale": "Momentum(0.1, 0.8, parameters=both, rescale_grad=0.5)",
        "adam": "Adam(0.1, parameters=both)",
        "adam_betas": "Adam(0.05, beta1=0.8, beta2=0.95, epsilon=1e-4, parameters=both)",
        "adamw": "AdamW(0.1, parameters=both)",
        "adamw_filter": "AdamW(0.1, parameters=both, weight_decay=0.1, apply_decay_param_fun=lambda n: n == 'w')",
        "adagrad": "Adagrad(0.1, parameters=both)",
        "adagrad_start": "Adagrad(0.1, epsilon=1e-4, parameters=both, initial_accumulator_value=0.5)",
        "adamax": "Adamax(0.1, parameters=both)",
        "adadelta": "Adadelta(0.1, parameters=both)",
        "adadelta_rho": "Adadelta(1.0, epsilon=1e-4, rho=0.8, parameters=both)",
        "rmsprop": "RMSProp(0.1, parameters=both)",
        "rmsprop_momentum": "RMSProp(0.1, rho=0.8, epsilon=1e-4, momentum=0.9, parameters=both)",
        "rmsprop_centered": "RMSProp(0.1, momentum=0.5, centered=True, parameters=both)",
        "lamb": "Lamb(0.1, parameters=both)",
        "lamb_exclude": "Lamb(0.1, 0.1, parameters=both, exclude_from_weight_decay_fn=lambda p: p.name == 'b')",
    }
    decays = {
        "l2_float": "weight_decay=0.1",
        "l2": "weight_decay=paddle.regularizer.L2Decay(0.1)",
        "l1": "weight_decay=paddle.regularizer.L1Decay(0.1)",
        "clip_norm": "grad_clip=paddle.nn.ClipGradByNorm(0.7)",
        "clip_global": "grad_clip=paddle.nn.ClipGradByGlobalNorm(1.0)",
        "clip_global_large": "grad_clip=paddle.nn.ClipGradByGlobalNorm(100.0)",
        "clip_value": "grad_clip=paddle.nn.ClipGradByValue(0.5, -0.25)",
        "both": "weight_decay=0.1, grad_clip=paddle.nn.ClipGradByGlobalNorm(1.0)",
    }
    cases = [{"name": name, "make": make} for name, make in plain.items()]
    for base in ("sgd", "momentum", "adam", "rmsprop"):
        cases += [{"name": f"{base}:{key}", "make": f"{plain[base][:-1]}, {extra})"} for key, extra in decays.items()]
    cases += [
        {"name": "adamw:clip", "make": "AdamW(0.1, parameters=both, grad_clip=paddle.nn.ClipGradByGlobalNorm(1.0))"},
        {"name": "adagrad:l2", "make": "Adagrad(0.1, parameters=both, weight_decay=0.1)"},
        {"name": "adamax:l2", "make": "Adamax(0.1, parameters=both, weight_decay=0.1)"},
        {"name": "adadelta:l2", "make": "Adadelta(0.1, parameters=both, weight_decay=0.1)"},
        {
            "name": "param_lr",
            "make": "Momentum(0.1, parameters=both)",
            "prepare": "w.optimize_attr['learning_rate'] = 0.5",
        },
        {
            "name": "param_regularizer",
            "make": "SGD(0.1, parameters=both, weight_decay=0.1)",
            "prepare": "w.regularizer = paddle.regularizer.L1Decay(0.3)",
        },
        {
            "name": "need_clip",
            "make": "SGD(0.1, parameters=both, grad_clip=paddle.nn.ClipGradByGlobalNorm(0.5))",
            "prepare": "b.need_clip = False",
        },
        {"name": "frozen", "make": "Adam(0.1, parameters=both)", "prepare": "b.stop_gradient = True"},
        {
            "name": "groups",
            "make": "Momentum(0.1, parameters=[{'params': [w]}, "
            "{'params': [b], 'learning_rate': 0.1, 'weight_decay': 0.2}])",
        },
        {
            "name": "adamw_groups",
            "make": "AdamW(0.1, parameters=[{'params': [w], 'weight_decay': 0.3}, "
            "{'params': [b], 'learning_rate': 0.5}])",
        },
        {
            "name": "scheduled",
            "make": "Adam(paddle.optimizer.lr.StepDecay(0.1, 2), parameters=both)",
            "scheduled": True,
        },
    ]
    return cases


_SCHEDULES = {
    "CosineAnnealingDecay": "(0.5, 4)",
    "CosineAnnealingDecay:floor": "(0.5, 5, eta_min=0.1)",
    "CosineAnnealingWarmRestarts": "(0.5, 3)",
    "CosineAnnealingWarmRestarts:mult": "(0.5, 2, 2, 0.1)",
    "CyclicLR": "(0.1, 0.5, 3)",
    "CyclicLR:down": "(0.1, 0.5, 2, 3, mode='triangular2')",
    "CyclicLR:exp": "(0.1, 0.5, 2, mode='exp_range', exp_gamma=0.9)",
    "CyclicLR:fn": "(0.1, 0.5, 2, scale_fn=lambda x: 0.5**x, scale_mode='iterations')",
    "ExponentialDecay": "(0.5, 0.9)",
    "InverseTimeDecay": "(0.5, 0.1)",
    "LambdaDecay": "(0.5, lambda x: 0.95**x)",
    "LinearLR": "(0.5, 5)",
    "LinearLR:ends": "(0.5, 4, 0.25, 0.75)",
    "LinearWarmup": "(0.5, 4, 0.0, 0.5)",
    "LinearWarmup:then": "(paddle.optimizer.lr.ExponentialDecay(0.5, 0.5), 3, 0.1, 0.5)",
    "MultiStepDecay": "(0.5, [2, 4, 7], 0.5)",
    "MultiplicativeDecay": "(0.5, lambda x: 0.9)",
    "NaturalExpDecay": "(0.5, 0.1)",
    "NoamDecay": "(64, 4, 2.0)",
    "OneCycleLR": "(1.0, 12)",
    "OneCycleLR:linear": "(1.0, 14, divide_factor=5, end_learning_rate=0.01, phase_pct=0.5, anneal_strategy='linear')",
    "OneCycleLR:three": "(1.0, 12, phase_pct=0.25, three_phase=True)",
    "PiecewiseDecay": "([3, 6], [0.1, 0.05, 0.01])",
    "PolynomialDecay": "(0.5, 6)",
    "PolynomialDecay:cycle": "(0.5, 4, end_lr=0.1, power=2.0, cycle=True)",
    "StepDecay": "(0.5, 2)",
    "StepDecay:gamma": "(0.5, 3, 0.5)",
}


def run_optimizer(paddle: Any, case: Case) -> dict[str, Any]:
    """Parameters and learning rate after each of five steps, and the state at the end."""
    w, b = (_parameter(paddle, name, data) for name, data in (("w", _W), ("b", _B)))
    scope = {"paddle": paddle, "w": w, "b": b, "both": [w, b]}
    exec(case.get("prepare", ""), scope)
    optimizer = eval(f"paddle.optimizer.{case['make']}", scope)
    trace = []
    for step in range(_STEPS):
        loss = (w * _gradient(paddle, w, step)).sum() + (b * _gradient(paddle, b, step + 3)).sum()
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        trace.append({"w": w.numpy().tolist(), "b": b.numpy().tolist(), "lr": float(optimizer.get_lr())})
        if case.get("scheduled"):
            optimizer._learning_rate.step()
    state = {
        name: value.numpy().tolist() if hasattr(value, "numpy") else value
        for name, value in optimizer.state_dict().items()
    }
    return {"trace": trace, "state": state}


def _parameter(paddle: Any, name: str, data: Any) -> Any:
    made = paddle.create_parameter(list(np.shape(data)), "float32")
    made.name = name
    made.set_value(np.asarray(data, "float32"))
    return made


def _gradient(paddle: Any, parameter: Any, step: int) -> Any:
    count = int(np.prod(parameter.shape))
    values = np.sin(np.arange(count, dtype="float64") * 1.7 + step * 0.9)
    return paddle.to_tensor(values.astype("float32").reshape(parameter.shape))


def run_schedule(paddle: Any, name: str, arguments: str) -> dict[str, Any]:
    """The learning rate at the start and after each of twelve steps, and the state at the end."""
    kind = getattr(paddle.optimizer.lr, name.split(":")[0])
    schedule = eval(f"kind{arguments}", {"kind": kind, "paddle": paddle})
    rates = [float(schedule())]
    for _ in range(12):
        schedule.step()
        rates.append(float(schedule()))
    return {"rates": rates, "state": _plain(schedule.state_dict())}


def run_plateau(paddle: Any) -> list[float]:
    """The learning rates of ``ReduceOnPlateau`` for given metrics."""
    schedule = paddle.optimizer.lr.ReduceOnPlateau(1.0, factor=0.5, patience=1, cooldown=1, min_lr=0.1)
    rates = []
    for metric in (5.0, 4.0, 4.1, 4.2, 4.3, 4.0, 3.9999, 3.5, 3.6, 3.7, 3.8, 3.9, 4.0, 4.1, 4.2):
        schedule.step(metric)
        rates.append(float(schedule()))
    return rates


def _plain(state: Any) -> Any:
    if isinstance(state, dict):
        return {key: _plain(value) for key, value in state.items()}
    return state if isinstance(state, (int, float, str, bool, list, type(None))) else str(type(state).__name__)


def main(folder: str) -> None:
    """Write ``optimizers.json`` and ``schedules.json``."""
    import paddle  # type: ignore[import-not-found]

    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    rows = [{"case": case, **run_optimizer(paddle, case)} for case in optimizer_cases()]
    _write(target / "optimizers.json", rows)
    schedules: list[Any] = [
        {"name": name, "arguments": arguments, **run_schedule(paddle, name, arguments)}
        for name, arguments in _SCHEDULES.items()
    ]
    _write(target / "schedules.json", [*schedules, {"name": "ReduceOnPlateau", "rates": run_plateau(paddle)}])
    print(f"{len(rows)} optimizers, {len(schedules) + 1} schedules -> {target}")


def _write(path: Path, rows: list[Any]) -> None:
    path.write_text("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")


if __name__ == "__main__":
    main(sys.argv[1])
