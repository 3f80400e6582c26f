"""Files to and from a phone through `sync:`."""

import struct
from pathlib import Path

import attrs
import trio

from actors.devices.adb.client import AdbClient, AdbSocket, phone_timeout, total_deadline
from actors.devices.adb.errors import AdbProtocolError, TransferFailed

DATA_SIZE = 64 * 1024  # SYNC_DATA_MAX of the protocol
PULL_LIMIT = 512 * 1024 * 1024
TRANSFER_SECONDS = 60.0
_REQUEST = struct.Struct("<4sI")
_STAT = struct.Struct("<III")


@attrs.frozen
class FileStatus:
    """What the phone says of a path."""

    mode: int
    size: int
    """Bytes, modulo 2**32."""
    modified: int
    """Seconds of the Unix epoch."""


async def stat_file(
    client: AdbClient, serial: str, path: str, *, timeout_seconds: float = TRANSFER_SECONDS
) -> FileStatus | None:
    """Status of a path, or None if the phone has no such file."""
    with total_deadline(timeout_seconds, lambda: phone_timeout(serial, f"stat {path}", timeout_seconds)):
        async with client.open_service(serial, "sync:") as socket:
            await socket.send(_request(b"STAT", path.encode()))
            kind = await socket.receive_exactly(4)
            if kind != b"STAT":
                raise AdbProtocolError(f"{kind!r} in answer to STAT", phone=serial)
            mode, size, modified = _STAT.unpack(await socket.receive_exactly(_STAT.size))
            await socket.send(_request(b"QUIT", b""))
    return FileStatus(mode, size, modified) if mode else None


async def push_file(
    client: AdbClient,
    serial: str,
    source: bytes | Path,
    path: str,
    *,
    mode: int = 0o644,
    modified: int = 0,
    timeout_seconds: float = TRANSFER_SECONDS,
) -> int:
    """Write a file on the phone; returns its length in bytes, once the phone has confirmed it.

    Raises:
        TransferFailed: the phone refused.
        OSError: the source cannot be read.
    """
    with total_deadline(timeout_seconds, lambda: phone_timeout(serial, f"push {path}", timeout_seconds)):
        data = await trio.Path(source).read_bytes() if isinstance(source, Path) else source
        async with client.open_service(serial, "sync:") as socket:
            await socket.send(_request(b"SEND", f"{path},{mode | 0o100000}".encode()))
            view = memoryview(data)
            for start in range(0, len(view), DATA_SIZE):
                await socket.send(_request(b"DATA", view[start : start + DATA_SIZE]))
            await socket.send(_REQUEST.pack(b"DONE", modified))
            kind, length = _REQUEST.unpack(await socket.receive_exactly(_REQUEST.size))
            if kind != b"OKAY":
                raise await _failure(socket, kind, length, f"push {path}")
            await socket.send(_request(b"QUIT", b""))
    return len(data)


async def pull_file(client: AdbClient, serial: str, path: str, *, timeout_seconds: float = TRANSFER_SECONDS) -> bytes:
    """The content of a file on the phone, complete.

    Raises:
        TransferFailed: the phone refused.
    """
    content = bytearray()
    with total_deadline(timeout_seconds, lambda: phone_timeout(serial, f"pull {path}", timeout_seconds)):
        async with client.open_service(serial, "sync:") as socket:
            await socket.send(_request(b"RECV", path.encode()))
            while True:
                kind, length = _REQUEST.unpack(await socket.receive_exactly(_REQUEST.size))
                if kind == b"DONE":
                    break
                if kind != b"DATA" or length > DATA_SIZE:
                    raise await _failure(socket, kind, length, f"pull {path}")
                content += await socket.receive_exactly(length)
                if len(content) > PULL_LIMIT:
                    raise TransferFailed(f"pull {path}: more than {PULL_LIMIT} bytes", phone=serial)
            await socket.send(_request(b"QUIT", b""))
    return bytes(content)


def _request(kind: bytes, argument: bytes | memoryview) -> bytes:
    return _REQUEST.pack(kind, len(argument)) + bytes(argument)


async def _failure(socket: AdbSocket, kind: bytes, length: int, what: str) -> Exception:
    if kind != b"FAIL" or length > DATA_SIZE:
        return AdbProtocolError(f"{what}: {kind!r} of {length} bytes", phone=socket.phone)
    reason = (await socket.receive_exactly(length)).decode("utf-8", "replace")
    return TransferFailed(f"{what}: {reason}", phone=socket.phone)
