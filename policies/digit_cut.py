"""Cuts digit templates from a number on a frame whose value is known."""

import attrs
import cv2
import numpy as np

from policies.frame import Pixels
from policies.geometry import Box

MARGIN = 2  # pixels of background kept round the ink: without them a 1 fits into every upright stroke
INK_SHARE = 0.35  # of the strongest contrast in the crop; weaker pixels are glow, shadow or anti-aliasing


class DigitsNotCut(ValueError):
    """The crop does not hold as many separate glyphs as the text has digits."""


@attrs.frozen(eq=False)
class DigitCut:
    """One digit's picture."""

    digit: int
    box: Box
    """Where it stands on the crop."""
    pixels: Pixels = attrs.field(repr=False)
    """(height, width, 3) uint8 BGR; all digits of one cut are equally high."""


def cut_digits(crop: Pixels, text: str) -> list[DigitCut]:
    """The digits of a number, from left to right.

    Args:
        crop: The number on a fairly even background, with nothing else beside it.
        text: What it says: digits; other characters (a thousands separator) are cut out and left away.

    Raises:
        DigitsNotCut: no ink, or not as many glyphs as characters: letters touch, or the text is another one.
    """
    wanted = text.replace(" ", "")
    if not any(character.isdigit() for character in wanted):
        raise DigitsNotCut(f"{text!r} holds no digit: give the number that the rectangle shows")
    columns, rows = _ink(crop)
    spans = _spans(columns)
    if len(spans) != len(wanted):
        raise DigitsNotCut(
            f"the rectangle holds {len(spans)} separate glyphs, {text!r} has {len(wanted)}: "
            "mark the number alone, on an even background"
        )
    height, width = crop.shape[:2]
    inked = np.flatnonzero(rows)
    top, bottom = max(0, int(inked[0]) - MARGIN), min(height, int(inked[-1]) + 1 + MARGIN)
    cuts = []
    for character, (start, end) in zip(wanted, spans, strict=True):
        if character.isascii() and character.isdigit():
            box = Box(max(0, start - MARGIN), top, min(width, end + MARGIN), bottom)
            pixels = crop[box.top : box.bottom, box.left : box.right].copy()
            cuts.append(DigitCut(int(character), box, pixels))
    return cuts


def _ink(crop: Pixels) -> tuple[np.ndarray, np.ndarray]:
    """(which columns hold ink, which rows do)."""
    if crop.size == 0:
        raise DigitsNotCut("the rectangle holds no pixels")
    gray = cv2.cvtColor(np.ascontiguousarray(crop), cv2.COLOR_BGR2GRAY).astype(np.int16)
    contrast = np.abs(gray - np.median(gray))
    if contrast.max() < 30:
        raise DigitsNotCut("nothing stands out from the background in the rectangle")
    ink = contrast > contrast.max() * INK_SHARE
    return ink.any(axis=0), ink.any(axis=1)


def _spans(columns: np.ndarray) -> list[tuple[int, int]]:
    """(first, one past the last) of each run of inked columns."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], columns.astype(np.int8), [0]))))
    return [(int(start), int(end)) for start, end in zip(edges[::2], edges[1::2], strict=True)]
