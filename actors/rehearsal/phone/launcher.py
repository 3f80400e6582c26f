"""The home screen that a simulated phone shows when no app is in front: one labelled tile per app."""

from typing import Any

import attrs
import cv2
import numpy as np

from actors.rehearsal.apps.base import Canvas, LogLine, Touch, TouchPhase

_BACKGROUND = (24, 32, 44)
_TILE = (70, 110, 160)
_LABEL = (235, 240, 245)
_COLUMNS = 3


@attrs.define(eq=False)
class Launcher:
    """Implements `App`. A tap on a tile is kept in `chosen` until the phone takes it."""

    width: int
    height: int
    packages: tuple[str, ...]
    """What can be started, in the order of the tiles."""
    chosen: str | None = None
    name: str = "launcher"
    rotation: int = 0
    _canvas: Canvas | None = attrs.field(default=None, alias="_canvas")

    def tile_of(self, index: int) -> tuple[int, int, int, int]:
        """Left, top, right, bottom in pixels of the tile with that index; right and bottom outside."""
        cell = self.width // _COLUMNS
        margin = cell // 8
        row, column = divmod(index, _COLUMNS)
        left, top = column * cell + margin, row * cell + margin + self.height // 8
        return left, top, left + cell - 2 * margin, top + cell - 2 * margin

    def draw(self, now: float) -> Canvas:  # noqa: ARG002  the home screen does not move
        """The screen; always the same pixels."""
        if self._canvas is None:
            canvas = np.empty((self.height, self.width, 3), np.uint8)
            canvas[:] = _BACKGROUND
            for index, package in enumerate(self.packages):
                left, top, right, bottom = self.tile_of(index)
                cv2.rectangle(canvas, (left, top), (right - 1, bottom - 1), _TILE, cv2.FILLED)
                label = package.rsplit(".", 1)[-1]
                scale = self.width / 1440
                cv2.putText(canvas, label, (left + 6, bottom - 10), cv2.FONT_HERSHEY_SIMPLEX, scale, _LABEL, 1)
            self._canvas = canvas
        return self._canvas

    def touch(self, now: float, touch: Touch) -> None:  # noqa: ARG002
        """A lift over a tile chooses it."""
        if touch.phase is not TouchPhase.UP:
            return
        for index, package in enumerate(self.packages):
            left, top, right, bottom = self.tile_of(index)
            if left <= touch.x < right and top <= touch.y < bottom:
                self.chosen = package

    def key(self, now: float, name: str) -> None:
        """Keys do nothing here."""

    def type_text(self, now: float, text: str) -> None:
        """There is no field to type into."""

    def take_log(self, now: float) -> tuple[LogLine, ...]:  # noqa: ARG002
        """The home screen logs nothing."""
        return ()

    def truth(self, now: float) -> dict[str, Any]:  # noqa: ARG002
        """No score, never over."""
        return {"score": 0.0, "over": False}
