"""`corral sql run`: statements checked by the guard and run in an executor process, as a tenant."""

import json
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import click
import trio

from actors.cli.scenarios import EXIT_WRONG, print_problems
from actors.configuration import ScenarioError
from actors.executor import Executor, open_executor
from actors.executor_wire import ExecuteRequest
from actors.sql_configuration import load_sql_config
from runtime.ids import TenantId
from runtime.process import ProcessError
from runtime.telemetry import configure
from sqlassist.audit import AuditEntry, AuditError, AuditTrail, open_audit
from sqlassist.config import SqlConfig
from sqlassist.execute.errors import DatabaseError
from sqlassist.guard.difference import rewrite_diff
from sqlassist.messages import Refusal
from sqlassist.result import ResultSet
from sqlassist.sources import SourceChoice, check_for

EXIT_INFRASTRUCTURE = 3
FAILED = "database_failed"  # in the audit: the attempt was made, and no answer came
MAX_LINE_CHARACTERS = 100_000  # the guard refuses far shorter ones; this bounds memory


@click.command()
@click.option("--config", "config_file", required=True, type=click.Path(dir_okay=False, path_type=Path))
@click.option("--tenant", required=True, help="Whose data is asked for.")
@click.option("--source", default="", help="Which database; chosen by the tables where it is not given.")
@click.option("--audit", type=click.Path(file_okay=False, path_type=Path), help="Write every attempt to this trail.")
@click.option("--user", default="", help="Who asks, for the audit.")
@click.option("--log", type=click.Path(dir_okay=False, path_type=Path), help="Where the executor logs.")
def run(config_file: Path, tenant: str, source: str, audit: Path | None, user: str, log: Path | None) -> None:
    """Check the statements on standard input and run them: one JSON line out for each line in.

    A line is one SQL statement, or JSON: {"sql": "SELECT ..."}. The statements run in a process of their own under the
    tenant's account; that process checks them again. Rows are lists; types says how to read their cells.

    \b
    verdict pass or refuse   code, message   why it was refused
    sql     what was run     source, why     where, and why there
    columns, types, rows     truncated       true: there may be more rows
    plan    estimated rows   ms              with waiting

    Exit code: 0 all lines answered, whatever the verdicts; 2 CONFIG is wrong; 3 a database or the executor failed.
    """  # noqa: D301  # \b is click's mark
    configure(level="warning")
    try:
        if log is not None:
            log.open("ab").close()
    except OSError as error:
        click.echo(f"Error: --log {log} cannot be written: {error.strerror}", err=True)
        sys.exit(EXIT_WRONG)
    try:
        config = load_sql_config(config_file)
        if tenant not in config.tenants:
            raise click.UsageError(f"there is no tenant {tenant!r}; there are: {', '.join(config.tenants)}")
        trio.run(partial(_run, config, config_file, TenantId(tenant), source, audit, user, log))
    except ScenarioError as error:
        print_problems(error.problems)
        sys.exit(EXIT_WRONG)
    except (DatabaseError, ProcessError, AuditError) as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(EXIT_INFRASTRUCTURE)
    except BrokenPipeError:  # whoever reads has seen enough
        sys.stderr.close()


async def _run(
    config: SqlConfig, file: Path, tenant: TenantId, source: str, audit: Path | None, user: str, log: Path | None
) -> None:
    with tempfile.TemporaryDirectory(prefix="corral-sql-") as folder:
        log_path = log if log is not None else Path(folder) / "executor.log"
        trail = open_audit(audit) if audit is not None else None
        try:
            async with open_executor(file, log_path) as executor:
                while line := await trio.to_thread.run_sync(_next_line, abandon_on_cancel=True):
                    if line.strip():
                        await _answer(config, executor, trail, tenant, source, user, line.rstrip("\n"))
        finally:
            if trail is not None:
                trail.close()


async def _answer(
    config: SqlConfig, executor: Executor, trail: AuditTrail | None, tenant: TenantId, source: str, user: str, line: str
) -> None:
    begun = trio.current_time()
    sql = _statement(line)
    choice = sql if isinstance(sql, Refusal) else check_for(config, tenant, sql, source)
    result: ResultSet | Refusal
    if isinstance(choice, SourceChoice):
        query = choice.query
        request = ExecuteRequest(tenant, choice.source, query.source, query.catalog_version)
        try:
            result = await executor.execute(request)
        except DatabaseError as error:
            if trail is not None:
                failed = Refusal(FAILED, "", error.reason)
                await trio.to_thread.run_sync(trail.append, _entry(tenant, user, line, choice, failed, 0.0))
            raise
    else:
        result = choice
    ms = round((trio.current_time() - begun) * 1000, 3)
    row = _row(choice, result, ms)
    if trail is not None:  # before the answer is shown: what is not on record is not given out
        entry = _entry(tenant, user, line if isinstance(sql, Refusal) else sql, choice, result, ms)
        await trio.to_thread.run_sync(trail.append, entry)
    sys.stdout.write(json.dumps(row, ensure_ascii=False) + "\n")
    sys.stdout.flush()


def _next_line() -> str:
    """The next line; of one that is too long a piece, so that it is answered without being kept. "" at the end."""
    piece = MAX_LINE_CHARACTERS + 1
    line = sys.stdin.readline(piece)
    if len(line) == piece and not line.endswith("\n"):
        while (rest := sys.stdin.readline(piece)) and not rest.endswith("\n"):
            pass
    return line


def _statement(line: str) -> str | Refusal:
    if len(line) > MAX_LINE_CHARACTERS:
        return Refusal("too_long", "", f"a line has at most {MAX_LINE_CHARACTERS} characters")
    if not line.lstrip().startswith("{"):
        return line
    try:
        statement = json.loads(line).get("sql")
    except (ValueError, RecursionError):
        statement = None
    return statement if isinstance(statement, str) else Refusal("bad_line", "", 'a JSON line is {"sql": "SELECT ..."}')


def _row(choice: SourceChoice | Refusal, result: ResultSet | Refusal, ms: float) -> dict[str, Any]:
    where = {}
    if isinstance(choice, SourceChoice):
        where = {"sql": choice.query.sql, "source": choice.source, "why": choice.why}
    if isinstance(result, Refusal):
        return {
            "verdict": "refuse",
            "code": result.code,
            "message": result.hint,
            "where": result.where,
            **where,
            "ms": ms,
        }
    return {
        "verdict": "pass",
        **where,
        "columns": [column.name for column in result.columns],
        "types": [column.type for column in result.columns],
        "rows": result.rows,
        "truncated": result.is_truncated,
        "plan": None if result.plan is None else dict(result.plan.as_json()),
        "ms": ms,
    }


def _entry(
    tenant: TenantId, user: str, sql: str, choice: SourceChoice | Refusal, result: ResultSet | Refusal, ms: float
) -> AuditEntry:
    answered = result if isinstance(result, ResultSet) else None
    return AuditEntry(
        tenant=tenant,
        user=user,
        question="",
        draft=sql,
        verdict="refuse" if answered is None else "pass",
        code=result.code if isinstance(result, Refusal) else "",
        source=choice.source if isinstance(choice, SourceChoice) else "",
        sql=choice.query.sql if isinstance(choice, SourceChoice) else "",
        diff=rewrite_diff(sql, choice.query.sql) if isinstance(choice, SourceChoice) else "",
        plan={} if answered is None or answered.plan is None else dict(answered.plan.as_json()),
        rows=0 if answered is None else len(answered.rows),
        ms=ms,
        retries=0,
    )
