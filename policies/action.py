"""Everything a bot can do to a phone, and what must hold before a planned action is done.

All coordinates are device pixels of the geometry that the action was planned on.
"""

from collections.abc import Callable
from enum import StrEnum

import attrs

from policies.geometry import Box


class KeyName(StrEnum):
    """The keys a plan may press; the value is Android's key event name without `KEYCODE_`."""

    BACK = "BACK"
    HOME = "HOME"
    ENTER = "ENTER"
    APP_SWITCH = "APP_SWITCH"


@attrs.frozen
class Tap:
    """Touch and lift at once."""

    x: int
    y: int


@attrs.frozen
class LongPress:
    """Touch, stay, lift."""

    x: int
    y: int
    seconds: float


@attrs.frozen
class Swipe:
    """Touch at (x, y), glide to (to_x, to_y), lift there."""

    x: int
    y: int
    to_x: int
    to_y: int
    seconds: float = 0.2


@attrs.frozen
class Key:
    """Press one key."""

    name: KeyName


@attrs.frozen
class Text:
    """Type text into whatever has the focus."""

    text: str


@attrs.frozen
class Wait:
    """Do nothing on purpose."""

    seconds: float


@attrs.frozen
class Hold:
    """Keep a virtual stick pushed: touch its centre, glide by `radius` in `direction_degrees`, stay, lift."""

    x: int
    y: int
    direction_degrees: float
    """0 is right, 90 is up."""
    radius: int
    seconds: float


@attrs.frozen
class TwoFingers:
    """Two fingers that glide at the same time: pinch, spread, rotate."""

    first: tuple[int, int, int, int]
    """x, y, to_x, to_y of the first finger."""
    second: tuple[int, int, int, int]
    """x, y, to_x, to_y of the second finger."""
    seconds: float = 0.3


Action = Tap | LongPress | Swipe | Key | Text | Wait | Hold | TwoFingers


@attrs.frozen
class Finish:
    """The model says that the goal is reached, or that it cannot be; the scenario's criteria have the last word."""

    success: bool


PlanStep = Action | Finish
"""What a model's reply is made of."""


def points_of(action: Action) -> tuple[tuple[int, int], ...]:
    """Every point of the screen that the action touches, first touch first; empty for keys, text and waits."""
    match action:
        case Tap(x, y) | LongPress(x, y):
            return ((x, y),)
        case Swipe(x, y, to_x, to_y):
            return ((x, y), (to_x, to_y))
        case Hold(x=x, y=y):
            return ((x, y),)
        case TwoFingers(first=a, second=b):
            return ((a[0], a[1]), (a[2], a[3]), (b[0], b[1]), (b[2], b[3]))
        case Key() | Text() | Wait():
            return ()


def with_points_mapped(action: Action, place: Callable[[int, int], tuple[int, int]]) -> Action:
    """The same action with every point moved by `place`, e.g. from model to device coordinates.

    A stick's radius is taken as the distance that `place` gives it to the right.
    """
    match action:
        case Tap(x, y):
            return Tap(*place(x, y))
        case LongPress(x, y, seconds):
            return LongPress(*place(x, y), seconds)
        case Swipe(x, y, to_x, to_y, seconds):
            return Swipe(*place(x, y), *place(to_x, to_y), seconds)
        case Hold():
            x, y = place(action.x, action.y)
            edge_x, _ = place(action.x + action.radius, action.y)
            return attrs.evolve(action, x=x, y=y, radius=edge_x - x)
        case TwoFingers(first=a, second=b):
            return TwoFingers(
                (*place(a[0], a[1]), *place(a[2], a[3])),
                (*place(b[0], b[1]), *place(b[2], b[3])),
                action.seconds,
            )
        case Key() | Text() | Wait():
            return action


def duration_of(action: Action) -> float:
    """Seconds that the gesture itself takes on the phone."""
    match action:
        case Tap() | Key() | Text():
            return 0.0
        case LongPress(seconds=s) | Swipe(seconds=s) | Wait(seconds=s) | Hold(seconds=s) | TwoFingers(seconds=s):
            return s


@attrs.frozen
class PlannedAction:
    """One action of a chunk, with what must hold before it and what should come of it."""

    action: Action
    seq: int
    """Position in the episode's stream of planned actions: the join of two chunks counts in these."""
    planned_on: int
    """`Frame.seq` of the frame that the model saw."""
    planned_at: float
    """`Frame.requested_at` of that frame: the age of the plan counts from here."""
    epoch: int
    """Geometry epoch of that frame."""
    reflex_epoch: int
    """Number of reflexes that had fired when the plan was asked for."""
    target: Box | None
    """Device pixels that must still look as they did on the planned-on frame; None: nothing to compare."""
    idempotent: bool
    """True when doing it twice is no worse than doing it once, so that it may be retried."""


@attrs.frozen
class ActionChunk:
    """A short plan: the actions in order, all planned on one frame."""

    actions: tuple[PlannedAction, ...]
    request_id: str
    """Which plan request it answers."""
