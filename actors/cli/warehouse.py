"""`corral warehouse`: the fleet's own metrics, loaded into databases and looked at."""

import json
import os
import sys
from pathlib import Path
from typing import NoReturn

import attrs
import click

from actors.cli.scenarios import EXIT_WRONG, print_problems
from actors.configuration import Problem, ScenarioError
from actors.warehouse.archive import ArchiveFailed, back_up
from actors.warehouse.archive import restore as restore_archive
from actors.warehouse.config import LoaderConfig, parse_loader_config
from actors.warehouse.generations import PublicationFailed
from actors.warehouse.load import Loaded, LoadFailed, TargetAway, follow, load_once, write_databases
from actors.warehouse.state import state_of
from runtime.secret import SecretMissing
from runtime.telemetry import configure
from sqlassist.credentials import CredentialError

EXIT_INFRASTRUCTURE = 3
NICENESS = 10  # phones that play on the same machine come first
DEFAULT_FOLDER = Path("runs/warehouse")


@click.group()
def warehouse() -> None:
    """The fleet's own metrics: every step, action, plan, fault and state of health of every run."""


@warehouse.command()
@click.argument("where", default=DEFAULT_FOLDER, metavar="[CONFIG|FOLDER]", type=click.Path(path_type=Path))
@click.option("--follow", "follows", is_flag=True, help="Go on for ever; a server that is away is waited for.")
@click.option("--json", "as_json", is_flag=True, help="One JSON line a round.")
def load(where: Path, follows: bool, as_json: bool) -> None:
    """Load what runs have spooled.

    FOLDER is a warehouse folder (by default runs/warehouse): DuckDB files are published in it, one a tenant. CONFIG is
    a TOML file that says more, such as a MariaDB server: see docs/warehouse.md. This may be ended at any moment and
    run again: no row is lost or doubled.

    Exit code: 0 all is loaded, 2 the command line or CONFIG is wrong, 3 a file or the server fails.
    """
    configure(level="warning")
    os.nice(NICENESS)
    try:
        config = _config_of(where)
        if follows:
            for loaded in follow(config):
                if loaded.segments:
                    _tell(loaded, config, as_json=as_json)
        else:
            _tell(load_once(config), config, as_json=as_json)
    except ScenarioError as error:
        print_problems(error.problems)
        sys.exit(EXIT_WRONG)
    except (CredentialError, SecretMissing) as error:
        _fail(str(error), EXIT_WRONG)
    except TargetAway as error:
        _fail(f"{error}; nothing is lost: try again, or wait for it with --follow")
    except (PublicationFailed, LoadFailed) as error:
        _fail(str(error))
    except ImportError as error:
        _fail(f"{error.name} is not installed: pip install 'corral[sql]'", EXIT_WRONG)
    except OSError as error:
        _fail(f"{error.filename or where}: {error.strerror or error}")


@warehouse.command()
@click.argument("folder", default=DEFAULT_FOLDER, type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def status(folder: Path, as_json: bool) -> None:
    """Show what FOLDER holds: segments that wait, published files, rows, and losses."""
    _refuse_missing(folder)
    try:
        states = state_of(folder)
    except (OSError, PublicationFailed) as error:
        _fail(str(error))
    if as_json:
        click.echo(json.dumps([attrs.asdict(state) for state in states], indent=1))
        return
    for state in states:
        rows = ", ".join(f"{count} {name}" for name, count in state.rows.items() if count) or "no rows yet"
        click.echo(f"{state.tenant}: {rows}")
        click.echo(f"  spool: {state.waiting} segments wait, {state.open} are being written, {state.loaded} are loaded")
        if state.lost_rows:
            click.echo(f"  {state.lost_rows} rows were lost: see the table losses")
    if not states:
        click.echo("nothing yet: corral run writes here")


@warehouse.command()
@click.argument("folder", default=DEFAULT_FOLDER, type=click.Path(path_type=Path))
def config(folder: Path) -> None:
    """Write the configuration of databases that fits FOLDER's files, and print where it is: for `corral sql run`."""
    _refuse_missing(folder)
    try:
        path = write_databases(folder)
    except OSError as error:
        _fail(f"{error.filename or folder}: {error.strerror or error}")
    if path is None:
        _fail(f"{folder}: nothing is published yet: corral warehouse load {folder}")
    click.echo(str(path))


@warehouse.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.argument("target", type=click.Path(dir_okay=False, path_type=Path))
def backup(folder: Path, target: Path) -> None:
    """Write everything in FOLDER to the file TARGET: spool and published files; runs may go on meanwhile."""
    try:
        count = back_up(folder, target)
    except ArchiveFailed as error:
        _fail(str(error), EXIT_WRONG)
    except OSError as error:
        _fail(f"{error.filename or target}: {error.strerror or error}")
    click.echo(f"{target}: {count} files")


@warehouse.command()
@click.argument("source", type=click.Path(dir_okay=False, path_type=Path))
@click.argument("folder", type=click.Path(path_type=Path))
def restore(source: Path, folder: Path) -> None:
    """Make FOLDER, which must not exist or be empty, from the file SOURCE of `corral warehouse backup`."""
    try:
        count = restore_archive(source, folder)
    except ArchiveFailed as error:
        _fail(str(error), EXIT_WRONG)
    except OSError as error:
        _fail(f"{error.filename or source}: {error.strerror or error}")
    click.echo(f"{folder}: {count} files; corral warehouse load {folder} publishes what was not")


def _config_of(where: Path) -> LoaderConfig:
    if where.is_dir():
        return LoaderConfig(str(where))
    try:
        source = where.read_bytes()
    except OSError as error:
        text = f"{error.strerror}: name a warehouse folder, or the loader's TOML file"
        raise ScenarioError([Problem(text, "$", str(where))]) from error
    return parse_loader_config(source, str(where))


def _tell(loaded: Loaded, config: LoaderConfig, *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(attrs.asdict(loaded)))
    else:
        where = "DuckDB files" if config.server is None else f"{config.server.schema} on {config.server.host}"
        whose = ", ".join(loaded.tenants) or "nobody"
        click.echo(f"{loaded.rows} rows of {loaded.segments} segments are in {where} of {whose}")
        if loaded.damaged:
            click.echo(f"Warning: {loaded.damaged} lines of the spool were damaged, and are lost", err=True)
    sys.stdout.flush()


def _refuse_missing(folder: Path) -> None:
    if not folder.is_dir():
        _fail(f"{folder}: there is no such folder; corral run makes runs/warehouse", EXIT_WRONG)


def _fail(text: str, code: int = EXIT_INFRASTRUCTURE) -> NoReturn:
    click.echo(f"Error: {text}", err=True)
    sys.exit(code)
