"""Records what real Paddle does with every in-place function in every situation, as data for the tests.

Run it with a Python that has PaddlePaddle 2.6.2::

    python tools/record_inplace.py tests/data/inplace

``run_case`` is written against the public API alone, so that ``tests/eager/test_inplace_table.py`` runs the same
steps with oarlock and compares.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Case = dict[str, Any]
"""``name``, ``x`` (data and dtype), ``args``, ``kwargs``, ``on`` (module that holds a function that is no method)."""

_X = [[0.2, 0.4, 0.6], [0.3, 0.5, 0.7]]
_Y = [[0.5, 0.25, 0.125], [1.5, 0.75, 0.3]]
_INT = [[1, 2, 3], [4, 5, 6]]
_INT_Y = [[2, 2, 5], [3, 7, 4]]


def _tensor(data: Any, dtype: str = "float32") -> dict[str, Any]:
    return {"tensor": data, "dtype": dtype}


def cases() -> list[Case]:
    """Every in-place function with one set of arguments."""
    made = [_case(name) for name in _PLAIN]
    made += [_case(name, x=data) for name, data in _DOMAINS.items()]
    made += [
        _case(f"{name}_", args=[_tensor(_Y)])
        for name in ["add", "subtract", "multiply", "divide", "hypot", "remainder"]
    ]
    made += [_case(f"{name}_", args=[_tensor(_Y)]) for name in ["floor_divide", "mod", "floor_mod", "ldexp"]]
    made += [_case(f"{name}_", args=[_tensor(_Y)]) for name in _COMPARE]
    made += [
        _case(f"{name}_", x=_INT, dtype="int32", args=[_tensor(_INT_Y, "int32")])
        for name in ["bitwise_and", "bitwise_or", "bitwise_xor", "gcd", "lcm", "add", "multiply"]
    ]
    made.append(_case("bitwise_not_", x=_INT, dtype="int32"))
    made += _with_arguments()
    made += [_case(name, on="paddle") for name in ("square_", "expm1_", "erf_", "tanh_")]
    made += [_case(f"{name}_", on="functional") for name in _ACTIVATIONS]
    return made


_PLAIN = [
    "abs_",
    "acos_",
    "asin_",
    "asinh_",
    "atan_",
    "atanh_",
    "ceil_",
    "cos_",
    "cosh_",
    "cumprod_",
    "cumsum_",
    "digamma_",
    "erfinv_",
    "exp_",
    "flatten_",
    "floor_",
    "frac_",
    "i0_",
    "lgamma_",
    "log_",
    "log10_",
    "log1p_",
    "log2_",
    "logical_not_",
    "nan_to_num_",
    "neg_",
    "reciprocal_",
    "round_",
    "rsqrt_",
    "sigmoid_",
    "sin_",
    "sinh_",
    "sqrt_",
    "t_",
    "tan_",
    "tanh_",
    "tril_",
    "triu_",
    "trunc_",
    "zero_",
    "uniform_",
    "normal_",
    "exponential_",
    "cauchy_",
]
_DOMAINS = {
    "acosh_": [[1.2, 1.4, 1.6], [2.3, 2.5, 2.7]],
    "logit_": [[0.1, 0.2, 0.3], [0.15, 0.25, 0.35]],
    "squeeze_": [[[0.2, 0.4, 0.6]]],
}
_COMPARE = [
    "equal",
    "not_equal",
    "less_than",
    "less_equal",
    "greater_than",
    "greater_equal",
    "logical_and",
    "logical_or",
    "logical_xor",
]
_ACTIVATIONS = ["elu", "hardtanh", "leaky_relu", "relu", "softmax", "tanh", "thresholded_relu"]


def _with_arguments() -> list[Case]:
    square = [[0.2, 0.4], [0.6, 0.8]]
    return [
        _case("addmm_", x=square, args=[_tensor([[1.0, 2.0], [3.0, 4.0]]), _tensor([[0.5, 1.0], [1.5, 2.0]])]),
        _case("cast_", args=["float64"]),
        _case("clip_", args=[0.3, 0.6]),
        _case("cumprod_", args=[1], variant="axis"),
        _case("cumsum_", args=[1], variant="axis"),
        _case("fill_", args=[2.5]),
        _case("fill_diagonal_", args=[2.0]),
        _case("fill_diagonal_tensor_", x=square, args=[_tensor([5.0, 6.0])]),
        _case("geometric_", args=[0.5]),
        _case("index_add_", args=[_tensor([0], "int32"), 0, _tensor([[1.0, 2.0, 3.0]])]),
        _case("index_fill_", args=[_tensor([0], "int32"), 0, 2.0]),
        _case("index_put_", args=[[_tensor([0, 1], "int64"), _tensor([1, 2], "int64")], _tensor([5.0, 6.0])]),
        _case("lerp_", args=[_tensor(_Y), 0.25]),
        _case("masked_fill_", args=[_tensor([[True, False, True], [False, True, False]], "bool"), 2.0]),
        _case("multigammaln_", x=[[2.2, 2.4, 2.6], [3.3, 3.5, 3.7]], args=[2]),
        _case("polygamma_", x=[[1.2, 1.4, 1.6], [2.3, 2.5, 2.7]], args=[1]),
        _case("pow_", args=[2.0]),
        _case("put_along_axis_", args=[_tensor([[0, 1, 0]], "int64"), _tensor([[5.0, 6.0, 7.0]]), 0]),
        _case("renorm_", args=[2.0, 0, 0.5]),
        _case("reshape_", args=[[3, 2]]),
        _case("scale_", args=[3.0, 1.0]),
        _case("scatter_", args=[_tensor([1], "int64"), _tensor([[5.0, 6.0, 7.0]])]),
        _case("transpose_", args=[[1, 0]]),
        _case("unsqueeze_", args=[0]),
        _case("add_", args=[_tensor([0.5, 1.0, 1.5])], variant="broadcast"),
        _case("multiply_", args=[_tensor([0.5, 1.0, 1.5])], variant="broadcast"),
        _case("add_", x=[0.5, 1.0, 1.5], args=[_tensor(_Y)], variant="grows"),
        _case("set_value", args=[_tensor([[9.0, 8.0, 7.0], [6.0, 5.0, 4.0]])]),
        _case("copy_", args=[_tensor([[9.0, 8.0, 7.0], [6.0, 5.0, 4.0]]), True]),
        _case("__setitem__", args=[0, 5.0], variant="row"),
        _case("__setitem__", args=[[0, 1], _tensor(2.0)], variant="element"),
        _case("__setitem__", args=[_tensor([[True, False, True], [False, True, False]], "bool"), 3.0], variant="mask"),
        _case("_bump_inplace_version"),
        _case("detach_"),
    ]


def _case(
    name: str, x: Any = None, dtype: str = "float32", args: Any = (), on: str = "tensor", variant: str = ""
) -> Case:
    label = f"{'' if on == 'tensor' else on + '.'}{name}{'' if dtype == 'float32' else ':' + dtype}"
    return {
        "label": f"{label}:{variant}" if variant else label,
        "name": name,
        "x": {"tensor": _X if x is None else x, "dtype": dtype},
        "args": list(args),
        "on": on,
    }


RANDOM = frozenset({"uniform_", "normal_", "exponential_", "cauchy_", "geometric_"})
"""Functions whose values are not compared."""


class Run:
    """One case with one framework; ``paddle`` is Paddle, or oarlock under the same names."""

    def __init__(self, paddle: Any, case: Case) -> None:
        self.paddle = paddle
        self.case = case

    def tensor(self, spec: Any) -> Any:
        """An argument: tensors made from their data, lists opened."""
        if isinstance(spec, dict):
            return self.paddle.to_tensor(np.array(spec["tensor"], spec["dtype"]))
        if isinstance(spec, list) and spec and isinstance(spec[0], dict):
            return [self.tensor(each) for each in spec]
        if isinstance(spec, list) and self.case["name"] == "__setitem__":
            return tuple(spec)
        return spec

    def leaf(self, stop_gradient: bool = False) -> Any:
        """A new leaf with the case's data."""
        leaf = self.tensor(self.case["x"])
        leaf.stop_gradient = stop_gradient
        return leaf

    def change(self, x: Any) -> Any:
        """The in-place function on ``x``."""
        arguments = [self.tensor(each) for each in self.case["args"]]
        name = self.case["name"]
        if self.case["on"] == "paddle":
            return getattr(self.paddle, name)(x, *arguments)
        if self.case["on"] == "functional":
            return getattr(self.paddle.nn.functional, name)(x, *arguments)
        return getattr(x, name)(*arguments)

    def total(self, x: Any) -> Any:
        """A scalar that weighs every element differently."""
        flat = x.astype("float32").reshape([-1])
        return (flat * self.paddle.to_tensor(np.arange(1, flat.shape[0] + 1, dtype="float32"))).sum()

    def view_of(self, x: Any) -> Any:
        """A view of the whole of ``x``. (``reshape`` to the same shape would give ``x`` itself.)"""
        return x.unsqueeze(0).squeeze(0)


def _leaf(run: Run) -> dict[str, Any]:
    x = run.leaf()
    return _seen(run, x, run.change(x))


def _data(run: Run) -> dict[str, Any]:
    x = run.leaf(stop_gradient=True)
    return _seen(run, x, run.change(x))


def _no_grad(run: Run) -> dict[str, Any]:
    x = run.leaf()
    with run.paddle.no_grad():
        result = run.change(x)
    return _seen(run, x, result)


def _non_leaf(run: Run) -> dict[str, Any]:
    x = run.leaf()
    y = x * 2
    seen = _seen(run, y, run.change(y))
    run.total(y).backward()
    return {**seen, "grad": _numbers(x.grad)}


def _no_grad_non_leaf(run: Run) -> dict[str, Any]:
    x = run.leaf()
    y = x * 2
    with run.paddle.no_grad():
        result = run.change(y)
    seen = _seen(run, y, result)
    run.total(y).backward()
    return {**seen, "grad": _numbers(x.grad)}


def _needed_before(run: Run) -> dict[str, Any]:
    x = run.leaf()
    y = x * 2
    z = y * y
    seen = _seen(run, y, run.change(y))
    return {**seen, **_attempt(lambda: (run.total(z).backward(), {"grad": _numbers(x.grad)})[1])}


def _not_needed_before(run: Run) -> dict[str, Any]:
    x = run.leaf()
    y = x * 2
    z = y + 1
    seen = _seen(run, y, run.change(y))
    return {**seen, **_attempt(lambda: (run.total(z).backward(), {"grad": _numbers(x.grad)})[1])}


def _used_after(run: Run) -> dict[str, Any]:
    x = run.leaf()
    y = x * 2
    seen = _seen(run, y, run.change(y))
    z = run.total(y.astype("float32") * y.astype("float32"))
    return {**seen, **_attempt(lambda: (z.backward(), {"grad": _numbers(x.grad)})[1])}


def _view(run: Run) -> dict[str, Any]:
    x = run.leaf()
    base = x * 2
    y = run.view_of(base)
    seen = _seen(run, y, run.change(y))
    seen["base_version"] = base.inplace_version
    if run.case["name"] not in RANDOM:
        seen["base"] = _numbers(base)
    return {**seen, **_attempt(lambda: (run.total(y).backward(), {"grad": _numbers(x.grad)})[1])}


def _view_of_leaf(run: Run) -> dict[str, Any]:
    x = run.leaf()
    y = run.view_of(x)
    seen = _seen(run, y, run.change(y))
    seen["base_version"] = x.inplace_version
    return {**seen, **_attempt(lambda: (run.total(y).backward(), {"grad": _numbers(x.grad)})[1])}


def _twice(run: Run) -> dict[str, Any]:
    x = run.leaf()
    y = x * 2
    run.change(y)
    seen = _seen(run, y, run.change(y))
    return {**seen, **_attempt(lambda: (run.total(y).backward(), {"grad": _numbers(x.grad)})[1])}


def _stopped(run: Run) -> dict[str, Any]:
    x = run.leaf()
    y = x * 2
    y.stop_gradient = True
    return _seen(run, y, run.change(y))


SITUATIONS: dict[str, Callable[[Run], dict[str, Any]]] = {
    "leaf": _leaf,
    "data": _data,
    "no_grad": _no_grad,
    "non_leaf": _non_leaf,
    "no_grad_non_leaf": _no_grad_non_leaf,
    "needed_before": _needed_before,
    "not_needed_before": _not_needed_before,
    "used_after": _used_after,
    "view": _view,
    "view_of_leaf": _view_of_leaf,
    "twice": _twice,
    "stopped": _stopped,
}


def run_case(paddle: Any, case: Case, situation: str) -> dict[str, Any]:
    """What happens: the state afterwards, or the error."""
    return _attempt(lambda: SITUATIONS[situation](Run(paddle, case)))


def _attempt(step: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    try:
        return step()
    except Exception as error:
        return {"error": _kind(error), "message": _sentence(str(error))}


def _kind(error: Exception) -> str:
    """The builtin classes under which a caller can catch it, joined by slashes, the nearest first."""
    names = [each.__name__ for each in type(error).__mro__ if each.__module__ == "builtins"]
    return "/".join(name for name in names if name not in ("Exception", "BaseException", "object"))


def _sentence(text: str) -> str:
    """The part of a message that is part of the contract: the first sentence, names left out."""
    text = re.sub(r"\((generated_tensor|eager_tmp)_\d+\)", "()", text.strip())
    text = re.sub(r"Tensor '[^']*'", "Tensor ''", text)
    found = re.match(r".*?\.(?=\s|$)", text, re.S)
    first = (found.group(0) if found else text).split("\n")[0]
    versions = re.search(r"Its version is \d+ but the expected version is \d+\.", text)
    return f"{first} {versions.group(0)}" if versions else first


def _seen(run: Run, x: Any, result: Any) -> dict[str, Any]:
    """What can be seen of a tensor after the change."""
    seen = {
        "same": result is x or result is None,
        "version": x.inplace_version,
        "shape": list(x.shape),
        "dtype": str(x.dtype),
        "stop_gradient": x.stop_gradient,
        "is_leaf": x.is_leaf,
    }
    if run.case["name"] not in RANDOM:
        seen["value"] = _numbers(x)
    return seen


def _numbers(x: Any) -> Any:
    """A tensor as nested lists, rounded to what float32 holds."""
    if x is None:
        return None
    array = x.numpy()
    return (
        array.tolist()
        if array.dtype.kind in "bi"
        else json.loads(json.dumps(array.astype("float64").round(6).tolist()))
    )


def _in_child(paddle: Any, case: Case, situation: str) -> dict[str, Any]:
    """``run_case`` in a forked process, since Paddle dies of some of them."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        with os.fdopen(write, "w") as pipe:
            json.dump(run_case(paddle, case, situation), pipe)
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        text = pipe.read()
    _, status = os.waitpid(child, 0)
    return json.loads(text) if status == 0 else {"error": "crash", "message": ""}  # type: ignore[no-any-return]


def main(folder: str) -> None:
    """Record every case in every situation into one file."""
    import paddle  # type: ignore[import-not-found]

    recorded = []
    for case in cases():
        outcomes = {name: _in_child(paddle, case, name) for name in SITUATIONS}
        recorded.append({"case": case, "outcomes": outcomes})
    target = Path(folder) / "table.json"
    lines = ",\n".join(json.dumps(each, sort_keys=True) for each in recorded)
    target.write_text(f'{{"paddle": "{paddle.__version__}", "cases": [\n{lines}\n]}}\n')
    print(f"{len(recorded)} cases in {len(SITUATIONS)} situations -> {target}")


if __name__ == "__main__":
    main(sys.argv[1])
