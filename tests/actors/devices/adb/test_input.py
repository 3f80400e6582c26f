"""Actions as command lines."""

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.devices.adb.input import TEXT_LIMIT, command_for, quote_text
from actors.devices.base import ActionRefused, Unsupported
from policies.action import Action, Hold, Key, KeyName, LongPress, Swipe, Tap, Text, TwoFingers, Wait
from policies.geometry import Geometry

SCREEN = Geometry(720, 1280)


@pytest.mark.parametrize(
    ("action", "line"),
    [
        (Tap(10, 20), "input tap 10 20"),
        (LongPress(10, 20, 0.8), "input swipe 10 20 10 20 800"),
        (Swipe(10, 20, 30, 40, 0.25), "input swipe 10 20 30 40 250"),
        (Key(KeyName.BACK), "input keyevent KEYCODE_BACK"),
        (Text("hi there"), "input text hi%sthere"),
        (
            Hold(100, 200, 90.0, 50, 1.5),
            "input motionevent DOWN 100 200 && input motionevent MOVE 100 150 && sleep 1.500;"
            " input motionevent UP 100 150",
        ),
    ],
)
def test_lines(action: Action, line: str) -> None:
    command = command_for(action, SCREEN, phone="p")

    assert command is not None
    assert command.line == line


def test_gestures_say_how_their_finger_is_lifted() -> None:
    swipe = command_for(Swipe(1, 2, 3, 4), SCREEN, phone="p")
    tap = command_for(Tap(1, 2), SCREEN, phone="p")

    assert swipe is not None
    assert tap is not None
    assert (swipe.lift, tap.lift) == ("input motionevent UP 3 4", None)


def test_waiting_needs_no_phone() -> None:
    assert command_for(Wait(1.0), SCREEN, phone="p") is None


def test_a_stick_at_the_edge_stays_on_the_screen() -> None:
    command = command_for(Hold(10, 10, 180.0, 500, 1.0), SCREEN, phone="p")

    assert command is not None
    assert command.lift == "input motionevent UP 0 10"


@pytest.mark.parametrize(
    "action",
    [Tap(720, 0), Tap(0, -1), Swipe(0, 0, 0, 1280), LongPress(9999, 0, 1.0), Hold(-1, 0, 0.0, 10, 1.0)],
)
def test_points_off_the_screen_are_refused(action: Action) -> None:
    with pytest.raises(ActionRefused, match="off the 720x1280 screen"):
        command_for(action, SCREEN, phone="p")


def test_two_fingers_are_unsupported() -> None:
    with pytest.raises(Unsupported, match="one finger"):
        command_for(TwoFingers((1, 1, 2, 2), (3, 3, 4, 4)), SCREEN, phone="p")


@given(st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=1, max_size=60))
def test_text_is_one_shell_word_that_types_the_text(text: str) -> None:
    if "%s" in text:
        with pytest.raises(ActionRefused):
            quote_text(text, phone="p")
        return

    assert [word.replace("%s", " ") for word in shlex.split(quote_text(text, phone="p"))] == [text]


@pytest.mark.parametrize("text", ["", "naïve", "日本", "two\nlines", "x" * (TEXT_LIMIT + 1), "100%s"])
def test_text_that_cannot_be_typed_is_refused(text: str) -> None:
    with pytest.raises(ActionRefused):
        command_for(Text(text), SCREEN, phone="p")
