"""Inputs of people: every part is checked, and points are shares of the screen."""

from typing import Any

import numpy as np
import pytest

from actors.person_input import InputWrong, action_for, check_input
from policies.action import Key, KeyName, LongPress, Swipe, Tap, Text
from policies.frame import Frame
from policies.geometry import Geometry

FRAME = Frame(np.zeros((64, 36, 3), np.uint8), 0, 0.0, 0.0, Geometry(720, 1280))


@pytest.mark.parametrize(
    ("data", "action"),
    [
        ({"kind": "tap", "x": 0.5, "y": 0.25}, Tap(360, 320)),
        ({"kind": "tap", "x": 1, "y": 1.0}, Tap(719, 1279)),
        ({"kind": "long_press", "x": 0, "y": 0, "ms": 800}, LongPress(0, 0, 0.8)),
        ({"kind": "swipe", "x": 0.1, "y": 0.5, "x2": 0.9, "y2": 0.5, "ms": 200}, Swipe(72, 640, 648, 640, 0.2)),
        ({"kind": "key", "key": "recents"}, Key(KeyName.APP_SWITCH)),
        ({"kind": "text", "text": "123 456"}, Text("123 456")),
    ],
)
def test_every_kind(data: dict[str, Any], action: object) -> None:
    check_input(data)
    assert action_for(data, FRAME) == action


@pytest.mark.parametrize(
    "data",
    [
        None, [], "tap", {}, {"kind": 1}, {"kind": ["tap"]}, {"kind": "root"}, {"kind": "tap", "x": 0.5},
        {"kind": "tap", "x": 0.5, "y": 1.01}, {"kind": "tap", "x": -0.1, "y": 0}, {"kind": "tap", "x": True, "y": 0},
        {"kind": "tap", "x": float("nan"), "y": 0}, {"kind": "tap", "x": "0", "y": 0},
        {"kind": "tap", "x": 0, "y": 0, "z": 1}, {"kind": "long_press", "x": 0, "y": 0, "ms": 1e9},
        {"kind": "swipe", "x": 0, "y": 0, "x2": 0, "y2": 0, "ms": 0}, {"kind": "key", "key": "power"},
        {"kind": "key", "key": {}}, {"kind": "text", "text": ""}, {"kind": "text", "text": "a\nb"},
        {"kind": "text", "text": "a" * 501}, {"kind": "text", "text": 1},
    ],
)  # fmt: skip
def test_a_wrong_one_is_told(data: Any) -> None:
    with pytest.raises(InputWrong):
        check_input(data)
    with pytest.raises(InputWrong):
        action_for(data, FRAME)


def test_without_a_picture_there_is_nothing_to_point_at() -> None:
    assert action_for({"kind": "key", "key": "back"}, None) == Key(KeyName.BACK)
    with pytest.raises(InputWrong, match="nothing to point at"):
        action_for({"kind": "tap", "x": 0.5, "y": 0.5}, None)
