"""What somebody wants to be run, and the states that a run and its attempts can be in."""

from enum import StrEnum

import attrs

from runtime.ids import TenantId

MAX_PRIORITY = 9
TIME_OF_DAY = r"([01][0-9]|2[0-3]):[0-5][0-9]"
"""A time like 03:30, whole: as a pattern for Python and for JSON schemas."""


class OnInterrupt(StrEnum):
    """What becomes of a run whose attempt was cut by the end of the daemon or of the machine."""

    REQUEUE = "requeue"
    FAIL = "fail"


class RunState(StrEnum):
    """Where a run is. The last five are final: a run is in one of them exactly once, and for ever."""

    SCHEDULED = "scheduled"
    """It makes a run of its own every day, and never plays itself."""
    QUEUED = "queued"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    """Episodes were played, and not all of them succeeded."""
    ERRORED = "errored"
    """It could not be played: no engine, no phone, a crash, or too many interruptions."""
    WRONG = "wrong"
    """Its scenario is wrong."""
    CANCELLED = "cancelled"


FINAL = frozenset({RunState.SUCCEEDED, RunState.FAILED, RunState.ERRORED, RunState.WRONG, RunState.CANCELLED})


class AttemptOutcome(StrEnum):
    """How one attempt ended; `running` is one that has not."""

    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    ERRORED = "errored"
    WRONG = "wrong"
    INTERRUPTED = "interrupted"
    """The daemon ended under it, or cut it; it says nothing about the scenario."""
    PAUSED = "paused"
    """An operator paused the run while it played."""
    CANCELLED = "cancelled"


@attrs.frozen
class Daily:
    """Every day at a time of a place."""

    at: str = attrs.field(metadata={"pattern": TIME_OF_DAY, "means": "a time like 03:30"})
    zone: str = "UTC"
    """As the IANA database names it: `Asia/Shanghai`."""


@attrs.frozen
class Work:
    """What was submitted."""

    tenant: TenantId
    user: str
    scenario: str
    """Its name: of a file in the folder of scenarios, or, with `text`, in the text."""
    phones: int = attrs.field(metadata={"min": 1})
    """How many it needs at the same time."""
    text: str | None = None
    """The scenario itself, where it is no file."""
    labels: tuple[str, ...] = ()
    """Every phone must have all of them."""
    priority: int = attrs.field(default=5, metadata={"min": 0, "max": MAX_PRIORITY})
    """Among runs of one tenant; 9 is first."""
    not_before: float | None = None
    """Seconds since 1970; None: at once."""
    daily: Daily | None = None
    repeats: int = attrs.field(default=0, metadata={"min": 0, "max": 10})
    """Further attempts after one in which episodes failed: a success among them is flaky."""
    on_interrupt: OnInterrupt = OnInterrupt.REQUEUE
