"""The video stream of a scrcpy server as bytes, by version, and nothing that waits.

The protocol is scrcpy's internal one and changes with its versions. Source: scrcpy's `Streamer.java` and
`DesktopConnection.java` of 2.0, 3.3 and 4.0.
"""

import re
import struct
from collections.abc import Iterator

import attrs

FIRST_MAJOR, LAST_MAJOR = 2, 4
NAME_SIZE = 64
CODEC_H264 = 0x68323634
CODEC_DISABLED, CODEC_FAILED = 0, 1
PACKET_LIMIT = 16 * 1024 * 1024  # a key frame of a 4K screen is below 4 MiB: more is garbage
SIDE_LIMIT = 16384

_U32 = struct.Struct(">I")
_SIZE = struct.Struct(">II")
_MEDIA = struct.Struct(">QI")
_SESSION = struct.Struct(">III")
_TOP = 1 << 63
_VERSION = re.compile(r"(\d{1,2})\.(\d{1,3})(?:\.\d{1,3})?")


class ScrcpyWireError(Exception):
    """Bytes that are none of this version's protocol."""


@attrs.frozen
class ScrcpyVersion:
    """The version of a server, which both sides must name alike."""

    text: str
    """As the server names itself, e.g. `3.3.4`."""
    major: int
    minor: int

    @property
    def has_sessions(self) -> bool:
        """True where a packet of its own tells the size of what follows (4.x)."""
        return self.major >= 4

    @property
    def can_reset_video(self) -> bool:
        """True where the client may ask for a new key frame (3.x on)."""
        return self.major >= 3


def parse_version(text: str) -> ScrcpyVersion:
    """A version that we can talk to.

    Raises:
        ScrcpyWireError: it is none, or one whose protocol we do not know.
    """
    found = _VERSION.fullmatch(text)
    if found is None:
        raise ScrcpyWireError(f"{text!r} is no version of scrcpy")
    major, minor = int(found.group(1)), int(found.group(2))
    if not FIRST_MAJOR <= major <= LAST_MAJOR:
        raise ScrcpyWireError(f"scrcpy {text}: only versions {FIRST_MAJOR}.x to {LAST_MAJOR}.x are spoken")
    return ScrcpyVersion(text, major, minor)


@attrs.frozen
class Started:
    """The stream's head: which phone this is, and that H.264 follows."""

    device_name: str


@attrs.frozen
class Session:
    """What follows has this size in pixels: at the start, and in 4.x after each rotation or resize."""

    width: int
    height: int


@attrs.frozen
class Packet:
    """A piece of H.264."""

    data: bytes = attrs.field(repr=False)
    pts_us: int
    """Microseconds of the phone's own clock; 0 for configuration."""
    is_config: bool
    """SPS and PPS, which must stand before the next packet."""
    is_key: bool


StreamEvent = Started | Session | Packet


class VideoReader:
    """Takes a server's first socket apart, however it was cut on the way: dummy byte, name, codec, packets."""

    def __init__(self, version: ScrcpyVersion) -> None:
        self._version = version
        self._pending = bytearray()
        self._started = False
        self._shift = 1 if version.has_sessions else 0

    def feed(self, data: bytes) -> Iterator[StreamEvent]:
        """Yield what is complete once `data` has arrived.

        Raises:
            ScrcpyWireError: no such protocol, a codec that was not asked for, or an absurd size.
        """
        self._pending += data
        if not self._started:
            head = self._read_head()
            if head is None:
                return
            self._started = True
            yield from head
        while (event := self._read_packet()) is not None:
            yield event

    def _read_head(self) -> tuple[StreamEvent, ...] | None:
        if self._pending and self._pending[0] != 0:
            raise ScrcpyWireError(f"the stream begins with {bytes(self._pending[:16])!r}, not with a zero byte")
        codec_at = 1 + NAME_SIZE
        if len(self._pending) < codec_at + _U32.size:
            return None
        (codec,) = _U32.unpack_from(self._pending, codec_at)
        if codec == CODEC_FAILED:
            raise ScrcpyWireError("the phone's encoder could not be configured")
        if codec != CODEC_H264:
            raise ScrcpyWireError(f"codec {codec:#010x} where H.264 was asked for")
        end = codec_at + _U32.size
        events: tuple[StreamEvent, ...] = ()
        if not self._version.has_sessions:
            if len(self._pending) < end + _SIZE.size:
                return None
            events = (_session(*_SIZE.unpack_from(self._pending, end)),)
            end += _SIZE.size
        name = bytes(self._pending[1:codec_at]).split(b"\0", 1)[0].decode("utf-8", "replace")
        del self._pending[:end]
        return (Started(name), *events)

    def _read_packet(self) -> StreamEvent | None:
        if len(self._pending) < _MEDIA.size:
            return None
        flags, size = _MEDIA.unpack_from(self._pending)
        if self._version.has_sessions and flags & _TOP:
            _, width, height = _SESSION.unpack_from(self._pending)
            del self._pending[: _SESSION.size]
            return _session(width, height)
        if not 0 < size <= PACKET_LIMIT:
            raise ScrcpyWireError(f"a packet of {size} bytes")
        end = _MEDIA.size + size
        if len(self._pending) < end:
            return None
        data = bytes(memoryview(self._pending)[_MEDIA.size : end])
        del self._pending[:end]
        config, key = _TOP >> self._shift, _TOP >> (self._shift + 1)
        is_config = bool(flags & config)
        return Packet(data, 0 if is_config else flags & (key - 1), is_config, not is_config and bool(flags & key))


def _session(width: int, height: int) -> Session:
    if not (0 < width <= SIDE_LIMIT and 0 < height <= SIDE_LIMIT):
        raise ScrcpyWireError(f"a video of {width}x{height}")
    return Session(width, height)
