"""What the authoring page can do: test a draft on a frame, pick colours, cut digits, and write the rule file."""

import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import attrs
import cv2
import numpy as np
import trio

from actors import ocr_engine
from actors.assets import load_picture, load_rules
from actors.authoring.draft import (
    AuthoringError,
    Draft,
    DraftKind,
    check_name,
    crop_of,
    probe_for,
    region_for,
    rule_for,
)
from actors.authoring.snippets import grown, probe_toml, rule_toml
from actors.authoring.sources import FrameSource
from actors.configuration import ScenarioError
from actors.recorder import write_whole
from actors.rulefile import RuleFile
from policies.colors import color_mask, hsv_range_of
from policies.digit_cut import DigitsNotCut, cut_digits
from policies.frame import Frame, Pixels
from policies.geometry import Box, box_for
from policies.perception import compile_probes, read_probe
from policies.probes import FastProbe, HsvRange, OcrProbe, Probe, Reading, TemplateProbe
from policies.templates import match_box

MASK_COLOR = (255, 0, 255, 150)  # BGRA: magenta, which no game's interface is made of, half through
TEN = range(10)


@attrs.frozen
class Tested:
    """What a draft's probe reads on the shown frame; boxes in its pixels."""

    reading: Reading
    region: Box
    matched: Box | None
    """Of a template: where it fits best, whether or not it hits."""
    milliseconds: float


@attrs.frozen
class Saved:
    """What was written."""

    toml: str
    """Empty where only digits were kept and more are needed."""
    files: tuple[str, ...]
    missing_digits: tuple[int, ...] = ()


class Desk:
    """One authoring session.

    Args:
        source: The frames.
        file: The rule file that grows; None shows TOML only.
    """

    def __init__(self, source: FrameSource, file: Path | None) -> None:
        self.source = source
        self.file = file
        self._digits: dict[str, dict[int, Pixels]] = {}  # digits probe → what was cut for it
        self._saving = trio.Lock()

    def probes(self) -> list[str]:
        """Names of the probes in the rule file. Raises `AuthoringError` where the file is wrong."""
        return list(self._rules().probes)

    def _rules(self) -> RuleFile:
        if self.file is None or not self.file.exists():
            return RuleFile()
        try:
            return load_rules(self.file)[0]
        except ScenarioError as error:
            raise AuthoringError(f"the rule file has mistakes: {error}", status=409) from error

    async def picture(self, number: int) -> bytes:
        """A frame as PNG."""
        frame = await self.source.frame(number)
        return await trio.to_thread.run_sync(_png, frame.pixels)

    async def pick(self, draft: Draft) -> HsvRange:
        """The colours of the marked pixels."""
        frame = await self.source.frame(draft.marked_on)
        region_for(draft.box, draft.anchor, frame)
        return hsv_range_of(crop_of(frame, draft.box))

    async def mask(self, draft: Draft) -> tuple[bytes, Box]:
        """(PNG with the pixels in range painted, where it lies on the shown frame)."""
        marked, shown = await self.source.frame(draft.marked_on), await self.source.frame(draft.frame)
        box = box_for(region_for(draft.box, draft.anchor, marked), shown.width, shown.height)
        if box.width < 1 or box.height < 1:
            raise AuthoringError("the region is not on this frame", field="frame")
        probe_for(attrs.evolve(draft, kind=DraftKind.COLOR), marked)
        crop = shown.pixels[box.top : box.bottom, box.left : box.right]
        painted = np.zeros((box.height, box.width, 4), np.uint8)
        painted[color_mask(crop, HsvRange(draft.low, draft.high))] = MASK_COLOR
        return await trio.to_thread.run_sync(_png, painted), box

    async def test(self, draft: Draft) -> Tested:
        """Read the draft's probe on the shown frame."""
        marked, shown = await self.source.frame(draft.marked_on), await self.source.frame(draft.frame)
        if draft.kind is DraftKind.DIGITS and draft.text:
            self._cut(draft, marked)
        probe = probe_for(draft, marked)
        return await trio.to_thread.run_sync(partial(self._test, draft, probe, marked, shown))

    def _test(self, draft: Draft, probe: Probe, marked: Frame, shown: Frame) -> Tested:
        region = box_for(probe.region, shown.width, shown.height)
        started = time.perf_counter()
        if isinstance(probe, OcrProbe):
            try:
                reading = ocr_engine.OcrReader(probe, ocr_engine.SHARED).read(shown)
            except ocr_engine.OcrMissing as error:
                raise AuthoringError(f"reading text needs more: {error}", field="kind", status=409) from error
            return Tested(reading, region, None, _milliseconds(started))
        pictures = self._pictures(draft, marked)
        try:
            perception = compile_probes({draft.name: probe}, pictures)
        except ValueError as error:
            raise AuthoringError(_digits_message(pictures), field="text", status=409) from error
        assert isinstance(probe, FastProbe), "the page makes no detectors"
        reading = read_probe(perception, probe, shown)
        took = _milliseconds(started)
        matched = None
        if isinstance(probe, TemplateProbe):
            short_side = min(shown.width, shown.height)
            picture = perception.picture_for(probe.template, probe.template_short_side, short_side)
            found = match_box(picture, shown.pixels[region.top : region.bottom, region.left : region.right], region)
            matched = found[1] if found else None
        return Tested(reading, region, matched, took)

    def _pictures(self, draft: Draft, marked: Frame) -> dict[str, Pixels]:
        match draft.kind:
            case DraftKind.TEMPLATE:
                return {draft.name: crop_of(marked, draft.box).copy()}
            case DraftKind.DIGITS:
                return {f"{draft.name}/{digit}": pixels for digit, pixels in self._digits_of(draft.name).items()}
            case _:
                return {}

    def _digits_of(self, name: str) -> dict[int, Pixels]:
        """Digits that were cut in this session or stand beside the rule file."""
        known: dict[int, Pixels] = {}
        folder = self._folder()
        if folder is not None:
            for digit in TEN:
                path = folder / name / f"{digit}.png"
                if path.exists():
                    known[digit] = load_picture(path)
        return known | self._digits.get(name, {})

    def _cut(self, draft: Draft, marked: Frame) -> None:
        check_name(draft)
        try:
            cuts = cut_digits(crop_of(marked, draft.box), draft.text)
        except DigitsNotCut as error:
            raise AuthoringError(str(error), field="text") from error
        self._digits.setdefault(draft.name, {}).update({cut.digit: cut.pixels for cut in cuts})

    async def toml(self, draft: Draft) -> str:
        """The draft as TOML."""
        check_name(draft)
        marked = await self.source.frame(draft.marked_on)
        parts = [] if draft.kind is DraftKind.TAP else [probe_toml(draft.name, probe_for(draft, marked))]
        rule = rule_for(draft, marked)
        if rule is not None:
            parts.append(rule_toml(rule))
        return "\n".join(parts)

    async def save(self, draft: Draft) -> Saved:
        """Append the draft to the rule file, its pictures beside it. All that stands in the file stays."""
        if self.file is None:
            raise AuthoringError("no rule file was named: start with --file RULES.toml, or copy the TOML", status=409)
        addition = await self.toml(draft)
        marked = await self.source.frame(draft.marked_on)
        if draft.kind is DraftKind.DIGITS and draft.text:
            self._cut(draft, marked)
        async with self._saving:
            return await trio.to_thread.run_sync(partial(self._save, self.file, draft, addition, marked))

    def _save(self, file: Path, draft: Draft, addition: str, marked: Frame) -> Saved:
        pictures = self._pictures(draft, marked)
        try:
            self._refuse_doubled(draft)
            source = file.read_text(encoding="utf-8") if file.exists() else ""
            missing: tuple[int, ...] = ()
            if draft.kind is DraftKind.DIGITS:
                missing = tuple(digit for digit in TEN if f"{draft.name}/{digit}" not in pictures)
            text = "" if missing else grown(source, addition, str(file))
            written = [self._write_picture(name, picture) for name, picture in pictures.items()]
            if text:
                write_whole(file, text.encode())
                written.append(str(file))
        except ScenarioError as error:
            raise AuthoringError(f"not saved: {error}", status=409) from error
        except UnicodeDecodeError as error:
            raise AuthoringError(f"not saved: {file} is not UTF-8", status=409) from error
        except OSError as error:
            message = f"not saved: {error.filename or file}: {error.strerror or error}"
            raise AuthoringError(message, status=507) from error
        return Saved("" if missing else addition, tuple(written), missing)

    def _refuse_doubled(self, draft: Draft) -> None:
        rules = self._rules()
        if draft.kind is DraftKind.TAP:
            if draft.name in {rule.name for rule in rules.rules}:
                raise AuthoringError(f"there is a rule {draft.name!r} already", field="name", status=409)
        elif draft.name in rules.probes:
            raise AuthoringError(f"there is a probe {draft.name!r} already", field="name", status=409)

    def _folder(self) -> Path | None:
        return None if self.file is None else self.file.parent / self._rules().pictures

    def _write_picture(self, name: str, picture: Pixels) -> str:
        folder = self._folder()
        assert folder is not None
        path = folder / f"{name}.png"
        write_whole(path, _png(picture))
        return str(path)


def _digits_message(pictures: Mapping[str, Pixels]) -> str:
    have = {name.rsplit("/", 1)[-1] for name in pictures}
    missing = ", ".join(str(digit) for digit in TEN if str(digit) not in have)
    return f"cut more digits first: {missing} are missing. Mark a number that shows them and say what it is"


def _png(pixels: Pixels) -> bytes:
    ok, encoded = cv2.imencode(".png", pixels, [cv2.IMWRITE_PNG_COMPRESSION, 1])
    assert ok, "a frame is never empty"
    return np.asarray(encoded).tobytes()


def _milliseconds(started: float) -> float:
    return round((time.perf_counter() - started) * 1000, 2)
