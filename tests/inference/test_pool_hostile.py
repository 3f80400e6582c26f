"""Engines that speak HTTP badly, on real sockets: every answer is a typed error, counted, and nothing hangs."""

import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import attrs
import pytest
import trio

from inference.config import Dialect, EngineConfig
from inference.errors import EngineError, EngineGarbled, EngineLost, EngineNotReady, EngineRefused, EngineTooSlow
from inference.health import label_for
from inference.messages import Message, Prompt, TextPart
from inference.pool import EnginePool, open_pool
from runtime.ids import EngineId, TenantId
from runtime.telemetry import REGISTRY

OK_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
CHUNKED = OK_HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
DELTA = b'data: {"choices":[{"index":0,"delta":{"content":"T447"},"finish_reason":null}]}\n\n'
STOP = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
_PORTS = itertools.count(26100)
_numbers = itertools.count()


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


WHOLE = CHUNKED + chunk(DELTA) + chunk(STOP) + b"0\r\n\r\n"

Answer = Callable[[trio.SocketStream], Awaitable[None]]


@attrs.define(eq=False)
class Hostile:
    """Answers the n-th completion as told, the last way for ever, and everything else with a plain 200."""

    answers: list[Answer]
    completions: int = 0
    aborts: int = 0
    paths: list[str] = attrs.field(factory=list)

    async def serve(self, stream: trio.SocketStream) -> None:
        try:
            while await self._serve_one(stream):
                pass
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        finally:
            await trio.aclose_forcefully(stream)

    async def _serve_one(self, stream: trio.SocketStream) -> bool:
        received = b""
        while b"\r\n\r\n" not in received:
            more = await stream.receive_some(65536)
            if not more:
                return False
            received += bytes(more)
        head, _, body = received.partition(b"\r\n\r\n")
        length = next(
            (int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0
        )
        while len(body) < length:
            body += bytes(await stream.receive_some(65536))
        path = head.split(b" ")[1].decode()
        self.paths.append(path)
        if path == "/v1/chat/completions":
            self.completions += 1
            await self.answers[min(self.completions, len(self.answers)) - 1](stream)
            return True
        self.aborts += path == "/abort_request"
        await stream.send_all(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}")
        return True


def says(data: bytes, then: str = "stays") -> Answer:
    """Sends bytes, and then stays silent, half-closes, or closes."""

    async def answer(stream: trio.SocketStream) -> None:
        await stream.send_all(data)
        if then == "half_closes":
            await stream.send_eof()
            await trio.sleep_forever()
        elif then == "closes":
            await stream.aclose()
        elif then == "hangs":
            await trio.sleep_forever()

    return answer


async def open_listeners() -> list[trio.SocketListener]:
    for port in _PORTS:
        try:
            return await trio.open_tcp_listeners(port, host="127.0.0.1")
        except OSError:  # somebody else has it
            continue
    raise AssertionError("unreachable")


@asynccontextmanager
async def open_hostile(
    *answers: Answer, dialect: Dialect = Dialect.SGLANG
) -> AsyncIterator[tuple[EnginePool, Hostile]]:
    engine = Hostile(list(answers))
    async with trio.open_nursery() as nursery:
        listeners = await open_listeners()
        await nursery.start(trio.serve_listeners, engine.serve, listeners)
        url = f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}"
        config = EngineConfig(EngineId("hostile"), url=url, dialect=dialect)
        async with open_pool([config]) as pool:
            yield pool, engine
        nursery.cancel_scope.cancel()


async def ask(pool: EnginePool, seconds: float = 30.0) -> str:
    messages = (Message("user", (TextPart("play"),)),)
    prompt = Prompt(f"h{next(_numbers)}", TenantId("t"), "episode", messages, max_tokens=64)
    return (await pool(prompt, deadline=trio.current_time() + seconds)).text


def counted(outcome: str) -> float:
    labels = {"engine": "hostile", "outcome": outcome}
    return REGISTRY.get_sample_value("inference_requests_total", labels) or 0.0


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (says(b"", "closes"), EngineLost),
        (says(b"", "half_closes"), EngineLost),
        (says(b"\x00\x01\x02 SSH-2.0-OpenSSH\r\n\r\n"), EngineLost),
        (says(b"HTTP/1.1 200 OK\r\n" + b"X-A: b\r\n" * 20_000), EngineLost),
        (says(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\nContent-Length: 10\r\n\r\n"), EngineLost),
        (says(CHUNKED + b"zzzz\r\n"), EngineLost),
        (says(CHUNKED + b"fffffffffffffffffffffff\r\nx"), EngineLost),
        (says(CHUNKED + chunk(DELTA), "half_closes"), EngineLost),
        (says(CHUNKED + chunk(DELTA) + b"40\r\nhalf", "half_closes"), EngineLost),
        (says(OK_HEAD + b"Content-Length: 4000\r\n\r\n" + DELTA, "closes"), EngineLost),
        (says(OK_HEAD + b"\r\n" + DELTA, "half_closes"), EngineLost),
        (says(CHUNKED + chunk(b"data: {]\n\n")), EngineGarbled),
        (says(CHUNKED + chunk(b'data: {"choices":[{"delta":{"content":7}}]}\n\n')), EngineGarbled),
        (says(CHUNKED + chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n"), EngineGarbled),
        (says(CHUNKED + chunk(b'data: {"choices":[],"usage":{"prompt_tokens":-4}}\n\n')), EngineGarbled),
        (says(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 6\r\n\r\n<html>"), EngineGarbled),
        (says(b"HTTP/1.1 204 No Content\r\n\r\n"), EngineGarbled),
        (says(b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"), EngineGarbled),
        (says(b"HTTP/1.1 500 Oops\r\nContent-Length: 4\r\n\r\nboom"), EngineLost),
        (says(b"HTTP/1.1 500 Oops\r\nContent-Length: 4000\r\n\r\nboom", "closes"), EngineLost),
        (says(b"HTTP/1.1 503 No\r\nContent-Length: 7\r\n\r\nloading"), EngineNotReady),
        (says(b"HTTP/1.1 413 Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", "closes"), EngineRefused),
        (says(b"HTTP/1.1 101 Switching\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n"), EngineLost),
    ],
)
async def test_whatever_it_answers_is_a_typed_error_and_counted(answer: Answer, kind: type[EngineError]) -> None:
    async with open_hostile(answer, says(WHOLE)) as (pool, engine):
        with trio.fail_after(30):
            with pytest.raises(kind) as caught:
                await ask(pool)
            assert type(caught.value) is kind
            assert caught.value.engine == "hostile"
            before = counted(label_for(caught.value))
            assert before >= 1
            assert engine.completions == 1, "it may still work on it, or never will: it is not sent again there"
            assert await ask(pool) == "T447"  # the next one finds a connection in order
        assert pool.statistics().failed == 1


@pytest.mark.parametrize("answer", [says(b"", "hangs"), says(CHUNKED + chunk(DELTA), "hangs")])
async def test_a_hang_is_aborted_at_the_deadline(answer: Answer) -> None:
    async with open_hostile(answer, says(WHOLE)) as (pool, engine):
        with trio.fail_after(30):
            with pytest.raises(EngineTooSlow):
                await ask(pool, seconds=0.5)
            assert engine.aborts == 1
            assert await ask(pool) == "T447"


async def test_connections_that_it_closes_while_they_are_idle_cost_no_request() -> None:
    async def whole_and_gone(stream: trio.SocketStream) -> None:
        await stream.send_all(WHOLE)
        await stream.send_eof()

    async with open_hostile(whole_and_gone) as (pool, engine):
        with trio.fail_after(30):
            for _ in range(5):
                assert await ask(pool) == "T447"
                await trio.sleep(0.05)  # its end arrives
        assert engine.completions == 5
        assert pool.statistics().failed == 0


@pytest.mark.parametrize("pieces", [1, 7])
async def test_an_answer_in_any_pieces_is_read(pieces: int) -> None:
    async def dribble(stream: trio.SocketStream) -> None:
        for at in range(0, len(WHOLE), pieces):
            await stream.send_all(WHOLE[at : at + pieces])
            await trio.lowlevel.checkpoint()

    async with open_hostile(dribble) as (pool, _):
        with trio.fail_after(30):
            assert await ask(pool) == "T447"
            assert await ask(pool) == "T447"


async def test_an_early_refusal_of_a_large_request_is_heard() -> None:
    async def refuse_early(stream: trio.SocketStream) -> None:
        await stream.send_all(b"HTTP/1.1 429 Slow\r\nContent-Length: 0\r\n\r\n")

    async with open_hostile(says(b"HTTP/1.1 100 Continue\r\n\r\n" + WHOLE), refuse_early) as (pool, _):
        with trio.fail_after(30):
            assert await ask(pool) == "T447"
            with pytest.raises(EngineError, match="429"):
                await ask(pool)


async def test_an_engine_without_aborts_is_not_asked_twice() -> None:
    answer = says(CHUNKED + chunk(DELTA), "closes")
    async with open_hostile(answer, dialect=Dialect.VLLM) as (pool, engine):
        with trio.fail_after(30), pytest.raises(EngineLost) as caught:
            await ask(pool)
        assert not caught.value.over
        assert engine.completions == 1
        assert engine.aborts == 0
