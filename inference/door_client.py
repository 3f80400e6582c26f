"""A pool in another process, as if it were one of ours: what `inference.door_server` serves."""

import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import cattrs
import trio

from inference.door_wire import (
    DoorGarbled,
    DoorMessage,
    DoorReader,
    ask_message,
    completion_of,
    delta_of,
    encode,
    error_of,
)
from inference.errors import EngineGarbled, EngineNotReady, EngineTooSlow
from inference.messages import Completion, OnDelta, Prompt
from inference.pool import PoolStatistics
from runtime.nursery import open_bare_nursery
from runtime.telemetry import emit

CONNECT_SECONDS = 5.0
LATE_SECONDS = 2.0  # after a deadline, for the other side to say that it has passed
RECEIVE_BYTES = 256 << 10
MAX_RELEASES = 10_000  # that wait to be told


class DoorUnreachable(Exception):
    """Nobody serves a pool there."""


@attrs.define(eq=False)
class RemotePool:
    """A `CompleteStreaming` whose engines another process runs; made by `open_remote_pool`."""

    path: Path
    _client: str = attrs.field(alias="client")
    _releases: trio.MemorySendChannel[str] = attrs.field(alias="releases")
    _statistics: PoolStatistics = attrs.field(
        factory=lambda: PoolStatistics(0, 0, 0, 0, 0, 0, tenants=(), engines=()), init=False
    )

    async def __call__(self, prompt: Prompt, *, deadline: float, on_delta: OnDelta | None = None) -> Completion:
        """Complete one prompt; see `inference.pool.EnginePool`.

        Raises:
            EngineError: as the pool there.
            EngineNotReady: the process that has the engines is gone.
        """
        seconds = deadline - trio.current_time()
        message = ask_message(prompt, client=self._client, seconds=seconds, streams=on_delta is not None)
        try:
            with trio.move_on_at(deadline + LATE_SECONDS):
                async with await trio.open_unix_socket(self.path) as stream:
                    await stream.send_all(encode(message))
                    return await self._answer(stream, on_delta)
        except (OSError, trio.BrokenResourceError) as error:
            raise EngineNotReady(f"the engines' process cannot be reached: {error}") from error
        except DoorGarbled as error:
            raise EngineGarbled(f"the engines' process: {error}", over=False) from error
        raise EngineTooSlow("the engines' process does not answer", over=False)

    async def _answer(self, stream: trio.SocketStream, on_delta: OnDelta | None) -> Completion:
        reader = DoorReader()
        while True:
            while (message := reader.next_message()) is None:
                data = await stream.receive_some(RECEIVE_BYTES)
                if not data:
                    raise EngineNotReady("the engines' process hung up")
                reader.feed(data)
            if message.kind == "completion":
                return completion_of(message)
            if message.kind == "error":
                raise error_of(message)
            if message.kind == "delta" and on_delta is not None:
                on_delta(delta_of(message))

    def release(self, routing_key: str) -> None:
        """Forget where a key is homed, at the end of its episode or session."""
        try:
            self._releases.send_nowait(routing_key)
        except (trio.WouldBlock, trio.BrokenResourceError):  # all are released with this process anyway
            emit("inference.door.release_lost", level="warning", routing_key=routing_key)

    def statistics(self) -> PoolStatistics:
        """Of all who share the engines, as of a second ago."""
        return self._statistics

    async def _keep(self, stream: trio.SocketStream, ready: trio.Event) -> None:
        reader = DoorReader()
        while True:
            data = await stream.receive_some(RECEIVE_BYTES)
            if not data:
                raise trio.BrokenResourceError
            reader.feed(data)
            while (message := reader.next_message()) is not None:
                self._statistics = _statistics_of(message)
                ready.set()


@asynccontextmanager
async def open_remote_pool(path: Path) -> AsyncIterator[RemotePool]:
    """The pool that is served at a socket, while the block runs. What it has homed is forgotten at the end.

    Raises:
        DoorUnreachable: nobody serves one there.
    """
    client = secrets.token_hex(8)
    send, receive = trio.open_memory_channel[str](MAX_RELEASES)
    pool = RemotePool(path, client, send)
    try:
        with trio.fail_after(CONNECT_SECONDS):
            stream = await trio.open_unix_socket(path)
            await stream.send_all(encode(DoorMessage("keep", {"client": client})))
    except (OSError, trio.TooSlowError, trio.BrokenResourceError) as error:
        raise DoorUnreachable(f"{path}: nobody serves engines there: {error}") from error
    async with stream, open_bare_nursery() as nursery:
        ready = trio.Event()

        async def keep() -> None:
            try:
                await pool._keep(stream, ready)  # noqa: SLF001  # this function is its other half
            except (trio.BrokenResourceError, DoorGarbled) as error:
                emit("inference.door.lost", level="error", path=str(path), error=str(error))
                ready.set()

        async def tell() -> None:
            async for key in receive:
                try:
                    await stream.send_all(encode(DoorMessage("release", {"release": [key]})))
                except trio.BrokenResourceError:
                    return  # told by `keep`

        nursery.start_soon(keep)
        nursery.start_soon(tell)
        with trio.move_on_after(CONNECT_SECONDS):
            await ready.wait()
        yield pool
        nursery.cancel_scope.cancel()


def _statistics_of(message: DoorMessage) -> PoolStatistics:
    try:
        return cattrs.structure(message.body, PoolStatistics)
    except (cattrs.BaseValidationError, ValueError, TypeError, KeyError) as error:
        raise DoorGarbled(f"no statistics: {error}") from error
