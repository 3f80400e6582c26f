"""Rows of the farm's phones, joined with what the runs that play say of theirs. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from actors.farm.records import AttemptRecord


def placed(attempt: AttemptRecord, told: Sequence[Mapping[str, Any]], simulated: frozenset[str]) -> dict[str, Any]:
    """Farm's phone → what the run says of it.

    Args:
        attempt: Has the farm's names: addresses, and names of simulated phones, which each run starts for itself.
        told: The run's `PhoneStatus` rows, in its order.
        simulated: The farm's simulated phones.
    """
    by_address = {str(row.get("address")): row for row in told}
    found = {phone: by_address[phone] for phone in attempt.phones if phone in by_address}
    named = {phone for phone in attempt.phones if phone not in simulated}
    others = [row for row in told if row.get("address") not in named]
    started = [phone for phone in attempt.phones if phone in simulated]
    return {**found, **dict(zip(started, others, strict=False))}


def with_live(
    row: Mapping[str, Any], attempt: AttemptRecord | None, status: Mapping[str, Any] | None
) -> dict[str, Any]:
    """A row of a phone with what plays on it.

    Args:
        row: Of `phone_views`.
        attempt: What plays there and may be seen; None: nothing.
        status: What its run says of the phone; None: it does not say.
    """
    return {
        **row,
        "run": None if attempt is None else attempt.run,
        "taken_over_by": None if status is None else status.get("taken_over_by"),
        "live": None if status is None else dict(status),
    }


def changed_rows(
    old: Mapping[str, Mapping[str, Any]], new: Mapping[str, Mapping[str, Any]]
) -> tuple[list[Mapping[str, Any]], list[str]]:
    """(rows that are new or different, names that are gone)."""
    return [row for name, row in new.items() if old.get(name) != row], [name for name in old if name not in new]
