"""What a person is making on the authoring page: checked, and turned into a probe, a picture and TOML."""

import re
from enum import StrEnum
from typing import Any

import attrs

from actors.configuration import structured
from policies.frame import Frame, Pixels
from policies.geometry import Anchor, Box, Region
from policies.probes import (
    BarProbe,
    ColorProbe,
    DigitsProbe,
    Direction,
    HsvRange,
    OcrProbe,
    OcrReads,
    Probe,
    TemplateProbe,
)
from policies.reflex import Condition, ReflexAction, Rule

NAME = r"[A-Za-z0-9_][A-Za-z0-9_-]{0,39}"
SMALLEST = 4  # pixels: a mark below this is a slip of the hand
SEARCH_SHARE = 0.5  # of a template's size: how far round its place it is looked for, unless said otherwise
SEARCH_PIXELS = 16  # at least, on a 720-pixel screen


class DraftKind(StrEnum):
    """What is made of a marked rectangle."""

    TEMPLATE = "template"
    COLOR = "color"
    BAR = "bar"
    DIGITS = "digits"
    OCR = "ocr"
    TAP = "tap"
    """A rule that taps the rectangle when another probe hits."""


class AuthoringError(Exception):
    """A person's request that cannot be done; `field` is the form's field it is about, if one is."""

    def __init__(self, message: str, *, field: str = "", status: int = 400) -> None:
        super().__init__(message)
        self.field = field
        self.status = status


@attrs.frozen
class Draft:
    """The form."""

    kind: DraftKind
    name: str
    frame: int = attrs.field(metadata={"min": 0})
    """The frame that is shown."""
    marked_on: int = attrs.field(metadata={"min": 0})
    """The frame that the rectangle was marked on."""
    box: tuple[int, int, int, int]
    """Left, top, right, bottom in pixels of that frame."""
    anchor: Anchor = Anchor.STRETCH
    search: tuple[int, int, int, int] | None = None
    """Where a template is looked for; None: round its place."""
    hit_at: float | None = None
    low: tuple[int, int, int] = (0, 0, 0)
    high: tuple[int, int, int] = (179, 255, 255)
    direction: Direction = Direction.RIGHT
    text: str = ""
    """The number that the rectangle shows (digits), or a pattern (ocr)."""
    reads: OcrReads = OcrReads.TEXT
    when: str = ""
    """The probe that a tap waits for."""
    taps: bool = False
    """Add a rule that taps where the probe matches."""


def parse_draft(data: Any) -> Draft:
    """A form as the page sends it.

    Raises:
        AuthoringError: with every mistake.
    """
    if not isinstance(data, dict):
        raise AuthoringError("the form must be a JSON object")
    draft, problems = structured(data, Draft, at="form")
    if draft is None:
        field = re.match(r"form\.([a-z_]+)", problems[0].path)
        raise AuthoringError("; ".join(p.message for p in problems), field=field.group(1) if field else "")
    return draft


def check_name(draft: Draft) -> None:
    """Raises `AuthoringError` where the name cannot be a probe's, rule's or file's."""
    if not re.fullmatch(NAME, draft.name):
        raise AuthoringError("give a name of letters, digits, dash and underscore, up to 40", field="name")


def region_for(box: tuple[int, int, int, int], anchor: Anchor, frame: Frame) -> Region:
    """A marked rectangle as a region, with the frame it was marked on as its reference.

    Raises:
        AuthoringError: too small, or not on the frame.
    """
    inside = Box(*box).clipped(frame.width, frame.height)
    if inside.width < SMALLEST or inside.height < SMALLEST:
        raise AuthoringError(f"mark a rectangle of at least {SMALLEST}x{SMALLEST} pixels on the screen", field="box")
    reference = (frame.width, frame.height)
    return Region(inside.left, inside.top, inside.width, inside.height, anchor, reference)


def crop_of(frame: Frame, box: tuple[int, int, int, int]) -> Pixels:
    """The marked pixels."""
    inside = Box(*box).clipped(frame.width, frame.height)
    return frame.pixels[inside.top : inside.bottom, inside.left : inside.right]


def search_box(box: tuple[int, int, int, int], frame: Frame) -> tuple[int, int, int, int]:
    """Where a template is looked for by default: its place and what is round it."""
    left, top, right, bottom = box
    least = SEARCH_PIXELS * min(frame.width, frame.height) // 720
    across = max(least, round((right - left) * SEARCH_SHARE))
    down = max(least, round((bottom - top) * SEARCH_SHARE))
    grown = Box(left - across, top - down, right + across, bottom + down).clipped(frame.width, frame.height)
    return (grown.left, grown.top, grown.right, grown.bottom)


def probe_for(draft: Draft, frame: Frame) -> Probe:
    """The probe that a draft describes; its pictures are named by the draft's name.

    Args:
        draft: Of any kind but `tap`.
        frame: The one that the rectangle was marked on.

    Raises:
        AuthoringError: something is missing or cannot be.
    """
    region = region_for(draft.box, draft.anchor, frame)
    short_side = min(frame.width, frame.height)
    match draft.kind:
        case DraftKind.TEMPLATE:
            searched = region_for(draft.search or search_box(draft.box, frame), draft.anchor, frame)
            if searched.width < region.width or searched.height < region.height:
                raise AuthoringError("the search area is smaller than the template", field="search")
            crop = crop_of(frame, draft.box)
            if int(crop.reshape(-1, 3).std(axis=0).max()) < 3:
                raise AuthoringError("the rectangle has one colour only: nothing to recognise it by", field="box")
            return TemplateProbe(searched, draft.name, short_side, 0.9 if draft.hit_at is None else draft.hit_at)
        case DraftKind.COLOR:
            return ColorProbe(region, _range(draft), 0.5 if draft.hit_at is None else draft.hit_at)
        case DraftKind.BAR:
            return BarProbe(region, _range(draft), draft.direction, 0.5 if draft.hit_at is None else draft.hit_at)
        case DraftKind.DIGITS:
            return DigitsProbe(region, draft.name, short_side, 0.85 if draft.hit_at is None else draft.hit_at)
        case DraftKind.OCR:
            try:
                re.compile(draft.text)
            except re.error as error:
                raise AuthoringError(f"the pattern is no regular expression: {error}", field="text") from error
            return OcrProbe(region, draft.reads, draft.text)
        case DraftKind.TAP:
            raise AuthoringError("a tap is a rule: it has nothing to test", field="kind")


def rule_for(draft: Draft, frame: Frame) -> Rule | None:
    """The rule that comes with a draft; None where none was asked for.

    Raises:
        AuthoringError: a tap without a probe that it waits for.
    """
    if draft.kind is DraftKind.TAP:
        if not draft.when:
            raise AuthoringError("choose the probe that the tap waits for", field="when")
        action = ReflexAction(tap=region_for(draft.box, draft.anchor, frame))
        return Rule(draft.name, (Condition(draft.when),), action)
    if not draft.taps:
        return None
    if draft.kind is DraftKind.BAR or draft.kind is DraftKind.DIGITS:
        raise AuthoringError("a bar or a number has no place to tap: add a tap of its own", field="taps")
    return Rule(f"tap {draft.name}", (Condition(draft.name),), ReflexAction(tap_match=draft.name))


def _range(draft: Draft) -> HsvRange:
    for name, (hue, saturation, value) in (("low", draft.low), ("high", draft.high)):
        if not (0 <= hue <= 179 and 0 <= saturation <= 255 and 0 <= value <= 255):
            raise AuthoringError("hue goes from 0 to 179, saturation and value from 0 to 255", field=name)
    return HsvRange(draft.low, draft.high)
