"""The published PP-OCR models: real Paddle's numbers on random input and on a photo, and the lines of that photo.

They need the models that ``examples/read_text.py`` keeps in its cache folder; without them the tests are skipped.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import oarlock
import pytest

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = dict(np.load(ROOT / "tests" / "data" / "ppocr.npz"))
CASES = sorted(key.removesuffix("/shape") for key in GOLDEN if key.endswith("/shape"))


def example(name: str) -> ModuleType:
    """A module of ``examples/``."""
    sys.path.insert(0, str(ROOT / "examples"))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.pop(0)


@pytest.fixture(scope="session")
def models() -> Path:
    """The folder with ``det``, ``rec`` and ``cls``."""
    tool = example("ocr_models")
    folder: Path = tool.default_cache()
    if not all((folder / name).is_file() for name in tool.FILES):
        pytest.skip(f"no PP-OCR models in {folder}: python examples/read_text.py fetches them")
    return folder


def input_of(name: str, case: str) -> Any:
    """Random values of a shape, or rows of the photographed page, as ``tools/record_ppocr.py`` makes them."""
    if case != "page":
        return np.random.default_rng(0).standard_normal([int(size) for size in case.split("x")], np.float32)
    image = pytest.importorskip("PIL.Image").open(ROOT / "examples" / "images" / "page.png").convert("L")
    page = np.asarray(image, np.float32) / 127.5 - 1
    top, bottom = (0, 160) if name == "det" else (40, 88)
    return np.broadcast_to(page[top:bottom], (1, 3, bottom - top, page.shape[1]))


@pytest.mark.parametrize("key", CASES)
def test_a_published_model_gives_what_paddle_gave(key: str, models: Path) -> None:
    name, _, case = key.partition("/")
    y = oarlock.jit.load(models / name)(input_of(name, case)).numpy()
    samples = GOLDEN[f"{key}/samples"]
    assert list(y.shape) == list(GOLDEN[f"{key}/shape"])
    assert y.dtype == np.float32
    got = y.ravel()[np.linspace(0, y.size - 1, len(samples)).astype(int)]
    np.testing.assert_allclose(got, samples, rtol=0, atol=1e-4)


def test_the_goldens_tell_something() -> None:
    assert len(CASES) == 13
    assert GOLDEN["det/page/samples"].max() > 0.9
    assert GOLDEN["rec/page/samples"].max() > 0.4


def test_the_example_reads_the_page(models: Path) -> None:
    pytest.importorskip("cv2", reason="the examples extra is not installed")
    reader = example("ocr_pipeline").TextReader(models)
    page = example("read_text").open_picture(ROOT / "examples" / "images" / "page.png")
    assert [line.text for line in reader.read(page)] == [
        "Region-based segmentation",
        "Let us first determine markers of the coins and the",
        "background.These markers are pixels that we can label",
        "unambiguously as either object or background.Here,",
        "histogram ofgreyvalues:",
        ">>markersnp.zeros like(coins)",
    ]


def test_the_example_reads_a_picture_with_lines_in_every_direction(models: Path) -> None:
    pytest.importorskip("cv2", reason="the examples extra is not installed")
    reader = example("ocr_pipeline").TextReader(models)
    sign = example("read_text").open_picture(ROOT / "examples" / "images" / "sign.png")
    assert {"模型推理测试", "竖排文字", "不安装飞桨也能运行"} <= {line.text for line in reader.read(sign)}


@pytest.mark.skipif(importlib.util.find_spec("rapidocr_paddle") is None, reason="rapidocr_paddle is not installed")
def test_rapidocr_reads_with_oarlock_in_the_place_of_paddle() -> None:
    environment: dict[str, Any] = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, str(ROOT / "bench" / "rapidocr_proof.py"), str(ROOT / "examples/images/sign.png")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    read = [line.split(maxsplit=1)[1] for line in done.stdout.splitlines() if line.startswith("  ")]
    assert read == [
        "模型推理测试",
        "不安装飞桨也能运行",
        "竖排文字",
        "Load, run and fine-tune 2.6",
        "价格：￥128.50数量：3",
        "这一行是倒过来的UPSIDE",
        "斜着写的一行12：30",
    ]
