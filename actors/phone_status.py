"""How every phone of a fleet is now: one row each, for the live view and `corral status`."""

import math

import attrs
import trio

from actors.devices.adb.connections import ConnectionHealth
from actors.fleet import Fleet
from actors.phone import PhoneJob


@attrs.frozen
class PhoneStatus:
    """One line of the live view; times in milliseconds, None where nothing was measured."""

    phone: str
    app: str
    state: str
    step: int
    score: float | None
    action: str
    why: str
    capture_ms: float | None
    plan_ms: float | None
    stale: int
    no_effect: int
    stall: float
    outcome: str
    lost: int
    address: str = ""
    model: str = ""
    android: str = ""
    width: int | None = None
    height: int | None = None
    rotation: int | None = None
    capture_method: str = ""
    probe_age_seconds: float | None = None
    """Since the phone's last answer, end to end; None if it never gave one."""
    connection: str = ""
    """How it stands: ready, offline, unauthorized, silent, ..."""
    remedy: str = ""
    """What somebody has to do about the phone; empty: nothing."""
    taken_over_by: str | None = None
    held_by: str | None = None
    """Who stopped the whole run."""


def statuses(fleet: Fleet) -> list[PhoneStatus]:
    """Every phone as it is now."""
    health = {} if fleet.connections is None else {one.address: one for one in fleet.connections.health()}
    return [_status(job, health.get(job.address)) for job in fleet.jobs]


def _status(job: PhoneJob, health: ConnectionHealth | None) -> PhoneStatus:
    session = job.session or job.sessions[-1]
    tally, statistics = session.policy.tally, session.statistics
    device, percept = job.device, statistics.last_percept
    counts = device.statistics() if device is not None else None
    answered_ago = health.answered_seconds_ago if health is not None else None
    return PhoneStatus(
        phone=job.phone,
        app=job.app_name,
        state=job.shown_state,
        step=tally.steps,
        score=session.policy.score,
        action=statistics.last_action,
        why=job.needs_human or job.note or statistics.last_why,
        capture_ms=_milliseconds(statistics.capture_seconds),
        plan_ms=_milliseconds(statistics.plan_seconds),
        stale=tally.stale_age + tally.stale_target + tally.stale_geometry,
        no_effect=tally.no_effect,
        stall=tally.stall_fraction,
        outcome=session.end.outcome.value if session.end else "",
        lost=job.lost,
        address=job.address,
        model=device.info.model if device is not None else "",
        android=device.info.android if device is not None else "",
        width=percept.width if percept is not None else None,
        height=percept.height if percept is not None else None,
        rotation=percept.rotation if percept is not None else None,
        capture_method=counts.capture_method if counts is not None else "",
        probe_age_seconds=None if answered_ago is None else round(answered_ago, 2),
        connection=health.standing.value if health is not None else "",
        remedy=job.note,
        taken_over_by=job.custody.holder(trio.current_time()),
        held_by=job.custody.stopped_by,
    )


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None or math.isnan(seconds) else round(seconds * 1000, 1)
