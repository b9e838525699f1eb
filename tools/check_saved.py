"""Models trained and saved by oarlock, loaded in real Paddle: outputs compared.

    python tools/check_saved.py --paddle PADDLE_PYTHON --shared ../shared --cache CACHE --models lenet,bn_finetune

Every zoo model is loaded, trained for three steps of SGD, saved with ``jit.save`` and run; real Paddle loads the
saved files and must give the same outputs (1e-4 of the largest element). It also loads the model as
``jit.save`` wrote it before training, whose outputs must be those of the original files bit for bit. The exit
code is 1 when a model differs.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import oarlock
from score_zoo import load_model, load_reader

Arrays = list[np.ndarray[Any, Any]]


def flat(outputs: Any) -> list[Any]:
    """The outputs of a layer as a list."""
    return list(outputs) if isinstance(outputs, (list, tuple)) else [outputs]


def train(layer: Any, arrays: Arrays, steps: int = 3) -> int:
    """A few steps of SGD on the mean square of the outputs; how many parameters moved."""
    parameters = [each for each in layer.parameters() if not each.stop_gradient]
    before = [each.numpy() for each in parameters]
    if parameters:
        optimizer = oarlock.optimizer.SGD(1e-3, parameters=parameters, grad_clip=oarlock.nn.ClipGradByGlobalNorm(1.0))
        layer.train()
        for _ in range(steps):
            outputs = [each for each in flat(layer(*arrays)) if not each.stop_gradient]
            if not outputs:
                break
            sum((each * each).mean() for each in outputs).backward()
            optimizer.step()
            optimizer.clear_grad()
        layer.eval()
    return sum(not np.array_equal(a, b.numpy()) for a, b in zip(before, parameters, strict=True))


def run_in_paddle(python: str, arrays: Arrays, prefixes: Sequence[str], folder: Path) -> list[Arrays]:
    """The outputs of every model in real Paddle.

    Raises:
        RuntimeError: Paddle refused; holds the last lines of what it said.
    """
    np.savez(folder / "inputs.npz", **{f"a{index}": value for index, value in enumerate(arrays)})
    runner = Path(__file__).with_name("paddle_layer_runner.py")
    command = [python, str(runner), str(folder / "inputs.npz"), str(folder / "results.npz"), *prefixes]
    done = subprocess.run(command, capture_output=True, text=True, env={}, check=False)
    if done.returncode:
        said = [line.strip() for line in done.stderr.splitlines() if line.strip() and "Hint" not in line]
        raise RuntimeError(" | ".join(said[-3:])[-500:])
    with np.load(folder / "results.npz") as found:
        return [
            [found[f"m{model}_o{i}"] for i in range(sum(key.startswith(f"m{model}_") for key in found.files))]
            for model in range(len(prefixes))
        ]


def check(shared: Path, cache: Path, name: str, python: str, recorded: dict[str, Any]) -> str:
    """ "" when Paddle agrees, "skip ..." where it cannot be asked, else what is wrong.

    ``recorded`` receives the inputs and what Paddle gave for the trained model.
    """
    model = next(iter(load_reader(shared).models(names=[name])))
    if "pdmodel" not in model.spec["formats"]:
        return "skip: no pdmodel"
    layer = load_model(model, "pdmodel", cache)
    arrays = [
        np.asarray(value, oarlock.to_tensor(0.0).astype(spec["dtype"]).numpy().dtype)
        for value, spec in zip(model.inputs(0).values(), model.spec["inputs"], strict=True)
    ]
    if any(each.dtype.kind == "V" for each in arrays):
        return "skip: inputs of a dtype that numpy lacks"
    with tempfile.TemporaryDirectory() as work:
        folder = Path(work)
        oarlock.jit.save(layer, str(folder / "same" / "model"))
        moved = train(layer, arrays)
        oarlock.jit.save(layer, str(folder / "trained" / "model"))
        ours = [each.numpy() for each in flat(layer(*arrays))]
        prefixes = [str(folder / kind / "model") for kind in ("same", "trained")]
        original = model.materialize("pdmodel", str(cache))
        if Path(f"{original}.pdmodel").exists():
            prefixes.append(original)
        try:
            same, theirs, *first = run_in_paddle(python, arrays, prefixes, folder)
        except RuntimeError as error:
            return f"Paddle refuses: {error}"
    recorded.update({f"{name}/in{i}": each for i, each in enumerate(arrays)})
    recorded.update({f"{name}/out{i}": each for i, each in enumerate(theirs)})
    faults = [] if moved or not layer.parameters() else ["no parameter moved"]
    if first and not all(
        np.array_equal(a, b, equal_nan=a.dtype.kind in "fc") for a, b in zip(same, *first, strict=True)
    ):
        faults.append("saved unchanged, outputs differ from the original's")
    for index, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        scale = max(float(np.abs(b).max()), 1e-6) if b.size and b.dtype.kind != "b" else 1.0
        off = float(np.abs(a.astype(np.complex128) - b).max()) / scale if b.size else 0.0
        if a.shape != b.shape or a.dtype != b.dtype or off > 1e-4:
            faults.append(f"trained, output {index} is {a.dtype}{list(a.shape)} off by {off:.2g}")
    return "; ".join(faults)


def main(argv: Sequence[str] | None = None) -> int:
    """Command line entry."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--paddle", required=True, help="a Python with paddlepaddle 2.6 installed")
    parser.add_argument("--shared", default="../shared", help="the folder that holds zoo/")
    parser.add_argument("--cache", required=True, help="where parameter files are written")
    parser.add_argument("--models", required=True, help="comma-separated names")
    parser.add_argument("--record", default="", help="write inputs and Paddle's outputs there (.npz)")
    args = parser.parse_args(argv)
    recorded: dict[str, Any] = {}
    wrong = 0
    names = args.models.split(",")
    for name in names:
        try:
            fault = check(Path(args.shared), Path(args.cache), name, args.paddle, recorded)
        except Exception as error:  # a table reports every kind of failure and goes on
            fault = f"oarlock: {type(error).__name__}: {error}"
        wrong += bool(fault) and not fault.startswith("skip")
        print(f"{name:32} {fault or 'agrees'}", flush=True)
    if args.record:
        np.savez_compressed(args.record, **recorded)
    print(f"{wrong} of {len(names)} disagree")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
