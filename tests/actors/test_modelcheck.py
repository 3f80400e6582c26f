from pathlib import Path

import attrs
import numpy as np
import pytest

from actors.assets import load_profile
from actors.modelcheck import Look, drawn, fields_for, judge, request_for, words_for
from inference.messages import TextPart
from inference.profile import ModelProfile
from policies.action import Key, KeyName, LongPress, Swipe, Tap, Wait
from policies.frame import Pixels
from policies.planner import FrameRef

PROFILE = ModelProfile()


def shot(width: int = 720, height: int = 1280) -> Pixels:
    return np.full((height, width, 3), 90, dtype=np.uint8)


def test_the_request_is_the_one_that_a_bot_sends_first() -> None:
    system, user = request_for(shot(), PROFILE, "Open the chest.").turns
    texts = [part.text for part in user.parts if isinstance(part, TextPart)]

    assert system.parts == (TextPart(PROFILE.system),)
    assert [type(part) for part in user.parts] == [TextPart, FrameRef, TextPart]
    assert texts[0] == PROFILE.history_heading
    assert "Goal: Open the chest." in texts[1]
    assert "scheduled: none" in texts[1]


def test_actions_are_placed_on_the_picture_up_to_the_first_that_is_off_it() -> None:
    verdict = judge("T500,500;T1200,100;B", request_for(shot(), PROFILE, "g"), PROFILE)

    assert [look.lands for look in verdict.looks] == [Tap(360, 640), None, None]
    assert (verdict.off_screen, verdict.is_usable) == (2, True)


@pytest.mark.parametrize(
    ("text", "usable"),
    [("T500,500", True), ("X1", True), ("T1200,100", False), ("I do not know.", False), ("", False)],
)
def test_usable_is_what_would_do_something(text: str, usable: bool) -> None:
    verdict = judge(text, request_for(shot(), PROFILE, "g"), PROFILE)

    assert verdict.is_usable is usable
    assert bool(verdict.failure) is (not verdict.looks)


def test_a_cut_reply_loses_the_action_that_may_be_half() -> None:
    verdict = judge("T500,500;T100,10", request_for(shot(), PROFILE, "g"), PROFILE, cut=True)

    assert [look.lands for look in verdict.looks] == [Tap(360, 640)]
    assert verdict.dropped == "T100,10"


def test_pixels_of_the_resized_picture_come_back_to_where_they_were_meant() -> None:
    profile = load_profile("ui-tars-1.5", Path())
    text = "Thought: t\nAction: click(start_box='(364,644)')"  # the middle of 728 x 1288, the resized 720 x 1280
    verdict = judge(text, request_for(shot(), profile, "g"), profile)

    assert [look.lands for look in verdict.looks] == [Tap(360, 640)]


def test_drawing_marks_what_is_touched_and_leaves_the_rest_and_the_original() -> None:
    picture = shot()
    looks = [
        Look(1, Tap(0, 0), Tap(200, 300)),
        Look(2, Tap(0, 0), Swipe(100, 900, 600, 900)),
        Look(3, Tap(0, 0), None),
        Look(4, Wait(1.0), Wait(1.0)),
    ]
    marked = drawn(picture, looks)

    assert picture.min() == picture.max() == 90
    changed = (marked != picture).any(axis=2)
    assert changed[300, 200 - 25] or changed[300, 200 + 25]
    assert changed[900, 350], "no line between the swipe's ends"
    assert not changed[:200].any()
    assert not changed[1000:].any()


@pytest.mark.parametrize("at", [(0, 0), (719, 0), (0, 1279), (719, 1279)])
def test_marks_in_the_corners_stay_on_the_picture(at: tuple[int, int]) -> None:
    marked = drawn(shot(), [Look(12, Tap(0, 0), Tap(*at))])

    assert marked.shape == shot().shape
    assert (marked != 90).any()


def test_words_and_fields() -> None:
    assert words_for(Tap(3, 4)) == "tap 3, 4"
    assert words_for(LongPress(3, 4, 0.8)) == "long_press 3, 4, 0.8"
    assert words_for(None) == "not done"
    assert fields_for(Key(KeyName.BACK)) == {"kind": "key", "name": "BACK"}
    assert fields_for(attrs.evolve(Tap(3, 4), x=5)) == {"kind": "tap", "x": 5, "y": 4}
