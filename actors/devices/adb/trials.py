"""Tries every capture method on a phone: how long it takes, and whether it shows what the reference shows."""

import time
from collections.abc import Awaitable, Callable, Sequence

import trio

from actors.devices.adb.choosing import REFERENCE, MethodTrial
from actors.devices.adb.stream_keeper import StreamKeeper
from actors.devices.base import CaptureFailed, CaptureMethod, DeviceError, DeviceLost, DeviceTimeout
from policies.frame import Frame
from policies.verdict import Verdict, compare, judge_pixels

CAPTURES = 3  # of each method; the middle one counts
STREAM_SECONDS = 5.0  # for the first picture; on a static screen it takes long, and then another method is better
_RETRY_SECONDS = 0.1

CaptureBy = Callable[[CaptureMethod], Awaitable[Frame]]


async def run_trials(
    capture_by: CaptureBy, methods: Sequence[CaptureMethod], *, keeper: StreamKeeper | None
) -> list[MethodTrial]:
    """Try each method once; one that fails is a trial with its error.

    Raises:
        DeviceLost: the phone went away, or the reference itself cannot be had.
    """
    if keeper is not None:
        await _wait_stream(capture_by)
    before, seconds = await _timed(capture_by, REFERENCE)
    is_black = judge_pixels(before.pixels) is Verdict.BLACK
    found = [MethodTrial(REFERENCE, seconds, before.pixels.nbytes, None if is_black else compare(*[before.pixels] * 3))]
    for method in methods:
        if method is REFERENCE:
            continue
        try:
            frame, seconds = await _timed(capture_by, method)
        except DeviceTimeout as error:
            found.append(MethodTrial(method, error=str(error)))
            continue
        except DeviceLost:
            raise
        except DeviceError as error:
            found.append(MethodTrial(method, error=str(error)))
            continue
        after = await capture_by(REFERENCE)
        agreement = None if is_black else compare(frame.pixels, before.pixels, after.pixels)
        found.append(MethodTrial(method, seconds, frame.pixels.nbytes, agreement))
        before = after
    return found


async def _timed(capture_by: CaptureBy, method: CaptureMethod) -> tuple[Frame, float]:
    taken: list[tuple[float, Frame]] = []
    for _ in range(CAPTURES):
        began_at = time.perf_counter()
        frame = await capture_by(method)
        taken.append((time.perf_counter() - began_at, frame))
    return taken[-1][1], sorted(seconds for seconds, _ in taken)[CAPTURES // 2]


async def _wait_stream(capture_by: CaptureBy) -> None:
    with trio.move_on_after(STREAM_SECONDS):
        while True:
            try:
                await capture_by(CaptureMethod.SCRCPY)
            except CaptureFailed:
                await trio.sleep(_RETRY_SECONDS)
            else:
                return
