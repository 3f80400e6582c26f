"""`corral sql provision|verify|sample|refresh`: what a DBA does, before and beside any question."""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from actors.cli.scenarios import EXIT_WRONG, print_problems
from actors.configuration import Problem, ScenarioError
from actors.sql_configuration import load_sql_config
from runtime.secret import SecretMissing
from sqlassist.administration import (
    ProvisioningFailed,
    apply_steps,
    authentication_for,
    open_admin,
    read_state,
    try_attempts,
)
from sqlassist.catalog import Dialect
from sqlassist.config import SqlConfig
from sqlassist.credentials import CredentialError
from sqlassist.execute.errors import ServerUnavailable
from sqlassist.provision import Provisioning, ServerState, script_for
from sqlassist.rollup import RollupFailed, refresh_rollups
from sqlassist.rollup_files import refresh_rollup_files
from sqlassist.sample import make_sample, sample_config, sample_semantic_layer
from sqlassist.sample_load import load_duckdb, load_server
from sqlassist.verify import Tried, attempts_for

EXIT_LEAK = 1
EXIT_INFRASTRUCTURE = 3

CONFIG = click.argument("config_file", metavar="CONFIG", type=click.Path(dir_okay=False, path_type=Path))
SOURCE = click.option("--source", "only", help="Only this one; else every server of the file.")


@contextmanager
def _errors_told() -> Iterator[None]:
    try:
        yield
    except ScenarioError as error:
        print_problems(error.problems)
        sys.exit(EXIT_WRONG)
    except (CredentialError, SecretMissing, OSError) as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(EXIT_WRONG)
    except (ServerUnavailable, ProvisioningFailed, RollupFailed) as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(EXIT_INFRASTRUCTURE)


def _load(config_file: Path) -> SqlConfig:
    """The configuration, with every folder that a refresh must write to; the executor only reads there."""
    config = load_sql_config(config_file)
    problems = [
        Problem(
            f"the folder {source.rollup_folder!r} is not writable: give this user the right, or name another",
            f"$.sources.{name}.rollup_folder",
            str(config_file),
        )
        for name, source in config.sources.items()
        if source.rollup_folder and not os.access(source.rollup_folder, os.W_OK | os.X_OK)
    ]
    if problems:
        raise ScenarioError(problems)
    return config


def _servers(config: SqlConfig, only: str | None) -> list[str]:
    servers = [name for name, source in config.sources.items() if source.dialect is not Dialect.DUCKDB]
    if only is not None and only not in servers:
        raise click.UsageError(f"there is no server {only!r}; there are: {', '.join(servers) or 'none'}")
    if not servers:
        click.echo("nothing was done: every source is a DuckDB one, whose files are apart by themselves", err=True)
    return servers if only is None else [only]


@click.command()
@CONFIG
@SOURCE
@click.option("--apply", "is_applied", is_flag=True, help="Do it; else the plan is only printed.")
@click.option("--offline", is_flag=True, help="Plan for an empty server, without asking it.")
@click.option("--script", type=click.Path(dir_okay=False, path_type=Path), help="Write the plan as SQL, for a DBA.")
@click.option("--undo", type=click.Path(dir_okay=False, path_type=Path), help="Write the SQL that takes it all back.")
def provision(
    config_file: Path, only: str | None, is_applied: bool, offline: bool, script: Path | None, undo: Path | None
) -> None:
    """Make accounts, per-tenant views, grants and limits, as CONFIG says; run again, it changes only what differs.

    Every account, schema and view whose name begins with the source's prefix belongs to this command: those that CONFIG
    does not know are removed. Limits and views are written again as they are. Base tables are never touched. Missing
    passwords are made, each in a file of mode 0600.

    A privilege that the server refuses is told with the setting that goes on without it.

    Exit code: 0 done, 1 something was refused, 2 CONFIG or a password file is wrong, 3 a server failed.
    """
    refusals = 0
    with _errors_told():
        config = _load(config_file)
        scripts: list[str] = []
        undos: list[str] = []
        for name in _servers(config, only):
            source = config.sources[name]
            plan = Provisioning(config, name, authentication_for(config, name, make=is_applied))
            undos.append(script_for(plan.undo(), f"takes back what corral made for source {name}"))
            if offline and not is_applied:
                steps = plan.steps(ServerState())
            else:
                with open_admin(source) as connection:
                    steps = plan.steps(read_state(connection, source.prefix, source.account_host))
                    if is_applied:
                        refused = apply_steps(connection, steps)
                        refusals += len(refused)
                        for one in refused:
                            click.echo(f"refused ({one.code}): {one.step.what}. {one.step.if_refused}", err=True)
                        click.echo(f"{name}: {len(steps) - len(refused)} statements")
            scripts.append(script_for(steps, f"source {name}"))
        if script is not None:
            _write_private(script, "\n".join(scripts))
        if undo is not None:
            _write_private(undo, "\n".join(undos))
        if not is_applied and script is None:
            click.echo("\n".join(scripts), nl=False)
    if refusals:
        sys.exit(EXIT_LEAK)


def _write_private(path: Path, text: str) -> None:
    """Scripts name every account and view: they are for their owner alone."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)


@click.command()
@CONFIG
@SOURCE
@click.option("--json", "as_json", is_flag=True, help="One JSON line an attempt instead of a table.")
@click.option("--all", "show_all", is_flag=True, help="Every attempt in the table, not only leaks and a summary.")
def verify(config_file: Path, only: str | None, as_json: bool, show_all: bool) -> None:
    """Prove by trying that no account can do what it must not: each logs in and tries to read, see and write.

    Exit code: 0 nothing leaks, 1 something does, 2 CONFIG or a password file is wrong, 3 a server failed.
    """
    leaks = 0
    with _errors_told():
        config = load_sql_config(config_file)
        for name in _servers(config, only):
            tried = try_attempts(config, name, attempts_for(config, name))
            bad = [one for one in tried if not one.passed]
            leaks += len(bad)
            if as_json:
                for one in tried:
                    click.echo(json.dumps(_row(name, one), ensure_ascii=False))
                continue
            _print(name, tried if show_all else bad)
            click.echo(f"{name}: {len(tried)} attempts, {len(bad)} not as they should be")
    if leaks:
        sys.exit(EXIT_LEAK)


def _row(source: str, tried: Tried) -> dict[str, object]:
    attempt = tried.attempt
    return {
        "source": source,
        "account": attempt.account,
        "what": attempt.what,
        "sql": attempt.sql,
        "expected": attempt.expected,
        "outcome": tried.outcome,
        "passed": tried.passed,
    }


def _print(source: str, shown: list[Tried]) -> None:
    if not shown:
        return
    table = Table("account", "attempt", "should be", "outcome", "", title=source)
    for one in shown:
        mark = "ok" if one.passed else "LEAK"
        table.add_row(one.attempt.account, one.attempt.what, one.attempt.expected, one.outcome, mark)
    Console().print(table)


@click.command()
@click.argument("target", type=click.Choice(["mariadb", "duckdb"]))
@click.option("--rows", default=100_000, show_default=True, type=click.IntRange(1000, 5_000_000))
@click.option("--tenants", default=3, show_default=True, type=click.IntRange(1, 50))
@click.option("--seed", default=1, show_default=True, type=click.IntRange(0))
@click.option("--config", "config_file", type=click.Path(dir_okay=False, path_type=Path), help="Whose server to fill.")
@click.option("--source", default="game", show_default=True, help="Of --config.")
@click.option("--folder", type=click.Path(file_okay=False, path_type=Path), help="For DuckDB files, one a tenant.")
@click.option("--write-config", type=click.Path(dir_okay=False, path_type=Path), help="Write the fitting CONFIG here.")
@click.option("--host", default="127.0.0.1", show_default=True, help="For --write-config.")
@click.option("--port", default=3306, show_default=True, type=click.IntRange(1, 65535), help="For --write-config.")
def sample(
    target: str,
    rows: int,
    tenants: int,
    seed: int,
    config_file: Path | None,
    source: str,
    folder: Path | None,
    write_config: Path | None,
    host: str,
    port: int,
) -> None:
    """Make a synthetic game-operations data set: players, sessions, payments, levels, retention, activities.

    Equal seeds give equal rows. On a server, the base tables are made anew in the source's schema.

    \b
    corral sql sample duckdb --folder data --write-config sql.toml
    corral sql sample mariadb --write-config sql.toml --host db.example    # then fill in admin, and:
    corral sql sample mariadb --config sql.toml --rows 1000000
    corral sql provision sql.toml --apply && corral sql verify sql.toml
    """  # noqa: D301  # \b is click's mark
    with _errors_told():
        if write_config is not None:
            _write_config(write_config, target, folder, host, port, tenants)
        if target == "duckdb":
            if folder is None:
                raise click.UsageError("duckdb needs --folder")
            total = load_duckdb(folder, make_sample(rows, tenants=tenants, seed=seed), tenants)
            click.echo(f"{total} rows in {tenants} files in {folder}")
        elif config_file is not None:
            config = load_sql_config(config_file)
            (name,) = _servers(config, source)
            with open_admin(config.sources[name]) as connection:
                schema = config.sources[name].schema
                total = load_server(connection, schema, make_sample(rows, tenants=tenants, seed=seed))
            click.echo(f"{total} rows in schema {schema}")
        elif write_config is None:
            raise click.UsageError("mariadb needs --config, or --write-config to begin with")


def _write_config(path: Path, target: str, folder: Path | None, host: str, port: int, tenants: int) -> None:
    if target == "duckdb":
        settings = f'folder = "{folder}"'
    else:
        settings = (
            f'host = "{host}"\nport = {port}\nschema = "game"\n'
            'credentials = { folder = "sql-credentials" }\nadmin = { user = "root", file = "admin.password" }'
        )
    dialect, layer = Dialect(target), path.with_suffix(".semantic.toml")
    text = sample_config(dialect, settings, tenants=tenants, semantic_file=layer.name)
    there = [one for one in (path, layer) if one.exists()]
    if there:
        raise click.BadParameter(f"{there[0]} is there already: name another file", param_hint="--write-config")
    path.write_text(text, encoding="utf-8")
    # DuckDB files have nothing pre-aggregated
    layer.write_text(sample_semantic_layer(with_rollups=dialect is not Dialect.DUCKDB), encoding="utf-8")
    click.echo(f"{path}\n{layer}")


@click.command()
@CONFIG
@SOURCE
def refresh(config_file: Path, only: str | None) -> None:
    """Bring every rollup of CONFIG up to date: only days with new rows are aggregated again, late rows included.

    Exit code: 0 done, 2 CONFIG or a password file is wrong, 3 a server failed.
    """
    with _errors_told():
        config = _load(config_file)
        for name in _servers(config, only):
            in_files = bool(config.sources[name].rollup_folder)
            for one in (refresh_rollup_files if in_files else refresh_rollups)(config, name):
                whose = f" of {one.tenant}" if one.tenant else ""
                click.echo(
                    f"{name}.{one.rollup}{whose}: {one.days} days, up to number {one.watermark}, {one.seconds:.2f} s"
                )
