"""The demonstration without a network: a small net, saved by PaddlePaddle and shipped here, reads lines of digits.

``digits/`` holds the net (130 kB, trained by ``digits/train.py``); the picture that it reads is drawn on the spot.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import oarlock
from ocr_pipeline import Array, Line, decode_ctc
from PIL import Image, ImageDraw, ImageFont

__all__ = ["draw_page", "read_digits"]

ALPHABET = "0123456789.,:-/ "
HEIGHT = 24
PAGE = ("2026-12-01 17:45", "3.14159 26535", "0800 555-0199", "12/48, 7:1")


def draw_page() -> Array:
    """A picture ``uint8 [H, W, 3]`` with the lines of :data:`PAGE` on slightly noisy paper."""
    page = Image.new("L", (300, 40 * len(PAGE) + 20), 235)
    pen = ImageDraw.Draw(page)
    for row, text in enumerate(PAGE):
        pen.text((20 + 12 * row, 40 * row + 20), text, fill=40, font=ImageFont.load_default(20))
    noisy = np.asarray(page) + np.random.default_rng(0).normal(0, 6, (page.height, page.width))
    return np.repeat(noisy.clip(0, 255).astype(np.uint8)[:, :, None], 3, axis=2)


def read_digits(picture: Array) -> list[Line]:
    """The digit lines of a picture with dark ink on light paper."""
    net = oarlock.jit.load(Path(__file__).parent / "digits" / "digits")
    grey = picture.mean(axis=2)
    ink = np.clip((np.median(grey) - grey) / max(np.ptp(grey), 1), 0, 1).astype(np.float32)
    lines = []
    for top, bottom, left, right in _rows(ink > 0.4):
        box = np.array([[left, top], [right, top], [right, bottom], [left, bottom]], np.float32)
        row = Image.fromarray(ink[top:bottom, left:right])
        width = max(round(row.width * HEIGHT / row.height / 8) * 8, 8)
        batch = np.asarray(row.resize((width, HEIGHT)), np.float32)[None, None]
        lines.append(Line(*decode_ctc(net(batch).numpy()[0], ALPHABET), box))
    return lines


def _rows(mask: Array) -> list[tuple[int, int, int, int]]:
    """``(top, bottom, left, right)`` of each stripe of rows with ink, with two pixels around it."""
    inked = np.flatnonzero(mask.any(axis=1))
    stripes = np.split(inked, np.flatnonzero(np.diff(inked) > 3) + 1) if inked.size else []
    found = []
    for stripe in stripes:
        top, bottom = max(int(stripe[0]) - 2, 0), int(stripe[-1]) + 3
        columns = np.flatnonzero(mask[top:bottom].any(axis=0))
        found.append((top, bottom, max(int(columns[0]) - 3, 0), int(columns[-1]) + 4))
    return found
