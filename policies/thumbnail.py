"""A small copy of a frame that decisions are made on: did this part of the screen change?

The short side has 36 cells, so a cell is 20 pixels of a 720-pixel screen: a fifth of a button. All comparisons of
`staleness` and `effect` read thumbnails, never pixels, so that a recorded step holds all that it was decided on.
"""

import base64
import zlib

import attrs
import cv2
import numpy as np
import numpy.typing as npt

from policies.frame import Frame
from policies.geometry import Box, Geometry

SHORT_SIDE_CELLS = 36
SAMPLES_PER_CELL = 4  # in each direction
CELL_TOLERANCE = 24  # of 255, largest channel; JPEG-like noise and glow stay below 10, a vanished button is above 60


@attrs.frozen(eq=False)
class Thumbnail:
    """Mean colours of the cells of a frame."""

    cells: npt.NDArray[np.uint8] = attrs.field(repr=False)
    """(rows, columns, 3) uint8, BGR."""

    def __attrs_post_init__(self) -> None:
        self.cells.flags.writeable = False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Thumbnail) and np.array_equal(self.cells, other.cells)

    def __hash__(self) -> int:
        return hash(self.cells.tobytes())


def thumbnail_for(frame: Frame) -> Thumbnail:
    """Area-averaged cells of a frame; the same for the same pixels, and nearly so for a reduced copy of them."""
    shorter = min(frame.width, frame.height)
    columns = max(1, round(frame.width * SHORT_SIDE_CELLS / shorter))
    rows = max(1, round(frame.height * SHORT_SIDE_CELLS / shorter))
    # Picking pixels down to four times the cells first costs a tenth of averaging every pixel, and averaging by a whole
    # factor is OpenCV's quick way; what is averaged stays the same for the same pixels, the tolerance covers the rest.
    size = (columns * SAMPLES_PER_CELL, rows * SAMPLES_PER_CELL)
    sampled = cv2.resize(frame.pixels, size, interpolation=cv2.INTER_NEAREST)
    cells = cv2.resize(sampled, (columns, rows), interpolation=cv2.INTER_AREA)
    return Thumbnail(np.asarray(cells, dtype=np.uint8))


def changed_share(before: Thumbnail, after: Thumbnail, box: Box | None, geometry: Geometry) -> float:
    """Share of the cells, 0 to 1, whose colour differs by more than `CELL_TOLERANCE`.

    Args:
        before: The older thumbnail.
        after: The newer one.
        box: Device pixels of `geometry` to look at; None looks at the whole screen.
        geometry: The screen that both were taken of.

    Returns:
        The share; 1.0 when the two are of different shape: the screen was turned or resized.
    """
    if before.cells.shape != after.cells.shape:
        return 1.0
    old, new = before.cells, after.cells
    if box is not None:
        rows, columns = old.shape[:2]
        left = min(box.left * columns // geometry.width, columns - 1)
        top = min(box.top * rows // geometry.height, rows - 1)
        right = max(left + 1, -(-box.right * columns // geometry.width))
        bottom = max(top + 1, -(-box.bottom * rows // geometry.height))
        old, new = old[top:bottom, left:right], new[top:bottom, left:right]
    difference = cv2.absdiff(np.ascontiguousarray(old), np.ascontiguousarray(new))
    changed = int(np.count_nonzero(np.asarray(difference).max(axis=2) > CELL_TOLERANCE))
    return changed / int(old.shape[0] * old.shape[1])


def encode_thumbnail(thumbnail: Thumbnail) -> str:
    """`ROWSxCOLUMNS:` and base64 of the zlib-packed cells: lossless, about 2 KB for a game screen."""
    rows, columns = thumbnail.cells.shape[:2]
    packed = base64.b64encode(zlib.compress(thumbnail.cells.tobytes(), 1)).decode("ascii")
    return f"{rows}x{columns}:{packed}"


def decode_thumbnail(text: str) -> Thumbnail:
    """The inverse of `encode_thumbnail`.

    Raises:
        ValueError: the text is not one.
    """
    try:
        size, packed = text.split(":", 1)
        rows, columns = (int(n) for n in size.split("x"))
        cells = np.frombuffer(zlib.decompress(base64.b64decode(packed, validate=True)), dtype=np.uint8)
        return Thumbnail(cells.reshape(rows, columns, 3).copy())
    except (ValueError, zlib.error) as error:
        raise ValueError(f"not a thumbnail: {text[:40]!r} ({error})") from error
