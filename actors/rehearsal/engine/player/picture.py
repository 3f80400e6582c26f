"""A decoded screenshot, and what its colours say."""

import cv2
import numpy as np
import numpy.typing as npt

from actors.rehearsal.apps.base import Canvas
from actors.rehearsal.apps.painter import Color, unit_for
from policies.geometry import Box, Region, box_for

REDUCE_FROM = 560  # short side in pixels from which half the resolution still shows every pip of the apps
SAME_COLOR = 48.0
"""Largest distance in RGB at which a patch still counts as having a colour: JPEG at quality 60 stays below it,
and the apps' own colours that are compared lie farther apart."""


class UndecodableImage(ValueError):
    """The bytes are not a picture that OpenCV can read."""


def distance(first: npt.ArrayLike, second: npt.ArrayLike) -> float:
    """Euclidean distance of two colours."""
    return float(np.linalg.norm(np.asarray(first, np.float64) - np.asarray(second, np.float64)))


class Picture:
    """One screenshot at half or full resolution; boxes are asked for in its own pixels."""

    def __init__(self, pixels: Canvas) -> None:
        self.pixels = pixels
        self.height, self.width = int(pixels.shape[0]), int(pixels.shape[1])
        self.unit = unit_for(self.width, self.height)

    @classmethod
    def decoded(cls, data: bytes) -> "Picture":
        """Decode a JPEG or PNG, halved while decoding when it is large enough.

        Raises:
            UndecodableImage: OpenCV cannot read the bytes.
        """
        size = jpeg_size(data)
        large = size is not None and min(size) >= REDUCE_FROM
        flag = cv2.IMREAD_REDUCED_COLOR_2 if large else cv2.IMREAD_COLOR
        try:
            pixels = cv2.imdecode(np.frombuffer(data, np.uint8), flag) if data else None
        except cv2.error as error:
            raise UndecodableImage(f"OpenCV: {error}") from error
        if pixels is None:
            raise UndecodableImage(f"{len(data)} bytes are no picture")
        return cls(np.asarray(cv2.cvtColor(pixels, cv2.COLOR_BGR2RGB), np.uint8))

    def box(self, region: Region) -> Box:
        """Where a reference region lies on this picture."""
        return box_for(region, self.width, self.height)

    def part(self, box: Box) -> Canvas:
        """The pixels in a box, at least one."""
        left = min(max(0, box.left), self.width - 1)
        top = min(max(0, box.top), self.height - 1)
        return self.pixels[top : max(top + 1, box.bottom), left : max(left + 1, box.right)]

    def color(self, box: Box) -> npt.NDArray[np.float64]:
        """The mean colour in a box."""
        return np.asarray(self.part(box).reshape(-1, 3).mean(axis=0), np.float64)

    def has_color(self, box: Box, color: Color) -> bool:
        """True when the box's mean colour is that one."""
        return distance(self.color(box), color) <= SAME_COLOR

    def share(self, box: Box, color: Color, tolerance: float = SAME_COLOR) -> float:
        """The share (0 to 1) of the box's pixels within `tolerance` of a colour."""
        part = self.part(box).reshape(-1, 3).astype(np.int32)
        apart = ((part - np.array(color)) ** 2).sum(axis=1)
        return float((apart <= tolerance * tolerance).mean())

    def bar_share(self, box: Box, color: Color, tolerance: float = SAME_COLOR) -> float:
        """How far (0 to 1) a bar is filled from the left with a colour, read along its middle third."""
        third = max(1, box.height // 3)
        rows = self.part(Box(box.left, box.top + third, box.right, box.bottom - third)).astype(np.int32)
        apart = ((rows.mean(axis=0) - np.array(color)) ** 2).sum(axis=1)
        return float((apart <= tolerance * tolerance).mean())

    def spot(self, color: Color, minimum_side: float, tolerance: float = SAME_COLOR) -> tuple[int, int] | None:
        """The centre of the largest patch of a colour, None when there is none `minimum_side` units wide and high."""
        target = np.array(color, np.int32)
        low = tuple(int(v) for v in np.clip(target - round(tolerance), 0, 255))
        high = tuple(int(v) for v in np.clip(target + round(tolerance), 0, 255))
        mask = cv2.inRange(self.pixels, low, high)
        count, _, boxes, _ = cv2.connectedComponentsWithStats(mask, connectivity=8)
        best: tuple[int, tuple[int, int]] | None = None
        for number in range(1, count):
            x, y, across, down, area = (int(value) for value in boxes[number])
            if min(across, down) >= minimum_side * self.unit and (best is None or area > best[0]):
                best = (area, (x + across // 2, y + down // 2))
        return best[1] if best is not None else None

    def per_mille(self, x: float, y: float) -> tuple[int, int]:
        """A pixel of this picture in thousandths of its width and height, 0 to 999 each."""
        return (
            min(999, max(0, int((x + 0.5) * 1000 / self.width))),
            min(999, max(0, int((y + 0.5) * 1000 / self.height))),
        )

    def pixel(self, x: int, y: int) -> tuple[int, int]:
        """The pixel under a point in thousandths."""
        return (int((x + 0.5) * self.width / 1000), int((y + 0.5) * self.height / 1000))


def jpeg_size(data: bytes) -> tuple[int, int] | None:
    """(width, height) from a JPEG's or PNG's header, None where neither is found. Reads no pixels."""
    if data[:8] == b"\x89PNG\r\n\x1a\n" and len(data) >= 24:
        return (int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big"))
    if data[:2] != b"\xff\xd8":
        return None
    at = 2
    while at + 9 < len(data):
        if data[at] != 0xFF:
            return None
        marker = data[at + 1]
        if 0xC0 <= marker <= 0xCF and marker not in {0xC4, 0xC8, 0xCC}:
            return (int.from_bytes(data[at + 7 : at + 9], "big"), int.from_bytes(data[at + 5 : at + 7], "big"))
        at += 2 + int.from_bytes(data[at + 2 : at + 4], "big")
    return None
