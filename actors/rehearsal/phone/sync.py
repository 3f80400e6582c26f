"""The `sync:` service of a simulated phone: stat, list, send and receive files.

Requests are `id[4] length u32 argument[length]`; source: AOSP `adb/SYNC.TXT`, `file_sync_protocol.h`.
"""

import struct

from actors.rehearsal.phone.handset import Handset, StoredFile
from actors.rehearsal.phone.process import Input
from actors.rehearsal.phone.programs_unix import FOLDER_MODE, REGULAR_FILE, children, is_folder, normal_path
from actors.rehearsal.phone.stream import Stream
from actors.rehearsal.phone.wire import WireError

DATA_LIMIT = 64 * 1024  # SYNC_DATA_MAX: a longer DATA piece is refused by real hosts
PATH_LIMIT = 1024
ENOENT = 2
_MODE_MASK = 0o7777

_REQUEST = struct.Struct("<4sI")
_STAT_V1 = struct.Struct("<4sIII")
_STAT_V2 = struct.Struct("<4sIQQIIIIQqqq")
_DENT_V1 = struct.Struct("<4sIIII")
_DENT_V2 = struct.Struct("<4sIQQIIIIQqqqI")


async def serve_sync(stream: Stream, handset: Handset) -> None:
    """Answer requests until QUIT. A request that no host makes ends the stream."""
    source = Input(stream.read)
    while True:
        head = await source.read_exactly(_REQUEST.size)
        kind, length = _REQUEST.unpack(head)
        if kind == b"QUIT":
            return
        if length > PATH_LIMIT:
            await _fail(stream, "path too long")
            return
        argument = (await source.read_exactly(length)).decode("utf-8", "surrogateescape")
        if kind == b"STAT":
            mode, size, modified, _ = _status(handset, argument)
            await stream.write(_STAT_V1.pack(b"STAT", mode, size & 0xFFFFFFFF, modified))
        elif kind in (b"STA2", b"LST2"):
            await stream.write(_stat_v2(kind, _status(handset, argument)))
        elif kind in (b"LIST", b"LIS2"):
            await _list(stream, handset, argument, version_2=kind == b"LIS2")
        elif kind == b"SEND":
            await _receive(stream, source, handset, argument)
        elif kind == b"RECV":
            await _send(stream, handset, argument)
        else:
            await _fail(stream, f"unknown command {kind.hex()}")
            return


def _status(handset: Handset, path: str) -> tuple[int, int, int, int]:
    """Mode, size, seconds of last change, and error number."""
    name = normal_path(path)
    file = handset.files.get(name)
    if file is not None:
        return file.mode, len(file.data), file.modified, 0
    if is_folder(handset, name):
        return FOLDER_MODE, 4096, int(handset.boot_epoch), 0
    return 0, 0, 0, ENOENT


def _stat_v2(kind: bytes, status: tuple[int, int, int, int]) -> bytes:
    mode, size, modified, error = status
    links = 0 if error else 1
    return _STAT_V2.pack(kind, error, links, links, mode, links, 0, 0, size, modified, modified, modified)


async def _list(stream: Stream, handset: Handset, path: str, *, version_2: bool) -> None:
    folder = normal_path(path)
    for child in children(handset, folder) if is_folder(handset, folder) else ():
        mode, size, modified, _ = _status(handset, f"{folder}/{child}")
        name = child.encode("utf-8", "surrogateescape")
        if version_2:
            entry = _DENT_V2.pack(b"DNT2", 0, 1, 1, mode, 1, 0, 0, size, modified, modified, modified, len(name))
        else:
            entry = _DENT_V1.pack(b"DENT", mode, size & 0xFFFFFFFF, modified, len(name))
        await stream.write(entry + name)
    size = _DENT_V2.size if version_2 else _DENT_V1.size
    await stream.write(b"DONE".ljust(size, b"\0"))


async def _receive(stream: Stream, source: Input, handset: Handset, argument: str) -> None:
    path, _, mode_text = argument.rpartition(",")
    parts: list[bytes] = []
    while True:
        kind, length = _REQUEST.unpack(await source.read_exactly(_REQUEST.size))
        if kind == b"DONE":
            modified = length
            break
        if kind != b"DATA" or length > DATA_LIMIT:
            raise WireError(f"sync: {kind!r} of {length} bytes in the middle of a file")
        parts.append(await source.read_exactly(length))
    name = normal_path(path)
    if not path or not mode_text.isdigit():
        await _fail(stream, f"bad path or mode: {argument}")
    elif is_folder(handset, name):
        await _fail(stream, "Is a directory")
    else:
        mode = int(mode_text) & _MODE_MASK
        mode |= REGULAR_FILE | (mode >> 6 & 0o7) * 0o011  # as adbd does: what the owner may, everybody may
        handset.files[name] = StoredFile(b"".join(parts), mode, modified)
        await stream.write(_REQUEST.pack(b"OKAY", 0))


async def _send(stream: Stream, handset: Handset, path: str) -> None:
    file = handset.files.get(normal_path(path))
    if file is None:
        await _fail(stream, "No such file or directory")
        return
    view = memoryview(file.data)
    for start in range(0, len(view), DATA_LIMIT):
        piece = view[start : start + DATA_LIMIT]
        await stream.write(_REQUEST.pack(b"DATA", len(piece)) + bytes(piece))
    await stream.write(_REQUEST.pack(b"DONE", 0))


async def _fail(stream: Stream, reason: str) -> None:
    text = reason.encode("utf-8", "surrogateescape")
    await stream.write(_REQUEST.pack(b"FAIL", len(text)) + text)
