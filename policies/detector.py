"""Prepares a detector's input and reads its output; the network between the two is handed in by the caller."""

import attrs
import cv2
import numpy as np
import numpy.typing as npt

from policies.frame import Pixels
from policies.geometry import Box
from policies.probes import ChannelOrder, DetectorLayout, DetectorProbe, Reading

PADDING = (114, 114, 114)  # the grey that YOLO's own letterbox uses


class DetectorMismatch(ValueError):
    """The network's output does not have the shape that the probe declares."""


@attrs.frozen
class DetectorInput:
    """What a network is given, and how its coordinates lie in the crop."""

    blob: npt.NDArray[np.float32]
    """[1, 3, height, width]"""
    scale_x: float
    """Input pixels per crop pixel."""
    scale_y: float
    pad_x: float
    """Input pixels left of the crop."""
    pad_y: float


def detector_input(probe: DetectorProbe, crop: Pixels) -> DetectorInput:
    """A crop as the network takes it."""
    width, height = probe.input_size
    rows, columns = crop.shape[:2]
    scale_x, scale_y = width / columns, height / rows
    if probe.keep_aspect:
        scale_x = scale_y = min(scale_x, scale_y)
    inner = (max(1, round(columns * scale_x)), max(1, round(rows * scale_y)))
    small = cv2.resize(np.ascontiguousarray(crop), inner, interpolation=cv2.INTER_LINEAR)
    left, top = (width - inner[0]) // 2, (height - inner[1]) // 2
    canvas = np.empty((height, width, 3), np.uint8)
    canvas[:] = PADDING
    canvas[top : top + inner[1], left : left + inner[0]] = small
    if probe.channels is ChannelOrder.RGB:
        canvas = canvas[:, :, ::-1]
    values = (canvas.astype(np.float32) - np.array(probe.mean, np.float32)) * np.float32(probe.scale)
    blob = np.ascontiguousarray(values.transpose(2, 0, 1)[None])
    return DetectorInput(blob, scale_x, scale_y, float(left), float(top))


def read_detector(
    probe: DetectorProbe, output: npt.NDArray[np.float32], given: DetectorInput, box: Box, size: tuple[int, int]
) -> Reading:
    """The best score of the class that is looked for, and the middle of its box.

    Args:
        probe: What is looked for.
        output: The network's first output.
        given: What it was given.
        box: The region on the frame.
        size: (width, height) of the frame.

    Raises:
        DetectorMismatch: the output has another shape than the layout and the class names say.
    """
    if probe.layout is DetectorLayout.CLASSES:
        scores = output.reshape(-1).astype(np.float64)
        if scores.size != len(probe.classes):
            raise DetectorMismatch(f"the network gives {scores.size} scores, 'classes' names {len(probe.classes)}")
        if probe.softmax:
            powers = np.exp(scores - scores.max())
            scores = powers / powers.sum()
        best = probe.classes.index(probe.find) if probe.find else int(scores.argmax())
        x, y = box.center
        value = float(scores[best])
        return Reading(value, value >= probe.hit_at, (x / size[0], y / size[1]), probe.classes[best])
    boxes, class_scores = _boxes(probe, output)
    if not len(boxes):
        return Reading(0.0, hit=False)
    column = probe.classes.index(probe.find) if probe.find else None
    by_box = class_scores.max(axis=1) if column is None else class_scores[:, column]
    row = int(by_box.argmax())
    value = float(by_box[row])
    name = probe.classes[int(class_scores[row].argmax()) if column is None else column]
    if value < probe.hit_at:
        return Reading(value, hit=False, text=name)
    across = box.left + (float(boxes[row, 0]) - given.pad_x) / given.scale_x
    down = box.top + (float(boxes[row, 1]) - given.pad_y) / given.scale_y
    # a box may reach beyond the region; a tap must not
    at_x, at_y = min(max(across, box.left), box.right - 1), min(max(down, box.top), box.bottom - 1)
    return Reading(value, hit=True, at=(at_x / size[0], at_y / size[1]), text=name)


def detector_problems(probe: DetectorProbe) -> list[tuple[str, str]]:
    """(key, what is wrong with it) of what no single key shows; empty when it is right."""
    found = []
    if probe.find and probe.find not in probe.classes:
        found.append(("find", f"class {probe.find!r} is not among 'classes'"))
    if min(probe.input_size) < 1:
        found.append(("input_size", f"'input_size' must be two numbers from 1 up: {list(probe.input_size)}"))
    if len(set(probe.classes)) < len(probe.classes):
        found.append(("classes", "a class stands twice"))
    return found


def _boxes(
    probe: DetectorProbe, output: npt.NDArray[np.float32]
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """([boxes, 4] x, y, width, height in input pixels; [boxes, classes] scores)."""
    head = 5 if probe.layout is DetectorLayout.YOLO_V5 else 4
    wanted = head + len(probe.classes)
    rows = output.reshape(output.shape[-2], output.shape[-1]) if output.ndim >= 2 else output.reshape(1, -1)
    if probe.layout is DetectorLayout.YOLO_V8:
        rows = rows.T
    if rows.shape[1] != wanted:
        raise DetectorMismatch(
            f"the network's output is {list(output.shape)}; {probe.layout.value} with {len(probe.classes)} classes "
            f"has {wanted} values a box"
        )
    scores = rows[:, head:]
    return rows[:, :4], scores * rows[:, 4:5] if head == 5 else scores
