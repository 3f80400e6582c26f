"""`corral bench assistant`: the assistant's server under load, and at rest."""

import sys
from pathlib import Path

import click

from actors.bench.assistant import SAMPLE, AssistantBench, bench_assistant
from actors.cli.bench_output import JSON_FILE, measure

EXIT_NOT_HELD = 1


@click.command()
@click.option("--sessions", default=200, show_default=True, type=click.IntRange(1, 10_000), help="That ask.")
@click.option("--rate", default=20.0, show_default=True, type=click.FloatRange(0.1, 1000), help="Questions a second.")
@click.option("--seconds", default=30.0, show_default=True, type=click.FloatRange(1, 3600))
@click.option("--idle", default=1000, show_default=True, type=click.IntRange(1, 20_000), help="Sessions at rest.")
@click.option("--answering", default=SAMPLE, show_default=True, metavar="MODULE:FUNCTION", help="Opens what answers.")
@JSON_FILE
def assistant(sessions: int, rate: float, seconds: float, idle: int, answering: str, json_file: Path | None) -> None:
    """Time to the event with the decided intent, CPU of a question, and memory of an idle session.

    Exit code: 0 the aims were met, 1 they were not.
    """
    plan = AssistantBench(sessions=sessions, rate=rate, seconds=seconds, idle=idle, answering=answering)
    result = measure("assistant", lambda tell: bench_assistant(plan, tell=tell), json_file)
    sys.exit(0 if result.summary["held"] else EXIT_NOT_HELD)
