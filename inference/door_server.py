"""A pool that other processes of this machine and user ask: a Unix socket, one connection a request.

ask          → delta..., then completion or error; hanging up aborts the request on its engine
keep         → the connection of one client: statistics come on it every second, `release` is read from it, and what
               the client has homed is forgotten when it ends
"""

import os
import secrets
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import attrs
import cattrs
import trio

from inference.door_wire import (
    DoorGarbled,
    DoorMessage,
    DoorReader,
    ask_seconds,
    completion_message,
    delta_message,
    encode,
    error_message,
    prompt_of,
    texts_of,
)
from inference.errors import EngineError
from inference.messages import Delta, Prompt
from inference.pool import EnginePool
from runtime.nursery import open_bare_nursery
from runtime.telemetry import emit

STATISTICS_SECONDS = 1.0
BACKLOG = 512
RECEIVE_BYTES = 256 << 10
MAX_DELTAS = 4096  # of an answer that its client does not read; the answer itself is whole all the same


@attrs.define(eq=False)
class DoorServer:
    """Made by `open_door_server`."""

    path: Path
    _pool: EnginePool = attrs.field(alias="pool")
    _keys: dict[str, set[str]] = attrs.field(factory=dict, init=False)  # {client: routing keys}

    async def serve(self, stream: trio.SocketStream) -> None:
        """One connection."""
        async with stream:
            try:
                reader = DoorReader()
                message = await _next(stream, reader)
                if message is None:
                    return
                if message.kind == "ask":
                    await self._answer(stream, message)
                elif message.kind == "keep":
                    await self._keep(stream, reader, str(message.body.get("client")))
                else:
                    emit("inference.door.garbled", level="error", error=f"{message.kind!r} is no request")
            except DoorGarbled as error:
                emit("inference.door.garbled", level="error", error=str(error))
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                pass  # the client is gone, and nobody is left to answer

    async def _answer(self, stream: trio.SocketStream, message: DoorMessage) -> None:
        prompt = prompt_of(message)
        deadline = trio.current_time() + ask_seconds(message)
        client = str(message.body.get("client"))
        if client in self._keys:
            self._keys[client].add(prompt.routing_key)
        send, receive = trio.open_memory_channel[Delta](MAX_DELTAS)

        def on_delta(delta: Delta) -> None:
            with suppress(trio.WouldBlock, trio.BrokenResourceError):
                send.send_nowait(delta)

        async with open_bare_nursery() as nursery:

            async def hang_up() -> None:
                await _wait_end(stream)
                nursery.cancel_scope.cancel()

            async def pieces() -> None:
                async for delta in receive:
                    await stream.send_all(encode(delta_message(delta)))

            nursery.start_soon(hang_up)
            async with open_bare_nursery() as telling:
                if message.body.get("streams"):
                    telling.start_soon(pieces)
                with send:
                    last = await self._completed(prompt, deadline, on_delta if message.body.get("streams") else None)
            await stream.send_all(encode(last))
            nursery.cancel_scope.cancel()

    async def _completed(
        self, prompt: Prompt, deadline: float, on_delta: Callable[[Delta], None] | None
    ) -> DoorMessage:
        try:
            return completion_message(await self._pool(prompt, deadline=deadline, on_delta=on_delta))
        except EngineError as error:
            return error_message(error)

    async def _keep(self, stream: trio.SocketStream, reader: DoorReader, client: str) -> None:
        if client in self._keys:
            raise DoorGarbled(f"client {client!r} is here already")
        keys = self._keys[client] = set()
        try:
            async with open_bare_nursery() as nursery:
                nursery.start_soon(self._tell, stream)
                while (message := await _next(stream, reader)) is not None:
                    for key in texts_of(message, "release"):
                        keys.discard(key)
                        self._pool.release(key)
                nursery.cancel_scope.cancel()
        finally:
            del self._keys[client]
            for key in keys:
                self._pool.release(key)

    async def _tell(self, stream: trio.SocketStream) -> None:
        while True:
            body = cattrs.unstructure(self._pool.statistics())
            await stream.send_all(encode(DoorMessage("statistics", body)))
            await trio.sleep(STATISTICS_SECONDS)


@asynccontextmanager
async def open_door_server(pool: EnginePool) -> AsyncIterator[DoorServer]:
    """Serve a pool while the block runs, in a folder that only this user may enter.

    Raises:
        OSError: there is no place for a socket.
    """
    folder = Path(tempfile.mkdtemp(prefix="corral-"))  # of mode 0700; a farm's own folder may be too deep for a socket
    try:
        path = folder / f"{secrets.token_hex(4)}.sock"
        listening = trio.socket.socket(trio.socket.AF_UNIX, trio.socket.SOCK_STREAM)
        with listening:
            await listening.bind(os.fspath(path))
            listening.listen(BACKLOG)
            server = DoorServer(path, pool)
            async with open_bare_nursery() as nursery:
                nursery.start_soon(trio.serve_listeners, server.serve, [trio.SocketListener(listening)])
                yield server
                nursery.cancel_scope.cancel()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


async def _next(stream: trio.SocketStream, reader: DoorReader) -> DoorMessage | None:
    while (message := reader.next_message()) is None:
        data = await stream.receive_some(RECEIVE_BYTES)
        if not data:
            return None
        reader.feed(data)
    return message


async def _wait_end(stream: trio.SocketStream) -> None:
    """Until the client has hung up; it has nothing more to say."""
    try:
        while await stream.receive_some(RECEIVE_BYTES):
            pass
    except trio.BrokenResourceError:
        pass  # that is hanging up, too
