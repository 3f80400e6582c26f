"""Which run folders go: by age and outcome, then the oldest beyond the disk budget; pinned ones never. Pure.

One that was not read for findings yet does not go by its age; where the disk budget takes it, it is to be read first.
"""

from collections.abc import Sequence
from enum import StrEnum

import attrs

from actors.farm.config import RetentionConfig
from actors.farm.work import AttemptOutcome

DAY_SECONDS = 86_400.0


class Kept(StrEnum):
    """Outcomes that are kept for different times."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    OTHER = "other"


_ORDER = {Kept.SUCCEEDED: 0, Kept.OTHER: 1, Kept.FAILED: 2}  # failures are what somebody may still want to look at


@attrs.frozen
class StoredAttempt:
    """An ended attempt whose folder is there."""

    attempt: str
    outcome: AttemptOutcome
    ended_at: float
    size_bytes: int
    pinned: bool = False
    scanned: bool = True
    """It was read for findings, or cannot be."""

    @property
    def kept(self) -> Kept:
        """How long it is kept."""
        if self.outcome is AttemptOutcome.SUCCEEDED:
            return Kept.SUCCEEDED
        return Kept.FAILED if self.outcome is AttemptOutcome.FAILED else Kept.OTHER


@attrs.frozen
class Removal:
    """A folder that goes, and why."""

    attempt: str
    why: str
    scanned: bool = True
    """False: it is to be read first."""


def removals_for(stored: Sequence[StoredAttempt], config: RetentionConfig, now: float) -> list[Removal]:
    """What goes now, in this order."""
    days = {
        Kept.SUCCEEDED: config.succeeded_days,
        Kept.FAILED: config.failed_days,
        Kept.OTHER: config.other_days,
    }
    removals: list[Removal] = []
    left: list[StoredAttempt] = []
    for one in sorted(stored, key=lambda one: (one.ended_at, one.attempt)):
        if one.scanned and not one.pinned and now - one.ended_at > days[one.kept] * DAY_SECONDS:
            removals.append(Removal(one.attempt, f"older than {days[one.kept]:g} days"))
        else:
            left.append(one)
    used = sum(one.size_bytes for one in left)
    budget = config.disk_gb * 1e9
    for one in sorted(left, key=lambda one: (_ORDER[one.kept], one.ended_at, one.attempt)):
        if used <= budget:
            break
        if not one.pinned:
            removals.append(Removal(one.attempt, f"the disk budget of {config.disk_gb:g} GB is used up", one.scanned))
            used -= one.size_bytes
    return removals
