"""The tables of the fleet's own metrics, as data: what the spool holds, what the loader makes, what may be asked."""

from collections.abc import Mapping

import attrs

from sqlassist.catalog import ColumnType

I, N, T, B = ColumnType.INTEGER, ColumnType.NUMBER, ColumnType.TEXT, ColumnType.BOOLEAN  # noqa: E741  # a table's columns line up

MOMENT = "happened_at"
"""Derived from `at_ms` by the loader, in UTC."""
DAY = "day"
"""Derived from `at_ms` by the loader, in UTC."""

LOSSES = "losses"
RUNS = "runs"


@attrs.frozen
class WarehouseTable:
    """One table."""

    columns: Mapping[str, ColumnType]
    """As in the spool; the loader adds `happened_at` and `day`."""
    key: str | None = None
    """A later row with the same value here replaces an earlier one."""

    @property
    def loaded(self) -> dict[str, ColumnType]:
        """As in a database."""
        return {**self.columns, MOMENT: ColumnType.DATETIME, DAY: ColumnType.DATE}


_RUN = {"tenant": T, "run_id": T, "scenario": T, "at_ms": I}
_EPISODE = {**_RUN, "episode_id": T, "phone": T, "app": T, "bot": T}

TABLES: Mapping[str, WarehouseTable] = {
    # one row a run: `running` when it starts, replaced when it ends. at_ms is its start
    RUNS: WarehouseTable(
        {
            **_RUN,
            "state": T,  # running, ended; a run that was killed stays running
            "ended_ms": I,
            "seconds": N,
            "phones": I,
            "engines": I,
            "episodes": I,
            "succeeded": I,
            "seed": I,
            "corral": T,
            "stopped_by": T,
            "failure": T,
            "lost_rows": I,
        },
        key="run_id",
    ),
    # one row an episode. at_ms is its end
    "episodes": WarehouseTable(
        {
            **_EPISODE,
            "started_ms": I,
            "seed": I,
            "outcome": T,
            "reason": T,
            "is_success": I,
            "score": N,
            "steps": I,
            "seconds": N,
            "pauses": I,
            "paused_seconds": N,
            "stall_seconds": N,
            "reflex_actions": I,
            "planned_actions": I,
            "retried_actions": I,
            "recovery_actions": I,
            "failed_actions": I,
            "stale_actions": I,
            "voided_actions": I,
            "late_actions": I,
            "off_screen_actions": I,
            "no_effect_actions": I,
            "effects_seen": I,
            "plans_requested": I,
            "plans_completed": I,
            "plans_failed": I,
            "plans_aborted": I,
            "prompt_tokens": I,
            "cached_tokens": I,
            "output_tokens": I,
            "phone_losses": I,
            "bad_frames": I,
            "engine_list": T,
            "model_list": T,
            "is_replayable": B,
        }
    ),
    # one row a control step: a frame that was decided on
    "steps": WarehouseTable(
        {
            **_EPISODE,
            "step": I,
            "frame": I,
            "capture_ms": N,  # from asking the phone for the frame until it was here
            "wait_ms": N,  # from there until the policy was asked; perception is in it
            "decide_ms": N,
            "latency_ms": N,  # the three together
            "decision": T,  # none, reflex, planned, retry, recovery
            "score": N,
        }
    ),
    # one row an action that was done, or that was planned and not done
    "actions": WarehouseTable(
        {
            **_EPISODE,
            "step": I,
            "kind": T,  # reflex, planned, retry, recovery
            "action": T,  # tap, swipe, ...; restart_app; empty where it was only planned
            "rule": T,  # the reflex rule or the recovery rung
            "outcome": T,  # effective, no_effect, executed, failed, stale, voided, late, off_screen, lost
            "reason": T,
            "capture_ms": N,
            "queue_ms": N,
            "prefill_ms": N,
            "decode_ms": N,
            "dispatch_ms": N,
            "effect_ms": N,
        }
    ),
    # one row a plan that was asked for. at_ms is when it was answered or given up
    "plans": WarehouseTable(
        {
            **_EPISODE,
            "request_id": T,
            "why": T,
            "outcome": T,  # completed, failed, aborted
            "failure": T,  # late, engine, refused, garbled; or why it was aborted
            "latency_ms": N,
            "queue_ms": N,
            "prefill_ms": N,
            "ttft_ms": N,
            "decode_ms": N,
            "prompt_tokens": I,
            "cached_tokens": I,
            "output_tokens": I,
            "actions": I,
            "late_actions": I,
            "off_screen_actions": I,
            "engine": T,
            "model": T,
            "routing": T,  # sticky, born, spilled, rehomed
        }
    ),
    # one row a thing that went wrong with an app or a phone
    "faults": WarehouseTable({**_EPISODE, "fault": T, "process": T, "cause": T}),
    # one row an engine each few seconds
    "engine_health": WarehouseTable(
        {
            **_RUN,
            "engine": T,
            "state": T,  # ready, draining, unfit, open, half_open
            "is_up": I,
            "interval_seconds": N,  # that the row stands for
            "down_seconds": N,
            "in_flight": I,
            "waiting": I,
            "request_limit": I,
            "episodes": I,  # homed there
            "kv_usage": N,
            "token_ms": N,
        }
    ),
    # one row a phone each few seconds
    "phone_health": WarehouseTable(
        {
            **_RUN,
            "phone": T,
            "app": T,
            "state": T,
            "is_online": I,
            "interval_seconds": N,
            "offline_seconds": N,
            "needs_human_seconds": N,
            "capture_ms": N,
            "failed_captures": I,
            "bad_frames": I,
            "losses": I,
        }
    ),
    # one row for rows that could not be kept
    LOSSES: WarehouseTable({**_RUN, "kind": T, "lost_rows": I, "reason": T}),
}

THINGS: Mapping[str, str] = {"phones": "phone", "apps": "app", "engines": "engine"}
"""Table → its key: everything of that kind that a loaded row ever named. The loader makes them of the rows."""

VERSION = 1
"""Of the spool's format."""


def things_columns(key: str) -> dict[str, ColumnType]:
    """The columns of a table of `THINGS`; first_ms is when a row first named it, in epoch milliseconds."""
    return {"tenant": T, key: T, "first_ms": I}


def askable_tables() -> dict[str, dict[str, ColumnType]]:
    """Every table and its columns, as in a database."""
    asked = {name: table.loaded for name, table in TABLES.items()}
    return asked | {name: things_columns(key) for name, key in THINGS.items()}


def all_columns() -> dict[str, ColumnType]:
    """Every column of the spool. One name has one type everywhere: all rows of a segment are read at once."""
    columns: dict[str, ColumnType] = {}
    for table in TABLES.values():
        for name, kind in table.columns.items():
            assert columns.setdefault(name, kind) is kind, f"column {name} has two types"
    return columns
