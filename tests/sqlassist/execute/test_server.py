"""Queries on the real server: values, bounds, each layer of time-outs alone, and cancellation."""

import contextlib
import random

import attrs
import pymysql
import pytest
import trio
import trio_asyncio

from sqlassist.credentials import password_for
from sqlassist.execute.errors import DatabaseLost
from sqlassist.execute.server import ServerBackend, open_server_backend, session_plan
from sqlassist.execute.session import open_session
from sqlassist.messages import Refusal
from sqlassist.result import ResultSet, ValueType
from sqlassist.watchdog import kill_overdue, run_watchdog
from tests.kit.mariadb import mariadb_marks
from tests.kit.sql_world import ALPHA, SqlWorld, checked, sql_world, unguarded

pytestmark = mariadb_marks

ACCOUNT = "corral_tenant1"
SLOW = "SELECT SLEEP(20)"
OFF = {"plan_gate": False, "require_partition_filter": False, "max_join_size": 0}


@pytest.fixture(scope="module")
def world() -> SqlWorld:
    return sql_world()


async def _until_idle(world: SqlWorld, seconds: float = 0.5) -> None:
    with trio.fail_after(seconds):
        while world.server.queries_of(ACCOUNT):
            await trio.sleep(0.01)


async def test_values_arrive_without_loss(world: SqlWorld) -> None:
    sql = (
        "SELECT 9007199254740991, 18446744073709551615, CAST(1.10 AS DECIMAL(20,10)), NULL, DATE'2026-02-28',"
        " CAST('2026-02-28 23:59:59.123456' AS DATETIME(6)), CAST('-838:59:59' AS TIME), X'00ff27',"
        " '猫 \\' \"', 0.5e0, TRUE"
    )
    async with open_server_backend(world.config, "game") as backend:
        result = await backend.execute(ALPHA, unguarded(sql))

    assert isinstance(result, ResultSet)
    assert result.rows == (
        (
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
        ),
    )
    kinds = [column.type for column in result.columns]
    assert kinds[1:3] == [ValueType.INTEGER, ValueType.DECIMAL]
    assert kinds[4:9] == [ValueType.DATE, ValueType.DATETIME, ValueType.TIME, ValueType.BYTES, ValueType.TEXT]


async def test_settings_are_pinned(world: SqlWorld) -> None:
    names = "sql_mode, @@time_zone, @@tx_read_only, @@max_statement_time, @@sql_big_selects, @@max_join_size"
    async with open_server_backend(world.config, "game") as backend:
        result = await backend.execute(ALPHA, unguarded(f"SELECT @@{names}, @@character_set_client"))

    assert isinstance(result, ResultSet)
    mode, *others = result.rows[0]
    assert "ANSI_QUOTES" not in str(mode)
    assert "NO_BACKSLASH_ESCAPES" not in str(mode)
    assert others == ["+00:00", 1, 10.0, 0, 10_000_000, "utf8mb4"]


@pytest.mark.parametrize("sql", ["SET @@session.max_statement_time = 0", "SELECT 5 INTO @x", "DO 1"])
async def test_what_is_no_query_is_refused_and_leaves_no_setting_behind(world: SqlWorld, sql: str) -> None:
    config = world.limited(pool=1, plan_gate=False)
    async with open_server_backend(config, "game") as backend:
        refused = await backend.execute(ALPHA, unguarded(sql))
        after = await backend.execute(ALPHA, unguarded("SELECT @@max_statement_time, @x"))

    assert isinstance(refused, Refusal)
    assert refused.code == "no_answer"
    assert isinstance(after, ResultSet)
    assert after.rows == ((10.0, None),)


async def test_no_warning_of_the_server_reaches_a_log(world: SqlWorld, caplog: pytest.LogCaptureFixture) -> None:
    account = "corral_explainer"  # its rows are read whole
    plan = session_plan(world.source, "game", account, None, "SET SESSION autocommit=1")
    async with trio_asyncio.open_loop():
        session = await open_session(plan)
        await session.rows("SELECT nickname + 0 FROM core.players LIMIT 3")
        warnings = await session.rows("SHOW WARNINGS")
        session.close()

    assert any("Truncated" in row["Message"] for row in warnings)
    assert [r.getMessage() for r in caplog.records if r.name.startswith("asyncmy")] == []


async def test_rows_are_capped(world: SqlWorld) -> None:
    config = world.limited(max_rows=7, **OFF)
    async with open_server_backend(config, "game") as backend:
        for _ in range(3):
            result = await backend.execute(ALPHA, unguarded("SELECT * FROM players"))
            assert isinstance(result, ResultSet)
            assert (len(result.rows), result.is_truncated) == (7, True)
        exactly = await backend.execute(ALPHA, unguarded("SELECT * FROM players LIMIT 7"))
    assert isinstance(exactly, ResultSet)
    assert (len(exactly.rows), exactly.is_truncated) == (7, False)


async def test_bytes_are_capped(world: SqlWorld) -> None:
    async with open_server_backend(world.limited(max_result_bytes=2000, **OFF), "game") as backend:
        result = await backend.execute(ALPHA, unguarded("SELECT REPEAT('x', 900) FROM players"))

    assert isinstance(result, ResultSet)
    assert (len(result.rows), result.is_truncated) == (2, True)


async def test_a_limit_that_the_guard_set_marks_a_full_answer_as_a_part(world: SqlWorld) -> None:
    query = checked(world, "SELECT player_id FROM players")
    async with open_server_backend(world.limited(max_rows=1000), "game") as backend:
        result = await backend.execute(ALPHA, query)

    assert isinstance(result, ResultSet)
    assert not result.is_truncated  # there are 400 of them
    assert result.plan is not None
    assert result.plan.examined_rows > 100


# Before: each gate alone


async def test_max_join_size_alone(world: SqlWorld) -> None:
    config = world.limited(**(OFF | {"max_join_size": 1000}))
    sql = "SELECT COUNT(*) FROM players a JOIN players b ON a.server_id = b.server_id"
    async with open_server_backend(config, "game") as backend:
        refused = await backend.execute(ALPHA, checked(world, sql))
        small = await backend.execute(ALPHA, checked(world, "SELECT COUNT(*) FROM servers"))

    assert isinstance(refused, Refusal)
    assert refused.code == "too_many_rows_examined"
    assert isinstance(small, ResultSet)


async def test_the_plan_gate_alone(world: SqlWorld) -> None:
    sql = "SELECT COUNT(*) FROM players a JOIN players b ON a.server_id = b.server_id"
    config = world.limited(**(OFF | {"plan_gate": True, "max_examined_rows": 1000}))
    async with open_server_backend(config, "game") as backend:
        refused = await backend.execute(ALPHA, checked(world, sql))
    assert isinstance(refused, Refusal)
    assert refused.code == "too_many_rows_examined"

    scanning = world.limited(**(OFF | {"plan_gate": True, "max_scan_rows": 3}))
    async with open_server_backend(scanning, "game") as backend:
        scan = await backend.execute(ALPHA, checked(world, "SELECT MAX(name) FROM channels"))
    assert isinstance(scan, Refusal)
    assert scan.code == "full_scan"


async def test_tables_side_by_side_need_one_of_the_two_row_gates(world: SqlWorld) -> None:
    query = checked(world, "SELECT COUNT(*) FROM players p JOIN servers s WHERE s.server_id = 1")
    outcomes = {}
    gates: dict[str, dict[str, int]] = {"none": {}, "plan": {"plan_gate": True}, "size": {"max_join_size": 1_000_000}}
    for name, limits in gates.items():
        async with open_server_backend(world.limited(**(OFF | limits)), "game") as backend:
            outcomes[name] = await backend.execute(ALPHA, query)
    unexplained = attrs.evolve(
        world.source, explainer=False, limits=attrs.evolve(world.source.limits, plan_gate=True, max_join_size=0)
    )
    async with open_server_backend(attrs.evolve(world.config, sources={"game": unexplained}), "game") as backend:
        outcomes["no explainer"] = await backend.execute(ALPHA, query)

    refused = {name: outcome.code for name, outcome in outcomes.items() if isinstance(outcome, Refusal)}
    assert refused == {"none": "join_without_equality", "no explainer": "join_without_equality"}


async def test_the_partition_gate_alone(world: SqlWorld) -> None:
    config = world.limited(**(OFF | {"require_partition_filter": True}))
    async with open_server_backend(config, "game") as backend:
        refused = await backend.execute(ALPHA, checked(world, "SELECT COUNT(*) FROM sessions"))
        filtered = await backend.execute(
            ALPHA, checked(world, "SELECT COUNT(*) FROM sessions WHERE day = '2026-03-03'")
        )

    assert isinstance(refused, Refusal)
    assert refused.code == "partition_filter_missing"
    assert isinstance(filtered, ResultSet)


def test_partitions_are_pruned_through_the_views(world: SqlWorld) -> None:
    explain = "EXPLAIN PARTITIONS SELECT COUNT(*) FROM corral_tenant1.sessions"
    everything = str(world.server.run(explain)[0][3]).split(",")
    pruned = str(world.server.run(f"{explain} WHERE day BETWEEN '2026-03-02' AND '2026-03-09'")[0][3]).split(",")

    assert len(everything) == 7
    assert "p202603" in pruned
    assert len(pruned) <= 2  # the first partition is listed with any predicate


# During: the server's limit and ours


async def test_the_servers_statement_limit_alone(world: SqlWorld) -> None:
    config = world.limited(statement_seconds=0.3, deadline_seconds=60, **OFF)
    async with open_server_backend(config, "game") as backend:
        begun = trio.current_time()
        result = await backend.execute(ALPHA, unguarded(SLOW))
        taken = trio.current_time() - begun
        statistics = backend.statistics()

    assert isinstance(result, Refusal)
    assert result.code == "too_slow"
    assert 0.25 < taken < 2
    assert statistics.killed == 0


async def test_our_deadline_alone(world: SqlWorld) -> None:
    config = world.limited(statement_seconds=60, deadline_seconds=0.3, **OFF)
    async with open_server_backend(config, "game") as backend:
        result = await backend.execute(ALPHA, unguarded(SLOW))
        await _until_idle(world)
        statistics = backend.statistics()
        after = await backend.execute(ALPHA, unguarded("SELECT 42"))

    assert isinstance(result, Refusal)
    assert result.code == "too_slow"
    assert (statistics.killed, statistics.lost_kills) == (1, 0)
    assert isinstance(after, ResultSet)
    assert after.rows == ((42,),)


# After: the watchdog


async def test_the_watchdog_alone(world: SqlWorld) -> None:
    config = world.limited(watchdog_seconds=0.3)
    source = config.sources["game"]
    outcome: list[int] = []

    def hog() -> None:
        connection = pymysql.connect(
            unix_socket=source.socket,
            user=ACCOUNT,
            password=password_for(source.credentials, ACCOUNT).reveal(),
            database=ACCOUNT,
        )
        with contextlib.closing(connection), connection.cursor() as cursor:
            cursor.execute("SET SESSION max_statement_time = 0")  # an account may lift its own limit
            try:
                cursor.execute("SELECT SLEEP(20) FROM players")
            except pymysql.err.MySQLError as error:
                outcome.append(error.args[0])

    async with trio_asyncio.open_loop():
        with trio.fail_after(10):
            async with trio.open_nursery() as nursery:
                watchdog = trio.CancelScope()

                async def watch(task_status: "trio.TaskStatus[None]" = trio.TASK_STATUS_IGNORED) -> None:
                    with watchdog:
                        await run_watchdog(config, "game", every_seconds=0.05, task_status=task_status)

                await nursery.start(watch)
                await trio.to_thread.run_sync(hog)
                watchdog.cancel()

    assert outcome == [1317]


async def test_the_watchdog_leaves_alone_what_is_within_its_time_and_what_is_not_ours(world: SqlWorld) -> None:
    config = world.limited(watchdog_seconds=0.2)
    plan = session_plan(config.sources["game"], "game", "corral_watchdog", None, "SET SESSION autocommit=1")
    async with trio_asyncio.open_loop():
        session = await open_session(plan)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.to_thread.run_sync, world.server.run, "SELECT SLEEP(0.6)")
            await trio.sleep(0.4)
            killed = await kill_overdue(session, config, "game")
        session.close()

    assert killed == ()


# Cancellation


async def _one(backend: ServerBackend, number: int, after: float, sql: str) -> str:
    with trio.move_on_after(after) as scope:
        result = await backend.execute(ALPHA, unguarded(sql.format(number)))
        assert isinstance(result, ResultSet), result
        assert result.rows[0][0] == number, "another request's answer"
        return "answered"
    assert scope.cancelled_caught
    return "cancelled"


async def test_random_cancels_leave_nothing_behind(world: SqlWorld) -> None:
    rng = random.Random(5)
    outcomes = []
    async with open_server_backend(world.limited(**OFF), "game") as backend:
        for number in range(60):
            sql = rng.choice(["SELECT {}", "SELECT {}, SLEEP(3)", "SELECT {}, player_id FROM players"])
            outcomes.append(await _one(backend, number, rng.uniform(0, 0.006), sql))
            await _until_idle(world)
        assert await _one(backend, 99, 5, "SELECT {}") == "answered"
        statistics = backend.statistics()
    assert {"answered", "cancelled"} <= set(outcomes)
    assert statistics.lost_kills == 0
    assert statistics.connections <= 2
    with trio.fail_after(2):
        while world.server.connections_of(ACCOUNT):
            await trio.sleep(0.02)


async def test_many_at_once_share_the_pool_and_too_many_are_refused(world: SqlWorld) -> None:
    config = world.limited(pool=2, waiting=3, **OFF)
    results: list[object] = []
    async with open_server_backend(config, "game") as backend:

        async def ask() -> None:
            results.append(await backend.execute(ALPHA, unguarded("SELECT SLEEP(0.2)")))

        async with trio.open_nursery() as nursery:
            for _ in range(8):
                nursery.start_soon(ask)
            await trio.sleep(0.1)
            assert len(world.server.queries_of(ACCOUNT)) == 2
    refused = [r for r in results if isinstance(r, Refusal)]
    assert {r.code for r in refused} == {"overloaded"}
    assert len(refused) == 3
    assert sum(isinstance(r, ResultSet) for r in results) == 5


async def test_an_idle_connection_that_the_server_closed_is_replaced(world: SqlWorld) -> None:
    async with open_server_backend(world.limited(**OFF), "game") as backend:
        first = await backend.execute(ALPHA, unguarded("SELECT CONNECTION_ID()"))
        assert isinstance(first, ResultSet)
        world.server.run(f"KILL {first.rows[0][0]}")
        again = await backend.execute(ALPHA, unguarded("SELECT 7"))

    assert isinstance(again, ResultSet)
    assert again.rows == ((7,),)


async def test_an_idle_explainer_that_the_server_closed_is_replaced(world: SqlWorld) -> None:
    query = checked(world, "SELECT COUNT(*) FROM players")
    async with open_server_backend(world.config, "game") as backend:
        first = await backend.execute(ALPHA, query)
        world.server.run("KILL USER corral_explainer")
        again = await backend.execute(ALPHA, query)

    assert isinstance(first, ResultSet)
    assert isinstance(again, ResultSet)
    assert again.rows == first.rows


async def test_a_server_that_is_not_there_is_a_lost_database(world: SqlWorld) -> None:
    source = attrs.evolve(
        world.source, socket="", port=20001, limits=attrs.evolve(world.source.limits, plan_gate=False)
    )
    config = attrs.evolve(world.config, sources={"game": source})
    async with open_server_backend(config, "game") as backend:
        with pytest.raises(DatabaseLost, match="game"):
            await backend.execute(ALPHA, unguarded("SELECT 1"))
