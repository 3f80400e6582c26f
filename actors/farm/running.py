"""What `corral farm serve`, `check`, `backup` and `restore` do, and the exit code of every end."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import click
import trio

from actors.analyst_websocket import ListenError
from actors.asking import AskError
from actors.configuration import ScenarioError
from actors.farm import backups
from actors.farm.database import STATE_NAME, StoreError, open_database, open_folder
from actors.farm.demo import run_demo
from actors.farm.loading import load_farm_config
from actors.farm.serve import serve_farm
from actors.farm.systemd import take_notifier
from actors.token_store import TokenStoreError
from actors.warehouse.generations import PublicationFailed
from runtime.collector import collect_rarely
from runtime.process import ProcessError
from runtime.secret import SecretMissing
from runtime.telemetry import configure
from sqlassist.audit import AuditError

EXIT_WRONG = 2
EXIT_INFRASTRUCTURE = 3


def run(file: Path, *, log_json: bool, on_ready: Callable[[str], None]) -> int:
    """Serve the farm of a file; returns the exit code."""
    configure(json=log_json)
    collect_rarely()
    notifier = take_notifier()

    def work() -> None:
        config = load_farm_config(file)
        trio.run(partial(serve_farm, file, config, notifier=notifier, on_ready=on_ready))

    return _told(work)


def demo(folder: Path, scenarios: Path, port: int | None, *, tell: Callable[[str], None]) -> int:
    """Make and serve a farm to look at; returns the exit code."""
    configure(json=False, level="warning")
    collect_rarely()
    return _told(partial(run_demo, folder, scenarios, port, tell))


def check(file: Path) -> int:
    """Look whether a file is sound."""

    def work() -> None:
        config = load_farm_config(file)
        click.echo(f"{file}: {len(config.farm_phones())} phones, {len(config.engines)} engines: no mistakes")

    return _told(work)


def back_up(file: Path, target: Path) -> int:
    """Copy the state and the findings; the farm may run."""

    def work() -> None:
        folder = Path(load_farm_config(file).farm.folder)
        state = folder / STATE_NAME
        if not state.exists():
            raise StoreError(f"{state} is not there: this farm has never run")
        database = open_database(state)
        try:
            damaged = backups.back_up(database, folder, target)
        finally:
            database.close()
        click.echo(str(target))
        if damaged:
            tenants, why = ", ".join(damaged), next(iter(damaged.values()))
            raise StoreError(f"{target} is written, but without the findings of {tenants}: {why}")

    return _told(work)


def restore(file: Path, source: Path) -> int:
    """Put a backup in the place of the state and the findings; the farm must not run."""

    def work() -> None:
        with open_folder(Path(load_farm_config(file).farm.folder)) as state:
            done = backups.restore(source, state)
        click.echo("restored")
        for what, kept in (("state", done.kept_state), ("findings", done.kept_findings)):
            if kept is not None:
                click.echo(f"the {what} before: {kept}")
        if not done.has_findings:
            click.echo("the backup holds no findings (an older release made it): those of the farm are as they were")
        if done.lacking:
            click.echo(f"the findings of {', '.join(done.lacking)} were damaged when it was made, and are not in it")

    return _told(work)


def _told(work: Callable[[], None]) -> int:
    try:
        work()
    except ScenarioError as error:
        for problem in error.problems:
            click.echo(f"Error: {problem}", err=True)
        return EXIT_WRONG
    except (TokenStoreError, SecretMissing) as error:
        click.echo(f"Error: {error}", err=True)
        return EXIT_WRONG
    except (StoreError, ListenError, ProcessError, AuditError, AskError, PublicationFailed, OSError) as error:
        click.echo(f"Error: {error}", err=True)
        return EXIT_INFRASTRUCTURE
    return 0
