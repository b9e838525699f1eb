"""How ``digits.pdmodel`` came to be: a reader of digit lines, trained and saved by real PaddlePaddle 2.6.2.

    python train.py --fonts FOLDER --steps 3000

needs PaddlePaddle, Pillow and a folder of fonts, and writes ``digits.pdmodel``, ``digits.pdiparams`` and
``digits.pdiparams.info`` beside itself. oarlock's example only reads these files; nothing else imports this one.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import paddle
from paddle import nn
from PIL import Image, ImageDraw, ImageFilter, ImageFont

HEIGHT = 24
ALPHABET = "0123456789.,:-/ "
"""Class 0 is the blank of CTC, class ``i`` the character ``ALPHABET[i - 1]``."""


class DigitLines(nn.Layer):
    """``[N, 1, 24, W]`` grey values, 1 is ink -> ``[N, W / 4, 17]`` probabilities along the line."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2D(1, 16, 3, padding=1, bias_attr=False),
            nn.BatchNorm2D(16),
            nn.ReLU(),
            nn.MaxPool2D(2, 2),
            nn.Conv2D(16, 24, 3, padding=1, bias_attr=False),
            nn.BatchNorm2D(24),
            nn.ReLU(),
            nn.MaxPool2D(2, 2),
            nn.Conv2D(24, 32, 3, padding=1, bias_attr=False),
            nn.BatchNorm2D(32),
            nn.Hardswish(),
            nn.MaxPool2D((2, 1), (2, 1)),
            nn.Conv2D(32, 48, (3, 1), bias_attr=False),
            nn.BatchNorm2D(48),
            nn.Hardswish(),
        )
        self.context = nn.LSTM(48, 24, direction="bidirect")
        self.drop = nn.Dropout(0.1)
        self.head = nn.Linear(48, len(ALPHABET) + 1)

    def logits(self, x: paddle.Tensor) -> paddle.Tensor:
        """The scores before the softmax."""
        columns = self.features(x).squeeze(2).transpose([0, 2, 1])
        mixed, _ = self.context(columns)
        return self.head(self.drop(mixed))

    def forward(self, x: paddle.Tensor) -> paddle.Tensor:
        return nn.functional.softmax(self.logits(x), axis=-1)


def load_fonts(folder: Path) -> list[ImageFont.FreeTypeFont]:
    """Every font of the folder and Pillow's own, in several sizes."""
    sizes = range(15, 23)
    files = sorted([*folder.rglob("*.ttf"), *folder.rglob("*.otf")])
    return [ImageFont.truetype(str(file), size) for file in files for size in sizes] + [
        ImageFont.load_default(size) for size in sizes for _ in range(3)
    ]


def random_text(rng: np.random.Generator) -> str:
    """Three to fourteen characters, digits more often than marks, no spaces at the ends."""
    weights = np.array([6.0] * 10 + [2.0] * 5 + [3.0])
    letters = rng.choice(list(ALPHABET), int(rng.integers(3, 15)), p=weights / weights.sum())
    return " ".join("".join(letters).split()) or "0"


def render(text: str, font: ImageFont.FreeTypeFont, rng: np.random.Generator) -> np.ndarray:
    """A line as ``[24, W]`` float32, 1 is ink, as a scan would show it."""
    left, top, right, bottom = font.getbbox(text)
    width, height = right - left + 16, bottom - top + 12
    page = Image.new("L", (int(width), int(height)), 0)
    ImageDraw.Draw(page).text((8 - left, 6 - top), text, fill=255, font=font)
    page = page.rotate(float(rng.uniform(-1.5, 1.5)), resample=Image.Resampling.BILINEAR)
    box = page.getbbox() or (0, 0, page.width, page.height)
    margin = rng.integers(0, 4, 4)
    page = page.crop((box[0] - 1 - margin[0], box[1] - margin[1], box[2] + 1 + margin[2], box[3] + margin[3]))
    page = page.resize((max(round(page.width * HEIGHT / page.height * rng.uniform(0.85, 1.2)), 8), HEIGHT))
    page = page.filter(ImageFilter.GaussianBlur(float(rng.uniform(0, 0.8))))
    ink = np.asarray(page, np.float32) / 255 * rng.uniform(0.6, 1.0)
    return np.clip(ink + rng.normal(0, rng.uniform(0, 0.08), ink.shape), 0, 1).astype(np.float32)


def make_batch(fonts: list[ImageFont.FreeTypeFont], size: int, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Lines side by side in one array, their labels, and the lengths of both."""
    texts = [random_text(rng) for _ in range(size)]
    lines = [render(text, fonts[int(rng.integers(len(fonts)))], rng) for text in texts]
    width = -(-max(line.shape[1] for line in lines) // 8) * 8
    images = np.zeros((size, 1, HEIGHT, width), np.float32)
    labels = np.zeros((size, max(map(len, texts))), np.int32)
    for index, (line, text) in enumerate(zip(lines, texts, strict=True)):
        images[index, 0, :, : line.shape[1]] = line
        labels[index, : len(text)] = [ALPHABET.index(letter) + 1 for letter in text]
    steps = np.full(size, width // 4, np.int64)
    return images, labels, steps, np.array([len(text) for text in texts], np.int64)


def decode(probabilities: np.ndarray) -> str:
    """The best class of each column, repeats and blanks dropped."""
    best = probabilities.argmax(-1)
    kept = [b for i, b in enumerate(best) if b and (i == 0 or best[i - 1] != b)]
    return "".join(ALPHABET[b - 1] for b in kept)


def main() -> None:
    """Train and save."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--fonts", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--batch", type=int, default=32)
    args = parser.parse_args()
    rng = np.random.default_rng(7)
    paddle.seed(7)
    fonts, net = load_fonts(args.fonts), DigitLines()
    schedule = paddle.optimizer.lr.CosineAnnealingDecay(4e-3, args.steps)
    optimizer = paddle.optimizer.Adam(schedule, parameters=net.parameters())
    loss_of = nn.CTCLoss()
    for step in range(args.steps):
        images, labels, steps, lengths = (paddle.to_tensor(each) for each in make_batch(fonts, args.batch, rng))
        loss = loss_of(net.logits(images).transpose([1, 0, 2]), labels, steps, lengths)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        schedule.step()
        if step % 100 == 0:
            print(step, float(loss), flush=True)
    net.eval()
    images, labels, _, lengths = make_batch(fonts, 500, rng)
    read = [decode(each) for each in net(paddle.to_tensor(images)).numpy()]
    wanted = ["".join(ALPHABET[i - 1] for i in row[:n]) for row, n in zip(labels, lengths, strict=True)]
    print("lines read right:", sum(a == b for a, b in zip(read, wanted, strict=True)), "of", len(read))
    spec = [paddle.static.InputSpec([None, 1, HEIGHT, None], "float32", "x")]
    paddle.jit.save(net, str(Path(__file__).parent / "digits"), input_spec=spec)


if __name__ == "__main__":
    main()
