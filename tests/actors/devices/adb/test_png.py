"""PNGs among banners, with changed line ends, and cut."""

import cv2
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.devices.adb.errors import TruncatedCapture
from actors.devices.adb.png import pixels_in, png_in
from actors.devices.base import CaptureFailed

PIXELS = np.random.default_rng(5).integers(0, 256, (40, 30, 3), np.uint8)
PNG = cv2.imencode(".png", PIXELS)[1].tobytes()
BANNER = b"WARNING: linker: unused DT entry\n[Warning] Multiple displays were found\n"


def terminal(data: bytes) -> bytes:
    """What a pseudo-terminal makes of it."""
    return data.replace(b"\n", b"\r\n")


@pytest.mark.parametrize(
    "data",
    [PNG, BANNER + PNG, PNG + b"\nTrailing text", terminal(PNG), terminal(BANNER + PNG), terminal(PNG) + b"\r\n",
     PNG.replace(b"\n", b"\r\r\n")],
    ids=["good", "banner", "trailer", "mangled", "mangled-banner", "mangled-trailer", "mangled-twice"],
)  # fmt: skip
def test_the_picture_is_found_and_repaired(data: bytes) -> None:
    np.testing.assert_array_equal(pixels_in(data, phone="p"), PIXELS)
    assert bytes(png_in(data, phone="p")) == PNG


def test_a_good_picture_is_never_repaired() -> None:
    assert b"\r\n" in PNG  # its own signature has one, which a repair would destroy
    assert bytes(png_in(memoryview(PNG), phone="p")) == PNG


@given(st.integers(0, len(PNG) - 1))
def test_a_cut_picture_is_never_one(length: int) -> None:
    with pytest.raises(CaptureFailed):
        pixels_in(PNG[:length], phone="p")


@pytest.mark.parametrize("data", [b"", PNG[:-1], PNG[:-12], BANNER + PNG[:200]])
def test_cut_ones_are_told_as_such(data: bytes) -> None:
    with pytest.raises(TruncatedCapture):
        pixels_in(data, phone="p")


def test_a_signature_with_rubbish_behind_it() -> None:
    broken = bytearray(PNG)
    broken[60:90] = bytes(30)
    with pytest.raises(CaptureFailed):
        pixels_in(PNG[:8] + PNG[-12:], phone="p")
    with pytest.raises(CaptureFailed, match="begins with"):
        pixels_in(b"/system/bin/sh: screencap: not found", phone="p")
