"""Load saved models in real Paddle and run them: called by other tools with Paddle's own Python, never imported.

    PADDLE_PYTHON tools/paddle_layer_runner.py INPUTS.npz RESULTS.npz PREFIX...

``INPUTS.npz`` holds arrays ``a0, a1, ...``, the inputs of every model. The outputs of the models go to
``RESULTS.npz`` as ``m<model>_o<output>``.
"""

from __future__ import annotations

import sys

import numpy as np
import paddle


def main(inputs: str, results: str, prefixes: list[str]) -> int:
    """Run every model on the inputs and store the outputs."""
    with np.load(inputs) as given:
        arrays = [given[f"a{index}"] for index in range(len(given.files))]
    found = {}
    for model, prefix in enumerate(prefixes):
        layer = paddle.jit.load(prefix)
        outputs = layer(*[paddle.to_tensor(each) for each in arrays])
        flat = outputs if isinstance(outputs, (list, tuple)) else [outputs]
        found.update({f"m{model}_o{index}": value.numpy() for index, value in enumerate(flat)})
    np.savez(results, **found)
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1], sys.argv[2], sys.argv[3:]))
