"""`corral author`: make a rule file by looking at the screen."""

import sys
from functools import partial
from pathlib import Path

import click
import trio

from actors.authoring.serve import run_author
from actors.cli.scenarios import EXIT_INFRASTRUCTURE, EXIT_WRONG, print_problems
from actors.configuration import ScenarioError
from actors.devices.base import DeviceError
from runtime.telemetry import configure


@click.command()
@click.argument("target", metavar="SERIAL|RUN|PICTURE|FOLDER|simulated[:APP]")
@click.option(
    "--file",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="RULES.toml",
    help="The rule file to add to; made if it is not there. Pictures are written beside it.",
)
@click.option("--port", default=0, type=click.IntRange(0, 65535), help="Of 127.0.0.1; any free one if not given.")
@click.option("--no-browser", is_flag=True, help="Only print the page's address.")
def author(target: str, file: Path | None, port: int, no_browser: bool) -> None:
    """Open a local page to cut templates, mark regions and colours, test them, and get the TOML.

    The page is reachable from this machine alone, at an address with a random token. Ctrl-C ends it.
    """
    configure(json=False, level="warning")
    try:
        trio.run(partial(run_author, target, file, port=port, on_ready=partial(_ready, open_browser=not no_browser)))
    except ScenarioError as error:
        print_problems(error.problems)
        sys.exit(EXIT_WRONG)
    except DeviceError as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(EXIT_INFRASTRUCTURE)
    except OSError as error:
        click.echo(f"Error: 127.0.0.1:{port} cannot be listened on: {error.strerror or error}", err=True)
        sys.exit(EXIT_INFRASTRUCTURE)


def _ready(url: str, *, open_browser: bool) -> None:
    click.echo(f"The page is at {url}  (Ctrl-C ends it)")
    sys.stdout.flush()
    if open_browser and click.launch(url) != 0:
        click.echo("No browser could be opened: open the address yourself.", err=True)
