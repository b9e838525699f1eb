"""Run one program in real Paddle 2.6: called by other tools with Paddle's own Python, never imported.

    PADDLE_PYTHON tools/paddle_runner.py FOLDER

The folder holds ``program`` (a serialized ProgramDesc without feed and fetch ops), ``feeds.npz`` and
``params.npz`` (arrays ``a0, a1, ...``) and ``names.json`` (``feeds``, ``params``, ``fetches``). The fetched values
go to ``results.npz``; a fetch that Paddle leaves empty is missing there.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import paddle


def main(folder: Path) -> int:
    """Run and store the results."""
    paddle.enable_static()
    names = json.loads((folder / "names.json").read_text())
    program = paddle.static.Program.parse_from_string((folder / "program").read_bytes())
    executor = paddle.static.Executor(paddle.CPUPlace())
    scope = paddle.static.Scope() if hasattr(paddle.static, "Scope") else paddle.base.core.Scope()
    with np.load(folder / "params.npz") as params:
        for index, name in enumerate(names["params"]):
            scope.var(name).get_tensor().set(params[f"a{index}"], paddle.CPUPlace())
    with np.load(folder / "feeds.npz") as given:
        feeds = {name: given[f"a{index}"] for index, name in enumerate(names["feeds"])}
    with paddle.static.scope_guard(scope):
        values = executor.run(program, feed=feeds, fetch_list=names["fetches"], return_numpy=False)
    found = {f"a{i}": np.array(value) for i, value in enumerate(values) if value._is_initialized()}
    np.savez(folder / "results.npz", **found)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1])))
