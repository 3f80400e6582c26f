"""What a simulated phone asks of the app that it shows. Pure: time comes in as an argument."""

from enum import StrEnum
from typing import Any, Protocol

import attrs
import numpy as np
import numpy.typing as npt

Canvas = npt.NDArray[np.uint8]
"""(height, width, 3) uint8, RGB: a phone's framebuffer order without alpha."""


class TouchPhase(StrEnum):
    """What a finger did."""

    DOWN = "down"
    MOVE = "move"
    UP = "up"


@attrs.frozen
class Touch:
    """One finger event at a screen pixel of the present orientation."""

    phase: TouchPhase
    x: int
    y: int
    finger: int = 0


@attrs.frozen
class LogLine:
    """One line for logcat."""

    seconds: float
    """App time."""
    level: str
    """V, D, I, W, E or F."""
    tag: str
    text: str


class App(Protocol):
    """One running app on one phone.

    All methods take `now`, seconds on the phone's clock, never going back; the app first moves its world on to
    `now`, then answers. Two apps made with equal seed and sizes that get equal calls draw equal pixels.
    """

    @property
    def name(self) -> str:
        """`battler`, `merge` or `errands`."""
        ...

    @property
    def rotation(self) -> int:
        """Quarter turns that the app asks of the screen: 0 portrait, 1 landscape."""
        ...

    def draw(self, now: float) -> Canvas:
        """The screen as it is at `now`, in the present orientation. The caller must not write to it."""
        ...

    def touch(self, now: float, touch: Touch) -> None:
        """A finger event."""
        ...

    def key(self, now: float, name: str) -> None:
        """A key press, by Android's name without `KEYCODE_`."""
        ...

    def type_text(self, now: float, text: str) -> None:
        """Text typed into the focused field, if any."""
        ...

    def take_log(self, now: float) -> tuple[LogLine, ...]:
        """Log lines since the last call."""
        ...

    def truth(self, now: float) -> dict[str, Any]:
        """The state behind the pixels, for tests alone; always has `score` (float) and `over` (bool)."""
        ...


class AppFactory(Protocol):
    """Starts an app afresh: at first launch and after a force-stop."""

    def __call__(self, *, seed: int, width: int, height: int, now: float) -> App:
        """A new app; `width` and `height` are those of the portrait screen."""
        ...
