"""Is this a picture of the screen at all? Black frames, frames that are black in part, and channels in the wrong order.

A black frame says nothing about the game: protected windows, a screen that is off, and capture methods that fail on one
model all look like this. A model that is shown one makes something up.
"""

from enum import StrEnum
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from policies.frame import Pixels

BLACK_LEVEL = 8  # of 255, the brightest channel: video codecs round black up to 3, dark games begin at 16
BARS_SHARE = 0.06  # of the height, above and below: the clock of a status bar may stand over a protected window
LIT_SHARE = 0.0005  # of the pixels between the bars: fewer are no game, a ship among stars is more
PARTLY_BLACK_SHARE = 0.25  # of the height (or width), in one band from an edge; a letterbox of 21:9 takes 0.12
USUAL_AFTER = 5  # frames in a row: what is black for longer is how this app looks, now and later
SAMPLE_SIDE = 96  # samples along each side: enough for bands and shares, a few 10 us a frame
COMPARED_SIZE = (32, 32)
SAME_DISTANCE = 12.0  # of 255, mean over cells and channels: lossy video stays below 4
SWAPPED_RATIO = 2.5  # as many times nearer with red and blue exchanged


class Verdict(StrEnum):
    """What a frame is good for."""

    GOOD = "good"
    BLACK = "black"
    PARTLY_BLACK = "partly_black"


class Agreement(StrEnum):
    """What a capture method's picture is to another method's of the same screen."""

    SAME = "same"
    SWAPPED = "channels_swapped"
    """Red and blue stand in each other's place."""
    BLACK = "black"
    """Black, where the reference is not."""
    TURNED = "turned"
    """Another aspect ratio."""
    DIFFERENT = "different"


def judge_pixels(pixels: Pixels) -> Verdict:
    """The verdict on one frame by itself."""
    height, width = pixels.shape[:2]
    size = (min(width, SAMPLE_SIDE), min(height, SAMPLE_SIDE))
    sampled = np.asarray(cv2.resize(pixels, size, interpolation=cv2.INTER_NEAREST))
    brightest = np.maximum(np.maximum(sampled[..., 0], sampled[..., 1]), sampled[..., 2])
    dark = brightest <= BLACK_LEVEL
    if _is_black(pixels, dark):
        return Verdict.BLACK
    bands = (_band(np.all(dark, axis=1)), _band(np.all(dark, axis=0)))
    return Verdict.PARTLY_BLACK if max(bands) >= PARTLY_BLACK_SHARE else Verdict.GOOD


def _is_black(pixels: Pixels, sampled_dark: npt.NDArray[np.bool_]) -> bool:
    """Samples are quick but miss what is small, so where they are all dark every pixel is looked at."""
    edge = round(sampled_dark.shape[0] * BARS_SHARE)
    if sampled_dark[edge : sampled_dark.shape[0] - edge].mean() < 1 - 20 * LIT_SHARE:
        return False
    edge = round(pixels.shape[0] * BARS_SHARE)
    between = pixels[edge : pixels.shape[0] - edge]
    dark = cv2.countNonZero(cv2.inRange(between, (0, 0, 0), (BLACK_LEVEL,) * 3))
    area = between.shape[0] * between.shape[1]
    return bool(area - dark <= LIT_SHARE * area)


def _band(is_black: npt.NDArray[Any]) -> float:
    """Share of the lines in the longer black run that begins at either edge."""
    if is_black.all():
        return 1.0
    first, last = int(np.argmin(is_black)), int(np.argmin(is_black[::-1]))
    return max(first, last) / len(is_black)


class FrameJudge:
    """The verdicts on one phone's frames in turn: a band that stays black is the app's own look, not a fault."""

    def __init__(self) -> None:
        self._partly_in_a_row = 0
        self._is_usual = False

    def judge(self, pixels: Pixels) -> Verdict:
        """The verdict on the next frame."""
        verdict = judge_pixels(pixels)
        if verdict is not Verdict.PARTLY_BLACK:
            self._partly_in_a_row = 0
            return verdict
        self._partly_in_a_row += 1
        self._is_usual = self._is_usual or self._partly_in_a_row > USUAL_AFTER
        return Verdict.GOOD if self._is_usual else verdict


def distance_of(first: Pixels, second: Pixels) -> float:
    """Mean difference, 0 to 255, of two pictures reduced to a few cells."""
    return float(np.abs(_cells(first) - _cells(second)).mean())


def compare(pixels: Pixels, before: Pixels, after: Pixels) -> Agreement:
    """Is a picture the same as the reference's, taken before and after it? What moved meanwhile is allowed for.

    Args:
        pixels: BGR, of the method that is tried.
        before: BGR of the same screen by the reference method, taken before.
        after: the same, taken after.
    """
    if judge_pixels(pixels) is Verdict.BLACK and judge_pixels(before) is not Verdict.BLACK:
        return Agreement.BLACK
    shape, wanted = pixels.shape, before.shape
    if abs(shape[1] / shape[0] - wanted[1] / wanted[0]) > 0.02 * wanted[1] / wanted[0]:
        return Agreement.TURNED
    distance = min(distance_of(pixels, before), distance_of(pixels, after))
    swapped = np.ascontiguousarray(pixels[..., ::-1])
    swapped_distance = min(distance_of(swapped, before), distance_of(swapped, after))
    if swapped_distance * SWAPPED_RATIO < distance and distance > SAME_DISTANCE / 4:
        return Agreement.SWAPPED
    allowed = SAME_DISTANCE + distance_of(before, after)
    return Agreement.SAME if distance <= allowed else Agreement.DIFFERENT


def _cells(pixels: Pixels) -> npt.NDArray[np.float32]:
    return np.asarray(cv2.resize(pixels, COMPARED_SIZE, interpolation=cv2.INTER_AREA), np.float32)
