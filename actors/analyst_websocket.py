"""The assistant's own websocket server: trio-websocket on sockets of ours, with or without TLS.

Connections are accepted here and not by trio-websocket's server: so they are counted before they say anything, their
sockets are closed however they end, and no mistake in one of them ends the server.
"""

import ssl
from collections.abc import Sequence
from functools import partial
from typing import Any

import trio
from trio_websocket import ConnectionClosed, HandshakeError, WebSocketConnection, WebSocketRequest, wrap_server_stream
from wsproto.utilities import ProtocolError

from actors.analyst_desk import AnalystDesk, Newcomer
from actors.analyst_limits import is_origin_allowed
from actors.socket_line import SocketLine
from actors.watched_stream import WatchedStream
from runtime.telemetry import emit
from sqlassist.protocol import PATH

BACKLOG = 256  # connections that the kernel keeps while we accept others
RECEIVE_BYTES = 4096  # questions are short, and every idle connection has such a buffer
Stream = trio.SocketStream | trio.SSLStream[trio.SocketStream]


class ListenError(Exception):
    """The server cannot listen, or its certificate cannot be used: the text says why and what to do."""


async def open_listeners(
    host: str, port: int, *, certificate: str | None = None, key: str | None = None
) -> list[trio.SocketListener] | list[trio.SSLListener[trio.SocketStream]]:
    """Listen, with TLS where there is a certificate.

    Args:
        host: A name or an address.
        port: 0: any free one.
        certificate: PEM file with the chain.
        key: PEM file; None: it is in the same file.

    Raises:
        ListenError: the address is taken or not ours, or the files cannot be used.
    """
    try:
        if certificate is None:
            return await trio.open_tcp_listeners(port, host=host, backlog=BACKLOG)
        context = tls_context(certificate, key)
        return await trio.open_ssl_over_tcp_listeners(port, context, host=host, https_compatible=True, backlog=BACKLOG)
    except OSError as error:
        raise ListenError(f"cannot listen on {host} port {port}: {error.strerror or error}") from error


def tls_context(certificate: str, key: str | None) -> ssl.SSLContext:
    """How a server proves itself.

    Raises:
        ListenError: a file is missing, or is no certificate or no key to it.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key)
    except ssl.SSLError as error:
        text = f"{certificate} and {key or certificate} are no certificate and its key: {error.reason or error}"
        raise ListenError(text) from error
    except OSError as error:
        raise ListenError(f"{certificate} or {key or certificate} cannot be read: {error.strerror}") from error
    return context


def port_of(listener: trio.SocketListener | trio.SSLListener[trio.SocketStream]) -> int:
    """The port that it listens on."""
    plain = listener.transport_listener if isinstance(listener, trio.SSLListener) else listener
    assert isinstance(plain, trio.SocketListener)
    port: int = plain.socket.getsockname()[1]
    return port


async def serve_desk(
    desk: AnalystDesk,
    listeners: Sequence[Any],
    *,
    origins: Sequence[str] = (),
    task_status: trio.TaskStatus[Any] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Accept connections for a desk until cancelled; then those that are left are cut.

    Args:
        desk: Serves them.
        listeners: From `open_listeners`; closed in the end.
        origins: Web pages that may connect, as `https://host[:port]`. Programs that are no browsers always may.
        task_status: Started, with the listeners: connections are accepted.
    """
    handler = partial(_serve_stream, desk, tuple(origins))
    await trio.serve_listeners(handler, list(listeners), task_status=task_status)


async def _serve_stream(desk: AnalystDesk, origins: Sequence[str], stream: Stream) -> None:
    newcomer = desk.newcomer()
    if newcomer is None:
        await trio.aclose_forcefully(stream)
        return
    peer = _peer_of(stream)
    try:
        async with trio.open_nursery() as nursery:
            await _serve_websocket(desk, newcomer, origins, stream, peer, nursery)
            nursery.cancel_scope.cancel()
    except* (OSError, ConnectionClosed, HandshakeError, ProtocolError, trio.BrokenResourceError) as group:
        emit("actors.websocket.lost", level="debug", peer=peer, error=repr(group.exceptions[0]))
    except* Exception as group:  # noqa: BLE001  # trio-websocket's reader tripped: that ends one connection alone
        emit("actors.websocket.broken", level="error", peer=peer, exc_info=group)
    finally:
        newcomer.leave()
        await trio.aclose_forcefully(stream)


async def _serve_websocket(
    desk: AnalystDesk, newcomer: Newcomer, origins: Sequence[str], stream: Stream, peer: str, nursery: trio.Nursery
) -> None:
    limits = desk.limits
    connection: WebSocketConnection | None = None
    with trio.move_on_after(limits.hello_seconds) as handshake:
        watched = WatchedStream(stream, handshake.cancel)
        # its limit counts characters, ours bytes; the decoder counts again
        request = await wrap_server_stream(
            nursery, watched, max_message_size=limits.message_bytes, receive_buffer_size=RECEIVE_BYTES
        )
        connection = await _accepted(request, origins)
        watched.on_end = None
    if connection is not None:
        await desk.serve(SocketLine(peer, connection, stream), newcomer)


async def _accepted(request: WebSocketRequest, origins: Sequence[str]) -> WebSocketConnection | None:
    origin = next((value.decode("latin-1") for name, value in request.headers if name.lower() == b"origin"), None)
    if request.path.partition("?")[0] != PATH:
        await request.reject(404, body=f"the assistant is at {PATH}\n".encode())
    elif not is_origin_allowed(origin, origins):
        emit("actors.websocket.refused", level="warning", origin=(origin or "")[:200])
        await request.reject(403, body=b"this page may not connect: [listen] origins does not name it\n")
    else:
        return await request.accept()
    return None


def _peer_of(stream: Stream) -> str:
    plain = stream.transport_stream if isinstance(stream, trio.SSLStream) else stream
    try:
        name: Any = plain.socket.getpeername()
    except OSError:  # gone already
        return "unknown"
    return str(name[0])
