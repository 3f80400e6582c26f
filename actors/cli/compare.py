"""`corral compare`: one scenario played two ways."""

import shlex
import sys
from pathlib import Path

import click

from actors.assets import read_file
from actors.bench.engines import BenchUnavailable
from actors.bench.result import BenchResult, Tell
from actors.cli.bench_output import JSON_FILE, measure
from actors.compare import CompareError, compare, side_for
from actors.fleet import FleetError


@click.command("compare")
@click.argument("first", metavar="A")
@click.argument("other", metavar="B")
@click.argument("file", metavar="SCENARIO", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--rounds", default=5, show_default=True, type=click.IntRange(1, 10_000), help="Each plays both ways.")
@click.option(
    "--out",
    default=Path("runs"),
    show_default=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Run folders are made in here.",
)
@JSON_FILE
def compare_command(first: str, other: str, file: Path, rounds: int, out: Path, json_file: Path | None) -> None:
    """Play SCENARIO as A and as B by turns, on the same phones with the same seeds, and tell which is better.

    A and B are each one of: the id of an engine of the scenario; the URL of an engine, http://host:port or
    http://host:port#MODEL; or values of the scenario, KEY=VALUE, several joined by commas.

    Told for each: how often it succeeds (Wilson's interval), its score, its plans' latency and tokens (bootstrap), the
    paired differences, and how many episodes would tell such differences from chance.

    \b
    corral compare engine-8b engine-4b scenarios/mine.toml --rounds 20
    corral compare planner.profile=compact planner.profile=qwen3-vl scenarios/mine.toml --json compared.json
    corral compare planner.overlap=true planner.overlap=false scenarios/quickstart.toml --rounds 3
    """  # noqa: D301  # \b is click's mark

    def run(tell: Tell) -> BenchResult:
        sides = (side_for(first, file), side_for(other, file))
        command = "corral " + shlex.join(sys.argv[1:])
        try:
            return compare(sides, rounds, out, command, read_file(file), tell=tell)
        except (CompareError, FleetError) as error:
            raise BenchUnavailable(str(error)) from error

    measure("compare", run, json_file)
