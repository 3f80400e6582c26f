"""Whether an actor that ended is started again, and after how long.

The wait is exponential backoff with full jitter: uniform in [0, min(cap, base x 2^attempt)), which spreads the
restarts of many actors that failed together better than a jitter around the mean does (AWS Architecture Blog,
"Exponential Backoff And Jitter", 2015).
"""

from collections.abc import Sequence
from enum import StrEnum

import attrs


class RestartKind(StrEnum):
    """When an actor that ended is started again; the words are Erlang's."""

    PERMANENT = "permanent"
    """Always: it is not supposed to end."""
    TRANSIENT = "transient"
    """Only when it failed."""
    TEMPORARY = "temporary"
    """Never."""

    def wants_restart(self, *, failed: bool) -> bool:
        """True when an actor of this kind is started again after this end."""
        return self is RestartKind.PERMANENT or (self is RestartKind.TRANSIENT and failed)


@attrs.frozen
class Intensity:
    """How much failing is borne, and how restarts are spread out."""

    max_restarts: int = 5
    """More ends than this within `period_seconds` are too many."""
    period_seconds: float = 60.0
    base_seconds: float = 0.5
    """Upper bound of the first wait."""
    cap_seconds: float = 30.0
    """Upper bound of any wait."""
    healthy_seconds: float = 30.0
    """An actor that was up for this long starts the backoff from the beginning."""


@attrs.frozen
class Failure:
    """One end that calls for a restart."""

    at: float
    """When, in seconds of the run's clock."""
    ran_seconds: float
    """How long the actor had been up, counted from its readiness; 0 if it never became ready."""


@attrs.frozen
class Restart:
    """Start it again."""

    after_seconds: float


@attrs.frozen
class GiveUp:
    """Leave it down."""

    reason: str


def decide(history: Sequence[Failure], now: float, intensity: Intensity, draw: float) -> Restart | GiveUp:
    """What to do about the last failure in `history`.

    Args:
        history: failures, oldest first; the last is the one to decide about. Only the last `max_restarts + 1`
            and those since the last healthy run matter.
        now: seconds of the run's clock.
        intensity: the limits.
        draw: uniform in [0, 1).
    """
    recent = sum(1 for failure in history if failure.at > now - intensity.period_seconds)
    if recent > intensity.max_restarts:
        return GiveUp(
            f"ended {recent} times within {intensity.period_seconds:g} s, "
            f"and {intensity.max_restarts} restarts are allowed"
        )
    attempt = 0
    for failure in reversed(history):
        attempt += 1
        if failure.ran_seconds >= intensity.healthy_seconds:
            break  # this end was the first of its series
    exponent = min(max(attempt - 1, 0), 62)  # past 2^62 the cap has long been reached, and floats overflow
    return Restart(draw * min(intensity.cap_seconds, intensity.base_seconds * 2**exponent))
