"""A picture of a phone's screen, with everything that makes it datable and placeable."""

import attrs
import cv2
import numpy as np
import numpy.typing as npt

from policies.geometry import Geometry

Pixels = npt.NDArray[np.uint8]
"""(height, width, 3) uint8 in OpenCV's channel order: blue, green, red."""


@attrs.frozen(eq=False)
class Frame:
    """One captured screen. It owns its pixels, and nobody can write to them."""

    pixels: Pixels = attrs.field(repr=False)
    """(height, width, 3) uint8, BGR, possibly reduced: `geometry` has the screen's true size."""
    seq: int
    """Counts captures of one phone, from 0; gaps are captures that failed or were replaced before use."""
    requested_at: float
    """When the capture was asked for, in seconds of the run's clock: the picture is at least as new as this."""
    received_at: float
    """When the last byte had arrived, in seconds of the run's clock."""
    geometry: Geometry
    """The screen's size and rotation, read with the frame."""
    epoch: int = 0
    """Geometry epoch: grows by one whenever size, rotation or density changes."""
    source: str = ""
    """The capture method."""
    is_unchanged: bool = False
    """The phone has said nothing new since the frame before: the screen stands still, and the picture is not stale."""

    def __attrs_post_init__(self) -> None:
        if self.pixels.ndim != 3 or self.pixels.shape[2] != 3 or self.pixels.dtype != np.uint8:
            raise ValueError(f"pixels must be (height, width, 3) uint8, not {self.pixels.shape} {self.pixels.dtype}")
        self.pixels.flags.writeable = False

    @property
    def width(self) -> int:
        """Pixels across of the picture that we hold."""
        return int(self.pixels.shape[1])

    @property
    def height(self) -> int:
        """Pixels down of the picture that we hold."""
        return int(self.pixels.shape[0])


def pixels_from_rgba(buffer: bytes | bytearray | memoryview, width: int, height: int) -> Pixels:
    """An owned BGR copy of raw RGBA bytes, as `screencap` sends them.

    Raises:
        ValueError: `buffer` is not exactly width x height x 4 bytes long.
    """
    flat = np.frombuffer(buffer, dtype=np.uint8)
    if flat.size != width * height * 4:
        raise ValueError(f"{flat.size} bytes are not a {width}x{height} RGBA picture")
    return np.asarray(cv2.cvtColor(flat.reshape(height, width, 4), cv2.COLOR_RGBA2BGR), dtype=np.uint8)
