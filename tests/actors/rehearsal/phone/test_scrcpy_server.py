"""The simulated phone's scrcpy server: what it streams, what it ignores, and how it ends."""

import av
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.rehearsal.apps.base import Canvas, TouchPhase
from actors.rehearsal.phone.scrcpy_wire import parse_options
from actors.rehearsal.phone.stamp import draw_stamp, grained, read_stamp, stamped
from actors.rehearsal.phone.video import ScreenEncoder, shared_video, video_size
from tests.kit.devices import make_probe, probe_of, probe_spec, simulated_phones


@pytest.mark.parametrize(
    ("screen", "limit", "video"),
    [
        ((720, 1280), 0, (720, 1280)),
        ((1080, 2400), 1280, (576, 1280)),
        ((361, 643), 0, (360, 640)),
        ((9, 9), 4, (8, 8)),
    ],
)
def test_sizes_are_multiples_of_eight(screen: tuple[int, int], limit: int, video: tuple[int, int]) -> None:
    assert video_size(*screen, limit) == video


@given(st.integers(0, 2**55), st.sampled_from([(64, 360), (128, 720), (200, 333), (640, 1080)]))
def test_a_stamp_is_read_as_it_was_drawn(microseconds: int, shape: tuple[int, int]) -> None:
    canvas = np.full((*shape, 3), 90, np.uint8)
    assert read_stamp(canvas) is None
    draw_stamp(canvas, microseconds)
    assert read_stamp(canvas) == microseconds


def test_a_stamp_survives_the_codec_and_key_frames_come_when_asked() -> None:
    encoder = ScreenEncoder(360, 640)
    decoder = av.CodecContext.create("h264", "r")
    screen = make_probe(seed=3, width=360, height=640, now=0.0).draw(0.0)
    keys = []
    for number in range(4):
        frame = encoder.encode(stamped(screen, 1000 + number), number * 100_000, key=number == 2)
        keys.append(frame.is_key)
        data = (encoder.config if number == 0 else b"") + frame.data
        (shown,) = decoder.decode(av.Packet(data))
        assert read_stamp(np.asarray(shown.to_ndarray(format="bgr24"), np.uint8)) == (1000 + number) * 1_000_000
    assert keys == [True, False, True, False]
    assert b"\x67" in encoder.config  # the SPS stands in the configuration, not in the stream


def test_a_stream_is_encoded_once_for_all() -> None:
    draws = []

    def draw(now: float) -> Canvas:
        draws.append(now)
        return np.full((64, 64, 3), len(draws), np.uint8)

    first = shared_video("test of sharing", (64, 64), 2.0, draw)
    count = len(draws)

    assert shared_video("test of sharing", (64, 64), 2.0, draw) is first
    assert len(draws) == count == len(first.frames)
    assert draws == sorted(draws)
    assert [frame.is_key for frame in first.frames] == [True] + [False] * (count - 1)


def test_grain_is_fixed_and_faint() -> None:
    screen = np.full((40, 30, 3), 90, np.uint8)
    assert np.array_equal(grained(screen), grained(screen))
    assert {int(level) for level in np.unique(grained(screen))} == {90, 91}


@pytest.mark.parametrize(
    "words", [(), ("x",), ("4.0",), ("4.0", "tunnel_forward=true", "audio=true"), ("4.0", "scid=zz")]
)
def test_options_that_are_not_simulated(words: tuple[str, ...]) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  any text will do: it is the phone's
        parse_options(words)


async def test_two_fingers_on_one_screen() -> None:
    async with simulated_phones([probe_spec()]) as (phone,):
        handset = phone.handset
        await handset.touch(TouchPhase.DOWN, 10, 10)
        await handset.touch(TouchPhase.DOWN, 20, 20, finger=1)
        await handset.touch(TouchPhase.MOVE, 11, 11)
        await handset.lift(0)
        assert handset.finger == (20, 20)
        await handset.touch(TouchPhase.UP, 21, 21, finger=1)
        await handset.lift(1)  # it is up already
        assert [(t.phase.value, t.finger) for _, t in probe_of(phone).touches] == [
            ("down", 0), ("down", 1), ("move", 0), ("up", 0), ("up", 1),
        ]  # fmt: skip
