"""Draws what rules see on a frame: regions, readings, matches, and the action of the rule that fires."""

import math
from collections.abc import Mapping

import cv2
import numpy as np

from policies.action import points_of
from policies.frame import Frame, Pixels
from policies.geometry import box_for
from policies.perception import Percept
from policies.probes import Probe, Reading
from policies.reflex import ReflexFire

HIT, MISS, FIRED = (80, 220, 80), (120, 120, 240), (0, 200, 255)  # BGR


def annotated(frame: Frame, probes: Mapping[str, Probe], percept: Percept, fired: ReflexFire | None) -> Pixels:
    """A copy of the frame with all that drawn in; green regions hit, red ones do not, yellow is the action."""
    picture = frame.pixels.copy()
    unit = max(1, round(min(frame.width, frame.height) / 360))
    for name, probe in probes.items():
        reading = percept.readings[name]
        box = box_for(probe.region, frame.width, frame.height)
        color = HIT if reading.hit else MISS
        cv2.rectangle(picture, (box.left, box.top), (box.right - 1, box.bottom - 1), color, unit)
        _write(picture, f"{name} {shown(reading)}", box.left, box.top, color, unit)
        if reading.hit and reading.at is not None:
            at = (int(reading.at[0] * frame.width), int(reading.at[1] * frame.height))
            cv2.drawMarker(picture, at, color, cv2.MARKER_CROSS, 12 * unit, unit)
    if fired is not None:
        points = [
            (x * frame.width // percept.width, y * frame.height // percept.height) for x, y in points_of(fired.action)
        ]
        for point in points:
            cv2.circle(picture, point, 14 * unit, FIRED, 2 * unit)
        if len(points) > 1:
            cv2.arrowedLine(picture, points[0], points[-1], FIRED, 2 * unit)
        _write(picture, f"{fired.rule}: {type(fired.action).__name__}", 0, frame.height - 4 * unit, FIRED, unit)
    return np.asarray(picture, dtype=np.uint8)


def shown(reading: Reading) -> str:
    """A reading in a few characters."""
    value = "nothing" if math.isnan(reading.value) else f"{reading.value:g}"
    return f"{value} {reading.text!r}" if reading.text else value


def _write(picture: Pixels, text: str, x: int, y: int, color: tuple[int, int, int], unit: int) -> None:
    scale = 0.45 * unit
    (width, height), below = cv2.getTextSize(text, cv2.FONT_HERSHEY_SIMPLEX, scale, 1)
    left = max(0, min(x, picture.shape[1] - width))
    bottom = max(height + below, min(y - 2, picture.shape[0] - below))
    cv2.rectangle(picture, (left, bottom - height - 2), (left + width, bottom + below), (20, 20, 20), cv2.FILLED)
    cv2.putText(picture, text, (left, bottom), cv2.FONT_HERSHEY_SIMPLEX, scale, color, max(1, unit // 2), cv2.LINE_AA)
