"""The live view in a terminal: one line a phone, totals below."""

import io
import math
import re
from collections.abc import Sequence
from pathlib import Path

import trio
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from actors.fleet import Fleet, PhoneStatus, statuses
from inference.pool import PoolStatistics
from runtime.telemetry import emit

REFRESH_SECONDS = 0.5
SVG_SECONDS = 5.0
SVG_COLUMNS = 150
LINE_SECONDS = 5.0  # headless: one JSON line of progress this often

_STATE_STYLES = {
    "playing": "green",
    "lost": "yellow",
    "needs_human": "bold magenta",
    "quarantined": "red",
    "done": "dim",
}
_OUTCOME_STYLES = {"succeeded": "bold green", "failed": "red", "quarantined": "bold red", "cancelled": "yellow"}


def table_for(rows: Sequence[PhoneStatus]) -> Table:
    """One line a phone."""
    table = Table(expand=True, pad_edge=False, header_style="bold")
    for name, justify in (
        ("phone", "left"),
        ("app", "left"),
        ("state", "left"),
        ("step", "right"),
        ("score", "right"),
        ("last action", "left"),
        ("why", "left"),
        ("capture", "right"),
        ("plan", "right"),
        ("stale", "right"),
        ("no effect", "right"),
        ("stall", "right"),
    ):
        table.add_column(name, justify=justify, no_wrap=True, overflow="ellipsis")  # type: ignore[arg-type]
    for row in rows:
        state = row.outcome or row.state
        style = _OUTCOME_STYLES.get(row.outcome) or _STATE_STYLES.get(row.state, "")
        table.add_row(
            row.phone,
            row.app,
            Text(state, style=style),
            str(row.step),
            _number(row.score),
            row.action,
            row.why,
            _milliseconds(row.capture_ms),
            _milliseconds(row.plan_ms),
            str(row.stale),
            str(row.no_effect),
            f"{row.stall:.0%}",
        )
    return table


def totals_for(rows: Sequence[PhoneStatus], pool: PoolStatistics, seconds: float) -> Text:
    """One line below the table."""
    playing = sum(row.state == "playing" and not row.outcome for row in rows)
    steps = sum(row.step for row in rows)
    engines = "  ".join(f"{engine.id} {engine.in_flight} in flight, {engine.homed} homed" for engine in pool.engines)
    pace = f"{steps / seconds:.1f}/s" if seconds > 0 else "-"
    head = f"{seconds:4.0f} s   {playing} playing   {steps} steps ({pace})   {pool.completed} plans"
    return Text(f"{head}   {engines or 'no engine'}")


def render(rows: Sequence[PhoneStatus], pool: PoolStatistics, seconds: float, title: str) -> Group:
    """The whole view."""
    table = table_for(rows)
    table.title = title
    return Group(table, totals_for(rows, pool, seconds))


async def show_live(fleet: Fleet, console: Console) -> None:
    """Redraw until cancelled."""
    started = trio.current_time()
    title = f"{fleet.scenario.name}  {fleet.run_id}"

    def drawn() -> Group:
        return render(statuses(fleet), fleet.pool.statistics(), trio.current_time() - started, title)

    with Live(drawn(), console=console, auto_refresh=False, transient=False) as live:
        try:
            while True:
                live.update(drawn(), refresh=True)
                await trio.sleep(REFRESH_SECONDS)
        finally:
            live.update(drawn(), refresh=True)


async def save_view(fleet: Fleet, path: Path) -> None:
    """Keep a picture of the live view in a file, as SVG, until cancelled; its last state is one with phones playing."""
    started = trio.current_time()
    while True:
        await trio.sleep(SVG_SECONDS)
        rows = statuses(fleet)
        if any(row.state == "playing" and not row.outcome for row in rows):
            view = render(rows, fleet.pool.statistics(), trio.current_time() - started, fleet.scenario.name)
            await trio.Path(path).write_text(svg_for(view, fleet.scenario.name), encoding="utf-8")


def svg_for(view: Group, title: str) -> str:
    """The view as an SVG picture of a terminal."""
    console = Console(record=True, width=SVG_COLUMNS, file=io.StringIO(), force_terminal=True)
    console.print(view)
    # rich would have a browser fetch a font from elsewhere; any monospace font will do
    return re.sub(r"@font-face \{.*?\}\s*", "", console.export_svg(title=f"corral run {title}"), flags=re.DOTALL)


async def log_progress(fleet: Fleet) -> None:
    """Headless: one event now and then, until cancelled."""
    while True:
        await trio.sleep(LINE_SECONDS)
        rows = statuses(fleet)
        scores = {row.phone: row.score for row in rows if row.score is not None and not math.isnan(row.score)}
        emit(
            "actors.run.progressed",
            playing=sum(row.state == "playing" and not row.outcome for row in rows),
            phones=len(rows),
            steps=sum(row.step for row in rows),
            stale=sum(row.stale for row in rows),
            no_effect=sum(row.no_effect for row in rows),
            scores=scores,
        )


def _number(value: float | None) -> str:
    return "-" if value is None or math.isnan(value) else f"{value:g}"


def _milliseconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f} ms"
