"""The ADB device protocol as bytes: packets, banners and checksums, and nothing that waits.

A packet is a 24-byte little-endian header `command arg0 arg1 length checksum magic` and `length` bytes of payload;
`magic` is the command with every bit turned. Source: AOSP `packages/modules/adb/protocol.txt`.
"""

import struct
from collections.abc import Iterator

import attrs

SYNC = 0x434E5953
CNXN = 0x4E584E43
AUTH = 0x48545541
OPEN = 0x4E45504F
OKAY = 0x59414B4F
WRTE = 0x45545257
CLSE = 0x45534C43
STLS = 0x534C5453

COMMANDS = frozenset({SYNC, CNXN, AUTH, OPEN, OKAY, WRTE, CLSE, STLS})

AUTH_TOKEN = 1
AUTH_SIGNATURE = 2
AUTH_PUBLIC_KEY = 3

VERSION_CHECKSUM = 0x01000000
"""Every payload carries the sum of its bytes."""
VERSION_NO_CHECKSUM = 0x01000001
"""The sum is neither sent (0) nor looked at, as soon as both sides said that they can do without."""

MAX_PAYLOAD = 1024 * 1024  # what adb 29 to 36 offer; a longer payload is a broken or hostile peer
MAX_PAYLOAD_V1 = 4096  # the only size that every peer takes before CNXN was exchanged

_HEADER = struct.Struct("<IIIIII")
HEADER_SIZE = _HEADER.size
_U32 = struct.Struct("<I")
_I32 = struct.Struct("<i")


class WireError(Exception):
    """The peer does not speak this protocol: wrong magic, unknown command, wrong checksum or too long a payload."""


@attrs.frozen
class Packet:
    """One message in either direction. What the arguments mean depends on the command."""

    command: int
    arg0: int
    arg1: int
    payload: bytes | memoryview = attrs.field(default=b"", repr=False)

    @property
    def name(self) -> str:
        """The command's four letters."""
        return self.command.to_bytes(4, "little").decode("ascii", "replace")


def checksum_of(payload: bytes | memoryview) -> int:
    """The sum of all bytes, cut to 32 bits."""
    return sum(payload) & 0xFFFFFFFF


def encode_header(packet: Packet, *, checksum: bool) -> bytes:
    """The 24 bytes that go before the payload."""
    return _HEADER.pack(
        packet.command,
        packet.arg0,
        packet.arg1,
        len(packet.payload),
        checksum_of(packet.payload) if checksum else 0,
        packet.command ^ 0xFFFFFFFF,
    )


def encode_packet(packet: Packet, *, checksum: bool) -> bytes:
    """Header and payload in one piece."""
    return encode_header(packet, checksum=checksum) + bytes(packet.payload)


class PacketReader:
    """Turns received bytes into packets, however they were cut on the way.

    Attributes:
        max_payload: the longest payload that is accepted, in bytes.
        verify_checksum: whether a checksum other than the sum of the bytes is an error.
    """

    def __init__(self, *, max_payload: int = MAX_PAYLOAD, verify_checksum: bool = False) -> None:
        self.max_payload = max_payload
        self.verify_checksum = verify_checksum
        self._pending = bytearray()

    def feed(self, data: bytes) -> Iterator[Packet]:
        """Yield every packet that is complete once `data` has arrived.

        Raises:
            WireError: the bytes are no packet of this protocol; the connection is of no more use.
        """
        self._pending += data
        while len(self._pending) >= HEADER_SIZE:
            command, arg0, arg1, length, checksum, magic = _HEADER.unpack_from(self._pending)
            if magic != command ^ 0xFFFFFFFF or command not in COMMANDS:
                raise WireError(f"not an ADB packet: command {command:#010x}, magic {magic:#010x}")
            if length > self.max_payload:
                raise WireError(f"payload of {length} bytes, more than the agreed {self.max_payload}")
            end = HEADER_SIZE + length
            if len(self._pending) < end:
                return
            payload = bytes(memoryview(self._pending)[HEADER_SIZE:end])
            del self._pending[:end]
            if self.verify_checksum and command != AUTH and checksum_of(payload) != checksum:
                raise WireError(f"checksum {checksum:#x} is not the sum of the {length} payload bytes")
            yield Packet(command, arg0, arg1, payload)


@attrs.frozen
class Banner:
    """What one side says about itself in CNXN: `<kind>::name=value;...;features=a,b`."""

    kind: str
    """`host`, `device`, `recovery`, ..."""
    properties: dict[str, str]
    features: frozenset[str]


def encode_banner(banner: Banner) -> bytes:
    """The CNXN payload; features go in alphabetical order, so equal banners give equal bytes."""
    fields = [f"{name}={value}" for name, value in banner.properties.items()]
    fields.append("features=" + ",".join(sorted(banner.features)))
    return f"{banner.kind}::{';'.join(fields)}".encode()


def parse_banner(payload: bytes | memoryview) -> Banner:
    """Read a CNXN payload; parts that nobody knows are kept, a missing feature list is an empty one."""
    text = bytes(payload).rstrip(b"\0").decode("utf-8", "replace")
    kind, _, rest = text.partition(":")
    _serial, _, fields = rest.partition(":")
    pairs = {name: value for name, sign, value in (f.partition("=") for f in fields.split(";")) if sign}
    features = frozenset(filter(None, pairs.pop("features", "").split(",")))
    return Banner(kind=kind, properties=pairs, features=features)


def encode_acked(count: int) -> bytes:
    """The OKAY payload of a peer with delayed_ack: how many bytes more may be sent, as int32."""
    return _I32.pack(count)


def parse_acked(payload: bytes | memoryview) -> int:
    """The byte count of an OKAY with delayed_ack; it may be negative.

    Raises:
        WireError: the payload is not four bytes long.
    """
    if len(payload) != _I32.size:
        raise WireError(f"OKAY with {len(payload)} bytes of payload where delayed_ack asks for 4")
    return int(_I32.unpack(payload)[0])


SHELL_STDIN = 0
SHELL_STDOUT = 1
SHELL_STDERR = 2
SHELL_EXIT = 3
SHELL_CLOSE_STDIN = 4
SHELL_WINDOW_SIZE = 5

_SHELL_HEADER = struct.Struct("<BI")
SHELL_HEADER_SIZE = _SHELL_HEADER.size


def encode_shell_header(kind: int, length: int) -> bytes:
    """The five bytes before each piece of a `shell,v2` stream: kind u8, length u32."""
    return _SHELL_HEADER.pack(kind, length)


def encode_shell(kind: int, data: bytes) -> bytes:
    """One piece of a `shell,v2` stream."""
    return encode_shell_header(kind, len(data)) + data


class ShellReader:
    """Takes a `shell,v2` stream apart, however it was cut on the way."""

    def __init__(self) -> None:
        self._pending = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """Yield (kind, data) for every piece that is complete once `data` has arrived."""
        self._pending += data
        while len(self._pending) >= SHELL_HEADER_SIZE:
            kind, length = _SHELL_HEADER.unpack_from(self._pending)
            if length > MAX_PAYLOAD:
                raise WireError(f"shell piece of {length} bytes")
            end = SHELL_HEADER_SIZE + length
            if len(self._pending) < end:
                return
            piece = bytes(memoryview(self._pending)[SHELL_HEADER_SIZE:end])
            del self._pending[:end]
            yield kind, piece
