"""System 1's eyes: named probes over regions of a frame, compiled once, read on every frame.

A probe looks at its own region only: a full-frame template search costs 84 ms, one in a 160-pixel region 1.7 ms.
"""

import hashlib
from collections.abc import Mapping, Sequence

import attrs
import numpy as np

from policies.colors import read_bar, read_share
from policies.frame import Frame, Pixels
from policies.geometry import Box, box_for
from policies.probes import BarProbe, ColorProbe, DigitsProbe, FastProbe, Probe, Reading, TemplateProbe
from policies.templates import match_box, read_number, scaled_picture
from policies.thumbnail import Thumbnail, thumbnail_for

KEPT_NUMBERS = 512  # a fleet of 64 phones shows fewer numbers at a time


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
    _numbers: dict[tuple[DigitsProbe, bytes], int | None] = attrs.field(factory=dict, alias="_numbers", repr=False)
    """Numbers that were read, by the pixels that they were read on."""

    def picture_for(self, name: str, cut_short_side: int, frame_short_side: int) -> Pixels:
        """A picture as large as it is on a frame with that short side."""
        key = (name, frame_short_side)
        scaled = self._scaled.get(key)
        if scaled is None:
            scaled = scaled_picture(self.pictures[name], frame_short_side / cut_short_side)
            self._scaled[key] = scaled
        return scaled

    def number_on(self, probe: DigitsProbe, crop: Pixels, frame_short_side: int) -> int | None:
        """The number on a crop. A score changes seldom and costs 1 to 5 ms to read, so equal pixels are read once."""
        pixels = np.ascontiguousarray(crop)
        shape = f"{frame_short_side} {pixels.shape}".encode()
        key = (probe, hashlib.blake2b(pixels.data, digest_size=16, key=shape[:64]).digest())
        if key not in self._numbers:
            if len(self._numbers) >= KEPT_NUMBERS:
                self._numbers.clear()
            self._numbers[key] = read_number(
                probe,
                lambda digit: self.picture_for(f"{probe.digits}/{digit}", probe.template_short_side, frame_short_side),
                pixels,
            )
        return self._numbers[key]


def picture_names(probe: Probe) -> Sequence[str]:
    """The pictures that a probe needs."""
    if isinstance(probe, TemplateProbe):
        return (probe.template,)
    if isinstance(probe, DigitsProbe):
        return tuple(f"{probe.digits}/{digit}" for digit in range(10))
    return ()


def compile_probes(probes: Mapping[str, Probe], pictures: Mapping[str, Pixels]) -> Perception:
    """Check that every picture that a probe names is there.

    Raises:
        ValueError: with one line for each missing picture.
    """
    missing = [
        f"probe {name!r} needs the picture {wanted!r}"
        for name, probe in probes.items()
        for wanted in picture_names(probe)
        if wanted not in pictures
    ]
    if missing:
        raise ValueError("\n".join(missing))
    return Perception(dict(probes), dict(pictures))


def perceive(perception: Perception, frame: Frame) -> Percept:
    """Read every fast probe on a frame; what slow probes read is added by `with_slow`."""
    return Percept(
        seq=frame.seq,
        requested_at=frame.requested_at,
        received_at=frame.received_at,
        epoch=frame.epoch,
        width=frame.geometry.width,
        height=frame.geometry.height,
        rotation=frame.geometry.rotation,
        thumbnail=thumbnail_for(frame),
        readings={
            name: read_probe(perception, probe, frame)
            for name, probe in perception.probes.items()
            if isinstance(probe, FastProbe)
        },
    )


def with_slow(percept: Percept, slow: Mapping[str, Reading]) -> Percept:
    """A percept with the latest readings of slow probes."""
    return attrs.evolve(percept, readings={**percept.readings, **slow}) if slow else percept


def slow_readings(perception: Perception, percept: Percept) -> dict[str, Reading]:
    """What slow probes had read in a percept: a replay takes it from the record, as it depends on timing."""
    return {
        name: reading
        for name, reading in percept.readings.items()
        if name in perception.probes and not isinstance(perception.probes[name], FastProbe)
    }


def read_probe(perception: Perception, probe: FastProbe, frame: Frame) -> Reading:
    """Read one fast probe. An empty region (off this screen) reads 0 and never hits."""
    box = box_for(probe.region, frame.width, frame.height)
    if box.width < 1 or box.height < 1:
        return Reading(0.0, hit=False)
    crop = frame.pixels[box.top : box.bottom, box.left : box.right]
    short_side = min(frame.width, frame.height)
    match probe:
        case TemplateProbe():
            picture = perception.picture_for(probe.template, probe.template_short_side, short_side)
            found = match_box(picture, crop, box)
            if found is None:
                return Reading(0.0, hit=False)
            value, matched = found
            return Reading(value, value >= probe.hit_at, _middle(matched, frame))
        case ColorProbe():
            value, where = read_share(crop, probe.color)
            at = _middle(box, frame)
            if where is not None:
                at = ((box.left + where[0]) / frame.width, (box.top + where[1]) / frame.height)
            return Reading(value, value >= probe.hit_at, at)
        case BarProbe():
            value = read_bar(crop, probe.fill, probe.direction)
            return Reading(value, value >= probe.hit_at, _middle(box, frame))
        case DigitsProbe():
            number = perception.number_on(probe, crop, short_side)
            return Reading(np.nan if number is None else number, number is not None, _middle(box, frame))


def _middle(box: Box, frame: Frame) -> tuple[float, float]:
    return ((box.left + box.right) / 2 / frame.width, (box.top + box.bottom) / 2 / frame.height)
