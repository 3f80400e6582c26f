"""`corral bench wall`: what a wall of viewers costs the phones that they look at."""

import sys
from pathlib import Path

import click

from actors.bench.wall import bench_wall
from actors.bench.wall_result import WallPlan
from actors.cli.bench_output import JSON_FILE, measure

EXIT_NOT_HELD = 1


@click.command()
@click.option("--pairs", default=5, show_default=True, type=click.IntRange(2, 1000), help="With viewers and without.")
@click.option("--seconds", default=60.0, show_default=True, type=click.FloatRange(2), help="Of each half of a pair.")
@click.option("--phones", default=100, show_default=True, type=click.IntRange(1, 1000), help="In one process.")
@click.option("--viewers", default=3, show_default=True, type=click.IntRange(1, 50), help="Each watches all phones.")
@JSON_FILE
def wall(pairs: int, seconds: float, phones: int, viewers: int, json_file: Path | None) -> None:
    """Steps that phones miss while viewers watch them all at a picture a second, against none, in alternating pairs.

    Exit code: 0 viewers cost less than 3 percentage points, 1 they may cost more, or too few pictures came.
    """
    plan = WallPlan(pairs, seconds, phones, viewers)
    result = measure("wall", lambda tell: bench_wall(plan, tell=tell), json_file)
    sys.exit(0 if result.summary["held"] else EXIT_NOT_HELD)
