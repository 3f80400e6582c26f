"""Fingers to clicks and swipes, the way a phone's own toolkit tells them apart."""

import attrs

from actors.rehearsal.apps.base import Touch, TouchPhase

CLICK_SLOP = 24.0
"""Units that a finger may wander and still click; Android's touch slop is 8 dp = 16 px at 320 dpi."""


@attrs.frozen
class Click:
    """A finger came down and left at about the same pixel."""

    x: int
    y: int


@attrs.frozen
class Glide:
    """A finger came down at one pixel and left at another."""

    x: int
    y: int
    to_x: int
    to_y: int


@attrs.define
class GestureReader:
    """Follows each finger from down to up."""

    _down: dict[int, tuple[int, int]] = attrs.field(factory=dict, alias="_down")
    """{finger: (x, y) where it came down}"""

    def read(self, touch: Touch, unit: float) -> Click | Glide | None:
        """The gesture that this event completes; an up without a down completes none."""
        if touch.phase is TouchPhase.DOWN:
            self._down[touch.finger] = (touch.x, touch.y)
            return None
        if touch.phase is TouchPhase.MOVE:
            return None
        start = self._down.pop(touch.finger, None)
        if start is None:
            return None
        x, y = start
        if max(abs(touch.x - x), abs(touch.y - y)) <= CLICK_SLOP * unit:
            return Click(x, y)
        return Glide(x, y, touch.x, touch.y)

    def forget(self) -> None:
        """Drop fingers that are down: the screen under them has changed its shape."""
        self._down.clear()
