"""An adb server that says what a test wants: what it lists, and what its `connect` claims, have nothing in common."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import attrs
import trio

from actors.devices.adb.client import AdbClient

Hook = Callable[["LyingServer", str], None]


@attrs.define(eq=False)
class LyingServer:
    """Answers `host:` requests; `on_connect` and `on_disconnect` may change what is listed."""

    states: dict[str, str] = attrs.field(factory=dict)
    """{address: state} as it is listed."""
    connect_says: str = "connected to it"
    on_connect: Hook = attrs.field(default=lambda _server, _address: None)
    on_disconnect: Hook = attrs.field(default=lambda _server, _address: None)
    answer: bytes = b"SERIAL1\n"
    """What every service of a phone in state `device` prints."""
    asked: list[str] = attrs.field(factory=list)
    """Every request."""
    _changed: trio.Event = attrs.field(init=False, factory=trio.Event)

    def list(self, address: str, state: str | None) -> None:
        """List an address so from now on; None: not any more."""
        if state is None:
            self.states.pop(address, None)
        else:
            self.states[address] = state
        self._changed.set()
        self._changed = trio.Event()

    def listing(self, *, long: bool = False) -> str:
        """What `devices` prints."""
        more = " product:x" if long else ""
        return "".join(f"{address}\t{state}{more}\n" for address, state in self.states.items())

    async def serve_socket(self, stream: trio.SocketStream) -> None:
        """One connection."""
        try:
            async with stream:
                while (request := await _request(stream)) is not None:
                    self.asked.append(request)
                    if not await self._reply(stream, request):
                        return
        except trio.BrokenResourceError:
            return  # the client has what it wanted

    async def _reply(self, stream: trio.SocketStream, request: str) -> bool:
        kind, _, argument = request.removeprefix("host:").partition(":")
        if request == "host:track-devices":
            await stream.send_all(b"OKAY")
            while True:
                changed = self._changed
                await stream.send_all(_block(self.listing()))
                await changed.wait()
        if request == "host:devices-l":
            await stream.send_all(b"OKAY" + _block(self.listing(long=True)))
        elif request == "host:version":
            await stream.send_all(b"OKAY" + _block("0029"))
        elif kind == "connect":
            self.on_connect(self, argument)
            await stream.send_all(b"OKAY" + _block(self.connect_says))
        elif kind == "disconnect":
            self.on_disconnect(self, argument)
            await stream.send_all(b"OKAY" + _block("disconnected"))
        elif kind == "transport":
            state = self.states.get(argument)
            if state == "device":
                await stream.send_all(b"OKAY")
                return True
            await stream.send_all(b"FAIL" + _block(f"device {state or 'not found'}"))
        elif not request.startswith("host"):
            await stream.send_all(b"OKAY" + self.answer)
        else:
            await stream.send_all(b"FAIL" + _block("unknown"))
        return False


def _block(text: str) -> bytes:
    return f"{len(text):04x}{text}".encode()


async def _request(stream: trio.SocketStream) -> str | None:
    data = b""
    while len(data) < 4 or len(data) < 4 + int(data[:4], 16):
        more = await stream.receive_some(4096)
        if not more:
            return None
        data += more
    return data[4:].decode()


@asynccontextmanager
async def lying_server(server: LyingServer) -> AsyncIterator[AdbClient]:
    """A client of that server while the block runs."""
    async with trio.open_nursery() as nursery:
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, server.serve_socket, [listener])
        yield AdbClient(listener.socket.getsockname()[1])
        nursery.cancel_scope.cancel()
