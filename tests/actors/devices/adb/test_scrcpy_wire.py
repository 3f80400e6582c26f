"""The video and control streams as bytes: any cut gives the same, and garbage gives a typed error."""

import itertools
import struct
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.devices.adb.scrcpy_control import (
    ACTION_DOWN,
    ACTION_UP,
    ClipboardSet,
    ControlWireError,
    DeviceMessageReader,
    VideoSize,
    encode_clipboard,
    encode_key,
    encode_text,
    encode_touch,
    strokes_for,
    to_video,
)
from actors.devices.adb.scrcpy_wire import (
    Packet,
    ScrcpyWireError,
    Session,
    Started,
    StreamEvent,
    VideoReader,
    parse_version,
)
from actors.rehearsal.phone import scrcpy_wire as server
from actors.rehearsal.phone.wire import WireError
from policies.action import Hold, LongPress, Swipe, Tap, TwoFingers, Wait
from policies.geometry import Geometry

VERSIONS = ["2.0", "3.3.4", "4.1"]
PACKETS = st.lists(
    st.tuples(st.binary(min_size=1, max_size=40), st.integers(0, 2**60), st.booleans(), st.booleans()), max_size=6
)
CUTS = st.lists(st.integers(0, 400), max_size=8)


def cut(data: bytes, places: Iterable[int]) -> list[bytes]:
    at = [0, *sorted(min(place, len(data)) for place in places), len(data)]
    return [data[a:b] for a, b in itertools.pairwise(at)]


def read(version: str, pieces: Iterable[bytes]) -> list[StreamEvent]:
    reader = VideoReader(parse_version(version))
    return [event for piece in pieces for event in reader.feed(piece)]


@given(st.sampled_from(VERSIONS), PACKETS, CUTS)
def test_any_cut_of_the_video_gives_the_same_packets(
    version: str, packets: list[tuple[bytes, int, bool, bool]], places: list[int]
) -> None:
    major = int(version[0])
    data = server.encode_head("Corral Öne", major, 720, 1280)
    expected: list[StreamEvent] = [Started("Corral Öne"), Session(720, 1280)]
    for number, (body, pts, config, key) in enumerate(packets):
        if number == 2 and major >= 4:
            data += server.encode_session(1280, 720)
            expected.append(Session(1280, 720))
        data += server.encode_media(body, major=major, pts_us=pts, config=config, key=key)
        expected.append(Packet(body, 0 if config else pts, config, key and not config))

    assert read(version, [data]) == expected
    assert read(version, cut(data, places)) == expected


@given(st.sampled_from(VERSIONS), st.binary(max_size=300), CUTS)
def test_garbage_is_a_typed_error_or_not_enough(version: str, data: bytes, places: list[int]) -> None:
    try:
        events = read(version, cut(data, places))
    except ScrcpyWireError:
        return
    assert all(isinstance(event, Started | Session | Packet) for event in events)


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (b"x" * 80, "zero byte"),
        (bytes(65) + b"h265" + bytes(8), "codec"),
        (bytes(65) + struct.pack(">I", 1), "could not be configured"),
        (bytes(65) + b"h264" + struct.pack(">II", 0, 5), "0x5"),
        (server.encode_head("x", 3, 64, 64) + struct.pack(">QI", 0, 1 << 31), "2147483648 bytes"),
    ],
)
def test_what_is_refused(data: bytes, match: str) -> None:
    with pytest.raises(ScrcpyWireError, match=match):
        read("3.1", [data])


@pytest.mark.parametrize("text", ["1.25", "5.0", "3", "x", "3.3.4-dev", ""])
def test_versions_that_are_not_spoken(text: str) -> None:
    with pytest.raises(ScrcpyWireError):
        parse_version(text)


def test_a_touch_is_32_bytes_in_this_order() -> None:
    message = encode_touch(ACTION_DOWN, 0x1234567887654321, 100, 200, VideoSize(1080, 1920))

    assert message.hex(" ") == (
        "02 00 12 34 56 78 87 65 43 21 00 00 00 64 00 00 00 c8 04 38 07 80 ff ff 00 00 00 00 00 00 00 00"
    )


@given(CUTS)
def test_the_server_reads_what_the_client_writes(places: list[int]) -> None:
    messages = (
        encode_touch(ACTION_UP, 2, 7, 8, VideoSize(100, 200))
        + encode_key(ACTION_DOWN, 4)
        + encode_text("hello")
        + encode_clipboard("你好", 9)
        + bytes([17])
    )
    reader = server.ControlReader()
    got = [message for piece in cut(messages, places) for message in reader.feed(piece)]

    assert got == [
        server.TouchMessage(1, 2, 7, 8, 100, 200),
        server.KeyMessage(0, 4),
        server.TextMessage("hello"),
        server.TextMessage("你好", 9),
        server.ResetVideo(),
    ]
    with pytest.raises(WireError):
        list(server.ControlReader().feed(b"\xee"))


@given(CUTS)
def test_acknowledgements_among_other_messages(places: list[int]) -> None:
    data = struct.pack(">BI", 0, 3) + b"abc" + server.encode_acknowledgement(7) + struct.pack(">BHH", 2, 1, 2) + b"zz"
    data += server.encode_acknowledgement(8)
    reader = DeviceMessageReader()

    assert [m for piece in cut(data, places) for m in reader.feed(piece)] == [ClipboardSet(7), ClipboardSet(8)]
    with pytest.raises(ControlWireError):
        list(DeviceMessageReader().feed(b"\x09"))


def test_strokes() -> None:
    screen = Geometry(720, 1280)
    assert strokes_for(Wait(1.0), screen) == ()
    (tap,) = strokes_for(Tap(5, 6), screen)
    assert (tap.seconds, tap.at(0.0)) == (0.0, (5, 6))
    (press,) = strokes_for(LongPress(5, 6, 0.7), screen)
    assert (press.seconds, press.at(0.5)) == (0.7, (5, 6))
    (swipe,) = strokes_for(Swipe(0, 0, 100, 50, 1.0), screen)
    assert [swipe.at(t) for t in (0.0, 0.5, 1.0, 9.0)] == [(0, 0), (50, 25), (100, 50), (100, 50)]
    (hold,) = strokes_for(Hold(700, 640, 0.0, 100, 2.0), screen)
    assert hold.at(0.0) == (719, 640)
    assert [s.pointer for s in strokes_for(TwoFingers((0, 0, 1, 1), (9, 9, 8, 8)), screen)] == [1, 2]


@given(st.integers(0, 1079), st.integers(0, 2399))
def test_every_device_pixel_has_a_pixel_of_the_video(x: int, y: int) -> None:
    video = VideoSize(576, 1280)
    at = to_video(x, y, Geometry(1080, 2400), video)

    assert 0 <= at[0] < video.width
    assert 0 <= at[1] < video.height
    assert abs(at[0] / video.width - x / 1080) < 0.003
