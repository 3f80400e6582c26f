"""Who has a phone that a bot plays on: a person who took it over, or whoever stopped the whole run. Pure."""

import attrs

IDLE_SECONDS = 300.0  # a take-over that gets no input for so long ends by itself: nobody has to be there to end it
MAX_NAME = 200


@attrs.define
class Custody:
    """One phone's. Times are of the run's clock; a take-over that ran out is over without anybody looking."""

    since: float = 0.0
    """When the present take-over began."""
    stopped_by: str | None = None
    """Who stopped the whole run, until it goes on."""
    _by: str | None = None
    _used_at: float = 0.0

    def holder(self, now: float) -> str | None:
        """Who has taken the phone over; None: nobody."""
        if self._by is not None and now - self._used_at >= IDLE_SECONDS:
            self._by = None
        return self._by

    def held(self, now: float) -> str | None:
        """Who keeps the bot from playing; None: it plays."""
        return self.holder(now) or self.stopped_by

    def take(self, by: str, now: float) -> bool:
        """Take the phone over, or go on having it; False: somebody else has it."""
        holder = self.holder(now)
        if holder is None:
            self.since = now
        self._by = holder or by
        if self._by != by:
            return False
        self._used_at = now
        return True

    def use(self, by: str, now: float) -> bool:
        """Note an input of whoever took it over; False: that is somebody else, or nobody."""
        return self.holder(now) == by and self.take(by, now)

    def give_back(self) -> bool:
        """End a take-over; False where there was none."""
        had, self._by = self._by is not None, None
        return had
