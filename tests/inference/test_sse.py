import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.sse import SseEvent, SseParser, SseTooLong

STREAM = (
    b"\xef\xbb\xbf: comment\r\n"
    b"data: one\r\n\r\n"
    b"event: note\rdata:two\rdata:  three\r\r"
    b"id: 7\nretry: 10\nnonsense\n\n"
    b"data\n\n"
    b"data: \xff\xe4\xbd\xa0\n\n"
    b"data: cut off"
)
EVENTS = [
    SseEvent("one"),
    SseEvent("two\n three", "note"),
    SseEvent(""),
    SseEvent("\ufffd你"),
]


def test_fields_line_ends_and_comments() -> None:
    assert SseParser().feed(STREAM) == EVENTS


@given(st.lists(st.integers(0, len(STREAM)), max_size=12))
def test_the_way_it_is_torn_apart_changes_nothing(cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(STREAM)]
    parser = SseParser()
    events = []
    for start, end in itertools.pairwise(edges):
        events += parser.feed(STREAM[start:end])

    assert events == EVENTS


@given(st.lists(st.binary(max_size=40), max_size=20))
def test_garbage_neither_raises_nor_makes_empty_lists_of_data(chunks: list[bytes]) -> None:
    parser = SseParser()
    for chunk in chunks:
        for event in parser.feed(chunk):
            assert isinstance(event.data, str)


@pytest.mark.parametrize("data", [b"data: " + b"x" * 200, b"data: " + b"x" * 200 + b"\n", b"data: xxxx\n" * 40])
def test_limits(data: bytes) -> None:
    with pytest.raises(SseTooLong, match="100 bytes"):
        SseParser(max_event_bytes=100).feed(data)


def test_many_small_events_are_no_long_one() -> None:
    assert len(SseParser(max_event_bytes=100).feed(b"data: xxxx\n\n" * 40)) == 40


PIECES = (
    b"data: x",
    b"data:y",
    b"data",
    b"\n",
    b"\n\n",
    b"\r",
    b"\r\n",
    b"event: e",
    b": comment",
    b"\xef\xbb\xbf",
    b"data: \xff",
)


@given(st.lists(st.lists(st.sampled_from(PIECES), max_size=8).map(b"".join), max_size=6))
def test_whole_events_are_read_as_single_bytes_are(chunks: list[bytes]) -> None:
    whole, bytewise = SseParser(), SseParser()
    together = [event for chunk in chunks for event in whole.feed(chunk)]
    apart = [event for chunk in chunks for at in range(len(chunk)) for event in bytewise.feed(chunk[at : at + 1])]

    assert together == apart
