"""What phones show, as small JPEGs for people who look on: made when asked for, and only of pictures not seen yet."""

import base64
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import cv2
import numpy as np
import trio

from actors.phone import PhoneJob
from actors.pictures import encode_jpeg
from inference.messages import ImagePart
from policies.frame import Frame, Pixels

QUALITY = 70
SMALL_SIDE = 320  # up to here a picture is one of many, and its rough edges are not looked at
SMALL_QUALITY = 60
ANSWER_BYTES = 400 << 10  # of base64, from which on an answer takes no further picture; a large one has 300 kB
BATCH = 8  # small pictures that one thread makes in a row: a busy machine takes longer to wake it than it takes for one
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
    batch = BATCH if side <= SMALL_SIDE else 1
    made: list[dict[str, Any]] = []
    size = 0
    for start in range(0, len(jobs), batch):
        newest = [(job.phone, job.newest) for job in jobs[start : start + batch]]
        due = [(phone, frame) for phone, frame in newest if frame is not None and frame.seq != known.get(phone)]
        if not due:
            continue
        if size >= ANSWER_BYTES:
            return made, True
        encode = partial(_encoded, [frame for _, frame in due], side)
        for (phone, frame), picture in zip(due, await trio.to_thread.run_sync(encode, limiter=LIMITER), strict=True):
            shown = _shown(frame, picture)
            size += len(shown["jpeg"])
            made.append({"phone": phone, **shown})
    return made, False


def halved(pixels: Pixels, side: int) -> Pixels:
    """A picture made smaller by halves as long as that leaves `side` pixels of its long side, and halves are exact.

    The mean of four pixels costs a tenth of a resize to any size: of 720x1280 to 240, 2.7 ms of CPU become 0.7 ms.
    """
    height, width = pixels.shape[:2]
    while max(height, width) >= 2 * side and height % 2 == 0 == width % 2:
        height, width = height // 2, width // 2
        pixels = np.asarray(cv2.resize(pixels, (width, height), interpolation=cv2.INTER_AREA), dtype=np.uint8)
    return pixels


def _encoded(frames: Sequence[Frame], side: int) -> list[ImagePart]:
    quality = SMALL_QUALITY if side <= SMALL_SIDE else QUALITY
    return [encode_jpeg(halved(frame.pixels, side), max_side=side, quality=quality) for frame in frames]


def _shown(frame: Frame, picture: ImagePart) -> dict[str, Any]:
    return {
        "seq": frame.seq,
        "captured_ms_ago": round((trio.current_time() - frame.requested_at) * 1000, 1),
        "width": picture.width,
        "height": picture.height,
        "jpeg": base64.b64encode(picture.jpeg).decode("ascii"),
    }
