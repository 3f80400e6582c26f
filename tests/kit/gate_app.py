"""A game with a gate: a login screen that leads to a lobby or to a captcha, each of one colour. Tests turn it."""

from typing import Any

import attrs
import numpy as np

from actors.rehearsal.apps.base import Canvas, LogLine, Touch, TouchPhase
from actors.rehearsal.phone.serve import SimulatedPhone
from actors.rehearsal.phone.spec import package_for

GATE_PACKAGE = package_for("gate")
COLORS = {"login": (220, 30, 30), "lobby": (0, 180, 60), "captcha": (200, 0, 200)}

GATE_RULES = """
[probes.login]
kind = "color"
region = { x = 200, y = 500, width = 320, height = 200 }
color = { low = [175, 150, 150], high = [5, 255, 255] }
[probes.lobby]
kind = "color"
region = { x = 200, y = 500, width = 320, height = 200 }
color = { low = [60, 150, 120], high = [80, 255, 255] }
[probes.captcha]
kind = "color"
region = { x = 200, y = 500, width = 320, height = 200 }
color = { low = [145, 150, 150], high = [155, 255, 255] }
[[rules]]
name = "play"
when = [{ probe = "lobby" }]
do = { tap_match = "lobby" }
cooldown_seconds = 0.2
"""


@attrs.define(eq=False)
class GateWorld:
    """What all instances on all phones of a test share: how they begin, and what they saw."""

    after_login: str = "lobby"
    texts: list[str] = attrs.field(factory=list)
    starts: int = 0

    def make(self, *, seed: int, width: int, height: int, now: float) -> "GateApp":
        """An `AppFactory`."""
        self.starts += 1
        return GateApp(self, seed, width, height, now)


@attrs.define(eq=False)
class GateApp:
    """Implements `App`. Each touch in the lobby is a point."""

    world: GateWorld
    seed: int
    width: int
    height: int
    born_at: float
    name: str = "gate"
    rotation: int = 0
    screen: str = "login"
    score: int = 0
    log: list[LogLine] = attrs.field(factory=list)

    def draw(self, now: float) -> Canvas:
        """One colour, with a corner that changes with the score."""
        canvas = np.empty((self.height, self.width, 3), np.uint8)
        canvas[:] = COLORS[self.screen]
        canvas[:40, :40] = (self.score * 60) % 256
        return canvas

    def touch(self, now: float, touch: Touch) -> None:
        """A lift acts."""
        if touch.phase is not TouchPhase.UP:
            return
        if self.screen == "login":
            self.screen = self.world.after_login
        elif self.screen == "lobby":
            self.score += 1
            self.log.append(LogLine(now, "I", "gate", f"score={self.score}"))

    def key(self, now: float, name: str) -> None:
        """BACK logs out."""
        if name == "BACK":
            self.screen = "login"

    def type_text(self, now: float, text: str) -> None:
        """Kept for the test alone; a game shows dots."""
        self.world.texts.append(text)

    def take_log(self, now: float) -> tuple[LogLine, ...]:
        """What was logged since."""
        lines, self.log = tuple(self.log), []
        return lines

    def truth(self, now: float) -> dict[str, Any]:
        """The score."""
        return {"score": float(self.score), "over": False}


def gate_of(phone: SimulatedPhone) -> GateApp | None:
    """The game that runs in front on a phone, if it does."""
    front = phone.handset.front
    return front.app if front is not None and isinstance(front.app, GateApp) else None
