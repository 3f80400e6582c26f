"""A PNG out of what a phone printed: cut from banners, repaired if line ends were changed, and complete."""

import struct
from typing import cast

import numpy as np

from actors.devices.adb.errors import TruncatedCapture
from actors.devices.base import CaptureFailed
from policies.frame import Pixels

SIGNATURE = b"\x89PNG\r\n\x1a\n"
MANGLED = b"\x89PNG\r\r\n\x1a\r\n"
"""What a pseudo-terminal makes of the signature: each line feed has become two characters."""
MANGLED_TWICE = b"\x89PNG\r\r\r\n\x1a\r\r\n"
_SEARCHED = 64 * 1024  # bytes before the picture: warnings of linkers and foldables are a few lines
_CHUNK = struct.Struct(">I4s")
_AROUND = 12  # length, kind and checksum of a chunk


def png_in(output: memoryview | bytes, *, phone: str) -> memoryview:
    """The bytes of the picture, from its signature to the end of IEND.

    Raises:
        TruncatedCapture: it ends before its IEND.
        CaptureFailed: there is no PNG.
    """
    start = bytes(output[:_SEARCHED])
    data: memoryview | bytes
    if (at := start.find(SIGNATURE)) >= 0:
        data = output[at:]
    elif (at := start.find(MANGLED)) >= 0:
        data = bytes(output[at:]).replace(b"\r\n", b"\n")
    elif (at := start.find(MANGLED_TWICE)) >= 0:
        data = bytes(output[at:]).replace(b"\r\r\n", b"\n")
    elif not output:
        raise TruncatedCapture("the capture is empty", phone=phone)
    else:
        raise CaptureFailed(f"the capture is no PNG but begins with {start[:32]!r}", phone=phone)
    view = memoryview(data)
    return view[: _end_of(view, phone)]


def _end_of(view: memoryview, phone: str) -> int:
    position = len(SIGNATURE)
    while position + _AROUND <= len(view):
        length, kind = _CHUNK.unpack_from(view, position)
        position += _AROUND + int(length)
        if kind == b"IEND" and position <= len(view):
            return position
    raise TruncatedCapture(f"a PNG of {len(view)} bytes has no end", phone=phone)


def pixels_in(output: memoryview | bytes, *, phone: str) -> Pixels:
    """The picture as BGR pixels.

    Raises:
        TruncatedCapture: it is cut.
        CaptureFailed: it is no PNG, or a broken one.
    """
    import cv2  # noqa: PLC0415  heavy, and needed in the worker thread alone

    png = png_in(output, phone=phone)
    pixels = cv2.imdecode(np.frombuffer(png, np.uint8), cv2.IMREAD_COLOR)
    if pixels is None:
        raise CaptureFailed(f"a PNG of {len(png)} bytes cannot be decoded", phone=phone)
    return cast("Pixels", pixels)
