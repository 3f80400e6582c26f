"""`corral rules`: try a rule file on recorded frames."""

import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path

import click
import cv2
from rich.console import Console
from rich.table import Column, Table

from actors.assets import load_rules, load_slow
from actors.authoring.annotate import annotated
from actors.authoring.frames import StoredFrame, frames_in
from actors.authoring.trial import Trial, TriedFrame, trial_for, try_frames
from actors.cli.scenarios import EXIT_WRONG, print_problems
from actors.configuration import ScenarioError
from actors.recorder import write_whole
from policies.perception import compile_probes
from policies.probes import Probe

SHOWN_LABELS = 4  # frames named in the table; --json has all


@click.group()
def rules() -> None:
    """Rule files: what System 1 looks at, and what it does."""


@rules.command("test")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--on",
    "targets",
    required=True,
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="RUN|PICTURE|FOLDER",
    help="Frames to try the rules on; more may follow.",
)
@click.argument("more", nargs=-1, type=click.Path(path_type=Path))
@click.option("--app", help="Of a run with several apps, only this one's frames.")
@click.option("--json", "as_json", is_flag=True, help="The report as JSON, with every frame on which a rule fires.")
@click.option("--show", type=click.Path(file_okay=False, path_type=Path), help="Write each frame with what was seen.")
def test_rules(
    file: Path, targets: tuple[Path, ...], more: tuple[Path, ...], app: str | None, as_json: bool, show: Path | None
) -> None:
    """Try the rule FILE on frames: hits, misses, scores and milliseconds of each probe; when each rule would fire.

    Of a run folder the best copy of each frame is taken: PNGs where it recorded pixels, else the JPEGs that a model
    was shown, else those of the filmstrip.
    """
    try:
        loaded, pictures = load_rules(file)
        slow = load_slow(loaded, file)
        frames: list[StoredFrame] = []
        for target in (*targets, *more):
            frames += frames_in(target)
        frames = _of_one_app(frames, app)
        tried = []
        for number, frame in enumerate(try_frames(loaded, compile_probes(loaded.probes, pictures), slow, frames)):
            if show is not None:
                _write(show, number, frame, loaded.probes)
            tried.append(frame.without_pixels())
    except ScenarioError as error:
        print_problems(error.problems)
        sys.exit(EXIT_WRONG)
    except OSError as error:
        click.echo(f"Error: {show} cannot be written: {error.strerror or error}", err=True)
        sys.exit(EXIT_WRONG)
    trial = trial_for(loaded, tried)
    if as_json:
        click.echo(json.dumps(trial.as_json(), indent=1, ensure_ascii=False))
    else:
        _print(trial)


def _of_one_app(frames: list[StoredFrame], app: str | None) -> list[StoredFrame]:
    """Frames of the named app, and those that are of no run; a warning where several apps are judged by one file."""
    apps = sorted({frame.app for frame in frames} - {""})
    if app is None:
        if len(apps) > 1:
            click.echo(f"Warning: frames of several apps: {', '.join(apps)}; choose one with --app", err=True)
        return frames
    if app not in apps:
        raise click.BadParameter(f"no frame is of {app!r}; there are: {', '.join(apps) or 'none'}", param_hint="--app")
    return [frame for frame in frames if frame.app in {app, ""}]


def _write(folder: Path, number: int, frame: TriedFrame, probes: Mapping[str, Probe]) -> None:
    assert frame.frame is not None
    picture = annotated(frame.frame, probes, frame.percept, frame.fired)
    ok, png = cv2.imencode(".png", picture)
    assert ok, "a frame is never empty"
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", frame.stored.label.removesuffix(frame.stored.path.suffix))
    write_whole(folder / f"{number:05d}-{name}.png", png.tobytes())


def _print(trial: Trial) -> None:
    console = Console()
    copies = ", ".join(f"{count} {copy}" for copy, count in trial.copies.items())
    console.print(f"{trial.frames} frames ({copies})", highlight=False)
    probes = Table(
        Column("probe", no_wrap=True),
        "kind",
        *(_right(n) for n in ("hits", "misses", "min", "median", "max", "ms p50", "p95")),
    )
    for probe in trial.probes:
        values = (probe.value_min, probe.value_median, probe.value_max)
        shown = ["-" if value is None else f"{value:g}" for value in values]
        times = (f"{probe.ms_p50:.2f}", f"{probe.ms_p95:.2f}")
        probes.add_row(probe.name, probe.kind, str(probe.hits), str(probe.misses), *shown, *times)
    console.print(probes)
    fires = Table("rule", _right("holds on"), _right("fires on"), Column("frames", overflow="fold"))
    for rule in trial.rules:
        labels = ", ".join(rule.fired[:SHOWN_LABELS])
        rest = len(rule.fired) - SHOWN_LABELS
        fires.add_row(
            rule.name, str(rule.matched), str(len(rule.fired)), f"{labels}, {rest} more" if rest > 0 else labels
        )
    if trial.rules:
        console.print(fires)


def _right(name: str) -> Column:
    return Column(name, justify="right")
