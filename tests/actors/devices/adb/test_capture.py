"""What is a picture and what is not."""

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.devices.adb.capture import WireBuffer, picture_from
from actors.devices.adb.errors import TruncatedCapture
from actors.devices.base import CaptureFailed
from policies.frame import Pixels

RGBA = np.random.default_rng(3).integers(0, 256, (6, 4, 4), np.uint8)
OLD = struct.pack("<III", 4, 6, 1) + RGBA.tobytes()
NEW = struct.pack("<IIII", 4, 6, 1, 1) + RGBA.tobytes()


def read(data: bytes, max_side: int | None = None) -> tuple[Pixels, int, int]:
    return picture_from(memoryview(bytearray(data)), max_side=max_side, phone="p")


@pytest.mark.parametrize("data", [OLD, NEW], ids=["12-byte-header", "16-byte-header"])
def test_pixels_are_blue_green_red(data: bytes) -> None:
    pixels, width, height = read(data)

    assert (width, height) == (4, 6)
    np.testing.assert_array_equal(pixels, RGBA[..., 2::-1])


def test_pixels_are_an_owned_copy() -> None:
    wire = bytearray(NEW)
    pixels, _, _ = picture_from(memoryview(wire), max_side=None, phone="p")
    before = pixels.copy()
    wire[:] = bytes(len(wire))

    np.testing.assert_array_equal(pixels, before)


@given(st.integers(0, len(OLD) - 1))
def test_a_cut_capture_is_never_a_picture(length: int) -> None:
    with pytest.raises(TruncatedCapture):
        read(OLD[:length])


@pytest.mark.parametrize(
    "data",
    [
        NEW + b"x",
        b"\x89PNG\r\n\x1a\n" + bytes(100),
        struct.pack("<IIII", 4, 6, 4, 1) + RGBA.tobytes(),
        NEW.replace(b"\n", b"\r\n") + b"\r\n",
    ],
    ids=["too-long", "png", "rgb565", "line-ends-changed"],
)
def test_what_is_no_raw_capture_is_refused(data: bytes) -> None:
    with pytest.raises(CaptureFailed):
        read(data)


@pytest.mark.parametrize("text", [b"WARNING: linker: something\n", b"\n", b"one\r\n\ttwo\n"])
def test_lines_of_text_before_a_capture_are_left_out(text: bytes) -> None:
    np.testing.assert_array_equal(read(text + NEW)[0], read(NEW)[0])
    with pytest.raises(CaptureFailed):
        read(text + NEW[:-1])
    with pytest.raises(CaptureFailed):
        read(text)
    with pytest.raises(CaptureFailed):
        read(text.rstrip(b"\n") + b"\x00" + NEW)


@given(width=st.integers(1, 600), height=st.integers(1, 3))
def test_a_size_that_looks_like_an_end_of_line_is_a_size(width: int, height: int) -> None:
    data = struct.pack("<IIII", width, height, 1, 1) + bytes(width * height * 4)

    assert read(data)[0].shape == (height, width, 3)


def test_reduced_by_area_to_the_longer_side() -> None:
    rgba = np.zeros((40, 20, 4), np.uint8)
    rgba[::2, :, 0] = 200
    data = struct.pack("<IIII", 20, 40, 1, 1) + rgba.tobytes()

    pixels, width, height = read(data, max_side=20)

    assert pixels.shape == (20, 10, 3)
    assert (width, height) == (20, 40)
    assert pixels[..., 2].tolist() == np.full((20, 10), 100).tolist()
    assert read(data, max_side=40)[0].shape == (40, 20, 3)


def test_a_phones_buffer_is_used_again_grows_and_is_never_used_twice_at_once() -> None:
    buffer = WireBuffer()
    with buffer.borrowed(10) as first:
        first.extend(bytes(10))  # a capture that was longer than thought
        with buffer.borrowed(10) as beside:
            assert beside is not first
    with buffer.borrowed(20) as again:
        assert again is first
    with buffer.borrowed(50) as larger:
        assert len(larger) >= 50
    with buffer.borrowed(5) as last:
        assert last is larger
