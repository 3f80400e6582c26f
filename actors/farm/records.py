"""What the farm keeps of runs, attempts and operators' actions, as values. Pure."""

import json
from collections.abc import Mapping
from typing import Any

import attrs

from actors.configuration import structured
from actors.farm.costs import Usage, usage_from_json
from actors.farm.work import FINAL, AttemptOutcome, RunState, Work
from runtime.ids import TenantId

WHOLE_FARM = "*"
"""Paused like a phone: nothing is started on any."""


@attrs.frozen
class RunRecord:
    """One run."""

    run: str
    number: int
    """Counts all runs of the farm."""
    work: Work
    state: RunState
    submitted_at: float
    ready_at: float
    """When it may start, or may have started; of a daily one, when it is due next."""
    origin: str | None = None
    """The daily run that made it."""
    held: str | None = None
    """Why it stays in the queue until somebody resumes it."""
    reason: str = ""
    flaky: bool = False
    pinned: bool = False
    ended_at: float | None = None

    @property
    def is_over(self) -> bool:
        """It has its result."""
        return self.state in FINAL


@attrs.frozen
class AttemptRecord:
    """One attempt at a run: a process and its folder."""

    attempt: str
    """Also the name of its folder, and the start of its episodes' ids."""
    run: str
    tenant: TenantId
    number: int
    """From 1."""
    phones: tuple[str, ...]
    outcome: AttemptOutcome
    started_at: float
    reason: str = ""
    exit_code: int | None = None
    ended_at: float | None = None
    result: Mapping[str, Any] | None = None
    """The totals of its `summary.json`."""
    size_bytes: int | None = None
    removed: str | None = None
    """Why its folder is not there any more."""
    scanned_at: float | None = None
    """When its records were read for findings and costs, or found unreadable."""
    usage: Usage | None = None
    """Of engines, by its records; None: they were not read (yet), or cannot be."""


@attrs.frozen
class Pause:
    """A phone, or the whole farm, on which nothing is started."""

    phone: str
    user: str
    at: float


@attrs.frozen
class Action:
    """What an operator did."""

    user: str
    tenant: TenantId
    token: str
    """Id of the token; never the token."""
    action: str
    target: str
    detail: str = ""


def attempt_id_for(run: str, number: int) -> str:
    """The run's own id for the first, so that a run that needs one attempt has one name."""
    return run if number == 1 else f"{run}-{number}"


def work_as_json(work: Work) -> dict[str, Any]:
    """As it is stored."""
    return attrs.asdict(work)


def work_from_json(data: Mapping[str, Any]) -> Work:
    """What `work_as_json` gave.

    Raises:
        ValueError: it is something else.
    """
    given = {key: value for key, value in data.items() if value is not None}
    work, problems = structured(given, Work)
    if work is None:
        raise ValueError("; ".join(str(problem) for problem in problems))
    return work


def run_from_row(row: Any) -> RunRecord:
    """Of the table `runs`."""
    return RunRecord(
        run=row["run"],
        number=row["number"],
        work=work_from_json(json.loads(row["work"])),
        state=RunState(row["state"]),
        submitted_at=row["submitted_at"],
        ready_at=row["ready_at"],
        origin=row["origin"],
        held=row["held"],
        reason=row["reason"],
        flaky=bool(row["flaky"]),
        pinned=bool(row["pinned"]),
        ended_at=row["ended_at"],
    )


def attempt_from_row(row: Any) -> AttemptRecord:
    """Of the table `attempts`."""
    return AttemptRecord(
        attempt=row["attempt"],
        run=row["run"],
        tenant=TenantId(row["tenant"]),
        number=row["number"],
        phones=tuple(json.loads(row["phones"])),
        outcome=AttemptOutcome(row["outcome"]),
        started_at=row["started_at"],
        reason=row["reason"],
        exit_code=row["exit_code"],
        ended_at=row["ended_at"],
        result=None if row["result"] is None else json.loads(row["result"]),
        size_bytes=row["size_bytes"],
        removed=row["removed"],
        scanned_at=row["scanned_at"],
        usage=None if row["usage"] is None else usage_from_json(json.loads(row["usage"])),
    )
