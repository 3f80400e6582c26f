"""What `corral farm` prints for people. Text of scenarios and phones is data: nothing in it steers a terminal."""

import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

WIDE = 240  # characters
_WHOLE = frozenset({"run", "attempt", "phone", "state", "engine", "submitted_at"})  # what somebody copies, or looks for


def plain(text: str, keep: str = "") -> str:
    """Without what could steer a terminal.

    Args:
        text: Of anybody.
        keep: Letters that stay although they are not printable.
    """
    return "".join(letter if letter.isprintable() or letter in keep else "\ufffd" for letter in text)


def print_runs(runs: Sequence[Mapping[str, Any]]) -> None:
    """One line a run."""
    _console().print(runs_table(runs))


def print_run(run: Mapping[str, Any]) -> None:
    """All of one run."""
    about = Table(show_header=False, box=None)
    for key in ("run", "state", "reason", "scenario", "tenant", "user", "phones", "labels", "priority", "daily"):
        about.add_row(key, _cell(run[key]))
    for key in ("repeats", "flaky", "pinned", "origin", "submitted_at", "ready_at", "ended_at"):
        about.add_row(key, _cell(run[key]))
    if "costs" in run:
        about.add_row("costs", Text(plain(costs_line(run["costs"]))))
    columns = ("attempt", "outcome", "started_at", "ended_at", "exit_code", "phone_minutes", "cost", "reason")
    parts: list[RenderableType] = [about, Text()]
    parts.append(_table(columns, run["attempts"]))
    if run["progress"]:
        parts.append(_table(("phone", "app", "state", "step", "score", "why"), run["progress"]))
    _console().print(Group(*parts))


def costs_line(costs: Mapping[str, Any]) -> str:
    """Phone minutes, GPU seconds, tokens and money; a note where engines are not counted yet."""
    tokens = costs["tokens"]
    told = (
        f"{costs['money']:g} {costs['currency']}: {costs['phone_minutes']:g} phone minutes, "
        f"{costs['gpu_seconds']:g} GPU seconds, "
        f"tokens {tokens['input']} in ({tokens['cached']} cached), {tokens['output']} out"
    )
    return told if costs["complete"] else f"{told}; engines are not all counted"


def print_phones(phones: Sequence[Mapping[str, Any]]) -> None:
    """One line a phone."""
    _console().print(phones_table(phones))


def print_farm(look: Mapping[str, Any]) -> None:
    """The whole farm, once."""
    _console().print(farm_view(look))


def farm_view(look: Mapping[str, Any]) -> RenderableType:
    """Counts, what plays, and what waits and why."""
    farm = look["farm"]
    drained = "  drained" if farm["draining"] else ""
    counts = (
        f"{farm['playing']} play, {farm['queued']} wait; phones: {farm['phones']}, {farm['busy_phones']} busy, "
        f"{farm['paused_phones']} paused{drained}"
    )
    return Group(Text(counts, style="bold"), runs_table(look["running"]), runs_table(look["queued"]))


def runs_table(runs: Sequence[Mapping[str, Any]]) -> Table:
    """Run, state, scenario, tenant, user, phones, submitted_at, reason."""
    return _table(("run", "state", "scenario", "tenant", "user", "phones", "submitted_at", "reason"), runs)


def phones_table(phones: Sequence[Mapping[str, Any]]) -> Table:
    """Phone, pool, labels, state, attempt."""
    return _table(("phone", "pool", "labels", "state", "paused", "attempt"), phones)


def print_engines(look: Mapping[str, Any]) -> None:
    """One line an engine, the latest rollout, and what of it was not done."""
    if not look["engines"]:
        _console().print(
            Text("this farm has no engines of its own: each run starts, or attaches to, those of its scenario")
        )
        return
    columns = ("engine", "state", "running", "queued", "concurrency", "homes", "kv_usage", "tpot_ms", "cached_share")
    parts: list[RenderableType] = [_table((*columns, "reason"), look["engines"])]
    rollout = look.get("rollout")
    if rollout is not None:
        done = f"{rollout['done']} of {len(rollout['steps'])} changes"
        parts.append(Text(plain(f"rollout {rollout['state']}: {done}; {rollout['why']}"), style="bold"))
    if look.get("held"):
        held = ", ".join(look["held"])
        parts.append(Text(plain(f"not as the farm's file says until that is read again: {held}"), style="bold"))
    _console().print(Group(*parts))


def _table(columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> Table:
    table = Table(box=None, header_style="bold")
    for column in columns:
        table.add_column(column, no_wrap=column in _WHOLE)
    for row in rows:
        table.add_row(*(_cell(row.get(column)) for column in columns))
    return table


def _cell(value: Any) -> Text:
    if value is None or value == []:
        return Text("-")
    if isinstance(value, list):
        value = ", ".join(str(one) for one in value)
    elif isinstance(value, float):
        value = f"{value:.4g}"
    elif isinstance(value, Mapping):
        value = " ".join(str(one) for one in value.values())
    return Text(plain(str(value)))


def _console() -> Console:
    """On a terminal as wide as that; a file or a pipe has no width, and is better read unbroken."""
    is_wide = not sys.stdout.isatty() and "COLUMNS" not in os.environ
    return Console(highlight=False, width=WIDE if is_wide else None)
