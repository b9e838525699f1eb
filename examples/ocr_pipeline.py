"""Text lines out of a picture: PP-OCR detection, direction and recognition run by oarlock.

Pictures are ``uint8 [H, W, 3]`` in the channel order blue, green, red, which these models were trained with.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import oarlock

__all__ = ["Line", "TextReader", "decode_ctc"]

Array = np.ndarray[Any, Any]

DET_MIN_SIDE = 480
"""Pictures are enlarged until their shorter side has this many pixels."""
DET_THRESHOLD, DET_BOX_SCORE, DET_UNCLIP = 0.3, 0.5, 1.6
REC_HEIGHT, REC_WIDTH = 48, 320
CLS_WIDTH, CLS_SCORE = 192, 0.9
BATCH = 6


@dataclass(frozen=True)
class Line:
    """One line of text.

    Attributes:
        box: corners ``[4, 2]`` in the picture, from the upper left, clockwise.
    """

    text: str
    score: float
    box: Array


class TextReader:
    """The three models of a folder with ``det``, ``cls``, ``rec`` and ``keys.txt``."""

    def __init__(self, folder: Path) -> None:
        self.detector = oarlock.jit.load(folder / "det")
        self.classifier = oarlock.jit.load(folder / "cls")
        self.recogniser = oarlock.jit.load(folder / "rec")
        self.alphabet = [*(folder / "keys.txt").read_text(encoding="utf-8").splitlines(), " "]

    def read(self, picture: Array, min_score: float = 0.5) -> list[Line]:
        """The lines of a picture, from top to bottom, those that score below ``min_score`` left out."""
        boxes = in_reading_order(self.find_boxes(picture))
        crops = self.turn_upright([cut_out(picture, box) for box in boxes])
        lines = [Line(*text, box) for text, box in zip(self.recognise(crops), boxes, strict=True)]
        return [line for line in lines if line.score >= min_score]

    def find_boxes(self, picture: Array) -> list[Array]:
        """The corners of every line: the detector's map of text, thresholded and outlined."""
        height, width = picture.shape[:2]
        scale = max(1.0, DET_MIN_SIDE / min(height, width))
        size = [max(round(int(side * scale) / 32) * 32, 32) for side in (width, height)]
        text_map = self.detector(normalise(cv2.resize(picture, size))[None]).numpy()[0, 0]
        mask = cv2.dilate((text_map > DET_THRESHOLD).astype(np.uint8), np.ones((2, 2), np.uint8))
        outlines, _ = cv2.findContours(mask, cv2.RETR_LIST, cv2.CHAIN_APPROX_SIMPLE)
        found = (box_of(outline, text_map) for outline in outlines)
        ratio = np.array([width / size[0], height / size[1]])
        limit = np.array([width - 1, height - 1])
        return [np.clip(np.round(box * ratio), 0, limit).astype(np.float32) for box in found if box is not None]

    def turn_upright(self, crops: Sequence[Array]) -> list[Array]:
        """The crops, those turned by half a turn that the classifier holds to be upside down."""
        turned = list(crops)
        for start in range(0, len(turned), BATCH):
            batch = np.stack([fit_height(crop, CLS_WIDTH) for crop in turned[start : start + BATCH]])
            for index, scores in enumerate(self.classifier(batch).numpy(), start):
                if scores[1] > CLS_SCORE:
                    turned[index] = turned[index][::-1, ::-1]
        return turned

    def recognise(self, crops: Sequence[Array]) -> list[tuple[str, float]]:
        """Text and score of each crop; crops of like widths share a batch."""
        read: list[tuple[str, float]] = [("", 0.0)] * len(crops)
        order = sorted(range(len(crops)), key=lambda index: aspect(crops[index]))
        for start in range(0, len(order), BATCH):
            chosen = order[start : start + BATCH]
            ratio = max(REC_WIDTH / REC_HEIGHT, *(aspect(crops[index]) for index in chosen))
            batch = np.stack([fit_height(crops[index], int(REC_HEIGHT * ratio)) for index in chosen])
            for index, probabilities in zip(chosen, self.recogniser(batch).numpy(), strict=True):
                read[index] = decode_ctc(probabilities, self.alphabet)
        return read


def normalise(picture: Array) -> Array:
    """``uint8 [H, W, 3]`` to ``float32 [3, H, W]`` between -1 and 1."""
    return (picture.astype(np.float32) / 127.5 - 1).transpose(2, 0, 1)


def aspect(picture: Array) -> float:
    """Width over height."""
    return float(picture.shape[1] / picture.shape[0])


def fit_height(picture: Array, width: int) -> Array:
    """The picture at the recogniser's height as ``[3, 48, width]``, squeezed or filled up with zeros."""
    used = min(math.ceil(REC_HEIGHT * aspect(picture)), width)
    fitted = np.zeros((3, REC_HEIGHT, width), np.float32)
    fitted[:, :, :used] = normalise(cv2.resize(picture, (used, REC_HEIGHT)))
    return fitted


def box_of(outline: Array, text_map: Array) -> Array | None:
    """The rectangle around an outline in the text map, grown to cover whole letters; None when it is no text.

    The map shows the kernel of each line: growing the rectangle by area * ratio / perimeter on every side
    gives the line back (the offset polygon of a rectangle has that rectangle as its smallest one).
    """
    centre, (width, height), angle = cv2.minAreaRect(outline)
    if min(width, height) < 3:
        return None
    corners = cv2.boxPoints((centre, (width, height), angle))
    left, top = np.floor(corners.min(axis=0)).astype(int).clip(0)
    right, bottom = np.ceil(corners.max(axis=0)).astype(int) + 1
    window = text_map[top:bottom, left:right]
    inside = np.zeros(window.shape, np.uint8)
    cv2.fillPoly(inside, [(corners - [left, top]).astype(np.int32)], 1)
    if cv2.mean(window, inside)[0] < DET_BOX_SCORE:
        return None
    grown = 2 * width * height * DET_UNCLIP / (2 * (width + height))
    return clockwise(cv2.boxPoints((centre, (width + grown, height + grown), angle)))


def clockwise(corners: Array) -> Array:
    """Corners from the upper left, clockwise."""
    by_x = corners[np.argsort(corners[:, 0], kind="stable")]
    left, right = (pair[np.argsort(pair[:, 1], kind="stable")] for pair in (by_x[:2], by_x[2:]))
    return np.array([left[0], right[0], right[1], left[1]])


def in_reading_order(boxes: Sequence[Array]) -> list[Array]:
    """Top to bottom; boxes whose tops are within ten pixels make one row, read from left to right."""
    ordered = sorted(boxes, key=lambda box: (box[0][1], box[0][0]))
    for end in range(1, len(ordered)):
        for at in range(end, 0, -1):
            above, below = ordered[at - 1], ordered[at]
            if abs(below[0][1] - above[0][1]) >= 10 or below[0][0] >= above[0][0]:
                break
            ordered[at - 1], ordered[at] = below, above
    return ordered


def cut_out(picture: Array, box: Array) -> Array:
    """The box as a picture of its own, straightened; tall ones are laid on their side."""
    sides = [float(np.linalg.norm(box[a] - box[b])) for a, b in ((0, 1), (2, 3), (0, 3), (1, 2))]
    width, height = max(int(max(sides[:2])), 1), max(int(max(sides[2:])), 1)
    target = np.array([[0, 0], [width, 0], [width, height], [0, height]], np.float32)
    matrix = cv2.getPerspectiveTransform(box, target)
    made = cv2.warpPerspective(picture, matrix, (width, height), borderMode=cv2.BORDER_REPLICATE, flags=cv2.INTER_CUBIC)
    return np.rot90(made) if height >= 1.5 * width else made


def decode_ctc(probabilities: Array, alphabet: Sequence[str]) -> tuple[str, float]:
    """Text and mean score of ``[T, 1 + len(alphabet)]`` probabilities; class 0 is the blank.

    The likeliest class of each step, repeats in a row and blanks dropped.
    """
    best = probabilities.argmax(axis=1)
    kept = best > 0
    kept[1:] &= best[1:] != best[:-1]
    if not kept.any():
        return "", 0.0
    return "".join(alphabet[index - 1] for index in best[kept]), float(probabilities.max(axis=1)[kept].mean())
