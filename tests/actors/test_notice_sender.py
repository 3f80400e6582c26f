import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import h11
import trio

from actors.notice_sender import TRIES, Webhook, open_notice_sender
from actors.notices import Notice, Severity, WebhookForm
from runtime.secret import Secret


class Receiver:
    """A webhook's receiver on a real socket; answers with its statuses in turn, then with the last for ever."""

    def __init__(self, *statuses: int) -> None:
        self.statuses = list(statuses) or [200]
        self.got: list[dict[str, object]] = []
        self.asked = 0

    async def serve(self, stream: trio.SocketStream) -> None:
        connection = h11.Connection(h11.SERVER)
        body = b""
        while True:
            event = connection.next_event()
            if event is h11.NEED_DATA:
                connection.receive_data(await stream.receive_some())
            elif isinstance(event, h11.Data):
                body += bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                status = self.statuses[min(self.asked, len(self.statuses) - 1)]
                self.asked += 1
                if status == 200:
                    self.got.append(json.loads(body))
                head = h11.Response(status_code=status, headers=[("Content-Length", "0"), ("Connection", "close")])
                await stream.send_all((connection.send(head) or b"") + (connection.send(h11.EndOfMessage()) or b""))
                return
            elif isinstance(event, h11.ConnectionClosed):
                return


@asynccontextmanager
async def open_receiver(*statuses: int) -> AsyncIterator[tuple[Receiver, Webhook]]:
    receiver = Receiver(*statuses)
    async with trio.open_nursery() as nursery:
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        port = listener.socket.getsockname()[1]
        nursery.start_soon(trio.serve_listeners, receiver.serve, [listener])
        yield receiver, Webhook("ops", WebhookForm.GENERIC, Secret(f"http://127.0.0.1:{port}/hook"))
        nursery.cancel_scope.cancel()


async def wait_for(receiver: Receiver, count: int) -> None:
    with trio.fail_after(30):
        while len(receiver.got) < count:
            await trio.sleep(0.01)


async def test_a_notice_arrives_once_and_anew_when_it_was_over() -> None:
    async with open_receiver() as (receiver, webhook), open_notice_sender([webhook]) as sender:
        sender.tell(Notice("a", "one"))
        sender.tell(Notice("a", "one again"))
        sender.tell(Notice("b", "two"))
        await wait_for(receiver, 2)
        sender.over("a")
        sender.tell(Notice("a", "three"))
        await wait_for(receiver, 3)

    assert [one["title"] for one in receiver.got] == ["one", "two", "three"]


async def test_what_is_less_severe_is_not_told() -> None:
    async with open_receiver() as (receiver, webhook), open_notice_sender([webhook]) as sender:
        sender.tell(Notice("a", "quiet", Severity.INFO))
        sender.tell(Notice("b", "loud", Severity.CRITICAL))
        await wait_for(receiver, 1)

    assert [one["key"] for one in receiver.got] == ["b"]


async def test_a_receiver_that_fails_is_tried_again() -> None:
    async with (
        open_receiver(500, 503, 200) as (receiver, webhook),
        open_notice_sender([webhook], pause_seconds=0) as one,
    ):
        one.tell(Notice("a", "x"))
        await wait_for(receiver, 1)

    assert receiver.asked == 3


async def test_a_receiver_that_never_takes_it_is_left_alone_and_the_next_notice_is_sent() -> None:
    statuses = [500] * TRIES + [200]
    async with open_receiver(*statuses) as (receiver, webhook), open_notice_sender([webhook], pause_seconds=0) as one:
        one.tell(Notice("a", "lost"))
        one.tell(Notice("b", "taken"))
        await wait_for(receiver, 1)

    assert [notice["key"] for notice in receiver.got] == ["b"]
    assert receiver.asked == TRIES + 1


async def test_an_address_that_is_none_ends_nothing() -> None:
    broken = Webhook("broken", WebhookForm.WECOM, Secret("not an address"))
    async with open_receiver() as (receiver, webhook), open_notice_sender([broken, webhook]) as sender:
        sender.tell(Notice("a", "x"))
        await wait_for(receiver, 1)
