"""A client's websocket to an assistant: opened with a reason for every failure, and closed whatever happens.

trio-websocket's own client is not used for opening: of a certificate that is not trusted it says nothing, it waits for
servers that hang up in the handshake, and it leaves the sockets of refusals open.
"""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

import attrs
import trio
from trio_websocket import ConnectionRejected, wrap_client_stream
from wsproto.utilities import ProtocolError

from actors.analyst_line import CLOSE_SECONDS, NORMAL
from actors.socket_line import SocketLine
from actors.watched_stream import WatchedStream
from runtime.nursery import open_bare_nursery
from sqlassist.protocol import PATH
from sqlassist.protocol_replies import MAX_EVENT_BYTES

CONNECT_SECONDS = 10.0
MAX_BODY = 200  # characters of a refusal that are repeated


class BadUrl(ValueError):
    """An address that is none of an assistant."""


class AssistantUnreachable(Exception):
    """There is no assistant at the address, or it refuses: the text says which, and why."""


@attrs.frozen
class AssistantAddress:
    """Where an assistant is."""

    host: str
    port: int
    path: str = PATH
    is_tls: bool = False

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'wss' if self.is_tls else 'ws'}://{host}:{self.port}{self.path}"


def parse_address(url: str) -> AssistantAddress:
    """Read `ws://host:port/assistant`; `wss`, `http` and `https` are taken too, and the path may be left out.

    Raises:
        BadUrl: it is none.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise BadUrl(f"{url!r} cannot be read: {error}") from None
    if parts.scheme not in {"ws", "wss", "http", "https"} or not parts.hostname or port == 0:
        raise BadUrl(f"{url!r} must be like ws://127.0.0.1:8765 or wss://farm.example{PATH}")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise BadUrl("the address holds no token: give it with --token-file or CORRAL_TOKEN")
    is_tls = parts.scheme in {"wss", "https"}
    path = parts.path if parts.path not in {"", "/"} else PATH
    return AssistantAddress(parts.hostname, port or (443 if is_tls else 80), path, is_tls)


@asynccontextmanager
async def open_assistant_socket(
    address: AssistantAddress, *, ca_file: Path | None = None, origin: str = ""
) -> AsyncIterator[SocketLine]:
    """Connect; the connection is closed politely when the block ends.

    Args:
        address: Where.
        ca_file: PEM file of the authority that signed the server's certificate; None: the system's.
        origin: Sent as a browser's; empty: none.

    Raises:
        AssistantUnreachable: nobody is there, they are not trusted, or they refuse.
    """
    try:
        async with open_bare_nursery() as nursery:
            stream = await _stream_to(address, ca_file)
            try:
                line = await _handshake(address, stream, origin, nursery)
                yield line
                with trio.move_on_after(CLOSE_SECONDS):
                    await line.close(NORMAL, "")
            finally:
                await trio.aclose_forcefully(stream)
                nursery.cancel_scope.cancel()
    except ConnectionRejected as error:  # it comes out of the reader's task
        body = (error.body or b"").decode("utf-8", "replace").strip()[:MAX_BODY]
        text = f"{address}: refused with HTTP {error.status_code}{': ' * bool(body)}{body}"
        raise AssistantUnreachable(text) from None
    except ProtocolError as error:
        raise AssistantUnreachable(f"{address}: what answers there is no websocket: {error}") from None


async def _stream_to(address: AssistantAddress, ca_file: Path | None) -> trio.abc.Stream:
    stream: trio.SocketStream | trio.SSLStream[trio.SocketStream] | None = None
    try:
        with trio.fail_after(CONNECT_SECONDS):
            stream = await trio.open_tcp_stream(address.host, address.port)
            if address.is_tls:
                context = ssl.create_default_context(cafile=ca_file)
                stream = trio.SSLStream(stream, context, server_hostname=address.host, https_compatible=True)
                await stream.do_handshake()
            return stream
    except BaseException as error:
        if stream is not None:
            await trio.aclose_forcefully(stream)
        if isinstance(error, trio.TooSlowError):
            raise AssistantUnreachable(f"{address}: no answer within {CONNECT_SECONDS:g} s") from None
        if isinstance(error, trio.BrokenResourceError):
            cause = error.__cause__
            why = cause.verify_message if isinstance(cause, ssl.SSLCertVerificationError) else cause or "it hung up"
            raise AssistantUnreachable(f"{address}: no TLS connection: {why}") from None
        if isinstance(error, ssl.SSLError):
            raise AssistantUnreachable(f"{ca_file} holds no certificates: {error.reason or error}") from None
        if isinstance(error, OSError):
            raise AssistantUnreachable(f"{address}: {_words_of(error)}") from None
        raise


async def _handshake(
    address: AssistantAddress, stream: trio.abc.Stream, origin: str, nursery: trio.Nursery
) -> SocketLine:
    headers = [(b"Origin", origin.encode())] if origin else []
    host = str(address).partition("//")[2].partition("/")[0]
    with trio.move_on_after(CONNECT_SECONDS) as patience:
        watched = WatchedStream(stream, patience.cancel)
        connection = await wrap_client_stream(
            nursery,
            cast("trio.SocketStream", watched),  # any stream will do
            host,
            address.path,
            extra_headers=headers,
            max_message_size=MAX_EVENT_BYTES,
        )
        watched.on_end = None
        return SocketLine(address.host, connection, stream)
    raise AssistantUnreachable(f"{address}: what answers there hung up, or is no assistant")


def _words_of(error: OSError) -> str:
    """What went wrong, of several attempts too."""
    causes = error.__cause__
    if isinstance(causes, BaseExceptionGroup):
        error = next((one for one in causes.exceptions if isinstance(one, OSError)), error)
    return error.strerror or str(error)
