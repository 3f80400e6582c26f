"""System 1's hands: at most one rule fires on a frame, in priority order, each with its cooldown."""

from collections.abc import Mapping, Sequence
from enum import StrEnum

import attrs

from policies.action import Action, Key, KeyName, Swipe, Tap
from policies.geometry import Region, box_for
from policies.perception import Percept


class Comparison(StrEnum):
    """How a probe's reading is judged."""

    HIT = "hit"
    MISS = "miss"
    BELOW = "below"
    ABOVE = "above"


@attrs.frozen
class Condition:
    """One thing that must hold of the newest frame."""

    probe: str
    reads: Comparison = Comparison.HIT
    value: float = 0.0
    """For `below` and `above`."""


@attrs.frozen
class ReflexAction:
    """What a rule does: exactly one of the fields is set."""

    tap: Region | None = None
    """Tap the middle of this region."""
    tap_match: str | None = None
    """Tap where this probe matched."""
    swipe: tuple[Region, Region] | None = None
    """Swipe from the middle of one region to that of the other."""
    key: KeyName | None = None

    def problems(self) -> list[str]:
        """What is wrong with it; empty when it is right."""
        given = [f.name for f in attrs.fields(ReflexAction) if getattr(self, f.name) is not None]
        if len(given) == 1:
            return []
        return [f"give exactly one of tap, tap_match, swipe, key; not {', '.join(given) or 'none'}"]


@attrs.frozen
class Rule:
    """When all conditions hold on `frames` frames in a row, do the action, then rest for the cooldown."""

    name: str
    when: tuple[Condition, ...]
    do: ReflexAction
    priority: int = 0
    """Higher is first; equal ones in the order of the file."""
    cooldown_seconds: float = attrs.field(default=1.0, metadata={"min": 0})
    frames: int = attrs.field(default=1, metadata={"min": 1})
    voids_plan: bool = True
    """The reflex changes the scene, so what was planned before it is not done any more."""


@attrs.frozen
class ReflexFire:
    """A rule has fired."""

    rule: str
    action: Action
    voids_plan: bool


@attrs.frozen
class ReflexMemory:
    """What must be remembered from frame to frame."""

    fired_at: Mapping[str, float] = attrs.field(factory=dict)
    """Rule → when it last fired."""
    holding: Mapping[str, int] = attrs.field(factory=dict)
    """Rule → for how many frames in a row its conditions have held."""


def react(
    rules: Sequence[Rule], percept: Percept, memory: ReflexMemory, now: float
) -> tuple[ReflexFire | None, ReflexMemory]:
    """Judge all rules on one frame.

    Returns:
        The rule that fired, if any, and the memory for the next frame.
    """
    holding = {
        rule.name: memory.holding.get(rule.name, 0) + 1
        for rule in rules
        if rule.when and all(holds(condition, percept) for condition in rule.when)
    }
    for rule in sorted(rules, key=lambda r: -r.priority):
        if holding.get(rule.name, 0) < rule.frames:
            continue
        last = memory.fired_at.get(rule.name)
        if last is not None and now - last < rule.cooldown_seconds:
            continue
        action = action_for(rule.do, percept)
        if action is None:
            continue
        fired_at = {**memory.fired_at, rule.name: now}
        return ReflexFire(rule.name, action, rule.voids_plan), ReflexMemory(fired_at, holding)
    return None, ReflexMemory(memory.fired_at, holding)


def holds(condition: Condition, percept: Percept) -> bool:
    """Judge one condition on one frame; a probe that was not read never holds."""
    reading = percept.readings.get(condition.probe)
    if reading is None:
        return False
    match condition.reads:
        case Comparison.HIT:
            return reading.hit
        case Comparison.MISS:
            return not reading.hit
        case Comparison.BELOW:
            return reading.value < condition.value
        case Comparison.ABOVE:
            return reading.value > condition.value


def action_for(do: ReflexAction, percept: Percept) -> Action | None:
    """The action in device pixels; None where its match or region is not on this screen."""
    if do.key is not None:
        return Key(do.key)
    if do.tap_match is not None:
        reading = percept.readings.get(do.tap_match)
        if reading is None or reading.at is None or not reading.hit:
            return None
        return Tap(int(reading.at[0] * percept.width), int(reading.at[1] * percept.height))
    if do.tap is not None:
        center = _center(do.tap, percept)
        return None if center is None else Tap(*center)
    if do.swipe is not None:
        start, end = _center(do.swipe[0], percept), _center(do.swipe[1], percept)
        return None if start is None or end is None else Swipe(*start, *end)
    return None


def _center(region: Region, percept: Percept) -> tuple[int, int] | None:
    box = box_for(region, percept.width, percept.height)
    return box.center if box.width and box.height else None
