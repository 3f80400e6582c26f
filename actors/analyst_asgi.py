"""The assistant as a websocket route of a Starlette application, as the farm serves it beside its pages.

Hypercorn cannot be interrupted while it sends: a client that reads nothing would hold its task for ever, whatever we
cancel. So messages are sent from tasks of their own, which a session does not wait for past its bound, and the system
ends such connections: `bound_slow_readers` sets that on the listening socket.
"""

import socket
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

import attrs
import trio
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from actors.analyst_desk import AnalystDesk
from actors.analyst_limits import is_origin_allowed
from actors.analyst_line import POLICY, TRY_LATER, LineClosed
from actors.origins import is_own_origin
from sqlassist.protocol import PATH


def assistant_route(desk: AnalystDesk, *, origins: Sequence[str] = (), path: str = PATH) -> WebSocketRoute:
    """The route that serves a desk.

    Args:
        desk: Serves the connections; the application must not outlive it.
        origins: Web pages that may connect beside those of this host, as `https://host[:port]`.
        path: Where.
    """

    async def serve(websocket: WebSocket) -> None:
        newcomer = desk.newcomer()
        if newcomer is None:
            await websocket.close(TRY_LATER)
            return
        try:
            origin = websocket.headers.get("origin")
            if not (is_origin_allowed(origin, origins) or is_own_origin(origin, websocket.headers.get("host"))):
                await websocket.close(POLICY)  # before it is accepted: HTTP 403
                return
            await websocket.accept()
            async with trio.open_nursery() as nursery:
                await desk.serve(AsgiLine(websocket, nursery), newcomer)
                nursery.cancel_scope.cancel()
        finally:
            newcomer.leave()

    return WebSocketRoute(path, serve, name="assistant")


def bound_slow_readers(sock: socket.socket, seconds: float) -> None:
    """Have the system end connections of a listening socket whose peer takes nothing for so long (Linux)."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, max(1, round(seconds * 1000)))


@attrs.define(eq=False)
class AsgiLine:
    """A `Line` over a Starlette websocket that was accepted."""

    _websocket: WebSocket = attrs.field(alias="websocket")
    _nursery: trio.Nursery = attrs.field(alias="nursery")
    _gone: int | None = attrs.field(default=None, init=False)  # the code that it was closed with

    @property
    def peer(self) -> str:
        """See `Line`."""
        client = self._websocket.client
        return "unknown" if client is None else client.host

    async def send(self, text: str) -> None:
        """See `Line`. A cancellation leaves the message under way."""
        if self._gone is not None:
            raise LineClosed(self._gone)
        if not await self._apart(partial(self._websocket.send_text, text)):
            raise LineClosed(1006)

    async def send_bytes(self, message: bytes) -> None:
        """As `send`, a binary message."""
        if self._gone is not None:
            raise LineClosed(self._gone)
        if not await self._apart(partial(self._websocket.send_bytes, message)):
            raise LineClosed(1006)

    async def receive(self) -> str:
        """See `Line`. A binary message reads as an empty one, which is no message of the protocol."""
        if self._gone is not None:
            raise LineClosed(self._gone)
        message = await self._websocket.receive()
        if message["type"] == "websocket.disconnect":
            self._gone = int(message.get("code") or 1006)
            raise LineClosed(self._gone)
        text = message.get("text")
        return text if isinstance(text, str) else ""

    async def close(self, code: int, reason: str) -> None:
        """See `Line`."""
        if self._gone is None:
            self._gone = code
            await self._apart(partial(self._websocket.close, code, reason))

    async def abort(self) -> None:
        """See `Line`. What is under way ends with the connection, which the system ends."""
        self._gone = 1006

    async def _apart(self, call: Callable[[], Awaitable[None]]) -> bool:
        """Call in a task of its own, and wait for it; False where the connection is over."""
        done = trio.Event()
        worked = False

        async def run() -> None:
            nonlocal worked
            try:
                await call()
                worked = True
            except (WebSocketDisconnect, RuntimeError):  # RuntimeError: Starlette's, for what comes after a close
                pass
            finally:
                done.set()

        self._nursery.start_soon(run)
        await done.wait()
        return worked
