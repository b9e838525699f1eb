"""Training data for the fine-tuning example: pictures of lines of hexadecimal numbers, drawn on the spot."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

__all__ = ["ALPHABET", "decode", "draw_line", "make_batch"]

Array = npt.NDArray[np.float32]

ALPHABET = "0123456789ABCDEF"
"""Class 0 is the blank of CTC, class ``i`` the character ``ALPHABET[i - 1]``."""

HEIGHT = 24


def draw_line(text: str, rng: np.random.Generator) -> Array:
    """A line as ``[24, W]``, 1 is ink: a font of some size, a little stretched, blurred by scaling, noisy."""
    font = ImageFont.load_default(int(rng.integers(16, 23)))
    left, top, right, bottom = font.getbbox(text)
    margin = [int(each) for each in rng.integers(1, 5, 4)]
    size = (int(right - left) + margin[0] + margin[1], int(bottom - top) + margin[2] + margin[3])
    page = Image.new("L", size, 0)
    ImageDraw.Draw(page).text((margin[0] - left, margin[2] - top), text, fill=255, font=font)
    width = max(round(page.width * HEIGHT / page.height * rng.uniform(0.9, 1.15)), 8)
    ink = np.asarray(page.resize((width, HEIGHT)), np.float32) / 255 * rng.uniform(0.6, 1.0)
    return np.clip(ink + rng.normal(0, 0.06, ink.shape), 0, 1).astype(np.float32)


def make_batch(
    size: int, rng: np.random.Generator
) -> tuple[Array, npt.NDArray[np.int32], npt.NDArray[np.int64], list[str]]:
    """Lines of 3 to 8 characters.

    Returns:
        Pictures ``[N, 1, 24, W]``, classes ``[N, L]``, lengths ``[N]``, and the texts.
    """
    texts = ["".join(rng.choice(list(ALPHABET), int(rng.integers(3, 9)))) for _ in range(size)]
    lines = [draw_line(text, rng) for text in texts]
    width = -(-max(line.shape[1] for line in lines) // 8) * 8
    pictures = np.zeros((size, 1, HEIGHT, width), np.float32)
    classes = np.zeros((size, max(map(len, texts))), np.int32)
    for row, (line, text) in enumerate(zip(lines, texts, strict=True)):
        pictures[row, 0, :, : line.shape[1]] = line
        classes[row, : len(text)] = [ALPHABET.index(letter) + 1 for letter in text]
    return pictures, classes, np.array([len(text) for text in texts], np.int64), texts


def decode(scores: Array) -> str:
    """The text of ``[T, 17]`` scores: the best class of each step, repeats in a row and blanks dropped."""
    best = scores.argmax(axis=1)
    kept = best > 0
    kept[1:] &= best[1:] != best[:-1]
    return "".join(ALPHABET[index - 1] for index in best[kept])
