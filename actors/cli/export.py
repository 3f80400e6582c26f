"""`corral export`: plans of runs as training data."""

import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path

import attrs
import click

from actors.results.plan_examples import PlanExample, plan_examples
from actors.results.record import RecordUnreadable
from actors.results.training_export import CARD, ExportFailed, ExportFilter, ExportFormat, export

EXIT_WRONG = 2
DEFAULT_SPLIT = "0.9,0.05,0.05"


@click.command("export")
@click.argument("runs", nargs=-1, required=True, type=click.Path(file_okay=False, path_type=Path))
@click.option("--out", required=True, type=click.Path(path_type=Path), help="The new folder.")
@click.option("--format", "form", type=click.Choice([one.value for one in ExportFormat]), default="chat")
@click.option("--verified", is_flag=True, help="Only plans whose every action was done and seen to have an effect.")
@click.option("--min-score", type=float, help="Only episodes with at least this score.")
@click.option(
    "--outcome", "outcomes", multiple=True, help="Only episodes that ended so, e.g. succeeded; may be repeated."
)
@click.option("--app", "apps", multiple=True, help="Only plans of this app; may be repeated.")
@click.option("--split", default=DEFAULT_SPLIT, show_default=True, help="Shares of training, validation and test.")
@click.option("--json", "as_json", is_flag=True, help="Print what was written as JSON.")
def export_command(
    runs: tuple[Path, ...],
    out: Path,
    form: str,
    verified: bool,
    min_score: float | None,
    outcomes: tuple[str, ...],
    apps: tuple[str, ...],
    split: str,
    as_json: bool,
) -> None:
    """Write the plans of RUNS as training data: prompts exactly as they were served, replies, effects, outcomes.

    \b
    corral export runs/20261130T* --out plans --verified --outcome succeeded
    corral export runs/20261130T* --out plans --format parquet

    Episodes stay together in one split, and stay there when other runs are added.

    Exit code: 0 written, 2 the command line or a record is wrong.
    """  # noqa: D301  # \b is click's mark
    shares = _shares(split)
    kept = ExportFilter(verified, min_score, outcomes, apps)
    try:
        done = export(_examples(runs), out, ExportFormat(form), kept, shares, [run.name for run in runs])
    except (ExportFailed, RecordUnreadable, OSError) as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(EXIT_WRONG)
    if as_json:
        click.echo(json.dumps({**attrs.asdict(done), "folder": str(done.folder)}, default=dict))
        return
    counts = ", ".join(f"{name} {count}" for name, count in done.examples.items())
    click.echo(f"{done.folder}: {counts} plans of {done.episodes} episodes, {done.pictures} pictures; see {CARD}")


def _examples(runs: tuple[Path, ...]) -> Iterator[PlanExample]:
    for run in runs:
        yield from plan_examples(run)


def _shares(text: str) -> tuple[float, ...]:
    try:
        shares = tuple(float(part) for part in text.split(","))
    except ValueError:
        shares = ()
    if len(shares) != 3 or any(not 0 <= share <= 1 for share in shares) or not math.isclose(sum(shares), 1):
        raise click.BadParameter("three shares that sum up to 1, like 0.9,0.05,0.05", param_hint="--split")
    return shares
