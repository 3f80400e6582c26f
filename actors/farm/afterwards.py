"""What follows an attempt: a result, another attempt, or a run that is held; and when a daily run is due. Pure."""

from collections.abc import Sequence
from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import attrs

from actors.farm.work import AttemptOutcome, Daily, OnInterrupt, RunState, Work

MAX_ERRORS = 3  # attempts that could not play: a lost adb or engine comes back, a broken set-up does not
MAX_INTERRUPTIONS = 20  # of one run by ends of the daemon; beyond, it may be the run that ends it
ERROR_PAUSE_SECONDS = 60.0  # doubled with each
_FINISHED = {0: AttemptOutcome.SUCCEEDED, 1: AttemptOutcome.FAILED, 2: AttemptOutcome.WRONG}


@attrs.frozen
class Finish:
    """The run has its result."""

    state: RunState
    reason: str
    flaky: bool = False
    """It succeeded, but not in its first attempt."""


@attrs.frozen
class Again:
    """The run goes back into the queue."""

    at: float
    reason: str


@attrs.frozen
class Hold:
    """The run goes back into the queue, and stays there until somebody resumes it."""

    reason: str


Next = Finish | Again | Hold


def outcome_of(exit_code: int) -> AttemptOutcome:
    """What `corral run` says by its exit code; anything but 0, 1 and 2 is no verdict on the game."""
    return _FINISHED.get(exit_code, AttemptOutcome.ERRORED)


def next_for(work: Work, outcomes: Sequence[AttemptOutcome], now: float) -> Next:
    """What follows the last of a run's attempts.

    Args:
        work: What was submitted.
        outcomes: Of all attempts, in order, the one that has just ended last.
        now: The time.
    """
    last = outcomes[-1]
    failures = outcomes.count(AttemptOutcome.FAILED)
    match last:
        case AttemptOutcome.SUCCEEDED:
            reason = f"after {failures} attempts that failed" if failures else "every episode succeeded"
            return Finish(RunState.SUCCEEDED, reason, flaky=failures > 0)
        case AttemptOutcome.FAILED if failures <= work.repeats:
            return Again(now, f"attempt {failures} of {work.repeats + 1} failed")
        case AttemptOutcome.FAILED:
            return Finish(RunState.FAILED, "not every episode succeeded")
        case AttemptOutcome.WRONG:
            return Finish(RunState.WRONG, "its scenario is wrong: see its log")
        case AttemptOutcome.CANCELLED:
            return Finish(RunState.CANCELLED, "cancelled while it played")
        case AttemptOutcome.PAUSED:
            return Hold("paused while it played; it begins anew when it is resumed")
        case AttemptOutcome.INTERRUPTED:
            return _after_interruption(work, outcomes.count(AttemptOutcome.INTERRUPTED), now)
        case AttemptOutcome.ERRORED:
            errors = outcomes.count(AttemptOutcome.ERRORED)
            if errors >= MAX_ERRORS:
                return Finish(RunState.ERRORED, f"it could not be played in {errors} attempts: see its log")
            return Again(now + ERROR_PAUSE_SECONDS * 2 ** (errors - 1), "it could not be played, and is tried again")
        case AttemptOutcome.RUNNING:
            raise ValueError("the last attempt has not ended")


def with_wish(following: Next, wish: AttemptOutcome | None) -> Next:
    """As `following`, but no run is tried again that was to be cancelled or paused as its attempt ended by itself."""
    if isinstance(following, Finish):
        return following
    if wish is AttemptOutcome.CANCELLED:
        return Finish(RunState.CANCELLED, "cancelled while it played")
    if wish is AttemptOutcome.PAUSED:
        return Hold("paused while it played; it begins anew when it is resumed")
    return following


def _after_interruption(work: Work, interruptions: int, now: float) -> Next:
    if work.on_interrupt is OnInterrupt.FAIL:
        return Finish(RunState.ERRORED, "interrupted, and it was to fail then")
    if interruptions >= MAX_INTERRUPTIONS:
        return Finish(RunState.ERRORED, f"interrupted {interruptions} times")
    return Again(now, "interrupted, and queued again")


def zone_problem(name: str) -> str | None:
    """Why this is no time zone; None: it is one."""
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return f"there is no time zone {name[:60]!r}; they are called like Asia/Shanghai"
    return None


def next_daily(daily: Daily, after: float) -> float:
    """The first moment after a time at which it is due; a time that a clock change leaves out is shifted by it."""
    zone = ZoneInfo(daily.zone)
    hour, minute = (int(part) for part in daily.at.split(":"))
    day = datetime.fromtimestamp(after, zone).date()
    for days in range(3):
        local = datetime.combine(day + timedelta(days=days), time(hour, minute), zone)
        moment = local.astimezone(UTC).timestamp()
        if moment > after:
            return moment
    raise AssertionError("no day is longer than 48 hours")
