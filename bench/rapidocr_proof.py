"""RapidOCR's own pipeline reads pictures with oarlock in the place of Paddle, and with Paddle, and they are compared.

    python bench/rapidocr_proof.py --paddle-python OTHER/bin/python [PICTURE ...]

The package ``rapidocr_paddle`` is used untouched: ``import paddle`` finds ``bench/paddle_shim`` in one process
and the real Paddle in the other. When it is not installed here, pip puts it (without what it depends on) into
``--cache``. Both Pythons need its light dependencies, the ``proof`` extra: opencv-python-headless, pyclipper, shapely,
pyyaml, pillow, six, tqdm; the same opencv in both, as its resizing decides pixels. Exit code 1 when a line differs.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
IMAGES = HERE.parent / "examples" / "images"
WHEEL = "rapidocr-paddle==1.4.5"

Report = dict[str, Any]


def read_all(pictures: list[str]) -> Report:
    """What RapidOCR reads with whatever ``paddle`` this process has: runs in the worker processes."""
    import paddle  # type: ignore[import-not-found]
    import rapidocr_paddle  # type: ignore[import-not-found]

    start = time.perf_counter()
    reader = rapidocr_paddle.RapidOCR()
    loaded = time.perf_counter() - start
    lines, seconds = {}, {}
    for picture in pictures:
        start = time.perf_counter()
        found, _ = reader(picture)
        seconds[picture] = time.perf_counter() - start
        lines[picture] = [[text, float(score), box] for box, text, score in found or []]
    return {"paddle": paddle.__file__, "loaded": loaded, "seconds": seconds, "lines": lines}


def find_rapidocr(cache: Path) -> list[str]:
    """The folders to add to the path so that ``rapidocr_paddle`` can be imported."""
    if importlib.util.find_spec("rapidocr_paddle") is not None:
        return []
    if not (cache / "rapidocr_paddle").is_dir():
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--ignore-requires-python"]
        subprocess.run([*command, "--target", str(cache), WHEEL], check=True)
    return [str(cache)]


def run_worker(python: str, folders: list[str], pictures: list[str]) -> Report:
    """Run :func:`read_all` in another process with ``folders`` in front of its path."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(folders)}
    command = [python, str(Path(__file__).resolve()), "--worker", *pictures]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{python} failed:\n{done.stderr[-2000:]}")
    report: Report = json.loads(done.stdout.splitlines()[-1])
    return report


def compare(mine: Report, theirs: Report | None) -> int:
    """Print both readings; how many lines of text differ."""
    different = 0
    for picture, lines in mine["lines"].items():
        print(f"{Path(picture).name}: {len(lines)} lines in {mine['seconds'][picture]:.2f} s")
        if theirs is None:
            for text, score, _ in lines:
                print(f"  {score:.4f}  {text}")
            continue
        others = theirs["lines"][picture]
        wrong = abs(len(lines) - len(others)) + sum(a[0] != b[0] for a, b in zip(lines, others, strict=False))
        different += wrong
        for index, (text, score, _) in enumerate(lines):
            other = others[index] if index < len(others) else ["", 0.0, []]
            mark = " " if other[0] == text else "!"
            print(f"  {mark} {score:.4f} {other[1]:.4f}  {text}" + ("" if mark == " " else f"  Paddle: {other[0]}"))
        gap = max((abs(a[1] - b[1]) for a, b in zip(lines, others, strict=False)), default=0.0)
        corners = max((_distance(a[2], b[2]) for a, b in zip(lines, others, strict=False)), default=0.0)
        print(f"  with Paddle {theirs['seconds'][picture]:.2f} s; lines that differ: {wrong}; ", end="")
        print(f"scores within {gap:.1e}, corners within {corners:.1f} pixels")
    return different


def _distance(a: list[list[float]], b: list[list[float]]) -> float:
    return max(abs(p - q) for one, two in zip(a, b, strict=True) for p, q in zip(one, two, strict=True))


def main() -> int:
    """Command line entry."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("pictures", nargs="*", default=[str(path) for path in sorted(IMAGES.glob("*.png"))])
    parser.add_argument("--paddle-python", help="a Python with PaddlePaddle; without it only oarlock reads")
    parser.add_argument("--cache", type=Path, default=Path.home() / ".cache" / "oarlock" / "rapidocr")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        print(json.dumps(read_all(args.pictures)))
        return 0
    pictures = [str(Path(picture).resolve()) for picture in args.pictures]
    folders = find_rapidocr(args.cache)
    inherited = [each for each in os.environ.get("PYTHONPATH", "").split(os.pathsep) if each]
    mine = run_worker(sys.executable, [str(HERE / "paddle_shim"), *folders, *inherited], pictures)
    theirs = run_worker(args.paddle_python, folders or [str(args.cache)], pictures) if args.paddle_python else None
    different = compare(mine, theirs)
    print(f"engines made in {mine['loaded']:.2f} s" + (f", with Paddle in {theirs['loaded']:.2f} s" if theirs else ""))
    if theirs is not None:
        total = sum(len(lines) for lines in mine["lines"].values())
        print(f"text lines: {total}, different from Paddle: {different}")
    return 1 if different else 0


if __name__ == "__main__":
    raise SystemExit(main())
