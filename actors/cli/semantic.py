"""`corral semantic`: start a semantic layer from a database, check it, and see what a model is told of it."""

import datetime as dt
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TypeVar

import click
import trio

from actors.configuration import Problem, ScenarioError, read_toml, structured
from actors.schema_look import look_at_file, look_at_server
from actors.semantic_merge import MergeError, with_values
from actors.sql_configuration import load_sql_config
from actors.verified_review import ReviewError, subject_for
from runtime.ids import TenantId
from runtime.secret import SecretMissing
from runtime.telemetry import configure
from sqlassist.catalog import CatalogError, Dialect
from sqlassist.config import SqlConfig
from sqlassist.credentials import CredentialError
from sqlassist.document import MAX_BYTES
from sqlassist.execute.errors import DatabaseError, ServerUnavailable
from sqlassist.execute.sources import open_sources
from sqlassist.guard.checked import CheckedQuery
from sqlassist.messages import Refusal
from sqlassist.result import ResultSet
from sqlassist.semantic import SemanticLayer
from sqlassist.semantic_draft import Magnitude, draft_of
from sqlassist.semantic_live import LiveProblem, Run, live_problems, magnitudes, sampled

EXIT_FOUND = 1
EXIT_WRONG = 2
EXIT_INFRASTRUCTURE = 3
T = TypeVar("T")

CONFIG = click.argument("config_file", metavar="CONFIG", type=click.Path(dir_okay=False, path_type=Path))


@contextmanager
def _errors_told() -> Iterator[None]:
    configure(level="error")
    try:
        yield
    except (ScenarioError, ReviewError) as error:
        for problem in error.problems:
            click.echo(f"Error: {problem}", err=True)
        sys.exit(EXIT_WRONG)
    except (MergeError, CatalogError, CredentialError, SecretMissing, OSError) as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(EXIT_WRONG)
    except (ServerUnavailable, DatabaseError) as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(EXIT_INFRASTRUCTURE)


@click.group()
def semantic() -> None:
    """The semantic layer: what the numbers of a database mean, and how people call them. See docs/semantic-layer.md."""


@semantic.command()
@CONFIG
@click.option("--source", "only", help="Which database of CONFIG, where there are several.")
@click.option("--tenant", help="As whom data may be read: only the largest value of columns that look like moments.")
@click.option("--output", type=click.Path(dir_okay=False, path_type=Path), help="A new file; else it is printed.")
@click.option(
    "--sample",
    "layer_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The layer file of CONFIG: add values of dimensions that are marked enumerable. Needs --tenant.",
)
def draft(
    config_file: Path, only: str | None, tenant: str | None, output: Path | None, layer_file: Path | None
) -> None:
    """Start a layer file from the tables of CONFIG: keys, references, times, and comments in English and Chinese.

    \b
    corral semantic draft sql.toml --output game.semantic.toml
    # read what is marked as a guess, name the file in sql.toml (semantic_file), mark dimensions enumerable, then:
    corral semantic draft sql.toml --sample game.semantic.toml --tenant tenant1
    corral semantic check sql.toml --live

    Exit code: 0 done, 2 a file is wrong, 3 a database failed.
    """  # noqa: D301  # \b is click's mark
    with _errors_told():
        config = load_sql_config(config_file)
        name = _source(config, only, config_file)
        asker = _known_tenant(config, tenant, name) if tenant is not None else None
        if layer_file is not None:
            if asker is None:
                raise click.UsageError("--sample needs --tenant: values are read as that tenant")
            _sample(config, config_file, name, asker, layer_file)
            return
        text = _draft(config, name, asker)
        if output is None:
            click.echo(text, nl=False)
            return
        with output.open("x", encoding="utf-8") as file:
            file.write(text)
        click.echo(f"{output}: {text.count('# guess:')} guesses to read")


@semantic.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--live", is_flag=True, help="Also beside the data, as each tenant's account sees them.")
@click.option("--tenant", help="With --live: only this one.")
def check(file: Path, live: bool, tenant: str | None) -> None:
    """Check FILE, a configuration of databases with its layers, or a layer file by itself: every mistake at once.

    --live finds missing columns, other types, and keys that are not unique, over which joins count rows twice.

    Exit code: 0 sound, 1 the data do not bear it out, 2 FILE is wrong, 3 a database failed.
    """
    with _errors_told():
        try:
            source = file.read_bytes()
        except OSError as error:
            raise ScenarioError([Problem(f"cannot be read: {error.strerror}", "$", str(file))]) from error
        if "sources" not in read_toml(source, str(file)):
            if live:
                raise click.UsageError("--live needs a configuration of databases, not a layer file alone")
            _check_layer(source, file)
            return
        config = load_sql_config(file)
        for name, one in config.sources.items():
            layer = one.semantic
            click.echo(f"{name}: {len(layer.metrics)} metrics, {len(layer.dimensions)} dimensions")
        if live and _check_live(config, tenant):
            sys.exit(EXIT_FOUND)


@semantic.command()
@CONFIG
@click.option("--tenant", required=True, help="What is hidden from him is left out.")
@click.option("--source", default="", help="Which database, where he has several.")
def show(config_file: Path, tenant: str, source: str) -> None:
    """Print the document that stands in a model's prompt, and its size."""
    with _errors_told():
        subject = subject_for(load_sql_config(config_file), TenantId(tenant), source)
        click.echo(subject.document)
        size = len(subject.document.encode())
        click.echo(f"{size} bytes of at most {MAX_BYTES}", err=True)


def _source(config: SqlConfig, only: str | None, file: Path) -> str:
    names = list(config.sources)
    if only is not None and only not in names:
        raise ScenarioError([Problem(f"there is no source {only!r}, but {', '.join(names)}", "$.sources", str(file))])
    if only is None and len(names) > 1:
        raise click.UsageError(f"name one with --source: {', '.join(names)}")
    return only if only is not None else names[0]


def _known_tenant(config: SqlConfig, tenant: str, source: str) -> TenantId:
    if tenant not in config.tenants_of(source):
        raise ScenarioError([Problem(f"the tenant {tenant!r} does not use {source!r}", "$.tenants")])
    return TenantId(tenant)


def _draft(config: SqlConfig, name: str, tenant: TenantId | None) -> str:
    source = config.sources[name]
    if source.dialect is Dialect.DUCKDB:
        tenants = config.tenants_of(name)
        if not tenants:
            raise ScenarioError([Problem(f"no tenant uses {name!r}, so there is no file to look at", "$.tenants")])
        seen = look_at_file(name, source, tenant if tenant is not None else tenants[0])
    else:
        seen = look_at_server(source)
    read: dict[str, Magnitude] = {}
    if tenant is not None:
        read = _with_sources(config, partial(magnitudes, config, name, tenant, seen))
    return draft_of(name, source, seen, read)


def _sample(config: SqlConfig, config_file: Path, name: str, tenant: TenantId, layer_file: Path) -> None:
    named = config.sources[name].semantic_file
    if not named or (config_file.parent / named).resolve() != layer_file.resolve():
        text = f"{config_file} does not name {layer_file} as semantic_file of {name!r}: its marks are not known"
        raise ScenarioError([Problem(text, f"$.sources.{name}.semantic_file", str(config_file))])
    found = _with_sources(config, partial(sampled, config, name, tenant, dt.datetime.now(dt.UTC).date()))
    if not found:
        click.echo("no dimension is marked enumerable: nothing was read")
        return
    values = {dimension: one for dimension, one in found.items() if not isinstance(one, Refusal)}
    text, added = with_values(layer_file.read_text(encoding="utf-8"), values)
    draft_file = layer_file.with_name(f".{layer_file.name}.draft")
    draft_file.write_text(text, encoding="utf-8")
    draft_file.replace(layer_file)
    for dimension, one in found.items():
        if isinstance(one, Refusal):
            click.echo(f"{dimension}: {one.hint}", err=True)
        else:
            click.echo(f"{dimension}: {added.get(dimension, 0)} values added")


def _check_layer(source: bytes, file: Path) -> None:
    layer, problems = structured(read_toml(source, str(file)), SemanticLayer, source=source, file=str(file))
    if layer is None:
        raise ScenarioError(problems)
    click.echo(f"{len(layer.metrics)} metrics, {len(layer.dimensions)} dimensions; check CONFIG too, for its tables")


def _check_live(config: SqlConfig, only: str | None) -> bool:
    """Whether something was found."""
    pairs = [(name, one) for name in config.sources for one in config.tenants_of(name) if only in (None, one)]
    if not pairs:
        raise ScenarioError([Problem(f"there is no tenant {only!r}" if only else "there are no tenants", "$.tenants")])

    async def every(run: Run) -> list[LiveProblem]:
        return [problem for name, one in pairs for problem in await live_problems(config, name, one, run)]

    found = _with_sources(config, every)
    for problem in found:
        click.echo(str(problem), err=not problem.is_certain)
    if not found:
        click.echo(f"the data of {len(pairs)} tenants bear it out")
    return any(problem.is_certain for problem in found)


def _with_sources(config: SqlConfig, work: Callable[[Run], Awaitable[T]]) -> T:
    """Run something that asks databases; errors of one come out bare."""

    async def main() -> T:
        async with open_sources(config) as sources:

            async def run(source: str, tenant: TenantId, query: CheckedQuery) -> ResultSet | Refusal:
                return await sources.execute(source, tenant, query)

            return await work(run)

    try:
        return trio.run(main)
    except BaseExceptionGroup as group:
        only: BaseException = group
        while isinstance(only, BaseExceptionGroup) and len(only.exceptions) == 1:
            only = only.exceptions[0]
        raise only from None
