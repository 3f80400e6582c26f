"""Rehearsal engines in this process, reached over memory streams: whole minutes of them pass on a MockClock."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import h11
import httpcore
import trio
import trio.testing

from actors.rehearsal.engine.options import RehearsalOptions
from actors.rehearsal.engine.web import app_for
from actors.rehearsal.engine.work import RehearsalEngine
from tests.kit.engines import MemoryNetworkStream


class RehearsalNetwork(httpcore.AsyncNetworkBackend):
    """Connects `http://engine:PORT` to the rehearsal engine of that number."""

    def __init__(self, nursery: trio.Nursery, engines: dict[int, RehearsalEngine]) -> None:
        self._nursery = nursery
        self._apps = {port: app_for(engine) for port, engine in engines.items()}

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Any = None,
    ) -> httpcore.AsyncNetworkStream:
        await trio.lowlevel.checkpoint()
        ours, theirs = trio.testing.memory_stream_pair()
        self._nursery.start_soon(serve_app, self._apps[port], theirs)
        return MemoryNetworkStream(ours)


@asynccontextmanager
async def open_rehearsal_network(
    *options: RehearsalOptions, first_port: int = 1
) -> AsyncIterator[tuple[RehearsalNetwork, list[RehearsalEngine]]]:
    """Engines of these options under the numbers from `first_port` on."""
    engines = [RehearsalEngine(one) for one in options]
    async with trio.open_nursery() as nursery:
        yield RehearsalNetwork(nursery, dict(enumerate(engines, first_port))), engines
        nursery.cancel_scope.cancel()


async def serve_app(app: Any, stream: trio.abc.Stream) -> None:
    """An ASGI application over one connection: what its web server would do, as far as engines need it."""
    protocol = h11.Connection(h11.SERVER, max_incomplete_event_size=1 << 20)
    try:
        while await _serve_one(app, stream, protocol):
            protocol.start_next_cycle()
    except (trio.BrokenResourceError, trio.ClosedResourceError, h11.RemoteProtocolError):
        pass  # the client left
    finally:
        await trio.aclose_forcefully(stream)


async def _read_request(stream: trio.abc.Stream, protocol: h11.Connection) -> tuple[h11.Request, bytes] | None:
    request: h11.Request | None = None
    body = bytearray()
    while True:
        event = protocol.next_event()
        if event is h11.NEED_DATA:
            protocol.receive_data(bytes(await stream.receive_some(1 << 18)))
        elif isinstance(event, h11.Request):
            request = event
        elif isinstance(event, h11.Data):
            body += event.data
        elif isinstance(event, h11.EndOfMessage) and request is not None:
            return request, bytes(body)
        else:
            return None


async def _serve_one(app: Any, stream: trio.abc.Stream, protocol: h11.Connection) -> bool:
    read = await _read_request(stream, protocol)
    if read is None:
        return False
    request, body = read
    gone = trio.Event()
    messages = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> dict[str, Any]:
        if messages:
            return messages.pop()
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            out = protocol.send(h11.Response(status_code=message["status"], headers=list(message.get("headers", ()))))
        else:
            out = protocol.send(h11.Data(data=message.get("body", b"")))
            if not message.get("more_body", False):
                out = (out or b"") + (protocol.send(h11.EndOfMessage()) or b"")
        if out:
            await stream.send_all(out)

    path, _, query = request.target.decode().partition("?")
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": request.method.decode(),
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": list(request.headers),
        "scheme": "http",
        "server": ("engine", 1),
        "client": ("test", 1),
    }
    async with trio.open_nursery() as nursery:

        async def watch() -> None:
            try:
                if await stream.receive_some(1) == b"":
                    gone.set()
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                gone.set()

        nursery.start_soon(watch)
        await app(scope, receive, send)
        nursery.cancel_scope.cancel()
    return not gone.is_set()
