import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.door_wire import (
    MAX_BLOB_BYTES,
    DoorGarbled,
    DoorMessage,
    DoorReader,
    ask_message,
    ask_seconds,
    completion_message,
    completion_of,
    delta_message,
    delta_of,
    encode,
    error_message,
    error_of,
    prompt_of,
)
from inference.errors import EngineError, EngineLost, EngineRefused, Overloaded, TenantLimited
from inference.messages import Completion, Constraint, Delta, ImagePart, Message, Prompt, TextPart, Usage
from runtime.ids import EngineId, TenantId

texts = st.text(max_size=20)
images = st.builds(ImagePart, st.binary(max_size=50), texts, st.integers(0, 4000), st.integers(0, 4000))
prompts = st.builds(
    Prompt,
    request_id=texts,
    tenant=texts.map(TenantId),
    routing_key=texts,
    messages=st.lists(
        st.builds(Message, texts, st.lists(st.builds(TextPart, texts) | images, max_size=4).map(tuple)), max_size=4
    ).map(tuple),
    max_tokens=st.integers(0, 9999),
    constraint=st.builds(Constraint, *[st.none() | texts] * 4),
    stop=st.lists(texts, max_size=2).map(tuple),
    temperature=st.floats(0, 2),
    workload=texts,
)


def through(message: DoorMessage, *, cut: int = 7) -> DoorMessage:
    """As it comes out at the other end, whatever pieces it comes in."""
    reader, data = DoorReader(), encode(message)
    for at in range(0, len(data), cut):
        assert reader.next_message() is None
        reader.feed(data[at : at + cut])
    found = reader.next_message()
    assert found is not None
    assert reader.next_message() is None
    return found


@given(prompts, st.floats(-5, 500), st.booleans(), st.integers(1, 300))
def test_a_prompt_arrives_as_it_was_sent(prompt: Prompt, seconds: float, streams: bool, cut: int) -> None:
    message = through(ask_message(prompt, client="c", seconds=seconds, streams=streams), cut=cut)
    assert prompt_of(message) == prompt
    assert ask_seconds(message) == seconds
    assert message.body["streams"] is streams


@given(texts, st.floats(0, 99))
def test_a_completion_and_its_pieces_arrive_as_they_were_sent(text: str, seconds: float) -> None:
    usage = Usage(1, 2, 3, None)
    completion = Completion(text, "stop", usage, EngineId("e"), "m", "born", seconds, 0.5, 0.25)
    assert completion_of(through(completion_message(completion))) == completion
    assert delta_of(through(delta_message(Delta(text, "thought")))) == Delta(text, "thought")


@pytest.mark.parametrize(
    "error",
    [
        EngineLost("it broke: e1: twice", engine="e1", over=False),
        EngineRefused("no"),
        Overloaded("full", engine="e2"),
        TenantLimited("later", retry_after_seconds=2.5),
    ],
)
def test_an_error_arrives_as_its_class(error: EngineError) -> None:
    found = error_of(through(error_message(error)))
    assert type(found) is type(error)
    assert (str(found), found.engine, found.over) == (str(error), error.engine, error.over)
    assert getattr(found, "retry_after_seconds", None) == getattr(error, "retry_after_seconds", None)


def test_messages_follow_each_other_without_a_gap() -> None:
    reader = DoorReader()
    reader.feed(encode(DoorMessage("a", {}, (b"\n\n", b""))) + encode(DoorMessage("b", {"x": "ü"})))
    assert reader.next_message() == DoorMessage("a", {}, (b"\n\n", b""))
    assert reader.next_message() == DoorMessage("b", {"x": "ü"})
    assert reader.next_message() is None


@pytest.mark.parametrize(
    "line",
    [
        b"no json",
        b"[]",
        b"{}",
        b'{"kind": 1, "body": {}, "blobs": []}',
        b'{"kind": "a", "body": [], "blobs": []}',
        b'{"kind": "a", "body": {}, "blobs": [-1]}',
        b'{"kind": "a", "body": {}, "blobs": ["x"]}',
        b'{"kind": "a", "body": {}, "blobs": 3}',
        json.dumps({"kind": "a", "body": {}, "blobs": [MAX_BLOB_BYTES + 1]}).encode(),
        b"\xff\xfe",
        b"[" * 100_000,
    ],
)
def test_what_is_no_message_is_garbled(line: bytes) -> None:
    reader = DoorReader()
    reader.feed(line + b"\n")
    with pytest.raises(DoorGarbled):
        reader.next_message()


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"prompt": 3},
        {"prompt": {"messages": []}},
        {"prompt": {"messages": [{"role": "user", "parts": [{"sha256": "a", "width": 1, "height": 1}]}]}},
        {"prompt": {"messages": [3]}},
    ],
)
def test_what_is_no_prompt_is_garbled(body: dict[str, object]) -> None:
    with pytest.raises(DoorGarbled):
        prompt_of(DoorMessage("ask", body))


def test_a_deadline_that_never_comes_stays_one() -> None:
    prompt = Prompt("r", TenantId("t"), "k", (), max_tokens=1)
    assert ask_seconds(through(ask_message(prompt, client="c", seconds=math.inf, streams=False))) == math.inf
