"""Lines out of a stream, none longer than is allowed."""

from collections.abc import AsyncIterator

import trio

from actors.executor_wire import WireError


async def read_lines(stream: trio.SocketStream, max_bytes: int) -> AsyncIterator[bytes]:
    """Lines without their ends, until the other end closes.

    Raises:
        WireError: a line is longer than `max_bytes`.
    """
    pending = b""
    async for chunk in stream:
        *lines, pending = (pending + chunk).split(b"\n")
        if len(pending) > max_bytes or any(len(line) > max_bytes for line in lines):
            raise WireError(f"a line is longer than {max_bytes} bytes")
        for line in lines:
            yield line
