"""Kept-alive connections to one engine: each is used by one request at a time, and closed at the first doubt.

httpcore's own pool is not used: when a request is cancelled between connecting and sending, its connection stays in
that pool as new for ever (httpcore 1.0.9), and a fleet cancels often. Admission is done in front of this, so a limit
is not needed here.
"""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast
from urllib.parse import urlsplit

import httpcore
import trio

from inference.config import EngineConfig
from inference.errors import EngineRefused

KEEPALIVE_SECONDS = 30.0  # servers drop idle connections after 5 s (uvicorn) to minutes; a dropped one is noticed


class _Body:
    """A request's body in one piece. No async generator, which a broken write would leave to the garbage collector."""

    def __init__(self, content: bytes | None) -> None:
        self._pieces = [content] if content else []

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if not self._pieces:
            raise StopAsyncIteration
        return self._pieces.pop()


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
        scheme, host = parts.scheme.encode(), (parts.hostname or "").encode()
        port = parts.port or (443 if parts.scheme == "https" else 80)
        self._origin = httpcore.Origin(scheme, host, port)
        self._host = parts.netloc
        self._network = cast("httpcore.AsyncNetworkBackend", httpcore.TrioBackend()) if network is None else network
        self._connect_seconds = connect_seconds
        self._max_idle = max_idle
        self._ssl_context = ssl_context
        self._idle: list[httpcore.AsyncHTTPConnection] = []  # the last used one is at the end, and used first
        self._all: set[httpcore.AsyncHTTPConnection] = set()
        self._closed = False

    def __len__(self) -> int:
        return len(self._all)

    @asynccontextmanager
    async def open_response(
        self, method: str, path: str, headers: tuple[tuple[str, str], ...], body: bytes | None
    ) -> AsyncIterator[httpcore.Response]:
        """Send a request; the block may read the response. Afterwards the connection is kept if it can be.

        The response's stream must be read to its end, or its next read be cancelled: it is an async generator.

        Raises:
            httpcore.ConnectError, httpcore.ConnectTimeout: nothing was sent.
            httpcore.NetworkError, httpcore.ProtocolError: it broke.
        """
        request = httpcore.Request(
            method,
            httpcore.URL(
                scheme=self._origin.scheme, host=self._origin.host, port=self._origin.port, target=path.encode()
            ),
            headers=[("Host", self._host), *headers, *([] if body is None else [("Content-Length", str(len(body)))])],
            content=_Body(body),
            extensions={"timeout": {"connect": self._connect_seconds}},
        )
        connection = await self._take()
        try:
            response = await connection.handle_async_request(request)
            try:
                yield response
            finally:
                with trio.CancelScope(shield=True):  # closing does not wait for the other side
                    await response.aclose()
        finally:
            if connection.is_idle() and len(self._idle) < self._max_idle and not self._closed:
                self._idle.append(connection)
            else:
                await self._discard(connection)

    async def aclose(self) -> None:
        """Close everything; requests that are out break."""
        self._closed = True
        self._idle.clear()
        for connection in list(self._all):
            await self._discard(connection)

    async def _take(self) -> httpcore.AsyncHTTPConnection:
        while self._idle:
            connection = self._idle.pop()
            if connection.is_available() and not connection.has_expired():
                return connection
            await self._discard(connection)
        connection = httpcore.AsyncHTTPConnection(
            self._origin,
            ssl_context=self._ssl_context,
            keepalive_expiry=KEEPALIVE_SECONDS,
            network_backend=self._network,
        )
        self._all.add(connection)
        return connection

    async def _discard(self, connection: httpcore.AsyncHTTPConnection) -> None:
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
