"""The threat list against the real server: through the guard and the executor, and with the guard switched off."""

from collections import Counter
from typing import Any

import pytest
import trio

from actors.sql_configuration import parse_sql_config
from runtime.ids import TenantId
from sqlassist.execute.errors import DatabaseDenied
from sqlassist.execute.server import ServerBackend, open_server_backend
from sqlassist.guard.check import check
from sqlassist.guard.checked import CheckedQuery
from sqlassist.messages import Refusal
from sqlassist.result import ResultSet
from tests.kit.mariadb import mariadb, mariadb_marks
from tests.kit.sql import lines_of, shared, threat_catalog
from tests.kit.sql_world import SqlWorld, provision, unguarded, world_settings

pytestmark = mariadb_marks

TENANT = TenantId("tenant1")
MAX_ROWS = 1000
STATEMENT_SECONDS = 2.0
MAX_EXAMINED = 100_000
NAMED_BOUNDS = {"limit", "join_equality", "row_gate", "group_concat_max_len"}
GROUP_CONCAT_BYTES = 65536
SECRET = "ten-o-seven"
BOUNDS = {"too_many_rows_examined", "full_scan", "too_slow", "too_much_memory", "bad_pattern", "row_too_long"}
TABLES = (
    "CREATE TABLE small (a INT, b VARCHAR(40), `select` VARCHAR(40), js JSON)",
    "INSERT INTO small VALUES (1, 'one', 's1', '[1, 2]'), (2, 'two', 's2', '{\"x\": 3}'), (2, 'TWO', NULL, NULL),"
    " (3, 'it''s', 's4', '[]'), (NULL, NULL, 's5', '[5]')",
    "CREATE TABLE r1000 (id INT PRIMARY KEY, day DATE, server INT, dau INT, rev INT, note VARCHAR(400))",
    "INSERT INTO r1000 SELECT seq, DATE '2026-01-01' + INTERVAL seq MOD 90 DAY, seq MOD 7, seq MOD 313, seq MOD 97,"
    " REPEAT('n', 300) FROM seq_1_to_1000",
    "CREATE TABLE secret (k VARCHAR(40), v VARCHAR(40))",
    f"INSERT INTO secret VALUES ('one', '{SECRET}')",
)


@pytest.fixture(scope="module")
def world() -> SqlWorld:
    """The tables that the threat list speaks of, provisioned for one tenant; `secret` is not configured."""
    shared("threats.jsonl")
    server = mariadb()
    lines = [
        "[sources.game]",
        'dialect = "mariadb"',
        world_settings(server, schema="threats", prefix="threat"),
        "[sources.game.limits]",
        f"max_rows = {MAX_ROWS}\nstatement_seconds = {STATEMENT_SECONDS}\nmax_examined_rows = {MAX_EXAMINED}",
    ]
    for table in threat_catalog().tables:
        columns = ", ".join(f'{column.name} = "{column.type}"' for column in table.columns)
        lines.append(f'[sources.game.tables.{table.name}]\ncolumns = {{ {columns} }}\nfilter = {{ kind = "everyone" }}')
    lines.append(f'[tenants.{TENANT}]\nkeys = {{ tenant = ["1"] }}')
    text = "\n".join(lines)
    config = parse_sql_config(text.encode(), "sql.toml")
    server.run("CREATE DATABASE threats CHARACTER SET utf8mb4")
    server.run(*TABLES, database="threats")
    provision(server, config)
    return SqlWorld(server, config, text)


def _threats(*verdicts: str) -> list[dict[str, Any]]:
    found = [threat for threat in lines_of("threats.jsonl") if threat.get("verdict") in verdicts]
    assert found
    return found


def _multiset(outcome: ResultSet | Refusal) -> Counter[Any] | str:
    return Counter(outcome.rows) if isinstance(outcome, ResultSet) else outcome.code


async def test_what_is_allowed_or_may_pass_gives_what_was_written(world: SqlWorld) -> None:
    catalog = world.config.catalog("game", TENANT)
    wrong, refused, compared = [], [], 0
    async with open_server_backend(world.config, "game") as backend:
        for threat in _threats("allow", "either"):
            query = check(threat["sql"], catalog)
            if isinstance(query, Refusal):
                if threat["verdict"] == "allow":
                    refused.append((threat["label"], query.code))
                continue
            written = await backend.execute(TENANT, unguarded(threat["sql"]))
            regenerated = await backend.execute(TENANT, query)
            if threat["verdict"] == "allow":
                assert isinstance(written, ResultSet), (threat["label"], written)
            if isinstance(written, ResultSet):
                compared += 1
                if _multiset(written) != _multiset(regenerated):
                    wrong.append((threat["label"], written, regenerated))

    assert wrong == []
    assert refused == []
    assert compared >= 20


async def _timed(backend: ServerBackend, query: CheckedQuery) -> tuple[ResultSet | Refusal, float]:
    begun = trio.current_time()
    outcome = await backend.execute(TENANT, query)
    return outcome, trio.current_time() - begun


def _is_bounded(outcome: ResultSet | Refusal) -> bool:
    if isinstance(outcome, Refusal):
        return outcome.code in BOUNDS
    return len(outcome.rows) <= MAX_ROWS


async def test_what_must_be_bounded_is_refused_or_stopped_by_a_named_bound(world: SqlWorld) -> None:
    catalog = world.config.catalog("game", TENANT)
    refused: dict[str, str] = {}
    outcomes: dict[str, ResultSet | Refusal] = {}
    async with open_server_backend(world.config, "game") as backend:
        for threat in _threats("bound"):
            query = check(threat["sql"], catalog)
            if isinstance(query, Refusal):
                refused[threat["label"]] = query.code
                continue
            assert NAMED_BOUNDS & {*query.bounds}, threat["label"]
            outcome, seconds = await _timed(backend, query)
            outcomes[threat["label"]] = outcome
            assert _is_bounded(outcome), (threat["label"], outcome)
            assert seconds < STATEMENT_SECONDS + 1

    assert "internal" not in refused.values()
    assert refused["cross join x3"] == "join_without_equality"
    union, texts = outcomes["no-LIMIT UNION member LIMIT"], outcomes["GROUP_CONCAT blowup"]
    assert isinstance(union, ResultSet)
    assert (len(union.rows), union.is_truncated) == (MAX_ROWS, True)  # of 1001
    assert isinstance(texts, ResultSet)
    assert texts.rows == ((GROUP_CONCAT_BYTES,),)  # of 300,999


@pytest.mark.parametrize("layer", ["plan gate", "max_join_size", "statement time"])
async def test_without_the_guard_each_layer_of_the_executor_bounds_them(world: SqlWorld, layer: str) -> None:
    layers: dict[str, dict[str, float]] = {
        "plan gate": {"plan_gate": True, "max_join_size": 0},
        "max_join_size": {"plan_gate": False, "max_join_size": MAX_EXAMINED},
        "statement time": {"plan_gate": False, "max_join_size": 0, "statement_seconds": 0.5},
    }
    outcomes = {}
    async with open_server_backend(world.limited(**layers[layer]), "game") as backend:
        for threat in _threats("bound"):
            outcome, seconds = await _timed(backend, unguarded(threat["sql"]))
            outcomes[threat["label"]] = outcome
            assert _is_bounded(outcome), (threat["label"], outcome)
            assert seconds < STATEMENT_SECONDS + 1

    triple = outcomes["cross join x3"]
    assert isinstance(triple, Refusal)
    assert triple.code == ("too_slow" if layer == "statement time" else "too_many_rows_examined")


async def test_without_the_guard_what_must_be_refused_shows_no_secret_and_changes_nothing(world: SqlWorld) -> None:
    """By accounts and views alone. Each has connections of its own, as some change their session."""
    folder = str(world.server.folder)
    before = _state(world)
    ended: Counter[str] = Counter()
    for threat in _threats("reject"):
        async with open_server_backend(world.limited(statement_seconds=0.5, plan_gate=False), "game") as backend:
            try:
                outcome = await backend.execute(TENANT, unguarded(threat["sql"].replace("{TMP}", folder)))
            except DatabaseDenied:
                ended["denied"] += 1
                continue
        assert SECRET not in str(outcome), threat["label"]
        ended["refused" if isinstance(outcome, Refusal) else "answered"] += 1

    assert _state(world) == before
    assert not [path.name for path in world.server.folder.iterdir() if path.suffix in {".csv", ".bin"}]
    assert ended["denied"] + ended["refused"] > ended["answered"]


def _state(world: SqlWorld) -> list[tuple[Any, ...]]:
    tables = world.server.run(
        "SELECT table_schema, table_name FROM information_schema.tables"
        " WHERE table_schema LIKE 'threat%' ORDER BY table_schema, table_name"
    )
    base = [name for schema, name in tables if schema == "threats"]
    return [*tables, *world.server.run(f"CHECKSUM TABLE {', '.join(base)}", database="threats")]
