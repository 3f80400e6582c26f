"""Drawing primitives of the bundled apps: anti-aliased shapes and TrueType text on an RGB canvas.

Lengths are given in *units*: one unit is 1/720 of the screen's short side, so that a picture drawn at 1080x2400 is
the picture drawn at 720x1280, only finer. Boxes are whole pixels, as `policies.geometry.box_for` makes them.
"""

from collections.abc import Sequence

import cv2
import numpy as np

from actors.rehearsal.apps.base import Canvas
from policies.geometry import REFERENCE_SHORT_SIDE, Box

Color = tuple[int, int, int]
"""Red, green, blue; 0 to 255 each."""

WHITE: Color = (255, 255, 255)
BLACK: Color = (0, 0, 0)

MAX_WIDTHS = 512  # texts with counting numbers in them would otherwise be remembered for ever

_SHIFT = 4  # OpenCV's fixed-point bits: shapes are placed to 1/16 pixel
_ONE = 1 << _SHIFT


def unit_for(width: int, height: int) -> float:
    """Pixels per unit on a screen of that size."""
    return min(width, height) / REFERENCE_SHORT_SIDE


def mixed(first: Color, second: Color, share: float) -> Color:
    """`first` and `second` blended; `share` (0 to 1) is the part of `second`."""
    return (
        round(first[0] + (second[0] - first[0]) * share),
        round(first[1] + (second[1] - first[1]) * share),
        round(first[2] + (second[2] - first[2]) * share),
    )


class Painter:
    """Draws on one canvas. Everything that lies outside of it is clipped."""

    def __init__(self, width: int, height: int) -> None:
        self.canvas: Canvas = np.zeros((height, width, 3), np.uint8)
        self.width = width
        self.height = height
        self.unit = unit_for(width, height)
        # One font per painter: a FontFace keeps the weight of the last call, so it must not be shared by threads.
        self._font = cv2.FontFace("sans")
        self._widths: dict[tuple[str, int, int], int] = {}
        """{(text, letter size, weight): pixels across}"""

    def paste(self, background: Canvas) -> None:
        """Replace the whole canvas by a picture of the same size."""
        np.copyto(self.canvas, background)

    def snapshot(self) -> Canvas:
        """A copy of the canvas as it is now."""
        return self.canvas.copy()

    def gradient(self, top: Color, bottom: Color) -> None:
        """Fill the canvas from `top` to `bottom`."""
        ramp = np.linspace(np.array(top, np.float32), np.array(bottom, np.float32), self.height)
        self.canvas[:] = np.rint(ramp).astype(np.uint8)[:, None, :]

    def darken(self, share: float, top: int = 0) -> None:
        """Mix every row from `top` down with black; `share` (0 to 1) is the part of black."""
        part = self.canvas[top:]
        cv2.convertScaleAbs(part, dst=part, alpha=1.0 - share, beta=0.0)

    def rectangle(self, box: Box, color: Color) -> None:
        """Fill a box."""
        inside = box.clipped(self.width, self.height)
        self.canvas[inside.top : inside.bottom, inside.left : inside.right] = color

    def rounded(self, box: Box, color: Color, radius: float = 16.0) -> None:
        """Fill a box with round corners of `radius` units."""
        limit = min(box.width, box.height) // 2
        r = min(round(radius * self.unit), limit)
        if r <= 0:
            self.rectangle(box, color)
            return
        self.rectangle(Box(box.left + r, box.top, box.right - r, box.bottom), color)
        self.rectangle(Box(box.left, box.top + r, box.right, box.bottom - r), color)
        for x in (box.left + r, box.right - r - 1):
            for y in (box.top + r, box.bottom - r - 1):
                self._ellipse(x, y, r, r, color)

    def frame(self, box: Box, color: Color, thickness: float, radius: float = 16.0) -> None:
        """Draw the outline of a rounded box, `thickness` units wide, just outside of it."""
        grow = max(1, round(thickness * self.unit))
        r = round(radius * self.unit)
        left, top, right, bottom = box.left - grow, box.top - grow, box.right + grow, box.bottom + grow
        self.rectangle(Box(left + r, top, right - r, top + grow), color)
        self.rectangle(Box(left + r, bottom - grow, right - r, bottom), color)
        self.rectangle(Box(left, top + r, left + grow, bottom - r), color)
        self.rectangle(Box(right - grow, top + r, right, bottom - r), color)
        half = grow / 2
        for x, y, start in (
            (left + r, top + r, 180),
            (right - r, top + r, 270),
            (right - r, bottom - r, 0),
            (left + r, bottom - r, 90),
        ):
            axis = max(0.0, r - half)
            cv2.ellipse(
                self.canvas,
                (round((x - 0.5) * _ONE), round((y - 0.5) * _ONE)),
                (round(axis * _ONE), round(axis * _ONE)),
                0.0,
                float(start),
                float(start + 90),
                color,
                grow,
                cv2.LINE_AA,
                _SHIFT,
            )

    def circle(self, x: float, y: float, radius: float, color: Color) -> None:
        """Fill a circle of `radius` units round a pixel."""
        self._ellipse(x, y, radius * self.unit, radius * self.unit, color)

    def ellipse(self, x: float, y: float, across: float, down: float, color: Color) -> None:
        """Fill an upright ellipse of half axes `across` and `down` (units) round a pixel."""
        self._ellipse(x, y, across * self.unit, down * self.unit, color)

    def arc(self, x: float, y: float, radius: float, thickness: float, start: float, color: Color) -> None:
        """Draw three quarters of a ring from `start` degrees on; `radius` and `thickness` in units."""
        axis = round(radius * self.unit * _ONE)
        cv2.ellipse(
            self.canvas,
            (round(x * _ONE), round(y * _ONE)),
            (axis, axis),
            start,
            0.0,
            270.0,
            color,
            max(1, round(thickness * self.unit)),
            cv2.LINE_AA,
            _SHIFT,
        )

    def polygon(self, x: float, y: float, points: Sequence[tuple[float, float]], color: Color) -> None:
        """Fill a polygon whose corners are given in units relative to the pixel (x, y)."""
        corners = np.rint((np.array(points) * self.unit + (x, y)) * _ONE).astype(np.int32)
        cv2.fillPoly(self.canvas, [corners], color, cv2.LINE_AA, _SHIFT)

    def line(self, start: tuple[float, float], end: tuple[float, float], thickness: float, color: Color) -> None:
        """Draw a line between two pixels, `thickness` units wide."""
        ends = [(round(x * _ONE), round(y * _ONE)) for x, y in (start, end)]
        cv2.line(self.canvas, ends[0], ends[1], color, max(1, round(thickness * self.unit)), cv2.LINE_AA, _SHIFT)

    def cross(self, box: Box, thickness: float, color: Color) -> None:
        """Draw an X over the middle of a box."""
        (x, y), reach = box.center, min(box.width, box.height) * 0.2
        self.line((x - reach, y - reach), (x + reach, y + reach), thickness, color)
        self.line((x - reach, y + reach), (x + reach, y - reach), thickness, color)

    def text(
        self, text: str, x: float, y: float, size: float, color: Color, *, weight: int = 600, align: str = "center"
    ) -> None:
        """Write one line; (x, y) is the pixel at the middle of the line's height.

        Args:
            text: What to write.
            x: Left end, middle or right end of the line, as `align` says.
            y: Half the height of the capitals.
            size: Letter size in units; capitals are 0.7 of it.
            color: Of the letters.
            weight: 100 (thin) to 900 (black).
            align: `left`, `center` or `right`.
        """
        pixels = max(6, round(size * self.unit))
        across = self._text_width(text, pixels, weight)
        left = x - {"left": 0.0, "center": across / 2, "right": float(across)}[align]
        origin = (round(left), round(y + pixels * 0.36))
        cv2.putText(self.canvas, text, origin, color, self._font, pixels, weight)

    def _text_width(self, text: str, pixels: int, weight: int) -> int:
        key = (text, pixels, weight)
        if key not in self._widths:
            x, _, across, _ = cv2.getTextSize((8192, 256), text, (0, 128), self._font, pixels, weight)
            self._widths[key] = x + across
            if len(self._widths) > MAX_WIDTHS:
                self._widths.pop(next(iter(self._widths)))
        return self._widths[key]

    def _ellipse(self, x: float, y: float, across: float, down: float, color: Color) -> None:
        cv2.ellipse(
            self.canvas,
            (round(x * _ONE), round(y * _ONE)),
            (round(across * _ONE), round(down * _ONE)),
            0.0,
            0.0,
            360.0,
            color,
            cv2.FILLED,
            cv2.LINE_AA,
            _SHIFT,
        )
