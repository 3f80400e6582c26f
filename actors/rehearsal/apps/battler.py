"""`battler`: a skirmish in real time against waves of slimes.

Tap a skill, then an enemy. Fire beats leaf, leaf beats water, water beats fire; the right element is worth three of
any other. Enemies strike when their timer runs out and change places now and then; a skill thrown at an empty
place is wasted. The potion heals, pop-ups cover the field until they are closed by their X or claimed.

Score: the most waves survived in one life. At zero health the battle stops at a defeat screen (`over` is true)
until its revive button starts a new life at wave 1; the score keeps the best life. Difficulty grows with the wave.

Log, tag `battler`: `score=3 wave=4`, `defeat score=3 wave=4`, `revive life=2`, `popup=open`,
`popup=closed claim=true`, `miss skill=fire slot=1`.
"""

from typing import Any

from actors.rehearsal.apps import battler_layout as layout
from actors.rehearsal.apps.base import Canvas, LogLine, Touch
from actors.rehearsal.apps.battler_drawing import BattlerDrawing
from actors.rehearsal.apps.battler_layout import ELEMENTS, SLOTS, box_contains
from actors.rehearsal.apps.battler_state import BattlerState
from actors.rehearsal.apps.clock import TICK_SECONDS, TickClock
from actors.rehearsal.apps.gesture import Click, GestureReader
from actors.rehearsal.apps.painter import unit_for
from policies.geometry import Region, box_for


class Battler:
    """One running battle. See `actors.rehearsal.apps.base.App`."""

    name = "battler"
    rotation = 0

    def __init__(self, *, seed: int, width: int, height: int, now: float) -> None:
        self._width, self._height = width, height
        self._unit = unit_for(width, height)
        self._clock = TickClock(now)
        self._state = BattlerState.new(seed)
        self._drawing = BattlerDrawing(width, height)
        self._gestures = GestureReader()
        self._log: list[LogLine] = [LogLine(0.0, "I", "battler", "start score=0 wave=1")]

    def draw(self, now: float) -> Canvas:
        """The screen at `now`."""
        self._advance(now)
        return self._drawing.draw(self._state)

    def touch(self, now: float, touch: Touch) -> None:
        """A click acts when the finger lifts; glides do nothing."""
        self._advance(now)
        gesture = self._gestures.read(touch, self._unit)
        if isinstance(gesture, Click):
            self._click(gesture.x, gesture.y)
            self._collect_events()

    def key(self, now: float, name: str) -> None:  # noqa: ARG002 (the protocol's signature)
        """No key does anything here."""
        self._advance(now)

    def type_text(self, now: float, text: str) -> None:  # noqa: ARG002 (the protocol's signature)
        """There is no field to type into."""
        self._advance(now)

    def take_log(self, now: float) -> tuple[LogLine, ...]:
        """Log lines since the last call."""
        self._advance(now)
        lines, self._log = tuple(self._log), []
        return lines

    def truth(self, now: float) -> dict[str, Any]:
        """Score, over, health, wave, lives, wasted, selected, popup, ready skills and enemies."""
        self._advance(now)
        state = self._state
        return {
            "score": float(state.best),
            "over": state.dead,
            "health": state.health,
            "wave": state.wave,
            "lives": state.lives,
            "wasted": state.wasted,
            "selected": state.selected.value if state.selected else None,
            "popup": state.popup is not None,
            "potion_ready": state.potion_left <= 0,
            "ready": {element.value: state.cooldowns[element] <= 0 for element in ELEMENTS},
            "enemies": tuple(
                None
                if enemy is None
                else {"element": enemy.element.value, "pips": enemy.pips, "attack_left": enemy.attack_left}
                for enemy in state.slots
            ),
        }

    def _advance(self, now: float) -> None:
        ticks = self._clock.ticks_due(now)
        start = self._clock.ticks - ticks
        for number in range(ticks):
            if self._state.dead:
                break  # nothing changes on the defeat screen until a click
            self._state.tick()
            if self._state.events:
                self._collect_events((start + number + 1) * TICK_SECONDS)

    def _collect_events(self, seconds: float | None = None) -> None:
        at = self._clock.seconds if seconds is None else seconds
        self._log += [LogLine(at, "I", "battler", text) for text in self._state.events]
        self._state.events.clear()

    def _hits(self, region: Region, x: int, y: int) -> bool:
        return box_contains(box_for(region, self._width, self._height), x, y)

    def _click(self, x: int, y: int) -> None:
        state = self._state
        if state.dead:
            if self._hits(layout.REVIVE_REGION, x, y):
                state.revive()
            return
        if state.popup is not None and self._click_popup(x, y):
            return
        for element in ELEMENTS:
            if self._hits(layout.skill_region(element), x, y):
                state.select(element)
                return
        if self._hits(layout.POTION_REGION, x, y):
            state.drink()
            return
        for slot in range(SLOTS):
            if self._hits(layout.slot_region(slot), x, y):
                state.strike(slot)
                return

    def _click_popup(self, x: int, y: int) -> bool:
        """True when the pop-up took the click, whether or not it closed."""
        popup = self._state.popup
        assert popup is not None
        box = layout.popup_box(popup.across, popup.down, self._width, self._height)
        if not box_contains(box, x, y):
            return False
        if box_contains(layout.popup_close_box(box, self._unit), x, y):
            self._state.close_popup(claim=False)
        elif box_contains(layout.popup_claim_box(box, self._unit), x, y):
            self._state.close_popup(claim=True)
        return True
