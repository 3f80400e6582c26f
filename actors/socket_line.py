"""A websocket of trio-websocket as a line: its errors become ours here. Used by the server and by clients."""

from contextlib import suppress

import attrs
import trio
from trio_websocket import ConnectionClosed, WebSocketConnection
from wsproto.utilities import ProtocolError

from actors.analyst_line import LineClosed


@attrs.define(eq=False)
class SocketLine:
    """A `Line` over trio-websocket."""

    peer: str
    _connection: WebSocketConnection = attrs.field(alias="connection")
    _stream: trio.abc.Stream = attrs.field(alias="stream")

    async def send(self, text: str) -> None:
        """See `Line`."""
        try:
            await self._connection.send_message(text)
        except ConnectionClosed as error:
            raise _closed(error) from None
        except ProtocolError:  # the close of the other side came between the check and the sending
            raise LineClosed(1006) from None

    async def receive(self) -> str:
        """See `Line`. A binary message reads as an empty one, which is no message of the protocol."""
        try:
            message = await self._connection.get_message()
        except ConnectionClosed as error:
            raise _closed(error) from None
        return message if isinstance(message, str) else ""

    async def close(self, code: int, reason: str) -> None:
        """See `Line`."""
        with suppress(ConnectionClosed, ProtocolError, trio.BrokenResourceError):
            await self._connection.aclose(code, reason)

    async def abort(self) -> None:
        """See `Line`."""
        await trio.aclose_forcefully(self._stream)


def _closed(error: ConnectionClosed) -> LineClosed:
    return LineClosed(1006 if error.reason is None else error.reason.code)
