"""Where a DBA refuses CREATE VIEW: schemas of their own keep tenants apart, and every command works all the same."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from actors.cli.main import corral
from actors.configuration import ScenarioError
from actors.sql_configuration import parse_sql_config
from runtime.ids import TenantId
from sqlassist.administration import try_attempts
from sqlassist.catalog import Dialect
from sqlassist.execute.errors import DatabaseDenied
from sqlassist.execute.server import open_server_backend
from sqlassist.messages import Refusal
from sqlassist.result import ResultSet
from sqlassist.verify import attempts_for
from tests.kit.mariadb import mariadb, mariadb_marks
from tests.kit.mysql import mysql, mysql_marks
from tests.kit.sql_world import ALPHA, BETA, unguarded
from tests.kit.viewless_world import DBA, OWN, ViewlessWorld, make_viewless_world, remove_viewless_world, rows_of


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(Dialect.MARIADB, marks=mariadb_marks),
        pytest.param(Dialect.MYSQL, marks=mysql_marks),
    ],
)
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ViewlessWorld]:
    dialect = request.param
    server = mariadb() if dialect is Dialect.MARIADB else mysql()
    made = make_viewless_world(server, dialect, tmp_path_factory.mktemp("viewless"))
    yield made
    remove_viewless_world(made)


def _corral(*arguments: object, stdin: str = "") -> Result:
    return CliRunner().invoke(corral, [str(argument) for argument in arguments], input=stdin, catch_exceptions=False)


def _answer(world: ViewlessWorld, tenant: TenantId, sql: str) -> dict[str, object]:
    done = _corral("sql", "run", "--config", world.file, "--tenant", tenant, stdin=f"{sql}\n")
    (line,) = done.stdout.splitlines()
    answer: dict[str, object] = json.loads(line)
    return answer


@pytest.mark.parametrize("may_make_schemas", [False, True])
def test_the_refusal_of_views_is_told_with_the_setting_that_goes_on_without_them(
    world: ViewlessWorld, may_make_schemas: bool
) -> None:
    if may_make_schemas:  # then CREATE VIEW is what is refused, and grants on views that are not there
        world.server.run(f"GRANT CREATE, DROP, SELECT ON `plain\\_%`.* TO {DBA} WITH GRANT OPTION")
    done = _corral("sql", "provision", world.with_views, "--apply")

    assert done.exit_code == 1, done.output
    assert "views = false" in done.output
    assert _corral("sql", "provision", world.file, "--apply").exit_code == 0  # and what it left is cleared away
    assert world.server.run("SELECT user FROM mysql.user WHERE user = 'plain_definer'") == []


def test_an_administrator_without_views_provisions_verifies_and_runs(world: ViewlessWorld) -> None:
    assert _corral("sql", "provision", world.file, "--apply").exit_code == 0
    again = _corral("sql", "provision", world.file)
    assert not any(word in again.output for word in ("CREATE", "GRANT", "REVOKE", "DROP")), again.output

    verified = _corral("sql", "verify", world.file)
    assert verified.exit_code == 0, verified.output
    assert ", 0 not as they should be" in verified.output

    refreshed = _corral("sql", "refresh", world.file)
    assert refreshed.exit_code == 0, refreshed.output

    for tenant in (ALPHA, BETA):
        sql = "SELECT server_id, COUNT(*) AS players FROM players GROUP BY server_id ORDER BY server_id"
        answer = _answer(world, tenant, sql)
        assert [tuple(str(cell) for cell in row) for row in answer["rows"]] == rows_of(world, tenant, sql)  # type: ignore[attr-defined]
        assert answer["source"] == "game"
        rolled = _answer(world, tenant, "SELECT SUM(payments) AS payments FROM daily_payments")
        assert rolled["source"] == "game_rollups"
        assert [[str(c) for c in row] for row in rolled["rows"]] == [  # type: ignore[attr-defined]
            list(rows_of(world, tenant, "SELECT COUNT(*) FROM payments")[0])
        ]
    assert rows_of(world, ALPHA, "SELECT COUNT(*) FROM payments") != rows_of(
        world, BETA, "SELECT COUNT(*) FROM payments"
    )


HOSTILE = [
    f"SELECT * FROM {OWN[BETA]}.players",
    f"SELECT (SELECT MAX(nickname) FROM {OWN[BETA]}.players)",
    f"SELECT 1 FROM players WHERE EXISTS (SELECT 1 FROM {OWN[BETA]}.players)",
    "SELECT * FROM whole.players",
    "UPDATE players SET nickname = 'x'",
    "DELETE FROM players",
    "CREATE VIEW v AS SELECT player_id FROM players",
]


async def test_with_the_guard_off_another_tenants_schema_and_hidden_columns_stay_shut(world: ViewlessWorld) -> None:
    assert _corral("sql", "provision", world.file, "--apply").exit_code == 0
    async with open_server_backend(world.config, "game") as backend:

        async def is_refused(tenant: TenantId, sql: str) -> bool:
            try:
                return isinstance(await backend.execute(tenant, unguarded(sql)), Refusal)
            except DatabaseDenied:
                return True

        for sql in HOSTILE:
            assert await is_refused(ALPHA, sql), sql
        assert isinstance(await backend.execute(ALPHA, unguarded("SELECT nickname FROM players LIMIT 1")), ResultSet)
        assert await is_refused(BETA, "SELECT nickname FROM players LIMIT 1"), "a hidden column"
        assert await is_refused(BETA, "SELECT 1 FROM channels LIMIT 1"), "a hidden table"


def test_a_planted_right_is_found_and_taken_back(world: ViewlessWorld) -> None:
    assert _corral("sql", "provision", world.file, "--apply").exit_code == 0
    telling = tuple(a for a in attempts_for(world.config, "game") if a.account == "plain_tenant1")
    for grant in (
        f"GRANT SELECT ON {OWN[BETA]}.players TO plain_tenant1",
        f"GRANT SELECT (player_id) ON {OWN[BETA]}.players TO plain_tenant1",
    ):
        world.server.run(grant)
        assert [one for one in try_attempts(world.config, "game", telling) if not one.passed] != []
        assert _corral("sql", "provision", world.file, "--apply").exit_code == 0
        assert [one for one in try_attempts(world.config, "game", telling) if not one.passed] == []


def test_undo_takes_accounts_away_and_no_data(world: ViewlessWorld, tmp_path: Path) -> None:
    undo = tmp_path / "undo.sql"
    assert _corral("sql", "provision", world.file, "--apply", "--undo", undo).exit_code == 0
    before = rows_of(world, ALPHA, "SELECT COUNT(*) FROM players")
    assert "DROP DATABASE" not in undo.read_text()
    world.server.run(*[line for line in undo.read_text().splitlines() if line and not line.startswith("--")])

    assert rows_of(world, ALPHA, "SELECT COUNT(*) FROM players") == before
    assert world.server.run("SELECT user FROM mysql.user WHERE user LIKE 'plain\\_%'") == []
    assert _corral("sql", "provision", world.file, "--apply").exit_code == 0


TABLE = '[sources.a.tables.t]\ncolumns = { c = "integer" }\nfilter = { kind = "everyone" }\n'
HEAD = '[sources.a]\ndialect = "mariadb"\nschema = "game"\nviews = false\ncredentials = { folder = "secrets" }\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (HEAD + TABLE + "[tenants.x]\nkeys = {}\n[tenants.y]\nkeys = {}\n", "'x' and 'y' both read schema 'game'"),
        (HEAD + TABLE.replace('"everyone"', '"equality", column = "c"') + '[tenants.x]\nkeys = { tenant = ["1"] }\n',
         "nothing keeps rows apart"),
        (HEAD + TABLE + 'base = "u"\n[tenants.x]\nkeys = {}\n', "leave base out"),
        (HEAD + TABLE + '[tenants.x]\nkeys = {}\nschemas = { b = "s" }\n', "there is no source 'b'"),
        (HEAD + TABLE + '[tenants.x]\nkeys = {}\nschemas = { a = "corral_x" }\n', "begins like what provision drops"),
        (HEAD.replace('"game"', '"corral_game"') + TABLE + "[tenants.x]\nkeys = {}\n", "choose another prefix"),
        (HEAD.replace("views = false\n", "") + TABLE + '[tenants.x]\nkeys = {}\nschemas = { a = "s" }\n',
         "set views = false there"),
        (HEAD + TABLE + '[tenants.x]\nkeys = {}\nschemas = { a = "a;b" }\n', "is no plain name"),
    ],
)  # fmt: skip
def test_what_would_not_keep_tenants_apart_is_refused(text: str, said: str) -> None:
    with pytest.raises(ScenarioError) as refused:
        parse_sql_config(text.encode(), "sql.toml")

    assert any(said in problem.message for problem in refused.value.problems), refused.value.problems


def test_a_single_tenant_reads_the_base_schema() -> None:
    config = parse_sql_config((HEAD + TABLE + "[tenants.x]\nkeys = {}\n").encode(), "sql.toml")

    assert config.own_schema("a", TenantId("x")) == "game"
    reads = [a.what for a in attempts_for(config, "a") if a.account == "corral_x"]
    assert "reads own t" in reads
    assert "reads base table t" not in reads
    assert DBA not in reads
