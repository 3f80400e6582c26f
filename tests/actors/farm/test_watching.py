"""The events' messages and pace: whatever a client says, and as many pictures as it draws."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.farm.live_views import changed_rows
from actors.farm.watching import (
    MAX_MESSAGE,
    MOST_FPS,
    Pace,
    Screens,
    Seen,
    Watch,
    WatchWrong,
    parse_message,
    picture_message,
)


def test_a_subscription_and_an_acknowledgement() -> None:
    text = '{"type":"watch","phones":["a","b","a"],"screens":{"fps":1000,"side":240},"detail":"b"}'
    watch = parse_message(text)

    assert watch == Watch(("a", "b"), Screens(MOST_FPS, 240), "b")
    assert parse_message('{"type":"watch","phones":[],"screens":null,"detail":null}') == Watch()
    assert Watch().is_hidden
    assert Watch(("*",)).wants("anything")
    assert parse_message('{"type":"seen","count":3}') == Seen(3)


BAD_SCREENS: list[Any] = [
    1,
    [],
    {},
    {"fps": 0, "side": 240},
    {"fps": True, "side": 240},
    {"fps": 1, "side": 10**9},
    {"fps": 1, "side": 240.5},
    {"fps": float("nan"), "side": 240},
    {"fps": 1, "side": True},
]


@pytest.mark.parametrize(
    "text",
    [
        "", "null", "[]", "{", "[" * 100_000, "x" * (MAX_MESSAGE + 1), '{"type":"seen"}', '{"type":"seen","count":-1}',
        '{"type":"seen","count":true}', '{"type":"seen","count":1.5}', '{"type":"watch"}', '{"type":1}',
        '{"type":"watch","phones":"*"}', '{"type":"watch","phones":[1]}', '{"type":"watch","phones":[],"detail":1}',
        json.dumps({"type": "watch", "phones": ["p"] * 2001}),
        *(json.dumps({"type": "watch", "phones": [], "screens": screens}) for screens in BAD_SCREENS),
    ],
)  # fmt: skip
def test_what_is_none_is_told(text: str) -> None:
    with pytest.raises(WatchWrong):
        parse_message(text)


@given(st.lists(st.one_of(st.none(), st.integers(0, 50)), max_size=60), st.integers(1, 10))
def test_never_more_than_two_a_phone_are_on_their_way(moves: list[int | None], count: int) -> None:
    pace, watched = Pace(), [f"p{number}" for number in range(count)]
    for move in moves:
        if move is not None:
            pace.seen(move)
            continue
        for _ in pace.next_phones(watched):
            pace.sent()
        assert 0 <= pace.unseen <= 2 * count


def test_a_slow_viewer_gets_every_phone_in_its_turn() -> None:
    pace, watched = Pace(), ["a", "b", "c", "d"]
    for _ in range(2):
        for _ in pace.next_phones(watched):
            pace.sent()
    assert pace.next_phones(watched) == []

    drawn = []
    for _ in range(4):
        pace.seen(1)
        for phone in pace.next_phones(watched):
            drawn.append(phone)
            pace.sent()

    assert sorted(drawn) == watched


def test_changes_are_told_and_what_is_gone() -> None:
    old, new = {"a": {"n": 1}, "b": {"n": 1}}, {"a": {"n": 1}, "c": {"n": 2}}

    assert changed_rows(old, new) == ([{"n": 2}], ["b"])


def test_a_picture_says_how_long_its_header_is() -> None:
    message = picture_message("Zähler", {"seq": 3}, b"\xff\xd8jpeg")

    length = int.from_bytes(message[:4], "big")
    assert json.loads(message[4 : 4 + length]) == {"phone": "Zähler", "seq": 3}
    assert message[4 + length :] == b"\xff\xd8jpeg"
