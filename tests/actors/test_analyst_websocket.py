"""The standalone server on real sockets: whatever a client does, the others are served."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

import attrs
import pytest
import structlog
import trio

from actors.analyst_desk import AnalystDesk, open_desk
from actors.analyst_limits import AssistantLimits
from actors.analyst_line import LineClosed
from actors.analyst_websocket import ListenError, open_listeners, port_of, serve_desk
from actors.ask_socket import AssistantAddress, AssistantUnreachable, open_assistant_socket
from actors.socket_line import SocketLine
from sqlassist.messages import Question, Stage
from sqlassist.protocol import Ask, Hello, Request, encode_request
from sqlassist.protocol_replies import Bye, EventMessage, Reply, Welcome, decode_reply
from tests.kit.answering import ScriptedAnswering
from tests.kit.assistant import make_tokens
from tests.kit.certificates import write_certificates
from tests.kit.protocol_schema import check_reply, check_request

PATIENCE_SECONDS = 30.0
UPGRADE = b"GET /assistant HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"


@attrs.define(eq=False)
class Served:
    desk: AnalystDesk
    port: int
    tokens: dict[str, str]


@attrs.define(eq=False)
class Client:
    line: SocketLine

    async def say(self, request: Request) -> None:
        await self.line.send(check_request(encode_request(request)))

    async def hear(self) -> Reply:
        with trio.fail_after(PATIENCE_SECONDS):
            text = await self.line.receive()
        reply = decode_reply(check_reply(text))
        assert isinstance(reply, Reply), reply
        return reply

    async def greet(self, token: str, session: str = "", after: int = 0) -> Welcome:
        await self.say(Hello(1, token, session, after))
        welcome = await self.hear()
        assert isinstance(welcome, Welcome), welcome
        return welcome

    async def stages(self) -> list[Stage]:
        stages: list[Stage] = []
        while not stages or stages[-1] is not Stage.ANSWER:
            reply = await self.hear()
            assert isinstance(reply, EventMessage), reply
            stages.append(reply.event.stage)
        return stages


@asynccontextmanager
async def _served(
    tmp_path: Path, limits: AssistantLimits | None = None, origins: tuple[str, ...] = (), **tls: str
) -> AsyncIterator[Served]:
    store, tokens = make_tokens(tmp_path / "tokens.json", "north", "south")
    listeners = await open_listeners("127.0.0.1", 0, **tls)
    async with open_desk(ScriptedAnswering(), store, limits=limits) as desk, trio.open_nursery() as nursery:
        await nursery.start(lambda task_status: serve_desk(desk, listeners, origins=origins, task_status=task_status))
        yield Served(desk, port_of(listeners[0]), tokens)
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def _connected(
    port: int, *, path: str = "/assistant", ca_file: Path | None = None, origin: str = ""
) -> AsyncIterator[Client]:
    address = AssistantAddress("127.0.0.1", port, path, is_tls=ca_file is not None)
    async with open_assistant_socket(address, ca_file=ca_file, origin=origin) as line:
        yield Client(line)


async def _works(served: Served, tenant: str = "south") -> bool:
    """Whether somebody else is served."""
    async with _connected(served.port) as client:
        await client.greet(served.tokens[tenant])
        await client.say(Ask(Question("q", "answer")))
        return await client.stages() == [Stage.INTENT, Stage.ANSWER]


async def _read_all(stream: trio.SocketStream) -> bytes:
    """What comes until the server closes the connection."""
    received = b""
    with trio.fail_after(PATIENCE_SECONDS):
        try:
            while piece := await stream.receive_some(1000):
                received += piece
        except trio.BrokenResourceError:
            pass
    return received


async def _until(condition: Any) -> None:
    with trio.fail_after(PATIENCE_SECONDS):
        while not condition():
            await trio.sleep(0.02)


async def test_a_question_is_answered_over_a_socket(tmp_path: Path) -> None:
    async with _served(tmp_path) as served, _connected(served.port) as client:
        welcome = await client.greet(served.tokens["north"])
        await client.say(Ask(Question("q1", "events 20")))
        stages = await client.stages()

    assert welcome.tenant == "north"
    assert stages == [Stage.INTENT, *[Stage.DELTA] * 20, Stage.ANSWER]


async def test_a_connection_that_breaks_is_taken_up_by_the_next(tmp_path: Path) -> None:
    async with _served(tmp_path) as served:
        async with _connected(served.port) as client:
            session = (await client.greet(served.tokens["north"])).session
            await client.say(Ask(Question("q1", "events 20")))
            await client.hear()
            await client.line.abort()
        await _until(lambda: served.desk.statistics().connections == 0)
        async with _connected(served.port) as later:
            welcome = await later.greet(served.tokens["north"], session, after=1)
            stages = await later.stages()

    assert (welcome.resumed, welcome.missed) == (True, 0)
    assert stages == [*[Stage.DELTA] * 20, Stage.ANSWER]


async def test_a_normal_close_ends_a_session_and_not_the_server(tmp_path: Path) -> None:
    async with _served(tmp_path) as served:
        for _ in range(3):
            assert await _works(served)
        await _until(lambda: served.desk.statistics().sessions == 0)


async def test_tls_by_certificate_files(tmp_path: Path) -> None:
    write_certificates(tmp_path)
    tls = {"certificate": str(tmp_path / "server.pem"), "key": str(tmp_path / "server.key")}
    async with _served(tmp_path, None, (), **tls) as served:
        async with _connected(served.port, ca_file=tmp_path / "ca.pem") as client:
            await client.greet(served.tokens["north"])
            await client.say(Ask(Question("q1", "answer")))
            stages = await client.stages()
        with pytest.raises(AssistantUnreachable, match=r"no TLS connection: .*certificate"):
            async with _connected(served.port, ca_file=tmp_path / "other.pem"):
                pass
        async with await trio.open_tcp_stream("127.0.0.1", served.port) as plain:
            await plain.send_all(b"GET /assistant HTTP/1.1\r\n\r\n")
            assert await _read_all(plain) is not None
        await _until(lambda: served.desk.newcomers == 0)
        async with _connected(served.port, ca_file=tmp_path / "ca.pem") as client:
            await client.greet(served.tokens["north"])

    assert stages == [Stage.INTENT, Stage.ANSWER]


async def test_wrong_certificates_and_ports_are_told(tmp_path: Path) -> None:
    write_certificates(tmp_path)
    server, other = str(tmp_path / "server.pem"), str(tmp_path / "other.key")
    with pytest.raises(ListenError, match="are no certificate and its key"):
        await open_listeners("127.0.0.1", 0, certificate=server, key=other)
    with pytest.raises(ListenError, match="cannot be read: No such file"):
        await open_listeners("127.0.0.1", 0, certificate=str(tmp_path / "none.pem"))
    listeners = await open_listeners("127.0.0.1", 0)
    with pytest.raises(ListenError, match=r"cannot listen on 127\.0\.0\.1 port"):
        await open_listeners("127.0.0.1", port_of(listeners[0]))
    for listener in listeners:
        await listener.aclose()


@pytest.mark.parametrize(
    ("path", "origin", "refused"),
    [
        ("/assistant", "", None),
        ("/assistant?x=1", "https://farm.example", None),
        ("/assistant", "https://evil.example", "HTTP 403: this page may not connect"),
        ("/assistant", "null", "HTTP 403: this page may not connect"),
        ("/other", "", "HTTP 404: the assistant is at /assistant"),
    ],
)
async def test_pages_of_other_origins_may_not_connect(
    tmp_path: Path, path: str, origin: str, refused: str | None
) -> None:
    async with _served(tmp_path, origins=("https://farm.example",)) as served:
        with pytest.raises(AssistantUnreachable, match=refused) if refused else nullcontext():
            async with _connected(served.port, path=path, origin=origin) as client:
                await client.greet(served.tokens["north"])
        assert await _works(served)


@pytest.mark.parametrize(
    "piece",
    [
        b"",
        b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        UPGRADE,
        UPGRADE
        + b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n\xff\xff\xff\xff\xff",
        b"A" * 100_000,
    ],
)
async def test_nonsense_ends_one_connection_alone(tmp_path: Path, piece: bytes) -> None:
    limits = AssistantLimits(hello_seconds=0.3)
    with structlog.testing.capture_logs() as logs:
        async with _served(tmp_path, limits) as served:
            async with await trio.open_tcp_stream("127.0.0.1", served.port) as stream:
                with suppress(trio.BrokenResourceError):
                    await stream.send_all(piece)
                await _read_all(stream)
            await _until(lambda: served.desk.newcomers == 0)

    assert [log for log in logs if log["event"] == "actors.websocket.broken"] == []


async def test_a_message_that_is_too_large_ends_the_connection_alone(tmp_path: Path) -> None:
    limits = AssistantLimits(message_bytes=2000)
    async with _served(tmp_path, limits) as served:
        async with _connected(served.port) as client:
            await client.greet(served.tokens["north"])
            await client.line.send("x" * 3000)
            with pytest.raises(LineClosed) as closed:
                await client.hear()
        assert await _works(served)

    assert closed.value.code == 1009


async def test_a_client_that_leaves_in_the_handshake_frees_its_place_at_once(tmp_path: Path) -> None:
    limits = AssistantLimits(hello_seconds=1000.0)
    async with _served(tmp_path, limits) as served:
        for piece in (b"", UPGRADE):
            async with await trio.open_tcp_stream("127.0.0.1", served.port) as stream:
                await stream.send_all(piece)
                await _until(lambda: served.desk.newcomers == 1)
            await _until(lambda: served.desk.newcomers == 0)


async def test_there_is_room_for_so_many_newcomers_and_no_more(tmp_path: Path) -> None:
    limits = AssistantLimits(newcomers=3, hello_seconds=2.0)
    async with _served(tmp_path, limits) as served:
        idle = [await trio.open_tcp_stream("127.0.0.1", served.port) for _ in range(3)]
        await _until(lambda: served.desk.newcomers == 3)
        fourth = await trio.open_tcp_stream("127.0.0.1", served.port)
        refused = await _read_all(fourth)
        await _until(lambda: served.desk.newcomers == 0)  # their time is over
        assert await _works(served)
        for stream in [*idle, fourth]:
            await stream.aclose()

    assert refused == b""


async def test_a_client_that_does_not_read_is_dropped_and_others_do_not_notice(tmp_path: Path) -> None:
    limits = AssistantLimits(slow_seconds=0.5)
    async with _served(tmp_path, limits) as served:
        async with _connected(served.port) as client:
            session = (await client.greet(served.tokens["north"])).session
            await client.say(Ask(Question("q1", "flood 40 1000000")))
            assert await _works(served)
            await _until(lambda: served.desk.statistics().ended.get("slow_reader") == 1)
            assert await _works(served)
            await _until(lambda: served.desk.statistics().running == 0)
            await client.line.abort()
        async with _connected(served.port) as later:
            welcome = await later.greet(served.tokens["north"], session)

    assert (welcome.resumed, welcome.dropped) == (True, "slow_reader")
    assert welcome.missed > 30


async def test_drain_says_goodbye_over_a_socket(tmp_path: Path) -> None:
    async with _served(tmp_path, AssistantLimits(drain_seconds=0.1)) as served, _connected(served.port) as client:
        await client.greet(served.tokens["north"])
        await client.say(Ask(Question("q1", "wait")))
        await client.hear()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(served.desk.drain)
            end, bye = await client.hear(), await client.hear()
            with pytest.raises(LineClosed) as closed:
                await client.hear()

    assert isinstance(end, EventMessage)
    assert (end.event.stage, end.event.data["code"]) == (Stage.FAILED, "draining")
    assert isinstance(bye, Bye)
    assert bye.code == "draining"
    assert closed.value.code == 1001
