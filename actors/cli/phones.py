"""`corral phones`: simulated phones standing alone, for any ADB tool to use."""

import json
import os
import re
import signal
import sys
from pathlib import Path

import click
import trio

from actors.assets import read_file
from actors.configuration import ScenarioError
from actors.rehearsal.apps.catalog import APPS
from actors.rehearsal.phone.fault_hand import serve_phones_with_faults
from actors.rehearsal.phone.faults import Fault, parse_faults
from actors.rehearsal.phone.serve import PortInUse, SimulatedPhone
from actors.rehearsal.phone.spec import PhoneSpec, VideoKind, specs_for

EXIT_USAGE = 2
DEFAULT_BASE_PORT = 16000
MAX_COUNT = 512  # one process serves 64 at a capture a second on a core; more than this is a typing mistake
_SIZE = re.compile(r"(\d{1,5})x(\d{1,5})")


def parse_size(_context: click.Context, _parameter: click.Parameter, text: str) -> tuple[int, int]:
    """`720x1280` as (width, height) in pixels, held upright."""
    found = _SIZE.fullmatch(text)
    if found is None:
        raise click.BadParameter(f"{text!r} is not a size like 720x1280")
    return int(found.group(1)), int(found.group(2))


def parse_optional_size(context: click.Context, parameter: click.Parameter, text: str | None) -> tuple[int, int] | None:
    """As `parse_size`; None stays None."""
    return None if text is None else parse_size(context, parameter, text)


@click.group()
def phones() -> None:
    """Simulated phones that speak the real ADB protocol."""


@phones.command()
@click.option("--count", default=1, show_default=True, type=click.IntRange(1, MAX_COUNT), help="How many phones.")
@click.option("--app", default="battler", show_default=True, type=click.Choice(sorted(APPS)), help="App in front.")
@click.option("--seed", default=0, show_default=True, help="Seed of the first phone's app; each next takes the next.")
@click.option("--size", default="720x1280", show_default=True, callback=parse_size, help="Screen, held upright.")
@click.option(
    "--base-port",
    default=DEFAULT_BASE_PORT,
    show_default=True,
    type=click.IntRange(0, 65535),
    help="Port of the first phone on 127.0.0.1, the others follow; 0 takes free ones.",
)
@click.option(
    "--first-number", default=0, show_default=True, type=click.IntRange(0, 9000), help="In the first serial number."
)
@click.option(
    "--video",
    default=VideoKind.LIVE.value,
    show_default=True,
    type=click.Choice([kind.value for kind in VideoKind]),
    help="What a scrcpy server sends: the screen, or one stream encoded once for all phones.",
)
@click.option(
    "--second-size",
    callback=parse_optional_size,
    help="A second display of this size, which shows nothing and is found before the first, as on foldables.",
)
@click.option("--stamped", is_flag=True, help="Draw the machine's monotonic clock into every picture.")
@click.option(
    "--grainy", is_flag=True, help="Lay a fixed grain over every picture, so that PNGs are as large as of games."
)
@click.option(
    "--faults",
    "faults_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="TOML file of [[faults]]: what goes wrong with the phones, and when.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a phone instead of a line of text.")
@click.option(
    "--ready-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Written, with a JSON list of the phones, once all of them listen.",
)
def simulate(
    count: int,
    app: str,
    seed: int,
    size: tuple[int, int],
    base_port: int,
    first_number: int,
    video: str,
    second_size: tuple[int, int] | None,
    stamped: bool,
    grainy: bool,
    faults_file: Path | None,
    as_json: bool,
    ready_file: Path | None,
) -> None:
    """Run simulated phones until Ctrl-C or SIGTERM."""
    width, height = size
    try:
        specs = specs_for(
            count,
            app=app,
            seed=seed,
            width=width,
            height=height,
            base_port=base_port,
            first_number=first_number,
            video=VideoKind(video),
            stamped=stamped,
            grainy=grainy,
            second_size=second_size,
        )
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    faults = _faults_in(faults_file, count)
    if ready_file is not None and not os.access(ready_file.parent, os.W_OK | os.X_OK):
        raise click.BadParameter(f"{ready_file.parent} is no folder that can be written", param_hint="--ready-file")
    try:
        trio.run(_serve, specs, faults, as_json, ready_file)
    except (PortInUse, OSError, ExceptionGroup) as error:
        first = _first_of(error)
        if not isinstance(first, (PortInUse, OSError)):
            raise
        click.echo(f"Error: {first}", err=True)
        sys.exit(EXIT_USAGE)


def _faults_in(file: Path | None, count: int) -> tuple[Fault, ...]:
    if file is None:
        return ()
    try:
        return parse_faults(read_file(file), str(file), count=count)
    except ScenarioError as error:
        for problem in error.problems:
            click.echo(f"Error: {problem}", err=True)
    sys.exit(EXIT_USAGE)


async def _serve(
    specs: tuple[PhoneSpec, ...], faults: tuple[Fault, ...], as_json: bool, ready_file: Path | None
) -> None:
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with trio.open_nursery() as nursery:
            running: tuple[SimulatedPhone, ...] = await nursery.start(serve_phones_with_faults, specs, APPS, faults)
            described = [_describe(phone) for phone in running]
            for phone in described:
                click.echo(json.dumps(phone) if as_json else f"{phone['serial']}  adb connect {phone['address']}")
            if ready_file is not None:
                # renamed into place: who waits for the file never reads half of it
                partial = trio.Path(f"{ready_file}.partial")
                await partial.write_text(json.dumps(described) + "\n", encoding="utf-8")
                await partial.rename(ready_file)
            async for _ in signals:
                nursery.cancel_scope.cancel()
                break


def _describe(phone: SimulatedPhone) -> dict[str, str | int | list[str] | None]:
    spec = phone.spec
    return {
        "serial": spec.serial,
        "address": phone.address,
        "aliases": list(phone.aliases),
        "app": spec.app,
        "seed": spec.seed,
        "width": spec.width,
        "height": spec.height,
    }


def _first_of(error: Exception) -> Exception:
    """The first error that is no group, out of the groups that nurseries wrap around it."""
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error
