"""Real H.264 of a simulated screen, made as a phone's encoder makes it: SPS and PPS apart, no periodic key frames."""

import threading
from collections.abc import Callable
from fractions import Fraction

import attrs
import av
from av.codec.context import Flags
from av.video.codeccontext import VideoCodecContext
from av.video.frame import PictureType

from actors.rehearsal.apps.base import Canvas

ALIGNMENT = 8  # scrcpy's server rounds both sides down to this
MICROSECONDS = Fraction(1, 1_000_000)
LOOP_SECONDS = 8.0  # of a shared stream, before it begins again with its key frame
_OPTIONS = {"preset": "ultrafast", "tune": "zerolatency", "x264-params": "keyint=infinite:scenecut=0"}


def video_size(width: int, height: int, max_size: int) -> tuple[int, int]:
    """The size of the video of a screen, in pixels."""
    if max_size and max(width, height) > max_size:
        longest = max(width, height)
        width, height = width * max_size // longest, height * max_size // longest
    return max(ALIGNMENT, width // ALIGNMENT * ALIGNMENT), max(ALIGNMENT, height // ALIGNMENT * ALIGNMENT)


@attrs.frozen
class EncodedFrame:
    """One frame as H.264 (Annex B)."""

    data: bytes = attrs.field(repr=False)
    is_key: bool


class ScreenEncoder:
    """Encodes one session: frames of one size, the first of them a key frame. For one thread at a time."""

    def __init__(self, width: int, height: int) -> None:
        codec = av.CodecContext.create("libx264", "w")
        assert isinstance(codec, VideoCodecContext)
        codec.width, codec.height = width, height
        codec.pix_fmt = "yuv420p"
        codec.time_base = MICROSECONDS
        codec.framerate = Fraction(30)
        codec.thread_count = 1
        codec.options = dict(_OPTIONS)
        codec.flags |= Flags.global_header  # SPS and PPS go to `extradata`, not into the stream
        codec.open()
        self._codec = codec
        self.size = (width, height)
        self.config = bytes(codec.extradata or b"")

    def encode(self, canvas: Canvas, pts_us: int, *, key: bool = False) -> EncodedFrame:
        """One RGB picture of any size, scaled to the video's."""
        frame = av.VideoFrame.from_ndarray(canvas, format="rgb24")
        frame = frame.reformat(width=self.size[0], height=self.size[1], format="yuv420p")
        frame.pts = pts_us
        frame.time_base = MICROSECONDS
        frame.pict_type = PictureType.I if key else PictureType.NONE
        packets = self._codec.encode(frame)
        assert len(packets) == 1, "zerolatency gives a packet a frame"
        return EncodedFrame(bytes(packets[0]), bool(packets[0].is_keyframe))


@attrs.frozen
class SharedVideo:
    """A stream that many phones send, encoded once."""

    config: bytes = attrs.field(repr=False)
    frames: tuple[EncodedFrame, ...]
    """The first is a key frame; after the last the first comes again."""


_shared: dict[tuple[str, int, int, float], SharedVideo] = {}
_shared_lock = threading.Lock()


def shared_video(key: str, size: tuple[int, int], fps: float, draw: Callable[[float], Canvas]) -> SharedVideo:
    """The stream of that name, size and pace; drawn and encoded at the first call, in the calling thread.

    Args:
        key: what is shown.
        size: (width, height) of the video in pixels.
        fps: frames a second.
        draw: the screen at a time in seconds, which only grows.
    """
    wanted = (key, *size, fps)
    with _shared_lock:
        if wanted not in _shared:
            encoder = ScreenEncoder(*size)
            count = max(2, round(LOOP_SECONDS * fps))
            frames = tuple(encoder.encode(draw(n / fps), round(n / fps * 1e6), key=n == 0) for n in range(count))
            _shared[wanted] = SharedVideo(encoder.config, frames)
        return _shared[wanted]
