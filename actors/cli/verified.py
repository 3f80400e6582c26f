"""`corral verified`: questions whose SQL a person has approved, and those that wait for one."""

import getpass
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import wraps
from pathlib import Path
from typing import Any

import attrs
import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from actors.assistant import default_config
from actors.assistant_config import AssistantConfig, load_assistant_config
from actors.configuration import ScenarioError
from actors.question_set import load_question_set
from actors.sql_configuration import load_sql_config
from actors.verified_review import ReviewError, checked_for, export_chats, recheck_all, subject_for
from runtime.ids import DEFAULT_TENANT, TenantId
from runtime.telemetry import configure
from sqlassist.config import SqlConfig
from sqlassist.verified import Status, VerifiedQuery
from sqlassist.verified_store import VerifiedStore, VerifiedStoreError, open_store

EXIT_STALE = 1
EXIT_WRONG = 2
MOST_CHARACTERS = 60  # of a question in a list

STATE = click.option(
    "--state",
    "state_folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="The state folder of an assistant.",
)
CONFIG = click.option(
    "--config",
    "config_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="As corral assistant serve takes it. Without it, that of the runs made here.",
)
TENANT = click.option("--tenant", help="Whose; by default all.")
AS_JSON = click.option("--json", "as_json", is_flag=True, help="JSON lines instead of text.")
BY = click.option("--by", default=getpass.getuser, help="Who decides, for the record; by default this user.")
SOURCE = click.option("--source", default="", help="Which database, where the tenant has several.")


def _with_fields(command: Callable[..., None]) -> Callable[..., None]:
    """The options that say what a query is."""
    for option in (
        click.option("--wording", "wordings", multiple=True, help="Another way to ask it; may be repeated."),
        click.option(
            "--parameter",
            "parameters",
            multiple=True,
            metavar="SLOT=MEANING",
            help="A dimension, table.column, or days.",
        ),
        click.option("--reasoning", help="Why the SQL is right: for training."),
        click.option("--held-out/--not-held-out", default=None, help="For evaluation: never shown to a model."),
        click.option("--sql-file", type=click.Path(dir_okay=False, path_type=Path), help="Instead of --sql."),
        click.option("--sql", "sql_text", help="With a placeholder for each slot, as :server, :period_start."),
    ):
        command = option(command)
    return command


@contextmanager
def _errors_told() -> Iterator[None]:
    configure(level="error")
    try:
        yield
    except (ScenarioError, ReviewError) as error:
        for problem in error.problems:
            click.echo(f"Error: {problem}", err=True)
        sys.exit(EXIT_WRONG)
    except (VerifiedStoreError, OSError) as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(EXIT_WRONG)


def _told(command: Callable[..., None]) -> Callable[..., None]:
    @wraps(command)
    def wrapped(*arguments: Any, **options: Any) -> None:
        with _errors_told():
            command(*arguments, **options)

    return wrapped


def _assistant(config_file: Path | None) -> AssistantConfig:
    return load_assistant_config(config_file) if config_file is not None else default_config()


@contextmanager
def _store(state_folder: Path | None, config_file: Path | None, *, is_new: bool = False) -> Iterator[VerifiedStore]:
    folder = state_folder if state_folder is not None else Path(_assistant(config_file).state.folder)
    if not is_new and not folder.is_dir():
        raise VerifiedStoreError(f"there is no folder {folder}: give --state or --config")
    store = open_store(folder)
    try:
        yield store
    finally:
        store.close()


def _databases(config_file: Path | None) -> SqlConfig:
    return load_sql_config(Path(_assistant(config_file).sql.file))


@click.group()
def verified() -> None:
    """Verified queries: questions whose SQL a person has approved. A running server sees every change at once."""


@verified.command("list")
@STATE
@CONFIG
@TENANT
@click.option(
    "--status", "statuses", multiple=True, type=click.Choice([one.value for one in Status]), help="Only these."
)
@AS_JSON
@_told
def list_command(
    state_folder: Path | None, config_file: Path | None, tenant: str | None, statuses: tuple[str, ...], as_json: bool
) -> None:
    """List queries."""
    with _store(state_folder, config_file) as store:
        _print(store.queries(_tenant(tenant), *(Status(one) for one in statuses)), as_json=as_json)


@verified.command()
@STATE
@CONFIG
@TENANT
@AS_JSON
@_told
def queue(state_folder: Path | None, config_file: Path | None, tenant: str | None, as_json: bool) -> None:
    """List what waits for a decision, the oldest first."""
    with _store(state_folder, config_file) as store:
        _print(store.queries(_tenant(tenant), Status.PROPOSED), as_json=as_json)


@verified.command()
@click.argument("verified_id", metavar="ID")
@STATE
@CONFIG
@AS_JSON
@_told
def show(verified_id: str, state_folder: Path | None, config_file: Path | None, as_json: bool) -> None:
    """Show everything about one query, and who decided what."""
    with _store(state_folder, config_file) as store:
        query, decisions = store.query(verified_id), store.decisions(verified_id)
    data = {**attrs.asdict(query), "decisions": [attrs.asdict(one) for one in decisions]}
    if as_json:
        click.echo(json.dumps(data, ensure_ascii=False))
        return
    for name, value in attrs.asdict(query).items():
        if value not in ("", (), {}, False):
            click.echo(f"{name}: {_on_one_line(_flat(value))}")
    for one in decisions:
        click.echo(_on_one_line(f"{one.at} {one.by}: {one.what}" + (f": {one.note}" if one.note else "")))


@verified.command()
@click.option("--question", required=True, help="It may have slots: revenue of {server} in {period}.")
@click.option("--tenant", default=DEFAULT_TENANT, show_default=True, help="Whose.")
@SOURCE
@_with_fields
@STATE
@CONFIG
@BY
@_told
def add(
    question: str,
    tenant: str,
    source: str,
    sql_text: str | None,
    sql_file: Path | None,
    wordings: tuple[str, ...],
    parameters: tuple[str, ...],
    reasoning: str | None,
    held_out: bool | None,
    state_folder: Path | None,
    config_file: Path | None,
    by: str,
) -> None:
    """Add a query, approved at once. The guard checks it, as at every use.

    \b
    corral verified add --config C --tenant tenant1 --question "whale revenue of {server} in {period}" \\
        --parameter period=payments.day --sql "SELECT ... WHERE s.name = :server AND p.day >= :period_start ..."
    """  # noqa: D301  # \b is click's mark
    sql = _sql(sql_text, sql_file)
    if sql is None:
        raise click.UsageError("give --sql or --sql-file")
    query = VerifiedQuery(
        id="",
        tenant=TenantId(tenant),
        question=question,
        sql=sql,
        source=source,
        catalog_version="",
        wordings=wordings,
        parameters=_parameters(parameters),
        status=Status.APPROVED,
        verified_by=by,
        verified_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
        reasoning=reasoning or "",
        held_out=bool(held_out),
    )
    subject = subject_for(_databases(config_file), query.tenant, source)
    query = checked_for(query, subject, datetime.now(UTC).date())  # before a folder is made for it
    with _store(state_folder, config_file, is_new=True) as store:
        query = checked_for(query, subject, datetime.now(UTC).date(), store.queries(query.tenant, Status.APPROVED))
        click.echo(store.add(query, by).id)


def _decided(status: Status, verified_id: str, options: dict[str, Any]) -> None:
    """Approve a query, with whatever is corrected."""
    state_folder, config_file, by = options["state_folder"], options["config_file"], options["by"]
    given: dict[str, Any] = {
        "question": options["question"],
        "sql": _sql(options["sql_text"], options["sql_file"]),
        "wordings": options["wordings"] or None,
        "parameters": _parameters(options["parameters"]) or None,
        "reasoning": options["reasoning"],
        "held_out": options["held_out"],
        "source": options["source"] or None,
    }
    changes = {name: value for name, value in given.items() if value is not None}
    with _store(state_folder, config_file) as store:
        query = attrs.evolve(store.query(verified_id), **changes)
        subject = subject_for(_databases(config_file), query.tenant, query.source)
        query = checked_for(query, subject, datetime.now(UTC).date(), store.queries(query.tenant, Status.APPROVED))
        changes |= {"source": query.source, "catalog_version": query.catalog_version, "reason": ""}
        store.decide(verified_id, status, by, options["note"], **changes)
    click.echo(f"{verified_id} {status.value}")


@verified.command()
@click.argument("verified_id", metavar="ID")
@click.option("--question", help="Put better, or with slots.")
@SOURCE
@_with_fields
@click.option("--note", default="", help="Why, for the record.")
@STATE
@CONFIG
@BY
@_told
def approve(verified_id: str, **options: Any) -> None:
    """Approve a query: from now on it answers its question. Others with the same question are replaced."""
    _decided(Status.APPROVED, verified_id, options)


@verified.command()
@click.argument("verified_id", metavar="ID")
@click.option("--question", help="Put better, or with slots.")
@SOURCE
@_with_fields
@click.option("--note", default="", help="What was wrong, for the record.")
@STATE
@CONFIG
@BY
@_told
def correct(verified_id: str, **options: Any) -> None:
    """Approve a query with other SQL; answers that were cached from the old one are no longer given."""
    if options["sql_text"] is None and options["sql_file"] is None:
        raise click.UsageError("give --sql or --sql-file")
    _decided(Status.APPROVED, verified_id, options)


@verified.command()
@click.argument("verified_id", metavar="ID")
@click.option("--reason", required=True, help="Why.")
@STATE
@CONFIG
@BY
@_told
def reject(verified_id: str, reason: str, state_folder: Path | None, config_file: Path | None, by: str) -> None:
    """Reject a query; it no longer answers, and is not proposed again."""
    with _store(state_folder, config_file) as store:
        store.decide(verified_id, Status.REJECTED, by, reason, reason=reason)
    click.echo(f"{verified_id} {Status.REJECTED.value}")


@verified.command()
@TENANT
@STATE
@CONFIG
@AS_JSON
@_told
def recheck(tenant: str | None, state_folder: Path | None, config_file: Path | None, as_json: bool) -> None:
    """Let the guard check all approved queries against the present schema, and stale ones too.

    Exit code: 0 all still fit, 1 some are stale, 2 CONFIG or the store is wrong.
    """
    databases = _databases(config_file)
    with _store(state_folder, config_file) as store:
        found = recheck_all(store, databases, _tenant(tenant))
    _print(found, as_json=as_json)
    for query in found:
        if query.status is Status.STALE and not as_json:
            click.echo(_on_one_line(f"{query.id}: {query.reason}"))
    if any(query.status is Status.STALE for query in found):
        sys.exit(EXIT_STALE)


@verified.command()
@click.option(
    "--at-least", default=3, show_default=True, type=click.IntRange(1, 100_000), help="Times that it was asked."
)
@TENANT
@STATE
@CONFIG
@AS_JSON
@_told
def propose(
    at_least: int, tenant: str | None, state_folder: Path | None, config_file: Path | None, as_json: bool
) -> None:
    """Put questions that models answered often before the reviewers: a verified answer is cheaper and sure."""
    with _store(state_folder, config_file) as store:
        _print(store.propose(at_least, _tenant(tenant)), as_json=as_json)


@verified.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--tenant", default=DEFAULT_TENANT, show_default=True, help="Whose.")
@SOURCE
@click.option(
    "--exclude",
    "sets",
    multiple=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="A question set of corral evaluate: its questions are not trained on. May be repeated.",
)
@STATE
@CONFIG
@_told
def export(
    file: Path,
    tenant: str,
    source: str,
    sets: tuple[Path, ...],
    state_folder: Path | None,
    config_file: Path | None,
) -> None:
    """Write approved queries to FILE as chats in JSON lines, for training an adapter.

    Held-out questions are left out, and so is what has slots.
    """
    evaluation = [text for path in sets for one in load_question_set(path).questions for text in one.wordings]
    subject = subject_for(_databases(config_file), TenantId(tenant), source)
    with _store(state_folder, config_file) as store:
        count, left_out = export_chats(store, subject, TenantId(tenant), evaluation, file)
    click.echo(f"{count} chats in {file}")
    for reason, number in left_out.items():
        click.echo(f"{number} left out: they {reason}", err=True)


def _tenant(name: str | None) -> TenantId | None:
    return TenantId(name) if name is not None else None


def _sql(text: str | None, path: Path | None) -> str | None:
    if text is not None and path is not None:
        raise click.UsageError("--sql and --sql-file exclude each other")
    if path is None:
        return text
    try:
        return path.read_text(encoding="utf-8").strip()
    except UnicodeDecodeError:
        raise click.UsageError(f"{path} is not UTF-8") from None


def _parameters(given: Sequence[str]) -> dict[str, str]:
    found = {}
    for one in given:
        slot, equals, meaning = one.partition("=")
        if not equals or not slot or not meaning:
            raise click.UsageError(f"--parameter is like period=payments.day, not {one!r}")
        found[slot.strip()] = meaning.strip()
    return found


def _print(queries: Sequence[VerifiedQuery], *, as_json: bool) -> None:
    if as_json:
        for query in queries:
            click.echo(json.dumps(attrs.asdict(query), ensure_ascii=False))
        return
    table = Table("id", "tenant", "status", "used", "question", "from", box=None, header_style="bold")
    for query in queries:
        text = query.question if len(query.question) <= MOST_CHARACTERS else f"{query.question[: MOST_CHARACTERS - 1]}…"
        origin = query.origin + (f" by {query.asked_by}" if query.asked_by else "")
        cells = (query.id, query.tenant, query.status.value, str(query.use_count), text, origin)
        table.add_row(*(Text(_on_one_line(cell)) for cell in cells))
    if queries:
        Console(highlight=False).print(table)
    else:
        click.echo("none")


def _flat(value: object) -> str:
    if isinstance(value, tuple):
        return " | ".join(map(str, value))
    if isinstance(value, dict):
        return ", ".join(f"{key}={one}" for key, one in value.items())
    return str(value)


def _on_one_line(text: str) -> str:
    """Texts of people neither break a line nor steer the terminal."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)
