"""A world that goes on in small fixed steps, however irregularly it is looked at."""

import attrs

TICK_SECONDS = 0.02
"""One step of every app's world. Short against any reaction time, long enough that an hour is 180,000 steps."""


@attrs.define
class TickClock:
    """Says how many ticks are due. The count depends on `now` alone, never on how often it is asked."""

    started_at: float
    """Phone's clock when the app started."""
    ticks: int = 0
    """Ticks handed out so far."""

    @property
    def seconds(self) -> float:
        """App time: seconds since the start, in whole ticks."""
        return self.ticks * TICK_SECONDS

    def ticks_due(self, now: float) -> int:
        """Ticks between the last call and `now`; zero when the clock stood still."""
        # The small addend keeps 0.06 / 0.02 from being 2.
        target = int((now - self.started_at) / TICK_SECONDS + 1e-6)
        due = max(0, target - self.ticks)
        self.ticks += due
        return due
