"""The picture with a box around each line, and beside it the text at the same places."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from ocr_pipeline import Array, Line
from PIL import Image, ImageDraw, ImageFont

__all__ = ["draw"]

_LEAST_WIDTH = 640
_COLOURS = ("#d1495b", "#00798c", "#edae49", "#30638e", "#66a182", "#8d5a97")


def draw(picture: Array, lines: Sequence[Line], font_path: Path | None = None) -> Image.Image:
    """``picture`` (blue, green, red) with boxes at the left, the text at the right.

    Pillow's own font has Latin letters; a line with others shows its number instead, unless ``font_path``
    names a font that has them.
    """
    source = Image.fromarray(np.ascontiguousarray(picture[:, :, ::-1]))
    scale = max(1, -(-_LEAST_WIDTH // source.width))
    photo = source.resize((source.width * scale, source.height * scale), Image.Resampling.BICUBIC)
    page = Image.new("RGB", photo.size, "white")
    on_photo, on_page = ImageDraw.Draw(photo), ImageDraw.Draw(page)
    for number, line in enumerate(lines, 1):
        colour = _COLOURS[number % len(_COLOURS)]
        corners = [(float(x) * scale, float(y) * scale) for x, y in line.box]
        on_photo.polygon(corners, outline=colour, width=3)
        text = line.text if font_path or _is_latin(line.text) else f"[{number}]"
        _write(on_page, text, corners, font_path)
    both = Image.new("RGB", (photo.width * 2, photo.height), "white")
    both.paste(photo, (0, 0))
    both.paste(page, (photo.width, 0))
    return both


def _is_latin(text: str) -> bool:
    return all(ord(letter) < 0x250 for letter in text)


def _write(page: ImageDraw.ImageDraw, text: str, corners: list[tuple[float, float]], font_path: Path | None) -> None:
    """The text as large as its box allows."""
    (left, top), (right, _), _, (_, bottom) = corners
    size = max((bottom - top) * 0.8, 8.0)
    font = _font(size, font_path)
    width = page.textlength(text, font=font)
    if width > right - left > 0:
        font = _font(max(size * (right - left) / width, 8.0), font_path)
    page.text((left, (top + bottom) / 2), text, fill="black", font=font, anchor="lm")


def _font(size: float, font_path: Path | None) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.truetype(str(font_path), size) if font_path else ImageFont.load_default(size)
