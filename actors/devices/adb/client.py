"""A native client of the adb server: one socket a call, a total deadline on each, cancelled exactly.

A deadline counts from the call to its last byte. Whatever happens, the call's socket is closed when it ends.
"""

import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager

import attrs
import trio

from actors.devices.adb.errors import (
    AdbProtocolError,
    AdbServerLost,
    AdbServerUnresponsive,
    refusal_for,
)
from actors.devices.adb.wire import DeviceEntry, WireError, encode_request, parse_devices, parse_length
from actors.devices.base import DeviceError, DeviceTimeout

HOST = "127.0.0.1"
HOST_CALL_SECONDS = 5.0  # the server answers from memory; a loaded machine needs a second
CONNECT_SECONDS = 12.0  # adb itself gives a silent phone 10 s
TURN_SECONDS = 0.5  # a phone that has not answered by then is likely dead, and must not keep the others waiting
FORWARD_SECONDS = 5.0
RECEIVE_SIZE = 256 * 1024
_STATUS_SIZE = 4


@contextmanager
def total_deadline(seconds: float, error: Callable[[], DeviceError]) -> Iterator[None]:
    """Cancel the block after `seconds` and raise what `error` makes, with nothing of the block left running."""
    with trio.move_on_after(seconds) as scope:
        yield
    if scope.cancelled_caught:
        raise error()


class AdbSocket:
    """A connection to the adb server. Broken connections become typed errors here and nowhere else."""

    def __init__(self, stream: trio.SocketStream, *, phone: str) -> None:
        self.stream = stream
        self.phone = phone
        self._pending = b""

    async def send(self, data: bytes | memoryview) -> None:
        """Send all of `data`."""
        try:
            await self.stream.send_all(data)
        except trio.BrokenResourceError as error:
            raise AdbServerLost("the adb server hung up while we sent", phone=self.phone) from error

    async def receive_some(self) -> bytes:
        """What has arrived; b"" once the other side has closed."""
        if self._pending:
            data, self._pending = self._pending, b""
            return data
        try:
            return bytes(await self.stream.receive_some(RECEIVE_SIZE))
        except trio.BrokenResourceError as error:
            raise AdbServerLost("the adb server cut the connection", phone=self.phone) from error

    async def receive_into(self, buffer: memoryview) -> int:
        """Fill `buffer` from its start with what has arrived; returns the count, 0 at the end."""
        if self._pending:
            count = min(len(buffer), len(self._pending))
            buffer[:count] = self._pending[:count]
            self._pending = self._pending[count:]
            return count
        try:
            return await self.stream.socket.recv_into(buffer)
        except OSError as error:
            raise AdbServerLost(f"the adb server cut the connection: {error}", phone=self.phone) from error

    async def receive_exactly(self, count: int) -> bytes:
        """`count` bytes.

        Raises:
            AdbServerLost: the other side closed before they had come.
        """
        parts: list[bytes] = []
        missing = count
        while missing:
            data = await self.receive_some()
            if not data:
                got = count - missing
                raise AdbServerLost(f"connection closed after {got} of {count} bytes", phone=self.phone)
            parts.append(data[:missing])
            self._pending = data[missing:]
            missing -= len(parts[-1])
        return b"".join(parts)

    async def receive_block(self) -> str:
        """A text with its length before it."""
        try:
            length = parse_length(await self.receive_exactly(4))
        except WireError as error:
            raise AdbProtocolError(f"the adb server sent {error}", phone=self.phone) from error
        return (await self.receive_exactly(length)).decode("utf-8", "replace")

    async def request(self, text: str) -> None:
        """Ask for a service.

        Raises:
            DeviceError: it was refused; the class says why.
        """
        await self.send(encode_request(text))
        await self.expect_okay(text)

    async def expect_okay(self, about: str) -> None:
        """Read OKAY, or raise what FAIL means."""
        status = await self.receive_exactly(_STATUS_SIZE)
        if status == b"FAIL":
            raise refusal_for(await self.receive_block(), phone=self.phone)
        if status != b"OKAY":
            raise AdbProtocolError(f"{status!r} in answer to {about!r}", phone=self.phone)


@attrs.define(eq=False)
class AdbClient:
    """Talks to the adb server on a port of this machine. It holds no connection between calls.

    Raises (all calls):
        AdbServerLost: nobody listens, or the server hung up.
        AdbServerUnresponsive: the server did not answer a `host:` call within the deadline.
        DeviceTimeout: the phone did not answer within the deadline.
    """

    port: int
    limiter: trio.CapacityLimiter = attrs.field(factory=lambda: trio.CapacityLimiter(os.cpu_count() or 1))
    """Threads that turn pixels: the work is pure CPU, so more than cores would only queue inside."""
    connects_in_turn: bool = True
    """Begin a connect when the one before has ended or has taken `TURN_SECONDS`: the server of adb 29 takes them all at
    once, and dies of a segmentation fault now and then when several phones answer it together."""
    _turn: trio.Lock = attrs.field(init=False, factory=trio.Lock)
    _before: tuple[float, trio.Event] | None = attrs.field(init=False, default=None)
    """When the connect before began, and its end."""

    @asynccontextmanager
    async def open_socket(self, *, phone: str = "") -> AsyncIterator[AdbSocket]:
        """A fresh connection to the server, closed when the block ends. It has no deadline of its own."""
        # `close`, not `aclose`, which is a checkpoint: closing must not wait, nor be cut short
        with trio.socket.socket() as plain:
            try:
                await plain.connect((HOST, self.port))
            except OSError as error:
                raise AdbServerLost(f"no adb server on port {self.port}: {error}", phone=phone) from error
            yield AdbSocket(trio.SocketStream(plain), phone=phone)

    @asynccontextmanager
    async def open_service(self, serial: str, service: str) -> AsyncIterator[AdbSocket]:
        """A service on a phone, e.g. `exec:screencap`. Put a `total_deadline` around it.

        Raises:
            DeviceNotFound: (or `DeviceOffline`, `DeviceUnauthorized`) the server has no such phone ready.
            ServiceClosed: the phone has no such service, or is going away.
        """
        async with self.open_socket(phone=serial) as socket:
            await socket.request(f"host:transport:{serial}")
            await socket.request(service)
            yield socket

    # -- the server

    async def version(self, *, timeout_seconds: float = HOST_CALL_SECONDS) -> int:
        """The server's protocol version, 41 for all of adb 29 to 36."""
        text = await self._ask("host:version", timeout_seconds)
        try:
            return parse_length(text.encode())
        except WireError:
            raise AdbProtocolError(f"port {self.port} answers host:version with {text!r}") from None

    async def connect(self, address: str, *, timeout_seconds: float = CONNECT_SECONDS) -> str:
        """Tell the server to connect to host:port. Its text is no evidence in either direction: ask `devices`.

        The deadline begins with its turn, for which it may wait as long as there are connects before it.
        """
        ended = trio.Event()
        async with self._turn:
            if self.connects_in_turn and self._before is not None:
                began_at, end = self._before
                with trio.move_on_at(began_at + TURN_SECONDS):
                    await end.wait()
            self._before = trio.current_time(), ended
        try:
            return await self._ask(f"host:connect:{address}", timeout_seconds)
        finally:
            ended.set()

    async def disconnect(self, address: str, *, timeout_seconds: float = HOST_CALL_SECONDS) -> None:
        """Make the server forget host:port; one that it does not know is forgotten already."""
        with total_deadline(timeout_seconds, lambda: self._unresponsive("host:disconnect", timeout_seconds)):
            async with self.open_socket() as socket:
                await socket.send(encode_request(f"host:disconnect:{address}"))
                await socket.receive_exactly(_STATUS_SIZE)
                await socket.receive_block()

    async def devices(self, *, timeout_seconds: float = HOST_CALL_SECONDS) -> tuple[DeviceEntry, ...]:
        """All phones that the server lists, in whatever state."""
        return parse_devices(await self._ask("host:devices-l", timeout_seconds))

    @asynccontextmanager
    async def track_devices(
        self, *, timeout_seconds: float = HOST_CALL_SECONDS
    ) -> AsyncIterator[AsyncIterator[tuple[DeviceEntry, ...]]]:
        """The list of phones, now and at every change; the iterator ends only by `AdbServerLost`.

        The deadline is for the subscription; waiting for a change has none.
        """
        async with self.open_socket() as socket:
            with total_deadline(timeout_seconds, lambda: self._unresponsive("host:track-devices", timeout_seconds)):
                await socket.request("host:track-devices")
            yield _DeviceLists(socket)

    async def features(self, serial: str, *, timeout_seconds: float = HOST_CALL_SECONDS) -> frozenset[str]:
        """What the phone and the server both can, e.g. `shell_v2`."""
        text = await self._ask(f"host-serial:{serial}:features", timeout_seconds, phone=serial)
        return frozenset(filter(None, text.split(",")))

    async def forward(self, serial: str, local: str, remote: str, *, timeout_seconds: float = FORWARD_SECONDS) -> str:
        """Forward a socket of this machine to the phone.

        Args:
            serial: the phone.
            local: e.g. `tcp:0`, which takes a free port.
            remote: e.g. `localabstract:scrcpy`.
            timeout_seconds: total, in seconds.

        Returns:
            `local`, with the port that was taken in place of 0.
        """
        about = f"host-serial:{serial}:forward:{local};{remote}"
        with total_deadline(timeout_seconds, lambda: self._unresponsive(about, timeout_seconds)):
            async with self.open_socket(phone=serial) as socket:
                await socket.request(about)
                await socket.expect_okay(about)  # the first is for the transport, this one for the listener
                return f"tcp:{await socket.receive_block()}" if local == "tcp:0" else local

    async def kill_forward(self, serial: str, local: str, *, timeout_seconds: float = FORWARD_SECONDS) -> None:
        """Take back one forward."""
        about = f"host-serial:{serial}:killforward:{local}"
        with total_deadline(timeout_seconds, lambda: self._unresponsive(about, timeout_seconds)):
            async with self.open_socket(phone=serial) as socket:
                await socket.request(about)
                await socket.expect_okay(about)

    async def _ask(self, request: str, timeout_seconds: float, *, phone: str = "") -> str:
        with total_deadline(timeout_seconds, lambda: self._unresponsive(request, timeout_seconds)):
            async with self.open_socket(phone=phone) as socket:
                await socket.request(request)
                return await socket.receive_block()

    def _unresponsive(self, request: str, seconds: float) -> DeviceError:
        return AdbServerUnresponsive(
            f"the adb server on port {self.port} did not answer {request!r} within {seconds:g} s"
        )


@attrs.define
class _DeviceLists:
    """Not an async generator: one that is left half-way must be closed by hand."""

    _socket: AdbSocket = attrs.field(alias="socket")

    def __aiter__(self) -> "_DeviceLists":
        return self

    async def __anext__(self) -> tuple[DeviceEntry, ...]:
        return parse_devices(await self._socket.receive_block())


def phone_timeout(serial: str, what: str, seconds: float) -> DeviceTimeout:
    """The error of a phone that did not answer in time."""
    return DeviceTimeout(f"{what} was not answered within {seconds:g} s", phone=serial)
