"""An engine in this process that can misbehave, and a network of such engines without sockets.

Over the network of memory streams a test runs on trio's MockClock; `serve_tcp` puts the same engine on a real port.
"""

import itertools
import json
import socket
import struct
from collections import deque
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

import h11
import httpcore
import trio
import trio.testing

TOKENS = ("T447", ",081", ";W03")
USAGE = {
    "prompt_tokens": 120,
    "completion_tokens": 3,
    "prompt_tokens_details": {"cached_tokens": 100, "image_tokens": 64},
}


class FakeEngine:
    """Answers `/v1/chat/completions` by its list of behaviours, one a request, then by the last for ever.

    Behaviours: ok, hang (no answer), stall (one token, then nothing), close (ends the connection half-way, politely),
    reset (breaks it half-way), garbage, wrong_json, json (no event stream), trickle (one token a second), abort,
    no_usage, no_done, open_end (never ends the response), error_event, status:CODE.

    As a real engine does, it goes on with a request whose client has gone, until it is told to abort it.
    """

    def __init__(self, *behaviours: str, token_seconds: float = 0.0) -> None:
        self.behaviours = deque(behaviours or ("ok",))
        self.token_seconds = token_seconds
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.aborted: list[str] = []
        self.running: dict[str, trio.Event] = {}  # {rid: set when it is aborted}
        self.most_running = 0
        self.connections = 0
        self.accepts_abort = True
        self.answers_probes = True
        self.loads: dict[str, Any] | None = None  # what it claims of its load; None: the truth
        self.metrics = ""
        self.closed_sessions: list[str] = []
        self.dead = False
        self.dying = False  # connections are taken, and break
        self._scopes: set[trio.CancelScope] = set()

    def kill(self) -> None:
        """As `kill -9`: connections break, requests are gone, nobody listens any more."""
        self.dead = True
        self.running.clear()
        for scope in self._scopes:
            scope.cancel()

    async def serve(self, stream: trio.abc.Stream) -> None:
        """Serve one connection."""
        self.connections += 1
        scope = trio.CancelScope()
        self._scopes.add(scope)
        try:
            with scope:
                if not self.dying:
                    await self._serve(stream)
        except (trio.BrokenResourceError, trio.ClosedResourceError, h11.RemoteProtocolError):
            pass  # the client left
        finally:
            self._scopes.discard(scope)
            await trio.aclose_forcefully(stream)
            self.connections -= 1

    async def _serve(self, stream: trio.abc.Stream) -> None:
        protocol = h11.Connection(h11.SERVER)
        while True:
            body = b""
            request: h11.Request | None = None
            while True:
                event = protocol.next_event()
                if event is h11.NEED_DATA:
                    protocol.receive_data(bytes(await stream.receive_some(65536)))
                elif isinstance(event, h11.Request):
                    request = event
                elif isinstance(event, h11.Data):
                    body += bytes(event.data)
                elif isinstance(event, h11.EndOfMessage):
                    break
                else:
                    return
            assert request is not None
            path = request.target.decode()
            self.paths.append(path)
            if path == "/v1/chat/completions":
                self.headers.append({name.decode(): value.decode() for name, value in request.headers})
                if not await self._complete(stream, protocol, json.loads(body)):
                    return
            elif path == "/abort_request":
                await self._abort(stream, protocol, json.loads(body)["rid"])
            elif path == "/close_session":
                self.closed_sessions.append(json.loads(body)["session_id"])
                await self._respond(stream, protocol, 200, b"")
            elif self.answers_probes:
                await self._answer_probe(stream, protocol, path)
            else:
                await trio.sleep_forever()
            if protocol.our_state is not h11.DONE or protocol.their_state is not h11.DONE:
                return
            protocol.start_next_cycle()

    async def _abort(self, stream: trio.abc.Stream, protocol: h11.Connection, rid: str) -> None:
        if not self.accepts_abort:
            await trio.sleep_forever()
        self.aborted.append(rid)
        if rid in self.running:
            self.running.pop(rid).set()
        await self._respond(stream, protocol, 200, b"")

    async def _answer_probe(self, stream: trio.abc.Stream, protocol: h11.Connection, path: str) -> None:
        if path == "/v1/loads":
            loads = {
                "loads": [
                    self.loads or {"num_running_reqs": len(self.running), "num_waiting_reqs": 2, "token_usage": 0.25}
                ]
            }
            await self._respond(stream, protocol, 200, json.dumps(loads).encode())
        elif path == "/metrics" and self.metrics:
            await self._respond(stream, protocol, 200, self.metrics.encode())
        elif path in {"/ping", "/v1/models"}:
            await self._respond(stream, protocol, 200, b"{}")
        else:
            await self._respond(stream, protocol, 404, b"no such path")

    async def _respond(self, stream: trio.abc.Stream, protocol: h11.Connection, status: int, body: bytes) -> None:
        headers = [("Content-Length", str(len(body))), ("Content-Type", "application/json")]
        out = protocol.send(h11.Response(status_code=status, headers=headers))
        assert out is not None
        out += protocol.send(h11.Data(data=body)) or b""
        out += protocol.send(h11.EndOfMessage()) or b""
        await stream.send_all(out)

    async def _complete(self, stream: trio.abc.Stream, protocol: h11.Connection, request: dict[str, Any]) -> bool:
        """False when the connection shall end."""
        self.requests.append(request)
        behaviour = self.behaviours.popleft() if len(self.behaviours) > 1 else self.behaviours[0]
        rid = request.get("rid") or request.get("request_id") or f"r{len(self.requests)}"
        stopped = self.running[rid] = trio.Event()
        self.most_running = max(self.most_running, len(self.running))
        try:
            return await self._act(stream, protocol, behaviour, rid, stopped)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            await stopped.wait()  # it works on, whether or not somebody listens
            return False
        finally:
            self.running.pop(rid, None)

    async def _act(
        self, stream: trio.abc.Stream, protocol: h11.Connection, behaviour: str, rid: str, stopped: trio.Event
    ) -> bool:
        if behaviour.startswith("status:"):
            await self._respond(stream, protocol, int(behaviour[7:]), b'{"error": "said so"}')
            return True
        if behaviour == "json":
            await self._respond(stream, protocol, 200, b'{"choices": [{"message": {"content": "hi"}}]}')
            return True
        if behaviour == "hang":
            await stopped.wait()
            return False
        head = protocol.send(
            h11.Response(
                status_code=200,
                headers=[("Content-Type", "text/event-stream"), ("Transfer-Encoding", "chunked")],
            )
        )
        assert head is not None
        await stream.send_all(head)
        for piece in self._pieces(behaviour):
            if stopped.is_set():
                piece = finish("abort")
            if piece == b"STALL":
                await stopped.wait()
                return False
            if piece == b"CLOSE":
                return False
            if piece == b"RESET":
                await self._reset(stream)
                await stopped.wait()
                return False
            out = protocol.send(h11.Data(data=piece))
            assert out is not None
            await stream.send_all(out)
            if stopped.is_set() or piece.endswith(b"[DONE]\n\n"):
                break
            with trio.move_on_after(1.0 if behaviour == "trickle" else self.token_seconds):
                await stopped.wait()
        self.running.pop(rid, None)  # before the client can know that it is done
        if behaviour == "open_end":
            await stream.receive_some(1)  # until the client has had enough
            return False
        await stream.send_all(protocol.send(h11.EndOfMessage()) or b"")
        return True

    def _pieces(self, behaviour: str) -> Iterable[bytes]:
        yield delta({"role": "assistant", "content": ""})
        yield delta({"content": TOKENS[0]})
        match behaviour:
            case "stall" | "close" | "reset":
                yield behaviour.upper().encode()
            case "garbage":
                yield b"data: \xff\xfe{{{ not json\n\n"
            case "wrong_json":
                yield b'data: {"choices": [{"delta": "?"}]}\n\n'
            case "error_event":
                yield b'data: {"error": {"message": "out of memory", "code": 500}}\n\n'
                return
            case "abort":
                yield finish("abort")
                return
        for token in TOKENS[1:] * (20 if behaviour == "trickle" else 1):
            yield delta({"content": token})
        yield finish("stop")
        if behaviour != "no_usage":
            yield event({"choices": [], "usage": USAGE})
        if behaviour != "no_done":
            yield b"data: [DONE]\n\n"

    async def _reset(self, stream: trio.abc.Stream) -> None:
        if isinstance(stream, trio.SocketStream):
            stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            await stream.aclose()
        else:
            await trio.aclose_forcefully(stream)


def event(fields: dict[str, Any]) -> bytes:
    """One server-sent event."""
    return b"data: " + json.dumps(fields).encode() + b"\n\n"


def delta(fields: dict[str, Any]) -> bytes:
    """A chunk with a piece of the answer."""
    return event({"choices": [{"index": 0, "delta": fields, "finish_reason": None}]})


def finish(reason: str) -> bytes:
    """The chunk that says why the answer ended."""
    return event({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})


class FakeNetwork(httpcore.AsyncNetworkBackend):
    """Connects `http://engine:PORT` to the engine registered under that number."""

    def __init__(self, nursery: trio.Nursery, engines: dict[int, FakeEngine]) -> None:
        self.nursery = nursery
        self.engines = engines
        self.black_holes: set[int] = set()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Any = None,
    ) -> httpcore.AsyncNetworkStream:
        await trio.lowlevel.checkpoint()
        if port in self.black_holes:
            await trio.sleep(timeout if timeout is not None else 1e9)
            raise httpcore.ConnectTimeout("no answer")
        engine = self.engines.get(port)
        if engine is None or engine.dead:
            raise httpcore.ConnectError("connection refused")
        ours, theirs = trio.testing.memory_stream_pair()
        self.nursery.start_soon(engine.serve, theirs)
        return MemoryNetworkStream(ours)

    async def sleep(self, seconds: float) -> None:
        await trio.sleep(seconds)


class MemoryNetworkStream(httpcore.AsyncNetworkStream):
    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        try:
            return bytes(await self._stream.receive_some(max_bytes))
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise httpcore.ReadError(str(error)) from error

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        try:
            await self._stream.send_all(buffer)
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise httpcore.WriteError(str(error)) from error

    async def aclose(self) -> None:
        await self._stream.aclose()

    def get_extra_info(self, info: str) -> Any:
        return False if info == "is_readable" else None


@asynccontextmanager
async def open_network(engines: dict[int, FakeEngine]) -> AsyncIterator[FakeNetwork]:
    """A network for the time of the block; connections end with it."""
    async with trio.open_nursery() as nursery:
        yield FakeNetwork(nursery, engines)
        nursery.cancel_scope.cancel()


_PORTS = itertools.count(24100)


async def serve_tcp(engine: FakeEngine, nursery: trio.Nursery) -> str:
    """Put the engine on a real port between 24100 and 32767; returns its URL."""
    for port in _PORTS:
        try:
            listeners = await trio.open_tcp_listeners(port, host="127.0.0.1")
        except OSError:
            continue
        await nursery.start(trio.serve_listeners, engine.serve, listeners)
        return f"http://127.0.0.1:{port}"
    raise AssertionError("unreachable")
