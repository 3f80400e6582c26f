"""The adb server's host protocol as bytes: requests, device lists and `shell,v2` streams, and nothing that waits.

Source: AOSP `packages/modules/adb/SERVICES.TXT`, `OVERVIEW.TXT`, `SYNC.TXT`.
"""

import struct
from collections.abc import Iterator

import attrs

REQUEST_LIMIT = 0xFFFF  # four hex digits of length

SHELL_STDOUT = 1
SHELL_STDERR = 2
SHELL_EXIT = 3
SHELL_CLOSE_STDIN = 4
_SHELL_HEADER = struct.Struct("<BI")
SHELL_HEADER_SIZE = _SHELL_HEADER.size
CLOSED_STDIN = _SHELL_HEADER.pack(SHELL_CLOSE_STDIN, 0)
SHELL_PIECE_LIMIT = 64 * 1024 * 1024  # far above any phone's, so only garbage is refused


class WireError(Exception):
    """Bytes that are none of this protocol."""


def encode_request(text: str) -> bytes:
    """A request: four hex digits of length, then the text.

    Raises:
        ValueError: the text is too long to be stated.
    """
    data = text.encode()
    if len(data) > REQUEST_LIMIT:
        raise ValueError(f"a request of {len(data)} bytes; the adb server takes {REQUEST_LIMIT}")
    return b"%04x" % len(data) + data


def parse_length(text: bytes) -> int:
    """The length before a reply.

    Raises:
        WireError: it is not four hex digits.
    """
    try:
        return int(text, 16)
    except ValueError:
        raise WireError(f"a length of {text!r}") from None


@attrs.frozen
class DeviceEntry:
    """A phone as the adb server lists it."""

    serial: str
    state: str
    """`device`, `offline`, `unauthorized`, `authorizing`, `connecting`, ..."""
    fields: dict[str, str] = attrs.field(factory=dict)
    """`product`, `model`, `device`, `transport_id`, ... of the long form; empty in the short one."""


def parse_devices(text: str) -> tuple[DeviceEntry, ...]:
    """Lines of `host:devices-l` (blanks) or of `host:track-devices` (a tab)."""
    entries = []
    for line in text.splitlines():
        words = line.split()
        if len(words) >= 2:
            # `no permissions (user ...; see ...)` has blanks in the state; only the first word counts
            fields = {name: value for name, sign, value in (word.partition(":") for word in words[2:]) if sign}
            entries.append(DeviceEntry(words[0], words[1], fields))
    return tuple(entries)


class ShellReader:
    """Takes a `shell,v2` stream apart, however it was cut on the way."""

    def __init__(self) -> None:
        self._pending = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """Yield (kind, data) of every piece that is complete once `data` has arrived.

        Raises:
            WireError: a piece that claims an absurd length.
        """
        self._pending += data
        while len(self._pending) >= SHELL_HEADER_SIZE:
            kind, length = _SHELL_HEADER.unpack_from(self._pending)
            if length > SHELL_PIECE_LIMIT:
                raise WireError(f"a shell piece of kind {kind} and {length} bytes")
            end = SHELL_HEADER_SIZE + length
            if len(self._pending) < end:
                return
            piece = bytes(memoryview(self._pending)[SHELL_HEADER_SIZE:end])
            del self._pending[:end]
            yield kind, piece


@attrs.frozen
class ShellOutput:
    """What a whole `shell,v2` stream held."""

    stdout: memoryview
    stderr: bytes
    exit_code: int | None
    """None: the stream ended before the command did."""


def compact_shell(wire: memoryview) -> ShellOutput:
    """Read a whole `shell,v2` stream, moving its output together at the beginning of `wire`, without a second buffer.

    Raises:
        WireError: a piece that claims more than could be right.
    """
    position = written = 0
    stderr = bytearray()
    exit_code = None
    while position + SHELL_HEADER_SIZE <= len(wire):
        kind, length = _SHELL_HEADER.unpack_from(wire, position)
        if length > SHELL_PIECE_LIMIT:
            raise WireError(f"a shell piece of kind {kind} and {length} bytes")
        start = position + SHELL_HEADER_SIZE
        end = min(start + length, len(wire))
        if kind == SHELL_STDOUT:
            wire[written : written + end - start] = wire[start:end]
            written += end - start
        elif kind == SHELL_STDERR:
            stderr += wire[start:end]
        elif kind == SHELL_EXIT and end > start:
            exit_code = wire[start]
        position = start + length
    return ShellOutput(wire[:written], bytes(stderr), exit_code)
