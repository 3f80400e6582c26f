"""What a benchmark adds to a picture: the time, in squares that survive a video codec, and a grain."""

from functools import lru_cache

import cv2
import numpy as np
import numpy.typing as npt

COLUMNS = 32
TIME_BITS = 56  # microseconds: 2,000 years
CHECK_BITS = 8
ROWS = (TIME_BITS + CHECK_BITS) // COLUMNS
SQUARES_ACROSS = 40  # of the picture's width: 18 pixels of 720
_DARK, _LIGHT = 24, 232
GRAIN_LEVELS = 2  # 0 or 1 is added: 720x1280 of it make a PNG of 0.8 MB
GRAIN_SEED = 7
_PARITY = 0xA5  # so that an all-dark corner is no stamp


def _check(microseconds: int) -> int:
    check = _PARITY
    for byte in microseconds.to_bytes(TIME_BITS // 8, "big"):
        check = ((check << 1 | check >> 7) & 0xFF) ^ byte
    return check


def _square(width: int) -> float:
    return width / SQUARES_ACROSS


def draw_stamp(canvas: npt.NDArray[np.uint8], microseconds: int) -> None:
    """Draw a time into a (height, width, 3) picture."""
    bits = microseconds << CHECK_BITS | _check(microseconds)
    values = [(bits >> (COLUMNS * ROWS - 1 - place)) & 1 for place in range(COLUMNS * ROWS)]
    squares = np.where(np.array(values, bool).reshape(ROWS, COLUMNS), _LIGHT, _DARK).astype(np.uint8)
    side = _square(canvas.shape[1])
    size = (round(side * COLUMNS), round(side * ROWS))
    canvas[: size[1], : size[0]] = np.asarray(cv2.resize(squares, size, interpolation=cv2.INTER_NEAREST))[..., None]


@lru_cache(maxsize=4)
def _grain(height: int, width: int) -> npt.NDArray[np.uint8]:
    return np.random.default_rng(GRAIN_SEED).integers(0, GRAIN_LEVELS, (height, width, 3), np.uint8)


def grained(canvas: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    """A copy of a picture under a fixed grain that nobody sees, but that no lossless codec can leave out."""
    return np.asarray(cv2.add(canvas, _grain(*canvas.shape[:2])), np.uint8)


def stamped(canvas: npt.NDArray[np.uint8], seconds: float) -> npt.NDArray[np.uint8]:
    """A copy of a picture with a time on it."""
    copy = canvas.copy()
    draw_stamp(copy, int(seconds * 1e6))
    return copy


def read_stamp(pixels: npt.NDArray[np.uint8]) -> int | None:
    """The time in a picture, in microseconds; None where there is none that can be read."""
    side = _square(pixels.shape[1])
    if pixels.shape[0] < side * ROWS:
        return None
    bits = 0
    for row in range(ROWS):
        y = int((row + 0.5) * side)
        for column in range(COLUMNS):
            bits = bits << 1 | int(pixels[y, int((column + 0.5) * side), 1] > 128)
    microseconds = bits >> CHECK_BITS
    return microseconds if bits & 0xFF == _check(microseconds) else None
