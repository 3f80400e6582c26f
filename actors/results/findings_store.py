"""Findings over all runs, in one file: when each was seen, how often, and what people say of it.

A run may be scanned again: what it said before is replaced. The file is written whole and renamed into place.
"""

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any

import attrs

from actors.configuration import Problem, ScenarioError, structured
from actors.results.finding_words import FindingKind, FindingState
from actors.results.findings import Sighting, screen_in
from actors.results.record import RecordUnreadable
from actors.results.screens import MAX_SCREENS, Screens, hash_of

VERSION = 1
MAX_EXAMPLES = 5
FILE = "findings.json"
_NEVER = (False, "")


class FindingsUnreadable(Exception):
    """The file of findings cannot be used. The text says why."""


@attrs.frozen
class Example:
    """One sighting to look at."""

    run: str
    episode: str
    phone: str
    step: int | None = None
    excerpt: str = ""


@attrs.frozen
class Finding:
    """One thing that goes wrong."""

    signature: str
    kind: FindingKind
    app: str
    title: str
    state: FindingState = FindingState.NEW
    regressed: bool = False
    """It was seen again in a run that began after somebody called it fixed."""
    counts: Mapping[str, int] = attrs.field(factory=dict)
    """Run → sightings."""
    examples: tuple[Example, ...] = ()
    note: str = ""
    """What people say of it besides."""

    @property
    def count(self) -> int:
        """Sightings in all."""
        return sum(self.counts.values())

    @property
    def first_run(self) -> str:
        """Run ids begin with their time."""
        return min(self.counts)

    @property
    def last_run(self) -> str:
        """The latest run that has it."""
        return max(self.counts)


@attrs.frozen
class ScannedRun:
    """A run that was scanned, whether anything was found in it or not."""

    scenario: str
    seed: int
    apps: tuple[str, ...] = ()


@attrs.frozen
class Findings:
    """The whole file."""

    version: int = VERSION
    runs: Mapping[str, ScannedRun] = attrs.field(factory=dict)
    findings: Mapping[str, Finding] = attrs.field(factory=dict)
    """By signature."""
    screens: tuple[str, ...] = ()
    """Hashes of the screens that were told apart, as 16 hex digits; at most `MAX_SCREENS`."""
    forgotten_screens: int = 0
    """How often one had to go. Where a button is dead on such a screen again, that may be another finding."""

    def with_run(self, run: str, scanned: ScannedRun, sightings: Iterable[Sighting]) -> "Findings":
        """With what a run says, instead of what it said before."""
        by_signature: dict[str, list[Sighting]] = {}
        for one in sightings:
            by_signature.setdefault(one.signature, []).append(one)
        kept = {}
        for signature, old in self.findings.items():
            counts = {name: count for name, count in old.counts.items() if name != run}
            examples = tuple(one for one in old.examples if one.run != run)
            if counts or signature in by_signature or old.state is not FindingState.NEW:
                kept[signature] = attrs.evolve(old, counts=counts, examples=examples)
        for signature, seen in by_signature.items():
            kept[signature] = _with_sightings(kept.get(signature), run, seen, is_known_run=run in self.runs)
        return attrs.evolve(self, runs={**self.runs, run: scanned}, findings=kept)

    def known_screens(self) -> Screens:
        """The screens that were told apart so far, with room for those of a run."""
        return screens_of(self.screens)

    def with_screens(self, known: Sequence[str]) -> "Findings":
        """With the screens that are told apart by now.

        Beyond `MAX_SCREENS` those stay that findings are about which people have judged, then those of the findings
        that were seen last: a finding has its signature by the name of its screen.
        """
        last: dict[str, tuple[bool, str]] = {}  # {screen: (somebody judged it, the latest run)}
        for one in self.findings.values():
            screen = screen_in(one.title)
            judged = one.state is not FindingState.NEW or bool(one.note)
            last[screen] = max(last.get(screen, _NEVER), (judged, max(one.counts, default="")))
        by_worth = sorted(range(len(known)), key=lambda place: (last.get(known[place], _NEVER), place), reverse=True)
        kept = tuple(known[place] for place in sorted(by_worth[:MAX_SCREENS]))
        return attrs.evolve(self, screens=kept, forgotten_screens=self.forgotten_screens + len(known) - len(kept))

    def marked(self, signature: str, state: FindingState, note: str | None = None) -> "Findings":
        """With a finding in another state, and with a note unless that is None. Raises KeyError where there is none."""
        old = self.findings[signature]
        changed = attrs.evolve(old, state=state, regressed=False, note=old.note if note is None else note)
        return attrs.evolve(self, findings={**self.findings, signature: changed})

    def is_flaky(self, finding: Finding) -> bool:
        """Seen in one run of a scenario and seed, and not in another one of the same."""
        seen = {(self.runs[run].scenario, self.runs[run].seed) for run in finding.counts if run in self.runs}
        return any(
            run not in finding.counts and (one.scenario, one.seed) in seen and finding.app in one.apps
            for run, one in self.runs.items()
        )

    def found(self, signature: str) -> Finding | None:
        """By the whole signature, or by a beginning of it that only one has."""
        hits = [one for key, one in self.findings.items() if key.startswith(signature)]
        return hits[0] if len(hits) == 1 else self.findings.get(signature)


def _with_sightings(old: Finding | None, run: str, seen: list[Sighting], *, is_known_run: bool) -> Finding:
    first = seen[0]
    fresh = tuple(Example(one.run, one.episode, one.phone, one.step, one.excerpt[:2000]) for one in seen)
    if old is None:
        return Finding(
            first.signature, first.kind, first.app, first.title, counts={run: len(seen)}, examples=fresh[:MAX_EXAMPLES]
        )
    is_back = old.state is FindingState.FIXED and not is_known_run
    return attrs.evolve(
        old,
        state=FindingState.NEW if is_back else old.state,
        regressed=old.regressed or is_back,
        counts={**old.counts, run: len(seen)},
        examples=(*fresh, *old.examples)[:MAX_EXAMPLES],
    )


def screens_of(known: Iterable[str]) -> Screens:
    """Screens of a file, and room for as many that a run adds."""
    return Screens([hash_of(text) for text in known], most=2 * MAX_SCREENS)


def scanned_run(run: Path) -> ScannedRun:
    """What the file of findings keeps of a run folder.

    Raises:
        RecordUnreadable: it is no run folder.
    """
    try:
        data = json.loads((run / "run.json").read_text(encoding="utf-8"))
        return ScannedRun(str(data["scenario"]), int(data["seed"]), tuple(data.get("goals", {})))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RecordUnreadable(
            f"{run}: run.json cannot be read: is it a run folder? ({type(error).__name__})"
        ) from error


def load_findings(path: Path) -> Findings:
    """Read the file; empty where there is none.

    Raises:
        FindingsUnreadable: it is not one of ours.
    """
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        return Findings()
    except OSError as error:
        raise FindingsUnreadable(f"{path} cannot be read: {error.strerror}") from error
    return parse_findings(text, str(path))


def parse_findings(text: bytes, name: str) -> Findings:
    """What a file holds.

    Raises:
        FindingsUnreadable: it is not one of ours; the text has its name.
    """
    try:
        data: Any = json.loads(text)
        found, problems = structured(data if isinstance(data, dict) else {"": 0}, Findings, file=name)
    except (ValueError, RecursionError) as error:
        raise FindingsUnreadable(f"{name} is no file of findings: {error}") from error
    if found is None:
        raise FindingsUnreadable(str(ScenarioError(problems[:1] or [Problem("it is empty", "$", name)])))
    if found.version != VERSION:
        raise FindingsUnreadable(f"{name} is of version {found.version}; this program reads {VERSION}")
    return found


def save_findings(path: Path, findings: Findings) -> None:
    """Write the file whole. Raises OSError."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    text = json.dumps(attrs.asdict(findings, value_serializer=_plain), ensure_ascii=False, indent=1)
    with fresh.open("w", encoding="utf-8", errors="replace") as file:  # logs of phones may hold half a character
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)


def _plain(_: Any, __: Any, value: Any) -> Any:
    return str(value) if isinstance(value, StrEnum) else value
