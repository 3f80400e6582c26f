"""H.264 of one phone to pictures. Nothing here waits: it runs in worker threads, one at a time for each phone."""

from collections.abc import Sequence

import attrs
import av
import numpy as np
from av.codec.context import Flags
from av.error import FFmpegError
from av.video.codeccontext import VideoCodecContext
from av.video.frame import VideoFrame
from av.video.reformatter import Interpolation

from actors.devices.adb.scrcpy_wire import Packet
from policies.frame import Pixels


class DecodeFailed(Exception):
    """The stream is broken here; nothing before the next key frame can be shown."""


@attrs.frozen(eq=False)
class Decoded:
    """The newest picture of a batch, not yet as pixels, which cost more than decoding."""

    frame: VideoFrame = attrs.field(repr=False)
    pts_us: int
    count: int
    """Pictures decoded, this one and those before it."""

    @property
    def width(self) -> int:
        """Pixels across of the video."""
        return self.frame.width

    @property
    def height(self) -> int:
        """Pixels down of the video."""
        return self.frame.height


class ScreenDecoder:
    """A decoder that starts at a key frame, and after each error waits for the next one."""

    def __init__(self) -> None:
        self._config = b""
        self._is_config_new = False
        self._codec = self._new_codec()
        self._needs_key = True

    @staticmethod
    def _new_codec() -> VideoCodecContext:
        codec = av.CodecContext.create("h264", "r")
        assert isinstance(codec, VideoCodecContext)
        codec.flags |= Flags.low_delay  # a phone's encoder sends no B-frames, and does not always say so
        codec.thread_count = 1  # phones are many and cores few; frame threads would also hold pictures back
        return codec

    @property
    def needs_key(self) -> bool:
        """True while every packet but a key frame is dropped."""
        return self._needs_key

    def reset(self) -> None:
        """Forget everything but the configuration, and wait for a key frame."""
        self._codec = self._new_codec()
        self._needs_key = True

    def decode(self, packets: Sequence[Packet]) -> Decoded | None:
        """The newest picture in the packets; None where there is none.

        Raises:
            DecodeFailed: broken or missing data. The decoder has been reset.
        """
        newest: Decoded | None = None
        count = 0
        try:
            for packet in packets:
                if packet.is_config:
                    self._config, self._is_config_new = packet.data, True
                    continue
                if self._needs_key and not packet.is_key:
                    continue
                # SPS and PPS must stand before the frame that follows them
                with_config = packet.is_key or self._is_config_new
                data = self._config + packet.data if with_config else packet.data
                self._needs_key = self._is_config_new = False
                for frame in self._codec.decode(av.Packet(data)):
                    _refuse_corrupt(frame)
                    count += 1
                    newest = Decoded(frame, packet.pts_us, count)
        except FFmpegError as error:
            self.reset()
            raise DecodeFailed(f"the decoder refuses the stream: {error}") from error
        except DecodeFailed:
            self.reset()
            raise
        return newest


def _refuse_corrupt(frame: VideoFrame) -> None:
    if frame.is_corrupt:
        raise DecodeFailed("a picture with missing parts")


def pixels_of(frame: VideoFrame, max_side: int | None) -> Pixels:
    """A decoded picture as BGR, its longer side at most `max_side`; conversion and reduction are one step."""
    width, height = frame.width, frame.height
    longest = max(width, height)
    if max_side is not None and longest > max_side:
        width, height = max(1, round(width * max_side / longest)), max(1, round(height * max_side / longest))
    converted = frame.reformat(width=width, height=height, format="bgr24", interpolation=Interpolation.AREA)
    return np.ascontiguousarray(converted.to_ndarray(), dtype=np.uint8)
