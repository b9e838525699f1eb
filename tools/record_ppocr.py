"""Record what real Paddle gives for the PP-OCR models, for ``tests/jit/test_ppocr.py``.

Inputs are random values, and windows of the photographed page in ``examples/images``.

    PADDLE_PYTHON tools/record_ppocr.py FOLDER tests/data/ppocr.npz

FOLDER holds ``det``, ``rec`` and ``cls`` as the example's cache does. Of every output some evenly spread values
are kept, and its shape.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import paddle
from PIL import Image

CASES = {
    "det": [(1, 3, 64, 64), (1, 3, 160, 320), (2, 3, 96, 128), (1, 3, 640, 640)],
    "rec": [(1, 3, 48, 320), (6, 3, 48, 320), (1, 3, 48, 64), (2, 3, 48, 500)],
    "cls": [(1, 3, 48, 192), (6, 3, 48, 192)],
}
WINDOWS = {"det": (0, 160), "rec": (40, 88), "cls": (40, 88)}
"""First and last row of the page that each model is also given, in full width."""
SAMPLES = 200
PAGE = Path(__file__).resolve().parents[1] / "examples" / "images" / "page.png"


def inputs(name: str) -> dict[str, np.ndarray]:
    """Case -> input of a model."""
    page = np.asarray(Image.open(PAGE).convert("L"), np.float32) / 127.5 - 1
    top, bottom = WINDOWS[name]
    made = {"page": np.ascontiguousarray(np.broadcast_to(page[top:bottom], (1, 3, bottom - top, page.shape[1])))}
    for shape in CASES[name]:
        made["x".join(map(str, shape))] = np.random.default_rng(0).standard_normal(shape, np.float32)
    return made


def main(folder: Path, target: Path) -> None:
    """Run every case and store it."""
    paddle.set_grad_enabled(False)
    stored = {}
    for name in CASES:
        layer = paddle.jit.load(str(folder / name))
        layer.eval()
        for case, x in inputs(name).items():
            y = layer(paddle.to_tensor(x)).numpy()
            stored[f"{name}/{case}/shape"] = np.array(y.shape)
            stored[f"{name}/{case}/samples"] = y.ravel()[np.linspace(0, y.size - 1, min(SAMPLES, y.size)).astype(int)]
    np.savez_compressed(target, **stored)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
