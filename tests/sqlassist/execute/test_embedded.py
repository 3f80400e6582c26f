"""DuckDB: a tenant's file and nothing else, bounded, ended when nobody waits."""

from pathlib import Path

import attrs
import pytest
import trio

from actors.sql_configuration import parse_sql_config
from runtime.ids import TenantId
from sqlassist.catalog import Dialect
from sqlassist.config import SqlConfig
from sqlassist.execute.embedded import open_embedded_backend
from sqlassist.execute.errors import DatabaseLost
from sqlassist.guard.check import check
from sqlassist.guard.checked import CheckedQuery
from sqlassist.messages import Refusal
from sqlassist.result import ResultSet
from sqlassist.sample import make_sample, sample_config
from sqlassist.sample_load import load_duckdb
from tests.kit.sql_world import ALPHA, BETA, unguarded

HEAVY = "SELECT COUNT(*) FROM sessions a, sessions b, sessions c WHERE a.minutes + b.minutes > c.minutes"


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> SqlConfig:
    folder = tmp_path_factory.mktemp("duckdb")
    load_duckdb(folder, make_sample(3000, tenants=2, seed=3), 2)
    (folder / "secret.csv").write_text("a\nsecret\n")
    return parse_sql_config(sample_config(Dialect.DUCKDB, f'folder = "{folder}"', tenants=2).encode(), "sql.toml")


def _limited(config: SqlConfig, **limits: float) -> SqlConfig:
    source = config.sources["game"]
    changed = attrs.evolve(source, limits=attrs.evolve(source.limits, **limits))  # type: ignore[arg-type]
    return attrs.evolve(config, sources={"game": changed})


async def test_a_tenant_has_his_file_alone(config: SqlConfig) -> None:
    query = check("SELECT MIN(server_id), MAX(server_id) FROM players", config.catalog("game", ALPHA))
    assert isinstance(query, CheckedQuery)
    async with open_embedded_backend(config, "game") as backend:
        first, second = [await backend.execute(tenant, query) for tenant in (ALPHA, BETA)]

    assert isinstance(first, ResultSet)
    assert isinstance(second, ResultSet)
    assert (first.rows, second.rows) == (((1, 6),), ((7, 12),))
    assert first.plan is not None


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_csv('{folder}/secret.csv')",
        "SELECT * FROM '{folder}/secret.csv'",
        "SELECT * FROM glob('{folder}/*')",
        "SELECT * FROM read_text('/etc/passwd')",
        "ATTACH '{folder}/tenant2.duckdb' AS other",
        "COPY players TO '{folder}/out.csv'",
        "EXPORT DATABASE '{folder}/out'",
        "INSTALL httpfs",
        "SET enable_external_access = true",
        "SET memory_limit = '10GB'",
        "CREATE TABLE t (a INT)",
        "DELETE FROM players",
    ],
)
async def test_nothing_outside_can_be_reached_even_without_the_guard(config: SqlConfig, sql: str) -> None:
    folder = Path(config.sources["game"].folder)
    before = sorted(path.name for path in folder.iterdir())
    async with open_embedded_backend(_without_gate(config), "game") as backend:
        result = await backend.execute(ALPHA, unguarded(sql.format(folder=folder)))

    assert isinstance(result, Refusal), result
    assert "secret" not in result.hint
    assert sorted(path.name for path in folder.iterdir()) == before


def _without_gate(config: SqlConfig) -> SqlConfig:
    return _limited(config, plan_gate=False)


async def test_values_arrive_without_loss(config: SqlConfig) -> None:
    sql = (
        "SELECT 9007199254740993, 170141183460469231731687303715884105727::HUGEINT, 1.10::DECIMAL(20,5), NULL,"
        " DATE '2026-02-28', TIMESTAMP '2026-02-28 23:59:59.123456', '\\x00\\xff'::BLOB, 'nan'::DOUBLE, TRUE, [1, 2]"
    )
    async with open_embedded_backend(_without_gate(config), "game") as backend:
        result = await backend.execute(ALPHA, unguarded(sql))

    assert isinstance(result, ResultSet), result
    assert result.rows == (
        (
            "9007199254740993",
            "170141183460469231731687303715884105727",
            "1.10000",
            None,
            "2026-02-28",
            "2026-02-28T23:59:59.123456",
            "AP8=",
            "NaN",
            True,
            "[1, 2]",
        ),
    )


async def test_the_plan_gate_refuses_by_cardinality(config: SqlConfig) -> None:
    async with open_embedded_backend(_limited(config, max_examined_rows=100_000), "game") as backend:
        result = await backend.execute(ALPHA, unguarded(HEAVY))
    assert isinstance(result, Refusal)
    assert result.code == "too_many_rows_examined"


async def test_without_the_plan_gate_tables_side_by_side_are_refused(config: SqlConfig) -> None:
    query = check("SELECT COUNT(*) FROM players p JOIN servers s WHERE s.server_id = 1", config.catalog("game", ALPHA))
    assert isinstance(query, CheckedQuery), query
    async with open_embedded_backend(_without_gate(config), "game") as backend:
        ungated = await backend.execute(ALPHA, query)
        assert backend.statistics().refused == 1
    async with open_embedded_backend(config, "game") as backend:
        gated = await backend.execute(ALPHA, query)

    assert isinstance(ungated, Refusal)
    assert ungated.code == "join_without_equality"
    assert isinstance(gated, ResultSet)


async def test_the_deadline_interrupts(config: SqlConfig) -> None:
    async with open_embedded_backend(_limited(_without_gate(config), deadline_seconds=0.2), "game") as backend:
        begun = trio.current_time()
        result = await backend.execute(ALPHA, unguarded(HEAVY))
        taken = trio.current_time() - begun
        after = await backend.execute(ALPHA, unguarded("SELECT 1"))
        killed = backend.statistics().killed
    assert isinstance(result, Refusal)
    assert result.code == "too_slow"
    assert 0.2 <= taken < 2
    assert isinstance(after, ResultSet)
    assert killed == 1


async def test_a_cancel_interrupts_and_leaves_the_connection_usable(config: SqlConfig) -> None:
    async with open_embedded_backend(_without_gate(config), "game") as backend:
        with trio.move_on_after(0.2) as scope:
            await backend.execute(ALPHA, unguarded(HEAVY))
        assert scope.cancelled_caught
        after = await backend.execute(ALPHA, unguarded("SELECT 1"))
    assert isinstance(after, ResultSet)


async def test_memory_is_bounded(config: SqlConfig) -> None:
    sql = "SELECT list(a.session_id || repeat('x', 2000)) FROM sessions a, (SELECT * FROM sessions LIMIT 500) b"
    source = attrs.evolve(
        config.sources["game"], duckdb=attrs.evolve(config.sources["game"].duckdb, memory_megabytes=64)
    )
    small = _without_gate(attrs.evolve(config, sources={"game": source}))
    async with open_embedded_backend(small, "game") as backend:
        result = await backend.execute(ALPHA, unguarded(sql))
    assert isinstance(result, Refusal)
    assert result.code == "too_much_memory"


async def test_rows_are_capped(config: SqlConfig) -> None:
    async with open_embedded_backend(_limited(config, max_rows=5), "game") as backend:
        result = await backend.execute(ALPHA, unguarded("SELECT * FROM players"))
    assert isinstance(result, ResultSet)
    assert (len(result.rows), result.is_truncated) == (5, True)


async def test_a_file_that_is_not_there_is_a_lost_database(config: SqlConfig) -> None:
    async with open_embedded_backend(config, "game") as backend:
        with pytest.raises(DatabaseLost, match="nobody"):
            await backend.execute(TenantId("nobody"), unguarded("SELECT 1"))
