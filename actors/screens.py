"""What phones show, as small JPEGs for people who look on: made when asked for, and only of pictures not seen yet."""

import base64
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import trio

from actors.phone import PhoneJob
from actors.pictures import encode_jpeg
from policies.frame import Frame

QUALITY = 70
SMALL_SIDE = 320  # up to here a picture is one of many, and its rough edges are not looked at
SMALL_QUALITY = 60
ANSWER_BYTES = 400 << 10  # of base64, from which on an answer takes no further picture; a large one has 300 kB
LIMITER = trio.CapacityLimiter(1)  # its own: who looks on takes no thread from prompts, and at most one core


async def newest_screens(
    jobs: Sequence[PhoneJob], known: Mapping[str, int | None], side: int
) -> tuple[list[dict[str, Any]], bool]:
    """The newest picture of each phone whose number is not the known one.

    Args:
        jobs: The phones.
        known: Phone → number of the picture that was seen.
        side: Pixels of the long side.

    Returns:
        `[{"phone", "seq", "captured_ms_ago", "width", "height", "jpeg": base64}]`, and whether others did not fit in:
        ask again, with what was seen by then.
    """
    made: list[dict[str, Any]] = []
    size = 0
    for job in jobs:
        frame = job.newest
        if frame is None or frame.seq == known.get(job.phone):
            continue
        if size >= ANSWER_BYTES:
            return made, True
        shown = await _shown(frame, side)
        size += len(shown["jpeg"])
        made.append({"phone": job.phone, **shown})
    return made, False


async def _shown(frame: Frame, side: int) -> dict[str, Any]:
    quality = SMALL_QUALITY if side <= SMALL_SIDE else QUALITY
    encode = partial(encode_jpeg, frame.pixels, max_side=side, quality=quality)
    picture = await trio.to_thread.run_sync(encode, limiter=LIMITER)
    return {
        "seq": frame.seq,
        "captured_ms_ago": round((trio.current_time() - frame.requested_at) * 1000, 1),
        "width": picture.width,
        "height": picture.height,
        "jpeg": base64.b64encode(picture.jpeg).decode("ascii"),
    }
