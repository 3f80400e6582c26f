"""What the commands of `corral bench` share: options, progress, the table, and how failures are told."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from actors.bench.engines import BenchUnavailable
from actors.bench.phones import PhonesUnavailable
from actors.bench.result import BenchResult, Tell
from actors.configuration import ScenarioError
from runtime.collector import collect_rarely
from runtime.telemetry import configure

EXIT_WRONG = 2
EXIT_INFRASTRUCTURE = 3
MOST_COLUMNS = 6  # of numbers, in 80 characters

JSON_FILE = click.option(
    "--json", "json_file", type=click.Path(dir_okay=False, path_type=Path), help="Write everything measured here."
)
SEED = click.option("--seed", default=1, show_default=True, type=click.IntRange(0, 2**31 - 1))


def measure(name: str, run: Callable[[Tell], BenchResult], json_file: Path | None) -> BenchResult:
    """Run a benchmark, print its table, and write its file; ends the process with 2 or 3 where it cannot be done."""
    configure(json=True, level="error")
    collect_rarely()  # as `corral run` does
    try:
        with _progress(name) as tell:
            result = run(tell)
        _print(result)
        if json_file is not None:
            result.write(json_file)
            click.echo(str(json_file))
        return result
    except ScenarioError as error:
        for problem in error.problems:
            click.echo(f"Error: {problem}", err=True)
        sys.exit(EXIT_WRONG)
    except (PhonesUnavailable, BenchUnavailable) as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(EXIT_INFRASTRUCTURE)
    except OSError as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(EXIT_WRONG)


@contextmanager
def _progress(name: str) -> Iterator[Tell]:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:>3.0f} %"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(name, total=1.0)
        yield lambda what, share: progress.update(task, completed=share, description=f"{name}: {what}")


def _print(result: BenchResult) -> None:
    console = Console(highlight=False)
    groups = {name: value for name, value in result.summary.items() if isinstance(value, dict)}
    single = {name: value for name, value in result.summary.items() if name not in groups}
    if groups:
        keys = list(dict.fromkeys(key for group in groups.values() for key in group))
        if len(keys) > MOST_COLUMNS >= len(groups):  # more numbers than a line has room for: one a line
            table = Table("", *groups, box=None, header_style="bold")
            for key in keys:
                told = (_shown(group[key]) if key in group else "" for group in groups.values())
                table.add_row(key.replace("_", " "), *told)
        else:
            table = Table("", *(key.replace("_", " ") for key in keys), box=None, header_style="bold")
            for name, group in groups.items():
                table.add_row(name, *(_shown(group[key]) if key in group else "" for key in keys))
        console.print(table)
    table = Table("", result.name, box=None, header_style="bold")
    for name, value in single.items():
        table.add_row(name.replace("_", " "), _shown(value))
    console.print(table)
    for note in result.notes:
        console.print(note, style="dim", markup=False)


def _shown(value: Any) -> str:
    """For a cell; a text may be an engine's own words, which neither style nor steer the terminal."""
    match value:
        case None:
            return "not found"
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:.4g}" if abs(value) < 1000 else f"{value:.0f}"
        case _:
            return escape("".join(char if char.isprintable() else ascii(char)[1:-1] for char in str(value)))
