"""An assistant for tests: its tokens, and clients on lines in memory that hold every message to the schema."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import attrs
import trio

from actors.analyst_desk import AnalystDesk
from actors.analyst_line import LineClosed
from actors.token_store import Role, TokenStore, create_token
from runtime.ids import TenantId
from sqlassist.messages import Event, Question
from sqlassist.protocol import VERSION, Ask, Hello, Request, encode_request
from sqlassist.protocol_replies import Bye, EventMessage, Reply, Welcome, decode_reply
from tests.kit.protocol_schema import check_reply, check_request

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def make_tokens(path: Path, *tenants: str, users: int = 1) -> tuple[TokenStore, dict[str, str]]:
    """A store with a token for every tenant and user; `{tenant: token}`, of further users `{tenant/number: token}`."""
    tokens = {}
    for tenant in tenants or ("north",):
        for number in range(users):
            name = tenant if number == 0 else f"{tenant}/{number}"
            _, secret = create_token(path, user=f"user{number}", tenant=TenantId(tenant), roles=[Role.VIEWER], now=NOW)
            tokens[name] = secret.reveal()
    store = TokenStore(path)
    store.load()
    return store, tokens


@attrs.define(eq=False)
class MemoryLine:
    """A `Line` whose other end is in the test; `capacity` messages fit before it waits."""

    capacity: int = 1000
    peer: str = "127.0.0.1"
    closed_with: tuple[int, str] | None = None
    aborted: bool = False
    to_client: tuple["trio.MemorySendChannel[str]", "trio.MemoryReceiveChannel[str]"] = attrs.field(init=False)
    to_server: tuple["trio.MemorySendChannel[str]", "trio.MemoryReceiveChannel[str]"] = attrs.field(init=False)
    client_code: int = 1006

    def __attrs_post_init__(self) -> None:
        self.to_client = trio.open_memory_channel[str](self.capacity)
        self.to_server = trio.open_memory_channel[str](1000)

    async def send(self, text: str) -> None:
        try:
            await self.to_client[0].send(check_reply(text))
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            raise LineClosed(self.client_code) from None

    async def receive(self) -> str:
        try:
            return await self.to_server[1].receive()
        except (trio.EndOfChannel, trio.ClosedResourceError):
            raise LineClosed(self.client_code) from None

    async def close(self, code: int, reason: str) -> None:
        if self.closed_with is None:
            self.closed_with = (code, reason)
        self._end()

    async def abort(self) -> None:
        self.aborted = True
        self._end()

    def hang_up(self, code: int = 1006) -> None:
        """What a client does that goes away."""
        self.client_code = code
        self.to_client[1].close()
        self.to_server[0].close()

    def _end(self) -> None:
        self.to_client[0].close()
        self.to_server[1].close()


@attrs.define(eq=False)
class DeskClient:
    """The client's end of a line."""

    line: MemoryLine
    served: trio.Event

    async def say(self, request: Request) -> None:
        await self.say_text(check_request(encode_request(request)))

    async def say_text(self, text: str) -> None:
        await self.line.to_server[0].send(text)

    async def hear(self) -> Reply:
        with trio.fail_after(60):
            reply = decode_reply(await self.line.to_client[1].receive())
        assert isinstance(reply, Reply), reply
        return reply

    async def hear_event(self) -> EventMessage:
        reply = await self.hear()
        assert isinstance(reply, EventMessage), reply
        return reply

    async def hear_all(self) -> list[Reply]:
        """Everything until the server ends the connection."""
        replies = []
        while True:
            try:
                replies.append(await self.hear())
            except trio.EndOfChannel:
                return replies

    async def greet(self, token: str, session: str = "", after: int = 0) -> Welcome:
        await self.say(Hello(VERSION, token, session, after))
        welcome = await self.hear()
        assert isinstance(welcome, Welcome), welcome
        return welcome

    async def ask(self, id_: str, text: str) -> None:
        await self.say(Ask(Question(id_, text)))

    async def events_until_end(self) -> list[Event]:
        """The events of one question, the last one included."""
        events: list[Event] = []
        while not events or not events[-1].is_last:
            events.append((await self.hear_event()).event)
        return events

    async def bye(self) -> Bye:
        """The last message, once the connection is over."""
        last = (await self.hear_all())[-1]
        assert isinstance(last, Bye), last
        with trio.fail_after(60):
            await self.served.wait()
        return last


@asynccontextmanager
async def open_client(desk: AnalystDesk, capacity: int = 1000, peer: str = "127.0.0.1") -> AsyncIterator[DeskClient]:
    """A connection to a desk; hung up when the block ends."""
    line = MemoryLine(capacity, peer)
    client = DeskClient(line, trio.Event())

    async def serve() -> None:
        newcomer = desk.newcomer()
        if newcomer is not None:
            await desk.serve(line, newcomer)
        client.served.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve)
        try:
            yield client
        finally:
            line.hang_up()
