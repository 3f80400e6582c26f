"""Makes a reading of the lines that an OCR engine found."""

import math
import re
from collections.abc import Sequence

import attrs

from policies.geometry import Box
from policies.probes import OcrProbe, OcrReads, Reading

ANY_NUMBER = r"([0-9]+(?:\.[0-9]+)?)"


@attrs.frozen
class OcrLine:
    """One line of text on a crop."""

    text: str
    confidence: float
    """0 to 1."""
    x: float
    """Middle of the line, in pixels of the crop."""
    y: float


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
