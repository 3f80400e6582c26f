"""What an operator can get wrong is told, all at once; what is right becomes catalogs."""

from pathlib import Path

import pytest

from actors.configuration import ScenarioError
from actors.sql_configuration import load_sql_config, parse_sql_config
from runtime.ids import TenantId
from sqlassist.catalog import Dialect
from sqlassist.config import SqlConfig
from sqlassist.messages import Refusal
from sqlassist.provision import Grant, Provisioning, ServerState
from sqlassist.sample import sample_config
from sqlassist.sources import SourceChoice, check_for
from sqlassist.views import view_statement

HEAD = 'dialect = "mariadb"\nschema = "core"\ncredentials = { folder = "x" }\n'
BASE = f"""[sources.game]
{HEAD}
[sources.game.tables.players]
columns = {{ player_id = "integer", name = "text" }}
filter = {{ kind = "equality", column = "tenant_id" }}
[sources.game.tables.secrets]
columns = {{ a = "text" }}
[sources.game.tables.guilds]
columns = {{ guild_id = "integer" }}
filter = {{ kind = "in", column = "region", key = "regions" }}
filter_type = "text"
[sources.game.tables.members]
columns = {{ guild_id = "integer" }}
filter = {{ kind = "join", column = "guild_id", table = "guilds", other_column = "guild_id" }}
[tenants.alpha]
keys = {{ tenant = ["7"], regions = ["e'u", "us"] }}
"""


def _config(text: str = BASE) -> SqlConfig:
    return parse_sql_config(text.encode(), "sql.toml")


def _problems(text: str) -> str:
    with pytest.raises(ScenarioError) as caught:
        _config(text)
    return str(caught.value)


def test_a_table_without_a_filter_is_hidden() -> None:
    assert _config().catalog("game", TenantId("alpha")).table_names() == ["players", "guilds", "members"]


def test_filters_stand_inside_the_views() -> None:
    config, alpha = _config(), TenantId("alpha")
    assert view_statement(config, "game", alpha, "players").endswith(
        "FROM `core`.`players` AS b WHERE b.`tenant_id` = 7"
    )
    assert view_statement(config, "game", alpha, "guilds").endswith("WHERE b.`region` IN ('e''u', 'us')")
    assert view_statement(config, "game", alpha, "members").endswith(
        "WHERE b.`guild_id` IN (SELECT bj.`guild_id` FROM `core`.`guilds` AS bj WHERE bj.`region` IN ('e''u', 'us'))"
    )
    assert "ALGORITHM=MERGE DEFINER=`corral_definer`@`%` SQL SECURITY DEFINER" in view_statement(
        config, "game", alpha, "players"
    )


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('tenant = ["7"]', 'tenant = ["7 OR 1=1"]', "is no integer"),
        ('tenant = ["7"]', 'tenant = ["7", "8"]', "needs one value"),
        ('tenant = ["7"], ', "", "needs one value"),
        ('table = "guilds"', 'table = "nosuch"', "no table 'nosuch'"),
        ('table = "guilds"', 'table = "secrets"', "has no filter itself"),
        ('table = "guilds"', 'table = "members"', "point at each other"),
        ('schema = "core"\n', "", "needs schema"),
        ('credentials = { folder = "x" }\n', "", "exactly one of folder and environment"),
        ('column = "tenant_id"', 'column = "tenant_id; DROP"', "a plain name"),
        ("[tenants.alpha]", "[tenants.definer]", "account of our own"),
        ("[tenants.alpha]", '[tenants."a-b"]', "cannot be part of an account's name"),
        ("[tenants.alpha]", '[tenants.alpha]\nhidden = ["playerz.name"]', "hiding it hides nothing"),
        ("[tenants.alpha]", '[tenants.alpha]\nsources = ["gmae"]', "no source 'gmae'"),
        ('kind = "equality"', 'kind = "equalty"', "did you mean 'equality'"),
    ],
)
def test_mistakes_are_told(old: str, new: str, told: str) -> None:
    assert old in BASE
    assert told in _problems(BASE.replace(old, new, 1))


def test_two_tenants_with_one_account_are_told() -> None:
    other = '[tenants.beta]\naccount = "alpha"\nkeys = { tenant = ["8"], regions = ["us"] }\n'
    assert "one account" in _problems(BASE + other)


def test_hidden_columns_are_in_no_view() -> None:
    config = _config(BASE.replace("[tenants.alpha]", '[tenants.alpha]\nhidden = ["players.name", "guilds"]'))
    assert "`name`" not in view_statement(config, "game", TenantId("alpha"), "players")
    assert config.catalog("game", TenantId("alpha")).table_names() == ["players", "members"]


# Provisioning as a plan


def _after(plan: Provisioning) -> ServerState:
    """What is there once a plan has run."""
    schema = "corral_alpha"
    views = frozenset((schema, name) for name in ("players", "guilds", "members"))
    return ServerState(frozenset(plan.accounts()), frozenset({schema}), views, plan.grants())


def _plan(text: str = BASE) -> Provisioning:
    config = _config(text)
    accounts = Provisioning(config, "game", {}).accounts()
    return Provisioning(config, "game", dict.fromkeys(accounts, "IDENTIFIED BY PASSWORD '*0'"))


def test_a_tenants_account_gets_select_on_his_views_and_nothing_else() -> None:
    own = {grant for grant in _plan().grants() if grant.account == "corral_alpha"}
    assert own == {Grant("corral_alpha", "SELECT", "corral_alpha", name) for name in ("players", "guilds", "members")}
    assert not any(grant.table == "secrets" for grant in _plan().grants())


def test_a_second_plan_grants_creates_and_removes_nothing() -> None:
    words = {step.sql.split()[0] for step in _plan().steps(_after(_plan()))}
    assert words == {"ALTER", "CREATE"}  # limits and views are set again
    assert all(
        step.sql.startswith("CREATE OR REPLACE") for step in _plan().steps(_after(_plan())) if "ALTER" not in step.sql
    )


def test_what_should_not_be_is_taken_away_before_anything_is_given() -> None:
    state = _after(_plan())
    stale = ServerState(
        state.accounts | {"corral_gone"},
        state.schemas | {"corral_gone"},
        state.views | {("corral_alpha", "secrets")},
        state.grants | {Grant("corral_alpha", "SELECT", "core", ""), Grant("corral_gone", "SELECT", "core", "players")},
    )
    steps = [step.sql for step in _plan().steps(stale)]
    assert steps[:4] == [
        "DROP USER 'corral_gone'@'%'",
        "REVOKE SELECT ON `core`.* FROM 'corral_alpha'@'%'",
        "DROP DATABASE `corral_gone`",
        "DROP VIEW `corral_alpha`.`secrets`",
    ]


def test_what_a_dba_may_refuse_has_a_way_on() -> None:
    steps = _plan().steps(ServerState())
    for word, way in (("corral_explainer", "explainer = false"), ("corral_watchdog", "watchdog = false")):
        mine = [step for step in steps if f"'{word}'" in step.sql]
        assert mine
        assert all(way in step.if_refused for step in mine)
    without = _plan(BASE.replace(HEAD, HEAD + "explainer = false\nwatchdog = false\n"))
    assert set(without.accounts()) == {"corral_definer", "corral_alpha"}


def test_without_writes_there_are_no_rollups() -> None:
    rollup = (
        '[sources.game.semantic.rollups.daily]\ntable = "players"\nsequence = "player_id"\nmoment = "name"\n'
        'dimensions = []\nmeasures = { n = "count" }\n'
    )
    text = BASE.replace("[tenants.alpha]", rollup + "[tenants.alpha]")
    assert "daily" in _config(text).catalog("game", TenantId("alpha")).table_names()
    without = _plan(text.replace(HEAD, HEAD + "writes = false\n"))
    assert "daily" not in without.config.catalog("game", TenantId("alpha")).table_names()
    assert not any("rollup" in step.sql for step in without.steps(ServerState()))


def test_undo_names_everything_that_was_made() -> None:
    text = " ".join(step.sql for step in _plan().undo())
    assert all(f"'{account}'" in text for account in _plan().accounts())
    assert "`corral_alpha`" in text
    assert "core" not in text


# Several sources

TWO = (
    BASE
    + """
[sources.shop]
dialect = "mysql"
schema = "shop"
credentials = { folder = "y" }
[sources.shop.tables.orders]
columns = { order_id = "integer", player_id = "integer" }
filter = { kind = "equality", column = "tenant_id" }
"""
)


@pytest.mark.parametrize(
    ("sql", "source", "expected"),
    [
        ("SELECT name FROM players", "", ("game", "tables")),
        ("SELECT order_id FROM orders", "", ("shop", "tables")),
        ("SELECT order_id FROM orders", "shop", ("shop", "asked")),
    ],
)
def test_the_tables_choose_the_source(sql: str, source: str, expected: tuple[str, str]) -> None:
    choice = check_for(_config(TWO), TenantId("alpha"), sql, source)
    assert isinstance(choice, SourceChoice), choice
    assert (choice.source, choice.why) == expected


@pytest.mark.parametrize(
    ("sql", "source", "code"),
    [
        ("SELECT name FROM players p JOIN orders o ON o.player_id = p.player_id", "", "across_sources"),
        ("SELECT nmae FROM players", "", "unknown_column"),
        ("SELECT a FROM nowhere", "", "unknown_table"),
        ("SELECT order_id FROM orders", "game", "unknown_table"),
        ("SELECT order_id FROM orders", "gmae", "unknown_source"),
    ],
)
def test_what_fits_no_source_says_why(sql: str, source: str, code: str) -> None:
    refusal = check_for(_config(TWO), TenantId("alpha"), sql, source)
    assert isinstance(refusal, Refusal)
    assert refusal.code == code


def test_the_sample_configuration_is_right_for_every_dialect() -> None:
    for dialect, settings in (
        (Dialect.DUCKDB, 'folder = "x"'),
        (Dialect.MARIADB, 'schema = "game"\ncredentials = { folder = "x" }'),
        (Dialect.MYSQL, 'schema = "game"\ncredentials = { environment = "SQL_" }'),
    ):
        config = _config(sample_config(dialect, settings))
        assert len(config.catalog("game", TenantId("tenant3")).tables) == (8 if dialect is Dialect.DUCKDB else 10)


ROLLUP = """[rollups.daily]
table = "players"
sequence = "player_id"
moment = "player_id"
dimensions = []
measures = { players = "count" }
"""


def _with_layer(folder: Path, layer: str | None, more: str = "") -> Path:
    path = folder / "sql.toml"
    path.write_text(BASE.replace("[sources.game]\n", '[sources.game]\nsemantic_file = "what.toml"\n' + more, 1))
    if layer is not None:
        (folder / "what.toml").write_text(layer)
    return path


def test_rollups_stand_in_the_semantic_layer_file_beside_the_configuration(tmp_path: Path) -> None:
    config = load_sql_config(_with_layer(tmp_path, ROLLUP))

    assert config.catalog("game", TenantId("alpha")).table_names()[0] == "daily"


@pytest.mark.parametrize(
    ("layer", "said"),
    [
        (None, "sql.toml:2: 'what.toml' cannot be read: No such file"),
        (ROLLUP.replace('"count"', '"median"'), "what.toml:1: measure 'players' is count"),
        (ROLLUP.replace('"players"', '"player"'), "what.toml:1: there is no table 'player'"),
        (ROLLUP.replace("table =", "tabel ="), "what.toml:2: unknown key 'tabel'"),
        ("[rollups", "what.toml"),
    ],
)
def test_mistakes_in_the_semantic_layer_file_are_told_where_they_are(
    tmp_path: Path, layer: str | None, said: str
) -> None:
    with pytest.raises(ScenarioError) as caught:
        load_sql_config(_with_layer(tmp_path, layer))

    assert said in str(caught.value)


def test_a_semantic_layer_is_in_one_place(tmp_path: Path) -> None:
    inline = "[sources.game.semantic." + ROLLUP[1:]
    path = _with_layer(tmp_path, ROLLUP)
    path.write_text(path.read_text() + inline)

    with pytest.raises(ScenarioError, match="put this into it"):
        load_sql_config(path)
    with pytest.raises(ScenarioError, match="cannot be read"):
        parse_sql_config(path.read_bytes(), "sql.toml")


@pytest.mark.parametrize("schema", ["mysql", "Information_Schema", "performance_schema", "sys"])
def test_no_tenant_reads_a_schema_of_the_servers_own(schema: str) -> None:
    base: list[str] = [*BASE.splitlines()]
    place = next(i for i, line in enumerate(base) if line.startswith("schema = "))
    base[place] = f'schema = "{schema}"'
    assert "is the server's own" in _problems("\n".join(base))
