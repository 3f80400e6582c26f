"""Makes a reading of the lines that an OCR engine found."""

import math
import re
from collections.abc import Sequence

import attrs
import cv2
import numpy as np

from policies.frame import Pixels
from policies.geometry import Box
from policies.probes import OcrProbe, OcrReads, Reading

ANY_NUMBER = r"([0-9]+(?:\.[0-9]+)?)"

INK_CONTRAST = 60  # of 255, largest channel, from the region's commonest colour: anti-aliased strokes are far above
MARGIN_DOWN, MARGIN_ACROSS = 0.25, 0.1
"""Of the text's height, round it. PP-OCR is trained on lines that lie so in their boxes: of 67 numbers drawn as the
bundled apps draw them it reads 66 with these margins, and only 8 of the first 60 with half of them."""


@attrs.frozen
class OcrLine:
    """One line of text on a crop."""

    text: str
    confidence: float
    """0 to 1."""
    x: float
    """Middle of the line, in pixels of the crop."""
    y: float
    height: float = 0.0


def tight_line(crop: Pixels) -> tuple[Pixels, Box]:
    """The ink of a region with one line, with margins as recognition is trained on.

    Returns:
        (the picture, where the ink is on the crop); the crop itself where nothing stands out from its background.
    """
    height, width = crop.shape[:2]
    background = np.median(crop.reshape(-1, 3), axis=0)
    ink = np.abs(crop.astype(np.int16) - background).max(axis=2) > INK_CONTRAST
    rows, columns = np.flatnonzero(ink.any(axis=1)), np.flatnonzero(ink.any(axis=0))
    if not rows.size:
        return crop, Box(0, 0, width, height)
    box = Box(int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1)
    down, across = round(box.height * MARGIN_DOWN), round(box.height * MARGIN_ACROSS)
    inner = np.ascontiguousarray(crop[box.top : box.bottom, box.left : box.right])
    color = [int(channel) for channel in background]
    padded = cv2.copyMakeBorder(inner, down, down, across, across, cv2.BORDER_CONSTANT, value=color)
    return np.asarray(padded, dtype=np.uint8), box


def in_rows(pieces: Sequence[OcrLine]) -> list[OcrLine]:
    """Pieces that stand beside each other joined to one line, from top to bottom.

    Detection cuts a line where its words are far apart.
    """
    rows: list[list[OcrLine]] = []
    for piece in sorted(pieces, key=lambda piece: piece.y):
        if rows and abs(piece.y - rows[-1][0].y) < max(piece.height, rows[-1][0].height) / 2:
            rows[-1].append(piece)
        else:
            rows.append([piece])
    lines = []
    for row in rows:
        across = sorted(row, key=lambda piece: piece.x)
        lines.append(
            OcrLine(
                " ".join(piece.text for piece in across),
                min(piece.confidence for piece in across),
                sum(piece.x for piece in across) / len(across),
                row[0].y,
                max(piece.height for piece in across),
            )
        )
    return lines


def read_lines(probe: OcrProbe, lines: Sequence[OcrLine], box: Box, size: tuple[int, int]) -> Reading:
    """The first line that the pattern is found in, from top to bottom.

    Args:
        probe: What is looked for.
        lines: All lines of the region.
        box: The region on the frame.
        size: (width, height) of the frame.
    """
    sure = [line for line in lines if line.confidence >= probe.min_confidence]
    text = "\n".join(line.text for line in sure)
    pattern = probe.pattern or (ANY_NUMBER if probe.reads is OcrReads.NUMBER else r"\S")
    for line in sure:
        match = re.search(pattern, line.text)
        if match is None:
            continue
        at = ((box.left + line.x) / size[0], (box.top + line.y) / size[1])
        if probe.reads is OcrReads.TEXT:
            return Reading(line.confidence, hit=True, at=at, text=text)
        number = _number(match)
        if number is not None:
            return Reading(number, hit=True, at=at, text=text)
    return Reading(math.nan if probe.reads is OcrReads.NUMBER else 0.0, hit=False, text=text)


def _number(match: re.Match[str]) -> float | None:
    said = match.group(1) if match.re.groups else match.group(0)
    try:
        # OCR sees thousands separators as commas or blanks
        return float(re.sub(r"[,\s]", "", said or ""))
    except ValueError:
        return None


def ocr_problems(probe: OcrProbe) -> list[tuple[str, str]]:
    """(key, what is wrong with it); empty when it is right."""
    try:
        re.compile(probe.pattern)
    except re.error as error:
        return [("pattern", f"'pattern' is no regular expression: {error}")]
    return []
