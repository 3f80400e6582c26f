"""The server's side of scrcpy as bytes, by version: what it sends as video, and what it is told. Nothing that waits."""

import re
import struct
from collections.abc import Iterator

import attrs

from actors.rehearsal.phone.wire import WireError

NAME_SIZE = 64
VERSION_MARK = b"scrcpy-server "  # a stand-in for the jar may say which version it plays
CODEC_H264 = b"h264"
INJECT_KEYCODE, INJECT_TEXT, INJECT_TOUCH, SET_CLIPBOARD, RESET_VIDEO = 0, 1, 2, 9, 17
_TOUCH = struct.Struct(">xBQiiHHHII")
_KEYCODE = struct.Struct(">xBIII")
_CLIPBOARD = struct.Struct(">xQ?I")
_TEXT = struct.Struct(">xI")
_LARGEST_TEXT = 1 << 18
_SIZES = {4: 2, 8: 2, 10: 2, 5: 1, 6: 1, 7: 1, 11: 1, 15: 1, 3: 21}
"""{message type: bytes} of those that a simulated phone takes and does nothing about."""


@attrs.frozen
class ServerOptions:
    """What the command line of a server said."""

    version: str
    scid: str | None
    max_size: int
    """Pixels of the longer side; 0: as large as the screen."""
    max_fps: float
    """0: as fast as the screen."""
    control: bool
    video: bool

    @property
    def major(self) -> int:
        """Which protocol is spoken."""
        return int(self.version.split(".", 1)[0])

    @property
    def socket(self) -> str:
        """Name of the abstract socket."""
        return "scrcpy" if self.scid is None else f"scrcpy_{self.scid}"


def parse_options(words: tuple[str, ...]) -> ServerOptions:
    """`VERSION key=value...`.

    Raises:
        ValueError: no version, or an option's value is none.
    """
    if not words or not re.fullmatch(r"\d+\.\d+(\.\d+)?", words[0]):
        raise ValueError("Missing client version")
    options: dict[str, str] = {}
    for word in words[1:]:
        key, _, value = word.partition("=")
        options[key] = value
    scid = options.get("scid")
    if scid is not None:
        scid = f"{int(scid, 16):08x}"
    if options.get("tunnel_forward") != "true" or options.get("audio") != "false":
        raise ValueError("only tunnel_forward=true audio=false is simulated")
    return ServerOptions(
        version=words[0],
        scid=scid,
        max_size=int(options.get("max_size", "0")),
        max_fps=float(options.get("max_fps", "0")),
        control=options.get("control", "true") == "true",
        video=options.get("video", "true") == "true",
    )


def encode_head(name: str, major: int, width: int, height: int) -> bytes:
    """Everything before the first packet, with 4.x the session packet too."""
    field = name.encode()[: NAME_SIZE - 1].ljust(NAME_SIZE, b"\0")
    size = encode_session(width, height) if major >= 4 else struct.pack(">II", width, height)
    return b"\0" + field + CODEC_H264 + size


def encode_session(width: int, height: int) -> bytes:
    """The packet of 4.x that tells the size of what follows."""
    return struct.pack(">III", 1 << 31, width, height)


def encode_media(data: bytes, *, major: int, pts_us: int, config: bool = False, key: bool = False) -> bytes:
    """A packet of H.264 with its header."""
    shift = 1 if major >= 4 else 0
    flags = (1 << 63) >> shift if config else pts_us | ((1 << 62) >> shift if key else 0)
    return struct.pack(">QI", flags, len(data)) + data


def encode_acknowledgement(sequence: int) -> bytes:
    """The clipboard of that sequence was set."""
    return struct.pack(">BQ", 1, sequence)


@attrs.frozen
class TouchMessage:
    """A finger event, aimed at a video of (width, height)."""

    action: int
    pointer: int
    x: int
    y: int
    width: int
    height: int


@attrs.frozen
class KeyMessage:
    """A key goes down (0) or up (1)."""

    action: int
    keycode: int


@attrs.frozen
class TextMessage:
    """Text to type, or to paste from the clipboard (then with a sequence)."""

    text: str
    sequence: int = 0


@attrs.frozen
class ResetVideo:
    """The client wants a key frame."""


ControlMessage = TouchMessage | KeyMessage | TextMessage | ResetVideo


class ControlReader:
    """Takes a control stream apart, however it was cut on the way."""

    def __init__(self) -> None:
        self._pending = bytearray()

    def feed(self, data: bytes) -> Iterator[ControlMessage]:
        """Yield every message that is complete once `data` has arrived.

        Raises:
            WireError: a message type that does not exist.
        """
        self._pending += data
        while self._pending:
            size = self._size()
            if size is None or len(self._pending) < size:
                return
            message = self._parse(bytes(self._pending[:size]))
            del self._pending[:size]
            if message is not None:
                yield message

    def _size(self) -> int | None:
        kind, pending = self._pending[0], self._pending
        fixed = {INJECT_TOUCH: _TOUCH.size, INJECT_KEYCODE: _KEYCODE.size, RESET_VIDEO: 1} | _SIZES
        if kind in fixed:
            return fixed[kind]
        header = {INJECT_TEXT: _TEXT, SET_CLIPBOARD: _CLIPBOARD}.get(kind)
        if header is None:
            raise WireError(f"control message {kind} is not simulated")
        if len(pending) < header.size:
            return None
        length = int(header.unpack_from(pending)[-1])
        if length > _LARGEST_TEXT:
            raise WireError(f"a control message with {length} bytes of text")
        return header.size + length

    @staticmethod
    def _parse(data: bytes) -> ControlMessage | None:
        match data[0]:
            case kind if kind == INJECT_TOUCH:
                action, pointer, x, y, width, height, _, _, _ = _TOUCH.unpack(data)
                return TouchMessage(action, pointer, x, y, width, height)
            case kind if kind == INJECT_KEYCODE:
                action, keycode, _, _ = _KEYCODE.unpack(data)
                return KeyMessage(action, keycode)
            case kind if kind == INJECT_TEXT:
                return TextMessage(data[_TEXT.size :].decode("utf-8", "replace"))
            case kind if kind == SET_CLIPBOARD:
                sequence, paste, _ = _CLIPBOARD.unpack_from(data)
                text = data[_CLIPBOARD.size :].decode("utf-8", "replace")
                return TextMessage(text, sequence) if paste else None
            case kind if kind == RESET_VIDEO:
                return ResetVideo()
            case _:
                return None
