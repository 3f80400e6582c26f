"""Frames → JPEGs for prompts: each frame is encoded once, in a worker thread, and equal frames have equal bytes."""

import hashlib
from collections.abc import Callable, Collection
from functools import partial

import cv2
import numpy as np
import trio

from inference.messages import ImagePart
from policies.frame import Frame, Pixels
from policies.planner import image_size

ENCODE_LIMITER = trio.CapacityLimiter(2)  # more threads than cores make no picture sooner


def encode_jpeg(pixels: Pixels, *, max_side: int, quality: int) -> ImagePart:
    """A picture as JPEG, its long side at most `max_side`; the same bytes for the same pixels.

    Raises:
        ValueError: OpenCV cannot encode it (an empty picture).
    """
    height, width = pixels.shape[:2]
    size = image_size(width, height, max_side)
    small = pixels if size == (width, height) else cv2.resize(pixels, size, interpolation=cv2.INTER_AREA)
    ok, encoded = cv2.imencode(".jpg", small, [cv2.IMWRITE_JPEG_QUALITY, quality])
    if not ok:
        raise ValueError(f"a {width}x{height} picture could not be encoded")
    jpeg = np.asarray(encoded).tobytes()
    return ImagePart(jpeg, hashlib.sha256(jpeg).hexdigest(), *size)


class PictureStore:
    """The encoded frames that prompts of one episode still name.

    Args:
        in_thread: False encodes in the calling task, for simulations on a clock that must not run meanwhile.
        encoder: Instead of `encode_jpeg`; a benchmark has its pictures ready.
    """

    def __init__(
        self,
        *,
        max_side: int,
        quality: int,
        in_thread: bool = True,
        encoder: Callable[[Pixels], ImagePart] | None = None,
    ) -> None:
        self.max_side = max_side
        self.quality = quality
        self.in_thread = in_thread
        self._encoder = encoder or partial(encode_jpeg, max_side=max_side, quality=quality)
        self._encoded: dict[int, ImagePart] = {}

    async def encode(self, frame: Frame) -> ImagePart:
        """The JPEG of a frame; encoded at the first call for it."""
        held = self._encoded.get(frame.seq)
        if held is None:
            encode = partial(self._encoder, frame.pixels)
            held = await trio.to_thread.run_sync(encode, limiter=ENCODE_LIMITER) if self.in_thread else encode()
            self._encoded[frame.seq] = held
        return held

    def keep_only(self, seqs: Collection[int]) -> None:
        """Forget every other frame.

        With the frames that the present prompt names, a later prompt finds all that it names beside its own newest
        one, however many requests are aborted in between.
        """
        for seq in [s for s in self._encoded if s not in seqs]:
            del self._encoded[seq]

    def held(self) -> dict[int, ImagePart]:
        """By `Frame.seq`, what is still kept."""
        return dict(self._encoded)
