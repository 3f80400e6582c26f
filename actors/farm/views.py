"""What the API shows of the farm's values: JSON, with times in ISO 8601 and costs by the farm's prices. Pure."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import attrs

from actors.farm.config import FarmConfig, PricesConfig
from actors.farm.costs import Usage, costs_view, usage_sum
from actors.farm.records import WHOLE_FARM, AttemptRecord, Pause, RunRecord


def moment(seconds: float | None) -> str | None:
    """`2027-01-15T08:00:00Z`."""
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def run_view(
    record: RunRecord, waits_for: str = "", costs: Mapping[str, Any] | None = None, stands: str | None = None
) -> dict[str, Any]:
    """One run, without its attempts.

    Args:
        record: The run.
        waits_for: Why it waits, where it does.
        costs: Of all its attempts, as `costs_of` has them; None: they are not shown.
        stands: Why it stands still while it plays; None: it does not.
    """
    work = record.work
    shown = {} if costs is None else {"costs": costs}
    return shown | {
        "run": record.run,
        "number": record.number,
        "state": record.state.value,
        "held": record.held or stands,
        "reason": record.held or stands or waits_for or record.reason,
        "flaky": record.flaky,
        "pinned": record.pinned,
        "tenant": work.tenant,
        "user": work.user,
        "scenario": work.scenario,
        "is_text": work.text is not None,
        "phones": work.phones,
        "labels": list(work.labels),
        "priority": work.priority,
        "daily": None if work.daily is None else attrs.asdict(work.daily),
        "repeats": work.repeats,
        "on_interrupt": work.on_interrupt.value,
        "origin": record.origin,
        "submitted_at": moment(record.submitted_at),
        "ready_at": moment(record.ready_at),
        "ended_at": moment(record.ended_at),
    }


def costs_of(attempts: Sequence[AttemptRecord], prices: PricesConfig, now: float) -> dict[str, Any]:
    """What attempts have cost so far: phones for as long as they were reserved, engines by records that were read."""
    usage = usage_sum(_usage_of(one, now) for one in attempts)
    return costs_view(usage, prices, is_complete=all(one.usage is not None for one in attempts))


def _usage_of(attempt: AttemptRecord, now: float) -> Usage:
    end = attempt.ended_at if attempt.ended_at is not None else now
    reserved = len(attempt.phones) * max(0.0, end - attempt.started_at)
    return attrs.evolve(attempt.usage or Usage(), phone_seconds=reserved)


def attempt_view(attempt: AttemptRecord, prices: PricesConfig, now: float) -> dict[str, Any]:
    """One attempt, and what it has cost so far."""
    costs = costs_of([attempt], prices, now)
    return {
        "attempt": attempt.attempt,
        "number": attempt.number,
        "outcome": attempt.outcome.value,
        "reason": attempt.reason,
        "phones": list(attempt.phones),
        "exit_code": attempt.exit_code,
        "started_at": moment(attempt.started_at),
        "ended_at": moment(attempt.ended_at),
        "result": attempt.result,
        "size_bytes": attempt.size_bytes,
        "removed": attempt.removed,
        "costs": costs,
        "phone_minutes": costs["phone_minutes"],
        "cost": costs["money"],
        "currency": prices.currency,
    }


def phone_views(
    config: FarmConfig,
    *,
    reservations: Mapping[str, str],
    pauses: Mapping[str, Pause],
    shown: Sequence[str],
    tenant: str | None,
) -> list[dict[str, Any]]:
    """Every phone that a tenant may use.

    Args:
        config: The farm.
        reservations: Phone → attempt.
        pauses: By phone.
        shown: Attempts that the caller may know of; of others it is told that a phone is busy.
        tenant: None: all phones.
    """
    views = []
    for pool in config.phones:
        if tenant is not None and pool.tenants and tenant not in pool.tenants:
            continue
        for phone in pool.phone_ids:
            attempt, pause = reservations.get(phone), pauses.get(phone)
            state = "busy" if attempt is not None else "paused" if pause is not None else "free"
            views.append(
                {
                    "phone": phone,
                    "pool": pool.name,
                    "simulated": config.is_simulated(phone),
                    "labels": list(pool.labels),
                    "state": state,
                    "attempt": attempt if attempt in shown else None,
                    "paused": pause is not None,
                    "paused_by": pause.user if pause is not None and tenant is None else None,
                }
            )
    return views


def drain_view(pauses: Mapping[str, Pause]) -> dict[str, Any]:
    """Whether the farm takes runs."""
    pause = pauses.get(WHOLE_FARM)
    return {"drained": pause is not None, "since": None if pause is None else moment(pause.at)}
