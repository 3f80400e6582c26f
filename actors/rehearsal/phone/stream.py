"""One open stream of an ADB connection, with its flow control, as a service on the phone sees it."""

from collections import deque
from collections.abc import Awaitable, Callable

import attrs
import trio

from actors.rehearsal.phone.fault_effects import CutShort
from actors.rehearsal.phone.wire import CLSE, OKAY, WRTE, Packet, WireError, encode_acked

DELAYED_ACK_WINDOW = 4 * 1024 * 1024
"""Bytes that a host may send ahead on one stream. adbd says 32 MiB; 64 phones in one process must fit in memory."""


class StreamClosed(Exception):
    """The host closed the stream, or the connection is gone: nobody reads what a service would write."""


@attrs.define(eq=False)
class Stream:
    """Bytes to and from the host.

    Without `delayed_ack` one WRTE is under way in each direction until its OKAY; with it, as many bytes as the
    other side has said that it takes.
    """

    local_id: int
    remote_id: int
    service: str
    max_payload: int
    """The most bytes in one WRTE."""
    send_packet: Callable[[Packet], Awaitable[None]]
    delayed_ack: bool
    window: int
    """Bytes that may still be sent (delayed_ack), or 1 when the one WRTE may be (without)."""
    broken: WireError | None = attrs.field(init=False, default=None)
    """What the host did wrong on this stream, if that ended it."""
    _inbound: deque[bytes] = attrs.field(init=False, factory=deque)
    _arrived: int = attrs.field(init=False, default=0)
    _closed: bool = attrs.field(init=False, default=False)
    _changed: trio.Event = attrs.field(init=False, factory=trio.Event)
    _cancel: trio.CancelScope = attrs.field(init=False, factory=trio.CancelScope)

    # -- for services

    async def write(self, data: bytes | memoryview) -> None:
        """Send all of `data`, waiting for the host to take it.

        Raises:
            StreamClosed: the host no longer listens.
        """
        view = memoryview(data)
        while view:
            while self.window <= 0 and not self._closed:
                await self._changed.wait()
            if self._closed:
                raise StreamClosed(self.service)
            piece = view[: self.max_payload]
            self.window -= len(piece) if self.delayed_ack else 1
            await self.send_packet(Packet(WRTE, self.local_id, self.remote_id, piece))
            view = view[len(piece) :]

    async def read(self) -> bytes:
        """The next bytes that the host sent.

        Raises:
            StreamClosed: the host closed the stream, and everything before that has been read.
        """
        while not self._inbound:
            if self._closed:
                raise StreamClosed(self.service)
            await self._changed.wait()
        data = self._inbound.popleft()
        self._arrived -= len(data)
        if not self._closed:
            await self.send_packet(self._okay(len(data)))
        return data

    async def run(self, serve: Callable[["Stream"], Awaitable[None]]) -> None:
        """Run a service until it ends or the host closes the stream; then the stream is closed on both sides.

        A service that is cut off is cancelled at its await, so its `finally` blocks run.
        """
        with self._cancel:
            try:
                await serve(self)
            except StreamClosed:
                return
            except CutShort:
                pass  # a fault: the host sees a service that closes too early
            except WireError as error:
                # what arrived on this stream is no such service's protocol: the host is told by the close
                self.broken = error
        if not self._closed:
            self._closed = True
            await self.send_packet(Packet(CLSE, self.local_id, self.remote_id))

    # -- for the connection

    async def accept(self) -> None:
        """Tell the host that the service is there."""
        await self.send_packet(self._okay(DELAYED_ACK_WINDOW))

    def deliver_nowait(self, data: bytes) -> None:
        """Bytes from the host.

        Raises:
            WireError: the host sent more than it was allowed to.
        """
        limit = DELAYED_ACK_WINDOW + self.max_payload if self.delayed_ack else self.max_payload
        if self._arrived + len(data) > limit:
            raise WireError(f"{self._arrived + len(data)} bytes sent ahead on {self.service!r}, {limit} allowed")
        self._arrived += len(data)
        self._inbound.append(data)
        self._wake()

    def acknowledge(self, acked: int) -> None:
        """An OKAY from the host: it takes `acked` more bytes (delayed_ack), or one more WRTE."""
        self.window = self.window + acked if self.delayed_ack else 1
        self._wake()

    def close_nowait(self) -> None:
        """The host is gone or closed the stream: cut the service off."""
        self._closed = True
        self._wake()
        self._cancel.cancel()

    def _okay(self, taken: int) -> Packet:
        return Packet(OKAY, self.local_id, self.remote_id, encode_acked(taken) if self.delayed_ack else b"")

    def _wake(self) -> None:
        self._changed.set()
        self._changed = trio.Event()
