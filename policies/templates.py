"""Reads pictures in pictures: templates, and numbers made of digit templates."""

from collections.abc import Callable

import cv2
import numpy as np

from policies.frame import Pixels
from policies.geometry import Box
from policies.probes import DigitsProbe

OVERLAP_SHARE = 0.4  # of the narrower digit: more than that and two matches are readings of the same ink


def best_match(picture: Pixels, crop: Pixels) -> tuple[float, tuple[int, int]] | None:
    """(score, left upper corner) of where a picture fits best; None where it is larger than the crop."""
    height, width = picture.shape[:2]
    if height > crop.shape[0] or width > crop.shape[1]:
        return None
    scores = cv2.matchTemplate(np.ascontiguousarray(crop), picture, cv2.TM_CCOEFF_NORMED)
    _, best, _, where = cv2.minMaxLoc(scores)
    # a picture or crop of one single colour has no correlation
    return (float(best) if np.isfinite(best) and abs(best) <= 1.001 else 0.0, (int(where[0]), int(where[1])))


def match_box(picture: Pixels, crop: Pixels, box: Box) -> tuple[float, Box] | None:
    """(score, the matched rectangle on the frame); None where the picture cannot fit. `box` is the crop's own."""
    found = best_match(picture, crop)
    if found is None:
        return None
    score, (x, y) = found
    height, width = picture.shape[:2]
    return score, Box(box.left + x, box.top + y, box.left + x + width, box.top + y + height)


def read_number(probe: DigitsProbe, picture_of: Callable[[int], Pixels], crop: Pixels) -> int | None:
    """Greedy: best match first, others only where they do not overlap it; then read from left to right.

    Args:
        probe: What is read.
        picture_of: The picture of a digit, as large as it is on this frame.
        crop: The region's pixels.
    """
    gray = cv2.cvtColor(np.ascontiguousarray(crop), cv2.COLOR_BGR2GRAY)
    found: list[tuple[float, int, int, int]] = []  # (score, left, width, digit)
    for digit in range(10):
        template = cv2.cvtColor(picture_of(digit), cv2.COLOR_BGR2GRAY)
        if template.shape[0] > gray.shape[0] or template.shape[1] > gray.shape[1]:
            continue
        best_row = np.nan_to_num(cv2.matchTemplate(gray, template, cv2.TM_CCOEFF_NORMED), posinf=0, neginf=0)
        best_row = best_row.max(axis=0)
        hits = np.flatnonzero(best_row >= probe.match_at)
        found.extend((float(best_row[hit]), int(hit), int(template.shape[1]), digit) for hit in hits)
    found.sort(reverse=True)
    kept: list[tuple[int, int, int]] = []  # (left, width, digit)
    for _, left, width, digit in found:
        free = 1 - OVERLAP_SHARE
        if all(left + width * free <= other or other + other_width * free <= left for other, other_width, _ in kept):
            kept.append((left, width, digit))
    if not kept:
        return None
    return int("".join(str(digit) for _, _, digit in sorted(kept)))


def scaled_picture(picture: Pixels, scale: float) -> Pixels:
    """A picture `scale` times as large."""
    if abs(scale - 1) < 1e-6:
        return picture
    height, width = picture.shape[:2]
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    how = cv2.INTER_AREA if scale < 1 else cv2.INTER_LINEAR
    return np.asarray(cv2.resize(picture, size, interpolation=how), dtype=np.uint8)
