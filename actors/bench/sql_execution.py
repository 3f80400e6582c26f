"""What does a server carry? Queries a second of a pool, the gain of pre-aggregation, and what cancels leave."""

import contextlib
import random
import statistics
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import trio

from actors.bench.result import BenchResult, Tell
from actors.configuration import Problem, ScenarioError
from actors.sql_configuration import load_sql_config
from runtime.ids import TenantId
from sqlassist.administration import (
    ProvisioningFailed,
    apply_steps,
    authentication_for,
    open_admin,
)
from sqlassist.catalog import Catalog, Column, ColumnType, Dialect, Table
from sqlassist.config import Credentials, SqlConfig, TenantConfig
from sqlassist.credentials import CredentialError
from sqlassist.execute.errors import DatabaseError, ServerUnavailable
from sqlassist.execute.server import ServerBackend, open_server_backend
from sqlassist.guard.check import check
from sqlassist.guard.checked import CheckedQuery
from sqlassist.messages import Refusal
from sqlassist.naming import account_name, qualified, schema_name
from sqlassist.provision import Provisioning, ServerState
from sqlassist.result import ResultSet
from sqlassist.rollup import RollupFailed, refresh_rollups

PREFIX = "cbench"  # everything that the benchmark makes on the server, and removes at its end, begins with it
BENCH = TenantId("bench")
POOL = 16
WAIT_SECONDS = 0.1
AIM_SHARE = 0.95
AIM_GAIN = 13.0
IDLE_SECONDS = 0.5

HEAD_METRICS = (
    (
        "revenue by day",
        "SELECT day, SUM(amount) FROM payments GROUP BY day",
        "SELECT day, SUM(revenue) FROM daily_payments GROUP BY day",
    ),
    (
        "revenue by server",
        "SELECT server_id, SUM(amount), COUNT(*) FROM payments GROUP BY server_id",
        "SELECT server_id, SUM(revenue), SUM(payments) FROM daily_payments GROUP BY server_id",
    ),
    (
        "sessions by day and channel",
        "SELECT day, channel_id, COUNT(*) FROM sessions GROUP BY day, channel_id",
        "SELECT day, channel_id, SUM(sessions) FROM daily_sessions GROUP BY day, channel_id",
    ),
    (
        "minutes by server in a month",
        "SELECT server_id, SUM(minutes) FROM sessions WHERE day BETWEEN '2026-03-01' AND '2026-03-31'"
        " GROUP BY server_id",
        "SELECT server_id, SUM(minutes) FROM daily_sessions WHERE day BETWEEN '2026-03-01' AND '2026-03-31'"
        " GROUP BY server_id",
    ),
)
"""(name, over the base table, over the rollup): for the data set that `corral sql sample` makes."""


CANCELLED = (
    "SELECT {} AS n",
    "SELECT {} AS n, a.minutes FROM sessions a JOIN sessions b ON a.channel_id = b.channel_id"
    " ORDER BY a.minutes * b.minutes",
    "SELECT {} AS n, nickname FROM players",
)
"""At once, for minutes, and with many rows."""
TRIES_A_CANCEL = 20


def bench_execution(
    config: SqlConfig, source: str, tenant: TenantId, *, seconds: float, cancels: int, seed: int, tell: Tell
) -> BenchResult:
    """Measure on a server that holds the synthetic data set.

    Accounts and views of its own are made for the time of the measurement: limits of the real ones do not matter.

    Args:
        config: Of the server; its admin is needed.
        source: Which one.
        tenant: Whose rows are read.
        seconds: How long queries are sent through the pool.
        cancels: How many queries are cancelled at random moments.
        seed: Of those moments.
        tell: Whom to tell how far it is.

    Raises:
        ServerUnavailable, ProvisioningFailed, DatabaseError: it cannot be done there.
    """
    with _prepared(config, source, tenant) as own:
        refresh_rollups(own, source)
        return trio.run(_bench, own, source, seconds, cancels, seed, tell)


def run_from_file(
    file: Path, source: str, tenant: str, *, seconds: float, cancels: int, seed: int, tell: Tell
) -> BenchResult:
    """As `bench_execution`, of a configuration file.

    Raises:
        ScenarioError: the file is wrong, or the server cannot be measured; the text says why.
    """
    config = load_sql_config(file)
    servers = [name for name, owner in config.sources.items() if owner.dialect is not Dialect.DUCKDB]
    for kind, name, known in (("server", source, servers), ("tenant", tenant, list(config.tenants))):
        if name not in known:
            raise ScenarioError(
                [Problem(f"there is no {kind} {name!r}; there are: {', '.join(known)}", "$", str(file))]
            )
    try:
        return bench_execution(config, source, TenantId(tenant), seconds=seconds, cancels=cancels, seed=seed, tell=tell)
    except (ServerUnavailable, ProvisioningFailed, RollupFailed, DatabaseError, BenchRefused, CredentialError) as error:
        raise ScenarioError([Problem(str(error), f"$.sources.{source}", str(file))]) from error


@contextlib.contextmanager
def _prepared(config: SqlConfig, source: str, tenant: TenantId) -> Iterator[SqlConfig]:
    with tempfile.TemporaryDirectory(prefix="corral-bench-") as folder:
        limits = attrs.evolve(
            config.sources[source].limits,
            pool=POOL,
            waiting=10_000,
            plan_gate=False,
            require_partition_filter=False,
            max_join_size=0,
            statement_seconds=120.0,
            deadline_seconds=120.0,
        )
        changed = attrs.evolve(
            config.sources[source],
            prefix=PREFIX,
            credentials=Credentials(folder=folder),
            limits=limits,
            explainer=False,
            watchdog=False,
        )
        tenants: dict[str, TenantConfig] = {BENCH: TenantConfig(keys=config.tenants[tenant].keys, account="bench")}
        own = attrs.evolve(config, sources={source: changed}, tenants=tenants)
        plan = Provisioning(own, source, authentication_for(own, source, make=True))
        with open_admin(changed) as connection:
            try:
                apply_steps(connection, plan.undo())  # what a killed benchmark left
                apply_steps(connection, plan.steps(ServerState()))
                view = qualified(schema_name(own, source, BENCH), "bench_wait")
                with connection.cursor() as cursor:
                    cursor.execute(f"CREATE VIEW {view} AS SELECT SLEEP({WAIT_SECONDS}) AS waited")
                    account = account_name(own, source, BENCH)
                    cursor.execute(f"GRANT SELECT ON {view} TO '{account}'@'{changed.account_host}'")
                yield own
            finally:
                apply_steps(connection, plan.undo())


async def _bench(own: SqlConfig, source: str, seconds: float, cancels: int, seed: int, tell: Tell) -> BenchResult:
    rows: list[dict[str, Any]] = []
    async with open_server_backend(own, source) as backend:
        tell("one pool", 0.0)
        rate = await _rate(backend, own.sources[source].dialect, seconds)
        tell("pre-aggregation", 0.4)
        gains = [await _gain(backend, own, source, *metric) for metric in HEAD_METRICS]
        rows += gains
        tell("cancels", 0.7)
        cancelled = await _cancels(backend, own, source, cancels, seed)
    before = statistics.fmean(row["base_ms"] for row in gains)
    after = statistics.fmean(row["rollup_ms"] for row in gains)
    return BenchResult(
        name="sql-execution",
        command=f"corral bench sql-execution CONFIG --seconds {seconds:g} --cancels {cancels} --seed {seed}",
        summary={
            **rate,
            "base_ms": round(before, 2),
            "rollup_ms": round(after, 2),
            "preaggregation_gain": round(before / after, 1),
            **cancelled,
        },
        rows=rows,
        notes=(
            f"Pool of {POOL}, a view that waits {WAIT_SECONDS:g} s, no plan gate. Aim: {AIM_SHARE:.0%} of pool / wait.",
            f"Capacity is pool / mean seconds, so the gain in time is the gain in capacity. Aim: {AIM_GAIN:g}x.",
            f"stopped_after: from a cancel until its query is gone from the server. Over {IDLE_SECONDS} s is late.",
        ),
    )


async def _rate(backend: ServerBackend, dialect: Dialect, seconds: float) -> dict[str, Any]:
    catalog = Catalog(BENCH, dialect, (Table("bench_wait", (Column("waited", ColumnType.INTEGER),)),))
    query = _checked("SELECT waited FROM bench_wait", catalog)
    alone = [await _seconds_of(backend, query) for _ in range(20)]
    mean = statistics.fmean(alone[1:])  # the first one connects
    done = 0

    async def client(until: float) -> None:
        nonlocal done
        while trio.current_time() < until:
            await _seconds_of(backend, query)
            done += 1

    begun = trio.current_time()
    async with trio.open_nursery() as nursery:
        for _ in range(2 * POOL):
            nursery.start_soon(client, begun + seconds)
    rate = done / (trio.current_time() - begun)
    return {
        "pool": POOL,
        "mean_alone_ms": round(mean * 1000, 2),
        "queries_per_second": round(rate, 1),
        "share_of_pool_over_wait": round(rate / (POOL / WAIT_SECONDS), 3),
    }


async def _gain(
    backend: ServerBackend, own: SqlConfig, source: str, name: str, base: str, rollup: str
) -> dict[str, Any]:
    catalog = own.catalog(source, BENCH)
    row: dict[str, Any] = {"metric": name}
    for label, sql in (("base_ms", base), ("rollup_ms", rollup)):
        query = _checked(sql, catalog)
        await _seconds_of(backend, query)
        row[label] = round(statistics.median([await _seconds_of(backend, query) for _ in range(5)]) * 1000, 2)
    return {**row, "gain": round(row["base_ms"] / row["rollup_ms"], 1)}


async def _cancels(backend: ServerBackend, own: SqlConfig, source: str, count: int, seed: int) -> dict[str, Any]:
    rng = random.Random(seed)
    catalog = own.catalog(source, BENCH)
    account = account_name(own, source, BENCH)
    busy = "SELECT COUNT(*) FROM information_schema.processlist WHERE user = %s AND command IN ('Query', 'Killed')"
    tried = wrong = cancelled = late = 0
    idle: list[float] = []
    stopped: list[float] = []
    with open_admin(own.sources[source]) as admin:
        while cancelled < count and tried < count * TRIES_A_CANCEL:  # some queries end before their moment comes
            number = tried
            tried += 1
            kind = rng.choice(CANCELLED).format(number)
            query = _checked(kind, catalog)
            with trio.move_on_after(rng.uniform(0, 0.01)) as scope:
                result = await backend.execute(BENCH, query)
                wrong += not isinstance(result, ResultSet) or any(row[0] != number for row in result.rows)
            if scope.cancelled_caught:
                cancelled += 1
                stopped.append(trio.current_time() - scope.deadline)
            begun = trio.current_time()
            with admin.cursor() as cursor:
                while True:
                    cursor.execute(busy, (account,))
                    found = cursor.fetchone()
                    if found is None or not found[0]:
                        break
                    await trio.sleep(0.005)
            idle.append(trio.current_time() - begun)
            late += idle[-1] + (stopped[-1] if scope.cancelled_caught else 0) > IDLE_SECONDS
        statistics_now = backend.statistics()
    return {
        "cancels_tried": tried,
        "cancelled": cancelled,
        "wrong_answers": wrong,
        "idle_after_ms_max": round(max(idle, default=0.0) * 1000, 1),
        "stopped_after_ms_median": round(statistics.median(stopped or [0.0]) * 1000, 1),
        "stopped_after_ms_max": round(max(stopped, default=0.0) * 1000, 1),
        "late": late,
        "lost_kills": statistics_now.lost_kills,
        "connections_after": statistics_now.connections,
    }


def _checked(sql: str, catalog: Catalog) -> CheckedQuery:
    query = check(sql, catalog)
    assert isinstance(query, CheckedQuery), query
    return query


async def _seconds_of(backend: ServerBackend, query: CheckedQuery) -> float:
    begun = trio.current_time()
    result = await backend.execute(BENCH, query)
    if isinstance(result, Refusal):
        raise BenchRefused(f"the server refused {query.sql!r}: {result}")
    return trio.current_time() - begun


class BenchRefused(Exception):
    """The server does not run what the benchmark needs: does it hold the synthetic data set?"""
