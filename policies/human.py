"""When a bot must wait for a person: a captcha or a second factor is on the screen. Pure; time is an argument."""

from enum import StrEnum

import attrs

from policies.perception import Percept
from policies.reflex import Condition, holds

CLEAR_FRAMES = 2  # a captcha that loads its next picture is gone for a frame; nobody solved it


class Resume(StrEnum):
    """What ends a pause."""

    MANUAL = "manual"
    """`corral resume` alone."""
    AUTO = "auto"
    """Also the screen itself: what asked for a person has not been seen for some frames."""


@attrs.frozen
class HumanSettings:
    """What calls for a person, and for how long one is waited for."""

    when: tuple[Condition, ...] = ()
    """Any one of these calls for a person."""
    resume: Resume = Resume.MANUAL
    wait_seconds: float = 3600.0
    """After so long nobody is expected any more."""


class HumanWatch:
    """Keeps whether a person is needed. Equal calls give equal states.

    After a `resume` the same screen does not pause again until it has been gone for a frame: whoever resumed has seen
    it.
    """

    def __init__(self, settings: HumanSettings) -> None:
        self.settings = settings
        self.paused: str | None = None
        """Why a person is needed; None while none is."""
        self.since = 0.0
        """When the present pause began."""
        self._called = False
        self._clear = 0
        self._armed = True

    @property
    def due_at(self) -> float:
        """When the pause runs out; infinity while there is none."""
        return self.since + self.settings.wait_seconds if self.paused is not None else float("inf")

    def call(self, why: str, now: float) -> None:
        """Pause for a reason that no condition shows."""
        if self.paused is None:
            self._pause(why, now)
            self._called = True

    def step(self, percept: Percept | None, now: float, *, resumed: bool = False, solved: bool = False) -> None:
        """Take the newest frame, or none.

        Args:
            percept: The newest frame's, or None where no new one has come.
            now: Seconds of the run's clock.
            resumed: A person said: go on.
            solved: What a `call` was about is over; counts with `Resume.AUTO`.
        """
        hit = None if percept is None else self._hit(percept)
        if percept is not None and hit is None:
            self._armed = True
        if self.paused is None:
            if hit is not None and self._armed:
                self._pause(f"the probe {hit} shows that a person is needed", now)
            return
        if resumed:
            self.paused = None
            self._armed = False
            return
        if percept is None or self.settings.resume is not Resume.AUTO:
            return
        is_clear = solved if self._called else hit is None
        self._clear = self._clear + 1 if is_clear else 0
        if self._clear >= CLEAR_FRAMES:
            self.paused = None

    def wait(self, seconds: float) -> None:
        """Somebody is there: this time does not count as waiting for one."""
        self.since += seconds

    def is_expired(self, now: float) -> bool:
        """Nobody came in time."""
        return self.paused is not None and now >= self.due_at

    def _pause(self, why: str, now: float) -> None:
        self.paused, self.since = why, now
        self._called, self._clear = False, 0

    def _hit(self, percept: Percept) -> str | None:
        return next((c.probe for c in self.settings.when if holds(c, percept)), None)


def expired_reason(watch: HumanWatch) -> str:
    """Why an episode fails that nobody helped."""
    return f"needs_human: nobody came within {watch.settings.wait_seconds:g} s; {watch.paused}"
