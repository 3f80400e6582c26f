"""Raw captures: pixels and geometry read side by side, verified before anybody sees them.

The phone's `screencap` prints width, height, format (and, from Android 9 on, colour space) as u32, then RGBA.
"""

import struct
from typing import cast

import attrs
import trio

from actors.devices.adb.client import AdbClient, AdbSocket
from actors.devices.adb.display import GEOMETRY_COMMAND, parse_geometry
from actors.devices.adb.errors import AdbProtocolError, TruncatedCapture
from actors.devices.adb.shell import run_shell
from actors.devices.adb.wire import CLOSED_STDIN, WireError, compact_shell
from actors.devices.base import CaptureFailed
from policies.frame import Pixels, pixels_from_rgba
from policies.geometry import Geometry

RAW_COMMAND = "screencap"
HEADER = struct.Struct("<III")
HEADER_SIZES = (16, 12)  # Android 9 added the colour space
PIXEL_FORMAT_RGBA_8888 = 1
BYTES_PER_PIXEL = 4
LARGEST_SIDE = 16384
FIRST_BUFFER_SIZE = 4 * 1024 * 1024  # a 720x1280 screen
GROWTH = 2
_FRAMING_RESERVE = 4096  # shell,v2 adds five bytes a piece, and pieces may be small


@attrs.frozen(eq=False)
class RawPicture:
    """A verified picture as the phone sent it; `pixels` may be reduced."""

    pixels: Pixels = attrs.field(repr=False)
    width: int
    """Pixels across of the screen, as the header says."""
    height: int
    received_bytes: int
    received_at: float
    """Run clock when the last byte had arrived."""


def picture_from(output: memoryview, *, max_side: int | None, phone: str) -> tuple[Pixels, int, int]:
    """BGR pixels, and the screen's width and height, out of what `screencap` printed.

    Raises:
        TruncatedCapture: fewer bytes than the header promises.
        CaptureFailed: no header, another pixel format, or more bytes than promised.
    """
    import cv2  # noqa: PLC0415  heavy, and needed in the worker thread alone

    if len(output) < HEADER.size:
        raise TruncatedCapture(f"a capture of {len(output)} bytes has no header", phone=phone)
    width, height, pixel_format = HEADER.unpack_from(output)
    if not (0 < width <= LARGEST_SIDE and 0 < height <= LARGEST_SIDE):
        start = bytes(output[:32])
        raise CaptureFailed(f"the capture does not begin with a header but with {start!r}", phone=phone)
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
    pixels = pixels_from_rgba(output[header_size:], width, height)
    longest = max(width, height)
    if max_side is not None and longest > max_side:
        size = (max(1, round(width * max_side / longest)), max(1, round(height * max_side / longest)))
        pixels = cast("Pixels", cv2.resize(pixels, size, interpolation=cv2.INTER_AREA))
    return pixels, width, height


async def capture_raw(
    client: AdbClient, serial: str, *, framed: bool, max_side: int | None, expected_bytes: int
) -> RawPicture:
    """One picture. Put a `total_deadline` around it.

    Args:
        client: the adb server.
        serial: the phone.
        framed: the phone has `shell_v2`, which tells a complete capture from a cut one by its exit code.
        max_side: reduce the picture so that its longer side is at most this many pixels; None: as it is.
        expected_bytes: how many will likely come; a wrong guess costs a copy.

    Raises:
        CaptureFailed: (or `TruncatedCapture`) there is no usable picture; the phone may be well.
        DeviceLost: the phone or the adb server is gone.
    """
    with client.borrowed_buffer(max(expected_bytes + _FRAMING_RESERVE, FIRST_BUFFER_SIZE)) as buffer:
        service = f"shell,v2,raw:{RAW_COMMAND}" if framed else f"exec:{RAW_COMMAND}"
        async with client.open_service(serial, service) as socket:
            if framed:
                await socket.send(CLOSED_STDIN)
            length = await _receive_all(socket, buffer)
        received_at = trio.current_time()

        def convert() -> tuple[Pixels, int, int]:
            with memoryview(buffer) as whole, whole[:length] as wire:
                return _convert(wire, framed=framed, max_side=max_side, phone=serial)

        # not abandoned on cancel: the buffer must not go to another phone while the thread reads it
        pixels, width, height = await trio.to_thread.run_sync(convert, limiter=client.limiter)
    return RawPicture(pixels, width, height, length, received_at)


def _convert(wire: memoryview, *, framed: bool, max_side: int | None, phone: str) -> tuple[Pixels, int, int]:
    if not framed:
        return picture_from(wire, max_side=max_side, phone=phone)
    try:
        output = compact_shell(wire)
    except WireError as error:
        raise CaptureFailed(f"the capture is no shell stream: {error}", phone=phone) from error
    with output.stdout:
        if output.exit_code is None:
            raise TruncatedCapture(f"the stream ended in mid-capture, after {len(wire)} bytes", phone=phone)
        if output.exit_code != 0:
            reason = output.stderr.decode("utf-8", "replace").strip()
            raise CaptureFailed(f"screencap exited with {output.exit_code}: {reason}", phone=phone)
        return picture_from(output.stdout, max_side=max_side, phone=phone)


async def _receive_all(socket: AdbSocket, buffer: bytearray) -> int:
    length = 0
    while True:
        if length == len(buffer):
            if length > LARGEST_SIDE * LARGEST_SIDE * BYTES_PER_PIXEL:
                raise CaptureFailed("a capture that does not end", phone=socket.phone)
            buffer.extend(bytes(len(buffer) * (GROWTH - 1)))
        with memoryview(buffer) as whole, whole[length:] as room:
            count = await socket.receive_into(room)
        if not count:
            return length
        length += count


async def read_geometry(client: AdbClient, serial: str, *, framed: bool, timeout_seconds: float) -> Geometry:
    """The screen's size, rotation and density now.

    Raises:
        AdbProtocolError: the phone's words are not understood.
    """
    result = await run_shell(client, serial, GEOMETRY_COMMAND, timeout_seconds=timeout_seconds, framed=framed)
    geometry = parse_geometry(result.stdout.decode("utf-8", "replace"))
    if geometry is None:
        start = result.stdout[:120].decode("utf-8", "replace")
        raise AdbProtocolError(f"no size, rotation and density in {GEOMETRY_COMMAND!r}: {start!r}", phone=serial)
    return geometry
