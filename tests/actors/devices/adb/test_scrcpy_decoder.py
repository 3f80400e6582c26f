"""The decoder on good and broken video."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actors.devices.adb.scrcpy_decoder import DecodeFailed, ScreenDecoder, pixels_of
from actors.devices.adb.scrcpy_wire import Packet
from actors.rehearsal.apps.base import Canvas
from actors.rehearsal.phone.video import ScreenEncoder

SIZE = (128, 192)


def screen(shade: int) -> Canvas:
    canvas = np.full((SIZE[1], SIZE[0], 3), (40, 90, 160), np.uint8)
    canvas[20 : 20 + shade, 10:60] = (200, shade, 30)
    return canvas


def video(count: int = 6, *, key_at: int = 4) -> tuple[Packet, list[Packet]]:
    encoder = ScreenEncoder(*SIZE)
    frames = [encoder.encode(screen(10 + 20 * n), n * 1000, key=n == key_at) for n in range(count)]
    return (
        Packet(encoder.config, 0, is_config=True, is_key=False),
        [Packet(frame.data, n * 1000, is_config=False, is_key=frame.is_key) for n, frame in enumerate(frames)],
    )


CONFIG, PACKETS = video()


def test_the_newest_of_a_batch_is_shown_in_blue_green_red() -> None:
    decoder = ScreenDecoder()
    decoded = decoder.decode([CONFIG, *PACKETS[:3]])

    assert decoded is not None
    assert (decoded.width, decoded.height, decoded.count, decoded.pts_us) == (*SIZE, 3, 2000)
    pixels = pixels_of(decoded.frame, None)
    expected = screen(50)[..., ::-1]
    assert np.abs(pixels.astype(int) - expected).mean() < 4
    assert pixels_of(decoded.frame, 96).shape == (96, 64, 3)


def test_nothing_is_shown_before_a_key_frame() -> None:
    decoder = ScreenDecoder()
    assert decoder.decode([CONFIG, *PACKETS[1:4]]) is None
    assert decoder.needs_key
    decoded = decoder.decode(PACKETS[4:])
    assert decoded is not None
    assert not decoder.needs_key


def test_configuration_is_kept_over_a_reset() -> None:
    decoder = ScreenDecoder()
    decoder.decode([CONFIG, PACKETS[0]])
    decoder.reset()
    assert decoder.decode(PACKETS[1:4]) is None
    assert decoder.decode([PACKETS[4]]) is not None


def test_another_size_after_a_rotation_in_versions_that_do_not_tell() -> None:
    decoder = ScreenDecoder()
    decoder.decode([CONFIG, PACKETS[0]])
    turned = ScreenEncoder(SIZE[1], SIZE[0])
    frame = turned.encode(np.ascontiguousarray(screen(30).transpose(1, 0, 2)), 9000)
    decoded = decoder.decode(
        [Packet(turned.config, 0, is_config=True, is_key=False), Packet(frame.data, 9000, is_config=False, is_key=True)]
    )

    assert decoded is not None
    assert (decoded.width, decoded.height) == (SIZE[1], SIZE[0])


def test_broken_video_waits_for_the_next_key_frame() -> None:
    decoder = ScreenDecoder()
    decoder.decode([CONFIG, PACKETS[0]])
    with pytest.raises(DecodeFailed):
        decoder.decode([Packet(b"\0\0\0\1\x65" + bytes(range(200)), 1, is_config=False, is_key=True)])

    assert decoder.needs_key
    assert decoder.decode(PACKETS[1:3]) is None
    assert decoder.decode([PACKETS[4]]) is not None


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 3), st.binary(min_size=1, max_size=60), st.integers(0, 400))
def test_damage_is_a_typed_error_or_a_picture_and_a_key_frame_heals(number: int, noise: bytes, at: int) -> None:
    decoder = ScreenDecoder()
    decoder.decode([CONFIG, PACKETS[0]])
    data = bytearray(PACKETS[number].data)
    start = at % len(data)
    data[start : start + len(noise)] = noise
    try:
        decoder.decode([Packet(bytes(data), 1, is_config=False, is_key=False)])
    except DecodeFailed:
        assert decoder.needs_key
    decoder.reset()
    healed = decoder.decode([PACKETS[4]])

    assert healed is not None
    assert np.abs(pixels_of(healed.frame, None).astype(int) - screen(90)[..., ::-1]).mean() < 6
