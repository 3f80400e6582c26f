"""What a probe looks for and what it says: the values that rule files are made of.

Fast probes (template, color, bar, digits) are read by `perception.perceive` on every frame. Slow ones (ocr, detector)
are read beside the steps, and reach a percept with the age that they have.
"""

import math
from enum import StrEnum

import attrs

from policies.geometry import Region


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
    """Where to look; its anchor says which edge the place keeps its distance to on other screens."""
    template: str
    """Name of the picture, given to `compile_probes`."""
    template_short_side: int = attrs.field(default=720, metadata={"min": 1})
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
    template_short_side: int = attrs.field(default=720, metadata={"min": 1})
    match_at: float = 0.8


class OcrReads(StrEnum):
    """What an OCR probe makes of the text that it finds."""

    TEXT = "text"
    """It hits where the pattern is found; the value is the engine's confidence, 0 to 1."""
    NUMBER = "number"
    """The value is the pattern's first group as a number; it hits where there is one."""


@attrs.frozen
class OcrProbe:
    """Which text stands in the region? Read by the extra `ocr`, beside the steps and not on every frame."""

    region: Region
    reads: OcrReads = OcrReads.TEXT
    pattern: str = ""
    """A regular expression that is searched in each line; empty: any text, or the first number."""
    single_line: bool = True
    """The region holds one line: it is read as it is, which is much quicker than to look for lines in it."""
    min_confidence: float = attrs.field(default=0.5, metadata={"min": 0, "max": 1})
    every_seconds: float = attrs.field(default=1.0, metadata={"min": 0.05, "max": 3600})
    """Between the starts of two readings."""
    max_age_seconds: float = attrs.field(default=5.0, metadata={"above": 0})
    """An older reading is no reading any more."""


class DetectorLayout(StrEnum):
    """How a network's output is laid out."""

    YOLO_V5 = "yolo_v5"
    """[1, boxes, 5 + classes]: x, y, width, height, objectness, one score a class."""
    YOLO_V8 = "yolo_v8"
    """[1, 4 + classes, boxes]: x, y, width, height, one score a class."""
    CLASSES = "classes"
    """[1, classes]: one score a class for the whole region."""


class ChannelOrder(StrEnum):
    """The order of colours that a network was trained on."""

    RGB = "rgb"
    BGR = "bgr"


@attrs.frozen
class DetectorProbe:
    """Is there such a thing in the region? An operator's own ONNX network says so, beside the steps."""

    region: Region
    model: str
    """The ONNX file, beside the rule file."""
    classes: tuple[str, ...] = attrs.field(metadata={"nonempty": True})
    """Names of the network's classes, in its order."""
    find: str = ""
    """The class that is looked for; empty: whichever scores best."""
    layout: DetectorLayout = DetectorLayout.YOLO_V8
    input_size: tuple[int, int] = (640, 640)
    """(width, height) that the network takes."""
    keep_aspect: bool = True
    """The region is padded to the network's aspect ratio instead of being stretched to it."""
    scale: float = 1 / 255
    """The network's input is (pixel - mean) * scale, channel by channel."""
    mean: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """In the order of `channels`."""
    channels: ChannelOrder = ChannelOrder.RGB
    softmax: bool = False
    """The scores of `classes` are logits."""
    hit_at: float = 0.5
    every_seconds: float = attrs.field(default=0.5, metadata={"min": 0.05, "max": 3600})
    """Between the starts of two readings."""
    max_age_seconds: float = attrs.field(default=2.0, metadata={"above": 0})
    """An older reading is no reading any more."""


FastProbe = TemplateProbe | ColorProbe | BarProbe | DigitsProbe
SlowProbe = OcrProbe | DetectorProbe
Probe = TemplateProbe | ColorProbe | BarProbe | DigitsProbe | OcrProbe | DetectorProbe


def _rounded(value: float) -> float:
    return math.nan if math.isnan(value) else round(float(value), 6)


def _rounded_point(at: tuple[float, float] | None) -> tuple[float, float] | None:
    return None if at is None else (_rounded(at[0]), _rounded(at[1]))


@attrs.frozen(eq=False)
class Reading:
    """What one probe says of one frame. Values are rounded so that a recorded reading equals the one it was."""

    value: float = attrs.field(converter=_rounded)
    """nan where a number was looked for and none was seen."""
    hit: bool = attrs.field(converter=bool)
    """The value reaches the probe's `hit_at`; for numbers: one was seen; for texts: the pattern was found."""
    at: tuple[float, float] | None = attrs.field(default=None, converter=_rounded_point)
    """Middle of the match, coloured pixels, text, box or else of the region, as shares of the screen's size."""
    text: str | None = None
    """What OCR read, or the class that a detector found."""
    age_seconds: float = attrs.field(default=0.0, converter=_rounded)
    """How much older than the percept's frame the frame is that this was read on; 0 for fast probes."""

    def __eq__(self, other: object) -> bool:
        """Two readings without a number are equal, though nan is not."""
        if not isinstance(other, Reading):
            return NotImplemented
        return self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[object, ...]:
        value = None if math.isnan(self.value) else self.value
        return (value, self.hit, self.at, self.text, self.age_seconds)
