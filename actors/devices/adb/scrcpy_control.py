"""Actions as messages for a scrcpy server's control socket, and what it says there. Nothing that waits.

Source: scrcpy's `ControlMessageReader.java` and `DeviceMessageWriter.java`. A touch names the size of the video that
it was aimed at; the server silently ignores it when its video has another size.
"""

import math
import struct
from collections.abc import Iterator

import attrs

from actors.devices.base import ActionRefused
from policies.action import Action, Hold, Key, KeyName, LongPress, Swipe, Tap, Text, TwoFingers, Wait
from policies.geometry import Geometry

TYPE_KEYCODE, TYPE_TEXT, TYPE_TOUCH, TYPE_SET_CLIPBOARD, TYPE_RESET_VIDEO = 0, 1, 2, 9, 17
ACTION_DOWN, ACTION_UP, ACTION_MOVE = 0, 1, 2
FULL_PRESSURE, NO_PRESSURE = 0xFFFF, 0
FIRST_FINGER, SECOND_FINGER = 1, 2  # any number below 2**63; the mouse and the virtual finger are negative
MOVE_SECONDS = 1 / 60  # as a touch panel of 60 Hz reports it
TEXT_LIMIT = 300  # bytes, INJECT_TEXT_MAX_LENGTH
CLIPBOARD_LIMIT = (1 << 18) - 14  # bytes, CLIPBOARD_TEXT_MAX_LENGTH
MESSAGE_CLIPBOARD, MESSAGE_ACK, MESSAGE_UHID = 0, 1, 2

ANDROID_KEYS = {KeyName.HOME: 3, KeyName.BACK: 4, KeyName.ENTER: 66, KeyName.APP_SWITCH: 187}

_TOUCH = struct.Struct(">BBQiiHHHII")
_KEYCODE = struct.Struct(">BBIII")
_CLIPBOARD = struct.Struct(">BQ?I")
_LENGTH = struct.Struct(">BI")
_ACK = struct.Struct(">BQ")
_UHID = struct.Struct(">BHH")
RESET_VIDEO = bytes([TYPE_RESET_VIDEO])


class ControlWireError(Exception):
    """The server said something on its control socket that is no device message."""


@attrs.frozen
class VideoSize:
    """The size of the video that touches are aimed at, in pixels."""

    width: int
    height: int


def encode_touch(action: int, pointer: int, x: int, y: int, video: VideoSize) -> bytes:
    """One finger event at a pixel of the video."""
    pressure = NO_PRESSURE if action == ACTION_UP else FULL_PRESSURE
    return _TOUCH.pack(TYPE_TOUCH, action, pointer, x, y, video.width, video.height, pressure, 0, 0)


def encode_key(action: int, keycode: int) -> bytes:
    """A key goes down or up."""
    return _KEYCODE.pack(TYPE_KEYCODE, action, keycode, 0, 0)


def encode_text(text: str) -> bytes:
    """Text as key events; the phone types what its virtual keyboard has, which is ASCII."""
    data = text.encode()
    return _LENGTH.pack(TYPE_TEXT, len(data)) + data


def encode_clipboard(text: str, sequence: int) -> bytes:
    """Set the clipboard and paste it; the server acknowledges a `sequence` above 0."""
    data = text.encode()
    return _CLIPBOARD.pack(TYPE_SET_CLIPBOARD, sequence, True, len(data)) + data


@attrs.frozen
class Stroke:
    """One finger: where it is put down, and where it has glided to after `seconds`."""

    pointer: int
    start: tuple[int, int]
    end: tuple[int, int]
    glide_seconds: float
    stay_seconds: float = 0.0
    """At the end, before it is lifted."""

    def at(self, elapsed: float) -> tuple[int, int]:
        """Device pixel of the finger `elapsed` seconds after it was put down."""
        share = 1.0 if self.glide_seconds <= 0 else min(1.0, elapsed / self.glide_seconds)
        return (
            round(self.start[0] + (self.end[0] - self.start[0]) * share),
            round(self.start[1] + (self.end[1] - self.start[1]) * share),
        )

    @property
    def seconds(self) -> float:
        """From down to up."""
        return self.glide_seconds + self.stay_seconds


def strokes_for(action: Action, geometry: Geometry) -> tuple[Stroke, ...]:
    """The fingers of a gesture, put down together; empty for what is no gesture. Points are not checked here."""
    match action:
        case Tap(x, y):
            return (Stroke(FIRST_FINGER, (x, y), (x, y), 0.0),)
        case LongPress(x, y, seconds):
            return (Stroke(FIRST_FINGER, (x, y), (x, y), 0.0, seconds),)
        case Swipe(x, y, to_x, to_y, seconds):
            return (Stroke(FIRST_FINGER, (x, y), (to_x, to_y), seconds),)
        case Hold():
            angle = math.radians(action.direction_degrees)
            to_x = min(max(round(action.x + action.radius * math.cos(angle)), 0), geometry.width - 1)
            to_y = min(max(round(action.y - action.radius * math.sin(angle)), 0), geometry.height - 1)
            return (Stroke(FIRST_FINGER, (action.x, action.y), (to_x, to_y), 0.0, action.seconds),)
        case TwoFingers(first=a, second=b):
            return (
                Stroke(FIRST_FINGER, (a[0], a[1]), (a[2], a[3]), action.seconds),
                Stroke(SECOND_FINGER, (b[0], b[1]), (b[2], b[3]), action.seconds),
            )
        case Key() | Text() | Wait():
            return ()


def to_video(x: int, y: int, geometry: Geometry, video: VideoSize) -> tuple[int, int]:
    """The pixel of a reduced video that shows the centre of a device pixel."""
    return (
        int((x + 0.5) * video.width // geometry.width),
        int((y + 0.5) * video.height // geometry.height),
    )


def text_messages(text: str, *, sequence: int, phone: str) -> tuple[bytes, ...]:
    """Messages that type a text: key events for short ASCII, the clipboard for everything else.

    Raises:
        ActionRefused: there is nothing to type, or more than a clipboard takes.
    """
    if not text:
        raise ActionRefused("there is no text to type", phone=phone)
    size = len(text.encode())
    if size > CLIPBOARD_LIMIT:
        raise ActionRefused(f"{size} bytes of text; the clipboard takes {CLIPBOARD_LIMIT}", phone=phone)
    if size <= TEXT_LIMIT and all(" " <= char <= "~" for char in text):
        return (encode_text(text),)
    return (encode_clipboard(text, sequence),)


def key_messages(name: KeyName) -> tuple[bytes, ...]:
    """Press and let go."""
    code = ANDROID_KEYS[name]
    return (encode_key(ACTION_DOWN, code), encode_key(ACTION_UP, code))


@attrs.frozen
class ClipboardSet:
    """The server has set (and pasted) the clipboard of that sequence."""

    sequence: int


class DeviceMessageReader:
    """What the server says on the control socket; all but acknowledgements is skipped."""

    def __init__(self) -> None:
        self._pending = bytearray()

    def feed(self, data: bytes) -> Iterator[ClipboardSet]:
        """Yield the acknowledgements that are complete once `data` has arrived.

        Raises:
            ControlWireError: a message that does not exist, or an absurd size.
        """
        self._pending += data
        while self._pending:
            kind = self._pending[0]
            if kind == MESSAGE_ACK:
                if len(self._pending) < _ACK.size:
                    return
                _, sequence = _ACK.unpack_from(self._pending)
                del self._pending[: _ACK.size]
                yield ClipboardSet(sequence)
                continue
            if kind not in (MESSAGE_CLIPBOARD, MESSAGE_UHID):
                raise ControlWireError(f"device message {kind}")
            header = _LENGTH if kind == MESSAGE_CLIPBOARD else _UHID
            if len(self._pending) < header.size:
                return
            length = header.unpack_from(self._pending)[-1]
            if length > 1 << 18:
                raise ControlWireError(f"a device message of {length} bytes")
            if len(self._pending) < header.size + length:
                return
            del self._pending[: header.size + length]
