"""`corral run` and `corral check`."""

import os
import sys
from functools import partial
from pathlib import Path

import attrs
import click
import trio
from rich.console import Console

from actors.accounts import environment_problems
from actors.assets import AppAssets, load_assets, read_file
from actors.cli.engine_rehearsal import argument_problems
from actors.configuration import Problem, ScenarioError, line_of
from actors.fleet import Fleet, FleetError
from actors.live import log_progress, save_view, show_live
from actors.pace import pace_warnings
from actors.profiles.checks import profile_warnings
from actors.rehearsal.phone.faults import parse_faults
from actors.results.summary import exit_code_for, failed_by_infrastructure
from actors.run import RunResult, run_scenario
from actors.scenario import Scenario, parse_scenario, warnings_for
from actors.vendor import Vendor
from actors.vendor_config import parse_farm
from inference.config import LaunchKind, launch_of
from runtime.collector import collect_rarely
from runtime.ids import is_legal_id
from runtime.telemetry import configure

EXIT_WRONG = 2
EXIT_INFRASTRUCTURE = 3
MAX_RUN_ID = 40  # episodes' ids begin with it, and have 96 characters


def parse_overrides(_context: click.Context, _parameter: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    """`a.b=c` options as a mapping."""
    overrides = {}
    for text in given:
        path, equals, value = text.partition("=")
        if not equals or not path:
            raise click.BadParameter(f"{text!r} is not like limits.seconds=30")
        overrides[path] = value
    return overrides


def _legal_run_id(_context: click.Context, _parameter: click.Parameter, given: str | None) -> str | None:
    if given is not None and not (is_legal_id(given) and len(given) <= MAX_RUN_ID):
        raise click.BadParameter(f"{given!r} must be letters, digits, dot, dash, underscore; up to {MAX_RUN_ID}")
    return given


SCENARIO = click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
SET = click.option(
    "--set",
    "overrides",
    multiple=True,
    callback=parse_overrides,
    metavar="KEY=VALUE",
    help="Replace one value of the scenario, e.g. --set limits.seconds=30. May be given again.",
)


def load(file: Path, overrides: dict[str, str]) -> tuple[Scenario, dict[str, AppAssets], bytes]:
    """A scenario and its files; prints every mistake and exits with 2 if there is one."""
    try:
        source = read_file(file)
        scenario = parse_scenario(source, str(file), overrides)
        _check_rehearsals(scenario, source, file)
        assets = dict(load_assets(scenario, file.parent))
    except ScenarioError as error:
        print_problems(error.problems)
        sys.exit(EXIT_WRONG)
    return scenario, assets, source


def _check_rehearsals(scenario: Scenario, source: bytes, file: Path) -> None:
    lines = source.decode("utf-8-sig").splitlines()
    found = []
    for index, engine in enumerate(scenario.engines):
        launch = launch_of(engine)
        if launch is None or launch.kind is not LaunchKind.REHEARSAL:
            continue
        at = f"$.engines[{index}].launch.args"
        found += [Problem(text, at, str(file), line_of(lines, at)) for text in argument_problems(launch.args)]
    if found:
        raise ScenarioError(found)


def print_problems(problems: tuple[Problem, ...]) -> None:
    """One line each, to standard error."""
    for problem in problems:
        click.echo(f"Error: {problem}", err=True)


def print_warnings(scenario: Scenario, file: Path) -> None:
    """One line each, to standard error."""
    for message, path in warnings_for(scenario):
        click.echo(f"Warning: {Problem(message, path, str(file))}", err=True)


@click.command()
@SCENARIO
@SET
@click.option(
    "--out",
    default=Path("runs"),
    show_default=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="The run folder is made in here.",
)
@click.option(
    "--faults",
    "faults_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="TOML file of [[faults]] for the simulated phones: a rehearsal of bad days.",
)
@click.option(
    "--farm",
    "farm_file",
    envvar="CORRAL_FARM",
    type=click.Path(dir_okay=False, path_type=Path),
    help="TOML file of the farm: commands that acquire, reboot and release its phones. Also $CORRAL_FARM.",
)
@click.option("--headless", is_flag=True, help="JSON lines instead of the live view; the default without a terminal.")
@click.option(
    "--view-svg",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Keep a picture of the live view in this SVG file.",
)
@click.option("--run-id", callback=_legal_run_id, hidden=True, help="Name of the run; corral farm gives each its own.")
@click.option(
    "--engines-door",
    "door",
    type=click.Path(path_type=Path),
    hidden=True,
    help="Socket where the farm serves its engines.",
)
@click.option(
    "--log-level", default="info", show_default=True, type=click.Choice(["debug", "info", "warning", "error"])
)
def run(
    file: Path,
    overrides: dict[str, str],
    out: Path,
    faults_file: Path | None,
    farm_file: Path | None,
    headless: bool,
    view_svg: Path | None,
    run_id: str | None,
    door: Path | None,
    log_level: str,
) -> None:
    """Play the scenario FILE and write a report.

    Exit code: 0 all episodes succeeded, 1 some did not, 2 the scenario or the command line is wrong, 3 there was no
    engine, no adb or no phone.
    """
    if view_svg is not None and not os.access(view_svg.parent, os.W_OK | os.X_OK):
        raise click.BadParameter(f"{view_svg.parent} is no folder that can be written", param_hint="--view-svg")
    scenario, assets, source = load(file, overrides)
    if faults_file is not None:
        scenario = _with_faults(scenario, faults_file)
    vendor = _vendor_of(farm_file) if farm_file is not None else None
    print_warnings(scenario, file)
    console = Console()
    live = console.is_terminal and not headless
    configure(json=not live, level="warning" if live and log_level == "info" else log_level)
    view = partial(_view, console=console if live else None, svg=view_svg)
    collect_rarely()
    try:
        result = trio.run(
            partial(
                run_scenario,
                scenario,
                assets,
                source=source,
                out=out,
                view=view,
                vendor=vendor,
                warehouse_folder=out / "warehouse",
                run_id=run_id,
                door=door,
            )
        )
    except ScenarioError as error:
        print_problems(error.problems)
        sys.exit(EXIT_WRONG)
    except FleetError as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(EXIT_INFRASTRUCTURE)
    except OSError as error:
        click.echo(f"Error: the run folder cannot be written: {error}", err=True)
        sys.exit(EXIT_INFRASTRUCTURE)
    sys.exit(_conclude(result))


def _with_faults(scenario: Scenario, file: Path) -> Scenario:
    try:
        return scenario.with_faults(parse_faults(read_file(file), str(file), count=scenario.simulated_count))
    except ScenarioError as error:
        print_problems(error.problems)
        sys.exit(EXIT_WRONG)


def _vendor_of(file: Path) -> Vendor:
    try:
        return Vendor(parse_farm(read_file(file), str(file)))
    except ScenarioError as error:
        print_problems(error.problems)
        sys.exit(EXIT_WRONG)


async def _view(fleet: Fleet, console: Console | None, svg: Path | None) -> None:
    async with trio.open_nursery() as nursery:
        if svg is not None:
            nursery.start_soon(save_view, fleet, svg)
        if console is not None:
            nursery.start_soon(show_live, fleet, console)
        else:
            nursery.start_soon(log_progress, fleet)


def _conclude(result: RunResult) -> int:
    if result.recorder_failure is not None:
        click.echo(f"Warning: the record is incomplete: {result.recorder_failure}", err=True)
    kept = result.warehouse
    if kept is not None and kept.lost:
        click.echo(
            f"Warning: {kept.lost} rows of the fleet's own metrics were lost; the table losses says why", err=True
        )
    if kept is not None and kept.failure is not None:
        message = f"the run's metrics are not published: {kept.failure}; try: corral warehouse load {kept.folder}"
        click.echo(f"Warning: {message}", err=True)
    for summary in result.summaries:
        score = "-" if summary.score is None else f"{summary.score:g}"
        click.echo(f"{summary.outcome.value:<11} {summary.phone:<16} {summary.app:<10} {score:>6}  {summary.reason}")
    if result.report is None:
        message = f"the report cannot be written: {result.report_failure}; try: corral report {result.folder}"
        click.echo(f"Error: {message}", err=True)
        return EXIT_INFRASTRUCTURE
    if result.failure is not None:
        click.echo(f"Error: the fleet broke down while it played: {result.failure}", err=True)
    click.echo(str(result.report.html))
    if result.failure is not None or failed_by_infrastructure(result.summaries):
        return EXIT_INFRASTRUCTURE
    return exit_code_for(result.summaries)


@click.command()
@SCENARIO
@SET
def check(file: Path, overrides: dict[str, str]) -> None:
    """Check the scenario FILE and every file that it names; print all mistakes at once.

    A secret that is not in the environment is a warning here: a scenario can be checked where it is not played.
    """
    scenario, assets, _ = load(file, overrides)
    print_warnings(scenario, file)
    for problem in environment_problems(scenario):
        click.echo(f"Warning: {attrs.evolve(problem, file=str(file))}", err=True)
    for name, profile in {one.profile.name: one.profile for one in assets.values()}.items():
        for message, path in profile_warnings(profile):
            click.echo(f"Warning: profile {name}: {message} @ {path}", err=True)
    for name, one in assets.items():
        if scenario.is_planned(name):
            for message in pace_warnings(scenario, scenario.planner_of(scenario.apps[name]), one.profile):
                click.echo(f"Warning: app {name}: {message}", err=True)
    phones = sum(group.phone_count for group in scenario.phones)
    click.echo(f"{file}: {phones} phones, {len(scenario.apps)} apps, {len(scenario.engines)} engines: no mistakes")
