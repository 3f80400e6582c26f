"""Gestures, keys and text through a scrcpy server: many fingers, in real time, and every finger lifted at the end."""

import trio

from actors.devices.adb.input import refuse_off_screen
from actors.devices.adb.scrcpy import ScrcpyStream
from actors.devices.adb.scrcpy_control import (
    ACTION_DOWN,
    ACTION_MOVE,
    ACTION_UP,
    MOVE_SECONDS,
    TYPE_SET_CLIPBOARD,
    VideoSize,
    encode_touch,
    key_messages,
    strokes_for,
    text_messages,
    to_video,
)
from actors.devices.base import ActionRefused, DeviceError, DeviceTimeout
from policies.action import Action, Key, Text, Wait
from policies.geometry import Geometry

PASTE_SECONDS = 3.0
LIFT_SECONDS = 2.0


def can_touch(stream: ScrcpyStream, geometry: Geometry) -> bool:
    """True when the video shows the screen as `geometry` says: otherwise the server would ignore touches in silence."""
    video = stream.video_size
    return video is not None and shows(video.width, video.height, geometry)


def shows(width: int, height: int, geometry: Geometry) -> bool:
    """True when a video of that size can be of that screen: it is reduced, its sides rounded down to multiples of 8."""
    return abs(width * geometry.height - height * geometry.width) <= 16 * max(geometry.width, geometry.height)


async def perform(stream: ScrcpyStream, action: Action, geometry: Geometry, *, phone: str) -> None:
    """Do one action; returns when it has been sent whole, for pasted text when the phone has taken it.

    Raises:
        ActionRefused: a point off the screen, text that cannot be typed, or a screen that has just turned.
        DeviceTimeout: the phone took no input in time.
        StreamBroken: the connection to the scrcpy server is gone.
    """
    refuse_off_screen(action, geometry, phone=phone)
    match action:
        case Wait(seconds):
            await trio.sleep(seconds)
        case Key(name):
            for message in key_messages(name):
                await stream.send(message)
        case Text(text):
            await _type(stream, text, phone=phone)
        case _:
            await _gesture(stream, action, geometry, phone=phone)


async def _type(stream: ScrcpyStream, text: str, *, phone: str) -> None:
    sequence = stream.next_sequence()
    messages = text_messages(text, sequence=sequence, phone=phone)
    for message in messages:
        await stream.send(message)
    if messages[0][0] == TYPE_SET_CLIPBOARD:
        with trio.move_on_after(PASTE_SECONDS) as scope:
            await stream.wait_acknowledged(sequence)
        if scope.cancelled_caught:
            raise DeviceTimeout(f"pasted text was not taken within {PASTE_SECONDS:g} s", phone=phone)


async def _gesture(stream: ScrcpyStream, action: Action, geometry: Geometry, *, phone: str) -> None:
    if not can_touch(stream, geometry):
        size = stream.video_size
        raise ActionRefused(
            f"the video is {size and (size.width, size.height)}, the screen {geometry.width}x{geometry.height}: "
            "it has just turned, and the phone would ignore the touch",
            phone=phone,
        )
    strokes = strokes_for(action, geometry)
    video = stream.video_size
    assert video is not None
    where = {stroke.pointer: stroke.start for stroke in strokes}
    down: list[int] = []
    try:
        for stroke in strokes:
            down.append(stroke.pointer)
            await _touch(stream, ACTION_DOWN, stroke.pointer, stroke.start, geometry, video)
        began_at = trio.current_time()
        seconds = max(stroke.seconds for stroke in strokes)
        while True:
            elapsed = trio.current_time() - began_at
            for stroke in strokes:
                point = stroke.at(elapsed)
                if point != where[stroke.pointer]:
                    where[stroke.pointer] = point
                    await _touch(stream, ACTION_MOVE, stroke.pointer, point, geometry, video)
            if elapsed >= seconds:
                break
            await trio.sleep(min(MOVE_SECONDS, seconds - elapsed))
    finally:
        with trio.CancelScope(shield=True), trio.move_on_after(LIFT_SECONDS):
            for pointer in down:
                await _lift(stream, pointer, where[pointer], geometry, video)


async def _lift(
    stream: ScrcpyStream, pointer: int, point: tuple[int, int], geometry: Geometry, video: VideoSize
) -> None:
    """Raises nothing while another error is under way: where the connection is gone the phone lifts by itself."""
    size = stream.video_size or video  # it may have turned under the finger
    place = to_video(*point, geometry, size)
    try:
        await stream.send(encode_touch(ACTION_UP, pointer, *place, size))
    except DeviceError:
        return


async def _touch(
    stream: ScrcpyStream, action: int, pointer: int, point: tuple[int, int], geometry: Geometry, video: VideoSize
) -> None:
    await stream.send(encode_touch(action, pointer, *to_video(*point, geometry, video), video))
