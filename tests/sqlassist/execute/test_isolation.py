"""With the guard switched off: accounts and views alone keep tenants apart."""

import attrs
import pytest

from runtime.ids import TenantId
from sqlassist.administration import try_attempts
from sqlassist.execute.errors import DatabaseDenied
from sqlassist.execute.server import open_server_backend
from sqlassist.messages import Refusal
from sqlassist.result import ResultSet
from sqlassist.verify import Expected, attempts_for
from tests.kit.mariadb import mariadb_marks
from tests.kit.sql_world import ALPHA, BETA, SqlWorld, provision, sql_world, unguarded

pytestmark = mariadb_marks

SECRET = "BETA-ONLY-7f3a"


@pytest.fixture(scope="module")
def world() -> SqlWorld:
    made = sql_world()
    made.server.run(f"UPDATE core.players SET nickname = '{SECRET}' WHERE tenant_id = 2 LIMIT 1")
    assert made.server.run("SELECT COUNT(*) FROM core.players WHERE nickname LIKE 'BETA-ONLY%'") == [(1,)]
    return made


def _without_limits(world: SqlWorld) -> SqlWorld:
    return attrs.evolve(world, config=world.limited(plan_gate=False, require_partition_filter=False, max_join_size=0))


async def test_the_secret_is_there_for_its_owner_and_nobody_else(world: SqlWorld) -> None:
    sql = f"SELECT nickname FROM players WHERE nickname = '{SECRET}'"
    async with open_server_backend(world.config, "game") as backend:
        own = await backend.execute(BETA, unguarded(sql))
        other = await backend.execute(ALPHA, unguarded(sql))

    assert isinstance(own, ResultSet)
    assert own.rows == ((SECRET,),)
    assert isinstance(other, ResultSet)
    assert other.rows == ()


HOSTILE = [
    "SELECT nickname FROM core.players",
    "SELECT nickname FROM corral_tenant2.players",
    "SELECT (SELECT MAX(nickname) FROM corral_tenant2.players)",
    "SELECT 1 FROM players WHERE EXISTS (SELECT 1 FROM core.players WHERE nickname LIKE 'BETA%')",
    "WITH players AS (SELECT * FROM core.players) SELECT nickname FROM players",
    "SELECT nickname FROM players UNION SELECT nickname FROM core.players",
    "SELECT nickname FROM players WHERE 1=1 OR tenant_id = 2",
    "SELECT nickname FROM players LEFT JOIN core.servers USING (server_id)",
    "SELECT EXTRACTVALUE(1, CONCAT(0x5c, (SELECT nickname FROM core.players WHERE tenant_id = 2 LIMIT 1)))",
    "SELECT view_definition FROM information_schema.views WHERE view_definition LIKE '%tenant_id%'",
    "SHOW CREATE VIEW players",
    "HANDLER core.players OPEN",
    "TABLE core.players",
    "SELECT nickname FROM players; SELECT nickname FROM core.players",
    "UPDATE players SET nickname = 'x'",
    "DELETE FROM players",
    "SELECT nickname FROM players FOR UPDATE",
    "SELECT nickname INTO OUTFILE '/tmp/corral-leak' FROM players",
    "LOAD DATA INFILE '/etc/passwd' INTO TABLE players",
    "SET GLOBAL general_log = 1",
    "CREATE TEMPORARY TABLE t (a INT)",
    "GRANT SELECT ON players TO 'corral_tenant2'@'%'",
    "SET ROLE NONE; SELECT 1",
    "SELECT * FROM mysql.global_priv",
    "SELECT * FROM seq_1_to_10",
    "EXECUTE IMMEDIATE 'SELECT nickname FROM core.players'",
    "KILL 1",
]


@pytest.mark.parametrize("sql", HOSTILE)
async def test_nothing_hostile_brings_back_another_tenants_row(world: SqlWorld, sql: str) -> None:
    free = _without_limits(world)
    before = world.server.run("CHECKSUM TABLE core.players, core.servers")
    async with open_server_backend(free.config, "game") as backend:
        try:
            result: object = await backend.execute(ALPHA, unguarded(sql, max_rows=100_000))
        except DatabaseDenied as error:
            result = Refusal("denied", "", str(error))
    if isinstance(result, ResultSet):
        assert result.rows == (), sql  # none of these has anything to give
    assert SECRET not in str(result)
    assert world.server.run("CHECKSUM TABLE core.players, core.servers") == before


async def test_one_request_is_one_statement_whatever_it_holds(world: SqlWorld) -> None:
    async with open_server_backend(_without_limits(world).config, "game") as backend:
        result = await backend.execute(ALPHA, unguarded("SELECT 1; SELECT 2"))

    assert isinstance(result, Refusal)


def test_every_account_is_refused_what_it_must_not_do(world: SqlWorld) -> None:
    tried = try_attempts(world.config, "game", attempts_for(world.config, "game"))

    assert [(t.attempt.account, t.attempt.what, t.outcome) for t in tried if not t.passed] == []
    assert {t.attempt.expected for t in tried} == set(Expected)
    assert len(tried) > 150


LEAKS = {
    "GRANT SELECT ON corral_tenant2.players TO 'corral_tenant1'@'%'": "reads players of tenant2",
    "GRANT SELECT ON core.players TO 'corral_tenant1'@'%'": "reads base table players",
    "GRANT DELETE ON corral_tenant1.daily_payments TO 'corral_tenant1'@'%'": "deletes through his view",
    "GRANT CREATE ON corral_tenant1.* TO 'corral_tenant1'@'%'": "creates a table",
    "GRANT PROCESS ON *.* TO 'corral_tenant1'@'%'": "has privileges on the whole server that are not his",
    "GRANT SELECT ON core.payments TO 'corral_watchdog'@'%'": "the watchdog reads base table payments",
}


@pytest.mark.parametrize("grant", LEAKS)
def test_a_planted_leak_is_found_and_provisioning_closes_it(world: SqlWorld, grant: str) -> None:
    telling = tuple(a for a in attempts_for(world.config, "game") if a.what == LEAKS[grant])
    assert telling
    world.server.run(grant)
    try:
        assert not all(tried.passed for tried in try_attempts(world.config, "game", telling))
    finally:
        world.server.run("DROP TABLE IF EXISTS corral_tenant1.corral_verify")
        provision(world.server, world.config)

    assert all(tried.passed for tried in try_attempts(world.config, "game", telling))


def test_tenants_see_exactly_their_rows(world: SqlWorld) -> None:
    for table in ("players", "payments", "sessions", "servers"):
        parts = [
            world.server.run(f"SELECT COUNT(*) FROM corral_{tenant}.{table}")[0][0]
            for tenant in (TenantId("tenant1"), TenantId("tenant2"))
        ]
        own = [world.server.run(f"SELECT COUNT(*) FROM core.{table} WHERE tenant_id = {n}")[0][0] for n in (1, 2)]
        assert parts == own
    levels = "SELECT COUNT(*) FROM core.levels l JOIN core.players p USING (player_id) WHERE p.tenant_id = 1"
    assert world.server.run("SELECT COUNT(*) FROM corral_tenant1.levels") == world.server.run(levels)
