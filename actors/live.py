"""The live view in a terminal: one line a phone, totals below."""

import io
import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import attrs
import trio
from rich import box
from rich.cells import cell_len
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from actors.fleet import Fleet
from actors.phone_status import PhoneStatus, statuses
from inference.pool import PoolStatistics
from runtime.telemetry import emit

REFRESH_SECONDS = 0.5
SVG_SECONDS = 5.0
SVG_COLUMNS = 165
CELL_PADDING = 3  # characters that a column costs beside its content: a line and a space on either side
READY = "ready"
NAMED_PHONES = 4  # in one line of what to do
LINE_SECONDS = 5.0  # headless: one JSON line of progress this often

_STATE_STYLES = {
    "playing": "green",
    "lost": "yellow",
    "unauthorized": "bold magenta",
    "needs_human": "bold magenta",
    "quarantined": "red",
    "done": "dim",
}
_OUTCOME_STYLES = {"succeeded": "bold green", "failed": "red", "quarantined": "bold red", "cancelled": "yellow"}


@attrs.frozen
class _Column:
    name: str
    cell: Callable[[PhoneStatus], str]
    rank: int
    """Which is left out first where there is no room: the highest. 0 always stays."""
    justify: Literal["left", "right"] = "left"
    most: int | None = None
    """Cells beyond this are cut; None: shown whole."""


_COLUMNS = (
    _Column("phone", lambda row: row.phone, 0),
    _Column("app", lambda row: row.app, 2),
    _Column("state", lambda row: row.outcome or row.state, 0),
    _Column("connection", lambda row: row.connection or "-", 3),
    _Column("step", lambda row: str(row.step), 0, "right"),
    _Column("score", lambda row: _number(row.score), 0, "right"),
    _Column("last action", lambda row: row.action, 1, most=18),
    _Column("why", lambda row: row.why, 9, most=24),
    _Column("capture", lambda row: _milliseconds(row.capture_ms), 8, "right"),
    _Column("plan", lambda row: _milliseconds(row.plan_ms), 7, "right"),
    _Column("stale", lambda row: str(row.stale), 5, "right"),
    _Column("no effect", lambda row: str(row.no_effect), 4, "right"),
    _Column("stall", lambda row: f"{row.stall:.0%}", 6, "right"),
)


def columns_for(rows: Sequence[PhoneStatus], width: int) -> list[str]:
    """The columns that a terminal of `width` characters has room for; phone, state, step and score always."""
    shown = [column for column in _COLUMNS if column.rank == 0]
    for column in sorted(_COLUMNS, key=lambda column: column.rank):
        if column.rank > 0:
            if _room_for([*shown, column], rows) > width:
                break
            shown.append(column)
    return [column.name for column in _COLUMNS if column in shown]


def _room_for(columns: Sequence[_Column], rows: Sequence[PhoneStatus]) -> int:
    return sum(_width_of(column, rows) for column in columns) + CELL_PADDING * len(columns) + 1


def _width_of(column: _Column, rows: Sequence[PhoneStatus]) -> int:
    widest = max([len(column.name), *(cell_len(column.cell(row)) for row in rows)])
    return widest if column.most is None else min(widest, column.most)


def table_for(rows: Sequence[PhoneStatus], width: int, encoding: str = "utf-8") -> Table:
    """One line a phone.

    Args:
        rows: What to show.
        width: The terminal's, in characters: columns that do not fit whole are left out.
        encoding: The terminal's: what it cannot hold is shown as `?`.
    """
    names = columns_for(rows, width)
    columns = [column for column in _COLUMNS if column.name in names]
    is_tight = _room_for(columns, rows) > width  # then lines between columns are a luxury, and a phone's id is folded
    is_wide = is_unicode(encoding)
    edge = box.HEAVY_HEAD if is_wide else box.ASCII
    table = Table(expand=True, pad_edge=False, header_style="bold", box=None if is_tight else edge)
    table.collapse_padding = is_tight
    for column in columns:
        if column.name == "phone" and is_tight:
            table.add_column(column.name, overflow="fold")
        else:
            least = _width_of(column, rows) if column.most is None else None
            cut: Literal["ellipsis", "crop"] = "ellipsis" if is_wide else "crop"
            table.add_column(column.name, justify=column.justify, no_wrap=True, overflow=cut, min_width=least)
    for row in rows:
        style = _OUTCOME_STYLES.get(row.outcome) or _STATE_STYLES.get(row.state, "")
        table.add_row(
            *(
                Text(_clean(column.cell(row), encoding), style=style if column.name == "state" else "")
                for column in columns
            )
        )
    return table


def is_unicode(encoding: str) -> bool:
    """Whether a terminal of this encoding can show every character, as far as it says."""
    return encoding.lower().startswith("utf")


def _clean(text: str, encoding: str) -> str:
    """Words of phones and models as the terminal can show them: no escape sequences, nothing it cannot encode."""
    printable = "".join(char if char.isprintable() else " " for char in text)
    return printable.encode(encoding, "replace").decode(encoding)


def totals_for(rows: Sequence[PhoneStatus], pool: PoolStatistics, seconds: float) -> Text:
    """One line below the table."""
    playing = sum(row.state == "playing" and not row.outcome for row in rows)
    steps = sum(row.step for row in rows)
    engines = "  ".join(f"{engine.id} {engine.in_flight} in flight, {engine.homed} homed" for engine in pool.engines)
    pace = f"{steps / seconds:.1f}/s" if seconds > 0 else "-"
    head = f"{seconds:4.0f} s   {playing} playing   {steps} steps ({pace})   {pool.completed} plans"
    return Text(f"{head}   {engines or 'no engine'}")


def render(
    rows: Sequence[PhoneStatus],
    pool: PoolStatistics,
    seconds: float,
    title: str,
    *,
    width: int,
    encoding: str = "utf-8",
) -> Group:
    """The whole view, for a terminal of this width and encoding."""
    table = table_for(rows, width, encoding)
    table.title = Text(_clean(title, encoding))
    return Group(table, totals_for(rows, pool, seconds), *(Text(_clean(line, encoding)) for line in troubles_in(rows)))


def troubles_in(rows: Sequence[PhoneStatus]) -> list[str]:
    """What a narrow terminal has no column for: connections that are not ready, and what to do about phones."""
    playing = [row for row in rows if not row.outcome]
    counted = Counter(row.connection for row in playing if row.connection not in ("", READY))
    lines = ["connections: " + ", ".join(f"{count} {name}" for name, count in sorted(counted.items()))] * bool(counted)
    for remedy in dict.fromkeys(row.remedy for row in playing if row.remedy):
        phones = [row.phone for row in playing if row.remedy == remedy]
        more = f" and {len(phones) - NAMED_PHONES} more" if len(phones) > NAMED_PHONES else ""
        lines.append(f"{', '.join(phones[:NAMED_PHONES])}{more}: {remedy}")
    return lines


async def show_live(fleet: Fleet, console: Console) -> None:
    """Redraw until cancelled."""
    started = trio.current_time()
    title = f"{fleet.scenario.name}  {fleet.run_id}"

    def drawn() -> Group:
        return render(
            statuses(fleet),
            fleet.pool.statistics(),
            trio.current_time() - started,
            title,
            width=console.width,
            encoding=console.encoding,
        )

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
            seconds = trio.current_time() - started
            view = render(rows, fleet.pool.statistics(), seconds, fleet.scenario.name, width=SVG_COLUMNS)
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
    return "-" if value is None or math.isnan(value) else f"{value:.9g}"  # a score of 1234567 is shown as that


def _milliseconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f} ms"
