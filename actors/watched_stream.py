"""A stream that tells when its other side is gone: trio-websocket waits for handshakes that cannot come any more."""

from collections.abc import Callable
from typing import Any

import attrs
import trio


@attrs.define(eq=False)
class WatchedStream(trio.abc.Stream):
    """Passes everything through; the first time that nothing more can be received, `on_end` is called."""

    stream: trio.abc.Stream
    on_end: Callable[[], Any] | None

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        """See `trio.abc.ReceiveStream`."""
        received: bytes | bytearray = b""
        try:
            received = await self.stream.receive_some(max_bytes)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            self._end()
            raise
        if not received:
            self._end()
        return received

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """See `trio.abc.SendStream`."""
        await self.stream.send_all(data)

    async def wait_send_all_might_not_block(self) -> None:
        """See `trio.abc.SendStream`."""
        await self.stream.wait_send_all_might_not_block()

    async def aclose(self) -> None:
        """See `trio.abc.AsyncResource`."""
        await self.stream.aclose()

    def _end(self) -> None:
        call, self.on_end = self.on_end, None
        if call is not None:
            call()
