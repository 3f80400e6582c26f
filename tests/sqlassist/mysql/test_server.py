"""Queries on a real MySQL: values, every bound alone, EXPLAIN, kills, the watchdog."""

import contextlib
import logging

import attrs
import pymysql
import pytest
import trio
import trio_asyncio

from sqlassist.catalog import Dialect
from sqlassist.credentials import password_for
from sqlassist.execute.server import open_server_backend
from sqlassist.guard.check import check
from sqlassist.guard.checked import CheckedQuery
from sqlassist.messages import Refusal
from sqlassist.result import ResultSet, ValueType
from sqlassist.watchdog import run_watchdog
from tests.kit.mysql import mysql_marks
from tests.kit.mysql_world import MySqlWorld, mysql_world
from tests.kit.sql_world import ALPHA, unguarded

pytestmark = mysql_marks

ACCOUNT = "corral_tenant1"
OFF = {"plan_gate": False, "require_partition_filter": False, "max_join_size": 0}
# takes hours
LONG = "SELECT COUNT(*) FROM players a, players b, players c, players d WHERE a.level + b.level * c.level > d.level"


@pytest.fixture(scope="module")
def world() -> MySqlWorld:
    return mysql_world()


def _checked(world: MySqlWorld, sql: str) -> CheckedQuery:
    query = check(sql, world.config.catalog("game", ALPHA))
    assert isinstance(query, CheckedQuery), query
    assert query.dialect is Dialect.MYSQL
    return query


async def _until_idle(world: MySqlWorld, seconds: float = 2.0) -> None:
    with trio.fail_after(seconds):
        while world.server.queries_of(ACCOUNT):
            await trio.sleep(0.01)


async def test_values_arrive_without_loss(world: MySqlWorld) -> None:
    sql = (
        "SELECT 9007199254740991, 18446744073709551615, CAST(1.10 AS DECIMAL(20,10)), NULL, DATE'2026-02-28',"
        " CAST('2026-02-28 23:59:59.123456' AS DATETIME(6)), CAST('-838:59:59' AS TIME), X'00ff27',"
        " '猫 \\' \"', 0.5e0, TRUE, JSON_OBJECT('a', 1)"
    )
    async with open_server_backend(world.limited(**OFF), "game") as backend:
        result = await backend.execute(ALPHA, unguarded(sql))

    assert isinstance(result, ResultSet)
    assert result.rows[0] == (
        9007199254740991,
        "18446744073709551615",
        "1.1000000000",
        None,
        "2026-02-28",
        "2026-02-28T23:59:59.123456",
        "-838:59:59",
        "AP8n",
        "猫 ' \"",
        0.5,
        1,
        '{"a": 1}',
    )
    kinds = [column.type for column in result.columns]
    assert kinds[:3] == [ValueType.INTEGER, ValueType.INTEGER, ValueType.DECIMAL]
    assert kinds[4:9] == [ValueType.DATE, ValueType.DATETIME, ValueType.TIME, ValueType.BYTES, ValueType.TEXT]
    assert kinds[9:] == [ValueType.FLOAT, ValueType.INTEGER, ValueType.TEXT]


async def test_settings_are_pinned(world: MySqlWorld) -> None:
    names = "sql_mode, @@time_zone, @@transaction_read_only, @@max_execution_time, @@sql_big_selects, @@max_join_size"
    async with open_server_backend(world.config, "game") as backend:
        result = await backend.execute(ALPHA, unguarded(f"SELECT @@{names}, @@character_set_client"))

    assert isinstance(result, ResultSet)
    mode, *others = result.rows[0]
    assert "ANSI_QUOTES" not in str(mode)
    assert "NO_BACKSLASH_ESCAPES" not in str(mode)
    assert others == ["+00:00", 1, 10_000, 0, 10_000_000, "utf8mb4"]


async def test_a_guarded_query_passes_every_gate_and_gives_the_tenants_rows(world: MySqlWorld) -> None:
    sql = (
        "SELECT day, COUNT(*) AS n, SUM(amount) AS revenue FROM payments"
        " WHERE day >= '2026-03-03' AND day < '2026-03-10' GROUP BY day ORDER BY day"
    )
    expected = world.server.run(
        "SELECT CAST(day AS CHAR), COUNT(*), CAST(SUM(amount) AS CHAR) FROM core.payments"
        " WHERE tenant_id = 1 AND day >= '2026-03-03' AND day < '2026-03-10' GROUP BY day ORDER BY day"
    )
    async with open_server_backend(world.config, "game") as backend:
        result = await backend.execute(ALPHA, _checked(world, sql))

    assert isinstance(result, ResultSet), result
    assert expected
    assert list(result.rows) == expected
    assert [column.type for column in result.columns] == [ValueType.DATE, ValueType.INTEGER, ValueType.DECIMAL]
    assert result.plan is not None
    assert result.plan.examined_rows > 0


async def test_accounts_log_in_over_tcp_without_tls(world: MySqlWorld) -> None:
    world.server.run("FLUSH PRIVILEGES")  # forgets the hashes that make a quick login possible
    config = attrs.evolve(world.config, sources={"game": attrs.evolve(world.source, socket="")})
    async with open_server_backend(config, "game") as backend:
        result = await backend.execute(ALPHA, _checked(world, "SELECT COUNT(*) FROM servers"))
    assert isinstance(result, ResultSet)


async def test_no_text_of_the_server_reaches_a_log(world: MySqlWorld, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        async with open_server_backend(world.config, "game") as backend:
            explained = await backend.execute(ALPHA, _checked(world, "SELECT COUNT(*) FROM players"))
            warned = await backend.execute(ALPHA, unguarded("SELECT nickname + 0 FROM players LIMIT 3"))
            after = await backend.execute(ALPHA, unguarded("SELECT 42"))

    assert isinstance(explained, ResultSet)
    assert isinstance(warned, ResultSet)
    assert isinstance(after, ResultSet)
    assert after.rows == ((42,),)
    assert [r.getMessage() for r in caplog.records if r.name.startswith("asyncmy")] == []
    assert "tenant_id" not in caplog.text
    assert "nickname" not in caplog.text


# Before


async def test_max_join_size_alone(world: MySqlWorld) -> None:
    config = world.limited(**(OFF | {"max_join_size": 1000}))
    async with open_server_backend(config, "game") as backend:
        refused = await backend.execute(ALPHA, unguarded("SELECT COUNT(*) FROM players a, players b"))
        small = await backend.execute(ALPHA, _checked(world, "SELECT COUNT(*) FROM servers"))

    assert isinstance(refused, Refusal)
    assert refused.code == "too_many_rows_examined"
    assert isinstance(small, ResultSet)


async def test_the_plan_gate_alone(world: MySqlWorld) -> None:
    # max_join_size lets this join through on MySQL, and any join in a subquery that stands for one value
    join = "SELECT COUNT(*) FROM players a JOIN players b ON a.server_id = b.server_id"
    config = world.limited(**(OFF | {"plan_gate": True, "max_examined_rows": 1000}))
    async with open_server_backend(config, "game") as backend:
        refused = [await backend.execute(ALPHA, _checked(world, sql)) for sql in (join, f"SELECT ({join}) AS n")]
    assert [r.code for r in refused if isinstance(r, Refusal)] == ["too_many_rows_examined"] * 2

    scanning = world.limited(**(OFF | {"plan_gate": True, "max_scan_rows": 3}))
    async with open_server_backend(scanning, "game") as backend:
        scan = await backend.execute(ALPHA, _checked(world, "SELECT MAX(name) FROM channels"))
    assert isinstance(scan, Refusal)
    assert scan.code == "full_scan"


# During


async def test_the_servers_statement_limit_alone(world: MySqlWorld) -> None:
    config = world.limited(**(OFF | {"statement_seconds": 0.3, "deadline_seconds": 60}))
    async with open_server_backend(config, "game") as backend:
        begun = trio.current_time()
        result = await backend.execute(ALPHA, unguarded(LONG))
        taken = trio.current_time() - begun
        statistics = backend.statistics()

    assert isinstance(result, Refusal)
    assert result.code == "too_slow"
    assert 0.25 < taken < 3
    assert statistics.killed == 0


@pytest.mark.parametrize("sql", ["SELECT SLEEP(20)", LONG], ids=["waiting", "computing"])
async def test_our_deadline_alone(world: MySqlWorld, sql: str) -> None:
    config = world.limited(**(OFF | {"statement_seconds": 60, "deadline_seconds": 0.3}))
    async with open_server_backend(config, "game") as backend:
        result = await backend.execute(ALPHA, unguarded(sql))
        await _until_idle(world)
        statistics = backend.statistics()
        after = await backend.execute(ALPHA, unguarded("SELECT 42"))

    assert isinstance(result, Refusal)
    assert result.code == "too_slow"
    assert (statistics.killed, statistics.lost_kills) == (1, 0)
    assert isinstance(after, ResultSet)
    assert after.rows == ((42,),)


async def test_a_cancelled_query_has_ended_on_the_server(world: MySqlWorld) -> None:
    async with open_server_backend(world.limited(**OFF), "game") as backend:
        with trio.move_on_after(0.2) as scope:
            await backend.execute(ALPHA, unguarded(LONG))
        assert scope.cancelled_caught
        assert world.server.queries_of(ACCOUNT) == []
        assert (backend.statistics().killed, backend.statistics().lost_kills) == (1, 0)


# After


async def test_the_watchdog_alone(world: MySqlWorld) -> None:
    config = world.limited(watchdog_seconds=1.0)
    outcome: list[int] = []

    def hog() -> None:
        connection = pymysql.connect(
            unix_socket=world.source.socket,
            user=ACCOUNT,
            password=password_for(world.source.credentials, ACCOUNT).reveal(),
            database=ACCOUNT,
        )
        with contextlib.closing(connection), connection.cursor() as cursor:
            cursor.execute("SET SESSION max_execution_time = 0")  # an account may lift its own limit
            try:
                cursor.execute(LONG)
            except pymysql.err.MySQLError as error:
                outcome.append(error.args[0])

    async with trio_asyncio.open_loop():
        with trio.fail_after(30):
            async with trio.open_nursery() as nursery:
                watchdog = trio.CancelScope()

                async def watch(task_status: "trio.TaskStatus[None]" = trio.TASK_STATUS_IGNORED) -> None:
                    with watchdog:
                        await run_watchdog(config, "game", every_seconds=0.1, task_status=task_status)

                await nursery.start(watch)
                await trio.to_thread.run_sync(hog)
                watchdog.cancel()

    assert outcome == [1317]
