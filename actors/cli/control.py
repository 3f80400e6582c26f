"""`corral status` and `corral resume`: ask a run that is under way."""

import json
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import click
import trio
from rich.console import Console
from rich.table import Table

from actors.control import ControlError, ask

EXIT_NOBODY = 1
EXIT_WRONG = 2

RUN_FOLDER = click.argument(
    "folder", metavar="RUN_FOLDER", type=click.Path(exists=True, file_okay=False, path_type=Path)
)


def _asked(folder: Path, request: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return trio.run(partial(ask, folder, request))
    except ControlError as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(EXIT_WRONG)


@click.command()
@RUN_FOLDER
@click.option("--json", "as_json", is_flag=True, help="One JSON object instead of a table.")
def status(folder: Path, as_json: bool) -> None:
    """Show every phone of the run that is under way in RUN_FOLDER."""
    answered = _asked(folder, {"command": "status"})
    if as_json:
        click.echo(json.dumps({key: value for key, value in answered.items() if key != "ok"}, indent=1))
        return
    columns = ("phone", "app", "state", "connection", "step", "score", "why")
    table = Table(*columns, title=f"{answered['scenario']}  {answered['run']}")
    for row in answered["phones"]:
        score = "-" if row["score"] is None else f"{row['score']:g}"
        state, connection = row["outcome"] or row["state"], row["connection"] or "-"
        table.add_row(row["phone"], row["app"], state, connection, str(row["step"]), score, row["why"])
    Console().print(table)


@click.command()
@RUN_FOLDER
@click.argument("phone", required=False)
def resume(folder: Path, phone: str | None) -> None:
    """Go on where a person was needed and has helped: on PHONE, or on every phone of the run in RUN_FOLDER.

    Exit code: 0 some phone goes on, 1 no phone waits for a person, 2 no such run or phone.
    """
    resumed = _asked(folder, {"command": "resume", "phone": phone})["resumed"]
    for name in resumed:
        click.echo(f"{name} goes on")
    if not resumed:
        click.echo(f"{phone or 'no phone'} {'does not wait' if phone else 'waits'} for a person", err=True)
        sys.exit(EXIT_NOBODY)
