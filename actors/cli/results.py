"""`corral report` and `corral replay`."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from actors.results.record import RecordUnreadable
from actors.results.replay import Replay, episode_folders, episodes_without_record, replay_episode
from actors.results.report import write_report

EXIT_DIFFERENT = 1
EXIT_WRONG = 2

RUN = click.argument("folder", type=click.Path(file_okay=False, path_type=Path))


@click.command()
@RUN
def report(folder: Path) -> None:
    """Build the report of the run FOLDER again, also of one that was cut short."""
    with _refusing():
        written = write_report(folder)
    click.echo(str(written.html))


@click.command()
@RUN
@click.argument("episode", required=False, metavar="[EPISODE|PHONE]")
@click.option("--pixels", is_flag=True, help="Run perception again too; needs a run with record.pixels = true.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object an episode.")
def replay(folder: Path, episode: str | None, pixels: bool, as_json: bool) -> None:
    """Decide every step of the run FOLDER again, of one EPISODE, of one PHONE or of all, and compare.

    Exit code: 0 every decision was the same, 1 some was not, 2 the record cannot be read.
    """
    is_same = True
    with _refusing():
        paths = episode_folders(folder, episode)
        lost = episodes_without_record(folder) if episode is None else []
    for path in paths:
        with _refusing():
            played = replay_episode(path, pixels=pixels)
        is_same = is_same and not played.differences
        click.echo(json.dumps(_as_json(played)) if as_json else _as_text(played))
    for path in lost:
        click.echo(f"Error: {path}: it has no steps.jsonl, so it cannot be replayed", err=True)
    sys.exit(EXIT_WRONG if lost else 0 if is_same else EXIT_DIFFERENT)


@contextmanager
def _refusing() -> Iterator[None]:
    """Around reading and writing of a run, never around printing: a closed pipe is no fault of the run's."""
    try:
        yield
    except (RecordUnreadable, OSError) as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(EXIT_WRONG)


def _as_json(played: Replay) -> dict[str, object]:
    return {
        "episode": played.episode,
        "steps": played.steps,
        "same": not played.differences,
        "differences": list(played.differences),
        "perceived": played.perceived,
        "score": played.score,
        "ended": played.ended,
    }


def _as_text(played: Replay) -> str:
    verdict = "same decisions" if not played.differences else "DIFFERENT: " + "; ".join(played.differences)
    seen = f", perception run again on {played.perceived} frames" if played.perceived else ""
    cut = "" if played.ended else " (the record was cut short)"
    return f"{played.episode}: {played.steps} steps{seen}{cut}: {verdict}"
