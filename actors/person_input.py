"""What a person does on a phone that was taken over: JSON → an action, checked in every part. Pure."""

import math
from collections.abc import Mapping
from typing import Any

from policies.action import Action, Key, KeyName, LongPress, Swipe, Tap, Text
from policies.frame import Frame

KEYS: Mapping[str, KeyName] = {
    "back": KeyName.BACK,
    "home": KeyName.HOME,
    "recents": KeyName.APP_SWITCH,
    "enter": KeyName.ENTER,
}
MAX_TEXT = 500  # characters, as many as a driver types
MIN_MS, MAX_MS = 50, 5000  # of a gesture: a shorter one is no gesture, and a longer one blocks the finger
_FIELDS: Mapping[str, frozenset[str]] = {
    "tap": frozenset({"x", "y"}),
    "long_press": frozenset({"x", "y", "ms"}),
    "swipe": frozenset({"x", "y", "x2", "y2", "ms"}),
    "key": frozenset({"key"}),
    "text": frozenset({"text"}),
}
KINDS = tuple(_FIELDS)


class InputWrong(Exception):
    """The input is wrong, or nothing is shown to point at; the text says which."""


def check_input(data: Any) -> None:
    """Look whether something is an input at all, whatever the screen's size.

    Raises:
        InputWrong: it is none; the text says why.
    """
    _action(data, 1000, 1000)


def action_for(data: Any, frame: Frame | None) -> Action:
    """The action that an input stands for.

    Args:
        data: `{"kind": "tap", "x": 0.5, "y": 0.25}` and so on, see docs/farm-events.md.
        frame: The newest one: points are fractions of it.

    Raises:
        InputWrong: see there.
    """
    if frame is None:
        kind = data.get("kind") if isinstance(data, dict) else None
        if kind in ("tap", "long_press", "swipe"):
            raise InputWrong("the phone has not shown its screen yet: there is nothing to point at")
        return _action(data, 1, 1)
    return _action(data, frame.geometry.width, frame.geometry.height)


def _action(data: Any, width: int, height: int) -> Action:
    if not isinstance(data, dict):
        raise InputWrong("an input is a JSON object")
    kind = data.get("kind")
    fields = _FIELDS.get(kind) if isinstance(kind, str) else None
    if fields is None:
        raise InputWrong(f"'kind' is one of {', '.join(KINDS)}")
    extra, missing = sorted(set(data) - fields - {"kind"}), sorted(fields - set(data))
    if extra or missing:
        wrong = [f"has no {name!r}" for name in missing] + [f"does not take {str(name)[:40]!r}" for name in extra]
        raise InputWrong(f"a {kind} {', '.join(wrong)}")
    match kind:
        case "tap":
            return Tap(*_point(data, "x", "y", width, height))
        case "long_press":
            return LongPress(*_point(data, "x", "y", width, height), _seconds(data))
        case "swipe":
            end = _point(data, "x2", "y2", width, height)
            return Swipe(*_point(data, "x", "y", width, height), *end, _seconds(data))
        case "key":
            key = data["key"]
            if not isinstance(key, str) or key not in KEYS:
                raise InputWrong(f"'key' is one of {', '.join(KEYS)}")
            return Key(KEYS[key])
        case _:
            text = data["text"]
            if not isinstance(text, str) or not 0 < len(text) <= MAX_TEXT or not text.isprintable():
                raise InputWrong(f"'text' must be 1 to {MAX_TEXT} printable characters")
            return Text(text)


def _point(data: Mapping[str, Any], x: str, y: str, width: int, height: int) -> tuple[int, int]:
    return _pixel(data[x], x, width), _pixel(data[y], y, height)


def _pixel(share: Any, name: str, size: int) -> int:
    if not _is_number(share) or not 0.0 <= share <= 1.0:
        raise InputWrong(f"{name!r} must be a number from 0 to 1: a share of the screen")
    return min(size - 1, int(share * size))


def _seconds(data: Mapping[str, Any]) -> float:
    found = data["ms"]
    if not _is_number(found) or not MIN_MS <= found <= MAX_MS:
        raise InputWrong(f"'ms' must be a number from {MIN_MS} to {MAX_MS}")
    return float(found) / 1000.0


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
