"""The same protocol through Starlette and hypercorn's trio worker, on real sockets."""

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, cast

import attrs
import pytest
import trio
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.config import Config, Sockets
from hypercorn.trio.run import worker_serve
from starlette.applications import Starlette

from actors.analyst_asgi import assistant_route, bound_slow_readers
from actors.analyst_desk import AnalystDesk, open_desk
from actors.analyst_limits import AssistantLimits
from actors.analyst_line import LineClosed
from actors.ask_remote import open_remote
from actors.ask_socket import AssistantAddress, AssistantUnreachable, open_assistant_socket
from actors.socket_line import SocketLine
from runtime.secret import Secret
from sqlassist.messages import Event, Question, Stage
from sqlassist.protocol import Ask, Hello, encode_request
from sqlassist.protocol_replies import Bye, EventMessage, Welcome, decode_reply
from tests.kit.answering import ScriptedAnswering
from tests.kit.assistant import make_tokens
from tests.kit.protocol_schema import check_reply

PATIENCE_SECONDS = 30.0


@attrs.define(eq=False)
class Served:
    desk: AnalystDesk
    address: AssistantAddress
    token: Secret
    events: list[Event] = attrs.field(factory=list)
    calls: int = 0
    """Of the application, under way; one is its lifespan."""

    async def take(self, event: Event) -> None:
        self.events.append(event)

    async def until(self, condition: Any) -> None:
        with trio.fail_after(PATIENCE_SECONDS):
            while not condition():
                await trio.sleep(0.02)


@asynccontextmanager
async def _served(tmp_path: Path, limits: AssistantLimits | None = None) -> AsyncIterator[Served]:
    store, tokens = make_tokens(tmp_path / "tokens.json")
    config = Config()
    config.accesslog = config.errorlog = None
    config.graceful_timeout = 1.0
    sock = socket.socket()
    sock.bind(("127.0.0.1", 0))
    sock.listen(100)
    address = AssistantAddress("127.0.0.1", sock.getsockname()[1])
    stop = trio.Event()
    async with open_desk(ScriptedAnswering(), store, limits=limits) as desk, trio.open_nursery() as nursery:
        bound_slow_readers(sock, desk.limits.slow_seconds)
        app = Starlette(routes=[assistant_route(desk, origins=("https://farm.example",))])
        served = Served(desk, address, Secret(tokens["north"]))

        async def counted(scope: Any, receive: Any, send: Any) -> None:
            served.calls += 1
            try:
                await app(scope, receive, send)
            finally:
                served.calls -= 1

        wrapped = ASGIWrapper(cast("Any", counted))
        await nursery.start(
            partial(worker_serve, wrapped, config, sockets=Sockets([], [sock], []), shutdown_trigger=stop.wait)
        )
        try:
            yield served
        finally:
            stop.set()


async def _hear(line: SocketLine) -> Any:
    with trio.fail_after(PATIENCE_SECONDS):
        return decode_reply(check_reply(await line.receive()))


async def test_questions_are_answered_and_the_session_ends_with_the_client(tmp_path: Path) -> None:
    async with _served(tmp_path) as served:
        with trio.fail_after(PATIENCE_SECONDS):
            async with open_remote(served.address, served.token) as asking:
                await asking.ask(Question("q1", "events 20"), served.take)
        await served.until(lambda: served.desk.statistics().sessions == 0)

    assert [event.stage for event in served.events] == [Stage.INTENT, *[Stage.DELTA] * 20, Stage.ANSWER]


async def test_a_lost_connection_is_taken_up_again(tmp_path: Path) -> None:
    async with _served(tmp_path) as served:
        async with open_assistant_socket(served.address) as line:
            await line.send(encode_request(Hello(1, served.token.reveal())))
            welcome = await _hear(line)
            await line.send(encode_request(Ask(Question("q1", "events 5"))))
            first = await _hear(line)
            await line.abort()
        await served.until(lambda: served.desk.statistics().connections == 0)
        async with open_assistant_socket(served.address) as line:
            await line.send(encode_request(Hello(1, served.token.reveal(), welcome.session, first.seq)))
            again = await _hear(line)
            events = [await _hear(line) for _ in range(6)]

    assert isinstance(again, Welcome)
    assert (again.resumed, again.missed) == (True, 0)
    assert [event.seq for event in events] == [2, 3, 4, 5, 6, 7]


async def test_pages_of_other_origins_may_not_connect(tmp_path: Path) -> None:
    async with _served(tmp_path) as served:
        with pytest.raises(AssistantUnreachable, match="HTTP 403"):
            async with open_assistant_socket(served.address, origin="https://evil.example"):
                pass
        async with open_assistant_socket(served.address, origin="https://farm.example") as line:
            await line.send(encode_request(Hello(1, served.token.reveal())))
            welcome = await _hear(line)

    assert isinstance(welcome, Welcome)


async def test_a_wrong_token_is_told_and_closed_with_a_reason(tmp_path: Path) -> None:
    async with _served(tmp_path) as served, open_assistant_socket(served.address) as line:
        await line.send(encode_request(Hello(1, "wrong")))
        bye = await _hear(line)
        with pytest.raises(LineClosed) as closed:
            await _hear(line)

    assert isinstance(bye, Bye)
    assert (bye.code, closed.value.code) == ("unauthenticated", 1008)


async def test_a_client_that_does_not_read_is_dropped_and_leaves_no_task(tmp_path: Path) -> None:
    limits = AssistantLimits(slow_seconds=0.5)
    async with _served(tmp_path, limits) as served, open_assistant_socket(served.address) as slow:
        before = served.calls - 1
        await slow.send(encode_request(Hello(1, served.token.reveal())))
        await _hear(slow)
        await slow.send(encode_request(Ask(Question("q1", "flood 40 1000000"))))
        await served.until(lambda: served.desk.statistics().ended.get("slow_reader") == 1)
        with trio.fail_after(PATIENCE_SECONDS):
            async with open_remote(served.address, served.token) as asking:
                last = await asking.ask(Question("q1", "answer"), served.take)
        await served.until(lambda: served.desk.statistics().running == 0)
        await served.until(lambda: served.calls <= before)
        await slow.abort()

    assert last.stage is Stage.ANSWER


async def test_drain_says_goodbye(tmp_path: Path) -> None:
    limits = AssistantLimits(drain_seconds=0.1)
    async with _served(tmp_path, limits) as served, open_assistant_socket(served.address) as line:
        await line.send(encode_request(Hello(1, served.token.reveal())))
        await _hear(line)
        await line.send(encode_request(Ask(Question("q1", "wait"))))
        await _hear(line)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(served.desk.drain)
            end, bye = await _hear(line), await _hear(line)

    assert isinstance(end, EventMessage)
    assert end.event.data["code"] == "draining"
    assert isinstance(bye, Bye)
