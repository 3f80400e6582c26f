"""`corral bench soak`: a farm over half an hour, killed at random moments."""

import sys
from pathlib import Path

import click

from actors.bench.soak import bench_soak
from actors.cli.bench_output import JSON_FILE, SEED, measure

EXIT_NOT_HELD = 1


@click.command()
@click.option("--minutes", default=30.0, show_default=True, type=click.FloatRange(5, 10_000))
@click.option("--kills", default=5, show_default=True, type=click.IntRange(0, 100), help="SIGKILLs in the first third.")
@click.option(
    "--folder", type=click.Path(file_okay=False, path_type=Path), help="Of the farm, kept; else a temporary one."
)
@SEED
@JSON_FILE
def soak(minutes: float, kills: int, folder: Path | None, seed: int, json_file: Path | None) -> None:
    """Runs without a pause on a farm whose daemon is killed at random: each must end exactly once, with its results.

    Exit code: 0 everything held, 1 something did not.
    """
    result = measure(
        "soak",
        lambda tell: bench_soak(minutes=minutes, kills=kills, seed=seed, tell=tell, folder=folder),
        json_file,
    )
    sys.exit(0 if result.summary["held"] else EXIT_NOT_HELD)
