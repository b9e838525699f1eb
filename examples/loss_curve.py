"""A progress bar in the terminal and a picture of a loss curve, with nothing but Pillow."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

__all__ = ["Progress", "draw_loss_curve"]


class Progress:
    """``[########------------]  120/300  loss 0.532  7.9 steps/s``, rewritten in place on a terminal."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.start = time.perf_counter()

    def show(self, step: int, loss: float) -> None:
        """Draw the bar after ``step`` steps; off a terminal a line at every tenth of the way."""
        terminal = sys.stdout.isatty()
        if not terminal and step % max(self.total // 10, 1):
            return
        done = 20 * step // self.total
        rate = step / (time.perf_counter() - self.start)
        bar = f"[{'#' * done}{'-' * (20 - done)}] {step:4d}/{self.total}  loss {loss:.3f}  {rate:.1f} steps/s"
        print(f"\r{bar}" if terminal else bar, end="" if terminal and step < self.total else "\n", flush=True)


def draw_loss_curve(losses: Sequence[float], path: Path, title: str) -> None:
    """Draw the losses on a logarithmic scale, each step in grey and their running mean in blue."""
    values = np.maximum(np.asarray(losses, np.float64), 1e-6)
    width, height, left, bottom = 640, 360, 56, 36
    page = Image.new("RGB", (width, height), "white")
    pen, font = ImageDraw.Draw(page), ImageFont.load_default(13)
    low, high = np.floor(np.log10(values.min())), np.ceil(np.log10(values.max()))
    high = max(high, low + 1)

    def place(step: float, value: float) -> tuple[float, float]:
        x = left + step / max(len(values) - 1, 1) * (width - left - 16)
        return x, 36 + (high - np.log10(value)) / (high - low) * (height - bottom - 36)

    for power in range(int(low), int(high) + 1):
        _, y = place(0, 10.0**power)
        pen.line([(left, y), (width - 16, y)], "#dddddd")
        pen.text((left - 8, y), f"{10.0**power:g}", "#555555", font, anchor="rm")
    for step in np.linspace(0, len(values) - 1, 5):
        x, _ = place(step, 10.0**low)
        pen.text((x, height - bottom + 8), str(round(step)), "#555555", font, anchor="ma")
    span = max(len(values) // 25, 1)
    mean = np.exp(np.convolve(np.log(values), np.ones(span) / span, "valid"))
    pen.line([place(step, value) for step, value in enumerate(values)], "#c8ccd4")
    pen.line([place(step + (span - 1) / 2, value) for step, value in enumerate(mean)], "#1f5fbf", 3)
    pen.text((left, 12), title, "black", font)
    page.save(path)
