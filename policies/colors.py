"""Reads colours: how much of a region has them, how far a bar is filled with them, and which ones a region has."""

import math

import cv2
import numpy as np
import numpy.typing as npt

from policies.frame import Pixels
from policies.probes import Direction, HsvRange

COLOR_SAMPLES = 40_000  # pixels that a color probe looks at: every one of a button, every fifth of a whole screen
FILLED_SHARE = 0.5  # of a line across the bar: glow and rounded ends reach less
HUE_MARGIN, TONE_MARGIN = 4, 20  # beyond the pixels picked: JPEG, scaling and gradients move colours by about so much


def color_mask(crop: Pixels, color: HsvRange) -> npt.NDArray[np.bool_]:
    """True where a pixel of the crop lies in the range."""
    hsv = cv2.cvtColor(np.ascontiguousarray(crop), cv2.COLOR_BGR2HSV)
    if color.low[0] <= color.high[0]:
        return np.asarray(cv2.inRange(hsv, np.array(color.low), np.array(color.high))) > 0
    _, low_s, low_v = color.low
    _, high_s, high_v = color.high
    upper = cv2.inRange(hsv, np.array(color.low), np.array((179, high_s, high_v)))
    lower = cv2.inRange(hsv, np.array((0, low_s, low_v)), np.array(color.high))
    return np.asarray(cv2.bitwise_or(upper, lower)) > 0


def read_share(crop: Pixels, color: HsvRange) -> tuple[float, tuple[float, float] | None]:
    """(share of the crop in the range, (x, y) of their middle in pixels of the crop or None)."""
    stride = max(1, math.isqrt(crop.shape[0] * crop.shape[1] // COLOR_SAMPLES))
    mask = color_mask(crop[::stride, ::stride], color)
    rows, columns = np.nonzero(mask)
    share = float(rows.size) / mask.size
    if not rows.size:
        return share, None
    return share, (float(columns.mean()) * stride, float(rows.mean()) * stride)


def read_bar(crop: Pixels, fill: HsvRange, direction: Direction) -> float:
    """0 to 1: the position of the last filled line along the direction."""
    across = direction in {Direction.RIGHT, Direction.LEFT}
    lines = color_mask(crop, fill).mean(axis=0 if across else 1) >= FILLED_SHARE
    if direction in {Direction.LEFT, Direction.UP}:
        lines = lines[::-1]
    filled = np.flatnonzero(lines)
    return 0.0 if filled.size == 0 else (int(filled[-1]) + 1) / lines.size


def hsv_range_of(crop: Pixels) -> HsvRange:
    """A range that holds nearly all of the crop's pixels: 5th to 95th percentile and a margin; hue may wrap.

    Raises:
        ValueError: the crop is empty.
    """
    if crop.size == 0:
        raise ValueError("the rectangle holds no pixels")
    hsv = cv2.cvtColor(np.ascontiguousarray(crop), cv2.COLOR_BGR2HSV).reshape(-1, 3).astype(np.float64)
    # grey pixels have no hue worth the name; where all are grey, any hue is right
    colored = hsv[(hsv[:, 1] > 40) & (hsv[:, 2] > 40)]
    low_s, low_v = (max(0, int(np.percentile(hsv[:, n], 5)) - TONE_MARGIN) for n in (1, 2))
    high_s, high_v = (min(255, int(np.percentile(hsv[:, n], 95)) + TONE_MARGIN) for n in (1, 2))
    if len(colored) < len(hsv) / 10:
        return HsvRange((0, low_s, low_v), (179, high_s, high_v))
    angles = colored[:, 0] * (2 * np.pi / 180)
    middle = float(np.angle(np.exp(1j * angles).mean())) * 180 / (2 * np.pi)
    around = (colored[:, 0] - middle + 90) % 180 - 90  # -90..90 hue steps from the middle
    low_h = round(middle + float(np.percentile(around, 5))) - HUE_MARGIN
    high_h = round(middle + float(np.percentile(around, 95))) + HUE_MARGIN
    if high_h - low_h >= 179:
        return HsvRange((0, low_s, low_v), (179, high_s, high_v))
    return HsvRange((low_h % 180, low_s, low_v), (high_h % 180, high_s, high_v))
