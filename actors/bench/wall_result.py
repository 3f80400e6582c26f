"""What `corral bench wall` measured: missed slots, with viewers and without, and whether that is little enough."""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import fmean, median
from typing import Any

import attrs

from actors.bench.actors import PERIOD_SECONDS, SIZE
from actors.bench.result import BenchResult
from actors.results.intervals import mean_interval

FPS, SIDE = 1.0, 240
MOST_POINTS = 3.0  # percentage points of missed slots that viewers may cost
LEAST_PICTURES = 0.5  # of those asked for: where fewer came, it is not the wall that was measured


@attrs.frozen
class WallPlan:
    """What is measured."""

    pairs: int = 5
    seconds: float = 60.0
    """Of each half."""
    phones: int = 100
    viewers: int = 3
    settle_seconds: float = 3.0
    """After viewers come or go."""


@attrs.define
class Half:
    """One half of a pair."""

    pair: int
    viewers: int
    begin: float
    """The system's monotonic clock, as `end`."""
    end: float
    daemon_cpu_share: float
    pictures_per_second: float = 0.0
    """Of all viewers together."""
    phones_seen: int = 0
    age_ms: float | None = None
    """Of a picture when it came, the median; None: none came."""
    kilobytes_per_picture: float | None = None
    slots: int = 0
    missed: int = 0
    fleet_cpu_share: float = 0.0
    """CPU seconds a second, of one core."""
    fleet_waited_share: float = 0.0
    """Share of the time in which it could have run, but other processes had the cores."""
    longest_gap_ms: float | None = None
    """Between two samples of the fleet's process, which it takes ten times a second."""

    @property
    def missed_percent(self) -> float:
        """Of its slots."""
        return 100.0 * self.missed / self.slots if self.slots else 100.0


def missed_slots(steps: Sequence[float], begin: float, end: float, period: float = PERIOD_SECONDS) -> tuple[int, int]:
    """(slots, those of them without a step) of one phone.

    The slots lie around the times that its first step in there sets, so that one which is a little early or late is in
    its own, and wholly between `begin` and `end`. A phone that falls behind for good misses one slot for every period
    that it lost.

    Args:
        steps: When it stepped, in order.
        begin: From here on, and
        end: up to here.
        period: Between two steps.
    """
    mine = [at for at in steps if begin <= at < end]
    first = mine[0] if mine else begin + period / 2
    first -= math.floor((first - begin) / period - 0.5) * period
    slots = math.floor((end - first) / period - 0.5) + 1
    filled = {round((at - first) / period) for at in mine}
    return max(0, slots), sum(slot not in filled for slot in range(slots))


def count(half: Half, told: Mapping[str, Any]) -> None:
    """Put what the fleet left (`wall_play.StepTimes`) of this half into it."""
    for steps in told["steps"].values():
        slots, missed = missed_slots(steps, half.begin, half.end)
        half.slots += slots
        half.missed += missed
    samples = [one for one in told["samples"] if half.begin <= one[0] < half.end]
    if len(samples) > 1:
        seconds, cpu, waited = (last - first for first, last in zip(samples[0], samples[-1], strict=True))
        half.fleet_cpu_share, half.fleet_waited_share = round(cpu / seconds, 3), round(waited / seconds, 3)
        half.longest_gap_ms = round(max(b[0] - a[0] for a, b in pairwise(samples)) * 1000, 1)


def result_of(plan: WallPlan, halves: Sequence[Half]) -> BenchResult:
    """Of two pairs or more."""
    watched = [half for half in halves if half.viewers]
    alone = [half for half in halves if not half.viewers]
    by_pair = {half.pair: half.missed_percent for half in alone}
    cost = mean_interval([half.missed_percent - by_pair[half.pair] for half in watched])
    asked = plan.phones * plan.viewers * FPS
    pictures = fmean(half.pictures_per_second for half in watched)
    ages = [half.age_ms for half in watched if half.age_ms is not None]
    flowed = all(half.pictures_per_second >= LEAST_PICTURES * asked for half in watched)
    return BenchResult(
        name="wall",
        command=f"corral bench wall --pairs {plan.pairs} --seconds {plan.seconds:g} --phones {plan.phones} "
        f"--viewers {plan.viewers}",
        summary={
            "held": cost.high < MOST_POINTS and flowed,
            "missed_percent_without_viewers": round(fmean(half.missed_percent for half in alone), 3),
            "missed_percent_with_viewers": round(fmean(half.missed_percent for half in watched), 3),
            "cost_points": round(cost.value, 3),
            "cost_points_interval": [round(cost.low, 3), round(cost.high, 3)],
            "pictures_per_second": round(pictures, 1),
            "pictures_per_second_asked_for": asked,
            "pictures_flowed": flowed,
            "picture_age_ms": round(median(ages), 1) if ages else None,
            "fleet_cpu_without_viewers": round(fmean(half.fleet_cpu_share for half in alone), 3),
            "fleet_cpu_with_viewers": round(fmean(half.fleet_cpu_share for half in watched), 3),
            "fleet_waited_without_viewers": round(fmean(half.fleet_waited_share for half in alone), 3),
            "fleet_waited_with_viewers": round(fmean(half.fleet_waited_share for half in watched), 3),
            "daemon_cpu_without_viewers": round(fmean(half.daemon_cpu_share for half in alone), 3),
            "daemon_cpu_with_viewers": round(fmean(half.daemon_cpu_share for half in watched), 3),
        },
        rows=[
            {
                **attrs.asdict(half, filter=lambda field, _: field.name not in {"begin", "end"}),
                "missed_percent": round(half.missed_percent, 3),
            }
            for half in halves
        ],
        notes=(
            f"{plan.phones} phones of {SIZE[0]}x{SIZE[1]} at a step in {PERIOD_SECONDS:g} s; each viewer asks for "
            f"every phone {FPS:g} time a second, {SIDE} pixels long, and acknowledges what it got",
            "the interval is Student's, 95 %, over the pairs' differences; held: its upper end is below "
            f"{MOST_POINTS:g} points, and at least {LEAST_PICTURES:.0%} of the pictures asked for came in every half",
            "CPU: seconds a second, of one core; waited: share of the time in which the fleet's process could have "
            "run, but other processes had the cores: what it missed then is not all its own. Frames are made before, "
            "plans come from the fleet's process, and nothing is recorded",
        ),
    )
