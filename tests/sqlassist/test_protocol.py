"""Every text is a message or a `Malformed`; and the schema file says the same as the code."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqlassist.messages import Question, Verb
from sqlassist.protocol import (
    MAX_SQL,
    MAX_TEXT,
    Ask,
    Cancel,
    Hello,
    HistoryRequest,
    Leave,
    Malformed,
    Ping,
    Request,
    Review,
    decode,
    encode_request,
)
from tests.kit.protocol_schema import check_request, is_request

_IDS = st.from_regex(r"[A-Za-z0-9._-]{1,64}", fullmatch=True)
_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60).filter(lambda text: text.strip())
_NUMBERS = st.integers(0, 2**53 - 1)
_QUESTIONS = st.one_of(
    st.builds(Question, _IDS, _TEXTS, think=st.sampled_from([None, True, False])),
    st.builds(Question, _IDS, verb=st.just(Verb.CHOOSE), of=_IDS, choice=_IDS),
    st.builds(Question, _IDS, _TEXTS, verb=st.just(Verb.FIX), sql=_TEXTS),
    st.builds(Question, _IDS, verb=st.just(Verb.EXPLAIN), sql=_TEXTS),
    st.builds(Question, _IDS, verb=st.just(Verb.EXPLAIN), of=_IDS),
)
_REQUESTS = st.one_of(
    st.builds(Hello, _NUMBERS, _TEXTS),
    st.builds(Hello, _NUMBERS, _TEXTS, session=_IDS, after=_NUMBERS),
    st.builds(Ask, _QUESTIONS),
    st.builds(Cancel, _IDS),
    st.builds(Review, _IDS, _IDS, _TEXTS, _TEXTS),
    st.builds(HistoryRequest, st.integers(1, 200)),
    st.builds(Ping, _NUMBERS),
    st.just(Leave()),
)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)
_FIELDS = st.sampled_from(
    ["id", "text", "sql", "of", "choice", "v", "token", "session", "after", "limit", "think", "x"]
)
_KINDS = st.sampled_from(["hello", "ask", "cancel", "choose", "fix", "explain", "review", "history", "ping", "bye"])
_VALUES = _JSON | _IDS | st.integers(-1, 300) | st.sampled_from(["", " ", "a" * 65, "a" * (MAX_TEXT + 1)])


@given(_REQUESTS)
def test_what_is_encoded_is_decoded_and_fits_the_schema(request: Request) -> None:
    assert decode(check_request(encode_request(request))) == request


@given(st.text(max_size=200))
def test_no_text_raises(text: str) -> None:
    decode(text)


@given(_KINDS, st.dictionaries(_FIELDS, _VALUES, max_size=5))
def test_what_is_taken_fits_the_schema(kind: str, fields: dict[str, Any]) -> None:
    text = json.dumps({"type": kind, **fields})

    if not isinstance(decode(text), Malformed):
        check_request(text)


@given(_REQUESTS, _FIELDS, _VALUES)
def test_a_message_with_one_field_changed_is_taken_as_the_schema_says(request: Request, name: str, value: Any) -> None:
    message = {**json.loads(encode_request(request)), name: value}
    text = json.dumps(message)

    decoded = decode(text)

    # the schema cannot say "not only blanks" and "no half of a character"
    harder = isinstance(decoded, Malformed) and ("must not be empty" in decoded.message or "half" in decoded.message)
    not_json = isinstance(decoded, Malformed) and decoded.code == "not_json"
    assert harder or not_json or is_request(text) == (not isinstance(decoded, Malformed))


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("", "not_json", "one JSON object"),
        ("[" * 60_000, "not_json", "one JSON object"),
        ('{"type":"ping","after":' + "9" * 5000 + "}", "not_json", "one JSON object"),
        ('{"type":"ping","after":NaN}', "not_json", "one JSON object"),
        ("[]", "not_a_message", "one JSON object"),
        ("{}", "unknown_type", "one of hello, ask"),
        ('{"type":["ask"]}', "unknown_type", "one of hello, ask"),
        ('{"type":"ask","id":"a"}', "missing_field", "ask: it needs 'text'"),
        ('{"type":"ask","id":"a","text":"  "}', "bad_field", "'text' must not be empty"),
        ('{"type":"ask","id":"a","text":7}', "bad_field", "'text' must be a text"),
        ('{"type":"ask","id":"a/b","text":"x"}', "bad_field", "'id' must be 1 to 64 letters"),
        ('{"type":"ask","id":"a","text":"\\ud800"}', "bad_field", "half of a character"),
        ('{"type":"ask","id":"a","text":"x","tenant":"b"}', "unknown_field", "has no 'tenant'"),
        ('{"type":"ask","id":"a","text":"x","think":1}', "bad_field", "'think' must be true, false or null"),
        ('{"type":"explain","id":"a"}', "bad_field", "either 'sql' or 'of'"),
        ('{"type":"explain","id":"a","sql":"x","of":"b"}', "bad_field", "either 'sql' or 'of'"),
        ('{"type":"history","limit":201}', "bad_field", "at most 200"),
        ('{"type":"history","limit":true}', "bad_field", "whole number from 1"),
        ('{"type":"ping","after":-1}', "bad_field", "whole number from 0"),
        (json.dumps({"type": "fix", "id": "a", "sql": "x" * (MAX_SQL + 1)}), "bad_field", "at most 20000 characters"),
        (json.dumps({"type": "ask", "id": "a", "text": "x" * 70_000}), "too_large", "at most 65536 bytes"),
        (json.dumps({"type": "ask", "id": "a", "text": "字" * 30_000}, ensure_ascii=False), "too_large", "65536 bytes"),
    ],
)
def test_what_is_wrong_is_said(text: str, code: str, message: str) -> None:
    decoded = decode(text)

    assert isinstance(decoded, Malformed)
    assert decoded.code == code
    assert message in decoded.message


def test_the_id_of_a_bad_message_is_kept_and_a_token_is_not_shown() -> None:
    malformed = decode('{"type":"ask","id":"q1"}')

    assert isinstance(malformed, Malformed)
    assert malformed.id == "q1"
    assert "sesame" not in repr(decode('{"type":"hello","v":1,"token":"sesame"}'))
