from itertools import pairwise

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.chunked import BadChunk, ChunkedReader

BODY = b"5\r\nhello\r\nA;name=value\r\n, world!!!\r\n0\r\n\r\n"


def read(data: bytes, cuts: list[int]) -> tuple[bytes, bool]:
    reader = ChunkedReader()
    places = sorted({min(cut, len(data)) for cut in cuts} | {0, len(data)})
    body = b"".join(reader.feed(data[start:end]) for start, end in pairwise(places))
    return body, reader.done


@given(st.lists(st.integers(0, len(BODY)), max_size=12))
def test_it_reads_a_body_in_any_pieces(cuts: list[int]) -> None:
    assert read(BODY, cuts) == (b"hello, world!!!", True)


def test_a_trailer_is_passed_over() -> None:
    assert read(b"1\r\nx\r\n0\r\nX-Sum: 1\r\nY: 2\r\n\r\n", [8, 15]) == (b"x", True)


def test_half_a_body_is_not_done() -> None:
    assert read(b"5\r\nhel", []) == (b"hel", False)
    assert read(b"5\r\nhello\r\n0\r\n", []) == (b"hello", False)
    assert read(b"5\r\nhello\r\n0\r\n\r", []) == (b"hello", False)


@pytest.mark.parametrize(
    "data",
    [
        b"xyz\r\n",
        b"\r\n",
        b"-1\r\n",
        b"+5\r\nhello\r\n",
        b"0x5\r\nhello\r\n",
        b"1_0\r\n",
        b" 5\r\nhello\r\n",
        b"123456789\r\n",
        b"5\r\nhelloX\r\n",
        b"5\r\nhello\rX",
        b"0\r\n\r\nmore",
        b"a" * 5000,
        b"0\r\n" + b"X: y\r\n" * 5000,
    ],
)
def test_what_is_no_chunk_is_refused(data: bytes) -> None:
    with pytest.raises(BadChunk):
        ChunkedReader().feed(data)
    reader = ChunkedReader()
    with pytest.raises(BadChunk):
        _ = [reader.feed(data[at : at + 1]) for at in range(len(data))]


def by_h11(data: bytes) -> tuple[bytes, bool] | None:
    """As h11 reads it; None where it refuses."""
    protocol = h11.Connection(h11.CLIENT)
    protocol.send(h11.Request(method="GET", target="/", headers=[("Host", "x")]))
    protocol.send(h11.EndOfMessage())
    protocol.receive_data(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + data)
    body = b""
    try:
        while True:
            event = protocol.next_event()
            if isinstance(event, h11.Data):
                body += bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                return body, True
            elif event is h11.NEED_DATA:
                return body, False
    except h11.RemoteProtocolError:
        return None


@given(
    st.lists(st.binary(min_size=1, max_size=30), max_size=5),
    st.integers(0, 200),
    st.binary(max_size=3),
    st.lists(st.integers(0, 200), max_size=4),
)
def test_it_reads_what_h11_reads(pieces: list[bytes], at: int, inserted: bytes, cuts: list[int]) -> None:
    data = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"
    at = min(at, len(data))
    data = data[:at] + inserted + data[at:]
    expected = by_h11(data)
    try:
        body, done = read(data, cuts)
    except BadChunk:
        # stricter than h11 in two ways: nothing may follow the end, and a line has a limit
        assert expected is None or expected[1]
        return
    if expected is not None:
        assert (body, done) == expected
