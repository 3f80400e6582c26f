"""Flow control of one stream, with and without delayed_ack."""

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from actors.rehearsal.phone.stream import DELAYED_ACK_WINDOW, Stream, StreamClosed
from actors.rehearsal.phone.wire import CLSE, OKAY, WRTE, Packet, WireError, encode_acked


def make_stream(*, delayed_ack: bool, window: int = 1) -> tuple[Stream, list[Packet]]:
    sent: list[Packet] = []

    async def send(packet: Packet) -> None:
        await trio.lowlevel.checkpoint()
        sent.append(Packet(packet.command, packet.arg0, packet.arg1, bytes(packet.payload)))

    return Stream(7, 9, "shell:x", 4, send, delayed_ack, window), sent


async def test_one_write_is_under_way_until_its_okay() -> None:
    stream, sent = make_stream(delayed_ack=False)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(stream.write, b"abcdefghij")
        for expected in ([b"abcd"], [b"abcd", b"efgh"], [b"abcd", b"efgh", b"ij"]):
            await wait_all_tasks_blocked()
            assert [packet.payload for packet in sent] == expected
            stream.acknowledge(0)
    assert {(packet.command, packet.arg0, packet.arg1) for packet in sent} == {(WRTE, 7, 9)}


async def test_delayed_ack_counts_bytes() -> None:
    stream, sent = make_stream(delayed_ack=True, window=6)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(stream.write, b"abcdefghijkl")
        await wait_all_tasks_blocked()
        assert [packet.payload for packet in sent] == [b"abcd", b"efgh"]
        stream.acknowledge(2)
        await wait_all_tasks_blocked()
        assert len(sent) == 2
        stream.acknowledge(1)


async def test_reading_acknowledges_what_was_taken() -> None:
    for delayed_ack, payload in ((False, b""), (True, encode_acked(3))):
        stream, sent = make_stream(delayed_ack=delayed_ack)
        stream.deliver_nowait(b"abc")
        assert await stream.read() == b"abc"
        assert sent == [Packet(OKAY, 7, 9, payload)]


async def test_host_that_sends_ahead_of_its_allowance_is_refused() -> None:
    stream, _ = make_stream(delayed_ack=False)
    stream.deliver_nowait(b"abcd")
    with pytest.raises(WireError, match="sent ahead"):
        stream.deliver_nowait(b"e")
    burst, _ = make_stream(delayed_ack=True)
    burst.deliver_nowait(bytes(DELAYED_ACK_WINDOW))
    with pytest.raises(WireError, match="sent ahead"):
        burst.deliver_nowait(bytes(5))


async def test_service_that_ends_closes_the_stream() -> None:
    stream, sent = make_stream(delayed_ack=False)

    async def serve(stream: Stream) -> None:
        await stream.write(b"hi")

    await stream.run(serve)
    assert [packet.command for packet in sent] == [WRTE, CLSE]


async def test_host_that_leaves_cuts_the_service_off_and_lets_it_clean_up() -> None:
    stream, sent = make_stream(delayed_ack=False)
    cleaned: list[bool] = []

    async def serve(_stream: Stream) -> None:
        try:
            await trio.sleep_forever()
        finally:
            cleaned.append(True)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(stream.run, serve)
        await wait_all_tasks_blocked()
        stream.close_nowait()
    assert cleaned
    assert not sent
    with pytest.raises(StreamClosed):
        await stream.write(b"x")
    with pytest.raises(StreamClosed):
        await stream.read()


async def test_service_that_meets_garbage_is_closed_and_remembers_why() -> None:
    stream, sent = make_stream(delayed_ack=False)

    async def serve(_stream: Stream) -> None:
        await trio.lowlevel.checkpoint()
        raise WireError("sync: what is that")

    await stream.run(serve)
    assert [packet.command for packet in sent] == [CLSE]
    assert str(stream.broken) == "sync: what is that"
