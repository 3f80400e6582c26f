import contextlib
import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference import reply
from inference.errors import (
    EngineError,
    EngineGarbled,
    EngineLost,
    EngineNotReady,
    EngineRefused,
    EngineTooSlow,
    Overloaded,
)
from inference.messages import Delta, Usage
from inference.reply import ReplyReader, error_for_status
from tests.kit.engines import USAGE, delta, event, finish

DONE = b"data: [DONE]\n\n"
WHOLE = (
    delta({"role": "assistant", "content": ""})
    + delta({"content": "T447"})
    + delta({"content": ",081"})
    + finish("stop")
    + event({"choices": [], "usage": USAGE})
    + DONE
)


def read(*chunks: bytes) -> reply.Reply:
    reader = ReplyReader("e1")
    for chunk in chunks:
        reader.feed(chunk)
    return reader.result()


@given(st.lists(st.integers(0, len(WHOLE)), max_size=10))
def test_a_whole_answer_however_it_is_torn_apart(cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(WHOLE)]
    answer = read(*(WHOLE[start:end] for start, end in itertools.pairwise(edges)))

    assert (answer.text, answer.finish_reason) == ("T447,081", "stop")
    assert answer.usage == Usage(prompt_tokens=120, cached_tokens=100, output_tokens=3, image_tokens=64)
    assert answer.usage_counted


def test_pieces_count_tokens_and_thoughts_not_the_role() -> None:
    reader = ReplyReader("e1")
    reader.feed(delta({"role": "assistant", "content": ""}))
    assert reader.pieces == 0
    reader.feed(delta({"reasoning_content": "hm"}))
    assert reader.pieces == 1
    assert not reader.done


def test_missing_usage_counts_pieces_and_says_so() -> None:
    answer = read(delta({"content": "a"}), delta({"content": "b"}), finish("length"), DONE)

    assert answer.usage == Usage(0, 0, 2)
    assert not answer.usage_counted
    assert answer.finish_reason == "length"


def test_no_end_mark_is_forgiven_when_the_finish_came() -> None:
    assert read(delta({"content": "a"}), finish("stop")).text == "a"


def test_more_cached_tokens_than_there_are_count_as_all() -> None:
    usage = {"prompt_tokens": 5, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 500}}

    assert read(finish("stop"), event({"choices": [], "usage": usage})).usage == Usage(5, 5, 1)


def test_usage_without_details_is_read() -> None:
    usage = {"prompt_tokens": 5, "completion_tokens": 1, "prompt_tokens_details": None}
    assert read(finish("stop"), event({"choices": [], "usage": usage})).usage == Usage(5, 0, 1)


def test_nothing_counts_after_the_end_mark() -> None:
    assert read(delta({"content": "a"}), finish("stop"), DONE, b"data: ???\n\n").text == "a"


@pytest.mark.parametrize(
    ("chunk", "kind", "words"),
    [
        (b"data: {{{\n\n", EngineGarbled, "no JSON"),
        (b"data: " + b"[" * 100_000 + b"\n\n", EngineGarbled, "no JSON"),
        (b"data: 7\n\n", EngineGarbled, "no object"),
        (event({"id": 1}), EngineGarbled, "no choices"),
        (event({"choices": [7]}), EngineGarbled, "choice"),
        (event({"choices": [{"delta": "x"}]}), EngineGarbled, "delta"),
        (delta({"content": 7}), EngineGarbled, "no text"),
        (finish("magic"), EngineGarbled, "magic"),
        (event({"choices": [], "usage": {"prompt_tokens": -1}}), EngineGarbled, "-1"),
        (event({"choices": [], "usage": {"completion_tokens": "many"}}), EngineGarbled, "many"),
        (event({"choices": [], "usage": {"completion_tokens": 10**400}}), EngineGarbled, "1329 bits"),
        (event({"choices": [], "usage": {"prompt_tokens": 100_000_001}}), EngineGarbled, "no number of tokens"),
        (event({"error": {"message": "\x1b]0;mine\x07 \x1b[2J"}}), EngineLost, r"\\x1b\]0;mine\\x07 \\x1b\[2J"),
        (finish("content_filter"), EngineRefused, "filter"),
        (event({"error": {"message": "too long", "code": 400}}), EngineRefused, "too long"),
        (event({"error": {"message": "boom", "code": "500"}}), EngineLost, "boom"),
        (event({"error": {"message": "The request queue is full.", "code": 503}}), Overloaded, "full"),
        (event({"error": "just words"}), EngineLost, "just words"),
        (b"data: " + b"x" * (2 << 20), EngineGarbled, "longer"),
    ],
)
def test_bad_events(chunk: bytes, kind: type[EngineError], words: str) -> None:
    reader = ReplyReader("e1")
    with pytest.raises(kind, match=words) as caught:
        reader.feed(chunk)
    assert caught.value.engine == "e1"
    assert len(str(caught.value)) < 500
    assert caught.value.over == (kind is not EngineGarbled)


def test_a_stream_that_breaks_off_or_was_aborted_is_lost() -> None:
    with pytest.raises(EngineLost, match="broke off") as caught:
        read(delta({"content": "T44"}))
    assert not caught.value.over
    with pytest.raises(EngineLost, match="aborted") as caught:
        read(delta({"content": "T44"}), finish("abort"), DONE)
    assert caught.value.over
    with pytest.raises(EngineGarbled, match="finish_reason"):
        read(delta({"content": "T44"}), DONE)


def test_an_endless_answer_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reply, "MAX_REPLY_BYTES", 1000)
    with pytest.raises(EngineGarbled, match="longer than 1000"):
        read(*[delta({"content": "a"})] * 100)


@given(st.binary(max_size=300))
def test_any_bytes_give_an_answer_or_an_engine_error(noise: bytes) -> None:
    try:
        read(noise)
    except EngineError:
        pass
    else:
        raise AssertionError("noise is no answer")


json_values: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["delta", "usage", "content"]), inner),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["choices", "usage", "error", "id"]), json_values))
def test_any_json_gives_an_answer_or_an_engine_error(fields: dict[str, Any]) -> None:
    with contextlib.suppress(EngineError):
        read(b"data: " + json.dumps(fields).encode() + b"\n\n", finish("stop"))


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (400, b"The input (27012 tokens) is longer", EngineRefused),
        (401, b"", EngineRefused),
        (404, b"no such model", EngineRefused),
        (408, b"", EngineTooSlow),
        (429, b"", Overloaded),
        (500, b"File name too long", EngineLost),
        (502, b"", EngineLost),
        (503, b"The request queue is full.", Overloaded),
        (503, b"starting", EngineNotReady),
        (504, b"", EngineTooSlow),
        (302, b"\xff", EngineGarbled),
    ],
)
def test_statuses(status: int, body: bytes, kind: type[EngineError]) -> None:
    error = error_for_status(status, body * 1, "e1")

    assert type(error) is kind
    assert str(error).startswith(f"e1: HTTP {status}")
    assert error.over


def _said(reader: ReplyReader, *events: str) -> str:
    for one in (*events, '{"choices": [{"delta": {}, "finish_reason": "stop"}]}', "[DONE]"):
        reader.feed(f"data: {one}\n\n".encode())
    return reader.result().text


def test_events_that_differ_by_their_text_are_read_alike_whatever_the_text_is() -> None:
    texts = [
        "T447",
        ",081",
        ' "quoted" ',
        "back\\slash",
        "line\nend",
        "\u4f60\u597d",
        '","x":"',
        "a",
        "",
        '"',
        "}]}",
        "end",
    ]
    events = [
        json.dumps({"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}]}) for text in texts
    ]
    compact = [json.dumps(json.loads(event), separators=(",", ":"), ensure_ascii=False) for event in events]

    assert _said(ReplyReader("e"), *events) == "".join(texts)
    assert _said(ReplyReader("e"), *compact) == "".join(texts)


@given(st.lists(st.text(max_size=6), max_size=8), st.booleans())
def test_any_texts_come_out_as_they_went_in(texts: list[str], ascii_only: bool) -> None:
    events = [
        json.dumps({"choices": [{"delta": {"content": text}, "finish_reason": None}]}, ensure_ascii=ascii_only)
        for text in texts
    ]
    clean = [event.encode("utf-8", "replace").decode() for event in events]
    expected = "".join(json.loads(event)["choices"][0]["delta"]["content"] for event in clean)

    assert _said(ReplyReader("e"), *clean) == expected


def test_an_event_that_only_looks_like_the_ones_before_is_read_for_what_it_is() -> None:
    usual = '{"choices":[{"delta":{"content":"a"},"finish_reason":null}]}'
    error = '{"choices":[{"delta":{"content":"a"},"finish_reason":null}],"error":{"message":"out of memory"}}'
    reader = ReplyReader("e")
    reader.feed(f"data: {usual}\n\ndata: {usual}\n\n".encode())

    with pytest.raises(EngineLost):
        reader.feed(f"data: {error}\n\n".encode())
    with pytest.raises(EngineGarbled):
        reader.feed(b'data: {"choices":[{"delta":{"content":"a"b"},"finish_reason":null}]}\n\n')


def test_text_and_usage_in_one_event_are_both_taken_every_time() -> None:
    reader = ReplyReader("e")
    for count in (1, 2, 3):
        usage = {"prompt_tokens": 5, "completion_tokens": count}
        both = json.dumps({"usage": usage, "choices": [{"delta": {"content": "a"}, "finish_reason": None}]})
        reader.feed(f"data: {both}\n\n".encode())
    reader.feed(b'data: {"choices": [{"delta": {}, "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n')

    assert reader.result().usage.output_tokens == 3
    assert reader.result().text == "aaa"


def test_every_piece_is_told_as_it_comes_thoughts_apart() -> None:
    told: list[Delta] = []
    reader = ReplyReader("e1", told.append)

    reader.feed(delta({"reasoning_content": "hm"}))
    for word in ("SELECT", " 1", " FROM t"):
        reader.feed(delta({"content": word}))
    assert told == [Delta("hm", "thought"), Delta("SELECT"), Delta(" 1"), Delta(" FROM t")]


def test_pieces_that_are_read_the_quick_way_are_told_as_well() -> None:
    told: list[Delta] = []
    reader = ReplyReader("e1", told.append)

    for word in ["x"] * 5:
        reader.feed(delta({"content": word}))
    assert "".join(one.text for one in told) == "xxxxx"
