"""What the assistant says is read back as it was, and fits the schema file."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlassist.messages import Event, Stage
from sqlassist.protocol import Malformed
from sqlassist.protocol_replies import (
    Bye,
    ErrorMessage,
    EventMessage,
    HistoryMessage,
    Pong,
    Reply,
    Reviewed,
    Welcome,
    decode_reply,
    encode,
)
from tests.kit.protocol_schema import check_reply

REPLIES: list[Reply] = [
    Welcome(
        1,
        "s1",
        "ann",
        "north",
        ("viewer", "admin"),
        {"message_bytes": 65536.0},
        {"schema": "a1"},
        True,
        3,
        "slow_reader",
        ("q1",),
    ),
    EventMessage("q1", 4, Event(Stage.INTENT, {"route": "metric", "why": "每天"})),
    EventMessage("q1", 5, Event(Stage.ANSWER, {"rows": 3})),
    ErrorMessage("too_many_questions", "two at a time", "q3", 0.5),
    ErrorMessage("not_json", "a message is one JSON object"),
    HistoryMessage(({"at": "2026-01-02T03:04:05+00:00", "id": "q", "verb": "ask", "text": "x", "stage": "answer"},)),
    Reviewed("r1", "42"),
    Pong(),
    Bye("draining", "the server ends", 5.0),
    Bye("silent", "nothing came for 90 s"),
]


@pytest.mark.parametrize("reply", REPLIES, ids=lambda reply: type(reply).__name__)
def test_what_is_encoded_is_decoded_and_fits_the_schema(reply: Reply) -> None:
    assert decode_reply(check_reply(encode(reply))) == reply


def test_only_the_end_of_a_question_is_last() -> None:
    ends = {stage for stage in Stage if json.loads(check_reply(encode(EventMessage("q", 1, Event(stage)))))["last"]}

    assert ends == {Stage.ANSWER, Stage.CLARIFICATION, Stage.REFUSAL, Stage.FAILED, Stage.CANCELLED}


@pytest.mark.parametrize("value", [math.nan, math.inf, "\ud800"])
def test_data_that_is_no_json_is_a_value_error(value: object) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  # three kinds of it, from three places
        encode(EventMessage("q", 1, Event(Stage.ROWS, {"rows": [[value]]})))


def test_data_of_another_type_is_a_type_error() -> None:
    with pytest.raises(TypeError):
        encode(EventMessage("q", 1, Event(Stage.ROWS, {"rows": {1, 2}})))


@given(st.text(max_size=80))
def test_no_text_raises(text: str) -> None:
    decode_reply(text)


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "{}",
        '{"type":"event","id":"q","seq":Infinity,"stage":"rows","data":{}}',
        '{"type":"event","id":"q","seq":1,"stage":"unheard","data":{}}',
        '{"type":"welcome","limits":3}',
        '{"type":[]}',
        "[" * 50_000,
    ],
)
def test_what_is_no_reply_is_said(text: str) -> None:
    assert isinstance(decode_reply(text), Malformed)


def test_a_field_that_is_not_known_is_no_mistake() -> None:
    assert decode_reply('{"type":"pong","new":1}') == Pong()


@pytest.mark.parametrize(
    ("stage", "data"),
    [
        ("rows", {"columns": "x", "rows": []}),
        ("rows", {"columns": [1], "rows": [[1], 5]}),
        ("rows", {"columns": [], "rows": {"a": 1}}),
        ("clarification", {"choices": 7}),
        ("clarification", {"choices": [{"x": 1}]}),
        ("scope", {"tables": ["a"]}),
        ("scope", {"tables": 5}),
        ("failed", {"retry_after": "soon"}),
        ("failed", {"retry_after": math.inf}),
    ],
)
def test_an_event_of_another_form_is_said(stage: str, data: object) -> None:
    text = json.dumps({"type": "event", "id": "q1", "seq": 1, "stage": stage, "data": data, "last": True})

    reply = decode_reply(text)

    assert isinstance(reply, Malformed)
    assert reply.code == "bad_field"
