"""Kept-alive connections to one engine: each is used by one request at a time, and closed at the first doubt.

HTTP/1.1 by h11 straight over trio's streams. httpcore's pool and connections are not used: when a request is cancelled
between connecting and sending, its connection stays in that pool as new for ever (httpcore 1.0.9), and a fleet cancels
often; and its layers cost more than twice the work of the exchange itself. Its words for what went wrong are used, and
its network backends may stand in for TCP. Admission is done in front of this, so a limit is not needed here.
"""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import h11
import httpcore
import trio

from inference.chunked import BadChunk, ChunkedReader
from inference.config import EngineConfig
from inference.errors import EngineRefused

KEEPALIVE_SECONDS = 30.0  # servers drop idle connections after 5 s (uvicorn) to minutes; a dropped one is noticed
READ_BYTES = 64 << 10
MAX_HEAD_BYTES = 64 << 10  # a status line and headers; engines send a few hundred


class Connection:
    """One connection, and on it one exchange after the other."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream
        self._protocol = _new_protocol()
        self._chunked: ChunkedReader | None = None  # reads the body, where it is chunked
        self._at_hand = b""  # what came of it with the head
        self._keeps_alive = True
        self._used = False
        self._closed = False
        self.idle_since = 0.0
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        """Of the response that is being read; names are in lower case."""

    @property
    def is_reusable(self) -> bool:
        """True between two exchanges, while nothing speaks against a further one."""
        if self._closed or not self._keeps_alive:
            return False
        if self._chunked is not None:
            return self._chunked.done
        return self._protocol.our_state is h11.DONE and self._protocol.their_state is h11.DONE

    def is_stale(self, now: float) -> bool:
        """True when an idle connection was idle for long, or has something to read: that can only be its end."""
        if self._closed or now - self.idle_since > KEEPALIVE_SECONDS:
            return True
        stream = self._stream
        if isinstance(stream, trio.SSLStream):
            stream = stream.transport_stream
        return isinstance(stream, trio.SocketStream) and stream.socket.is_readable()

    async def exchange(self, request: h11.Request, body: bytes | None) -> None:
        """Send a request and read the head of its response.

        Raises:
            httpcore.NetworkError, httpcore.ProtocolError: it broke.
        """
        if self._used:
            self._protocol = _new_protocol()
        self._used, self._chunked = True, None
        protocol = self._protocol
        try:
            out = [protocol.send(request) or b""]
            if body:
                out += [bytes(piece) for piece in protocol.send_with_data_passthrough(h11.Data(data=body)) or ()]
            out.append(protocol.send(h11.EndOfMessage()) or b"")
        except h11.LocalProtocolError as error:
            raise httpcore.LocalProtocolError(str(error)) from error
        try:
            await self._stream.send_all(b"".join(out))
        except trio.BrokenResourceError:
            pass  # it may have refused before it had read all, and its answer says why
        except (trio.ClosedResourceError, trio.BusyResourceError) as error:
            raise httpcore.WriteError(str(error)) from error
        event = await self._next_event()
        while isinstance(event, h11.InformationalResponse):
            event = await self._next_event()
        if not isinstance(event, h11.Response):
            raise httpcore.RemoteProtocolError("the response has no head")
        self.status, self.headers = event.status_code, list(event.headers)
        if (b"transfer-encoding", b"chunked") in self.headers:  # h11 knows no other coding, and lower-cases this one
            tokens = b",".join(value for name, value in self.headers if name == b"connection").lower()
            self._keeps_alive = event.http_version >= b"1.1" and b"close" not in tokens
            self._chunked = ChunkedReader()
            self._at_hand = protocol.trailing_data[0]

    async def receive(self) -> bytes:
        """What has come of the body since the last call, at least a byte; empty once it is whole.

        Raises:
            httpcore.NetworkError, httpcore.ProtocolError: it broke.
        """
        if self._chunked is not None:
            return await self._receive_chunked(self._chunked)
        if self._protocol.their_state is not h11.SEND_BODY:
            return b""
        pieces: list[bytes] = []
        while True:
            event = self._event_at_hand()
            if event is h11.NEED_DATA:
                if pieces:
                    return b"".join(pieces)
                await self._read()
            elif isinstance(event, h11.Data):
                pieces.append(bytes(event.data))
            else:
                return b"".join(pieces)

    async def _receive_chunked(self, reader: ChunkedReader) -> bytes:
        data, self._at_hand = self._at_hand, b""
        while not reader.done:
            if not data:
                data = await self._read_some()
                if not data:
                    raise httpcore.RemoteProtocolError("it closed the connection in the middle of the body")
            try:
                body = reader.feed(data)
            except BadChunk as error:
                raise httpcore.RemoteProtocolError(str(error)) from error
            if body:
                return body
            data = b""
        return b""

    async def aclose(self) -> None:
        """Close it, without waiting for the other side. Whoever reads it ends with `httpcore.ReadError`."""
        self._closed = True
        await trio.aclose_forcefully(self._stream)

    async def _next_event(self) -> h11.Event | type[h11.PAUSED]:
        while True:
            event = self._event_at_hand()
            if event is not h11.NEED_DATA:
                assert not isinstance(event, type) or event is h11.PAUSED
                return event
            await self._read()

    def _event_at_hand(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        try:
            return self._protocol.next_event()
        except h11.RemoteProtocolError as error:
            raise httpcore.RemoteProtocolError(str(error)) from error

    async def _read(self) -> None:
        data = await self._read_some()
        if not data and self._protocol.their_state is h11.SEND_RESPONSE:
            raise httpcore.RemoteProtocolError("it disconnected without a response")
        try:
            self._protocol.receive_data(data)
        except h11.RemoteProtocolError as error:
            raise httpcore.RemoteProtocolError(str(error)) from error

    async def _read_some(self) -> bytes:
        try:
            return bytes(await self._stream.receive_some(READ_BYTES))
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise httpcore.ReadError(str(error)) from error


def _new_protocol() -> h11.Connection:
    return h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD_BYTES)


class Connections:
    """Connections to one origin.

    Args:
        url: of the origin, without a path.
        network: stands in for TCP in tests.
        connect_seconds: bounds the time to connect, TLS included.
        max_idle: idle connections that are kept.
        ssl_context: for https; None: the system's authorities.
    """

    def __init__(
        self,
        url: str,
        *,
        network: httpcore.AsyncNetworkBackend | None,
        connect_seconds: float,
        max_idle: int,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        parts = urlsplit(url)
        self._is_secure = parts.scheme == "https"
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if self._is_secure else 80)
        self._host_header = parts.netloc.encode()
        self._network = network
        self._connect_seconds = connect_seconds
        self._max_idle = max_idle
        self._ssl_context = ssl_context
        self._idle: list[Connection] = []  # the last used one is at the end, and used first
        self._all: set[Connection] = set()
        self._closed = False

    def __len__(self) -> int:
        return len(self._all)

    @asynccontextmanager
    async def open_response(
        self, method: str, path: str, headers: tuple[tuple[str, str], ...], body: bytes | None
    ) -> AsyncIterator[Connection]:
        """Send a request; the block may read the response. Afterwards the connection is kept if it can be.

        Raises:
            httpcore.ConnectError, httpcore.ConnectTimeout: nothing was sent.
            httpcore.NetworkError, httpcore.ProtocolError: it broke.
        """
        lines: list[tuple[bytes, bytes]] = [(b"Host", self._host_header)]
        lines += [(name.encode(), value.encode()) for name, value in headers]
        if body is not None:
            lines.append((b"Content-Length", str(len(body)).encode()))
        try:
            request = h11.Request(method=method, target=path, headers=lines)
        except h11.LocalProtocolError as error:
            raise httpcore.LocalProtocolError(str(error)) from error
        connection = await self._take()
        try:
            await connection.exchange(request, body)
            yield connection
        finally:
            if connection.is_reusable and len(self._idle) < self._max_idle and not self._closed:
                connection.idle_since = trio.current_time()
                self._idle.append(connection)
            else:
                await self._discard(connection)

    async def aclose(self) -> None:
        """Close everything; requests that are out break."""
        self._closed = True
        self._idle.clear()
        for connection in list(self._all):
            await self._discard(connection)

    async def _take(self) -> Connection:
        while self._idle:
            connection = self._idle.pop()
            if not connection.is_stale(trio.current_time()):
                return connection
            await self._discard(connection)
        connection = Connection(await self._connect())
        self._all.add(connection)
        return connection

    async def _connect(self) -> trio.abc.Stream:
        try:
            with trio.fail_after(self._connect_seconds):
                stream = await self._open_stream()
                try:
                    if self._is_secure:
                        stream = await self._secure(stream)
                except BaseException:
                    await trio.aclose_forcefully(stream)
                    raise
        except trio.TooSlowError as error:
            raise httpcore.ConnectTimeout(f"no connection within {self._connect_seconds} s") from error
        except (OSError, trio.BrokenResourceError) as error:  # ssl.SSLError is an OSError, or the cause of the other
            raise httpcore.ConnectError(str(error.__cause__ or error)) from error
        if self._closed:  # while it was being opened
            await trio.aclose_forcefully(stream)
            raise httpcore.ConnectError("its connections were closed")
        return stream

    async def _open_stream(self) -> trio.abc.Stream:
        if self._network is None:
            return await trio.open_tcp_stream(self._host, self._port)
        return _BackendStream(await self._network.connect_tcp(self._host, self._port, timeout=self._connect_seconds))

    async def _secure(self, stream: trio.abc.Stream) -> trio.abc.Stream:
        if self._ssl_context is None:
            self._ssl_context = ssl.create_default_context()
        secure = trio.SSLStream(stream, self._ssl_context, server_hostname=self._host, https_compatible=True)
        await secure.do_handshake()
        return secure

    async def _discard(self, connection: Connection) -> None:
        self._all.discard(connection)
        with trio.CancelScope(shield=True):
            await connection.aclose()


def ssl_context_for(config: EngineConfig) -> ssl.SSLContext | None:
    """What an https engine's certificate is checked against; None: the system's authorities.

    Raises:
        EngineRefused: the file cannot be read, or holds no certificate.
    """
    if config.ca_file is None:
        return None
    try:
        return ssl.create_default_context(cafile=config.ca_file)
    except OSError as error:  # ssl.SSLError is one
        reason = error.strerror or error
        raise EngineRefused(f"ca_file {config.ca_file} cannot be used: {reason}", engine=config.id) from error


class _BackendStream(trio.abc.Stream):
    """A stream of one of httpcore's network backends as trio's."""

    def __init__(self, stream: httpcore.AsyncNetworkStream) -> None:
        self._stream = stream

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        try:
            await self._stream.write(bytes(data))
        except httpcore.WriteError as error:
            raise trio.BrokenResourceError from error

    async def wait_send_all_might_not_block(self) -> None:
        await trio.lowlevel.checkpoint()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        try:
            return await self._stream.read(max_bytes or READ_BYTES)
        except httpcore.ReadError as error:
            raise trio.BrokenResourceError from error

    async def aclose(self) -> None:
        await self._stream.aclose()
