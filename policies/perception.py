"""System 1's eyes: named probes over regions of a frame, compiled once, read on every frame.

A probe looks at its own region only: a full-frame template search costs 84 ms, one in a 160-pixel region 1.7 ms.
"""

import math
from collections.abc import Mapping, Sequence
from enum import StrEnum

import attrs
import cv2
import numpy as np
import numpy.typing as npt

from policies.frame import Frame, Pixels
from policies.geometry import Box, Region, box_for
from policies.thumbnail import Thumbnail, thumbnail_for


COLOR_SAMPLES = 40_000  # pixels that a color probe looks at: every one of a button, every fifth of a whole screen


class Direction(StrEnum):
    """Which way a bar grows."""

    RIGHT = "right"
    LEFT = "left"
    UP = "up"
    DOWN = "down"


@attrs.frozen
class HsvRange:
    """Colours in OpenCV's 8-bit HSV: hue 0..179, saturation and value 0..255. A low hue above the high one wraps."""

    low: tuple[int, int, int]
    high: tuple[int, int, int]


@attrs.frozen
class TemplateProbe:
    """Is this picture somewhere in the region? The reading is the best match, -1 to 1."""

    region: Region
    template: str
    """Name of the picture, given to `compile_probes`."""
    template_short_side: int = 720
    """Short side of the screen that the picture was cut from; it is scaled for other screens."""
    hit_at: float = 0.9


@attrs.frozen
class ColorProbe:
    """How much of the region has these colours? The reading is a share, 0 to 1, and their middle."""

    region: Region
    color: HsvRange
    hit_at: float = 0.5


@attrs.frozen
class BarProbe:
    """How full is a bar? The reading is 0 to 1: the position of the last filled line along the direction."""

    region: Region
    fill: HsvRange
    direction: Direction = Direction.RIGHT
    hit_at: float = 0.5


@attrs.frozen
class DigitsProbe:
    """Which number stands in the region? Pictures `<digits>/0` to `/9` are matched; nan where none is seen."""

    region: Region
    digits: str
    """Prefix of the ten pictures' names."""
    template_short_side: int = 720
    match_at: float = 0.8


Probe = TemplateProbe | ColorProbe | BarProbe | DigitsProbe


@attrs.frozen
class Reading:
    """What one probe says of one frame."""

    value: float
    hit: bool
    """The value reaches the probe's `hit_at`; for digits: a number was seen."""
    at: tuple[float, float] | None = None
    """Middle of the match (template), of the coloured pixels (color) or of the region, as shares of the screen's size."""


@attrs.frozen
class Percept:
    """All that a step decides on: what the probes read, and the frame's thumbnail. No pixels."""

    seq: int
    """`Frame.seq`."""
    requested_at: float
    received_at: float
    epoch: int
    width: int
    """Device pixels across."""
    height: int
    """Device pixels down."""
    rotation: int
    thumbnail: Thumbnail
    readings: Mapping[str, Reading]


@attrs.frozen(eq=False)
class Perception:
    """Compiled probes: pictures are decoded and scaled once for each screen size."""

    probes: Mapping[str, Probe]
    pictures: Mapping[str, Pixels] = attrs.field(repr=False)
    _scaled: dict[tuple[str, int], Pixels] = attrs.field(factory=dict, alias="_scaled", repr=False)

    def picture_for(self, name: str, cut_short_side: int, frame_short_side: int) -> Pixels:
        """A picture as large as it is on a frame with that short side."""
        key = (name, frame_short_side)
        scaled = self._scaled.get(key)
        if scaled is None:
            scaled = _resized(self.pictures[name], frame_short_side / cut_short_side)
            self._scaled[key] = scaled
        return scaled


def compile_probes(probes: Mapping[str, Probe], pictures: Mapping[str, Pixels]) -> Perception:
    """Check that every picture that a probe names is there.

    Raises:
        ValueError: with one line for each missing picture.
    """
    missing = []
    for name, probe in probes.items():
        wanted: Sequence[str] = ()
        if isinstance(probe, TemplateProbe):
            wanted = (probe.template,)
        elif isinstance(probe, DigitsProbe):
            wanted = tuple(f"{probe.digits}/{digit}" for digit in range(10))
        missing += [f"probe {name!r} needs the picture {w!r}" for w in wanted if w not in pictures]
    if missing:
        raise ValueError("\n".join(missing))
    return Perception(dict(probes), dict(pictures))


def perceive(perception: Perception, frame: Frame) -> Percept:
    """Read every probe on a frame."""
    return Percept(
        seq=frame.seq,
        requested_at=frame.requested_at,
        received_at=frame.received_at,
        epoch=frame.epoch,
        width=frame.geometry.width,
        height=frame.geometry.height,
        rotation=frame.geometry.rotation,
        thumbnail=thumbnail_for(frame),
        readings={name: read_probe(perception, probe, frame) for name, probe in perception.probes.items()},
    )


def read_probe(perception: Perception, probe: Probe, frame: Frame) -> Reading:
    """Read one probe. An empty region (off this screen) reads 0 and never hits."""
    box = box_for(probe.region, frame.width, frame.height)
    if box.width < 1 or box.height < 1:
        return Reading(0.0, hit=False)
    crop = frame.pixels[box.top : box.bottom, box.left : box.right]
    x, y = box.center
    middle = (x / frame.width, y / frame.height)
    match probe:
        case TemplateProbe():
            picture = perception.picture_for(probe.template, probe.template_short_side, min(frame.width, frame.height))
            return _read_template(probe, picture, crop, box, frame)
        case ColorProbe():
            stride = max(1, math.isqrt(box.width * box.height // COLOR_SAMPLES))
            mask = _mask(crop[::stride, ::stride], probe.color)
            rows, columns = np.nonzero(mask)
            share = float(rows.size) / mask.size
            if rows.size:
                left, top = float(columns.mean()) * stride, float(rows.mean()) * stride
                middle = ((box.left + left) / frame.width, (box.top + top) / frame.height)
            return Reading(share, share >= probe.hit_at, middle)
        case BarProbe():
            value = _bar_value(_mask(crop, probe.fill), probe.direction)
            return Reading(value, value >= probe.hit_at, middle)
        case DigitsProbe():
            number = _read_digits(perception, probe, crop, min(frame.width, frame.height))
            return Reading(float("nan") if number is None else float(number), number is not None, middle)


def _read_template(probe: TemplateProbe, picture: Pixels, crop: Pixels, box: Box, frame: Frame) -> Reading:
    height, width = picture.shape[:2]
    if height > crop.shape[0] or width > crop.shape[1]:
        return Reading(0.0, hit=False)
    scores = cv2.matchTemplate(np.ascontiguousarray(crop), picture, cv2.TM_CCOEFF_NORMED)
    _, best, _, where = cv2.minMaxLoc(scores)
    if not np.isfinite(best):  # a picture or crop of one single colour has no correlation
        best = 0.0
    x = box.left + where[0] + width / 2
    y = box.top + where[1] + height / 2
    return Reading(float(best), best >= probe.hit_at, (x / frame.width, y / frame.height))


def _mask(crop: Pixels, color: HsvRange) -> npt.NDArray[np.bool_]:
    hsv = cv2.cvtColor(np.ascontiguousarray(crop), cv2.COLOR_BGR2HSV)
    if color.low[0] <= color.high[0]:
        return np.asarray(cv2.inRange(hsv, np.array(color.low), np.array(color.high))) > 0
    _, low_s, low_v = color.low
    _, high_s, high_v = color.high
    upper = cv2.inRange(hsv, np.array(color.low), np.array((179, high_s, high_v)))
    lower = cv2.inRange(hsv, np.array((0, low_s, low_v)), np.array(color.high))
    return np.asarray(cv2.bitwise_or(upper, lower)) > 0


def _bar_value(mask: npt.NDArray[np.bool_], direction: Direction) -> float:
    across = direction in {Direction.RIGHT, Direction.LEFT}
    lines = mask.mean(axis=0 if across else 1) >= 0.5
    if direction in {Direction.LEFT, Direction.UP}:
        lines = lines[::-1]
    filled = np.flatnonzero(lines)
    return 0.0 if filled.size == 0 else (int(filled[-1]) + 1) / lines.size


def _read_digits(perception: Perception, probe: DigitsProbe, crop: Pixels, short_side: int) -> int | None:
    """Greedy: best match first, others only where they do not overlap it; then read from left to right."""
    gray = cv2.cvtColor(np.ascontiguousarray(crop), cv2.COLOR_BGR2GRAY)
    found: list[tuple[float, int, int, int]] = []  # (score, left, width, digit)
    for digit in range(10):
        picture = perception.picture_for(f"{probe.digits}/{digit}", probe.template_short_side, short_side)
        template = cv2.cvtColor(picture, cv2.COLOR_BGR2GRAY)
        if template.shape[0] > gray.shape[0] or template.shape[1] > gray.shape[1]:
            continue
        best_row = np.nan_to_num(cv2.matchTemplate(gray, template, cv2.TM_CCOEFF_NORMED)).max(axis=0)
        hits = np.flatnonzero(best_row >= probe.match_at)
        found.extend((float(best_row[hit]), int(hit), int(template.shape[1]), digit) for hit in hits)
    found.sort(reverse=True)
    kept: list[tuple[int, int, int]] = []  # (left, width, digit)
    for _, left, width, digit in found:
        if all(left + width * 0.6 <= other or other + other_width * 0.6 <= left for other, other_width, _ in kept):
            kept.append((left, width, digit))
    if not kept:
        return None
    return int("".join(str(digit) for _, _, digit in sorted(kept)))


def _resized(picture: Pixels, scale: float) -> Pixels:
    if abs(scale - 1) < 1e-6:
        return picture
    height, width = picture.shape[:2]
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    how = cv2.INTER_AREA if scale < 1 else cv2.INTER_LINEAR
    return np.asarray(cv2.resize(picture, size, interpolation=how), dtype=np.uint8)
