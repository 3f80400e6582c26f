import json
from base64 import b64encode
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference import wire
from inference.config import Dialect
from inference.errors import EngineRefused
from inference.messages import Constraint, ImagePart, Message, Prompt, TextPart
from inference.wire import ImageUrls, encode_abort, encode_completion
from runtime.ids import TenantId


def image(content: bytes = b"\xff\xd8jpeg") -> ImagePart:
    return ImagePart(jpeg=content, sha256=sha256(content).hexdigest(), width=4, height=6)


def prompt(**changes: Any) -> Prompt:
    fields: dict[str, Any] = {
        "request_id": "run-1-p1-0007",
        "tenant": TenantId("acme"),
        "routing_key": "run-1-p1",
        "messages": (
            Message("system", (TextPart("You play."),)),
            Message("user", (image(), TextPart('Goal: 领取 "daily" reward'))),
        ),
        "max_tokens": 64,
        "constraint": Constraint(regex="T[0-9]{3},[0-9]{3}", ebnf="root ::= act", gbnf="root ::= g", json_schema="{}"),
        "stop": ("\n",),
    }
    return Prompt(**{**fields, **changes})


COMMON = (
    '"messages":[{"role":"system","content":"You play."},{"role":"user","content":['
    '{"type":"image_url","image_url":{"url":"data:image/jpeg;base64,/9hqcGVn"}},'
    '{"type":"text","text":"Goal: 领取 \\"daily\\" reward"}]}],'
    '"max_tokens":64,"temperature":0.0,"stop":["\\n"],"stream":true,"stream_options":{"include_usage":true}'
)


@pytest.mark.parametrize(
    ("dialect", "extension"),
    [
        (Dialect.SGLANG, ',"regex":"T[0-9]{3},[0-9]{3}","rid":"run-1-p1-0007","cache_salt":"acme"}'),
        (
            Dialect.VLLM,
            ',"structured_outputs":{"regex":"T[0-9]{3},[0-9]{3}"},"request_id":"run-1-p1-0007","cache_salt":"acme"}',
        ),
        (Dialect.LLAMACPP, ',"grammar":"root ::= g"}'),
        (
            Dialect.OPENAI,
            ',"response_format":{"type":"json_schema","json_schema":{"name":"reply","schema":{},"strict":true}}}',
        ),
    ],
)
def test_golden_bytes(dialect: Dialect, extension: str) -> None:
    request = encode_completion(prompt(), dialect=dialect, model="qwen3-vl", api_key="k3y")

    assert request.path == "/v1/chat/completions"
    assert request.body == ('{"model":"qwen3-vl",' + COMMON + extension).encode()
    assert request.headers == (
        ("Content-Type", "application/json"),
        ("Accept", "text/event-stream"),
        ("Authorization", "Bearer k3y"),
        ("X-SMG-Routing-Key", "run-1-p1"),
    )


@pytest.mark.parametrize(
    ("dialect", "constraint", "field", "value"),
    [
        (Dialect.SGLANG, Constraint(ebnf="e", json_schema="{}"), "ebnf", "e"),
        (Dialect.SGLANG, Constraint(json_schema='{"a": 1}', gbnf="g"), "response_format", None),
        (Dialect.VLLM, Constraint(ebnf="e"), "structured_outputs", {"grammar": "e"}),
        (Dialect.VLLM, Constraint(gbnf="g"), "structured_outputs", {"grammar": "g"}),
        (Dialect.VLLM, Constraint(json_schema='{"a": 1}'), "structured_outputs", {"json": {"a": 1}}),
        (Dialect.LLAMACPP, Constraint(regex="r", json_schema='{"a": 1}'), "json_schema", {"a": 1}),
    ],
)
def test_the_form_that_the_engine_understands_is_sent(
    dialect: Dialect, constraint: Constraint, field: str, value: Any
) -> None:
    body = json.loads(encode_completion(prompt(constraint=constraint), dialect=dialect, model="m").body)

    sent = {"regex", "ebnf", "structured_outputs", "grammar", "json_schema", "response_format"} & set(body)
    assert sent == {field}
    if value is not None:
        assert body[field] == value
    else:
        assert body[field]["json_schema"]["schema"] == {"a": 1}


@pytest.mark.parametrize(
    ("dialect", "constraint"),
    [
        (Dialect.SGLANG, Constraint(gbnf="g")),
        (Dialect.LLAMACPP, Constraint(regex="r", ebnf="e")),
        (Dialect.OPENAI, Constraint(regex="r", ebnf="e", gbnf="g")),
    ],
)
def test_a_constraint_that_no_form_carries_is_refused_never_dropped(dialect: Dialect, constraint: Constraint) -> None:
    with pytest.raises(EngineRefused, match="constrained = false"):
        encode_completion(prompt(constraint=constraint), dialect=dialect, model="m")


@pytest.mark.parametrize("dialect", Dialect)
def test_no_constraint_sends_none(dialect: Dialect) -> None:
    body = json.loads(encode_completion(prompt(constraint=Constraint(), stop=()), dialect=dialect, model="m").body)

    extras = {"rid", "request_id", "cache_salt"}
    assert set(body) - extras == {"model", "messages", "max_tokens", "temperature", "stream", "stream_options"}


@given(st.text(), st.text(), st.binary(max_size=200), st.sampled_from(Dialect))
def test_any_text_and_picture_arrives_as_it_was(system: str, question: str, jpeg: bytes, dialect: Dialect) -> None:
    given_prompt = prompt(
        messages=(Message("system", (TextPart(system),)), Message("user", (TextPart(question), image(jpeg)))),
        constraint=Constraint(),
    )
    request = encode_completion(given_prompt, dialect=dialect, model="m")

    body = json.loads(request.body)
    assert body["messages"][0]["content"] == system
    text, picture = body["messages"][1]["content"]
    assert text["text"] == question
    assert picture["image_url"]["url"] == "data:image/jpeg;base64," + b64encode(jpeg).decode()
    assert request == encode_completion(given_prompt, dialect=dialect, model="m")


def test_a_growing_prompt_keeps_its_beginning() -> None:
    first = prompt()
    longer = prompt(messages=(*first.messages, Message("assistant", (TextPart("T001,001"),))))
    one, two = (encode_completion(one, dialect=Dialect.SGLANG, model="m").body for one in (first, longer))

    assert two.startswith(one[: one.index(b'],"max_tokens"')])


def test_lone_surrogates_become_question_marks() -> None:
    odd = prompt(messages=(Message("user", (TextPart("a\ud800b"),)),))
    assert b'"a?b"' in encode_completion(odd, dialect=Dialect.SGLANG, model="m").body


@pytest.mark.parametrize("key", ["", "a\r\nX-Evil: 1", "ключ", "a\x00"])
def test_a_routing_key_that_no_header_carries_is_an_error(key: str) -> None:
    with pytest.raises(ValueError, match="routing key"):
        encode_completion(prompt(routing_key=key), dialect=Dialect.SGLANG, model="m")


def test_a_bad_api_key_is_not_repeated_in_the_error() -> None:
    with pytest.raises(ValueError, match="API key") as caught:
        encode_completion(prompt(), dialect=Dialect.OPENAI, model="m", api_key="s3cret\n")
    assert "s3cret" not in str(caught.value)


def test_too_large_a_body_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "MAX_BODY_BYTES", 1000)
    big = prompt(messages=(Message("user", (image(b"x" * 1000),)),))
    with pytest.raises(EngineRefused, match="1000 are allowed"):
        encode_completion(big, dialect=Dialect.SGLANG, model="m")


def test_equal_images_are_encoded_once_within_a_bound() -> None:
    urls = ImageUrls(max_bytes=300)
    for _ in range(5):
        urls.url_for(image(b"a" * 60), 0.0)
        urls.url_for(image(b"b" * 60), 0.0)
    assert urls.encoded == 2

    for content in (b"c", b"d", b"e"):
        urls.url_for(image(content * 60), 0.0)
    assert urls.held_bytes <= 300
    urls.url_for(image(b"a" * 60), 0.0)
    assert urls.encoded == 6
    urls.url_for(image(b"f" * 1000), 0.0)  # larger than the whole bound: it still works
    assert urls.encoded == 7


def test_abort_body() -> None:
    assert encode_abort('r"1') == b'{"rid":"r\\"1"}'


def test_images_that_nobody_asks_for_are_forgotten() -> None:
    """A farm's pool lives for weeks: it keeps nothing of episodes that are over."""
    urls = ImageUrls()
    urls.url_for(image(b"a" * 60), 0.0)
    urls.url_for(image(b"b" * 60), 50.0)
    urls.url_for(image(b"a" * 60), 50.0)
    held = urls.held_bytes
    urls.url_for(image(b"a" * 60), 110.0)
    assert (urls.encoded, urls.held_bytes) == (2, held)
    urls.url_for(image(b"c" * 60), 115.0)
    assert (urls.encoded, urls.held_bytes) == (3, held)
    urls.url_for(image(b"c" * 60), 300.0)
    assert (urls.encoded, urls.held_bytes) == (4, held // 2)
