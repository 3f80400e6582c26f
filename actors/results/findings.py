"""What went wrong in runs, grouped: the same crash, stuck screen or dead button of many episodes is one finding.

A signature is made of what stays the same when it happens again: the exception and the first frames of its stack; or
the screen by its perceptual hash and the last action.
"""

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs

from actors.results.finding_words import FindingKind
from actors.results.record import RecordedStep
from actors.results.replay import read_header, recorded_steps
from actors.results.screens import Screens, screen_hash
from policies.thumbnail import Thumbnail

STACK_FRAMES = 3  # deeper ones differ by how the app came there
CELL = 90  # pixels of a 720-wide screen: taps on one button fall into one or two cells
_FRAME = re.compile(r"\bat ([\w.$<>]+)\(|#\d+ pc \w+ +(\S+)(?: \((\S+?)(?:\+\d+)?\))?")
_ON_SCREEN = re.compile(r" has no effect on screen ([0-9a-f]{16})$")
_VOLATILE = re.compile(r"0x[0-9a-fA-F]+|@[0-9a-f]{4,}|\b\d+(\.\d+)?\b|'[^']{0,80}'|\"[^\"]{0,80}\"")


@attrs.frozen
class Sighting:
    """Something that went wrong once."""

    kind: FindingKind
    app: str
    title: str
    """One line, of what stays the same."""
    key: str
    """What the signature is made of, besides kind and app."""
    run: str
    episode: str
    phone: str
    step: int | None = None
    """The step of the record, where it is of one."""
    excerpt: str = ""

    @property
    def signature(self) -> str:
        """Twelve hex digits, equal for the same thing."""
        text = f"{self.kind}\n{self.app}\n{self.key}"
        return hashlib.sha256(text.encode(errors="replace")).hexdigest()[:12]


@attrs.frozen
class _Place:
    run: str
    episode: str
    phone: str

    def sighting(
        self, kind: FindingKind, app: str, title: str, key: str, *, step: int | None = None, excerpt: str = ""
    ) -> Sighting:
        return Sighting(kind, app, title, key, self.run, self.episode, self.phone, step, excerpt)


def screen_in(title: str) -> str:
    """The screen that a finding with such a title was seen on, as 16 hex digits; empty where it names none."""
    found = _ON_SCREEN.search(title)
    return "" if found is None else found[1]


def stack_key(cause: str, excerpt: str) -> str:
    """The exception and its first frames, without numbers, addresses and quoted texts."""
    frames = [java or f"{library}:{symbol}" for java, library, symbol in _FRAME.findall(excerpt)][:STACK_FRAMES]
    return "\n".join([_VOLATILE.sub("_", cause).strip()[:200], *frames])


def sightings_in(run: Path, screens: Screens) -> Iterator[Sighting]:
    """Everything that went wrong in a run, episode by episode. Episodes without a summary have not ended.

    Args:
        run: The run folder.
        screens: Where actions had no effect in runs so far; is added to, so that a screen has one name in all of them.

    Raises:
        RecordUnreadable: a record is broken in its middle.
    """
    for folder in sorted((run / "episodes").glob("*/")):
        summary = _read(folder / "episode.json")
        if summary is None:
            continue
        place = _Place(run.name, str(summary.get("episode", folder.name)), str(summary["phone"]))
        app = str(summary.get("app", ""))
        for fault in summary.get("faults", ()):
            kind, cause = FindingKind(fault["kind"]), str(fault.get("cause", ""))
            excerpt = str(fault.get("excerpt", ""))
            yield place.sighting(kind, app, cause[:160] or kind, stack_key(cause, excerpt), excerpt=excerpt)
        for verdict, count in summary.get("bad_frames", {}).items():
            title = f"{verdict} pictures"
            yield place.sighting(FindingKind.BLACK, app, title, str(verdict), excerpt=f"{count} of them")
        if summary.get("outcome") == "failed":
            reason = str(summary.get("reason", ""))
            key = _VOLATILE.sub("_", reason)
            yield place.sighting(FindingKind.MISSED, app, reason[:160], key)
        if (folder / "steps.jsonl").is_file():
            yield from _in_record(folder, app, place, screens)


def _in_record(folder: Path, app: str, place: _Place, screens: Screens) -> Iterator[Sighting]:
    thumbnail, action = None, ""
    for step in recorded_steps(folder):
        percept = step.given.percept
        if percept is not None and percept.thumbnail is not None:
            thumbnail = percept.thumbnail
        for note in step.output.get("notes", ()):
            if note["event"] != "policies.action.had_no_effect":
                continue
            screen = 0 if thumbnail is None else _placed(screen_hash(thumbnail), screens)
            is_end = note["fields"].get("then") == "fail"
            kind = FindingKind.STUCK if is_end else FindingKind.NO_EFFECT
            title = f"{action or 'an action'} has no effect on screen {screen:016x}"
            key = f"{screen:016x}\n{action}"
            yield place.sighting(kind, app, title, key, step=step.given.step)
        action = action_of(step) or action


def _placed(seen: int, screens: Screens) -> int:
    known = screens.place(seen)
    return seen if known is None else known


def action_of(step: RecordedStep) -> str:
    """The action of a step in coarse words: `tap 4,10` in cells of a 720-wide screen; empty where nothing was done."""
    command = step.output.get("command")
    if not isinstance(command, dict):
        return ""
    action = command.get("action", {})
    word = str(action.get("type", "")).lower()
    width = step.given.percept.width if step.given.percept is not None else 720
    scale = 720 / max(1, width)
    if "x" in action and "y" in action:
        return f"{word} {int(action['x'] * scale) // CELL},{int(action['y'] * scale) // CELL}"
    return word


def screens_in(run: Path, app: str = "") -> Iterator[Iterator[tuple[Thumbnail | None, str]]]:
    """For `coverage_of`: the recorded steps of every episode of a run, of one app or of all."""
    for folder in sorted((run / "episodes").glob("*/")):
        if (folder / "steps.jsonl").is_file() and app in ("", read_header(folder).app):
            yield _screens_of(folder)


def _screens_of(folder: Path) -> Iterator[tuple[Thumbnail | None, str]]:
    for step in recorded_steps(folder):
        percept = step.given.percept
        yield (percept.thumbnail if percept is not None else None), action_of(step).partition(" ")[0]


def _read(path: Path) -> Any:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None  # an episode that a kill cut short has none, or half of one
    return found if isinstance(found, dict) and "phone" in found else None
