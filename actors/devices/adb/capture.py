"""Captures by `screencap`: raw, raw and compressed, or PNG, verified before anybody sees them; and the geometry.

The phone's `screencap` prints width, height, format (and, from Android 9 on, colour space) as u32, then RGBA.
"""

import re
import struct
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import cast

import attrs
import trio

from actors.devices.adb.client import AdbClient, AdbSocket
from actors.devices.adb.display import GEOMETRY_COMMAND, is_display_complaint, parse_geometry
from actors.devices.adb.display_choice import ANY_DISPLAY
from actors.devices.adb.errors import AdbProtocolError, DisplayUnsettled, TruncatedCapture
from actors.devices.adb.png import pixels_in
from actors.devices.adb.wire import CLOSED_STDIN, WireError, compact_shell
from actors.devices.base import CaptureFailed, CaptureMethod
from policies.frame import Pixels, pixels_from_rgba
from policies.geometry import Geometry

HEADER = struct.Struct("<III")
HEADER_SIZES = (16, 12)  # Android 9 added the colour space
PIXEL_FORMAT_RGBA_8888 = 1
BYTES_PER_PIXEL = 4
LARGEST_FORMAT = 256  # Android's are below 60; a header that is read a byte too early has a larger number there
LARGEST_SIDE = 16384
LARGEST_PICTURE = LARGEST_SIDE * LARGEST_SIDE * BYTES_PER_PIXEL
FIRST_BUFFER_SIZE = 4 * 1024 * 1024  # a 720x1280 screen
GROWTH = 2
GZIP_WINDOW = 16 + zlib.MAX_WBITS
LARGEST_BANNER = 4096
_BANNER = re.compile(rb"(?:[\t\x20-\x7e]*\r?\n)+")
COMPLAINT_SIZE = 512
_FRAMING_RESERVE = 4096  # shell,v2 adds five bytes a piece, and pieces may be small


@attrs.frozen(eq=False)
class Picture:
    """A verified picture of a screen; `pixels` may be reduced."""

    pixels: Pixels = attrs.field(repr=False)
    width: int
    """Pixels across of the screen, as the picture itself says."""
    height: int
    received_bytes: int
    received_at: float
    """`trio.current_time` when the last byte had arrived."""


Decode = Callable[[memoryview, int | None, str], tuple[Pixels, int, int]]
"""(what was printed, max_side, phone) to (BGR pixels, screen width, screen height)."""


def picture_from(output: memoryview, *, max_side: int | None, phone: str) -> tuple[Pixels, int, int]:
    """BGR pixels, and the screen's width and height, out of what `screencap` printed.

    Lines of text that stand before the picture, as phones with several displays print them, are left out.

    Raises:
        TruncatedCapture: fewer bytes than the header promises.
        CaptureFailed: no header, another pixel format, or more bytes than promised.
    """
    if len(output) < HEADER.size:
        raise TruncatedCapture(f"a capture of {len(output)} bytes has no header", phone=phone)
    if not _has_size(output):
        output = output[_text_before(output) :]
    if not _has_size(output):
        start = bytes(output[:32])
        raise CaptureFailed(f"the capture does not begin with a header but with {start!r}", phone=phone)
    width, height, pixel_format = HEADER.unpack_from(output)
    if pixel_format != PIXEL_FORMAT_RGBA_8888:
        raise CaptureFailed(f"pixel format {pixel_format}; only RGBA_8888 is understood", phone=phone)
    body = width * height * BYTES_PER_PIXEL
    header_size = len(output) - body
    if header_size < min(HEADER_SIZES):
        raise TruncatedCapture(
            f"{len(output)} bytes of a {width}x{height} capture, {body + max(HEADER_SIZES)} expected", phone=phone
        )
    if header_size not in HEADER_SIZES:
        raise CaptureFailed(f"{header_size - max(HEADER_SIZES)} bytes too many in a capture", phone=phone)
    return reduced(pixels_from_rgba(output[header_size:], width, height), max_side), width, height


def _has_size(output: memoryview) -> bool:
    """A header stands there; text never looks like one, as four letters are a number far above any side."""
    if len(output) < HEADER.size:
        return False
    width, height, pixel_format = HEADER.unpack_from(output)
    return bool(0 < width <= LARGEST_SIDE and 0 < height <= LARGEST_SIDE and 0 < pixel_format < LARGEST_FORMAT)


def _text_before(output: memoryview) -> int:
    """How many bytes of whole lines of text stand there; 0 where none do."""
    start = bytes(output[:LARGEST_BANNER])
    text = _BANNER.match(start)
    return 0 if text is None else text.end()


def reduced(pixels: Pixels, max_side: int | None) -> Pixels:
    """The picture, averaged down so that its longer side is at most `max_side`."""
    import cv2  # noqa: PLC0415  heavy, and needed in the worker thread alone

    height, width = pixels.shape[:2]
    longest = max(width, height)
    if max_side is None or longest <= max_side:
        return pixels
    size = (max(1, round(width * max_side / longest)), max(1, round(height * max_side / longest)))
    return cast("Pixels", cv2.resize(pixels, size, interpolation=cv2.INTER_AREA))


def _decode_raw(output: memoryview, max_side: int | None, phone: str) -> tuple[Pixels, int, int]:
    return picture_from(output, max_side=max_side, phone=phone)


def _decode_gzip(output: memoryview, max_side: int | None, phone: str) -> tuple[Pixels, int, int]:
    unpacker = zlib.decompressobj(GZIP_WINDOW)
    try:
        raw = unpacker.decompress(output, LARGEST_PICTURE + max(HEADER_SIZES))
    except zlib.error as error:
        raise CaptureFailed(f"the capture cannot be unpacked: {error}", phone=phone) from error
    if not unpacker.eof:
        raise TruncatedCapture(f"a compressed capture ends after {len(output)} bytes", phone=phone)
    if unpacker.unused_data:
        raise CaptureFailed(f"{len(unpacker.unused_data)} bytes behind a compressed capture", phone=phone)
    return picture_from(memoryview(raw), max_side=max_side, phone=phone)


def _decode_png(output: memoryview, max_side: int | None, phone: str) -> tuple[Pixels, int, int]:
    pixels = pixels_in(output, phone=phone)
    return reduced(pixels, max_side), pixels.shape[1], pixels.shape[0]


@attrs.define(eq=False)
class WireBuffer:
    """The memory that one phone's captures are received into, one after another; it goes with the phone."""

    _memory: bytearray | None = None

    @contextmanager
    def borrowed(self, size: int) -> Iterator[bytearray]:
        """At least `size` bytes, whose old content means nothing; a capture beside another has memory of its own."""
        memory, self._memory = self._memory, None
        if memory is None or len(memory) < size:
            memory = bytearray(size)
        try:
            yield memory
        finally:
            self._memory = memory


@attrs.frozen
class ScreencapMethod:
    """One way to call `screencap`."""

    command: str
    decode: Decode
    may_frame: bool
    """Goes through `shell,v2,raw` where the phone has it."""
    is_sized: bool = False
    """The output is as long as the screen's size says."""

    def command_for(self, display: str | None) -> str:
        """The command line for that display, which is a number."""
        return self.command.replace("screencap", f"screencap -d {display}", 1) if display else self.command


SCREENCAP_METHODS: dict[CaptureMethod, ScreencapMethod] = {
    CaptureMethod.RAW: ScreencapMethod("screencap", _decode_raw, may_frame=True, is_sized=True),
    CaptureMethod.RAW_EXEC: ScreencapMethod("screencap", _decode_raw, may_frame=False, is_sized=True),
    CaptureMethod.RAW_GZIP: ScreencapMethod("screencap | gzip -1", _decode_gzip, may_frame=True),
    CaptureMethod.PNG: ScreencapMethod("screencap -p", _decode_png, may_frame=True),
}


async def capture_screen(
    client: AdbClient,
    serial: str,
    *,
    framed: bool,
    max_side: int | None,
    expected: Geometry | None = None,
    method: CaptureMethod = CaptureMethod.RAW,
    display: str | None = None,
    buffer: WireBuffer | None = None,
) -> Picture:
    """One picture by a method of `SCREENCAP_METHODS`. Put a `total_deadline` around it.

    Args:
        client: the adb server.
        serial: the phone.
        framed: the phone has `shell_v2`.
        max_side: reduce the picture so that its longer side is at most this many pixels.
        expected: the screen as it was last, which says how long the output will be.
        method: which way.
        display: which of the phone's displays; None: it is thought to have one; `ANY_DISPLAY`: whichever it takes.
        buffer: the phone's own; None: memory for this once.

    Raises:
        DisplayUnsettled: it has several displays, or not that one.
        TruncatedCapture: the stream ended early.
        CaptureFailed: what came is no picture.
        DeviceLost: the phone or the adb server is gone.
    """
    way = SCREENCAP_METHODS[method]
    is_framed = framed and way.may_frame
    size = BYTES_PER_PIXEL * expected.width * expected.height if expected is not None and way.is_sized else 0
    least = size + _FRAMING_RESERVE if size else FIRST_BUFFER_SIZE
    with (buffer or WireBuffer()).borrowed(least) as memory:
        async with client.open_service(
            serial, f"{'shell,v2,raw' if is_framed else 'exec'}:{way.command_for(display)}"
        ) as socket:
            if is_framed:
                await socket.send(CLOSED_STDIN)
            length = await _receive_all(socket, memory)
        received_at = trio.current_time()

        def convert() -> tuple[Pixels, int, int]:
            with memoryview(memory) as whole, whole[:length] as wire:
                return _convert(wire, way, display, framed=is_framed, max_side=max_side, phone=serial)

        # not abandoned on cancel: the memory must not be received into again while the thread reads it
        pixels, width, height = await trio.to_thread.run_sync(convert, limiter=client.limiter)
    return Picture(pixels, width, height, length, received_at)


def _convert(
    wire: memoryview, way: ScreencapMethod, display: str | None, *, framed: bool, max_side: int | None, phone: str
) -> tuple[Pixels, int, int]:
    if not framed:
        refuse_display_complaint(bytes(wire[:COMPLAINT_SIZE]), display, phone=phone)
        return way.decode(wire, max_side, phone)
    try:
        output = compact_shell(wire)
    except WireError as error:
        raise CaptureFailed(f"the capture is no shell stream: {error}", phone=phone) from error
    with output.stdout:
        refuse_display_complaint(output.stderr[:COMPLAINT_SIZE], display, phone=phone)
        if output.exit_code is None:
            raise TruncatedCapture(f"the stream ended in mid-capture, after {len(wire)} bytes", phone=phone)
        if output.exit_code != 0:
            reason = output.stderr.decode("utf-8", "replace").strip()
            raise CaptureFailed(f"{way.command} exited with {output.exit_code}: {reason}", phone=phone)
        return way.decode(output.stdout, max_side, phone)


def refuse_display_complaint(text: bytes, display: str | None, *, phone: str) -> None:
    """Raises `DisplayUnsettled` where these first words of `screencap` complain of displays, and that can be mended."""
    if display != ANY_DISPLAY and is_display_complaint(text):
        words = text.decode("ascii", "replace").strip().splitlines()[0]
        raise DisplayUnsettled(f"the phone says of its displays: {words!r}", phone=phone)


async def _receive_all(socket: AdbSocket, buffer: bytearray) -> int:
    length = 0
    while True:
        if length == len(buffer):
            if length > LARGEST_PICTURE:
                raise CaptureFailed("a capture that does not end", phone=socket.phone)
            buffer.extend(bytes(len(buffer) * (GROWTH - 1)))
        with memoryview(buffer) as whole, whole[length:] as room:
            count = await socket.receive_into(room)
        if not count:
            return length
        length += count


def parse_geometry_output(output: bytes, *, phone: str) -> Geometry:
    """The screen's size, rotation and density out of what `GEOMETRY_COMMAND` printed.

    Raises:
        AdbProtocolError: the phone's words are not understood.
    """
    geometry = parse_geometry(output.decode("utf-8", "replace"))
    if geometry is None:
        start = output[:120].decode("utf-8", "replace")
        raise AdbProtocolError(f"no size, rotation and density in {GEOMETRY_COMMAND!r}: {start!r}", phone=phone)
    return geometry
