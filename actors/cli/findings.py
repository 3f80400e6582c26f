"""`corral findings`: what goes wrong in runs, grouped over all of them."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
from rich import box
from rich.console import Console
from rich.table import Table

from actors.cli.farm_show import plain
from actors.results.finding_words import FindingState
from actors.results.findings import screens_in, sightings_in
from actors.results.findings_store import (
    FILE,
    Finding,
    Findings,
    FindingsUnreadable,
    load_findings,
    save_findings,
    scanned_run,
)
from actors.results.record import RecordUnreadable
from actors.results.repro import can_reproduce, copy_repro
from actors.results.screens import MAX_SCREENS, coverage_of

EXIT_NOT_FOUND = 1
EXIT_WRONG = 2
RUNS = Path("runs")

STORE = click.option(
    "--store", type=click.Path(dir_okay=False, path_type=Path), default=RUNS / FILE, show_default=True, help="The file."
)
JSON = click.option("--json", "as_json", is_flag=True, help="JSON instead of a table.")


@click.group()
def findings() -> None:
    """Crashes, ANRs, stuck screens, dead buttons, missed criteria and black screens, grouped over all runs."""


@findings.command()
@click.argument("runs", nargs=-1, type=click.Path(exists=True, file_okay=False, path_type=Path))
@STORE
def scan(runs: tuple[Path, ...], store: Path) -> None:
    """Read RUNS, by default every run in ./runs, and add what went wrong in them. A run may be scanned again.

    Exit code: 0 done, 2 a record or the file is wrong.
    """
    with _refusing():
        found = load_findings(store)
        folders = runs or tuple(sorted(path.parent for path in RUNS.glob("*/run.json")))
        before, forgotten = set(found.findings), found.forgotten_screens
        for run in folders:
            screens = found.known_screens()
            found = found.with_run(run.name, scanned_run(run), tuple(sightings_in(run, screens)))
            found = found.with_screens([f"{one:016x}" for one in screens.known])
        store.parent.mkdir(parents=True, exist_ok=True)
        save_findings(store, found)
    new = [one for key, one in found.findings.items() if key not in before]
    click.echo(
        f"{store}: {len(folders)} runs scanned, {len(found.findings)} findings, {len(new)} of them not seen before"
    )
    if found.forgotten_screens > forgotten:
        click.echo(f"more than {MAX_SCREENS} screens: what is dead on those not seen for longest may be found anew")


@findings.command("list")
@click.option("--state", type=click.Choice([state.value for state in FindingState]), help="Only these.")
@STORE
@JSON
def list_command(state: str | None, store: Path, as_json: bool) -> None:
    """Every finding, the latest first."""
    with _refusing():
        found = load_findings(store)
    chosen = sorted(
        (one for one in found.findings.values() if one.counts and state in (None, one.state.value)),
        key=lambda one: (one.last_run, one.count),
        reverse=True,
    )
    if as_json:
        click.echo(json.dumps([_as_json(one, found) for one in chosen], ensure_ascii=False))
        return
    table = Table(box=box.SIMPLE)
    for heading in ("finding", "kind", "app", "what", "state", "times", "runs", "last seen"):
        table.add_column(heading, no_wrap=heading in ("finding", "kind", "last seen"))
    for one in chosen:
        state_words = f"{one.state}{' again' if one.regressed else ''}{', flaky' if found.is_flaky(one) else ''}"
        table.add_row(
            one.signature,
            one.kind,
            one.app,
            plain(one.title),
            state_words,
            str(one.count),
            str(len(one.counts)),
            one.last_run,
        )
    Console(highlight=False, markup=False).print(table)


@findings.command()
@click.argument("finding")
@STORE
@JSON
def show(finding: str, store: Path, as_json: bool) -> None:
    """One FINDING with its examples, by its signature or a beginning of it.

    Exit code: 0 shown, 1 there is none, 2 the file is wrong.
    """
    with _refusing():
        found = load_findings(store)
    one = _found(found, finding)
    if as_json:
        click.echo(json.dumps(_as_json(one, found), ensure_ascii=False))
        return
    flaky = ", flaky" if found.is_flaky(one) else ""
    click.echo(f"{one.signature}  {one.kind} in {one.app}: {plain(one.title)}")
    click.echo(
        f"state {one.state}{flaky}; {one.count} times in {len(one.counts)} runs, {one.first_run} to {one.last_run}"
    )
    if one.note:
        click.echo(f"note: {plain(one.note)}")
    for example in one.examples:
        step = f" step {example.step}" if example.step is not None else ""
        click.echo(f"  {example.run} {example.episode} on {plain(example.phone)}{step}")
        for line in example.excerpt.splitlines()[:12]:
            click.echo(f"    {plain(line)}")


@findings.command()
@click.argument("finding")
@click.argument("state", type=click.Choice([state.value for state in FindingState]))
@STORE
def mark(finding: str, state: str, store: Path) -> None:
    """Say what a FINDING is: new, known, fixed or ignored. A fixed one that is seen in a later run is new again.

    Exit code: 0 done, 1 there is none, 2 the file is wrong.
    """
    with _refusing():
        found = load_findings(store)
        one = _found(found, finding)
        save_findings(store, found.marked(one.signature, FindingState(state)))
    click.echo(f"{one.signature} is {state}")


@findings.command()
@click.argument("finding")
@click.option(
    "--runs", "runs_folder", type=click.Path(file_okay=False, path_type=Path), default=RUNS, show_default=True
)
@click.option("--out", required=True, type=click.Path(path_type=Path), help="The new folder.")
@STORE
def repro(finding: str, runs_folder: Path, out: Path, store: Path) -> None:
    """Write the smallest run folder that shows FINDING: scenario, seed, the one episode with its model outputs.

    `corral replay OUT` decides it again.

    Exit code: 0 written, 1 there is none, 2 the file is wrong, or the run is not there any more.
    """
    with _refusing():
        one = _found(load_findings(store), finding)
        if out.exists():
            raise FindingsUnreadable(f"{out} is there already: name another folder")
        for example in one.examples:
            source = runs_folder / example.run
            if can_reproduce(source, example.episode):
                copy_repro(source, example.episode, out)
                click.echo(f"{out}: {example.episode}; corral replay {out}")
                return
    raise click.ClickException(f"no run in {runs_folder} holds an example of {one.signature} any more")


@findings.command()
@click.argument("run", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--against", type=click.Path(exists=True, file_okay=False, path_type=Path), help="An earlier run.")
@click.option("--app", default="", help="Of one app; default all together.")
@JSON
def coverage(run: Path, against: Path | None, app: str, as_json: bool) -> None:
    """How many distinct screens RUN has seen, how they lead to each other, and what is new since an earlier run.

    Exit code: 0 told, 2 a record is wrong.
    """
    with _refusing():
        seen = coverage_of(screens_in(run, app))
        before = coverage_of(screens_in(against, app)) if against is not None else None
        new = seen.new_since(before) if before is not None else None
        is_whole = seen.is_whole and (before is None or before.is_whole)
    if as_json:
        data: dict[str, Any] = {
            "screens": {f"{screen:016x}": count for screen, count in seen.screens.items()},
            "transitions": [
                {"from": f"{a:016x}", "action": kind, "to": f"{b:016x}", "times": times}
                for (a, kind, b), times in seen.transitions.items()
            ],
            "complete": is_whole,
        }
        if new is not None:
            data["new_screens"] = [f"{screen:016x}" for screen in new[0]]
            data["new_transitions"] = len(new[1])
        click.echo(json.dumps(data))
        return
    click.echo(f"{len(seen.screens)} screens, {len(seen.transitions)} transitions")
    if new is not None:
        click.echo(f"{len(new[0])} screens and {len(new[1])} transitions are new")
    if not is_whole:
        click.echo(f"more than {MAX_SCREENS} screens are not told apart: there are more than are counted here")


def _found(found: Findings, finding: str) -> Finding:
    one = found.found(finding)
    if one is None:
        click.echo(
            f"Error: there is no finding {finding!r}, or several begin so; corral findings list shows all", err=True
        )
        sys.exit(EXIT_NOT_FOUND)
    return one


def _as_json(one: Finding, found: Findings) -> dict[str, Any]:
    return {
        "signature": one.signature,
        "kind": one.kind,
        "app": one.app,
        "title": one.title,
        "state": one.state,
        "regressed": one.regressed,
        "flaky": found.is_flaky(one),
        "note": one.note,
        "count": one.count,
        "runs": dict(one.counts),
        "first_seen": one.first_run if one.counts else None,
        "last_seen": one.last_run if one.counts else None,
        "examples": [
            {"run": e.run, "episode": e.episode, "phone": e.phone, "step": e.step, "excerpt": e.excerpt}
            for e in one.examples
        ],
    }


@contextmanager
def _refusing() -> Iterator[None]:
    try:
        yield
    except (FindingsUnreadable, RecordUnreadable, OSError) as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(EXIT_WRONG)
