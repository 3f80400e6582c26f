"""Tries rules on recorded frames: how often each probe hits, how surely, how fast, and when each rule would fire."""

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs
import numpy as np

from actors.authoring.frames import StoredFrame
from actors.rulefile import RuleFile, kind_of
from actors.slow_probes import SlowReader
from policies.frame import Frame
from policies.perception import Percept, Perception, perceive, read_probe, with_slow
from policies.probes import FastProbe, Reading
from policies.reflex import ReflexFire, ReflexMemory, Rule, holds, react


@attrs.frozen
class ProbeTrial:
    """What one probe read on all frames. Values of frames on which it read a value; None where there is none."""

    name: str
    kind: str
    hits: int
    misses: int
    value_min: float | None
    value_median: float | None
    value_max: float | None
    ms_p50: float
    ms_p95: float


@attrs.frozen
class RuleTrial:
    """When one rule would have fired."""

    name: str
    matched: int
    """Frames on which all its conditions hold."""
    fired: tuple[str, ...]
    """Labels of the frames on which it is the one that fires: by priority, cooldown and frames in a row."""


@attrs.frozen
class Trial:
    """All of a rule file on all frames."""

    frames: int
    copies: Mapping[str, int]
    """How many of them are lossless PNGs, prompt JPEGs, display JPEGs."""
    probes: tuple[ProbeTrial, ...]
    rules: tuple[RuleTrial, ...]

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return attrs.asdict(self)


@attrs.frozen(eq=False)
class TriedFrame:
    """One frame, read."""

    stored: StoredFrame
    frame: Frame | None
    """None once its pixels are not needed any more."""
    percept: Percept
    seconds: Mapping[str, float]
    """Probe → how long it took."""
    fired: ReflexFire | None
    matched: tuple[str, ...]
    """Rules of which all conditions hold."""

    def without_pixels(self) -> "TriedFrame":
        """All of it but the pixels: a run may hold thousands of frames."""
        return attrs.evolve(self, frame=None)


def try_frames(
    rules: RuleFile, perception: Perception, slow: Mapping[str, SlowReader], frames: Iterable[StoredFrame]
) -> Iterable[TriedFrame]:
    """Read frames one after the other, each episode with a memory of its own. Blocks.

    A picture that is of no run is judged alone: no cooldown, and one frame in a row is enough.

    Raises:
        ScenarioError: a frame cannot be read.
    """
    memories: dict[str, ReflexMemory] = {}
    at_once = tuple(attrs.evolve(rule, frames=1) for rule in rules.rules)
    for stored in frames:
        frame = stored.load()
        readings, seconds = _read_all(perception, slow, frame)
        bare = perceive(attrs.evolve(perception, probes={}), frame)
        percept = with_slow(bare, readings)
        matched = tuple(rule.name for rule in rules.rules if _matches(rule, percept))
        if stored.episode and stored.at is not None:
            memory = memories.get(stored.episode, ReflexMemory())
            fired, memories[stored.episode] = react(rules.rules, percept, memory, stored.at)
        else:
            fired, _ = react(at_once, percept, ReflexMemory(), 0.0)
        yield TriedFrame(stored, frame, percept, seconds, fired, matched)


def _read_all(
    perception: Perception, slow: Mapping[str, SlowReader], frame: Frame
) -> tuple[dict[str, Reading], dict[str, float]]:
    readings: dict[str, Reading] = {}
    seconds: dict[str, float] = {}
    for name, probe in perception.probes.items():
        started = time.perf_counter()
        readings[name] = (
            read_probe(perception, probe, frame) if isinstance(probe, FastProbe) else slow[name].read(frame)
        )
        seconds[name] = time.perf_counter() - started
    return readings, seconds


def _matches(rule: Rule, percept: Percept) -> bool:
    return all(holds(condition, percept) for condition in rule.when)


def trial_for(rules: RuleFile, tried: Sequence[TriedFrame]) -> Trial:
    """The report of frames that were read."""
    copies: dict[str, int] = {}
    for frame in tried:
        copies[frame.stored.copy] = copies.get(frame.stored.copy, 0) + 1
    probes = []
    for name, probe in rules.probes.items():
        read = [frame.percept.readings[name] for frame in tried]
        values = [reading.value for reading in read if not math.isnan(reading.value)]
        times = [frame.seconds[name] * 1000 for frame in tried]
        hits = sum(reading.hit for reading in read)
        probes.append(
            ProbeTrial(
                name=name,
                kind=kind_of(probe),
                hits=hits,
                misses=len(read) - hits,
                value_min=_rounded(min(values)) if values else None,
                value_median=_rounded(float(np.median(values))) if values else None,
                value_max=_rounded(max(values)) if values else None,
                ms_p50=_rounded(float(np.percentile(times, 50))),
                ms_p95=_rounded(float(np.percentile(times, 95))),
            )
        )
    fires = [
        RuleTrial(
            rule.name,
            sum(rule.name in frame.matched for frame in tried),
            tuple(frame.stored.label for frame in tried if frame.fired is not None and frame.fired.rule == rule.name),
        )
        for rule in rules.rules
    ]
    return Trial(len(tried), copies, tuple(probes), tuple(fires))


def _rounded(value: float) -> float:
    return round(value, 4)
