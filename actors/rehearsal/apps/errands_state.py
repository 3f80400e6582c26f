"""The game client of `errands`: which screen is shown, what is wanted, what a click does. No pixels here."""

import attrs
import numpy as np

from actors.rehearsal.apps import errands_layout as layout
from actors.rehearsal.apps.battler_layout import box_contains
from actors.rehearsal.apps.clock import TICK_SECONDS
from actors.rehearsal.apps.errands_layout import GOAL_SCREEN, LOBBY_SCREENS, ROWS, Goal, Screen
from actors.rehearsal.apps.painter import unit_for

LOADING_SECONDS = (0.35, 0.9)
TURN_SECONDS = (0.4, 0.7)
POPUP_SHARE = 0.22
"""How often a screen opens with a pop-up above it."""
FROZEN_SHARE = 0.3
"""How often the button that fulfils a goal ignores its first tap, or its first two."""
EXPIRED_SHARE = 0.04
"""How often the way back to the lobby ends at the login."""

_GOALS = tuple(Goal)
_NOTICES = ("Season 7 is here!", "Invite a friend", "Server news", "Weekend event", "Rate the game?")


@attrs.frozen
class Notice:
    """A pop-up; (across, down) is its place, each 0 to 1."""

    across: float
    down: float
    text: str


@attrs.define
class ErrandsState:
    """Everything that is true in the client."""

    dice: np.random.Generator
    width: int
    """Of the upright screen."""
    height: int
    screen: Screen = Screen.LOGIN
    sideways: bool = False
    loading_left: float = 0.0
    """Seconds until the screen has loaded; clicks are ignored until then."""
    goal: Goal = Goal.CLAIM_DAILY
    row: int = 0
    """Where the goal's letter or offer stands, 0 to `ROWS` - 1."""
    spent: Screen | None = None
    """The screen on which the last goal was fulfilled: its button is used up until one leaves it."""
    frozen_taps: int = 0
    """Taps that the goal's button will still ignore."""
    been_sideways: bool = False
    """True when half of `TURN_SCREEN` is done."""
    score: int = 0
    popup: Notice | None = None
    events: list[str] = attrs.field(factory=list)
    """Texts for the log since they were last taken."""

    @classmethod
    def new(cls, seed: int, width: int, height: int) -> "ErrandsState":
        """The client at its login; equal seeds and equal clicks at equal ticks give equal errands."""
        state = cls(np.random.default_rng(seed), width, height)
        state.goal = _GOALS[int(state.dice.integers(len(_GOALS)))]
        state._prepare_goal()
        return state

    @property
    def size(self) -> tuple[int, int]:
        """(width, height) of the screen in its present orientation."""
        return (self.height, self.width) if self.sideways else (self.width, self.height)

    def tick(self) -> None:
        """Let one tick of time pass."""
        if self.loading_left > 0:
            self.loading_left = max(0.0, self.loading_left - TICK_SECONDS)
            if self.loading_left <= 1e-9:
                self.loading_left = 0.0
                self._arrive()

    def back(self) -> None:
        """The back arrow and the back key: close the pop-up, or return to the lobby."""
        if self.loading_left > 0 or self.screen in {Screen.LOGIN, Screen.LOBBY}:
            return
        if self.popup is not None:
            self.popup = None
            return
        expired = self.dice.random() < EXPIRED_SHARE
        self._go(Screen.LOGIN if expired else Screen.LOBBY)
        if expired:
            self.events.append("session=expired")

    def click(self, x: int, y: int) -> None:
        """A finger's click at a pixel of the present orientation."""
        if self.loading_left > 0:
            return
        width, height = self.size
        if self.popup is not None:
            box = layout.popup_box(self.popup.across, self.popup.down, width, height)
            if box_contains(layout.popup_close_box(box, unit_for(width, height)), x, y):
                self.popup = None
                self.events.append("popup=closed")
            return
        if self.screen is Screen.LOGIN:
            if box_contains(layout.start_box(width, height), x, y):
                self._go(Screen.LOBBY)
            return
        if self.screen is Screen.LOBBY:
            for screen in LOBBY_SCREENS:
                if box_contains(layout.lobby_box(screen, width, height), x, y):
                    self._go(screen)
            return
        if box_contains(layout.back_box(width, height), x, y):
            self.back()
            return
        self._click_content(x, y, width, height)

    def is_wanted(self, screen: Screen) -> bool:
        """True when the present goal's button is on this screen and still to be pressed."""
        return GOAL_SCREEN[self.goal] is screen and self.spent is not screen

    def _click_content(self, x: int, y: int, width: int, height: int) -> None:
        wanted = self.is_wanted(self.screen)
        match self.screen:
            case Screen.DAILY:
                if wanted and box_contains(layout.claim_box(width, height), x, y):
                    self._press()
            case Screen.MAIL | Screen.SHOP:
                for row in range(ROWS):
                    if box_contains(layout.row_button_box(row, width, height), x, y):
                        self._click_row(row, wanted=wanted)
            case _:
                for sideways in (False, True):
                    box = layout.turn_box(sideways=sideways, width=width, height=height)
                    if sideways is not self.sideways and box_contains(box, x, y):
                        self._turn(sideways=sideways)

    def _click_row(self, row: int, *, wanted: bool) -> None:
        if wanted and row == self.row:
            self._press()
        elif self.screen is Screen.SHOP and self.spent is not Screen.SHOP:
            self._open_popup("Not enough coins")

    def _press(self) -> None:
        """The goal's button was hit: a frozen one swallows the tap."""
        if self.frozen_taps > 0:
            self.frozen_taps -= 1
            self.events.append(f"button=frozen name={self.goal}")
            return
        self._fulfil()

    def _turn(self, *, sideways: bool) -> None:
        if self.goal is Goal.TURN_SCREEN and self.frozen_taps > 0:
            self.frozen_taps -= 1
            self.events.append(f"button=frozen name={self.goal}")
            return
        self.sideways = sideways
        self.loading_left = float(self.dice.uniform(*TURN_SECONDS))
        self.events.append(f"rotation={1 if sideways else 0}")
        if self.goal is Goal.TURN_SCREEN:
            if sideways:
                self.been_sideways = True
            elif self.been_sideways:
                self._fulfil()

    def _fulfil(self) -> None:
        self.score += 1
        self.events.append(f"goal=done name={self.goal} score={self.score}")
        self.spent = self.screen
        others = [goal for goal in _GOALS if goal is not self.goal]
        self.goal = others[int(self.dice.integers(len(others)))]
        self._prepare_goal()

    def _prepare_goal(self) -> None:
        self.been_sideways = False
        self.row = int(self.dice.integers(ROWS))
        self.frozen_taps = int(self.dice.integers(1, 3)) if self.dice.random() < FROZEN_SHARE else 0

    def _go(self, screen: Screen) -> None:
        self.screen = screen
        self.spent = None
        self.loading_left = float(self.dice.uniform(*LOADING_SECONDS))

    def _arrive(self) -> None:
        self.events.append(f"screen={self.screen}")
        if self.dice.random() < POPUP_SHARE:
            self._open_popup(_NOTICES[int(self.dice.integers(len(_NOTICES)))])

    def _open_popup(self, text: str) -> None:
        across, down = (float(value) for value in self.dice.uniform(0.0, 1.0, 2))
        self.popup = Notice(across, down, text)
        self.events.append("popup=open")
