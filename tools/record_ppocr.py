"""Record what real Paddle gives for the PP-OCR models on random input, for ``tests/jit/test_ppocr.py``.

    PADDLE_PYTHON tools/record_ppocr.py FOLDER tests/data/ppocr.npz

FOLDER holds ``det``, ``rec`` and ``cls`` as the example's cache does. Of every output some evenly spread values
are kept, and its shape.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import paddle

CASES = {
    "det": [(1, 3, 64, 64), (1, 3, 160, 320), (2, 3, 96, 128), (1, 3, 640, 640)],
    "rec": [(1, 3, 48, 320), (6, 3, 48, 320), (1, 3, 48, 64), (2, 3, 48, 500)],
    "cls": [(1, 3, 48, 192), (6, 3, 48, 192)],
}
SAMPLES = 200


def main(folder: Path, target: Path) -> None:
    """Run every case and store it."""
    paddle.set_grad_enabled(False)
    stored = {}
    for name, shapes in CASES.items():
        layer = paddle.jit.load(str(folder / name))
        layer.eval()
        for shape in shapes:
            x = np.random.default_rng(0).standard_normal(shape, np.float32)
            y = layer(paddle.to_tensor(x)).numpy()
            key = f"{name}/{'x'.join(map(str, shape))}"
            stored[f"{key}/shape"] = np.array(y.shape)
            stored[f"{key}/samples"] = y.ravel()[np.linspace(0, y.size - 1, min(SAMPLES, y.size)).astype(int)]
    np.savez_compressed(target, **stored)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
