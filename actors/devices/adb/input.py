"""Actions as command lines for Android's `input`, and the command that lifts a finger left on the screen."""

import math

import attrs

from actors.devices.base import ActionRefused, Unsupported
from policies.action import Action, Hold, Key, LongPress, Swipe, Tap, Text, TwoFingers, Wait, points_of
from policies.geometry import Geometry

TEXT_LIMIT = 500  # characters; `input text` injects two key events each, and takes seconds for more
_SAFE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-")


@attrs.frozen
class InputCommand:
    """What to run on the phone for one action."""

    line: str
    """For the phone's shell."""
    lift: str | None
    """To run if `line` was cut off, so that no finger stays down; None where none can."""
    seconds: float
    """How long the gesture itself takes on the phone."""


def refuse_off_screen(action: Action, geometry: Geometry, *, phone: str) -> None:
    """Let an action pass whose every point is a pixel of the screen.

    Raises:
        ActionRefused: one is not; the phone was not touched.
    """
    for x, y in points_of(action):
        if not geometry.contains(x, y):
            raise ActionRefused(
                f"{type(action).__name__} at ({x}, {y}) is off the {geometry.width}x{geometry.height} screen",
                phone=phone,
            )


def command_for(action: Action, geometry: Geometry, *, phone: str) -> InputCommand | None:
    """The command for an action; None for `Wait`, which needs no phone.

    Raises:
        ActionRefused: a point off the screen, or text that `input` cannot type.
        Unsupported: two fingers, which `input` does not have.
    """
    refuse_off_screen(action, geometry, phone=phone)
    match action:
        case Tap(x, y):
            return InputCommand(f"input tap {x} {y}", None, 0.0)
        case LongPress(x, y, seconds):
            return _swipe(x, y, x, y, seconds)
        case Swipe(x, y, to_x, to_y, seconds):
            return _swipe(x, y, to_x, to_y, seconds)
        case Key(name):
            return InputCommand(f"input keyevent KEYCODE_{name.value}", None, 0.0)
        case Text(text):
            return InputCommand(f"input text {quote_text(text, phone=phone)}", None, 0.0)
        case Hold():
            return _hold(action, geometry)
        case Wait():
            return None
        case TwoFingers():
            raise Unsupported("Android's `input` has one finger; two need a scrcpy server", phone=phone)


def quote_text(text: str, *, phone: str) -> str:
    """Text as one argument of `input text`, whose own rule is that `%s` means a blank.

    Raises:
        ActionRefused: characters that `input` drops or cannot type, or too many.
    """
    if not text:
        raise ActionRefused("there is no text to type", phone=phone)
    if len(text) > TEXT_LIMIT:
        raise ActionRefused(f"{len(text)} characters of text; `input text` takes {TEXT_LIMIT}", phone=phone)
    foreign = sorted({char for char in text if not " " <= char <= "~"})
    if foreign:
        raise ActionRefused(f"`input text` cannot type {''.join(foreign)!r}: printable ASCII only", phone=phone)
    if "%s" in text:
        raise ActionRefused("`input text` would type a blank in place of '%s'", phone=phone)
    words = text.replace(" ", "%s")
    if all(char in _SAFE for char in words):
        return words
    return "'" + words.replace("'", "'\\''") + "'"


def _swipe(x: int, y: int, to_x: int, to_y: int, seconds: float) -> InputCommand:
    milliseconds = max(0, round(seconds * 1000))
    return InputCommand(
        line=f"input swipe {x} {y} {to_x} {to_y} {milliseconds}",
        lift=f"input motionevent UP {to_x} {to_y}",
        seconds=seconds,
    )


def _hold(action: Hold, geometry: Geometry) -> InputCommand:
    angle = math.radians(action.direction_degrees)
    # a stick near the edge is pushed as far as the screen goes
    to_x = min(max(round(action.x + action.radius * math.cos(angle)), 0), geometry.width - 1)
    to_y = min(max(round(action.y - action.radius * math.sin(angle)), 0), geometry.height - 1)
    lift = f"input motionevent UP {to_x} {to_y}"
    line = (
        f"input motionevent DOWN {action.x} {action.y} && input motionevent MOVE {to_x} {to_y}"
        f" && sleep {action.seconds:.3f}; {lift}"
    )
    return InputCommand(line=line, lift=lift, seconds=action.seconds)
