"""`corral sql`: questions in SQL, and what stands between them and a database."""

import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import attrs
import click

from actors.cli.lazy_group import LazyGroup
from actors.configuration import Problem, ScenarioError
from actors.sql_configuration import load_sql_config
from actors.sql_schemas import parse_schemas
from runtime.ids import TenantId
from sqlassist.catalog import Catalog, CatalogError, Dialect, did_you_mean
from sqlassist.config import SqlConfig
from sqlassist.guard.check import DEFAULT_LIMITS, check
from sqlassist.guard.difference import rewrite_diff
from sqlassist.guard.limits import Limits
from sqlassist.messages import Refusal

EXIT_WRONG = 2
MAX_LINE_BYTES = 1 << 20  # far above what the guard reads; what is longer is skipped without being kept

CatalogOf = Callable[[str | None], Catalog]


_MORE = {
    "provision": "actors.cli.sql_admin:provision",
    "refresh": "actors.cli.sql_admin:refresh",
    "run": "actors.cli.sql_run:run",
    "sample": "actors.cli.sql_admin:sample",
    "verify": "actors.cli.sql_admin:verify",
}
_DRIVERS = dict.fromkeys(("asyncmy", "duckdb", "pymysql", "trio_asyncio"), "sql")


@click.group(cls=LazyGroup, lazy=_MORE, extras=_DRIVERS)
def sql() -> None:
    """SQL that cannot hurt: check statements against what a tenant may see."""


@sql.command("check")
@click.option("--config", "config_file", type=click.Path(dir_okay=False, path_type=Path), help="TOML; needs --tenant.")
@click.option("--tenant", help="Whose tables may be named.")
@click.option("--source", help="Which source of --config, where the tenant uses several.")
@click.option(
    "--schema",
    "schema_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help='Instead of --config: JSON lines like {"db": "shop", "tables": {"items": [["id", "number"]]}}.',
)
@click.option("--db", help="Which database of --schema, where a line names none. Needless where there is one only.")
@click.option(
    "--dialect",
    type=click.Choice([dialect.value for dialect in Dialect]),
    help="Which SQL. Default: that of --config; mysql with --schema.",
)
@click.option("--max-rows", type=click.IntRange(1, 1_000_000), help="LIMIT of every answer. Default: --config's; 1000.")
@click.option("--diff", is_flag=True, help="Add what was rewritten, as a diff.")
def check_command(
    config_file: Path | None,
    tenant: str | None,
    source: str | None,
    schema_file: Path | None,
    db: str | None,
    dialect: str | None,
    max_rows: int | None,
    diff: bool,
) -> None:
    """Check the statements on standard input, without any database: one JSON line out for each line in.

    A line is one SQL statement, or JSON: {"sql": "SELECT ...", "db": "shop"}. JSON is for statements of several lines,
    and "db" chooses among the databases of --schema. Empty lines are skipped; a line that cannot be read is a refusal.

    \b
    verdict    pass or refuse
    code       why: unknown_column, function_not_allowed, join_without_equality, ...; null on pass
    message    what to do about it, with the nearest real names
    where      the piece of the statement that is meant
    sql        the statement written anew: the only text that may be executed; null on refuse
    tables     the tables that are read
    bounds     what bounds its cost: limit, join_equality, and what the executor must have on
    ms         CPU time

    \b
    echo 'select * from singer' | corral sql check --schema schemas.jsonl --db concert_singer
    corral sql check --config sql.toml --tenant acme --max-rows 200 < statements.sql

    Exit code: 0 when every line has been answered, whatever the verdicts; 2 when an option or a file is wrong.
    """  # noqa: D301  # \b is click's mark
    try:
        if (config_file is None) == (schema_file is None):
            raise click.UsageError("give either --config with --tenant, or --schema")
        if config_file is not None:
            if tenant is None or db is not None:
                raise click.UsageError("--config needs --tenant, and takes no --db")
            catalog_of, limits = _of_config(
                load_sql_config(config_file), config_file, TenantId(tenant), source, dialect
            )
        else:
            assert schema_file is not None
            if tenant is not None or source is not None:
                raise click.UsageError("--tenant and --source go with --config")
            catalog_of, limits = _of_schema(schema_file, db, dialect), DEFAULT_LIMITS
    except ScenarioError as error:
        for problem in error.problems:
            click.echo(f"Error: {problem}", err=True)
        sys.exit(EXIT_WRONG)
    except (CatalogError, OSError) as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(EXIT_WRONG)
    if max_rows is not None:
        limits = attrs.evolve(limits, max_rows=max_rows)
    try:
        for line in _lines(sys.stdin.buffer):
            answer = _answer(line, catalog_of, limits, with_diff=diff)
            sys.stdout.write(json.dumps(answer, ensure_ascii=True) + "\n")
            sys.stdout.flush()
    except BrokenPipeError:  # whoever reads has seen enough
        sys.stderr.close()
        sys.exit(0)


def _of_config(
    config: SqlConfig, file: Path, tenant: TenantId, source: str | None, dialect: str | None
) -> tuple[CatalogOf, Limits]:
    if tenant not in config.tenants:
        message = f"there is no tenant {tenant!r}{did_you_mean(tenant, config.tenants)}"
        raise ScenarioError([Problem(message, "$.tenants", str(file))])
    sources = config.sources_of(tenant)
    if source is None and len(sources) != 1:
        raise click.UsageError(f"tenant {tenant} uses several sources, say which: --source {'|'.join(sources)}")
    chosen = source if source is not None else sources[0]
    if chosen not in sources:
        raise click.UsageError(f"tenant {tenant} uses no source {chosen!r}{did_you_mean(chosen, sources)}")
    catalog = config.catalog(chosen, tenant)
    if dialect is not None:
        catalog = attrs.evolve(catalog, dialect=Dialect(dialect))
    return lambda _: catalog, attrs.evolve(DEFAULT_LIMITS, max_rows=config.sources[chosen].limits.max_rows)


def _of_schema(schema_file: Path, db: str | None, dialect: str | None) -> CatalogOf:
    catalogs = parse_schemas(schema_file.read_bytes(), Dialect(dialect or "mysql"), str(schema_file))
    default = db if db is not None or len(catalogs) > 1 else next(iter(catalogs))

    def found(name: str | None) -> Catalog:
        wanted = name if name is not None else default
        if wanted is None:
            raise CatalogError('say which database: --db, or "db" in the line')
        if wanted not in catalogs:
            raise CatalogError(f"there is no database {wanted!r}{did_you_mean(wanted, catalogs)}")
        return catalogs[wanted]

    if db is not None:
        found(db)
    return found


def _lines(stream: BinaryIO) -> Iterator[bytes]:
    """Lines as they come; of one that is too long a piece, so that it is answered without being kept."""
    while line := stream.readline(MAX_LINE_BYTES):
        if not line.endswith(b"\n") and len(line) == MAX_LINE_BYTES:
            while (rest := stream.readline(MAX_LINE_BYTES)) and not rest.endswith(b"\n"):
                pass
        if line.strip():
            yield line


def _answer(line: bytes, catalog_of: CatalogOf, limits: Limits, *, with_diff: bool) -> dict[str, Any]:
    begun = time.process_time()
    result = _checked(line, catalog_of, limits)
    ms = round((time.process_time() - begun) * 1000, 3)
    if isinstance(result, Refusal):
        where, hint = result.where, result.hint
        return _row("refuse", result.code, hint, where, None, [], [], ms)
    row = _row("pass", None, "", "", result.sql, list(result.tables), list(result.bounds), ms)
    return {**row, "diff": rewrite_diff(result.source, result.sql)} if with_diff else row


def _row(
    verdict: str,
    code: str | None,
    message: str,
    where: str,
    text: str | None,
    tables: list[str],
    bounds: list[str],
    ms: float,
) -> dict[str, Any]:
    return {
        "verdict": verdict,
        "code": code,
        "message": message,
        "where": where,
        "sql": text,
        "tables": tables,
        "bounds": bounds,
        "ms": ms,
    }


def _checked(line: bytes, catalog_of: CatalogOf, limits: Limits) -> Any:
    try:
        text = line.decode("utf-8").strip("\r\n")
    except UnicodeDecodeError as error:
        return Refusal("bad_line", "", f"the line is not UTF-8 at byte {error.start}")
    statement, database = text, None
    if text.lstrip().startswith("{"):
        try:
            data = json.loads(text)
        except (ValueError, RecursionError) as error:
            return Refusal("bad_line", "", f"the line is not JSON: {error}")
        statement, database = data.get("sql"), data.get("db")
        if not isinstance(statement, str) or not isinstance(database, str | None):
            return Refusal("bad_line", "", 'a JSON line looks like {"sql": "SELECT ...", "db": "shop"}')
    try:
        catalog = catalog_of(database)
    except CatalogError as error:
        return Refusal("unknown_database", "", str(error))
    return check(statement, catalog, limits)
