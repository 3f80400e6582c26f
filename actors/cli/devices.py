"""`corral devices`: which phones there are, how they are, and who uses them."""

import json
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import click
import trio
from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from actors.assets import read_file
from actors.cli.scenarios import EXIT_INFRASTRUCTURE, EXIT_WRONG, SET, print_problems
from actors.configuration import ScenarioError
from actors.devices.adb.method_memory import MethodMemory, memory_path
from actors.devices_look import DevicesLook, NothingToLookAt, open_look, user_port
from actors.devices_view import READY, DeviceRow, as_json, shown_age, shown_capture, shown_size
from actors.scenario import Scenario, SimulatedPhones, parse_scenario
from runtime.telemetry import configure

EXIT_NOT_WELL = 1
REFRESH_SECONDS = 1.0


@click.command()
@click.argument("file", required=False, metavar="[SCENARIO]", type=click.Path(dir_okay=False, path_type=Path))
@SET
@click.option("--json", "lines", is_flag=True, help="One JSON object a phone and line.")
@click.option("--watch", is_flag=True, help="Go on looking until Ctrl-C.")
@click.option(
    "--every", "every_seconds", default=5.0, show_default=True, type=click.FloatRange(0.2, 3600), help="Seconds."
)
@click.option(
    "--runs",
    default=Path("runs"),
    show_default=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Where run folders are: a phone that a run plays on is told of by that run.",
)
def devices(
    file: Path | None, overrides: dict[str, str], lines: bool, watch: bool, every_seconds: float, runs: Path
) -> None:
    """Show the phones of SCENARIO; without it, those of the user's adb server and of runs that are under way.

    Each is asked for a picture, unless a run plays on it. No foreign adb server is started, ended or changed.

    Exit code: 0 all phones are well, 1 some are not, 2 the scenario is wrong, 3 there is nothing to look at.
    """
    scenario = _load(file, overrides) if file is not None else None
    if file is None and overrides:
        raise click.UsageError("--set changes a scenario: name one")
    configure(json=True, level="error")
    try:
        rows = trio.run(partial(_look, scenario, runs, lines=lines, watch=watch, every_seconds=every_seconds))
    except NothingToLookAt as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(EXIT_INFRASTRUCTURE)
    sys.exit(0 if all(row.is_well for row in rows) else EXIT_NOT_WELL)


def _load(file: Path, overrides: dict[str, str]) -> Scenario:
    try:
        return parse_scenario(read_file(file), str(file), overrides)
    except ScenarioError as error:
        print_problems(error.problems)
        sys.exit(EXIT_WRONG)


async def _look(
    scenario: Scenario | None, runs: Path, *, lines: bool, watch: bool, every_seconds: float
) -> list[DeviceRow]:
    async with open_look(scenario, runs=runs, port=user_port(), memory=MethodMemory(memory_path())) as look:
        if watch and not lines:
            await _watch(look, scenario, every_seconds)
        rows = await look.look()
        _print(rows, scenario, lines=lines)
        while watch:
            await trio.sleep(every_seconds)
            rows = await look.look()
            _print(rows, scenario, lines=lines)
        return rows


async def _watch(look: DevicesLook, scenario: Scenario | None, every_seconds: float) -> None:
    with Live(console=Console(), auto_refresh=False) as live:
        while True:
            rows = await look.look()
            looked_at = trio.current_time()
            while (later := trio.current_time() - looked_at) < every_seconds:
                live.update(_shown(rows, scenario, later_seconds=later), refresh=True)
                await trio.sleep(min(REFRESH_SECONDS, every_seconds - later))


def _print(rows: Sequence[DeviceRow], scenario: Scenario | None, *, lines: bool) -> None:
    if not lines:
        Console().print(_shown(rows, scenario))
        return
    for row in rows:
        click.echo(json.dumps(as_json(row, at=time.time()), ensure_ascii=False))
    sys.stdout.flush()


def _shown(rows: Sequence[DeviceRow], scenario: Scenario | None, *, later_seconds: float = 0.0) -> Group:
    """The table, and below it one line a phone that something must be done about."""
    table = Table(box=None)
    for name in ("phone", "address"):
        table.add_column(name, overflow="fold")  # who it is must be readable whole, however narrow the terminal
    for name in ("state", "model", "size", "capture", "answered", "used by"):
        table.add_column(name)
    for row in rows:
        style = "green" if row.is_well else "yellow"
        if row.state not in (READY, "playing") and row.is_well:
            style = ""
        cells = (
            row.phone or "-",
            row.address,
            Text(row.state, style=style),
            row.model or "-",
            shown_size(row),
            shown_capture(row),
            shown_age(row, later_seconds=later_seconds),
            f"{row.app} in {row.used_by}" if row.used_by else "-",
        )
        table.add_row(*(cell if isinstance(cell, Text) else escape(cell) for cell in cells))
    said = [Text(line) for row in rows if (line := _said(row))]
    if not rows:
        said.append(Text("no phones"))
    if scenario is not None and (hidden := _simulated(scenario)) and not any(row.used_by for row in rows):
        said.append(Text(f"{hidden} simulated phones begin with the run"))
    return Group(table, *said)


def _said(row: DeviceRow) -> str:
    if row.is_well:
        return ""
    why = f"{row.state}: {row.error}" if row.error else row.state
    return f"{row.address}: {why}. {row.advice}" if row.error else f"{row.address}: {why}; {row.advice}"


def _simulated(scenario: Scenario) -> int:
    return sum(group.count for group in scenario.phones if isinstance(group, SimulatedPhones))
