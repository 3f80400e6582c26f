"""The last layer of time-outs: looks at the server's list of queries and kills what outlived its limit."""

import attrs
import trio

from runtime.telemetry import counter, emit
from sqlassist.catalog import Dialect
from sqlassist.config import SqlConfig
from sqlassist.execute.errors import DatabaseError
from sqlassist.execute.server import session_plan
from sqlassist.execute.session import QueryFailed, Session, open_session
from sqlassist.naming import account_name, service_account

LOOK_EVERY_SECONDS = 1.0
LOOK_SECONDS = 5.0  # a look that takes longer means a server in trouble; it is tried again on a new connection

_KILLED = counter("sqlassist_watchdog_killed_requests_total", "Queries that outlived every other limit.", ["source"])
_FAILED = counter("sqlassist_watchdog_failed_requests_total", "Looks at a server that failed.", ["source"])


@attrs.frozen
class Overdue:
    """A query that was killed."""

    account: str
    thread_id: int
    seconds: float


async def run_watchdog(
    config: SqlConfig,
    name: str,
    *,
    every_seconds: float = LOOK_EVERY_SECONDS,
    task_status: "trio.TaskStatus[None]" = trio.TASK_STATUS_IGNORED,
) -> None:
    """Watch one server until cancelled; needs `trio_asyncio.open_loop()` round it. Ready after its first look.

    A server that does not answer is looked at again after `every_seconds`; that is counted and told once.

    Raises:
        DatabaseError: the very first look failed: better to know at the start.
    """
    source = config.sources[name]
    account = service_account(config, name, "watchdog")
    plan = session_plan(source, name, account, None, "SET SESSION autocommit=1")
    session: Session | None = None
    is_first, is_told = True, False
    try:
        while True:
            try:
                with trio.fail_after(LOOK_SECONDS):
                    session = session if session is not None and session.is_usable else await open_session(plan)
                    await kill_overdue(session, config, name)
                is_told = False
            except (DatabaseError, QueryFailed, trio.TooSlowError) as error:
                if is_first:
                    raise
                _closed(session)
                session = None
                _FAILED.labels(source=name).inc()
                if not is_told:
                    emit("sqlassist.watchdog.failed", level="warning", source=name, error=str(error) or "too slow")
                    is_told = True
            if is_first:
                is_first = False
                task_status.started()
            await trio.sleep(every_seconds)
    finally:
        _closed(session)


def _closed(session: Session | None) -> None:
    if session is not None:
        session.close()


async def kill_overdue(session: Session, config: SqlConfig, name: str) -> tuple[Overdue, ...]:
    """One look: kill every query of a tenant's or the explainer's account that is older than `watchdog_seconds`.

    Raises:
        DatabaseError: the server is lost, or the account lacks PROCESS or CONNECTION ADMIN.
        QueryFailed: it refused the look itself.
    """
    source = config.sources[name]
    accounts = [account_name(config, name, tenant) for tenant in config.tenants_of(name)]
    accounts.append(service_account(config, name, "explainer"))
    names = ", ".join(f"'{account}'" for account in accounts)
    limit = source.limits.watchdog_seconds
    is_mariadb = source.dialect is Dialect.MARIADB
    columns = "query_id, time_ms / 1000 AS age" if is_mariadb else "id AS query_id, time AS age"
    table = "information_schema" if is_mariadb else "performance_schema"
    age = "time_ms / 1000" if is_mariadb else "time"
    rows = await session.rows(
        f"SELECT id, user, {columns} FROM {table}.processlist WHERE user IN ({names})"
        f" AND command IN ('Query', 'Execute', 'Killed') AND {age} >= {limit:g}"
    )
    killed = []
    for row in rows:
        # by query id where there is one: the thread may have gone on to another query meanwhile
        kill = f"KILL HARD QUERY ID {int(row['query_id'])}" if is_mariadb else f"KILL QUERY {int(row['id'])}"
        try:
            await session.rows(kill)
        except QueryFailed:  # it has ended in the meantime
            continue
        overdue = Overdue(str(row["user"]), int(row["id"]), float(row["age"]))
        killed.append(overdue)
        _KILLED.labels(source=name).inc()
        emit(
            "sqlassist.watchdog.killed", level="warning", source=name, account=overdue.account, seconds=overdue.seconds
        )
    return tuple(killed)
