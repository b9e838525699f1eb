"""Convert every zoo model to the other format and back, and let real Paddle run what came out; print a table.

    python tools/check_conversions.py --shared ../shared --cache CACHE --work WORK \
        --paddle2 PATH/TO/python-with-paddle-2.6.2 --paddle3 PATH/TO/python-with-paddle-3.3.1 \
        --json tests/data/scores/conversions.json

``there`` and ``back`` say whether our own outputs stay equal bit by bit, ``paddle`` whether real Paddle loads the
converted model and gives these outputs within rtol 1e-3 (of the largest value 1e-4). Without an interpreter that
column is left out.
"""

from __future__ import annotations

import argparse
import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import oarlock
from oarlock.jit.convert import convert
from score_zoo import _as_declared, load_reader

OTHER = {"pdmodel": "json", "pir": "pdmodel"}
RUNNER = """
import os, sys, numpy as np, paddle
for folder in sys.stdin.read().split():
    child = os.fork()  # a crash of Paddle is a result too
    if child == 0:
        try:
            with np.load(folder + "/io.npz") as archive:
                stored = dict(archive)
            layer = paddle.jit.load(folder + "/there/model")
            layer.eval()
            fault, case = "", 0
            while any(key.startswith(f"in{case}_") or key.startswith(f"out{case}_") for key in stored):
                given = [stored[f"in{case}_{i}"] for i in range(sum(k.startswith(f"in{case}_") for k in stored))]
                wanted = [stored[f"out{case}_{i}"] for i in range(sum(k.startswith(f"out{case}_") for k in stored))]
                got = layer(*[paddle.to_tensor(each) for each in given]) if wanted else []
                got = list(got) if isinstance(got, (list, tuple)) else [got]
                for mine, want in zip(got, wanted):
                    mine = mine.astype("float32") if mine.dtype == paddle.bfloat16 else mine
                    mine = mine.numpy()
                    finite = want[np.isfinite(want)] if want.dtype.kind in "fc" else want
                    largest = max(1.0, float(np.abs(finite).max())) if finite.size else 1.0
                    if mine.shape != want.shape:
                        fault = f"shape {mine.shape}, expected {want.shape}"
                    elif not np.allclose(mine, want, 1e-3, 1e-4 * largest, equal_nan=want.dtype.kind in "fc"):
                        fault = f"deviates by {np.abs(mine - want).max():.3g}"
                case += 1
        except BaseException as error:
            fault = f"{type(error).__name__}: " + (str(error).strip().splitlines() or [""])[-1][:160]
        print("RESULT", folder, fault or "pass", flush=True)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    if os.WIFSIGNALED(status):
        print("RESULT", folder, f"signal {os.WTERMSIG(status)}", flush=True)
"""


def _outputs(layer: Any, inputs: Sequence[Any]) -> list[Any]:
    outputs = layer(*inputs)
    return [each.numpy() for each in (outputs if isinstance(outputs, list) else [outputs])]


def _equal(mine: Sequence[Any], theirs: Sequence[Any]) -> bool:
    return len(mine) == len(theirs) and all(
        x.dtype == y.dtype and np.array_equal(x, y, equal_nan=x.dtype.kind in "fc")
        for x, y in zip(mine, theirs, strict=True)
    )


def round_trip(model: Any, fmt: str, path: str, folder: Path) -> dict[str, str]:
    """Convert there and back, compare our outputs, and store inputs and outputs for real Paddle."""
    other = OTHER[fmt]
    back = OTHER[{"json": "pir"}.get(other, other)]
    convert(path, folder / "there" / f"model.{other}")
    convert(folder / "there" / f"model.{other}", folder / "back" / f"model.{back}")
    layers = [
        oarlock.jit.load(each)
        for each in (path, folder / "there" / f"model.{other}", folder / "back" / f"model.{back}")
    ]
    row, stored = {"there": "pass", "back": "pass"}, {}
    for case in range(model.cases if model.outputs(0, fmt) else 0):
        inputs = [_as_declared(v, s) for v, s in zip(model.inputs(case).values(), model.spec["inputs"], strict=True)]
        oarlock.seed(0)
        first = _outputs(layers[0], inputs)
        for name, layer in zip(row, layers[1:], strict=True):
            oarlock.seed(0)
            if not _equal(_outputs(layer, inputs), first):
                row[name] = "differs"
        stored |= {f"in{case}_{i}": value for i, value in enumerate(inputs)}
        stored |= {
            f"out{case}_{i}": value.astype(np.float32) if value.dtype.name == "bfloat16" else value
            for i, value in enumerate(first)
        }
    np.savez(folder / "io.npz", **stored)
    return row


def ask_paddle(python: str, folders: Sequence[Path]) -> dict[str, str]:
    """Folder -> what real Paddle says."""
    done = subprocess.run(
        [python, "-c", RUNNER], input="\n".join(map(str, folders)), capture_output=True, text=True, check=False
    )
    found = {}
    for line in done.stdout.splitlines():
        if line.startswith("RESULT "):
            _, folder, verdict = line.split(" ", 2)
            found[folder] = verdict
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Command line entry."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--shared", type=Path, default=Path("../shared"))
    parser.add_argument("--cache", required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--paddle2", default="", help="a Python with Paddle 2.6.2")
    parser.add_argument("--paddle3", default="", help="a Python with Paddle 3.3.1")
    parser.add_argument("--models", default="", help="comma-separated names")
    parser.add_argument("--max-mb", type=int, default=30)
    parser.add_argument("--json", default="")
    args = parser.parse_args(argv)
    table: dict[str, dict[str, str]] = {}
    folders: dict[str, dict[str, Path]] = {"pdmodel": {}, "pir": {}}
    for model in load_reader(args.shared).models(names=[n for n in args.models.split(",") if n] or None):
        for fmt in OTHER:
            facts = model.spec["formats"].get(fmt, {})
            files = facts.get("files", {})
            if (
                not files
                or facts["load"].get("model_filename")
                or sum(f["size"] for f in files.values()) > args.max_mb << 20
            ):
                continue
            key, folder = f"{model.name}/{fmt}", (args.work / fmt / model.name).absolute()
            folder.mkdir(parents=True, exist_ok=True)
            try:
                table[key] = round_trip(model, fmt, model.materialize(fmt, args.cache), folder)
                folders[fmt][key] = folder
            except Exception as error:  # a table reports every kind of failure and goes on
                table[key] = {"there": f"{type(error).__name__}: {error}"[:200]}
    for fmt, python in (("pdmodel", args.paddle3), ("pir", args.paddle2)):
        verdicts = ask_paddle(python, list(folders[fmt].values())) if python else {}
        for key, folder in folders[fmt].items():
            if python:
                table[key]["paddle"] = verdicts.get(str(folder), "no answer")
    for key, row in sorted(table.items()):
        print(f"{key:44} {row}")
    for fmt in OTHER:
        rows = [row for key, row in table.items() if key.endswith(f"/{fmt}")]
        counts = {column: sum(row.get(column) == "pass" for row in rows) for column in ("there", "back", "paddle")}
        print(f"{fmt}: {len(rows)} models, {counts}")
    if args.json:
        Path(args.json).write_text(json.dumps(table, indent=0, sort_keys=True) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
