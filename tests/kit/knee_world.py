"""An engine of a known curve that is always asked for more, without a clock: what a knee limiter makes of it."""

from collections.abc import Callable
from random import Random

import attrs

from inference.knee import KneeLimiter, TokenTiming

Curve = Callable[[int], float]
"""Requests at the engine → seconds per output token."""
STEP_SECONDS = 0.01


def a100(running: int) -> float:
    """The design document's: 13.09 ms alone, 16.36 ms at 50. Knee 50."""
    return 0.01309 + (running - 1) * (0.01636 - 0.01309) / 49


def hinged(running: int) -> float:
    """Flat, and steep past ten. Knee 11."""
    return 0.010 + max(0, running - 10) * 0.002


def bowl(running: int) -> float:
    """Rises with the square. Knee 24."""
    return 0.02 * (1 + (running / 48) ** 2)


def steep(running: int) -> float:
    """A small engine. Knee 5."""
    return 0.004 * (1 + 0.0625 * (running - 1))


def knee_of(curve: Curve, most: int) -> int:
    """The largest concurrency whose TPOT is at most 1.25 times that of one."""
    return max(running for running in range(1, most + 1) if curve(running) <= 1.25 * curve(1) + 1e-12)


@attrs.define(eq=False)
class _Job:
    started_at: float
    area: float
    at_start: int
    tokens: int
    slowness: float
    left: float
    prefill_left: float = 0.058
    first_at: float = 0.0


def drive(
    limiter: KneeLimiter,
    curve_at: Callable[[float], Curve],
    seconds: float,
    *,
    seed: int = 1,
    noise: float = 0.0,
    tokens: tuple[int, int] = (64, 64),
    demand: int = 10**6,
) -> list[tuple[float, int]]:
    """Run the engine for so long; returns (time, limit) at every step.

    Args:
        limiter: fed with every answer, and obeyed.
        curve_at: the engine's curve at a time.
        seconds: how long.
        seed: of the noise.
        noise: relative standard deviation of a request's TPOT.
        tokens: fewest and most output tokens of an answer.
        demand: requests that there are at most.
    """
    dice, now, area = Random(seed), 0.0, 0.0
    jobs: list[_Job] = []
    trace = []
    while now < seconds:
        while len(jobs) < min(limiter.limit, demand):
            count = dice.randint(*tokens)
            slowness = dice.lognormvariate(0.0, noise) if noise else 1.0
            jobs.append(_Job(now, area, len(jobs) + 1, count, slowness, left=count - 1.0))
        tpot = curve_at(now)(len(jobs))
        area += len(jobs) * STEP_SECONDS
        now += STEP_SECONDS
        for job in list(jobs):
            if job.prefill_left > 0:
                job.prefill_left -= STEP_SECONDS
                job.first_at = now
                continue
            job.left -= STEP_SECONDS / (tpot * job.slowness)
            if job.left <= 0:
                jobs.remove(job)
                decoded = now + job.left * tpot * job.slowness - job.first_at
                mean = (area - job.area) / (now - job.started_at)
                limiter.observe(TokenTiming(job.started_at, now, mean, job.at_start, decoded / (job.tokens - 1)))
        trace.append((now, limiter.limit))
    return trace
