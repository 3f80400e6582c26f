"""`errands`: the screens of a game client, and an endless list of things to do in them.

The banner on top names the present goal; a goal that is done makes place for the next. Screens load for a moment, a
pop-up may cover them and takes every click until its X is hit, the button that fulfils a goal is sometimes frozen
for a tap or two, and the settings turn the screen (`rotation` and the drawn picture's shape change, everything is
arranged anew). The back key works like the header's arrow. The client never ends: `over` stays false.

Score: goals done.

Log, tag `errands`: `goal=done name=claim_daily score=2`, `screen=mail`, `popup=open`, `popup=closed`,
`button=frozen name=read_mail`, `rotation=1`, `session=expired`.
"""

from typing import Any

from actors.rehearsal.apps.base import Canvas, LogLine, Touch
from actors.rehearsal.apps.clock import TICK_SECONDS, TickClock
from actors.rehearsal.apps.errands_drawing import ErrandsDrawing
from actors.rehearsal.apps.errands_state import ErrandsState
from actors.rehearsal.apps.gesture import Click, GestureReader
from actors.rehearsal.apps.painter import unit_for


class Errands:
    """One running client. See `actors.rehearsal.apps.base.App`."""

    name = "errands"

    def __init__(self, *, seed: int, width: int, height: int, now: float) -> None:
        self._unit = unit_for(width, height)
        self._clock = TickClock(now)
        self._state = ErrandsState.new(seed, width, height)
        self._drawings: dict[bool, ErrandsDrawing] = {}
        """{sideways: the drawing of that orientation}, made when first needed"""
        self._gestures = GestureReader()
        self._log: list[LogLine] = [LogLine(0.0, "I", "errands", f"start score=0 goal={self._state.goal}")]

    @property
    def rotation(self) -> int:
        """0 upright, 1 sideways."""
        return 1 if self._state.sideways else 0

    def draw(self, now: float) -> Canvas:
        """The screen at `now`, in its present orientation."""
        self._advance(now)
        sideways = self._state.sideways
        if sideways not in self._drawings:
            self._drawings[sideways] = ErrandsDrawing(*self._state.size)
        return self._drawings[sideways].draw(self._state, self._clock.seconds)

    def touch(self, now: float, touch: Touch) -> None:
        """A click acts when the finger lifts; glides do nothing."""
        self._advance(now)
        gesture = self._gestures.read(touch, self._unit)
        if isinstance(gesture, Click):
            lay = self._state.sideways
            self._state.click(gesture.x, gesture.y)
            if self._state.sideways is not lay:
                self._gestures.forget()
            self._collect_events(self._clock.seconds)

    def key(self, now: float, name: str) -> None:
        """BACK works like the header's arrow."""
        self._advance(now)
        if name == "BACK":
            self._state.back()
            self._collect_events(self._clock.seconds)

    def type_text(self, now: float, text: str) -> None:  # noqa: ARG002 (the protocol's signature)
        """There is no field to type into."""
        self._advance(now)

    def take_log(self, now: float) -> tuple[LogLine, ...]:
        """Log lines since the last call."""
        self._advance(now)
        lines, self._log = tuple(self._log), []
        return lines

    def truth(self, now: float) -> dict[str, Any]:
        """Score, over, screen, loading, popup, goal, row, wanted (its button is on this screen), frozen taps."""
        self._advance(now)
        state = self._state
        return {
            "score": float(state.score),
            "over": False,
            "screen": state.screen.value,
            "loading": state.loading_left > 0,
            "popup": state.popup is not None,
            "goal": state.goal.value,
            "row": state.row,
            "wanted": state.is_wanted(state.screen),
            "frozen": state.frozen_taps,
            "sideways": state.sideways,
        }

    def _advance(self, now: float) -> None:
        ticks = self._clock.ticks_due(now)
        start = self._clock.ticks - ticks
        for number in range(ticks):
            if self._state.loading_left <= 0:
                break  # a loaded screen waits for a click: the rest of the time changes nothing
            self._state.tick()
            self._collect_events((start + number + 1) * TICK_SECONDS)

    def _collect_events(self, seconds: float) -> None:
        self._log += [LogLine(seconds, "I", "errands", text) for text in self._state.events]
        self._state.events.clear()
