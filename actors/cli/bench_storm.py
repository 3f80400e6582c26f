"""`corral bench storm`: a fleet with every kind of fault at random."""

import sys
from pathlib import Path

import click

from actors.bench.storm import bench_storm
from actors.cli.bench_output import JSON_FILE, SEED, measure

EXIT_NOT_HELD = 1


@click.command()
@click.option("--phones", default=64, show_default=True, type=click.IntRange(2, 512), help="Simulated phones.")
@click.option("--seconds", default=600.0, show_default=True, type=click.FloatRange(20, 86400))
@SEED
@JSON_FILE
def storm(phones: int, seconds: float, seed: int, json_file: Path | None) -> None:
    """Every kind of fault at random on three of four phones: what crashes, who loses pace, what is left open.

    Exit code: 0 everything held, 1 something did not.
    """
    result = measure("storm", lambda tell: bench_storm(phones=phones, seconds=seconds, seed=seed, tell=tell), json_file)
    sys.exit(0 if result.summary["held"] else EXIT_NOT_HELD)
